/* Typed look-ups of GGUF keys, with messages that name the key, its value and what is allowed. */
#include "gguf_int.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static ie_status wrong_type(const char *label, const char *key, const ie_gguf_value *v, const char *wanted,
                            ie_error *err) {
    if (v->type == GGUF_ARRAY)
        return ie_fail(err, IE_E_FORMAT, "%s: key '%s' is an array of %s, %s is needed", label, key,
                       ie_gguf_type_text(v->elem), wanted);
    return ie_fail(err, IE_E_FORMAT, "%s: key '%s' is of type %s, %s is needed", label, key, ie_gguf_type_text(v->type),
                   wanted);
}

static ie_status missing(const char *label, const char *key, ie_error *err) {
    return ie_fail(err, IE_E_FORMAT, "%s: key '%s' is missing", label, key);
}

#define LOAD(T) (*(const T *)v->data)

/* An integer of any width: |value| in *mag, its sign in *neg. False for other types. */
static bool get_integer(const ie_gguf_value *v, bool *neg, uint64_t *mag) {
    int64_t s = 0;
    uint64_t u = 0;
    switch (v->type) {
    case GGUF_U8: u = LOAD(uint8_t); break;
    case GGUF_U16: u = LOAD(uint16_t); break;
    case GGUF_U32: u = LOAD(uint32_t); break;
    case GGUF_U64: u = LOAD(uint64_t); break;
    case GGUF_I8: s = LOAD(int8_t); break;
    case GGUF_I16: s = LOAD(int16_t); break;
    case GGUF_I32: s = LOAD(int32_t); break;
    case GGUF_I64: s = LOAD(int64_t); break;
    default: return false;
    }
    *neg = s < 0;
    *mag = s < 0 ? 0 - (uint64_t)s : s > 0 ? (uint64_t)s : u;
    return true;
}

ie_status ie_gguf_meta_u32(const ie_gguf_meta *m, const char *key, uint32_t min, uint32_t max, bool required,
                           uint32_t dflt, uint32_t *out, ie_error *err) {
    const ie_gguf_value *v = ie_gguf_meta_find(m, key);
    bool neg;
    uint64_t mag;
    *out = dflt;
    if (!v) return required ? missing(m->label, key, err) : IE_OK;
    if (!get_integer(v, &neg, &mag)) return wrong_type(m->label, key, v, "an integer", err);
    if (neg || mag < min || mag > max)
        return ie_fail(err, IE_E_FORMAT, "%s: key '%s' is %s%" PRIu64 ", allowed are %" PRIu32 " .. %" PRIu32, m->label,
                       key, neg ? "-" : "", mag, min, max);
    *out = (uint32_t)mag;
    return IE_OK;
}

static ie_status get_f32(const ie_gguf_meta *m, const char *key, bool required, float dflt, float *out, ie_error *err) {
    const ie_gguf_value *v = ie_gguf_meta_find(m, key);
    *out = dflt;
    if (!v) return required ? missing(m->label, key, err) : IE_OK;
    if (v->type != GGUF_F32 && v->type != GGUF_F64) return wrong_type(m->label, key, v, "a float", err);
    double x = v->type == GGUF_F32 ? (double)LOAD(float) : LOAD(double);
    if (!(fabs(x) <= (double)FLT_MAX))
        return ie_fail(err, IE_E_FORMAT, "%s: key '%s' is %g, a finite 32-bit float is needed", m->label, key, x);
    *out = (float)x;
    return IE_OK;
}

static ie_status get_bool(const ie_gguf_meta *m, const char *key, bool dflt, bool *out, ie_error *err) {
    const ie_gguf_value *v = ie_gguf_meta_find(m, key);
    *out = dflt;
    if (!v) return IE_OK;
    if (v->type != GGUF_BOOL) return wrong_type(m->label, key, v, "a bool", err);
    *out = LOAD(uint8_t) != 0;
    return IE_OK;
}

static ie_status get_str(const ie_gguf_meta *m, const char *key, bool required, const char *dflt, ie_str *out,
                         ie_error *err) {
    const ie_gguf_value *v = ie_gguf_meta_find(m, key);
    *out = (ie_str){dflt, dflt ? strlen(dflt) : 0};
    if (!v) return required ? missing(m->label, key, err) : IE_OK;
    if (v->type != GGUF_STRING) return wrong_type(m->label, key, v, "a string", err);
    *out = LOAD(ie_str);
    return IE_OK;
}

ie_status ie_gguf_u32(const ie_gguf *g, const char *key, uint32_t min, uint32_t max, uint32_t dflt, uint32_t *out,
                      ie_error *err) {
    return ie_gguf_meta_u32(ie_gguf_meta_of(g), key, min, max, false, dflt, out, err);
}

ie_status ie_gguf_u32_req(const ie_gguf *g, const char *key, uint32_t min, uint32_t max, uint32_t *out, ie_error *err) {
    return ie_gguf_meta_u32(ie_gguf_meta_of(g), key, min, max, true, 0, out, err);
}

ie_status ie_gguf_f32(const ie_gguf *g, const char *key, float dflt, float *out, ie_error *err) {
    return get_f32(ie_gguf_meta_of(g), key, false, dflt, out, err);
}

ie_status ie_gguf_f32_req(const ie_gguf *g, const char *key, float *out, ie_error *err) {
    return get_f32(ie_gguf_meta_of(g), key, true, 0, out, err);
}

ie_status ie_gguf_bool(const ie_gguf *g, const char *key, bool dflt, bool *out, ie_error *err) {
    return get_bool(ie_gguf_meta_of(g), key, dflt, out, err);
}

ie_status ie_gguf_str(const ie_gguf *g, const char *key, const char *dflt, ie_str *out, ie_error *err) {
    return get_str(ie_gguf_meta_of(g), key, false, dflt, out, err);
}

ie_status ie_gguf_str_req(const ie_gguf *g, const char *key, ie_str *out, ie_error *err) {
    return get_str(ie_gguf_meta_of(g), key, true, NULL, out, err);
}

ie_status ie_gguf_array(const ie_gguf *g, const char *key, ie_gguf_type elem, const ie_gguf_value **out,
                        ie_error *err) {
    const ie_gguf_meta *m = ie_gguf_meta_of(g);
    const ie_gguf_value *v = ie_gguf_meta_find(m, key);
    *out = NULL;
    if (!v) return IE_OK;
    if (v->type != GGUF_ARRAY || v->elem != elem) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "an array of %s", ie_gguf_type_text(elem));
        return wrong_type(m->label, key, v, wanted, err);
    }
    *out = v;
    return IE_OK;
}
