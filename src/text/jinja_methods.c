/* Methods of str, dict, list and tuple that templates may call. Those that change their object are forbidden, as in
 * jinja2's immutable sandbox. */
#include "jinja.h"

#define METHOD(name) static jv name(jx *x, jv self, const jv *a, const jargs *raw)
#define UNUSED (void)x, (void)self, (void)a, (void)raw

static jv keep(jv from, jstr *s) { /* a result of Markup's methods is Markup */
    jv r = jv_str(s);
    r.markup = from.markup;
    return r;
}

static jstr *str_arg(jx *x, jv v, const char *method) {
    if (v.type == J_UNDEF) j_undefined_error(x, v);
    if (v.type != J_STR) j_error(x, "%s: argument must be str, not %s", method, j_type_name(v));
    return v.s;
}

static jv tuple3(jx *x, jstr *p, jstr *q, jstr *r) {
    jseq *t = j_seq(x, J_TUPLE, 3);
    t->v[0] = jv_str(p);
    t->v[1] = jv_str(q);
    t->v[2] = jv_str(r);
    return jv_seq(t);
}

/* ---- case and stripping ---------------------------------------------------------------------------------------------
 */

METHOD(m_upper) { return UNUSED, keep(self, j_recase(x, self.s, J_UPPER)); }
METHOD(m_lower) { return UNUSED, keep(self, j_recase(x, self.s, J_LOWER)); }
METHOD(m_capitalize) { return UNUSED, keep(self, j_capitalize(x, self.s)); }

static jstr *by_letter(jx *x, jstr *s, bool title) { /* title or swapcase */
    jbuf *b = j_buf(x);
    bool in_word = false;
    size_t len;
    for (size_t i = 0; i < s->len; i += len) {
        uint32_t c = j_decode(s->s + i, s->s + s->len, &len);
        bool up = j_is_cased(c, J_UPPER), low = j_is_cased(c, J_LOWER), cased = up || low || j_is_cased(c, J_TITLE);
        jcase how = title ? (in_word ? J_LOWER : J_TITLE) : up ? J_LOWER : J_UPPER;
        jstr *one = j_sub(x, s, i, len);
        if (cased) one = how == J_TITLE ? j_capitalize(x, one) : j_recase(x, one, how);
        j_buf_str(x, b, one);
        in_word = cased;
    }
    j_charge(x, s->len);
    return j_buf_done(x, b);
}

METHOD(m_title) { return UNUSED, keep(self, by_letter(x, self.s, true)); }
METHOD(m_swapcase) { return UNUSED, keep(self, by_letter(x, self.s, false)); }

static jv strip(jx *x, jv self, jv chars, int side, const char *method) {
    bool all = !jv_given(chars) || chars.type == J_NONE;
    return keep(self, j_strip(x, self.s, all ? NULL : str_arg(x, chars, method), side));
}

METHOD(m_strip) { return UNUSED, strip(x, self, a[0], 3, "strip"); }
METHOD(m_lstrip) { return UNUSED, strip(x, self, a[0], 1, "lstrip"); }
METHOD(m_rstrip) { return UNUSED, strip(x, self, a[0], 2, "rstrip"); }

static bool has_at(const jstr *s, size_t at, const jstr *what) {
    return what->len <= s->len - at && memcmp(s->s + at, what->s, what->len) == 0;
}

METHOD(m_removeprefix) {
    UNUSED;
    jstr *p = str_arg(x, a[0], "removeprefix");
    return keep(self, has_at(self.s, 0, p) ? j_sub(x, self.s, p->len, self.s->len - p->len) : self.s);
}

METHOD(m_removesuffix) {
    UNUSED;
    jstr *p = str_arg(x, a[0], "removesuffix");
    size_t n = self.s->len;
    bool has = p->len && p->len <= n && has_at(self.s, n - p->len, p);
    return keep(self, has ? j_sub(x, self.s, 0, n - p->len) : self.s);
}

/* ---- padding --------------------------------------------------------------------------------------------------------
 */

