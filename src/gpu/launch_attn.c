/* Launches of RoPE with KV pages, and of attention (kernels/attn.c, attn_split.c): which kernel, and the scratch memory. */
#include <string.h>

#include "../env.h"
#include "gpu.h"

#define LANES 256u
#define GROUPS 128u             /* workgroups that ie_attn_kv aims at: two a compute unit */
#define PART_BYTES (64ull << 20) /* partials of one launch; longer sequences take fewer tokens a launch, at least one */

/* Scratch memory: the largest difference, a count, what matrices use (gpu.h); a counter for each (token, head); with IE_ATTN=check two results; partials. */
#define MAX_HEADS 1024u
_Static_assert(IE_ABI_T * MAX_HEADS <= 0xFFFFFFFFu / MAX_HEADS, "ie_div_inv: (token, head) pairs by heads");
#define COUNT_AT GPU_SCRATCH_MATS
#define CHECK_AT (COUNT_AT + IE_ABI_T * MAX_HEADS * 4u)
#define CHECK_BYTES (IE_ABI_T * IE_MAX_K * 4u) /* of a result: rows of at most IE_MAX_K floats */

static const gpu_attn_choice defaults = {GPU_ATTN_AUTO, 768, 0, true};

void gpu_attn_choice_read(gpu_attn_choice *c) {
    static const struct {
        const char *name;
        gpu_attn_mode mode;
    } modes[] = {{"split", GPU_ATTN_SPLIT}, {"old", GPU_ATTN_OLD}, {"check", GPU_ATTN_CHECK}};
    const char *v = ie_env_text(IE_ENV_ATTN);
    *c = defaults;
    for (size_t i = 0; v && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(v, modes[i].name)) c->mode = modes[i].mode;
    c->kv_min = ie_env_count(IE_ENV_ATTN_KV_MIN);
    c->one_splits = !ie_env_text(IE_ENV_ATTN_KV_MIN);
    c->spw = ie_env_count(IE_ENV_ATTN_SPW);
}

/* ---- pages ---------------------------------------------------------------------------------------------------------- */

static ie_abi_pages pages(const gpu_run *r, const ie_op *op) {
    uint64_t head = ie_kv_head_elems(&r->d->kv);
    return (ie_abi_pages){
        .kv = r->kv + ie_kv_part(0, (uint32_t)op->kv_layer, 0, r->d->kv.n_layer, op->n_kv) * head * 2u,
        .table = r->page_table,
        .page_stride = (uint64_t)r->d->kv.n_layer * op->n_kv * head,
        .per_seq = r->d->pages_per_seq,
    };
}

static uint32_t q_stride(const ie_op *op) { return op->gated ? 2u * op->hd : op->hd; }
static gpu_ptr vec(const gpu_run *r, int32_t v) { return v == IE_NO_W ? 0 : r->weights + r->w->vec[v].off; }

ie_status gpu_launch_rope_kv(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    ie_abi_rope a = {.x = gpu_at(r, op->src, op->src_at), .q_norm = vec(r, op->vec), .k_norm = vec(r, op->vec2), .rope = r->rope,
                     .batch = r->batch, .pages = pages(r, op), .x_ld = op->src_ld, .n_head = op->n_head, .n_kv = op->n_kv, .hd = op->hd,
                     .q_stride = q_stride(op), .half = op->rope_dim / 2u, .neox = op->rope_neox, .eps = op->eps};
    return gpu_add(out, "ie_rope_kv", op->n_head + op->n_kv, r->step->n, 32, &a, sizeof a, err);
}

/* ---- attention -------------------------------------------------------------------------------------------------------- */

/* Partials that a state has room for, of a query. */
static uint64_t part_room(const ie_state_desc *d) { return (d->pages_per_seq + IE_FOLD_PAGES - 1u) / IE_FOLD_PAGES; }
static uint64_t token_bytes(const ie_state_desc *d, const ie_op *op) { return part_room(d) * op->n_head * ie_attn_part_size(op->hd) * 4u; }

static bool splits(const ie_op *op) { return op->hd <= IE_ATTN_SPLIT_HD; }
static uint64_t parts_at(const gpu_attn_choice *c) { return CHECK_AT + (c->mode == GPU_ATTN_CHECK ? 2u * CHECK_BYTES : 0u); }

uint64_t gpu_scratch_bytes(const ie_state_desc *d, const ie_oplist *l, const gpu_attn_choice *c) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const ie_op *op = &l->ops[i];
        if (op->kind == OP_ATTN && splits(op) && token_bytes(d, op) > most) most = token_bytes(d, op);
    }
    uint64_t bytes = most > PART_BYTES ? most : PART_BYTES;
    if (bytes > IE_ABI_T * most) bytes = IE_ABI_T * most;
    return parts_at(c ? c : &defaults) + bytes;
}

