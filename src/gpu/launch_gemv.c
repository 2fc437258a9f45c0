/* Launches of matrices and of the embedding (kernels/gemv.c). */
#include "../env.h"
#include "gpu.h"
#include "ie_launch.h"
#include "ie_layout.h"

#define RESIDENT 24u /* waves of a matrix kernel that a unit holds, about */
#define STREAM_BYTES (64u << 20) /* from there on always; smaller ones where each wave has a segment and most of the card's units a tile */
#define STREAM_RING 8u  /* units, at most */
#define STREAM_LDS 6144u /* what the kernel declares, and what the card keeps for itself of a workgroup's */
#define STREAM_TOKENS_LDS 768u
#define STREAM_PLACES 40u /* units in the rings of a kernel of several tokens, at most */
#define WHOLE_WAVES 8u    /* those of a workgroup that have tiles for themselves, and others that bring tokens and join shared tiles */
#define WHOLE_MORE 12u    /* as many with 8 tokens, where each workgroup has WHOLE_LONG tiles, and rings three units */
#define WHOLE_LONG 48u
#define WHOLE_OTHERS 4u
#define WHOLE_UNITS 64u   /* of a row then, at most */
#define SLOT_OTHERS 3u    /* waves that add up and join, where segments go round */

/* Kernels by tokens of a group: one; by dot4; by matrix instructions. */
enum { ONE, DOT, MMA, MMA_MORE, GROUPS };
static const uint32_t group_tokens[GROUPS] = {1, 4, 8, 16};
static const struct {
    const char *gemv[GROUPS], *stream[4], *embed; /* stream: 1, 8, 16 tokens; 1 with shared tiles */
} names[IE_F_COUNT] = {
#define ROW(NAME, FORMAT, N0, N1, PER, APART) \
    [IE_F_##FORMAT] = {{"ie_gemv_" #NAME, "ie_gemv_" #NAME "_t4", "ie_gemv_" #NAME "_t8", "ie_gemv_" #NAME "_t16"}, {"ie_gemv_" #NAME "_s", "ie_gemv_" #NAME "_s8", "ie_gemv_" #NAME "_s16", "ie_gemv_" #NAME "_s_shared"}, "ie_embed_" #NAME},
    IE_GPU_FORMATS(ROW)
#undef ROW
};

static const gpu_mat_choice defaults = {0, false, false, true};

void gpu_mat_choice_read(gpu_mat_choice *c) {
    *c = (gpu_mat_choice){ie_env_number(IE_ENV_TR_MIN), ie_env_on(IE_ENV_GEMV_NOBATCH), ie_env_on(IE_ENV_NORM_FUSE),
                          ie_env_on(IE_ENV_GEMV_MANY)};
}

static uint32_t mma_min_of(const gpu_card *card, const gpu_mat_choice *c) { return c->mma_min ? c->mma_min : card->mma_min; }
bool gpu_mat_dot4(const gpu_card *card, const gpu_mat_choice *c) { return c->nobatch || mma_min_of(card, c) > 2u; }

bool gpu_norm_fits(const gpu_run *r, const ie_op *mm, const ie_op *norm) {
    const gpu_mat_choice *c = r->mat ? r->mat : &defaults;
    return c->norm_fuse && r->card->last_group && mm->kind == OP_MATMUL && norm->kind == OP_RMSNORM && gpu_rows(r, mm) == 1u &&
           mm->of_rows == norm->of_rows && norm->src == mm->dst && norm->src_at == mm->dst_at && norm->n == r->w->mat[mm->mat].rows;
}

/* Waves that share a tile. Where launches overlap a wave without work costs nothing, and the norm behind a matrix needs 256 lanes: four or eight. Else as many as
 * have enough to do. Four at most where all of a card's waves are busy with them, which then read more in a row; with 16 tokens LDS has room for the
 * sums of 16 segments only (gemv_mma.c). */
static uint32_t waves_of(const gpu_run *r, const ie_mat *m, uint32_t tokens) {
    uint32_t nblk = ie_nblk(m->cols);
    bool many = tokens < 16u && ie_ntiles(m->rows) * 4u >= r->card->units * 16u;
    if (r->card->overlap) return many ? 4u : IE_WG_WAVES;
    if (r->norm) return many || ie_nseg(nblk) <= 4u ? 4u : IE_WG_WAVES;
    return ie_tile_waves(nblk, many ? 4u : IE_WG_WAVES);
}
static uint32_t groups_of(const ie_mat *m, uint32_t waves) { return ie_grid_pad(ie_wg_count(ie_ntiles(m->rows), waves), ie_wg_waves(waves)); }

/* The norm behind a launch of so many workgroups. */
static ie_abi_norm norm_of(const gpu_run *r, uint32_t groups) {
    gpu_run of = *r;
    of.op++;
    return (ie_abi_norm){.w = r->weights + r->w->vec[r->norm->vec].off, .count = r->scratch + GPU_ENDED, .out = gpu_out(&of, r->norm, r->norm->n),
                         .groups = groups, .eps = r->norm->eps};
}

static ie_status add_gemv(const gpu_run *r, const ie_mat *m, uint32_t group, ie_abi_gemv a, gpu_launches *out, ie_error *err) {
    uint32_t t = group_tokens[group];
    a.waves = waves_of(r, m, t);
    return gpu_add(out, names[m->fmt->id].gemv[group], groups_of(m, a.waves), ie_tok_groups(a.n, t), 32u * ie_wg_waves(a.waves), &a,
                   sizeof a, err);
}

/* IE_GEMV_NOBATCH: token t by itself. Q8 blocks lie in groups of 16 tokens: the kernel that takes 4 stores one. */
static ie_status add_one(const gpu_run *r, const ie_mat *m, uint32_t t, ie_abi_gemv a, gpu_launches *out, ie_error *err) {
    bool floats = m->fmt->dot == IE_FLOAT;
    uint32_t group = floats ? ONE : DOT, first = t / group_tokens[group] * group_tokens[group];
    a.x += floats ? 4ull * first * a.x_ld : 4ull * first * IE_Q8_WORDS;
    a.y += 4ull * first * a.y_ld;
    if (a.res) a.res += 4ull * first * a.y_ld;
    a.t0 = t - first, a.n = a.t0 + 1u;
    return add_gemv(r, m, group, a, out, err);
}

/* Whether a card streams the matrix: it has to, or rows and tiles are many enough. */
static bool long_rows(const ie_mat *m) { return ie_gpu_units(ie_nblk(m->cols)) >= IE_MAX_SEGS; }
bool gpu_mat_streams(const gpu_card *card, const ie_mat *m) {
    bool many = ie_ntiles(m->rows) * 4u >= card->units * 3u;
    return card->copies && m->fmt->dot != IE_FLOAT && ((long_rows(m) && many) || m->bytes >= STREAM_BYTES);
}
static uint32_t stream_groups(const gpu_run *r, const ie_mat *m) {
    uint32_t tiles = ie_ntiles(m->rows);
    return tiles < r->card->units ? tiles : r->card->units;
}
static uint32_t place_bytes(const ie_mat *m) { return 4u * ie_gpu_place_words(gpu_format_of(m->fmt)); }
/* Units of a wave's ring, as many as there is room for beside `fixed` bytes; 0: not one for each wave. */
static uint32_t ring_of(const gpu_run *r, const ie_mat *m, uint32_t fixed, uint32_t waves) {
    uint32_t all = r->card->lds_per_group, ahead = fixed < all ? (all - fixed) / (waves * place_bytes(m)) : 0u;
    return ahead < STREAM_RING ? ahead : STREAM_RING;
}
static uint32_t ring_bytes(const ie_mat *m, const ie_abi_gemv *a) { return a->ahead * a->waves * place_bytes(m); }
/* Bytes of LDS for one token's x. */
static uint32_t x_bytes(const ie_mat *m) { return ie_nblk(m->cols) * IE_Q8_WORDS * 4u; }
/* A tile a workgroup: it ends sooner with more waves, if each still has units on their way while it works on one. */
static uint32_t stream_waves(const gpu_run *r, const ie_mat *m, uint32_t tiles) {
    uint32_t ahead = ring_of(r, m, x_bytes(m) + STREAM_LDS, IE_STREAM_WAVES), each = (ie_gpu_units(ie_nblk(m->cols)) + IE_STREAM_WAVES - 1u) / IE_STREAM_WAVES;
    return tiles <= r->card->units && (ahead >= 2u || ahead >= each) ? IE_STREAM_WAVES : IE_WG_WAVES;
}
/* One token: the tiles that are left when each of `groups` has had its own, if they are to be shared: by 2^lg workgroups each, as many as there are for each, and as a row has
 * segments. 0: not where there are two or more for each workgroup, so that the others wait less for the last ones than the sharing costs; nor where a norm comes first. */
static uint32_t rest_one(const gpu_run *r, const ie_mat *m, uint32_t groups, uint32_t *lg) {
    uint32_t tiles = ie_ntiles(m->rows), rest = tiles % groups, parts = 1;
    *lg = 0;
    if (r->lead || tiles <= groups || tiles >= 2u * groups || rest > GPU_ONE_TILES) return 0;
    for (; rest && 2u * parts * rest <= groups && 2u * parts <= ie_nseg(ie_nblk(m->cols)); parts *= 2u) ++*lg;
    return *lg ? rest : 0u;
}
/* Workgroups for a matrix: a few units of the card are left to the next launch, whose weights then are on their way when this one ends; a quarter of them where this one's
 * fit LDS, and so are soon on their way. None where the launch has a norm to make first, nor where all of them share the last tiles, which 128 instead of 132 do more slowly. */
static uint32_t stream_step(const gpu_run *r, const ie_mat *m) {
    const uint32_t tiles = ie_ntiles(m->rows), units = r->card->units;
    const bool fits = m->bytes <= (uint64_t)units * r->card->lds_per_group;
    uint32_t lg;
    if (tiles <= units) return tiles;
    if (r->lead || (!fits && rest_one(r, m, units, &lg))) return units;
    return units - units / (fits ? 4u : 32u);
}
/* *a: nblk, waves, ring and grid of a launch of one token. False: the matrix is not to be streamed, or there is no room. */
static bool stream_one(const gpu_run *r, const ie_mat *m, ie_abi_gemv *a) {
    a->nblk = ie_nblk(m->cols), a->waves = stream_waves(r, m, ie_ntiles(m->rows)), a->step = stream_step(r, m);
    a->ahead = ring_of(r, m, x_bytes(m) + STREAM_LDS, a->waves);
    return gpu_mat_streams(r->card, m) && a->ahead != 0u;
}

static bool streams(const gpu_run *r, const ie_op *mm) {
    ie_abi_gemv a = {0};
    return mm->kind == OP_MATMUL && gpu_rows(r, mm) == 1u && mm->src_q8 && stream_one(r, &r->w->mat[mm->mat], &a);
}
bool gpu_lead_fits(const gpu_run *r, const ie_op *norm, const ie_op *mm) {
    return norm->kind == OP_RMSNORM && streams(r, mm) && gpu_rows(r, norm) == 1u && norm->q8 == mm->src && norm->n == r->w->mat[mm->mat].cols &&
           norm->n % IE_BLOCK == 0 && norm->src_at % 4u == 0 && r->w->vec[norm->vec].off % 16u == 0 && norm->dst != norm->src && !gpu_writes_over(r, norm, norm) &&
           !gpu_writes_over(r, mm, norm);
}
/* The norm that the launch of op does first, if it does one. */
static void lead_of(const gpu_run *r, const ie_op *op, ie_abi_stream_one *s) {
    const ie_op *norm = op - 1;
    gpu_run of = *r;
    if (!r->lead) return;
    of.op = r->op - 1u;
    s->row = gpu_at(r, norm->src, norm->src_at);
    s->g.norm = (ie_abi_norm){.w = r->weights + r->w->vec[norm->vec].off, .out = gpu_out(&of, norm, norm->n), .eps = norm->eps};
}
/* The launch's last tiles, if they are to be shared. */
static void share_one(const gpu_run *r, const ie_mat *m, ie_abi_stream_one *s) {
    uint32_t lg, rest = rest_one(r, m, s->g.step, &lg);
    if (rest) s->rest = rest, s->parts_log = lg, s->sums = r->scratch + GPU_ONE_SUMS;
}
/* One token (gemv_stream.c). *done: the matrix is for it. */
static ie_status add_stream(const gpu_run *r, const ie_op *op, const ie_mat *m, ie_abi_gemv a, bool *done, gpu_launches *out, ie_error *err) {
    ie_abi_stream_one s = {.g = a};
    *done = stream_one(r, m, &s.g);
    if (!*done) return IE_OK;
    lead_of(r, op, &s);
    share_one(r, m, &s);
    ie_status st = gpu_add(out, names[m->fmt->id].stream[s.rest ? 3 : 0], s.g.step, 1, 32u * s.g.waves, &s, sizeof s, err);
    if (!st) out->v[out->n - 1u].lds = x_bytes(m) + ring_bytes(m, &s.g);
    return st;
}

/* The last `rest` tiles are shared out by segments to all workgroups. False: there is no room for their sums. */
static bool share_rest(const gpu_run *r, uint32_t rest, uint32_t tokens, ie_abi_stream *s) {
    uint32_t units = r->card->units, segs = rest * IE_MAX_SEGS;
    if (rest > GPU_REST_TILES || !ie_mul_ok(rest, tokens * IE_MAX_SEGS * 128u, GPU_REST_BYTES) || ie_nseg(s->g.nblk) != IE_MAX_SEGS) return false;
    s->rest = rest, s->each = segs / units, s->more = segs % units;
    s->count = r->scratch + GPU_REST_COUNT, s->sums = r->scratch + GPU_REST_SUMS;
    return true;
}

/* Places for units that LDS has room for, beside so many bytes. */
static uint32_t places_of(const gpu_run *r, const ie_mat *m, uint32_t fixed) {
    uint32_t all = r->card->lds_per_group, n = fixed < all ? (all - fixed) / place_bytes(m) : 0u;
    return n < STREAM_PLACES ? n : STREAM_PLACES;
}
/* Whole tiles for waves, where there are enough: as many rounds as all waves can have; of what is left a tile each for those below `lone`, if these are nearly all,
 * and the rest shared by the others. fixed: LDS bytes of tokens and their records. */
static bool whole_fits(const gpu_run *r, const ie_mat *m, uint32_t tokens, uint32_t fixed, ie_abi_stream *s, uint32_t *lds) {
    uint32_t tiles = ie_ntiles(m->rows), units = r->card->units, each = tiles / units, places = places_of(r, m, STREAM_TOKENS_LDS + fixed);
    uint32_t work = tokens == 8u && each >= WHOLE_LONG && places >= 3u * WHOLE_MORE ? WHOLE_MORE : WHOLE_WAVES, left = each % work;
    bool some = left + 2u >= work;
    if (places < 2u * work || each + 2u < work || ie_gpu_units(s->g.nblk) > WHOLE_UNITS) return false;
    if (!share_rest(r, tiles - (some ? each : each - left) * units, tokens, s)) return false;
    s->whole = 1u, s->lone = some ? left : 0u;
    s->work = work, s->g.waves = work + WHOLE_OTHERS, s->g.ahead = places / work;
    *lds = fixed + work * s->g.ahead * place_bytes(m);
    return true;
}

/* How a workgroup of 8 or 16 tokens shares out its tiles; else by segments: as many waves and rings as may be with two units each, or with one rather than few. False: LDS
 * has no room for them, or the matrix is too small to stream. */
static bool stream_tokens_fit(const gpu_run *r, const ie_mat *m, uint32_t tokens, ie_abi_stream *s, uint32_t *lds) {
    static const uint32_t planes[] = {[IE_DOT] = 1, [IE_DOT_MIN] = 2, [IE_DOT2] = 1, [IE_DOT2_MIN] = 3, [IE_FLOAT] = 1};
    static const struct {
        uint32_t work, deep;
    } ways[] = {{13, 2}, {11, 2}, {9, 2}, {7, 2}, {13, 1}, {11, 1}, {9, 1}, {7, 1}};
    const uint32_t nblk = ie_nblk(m->cols), slot = tokens * 128u, tiles = ie_ntiles(m->rows), most = tokens == 16u ? 12u : 16u; /* waves: by their registers */
    const uint32_t fixed = 4u * ie_stream_group(nblk + 1u, 0u, tokens, planes[m->fmt->dot]) + 8u * ie_gpu_units(nblk);
    if (!gpu_mat_streams(r->card, m)) return false;
    s->g.step = stream_groups(r, m);
    if (whole_fits(r, m, tokens, fixed, s, lds)) return true;
    if (tiles > r->card->units) share_rest(r, tiles % r->card->units, tokens, s);
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        uint32_t work = ways[i].work, places = places_of(r, m, STREAM_TOKENS_LDS + fixed + work * slot);
        if (places < ways[i].deep * work || work + SLOT_OTHERS > most) continue;
        s->work = work, s->g.waves = work + SLOT_OTHERS, s->g.ahead = places / work;
        *lds = fixed + work * (slot + s->g.ahead * place_bytes(m));
        return true;
    }
    return false;
}
/* 2 to 16 tokens (gemv_stream_t.c). */
static ie_status add_stream_tokens(const gpu_run *r, const ie_mat *m, const ie_abi_gemv *a, bool *done, gpu_launches *out, ie_error *err) {
    ie_abi_stream s = {.g = *a};
    uint32_t lds, tokens = a->n > 8u ? 16u : 8u;
    *done = stream_tokens_fit(r, m, tokens, &s, &lds);
    if (!*done) return IE_OK;
    ie_status st = gpu_add(out, names[m->fmt->id].stream[tokens == 16u ? 2 : 1], s.g.step, 1, 32u * s.g.waves, &s, sizeof s, err);
    if (!st) out->v[out->n - 1u].lds = lds;
    return st;
}

