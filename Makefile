# amd-infer. `make demo` and `make test` set up what they need; `make` alone builds build/ie-run.
# Every C file under src/ is found by pattern; files named *_avx512.c and *_avx2.c get that level's instruction set.

BUILD   ?= build
comma   := ,
# Each step is one short line; V=1 shows the commands.
say      = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),,@printf '  %-4s %s\n' $(1) $@;)
PREFIX  ?= /usr/local
DESTDIR ?=
OPT     ?= -O3
CFLAGS  ?= -g
VERSION := $(shell sed -n 's/^\#define IE_VERSION "\(.*\)"/\1/p' include/ie.h)
PY      := .venv/bin/python
CACHE   := .cache
DEMO    := $(CACHE)/models/SmolLM2-135M-Instruct.Q4_1.gguf

WARN    := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
# The order of floating-point operations is part of the results (docs/NUMERICS.md): no contraction, no fast-math.
NUMERIC := -ffp-contract=off -fno-math-errno -fno-trapping-math
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Icore -Isrc -Ikernels
ALL_CFLAGS = -std=c11 $(OPT) $(CFLAGS) $(WARN) $(NUMERIC) $(SANITIZE) -pthread -MMD -MP -fPIC
# Debug positions of variables cost gcc up to half of a file's time (src/cpu/mm_avx2.c: 30 of 58 s; instrumented, src/cpu/ops_portable.c: 56 of
# 64 s) and change no instruction. To look at variables, build with OPT=-O0.
IS_CLANG := $(findstring clang,$(CC))
NO_POSITIONS := $(if $(IS_CLANG),,-fno-var-tracking-assignments)
ALL_CFLAGS += $(NO_POSITIONS)
LIBS    := -ljansson -lpcre2-8 -lm -ldl -pthread
# A program's libraries: $(1), where all their archives are there (Debian, Ubuntu), so that one file can be copied to another machine; else, and
# with STATIC=0, the shared ones $(2).
STATIC  ?= 1
no_archive = $(filter-out /%,$(foreach l,$(1),$(shell $(CC) -print-file-name=lib$(l).a)))
linked   = $(if $(filter-out 1,$(STATIC))$(call no_archive,$(1)),$(2:%=-l%),$(1:%=-l:lib%.a)) -lm -ldl -pthread

AVX512  := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mf16c -mfma -mavx2 -mbmi2 -mprefer-vector-width=512
AVX2    := -mavx2 -mfma -mf16c -mbmi2

