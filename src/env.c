#include "env.h"

#include <stdlib.h>
#include <string.h>

typedef enum { V_CHOICE, V_SWITCH, V_NUMBER, V_COUNT, V_PATH } value_kind;

typedef struct {
    const char *name;
    value_kind kind;
    const char *values; /* for people; choices separated by '|' */
    const char *dflt;   /* the default's text */
    const char *help;
} env_row;

static const env_row rows[IE_ENV_COUNT] = {
    [IE_ENV_SIMD] = {"IE_SIMD", V_CHOICE, "avx512|avx2|portable", "best",
                     "Instruction set of the CPU backend. All give the same bits; one that this processor lacks is an "
                     "error. Default: the best that it has."},
    [IE_ENV_THREADS] = {"IE_THREADS", V_NUMBER, "1..1024", "cores",
                        "Threads of the CPU backend when no option gives their number. Default: the cores that affinity "
                        "and the control group's CPU quota leave to the process."},
    [IE_ENV_PREFILL] = {"IE_PREFILL", V_CHOICE, "decode", "",
                        "decode: prompts are computed in decode's order of operations. On the CPU only Gated DeltaNet layers "
                        "have another one, so there it means IE_GDN_CHUNK=0."},
    [IE_ENV_JOIN] = {"IE_JOIN", V_SWITCH, "0|1", "1",
                     "Join q, k, v and gate, up into one matrix each where their types are equal. Same bits either way."},
    [IE_ENV_Q6K_AS_Q8] = {"IE_Q6K_AS_Q8", V_SWITCH, "0|1", "0",
                          "Load Q6_K matrices as Q8_0 (approximate: requantised; more memory)."},
    [IE_ENV_ACT] = {"IE_ACT", V_CHOICE, "q8|f32", "q8",
                    "f32: activations stay floats for all matrices, keys and values are kept as floats (for debugging: slow)."},
    [IE_ENV_ATTN] = {"IE_ATTN", V_CHOICE, "old|check|split", "",
                     "GPU: attention kernels, all of equal bits. old: one workgroup a head; split: never share keys and values between "
                     "heads; check: run old and new, the largest relative difference is printed with the figures at the end."},
    [IE_ENV_ATTN_KV_MIN] = {"IE_ATTN_KV_MIN", V_COUNT, "0..131072", "768",
                            "GPU: positions beyond which heads and tokens share keys and values (ie_attn_kv), in steps of 256. A single token does so only "
                            "where this is set (AMD)."},
    [IE_ENV_ATTN_SPW] = {"IE_ATTN_SPW", V_COUNT, "0..512", "0",
                         "GPU: parts of 256 positions that a workgroup of ie_attn_kv takes. Default: as many as leave about 128 workgroups."},
    [IE_ENV_GDN_CHUNK] = {"IE_GDN_CHUNK", V_SWITCH, "0|1", "1",
                          "Take prompts through Gated DeltaNet layers in segments of 32 positions; 0: token by token."},
    [IE_ENV_GDN_CHECK] = {"IE_GDN_CHECK", V_SWITCH, "0|1", "0",
                          "Compute each prompt's Gated DeltaNet layers by segments and token by token; the largest differences "
                          "of results and states are printed with the figures at the end."},
    [IE_ENV_PROFILE] = {"IE_PROFILE", V_CHOICE, "0|1|2", "0",
                        "1: time every op and print a table by kind and by layer at the end (on a GPU by events around each op). "
                        "2: also one line for each step of a prompt."},
    [IE_ENV_PROFILE_CSV] = {"IE_PROFILE_CSV", V_PATH, "FILE", "",
                            "With IE_PROFILE=1 or 2: also write one line for each op that ran to FILE."},
    [IE_ENV_TRACE] = {"IE_TRACE", V_PATH, "FILE", "",
                      "GPU: write one line for each kernel launch to FILE, in order (run, list, phase, tokens, position, op, kind, layer, kernel, "
                      "workgroups, lanes, weight_bytes); times do not change."},
    [IE_ENV_GRAPH] = {"IE_GRAPH", V_SWITCH, "0|1", "1",
                      "GPU: record a decode step's launches once and replay them as one graph; 0: launch them one by one."},
    [IE_ENV_GRAPH_BENCH] = {"IE_GRAPH_BENCH", V_NUMBER, "1..100000", "",
                            "GPU: run the first decode step that is recorded so many times by launches and as often as a graph; both "
                            "times are printed with the figures at the end. Results do not change."},
    [IE_ENV_STREAM] = {"IE_STREAM", V_SWITCH, "0|1", "1",
                       "GPU: upload slabs of a matrix while the next are being repacked; 0: whole matrices, one after the other "
                       "(more host memory)."},
    [IE_ENV_HOST_TOPK] = {"IE_HOST_TOPK", V_SWITCH, "0|1", "0",
                          "GPU: read whole rows of logits back and choose candidates on the host. Same tokens."},
    [IE_ENV_TR_MIN] = {"IE_TR_MIN", V_NUMBER, "1..17", "",
                       "GPU: tokens of a step from which on matrices are multiplied by matrix instructions, at least 2 (without it 5 on AMD, 2 on "
                       "NVIDIA); 17: never. Same bits."},
    [IE_ENV_GEMV_NOBATCH] = {"IE_GEMV_NOBATCH", V_SWITCH, "0|1", "0",
                             "GPU, for debugging: with several tokens one launch for each of them multiplies a matrix. Same bits."},
    [IE_ENV_NORM_FUSE] = {"IE_NORM_FUSE", V_SWITCH, "0|1", "0",
                          "GPU, AMD: with one token the matrix kernel that makes a row also normalises it, by its workgroup that ends last: "
                          "two launches fewer a layer. Same bits."},
    [IE_ENV_GEMV_MANY] = {"IE_GEMV_MANY", V_SWITCH, "0|1", "1",
                          "GPU: with one token matrices of different formats that follow each other and do not depend on each other are one "
                          "launch (NVIDIA: two of them, where one is small); 0: a launch for each. Same bits."},
};

