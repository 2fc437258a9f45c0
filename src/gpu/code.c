/* The code object and the PTX text, taken in by the assembler where the build made them (make kernels). */
#include "code.h"

#ifdef IE_HSACO
__asm__(".section .rodata\n.balign 4096\n.global ie_code_hsaco\n.hidden ie_code_hsaco\nie_code_hsaco: .incbin \"" IE_HSACO "\"\n.balign 8\n.previous\n");
extern const char ie_code_hsaco[];
#else
#define ie_code_hsaco NULL
#endif

#ifdef IE_PTX
__asm__(".section .rodata\n.balign 64\n.global ie_code_ptx\n.hidden ie_code_ptx\nie_code_ptx: .incbin \"" IE_PTX "\"\n.byte 0\n.balign 8\n.previous\n");
extern const char ie_code_ptx[];
#else
#define ie_code_ptx NULL
#endif

const gpu_code gpu_codes[GPU_VENDORS] = {
    [GPU_HIP] = {ie_code_hsaco, "ie_kernels.hsaco"},
    [GPU_CUDA] = {ie_code_ptx, "ie_kernels.ptx"},
};