# The GPU code: by clang 21 or later with lld: ziglang's (PyPI; `make setup` gets it), else the system's, else GPU_CLANG and GPU_LLD.
# Without one, and with GPU=0, the build holds no kernels (make kernels on another machine; --hsaco FILE at run time).
GPU         ?= 1
ZIG_INCLUDE := $(wildcard .venv/lib/python3*/site-packages/ziglang/lib/include)
SYS_LLVM    ?= /usr/bin
SYS_VERSION := $(lastword $(sort $(patsubst $(SYS_LLVM)/clang-%,%,$(wildcard $(SYS_LLVM)/clang-2[1-9]))))
ifneq ($(filter-out 0,$(GPU)),)
ifneq ($(ZIG_INCLUDE),)
GPU_CLANG   ?= $(PY) -m ziglang clang -isystem $(ZIG_INCLUDE)
GPU_LLD     ?= $(PY) -m ziglang ld.lld
else ifneq ($(and $(SYS_VERSION),$(wildcard $(SYS_LLVM)/ld.lld-$(SYS_VERSION))),)
GPU_CLANG   ?= $(SYS_LLVM)/clang-$(SYS_VERSION)
GPU_LLD     ?= $(SYS_LLVM)/ld.lld-$(SYS_VERSION)
endif
endif
GPU_FLAGS   := -std=c2x -O3 -ffp-contract=off -ffreestanding -nogpulib -Icore -Ikernels -Wall -Wno-unused-command-line-argument
GPU_AMD      = $(GPU_CLANG) --target=amdgcn-amd-amdhsa -mcpu=gfx1201 -mcode-object-version=5 $(GPU_FLAGS)
GPU_NVIDIA   = $(GPU_CLANG) --target=nvptx64-nvidia-cuda -march=sm_80 --cuda-feature=+ptx78 -nocudalib $(GPU_FLAGS)
GPU_SRC     := $(wildcard kernels/*.[ch]) $(wildcard core/*.h)
GPU_CODE    := $(if $(GPU_CLANG),$(BUILD)/ie_kernels.hsaco $(BUILD)/ie_kernels.ptx)

LIB_SRC := $(wildcard src/*.c src/quant/*.c src/model/*.c src/cpu/*.c src/gpu/*.c src/gen/*.c src/text/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o)
APP_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/app/*.c))
SERVE_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/serve/*.c)) $(BUILD)/obj/src/app/opt.o $(BUILD)/obj/src/app/start.o
UNIT    := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
HELPERS := $(patsubst tests/tools/%.c,$(BUILD)/tests/%,$(wildcard tests/tools/*.c))
FUZZ    := $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
BENCH   := $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c))
TOOLS   := $(patsubst tools/%.c,$(BUILD)/tools/%,$(wildcard tools/*.c))
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))

all: $(BUILD)/ie-run $(BUILD)/ie-serve

$(BUILD)/ie-run: $(APP_OBJ) $(BUILD)/libie.a
	$(call say,LINK)$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(call linked,edit tinfo bsd md jansson pcre2-8,edit jansson pcre2-8)

$(BUILD)/ie-serve: $(SERVE_OBJ) $(BUILD)/libie.a
	$(call say,LINK)$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(call linked,event_pthreads event jansson pcre2-8,event_pthreads event jansson pcre2-8)

$(BUILD)/libie.a: $(LIB_OBJ)
	@rm -f $@
	$(call say,AR)$(AR) rcs $@ $^

kernels: $(GPU_CODE)
	@$(if $(GPU_CODE),,echo 'no compiler for GPU code: make setup gets one (ziglang), or set GPU_CLANG and GPU_LLD'; exit 1)
kernels-early: $(GPU_CODE) # what takes longest first
have-gpu-clang: # for tools/setup.sh
	@$(if $(GPU_CLANG)$(filter 0,$(GPU)),true,false)
ifdef GPU_FROM # a build of the host's part by other flags: the kernels are those of that folder
$(GPU_CODE): $(BUILD)/%: $(GPU_FROM)/%
	@mkdir -p $(@D) && cp $< $@
else
$(BUILD)/ie_kernels.hsaco: $(GPU_SRC)
	@mkdir -p $(@D)
	$(call say,GPU)$(GPU_AMD) -c -o $@.o kernels/ie_kernels.c && $(GPU_LLD) -shared -o $@ $@.o
# C has no launch bounds for this target: matrix kernels of several tokens and attention of several heads get theirs here, 128 registers, so
# that a unit holds two of their workgroups at least.
PTX_BOUNDS := /entry ie_\(gemv_.*_t\(8\|16\)\|attn_\(split_[0-9]*\|stream_64\|stream_128\)\)(/,/^{/ s/^{/.maxntid 256\n.minnctapersm 2\n{/
PTX_STREAM := /entry ie_gemv_.*_s16(/,/^{/ s/^{/.maxntid 384\n.minnctapersm 1\n{/; /entry ie_gemv_.*_s8(/,/^{/ s/^{/.maxntid 512\n.minnctapersm 1\n{/
$(BUILD)/ie_kernels.ptx: $(GPU_SRC)
	@mkdir -p $(@D)
	$(call say,GPU)$(GPU_NVIDIA) -S -o $@.s kernels/ie_kernels.c && sed '$(PTX_BOUNDS);$(PTX_STREAM)' $@.s > $@ && rm $@.s
endif
# The gfx1201 code as text, for checks of instructions.
kernel-text:
	@$(GPU_AMD) -S -o - kernels/ie_kernels.c
ifneq ($(GPU_CODE),)
$(BUILD)/obj/src/gpu/code.o: $(GPU_CODE)
$(BUILD)/obj/src/gpu/code.o: CPPFLAGS += -DIE_HSACO='"$(BUILD)/ie_kernels.hsaco"' -DIE_PTX='"$(BUILD)/ie_kernels.ptx"'
endif

$(BUILD)/obj/src/serve/page.o: $(wildcard src/serve/page/*)

$(BUILD)/libie.so: $(LIB_OBJ)
	$(call say,LINK)$(CC) $(SANITIZE) -shared -Wl,-soname,libie.so.0 -Wl,--version-script=tools/libie.map $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/obj/%_avx512.o: ALL_CFLAGS += $(AVX512)
$(BUILD)/obj/%_avx2.o: ALL_CFLAGS += $(AVX2)
# The matrix kernels are thousands of inlined vector operations: with the undefined-behaviour checks around each, one file
# takes minutes to compile. They keep the address checks (by calls, which compile faster than inlined ones); their
# integer code is checked in the core and by the laws.
MM_SANITIZE := $(subst $(comma)undefined,,$(SANITIZE))
ifneq ($(findstring fsanitize=address,$(SANITIZE)),)
MM_SANITIZE += $(if $(IS_CLANG),-mllvm -asan-instrumentation-with-call-threshold=0,--param asan-instrumentation-with-call-threshold=0)
endif
$(BUILD)/obj/src/cpu/mm_%.o $(BUILD)/obj/tests/unit/forms_%.o: override SANITIZE := $(MM_SANITIZE)
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libie.a -lcmocka $(LIBS)

# The vector forms of each SIMD level.
FORMS := $(BUILD)/obj/tests/unit/forms_portable.o $(BUILD)/obj/tests/unit/forms_avx2.o $(BUILD)/obj/tests/unit/forms_avx512.o
$(BUILD)/tests/test_vector_forms: tests/unit/test_vector_forms.c $(FORMS) $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(FORMS) $(BUILD)/libie.a -lcmocka $(LIBS)

# Parts of the server.
ANSWER := $(filter-out %/main.o,$(SERVE_OBJ))
$(BUILD)/tests/test_answer: tests/unit/test_answer.c $(ANSWER) $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(ANSWER) $(BUILD)/libie.a -levent -levent_pthreads -lcmocka $(LIBS)

# The scheduler needs nothing else of the server.
SCHED_OBJ := $(BUILD)/obj/src/serve/sched.o $(BUILD)/obj/src/serve/sched_job.o $(BUILD)/obj/src/serve/replies.o
$(BUILD)/tests/test_sched: tests/unit/test_sched.c $(SCHED_OBJ) $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(SCHED_OBJ) $(BUILD)/libie.a -lcmocka $(LIBS)

# Test kernels, where there is a compiler for them.
ifneq ($(GPU_CODE),)
$(BUILD)/tests/test_gpu_forms: $(BUILD)/tests/forms.hsaco $(BUILD)/tests/forms.ptx $(BUILD)/sim/libamdhip64.so
endif
$(BUILD)/tests/%.hsaco: tests/gpu/%.c $(wildcard tests/gpu/*.h) $(GPU_SRC)
	@mkdir -p $(@D)
	$(call say,GPU)$(GPU_AMD) -c -o $@.o $< && $(GPU_LLD) -shared -o $@ $@.o
$(BUILD)/tests/%.ptx: tests/gpu/%.c $(wildcard tests/gpu/*.h) $(GPU_SRC)
	@mkdir -p $(@D)
	$(call say,GPU)$(GPU_NVIDIA) -S -o $@ $<

# A stand-in for NVIDIA's driver that runs the kernels, as that card has them, on this machine (tests/gpu/lanes).
CARD := $(if $(GPU_CLANG),$(BUILD)/tests/card/libcuda.so.1)
$(BUILD)/tests/card/kernels.o: $(GPU_SRC) tests/gpu/lanes/lanes.h
	@mkdir -p $(@D)
	$(call say,GPU)$(GPU_CLANG) --target=x86_64-linux-gnu -mavx2 -mfma -mf16c $(GPU_FLAGS) -O1 -fPIC -fvisibility=hidden -DIE_LANES -Itests/gpu/lanes \
		-Wno-pass-failed -c -o $@ kernels/ie_kernels.c
$(BUILD)/tests/card/libcuda.so.1: tests/gpu/lanes/card.c $(BUILD)/tests/card/kernels.o
	$(call say,CC)$(CC) -D_GNU_SOURCE -std=c11 $(OPT) $(CFLAGS) $(WARN) -fPIC -fvisibility=hidden -shared -Wl,-soname,libcuda.so.1 -o $@ $^ -lm -ldl

$(BUILD)/tests/test_driver: $(BUILD)/tests/mock/libcuda.so.1 $(BUILD)/sim/libamdhip64.so
$(BUILD)/tests/mock/libcuda.so.1: tests/mock/libcuda.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -std=c11 $(OPT) $(CFLAGS) $(WARN) $(SANITIZE) -fPIC -fvisibility=hidden -shared -Wl,-soname,libcuda.so.1 -o $@ $<

$(BUILD)/tests/%: tests/tools/%.c $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libie.a $(LIBS)

$(BUILD)/bench/%: bench/%.c $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libie.a $(LIBS)

$(BUILD)/tools/%: tools/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< -lm

# Tools that run models or kernels.
$(BUILD)/tools/diff_backends $(BUILD)/tools/gemv_eq $(BUILD)/tools/gemv_bench $(BUILD)/tools/step_time: $(BUILD)/tools/%: tools/%.c $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libie.a $(LIBS)

# As a user of the installed library would: the public header alone.
$(BUILD)/examples/%: examples/%.c $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -std=c11 $(OPT) $(CFLAGS) $(WARN) $(SANITIZE) -Iinclude -o $@ $< $(BUILD)/libie.a $(LIBS)

# ---- the simulator of gfx1201 machine code (sim/README.md): make sim

include sim/sim.mk

# ---- set-up: packages by apt (root), a Python environment in .venv, test files in .cache ---------------------------

setup:
	@GPU=$(GPU) tools/setup.sh build
setup-test:
	@tools/setup.sh test

$(DEMO):
	@tools/setup.sh model

demo: setup
	@$(MAKE) -j$$(nproc) --no-print-directory $(DEMO) kernels-early $(BUILD)/ie-run
	@echo
	@echo 'build/ie-run $(DEMO) -p "Why is the sky blue? Answer in two sentences."'
	@$(BUILD)/ie-run $(DEMO) -p "Why is the sky blue? Answer in two sentences."

# ---- tests --------------------------------------------------------------------------------------------------------

# Everything: unit tests and laws, the same under address and undefined-behaviour checks, fuzz targets for a few seconds
# each, then the end-to-end tests.
test: setup-test
	@tools/run_tests.sh $(BUILD)

unit: unit-build
	@tools/run_unit.sh $(UNIT)
unit-build: $(UNIT)
helpers: $(HELPERS) $(CARD)
tools: $(TOOLS)
examples: $(EXAMPLES)

e2e: $(BUILD)/ie-run $(BUILD)/ie-serve $(HELPERS) $(CARD) $(EXAMPLES)
	IE_BUILD=$(abspath $(BUILD)) $(PY) -m pytest -q tests/e2e

# The unit tests under sanitizers, each in a build folder of its own.
ASAN := BUILD=$(BUILD)/asan GPU_FROM=$(BUILD) OPT=-O1 SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
TSAN := BUILD=$(BUILD)/tsan GPU_FROM=$(BUILD) OPT=-O1 SANITIZE="-fsanitize=thread"
# The laws on fewer inputs than `make unit` gives them: instrumented they are ten times slower.
asan tsan: export IE_LAW_RUNS ?= 100000
asan asan-build: $(GPU_CODE)
	@$(MAKE) --no-print-directory $(ASAN) $(@:asan%=unit%)
tsan tsan-build: $(GPU_CODE)
	@$(MAKE) --no-print-directory $(TSAN) $(@:tsan%=unit%)

# The server under sanitizers, by the tests of faults.
SERVE_TESTS := tests/e2e/test_serve_faults.py
asan-serve-build: $(GPU_CODE)
	@$(MAKE) --no-print-directory $(ASAN) $(BUILD)/asan/ie-serve
tsan-serve-build: $(GPU_CODE)
	@$(MAKE) --no-print-directory $(TSAN) $(BUILD)/tsan/ie-serve
asan-serve tsan-serve: %-serve: %-serve-build
	ASAN_OPTIONS=detect_stack_use_after_return=0 IE_BUILD=$(abspath $(BUILD))/$* $(PY) -m pytest -q -n $$(nproc) $(SERVE_TESTS)

FUZZ_SECONDS ?= 60
# By clang, with coverage instrumentation.
fuzz-build: $(BUILD)/libie.a
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz FUZZ_LIB=$(BUILD)/libie.a CC=clang OPT=-O1 SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" fuzz-targets
fuzz-targets: $(FUZZ)
# What reads bytes from outside; the rest of the library need not be built for it.
FUZZ_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out src/text/chat.c,$(wildcard src/base.c src/pages.c src/prefix_read.c src/gguf*.c src/text/*.c src/gen/gr*.c src/gen/gbnf.c src/gen/schema*.c src/gen/matcher.c)))
$(BUILD)/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ_OBJ)
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)
# Requests of the server: its own files are instrumented, the rest of the library is the other build's. The model lies beside the program.
FUZZ_LIB ?= $(BUILD)/libie.a
FUZZ_SERVE := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out src/serve/main.c src/serve/http.c src/serve/http_chunk.c src/serve/http_refuse.c src/serve/sched.c src/serve/sched_job.c src/serve/replies.c,$(wildcard src/serve/*.c)))
$(BUILD)/fuzz_request: tests/fuzz/fuzz_request.c $(FUZZ_SERVE) $(FUZZ_LIB) | $(BUILD)/request.gguf
	$(call say,CC)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -fsanitize=fuzzer -o $@ $< $(FUZZ_SERVE) $(FUZZ_LIB) $(LIBS)
$(BUILD)/request.gguf: tools/make_tiny_gguf.py
	@mkdir -p $(@D)
	@$(PY) $< q8_0 $@
fuzz: fuzz-build
	@tools/run_fuzz.sh $(BUILD)/fuzz $(FUZZ_SECONDS)

# ---- proofs (docs/VERIFICATION.md) ---------------------------------------------------------------------------------

# Every law of laws/*.h, for all inputs, on the text of core/ie_core.h, ie_launch.h and ie_layout.h.
proofs:
	@proofs/check.sh
# Does a law, or else a proof, notice each of some 750 single-token changes of the core? Not part of `make test`.
proofs-mutate:
	@tools/setup.sh test
	@tools/setup.sh proofs
	@proofs/mutate.py

# ---- style --------------------------------------------------------------------------------------------------------

C_FILES = $(shell find bench core examples include laws src tests tools -name '*.[ch]')
fmt:
	clang-format -i $(C_FILES)
lint:
	@tools/lint.sh

# ---- install ------------------------------------------------------------------------------------------------------

install: $(BUILD)/ie-run $(BUILD)/ie-serve $(BUILD)/libie.a $(BUILD)/libie.so
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/share/doc/amd-infer
	install -m 755 $(BUILD)/ie-run $(BUILD)/ie-serve $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(BUILD)/libie.a $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(BUILD)/libie.so $(DESTDIR)$(PREFIX)/lib/libie.so.0
	ln -sf libie.so.0 $(DESTDIR)$(PREFIX)/lib/libie.so
	install -m 644 include/ie.h $(DESTDIR)$(PREFIX)/include/
	sed -e 's|@PREFIX@|$(or $(PC_PREFIX),$(PREFIX))|; s|@VERSION@|$(VERSION)|' tools/libie.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/libie.pc
	install -m 644 README.md LICENSE docs/*.md docs/*.yaml $(DESTDIR)$(PREFIX)/share/doc/amd-infer/

DIST := amd-infer-$(VERSION)-linux-$(shell uname -m)
dist: $(BUILD)/ie-run
	rm -rf $(BUILD)/dist && mkdir -p dist
	$(MAKE) --no-print-directory install DESTDIR=$(abspath $(BUILD))/dist/$(DIST) PREFIX= PC_PREFIX='$$$${pcfiledir}/../..'
	strip --strip-unneeded $(BUILD)/dist/$(DIST)/bin/ie-run $(BUILD)/dist/$(DIST)/bin/ie-serve $(BUILD)/dist/$(DIST)/lib/libie.so.0
	strip -g $(BUILD)/dist/$(DIST)/lib/libie.a
	tar -C $(BUILD)/dist -czf dist/$(DIST).tar.gz $(DIST)
	@echo dist/$(DIST).tar.gz

bench: $(BENCH) $(TOOLS) $(BUILD)/ie-run

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(SERVE_OBJ:.o=.d) $(UNIT:=.d) $(FORMS:.o=.d) $(HELPERS:=.d) $(BENCH:=.d) $(TOOLS:=.d)
.PHONY: all kernels kernels-early have-gpu-clang kernel-text setup setup-test demo test unit unit-build helpers tools examples e2e asan asan-build asan-serve asan-serve-build tsan tsan-build tsan-serve tsan-serve-build fuzz fuzz-build fuzz-targets proofs proofs-mutate fmt lint install dist bench clean
.SECONDARY:
