/* mtp_check MODEL.gguf IDS [BATCH]: logits of the MTP layer after each token, as `ie-run --dump-logits` writes them. The layer
 * takes the main model's hidden states; BATCH tokens (default 16) at a time go through both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

#define MAX_T 512u

static int fail(const ie_error *err) {
    fprintf(stderr, "mtp_check: %s\n", err->msg);
    return 1;
}

typedef struct {
    ie_model *m;
    ie_state *st;
    ie_exec_plan main, mtp;
    uint32_t n_pages, *pages;
    float *rope, *hidden, *logits;
} check;

static ie_status run(check *c, const ie_exec_plan *p, ie_step *s, ie_error *err) {
    return c->m->be->api->run(c->m->be, c->st, &c->m->w, &p->list, 0, p->head_at, s, err);
}

/* hidden[0] is the state before the batch; receives the last one. */
static ie_status batch(check *c, const int32_t *ids, uint32_t from, uint32_t n, ie_error *err) {
    int32_t seq[MAX_T] = {0}, pos[MAX_T];
    uint32_t out[IE_HEAD_ROWS], e = c->m->hp.n_embd, v = c->m->hp.n_vocab;
    const ie_backend_api *api = c->m->be->api;
    for (uint32_t i = 0; i < n; i++) pos[i] = (int32_t)(from + i);
    ie_step s = {.phase = n <= IE_DECODE_T ? IE_DECODE : IE_PREFILL, .n = n, .token = ids + from, .seq = seq, .pos = pos,
                 .page_table = c->pages, .rope_n = c->n_pages * IE_PAGE};
    ie_status st = run(c, &c->main, &s, err);
    if (!st) st = api->read(c->m->be, c->st, c->main.hidden_out * 256ull, c->hidden + e, (uint64_t)n * e * 4, err);
    if (!st) st = api->write(c->m->be, c->st, c->mtp.hidden_in * 256ull, c->hidden, (uint64_t)n * e * 4, err);
    memcpy(c->hidden, c->hidden + (size_t)n * e, e * sizeof(float));
    if (!st) st = run(c, &c->mtp, &s, err);
    for (uint32_t i = 0; i < n && !st; i += IE_HEAD_ROWS) {
        s.out = out;
        s.n_out = n - i < IE_HEAD_ROWS ? n - i : IE_HEAD_ROWS;
        for (uint32_t k = 0; k < s.n_out; k++) out[k] = i + k;
        st = api->run(c->m->be, c->st, &c->m->w, &c->mtp.list, c->mtp.head_at, c->mtp.list.n, &s, err);
        if (!st) st = api->read(c->m->be, c->st, c->mtp.logits * 256ull, c->logits, (uint64_t)s.n_out * v * 4, err);
        for (uint32_t k = 0; k < s.n_out && !st; k++) {
            printf("%u %d", from + i + k, ids[from + i + k]);
            for (uint32_t j = 0; j < v; j++) printf(" %.9g", (double)c->logits[(size_t)k * v + j]);
            putchar('\n');
        }
    }
    return st;
}

static ie_status open_check(check *c, const char *path, uint32_t n, ie_error *err) {
    c->m = ie_model_open(path, &(ie_model_params){.mtp = 1}, err);
    if (!c->m) return err->code;
    ie_status st = ie_model_plan(c->m, MAX_T, &c->main, err);
    if (!st) st = ie_model_plan_mtp(c->m, MAX_T, &c->mtp, err);
    if (st) return st;
    c->n_pages = (n + IE_PAGE - 1) / IE_PAGE;
    uint32_t half = c->m->hp.rope.dim / 2;
    c->pages = calloc(c->n_pages, sizeof *c->pages);
    c->rope = calloc((size_t)c->n_pages * IE_PAGE * half * 2, sizeof *c->rope);
    c->hidden = calloc((size_t)(MAX_T + 1) * c->m->hp.n_embd, sizeof *c->hidden);
    c->logits = calloc((size_t)IE_HEAD_ROWS * c->m->hp.n_vocab, sizeof *c->logits);
    if (!c->pages || !c->rope || !c->hidden || !c->logits) return ie_fail(err, IE_E_NOMEM, "no memory");
    for (uint32_t i = 0; i < c->n_pages; i++) c->pages[i] = i;
    ie_rope_fill(&c->m->hp.rope, 0, c->n_pages * IE_PAGE, c->rope);
    uint64_t arena = c->main.arena_bytes > c->mtp.arena_bytes ? c->main.arena_bytes : c->mtp.arena_bytes;
    ie_state_desc d = {.arena_bytes = arena, .kv = c->m->kv, .gdn = c->m->gdn, .n_pages = c->n_pages, .n_seq = 1, .max_t = MAX_T,
                       .pages_per_seq = c->n_pages, .rope_half = half, .rope = c->rope};
    return c->m->be->api->state_new(c->m->be, &d, &c->st, err);
}

int main(int argc, char **argv) {
    static int32_t ids[1u << 16];
    uint32_t n = 0, size = argc > 3 ? (uint32_t)atoi(argv[3]) : 16;
    for (char *p = argc > 2 ? strtok(argv[2], ",") : NULL; p && n < sizeof ids / sizeof *ids; p = strtok(NULL, ",")) ids[n++] = atoi(p);
    if (n == 0 || size < 1 || size > MAX_T) {
        fprintf(stderr, "usage: mtp_check MODEL.gguf IDS [BATCH]\n");
        return 2;
    }
    check c = {0};
    ie_error err = {0};
    ie_status st = open_check(&c, argv[1], n, &err);
    for (uint32_t i = 0; i < n && !st; i += size) st = batch(&c, ids, i, n - i < size ? n - i : size, &err);
    if (c.st) c.m->be->api->state_free(c.m->be, c.st);
    ie_exec_plan_free(&c.main);
    ie_exec_plan_free(&c.mtp);
    ie_model_close(c.m);
    free(c.pages);
    free(c.rope);
    free(c.hidden);
    free(c.logits);
    return st ? fail(&err) : 0;
}