static jv pad(jx *x, jv self, const jv *a, char align, const char *method) {
    int64_t n = (int64_t)j_ncp(x, self.s), width = j_need_int(x, a[0], "width"), room = width > n ? width - n : 0;
    jstr *fill = jv_given(a[1]) ? str_arg(x, a[1], method) : j_lit(x, " ");
    if (j_ncp(x, fill) != 1) j_error(x, "%s: the fill character must be exactly one character long", method);
    int64_t left = align == '<' ? 0 : align == '>' ? room : room / 2 + (room & width & 1);
    jbuf *b = j_buf(x);
    j_buf_fill(x, b, fill, left);
    j_buf_str(x, b, self.s);
    j_buf_fill(x, b, fill, room - left);
    return keep(self, j_buf_done(x, b));
}

METHOD(m_ljust) { return UNUSED, pad(x, self, a, '<', "ljust"); }
METHOD(m_rjust) { return UNUSED, pad(x, self, a, '>', "rjust"); }
METHOD(m_center) {
    jv args[2] = {a[0], {.type = J_MISSING}};
    if (raw->npos > 1) args[1] = a[1];
    return pad(x, self, args, '^', "center");
}

METHOD(m_zfill) {
    UNUSED;
    int64_t n = (int64_t)j_ncp(x, self.s), width = j_need_int(x, a[0], "zfill: width");
    size_t sign = self.s->len && (self.s->s[0] == '+' || self.s->s[0] == '-');
    jbuf *b = j_buf(x);
    j_buf_str(x, b, j_sub(x, self.s, 0, sign));
    j_buf_fill(x, b, j_lit(x, "0"), width - n);
    j_buf_str(x, b, j_sub(x, self.s, sign, self.s->len - sign));
    return keep(self, j_buf_done(x, b));
}

METHOD(m_expandtabs) {
    UNUSED;
    int64_t size = jv_given(a[0]) ? j_need_int(x, a[0], "expandtabs: tabsize") : 8, column = 0;
    jbuf *b = j_buf(x);
    for (size_t i = 0; i < self.s->len; i++) {
        char c = self.s->s[i];
        if (c == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            j_buf_fill(x, b, j_lit(x, " "), n);
            column += n;
            continue;
        }
        j_buf_str(x, b, j_sub(x, self.s, i, 1));
        column = c == '\n' || c == '\r' ? 0 : column + ((c & 0xC0) != 0x80);
    }
    j_charge(x, self.s->len);
    return keep(self, j_buf_done(x, b));
}

/* ---- searching ------------------------------------------------------------------------------------------------------
 */

/* The part of self between the optional bounds (code points, as in slices); *off = its byte offset. False: start lies
 * beyond the end, where not even "" is found. */
static bool part(jx *x, jv self, jv start, jv stop, jstr **out, size_t *off) {
    int64_t n = (int64_t)j_ncp(x, self.s), lo = 0, hi = n;
    if (jv_given(start) && start.type != J_NONE) lo = j_need_int(x, start, "start");
    if (jv_given(stop) && stop.type != J_NONE) hi = j_need_int(x, stop, "end");
    if (lo < 0) lo = lo + n < 0 ? 0 : lo + n;
    if (hi < 0) hi = hi + n < 0 ? 0 : hi + n;
    if (hi > n) hi = n;
    if (lo > hi) return false;
    *off = j_cp_offset(x, self.s, (size_t)lo);
    *out = j_sub(x, self.s, *off, j_cp_offset(x, self.s, (size_t)hi) - *off);
    return true;
}

static jv search(jx *x, jv self, const jv *a, bool from_right, bool must, const char *method) {
    jstr *what = str_arg(x, a[0], method), *in;
    size_t off, at = SIZE_MAX;
    if (part(x, self, a[1], a[2], &in, &off)) at = from_right ? j_rfind(x, in, in->len, what) : j_find(x, in, 0, what);
    if (at == SIZE_MAX && must) j_error(x, "%s: substring not found", method);
    if (at == SIZE_MAX) return jv_int(-1);
    return jv_int((int64_t)j_ncp(x, j_sub(x, self.s, 0, off + at)));
}

