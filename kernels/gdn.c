/* Gated DeltaNet layers, token by token in the order of docs/NUMERICS.md, over states that are rolled back by replaying a log.
 *
 *   ie_conv   convolution over 4 tokens and SiLU of q | k | v, L2 norm of q and k heads, beta and log decay; in place. Also
 *             replays the logged inputs of [base, pos) to `pending`, and logs what later steps may need (src/gdn_log.h)
 *   ie_gdn1   the delta rule and the gated norm for heads of 128: a workgroup a value head, state in registers
 *   ie_gdn    the delta rule for any head size: a wave 32 value dimensions, state in LDS; leaves the result in v's place
 *   ie_gnorm  y = ((o * r) * w) * silu(z), r = 1 / sqrt(dot32(o, o) / hd + eps), after ie_gdn
 *
 * Operands: rows q | k | v | z | beta | alpha; state f32 [seq][layer][n_v][hd / 32][hd][32]; log rows q | k | v | beta | alpha, 32 slots
 *   and a ring of the 3 inputs before base; ie_abi_gdn says where each sequence of the step stands.
 * Launch: conv 32 lanes, x = head of q, k, v, y = block; gdn1 128 lanes, x = value head, y = block; gdn 32 lanes, x = value head,
 *   y = block, z = 32 value dimensions; gnorm 32 lanes, x = value head, y = token. y may exceed the step's blocks: surplus workgroups leave at once.
 * Bytes moved: the state once in, once out (4 hd hd a value head each); rows and log.
 * How a wave of gdn1 holds its state: lane = quarter m of the key dimensions * 8 + group of value dimensions, so that the four partial sums
 *   of a quarter each meet by two exchanges between lanes, loads are 16 bytes a lane, and no LDS is needed. The first
 *   state is asked for before anything else is computed.
 * LDS: gdn1 8 KB (results, for the norm), gdn 32 KB, others none. Registers: budgets.txt. */
#include "q8.h"

#define TAPS IE_LOG_TAPS
#define PENDING IE_LOG_SLOTS
#define MAX_E (IE_GDN_HD_MAX / 32u) /* elements of a head a lane */

/* ---- convolution ----------------------------------------------------------------------------------------------------- */

/* One head of a sequence's tokens: elements lane + 32 i for i < n. */
typedef struct {
    const ie_abi_delta *a;
    ie_abi_gdn_block b;
    IE_GLOBAL float *log; /* of the sequence */
    uint32_t head;        /* of q, k, v */
    uint32_t ch, row;     /* channels; floats of a log row */
    uint32_t n;
    float tap[MAX_E][TAPS];
    float x[TAPS][MAX_E]; /* inputs, oldest first */
} conv;

#define EACH(i, n) _Pragma("unroll") for (uint32_t i = 0u; i < MAX_E; i++) if (i < (n))

/* Takes the next input row (its head's first float), returns y of the token. */
IE_INLINE void conv_next(conv *c, IE_GLOBAL const float *from, float *y) {
    EACH(i, c->n) {
        c->x[0][i] = c->x[1][i], c->x[1][i] = c->x[2][i], c->x[2][i] = c->x[3][i];
        c->x[3][i] = from[ie_lane() + 32u * i];
        float s = 0.0f;
#pragma unroll
        for (uint32_t k = 0u; k < TAPS; k++) s = ie_fma(c->tap[i][k], c->x[k][i], s);
        y[i] = ie_silu(s);
    }
    if (c->head >= 2u * c->a->n_k) return;
    float p = 0.0f;
    EACH(i, c->n) p = ie_fma(y[i], y[i], p);
    float r = ie_div(1.0f, ie_sqrt(ie_wave_tree(p) + c->a->eps)), scale = c->head < c->a->n_k ? c->a->scale : 1.0f;
    EACH(i, c->n) y[i] = y[i] * r * scale;
}

IE_INLINE void put_head(IE_GLOBAL float *to, const float *y, uint32_t n) {
    EACH(i, n) to[ie_lane() + 32u * i] = y[i];
}

