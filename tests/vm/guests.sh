# SPDX-License-Identifier: BSD-2-Clause
# What each guest is made of; sourced. A guest's kernel is a Debian package (resolved through its
# metapackage, because ABI numbers change) or a GKI-like Image.
#   guest_fields NAME -> sets kernel_package, kernel_suite, kernel_image, arch, dtb, cpus, cpu

# The long ones first, so that none is left over at the end; "device" is device.sh.
guests_all="gki-6.12 gki-6.1 debian-5.10-arm64 debian-6.1-arm64 debian-6.12-arm64 debian-6.12-arm64-16k device debian-6.1-amd64"
# android-16k: for check-android alone.
guests_check="gki-6.1 debian-5.10-arm64 debian-6.12-arm64 device"

# Kernel test programs by guest: those that every guest runs, and the long ones (they burn the
# emulator's CPU) where the kernels differ, each in one or two. test_stack_guess and
# test_stack_unwinder wait for real seconds, which an emulator beside other work misses: they are run
# by hand there, and so is test_binder:record, whose chains are sampled beside the recorder.
guest_tests() {
	local more=
	case $1 in
	debian-5.10-arm64) more=,test_cpu,test_cpu_standing,test_cpu_split,test_binder,test_flight,test_flight_hotplug ;;
	debian-6.1-arm64) more=,test_cpu,test_binder:look ;;
	debian-6.1-amd64) more=,test_stack_safety,test_cpu_losses,test_net_losses,test_flight ;;
	gki-6.1) more=,test_binder:look,test_cpu,test_cpu_standing,test_cpu_split,test_cpu_losses,test_cpu_no_kprobe,test_task_registers,test_looper_reasons,test_stack_sandbox,test_flight,test_flight_hotplug ;;
	gki-6.12) more=,test_binder:look,test_cpu_split,test_net,test_stack_torn,test_loops,test_task_registers,test_stack_sandbox,test_helpers ;;
	debian-6.12-arm64) more=,test_stack_safety,test_net_stacked ;;
	*) more=,test_stack_safety ;;
	esac
	echo test_android_targets,test_guest_truth,test_stack_live$more
}

# What `make check` runs of these; it has 30 minutes. Left to check-vm: programs that run on this
# machine's kernel too, and stages that two other guests go through.
guest_tests_of_check() {
	case $1 in
	debian-5.10-arm64) guest_tests "$1" | sed 's/,test_cpu_split//; s/,test_cpu_standing//; s/,test_flight_hotplug//' ;;
	gki-6.1) guest_tests "$1" | sed 's/,test_cpu_split//; s/,test_cpu_losses//; s/,test_cpu_no_kprobe//; s/,test_flight_hotplug//' ;;
	*) guest_tests "$1" ;;
	esac
}
guest_stages_of_check() {
	case $1 in
	debian-6.12-arm64) echo doctor,rights,clocks,stacks,tiers,disk,kernel_tests ;;
	esac
}

# Modules that the tests need where the kernel has them as modules; their closure is packed.
guest_modules="virtio_pci virtio_mmio virtio_net veth dummy tun binder_linux inet_diag tcp_diag
	udp_diag raw_diag netlink_diag loop ext4 dm_mod sch_netem 8021q bonding team team_mode_roundrobin ipip vxlan
	wireguard"

# cpus is what phone.dtb says: with fewer the kernel takes itself for one of four, the GIC of a machine
# with one CPU tells it no mask, and what it sends to itself (irq_work: BPF ring buffers, perf) is lost.
# lpa2=off: kernels before 5.12 do not boot on a CPU with 52-bit addresses in 4 KiB pages (QEMU's
# "CPU Features" says so). kernel_suite: the release of Debian that has the package, where it is not
# the one of this machine; fetch.sh asks for it with lists of its own.
# threads=multi: each CPU is a thread of its own, so that torn reads can be seen at all.
guest_fields() {
	kernel_package= kernel_suite= kernel_image= dtb= arch=arm64 cpus=2 threads=single modules=$guest_modules cmdline=
	cpu=max,pauth-impdef=on,sve=off
	case $1 in
	debian-5.10-arm64) kernel_package=linux-image-arm64 kernel_suite=bullseye cpu=$cpu,lpa2=off ;;
	debian-6.1-arm64) kernel_package=linux-image-arm64 ;;
	debian-6.12-arm64) kernel_package=linux-image-6.12-arm64 ;;
	debian-6.12-arm64-16k) kernel_package=linux-image-6.12-arm64-16k ;;
	debian-6.1-amd64) kernel_package=linux-image-amd64 arch=amd64 ;;
	android-16k) kernel_package=linux-image-6.12-arm64-16k modules="$guest_modules virtio_blk crc32c_generic ext4 9p 9pnet_virtio" cmdline=security=selinux ;;
	gki-6.1) kernel_image=gki-like-6.1 dtb=phone.dtb cpus=4 ;;
	gki-6.12) kernel_image=gki-like-6.12 dtb=phone.dtb cpus=4 threads=multi ;;
	*) echo "vm: no guest is called $1" >&2; return 1 ;;
	esac
}
