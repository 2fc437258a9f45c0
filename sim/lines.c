/* Source lines from DWARF .debug_line, versions 4 and 5. The section comes from outside: every read is checked, and a malformed
 * unit ends the reading with what was found so far. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

typedef struct {
    u64 addr;
    u32 line, file; /* file: index into names, ~0: end of a sequence */
} row;

struct sim_lines {
    row *rows;
    size_t n, cap;
    char **names;
    size_t n_names, cap_names;
};

typedef struct {
    const u8 *p, *end;
    bool bad;
} rd;

static u64 fixed(rd *r, u32 n) {
    u64 v = 0;
    if ((size_t)(r->end - r->p) < n) {
        r->bad = true;
        return 0;
    }
    memcpy(&v, r->p, n);
    r->p += n;
    return v;
}
static u64 leb(rd *r, bool sgn) {
    u64 v = 0;
    u32 sh = 0;
    u8 b = 0x80;
    while (b & 0x80) {
        b = (u8)fixed(r, 1);
        if (r->bad) return 0;
        if (sh < 64) v |= (u64)(b & 0x7F) << sh;
        sh += 7;
    }
    if (sgn && sh < 64 && b & 0x40) v |= ~0ull << sh;
    return v;
}
static const char *string(rd *r) {
    const u8 *z = memchr(r->p, 0, (size_t)(r->end - r->p));
    if (!z) {
        r->bad = true;
        return "";
    }
    const char *s = (const char *)r->p;
    r->p = z + 1;
    return s;
}

typedef struct {
    const u8 *str, *line_str;
    u64 n_str, n_line_str;
} strings;

static const char *at(const u8 *sec, u64 n, u64 off) { return sec && off < n && memchr(sec + off, 0, n - off) ? (const char *)sec + off : ""; }

/* One field of a version 5 entry; strings are returned, other forms skipped. */
static const char *form(rd *r, u64 f, const strings *s) {
    switch (f) {
    case 0x08: return string(r);
    case 0x0E: return at(s->str, s->n_str, fixed(r, 4));
    case 0x1F: return at(s->line_str, s->n_line_str, fixed(r, 4));
    case 0x0B: fixed(r, 1); break;
    case 0x05: fixed(r, 2); break;
    case 0x06: fixed(r, 4); break;
    case 0x0F: leb(r, false); break;
    case 0x1E: fixed(r, 8); fixed(r, 8); break;
    default: r->bad = true; break;
    }
    return NULL;
}

static bool add_name(struct sim_lines *l, const char *s) {
    if (l->n_names == l->cap_names) {
        size_t cap = l->cap_names ? 2 * l->cap_names : 16;
        char **q = realloc(l->names, cap * sizeof *q);
        if (!q) return false;
        l->names = q;
        l->cap_names = cap;
    }
    char *c = strdup(s);
    if (c) l->names[l->n_names++] = c;
    return c != NULL;
}
static bool add_row(struct sim_lines *l, row x) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        row *q = realloc(l->rows, cap * sizeof *q);
        if (!q) return false;
        l->rows = q;
        l->cap = cap;
    }
    l->rows[l->n++] = x;
    return true;
}

/* The file names of a unit are appended to names; returns the index of its first. */
static bool file_table(struct sim_lines *l, rd *r, u32 version, const strings *s) {
    if (version < 5) {
        while (!r->bad && *string(r)) {}
        if (!add_name(l, "?")) return false; /* files count from 1 */
        for (;;) {
            const char *n = string(r);
            if (r->bad || !*n) break;
            for (int i = 0; i < 3; i++) leb(r, false);
            if (!add_name(l, n)) return false;
        }
        return !r->bad;
    }
    for (int table = 0; table < 2; table++) {
        u64 fmt[32][2], nf = fixed(r, 1);
        if (nf > 32) return false;
        for (u64 i = 0; i < nf; i++) {
            fmt[i][0] = leb(r, false);
            fmt[i][1] = leb(r, false);
        }
        u64 n = leb(r, false);
        for (u64 e = 0; e < n && !r->bad; e++) {
            const char *name = "?";
            for (u64 i = 0; i < nf; i++) {
                const char *v = form(r, fmt[i][1], s);
                if (fmt[i][0] == 1 && v) name = v;
            }
            if (table == 1 && !add_name(l, name)) return false;
            if (nf == 0) break;
        }
    }
    return !r->bad;
}

