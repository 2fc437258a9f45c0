/* What the vector headers want to know of the build. */
#ifndef IE_SIMD_BUILD_H
#define IE_SIMD_BUILD_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define IE_CHECKED_BUILD 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define IE_CHECKED_BUILD 1
#endif

/* Loops over words and tokens are unrolled for speed; in a build with sanitizers or without optimisation they stay loops,
 * with shift counts in registers, since instrumented and unrolled code takes minutes to compile. */
#ifdef IE_CHECKED_BUILD
#define IE_UNROLL
#else
#define IE_UNROLL _Pragma("GCC unroll 16")
#define IE_CONST_SHIFTS 1
#endif

#endif