static ie_abi_gemv args_of(const gpu_run *r, const ie_op *op, const ie_mat *m) {
    return (ie_abi_gemv){.x = gpu_at(r, op->src, op->src_q8 ? 0 : op->src_at), .w = r->weights + m->off,
                         .y = gpu_at(r, op->dst, op->dst_at), .bias = op->vec == IE_NO_W ? 0 : r->weights + r->w->vec[op->vec].off,
                         .res = op->res == IE_NO_OFF ? 0 : gpu_at(r, op->res, op->dst_at), .rows = m->rows, .cols = m->cols,
                         .nblk = ie_nblk(m->cols), .x_ld = op->src_ld, .y_ld = op->dst_ld, .n = gpu_rows(r, op)};
}

/* Whether one of two ops of a row writes what the other reads or writes. */
static bool depend(const gpu_run *r, const ie_op *a, const ie_op *b) {
    ie_operand x[IE_OPERANDS], y[IE_OPERANDS];
    uint32_t n = ie_op_operands(a, r->w, r->step->n, 1, x), m = ie_op_operands(b, r->w, r->step->n, 1, y);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < m; k++)
            if ((x[i].write || y[k].write) && ie_operands_meet(&x[i], &y[k])) return true;
    return false;
}

/* ---- two matrices in one streaming launch (gemv_stream.c) --------------------------------------------------------------- */

