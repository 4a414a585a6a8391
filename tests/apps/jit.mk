# SPDX-License-Identifier: BSD-2-Clause
# A runtime that packs what it keeps of its code. Where it lies is another place each time.
$(BUILD)/tests/apps/jit_app: tests/apps/jit_app.c | $(BUILD)/tests/apps
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -Itests -MMD -MP -fPIE -o $@ $< $(patsubst -static,-static-pie,$(filter -static -fsanitize%,$(LDFLAGS))) -pthread -llzma