/* The last position of the batch. */
static uint32_t top_of(const ie_step *s) {
    uint32_t top = 0;
    for (uint32_t t = 0; t < s->n; t++)
        if ((uint32_t)s->pos[t] > top) top = (uint32_t)s->pos[t];
    return top;
}
uint32_t gpu_attn_parts(const ie_step *s) { return ie_att_parts(top_of(s), 0); }

static ie_status heads_check(const ie_op *op, ie_error *err) {
    if (op->n_head <= MAX_HEADS && op->hd <= 1024u && ie_mul_ok(op->n_head, op->hd, IE_MAX_K)) return IE_OK;
    return ie_fail(err, IE_E_UNSUPPORTED, "attention: %u heads of size %u; the GPU takes up to %u heads of size 1024 and %u values in all",
                   op->n_head, op->hd, MAX_HEADS, IE_MAX_K);
}


static ie_status add3(gpu_launches *out, const char *kernel, uint32_t x, uint32_t y, uint32_t z, const ie_abi_attn *a, ie_error *err) {
    ie_status st = gpu_add(out, kernel, x, y, LANES, a, sizeof *a, err);
    if (!st) out->v[out->n - 1u].grid[2] = z;
    return st;
}

static ie_status add_kv(const gpu_run *r, const ie_op *op, ie_abi_attn *a, uint32_t spw, gpu_launches *out, ie_error *err) {
    uint32_t parts = ie_att_run_parts(top_of(r->step), op->window);
    uint32_t groups = (a->nt * a->group + IE_ATTN_PAIRS - 1u) / IE_ATTN_PAIRS;
    uint32_t want = (GROUPS + op->n_kv * groups - 1u) / (op->n_kv * groups);
    a->spw = spw ? spw : parts > want ? (parts + want - 1u) / want : 1u;
    static const char *const kernels[GPU_ATTN_SIZES] = {"ie_attn_kv_64", "ie_attn_kv_128", "ie_attn_kv_256"};
    return add3(out, kernels[gpu_attn_size(op->hd)], op->n_kv, groups, ie_att_shares(parts, a->spw), a, err);
}

/* A head a workgroup while that leaves no unit of the card without work, since each then ends sooner; else as many as share keys and values, up to
 * what a workgroup has room for, fewer where units would be idle. Where the card copies to LDS by itself, it is one kernel for either. */
static ie_status add_heads(const gpu_run *r, const ie_op *op, ie_abi_attn *a, gpu_launches *out, ie_error *err) {
    static const struct {
        uint32_t hd;
        const char *one, *split, *stream;
        uint32_t most[2]; /* query heads of split, of stream */
    } kernels[GPU_ATTN_SIZES] = {{64, "ie_attn_one_64", "ie_attn_split_64", "ie_attn_stream_64", {8, 8}},
                   {128, "ie_attn_one_128", "ie_attn_split_128", "ie_attn_stream_128", {4, 4}},
                   {IE_ATTN_SPLIT_HD, "ie_attn_one_256", "ie_attn_split_256", "ie_attn_stream_256", {2, 6}}};
    uint32_t k = gpu_attn_size(op->hd), parts = ie_att_parts(top_of(r->step), op->window), each = op->n_kv * a->nt * parts; /* workgroups if heads of a KV head stay together */
    bool one = a->group == 1u || a->group * each <= 2u * r->card->units, stream = r->card->copies;
    uint32_t most = kernels[k].most[stream], fill = r->card->units / each;
    a->shares = one ? a->group : (a->group + most - 1u) / most;
    if (a->shares < fill) a->shares = fill < a->group ? fill : a->group;
    a->hpw = (a->group + a->shares - 1u) / a->shares;
    a->shares = (a->group + a->hpw - 1u) / a->hpw, a->shares_inv = ie_inv(a->shares);
    ie_status st = add3(out, stream ? kernels[k].stream : one ? kernels[k].one : kernels[k].split, op->n_kv * a->shares, a->nt, parts, a, err);
    if (!st && stream) out->v[out->n - 1u].lds = IE_ATTN_PLACES(kernels[k].hd) * IE_PAGE * 2u * ie_head_pad(op->hd);
    return st;
}