/* The kernel for two formats in either order; *turn: the other one's matrix comes first. NULL: there is none. */
static const char *pair_kernel(ie_format_id a, ie_format_id b, bool *turn) {
    static const struct {
        ie_format_id one, other;
        const char *kernel;
    } pairs[] = {
#define PAIR(F, FORMAT_F, G, FORMAT_G) {IE_F_##FORMAT_F, IE_F_##FORMAT_G, "ie_gemv_" #F "_s_" #G},
        IE_STREAM_PAIRS(PAIR)
#undef PAIR
    };
    for (uint32_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        *turn = pairs[i].one == b;
        if (*turn ? pairs[i].other == a : pairs[i].one == a && pairs[i].other == b) return pairs[i].kernel;
    }
    return NULL;
}

/* Workgroups of a launch for the first of two matrices; the others are for the second: so that the most bytes that one has are fewest. */
static uint32_t pair_share(uint32_t units, const ie_mat *one, const ie_mat *other) {
    uint32_t best = 1;
    uint64_t fewest = UINT64_MAX;
    for (uint32_t n = 1; n < units; n++) {
        uint64_t a = (uint64_t)((ie_ntiles(one->rows) + n - 1u) / n) * gpu_tile_bytes(one->fmt, one->cols);
        uint64_t b = (uint64_t)((ie_ntiles(other->rows) + units - n - 1u) / (units - n)) * gpu_tile_bytes(other->fmt, other->cols);
        if ((a > b ? a : b) < fewest) best = n, fewest = a > b ? a : b;
    }
    return best;
}

