/* Recurrent layers (Gated DeltaNet): memory, and a share's work. What a step replays, stores and keeps: gdn_log.h.
 * CONV reads the log and writes what will be needed of it, each piece its own channels; GDN works on a state, a piece a
 * head. */
#include <stdlib.h>
#include <string.h>

#include "../env.h"
#include "../gdn_log.h"
#include "cpu.h"
#include "ie_math.h"

#define SEGMENT IE_GDN_SEGMENT
#define AHEAD 8u /* rows */
#define PENDING IE_LOG_SLOTS

typedef ie_gdn_block gdn_block;

struct cpu_gdn {
    cpu_memory s;       /* [seq][layer][n_v][hd / 32][hd][32] */
    cpu_memory log;     /* [seq][layer][IE_GDN_LOG_ROWS][log row] */
    cpu_memory pending; /* rows to be replayed in this step, as CONV leaves them: [block][PENDING][log row] */
    cpu_memory scratch; /* [thread][thread_floats] */
    uint64_t row, thread_floats;
    ie_gdn_log at;
    bool chunk; /* prefill by segments */
};

/* ---- memory --------------------------------------------------------------------------------------------------------- */

static uint64_t head_floats(const ie_gdn_shape *s) { return (uint64_t)s->hd * s->hd; }

/* Scratch of a thread: a state, then a segment packed (q, k, v, results) and its kernel's own. */
static uint64_t scratch_floats(const ie_gdn_shape *s) {
    return head_floats(s) + 4u * SEGMENT * s->hd + 2u * SEGMENT + ie_gdn_scratch_floats(s->hd);
}

ie_status cpu_gdn_new(const cpu_backend *cpu, ie_state *st, ie_error *err) {
    const ie_gdn_shape *s = &st->d.gdn;
    if (!s->n_layer) return IE_OK;
    ie_status rc = ie_gdn_shape_check(s, err);
    if (rc) return rc;
    cpu_gdn *g = ie_calloc(1, sizeof *g, "recurrent state", err);
    if (!g) return IE_E_NOMEM;
    st->gdn = g;
    g->chunk = ie_env_on(IE_ENV_GDN_CHUNK) && !ie_env_text(IE_ENV_PREFILL);
    g->row = ie_gdn_log_row(s);
    g->thread_floats = scratch_floats(s);
    uint64_t n = (uint64_t)st->d.n_seq * s->n_layer; /* below 2^38 */
    rc = ie_gdn_log_new(&g->at, st->d.n_seq, err);
    if (!rc) rc = cpu_memory_get(&g->s, n * ie_gdn_state_floats(s) * 4u, "recurrent state", err);
    if (!rc) rc = cpu_memory_get(&g->log, n * ie_gdn_log_floats(s) * 4u, "recurrent state", err);
    if (!rc) rc = cpu_memory_get(&g->scratch, ie_pool_threads(cpu->pool) * g->thread_floats * 4u, "recurrent state", err);
    cpu_memory_touch(&g->s, CPU_TOUCH);
    cpu_memory_touch(&g->log, CPU_TOUCH);
    cpu_memory_touch(&g->scratch, CPU_TOUCH);
    return rc;
}

void cpu_gdn_free(ie_state *st) {
    cpu_gdn *g = st->gdn;
    if (!g) return;
    cpu_memory_put(&g->s);
    cpu_memory_put(&g->log);
    cpu_memory_put(&g->pending);
    cpu_memory_put(&g->scratch);
    ie_gdn_log_free(&g->at);
    free(g);
}

static float *state_at(const cpu_run *r, uint32_t seq, uint32_t layer, uint32_t head) {
    const ie_gdn_shape *s = &r->st->d.gdn;
    return (float *)r->st->gdn->s.p + ((uint64_t)seq * s->n_layer + layer) * ie_gdn_state_floats(s) + head * head_floats(s);
}
static float *log_at(const cpu_run *r, uint32_t seq, uint32_t layer) {
    const ie_gdn_shape *s = &r->st->d.gdn;
    return (float *)r->st->gdn->log.p + ((uint64_t)seq * s->n_layer + layer) * ie_gdn_log_floats(s);
}
static float *pending_at(const cpu_run *r, uint32_t block, uint32_t i) {
    return (float *)r->st->gdn->pending.p + ((uint64_t)block * PENDING + i) * r->st->gdn->row;
}