/* The newest input to the log: its slot from `next` on, the ring for the three before `next`. */
IE_INLINE void keep(const conv *c, uint32_t pos, bool logged) {
    uint32_t next = c->b.next, at = c->head * c->a->hd;
    if (pos < next && pos + 3u >= next) put_head(c->log + ie_log_tap(pos) * c->row + at, c->x[3], c->n);
    if (pos >= next && !logged) put_head(c->log + ie_log_slot(pos) * c->row + at, c->x[3], c->n);
}

IE_KERNEL(32) ie_conv(ie_abi_delta a) {
    ie_dep();
    if (ie_wg_y() >= a.step->n) return;
    conv c = {.a = &a, .b = a.step->block[ie_wg_y()], .head = ie_wg_x(), .n = a.hd / 32u};
    c.ch = (2u * a.n_k + a.n_v) * a.hd, c.row = c.ch + 2u * a.n_v;
    c.log = a.log + c.b.seq * a.log_seq;
    const uint32_t at = c.head * a.hd, lane = ie_lane(), end = c.b.pos + c.b.n;
    const bool gates = c.head >= 2u * a.n_k && lane == 0u;
    const uint32_t v_head = c.head - 2u * a.n_k;
    EACH(i, c.n) {
#pragma unroll
        for (uint32_t k = 0u; k < TAPS; k++) c.tap[i][k] = a.w[(uint64_t)(at + lane + 32u * i) * TAPS + k];
#pragma unroll
        for (uint32_t k = 1u; k < TAPS; k++) { /* the inputs before base; zeros before the sequence's beginning */
            uint32_t pos = c.b.base + k - TAPS;
            c.x[k][i] = c.b.base + k < TAPS ? 0.0f : c.log[ie_log_tap(pos) * c.row + at + lane + 32u * i];
        }
    }
    float y[MAX_E];
    for (uint32_t pos = c.b.base; pos < c.b.pos; pos++) { /* replayed */
        IE_GLOBAL const float *from = c.log + ie_log_slot(pos) * c.row;
        IE_GLOBAL float *to = a.pending + (uint64_t)(ie_wg_y() * PENDING + pos - c.b.base) * c.row;
        conv_next(&c, from + at, y);
        put_head(to + at, y, c.n);
        if (gates) to[c.ch + v_head] = from[c.ch + v_head], to[c.ch + a.n_v + v_head] = from[c.ch + a.n_v + v_head];
        keep(&c, pos, true);
    }
    for (uint32_t pos = c.b.pos; pos < end; pos++) {
        IE_GLOBAL float *row = a.x + (uint64_t)(c.b.t0 + pos - c.b.pos) * a.x_ld, *gate = row + c.ch + a.n_v * a.hd + v_head;
        conv_next(&c, row + at, y);
        put_head(row + at, y, c.n);
        keep(&c, pos, false);
        if (!gates) continue;
        float beta = ie_sigmoid(gate[0]), alpha = a.gate[v_head] * ie_softplus(gate[a.n_v] + a.gate[a.n_v + v_head]);
        gate[0] = beta, gate[a.n_v] = alpha;
        if (pos < c.b.next) continue;
        IE_GLOBAL float *to = c.log + ie_log_slot(pos) * c.row + c.ch + v_head;
        to[0] = beta, to[a.n_v] = alpha;
    }
}

/* ---- the delta rule --------------------------------------------------------------------------------------------------- */

/* A token's operands, as ie_conv left them. */
typedef struct {
    IE_GLOBAL const float *q, *k;
    IE_GLOBAL float *v;
    float beta, decay;
} token;

