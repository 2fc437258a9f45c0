/* The environment switches of the library: one table (env.c), so that --help-env lists all there are.
 *
 * Values are read from the process environment while a model or backend is opened, never during a step. An unset or
 * empty variable means the default. */
#ifndef IE_ENV_H
#define IE_ENV_H

#include "base.h"

typedef enum {
    IE_ENV_SIMD,
    IE_ENV_THREADS,
    IE_ENV_PREFILL,
    IE_ENV_JOIN,
    IE_ENV_Q6K_AS_Q8,
    IE_ENV_ACT,
    IE_ENV_ATTN,
    IE_ENV_ATTN_KV_MIN,
    IE_ENV_ATTN_SPW,
    IE_ENV_GDN_CHUNK,
    IE_ENV_GDN_CHECK,
    IE_ENV_PROFILE,
    IE_ENV_PROFILE_CSV,
    IE_ENV_TRACE,
    IE_ENV_GRAPH,
    IE_ENV_GRAPH_BENCH,
    IE_ENV_STREAM,
    IE_ENV_HOST_TOPK,
    IE_ENV_TR_MIN,
    IE_ENV_GEMV_NOBATCH,
    IE_ENV_NORM_FUSE,
    IE_ENV_GEMV_MANY,
    IE_ENV_COUNT
} ie_env_id;

/* The value as text, or NULL when unset or empty. Owned by the environment. */
const char *ie_env_text(ie_env_id id);
/* A switch of values 0 and 1: its value, or its default when unset. ie_env_check has refused other values. */
bool ie_env_on(ie_env_id id);
/* A number; its default, or 0 where that is no number, when unset. ie_env_check has refused what is out of range. */
uint32_t ie_env_number(ie_env_id id);
/* A number that may be 0: its value, or its default when unset. */
uint32_t ie_env_count(ie_env_id id);

/* IE_E_ARG naming the first variable whose value is not allowed, and what is. */
ie_status ie_env_check(ie_error *err);
/* One paragraph a variable: name, values, default, meaning. */
ie_status ie_env_help(ie_buf *out, ie_error *err);

#endif