METHOD(m_find) { return UNUSED, search(x, self, a, false, false, "find"); }
METHOD(m_rfind) { return UNUSED, search(x, self, a, true, false, "rfind"); }
METHOD(m_index) { return UNUSED, search(x, self, a, false, true, "index"); }
METHOD(m_rindex) { return UNUSED, search(x, self, a, true, true, "rindex"); }

METHOD(m_count) {
    UNUSED;
    jstr *what = str_arg(x, a[0], "count"), *in;
    size_t off;
    int64_t n = 0;
    if (!part(x, self, a[1], a[2], &in, &off)) return jv_int(0);
    if (what->len == 0) return jv_int((int64_t)j_ncp(x, in) + 1);
    for (size_t at = 0; (at = j_find(x, in, at, what)) != SIZE_MAX; at += what->len) {
        n++;
        j_charge(x, (uint64_t)n & 1);
    }
    return jv_int(n);
}

static jv affix(jx *x, jv self, const jv *a, bool end, const char *method) {
    jstr *in;
    size_t off;
    jseq one = {.v = (jv[]){a[0]}, .n = 1}, *all = &one;
    if (a[0].type == J_SEQ && a[0].q->kind == J_TUPLE) all = a[0].q;
    bool ok = part(x, self, a[1], a[2], &in, &off);
    for (size_t i = 0; i < all->n; i++) {
        jstr *w = str_arg(x, all->v[i], method);
        if (ok && w->len <= in->len && has_at(in, end ? in->len - w->len : 0, w)) return jv_bool(true);
    }
    j_charge(x, all->n >> 2);
    return jv_bool(false);
}

METHOD(m_startswith) { return UNUSED, affix(x, self, a, false, "startswith"); }
METHOD(m_endswith) { return UNUSED, affix(x, self, a, true, "endswith"); }

METHOD(m_replace) {
    UNUSED;
    jstr *s = self.s, *old = str_arg(x, a[0], "replace"), *new_ = str_arg(x, a[1], "replace");
    int64_t left = jv_given(a[2]) ? j_need_int(x, a[2], "replace: count") : -1;
    jbuf *b = j_buf(x);
    size_t at = 0, hit;
    if (self.markup) new_ = j_escape(x, new_);
    while (left != 0 && (hit = j_find(x, s, at, old)) != SIZE_MAX) {
        if (old->len == 0 && at > s->len) break;
        j_buf_str(x, b, j_sub(x, s, at, hit - at));
        j_buf_str(x, b, new_);
        j_charge(x, 1);
        left--;
        at = hit + old->len;
        if (old->len) continue;
        if (at == s->len) return keep(self, j_buf_done(x, b));
        size_t len; /* an empty text matches before each character, and at the end */
        j_decode(s->s + at, s->s + s->len, &len);
        j_buf_str(x, b, j_sub(x, s, at, len));
        at += len;
    }
    j_buf_str(x, b, j_sub(x, s, at, s->len - at));
    return keep(self, j_buf_done(x, b));
}

/* ---- splitting and joining ------------------------------------------------------------------------------------------
 */

static jseq *split_space(jx *x, jstr *s, int64_t max) {
    size_t cap = 8, i = 0, len;
    jseq *q = j_list_new(x, cap);
    for (;;) {
        while (i < s->len && j_is_space(j_decode(s->s + i, s->s + s->len, &len))) i += len;
        if (i >= s->len) return q;
        size_t start = i;
        if (max-- == 0) {
            j_push(x, q, &cap, jv_str(j_sub(x, s, start, s->len - start)));
            return q;
        }
        while (i < s->len && !j_is_space(j_decode(s->s + i, s->s + s->len, &len))) i += len;
        j_push(x, q, &cap, jv_str(j_sub(x, s, start, i - start)));
        j_charge(x, 1 + ((i - start) >> 6));
    }
}

