/* Weight loading: architectures register the tensors that they expect; then every matrix is streamed from the file in slabs
 * of rows, repacked on the backend's threads for its weight memory, and nothing of the source is kept. */
#include <stdlib.h>
#include <string.h>

#include "../env.h"
#include "../quant/requant.h"
#include "model.h"

#define SLAB_BYTES (1u << 20) /* source bytes that a thread holds at once */
#define MAX_VEC (1u << 24)    /* elements of a vector (the taps of a convolution are a small matrix) */

typedef struct {
    const ie_gguf_tensor *tensor; /* NULL: zeros */
    uint32_t rows;
} part;

typedef struct {
    part *parts;
    uint32_t n_parts;
    bool as_q8; /* Q6_K taken as Q8_0 (IE_Q6K_AS_Q8) */
} source;

struct ie_loader {
    ie_model *m;
    const ie_gguf *g;
    uint8_t *claimed; /* one per tensor of the file */
    source *mat_src, *vec_src;
    size_t cap_mat_src, cap_vec_src;
};

static const ie_gguf_tensor *claim(ie_loader *l, const char *name) {
    const ie_gguf_tensor *t = ie_gguf_find_tensor(l->g, name);
    if (t) l->claimed[t - ie_gguf_tensor_at(l->g, 0)] = 1;
    return t;
}

bool ie_load_has(const ie_loader *l, const char *name) { return ie_gguf_find_tensor(l->g, name) != NULL; }
void ie_load_ignore(ie_loader *l, const char *name) { claim(l, name); }

bool ie_load_same_type(const ie_loader *l, const ie_part *parts, uint32_t n) {
    const ie_gguf_tensor *first = ie_gguf_find_tensor(l->g, parts[0].name);
    if (!first || !ie_env_on(IE_ENV_JOIN)) return false;
    for (uint32_t i = 1; i < n; i++) {
        const ie_gguf_tensor *t = ie_gguf_find_tensor(l->g, parts[i].name);
        if (!t || t->type != first->type) return false;
    }
    return true;
}

/* The tensor of a part with the shape the architecture expects; cols 0 means a vector of `rows` elements. */
static ie_status find_part(ie_loader *l, const ie_part *p, const ie_gguf_tensor **out, ie_error *err) {
    const ie_gguf_tensor *t = claim(l, p->name);
    if (!t) return ie_fail(err, IE_E_FORMAT, "tensor '%s' is missing from the file", p->name);
    uint64_t want0 = p->cols ? p->cols : p->rows, want1 = p->cols ? p->rows : 1;
    if (t->ne[0] != want0 || t->ne[1] != want1 || t->ne[2] != 1 || t->ne[3] != 1)
        return ie_fail(err, IE_E_FORMAT, "tensor '%s' has shape [%llu, %llu, %llu, %llu], the metadata ask for [%llu, %llu]",
                       p->name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], (unsigned long long)t->ne[2],
                       (unsigned long long)t->ne[3], (unsigned long long)want0, (unsigned long long)want1);
    *out = t;
    return IE_OK;
}

static ie_status unsupported(const ie_gguf_tensor *t, const char *what, const char *allowed, ie_error *err) {
    const char *type = ie_ggml_type_name(t->type);
    return ie_fail(err, IE_E_UNSUPPORTED, "tensor '%s' is of type %s (%u), which is not supported for a %s; supported: %s",
                   t->name.s, type ? type : "unknown", t->type, what, allowed);
}

static bool new_parts(source *s, uint32_t n, ie_error *err) {
    *s = (source){.n_parts = n, .parts = ie_calloc(n, sizeof(part), "weights", err)};
    return s->parts != NULL;
}

