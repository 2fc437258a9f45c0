/* From the word-major units that loading makes (quant.h) to the GPU's layout (kernels/layout.h): a permutation. */
#include "layout.h"

#include <string.h>

#include "gpu.h"

/* Where a field of the word-major unit goes. `words` words a row and instance; formats of one block a super-block have an instance
 * in each block's unit, of eight: one in the super-block (stride 0), or one for each block, stride words apart. */
typedef enum { TO_HEAD0, TO_HEAD1, TO_BULK, TO_APART } place;
typedef struct {
    uint32_t from, words, stride; /* words = 0: one half-word */
    place to;
    uint32_t at; /* first word (half-word) of the place's field */
} move;

static const ie_gpu_format formats[IE_F_COUNT] = {
#define ROW(NAME, FORMAT, N0, N1, PER, APART) [IE_F_##FORMAT] = {N0, N1, PER, APART},
    IE_GPU_FORMATS(ROW)
#undef ROW
};

#define MOVES 4u
#define END {~0u, 0, 0, TO_BULK, 0}
static const move moves[IE_F_COUNT][MOVES] = { /* F16 and BF16: pairs() */
    [IE_F_Q4_0] = {{IE_Q4_0_D, 0, 0, TO_HEAD0, 0}, {IE_Q4_0_Q, 4, 0, TO_BULK, 0}, END},
    [IE_F_Q4_1] = {{IE_Q4_1_DM, 1, 0, TO_HEAD0, 0}, {IE_Q4_1_Q, 4, 0, TO_BULK, 0}, END},
    [IE_F_Q5_0] = {{IE_Q5_0_D, 0, 0, TO_HEAD0, 0}, {IE_Q5_0_QH, 1, 0, TO_HEAD1, 0}, {IE_Q5_0_Q, 4, 0, TO_BULK, 0}, END},
    [IE_F_Q5_1] = {{IE_Q5_1_DM, 1, 0, TO_HEAD0, 0}, {IE_Q5_1_QH, 1, 0, TO_HEAD1, 0}, {IE_Q5_1_Q, 4, 0, TO_BULK, 0}, END},
    [IE_F_Q8_0] = {{IE_Q8_0_D, 0, 0, TO_HEAD0, 0}, {IE_Q8_0_Q, 8, 0, TO_BULK, 0}, END},
    [IE_F_Q2_K] = {{IE_Q2_K_SC, 4, 0, TO_HEAD0, 0}, {IE_Q2_K_DM, 1, 0, TO_HEAD1, 0}, {IE_Q2_K_B, 2, IE_Q2_K_B_WORDS, TO_BULK, 0}, END},
    [IE_F_Q3_K] = {{IE_Q3_K_SC, 3, 0, TO_HEAD0, 0}, {IE_Q3_K_B, 1, IE_Q3_K_B_WORDS, TO_HEAD1, 0},
                   {IE_Q3_K_B + 32u, 2, IE_Q3_K_B_WORDS, TO_BULK, 0}, {IE_Q3_K_D, 0, 0, TO_APART, 0}},
    [IE_F_Q4_K] = {{IE_Q4_K_DM, 1, 0, TO_HEAD0, 0}, {IE_Q4_K_SC, 3, 0, TO_HEAD0, 1}, {IE_Q4_K_B, 4, IE_Q4_K_B_WORDS, TO_BULK, 0}, END},
    [IE_F_Q5_K] = {{IE_Q5_K_DM, 1, 0, TO_HEAD0, 0}, {IE_Q5_K_SC, 3, 0, TO_HEAD0, 1}, {IE_Q5_K_B, 1, IE_Q5_K_B_WORDS, TO_HEAD1, 0},
                   {IE_Q5_K_B + 32u, 4, IE_Q5_K_B_WORDS, TO_BULK, 0}},
    [IE_F_Q6_K] = {{IE_Q6_K_SC, 4, 0, TO_HEAD0, 0}, {IE_Q6_K_B + 128u, 2, IE_Q6_K_B_WORDS, TO_HEAD1, 0},
                   {IE_Q6_K_B, 4, IE_Q6_K_B_WORDS, TO_BULK, 0}, {IE_Q6_K_D, 0, 0, TO_APART, 0}},
    [IE_F_IQ4_NL] = {{IE_Q4_0_D, 0, 0, TO_HEAD0, 0}, {IE_Q4_0_Q, 4, 0, TO_BULK, 0}, END},
    [IE_F_IQ4_XS] = {{IE_IQ4_XS_DH, 1, 0, TO_HEAD0, 0}, {IE_IQ4_XS_SL, 1, 0, TO_HEAD0, 1}, {IE_IQ4_XS_B, 4, IE_IQ4_XS_B_WORDS, TO_BULK, 0}, END},
    [IE_F_F32] = {{0, 32, 0, TO_BULK, 0}, END},
    [IE_F_F16] = {END},
    [IE_F_BF16] = {END},
};

