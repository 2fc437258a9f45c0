/* SIMD levels of the CPU backend. All give the same bits. */
#ifndef IE_LEVEL_H
#define IE_LEVEL_H

#include "../base.h"

typedef enum { IE_LEVEL_PORTABLE, IE_LEVEL_AVX2, IE_LEVEL_AVX512, IE_LEVEL_COUNT } ie_level;

const char *ie_level_name(ie_level level); /* "portable", "avx2", "avx512": the values of IE_SIMD */

/* Whether this processor and its operating system can run the level (features asked for one by one). */
bool ie_level_runs(ie_level level);

/* The level to use: IE_SIMD where that is set (IE_E_ARG for an unknown name or a level that cannot run here), else the
 * highest that runs. */
ie_status ie_level_choose(ie_level *out, ie_error *err);

#endif