ie_status ie_load_mat(ie_loader *l, const ie_part *parts, uint32_t n, int32_t *out, ie_error *err) {
    ie_weights *w = &l->m->w;
    size_t cap = w->cap_mat;
    if (!ie_grow(&w->mat, &cap, w->n_mat + 1, sizeof *w->mat, "weights", err)) return err->code;
    w->cap_mat = (uint32_t)cap;
    if (!ie_grow(&l->mat_src, &l->cap_mat_src, w->n_mat + 1, sizeof *l->mat_src, "weights", err)) return err->code;
    source *s = &l->mat_src[w->n_mat];
    if (!new_parts(s, n, err)) return err->code;
    ie_mat *mat = &w->mat[w->n_mat++];
    *mat = (ie_mat){.cols = parts[0].cols};
    uint64_t rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        const ie_gguf_tensor *t = NULL;
        ie_status st = find_part(l, &parts[i], &t, err);
        if (st) return st;
        const ie_format *f = ie_format_of_ggml(t->type);
        if (!f) return unsupported(t, "matrix", ie_format_list(), err);
        s->as_q8 = f->id == IE_F_Q6_K && ie_env_on(IE_ENV_Q6K_AS_Q8);
        if (s->as_q8) f = &ie_formats[IE_F_Q8_0];
        s->parts[i] = (part){t, parts[i].rows};
        if (i == 0) mat->name = t->name.s, mat->fmt = f;
        rows += parts[i].rows;
        l->m->n_params += (uint64_t)parts[i].rows * parts[i].cols;
    }
    if (rows > UINT32_MAX || !ie_dims_ok((uint32_t)rows, mat->cols))
        return ie_fail(err, IE_E_UNSUPPORTED, "matrix '%s' has %llu rows of %u weights, allowed are 1 to %u rows of 1 to %u weights",
                       mat->name, (unsigned long long)rows, mat->cols, IE_MAX_ROWS, IE_MAX_K);
    mat->rows = (uint32_t)rows;
    *out = (int32_t)w->n_mat - 1;
    return IE_OK;
}

static bool is_float(uint32_t type) {
    const ie_format *f = ie_format_of_ggml(type);
    return f && f->dot == IE_FLOAT;
}

ie_status ie_load_vec(ie_loader *l, const ie_part *parts, uint32_t n, bool optional, int32_t *out, ie_error *err) {
    bool any = !optional;
    for (uint32_t i = 0; i < n; i++) any = any || ie_load_has(l, parts[i].name);
    *out = IE_NO_W;
    if (!any) return IE_OK;
    ie_weights *w = &l->m->w;
    size_t cap = w->cap_vec;
    if (!ie_grow(&w->vec, &cap, w->n_vec + 1, sizeof *w->vec, "weights", err)) return err->code;
    w->cap_vec = (uint32_t)cap;
    if (!ie_grow(&l->vec_src, &l->cap_vec_src, w->n_vec + 1, sizeof *l->vec_src, "weights", err)) return err->code;
    source *s = &l->vec_src[w->n_vec];
    if (!new_parts(s, n, err)) return err->code;
    ie_vec *v = &w->vec[w->n_vec++];
    *v = (ie_vec){.name = parts[0].name};
    for (uint32_t i = 0; i < n; i++) {
        const ie_gguf_tensor *t = NULL;
        uint32_t cols = parts[i].cols ? parts[i].cols : 1u;
        if (!ie_mul_ok(parts[i].rows, cols, MAX_VEC - v->n))
            return ie_fail(err, IE_E_UNSUPPORTED, "vector '%s' has %u rows of %u elements, allowed are %u in all", parts[i].name,
                           parts[i].rows, cols, MAX_VEC);
        if (!optional || ie_load_has(l, parts[i].name)) {
            ie_status st = find_part(l, &parts[i], &t, err);
            if (st) return st;
            // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): find_part sets it when it returns IE_OK
            if (!is_float(t->type)) return unsupported(t, "vector", "F32, F16, BF16", err);
            l->m->n_params += (uint64_t)parts[i].rows * cols;
        }
        if (t) v->name = t->name.s;
        s->parts[i] = (part){t, parts[i].rows * cols};
        v->n += s->parts[i].rows;
    }
    *out = (int32_t)w->n_vec - 1;
    return IE_OK;
}