/* *a: shapes and places of a launch for the matrices of op and op + 1, kernel and LDS beyond what it declares. False: they cannot be streamed together, or are better
 * off alone: two that keep the card busy, or two that do not. */
static bool pair_of(const gpu_run *r, const ie_op *op, ie_abi_stream_two *a, const char **kernel, uint32_t *lds) {
    const ie_mat *one = &r->w->mat[op[0].mat], *other = &r->w->mat[op[1].mat];
    bool turn;
    *kernel = pair_kernel(one->fmt->id, other->fmt->id, &turn);
    if (!*kernel || one->cols != other->cols || r->card->units < 2u) return false;
    if (turn) one = other, other = &r->w->mat[op[0].mat];
    uint32_t units = r->card->units, x = x_bytes(one), waves = IE_WG_WAVES;
    if (gpu_mat_streams(r->card, one) == gpu_mat_streams(r->card, other)) return false;
    ie_abi_gemv b = args_of(r, op + !turn, other);
    *a = (ie_abi_stream_two){.one.g = args_of(r, op + turn, one), .w = b.w, .y = b.y, .bias = b.bias, .rows = b.rows};
    b.waves = a->one.g.waves = waves;
    a->ahead = b.ahead = ring_of(r, other, x + STREAM_LDS, waves), a->one.g.ahead = ring_of(r, one, x + STREAM_LDS, waves);
    uint32_t n = pair_share(units, one, other), most = ie_ntiles(one->rows);
    a->one.g.step = n < most ? n : most;
    most = ie_ntiles(other->rows), a->step = units - n < most ? units - n : most;
    *lds = x + (ring_bytes(one, &a->one.g) > ring_bytes(other, &b) ? ring_bytes(one, &a->one.g) : ring_bytes(other, &b));
    return a->ahead && a->one.g.ahead;
}
static bool pair_fits(const gpu_run *r, const ie_op *op) {
    ie_abi_stream_two a;
    const char *kernel;
    uint32_t lds;
    for (uint32_t i = 0; i < 2u; i++)
        if (op[i].kind != OP_MATMUL || gpu_rows(r, &op[i]) != 1u || op[i].res != IE_NO_OFF || !op[i].src_q8 || op[i].src != op->src) return false;
    return r->card->copies && pair_of(r, op, &a, &kernel, &lds) && !depend(r, op, op + 1) && !(r->lead && gpu_writes_over(r, op + 1, op - 1));
}
static ie_status add_pair(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    ie_abi_stream_two a;
    const char *kernel;
    uint32_t lds;
    if (!pair_of(r, op, &a, &kernel, &lds)) return ie_fail(err, IE_E_DEVICE, "ops %u and %u are no pair for one launch", r->op, r->op + 1u);
    lead_of(r, op, &a.one);
    ie_status st = gpu_add(out, kernel, a.one.g.step + a.step, 1, 32u * a.one.g.waves, &a, sizeof a, err);
    if (!st) out->v[out->n - 1u].lds = lds;
    return st;
}

