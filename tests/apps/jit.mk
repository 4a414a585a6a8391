# SPDX-License-Identifier: BSD-2-Clause
# A runtime that packs what it keeps of its code.
$(BUILD)/tests/apps/jit_app: tests/apps/jit_app.c | $(BUILD)/tests/apps
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -Itests -MMD -MP -o $@ $< $(filter -static -fsanitize%,$(LDFLAGS)) -pthread -llzma