/* n floats of a float tensor. A float format's unit with one row in it is the converter: lane 0 of a zeroed unit. */
static ie_status read_floats(const ie_gguf *g, const ie_gguf_tensor *t, float *out, uint32_t n, ie_error *err) {
    const ie_format *f = ie_format_of_ggml(t->type);
    uint32_t esize = f->gguf_bytes / IE_BLOCK;
    uint8_t *raw = ie_calloc(n, esize, "vector", err);
    uint32_t *unit = ie_calloc(f->unit_words, 4, "vector", err);
    ie_status st = raw && unit ? ie_gguf_read(g, t, 0, raw, (uint64_t)n * esize, err) : err->code;
    for (uint32_t i = 0; st == IE_OK && i < n; i += IE_BLOCK) {
        uint32_t m = n - i < IE_BLOCK ? n - i : IE_BLOCK;
        float block[IE_BLOCK];
        f->repack(raw + (size_t)i * esize, m, unit, 0);
        f->dequant(unit, 0, block);
        memcpy(out + i, block, m * sizeof(float));
    }
    free(raw);
    free(unit);
    return st;
}

ie_status ie_load_host_vec(ie_loader *l, const ie_part *p, float **out, ie_error *err) {
    const ie_gguf_tensor *t = NULL;
    ie_status st = find_part(l, p, &t, err);
    if (st) return st;
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as above
    if (!is_float(t->type)) return unsupported(t, "vector", "F32, F16, BF16", err);
    *out = ie_calloc(p->rows, sizeof(float), p->name, err);
    return *out ? read_floats(l->g, t, *out, p->rows, err) : err->code;
}

/* ---- streaming ----------------------------------------------------------------------------------------------------- */

/* A matrix being filled, part after part. */
typedef struct {
    const ie_gguf *g;
    const ie_mat *mat;
    const source *src;
} job;

/* Q6_K rows kept as Q8_0: dequantised, then ggml's Q8_0 rule (d = amax / 127 as f16, q = round(x / d)). */
static ie_status requant_rows(const job *j, const ie_format *from, const uint8_t *raw, uint32_t n, uint32_t row0, uint32_t *units, ie_error *err) {
    uint32_t cols = j->mat->cols, nsb = cols / (from->blocks * IE_BLOCK);
    uint32_t *unit = ie_calloc(from->unit_words, 4, "loading", err);
    float *x = ie_calloc(cols, sizeof *x, "loading", err);
    uint8_t *q8 = ie_calloc(ie_nblk(cols), 34, "loading", err);
    bool ok = unit && x && q8;
    for (uint32_t r = 0; r < n && ok; r++) {
        for (uint32_t s = 0; s < nsb; s++) {
            from->repack(raw + ((size_t)r * nsb + s) * from->gguf_bytes, from->blocks * IE_BLOCK, unit, 0);
            from->dequant(unit, 0, x + (size_t)s * from->blocks * IE_BLOCK);
        }
        for (uint32_t b = 0; b < ie_nblk(cols); b++) ie_q8_0_quantize(x + (size_t)b * IE_BLOCK, q8 + (size_t)b * 34);
        ie_repack_rows(j->mat->fmt, cols, q8, 1, row0 + r, units);
    }
    free(unit);
    free(x);
    free(q8);
    return ok ? IE_OK : IE_E_NOMEM;
}

/* n rows of a part from its row r0 on to rows row0 .. of the tiles at units, as many at a time as SLAB_BYTES holds. */
static ie_status part_rows(const job *j, const part *p, uint32_t r0, uint32_t n, uint32_t row0, uint32_t *units, ie_error *err) {
    const ie_format *from = ie_format_of_ggml(p->tensor->type);
    uint64_t row_bytes = p->tensor->bytes / p->tensor->ne[1];
    uint32_t most = row_bytes < SLAB_BYTES ? (uint32_t)(SLAB_BYTES / row_bytes) : 1;
    if (most > n) most = n;
    uint8_t *raw = ie_calloc(most, (size_t)row_bytes, "loading", err);
    ie_status st = raw ? IE_OK : IE_E_NOMEM;
    for (uint32_t done = 0, k; done < n && !st; done += k) {
        k = n - done < most ? n - done : most;
        st = ie_gguf_read(j->g, p->tensor, (r0 + done) * row_bytes, raw, k * row_bytes, err);
        if (st) break;
        if (from == j->mat->fmt) ie_repack_rows(from, j->mat->cols, raw, k, row0 + done, units);
        else st = requant_rows(j, from, raw, k, row0 + done, units, err);
    }
    free(raw);
    return st;
}

