/* gemv_bench [-b hip|cuda|gpu] [-k FILE] [-t TOKENS,...] [-r RUNS] [-n LAUNCHES] [-m MB] [ROWSxCOLS ...]: how fast matrices are read. For each format and
 * shape: a kernel that only reads as many bytes (the best of some grids), then products of 1, 8, 16 tokens, in the same run. 100 launches
 * are one graph, each with another copy of the weights, so that no cache helps.
 *
 *     KIND=q4k,q6k build/tools/gemv_bench 34816x5120        formats: the environment's KIND (default: q4_0,q8_0,q4_k,q6_k)
 *
 * -k: GPU code instead of the built-in. -r: runs of the graph (10). -n: launches in it (100). -m: megabytes of weights (1500). GB/s: bytes of the
 * weights alone; x: times of one token. Warm up a card first; on the simulator times mean nothing. */
#include <unistd.h>

#include "gemv_rig.h"
#include "ie_launch.h"

static const char *const default_shapes[] = {"248320x5120", "34816x5120", "5120x17408", "14336x5120", "5120x6144", "28672x4096", "4096x14336", "4096x4096",
                                             "17920x1536", "1536x8960", "9728x896", "896x4864"};

typedef struct {
    uint32_t launches, runs, mb, tokens[8], n_tokens;
} plan;

/* The best of several grids. */
static ie_status time_read(const gemv_rig *r, const plan *p, double *best, ie_error *err) {
    static const uint32_t per_unit[] = {1, 2, 4, 8, 16};
    const gpu_card *card = gpu_driver_card(r->dev->drv);
    ie_status st = IE_OK;
    *best = 0;
    for (uint32_t g = 0; g < sizeof per_unit / sizeof *per_unit && !st; g++) {
        gpu_launches l = {0};
        double us = 0;
        for (uint32_t i = 0; i < p->launches && !st; i++) {
            uint32_t groups = ie_grid_pad(card->units * per_unit[g], IE_WG_WAVES);
            ie_abi_read a = {.p = r->weights + i % r->copies * r->copy_bytes, .out = r->arena + 256u * (uint64_t)r->y, .n = (uint32_t)(r->copy_bytes / 16u),
                             .groups = groups, .never = 0x12345678u};
            st = gpu_add(&l, "ie_read", groups, 1, 256, &a, sizeof a, err);
        }
        if (!st) st = rig_time(r, &l, p->runs, &us, err);
        us /= p->launches;
        if (*best == 0 || us < *best) *best = us;
        free(l.v);
    }
    return st;
}

static ie_status measure(gemv_dev *d, const ie_format *f, const char *shape, const plan *p, ie_error *err) {
    gemv_rig r;
    uint32_t rows, cols;
    if (!shape_of(shape, &rows, &cols)) return ie_fail(err, IE_E_ARG, "shape '%.40s': ROWSxCOLS, at most %ux%u, is allowed", shape, IE_MAX_ROWS, IE_MAX_K);
    if (f->dot != IE_FLOAT && cols % (f->blocks * IE_BLOCK)) {
        printf("%-7s %6u x %-5u skip: rows of this format are multiples of %u\n", f->name, rows, cols, f->blocks * IE_BLOCK);
        return IE_OK;
    }
    ie_status st = rig_open(&r, d, f, rows, cols, p->mb, err);
    if (st) return st;
    double read = 0, us = 0, first = 0, mb = (double)r.mat.bytes / 1e6;
    st = time_read(&r, p, &read, err);
    if (!st) printf("%-7s %6u x %-5u %6.1f MB  read %8.1f us %5.0f GB/s", f->name, rows, cols, mb, read, mb * 1e3 / read);
    for (uint32_t i = 0; i < p->n_tokens && !st; i++) {
        st = rig_time_product(&r, p->tokens[i], p->launches, p->runs, &us, err);
        if (i == 0) first = us;
        if (!st) printf("  | %2u: %8.1f us %5.0f GB/s %3.0f %% %5.2f x", p->tokens[i], us, mb * 1e3 / us, 100.0 * read / us, us / first);
        fflush(stdout);
    }
    puts("");
    rig_close(&r);
    return st;
}

/* "1,8,16" */
static bool tokens_of(const char *s, plan *p) {
    for (p->n_tokens = 0; *s;) {
        char one[8] = {0};
        size_t n = strcspn(s, ",");
        if (n > 2 || p->n_tokens == 8) return false;
        memcpy(one, s, n);
        if (!number_of(one, 1, IE_DECODE_T, &p->tokens[p->n_tokens++])) return false;
        s += n + (s[n] == ',');
    }
    return p->n_tokens > 0;
}

int main(int argc, char **argv) {
    const char *vendor = "gpu", *file = NULL, *kind = getenv("KIND");
    plan p = {.launches = 100, .runs = 10, .mb = 1500, .tokens = {1, 8, 16}, .n_tokens = 3};
    uint32_t kinds = 0;
    bool ok = true;
    for (int c; (c = getopt(argc, argv, "b:k:t:r:n:m:")) != -1;) {
        if (c == 'b') vendor = optarg;
        else if (c == 'k') file = optarg;
        else if (c == 't') ok = ok && tokens_of(optarg, &p);
        else if (c == 'r') ok = ok && number_of(optarg, 1, 1000, &p.runs);
        else if (c == 'n') ok = ok && number_of(optarg, 1, 10000, &p.launches);
        else if (c == 'm') ok = ok && number_of(optarg, 0, 100000, &p.mb);
        else ok = false;
    }
    if (!ok) {
        fputs("usage: KIND=q4k,q6k gemv_bench [-b hip|cuda|gpu] [-k FILE] [-t TOKENS,...] [-r RUNS] [-n LAUNCHES] [-m MEGABYTES] [ROWSxCOLS ...]\n", stderr);
        return 2;
    }
    const char *const *shapes = optind < argc ? (const char *const *)argv + optind : default_shapes;
    int n = optind < argc ? argc - optind : (int)(sizeof default_shapes / sizeof *default_shapes);
    ie_error err = {0};
    gemv_dev d = {0};
    ie_status st = kinds_of(kind ? kind : "q4_0,q8_0,q4_k,q6_k", &kinds, &err);
    if (!st) st = dev_open(&d, vendor, file, &err);
    if (!st) printf("%s, %s, %u units\n", gpu_driver_card(d.drv)->name, gpu_driver_card(d.drv)->arch, gpu_driver_card(d.drv)->units);
    for (int i = 0; i < n; i++)
        for (uint32_t f = 0; f < IE_F_COUNT && !st; f++)
            if (kinds >> f & 1u) st = measure(&d, &ie_formats[f], shapes[i], &p, &err);
    if (st) fprintf(stderr, "gemv_bench: %s\n", err.msg);
    dev_close(&d);
    return st ? 2 : 0;
}
