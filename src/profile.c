/* IE_PROFILE: time by op kind and by layer, with the bandwidth and rate that the op table's costs give. One thread (the
 * first) keeps it, between barriers; runs of several contexts take turns in the pool. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "step.h"

#define LAYERS 1024u /* those beyond are added to the last */

typedef struct {
    uint64_t calls, bytes, flops;
    double seconds;
} sums;

struct ie_profile {
    sums kind[2][OP_KINDS]; /* by phase: decode, prefill */
    double layer[2][LAYERS + 1]; /* [LAYERS]: outside layers */
    uint32_t n_layer;
    uint64_t steps[2], tokens[2];
    uint64_t runs;
    uint32_t ctx; /* positions that the step's sequences hold on average */
    FILE *csv;
    bool by_step;              /* IE_PROFILE=2 */
    ie_buf lines;              /* of the prompt's steps so far */
    double now[OP_KINDS];      /* the step that runs */
    uint32_t now_pos, now_n, ops_left;
    pthread_mutex_t lock; /* between a run and a print */
};

static const char *const phases[2] = {"decode", "prefill"};
static uint32_t phase_of(const ie_run *r) { return r->step->phase == IE_PREFILL ? 1 : 0; }

ie_profile *ie_profile_new(ie_error *err) {
    ie_profile *p = ie_calloc(1, sizeof *p, "profile", err);
    const char *path = ie_env_text(IE_ENV_PROFILE_CSV);
    if (p) pthread_mutex_init(&p->lock, NULL);
    if (p) p->by_step = ie_env_number(IE_ENV_PROFILE) == 2u;
    if (!p || !path) return p;
    p->csv = fopen(path, "we");
    if (p->csv) {
        fputs("run,phase,tokens,context,op,kind,layer,microseconds,weight_bytes,act_bytes,kv_bytes,flops\n", p->csv);
        return p;
    }
    ie_fail(err, IE_E_ARG, "IE_PROFILE_CSV=%.300s: %s", path, strerror(errno));
    ie_profile_free(p);
    return NULL;
}

