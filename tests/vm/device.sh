#!/usr/bin/env bash
# tests/device/run.sh with the real adb client against an adbd stand-in in a guest: once where
# `adb root` works, once with AOSP's su, once with Magisk's. Run by test_guests.sh beside the guests.
set -u
cd "$(dirname "$0")/../.."
. tests/vm/guests.sh
export SHARED=${SHARED:-$(cd .. && pwd)/shared}
command -v adb >/dev/null || { echo "ok - device run # SKIP no adb"; exit 0; }
guest=gki-6.1
if ! tests/vm/fetch.sh $guest >/dev/null 2>&1; then
	guest=debian-6.1-arm64
	if ! reason=$(tests/vm/fetch.sh $guest 2>&1); then
		echo "ok - device run # SKIP no guest: $(tail -1 <<<"$reason")"
		exit 0
	fi
fi
build=build/arm64
[ "$(uname -m)" = aarch64 ] && build=build
work=$(mktemp -d)
mkdir -p build/vm/run
tests/vm/pack.sh arm64 $build "$work/payload.cpio" || exit 1

# Ports that nobody listens on.
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 20000))
		grep -qi ":$(printf %04X $port) " /proc/net/tcp /proc/net/tcp6 || { echo $port; return; }
	done
}
one=$(free_port) two=$(free_port)
export ANDROID_ADB_SERVER_PORT=$(free_port) HOME=$work
trap 'adb kill-server >/dev/null 2>&1; [ -n "${qemu:-}" ] && kill $qemu 2>/dev/null; wait; rm -rf "$work"' EXIT
tests/vm/run_guest.sh $guest "$work/payload.cpio" /payload/device.sh 500 \
	-netdev "user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:$one-:5555,hostfwd=tcp:127.0.0.1:$two-:5556" \
	-device virtio-net-pci,netdev=n,romfile= >build/vm/run/device.serial 2>&1 &
qemu=$!
for _ in $(seq 300); do grep -q '^##ADBD' build/vm/run/device.serial && break; sleep 0.2; done
grep -q '^##ADBD' build/vm/run/device.serial || { tail -5 build/vm/run/device.serial | sed 's/^/# /'; echo "not ok - device: the guest's adbd answers"; exit 1; }

adb start-server >/dev/null 2>&1
failed=0
try() { # NAME SERIAL SECONDS EXPECTED_ROOT
	adb connect "$2" >/dev/null 2>&1
	EMULATED=1 SECONDS_TO_RECORD=$3 tests/device/run.sh "$2" "$work/$1" >"$work/$1.tap" 2>&1 || failed=1
	sed "s/^\(ok\|not ok\) - /\1 - device $1: /" "$work/$1.tap"
	if grep -q "root shell by: $4" "$work/$1.tap"; then
		echo "ok - device $1: root comes by $4"
	else
		echo "not ok - device $1: root comes by $4"
		failed=1
	fi
}
try adb-root 127.0.0.1:$one "${DEVICE_SECONDS:-2}" adbd
try aosp-su 127.0.0.1:$two 1 'su 0'
adb -s 127.0.0.1:$two shell 'touch /data/local/tmp/magisk'
sleep 1
try magisk-su 127.0.0.1:$two 1 'su -c'
adb -s 127.0.0.1:$two shell 'touch /data/local/tmp/stop'
wait $qemu
rc=$?
qemu=
[ $rc = 0 ] || { echo "not ok - device: the guest ended with $rc"; failed=1; }

# And without a device: one clear line.
if tests/device/run.sh 127.0.0.1:1 "$work/none" >"$work/none.tap"; then
	echo "not ok - device: a serial that is not there fails"
	failed=1
else
	grep -q '^not ok - device 127.0.0.1:1 is there' "$work/none.tap" && echo "ok - device: a serial that is not there fails with one line"
fi
exit $failed