uint64_t gpu_tile_bytes(const ie_format *f, uint32_t cols) { return 4u * (uint64_t)ie_gpu_tile_words(formats[f->id], ie_nblk(cols)); }

uint64_t gpu_mat_bytes(const ie_format *f, uint32_t rows, uint32_t cols) {
    return (ie_ntiles(rows) * gpu_tile_bytes(f, cols) + 255u) / 256u * 256u;
}

/* One instance of a field: 32 rows. unit: its first word in the tile; nb: blocks of the unit; j: the instance. */
static void put(const ie_gpu_format *f, const move *m, const uint32_t *src, uint32_t *out, uint32_t unit, uint32_t nb, uint32_t j) {
    if (m->to == TO_HEAD0 && !m->words) { /* scales of eight blocks as half-words */
        for (uint32_t r = 0; r < IE_TILE_ROWS; r++) {
            uint32_t *w = &out[unit + ie_field_lm(0, f->n0, j / 2u, r)];
            *w = ie_half_put(*w, j % 2u, ie_half_of(src[r / 2u], r % 2u));
        }
        return;
    }
    uint32_t base = unit, n = m->to == TO_HEAD0 ? f->n0 : m->to == TO_HEAD1 ? f->n1 : f->per * nb;
    if (m->to == TO_HEAD1) base += IE_TILE_ROWS * f->n0;
    if (m->to == TO_BULK) base += IE_TILE_ROWS * (f->n0 + f->n1);
    for (uint32_t i = 0; i < m->words; i++)
        for (uint32_t r = 0; r < IE_TILE_ROWS; r++) out[ie_field_lm(base, n, m->at + j * m->words + i, r)] = src[i * IE_TILE_ROWS + r];
}

/* F16, BF16: word w of a row holds its elements 2 w and 2 w + 1. */
static void pairs(const uint32_t *src, uint32_t *out, uint32_t unit, uint32_t nb, uint32_t j) {
    for (uint32_t i = 0; i < 16u; i++)
        for (uint32_t r = 0; r < IE_TILE_ROWS; r++) {
            uint32_t lo = ie_field_half(0, 2u * i, r), hi = ie_field_half(0, 2u * i + 1u, r);
            uint32_t w = ie_half_put(ie_half_of(src[lo / 2u], lo % 2u), 1, ie_half_of(src[hi / 2u], hi % 2u));
            out[ie_field_lm(unit, 16u * nb, 16u * j + i, r)] = w;
        }
}

void gpu_repack_tile(const ie_format *f, uint32_t cols, const uint32_t *word_major, uint32_t *out) {
    const ie_gpu_format *g = &formats[f->id];
    uint32_t nblk = ie_nblk(cols), units = ie_gpu_units(nblk), apart = ie_gpu_units_words(*g, nblk), k = f->blocks == IE_GPU_UNIT;
    memset(out, 0, (size_t)gpu_tile_bytes(f, cols)); /* what no block fills: scales behind a row's end */
    for (uint32_t u = 0; u < units; u++) {
        uint32_t unit = ie_tile_words(u, ie_gpu_unit_words(*g)), nb = ie_gpu_unit_blocks(u, nblk);
        for (uint32_t j = 0; j < nb; j++) {
            const uint32_t *src = word_major + (size_t)(k ? u : u * IE_GPU_UNIT + j) * f->unit_words;
            if (f->id == IE_F_F16 || f->id == IE_F_BF16) pairs(src, out, unit, nb, j);
            for (const move *m = moves[f->id]; m < moves[f->id] + MOVES && m->from != ~0u; m++) {
                bool once = k && !m->stride;
                if (once && j) continue;
                if (m->to == TO_APART) memcpy(out + apart + u * (IE_TILE_ROWS / 2u), src + m->from, IE_TILE_ROWS * 2u);
                else put(g, m, src + m->from + (k ? j * m->stride : 0u), out, unit, nb, once ? 0 : j);
            }
        }
    }
}
