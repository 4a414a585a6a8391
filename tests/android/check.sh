#!/usr/bin/env bash
# Boot a real Android /system in a guest and try jankscope on it.  usage: check.sh
# SYSTEM=DIR|IMAGE  what to boot (tests/android/image.sh says what that may be)
# POLICY=TREE       whose etc/selinux to use where SYSTEM has none (a recovery)
# VM_GUESTS=gki-6.1 the kernels; ROOMS=10_boot,... some of tests/android/guest/rooms
# Exit code: 0 passed or nothing to run, 1 a test failed, 2 SYSTEM cannot be used.
set -u
cd "$(dirname "$0")/../.."
if [ -z "${SYSTEM:-}" ]; then
	echo "ok - android # SKIP no SYSTEM=DIR|IMAGE: unzip system.img (arm64, userdebug) from https://developer.android.com/topic/generic-system-image"
	exit 0
fi
case $SYSTEM in /*) ;; *) SYSTEM=$PWD/$SYSTEM ;; esac
export SHARED=${SHARED:-$(cd .. && pwd)/shared}
. tests/vm/guests.sh
build=build/arm64
[ "$(uname -m)" = aarch64 ] && build=build
out=$PWD/build/android
tests/android/image.sh "$SYSTEM" "$out" || exit $?
failed=0
monitors=$(mktemp -d) # a socket's path must be short
trap 'rm -rf "$monitors"' EXIT
for guest in ${VM_GUESTS:-gki-6.1}; do
	if ! reason=$(tests/vm/fetch.sh "$guest" 2>&1); then
		echo "ok - android $guest # SKIP $(tail -1 <<<"$reason")"
		continue
	fi
	rm -rf "$out/host"
	mkdir -p "$out/host"
	tests/android/pack.sh $build "$out" "$out/payload.cpio" || exit 1
	begin=$SECONDS
	tests/android/adb.sh "$monitors/$guest" "$out/host" >"$out/adb.tap" 2>&1 &
	client=$!
	# The kernel chooses the port of 127.0.0.1 that leads to the guest's adbd; nothing else leads in or out.
	# One emulated CPU at a time: this machine has few, and others work on it.
	VM_THREADS=single VM_TESTS=${ROOMS:-} tests/vm/run_guest.sh "$guest" "$out/payload.cpio" /guest/session.sh \
		"${VM_TIMEOUT:-600}" -m 1536 -monitor "unix:$monitors/$guest,server=on,wait=off" \
		-netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:0-:5555" -device virtio-net-pci,netdev=net,romfile= \
		-drive "file=$out/system.img,format=raw,if=none,id=system,readonly=on" -device virtio-blk-pci,drive=system,romfile= \
		-fsdev "local,id=host,path=$out/host,security_model=mapped-file" -device virtio-9p-pci,fsdev=host,mount_tag=host,romfile= \
		>"$out/$guest.log" 2>&1
	rc=$?
	mkdir -p "$out/host/adb" && touch "$out/host/adb/over"
	wait $client || failed=1
	ready=$(sed -n 's/^##READY //p' "$out/$guest.log")
	echo "# $guest: $((SECONDS - begin)) s, a shell after ${ready:-never} s"
	sed -n "s/^\(ok\|not ok\) - /\1 - $guest: /p; s/^# /# $guest: /p" "$out/$guest.log"
	sed "s/^\(ok\|not ok\) - /\1 - $guest: /; s/^# /# $guest: /" "$out/adb.tap"
	if [ -n "$ready" ]; then
		awk -v s="$ready" 'BEGIN { exit !(s <= 10) }' && echo "ok - $guest: a shell within 10 s" ||
			{ echo "not ok - $guest: a shell within 10 s: $ready s"; failed=1; }
	fi
	tests/android/judge.py "$out/host" "$out/system.img" | sed "s/^\(ok\|not ok\) - /\1 - $guest: /; s/^# /# $guest: /"
	[ "${PIPESTATUS[0]}" = 0 ] || failed=1
	if [ $rc != 0 ]; then
		failed=1
		grep -q '^not ok' "$out/$guest.log" || {
			tail -25 "$out/$guest.log" | sed 's/^/# | /'
			echo "not ok - $guest: exit code $rc (99: it did not finish; log: $out/$guest.log)"
		}
	fi
	rm -f "$out/payload.cpio"
done
exit $failed
