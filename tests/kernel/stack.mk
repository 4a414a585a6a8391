# Signed return addresses on the stack of the unwinder's target.
ifeq ($(ARCH),arm64)
$(BUILD)/tests/kernel/test_stack_live: CFLAGS += -mbranch-protection=standard
endif
