/* Two backends as one (--gpu-layers): the first N layers on a GPU, embedding, the other layers and the head on the CPU. Each has its
 * own weights, activations (at the same offsets), pages and recurrent states of its layers. Where a list passes from one side to
 * the other, what later ops read is copied over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "layers.h"

#define SIDES 2u
#define LISTS 8u /* op lists that a state keeps a copy of */

enum { GPU = 0, CPU = 1 };

typedef struct {
    ie_backend be; /* first: the public handle */
    ie_backend *side[SIDES];
    int32_t n_layer; /* layers below it are the GPU's */
    ie_weights w[SIDES];
    uint32_t *mat_at, *vec_at; /* a weight's index on its side */
    char about[256];
} split;

/* An operand of an op that the other side wrote. */
typedef struct {
    uint32_t op, operand;
} crossing;

/* A list as two: each side's ops with the indices that it knows. */
typedef struct {
    const ie_op *ops; /* the original's; NULL: free */
    uint32_t n;
    ie_oplist list[SIDES];
    uint32_t *at; /* an op's index in its side's list */
    crossing *cross;
    size_t n_cross, cap_cross;
} split_list;

typedef struct {
    ie_state_desc d, sub[SIDES];
    ie_state *st[SIDES];
    split_list list[LISTS];
    uint32_t next;
    uint32_t ran; /* the side of the op that ran last */
    uint8_t *buf; /* rows on their way */
    size_t cap_buf;
} split_state;

static split *of(ie_backend *be) { return (split *)(void *)be; }
static split_state *state_of(ie_state *st) { return (split_state *)(void *)st; }

static uint32_t side_of(const split *s, int32_t layer) { return layer >= 0 && layer < s->n_layer ? GPU : CPU; }

/* ---- weights ----------------------------------------------------------------------------------------------------------- */

static uint32_t mat_side(const split *s, const ie_mat *m) { return side_of(s, ie_layer_of(m->name)); }
static uint32_t vec_side(const split *s, const ie_vec *v) { return side_of(s, ie_layer_of(v->name)); }

static ie_status share_out(split *s, const ie_weights *w, ie_error *err) {
    s->mat_at = ie_calloc(w->n_mat + 1u, sizeof *s->mat_at, "weights", err);
    s->vec_at = ie_calloc(w->n_vec + 1u, sizeof *s->vec_at, "weights", err);
    for (uint32_t i = 0; i < SIDES; i++) {
        s->w[i].mat = ie_calloc(w->n_mat + 1u, sizeof *w->mat, "weights", err);
        s->w[i].vec = ie_calloc(w->n_vec + 1u, sizeof *w->vec, "weights", err);
        if (!s->w[i].mat || !s->w[i].vec) return IE_E_NOMEM;
    }
    if (!s->mat_at || !s->vec_at) return IE_E_NOMEM;
    for (uint32_t i = 0; i < w->n_mat; i++) {
        ie_weights *to = &s->w[mat_side(s, &w->mat[i])];
        s->mat_at[i] = to->n_mat;
        to->mat[to->n_mat++] = w->mat[i];
    }
    for (uint32_t i = 0; i < w->n_vec; i++) {
        ie_weights *to = &s->w[vec_side(s, &w->vec[i])];
        s->vec_at[i] = to->n_vec;
        to->vec[to->n_vec++] = w->vec[i];
    }
    return IE_OK;
}

/* The offsets in w are those of a weight's side. */
static ie_status weights_alloc(ie_backend *be, ie_weights *w, ie_error *err) {
    split *s = of(be);
    if (s->mat_at) return ie_fail(err, IE_E_ARG, "weights: allocated already");
    ie_status st = share_out(s, w, err);
    w->bytes = 0;
    for (uint32_t i = 0; i < SIDES && !st; i++) {
        st = s->side[i]->api->weights_alloc(s->side[i], &s->w[i], err);
        w->bytes += s->w[i].bytes;
    }
    for (uint32_t i = 0; i < w->n_mat && !st; i++) w->mat[i] = s->w[mat_side(s, &w->mat[i])].mat[s->mat_at[i]];
    for (uint32_t i = 0; i < w->n_vec && !st; i++) w->vec[i] = s->w[vec_side(s, &w->vec[i])].vec[s->vec_at[i]];
    return st;
}