/* ---- where sequences stand ------------------------------------------------------------------------------------------ */

ie_status cpu_gdn_prepare(cpu_run *r, ie_error *err) {
    cpu_gdn *g = r->st->gdn;
    if (!g) return IE_OK;
    ie_status rc = ie_gdn_log_prepare(&g->at, r->list, r->first, r->last, r->step, err);
    uint64_t bytes = (uint64_t)g->at.n_replay * PENDING * g->row * 4u;
    if (rc || bytes <= g->pending.bytes) return rc;
    cpu_memory_put(&g->pending);
    return cpu_memory_get(&g->pending, bytes, "recurrent state", err);
}

void cpu_gdn_commit(cpu_run *r, bool ok) {
    if (r->st->gdn) ie_gdn_log_commit(&r->st->gdn->at, ok);
}

ie_status cpu_gdn_rewind(ie_state *st, uint32_t seq, uint32_t pos, ie_error *err) {
    if (seq >= st->d.n_seq) return ie_fail(err, IE_E_ARG, "sequence %u: must be 0..%u", seq, st->d.n_seq - 1u);
    return st->gdn ? ie_gdn_log_rewind(&st->gdn->at, seq, pos, err) : IE_OK;
}

uint64_t cpu_gdn_bytes(const ie_state *st) { return st->gdn ? sizeof(ie_gdn_place) + ie_gdn_seq_bytes(&st->d.gdn) : 0; }

/* Copies a sequence's state to (save) or from buf: place, states, logs. */
ie_status cpu_gdn_copy(ie_state *st, uint32_t seq, uint8_t *buf, bool save, ie_error *err) {
    cpu_gdn *g = st->gdn;
    if (seq >= st->d.n_seq) return ie_fail(err, IE_E_ARG, "sequence %u: must be 0..%u", seq, st->d.n_seq - 1u);
    if (!g) return IE_OK;
    const ie_gdn_shape *s = &st->d.gdn;
    uint64_t state = s->n_layer * ie_gdn_state_floats(s) * 4u, log = s->n_layer * ie_gdn_log_floats(s) * 4u;
    struct {
        void *p;
        uint64_t n;
    } part[] = {{&g->at.at[seq], sizeof *g->at.at}, {(uint8_t *)g->s.p + seq * state, state}, {(uint8_t *)g->log.p + seq * log, log}};
    ie_gdn_place at;
    memcpy(&at, buf, sizeof at);
    if (!save && !ie_gdn_place_ok(at)) return ie_fail(err, IE_E_FORMAT, "saved state: positions %u to %u", at.base, at.end);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (save) memcpy(buf, part[i].p, (size_t)part[i].n);
        else memcpy(part[i].p, buf, (size_t)part[i].n);
        buf += part[i].n;
    }
    return IE_OK;
}

/* Rows of the step are tens of KB apart, and a head's part of one is a few hundred bytes: no processor foresees the next row, so
 * it is asked for while one is worked on. */
static void ask(const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16u) __builtin_prefetch(x + i);
}

/* ---- CONV ----------------------------------------------------------------------------------------------------------- */

/* Channels that a piece owns: up to two stretches (a key head's q and k, or a value head's v). */
typedef struct {
    uint32_t at[2], n;   /* first channels; their number is 2 for key heads */
    uint32_t head;       /* value head, or UINT32_MAX */
    float taps[2][IE_GDN_TAPS * IE_GDN_MAX_HD];
} conv_piece;

/* The raw inputs (or, from base on, log rows) of a position before the step; zeros before the sequence's beginning. */
static const float *raw_row(const gdn_block *b, const float *log, uint64_t row, uint32_t pos) {
    return log + (pos >= b->base ? ie_log_slot(pos) : ie_log_tap(pos)) * row;
}

static void gates(const cpu_run *r, const ie_op *op, uint32_t head, float *beta, float *alpha) {
    const float *a = cpu_vec(r, op->vec2), *dt = a + op->n_head;
    *beta = ie_sigmoid(*beta);
    *alpha = a[head] * ie_softplus(*alpha + dt[head]);
}