static jseq *split_sep(jx *x, jstr *s, const jstr *sep, int64_t max) {
    size_t cap = 8, at = 0, hit;
    jseq *q = j_list_new(x, cap);
    while (max-- != 0 && (hit = j_find(x, s, at, sep)) != SIZE_MAX) {
        j_push(x, q, &cap, jv_str(j_sub(x, s, at, hit - at)));
        j_charge(x, 1);
        at = hit + sep->len; // NOLINT(clang-analyzer-core.NullDereference): without sep it is split_space or rsplit
    }
    j_push(x, q, &cap, jv_str(j_sub(x, s, at, s->len - at)));
    return q;
}

static jseq *rsplit(jx *x, jstr *s, const jstr *sep, int64_t max) { /* at most max parts, from the right; max >= 0 */
    size_t cap = 8, end = s->len;
    jseq *q = j_list_new(x, cap);
    for (; max > 0; max--) {
        size_t hit;
        if (sep) {
            if ((hit = j_rfind(x, s, end, sep)) == SIZE_MAX) break;
            j_push(x, q, &cap, jv_str(j_sub(x, s, hit + sep->len, end - hit - sep->len)));
            end = hit;
        } else {
            end = j_strip(x, j_sub(x, s, 0, end), NULL, 2)->len;
            for (hit = end; hit > 0;) { /* back to the white space before the word */
                size_t c = hit - 1, len;
                while (c > 0 && (s->s[c] & 0xC0) == 0x80) c--;
                if (j_is_space(j_decode(s->s + c, s->s + s->len, &len))) break;
                hit = c;
            }
            if (end == 0) break;
            j_push(x, q, &cap, jv_str(j_sub(x, s, hit, end - hit)));
            end = hit;
        }
        j_charge(x, 1);
    }
    jstr *rest = j_sub(x, s, 0, end);
    if (!sep) rest = j_strip(x, rest, NULL, 2);
    if (sep || j_strip(x, rest, NULL, 3)->len) j_push(x, q, &cap, jv_str(rest));
    for (size_t i = 0; i < q->n / 2; i++) {
        jv t = q->v[i];
        q->v[i] = q->v[q->n - 1 - i];
        q->v[q->n - 1 - i] = t;
    }
    return q;
}

static jv split(jx *x, jv self, const jv *a, bool right) {
    bool space = !jv_given(a[0]) || a[0].type == J_NONE;
    const jstr *sep = space ? NULL : str_arg(x, a[0], "split");
    int64_t max = jv_given(a[1]) ? j_need_int(x, a[1], "split: maxsplit") : -1;
    if (sep && sep->len == 0) j_error(x, "split: empty separator");
    jseq *q = right && max >= 0 ? rsplit(x, self.s, sep, max)
              : space           ? split_space(x, self.s, max)
                                : split_sep(x, self.s, sep, max);
    for (size_t i = 0; self.markup && i < q->n; i++) q->v[i].markup = 1;
    return jv_seq(q);
}

METHOD(m_split) { return UNUSED, split(x, self, a, false); }
METHOD(m_rsplit) { return UNUSED, split(x, self, a, true); }
METHOD(m_splitlines) { return UNUSED, jv_seq(j_splitlines(x, self.s, jv_given(a[0]) && j_truth(x, a[0]))); }

static jv partition(jx *x, jv self, jv sep_arg, bool right) {
    jstr *s = self.s, *sep = str_arg(x, sep_arg, "partition"), *none = j_lit(x, "");
    if (sep->len == 0) j_error(x, "partition: empty separator");
    size_t at = right ? j_rfind(x, s, s->len, sep) : j_find(x, s, 0, sep);
    if (at == SIZE_MAX) return right ? tuple3(x, none, none, s) : tuple3(x, s, none, none);
    return tuple3(x, j_sub(x, s, 0, at), sep, j_sub(x, s, at + sep->len, s->len - at - sep->len));
}