static ie_status weights_fill(ie_backend *be, const ie_mat *m, ie_rows_fn rows, void *ctx, ie_error *err) {
    ie_backend *side = of(be)->side[mat_side(of(be), m)];
    return side->api->weights_fill(side, m, rows, ctx, err);
}

static ie_status weights_vec(ie_backend *be, const ie_vec *v, const float *data, ie_error *err) {
    ie_backend *side = of(be)->side[vec_side(of(be), v)];
    return side->api->weights_vec(side, v, data, err);
}

/* ---- states ------------------------------------------------------------------------------------------------------------ */

/* Of n_layer layers that have pages (or recurrent states), those on the GPU: layers take turns in a fixed pattern, which the
 * backend does not know, but a layer's weights show it. */
static uint32_t gpu_share(const split *s, const char *kind, uint32_t n_layer) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->w[GPU].n_mat; i++) {
        const char *dot = strchr(s->w[GPU].mat[i].name + 4, '.'); /* "blk.N." */
        if (strncmp(dot + 1, kind, strlen(kind)) == 0) n++;
    }
    return n < n_layer ? n : n_layer;
}

static void describe_sides(const split *s, const ie_state_desc *d, ie_state_desc sub[SIDES]) {
    uint32_t gdn = d->gdn.n_layer ? gpu_share(s, "ssm_out.", d->gdn.n_layer) : 0, kv = gpu_share(s, "attn_output.", d->kv.n_layer);
    sub[GPU] = sub[CPU] = *d;
    sub[GPU].kv.n_layer = kv;
    sub[CPU].kv.n_layer = d->kv.n_layer - kv;
    sub[GPU].gdn.n_layer = gdn;
    sub[CPU].gdn.n_layer = d->gdn.n_layer - gdn;
}

/* Of the side that is shorter of memory. */
static void state_room(ie_backend *be, const ie_state_desc *d, uint64_t *need, uint64_t *have) {
    split *s = of(be);
    ie_state_desc sub[SIDES];
    describe_sides(s, d, sub);
    *need = *have = 0;
    for (uint32_t i = 0; i < SIDES; i++) {
        uint64_t n, h;
        s->side[i]->api->state_room(s->side[i], &sub[i], &n, &h);
        bool worse = h && (!*have || (int64_t)(h - n) < (int64_t)(*have - *need));
        if (worse) *need = n, *have = h;
    }
}

static void list_free(split_list *l) {
    for (uint32_t i = 0; i < SIDES; i++) ie_oplist_free(&l->list[i]);
    free(l->at);
    free(l->cross);
    *l = (split_list){0};
}

static void state_free(ie_backend *be, ie_state *st) {
    split *s = of(be);
    split_state *q = state_of(st);
    if (!q) return;
    for (uint32_t i = 0; i < SIDES; i++) s->side[i]->api->state_free(s->side[i], q->st[i]);
    for (uint32_t i = 0; i < LISTS; i++) list_free(&q->list[i]);
    free(q->buf);
    free(q);
}

static ie_status state_new(ie_backend *be, const ie_state_desc *d, ie_state **out, ie_error *err) {
    split *s = of(be);
    split_state *q = ie_calloc(1, sizeof *q, "context", err);
    if (!q) return IE_E_NOMEM;
    q->d = *d;
    describe_sides(s, d, q->sub);
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < SIDES && !st; i++) st = s->side[i]->api->state_new(s->side[i], &q->sub[i], &q->st[i], err);
    if (st) state_free(be, (ie_state *)(void *)q);
    else *out = (ie_state *)(void *)q;
    return st;
}

/* ---- lists ------------------------------------------------------------------------------------------------------------- */

/* Which operands of ops come from the other side: those whose last writer is there. Rows of a full batch decide, so that the
 * answer serves every step. */
