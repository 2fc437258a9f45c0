# amd-infer. `make demo` and `make test` set up what they need; `make` alone builds build/ie-run.
# Every C file under src/ is found by pattern; files named *_avx512.c and *_avx2.c get that level's instruction set.

BUILD   ?= build
OPT     ?= -O3
WARN    := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
# The order of floating-point operations is part of the results (docs/NUMERICS.md): no contraction, no fast-math.
NUMERIC := -ffp-contract=off -fno-math-errno -fno-trapping-math
CFLAGS  ?= -g
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Icore -Isrc
ALL_CFLAGS = -std=c11 $(OPT) $(CFLAGS) $(WARN) $(NUMERIC) $(SANITIZE) -pthread -MMD -MP -fPIC -fvisibility=hidden
LIBS    := -ljansson -lpcre2-8 -lm -pthread

AVX512  := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mf16c -mfma -mavx2 -mbmi2 -mprefer-vector-width=512
AVX2    := -mavx2 -mfma -mf16c -mbmi2

LIB_SRC := $(wildcard src/*.c src/quant/*.c src/model/*.c src/cpu/*.c src/gen/*.c src/text/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o)
APP_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard src/app/*.c))
TESTS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))

all: $(BUILD)/ie-run

$(BUILD)/ie-run: $(APP_OBJ) $(BUILD)/libie.a
	$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(LIBS) -ledit

$(BUILD)/libie.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/obj/%_avx512.o: ALL_CFLAGS += $(AVX512)
$(BUILD)/obj/%_avx2.o: ALL_CFLAGS += $(AVX2)
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libie.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libie.a -lcmocka $(LIBS)

unit: $(TESTS)
	@for t in $(TESTS); do $$t || exit 1; done

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(TESTS:=.d)
.PHONY: all unit clean
.SECONDARY:
