# SPDX-License-Identifier: BSD-2-Clause
# The only build file. Targets: all demo check check-unit check-kernel check-trace check-vm
# check-fault soak bench fuzz deps fmt fmt-check lint schema install clean
# vm-kernel small-btf.
# Knobs: V=1 (commands), ARCH=arm64|x86_64, SAN=1 (ASan+UBSan), BTF_DIR=..., FULL_BTF_DIR=...
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash

HOST_ARCH := $(patsubst aarch64,arm64,$(shell uname -m))
ARCH ?= $(HOST_ARCH)
ifeq ($(filter $(ARCH),arm64 x86_64),)
$(error ARCH=$(ARCH) is not supported: use arm64 or x86_64)
endif

V ?= 0
ifeq ($(V),0)
Q := @
msg = @printf '  %-7s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$(2))';
else
Q :=
msg =
endif

comma := ,

BUILD := build
ifneq ($(ARCH),$(HOST_ARCH))
BUILD := build/$(ARCH)
endif
ifeq ($(SAN),1)
BUILD := $(BUILD)/san
endif

ARM64_BUILD := build$(if $(filter arm64,$(HOST_ARCH)),,/arm64)

CROSS_arm64  := aarch64-linux-gnu-
CROSS_x86_64 := x86_64-linux-gnu-
ifneq ($(ARCH),$(HOST_ARCH))
CROSS := $(CROSS_$(ARCH))
endif
CC      := $(CROSS)gcc
AR      := $(CROSS)ar
STRIP   := $(CROSS)strip
CLANG   ?= clang
BPFTOOL ?= /usr/sbin/bpftool

VERSION := 0.1.0
VMLINUX_DIR := vmlinux/$(if $(filter arm64,$(ARCH)),arm64,x86)
BPF_ARCH    := $(if $(filter arm64,$(ARCH)),arm64,x86)

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wno-unused-parameter -Wno-missing-field-initializers
CPPFLAGS := -D_GNU_SOURCE -DJANKSCOPE_VERSION='"$(VERSION)"' -Iinclude -Iuser -I$(BUILD)/skel -I$(BUILD)/proto
CFLAGS := -std=gnu11 -O2 -g -fno-omit-frame-pointer -ffunction-sections -fdata-sections $(WARN)
# 16 KiB pages: Android 15 devices and the arm64-16k kernels refuse less. With pages of that size
# separate code costs two half-empty ones on x86_64.
LDFLAGS := -static -Wl,--gc-sections -Wl,-z,max-page-size=16384 -Wl,-z,noexecstack \
	-Wl,-z,noseparate-code -Wl,-u,tls_alignment -Wl,-u,left_out
# Nothing in the tool unwinds the tool; debuggers read .debug_frame.
TOOL_CFLAGS := -fno-asynchronous-unwind-tables -fno-unwind-tables
# Rooms and files whose speed nobody notices are compiled for their size; it keeps the binary below 4 MiB.
SMALL_ROOMS := alert cli compare control core endpoint sink/screen source/disk source/flight source/memory source/power source/startup source/tcp source/context summary target verb why
SMALL_FILES := kernel/features_% record/redact record/schema sink/table%
LIBS := -lbpf -lseccomp -ldw -lelf -ljansson -lprotobuf-c -lzstd -llzma -lbz2 -lz -lsupc++ -lm -pthread
# The allocator of the sanitizers does not work in a static program.
ifeq ($(SAN),1)
CFLAGS := $(filter-out -O2,$(CFLAGS)) -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS := -fsanitize=address,undefined
endif
BPF_CFLAGS := -O2 -g -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Wextra -Werror \
	-Wno-unused-parameter -Wno-missing-declarations -Ibpf -Iinclude -I$(VMLINUX_DIR)

BPF_SRC  := $(wildcard bpf/*.bpf.c)
BPF_OBJ  := $(BPF_SRC:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.o)
SKEL     := $(BPF_SRC:bpf/%.bpf.c=$(BUILD)/skel/%.skel.h)
# Formats that are protocol buffers; protoc-c makes their code.
PROTO_SRC := $(wildcard user/sink/*.proto)
PROTO_H   := $(PROTO_SRC:user/sink/%.proto=$(BUILD)/proto/%.pb-c.h)
PROTO_OBJ := $(PROTO_H:%.h=%.o)
USER_SRC := $(sort $(wildcard user/*/*.c user/*/*/*.c))
USER_OBJ := $(USER_SRC:%.c=$(BUILD)/%.o)
LIB      := $(BUILD)/libjankscope.a