static ie_status find_crossings(const split *s, const split_state *q, split_list *c, const ie_op *ops, const ie_weights *w, ie_error *err) {
    for (uint32_t i = 0; i < c->n; i++) {
        ie_operand in[IE_OPERANDS], o[IE_OPERANDS];
        uint32_t n_in = ie_op_operands(&ops[i], w, q->d.max_t, q->d.max_t, in), side = side_of(s, ops[i].layer);
        for (uint32_t a = 0; a < n_in; a++) {
            bool reads = !in[a].write || ops[i].kind == OP_ROPE_KV || ops[i].kind == OP_CONV || ops[i].kind == OP_GDN;
            bool found = !reads;
            for (uint32_t j = i; j-- > 0 && !found;) {
                uint32_t n = ie_op_operands(&ops[j], w, q->d.max_t, q->d.max_t, o);
                for (uint32_t b = 0; b < n && !found; b++) found = o[b].write && ie_operands_meet(&in[a], &o[b]);
                if (!found || side_of(s, ops[j].layer) == side) continue;
                if (!ie_grow(&c->cross, &c->cap_cross, c->n_cross + 1u, sizeof *c->cross, "op list", err)) return IE_E_NOMEM;
                c->cross[c->n_cross++] = (crossing){i, a};
            }
        }
    }
    return IE_OK;
}

static ie_status make_list(const split *s, const split_state *q, split_list *c, const ie_oplist *l, const ie_weights *w, ie_error *err) {
    *c = (split_list){.ops = l->ops, .n = l->n, .list = {{.name = l->name}, {.name = l->name}}};
    c->at = ie_calloc(l->n + 1u, sizeof *c->at, "op list", err);
    if (!c->at) return IE_E_NOMEM;
    for (uint32_t i = 0; i < l->n; i++) {
        ie_op op = l->ops[i];
        bool cpu = side_of(s, op.layer) == CPU, recurrent = op.kind == OP_CONV || op.kind == OP_GDN;
        if (op.mat != IE_NO_W) op.mat = (int32_t)s->mat_at[op.mat];
        if (op.vec != IE_NO_W) op.vec = (int32_t)s->vec_at[op.vec];
        if (op.vec2 != IE_NO_W) op.vec2 = (int32_t)s->vec_at[op.vec2];
        if (cpu && (recurrent || op.kind == OP_ROPE_KV || op.kind == OP_ATTN))
            op.kv_layer -= (int32_t)(recurrent ? q->sub[GPU].gdn.n_layer : q->sub[GPU].kv.n_layer);
        ie_oplist *to = &c->list[cpu ? CPU : GPU];
        c->at[i] = to->n;
        if (ie_oplist_add(to, &op, err)) return IE_E_NOMEM;
    }
    return find_crossings(s, q, c, l->ops, w, err);
}

static ie_status get_list(const split *s, split_state *q, const ie_oplist *l, const ie_weights *w, split_list **out, ie_error *err) {
    for (uint32_t i = 0; i < LISTS; i++)
        if (q->list[i].ops == l->ops && q->list[i].n == l->n) {
            *out = &q->list[i];
            return IE_OK;
        }
    split_list *c = &q->list[q->next];
    q->next = (q->next + 1u) % LISTS;
    list_free(c);
    ie_status st = make_list(s, q, c, l, w, err);
    if (st) list_free(c);
    *out = c;
    return st;
}

/* ---- running ----------------------------------------------------------------------------------------------------------- */

static ie_status move(split *s, split_state *q, const ie_operand *o, uint32_t to, ie_error *err) {
    uint64_t n = (o->rows - 1u) * o->ld + o->n;
    if (!ie_grow(&q->buf, &q->cap_buf, (size_t)n, 1, "activations", err)) return IE_E_NOMEM;
    ie_backend *a = s->side[1u - to], *b = s->side[to];
    ie_status st = a->api->read(a, q->st[1u - to], o->begin, q->buf, n, err);
    return st ? st : b->api->write(b, q->st[to], o->begin, q->buf, n, err);
}

