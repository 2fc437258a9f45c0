#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

bool sim_fail(sim_error *err, const char *fmt, ...) {
    if (err && !err->text[0]) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return false;
}

static u64 env_u64(const char *name, u64 dflt) {
    const char *s = getenv(name);
    if (!s || !*s) return dflt;
    char *end;
    unsigned long long v = strtoull(s, &end, 0);
    return *end ? dflt : (u64)v;
}

void sim_options_from_env(sim_options *o) {
    memset(o, 0, sizeof *o);
    o->strict = env_u64("IE_SIM_STRICT", 0) != 0;
    o->race = env_u64("IE_SIM_RACE", 0) != 0;
    u64 weak = env_u64("IE_SIM_WEAK", 0);
    o->weak = weak != 0;
    o->weak_seed = weak;
    o->trace = env_u64("IE_SIM_TRACE", 0) != 0;
    o->ulp_seed = env_u64("IE_SIM_ULP", 0);
    const char *stats = getenv("IE_SIM_STATS");
    o->stats = stats && *stats && strcmp(stats, "0") ? stats : NULL;
    u64 sample = env_u64("IE_SIM_SAMPLE", 0);
    o->sample = sample < UINT32_MAX ? (u32)sample : 0;
    u64 t = env_u64("IE_SIM_THREADS", 0);
    if (t == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        t = n > 0 ? (u64)n : 1;
    }
    o->threads = t > 256 ? 256 : (u32)t;
    o->limit = env_u64("IE_SIM_LIMIT", 0);
    u32 best = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = 1;
    if (best && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        best = 2;
#endif
    u64 lv = env_u64("IE_SIM_VECTOR", best);
    o->level = lv < best ? (u32)lv : best;
}
