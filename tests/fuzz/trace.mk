# Fuzz targets of the trace readers: clang's libFuzzer with ASan and UBSan.
# `make fuzz` gives each FUZZ_SECONDS (300); tests/trace/test_fuzz.sh runs the corpus in `make check`.
TRACE_FUZZ := container proto text html
TRACE_FUZZ_BIN := $(TRACE_FUZZ:%=$(BUILD)/tests/fuzz/fuzz_trace_%)
TRACE_FUZZ_SRC := tests/fuzz/fuzz_trace.c user/record/histogram.c user/compat/compat.c \
	user/record/lists.c $(addprefix user/why/,cast.c cut.c handover.c judge.c tell.c) \
	$(wildcard user/trace/*.c user/frames/*.c)
FUZZ_SECONDS ?= 300

upper = $(shell echo $(1) | tr a-z A-Z)
$(BUILD)/tests/fuzz/fuzz_trace_%: tests/fuzz/fuzz_trace.c $(call fuzz_objects,$(TRACE_FUZZ_SRC)) | $(BUILD)/tests/fuzz
	$(call msg,FUZZ,$@)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -DFUZZ_$(call upper,$*) -o $@ $^ -lz -lzstd -lm

EXTRA_TESTS += $(TRACE_FUZZ_BIN)

.PHONY: fuzz-trace
fuzz-trace: $(TRACE_FUZZ_BIN)
	$(Q)for kind in $(TRACE_FUZZ); do \
		tests/fuzz/run_trace.sh $(BUILD) $$kind $(FUZZ_SECONDS) || exit 1; done
fuzz: fuzz-trace
