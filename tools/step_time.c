/* step_time [-p POSITION] [-t TOKENS] [-s SAMPLE] [-c] MODEL.gguf: what a decode step takes on an R9700 by the time model (time_model.h), op by op.
 *
 * The model's op list becomes launches as the engine makes them; each different one runs once on the simulator of gfx1201 (of one matrix SAMPLE
 * workgroups, spread evenly), whose figures go into the model. Weights get their places and are not read: a file with nothing but its directory
 * will do (make_synth_gguf ... --empty 1). IE_NORM_FUSE and the other switches of the GPU backend count as in the engine.
 *
 *     step_time --reference        the model against the published times of the reference system
 *
 * The simulator is build/sim/libamdhip64.so beside this program, or IE_STEP_SIM. */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "lab.h"
#include "time_model.h"

#define ROWS 128u /* different ops of a model */

static const char USAGE[] =
    "usage: step_time [-p POSITION] [-t TOKENS] [-s SAMPLE] [-c] MODEL.gguf\n"
    "       step_time --reference\n"
    "  -p POSITION   position of the step's first token (default 100)\n"
    "  -t TOKENS     tokens of the step, 1 to 16 (default 1)\n"
    "  -s SAMPLE     workgroups of a matrix that are simulated, 0 = all (default 16)\n"
    "  -c            CSV\n"
    "  --reference   the time model against published times\n";

/* ---- the simulator -------------------------------------------------------------------------------------------------- */

typedef struct {
    void *lib;
    void (*keep)(unsigned sample);
    unsigned long long (*launches)(void);
    const char *(*kernel)(unsigned back);
    double (*figure)(const char *name, unsigned back);
} simulator;

/* The engine's driver then finds the library that is loaded already. */
static ie_status sim_open(simulator *s, const char *self, ie_error *err) {
    char path[4096];
    const char *given = getenv("IE_STEP_SIM"), *slash = strrchr(self, '/');
    snprintf(path, sizeof path, "%.*s../sim/libamdhip64.so", slash ? (int)(slash - self + 1) : 0, self);
    s->lib = dlopen(given ? given : path, RTLD_NOW | RTLD_GLOBAL);
    if (!s->lib) return ie_fail(err, IE_E_DEVICE, "the simulator '%.300s' cannot be loaded (make sim): %.300s", given ? given : path, dlerror());
    *(void **)&s->keep = dlsym(s->lib, "ie_sim_keep");
    *(void **)&s->launches = dlsym(s->lib, "ie_sim_launches");
    *(void **)&s->kernel = dlsym(s->lib, "ie_sim_kernel");
    *(void **)&s->figure = dlsym(s->lib, "ie_sim_figure");
    return s->keep && s->launches && s->kernel && s->figure ? IE_OK : ie_fail(err, IE_E_DEVICE, "'%.300s' is not the simulator", given ? given : path);
}

static tm_counts counts_of(const simulator *s, unsigned back) {
    tm_counts c = {.bytes = 128.0 * (s->figure("fresh_lines", back) + s->figure("written_lines", back)),
                   .issue_us = s->figure("issue_us", back), .lds_us = s->figure("lds_us", back), .alone_us = s->figure("alone_us", back)};
    c.flight = s->figure("bytes_before_wait", back) * s->figure("resident_waves", back);
    return c;
}

/* ---- the model, without weights --------------------------------------------------------------------------------------- */

static ie_status no_fill(ie_backend *be, const ie_mat *m, ie_rows_fn rows, void *ctx, ie_error *err) {
    (void)be, (void)m, (void)rows, (void)ctx, (void)err;
    return IE_OK;
}

static ie_status model_open(ie_model **out, ie_backend_api *api, const char *path, ie_error *err) {
    ie_str arch = {0};
    ie_model *m = *out = ie_calloc(1, sizeof *m, "model", err);
    if (!m) return IE_E_NOMEM;
    m->gguf = ie_gguf_open(path, err);
    ie_status st = m->gguf ? ie_gguf_str_req(m->gguf, "general.architecture", &arch, err) : err->code;
    if (st) return st;
    m->arch = ie_arch_find(arch);
    if (!m->arch) return ie_fail(err, IE_E_UNSUPPORTED, "architecture '%.60s' is not supported; supported: %s", arch.s, ie_arch_list());
    ie_backend_params bp = {.threads = 1};
    ie_model_params p = {0};
    m->be = ie_backend_open("hip", &bp, err);
    if (!m->be) return err->code;
    *api = *m->be->api;
    api->weights_fill = no_fill;
    m->be->api = api;
    return ie_model_load(m, &p, err);
}