/* By partials: as many tokens a launch as the scratch memory holds. */
static ie_status add_split(const gpu_run *r, const ie_op *op, ie_abi_attn a, const gpu_attn_choice *c, gpu_launches *out, ie_error *err) {
    uint64_t fit = PART_BYTES / token_bytes(r->d, op);
    uint32_t n = fit < 1 ? 1u : fit > IE_ABI_T ? IE_ABI_T : (uint32_t)fit;
    bool kv = c->mode != GPU_ATTN_SPLIT && op->n_head > op->n_kv && (r->step->n > 1u || !(c->one_splits || r->card->overlap || r->lead)) && gpu_attn_parts(r->step) * (IE_PAGE * IE_FOLD_PAGES) > c->kv_min;
    ie_status st = IE_OK;
    for (a.t0 = 0; a.t0 < r->step->n && !st; a.t0 += n) {
        a.nt = r->step->n - a.t0 < n ? r->step->n - a.t0 : n;
        if (kv) st = add_kv(r, op, &a, c->spw, out, err);
        else st = add_heads(r, op, &a, out, err);
    }
    return st;
}

static ie_status add_old(const gpu_run *r, const ie_op *op, ie_abi_attn a, gpu_launches *out, ie_error *err) {
    a.t0 = 0, a.nt = r->step->n;
    return gpu_add(out, "ie_attn", op->n_head, a.nt, LANES, &a, sizeof a, err);
}

/* One token, by the kernels of attn_stream.c. A gated query's gate stays as it is, so queries may be where they were. */
bool gpu_rope_fits(const gpu_run *r, const ie_op *rope, const ie_op *attn) {
    const gpu_attn_choice *c = r->attn ? r->attn : &defaults;
    return rope->kind == OP_ROPE_KV && attn->kind == OP_ATTN && r->card->copies && r->step->n == 1u && splits(attn) && c->mode != GPU_ATTN_OLD &&
           c->mode != GPU_ATTN_CHECK && rope->src == attn->src && rope->src_at == attn->src_at && rope->kv_layer == attn->kv_layer &&
           !gpu_writes_over(r, attn, rope);
}

/* The old kernel's result and the new one's, f32 both, and their difference; the new one's goes to the op's outputs. */
static ie_status add_check(const gpu_run *r, const ie_op *op, ie_abi_attn a, const gpu_attn_choice *c, gpu_launches *out, ie_error *err) {
    uint32_t ld = op->n_head * op->hd;
    ie_abi_attn old = a;
    ie_abi_diff diff = {.b = r->scratch + CHECK_AT, .worst = r->scratch, .b_ld = ld, .hd = op->hd};
    old.out.y = diff.b, old.out.y_ld = ld, old.out.q8 = 0;
    if (!a.out.y) a.out.y = r->scratch + CHECK_AT + CHECK_BYTES, a.out.y_ld = ld;
    diff.a = a.out.y, diff.a_ld = a.out.y_ld;
    ie_status st = add_old(r, op, old, out, err);
    if (!st) st = add_split(r, op, a, c, out, err);
    return st ? st : gpu_add(out, "ie_attn_diff", op->n_head, r->step->n, 32, &diff, sizeof diff, err);
}

ie_status gpu_launch_attn(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    const gpu_attn_choice *c = r->attn ? r->attn : &defaults;
    ie_abi_attn a = {.q = gpu_at(r, op->src, op->src_at), .part = r->scratch + parts_at(c), .count = r->scratch + COUNT_AT,
                     .out = gpu_out(r, op, op->n_head * op->hd), .pages = pages(r, op), .q_ld = op->src_ld, .n_head = op->n_head,
                     .n_kv = op->n_kv, .hd = op->hd, .q_stride = q_stride(op), .gated = op->gated, .window = op->window,
                     .parts = (uint32_t)part_room(r->d), .group = op->n_head / op->n_kv,
                     .group_inv = ie_inv(op->n_head / op->n_kv), .scale = op->scale};
    if (r->lead) {
        const ie_op *rope = op - 1;
        a.fresh = a.q + 4u * (uint64_t)op->n_head * q_stride(op);
        a.q_norm = vec(r, rope->vec), a.k_norm = vec(r, rope->vec2), a.rope = r->rope;
        a.half = rope->rope_dim / 2u, a.neox = rope->rope_neox, a.eps = rope->eps;
    }
    ie_status st = heads_check(op, err);
    if (st) return st;
    if (!splits(op) || c->mode == GPU_ATTN_OLD) return add_old(r, op, a, out, err);
    return c->mode == GPU_ATTN_CHECK ? add_check(r, op, a, c, out, err) : add_split(r, op, a, c, out, err);
}
