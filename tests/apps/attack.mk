# SPDX-License-Identifier: BSD-2-Clause
# Targets whose wait is the one of a shared libc, as an app's is.
$(addprefix $(BUILD)/tests/apps/,frame_stacks hang_target many churn loop_kinds loop_odd block_odd loop_frames rhythm lock_chain lock_odd): \
	LDFLAGS := $(filter-out -static,$(LDFLAGS))
# Event loops that nobody here wrote; each where its packages are. Only on the host.
ifeq ($(ARCH),$(HOST_ARCH))
QT_CORE := $(shell pkg-config --exists Qt5Core 2>/dev/null && echo yes)
ifeq ($(QT_CORE),yes)
EXTRA_TESTS += $(BUILD)/tests/apps/loop_qt
$(BUILD)/tests/apps/loop_qt: tests/apps/loop_qt.cc | $(BUILD)/tests/apps
	$(call msg,CXX,$@)
	$(Q)g++ -O2 -g -fPIC -Wall -Wextra $$(pkg-config --cflags Qt5Core) -o $@ $< $$(pkg-config --libs Qt5Core)
endif
GO := $(shell command -v go 2>/dev/null)
ifneq ($(GO),)
EXTRA_TESTS += $(BUILD)/tests/apps/loop_go
$(BUILD)/tests/apps/loop_go: tests/apps/loop_go.go | $(BUILD)/tests/apps
	$(call msg,GO,$@)
	$(Q)GOCACHE=$(abspath $(BUILD))/go-cache GO111MODULE=off CGO_ENABLED=0 $(GO) build -o $@ $<
EXTRA_TESTS += $(BUILD)/tests/apps/loop_cgo
$(BUILD)/tests/apps/loop_cgo: tests/apps/loop_cgo.go | $(BUILD)/tests/apps
	$(call msg,GO,$@)
	$(Q)GOCACHE=$(abspath $(BUILD))/go-cache GO111MODULE=off CGO_ENABLED=1 $(GO) build -o $@ $<
endif
JAVAC := $(shell command -v javac 2>/dev/null)
ifneq ($(JAVAC),)
EXTRA_TESTS += $(BUILD)/tests/apps/LoopJava.class
$(BUILD)/tests/apps/LoopJava.class: tests/apps/LoopJava.java | $(BUILD)/tests/apps
	$(call msg,JAVAC,$@)
	$(Q)$(JAVAC) -d $(@D) $<
endif
endif
