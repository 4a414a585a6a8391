# The project's files as the fuzz targets link them: with coverage for libFuzzer, ASan and UBSan. All
# targets share them, so that each file is compiled once; only tests/fuzz/fuzz_*.c differ by target.
# FRAMES_SMALL_WINDOWS: inputs of a fuzzer are short, and are to reach the ends of windows too.
FUZZ_CC = $(CLANG) -std=gnu11 -O1 -g -fno-sanitize-recover=undefined -DFRAMES_SMALL_WINDOWS $(CPPFLAGS) -Itests
fuzz_objects = $(patsubst %.c,$(BUILD)/fuzz/%.o,$(filter user/%,$(1)))

$(BUILD)/fuzz/%.o: %.c
	$(call msg,FUZZ-CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer-no-link,address,undefined -MMD -MP -c -o $@ $<

-include $(shell find $(BUILD)/fuzz -name '*.d' 2>/dev/null)