/* ---- the step ----------------------------------------------------------------------------------------------------------- */

/* Ops that give the same launches. */
typedef struct {
    ie_op op[IE_MANY]; /* the first of them: done together */
    uint32_t n_op;
    bool fused; /* the second is the RMSNORM behind a matrix, which its launch does, too: the last workgroup, when all others have ended */
    uint32_t times, launches;
    char what[64], kernel[48];
    double groups, weights, us;
    tm_counts sum;
    tm_bound bound; /* of its longest launch */
} row;

typedef struct {
    simulator sim;
    ie_model *model;
    ie_backend_api api;
    ie_lab lab;
    ie_lab_batch batch;
    uint32_t pos, tokens, sample;
    row row[ROWS];
    uint32_t n;
    bool csv;
} job;

static bool same_op(const ie_mat *m, const ie_op *a, const ie_op *b) {
    bool mats = a->mat == b->mat || (a->mat >= 0 && b->mat >= 0 && m[a->mat].fmt == m[b->mat].fmt && m[a->mat].rows == m[b->mat].rows &&
                                     m[a->mat].cols == m[b->mat].cols);
    return a->kind == b->kind && mats && a->n == b->n && a->n_head == b->n_head && a->n_kv == b->n_kv && a->hd == b->hd && a->of_rows == b->of_rows &&
           a->window == b->window && (a->res == IE_NO_OFF) == (b->res == IE_NO_OFF) && (a->vec == IE_NO_W) == (b->vec == IE_NO_W) &&
           (a->q8 == IE_NO_OFF) == (b->q8 == IE_NO_OFF);
}
static bool same(const job *j, const row *r, const ie_op *ops, uint32_t n, bool fused) {
    bool yes = r->n_op == n && r->fused == fused;
    for (uint32_t i = 0; i < n && yes; i++) yes = same_op(j->model->w.mat, &r->op[i], &ops[i]);
    return yes;
}

static void describe(const job *j, row *r) {
    const ie_op *op = &r->op[0];
    size_t at = 0;
    for (uint32_t i = 0; i < r->n_op && op->kind == OP_MATMUL; i++) {
        if (r->op[i].kind != OP_MATMUL) continue;
        const ie_mat *m = &j->model->w.mat[r->op[i].mat];
        r->weights += (double)m->bytes;
        at += (size_t)snprintf(r->what + at, sizeof r->what - at, "%s%u %s", i ? ", " : "", m->rows, m->fmt->name);
        if (at >= sizeof r->what) return;
    }
    if (op->kind == OP_MATMUL) snprintf(r->what + at, sizeof r->what - at, " x %u%s", j->model->w.mat[op->mat].cols, r->fused ? ", norm" : "");
    else if (op->n_head) snprintf(r->what, sizeof r->what, "%u heads, %u, of %u", op->n_head, op->n_kv, op->hd);
    else snprintf(r->what, sizeof r->what, "%u values", op->n);
}

/* The launches since `before`, to r. */
static ie_status take(const job *j, row *r, unsigned long long before, ie_error *err) {
    unsigned long long n = j->sim.launches() - before;
    double longest = 0;
    if (n > 16) return ie_fail(err, IE_E_UNSUPPORTED, "%s: %llu launches, at most 16 can be taken", ie_op_table[r->op[0].kind].name, n);
    r->launches = (uint32_t)n;
    for (unsigned i = 0; i < (unsigned)n; i++) {
        tm_counts c = counts_of(&j->sim, i);
        tm_bound b;
        double us = tm_launch_us(&c, &b);
        if (us > longest) longest = us, r->bound = b, snprintf(r->kernel, sizeof r->kernel, "%s", j->sim.kernel(i)), r->groups = j->sim.figure("workgroups", i);
        r->us += us, r->sum.bytes += c.bytes, r->sum.issue_us += c.issue_us, r->sum.alone_us += c.alone_us, r->sum.lds_us += c.lds_us;
    }
    return IE_OK;
}

