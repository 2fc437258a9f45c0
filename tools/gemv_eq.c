/* gemv_eq [-b hip|cuda|gpu] [-k FILE] [-r RUNS] [-m MB] [ROWSxCOLS ...]: the products of 2 to 16 tokens have the bits of each token's own product, by
 * every kernel that can do them; then both are timed.
 *
 *     KIND=q4k,q6k,q8_0 build/tools/gemv_eq 5120x17408        formats: the environment's KIND (default: all)
 *     LD_LIBRARY_PATH=build/sim build/tools/gemv_eq -b hip -r 0 70x2304        on the simulator; times there mean nothing
 *
 * -k: GPU code instead of the built-in. -r: runs of a graph of 100 products (5; 0: no times). -m: megabytes of weights to go round (1000).
 * Exit status: 0 equal, 1 a bit differs, 2 failed. */
#include <unistd.h>

#include "gemv_rig.h"

#define LAUNCHES 100u

static const char *const default_shapes[] = {"5120x5120", "17408x5120", "5120x17408", "34816x5120"};

static bool same(uint32_t a, uint32_t b) {
    return a == b || ((a & 0x7FFFFFFFu) > 0x7F800000u && (b & 0x7FFFFFFFu) > 0x7F800000u);
}

/* What stands in the results' rows 0 .. n - 1. */
static ie_status read_rows(const gemv_rig *r, uint32_t n, uint32_t *out, ie_error *err) {
    gemv_dev *d = r->dev;
    ie_status st = gpu_download(d->drv, out, r->arena + 256u * (uint64_t)r->y, 4ull * n * r->mat.rows, d->stream, err);
    return st ? st : gpu_stream_sync(d->drv, d->stream, err);
}
static ie_status product(const gemv_rig *r, uint32_t n, uint32_t t, uint32_t to, ie_error *err) {
    gpu_launches l = {0};
    ie_status st = rig_add(r, 0, n, t, to, &l, err);
    if (!st) st = rig_run(r, &l, err);
    free(l.v);
    return st;
}

/* All numbers of tokens against `want`; *differ counts sums. */
static ie_status compare(gemv_rig *r, const uint32_t *want, uint32_t *got, uint64_t *sums, uint64_t *differ, ie_error *err) {
    static const gpu_mat_choice choices[] = {{5, false, false, false}, {2, false, false, false}, {17, false, false, false}, {5, true, false, false}};
    const gpu_mat_choice own = r->choice;
    ie_status st = IE_OK;
    for (uint32_t c = 0; c < sizeof choices / sizeof *choices; c++)
        for (uint32_t n = 2; n <= IE_DECODE_T && !st; n++) {
            uint64_t all = (uint64_t)n * r->mat.rows, bad = 0, first = 0;
            r->choice = choices[c];
            st = gpu_fill(r->dev->drv, r->arena + 256u * (uint64_t)r->y, 0xFF, 4u * all, r->dev->stream, err);
            if (!st) st = product(r, n, 0, 0, err);
            if (!st) st = read_rows(r, n, got, err);
            for (uint64_t i = 0; i < all && !st; i++)
                if (!same(want[i], got[i]) && !bad++) first = i;
            if (bad)
                printf("%s %u x %u, %u tokens, matrix instructions from %u%s: %llu of %llu sums differ; first token %llu, row %llu: %08x, alone %08x\n",
                       r->mat.fmt->name, r->mat.rows, r->mat.cols, n, choices[c].mma_min, choices[c].nobatch ? ", a launch a token" : "",
                       (unsigned long long)bad, (unsigned long long)all, (unsigned long long)(first / r->mat.rows),
                       (unsigned long long)(first % r->mat.rows), got[first], want[first]);
            *sums += all;
            *differ += bad;
        }
    r->choice = own;
    return st;
}

static ie_status times(const gemv_rig *r, uint32_t runs, ie_error *err) {
    static const uint32_t tokens[] = {1, 2, 4, 5, 8, 16};
    double one = 0;
    ie_status st = IE_OK;
    for (uint32_t i = 0; i < sizeof tokens / sizeof *tokens && !st; i++) {
        double us = 0;
        st = rig_time_product(r, tokens[i], LAUNCHES, runs, &us, err);
        if (i == 0) one = us;
        if (!st && i == 0) printf("; 1 token %.1f us (%.0f GB/s)", us, (double)r->mat.bytes / us / 1e3);
        else if (!st) printf(", %u tokens %.1f (%.2f x)", tokens[i], us, us / one);
        fflush(stdout);
    }
    return st;
}

static ie_status check(gemv_dev *d, const ie_format *f, const char *shape, uint32_t mb, uint32_t runs, uint64_t *differ, ie_error *err) {
    gemv_rig r;
    uint32_t rows, cols;
    if (!shape_of(shape, &rows, &cols)) return ie_fail(err, IE_E_ARG, "shape '%.40s': ROWSxCOLS, at most %ux%u, is allowed", shape, IE_MAX_ROWS, IE_MAX_K);
    ie_status st = rig_open(&r, d, f, rows, cols, runs ? mb : 0, err);
    if (st) return st;
    uint64_t sums = 0, bad = 0;
    size_t bytes = (size_t)IE_DECODE_T * rows * 4u;
    uint32_t *want = malloc(bytes), *got = malloc(bytes);
    if (!want || !got) st = ie_fail(err, IE_E_NOMEM, "no memory for %zu bytes of results", bytes);
    for (uint32_t t = 0; t < IE_DECODE_T && !st; t++) st = product(&r, 1, t, t, err);
    if (!st) st = read_rows(&r, IE_DECODE_T, want, err);
    if (!st) st = compare(&r, want, got, &sums, &bad, err);
    if (!st && !bad) printf("%s %u x %u: %llu sums of 2 to 16 tokens equal those of one", f->name, rows, cols, (unsigned long long)sums);
    if (!st && !bad && runs) st = times(&r, runs, err);
    if (!st && !bad) puts("");
    *differ += bad;
    free(want), free(got);
    rig_close(&r);
    return st;
}

int main(int argc, char **argv) {
    const char *vendor = "gpu", *file = NULL, *kind = getenv("KIND");
    uint32_t runs = 5, mb = 1000, kinds = 0;
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "b:k:r:m:")) != -1;) {
        if (c == 'b') vendor = optarg;
        else if (c == 'k') file = optarg;
        else if (c == 'r') ok = ok && number_of(optarg, 0, 1000, &runs);
        else if (c == 'm') ok = ok && number_of(optarg, 0, 100000, &mb);
        else ok = false;
    }
    if (!ok) {
        fputs("usage: KIND=q4k,q6k gemv_eq [-b hip|cuda|gpu] [-k FILE] [-r RUNS] [-m MEGABYTES] [ROWSxCOLS ...]\n", stderr);
        return 2;
    }
    const char *const *shapes = optind < argc ? (const char *const *)argv + optind : default_shapes;
    int n = optind < argc ? argc - optind : (int)(sizeof default_shapes / sizeof *default_shapes);
    ie_error err = {0};
    gemv_dev d = {0};
    uint64_t differ = 0;
    ie_status st = kinds_of(kind ? kind : "all", &kinds, &err);
    if (!st) st = dev_open(&d, vendor, file, &err);
    for (uint32_t f = 0; f < IE_F_COUNT; f++)
        for (int i = 0; i < n && !st && kinds >> f & 1u; i++) st = check(&d, &ie_formats[f], shapes[i], mb, runs, &differ, &err);
    if (st) fprintf(stderr, "gemv_eq: %s\n", err.msg);
    dev_close(&d);
    return st ? 2 : differ != 0;
}
