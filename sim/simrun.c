/* simrun: runs one kernel of a code object on the simulator, with buffers from files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"
#include "sim.h"

static const char USAGE[] =
    "usage: simrun [options] KERNEL.hsaco NAME [argument ...]\n"
    "  --grid X[,Y[,Z]]   workgroups (default 1)        --block X[,Y[,Z]]  work-items a workgroup (default 32)\n"
    "  --lds BYTES        dynamic LDS                   --coop             cooperative launch\n"
    "  --strict           every check                   --race, --weak SEED, --ulp SEED\n"
    "  --trace            each instruction with the registers it changed, to stderr\n"
    "  --stats[=FILE]     figures: text, or FILE.csv / FILE.json\n"
    "  --threads N        host threads                  --limit N          wave instructions at most\n"
    "  --sample N         figures of N workgroups, spread evenly, instead of all (results are then incomplete)\n"
    "  --repeat N         launches (for timing)         --list             kernels of the object, then stop\n"
    "  --text             each kernel's instructions, then stop: address, text, target of a branch\n"
    "arguments, in the kernel's order:\n"
    "  in:FILE            a buffer with FILE's bytes    out:FILE:BYTES     a buffer of zeros, written to FILE at the end\n"
    "  inout:FILE:OUT     both                          buf:BYTES          a buffer of zeros\n"
    "  new:FILE:BYTES     a buffer never written, written to FILE at the end\n"
    "  i32:V u32:V i64:V u64:V f32:V f64:V              values\n";

#define MAX_ARGS 64

typedef struct {
    u64 addr, size;
    const char *out;
} buffer;

typedef struct {
    sim_device dev;
    sim_launch cfg;
    u64 repeat;
    bool list, text;
    buffer bufs[MAX_ARGS];
    u32 n_bufs;
    u8 args[MAX_ARGS * 8];
    size_t args_n;
} run;

static bool read_file(const char *path, u8 **data, size_t *n, sim_error *err) {
    FILE *f = fopen(path, "rb");
    if (!f) return sim_fail(err, "%s: %s", path, strerror(errno));
    size_t cap = 1 << 16, len = 0;
    u8 *p = malloc(cap);
    while (p) {
        size_t got = fread(p + len, 1, cap - len, f);
        len += got;
        if (got == 0) break;
        if (len == cap) {
            u8 *q = realloc(p, cap *= 2);
            if (!q) free(p);
            p = q;
        }
    }
    bool bad = ferror(f) != 0;
    fclose(f);
    if (!p || bad) {
        free(p);
        return sim_fail(err, "%s: cannot be read", path);
    }
    *data = p;
    *n = len;
    return true;
}

static bool parse_u64(const char *s, u64 *v) {
    char *end;
    errno = 0;
    *v = strtoull(s, &end, 0);
    return *s && !*end && !errno;
}

static bool parse_dims(const char *s, u32 d[3]) {
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long v = strtoul(s, &end, 10);
        if (end == s || v > 0x7FFFFFFF) return false;
        d[i] = (u32)v;
        if (!*end) return true;
        if (*end != ',') return false;
        s = end + 1;
    }
    return false;
}

static bool put(run *r, const sim_kernel *k, u32 index, const void *v, size_t n, sim_error *err) {
    u32 seen = 0;
    for (u32 i = 0; i < k->n_args; i++) {
        const sim_arg *a = &k->args[i];
        if (a->kind != SIM_ARG_VALUE && a->kind != SIM_ARG_BUFFER) continue;
        if (seen++ != index) continue;
        if (a->size != n) return sim_fail(err, "argument %u has %u bytes in kernel %s, %zu given", index, a->size, k->name, n);
        if (a->offset + n > sizeof r->args) return sim_fail(err, "too many arguments");
        memcpy(r->args + a->offset, v, n);
        if (r->args_n < a->offset + n) r->args_n = a->offset + n;
        return true;
    }
    return sim_fail(err, "kernel %s has %u arguments", k->name, seen);
}

static bool add_buffer(run *r, const sim_kernel *k, u32 index, const void *data, u64 size, bool written, const char *out,
                       sim_error *err) {
    if (r->n_bufs == MAX_ARGS) return sim_fail(err, "at most %d buffers", MAX_ARGS);
    u64 p = sim_malloc(r->dev.mem, size, "buffer", err);
    if (!p) return false;
    if (data) memcpy((void *)(uintptr_t)p, data, size);
    if (written) sim_mark_written(r->dev.mem, p, size);
    r->bufs[r->n_bufs++] = (buffer){p, size, out};
    return put(r, k, index, &p, 8, err);
}

static bool buffer_arg(run *r, const sim_kernel *k, u32 index, const char *kind, char *rest, sim_error *err) {
    char *colon = strrchr(rest, ':');
    u8 *data = NULL;
    size_t n = 0;
    u64 size;
    bool ok;
    if (!strcmp(kind, "in") || (!strcmp(kind, "inout") && colon)) {
        const char *out = NULL;
        if (kind[2]) {
            *colon = 0;
            out = colon + 1;
        }
        ok = read_file(rest, &data, &n, err) && add_buffer(r, k, index, data, n, true, out, err);
        free(data);
        return ok;
    }
    if (!strcmp(kind, "buf") && parse_u64(rest, &size)) return add_buffer(r, k, index, NULL, size, true, NULL, err);
    bool fresh = !strcmp(kind, "new");
    if ((fresh || !strcmp(kind, "out")) && colon && parse_u64(colon + 1, &size)) {
        *colon = 0;
        return add_buffer(r, k, index, NULL, size, !fresh, rest, err);
    }
    return sim_fail(err, "argument %u: '%s:%s' is not understood", index, kind, rest);
}

static bool one_arg(run *r, const sim_kernel *k, u32 index, char *s, sim_error *err) {
    char *colon = strchr(s, ':');
    if (!colon) return sim_fail(err, "argument %u: '%s' has no kind", index, s);
    *colon = 0;
    char *v = colon + 1, *end = v;
    if (!strcmp(s, "f32")) {
        float f = strtof(v, &end);
        return (*v && !*end) ? put(r, k, index, &f, 4, err) : sim_fail(err, "argument %u: '%s' is no number", index, v);
    }
    if (!strcmp(s, "f64")) {
        double f = strtod(v, &end);
        return (*v && !*end) ? put(r, k, index, &f, 8, err) : sim_fail(err, "argument %u: '%s' is no number", index, v);
    }
    size_t n = !strcmp(s, "i32") || !strcmp(s, "u32") ? 4 : !strcmp(s, "i64") || !strcmp(s, "u64") ? 8 : 0;
    if (!n) return buffer_arg(r, k, index, s, v, err);
    u64 x = *s == 'i' ? (u64)strtoll(v, &end, 0) : strtoull(v, &end, 0);
    return (*v && !*end) ? put(r, k, index, &x, n, err) : sim_fail(err, "argument %u: '%s' is no number", index, v);
}

static bool write_outputs(const run *r, sim_error *err) {
    for (u32 i = 0; i < r->n_bufs; i++) {
        if (!r->bufs[i].out) continue;
        FILE *f = fopen(r->bufs[i].out, "wb");
        if (!f) return sim_fail(err, "%s: %s", r->bufs[i].out, strerror(errno));
        size_t n = fwrite((const void *)(uintptr_t)r->bufs[i].addr, 1, r->bufs[i].size, f);
        if (fclose(f) || n != r->bufs[i].size) return sim_fail(err, "%s: cannot be written", r->bufs[i].out);
    }
    return true;
}

/* Options before the file name; returns the index of the first other word, or -1. */
static int options(run *r, int argc, char **argv) {
    int i = 1;
    for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
        const char *o = argv[i] + 2;
        sim_options *opt = &r->dev.opt;
        const char *v = i + 1 < argc ? argv[i + 1] : "";
        u64 x = 0;
        bool num = parse_u64(v, &x);
        if (!strcmp(o, "strict")) opt->strict = true;
        else if (!strcmp(o, "race")) opt->race = true;
        else if (!strcmp(o, "trace")) opt->trace = true;
        else if (!strcmp(o, "coop")) r->cfg.cooperative = true;
        else if (!strcmp(o, "list")) r->list = true;
        else if (!strcmp(o, "text")) r->text = true;
        else if (!strcmp(o, "stats")) opt->stats = "1";
        else if (!strncmp(o, "stats=", 6)) opt->stats = o + 6;
        else if (!strcmp(o, "grid") && parse_dims(v, r->cfg.grid)) i++;
        else if (!strcmp(o, "block") && parse_dims(v, r->cfg.block)) i++;
        else if (!num) return -1;
        else if (i++, !strcmp(o, "lds")) r->cfg.dyn_lds = x > 1u << 20 ? 1u << 20 : (u32)x;
        else if (!strcmp(o, "weak")) opt->weak = true, opt->weak_seed = x;
        else if (!strcmp(o, "ulp")) opt->ulp_seed = x;
        else if (!strcmp(o, "threads") && x >= 1 && x <= 256) opt->threads = (u32)x;
        else if (!strcmp(o, "limit")) opt->limit = x;
        else if (!strcmp(o, "sample")) opt->sample = x < UINT32_MAX ? (u32)x : 0;
        else if (!strcmp(o, "vector") && x <= opt->level) opt->level = (u32)x;
        else if (!strcmp(o, "repeat")) r->repeat = x;
        else return -1;
    }
    return i;
}

