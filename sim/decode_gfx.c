/* Decoder of the encodings that only graphics uses: interpolation, LDS parameter loads, exports, images. They are decoded so
 * that a listing is complete; nothing executes them. gfx[] holds what their text needs. */
#include "decode.h"
#include "decode_gfx.h"

#include <string.h>

static const struct sim_field_class vgpr_class = {C_VGPR | C_NULL | C_SPEC, 1, SIM_T_F32};

static bool decode_vinterp(struct sim_words *ws, sim_inst *in)
{
    const uint32_t *w = ws->w;
    bool half = in->op != SIM_OP_V_INTERP_P10_F32 && in->op != SIM_OP_V_INTERP_P2_F32;
    unsigned sel = half ? sim_bits(w[0], 11, 4) : 0;
    sim_vgpr(&in->dst[0], w[0] & 255, 1);
    for (unsigned i = 0; i < 3; i++) {
        if (!sim_operand(ws, in, sim_bits(w[1], 9 * i, 9), &vgpr_class, &in->src[i])) {
            return false;
        }
        in->src[i].mods = (uint8_t)((sim_bits(w[1], 29 + i, 1) ? SIM_NEG : 0) | (sel >> i & 1 ? SIM_HI : 0));
    }
    in->dst[0].mods = (uint8_t)(sel & 8 ? SIM_HI : 0);
    in->ndst = 1;
    in->nsrc = 3;
    in->clamp = (uint8_t)sim_bits(w[0], 15, 1);
    in->simm = (int32_t)sim_bits(w[0], 8, 3);
    return true;
}

static bool decode_vdsdir(const uint32_t *w, sim_inst *in)
{
    sim_vgpr(&in->dst[0], w[0] & 255, 1);
    in->gfx[0] = sim_bits(w[0], 8, 2);  /* channel */
    in->gfx[1] = sim_bits(w[0], 10, 6); /* attribute */
    in->gfx[2] = sim_bits(w[0], 16, 4); /* wait_va_vdst */
    in->gfx[3] = sim_bits(w[0], 23, 1); /* wait_vm_vsrc */
    return sim_bits(w[0], 22, 1) == 0;
}

static bool decode_exp(const uint32_t *w, sim_inst *in)
{
    in->op = SIM_OP_EXPORT;
    in->gfx[0] = sim_bits(w[0], 0, 4);   /* enabled components */
    in->gfx[1] = sim_bits(w[0], 4, 6);   /* target */
    in->gfx[2] = sim_bits(w[0], 11, 1);  /* done */
    in->gfx[3] = sim_bits(w[0], 13, 1);  /* row_en */
    for (unsigned i = 0; i < 4; i++) {
        if (in->gfx[0] >> i & 1) {
            sim_vgpr(&in->src[i], sim_bits(w[1], 8 * i, 8), 1);
        }
    }
    return true;
}

/* ---- images */

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Address dwords of an image operation: extra arguments, coordinates with level or clamp (halved by a16), derivatives. */
static unsigned address_dwords(const char *name, bool sample, unsigned dim, bool a16)
{
    static const uint8_t coords[8] = {1, 2, 3, 3, 2, 3, 3, 4}, gradients[8] = {2, 4, 6, 4, 2, 4, 4, 4};
    unsigned extra = 0, n = coords[dim], grad = 0;
    if (sample) {
        bool lz = has(name, "_lz"), level = !lz && has(name, "_l") && !has(name, "get_lod");
        extra += has(name, "_o") && (strcmp(name + strlen(name) - 2, "_o") == 0 || has(name, "_o_g16"));
        extra += has(name, "_b");
        extra += has(name, "_c_") || strcmp(name + strlen(name) - 2, "_c") == 0;
        n += level || has(name, "_cl");
        if (has(name, "_d_") || strcmp(name + strlen(name) - 2, "_d") == 0) {
            grad = has(name, "_g16") ? (gradients[dim] / 2 + 1u) & ~1u : gradients[dim];
        }
    } else if (has(name, "get_resinfo")) {
        n = 1;
    } else {
        n += has(name, "_mip");
    }
    return extra + (a16 ? (n + 1) / 2 : n) + grad;
}

/* The most address dwords that a single-sampled dimension needs. */
static unsigned max_address_dwords(const char *name, bool sample)
{
    unsigned m = 0;
    if (!sample) {
        return 4;
    }
    for (unsigned dim = 0; dim < 6; dim++) {
        unsigned n = address_dwords(name, sample, dim, false);
        m = n > m ? n : m;
    }
    return m;
}

static unsigned data_dwords(const sim_inst *in, const char *name)
{
    unsigned n = 0, dmask = in->gfx[IMG_DMASK];
    for (unsigned i = 0; i < 4; i++) {
        n += dmask >> i & 1;
    }
    n = n ? n : 1;
    if (has(name, "gather4") || has(name, "msaa_load")) {
        n = 4;
    }
    n = in->gfx[IMG_FLAGS] & IMG_D16 ? (n + 1) / 2 : n;
    return n + in->tfe;
}

/* Widths of the data that the assembler has a form for, as a set; the narrowest is what it prints when there is none. */
static unsigned data_forms(const sim_inst *in, const char *name)
{
    if (has(name, "gather4")) {
        return 1u << 2 | 1u << 4 | 1u << 5;
    }
    if (has(name, "msaa_load") || in->op == SIM_OP_IMAGE_ATOMIC_CMPSWAP) {
        return 0x3c;
    }
    return has(name, "atomic") ? 0xe : 0x3e;
}