/* What ops [first, last) of one side read of the other's results; each range once. */
static ie_status bring(split *s, split_state *q, const split_list *c, const ie_weights *w, uint32_t first, uint32_t last, const ie_step *step,
                       ie_error *err) {
    ie_operand done[8];
    uint32_t n_done = 0;
    ie_status st = IE_OK;
    for (size_t k = 0; k < c->n_cross && !st; k++) {
        const ie_op *op = &c->ops[c->cross[k].op];
        if (c->cross[k].op < first || c->cross[k].op >= last) continue;
        ie_operand o[IE_OPERANDS];
        ie_op_operands(op, w, step->n, op->of_rows ? step->n_out : step->n, o);
        const ie_operand *x = &o[c->cross[k].operand];
        bool seen = !x->rows;
        for (uint32_t i = 0; i < n_done; i++) seen = seen || (done[i].begin == x->begin && done[i].n == x->n && done[i].rows == x->rows);
        if (seen) continue;
        if (n_done < 8u) done[n_done++] = *x;
        st = move(s, q, x, side_of(s, op->layer), err);
    }
    return st;
}

static ie_status run(ie_backend *be, ie_state *st, const ie_weights *w, const ie_oplist *l, uint32_t first, uint32_t last, const ie_step *step,
                     ie_error *err) {
    split *s = of(be);
    split_state *q = state_of(st);
    split_list *c;
    if (first > last || last > l->n) return ie_fail(err, IE_E_ARG, "ops %u..%u of a list of %u", first, last, l->n);
    ie_status rc = get_list(s, q, l, w, &c, err);
    for (uint32_t i = first, to; i < last && !rc; i = to) {
        uint32_t side = side_of(s, l->ops[i].layer);
        for (to = i + 1u; to < last && side_of(s, l->ops[to].layer) == side;) to++;
        q->ran = side;
        rc = bring(s, q, c, w, i, to, step, err);
        if (!rc) rc = s->side[side]->api->run(s->side[side], q->st[side], &s->w[side], &c->list[side], c->at[i], c->at[i] + to - i, step, err);
    }
    return rc;
}

/* Of the side whose op ran last. */
static ie_status read_arena(ie_backend *be, ie_state *st, uint64_t off, void *dst, uint64_t bytes, ie_error *err) {
    split_state *q = state_of(st);
    ie_backend *side = of(be)->side[q->ran];
    return side->api->read(side, q->st[q->ran], off, dst, bytes, err);
}

static ie_status write_arena(ie_backend *be, ie_state *st, uint64_t off, const void *src, uint64_t bytes, ie_error *err) {
    ie_status rc = IE_OK;
    for (uint32_t i = 0; i < SIDES && !rc; i++) rc = of(be)->side[i]->api->write(of(be)->side[i], state_of(st)->st[i], off, src, bytes, err);
    return rc;
}

static const void *host_ptr(ie_backend *be, ie_state *st, uint64_t off) {
    split_state *q = state_of(st);
    return of(be)->side[q->ran]->api->host_ptr(of(be)->side[q->ran], q->st[q->ran], off);
}

/* ---- pages and sequences: the GPU's layers, then the CPU's ---------------------------------------------------------------- */

static ie_status page_copy(ie_backend *be, ie_state *st, uint32_t dst, uint32_t src, ie_error *err) {
    ie_status rc = IE_OK;
    for (uint32_t i = 0; i < SIDES && !rc; i++) rc = of(be)->side[i]->api->page_copy(of(be)->side[i], state_of(st)->st[i], dst, src, err);
    return rc;
}

static ie_status page_save(ie_backend *be, ie_state *st, uint32_t page, void *dst, ie_error *err) {
    split_state *q = state_of(st);
    ie_status rc = of(be)->side[GPU]->api->page_save(of(be)->side[GPU], q->st[GPU], page, dst, err);
    uint8_t *at = (uint8_t *)dst + ie_kv_page_bytes(&q->sub[GPU].kv);
    return rc ? rc : of(be)->side[CPU]->api->page_save(of(be)->side[CPU], q->st[CPU], page, at, err);
}

