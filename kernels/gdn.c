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
 *   of a quarter each meet by two exchanges between lanes, and loads are 16 bytes a lane. The state is asked for before
 *   anything else is computed, on NVIDIA before the launches before this one are through.
 * LDS: gdn1 11 KB (operands of two tokens; results, for the norm), gdn 32 KB, others none. Registers: budgets.txt. */
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
    ie_dep_go();
    if (ie_wg_y() >= a.step->n) {
        ie_dep_wait();
        return;
    }
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
    ie_dep_wait(); /* taps and logs are older than the step */
#pragma unroll 1
    for (uint32_t pos = c.b.base; pos < end; pos++) {
        const bool old = pos < c.b.pos; /* replayed */
        IE_GLOBAL float *row = a.x + (uint64_t)(old ? 0u : c.b.t0 + pos - c.b.pos) * a.x_ld, *slot = c.log + ie_log_slot(pos) * c.row;
        IE_GLOBAL float *from = old ? slot : row, *to = old ? a.pending + (uint64_t)(ie_wg_y() * PENDING + pos - c.b.base) * c.row : row;
        const uint32_t gate = c.ch + (old ? 0u : a.n_v * a.hd) + v_head;
        float beta = gates ? from[gate] : 0.0f, alpha = gates ? from[gate + a.n_v] : 0.0f;
        conv_next(&c, from + at, y);
        put_head(to + at, y, c.n);
        keep(&c, pos, old);
        if (!gates) continue;
        if (!old) beta = ie_sigmoid(beta), alpha = a.gate[v_head] * ie_softplus(alpha + a.gate[a.n_v + v_head]);
        to[gate] = beta, to[gate + a.n_v] = alpha;
        if (!old && pos >= c.b.next) slot[c.ch + v_head] = beta, slot[c.ch + a.n_v + v_head] = alpha;
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
IE_INLINE float dot32_lds(const IE_LDS float *x, const IE_LDS float *y, uint32_t n) {
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

#define STATE_AT(r) (state + (r) * 32u) /* 16 bytes: the lane's value dimensions */
IE_INLINE void four(ie_u4 v, float *out) { out[0] = ie_f32_of(v.x), out[1] = ie_f32_of(v.y), out[2] = ie_f32_of(v.z), out[3] = ie_f32_of(v.w); }

/* All tokens of a block for the value dimensions j .. j + 3 and the quarter of key dimensions from i0 on. The results of the step's
 * own tokens go to out[token][HD]. in: q, k and v of two tokens in turn. *z: of the step's first token and dimension `tid`. */
IE_INLINE void delta(const ie_abi_delta *a, const ie_abi_gdn_block *b, uint32_t head, uint32_t j, uint32_t i0, IE_LDS float *in, IE_LDS float *out,
                     float *z) {
    float s[QI][JV];
    const uint32_t tid = ie_tid();
    IE_GLOBAL float *state = a->state + b->seq * a->state_seq + (uint64_t)(head * HD + j / 32u * 32u) * HD + i0 * 32u + j % 32u;
    KEYS(r) DIMS(e) s[r][e] = 0.0f;
    if (b->base) KEYS(r) four(ie_load16(STATE_AT(r)), s[r]);
    ie_dep_wait(); /* the state is older than the step */
    *z = a->x[(uint64_t)b->t0 * a->x_ld + (2u * a->n_k + a->n_v + head) * HD + tid];
    for (uint32_t pos = b->base; pos < b->pos + b->n; pos++) {
        token t = token_at(a, b, ie_wg_y(), pos, head);
        IE_LDS float *q = in + pos % 2u * 3u * HD, *k = q + HD, *v = k + HD;
        q[tid] = t.q[tid], k[tid] = t.k[tid], v[tid] = t.v[tid];
        ie_barrier();
        float sk[JV], sq[JV], d[JV], g = ie_exp(t.decay), kq = dot32_lds(k, q, HD / 32u);
        DIMS(e) sk[e] = sq[e] = 0.0f;
#pragma unroll
        for (uint32_t r0 = 0u; r0 < QI; r0 += 4u) {
            float kr[4], qr[4];
            four(ie_lds16(k + i0 + r0), kr), four(ie_lds16(q + i0 + r0), qr);
#pragma unroll
            for (uint32_t r = 0u; r < 4u; r++) DIMS(e) sk[e] = ie_fma(s[r0 + r][e], kr[r], sk[e]), sq[e] = ie_fma(s[r0 + r][e], qr[r], sq[e]);
        }
        DIMS(e) {
            d[e] = ie_fma(-g, quarters(sk[e]), v[j + e]) * t.beta;
            float o = ie_fma(d[e], kq, g * quarters(sq[e]));
            if (pos >= b->pos && ie_lane() < 8u) out[(pos - b->pos) * HD + j + e] = o;
        }
#pragma unroll
        for (uint32_t r0 = 0u; r0 < QI; r0 += 4u) {
            float kr[4];
            four(ie_lds16(k + i0 + r0), kr);
#pragma unroll
            for (uint32_t r = 0u; r < 4u; r++) DIMS(e) s[r0 + r][e] = ie_fma(kr[r], d[e], g * s[r0 + r][e]);
        }
        if (pos + 1u == b->next)
            KEYS(r) *(IE_GLOBAL ie_u4 *)STATE_AT(r) = (ie_u4){ie_bits_of(s[r][0]), ie_bits_of(s[r][1]), ie_bits_of(s[r][2]), ie_bits_of(s[r][3])};
    }
}

IE_INLINE float gated(float o, float r, float w, float z) { return o * r * w * ie_silu(z); }

IE_KERNEL(128) ie_gdn1(ie_abi_delta a) {
    static IE_LDS_VAR float in[6u * HD] __attribute__((aligned(16))), out[IE_ABI_T * HD];
    ie_dep_go();
    if (ie_wg_y() >= a.step->n) {
        ie_dep_wait();
        return;
    }
    const ie_abi_gdn_block b = a.step->block[ie_wg_y()];
    const uint32_t head = ie_wg_x(), lane = ie_lane(), wave = ie_wave(), j = wave * 32u + lane % 8u * 4u, i0 = lane / 8u * 32u, d = wave * 32u + lane;
    const float w = a.w[d];
    float z;
    delta(&a, &b, head, j, i0, in, out, &z);
    ie_barrier();
    for (uint32_t i = 0u; i < b.n; i++) { /* each wave adds up the head, and has 32 dimensions of the result */
        uint32_t t = b.t0 + i;
        if (i) z = a.x[(uint64_t)t * a.x_ld + (2u * a.n_k + a.n_v + head) * HD + d];
        float mean = dot32_lds(out + i * HD, out + i * HD, HD / 32u) / (float)HD;
        float r = ie_div(1.0f, ie_sqrt(mean + a.eps));
        ie_out_put(&a.out, t, head * HD + d, a.n_v * HD, gated(out[i * HD + d], r, w, z));
    }
}

/* Any head size: lane = value dimension, the state's 32 columns in LDS. */
IE_KERNEL(32) ie_gdn(ie_abi_delta a) {
    static IE_LDS_VAR float s[IE_GDN_HD_MAX * 32u];
    ie_dep_go();
    if (ie_wg_y() >= a.step->n) {
        ie_dep_wait();
        return;
    }
    const ie_abi_gdn_block b = a.step->block[ie_wg_y()];
    const uint32_t hd = a.hd, head = ie_wg_x(), j0 = ie_wg_z() * 32u, lane = ie_lane(), n = hd / 4u;
    IE_GLOBAL float *state = a.state + b.seq * a.state_seq + (uint64_t)(head * hd + j0) * hd;
    for (uint32_t i = 0u; i < hd; i++) s[i * 32u + lane] = b.base == 0u ? 0.0f : state[i * 32u + lane];
    ie_dep_wait();
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
