/* Text of the graphics encodings. */
#include "decode.h"
#include "decode_gfx.h"

#include <string.h>

static void disasm_vinterp(struct sim_text *t, const sim_inst *in)
{
    unsigned sel = in->dst[0].mods & SIM_HI ? 8 : 0;
    sim_put(t, " ");
    sim_put_vgprs(t, in->dst[0].reg, 1);
    for (unsigned i = 0; i < 3; i++) {
        sim_put(t, ", ");
        sim_put_opnd(t, &in->src[i]);
        sel |= in->src[i].mods & SIM_HI ? 1u << i : 0;
    }
    if (in->clamp) {
        sim_put(t, " clamp");
    }
    if (sel) {
        sim_put(t, " op_sel:[%u,%u,%u,%u]", sel & 1, sel >> 1 & 1, sel >> 2 & 1, sel >> 3);
    }
    sim_put(t, " wait_exp:%d", in->simm);
}

static void disasm_vdsdir(struct sim_text *t, const sim_inst *in)
{
    sim_put(t, " ");
    sim_put_vgprs(t, in->dst[0].reg, 1);
    if (in->op == SIM_OP_DS_PARAM_LOAD) {
        sim_put(t, ", attr%u.%c", in->gfx[1], "xyzw"[in->gfx[0] & 3]);
    }
    sim_put(t, " wait_va_vdst:%u wait_vm_vsrc:%u", in->gfx[2], in->gfx[3]);
}

static void disasm_exp(struct sim_text *t, const sim_inst *in)
{
    unsigned k = in->gfx[1];
    if (k <= 7) {
        sim_put(t, " mrt%u", k);
    } else if (k == 8) {
        sim_put(t, " mrtz");
    } else if (k >= 12 && k <= 16) {
        sim_put(t, " pos%u", k - 12);
    } else if (k == 20) {
        sim_put(t, " prim");
    } else if (k == 21 || k == 22) {
        sim_put(t, " dual_src_blend%u", k - 21);
    } else {
        sim_put(t, " invalid_target_%u", k);
    }
    for (unsigned i = 0; i < 4; i++) {
        sim_put(t, i ? ", " : " ");
        if (in->src[i].kind == SIM_K_NONE) {
            sim_put(t, "off");
        } else {
            sim_put_opnd(t, &in->src[i]);
        }
    }
    sim_put(t, "%s%s", in->gfx[2] ? " done" : "", in->gfx[3] ? " row_en" : "");
}

static void put_addresses(struct sim_text *t, const sim_inst *in)
{
    unsigned n = in->gfx[IMG_NADDR];
    bool list = n > 1;
    sim_put(t, list ? "[" : "");
    for (unsigned i = 0; i < n; i++) {
        sim_put(t, i ? ", " : "");
        sim_put_vgprs(t, sim_bits(in->gfx[IMG_ADDR + i / 4], 8 * (i & 3), 8), sim_bits(in->gfx[IMG_WIDTHS], 4 * i, 4));
    }
    sim_put(t, list ? "]" : "");
}

static void disasm_image(struct sim_text *t, const sim_inst *in)
{
    static const char *const dims[8] = {"1D", "2D", "3D", "CUBE", "1D_ARRAY", "2D_ARRAY", "2D_MSAA", "2D_MSAA_ARRAY"};
    const char *name = sim_op_name(in->op);
    unsigned flags = in->gfx[IMG_FLAGS];
    bool bvh = strstr(name, "bvh") != NULL;
    sim_put(t, " ");
    sim_put_opnd(t, &in->data_dst);
    sim_put(t, ", ");
    put_addresses(t, in);
    sim_put(t, ", ");
    sim_put_opnd(t, &in->saddr);
    if (in->soffset.kind != SIM_K_NONE) { /* the sampler */
        sim_put(t, ", ");
        sim_put_opnd(t, &in->soffset);
    }
    if (!bvh) {
        if (in->gfx[IMG_DMASK]) {
            sim_put(t, " dmask:0x%x", in->gfx[IMG_DMASK]);
        }
        sim_put(t, " dim:SQ_RSRC_IMG_%s%s", dims[in->gfx[IMG_DIM]], flags & IMG_UNORM ? " unorm" : "");
        sim_put_policy(t, in, strstr(name, "atomic") ? M_ATOMIC : strstr(name, "store") ? M_STORE : M_LOAD);
    }
    sim_put(t, "%s%s%s%s%s", flags & IMG_R128 ? " r128" : "", flags & IMG_A16 ? " a16" : "", in->tfe ? " tfe" : "",
            flags & IMG_LWE ? " lwe" : "", flags & IMG_D16 ? " d16" : "");
}

void sim_disasm_gfx(struct sim_text *t, const sim_inst *in)
{
    sim_put(t, "%s", sim_op_name(in->op));
    switch (in->enc) {
    case SIM_ENC_VINTERP:
        disasm_vinterp(t, in);
        break;
    case SIM_ENC_VDSDIR:
        disasm_vdsdir(t, in);
        break;
    case SIM_ENC_EXP:
        disasm_exp(t, in);
        break;
    case SIM_ENC_VIMAGE:
    case SIM_ENC_VSAMPLE:
        disasm_image(t, in);
        break;
    default:
        break;
    }
}