static ie_status page_load(ie_backend *be, ie_state *st, uint32_t page, const void *src, ie_error *err) {
    split_state *q = state_of(st);
    ie_status rc = of(be)->side[GPU]->api->page_load(of(be)->side[GPU], q->st[GPU], page, src, err);
    const uint8_t *at = (const uint8_t *)src + ie_kv_page_bytes(&q->sub[GPU].kv);
    return rc ? rc : of(be)->side[CPU]->api->page_load(of(be)->side[CPU], q->st[CPU], page, at, err);
}

static ie_status seq_rewind(ie_backend *be, ie_state *st, uint32_t seq, uint32_t pos, ie_error *err) {
    ie_status rc = IE_OK;
    for (uint32_t i = 0; i < SIDES && !rc; i++) rc = of(be)->side[i]->api->seq_rewind(of(be)->side[i], state_of(st)->st[i], seq, pos, err);
    return rc;
}

static uint64_t seq_bytes(ie_backend *be, ie_state *st) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < SIDES; i++) n += of(be)->side[i]->api->seq_bytes(of(be)->side[i], state_of(st)->st[i]);
    return n;
}

static ie_status seq_save(ie_backend *be, ie_state *st, uint32_t seq, void *dst, ie_error *err) {
    uint8_t *at = dst;
    ie_status rc = IE_OK;
    for (uint32_t i = 0; i < SIDES && !rc; i++) {
        ie_backend *side = of(be)->side[i];
        rc = side->api->seq_save(side, state_of(st)->st[i], seq, at, err);
        at += side->api->seq_bytes(side, state_of(st)->st[i]);
    }
    return rc;
}

static ie_status seq_load(ie_backend *be, ie_state *st, uint32_t seq, const void *src, ie_error *err) {
    const uint8_t *at = src;
    ie_status rc = IE_OK;
    for (uint32_t i = 0; i < SIDES && !rc; i++) {
        ie_backend *side = of(be)->side[i];
        rc = side->api->seq_load(side, state_of(st)->st[i], seq, at, err);
        at += side->api->seq_bytes(side, state_of(st)->st[i]);
    }
    return rc;
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

static ie_status profile(ie_backend *be, ie_buf *out, ie_error *err) {
    ie_status rc = IE_OK;
    for (uint32_t i = 0; i < SIDES && !rc; i++) rc = of(be)->side[i]->api->profile(of(be)->side[i], out, err);
    return rc;
}

static const char *describe(ie_backend *be) { return of(be)->about; }

static void destroy(ie_backend *be) {
    split *s = of(be);
    for (uint32_t i = 0; i < SIDES; i++) {
        if (s->side[i]) s->side[i]->api->destroy(s->side[i]);
        free(s->w[i].mat);
        free(s->w[i].vec);
    }
    free(s->mat_at);
    free(s->vec_at);
    free(s);
}

static const ie_backend_api api = {
    .name = "split", .destroy = destroy, .weights_alloc = weights_alloc, .weights_fill = weights_fill, .weights_vec = weights_vec,
    .state_room = state_room, .state_new = state_new, .state_free = state_free, .run = run, .read = read_arena, .write = write_arena,
    .host_ptr = host_ptr, .page_copy = page_copy, .seq_rewind = seq_rewind, .seq_bytes = seq_bytes, .seq_save = seq_save,
    .seq_load = seq_load, .page_save = page_save, .page_load = page_load, .profile = profile, .describe = describe,
};

ie_backend *ie_split_open(ie_backend *gpu, const ie_backend_params *p, ie_error *err) {
    split *s = ie_calloc(1, sizeof *s, "backend", err);
    if (!s) {
        gpu->api->destroy(gpu);
        return NULL;
    }
    s->side[GPU] = gpu;
    s->side[CPU] = ie_cpu_open(p, err);
    if (!s->side[CPU]) {
        destroy(&s->be);
        return NULL;
    }
    s->n_layer = p->gpu_layers;
    s->be = (ie_backend){.api = &api, .max_t = gpu->max_t < s->side[CPU]->max_t ? gpu->max_t : s->side[CPU]->max_t};
    snprintf(s->about, sizeof s->about, "layers 0..%d: %.90s; the rest: %.90s", p->gpu_layers - 1, gpu->api->describe(gpu),
             s->side[CPU]->api->describe(s->side[CPU]));
    return &s->be;
}