/* One stretch of a token from its own and the three inputs before it. */
static void conv_row(const cpu_run *r, const ie_op *op, const conv_piece *p, uint32_t k, const float *const x[4], float *y) {
    r->cpu->ops->conv(x, p->taps[k], op->hd, y);
    if (p->head == UINT32_MAX) r->cpu->ops->l2_norm(y, op->hd, op->eps, k == 0 ? op->scale : 1.0f);
}

/* The tokens to be replayed, from the log. */
static void conv_pending(const cpu_run *r, const ie_op *op, const conv_piece *p, uint32_t block, const float *log) {
    static const float zeros[IE_GDN_MAX_HD];
    const gdn_block *b = &r->st->gdn->at.block[block];
    uint64_t row = r->st->gdn->row, ch = ie_op_channels(op);
    for (uint32_t i = 0; i < b->pos - b->base; i++) {
        uint32_t pos = b->base + i;
        float *to = pending_at(r, block, i);
        for (uint32_t k = 0; k < p->n; k++) {
            const float *x[4];
            for (uint32_t j = 0; j < 4u; j++) x[j] = pos + j < 3u ? zeros : raw_row(b, log, row, pos + j - 3u) + p->at[k];
            conv_row(r, op, p, k, x, to + p->at[k]);
        }
        if (p->head == UINT32_MAX) continue;
        const float *from = log + ie_log_slot(pos) * row + ch;
        to[ch + p->head] = from[p->head];
        to[ch + op->n_head + p->head] = from[op->n_head + p->head];
    }
}

/* Moves what later steps need to the log: the inputs of [next - 3, next) to the ring, those of [next, end) to their slots.
 * rows: the first batch row of the block, inputs not yet overwritten but for the gates. */
static void keep(const cpu_run *r, const ie_op *op, const conv_piece *p, const gdn_block *b, const float *rows, float *log) {
    uint64_t row = r->st->gdn->row, ch = ie_op_channels(op), bytes = op->hd * sizeof(float);
    uint32_t end = b->pos + b->n, from = b->next < 3u ? 0u : b->next - 3u;
    if (from < b->base) from = b->base;
    for (uint32_t pos = from; pos < b->next; pos++) {
        const float *x = pos < b->pos ? log + ie_log_slot(pos) * row : rows + (uint64_t)(pos - b->pos) * op->src_ld;
        for (uint32_t k = 0; k < p->n; k++) memcpy(log + ie_log_tap(pos) * row + p->at[k], x + p->at[k], bytes);
    }
    for (uint32_t pos = b->next > b->pos ? b->next : b->pos; pos < end; pos++) {
        const float *x = rows + (uint64_t)(pos - b->pos) * op->src_ld, *gate = x + ch + (uint64_t)op->n_head * op->hd;
        float *to = log + ie_log_slot(pos) * row;
        for (uint32_t k = 0; k < p->n; k++) memcpy(to + p->at[k], x + p->at[k], bytes);
        if (p->head == UINT32_MAX) continue;
        to[ch + p->head] = gate[p->head];
        to[ch + op->n_head + p->head] = gate[op->n_head + p->head];
    }
}

static void conv_block(const cpu_run *r, const ie_op *op, const conv_piece *p, uint32_t block) {
    static const float zeros[IE_GDN_MAX_HD];
    const gdn_block *b = &r->st->gdn->at.block[block];
    float *log = log_at(r, b->seq, (uint32_t)op->kv_layer), before[2][3][IE_GDN_MAX_HD];
    float *rows = cpu_f32(r, op->src) + (uint64_t)b->t0 * op->src_ld + op->src_at;
    uint64_t gate_at = ie_op_channels(op) + (uint64_t)op->n_head * op->hd;
    conv_pending(r, op, p, block, log);
    for (uint32_t k = 0; k < p->n; k++)
        for (uint32_t j = 0; j < 3u; j++) {
            const float *x = b->pos + j < 3u ? zeros : raw_row(b, log, r->st->gdn->row, b->pos + j - 3u) + p->at[k];
            memcpy(before[k][j], x, op->hd * sizeof *x);
        }
    for (uint32_t t = 0; t < b->n && p->head != UINT32_MAX; t++) {
        float *g = rows + (uint64_t)t * op->src_ld + gate_at + p->head;
        gates(r, op, p->head, g, g + op->n_head);
    }
    keep(r, op, p, b, rows, log);
    for (uint32_t t = b->n; t-- > 0;) /* backwards: a token's result takes the place of its input, which later ones need */
        for (uint32_t k = 0; k < p->n; k++) {
            const float *x[4];
            if (t >= 3u + AHEAD) ask(rows + (uint64_t)(t - 3u - AHEAD) * op->src_ld + p->at[k], op->hd);
            for (uint32_t j = 0; j < 4u; j++)
                x[j] = t + j < 3u ? before[k][t + j] : rows + (uint64_t)(t + j - 3u) * op->src_ld + p->at[k];
            conv_row(r, op, p, k, x, rows + (uint64_t)t * op->src_ld + p->at[k]);
        }
}

uint32_t cpu_conv_pieces(const cpu_run *r, const ie_op *op) { return r->step->n ? op->n_kv + op->n_head : 0; }

void cpu_conv_work(const cpu_run *r, const ie_op *op, uint32_t i0, uint32_t i1) {
    const float *taps = cpu_vec(r, op->vec);
    for (uint32_t i = i0; i < i1; i++) {
        bool key = i < op->n_kv;
        conv_piece p = {.n = key ? 2u : 1u, .head = key ? UINT32_MAX : i - op->n_kv};
        p.at[0] = key ? i * op->hd : (op->n_kv + i) * op->hd; /* value head j begins at (2 n_kv + j) hd */
        p.at[1] = (op->n_kv + i) * op->hd;
        for (uint32_t k = 0; k < p.n; k++) r->cpu->ops->conv_taps(taps + (uint64_t)p.at[k] * IE_GDN_TAPS, op->hd, p.taps[k]);
        for (uint32_t b = 0; b < r->st->gdn->at.n_block; b++) conv_block(r, op, &p, b);
    }
}

/* ---- GDN ------------------------------------------------------------------------------------------------------------ */

/* One value head of one block. */
typedef struct {
    const ie_op *op;
    const gdn_block *b;
    uint32_t head, key_head;
    float *pending, *rows; /* rows of [base, pos), of [pos, end) */
    float *s, *scratch;
} gdn_job;

/* Rows of positions [from, to), all before pos or all from it on. */
static ie_gdn_rows rows_of(const cpu_run *r, const gdn_job *j, uint32_t from, uint32_t to) {
    const ie_op *op = j->op;
    bool old = from < j->b->pos;
    uint64_t ch = ie_op_channels(op), ld = old ? r->st->gdn->row : op->src_ld;
    float *x = old ? j->pending + (from - j->b->base) * ld : j->rows + (from - j->b->pos) * ld;
    const float *gate = x + ch + (old ? 0 : (uint64_t)op->n_head * op->hd) + j->head;
    return (ie_gdn_rows){.q = x + (uint64_t)j->key_head * op->hd, .k = x + (uint64_t)(op->n_kv + j->key_head) * op->hd,
                         .v = x + (uint64_t)(2u * op->n_kv + j->head) * op->hd, .beta = gate, .log_decay = gate + op->n_head,
                         .ld = ld, .n = to - from};
}

static void steps(const cpu_run *r, const gdn_job *j, float *s, uint32_t from, uint32_t to) {
    uint32_t mid = j->b->pos < from ? from : j->b->pos < to ? j->b->pos : to;
    if (from < mid) {
        ie_gdn_rows old = rows_of(r, j, from, mid);
        r->cpu->ops->gdn_steps(s, j->op->hd, &old);
    }
    if (mid < to) {
        ie_gdn_rows new_ = rows_of(r, j, mid, to);
        r->cpu->ops->gdn_steps(s, j->op->hd, &new_);
    }
}

static void by_token(const cpu_run *r, const gdn_job *j) {
    uint64_t n = head_floats(&r->st->d.gdn);
    if (j->b->base == 0) memset(j->s, 0, n * sizeof *j->s);
    steps(r, j, j->s, j->b->base, j->b->next);
    uint32_t end = j->b->pos + j->b->n;
    if (j->b->next == end) return;
    memcpy(j->scratch, j->s, n * sizeof *j->s);
    steps(r, j, j->scratch, j->b->next, end);
}

