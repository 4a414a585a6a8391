# Fuzz target of the readers of recordings and of the index of a folder: clang's libFuzzer with ASan
# and UBSan. What it calls beside them comes from the tool's library, without them.
RECORDING_FUZZ_BIN := $(BUILD)/tests/fuzz/fuzz_recording
RECORDING_FUZZ_SRC := tests/fuzz/fuzz_recording.c $(wildcard user/record/json_*.c) user/util/arena.c \
	$(addprefix user/store/,line.c index.c verify.c)

$(RECORDING_FUZZ_BIN): tests/fuzz/fuzz_recording.c $(call fuzz_objects,$(RECORDING_FUZZ_SRC)) $(LIB) | $(BUILD)/tests/fuzz
	$(call msg,FUZZ,$@)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)

EXTRA_TESTS += $(RECORDING_FUZZ_BIN)

.PHONY: fuzz-recording
fuzz-recording: $(RECORDING_FUZZ_BIN)
	$(Q)tests/fuzz/run_recording.sh $(BUILD) $(FUZZ_SECONDS)
fuzz: fuzz-recording