# Android kernels without BTF of their own: BTF_DIR holds files like android12-5.10-*-arm64.btf[.xz],
# whole or small ones.
BTF_DIR ?= vmlinux/btf
BTF_SRC := $(if $(BTF_DIR),$(wildcard $(BTF_DIR)/android*-$(ARCH).btf $(BTF_DIR)/android*-$(ARCH).btf.xz))
BIN      := $(BUILD)/jankscope

# Every tests/DIR/*.c of these folders is a program of its own, static like the tool,
# so that the QEMU guests run the very same files.
APP_SRC  := $(wildcard tests/apps/*.c)
APP_BIN  := $(APP_SRC:tests/%.c=$(BUILD)/tests/%)
KTEST_SRC := $(wildcard tests/kernel/*.c)
KTEST_BIN := $(KTEST_SRC:tests/%.c=$(BUILD)/tests/%)
UNIT_SRC := $(wildcard tests/unit/*.c)
UNIT_OBJ := $(UNIT_SRC:%.c=$(BUILD)/%.o)
BENCH_SRC := $(wildcard tests/bench/*.c)
BENCH_BPF_SRC := $(wildcard tests/bench/*.bpf.c)
BENCH_BIN := $(filter-out %.bpf,$(BENCH_SRC:tests/%.c=$(BUILD)/tests/%))
BENCH_SKEL := $(BENCH_BPF_SRC:tests/bench/%.bpf.c=$(BUILD)/skel/bench_%.skel.h)
-include $(wildcard tests/*/*.mk)

.PHONY: all
all: $(BIN)

$(sort $(BUILD)/bpf $(BUILD)/skel $(dir $(USER_OBJ) $(UNIT_OBJ)) $(BUILD)/user $(BUILD)/tests \
	$(addprefix $(BUILD)/tests/,apps kernel unit bench fault fuzz vm trace)):
	$(Q)mkdir -p $@

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c | $(BUILD)/bpf
	$(call msg,BPF,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MT $@ -c $< -o $@.tmp
	$(Q)$(BPFTOOL) gen object $@ $@.tmp && rm $@.tmp

$(BUILD)/bpf/bench_%.bpf.o: tests/bench/%.bpf.c | $(BUILD)/bpf
	$(call msg,BPF,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MT $@ -c $< -o $@.tmp
	$(Q)$(BPFTOOL) gen object $@ $@.tmp && rm $@.tmp

$(BUILD)/skel/%.skel.h: $(BUILD)/bpf/%.bpf.o | $(BUILD)/skel
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# The skeletons of the tool come without the bytes of their objects, which bpf/pack.sh compresses.
$(SKEL): $(BUILD)/skel/%.skel.h: $(BUILD)/bpf/%.bpf.o bpf/slim_skeleton.awk | $(BUILD)/skel
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@.tmp
	$(Q)awk -v name=$* -f bpf/slim_skeleton.awk $@.tmp > $@ && rm $@.tmp

$(BUILD)/bpf/packed.c: $(BPF_OBJ) bpf/pack.sh
	$(call msg,PACK,$@)
	$(Q)bpf/pack.sh $@ $(BPF_OBJ)

$(BUILD)/bpf/packed.o: $(BUILD)/bpf/packed.c
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# The page of HTML reports with its charting library, of Debian's libjs-dygraphs.
DYGRAPHS ?= /usr/share/javascript/dygraphs
$(BUILD)/html/page.c: user/sink/html/pack.py $(wildcard user/sink/html/page.*) $(wildcard $(DYGRAPHS)/dygraph.min.*s)
	$(call msg,PACK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)python3 $< $@ user/sink/html $(DYGRAPHS)

$(BUILD)/html/page.o: $(BUILD)/html/page.c
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(BUILD)/proto/%.pb-c.h: user/sink/%.proto
	$(call msg,PROTO,$@)
	$(Q)mkdir -p $(@D)
	$(Q)protoc-c --proto_path=$(<D) --c_out=$(@D) $<

$(BUILD)/proto/%.pb-c.o: $(BUILD)/proto/%.pb-c.h
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TOOL_CFLAGS) -c $(@:.o=.c) -o $@

$(foreach room,$(SMALL_ROOMS),$(BUILD)/user/$(room)/%.o) $(SMALL_FILES:%=$(BUILD)/user/%.o): CFLAGS += -Os
$(BUILD)/user/%.o: user/%.c | $(SKEL) $(PROTO_H)
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(TOOL_CFLAGS) -MMD -MP -c $< -o $@

# The list is a file of its own, so that another BTF_DIR makes another binary.
.PHONY: FORCE
$(BUILD)/btf/list: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(BTF_SRC)' | cmp -s - $@ || echo '$(BTF_SRC)' > $@

$(BUILD)/btf/embedded.c: $(BUILD)/btf/list $(BTF_SRC) $(BPF_OBJ) vmlinux/embed_btf.sh
	$(call msg,BTF,$@)
	$(Q)vmlinux/embed_btf.sh $@ $(BPFTOOL) $(BTF_SRC) -- $(BPF_OBJ)

$(BUILD)/btf/embedded.o: $(BUILD)/btf/embedded.c
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# After a change of the BPF programs: cut vmlinux/btf anew out of the whole BTFs (vmlinux/README.md).
FULL_BTF_DIR ?= ../shared/btf
.PHONY: small-btf bpf-objects
small-btf: build/tests/vm/core_fields
	$(Q)$(MAKE) --no-print-directory ARCH=arm64 SAN=0 bpf-objects
	$(Q)vmlinux/small_btf.sh $(FULL_BTF_DIR) vmlinux/btf $(BPFTOOL) $< \
		$(BPF_SRC:bpf/%.bpf.c=$(ARM64_BUILD)/bpf/%.bpf.o)
bpf-objects: $(BPF_OBJ)

$(LIB): $(USER_OBJ) $(PROTO_OBJ) $(BUILD)/btf/embedded.o $(BUILD)/bpf/packed.o \
	$(BUILD)/html/page.o
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsP $@ $^

# The unstripped twin stays beside the binary for debuggers and for the tests of the unwinder.
$(BIN): $(BUILD)/user/main.o $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@.debug $^ $(LIBS) 2> >(grep -v 'dlopen\|debuginfod\|getaddrinfo\|statically linked' >&2)
	$(Q)$(STRIP) -o $@ $@.debug

$(BUILD)/tests/apps/%: tests/apps/%.c | $(BUILD)/tests/apps
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -Itests -MMD -MP -o $@ $< $(filter -static -fsanitize%,$(LDFLAGS)) -pthread -lm

$(BUILD)/tests/kernel/%: tests/kernel/%.c $(LIB) | $(BUILD)/tests/kernel $(SKEL)
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -Itests -MMD -MP $(LDFLAGS) -o $@ $< $(LIB) $(LIBS) 2> >(grep -v 'dlopen\|debuginfod\|getaddrinfo\|statically linked' >&2)

$(BUILD)/tests/bench/%: tests/bench/%.c $(LIB) | $(BUILD)/tests/bench $(SKEL) $(BENCH_SKEL)
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -Itests -MMD -MP $(LDFLAGS) -o $@ $< $(LIB) $(LIBS) 2> >(grep -v 'dlopen\|debuginfod\|getaddrinfo\|statically linked' >&2)

$(BUILD)/tests/unit/%.o: tests/unit/%.c | $(BUILD)/tests/unit $(SKEL)
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -Itests -MMD -MP -c $< -o $@

# Criterion is a shared library; only the unit tests link it. It finds its tests in sections that
# nothing refers to.
$(BUILD)/tests/unit/all: $(UNIT_OBJ) $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(filter-out -static -Wl$(comma)--gc-sections,$(LDFLAGS)) -o $@ $^ -lcriterion $(LIBS)

.PHONY: unit-tests kernel-tests apps
unit-tests: $(BUILD)/tests/unit/all
kernel-tests: $(KTEST_BIN)
apps: $(APP_BIN)

# What is built before a run takes all processors, unless the user has said how many.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: deps demo check check-unit check-kernel check-trace check-vm check-fault check-android soak bench fuzz
deps:
	$(Q)tests/deps.sh $(ARCH)

demo:
	$(Q)tests/deps.sh $(ARCH) core
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(addprefix $(BUILD)/tests/apps/,demo demo_blocks)
	$(Q)tests/demo.sh $(BUILD)

# One runner prints every result as TAP, counts, and ends with "N passed, N failed, N skipped".
check: deps
	$(Q)$(MAKE) --no-print-directory $(JOBS) all apps unit-tests kernel-tests $(ROOM_TESTS)
	$(Q)tests/run.sh $(BUILD)

check-unit: unit-tests
	$(Q)tests/run.sh $(BUILD) unit
# Programs that the scripts of a room run, without the guests' payload, which run.sh builds.
ROOM_TESTS = $(filter-out vm-payload $(BUILD)/tests/vm/%,$(EXTRA_TESTS))
check-kernel: all apps kernel-tests $(ROOM_TESTS)
	$(Q)tests/run.sh $(BUILD) kernel
check-trace: all apps $(ROOM_TESTS)
	$(Q)tests/run.sh $(BUILD) trace
# The faults that check leaves out as well; FULL=1: as long as the table of faults asks, hours in all.
check-fault: all apps $(ROOM_TESTS)
	$(Q)ALL_FAULTS=1 tests/run.sh $(BUILD) fault
# HOURS=72: a lab's; MINUTES=3: to try it. Needs root, takes both CPUs, steps no clock of the machine.
MINUTES ?= $(if $(HOURS),$(shell expr $(HOURS) '*' 60),30)
soak: all $(addprefix $(BUILD)/tests/apps/,churn fakeapp own_clocks)
	$(Q)python3 tests/fault/soak.py $(BUILD) $(MINUTES)
check-vm: deps
	$(Q)$(MAKE) --no-print-directory $(JOBS) vm-payload
	$(Q)VM_GUESTS=all tests/run.sh $(BUILD) vm
# SYSTEM=DIR|IMAGE: a real Android, booted in a guest (tests/android/README.md).
export SYSTEM POLICY ROOMS
check-android:
ifneq ($(SYSTEM),)
	$(Q)tests/deps.sh $(ARCH)
	$(Q)tests/android/image.sh '$(SYSTEM)' build/android >/dev/null
	$(Q)$(MAKE) --no-print-directory $(JOBS) ARCH=arm64 SAN=0 all $(ARM64_BUILD)/tests/apps/artdemo \
		$(ARM64_BUILD)/tests/apps/frame_producer $(ARM64_BUILD)/tests/kernel/stack_dump
endif
	$(Q)tests/android/check.sh

# The page of report --html in headless Chromium, which only this needs; its pictures: build/html.
.PHONY: check-html
check-html:
	$(Q)tests/deps.sh $(ARCH) core tests/html/chromium.txt
	$(Q)$(MAKE) --no-print-directory $(JOBS) all $(BUILD)/tests/bench/bench_report
	$(Q)tests/html/check.sh $(BUILD)

bench: deps
	$(Q)$(MAKE) --no-print-directory $(JOBS) all apps $(BENCH_BIN) $(EXTRA_BENCH)
	$(Q)tests/bench/run.sh $(BUILD)

.PHONY: fmt fmt-check lint schema install clean
FMT_SRC = $(shell git ls-files --cached --others --exclude-standard 'bpf/*.[ch]' 'user/*.[ch]' 'include/*.h' 'tests/*.[ch]')
fmt:
	$(Q)clang-format -i $(FMT_SRC)
fmt-check:
	$(Q)clang-format --dry-run -Werror $(FMT_SRC)
# What is suppressed are false alarms about uthash's macros.
lint: fmt-check
	$(Q)cppcheck --quiet --enable=warning,portability --error-exitcode=1 --inline-suppr \
		--suppress=missingIncludeSystem --suppress=unknownMacro --suppress=uninitvar \
		--suppress=nullPointer -D_GNU_SOURCE \
		-D'LIBBPF_OPTS(TYPE, NAME, ...)=struct TYPE NAME = {__VA_ARGS__}' -Iinclude -Iuser user

# The table of fields as a file, for validators and editors; a unit test compares the two.
schema: all
	$(Q)$(BIN) record --json-schema > $(BUILD)/record.schema.json
	$(Q)cp $(BUILD)/record.schema.json include/jankscope/

PREFIX ?= /usr/local
install: all
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/jankscope
	$(Q)mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1
	$(BIN) man > $(DESTDIR)$(PREFIX)/share/man/man1/jankscope.1

clean:
	$(Q)rm -rf build

# build/vm may hold a kernel's source tree, with .d files and folders of its own.
-include $(shell find $(BUILD) -path '*/vm/gki' -prune -o -type f -name '*.d' -print 2>/dev/null)