static ie_status new_row(job *j, row **out, const ie_op *op, uint32_t n, bool fused, ie_error *err) {
    if (j->n == ROWS) return ie_fail(err, IE_E_UNSUPPORTED, "more than %u different ops", ROWS);
    *out = &j->row[j->n++];
    **out = (row){.n_op = n, .fused = fused, .times = 1};
    memcpy((*out)->op, op, n * sizeof *op);
    return IE_OK;
}

/* Ops i .. i + n - 1, which are done together. */
static ie_status run_ops(job *j, uint32_t i, uint32_t n, bool fused, ie_error *err) {
    const ie_op *op = &j->lab.plan.list.ops[i];
    row *r = NULL;
    for (uint32_t k = 0; k < j->n && !r; k++)
        if (same(j, &j->row[k], op, n, fused)) r = &j->row[k];
    if (r) return r->times++, IE_OK;
    ie_status st = new_row(j, &r, op, n, fused, err);
    if (st) return st;
    describe(j, r);
    unsigned long long before = j->sim.launches();
    j->sim.keep(op->kind == OP_MATMUL && n == 1 ? j->sample : 0); /* where workgroups differ, all of them */
    st = ie_lab_run(&j->lab, &j->batch, i, i + n, err);
    if (!st) st = take(j, r, before, err);
    if (st || !fused) return st;
    before = j->sim.launches();
    st = ie_lab_run(&j->lab, &j->batch, i, i + 1u, err);
    if (!st && j->sim.launches() - before == r->launches) r->us += r->sum.alone_us - j->sim.figure("alone_us", 0);
    return st;
}

/* Choosing the token, as the greedy loop asks for it. */
static ie_status choose(job *j, ie_error *err) {
    ie_op op = {.kind = OP_KINDS, .mat = IE_NO_W};
    row *r = NULL;
    ie_cand best;
    uint32_t have;
    ie_status st = new_row(j, &r, &op, 1, false, err);
    if (st) return st;
    snprintf(r->what, sizeof r->what, "1 of %u", j->model->hp.n_vocab);
    j->sim.keep(0);
    unsigned long long before = j->sim.launches();
    st = j->api.top(j->model->be, j->lab.st, 256ull * j->lab.plan.logits, j->model->hp.n_vocab, 1, &best, &have, err);
    return st ? st : take(j, r, before, err);
}

static ie_status run(job *j, ie_error *err) {
    int32_t token[IE_DECODE_T] = {0};
    ie_status st = ie_lab_open(&j->lab, j->model, 1, j->pos + j->tokens, err);
    if (st) return st;
    gpu_state *s = gpu_state_of(j->lab.st);
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): where a file does not open, err has a code, and model_open ends
    if (j->model->gdn.n_layer) s->log.at[0] = (ie_gdn_place){j->pos, j->pos}; /* as if the tokens before had been taken one by one */
    ie_lab_batch_make(&j->lab, &j->batch, token, 1, j->tokens, j->pos);
    j->sim.keep(0);
    gpu_backend *g = gpu_of(j->model->be);
    gpu_run how = {.card = gpu_driver_card(g->drv), .w = &j->model->w, .step = &j->batch.step, .mat = &g->mat};
    for (uint32_t i = 0, n; i < j->lab.plan.list.n && !st; i += n) {
        n = gpu_launch_ops(&how, &j->lab.plan.list, i, j->lab.plan.list.n);
        st = run_ops(j, i, n, how.norm != NULL, err);
    }
    return st ? st : choose(j, err);
}

