# SPDX-License-Identifier: BSD-2-Clause
# Programs that the scripts of this folder run.
EXTRA_TESTS += $(addprefix $(BUILD)/tests/trace/,compare_sums dex_list)
$(BUILD)/tests/trace/%: tests/trace/%.c $(LIB) | $(BUILD)/tests/trace
	$(call msg,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(LIB) $(LIBS)