/* Ray intersection: fixed widths, most bits fixed. */
static bool decode_bvh(const uint32_t *w, sim_inst *in)
{
    bool wide = in->op != SIM_OP_IMAGE_BVH_INTERSECT_RAY;
    bool dual = in->op == SIM_OP_IMAGE_BVH_DUAL_INTERSECT_RAY, eight = in->op == SIM_OP_IMAGE_BVH8_INTERSECT_RAY;
    bool a16 = sim_bits(w[0], 6, 1);
    uint8_t n[5] = {(uint8_t)(wide ? 2 : 1), (uint8_t)(dual || eight ? 2 : 1), 3, 3, (uint8_t)(dual ? 2 : eight ? 1 : 3)};
    unsigned count = 5;
    if (a16) {
        count = 4;
    }
    if (sim_bits(w[0], 22, 4) != 15 || sim_bits(w[0], 4, 2) != 1 || (w[0] & 7) || sim_bits(w[1], 18, 6)) {
        return false;
    }
    if ((dual || eight) && a16) {
        return false;
    }
    in->gfx[IMG_FLAGS] = a16 ? IMG_A16 : 0;
    in->gfx[IMG_NADDR] = count;
    for (unsigned i = 0; i < count; i++) {
        unsigned reg = i < 4 ? sim_bits(w[2], 8 * i, 8) : w[1] >> 24;
        if (reg + n[i] > 256) {
            return false;
        }
        in->gfx[IMG_ADDR + i / 4] |= i < 4 ? reg << 8 * i : reg;
        in->gfx[IMG_WIDTHS] |= (uint32_t)n[i] << 4 * i;
    }
    if (count == 4 && w[1] >> 24) {
        return false;
    }
    return sim_vgpr(&in->data_dst, w[1] & 255, dual || eight ? 10 : 4) && sim_sreg(&in->saddr, sim_bits(w[1], 9, 9), 4);
}

static bool decode_image(const uint32_t *w, sim_inst *in)
{
    bool sample = in->enc == SIM_ENC_VSAMPLE;
    const char *name = sim_op_name(in->op);
    if (has(name, "bvh")) {
        return decode_bvh(w, in);
    }
    unsigned flags = (sim_bits(w[0], 4, 1) ? IMG_R128 : 0) | (sim_bits(w[0], 5, 1) ? IMG_D16 : 0) |
                     (sim_bits(w[0], 6, 1) ? IMG_A16 : 0);
    in->tfe = (uint8_t)(sample ? sim_bits(w[0], 3, 1) : sim_bits(w[1], 23, 1));
    if (sample) {
        flags |= (sim_bits(w[0], 13, 1) ? IMG_UNORM : 0) | (sim_bits(w[1], 8, 1) ? IMG_LWE : 0);
    }
    in->gfx[IMG_FLAGS] = flags;
    in->gfx[IMG_DIM] = w[0] & 7;
    in->gfx[IMG_DMASK] = sim_bits(w[0], 22, 4);
    in->scope = (uint8_t)sim_bits(w[1], 18, 2);
    in->th = (uint8_t)sim_bits(w[1], 20, 3);
    if (flags & IMG_D16 && (has(name, "_pck") || has(name, "atomic") || has(name, "get_"))) {
        return false;
    }
    bool sampler = sample && in->op != SIM_OP_IMAGE_MSAA_LOAD;
    if (sample && !sampler && w[1] >> 23) {
        return false;
    }
    unsigned most = max_address_dwords(name, sampler), naddr = address_dwords(name, sampler, w[0] & 7, flags & IMG_A16);
    unsigned ndata = data_dwords(in, name), forms = data_forms(in, name), fields = most < 4 ? most : 4;
    if ((fields < 4 && w[2] >> 8 * fields) || (!sample && w[1] >> 24)) { /* fields that no dimension uses */
        return false;
    }
    unsigned last = w[2] >> 24, tuple = naddr > 4 ? naddr - 3 : 1;
    if (naddr > most || !(forms >> ndata & 1) || last + tuple > 256 || (w[1] & 255) + ndata > 256) {
        /* no such form: the assembler prints every address field and the narrowest data */
        in->odd = 1;
        naddr = fields;
        tuple = 1;
        ndata = 1;
        while (!(forms >> ndata & 1)) {
            ndata++;
        }
    }
    in->gfx[IMG_ADDR] = w[2];
    in->gfx[IMG_NADDR] = naddr < 4 ? naddr : 4;
    in->gfx[IMG_WIDTHS] = 0x111 | tuple << 12;
    return sim_vgpr(&in->data_dst, w[1] & 255, ndata) && sim_sreg(&in->saddr, sim_bits(w[1], 9, 9), 8) &&
           (!sampler || sim_sreg(&in->soffset, w[1] >> 23, 4));
}

bool sim_decode_gfx(struct sim_words *ws, sim_inst *in)
{
    if (in->enc == SIM_ENC_EXP) {
        return decode_exp(ws->w, in);
    }
    const struct sim_mrow *row = sim_mrow_of(in->enc, in->opcode);
    if (!row) {
        return false;
    }
    in->op = row->op;
    switch (in->enc) {
    case SIM_ENC_VINTERP:
        return decode_vinterp(ws, in);
    case SIM_ENC_VDSDIR:
        return decode_vdsdir(ws->w, in);
    default:
        return decode_image(ws->w, in);
    }
}
