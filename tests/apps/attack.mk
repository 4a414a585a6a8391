# SPDX-License-Identifier: BSD-2-Clause
# Targets whose epoll stub is the one of a shared libc, as an app's is.
$(BUILD)/tests/apps/hang_target $(BUILD)/tests/apps/many: LDFLAGS := $(filter-out -static,$(LDFLAGS))