IE_INLINE token token_at(const ie_abi_delta *a, const ie_abi_gdn_block *b, uint32_t block, uint32_t pos, uint32_t head) {
    uint32_t ch = (2u * a->n_k + a->n_v) * a->hd, row = ch + 2u * a->n_v, gate = ch + head;
    IE_GLOBAL float *x = a->pending + (uint64_t)(block * PENDING + pos - b->base) * row;
    if (pos >= b->pos) x = a->x + (uint64_t)(b->t0 + pos - b->pos) * a->x_ld, gate += a->n_v * a->hd;
    uint32_t kh = head - ie_div_inv(head, a->n_k_inv) * a->n_k;
    return (token){x + kh * a->hd, x + (a->n_k + kh) * a->hd, x + (2u * a->n_k + head) * a->hd, ie_uniformf(x[gate]),
                   ie_uniformf(x[gate + a->n_v])};
}

IE_INLINE float dot32(IE_GLOBAL const float *x, IE_GLOBAL const float *y, uint32_t n) {
    float p = 0.0f;
    EACH(i, n) p = ie_fma(x[ie_lane() + 32u * i], y[ie_lane() + 32u * i], p);
    return ie_wave_tree(p);
}

/* (p_0 + p_2) + (p_1 + p_3) over the quarters, in all lanes. */
IE_INLINE float quarters(float p) {
    p += ie_xorf(p, 16);
    return p + ie_xorf(p, 8);
}

enum { HD = 128, QI = HD / 4, JV = 4 }; /* ie_gdn1: head size, key dimensions of a quarter, value dimensions of a lane */
#define KEYS(r) _Pragma("unroll") for (uint32_t r = 0u; r < QI; r++)
#define DIMS(e) _Pragma("unroll") for (uint32_t e = 0u; e < JV; e++)

/* All tokens of a block for the value dimensions j .. j + 3 and the quarter of key dimensions from i0 on. The results of the step's
 * own tokens go to out[token][HD]. */
IE_INLINE void delta(const ie_abi_delta *a, const ie_abi_gdn_block *b, uint32_t head, uint32_t j, uint32_t i0, IE_LDS float *out) {
    float s[QI][JV];
    IE_GLOBAL float *state = a->state + b->seq * a->state_seq + (uint64_t)(head * HD + j / 32u * 32u) * HD + i0 * 32u + j % 32u;
    KEYS(r) DIMS(e) s[r][e] = b->base == 0u ? 0.0f : state[r * 32u + e];
    for (uint32_t pos = b->base; pos < b->pos + b->n; pos++) {
        token t = token_at(a, b, ie_wg_y(), pos, head);
        float k[QI], sk[JV], sq[JV], d[JV], g = ie_exp(t.decay), kq = dot32(t.k, t.q, HD / 32u);
        DIMS(e) sk[e] = sq[e] = 0.0f;
        KEYS(r) {
            float q = t.q[i0 + r];
            k[r] = t.k[i0 + r];
            DIMS(e) sk[e] = ie_fma(s[r][e], k[r], sk[e]), sq[e] = ie_fma(s[r][e], q, sq[e]);
        }
        DIMS(e) {
            d[e] = ie_fma(-g, quarters(sk[e]), t.v[j + e]) * t.beta;
            float o = ie_fma(d[e], kq, g * quarters(sq[e]));
            if (pos >= b->pos && ie_lane() < 8u) out[(pos - b->pos) * HD + j + e] = o;
        }
        KEYS(r) DIMS(e) s[r][e] = ie_fma(k[r], d[e], g * s[r][e]);
        if (pos + 1u == b->next) KEYS(r) DIMS(e) state[r * 32u + e] = s[r][e];
    }
}

IE_INLINE float gated(float o, float r, float w, float z) { return o * r * w * ie_silu(z); }