/* ie_rows_fn: the parts that rows [row0, row0 + n) lie in. */
static ie_status give_rows(void *ctx, uint32_t row0, uint32_t n, uint32_t *units, ie_error *err) {
    const job *j = ctx;
    ie_status st = IE_OK;
    uint32_t at = 0; /* the part's first row in the matrix */
    for (uint32_t i = 0; i < j->src->n_parts && !st; i++) {
        const part *p = &j->src->parts[i];
        uint32_t from = row0 > at ? row0 : at, to = row0 + n < at + p->rows ? row0 + n : at + p->rows;
        if (from < to) st = part_rows(j, p, from - at, to - from, from - row0, units, err);
        at += p->rows;
    }
    return st;
}

static ie_status fill_mat(ie_loader *l, uint32_t index, ie_error *err) {
    job j = {l->g, &l->m->w.mat[index], &l->mat_src[index]};
    return l->m->be->api->weights_fill(l->m->be, j.mat, give_rows, &j, err);
}

static ie_status fill_vec(ie_loader *l, uint32_t index, ie_error *err) {
    const ie_vec *v = &l->m->w.vec[index];
    const source *s = &l->vec_src[index];
    float *data = ie_calloc(v->n, sizeof *data, "vector", err), *at = data;
    ie_status st = data ? IE_OK : IE_E_NOMEM;
    for (uint32_t i = 0; i < s->n_parts && !st; i++) {
        if (s->parts[i].tensor) st = read_floats(l->g, s->parts[i].tensor, at, s->parts[i].rows, err);
        at += s->parts[i].rows;
    }
    if (!st) st = l->m->be->api->weights_vec(l->m->be, v, data, err);
    free(data);
    return st;
}

static ie_status fill(ie_loader *l, const ie_model_params *p, ie_error *err) {
    ie_model *m = l->m;
    ie_status st = m->be->api->weights_alloc(m->be, &m->w, err);
    for (uint32_t i = 0; i < m->w.n_vec && !st; i++) st = fill_vec(l, i, err);
    uint64_t done = 0;
    for (uint32_t i = 0; i < m->w.n_mat && !st; i++) {
        st = fill_mat(l, i, err);
        done += m->w.mat[i].bytes;
        if (!st && p->progress && p->progress(p->progress_user, "loading", (double)done / (double)m->w.bytes))
            st = ie_fail(err, IE_E_CANCELLED, "loading was cancelled");
    }
    return st;
}

/* A tensor that no architecture code asked for would be silently ignored weights: refused. */
static ie_status all_claimed(const ie_loader *l, ie_error *err) {
    for (uint64_t i = 0; i < ie_gguf_n_tensors(l->g); i++)
        if (!l->claimed[i])
            return ie_fail(err, IE_E_UNSUPPORTED, "tensor '%s' is not part of architecture '%s' as this engine knows it",
                           ie_gguf_tensor_at(l->g, i)->name.s, l->m->arch->name);
    return IE_OK;
}

static void loader_free(ie_loader *l) {
    for (uint32_t i = 0; l->mat_src && i < l->m->w.n_mat; i++) free(l->mat_src[i].parts);
    for (uint32_t i = 0; l->vec_src && i < l->m->w.n_vec; i++) free(l->vec_src[i].parts);
    free(l->mat_src);
    free(l->vec_src);
    free(l->claimed);
}

ie_status ie_model_load(ie_model *m, const ie_model_params *p, ie_error *err) {
    ie_loader l = {.m = m, .g = m->gguf};
    l.claimed = ie_calloc((size_t)ie_gguf_n_tensors(m->gguf), 1, "weights", err);
    if (!l.claimed) return err->code;
    ie_status st = m->arch->load(m, &l, err);
    if (!st) st = all_claimed(&l, err);
    if (!st) st = fill(&l, p, err);
    loader_free(&l);
    return st;
}
