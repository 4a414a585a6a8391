# SPDX-License-Identifier: BSD-2-Clause
# The cgroup counters that test_net and bench_net take as truth. Not part of the product, which
# never attaches to a cgroup; hence not in bpf/.
.DEFAULT_GOAL := all
NET_TRUTH := $(BUILD)/skel/net_truth.skel.h

$(NET_TRUTH): tests/kernel/truth/net_truth.bpf.c tests/kernel/truth/net_truth.h | $(BUILD)/skel $(BUILD)/bpf
	$(call msg,SKEL,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -Itests -c $< -o $(BUILD)/bpf/net_truth.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $(BUILD)/bpf/net_truth.bpf.o name net_truth_bpf > $@

# Whether the kernel shows what comes while process 1 runs (tests/kernel/hides_init.h).
INIT_TRUTH := $(BUILD)/skel/init_truth.skel.h

$(INIT_TRUTH): tests/kernel/truth/init_truth.bpf.c | $(BUILD)/skel $(BUILD)/bpf
	$(call msg,SKEL,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $(BUILD)/bpf/init_truth.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $(BUILD)/bpf/init_truth.bpf.o name init_truth_bpf > $@

$(BUILD)/tests/kernel/test_cpu_exec $(BUILD)/tests/kernel/test_cpu: $(INIT_TRUTH)

# What translates between IPv4 and IPv6 in test_net_clat.
NET_CLAT := $(BUILD)/skel/net_clat.skel.h

$(NET_CLAT): tests/kernel/truth/net_clat.bpf.c | $(BUILD)/skel $(BUILD)/bpf
	$(call msg,SKEL,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -Itests -c $< -o $(BUILD)/bpf/net_clat.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $(BUILD)/bpf/net_clat.bpf.o name net_clat_bpf > $@

$(BUILD)/tests/kernel/test_net_clat: $(NET_CLAT)

$(addprefix $(BUILD)/tests/,$(addprefix kernel/test_net,_clat _devices _interfaces _loads _losses _odd _owners _removal _scale _stacked _time_wait) kernel/test_net \
	bench/bench_net): $(NET_TRUTH) $(INIT_TRUTH)
