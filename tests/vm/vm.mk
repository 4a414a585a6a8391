# The guests run the very files of this build, and those of the arm64 one.
.PHONY: vm-payload vm-kernel
EXTRA_TESTS += vm-payload
vm-payload: all apps kernel-tests all-vm-apps build/tests/vm/core_fields
	$(Q)$(MAKE) --no-print-directory ARCH=arm64 SAN=0 all apps vm-kernel-tests all-vm-apps

# Only those that a guest runs, by itself or by hand.
VM_KERNEL_TESTS := $(sort $(shell grep -oh 'test_[a-z0-9_]*' tests/vm/guests.sh tests/vm/guest/*.sh))
.PHONY: vm-kernel-tests
vm-kernel-tests: $(filter $(VM_KERNEL_TESTS:%=$(BUILD)/tests/kernel/%),$(KTEST_BIN))

# Debian's libart for arm64 in a guest: half a minute; apt-get download fetches it.
.PHONY: check-art-arm64
check-art-arm64:
	$(Q)$(MAKE) --no-print-directory $(JOBS) ARCH=arm64 SAN=0 all $(addprefix $(ARM64_BUILD)/tests/,apps/art_rig kernel/stack_dump kernel/test_oat_live)
	$(Q)tests/vm/art.sh

# GKI-like kernels from Debian's linux-source (10 to 15 minutes each on two cores).
vm-kernel: deps
	$(Q)nice -n 10 tests/vm/build_kernel.sh 6.1
	$(Q)nice -n 10 tests/vm/build_kernel.sh 6.12

EXTRA_TESTS += $(BUILD)/tests/vm/core_fields
$(BUILD)/tests/vm/core_fields: tests/vm/core_fields.c | $(BUILD)/tests/vm
	$(call msg,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $< -lbpf -lelf -lz

# The known call chain with signed return addresses; kept unstripped for its names.
EXTRA_VM_APPS := $(BUILD)/tests/vm/stack_target_signed
all-vm-apps: $(EXTRA_VM_APPS)
.PHONY: all-vm-apps
$(BUILD)/tests/vm/stack_target_signed: tests/apps/stack_target.c | $(BUILD)/tests/vm
	$(call msg,CC,$@)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -Itests -O2 -g -w $(if $(filter arm64,$(ARCH)),-mbranch-protection=standard) \
		-o $@ $< -static -pthread
