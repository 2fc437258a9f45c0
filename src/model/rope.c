/* Rotary embedding tables. Angles, cosines and sines are computed in double on the host for every backend, then rounded once
 * to f32. Scaling: linear (position interpolation), YaRN (Peng et al. 2023, arXiv:2309.00071), and per-frequency divisors
 * stored in the file (Llama 3). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model.h"

static bool str_is(ie_str s, const char *lit) { return s.len == strlen(lit) && memcmp(s.s, lit, s.len) == 0; }

static ie_status get_f32(const ie_gguf *g, const char *prefix, const char *key, float dflt, double *out, ie_error *err) {
    char name[128];
    float v;
    snprintf(name, sizeof name, "%s.%s", prefix, key);
    ie_status st = ie_gguf_f32(g, name, dflt, &v, err);
    *out = (double)v;
    return st;
}

static ie_status check_range(const char *prefix, const char *key, double v, double lo, double hi, ie_error *err) {
    if (v >= lo && v <= hi) return IE_OK;
    return ie_fail(err, IE_E_FORMAT, "key '%s.%s' is %g, allowed are %g to %g", prefix, key, v, lo, hi);
}

static ie_status read_scaling(const ie_gguf *g, const char *prefix, ie_rope *r, ie_error *err) {
    char name[128];
    ie_str type;
    snprintf(name, sizeof name, "%s.rope.scaling.type", prefix);
    ie_status st = ie_gguf_str(g, name, "", &type, err);
    double old_scale = 1;
    if (!st) st = get_f32(g, prefix, "rope.scale_linear", 1, &old_scale, err);
    if (!st) st = get_f32(g, prefix, "rope.scaling.factor", (float)old_scale, &r->factor, err);
    if (!st) st = check_range(prefix, "rope.scaling.factor", r->factor, 0, 1e6, err);
    if (!st) st = get_f32(g, prefix, "rope.scaling.attn_factor", 1, &r->attn_factor, err);
    if (!st) st = get_f32(g, prefix, "rope.scaling.yarn_ext_factor", 1, &r->ext_factor, err);
    if (!st) st = get_f32(g, prefix, "rope.scaling.yarn_beta_fast", 32, &r->beta_fast, err);
    if (!st) st = get_f32(g, prefix, "rope.scaling.yarn_beta_slow", 1, &r->beta_slow, err);
    if (st) return st;
    if (r->factor == 0) r->factor = 1; /* files write 0 for "none" */
    if (type.len == 0) {
        r->scaling = r->factor == 1 ? ROPE_NONE : ROPE_LINEAR;
    } else if (str_is(type, "none")) {
        r->scaling = ROPE_NONE;
    } else if (str_is(type, "linear")) {
        r->scaling = ROPE_LINEAR;
    } else if (str_is(type, "yarn")) {
        r->scaling = ROPE_YARN;
        snprintf(name, sizeof name, "%s.rope.scaling.original_context_length", prefix);
        st = ie_gguf_u32_req(g, name, 1, IE_MAX_CTX, &r->orig_ctx, err);
        if (!st) st = check_range(prefix, "rope.scaling.yarn_beta_fast", r->beta_fast, 1e-3, 1e6, err);
        if (!st) st = check_range(prefix, "rope.scaling.yarn_beta_slow", r->beta_slow, 1e-3, 1e6, err);
    } else {
        return ie_fail(err, IE_E_UNSUPPORTED, "key '%s' is '%.40s'; supported: none, linear, yarn", name, type.s);
    }
    return st;
}

ie_status ie_rope_read(const ie_gguf *g, const char *prefix, ie_rope *r, ie_error *err) {
    ie_status st = get_f32(g, prefix, "rope.freq_base", 10000, &r->base, err);
    if (!st) st = check_range(prefix, "rope.freq_base", r->base, 1, 1e12, err);
    return st ? st : read_scaling(g, prefix, r, err);
}

/* YaRN, section 3.2: how far dimension pair i is interpolated (0) or left alone (1). */
static double yarn_ramp(const ie_rope *r, uint32_t i) {
    const double two_pi = 6.283185307179586;
    double n = r->dim, low = floor(n * log(r->orig_ctx / (r->beta_fast * two_pi)) / (2 * log(r->base)));
    double high = ceil(n * log(r->orig_ctx / (r->beta_slow * two_pi)) / (2 * log(r->base)));
    low = fmax(0, low);
    high = fmin(n - 1, high);
    double y = (i - low) / fmax(0.001, high - low);
    return 1 - fmin(1, fmax(0, y));
}

void ie_rope_fill(const ie_rope *r, uint32_t from, uint32_t to, float *table) {
    uint32_t half = r->dim / 2;
    double magnitude = r->attn_factor;
    if (r->scaling == ROPE_YARN && r->ext_factor != 0) magnitude *= 1 + 0.1 * log(r->factor);
    for (uint32_t i = 0; i < half; i++) {
        double freq = pow(r->base, -2.0 * i / r->dim);
        if (r->freq_factors) freq /= (double)r->freq_factors[i];
        if (r->scaling == ROPE_LINEAR) freq /= r->factor;
        if (r->scaling == ROPE_YARN) {
            double mix = r->ext_factor * yarn_ramp(r, i);
            freq = freq / r->factor * (1 - mix) + freq * mix;
        }
        for (uint32_t pos = from; pos < to; pos++) {
            float *row = table + ((size_t)pos * half + i) * 2;
            row[0] = (float)(cos(pos * freq) * magnitude);
            row[1] = (float)(sin(pos * freq) * magnitude);
        }
    }
}
