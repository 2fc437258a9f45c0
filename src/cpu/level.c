#include "level.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const names[IE_LEVEL_COUNT] = {"portable", "avx2", "avx512"};

const char *ie_level_name(ie_level level) { return names[level]; }

#if defined(__x86_64__)
/* XCR0: which register states the operating system saves. */
static uint64_t xcr0(void) {
    uint32_t lo, hi;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

bool ie_level_runs(ie_level level) {
    uint32_t a, b, c, d, b7, c7;
    if (level == IE_LEVEL_PORTABLE) return true;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
    const uint32_t need1 = 1u << 12 /* fma */ | 1u << 27 /* osxsave */ | 1u << 28 /* avx */ | 1u << 29 /* f16c */;
    if ((c & need1) != need1 || (xcr0() & 0x6u) != 0x6u) return false;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) return false;
    const uint32_t avx2 = 1u << 5 /* avx2 */ | 1u << 8 /* bmi2 */;
    if ((b7 & avx2) != avx2) return false;
    if (level == IE_LEVEL_AVX2) return true;
    const uint32_t avx512 = 1u << 16 /* f */ | 1u << 17 /* dq */ | 1u << 30 /* bw */ | 1u << 31 /* vl */;
    return (b7 & avx512) == avx512 && (c7 & 1u << 11 /* vnni */) && (xcr0() & 0xE6u) == 0xE6u;
}
#else
bool ie_level_runs(ie_level level) { return level == IE_LEVEL_PORTABLE; }
#endif

ie_status ie_level_choose(ie_level *out, ie_error *err) {
    const char *want = getenv("IE_SIMD");
    if (want && *want) {
        for (int i = 0; i < IE_LEVEL_COUNT; i++) {
            if (strcmp(want, names[i]) != 0) continue;
            if (!ie_level_runs((ie_level)i))
                return ie_fail(err, IE_E_ARG, "IE_SIMD=%s: this processor or its operating system cannot run it", want);
            *out = (ie_level)i;
            return IE_OK;
        }
        return ie_fail(err, IE_E_ARG, "IE_SIMD=%s: unknown level; known are avx512, avx2, portable", want);
    }
    int i = IE_LEVEL_COUNT - 1;
    while (i > 0 && !ie_level_runs((ie_level)i)) i--;
    *out = (ie_level)i;
    return IE_OK;
}