METHOD(m_partition) { return UNUSED, partition(x, self, a[0], false); }
METHOD(m_rpartition) { return UNUSED, partition(x, self, a[0], true); }

METHOD(m_join) {
    UNUSED;
    jseq *q = j_iter(x, a[0]);
    jbuf *b = j_buf(x);
    for (size_t i = 0; i < q->n; i++) {
        if (q->v[i].type != J_STR && self.markup) j_error(x, "join of escaped text is supported for strings only");
        jstr *s = str_arg(x, q->v[i], "join");
        if (i) j_buf_str(x, b, self.s);
        j_buf_str(x, b, self.markup && !q->v[i].markup ? j_escape(x, s) : s);
        j_charge(x, 1);
    }
    return keep(self, j_buf_done(x, b));
}

/* ---- classes --------------------------------------------------------------------------------------------------------
 */

METHOD(m_isalpha) { return UNUSED, jv_bool(j_all_match(x, self.s, J_RE_ALPHA)); }
METHOD(m_isdigit) { return UNUSED, jv_bool(j_all_match(x, self.s, J_RE_DECIMAL)); }
METHOD(m_isalnum) { return UNUSED, jv_bool(j_all_match(x, self.s, J_RE_ALNUM)); }
METHOD(m_isspace) { return UNUSED, jv_bool(self.s->len && j_strip(x, self.s, NULL, 1)->len == 0); }

METHOD(m_isascii) {
    UNUSED;
    j_charge(x, self.s->len >> 8);
    for (size_t i = 0; i < self.s->len; i++)
        if ((uint8_t)self.s->s[i] >= 0x80) return jv_bool(false);
    return jv_bool(true);
}

static jv by_test(jx *x, jv self, const char *test) {
    const jargs none = {0};
    return j_call_builtin(x, j_find_test(test, strlen(test)), self, &none);
}

METHOD(m_islower) { return UNUSED, by_test(x, self, "lower"); }
METHOD(m_isupper) { return UNUSED, by_test(x, self, "upper"); }
METHOD(m_istitle) {
    return UNUSED, jv_bool(j_str_eq(by_letter(x, self.s, true), self.s) &&
                           !j_str_eq(j_recase(x, self.s, J_LOWER), j_recase(x, self.s, J_UPPER)));
}

/* ---- dict, list, tuple, cycler --------------------------------------------------------------------------------------
 */

METHOD(m_get) {
    UNUSED;
    const jv *v = j_dict_get(x, self.d, a[0]);
    return v ? *v : jv_given(a[1]) ? a[1] : jv_none();
}

METHOD(m_items) { return UNUSED, jv_seq(j_dict_seq(x, self.d, J_ITEMS)); }
METHOD(m_keys) { return UNUSED, jv_seq(j_dict_seq(x, self.d, J_KEYS)); }
METHOD(m_values) { return UNUSED, jv_seq(j_dict_seq(x, self.d, J_VALUES)); }
METHOD(m_copy) { return UNUSED, self; } /* values never change: the object itself serves as its copy */

METHOD(m_seq_count) {
    UNUSED;
    int64_t n = 0;
    for (size_t i = 0; i < self.q->n; i++) n += j_equal(x, self.q->v[i], a[0]);
    return jv_int(n);
}

METHOD(m_seq_index) {
    UNUSED;
    for (size_t i = 0; i < self.q->n; i++)
        if (j_equal(x, self.q->v[i], a[0])) return jv_int((int64_t)i);
    j_error(x, "index: the value is not in the %s", j_type_name(self));
}

METHOD(m_next) {
    UNUSED;
    jv v = self.q->v[self.q->pos];
    self.q->pos = (self.q->pos + 1) % self.q->n;
    return v;
}

METHOD(m_reset) {
    UNUSED;
    self.q->pos = 0;
    return jv_none();
}

