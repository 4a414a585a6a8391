# Fuzz target of the mappings of R8 and ProGuard: clang's libFuzzer with ASan and UBSan.
# `make fuzz` gives it FUZZ_SECONDS (300); tests/fault/test_mapping_fuzz.sh runs its inputs in `make check`.
MAPPING_FUZZ_BIN := $(BUILD)/tests/fuzz/fuzz_mapping
MAPPING_FUZZ_SRC := tests/fuzz/fuzz_mapping.c user/util/arena.c $(wildcard user/stack/symbol/*.c)

$(MAPPING_FUZZ_BIN): tests/fuzz/fuzz_mapping.c $(call fuzz_objects,$(MAPPING_FUZZ_SRC)) | $(BUILD)/tests/fuzz
	$(call msg,FUZZ,$@)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -o $@ $^

EXTRA_TESTS += $(MAPPING_FUZZ_BIN)

.PHONY: fuzz-mapping
fuzz-mapping: $(MAPPING_FUZZ_BIN)
	$(Q)tests/fuzz/run_mapping.sh $(BUILD) $(FUZZ_SECONDS)
fuzz: fuzz-mapping