typedef struct {
    u32 min_inst, line_range, opcode_base;
    int line_base;
    u8 lengths[256];
    u32 first_file;
} header;

static bool run_program(struct sim_lines *l, rd *r, const header *h) {
    u64 addr = 0;
    i64 line = 1;
    u64 file = 1;
#define ROW(f) add_row(l, (row){addr, (u32)line, (f)})
#define FILE_INDEX (h->first_file + (file < 100000 ? (u32)file : 0))
    while (r->p < r->end && !r->bad) {
        u32 op = (u32)fixed(r, 1);
        if (op >= h->opcode_base) {
            u32 a = op - h->opcode_base;
            addr += (u64)(a / h->line_range) * h->min_inst;
            line += h->line_base + (int)(a % h->line_range);
            if (!ROW(FILE_INDEX)) return false;
        } else if (op == 0) {
            u64 n = leb(r, false);
            if (r->bad || n == 0 || n > (u64)(r->end - r->p)) return false;
            const u8 *next = r->p + n;
            u32 sub = (u32)fixed(r, 1);
            if (sub == 1) {
                if (!ROW(~0u)) return false;
                addr = 0;
                line = 1;
                file = 1;
            } else if (sub == 2 && n == 9) {
                addr = fixed(r, 8);
            }
            r->p = next;
        } else if (op == 1) {
            if (!ROW(FILE_INDEX)) return false;
        } else if (op == 2) {
            addr += leb(r, false) * h->min_inst;
        } else if (op == 3) {
            line += (i64)leb(r, true);
        } else if (op == 4) {
            file = leb(r, false);
        } else if (op == 8) {
            addr += (u64)((255 - h->opcode_base) / h->line_range) * h->min_inst;
        } else if (op == 9) {
            addr += fixed(r, 2);
        } else {
            for (u32 i = 0; i < h->lengths[op]; i++) leb(r, false);
        }
    }
    return !r->bad;
}

static bool unit(struct sim_lines *l, rd *r, const strings *s) {
    u64 len = fixed(r, 4);
    if (r->bad || len >= 0xFFFFFFF0u || len > (u64)(r->end - r->p)) return false;
    rd u = {r->p, r->p + len, false};
    r->p += len;
    u32 version = (u32)fixed(&u, 2);
    if (version != 4 && version != 5) return true;
    if (version == 5) fixed(&u, 2);
    u64 hl = fixed(&u, 4);
    if (u.bad || hl > (u64)(u.end - u.p)) return false;
    const u8 *program = u.p + hl;
    header h = {0};
    h.min_inst = (u32)fixed(&u, 1);
    fixed(&u, 2);
    h.line_base = (signed char)fixed(&u, 1);
    h.line_range = (u32)fixed(&u, 1);
    h.opcode_base = (u32)fixed(&u, 1);
    if (u.bad || h.line_range == 0 || h.opcode_base == 0) return false;
    for (u32 i = 1; i < h.opcode_base; i++) h.lengths[i] = (u8)fixed(&u, 1);
    h.first_file = (u32)l->n_names;
    if (!file_table(l, &u, version, s)) return false;
    u.p = program;
    return run_program(l, &u, &h);
}

static int by_addr(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->addr != y->addr) return x->addr < y->addr ? -1 : 1;
    return (x->file != ~0u) - (y->file != ~0u); /* the end of a sequence before the start of the next */
}

struct sim_lines *sim_lines_read(const u8 *sec, u64 size, const u8 *str, u64 str_size, const u8 *line_str, u64 line_str_size) {
    struct sim_lines *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    rd r = {sec, sec + size, false};
    strings s = {str, line_str, str_size, line_str_size};
    while (r.p < r.end && unit(l, &r, &s)) {}
    if (l->n) qsort(l->rows, l->n, sizeof *l->rows, by_addr);
    return l;
}

bool sim_line_at(const struct sim_lines *l, u64 link_addr, const char **file, u32 *line) {
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (l->rows[mid].addr <= link_addr) lo = mid + 1;
        else hi = mid;
    }
    if (lo == 0) return false;
    const row *x = &l->rows[lo - 1];
    if (x->file >= l->n_names || x->line == 0) return false;
    *file = l->names[x->file];
    *line = x->line;
    return true;
}

void sim_lines_free(struct sim_lines *l) {
    if (!l) return;
    for (size_t i = 0; i < l->n_names; i++) free(l->names[i]);
    free(l->names);
    free(l->rows);
    free(l);
}
