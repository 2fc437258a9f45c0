# The simulator: build/sim/libamdhip64.so (a stand-in for AMD's) and build/sim/simrun. Included by the main Makefile, which sets
# BUILD, CC, WARN, NUMERIC, NO_POSITIONS, SANITIZE; also usable alone: make -f sim/sim.mk
BUILD   ?= build
OPT     ?= -O3
WARN    ?= -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
NUMERIC ?= -ffp-contract=off -fno-math-errno -fno-trapping-math
CFLAGS  ?= -g
AVX512  ?= -mavx512f -mavx512bw -mavx512vl -mavx512dq -mf16c -mfma -mavx2 -mbmi2 -mprefer-vector-width=512
AVX2    ?= -mavx2 -mfma -mf16c -mbmi2

SIM_FLAGS = -D_GNU_SOURCE -Isim -std=c11 $(OPT) $(CFLAGS) $(WARN) $(NUMERIC) -Wno-psabi $(NO_POSITIONS) $(SANITIZE) -pthread -MMD -MP -fPIC -fvisibility=hidden
SIM_SRC := $(filter-out sim/simrun.c $(wildcard sim/hip_*.c),$(wildcard sim/*.c))
SIM_OBJ := $(SIM_SRC:sim/%.c=$(BUILD)/sim/obj/%.o)
SIM_HIP_OBJ := $(patsubst sim/%.c,$(BUILD)/sim/obj/%.o,$(wildcard sim/hip_*.c))

sim: $(BUILD)/sim/libamdhip64.so $(BUILD)/sim/simrun

$(BUILD)/sim/libsim.a: $(SIM_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/sim/libamdhip64.so: $(SIM_HIP_OBJ) $(BUILD)/sim/libsim.a
	$(CC) $(SANITIZE) $(LDFLAGS) -shared -Wl,-soname,libamdhip64.so -o $@ $^ -lm -pthread

$(BUILD)/sim/simrun: $(BUILD)/sim/obj/simrun.o $(BUILD)/sim/libsim.a
	$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ -lm -pthread

$(BUILD)/sim/obj/%_avx512.o: SIM_FLAGS += $(AVX512)
$(BUILD)/sim/obj/%_avx2.o: SIM_FLAGS += $(AVX2)
$(BUILD)/sim/obj/%.o: sim/%.c
	@mkdir -p $(@D)
	$(CC) $(SIM_FLAGS) -c -o $@ $<

-include $(SIM_OBJ:.o=.d) $(SIM_HIP_OBJ:.o=.d) $(BUILD)/sim/obj/simrun.d
.PHONY: sim

# The simulator's unit tests link its archive and not the engine's.
$(BUILD)/tests/test_sim_%: tests/unit/test_sim_%.c $(BUILD)/sim/libsim.a
	@mkdir -p $(@D)
	$(CC) $(SIM_FLAGS) -o $@ $< $(BUILD)/sim/libsim.a -lcmocka -lm -pthread


# Fuzz targets of the simulator likewise.
$(BUILD)/fuzz_sim_%: tests/fuzz/fuzz_sim_%.c $(BUILD)/sim/libsim.a
	$(CC) $(SIM_FLAGS) -fsanitize=fuzzer -o $@ $^ -lm -pthread