/* Copies n rows of hd floats, ld apart. */
static void pack(float *to, const float *from, uint64_t ld, uint32_t n, uint32_t hd) {
    for (uint32_t t = 0; t < n; t++) memcpy(to + (uint64_t)t * hd, from + t * ld, hd * sizeof *to);
}

static void by_segment(const cpu_run *r, const gdn_job *j) {
    uint32_t hd = j->op->hd, end = j->b->pos + j->b->n, to;
    float *q = j->scratch + head_floats(&r->st->d.gdn), *k = q + SEGMENT * hd, *v = k + SEGMENT * hd, *out = v + SEGMENT * hd;
    float *beta = out + SEGMENT * hd, *log_decay = beta + SEGMENT;
    for (uint32_t from = j->b->base; from < end; from = to) {
        to = (from / SEGMENT + 1u) * SEGMENT < end ? (from / SEGMENT + 1u) * SEGMENT : end;
        for (uint32_t p = from, mid; p < to; p = mid) {
            mid = p < j->b->pos && j->b->pos < to ? j->b->pos : to;
            ie_gdn_rows x = rows_of(r, j, p, mid);
            uint32_t at = p - from;
            pack(q + at * hd, x.q, x.ld, x.n, hd);
            pack(k + at * hd, x.k, x.ld, x.n, hd);
            pack(v + at * hd, x.v, x.ld, x.n, hd);
            // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): rows_of gives rows inside the log or the step
            for (uint32_t t = 0; t < x.n; t++) beta[at + t] = x.beta[t * x.ld], log_decay[at + t] = x.log_decay[t * x.ld];
        }
        for (uint32_t p = to < j->b->pos ? j->b->pos : to; p < end && p < to + SEGMENT; p++) {
            ie_gdn_rows x = rows_of(r, j, p, p + 1u);
            ask(x.q, hd);
            ask(x.k, hd);
            ask(x.v, hd);
        }
        ie_gdn_segment g = {.s = j->s, .q = q, .k = k, .v = v, .beta = beta, .log_decay = log_decay, .out = out,
                            .scratch = log_decay + SEGMENT, .hd = hd, .n = to - from,
                            .first = from >= j->b->pos ? 0 : to <= j->b->pos ? to - from : j->b->pos - from,
                            .zero = from == 0, .update = to <= j->b->next};
        r->cpu->ops->gdn_segment(&g);
        for (uint32_t t = g.first; t < g.n; t++)
            memcpy(j->rows + (uint64_t)(from + t - j->b->pos) * j->op->src_ld + (uint64_t)(2u * j->op->n_kv + j->head) * hd,
                   out + (uint64_t)t * hd, hd * sizeof *out);
    }
}

/* ---- IE_GDN_CHECK --------------------------------------------------------------------------------------------------- */

static void raise_max(_Atomic uint32_t *max, float x) {
    uint32_t mine = ie_bits_of(ie_abs(x)), seen = atomic_load_explicit(max, memory_order_relaxed);
    while (mine > seen && !atomic_compare_exchange_weak_explicit(max, &seen, mine, memory_order_relaxed, memory_order_relaxed)) {}
}

static void compare(const float *a, const float *b, uint64_t n, _Atomic uint32_t *diff, _Atomic uint32_t *max) {
    float d = 0, m = 0;
    for (uint64_t i = 0; i < n; i++) {
        float e = ie_abs(a[i] - b[i]), v = ie_abs(b[i]);
        d = e > d ? e : d;
        m = v > m ? v : m;
    }
    raise_max(diff, d);
    raise_max(max, m);
}

static void copy_values(const cpu_run *r, const gdn_job *j, float *buf, bool save) {
    for (uint32_t p = j->b->base; p < j->b->pos + j->b->n; p++, buf += j->op->hd) {
        float *v = rows_of(r, j, p, p + 1u).v;
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): as above
        memcpy(save ? buf : v, save ? v : buf, j->op->hd * sizeof *v);
    }
}