const char *ie_env_text(ie_env_id id) {
    const char *v = getenv(rows[id].name);
    return v && *v ? v : NULL;
}

bool ie_env_on(ie_env_id id) {
    const char *v = ie_env_text(id);
    return strcmp(v ? v : rows[id].dflt, "1") == 0;
}

/* Digits only, at most max; 0 when v is anything else. */
static uint32_t number(const char *v, uint32_t max) {
    uint32_t n = 0;
    for (; *v; v++) {
        if (*v < '0' || *v > '9') return 0;
        n = n * 10u + (uint32_t)(*v - '0');
        if (n > max) return 0;
    }
    return n;
}

/* The largest value of "1..max" or of digits as choices. */
static uint32_t most(const env_row *r) {
    const char *last = r->values + strlen(r->values);
    while (last > r->values && last[-1] >= '0' && last[-1] <= '9') last--;
    return (uint32_t)strtoul(last, NULL, 10);
}

uint32_t ie_env_number(ie_env_id id) {
    const char *v = ie_env_text(id);
    if (!v) v = rows[id].dflt;
    return number(v, most(&rows[id]));
}

/* Digits only, at most the number after "0.."; false when v is anything else. */
static bool count(const env_row *r, const char *v, uint32_t *out) {
    char *end = NULL;
    unsigned long n = *v >= '0' && *v <= '9' ? strtoul(v, &end, 10) : 0, max = strtoul(r->values + 3, NULL, 10);
    *out = (uint32_t)n;
    return end && !*end && n <= max;
}

uint32_t ie_env_count(ie_env_id id) {
    const char *v = ie_env_text(id);
    uint32_t n = 0;
    count(&rows[id], v ? v : rows[id].dflt, &n);
    return n;
}

static bool is_choice(const char *values, const char *v) {
    size_t n = strlen(v);
    for (const char *p = values; *p;) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, v, n) == 0) return true;
        p += len + (p[len] == '|');
    }
    return false;
}

ie_status ie_env_check(ie_error *err) {
    for (int i = 0; i < IE_ENV_COUNT; i++) {
        const char *v = ie_env_text((ie_env_id)i);
        if (!v) continue;
        const env_row *r = &rows[i];
        uint32_t n;
        bool ok = r->kind == V_PATH || (r->kind == V_COUNT ? count(r, v, &n) : r->kind == V_NUMBER ? number(v, most(r)) > 0 : is_choice(r->values, v));
        if (!ok) return ie_fail(err, IE_E_ARG, "%s=%.100s: must be %s", r->name, v, r->values);
    }
    return IE_OK;
}

ie_status ie_env_help(ie_buf *out, ie_error *err) {
    for (int i = 0; i < IE_ENV_COUNT; i++) {
        const env_row *r = &rows[i];
        bool ok = ie_buf_printf(out, err, "%s=%s", r->name, r->values);
        if (ok && *r->dflt) ok = ie_buf_printf(out, err, " (default %s)", r->dflt);
        if (!ok || !ie_buf_printf(out, err, "\n    %s\n", r->help)) return IE_E_NOMEM;
    }
    return IE_OK;
}
