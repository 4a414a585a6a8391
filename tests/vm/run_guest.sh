#!/usr/bin/env bash
# Boot one guest, run a script in it, print what it prints. Exit code: that of the script, or 99
# when the marker did not come (crash, hang, timeout).
# usage: run_guest.sh GUEST PAYLOAD.cpio SCRIPT [TIMEOUT_S [QEMU_ARGUMENT...]]
# The flags are measured ones: pauth-impdef (emulated PAC is slow), no SVE (with it glibc's string
# functions take it, and each of its instructions is a call), nokaslr (without it every
# syscall pays for KPTI), thread=single where nothing else is asked for (two cores are shared by everybody; a woken CPU that is a
# thread of its own costs 20 times as much), cryptomgr.notests and no jitterentropy (a second of self
# tests), random.trust_* and rdrand (else the first reader of
# random numbers waits a second for the timer's jitter), tsc=reliable (the emulated TSCs are one, which
# the kernel's check, run in turns, cannot see; with the HPET each clock call is slow, and the
# scheduler's clock steps).
set -u
cd "$(dirname "$0")/../.."
. tests/vm/guests.sh
guest=$1 payload=$2 script=$3 limit=${4:-120}
shift $(($# < 4 ? $# : 4))
guest_fields "$guest" || exit 99
threads=${VM_THREADS:-$threads}
kernel=build/vm/kernels/$guest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$kernel/modules.cpio" "$payload" >"$work/initrd"
append="quiet panic=-1 nokaslr random.trust_cpu=on random.trust_bootloader=on cryptomgr.notests initcall_blacklist=jent_mod_init mitigations=off ${cmdline:+$cmdline }guest=$guest run=$script${VM_TESTS:+ tests=$VM_TESTS}${VM_STAGES:+ stages=$VM_STAGES}${VM_SECONDS:+ seconds=$VM_SECONDS}"
common=(-accel "tcg,thread=$threads" -m 1024 -nodefaults -no-user-config -display none -serial stdio
	-no-reboot -kernel "$kernel/Image" -initrd "$work/initrd")
if [ "$arch" = arm64 ]; then
	command=(qemu-system-aarch64 -M virt -cpu "${VM_CPU:-$cpu}" -smp $cpus "${common[@]}"
		-append "console=ttyAMA0 $append" ${dtb:+-dtb "$kernel/$dtb"})
else
	command=(qemu-system-x86_64 -M q35 -cpu qemu64,+rdrand -smp $cpus "${common[@]}" -append "console=ttyS0 tsc=reliable $append")
fi
# The serial line is a terminal: it ends lines with CR LF. Unbuffered, because somebody may wait for
# a line.
mkfifo "$work/serial"
sed -u 's/\r//g' <"$work/serial" | tee "$work/log" &
reader=$!
timeout --kill-after=5 "$limit" "${command[@]}" "$@" </dev/null >"$work/serial" 2>&1 &
emulator=$!
trap 'kill $emulator 2>/dev/null' TERM INT
wait $emulator
wait $reader
rc=$(sed -n 's/^##RC:\([0-9]*\).*/\1/p' "$work/log" | tail -1)
exit "${rc:-99}"