/* By segments, and before that token by token on a copy. */
static void by_both(cpu_run *r, const gdn_job *j) {
    cpu_gdn_check *c = &r->cpu->gdn_check;
    uint64_t state = head_floats(&r->st->d.gdn), values = (uint64_t)(j->b->pos + j->b->n - j->b->base) * j->op->hd;
    uint64_t fresh = (uint64_t)(j->b->pos - j->b->base) * j->op->hd; /* results begin behind the replayed tokens' */
    float *copy = ie_calloc(2u * (state + values), sizeof *copy, "IE_GDN_CHECK", NULL), *s = copy, *v = copy ? s + state : NULL;
    if (copy) {
        float *s2 = v + values, *v2 = s2 + state;
        memcpy(s, j->s, state * sizeof *s);
        copy_values(r, j, v, true);
        by_token(r, j);
        memcpy(s2, j->s, state * sizeof *s);
        copy_values(r, j, v2, true);
        memcpy(j->s, s, state * sizeof *s);
        copy_values(r, j, v, false);
        by_segment(r, j);
        copy_values(r, j, v, true);
        compare(v + fresh, v2 + fresh, values - fresh, &c->result, &c->result_max);
        if (j->b->next > j->b->base) compare(j->s, s2, state, &c->state, &c->state_max);
    } else {
        by_segment(r, j);
    }
    free(copy);
}

bool cpu_gdn_check_print(cpu_gdn_check *c, ie_buf *out, ie_error *err) {
    if (!c->on) return true;
    return ie_buf_printf(out, err, "gated delta net, segments against token by token: largest difference of results %.3g (values up to %.3g), "
                         "of states %.3g (up to %.3g)\n", (double)ie_f32_of(c->result), (double)ie_f32_of(c->result_max),
                         (double)ie_f32_of(c->state), (double)ie_f32_of(c->state_max));
}

/* Gated RMSNorm of the block's results, to the op's outputs. */
static void finish(cpu_run *r, const gdn_job *j) {
    const ie_op *op = j->op;
    uint32_t hd = op->hd, g = ie_q8_group(r->step->n), nblk = ie_nblk(op->n_head * hd);
    uint64_t v_at = (uint64_t)(2u * op->n_kv + j->head) * hd, z_at = ie_op_channels(op) + (uint64_t)j->head * hd;
    for (uint32_t i = 0; i < j->b->n; i++) {
        uint32_t t = j->b->t0 + i;
        float buf[IE_GDN_MAX_HD], *row = j->rows + (uint64_t)i * op->src_ld, *y = buf;
        if (i + AHEAD < j->b->n) ask(row + AHEAD * op->src_ld + z_at, hd);
        if (op->dst != IE_NO_OFF) y = cpu_f32(r, op->dst) + (uint64_t)t * op->dst_ld + op->dst_at + j->head * hd;
        r->cpu->ops->gated_norm(row + v_at, cpu_vec(r, op->vec), row + z_at, hd, op->eps, y);
        if (op->q8 == IE_NO_OFF) continue;
        uint32_t *q = cpu_q8(r, op->q8) + (uint64_t)ie_q8_at(t, j->head * hd / IE_BLOCK, nblk, g) * IE_Q8_WORDS;
        if (!r->cpu->mm->q8(y, hd, q, g)) cpu_bad(r, op);
    }
}

uint32_t cpu_gdn_pieces(const cpu_run *r, const ie_op *op) { return r->st->gdn->at.n_block * op->n_head; }

void cpu_gdn_work(cpu_run *r, const ie_op *op, uint32_t thread, uint32_t i0, uint32_t i1) {
    cpu_gdn *g = r->st->gdn;
    for (uint32_t i = i0; i < i1; i++) {
        uint32_t block = i / op->n_head, head = i % op->n_head;
        const gdn_block *b = &g->at.block[block];
        gdn_job j = {.op = op, .b = b, .head = head, .key_head = head % op->n_kv,
                     .pending = b->pos > b->base ? pending_at(r, block, 0) : NULL,
                     .rows = cpu_f32(r, op->src) + (uint64_t)b->t0 * op->src_ld + op->src_at,
                     .s = state_at(r, b->seq, (uint32_t)op->kv_layer, head),
                     .scratch = (float *)g->scratch.p + thread * g->thread_floats};
        if (!g->chunk || r->step->phase != IE_PREFILL) by_token(r, &j);
        else if (r->cpu->gdn_check.on) by_both(r, &j);
        else by_segment(r, &j);
        finish(r, &j);
    }
}
