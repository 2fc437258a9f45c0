/* Layout of sim_inst.gfx for images, shared by decode_gfx.c and disasm_gfx.c. */
#ifndef SIM_DECODE_GFX_H
#define SIM_DECODE_GFX_H

/* IMG_ADDR: five VGPR numbers of 8 bits; IMG_WIDTHS: their dwords, 4 bits each. */
enum { IMG_FLAGS, IMG_DIM, IMG_DMASK, IMG_NADDR, IMG_WIDTHS, IMG_ADDR };
enum { IMG_R128 = 1, IMG_D16 = 2, IMG_A16 = 4, IMG_UNORM = 8, IMG_LWE = 16 };

#endif