static void print(const job *j) {
    double ms = 0, gb = 0;
    uint32_t launches = 0;
    puts(j->csv ? "op,what,times,launches,kernel,workgroups,MB,alone_us,issue_us,us,GB/s,bound,ms"
                : "op       what                                  times  kernel                 groups       MB    alone    issue       us  GB/s  bound        ms");
    for (uint32_t i = 0; i < j->n; i++) {
        const row *r = &j->row[i];
        const char *name = r->op[0].kind == OP_KINDS ? "choose" : ie_op_table[r->op[0].kind].name;
        double all = r->us * r->times * 1e-3, rate = r->weights / r->us * 1e-3;
        printf(j->csv ? "%s,\"%s\",%u,%u,%s,%.0f,%.3f,%.2f,%.2f,%.2f,%.0f,%s,%.4f\n" : "%-8s %-37s %3u x%2u  %-21s %7.0f %8.2f %8.2f %8.2f %8.2f %5.0f  %-9s %6.3f\n", name,
               r->what, r->times, r->launches, r->kernel, r->groups, r->sum.bytes * 1e-6, r->sum.alone_us, r->sum.issue_us, r->us, rate,
               tm_bound_names[r->bound], all);
        ms += all, gb += r->weights * r->times * 1e-9, launches += r->times * r->launches;
    }
    double gap = launches * TM_GAP * 1e-3, step = ms + gap;
    printf("launches %u, kernels %.2f ms, gaps %.2f ms\n", launches, ms, gap);
    printf("step %.2f ms, %.1f tokens/s; weights %.3f GB, which memory gives in %.2f ms (%.0f GB/s)\n", step, 1e3 * j->tokens / step, gb, gb / TM_READ * 1e3,
           TM_READ);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* One line; false: more than 10 % apart. */
static bool compare(const char *what, const char *unit, double model, double published, bool fit) {
    double off = 100.0 * (model / published - 1.0);
    printf("%-42s %8.2f %8.2f %s %+6.1f %%%s\n", what, published, model, unit, off, fit ? "  (fitted)" : "");
    return off < 10.0 && off > -10.0;
}
static bool reference(void) {
    bool ok = true;
    printf("%-42s %8s %8s\n", "reference system", "published", "model");
    for (size_t i = 0; i < COUNT(tm_ref_matrices); i++) {
        const tm_ref_matrix *r = &tm_ref_matrices[i];
        ok = compare(r->what, "GB/s", tm_ref_matrix_gbs(r), r->gbs, r->fit) && ok;
    }
    for (size_t i = 0; i < COUNT(tm_ref_steps); i++) ok = compare(tm_ref_steps[i].what, "ms  ", tm_ref_step_ms(&tm_ref_steps[i]), tm_ref_steps[i].ms, false) && ok;
    return ok;
}

static bool number(const char *s, uint32_t lo, uint32_t hi, uint32_t *out) {
    char *end;
    unsigned long v = strtoul(s, &end, 10);
    *out = (uint32_t)v;
    return *s >= '0' && *s <= '9' && !*end && v >= lo && v <= hi;
}

static ie_status estimate(const char *self, const char *file, job *j, ie_error *err) {
    ie_status st = sim_open(&j->sim, self, err);
    if (!st) st = model_open(&j->model, &j->api, file, err);
    if (!st) st = run(j, err);
    if (!st) print(j);
    if (!st && (fflush(stdout) || ferror(stdout))) st = ie_fail(err, IE_E_IO, "standard output: the table could not be written whole");
    if (j->lab.m) ie_lab_close(&j->lab);
    ie_model_close(j->model);
    return st;
}

int main(int argc, char **argv) {
    static const struct option longs[] = {{"reference", no_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {0}};
    static job j = {.pos = 100, .tokens = 1, .sample = 16};
    bool ok = true, ref = false, help = false;
    for (int c; (c = getopt_long(argc, argv, "p:t:s:ch", longs, NULL)) != -1;) {
        if (c == 'p') ok = ok && number(optarg, 0, 1u << 18, &j.pos);
        else if (c == 't') ok = ok && number(optarg, 1, IE_DECODE_T, &j.tokens);
        else if (c == 's') ok = ok && number(optarg, 0, 1u << 20, &j.sample);
        else if (c == 'c') j.csv = true;
        else if (c == 'r') ref = true;
        else if (c == 'h') help = true;
        else ok = false;
    }
    if (help) return fputs(USAGE, stdout) < 0;
    if (!ok || argc - optind != !ref) {
        fputs(USAGE, stderr);
        return 2;
    }
    if (ref) return !reference() || fflush(stdout) || ferror(stdout);
    ie_error err = {0};
    ie_status st = estimate(argv[0], argv[optind], &j, &err);
    if (st) fprintf(stderr, "step_time: %s\n", err.msg);
    return st ? 2 : 0;
}
