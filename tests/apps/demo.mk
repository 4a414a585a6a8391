# SPDX-License-Identifier: BSD-2-Clause
# The demo's app waits through a shared libc, as an app of a device does.
$(BUILD)/tests/apps/demo_blocks: LDFLAGS := $(filter-out -static,$(LDFLAGS))
