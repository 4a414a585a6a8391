# Fuzz targets of what the tool is told in words: /proc, the command line, what recorder, keeper
# and their clients say to one another, and what clients send to --metrics. clang's libFuzzer with ASan and UBSan; what they call beside
# their own rooms comes from the tool's library, without them.
# `make fuzz` gives each FUZZ_SECONDS (300); tests/fault/test_words_fuzz.sh runs their inputs in
# `make check`.
WORDS_FUZZ := proc options control http
WORDS_FUZZ_BIN := $(WORDS_FUZZ:%=$(BUILD)/tests/fuzz/fuzz_%)
WORDS_FUZZ_SRC_proc := $(wildcard user/proc/*.c) user/prober/maps_filter.c user/target/packages.c
WORDS_FUZZ_SRC_options := user/cli/options.c user/alert/rule.c user/alert/metric.c user/util/rule_text.c user/util/units.c
WORDS_FUZZ_SRC_control := $(addprefix user/control/,request.c run_status.c keeper.c keeper_log.c) \
	$(addprefix user/store/,folder.c list.c index.c line.c) user/verb/folder_state.c
WORDS_FUZZ_SRC_http := user/endpoint/http.c user/endpoint/address.c

define words_fuzz
$(BUILD)/tests/fuzz/fuzz_$(1): tests/fuzz/fuzz_$(1).c $(WORDS_FUZZ_SRC_$(1)) $(LIB) tests/fuzz/uncovered.txt | $(BUILD)/tests/fuzz
	$$(call msg,FUZZ,$$@)
	$$(Q)$$(CLANG) -std=gnu11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-fsanitize-coverage-ignorelist=tests/fuzz/uncovered.txt \
		$$(CPPFLAGS) -o $$@ tests/fuzz/fuzz_$(1).c $$(WORDS_FUZZ_SRC_$(1)) $$(LIB) $$(LIBS)
endef
$(foreach kind,$(WORDS_FUZZ),$(eval $(call words_fuzz,$(kind))))

EXTRA_TESTS += $(WORDS_FUZZ_BIN)

.PHONY: fuzz-words
fuzz-words: $(WORDS_FUZZ_BIN)
	$(Q)for kind in $(WORDS_FUZZ); do \
		tests/fuzz/run_words.sh $(BUILD) $$kind $(FUZZ_SECONDS) || exit 1; done
fuzz: fuzz-words
