# GPU kernels: one translation unit (ie_kernels.c), compiled by clang 22 to a code object for gfx1201 and to PTX for NVIDIA.
# Included by the main Makefile. KERNEL_CLANG and KERNEL_LLD: another clang (21 or later; older ones miscompile sums over a wave).
KERNEL_PY    ?= .venv/bin/python
KERNEL_CLANG ?= $(KERNEL_PY) -m ziglang clang -isystem $(shell $(KERNEL_PY) -c "import os, ziglang; print(os.path.dirname(ziglang.__file__))" 2>/dev/null)/lib/include
KERNEL_LLD   ?= $(KERNEL_PY) -m ziglang ld.lld
KERNEL_FLAGS := -ffreestanding -nostdlibinc -std=c2x -O3 -ffp-contract=off -fno-math-errno -Wall -Wextra -Ikernels -Icore
KERNEL_AMD   := --target=amdgcn-amd-amdhsa -mcpu=gfx1201 -mcode-object-version=5 -nogpulib
KERNEL_NV    := --target=nvptx64-nvidia-cuda -march=sm_80 --cuda-feature=+ptx78 -nogpulib -nocudalib -Wno-pass-failed
KERNEL_SRC   := $(wildcard kernels/*.[ch] core/*.h)

kernels: $(BUILD)/ie_kernels.hsaco $(BUILD)/ie_kernels.ptx

$(BUILD)/ie_kernels.o: $(KERNEL_SRC)
	@mkdir -p $(@D)
	$(call say,GPU)$(KERNEL_CLANG) $(KERNEL_AMD) $(KERNEL_FLAGS) -gline-tables-only -c -o $@ kernels/ie_kernels.c
$(BUILD)/ie_kernels.hsaco: $(BUILD)/ie_kernels.o
	$(call say,LINK)$(KERNEL_LLD) -shared -o $@ $<
$(BUILD)/ie_kernels.ptx: $(KERNEL_SRC)
	@mkdir -p $(@D)
	$(call say,GPU)$(KERNEL_CLANG) $(KERNEL_NV) $(KERNEL_FLAGS) -S -o $@ kernels/ie_kernels.c

# They are taken into the library where they are, or can be made: the compiler is there and this is no instrumented build.
KERNELS_HERE := $(if $(SANITIZE),,$(if $(wildcard $(BUILD)/ie_kernels.hsaco)$(shell $(KERNEL_PY) -c "import ziglang; print(1)" 2>/dev/null),yes))
ifeq ($(KERNELS_HERE),yes)
$(BUILD)/obj/src/gpu/code.o: $(BUILD)/ie_kernels.hsaco $(BUILD)/ie_kernels.ptx
$(BUILD)/obj/src/gpu/code.o: CPPFLAGS += -DIE_HSACO='"$(BUILD)/ie_kernels.hsaco"' -DIE_PTX='"$(BUILD)/ie_kernels.ptx"'
endif

.PHONY: kernels