/* ---- several matrices in one launch (gemv_many.c) ---------------------------------------------------------------------- */

static const uint32_t many_format[IE_F_COUNT] = {
#define ROW(NAME, FORMAT, N0, N1, PER, APART) [IE_F_##FORMAT] = IE_MANY_##NAME,
    IE_GPU_FORMATS(ROW)
#undef ROW
};

static bool alone(const gpu_run *r, const ie_op *op) {
    return op->kind != OP_MATMUL || gpu_rows(r, op) != 1u || op->res != IE_NO_OFF || (!op->src_q8 && r->w->mat[op->mat].fmt->dot != IE_FLOAT);
}
uint32_t gpu_many_fit(const gpu_run *r, const ie_op *op, uint32_t most) {
    const gpu_mat_choice *c = r->mat ? r->mat : &defaults;
    uint32_t n = 1;
    if (!c->many) return 1;
    if (r->card->copies) return most > 1u && pair_fits(r, op) ? 2u : 1u;
    if (!r->card->last_group || alone(r, op)) return 1;
    for (; n < most && n < IE_MANY; n++) {
        if (alone(r, op + n) || r->w->mat[op[n].mat].cols != r->w->mat[op->mat].cols) return n;
        for (uint32_t i = 0; i < n; i++)
            if (depend(r, op + i, op + n)) return n;
    }
    return n;
}

