/* How a step's ops are run on the CPU: where no barrier is needed, what is left out because nobody reads it, what two
 * neighbours do in one go. Results do not change. */
#include "cpu.h"

#define RECENT (3u * IE_OPERANDS)
#define READS 64u

static uint32_t operands(const cpu_run *r, const ie_op *op, ie_operand o[IE_OPERANDS]) {
    return ie_op_operands(op, r->w, r->step->n, cpu_rows(r, op), o);
}

/* ---- barriers ------------------------------------------------------------------------------------------------------- */

/* The operands of the ops since the last barrier. */
typedef struct {
    ie_operand o[RECENT];
    uint32_t n;
} recent;

/* Notes that op i - 1 and the next may run without a barrier between: a run of matrices that neither read nor write what
 * another of the run writes (q, k, v or gate, up of unequal types). */
static void check_barrier(const cpu_run *r, uint32_t i, recent *past, const ie_operand *now, uint32_t n) {
    bool free_ = i > r->first && r->list->ops[i].kind == OP_MATMUL && r->list->ops[i - 1].kind == OP_MATMUL && past->n + n <= RECENT;
    for (uint32_t a = 0; a < past->n && free_; a++)
        for (uint32_t b = 0; b < n && free_; b++)
            free_ = !(past->o[a].write || now[b].write) || !ie_operands_meet(&past->o[a], &now[b]);
    if (i > r->first) r->st->how[i - 1].no_barrier = free_;
    if (!free_) past->n = 0;
    for (uint32_t b = 0; b < n && past->n < RECENT; b++) past->o[past->n++] = now[b];
}

static void plan_barriers(const cpu_run *r) {
    recent past = {.n = 0};
    for (uint32_t i = r->first; i < r->last; i++) {
        ie_operand o[IE_OPERANDS];
        check_barrier(r, i, &past, o, operands(r, &r->list->ops[i], o));
        r->st->how[i] = (cpu_how){0};
    }
}

/* ---- the tail ------------------------------------------------------------------------------------------------------- */

/* Whether all that op writes is read by one of the n operands (results that nobody in the list reads may be wanted outside). */
static bool all_read(const cpu_run *r, const ie_op *op, const ie_operand *read, uint32_t n) {
    ie_operand o[IE_OPERANDS];
    for (uint32_t k = operands(r, op, o); k-- > 0;) {
        bool seen = !o[k].write;
        for (uint32_t i = 0; i < n && !seen; i++) seen = ie_operands_meet(&o[k], &read[i]);
        if (!seen) return false;
    }
    return true;
}

/* Before the rows whose logits are wanted are gathered, the last ops need to work on these rows only: back to the op that
 * leaves something behind for later steps (or for the caller). A prompt's last layer ends behind its KV pages that way. */
static void plan_tail(cpu_run *r) {
    const ie_step *s = r->step;
    r->tail = r->tail_end = r->last;
    if (s->n <= IE_DECODE_T || !s->n_out) return;
    uint32_t head = r->first, n = 0, top = 0;
    while (head < r->last && r->list->ops[head].kind != OP_ROWS) head++;
    if (head == r->last) return;
    r->t0 = s->n;
    for (uint32_t i = 0; i < s->n_out; i++) {
        if (s->out[i] < r->t0) r->t0 = s->out[i];
        if (s->out[i] > top) top = s->out[i];
    }
    r->t0 = r->t0 / IE_DECODE_T * IE_DECODE_T;
    r->t1 = (top / IE_DECODE_T + 1u) * IE_DECODE_T < s->n ? (top / IE_DECODE_T + 1u) * IE_DECODE_T : s->n;
    if (r->t1 - r->t0 < 2u) r->t0 -= IE_DECODE_T; /* one token alone would be taken for the layout of a single token */
    ie_operand read[READS], o[IE_OPERANDS];
    r->tail = r->tail_end = head;
    for (uint32_t i = head + 1u; i-- > r->first && n + IE_OPERANDS <= READS;) {
        const ie_op *op = &r->list->ops[i];
        bool rows = op->kind == OP_RMSNORM || op->kind == OP_QUANT || op->kind == OP_SWIGLU || op->kind == OP_MATMUL || op->kind == OP_ATTN;
        if (i < head && (!rows || !all_read(r, op, read, n))) break;
        r->tail = i;
        if (op->kind == OP_ATTN) break;
        for (uint32_t k = operands(r, op, o); k-- > 0;)
            if (!o[k].write) read[n++] = o[k];
    }
}

/* ---- gate, up and SWIGLU --------------------------------------------------------------------------------------------- */

/* Whether nobody but op i + 1 reads what op i writes: the scan ends where it is overwritten. */
static bool read_once(const cpu_run *r, uint32_t i) {
    ie_operand o[IE_OPERANDS], own = {0};
    for (uint32_t k = operands(r, &r->list->ops[i], o); k-- > 0;)
        if (o[k].write) own = o[k];
    for (uint32_t j = i + 2u; j < r->list->n; j++) {
        bool over = false;
        for (uint32_t k = operands(r, &r->list->ops[j], o); k-- > 0;) {
            if (!ie_operands_meet(&own, &o[k])) continue;
            if (!o[k].write) return false;
            over = true;
        }
        if (over) return true;
    }
    return true;
}

/* Whether op i + 1 writes where op i reads. */
static bool overwrites(const cpu_run *r, uint32_t i) {
    ie_operand a[IE_OPERANDS], b[IE_OPERANDS];
    uint32_t n = operands(r, &r->list->ops[i], a), k = operands(r, &r->list->ops[i + 1u], b);
    for (uint32_t x = 0; x < n; x++)
        for (uint32_t y = 0; y < k; y++)
            if (!a[x].write && b[y].write && ie_operands_meet(&a[x], &b[y])) return true;
    return false;
}

/* Rows of gate and up that lie side by side need not go to memory to be multiplied: cpu_swiglu_work. */
static bool joins_swiglu(const cpu_run *r, uint32_t i) {
    const ie_op *m = &r->list->ops[i], *s = m + 1;
    return i + 1u < r->last && r->step->n > IE_DECODE_T && m->kind == OP_MATMUL && s->kind == OP_SWIGLU && m->src_q8 && m->of_rows == s->of_rows &&
           m->res == IE_NO_OFF && m->dst == s->src && m->dst_ld == s->src_ld && m->dst_at == s->src_at && s->n % IE_TILE_ROWS == 0 &&
           r->w->mat[m->mat].rows == 2u * s->n && !overwrites(r, i) && read_once(r, i);
}

static ie_status plan_swiglu(const cpu_run *r, ie_error *err) {
    bool any = false;
    for (uint32_t i = r->first; i < r->last; i++) {
        if (!joins_swiglu(r, i)) continue;
        r->st->how[i].swiglu = r->st->how[i].no_barrier = r->st->how[i + 1u].done = true;
        any = true;
    }
    uint64_t bytes = (uint64_t)ie_pool_threads(r->cpu->pool) * r->step->n * CPU_FFN_FLOATS * sizeof(float);
    if (!any || bytes <= r->st->ffn.bytes) return IE_OK;
    cpu_memory_put(&r->st->ffn);
    return cpu_memory_get(&r->st->ffn, bytes, "gate and up", err);
}

ie_status cpu_plan(cpu_run *r, ie_error *err) {
    if (!ie_grow(&r->st->how, &r->st->how_cap, r->list->n + 1u, sizeof *r->st->how, "op list", err)) return IE_E_NOMEM;
    plan_barriers(r);
    plan_tail(r);
    return plan_swiglu(r, err);
}