static const jbuiltin str_methods[] = {
    {"upper", m_upper, "", 0},
    {"lower", m_lower, "", 0},
    {"casefold", m_lower, "", 0}, /* differs from lower only for a few letters, such as the German sharp s */
    {"capitalize", m_capitalize, "", 0},
    {"title", m_title, "", 0},
    {"swapcase", m_swapcase, "", 0},
    {"strip", m_strip, "/chars", 0},
    {"lstrip", m_lstrip, "/chars", 0},
    {"rstrip", m_rstrip, "/chars", 0},
    {"removeprefix", m_removeprefix, "/prefix", 1},
    {"removesuffix", m_removesuffix, "/suffix", 1},
    {"ljust", m_ljust, "/width /fillchar", 1},
    {"rjust", m_rjust, "/width /fillchar", 1},
    {"center", m_center, "/width /fillchar", 1},
    {"zfill", m_zfill, "/width", 1},
    {"expandtabs", m_expandtabs, "tabsize", 0},
    {"find", m_find, "/sub /start /end", 1},
    {"rfind", m_rfind, "/sub /start /end", 1},
    {"index", m_index, "/sub /start /end", 1},
    {"rindex", m_rindex, "/sub /start /end", 1},
    {"count", m_count, "/sub /start /end", 1},
    {"startswith", m_startswith, "/prefix /start /end", 1},
    {"endswith", m_endswith, "/suffix /start /end", 1},
    {"replace", m_replace, "/old /new /count", 2},
    {"split", m_split, "sep maxsplit", 0},
    {"rsplit", m_rsplit, "sep maxsplit", 0},
    {"splitlines", m_splitlines, "keepends", 0},
    {"partition", m_partition, "/sep", 1},
    {"rpartition", m_rpartition, "/sep", 1},
    {"join", m_join, "/iterable", 1},
    {"format", j_str_format, NULL, 0},
    {"isalpha", m_isalpha, "", 0},
    {"isdigit", m_isdigit, "", 0},
    {"isdecimal", m_isdigit, "", 0},
    {"isnumeric", m_isdigit, "", 0},
    {"isalnum", m_isalnum, "", 0},
    {"isspace", m_isspace, "", 0},
    {"isascii", m_isascii, "", 0},
    {"islower", m_islower, "", 0},
    {"isupper", m_isupper, "", 0},
    {"istitle", m_istitle, "", 0},
};

const jbuiltin *j_find_str_method(const char *name, size_t len) { return J_IN_TABLE(str_methods, name, len); }

static bool listed(const char *names, const jstr *name) { /* among space-separated names */
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, " ");
        if (n == name->len && memcmp(p, name->s, n) == 0) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

const jbuiltin *j_find_method(jv v, const jstr *name, bool *forbidden) {
    static const jbuiltin dict_methods[] = {
        {"get", m_get, "/key /default", 1}, {"items", m_items, "", 0}, {"keys", m_keys, "", 0},
        {"values", m_values, "", 0},        {"copy", m_copy, "", 0},
    };
    static const jbuiltin seq_methods[] = {
        {"count", m_seq_count, "/value", 1},
        {"index", m_seq_index, "/value", 1},
        {"copy", m_copy, "", 0},
    };
    static const jbuiltin cycler_methods[] = {{"next", m_next, "", 0}, {"reset", m_reset, "", 0}};
    if (v.type == J_STR) return j_find_str_method(name->s, name->len);
    if (v.type == J_DICT) {
        *forbidden = listed("pop popitem update clear setdefault", name);
        return J_IN_TABLE(dict_methods, name->s, name->len);
    }
    if (v.type == J_CYCLER) return J_IN_TABLE(cycler_methods, name->s, name->len);
    if (v.type != J_SEQ) return NULL;
    jseq_kind k = (jseq_kind)v.q->kind;
    if (k == J_LIST) *forbidden = listed("append insert extend pop remove clear reverse sort", name);
    if (k != J_LIST && k != J_TUPLE && k != J_RANGE && k != J_GROUP) return NULL;
    const jbuiltin *m = J_IN_TABLE(seq_methods, name->s, name->len);
    return m && m->fn == m_copy && k != J_LIST ? NULL : m;
}