/* The smallest matrix first: its waves have most to wait for. Where the matrices would have workgroups of different sizes, all have four waves a tile. */
static ie_status add_many(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    ie_abi_many a = {.cols = r->w->mat[op->mat].cols, .nblk = ie_nblk(r->w->mat[op->mat].cols)};
    uint32_t end = 0, all = ie_wg_waves(waves_of(r, &r->w->mat[op->mat], 1)), waves[IE_MANY], groups[IE_MANY];
    bool done[IE_MANY] = {false}, differ = false;
    for (uint32_t i = 0; i < r->many; i++) {
        waves[i] = waves_of(r, &r->w->mat[op[i].mat], 1);
        differ = differ || ie_wg_waves(waves[i]) != all;
    }
    if (differ) all = ie_wg_waves(4u);
    for (uint32_t i = 0; i < r->many; i++) {
        if (differ) waves[i] = 4u;
        groups[i] = ie_wg_count(ie_ntiles(r->w->mat[op[i].mat].rows), waves[i]);
    }
    for (uint32_t k = 0; k < r->many; k++) {
        uint32_t next = 0;
        for (uint32_t i = 0; i < r->many; i++)
            if (!done[i] && (done[next] || groups[i] < groups[next])) next = i;
        const ie_mat *m = &r->w->mat[op[next].mat];
        ie_abi_gemv g = args_of(r, &op[next], m);
        end += groups[next];
        a.part[k] = (ie_abi_many_part){.x = g.x, .w = g.w, .y = g.y, .bias = g.bias, .rows = g.rows, .format = many_format[m->fmt->id], .waves = waves[next],
                                       .end = end};
        done[next] = true;
    }
    for (uint32_t k = r->many; k < IE_MANY; k++) a.part[k].end = UINT32_MAX; /* never reached */
    a.part[r->many - 1u].end = UINT32_MAX;
    return gpu_add(out, "ie_gemv_many", ie_grid_pad(end, all), 1, 32u * all, &a, sizeof a, err);
}