IE_KERNEL(128) ie_gdn1(ie_abi_delta a) {
    ie_dep();
    static IE_LDS_VAR float out[IE_ABI_T * 128u];
    if (ie_wg_y() >= a.step->n) return;
    const ie_abi_gdn_block b = a.step->block[ie_wg_y()];
    const uint32_t head = ie_wg_x(), lane = ie_lane(), j = ie_wave() * 32u + lane % 8u * 4u, i0 = lane / 8u * 32u;
    delta(&a, &b, head, j, i0, out);
    ie_barrier();
    for (uint32_t i = ie_wave(); i < b.n; i += 4u) {
        uint32_t t = b.t0 + i;
        IE_GLOBAL const float *z = a.x + (uint64_t)t * a.x_ld + (2u * a.n_k + a.n_v) * 128u + head * 128u;
        float o[4], p = 0.0f;
#pragma unroll
        for (uint32_t k = 0u; k < 4u; k++) o[k] = out[i * 128u + lane + 32u * k], p = ie_fma(o[k], o[k], p);
        float mean = ie_wave_tree(p) / 128.0f, r = ie_div(1.0f, ie_sqrt(mean + a.eps));
#pragma unroll
        for (uint32_t k = 0u; k < 4u; k++) {
            uint32_t d = lane + 32u * k;
            ie_out_put(&a.out, t, head * 128u + d, a.n_v * 128u, gated(o[k], r, a.w[d], z[d]));
        }
    }
}

/* Any head size: lane = value dimension, the state's 32 columns in LDS. */
IE_KERNEL(32) ie_gdn(ie_abi_delta a) {
    ie_dep();
    static IE_LDS_VAR float s[IE_GDN_HD_MAX * 32u];
    if (ie_wg_y() >= a.step->n) return;
    const ie_abi_gdn_block b = a.step->block[ie_wg_y()];
    const uint32_t hd = a.hd, head = ie_wg_x(), j0 = ie_wg_z() * 32u, lane = ie_lane(), n = hd / 4u;
    IE_GLOBAL float *state = a.state + b.seq * a.state_seq + (uint64_t)(head * hd + j0) * hd;
    for (uint32_t i = 0u; i < hd; i++) s[i * 32u + lane] = b.base == 0u ? 0.0f : state[i * 32u + lane];
    for (uint32_t pos = b.base; pos < b.pos + b.n; pos++) {
        token t = token_at(&a, &b, ie_wg_y(), pos, head);
        IE_SCALAR const float *q = ie_scalar(t.q), *k = ie_scalar(t.k);
        float g = ie_exp(t.decay), kq = dot32(t.k, t.q, hd / 32u), sk[4], sq[4];
#pragma unroll
        for (uint32_t m = 0u; m < 4u; m++) {
            sk[m] = sq[m] = 0.0f;
#pragma unroll 8
            for (uint32_t i = m * n; i < (m + 1u) * n; i++) {
                float x = s[i * 32u + lane];
                sk[m] = ie_fma(x, k[i], sk[m]), sq[m] = ie_fma(x, q[i], sq[m]);
            }
        }
        float d = ie_fma(-g, (sk[0] + sk[2]) + (sk[1] + sk[3]), t.v[j0 + lane]) * t.beta;
        float o = ie_fma(d, kq, g * ((sq[0] + sq[2]) + (sq[1] + sq[3])));
#pragma unroll 8
        for (uint32_t i = 0u; i < hd; i++) s[i * 32u + lane] = ie_fma(k[i], d, g * s[i * 32u + lane]);
        if (pos >= b.pos) t.v[j0 + lane] = o;
        for (uint32_t i = 0u; i < hd && pos + 1u == b.next; i++) state[i * 32u + lane] = s[i * 32u + lane];
    }
}

IE_KERNEL(32) ie_gnorm(ie_abi_delta a) {
    ie_dep();
    uint32_t head = ie_wg_x(), t = ie_wg_y(), lane = ie_lane(), n = a.hd / 32u;
    if (t >= a.out.batch->n) return;
    IE_GLOBAL const float *row = a.x + (uint64_t)t * a.x_ld, *o = row + (2u * a.n_k + head) * a.hd;
    IE_GLOBAL const float *z = row + (2u * a.n_k + a.n_v + head) * a.hd;
    float mean = dot32(o, o, n) / (float)a.hd, r = ie_div(1.0f, ie_sqrt(mean + a.eps));
    for (uint32_t d = lane; d < a.hd; d += 32u) ie_out_put(&a.out, t, head * a.hd + d, a.n_v * a.hd, gated(o[d], r, a.w[d], z[d]));
}
