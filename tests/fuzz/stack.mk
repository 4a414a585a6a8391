# Fuzz targets of the stack readers: clang's libFuzzer with ASan and UBSan. The sanitizers see our
# code, and what libdw does with memory (its allocations and copies), not inside of libdw.
STACK_FUZZ_CHECK := maps elf unwind wire names jit dex oat zip told
STACK_FUZZ := $(STACK_FUZZ_CHECK) vdex
STACK_FUZZ_BIN := $(STACK_FUZZ:%=$(BUILD)/tests/fuzz/fuzz_stack_%)
STACK_FUZZ_SRC := tests/fuzz/fuzz_stack.c user/proc/maps.c user/prober/jit_list.c user/prober/jit_symfiles.c user/prober/jit_process.c \
	$(addprefix user/stack/code/,byte_file.c dex_archive.c jit_elf.c jit_table.c dex_file.c dex_index.c \
	art_method.c budget.c dex.c dex_cache.c dex_list.c jit_told.c names.c oat_dex.c oat_told.c runtime.c dex_name.c dex_line.c dex_class.c vdex_file.c zip_file.c code_info.c oat_file.c oat_index.c quick_frame.c) $(addprefix user/stack/,demangle.c maps.c elf_file.c elf_index.c cfi.c \
	dwarf_expression.c elf_object.c module_names.c module_table.c modules.c unwind.c unwind_guess.c unwound.c unwinder_wire.c wait_places.c demangle_rust.c jit_names.c) user/util/pages.c
FUZZ_SECONDS ?= 300

$(BUILD)/tests/fuzz/fuzz_stack_%: tests/fuzz/fuzz_stack.c $(call fuzz_objects,$(STACK_FUZZ_SRC)) tests/unit/stack_elf.h | $(BUILD)/tests/fuzz
	$(call msg,FUZZ,$@)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -DFUZZ_$(shell echo $* | tr a-z A-Z) -o $@ \
		$(filter-out %.h,$^) -ldw -lelf -llzma -lz -lsupc++

# Writes the files that the fuzzing of byte code starts from.
$(BUILD)/tests/fuzz/dex_seeds: tests/fuzz/dex_seeds.c tests/unit/made_dex.h tests/unit/made_oat.h | $(BUILD)/tests/fuzz
	$(call msg,CC,$@)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(CPPFLAGS) -Itests -o $@ $<

# What test_stack_fuzz.sh runs.
EXTRA_TESTS += $(STACK_FUZZ_CHECK:%=$(BUILD)/tests/fuzz/fuzz_stack_%) $(BUILD)/tests/fuzz/dex_seeds

.PHONY: fuzz-stack
fuzz-stack: $(STACK_FUZZ_BIN) $(BUILD)/tests/fuzz/dex_seeds
	$(Q)for kind in $(STACK_FUZZ); do tests/fuzz/run_stack.sh $(BUILD) $$kind $(FUZZ_SECONDS) || exit 1; done
fuzz: fuzz-stack
