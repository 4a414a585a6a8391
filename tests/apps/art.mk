# SPDX-License-Identifier: BSD-2-Clause
# A process with Debian's libart in it, which it opens at run time, and an oracle of its stacks. The
# methods that the rig compiles are code for x86_64. On the host; for arm64 for the guest of
# check-art-arm64.
ifeq ($(ARCH)-$(HOST_ARCH),x86_64-x86_64)
EXTRA_TESTS += $(BUILD)/tests/apps/art_rig
$(BUILD)/tests/apps/art_rig: tests/apps/art_rig.cc $(wildcard tests/apps/art_*.h) | $(BUILD)/tests/apps
	$(call msg,CXX,$@)
	$(Q)g++ -std=c++17 -O2 -g -Wall -Wextra -o $@ $< -ldl -llzma -pthread
BACKTRACE_LIB := $(firstword $(wildcard /usr/lib/*/android/libbacktrace.so))
ifneq ($(and $(BACKTRACE_LIB),$(wildcard /usr/include/android/backtrace/Backtrace.h)),)
EXTRA_TESTS += $(BUILD)/tests/apps/unwindstack
$(BUILD)/tests/apps/unwindstack: tests/apps/unwindstack.cc | $(BUILD)/tests/apps
	$(call msg,CXX,$@)
	$(Q)g++ -std=c++17 -O2 -g -Wall -Wextra -Wno-unused-parameter -isystem /usr/include/android \
		-o $@ $< -L$(dir $(BACKTRACE_LIB)) -Wl,-rpath,$(dir $(BACKTRACE_LIB)) \
		-Wl,-rpath-link,/usr/lib/p7zip -lbacktrace -lbase
endif
endif
ifeq ($(ARCH),arm64)
$(BUILD)/tests/apps/art_rig: tests/apps/art_rig.cc $(wildcard tests/apps/art_*.h) | $(BUILD)/tests/apps
	$(call msg,CXX,$@)
	$(Q)clang++ --target=aarch64-linux-gnu -std=c++17 -O2 -g -Wall -Wextra -Wno-unknown-attributes -o $@ $< \
		-L/usr/lib/aarch64-linux-gnu -ldl -l:liblzma.a -pthread
endif