void ie_profile_free(ie_profile *p) {
    if (!p) return;
    if (p->csv) fclose(p->csv);
    ie_buf_free(&p->lines);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void ie_profile_begin(ie_profile *p, const ie_run *r) {
    const ie_step *s = r->step;
    uint64_t sum = 0;
    for (uint32_t t = 0; t < s->n; t++) sum += s->pos ? (uint64_t)s->pos[t] + 1 : 0;
    pthread_mutex_lock(&p->lock);
    p->ctx = (uint32_t)(sum / s->n); // NOLINT(clang-analyzer-core.DivideZero): a step has a token
    p->runs++;
    memset(p->now, 0, sizeof p->now);
    p->now_pos = s->pos ? (uint32_t)s->pos[0] : 0;
    p->now_n = s->n;
    p->ops_left = r->last - r->first;
    if (r->first == 0) {
        p->steps[phase_of(r)]++;
        p->tokens[phase_of(r)] += s->n;
    }
    pthread_mutex_unlock(&p->lock);
}

/* IE_PROFILE=2: one line for a run of a prompt's step. A line that finds no memory is left out. */
static void add_line(ie_profile *p) {
    double all = 0;
    for (uint32_t k = 0; k < OP_KINDS; k++) all += p->now[k];
    ie_error err;
    bool ok = ie_buf_printf(&p->lines, &err, "  prompt from %u, %u tokens: %.1f us", p->now_pos, p->now_n, all * 1e6);
    for (uint32_t k = 0; k < OP_KINDS && ok; k++)
        if (p->now[k] > 0) ok = ie_buf_printf(&p->lines, &err, ", %s %.1f", ie_op_table[k].name, p->now[k] * 1e6);
    if (ok) ie_buf_printf(&p->lines, &err, "\n");
}

void ie_profile_op(ie_profile *p, const ie_run *r, uint32_t i, uint32_t rows, double took) {
    const ie_op *op = &r->list->ops[i];
    uint32_t phase = phase_of(r);
    ie_cost c = ie_op_table[op->kind].cost(op, r->w, rows, p->ctx);
    uint32_t layer = op->layer < 0 ? LAYERS : (uint32_t)op->layer < LAYERS ? (uint32_t)op->layer : LAYERS - 1;
    pthread_mutex_lock(&p->lock);
    sums *s = &p->kind[phase][op->kind];
    if (took > 0) {
        s->calls++;
        s->bytes += c.weight_bytes + c.act_bytes + c.kv_bytes;
        s->flops += c.flops;
    }
    s->seconds += took;
    p->layer[phase][layer] += took;
    p->now[op->kind] += took;
    if (--p->ops_left == 0 && p->by_step && phase == 1u) add_line(p);
    if (layer < LAYERS && layer >= p->n_layer) p->n_layer = layer + 1;
    if (p->csv && took > 0)
        fprintf(p->csv, "%llu,%s,%u,%u,%u,%s,%d,%.3f,%llu,%llu,%llu,%llu\n", (unsigned long long)p->runs, phases[phase], r->step->n,
                p->ctx, i, ie_op_table[op->kind].name, op->layer, took * 1e6, (unsigned long long)c.weight_bytes,
                (unsigned long long)c.act_bytes, (unsigned long long)c.kv_bytes, (unsigned long long)c.flops);
    pthread_mutex_unlock(&p->lock);
}

static bool print_phase(const ie_profile *p, uint32_t phase, ie_buf *out, ie_error *err) {
    double all = 0;
    for (uint32_t k = 0; k < OP_KINDS; k++) all += p->kind[phase][k].seconds;
    if (!(all > 0)) return true;
    double steps = p->steps[phase] ? (double)p->steps[phase] : 1.0;
    bool ok = ie_buf_printf(out, err, "profile, %s: %llu steps, %llu tokens, %.3f ms a step\n", phases[phase],
                            (unsigned long long)p->steps[phase], (unsigned long long)p->tokens[phase], all * 1e3 / steps) &&
              ie_buf_printf(out, err, "  %-8s %9s %11s %7s %9s %9s\n", "op", "calls", "us a call", "share", "GB/s", "GFLOP/s");
    for (uint32_t k = 0; k < OP_KINDS && ok; k++) {
        const sums *s = &p->kind[phase][k];
        if (!s->calls) continue;
        double sec = s->seconds > 0 ? s->seconds : 1e-9;
        ok = ie_buf_printf(out, err, "  %-8s %9llu %11.2f %6.1f%% %9.2f %9.2f\n", ie_op_table[k].name, (unsigned long long)s->calls,
                           sec * 1e6 / (double)s->calls, 100.0 * sec / all, (double)s->bytes / sec * 1e-9, (double)s->flops / sec * 1e-9);
    }
    for (uint32_t l = 0; l < p->n_layer && ok; l++)
        ok = ie_buf_printf(out, err, "%slayer %4u %8.1f us", l % 4 ? " | " : l ? "\n  " : "  ", l, p->layer[phase][l] * 1e6 / steps);
    return ok && ie_buf_printf(out, err, "%soutside    %8.1f us\n", p->n_layer ? "\n  " : "  ", p->layer[phase][LAYERS] * 1e6 / steps);
}

ie_status ie_profile_print(ie_profile *p, ie_buf *out, ie_error *err) {
    pthread_mutex_lock(&p->lock);
    bool ok = print_phase(p, 0, out, err) && print_phase(p, 1, out, err);
    if (ok && p->lines.len) ok = ie_buf_add(out, p->lines.data, p->lines.len, err);
    bool written = !p->csv || (!fflush(p->csv) && !ferror(p->csv));
    pthread_mutex_unlock(&p->lock);
    if (!ok) return IE_E_NOMEM;
    return written ? IE_OK : ie_fail(err, IE_E_IO, "IE_PROFILE_CSV=%.300s: the file could not be written whole", ie_env_text(IE_ENV_PROFILE_CSV));
}
