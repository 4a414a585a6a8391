# SPDX-License-Identifier: BSD-2-Clause
# A target on Debian's android::Looper: dynamic, because Debian has it so. Only on the host.
ANDROID_LIBS := $(firstword $(wildcard /usr/lib/*/android/libutils.so))
ifneq ($(ANDROID_LIBS),)
ifeq ($(ARCH),$(HOST_ARCH))
EXTRA_APPS += $(BUILD)/tests/apps/looper
EXTRA_TESTS += $(BUILD)/tests/apps/looper
EXTRA_BENCH += $(BUILD)/tests/apps/looper
$(BUILD)/tests/apps/looper: tests/apps/looper.cc | $(BUILD)/tests/apps
	$(call msg,CXX,$@)
	$(Q)g++ -O2 -g -Wall -Wextra -Wno-unused-parameter -Wno-attributes -isystem /usr/include/android -o $@ $< \
		-L$(dir $(ANDROID_LIBS)) -Wl,-rpath,$(dir $(ANDROID_LIBS)) -lutils -lcutils -llog -pthread
endif
endif