static int run_kernel(run *r, sim_module *m, const char *name, char **argv, int argc, sim_error *err) {
    sim_kernel *k = sim_module_kernel(m, name);
    if (!k) {
        sim_fail(err, "no kernel '%s'; --list shows them", name);
        return 1;
    }
    for (int i = 0; i < argc; i++)
        if (!one_arg(r, k, (u32)i, argv[i], err)) return 1;
    for (u64 i = 0; i < r->repeat; i++)
        if (sim_run(&r->dev, m, k, &r->cfg, r->args, r->args_n, err) != SIM_OK) return 3;
    return write_outputs(r, err) ? 0 : 1;
}

static void list_kernels(const sim_module *m) {
    for (u32 i = 0; i < m->n_kernels; i++)
        printf("%s: %u bytes of arguments, %u VGPRs, %u of LDS, %u of scratch, %u waves a SIMD\n", m->kernels[i].name, m->kernels[i].kernarg_size,
               m->kernels[i].vgprs, m->kernels[i].lds, m->kernels[i].scratch, sim_waves_per_simd(&m->kernels[i]));
}

/* Functions of the code, each instruction with its address from the function's begin: "  1a4: s_cbranch_scc1 65519 -> 164". */
static bool print_text(const sim_module *m, sim_error *err) {
    const sim_symbol *last = NULL;
    for (u64 pc = m->text_lo; pc < m->text_hi;) {
        const sim_symbol *f = sim_symbol_at(m, pc);
        sim_inst in;
        char text[256];
        int n = f ? sim_decode((const u32 *)(uintptr_t)pc, (m->text_hi - pc) / 4, &in) : 1;
        if (!n) return sim_fail(err, "%s+0x%llx: no instruction", f->name, (unsigned long long)(pc - f->addr));
        if (f && f != last) printf("%s:\n", f->name);
        if (f) {
            sim_disasm(&in, pc, text, sizeof text);
            printf("%6llx: %s", (unsigned long long)(pc - f->addr), text);
            if (!strncmp(text, "s_cbranch", 9) || !strncmp(text, "s_branch", 8))
                printf(" -> %llx", (unsigned long long)(pc - f->addr + 4u + (u64)(4 * (int64_t)(int16_t)in.words[0])));
            puts("");
        }
        last = f ? f : last;
        pc += 4u * (u64)n;
    }
    return true;
}

int main(int argc, char **argv) {
    static run r;
    sim_error err = {{0}};
    r.cfg = (sim_launch){{1, 1, 1}, {32, 1, 1}, 0, false};
    r.repeat = 1;
    sim_options_from_env(&r.dev.opt);
    int at = options(&r, argc, argv);
    if (at < 0 || at >= argc || (!r.list && !r.text && at + 1 >= argc)) {
        fputs(USAGE, stderr);
        return 2;
    }
    u8 *data = NULL;
    size_t n = 0;
    int rc = 1;
    sim_module *m = NULL;
    r.dev.mem = sim_memory_new(r.dev.opt.strict, &err);
    if (r.dev.mem && read_file(argv[at], &data, &n, &err)) m = sim_module_load(r.dev.mem, data, n, &err);
    if (m && (r.list || r.text)) {
        if (r.list) list_kernels(m);
        rc = r.text && !print_text(m, &err);
    } else if (m) {
        rc = run_kernel(&r, m, argv[at + 1], argv + at + 2, argc - at - 2, &err);
    }
    if (rc) fprintf(stderr, "simrun: %s\n", err.text);
    free(data);
    sim_device_close(&r.dev);
    sim_module_free(m);
    sim_memory_free(r.dev.mem);
    return rc;
}
