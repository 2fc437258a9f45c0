/* From the word-major units that loading makes (quant.h) to the GPU's layout (core/ie_layout.h): a permutation. */
#include "ie_layout.h"

#include <string.h>

#include "gpu.h"

/* A row of IE_GPU_MOVES. */
typedef struct {
    ie_format_id format;
    uint32_t from, words, stride;
    ie_gpu_place to;
    uint32_t at;
} move;
static const move moves[] = {
#define MOVE(FORMAT, FROM, WORDS, STRIDE, TO, AT) {IE_F_##FORMAT, FROM, WORDS, STRIDE, TO, AT},
    IE_GPU_MOVES(MOVE)
#undef MOVE
};

static const ie_gpu_format formats[IE_F_COUNT] = {
#define ROW(NAME, FORMAT, N0, N1, PER, APART) [IE_F_##FORMAT] = {N0, N1, PER, APART},
    IE_GPU_FORMATS(ROW)
#undef ROW
};

ie_gpu_format gpu_format_of(const ie_format *f) { return formats[f->id]; }

uint64_t gpu_tile_bytes(const ie_format *f, uint32_t cols) { return 4u * (uint64_t)ie_gpu_tile_words(formats[f->id], ie_nblk(cols)); }

uint64_t gpu_mat_bytes(const ie_format *f, uint32_t rows, uint32_t cols) {
    return (ie_ntiles(rows) * gpu_tile_bytes(f, cols) + 255u) / 256u * 256u;
}

/* One instance of a field: 32 rows. unit: its first word in the tile; nb: blocks of the unit; j: the instance. */
static void put(const ie_gpu_format *f, const move *m, const uint32_t *src, uint32_t *out, uint32_t unit, uint32_t nb, uint32_t j) {
    if (!m->words) /* scales of eight blocks as half-words */
        for (uint32_t r = 0; r < IE_TILE_ROWS; r++) {
            uint32_t e = ie_gpu_move_half(m->at, j), h = ie_field_half(0, 0, r);
            uint32_t *w = &out[unit + ie_gpu_at(*f, m->to, nb, e / 2u, r)];
            *w = ie_half_put(*w, e % 2u, ie_half_of(src[h / 2u], h % 2u));
        }
    for (uint32_t i = 0; i < m->words; i++)
        for (uint32_t r = 0; r < IE_TILE_ROWS; r++)
            out[unit + ie_gpu_at(*f, m->to, nb, ie_gpu_move_word(m->at, m->words, j, i), r)] = src[ie_field_wm(0, i, r)];
}

/* F16, BF16: word w of a row holds its elements 2 w and 2 w + 1. */
static void pairs(const ie_gpu_format *f, const move *m, const uint32_t *src, uint32_t *out, uint32_t unit, uint32_t nb, uint32_t j) {
    for (uint32_t i = 0; i < m->words; i++)
        for (uint32_t r = 0; r < IE_TILE_ROWS; r++) {
            uint32_t lo = ie_field_half(0, 2u * i, r), hi = ie_field_half(0, 2u * i + 1u, r);
            uint32_t w = ie_half_put(ie_half_of(src[lo / 2u], lo % 2u), 1, ie_half_of(src[hi / 2u], hi % 2u));
            out[unit + ie_gpu_at(*f, m->to, nb, ie_gpu_move_word(m->at, m->words, j, i), r)] = w;
        }
}

void gpu_repack_tile(const ie_format *f, uint32_t cols, const uint32_t *word_major, uint32_t *out) {
    const ie_gpu_format *g = &formats[f->id];
    const move *first = moves, *end = moves + sizeof moves / sizeof *moves;
    uint32_t nblk = ie_nblk(cols), units = ie_gpu_units(nblk), apart = ie_gpu_units_words(*g, nblk), k = f->blocks == IE_GPU_UNIT;
    bool halves = f->id == IE_F_F16 || f->id == IE_F_BF16;
    memset(out, 0, (size_t)gpu_tile_bytes(f, cols)); /* what no block fills: scales behind a row's end */
    while (first->format != f->id) first++;
    for (uint32_t u = 0; u < units; u++) {
        uint32_t unit = ie_tile_words(u, ie_gpu_unit_words(*g)), nb = ie_gpu_unit_blocks(u, nblk);
        for (uint32_t j = 0; j < nb; j++) {
            const uint32_t *src = word_major + (size_t)(k ? u : u * IE_GPU_UNIT + j) * f->unit_words;
            for (const move *m = first; m < end && m->format == f->id; m++) {
                const uint32_t *from = src + m->from + (k ? j * m->stride : 0u);
                bool once = k && !m->stride;
                if (once && j) continue;
                if (m->to == IE_GPU_APART) memcpy((uint16_t *)(void *)(out + apart) + ie_gpu_apart(u, 0), from, IE_TILE_ROWS * 2u);
                else if (halves) pairs(g, m, from, out, unit, nb, j);
                else put(g, m, from, out, unit, nb, once ? 0 : j);
            }
        }
    }
}