ie_status gpu_launch_matmul(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    const ie_mat *m = &r->w->mat[op->mat];
    const gpu_mat_choice *c = r->mat ? r->mat : &defaults;
    uint32_t n = gpu_rows(r, op), waves = waves_of(r, m, 1);
    bool floats = m->fmt->dot == IE_FLOAT;
    if (!op->src_q8 && !floats)
        return ie_fail(err, IE_E_UNSUPPORTED, "matrix '%s' of %s with float activations needs the CPU backend", m->name, m->fmt->name);
    if (!n) return IE_OK;
    if (r->many > 1u) return r->card->copies ? add_pair(r, op, out, err) : add_many(r, op, out, err);
    ie_abi_gemv a = args_of(r, op, m);
    /* what more than a card's waves at once ask for ahead only delays what is needed now */
    if (ie_ntiles(m->rows) * waves <= r->card->units * RESIDENT) a.ahead = r->card->ahead;
    const uint32_t mma_min = mma_min_of(r->card, c);
    bool done = false;
    ie_status st = n == 1u ? add_stream(r, op, m, a, &done, out, err) : n >= mma_min && !c->nobatch ? add_stream_tokens(r, m, &a, &done, out, err) : IE_OK;
    if (st || done) return st;
    for (uint32_t t = 0; t < n && n > 1u && c->nobatch && !st; t++) st = add_one(r, m, t, a, out, err);
    if (n > 1u && c->nobatch) return st;
    if (r->norm) a.norm = norm_of(r, groups_of(m, waves));
    uint32_t group = floats || n == 1u ? ONE : n < mma_min ? DOT : n <= group_tokens[MMA] ? MMA : MMA_MORE; /* floats: a token at a time */
    return add_gemv(r, m, group, a, out, err);
}

ie_status gpu_launch_embed(const gpu_run *r, const ie_op *op, gpu_launches *out, ie_error *err) {
    const ie_mat *m = &r->w->mat[op->mat];
    ie_abi_embed a = {.w = r->weights + m->off, .y = gpu_at(r, op->dst, op->dst_at), .batch = r->batch, .n = op->n, .y_ld = op->dst_ld,
                      .scale = op->scale};
    return gpu_add(out, names[m->fmt->id].embed, ie_gpu_units(ie_nblk(m->cols)), r->step->n, 32, &a, sizeof a, err);
}
