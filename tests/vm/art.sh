#!/usr/bin/env bash
# Debian's libart for arm64 in an arm64 guest: real frames of its interpreter, its own lists, and compiled methods in
# them (tests/apps/art_rig.cc); and test_oat_live. Prints TAP.  usage: art.sh [GUEST]   (make check-art-arm64)
# The packages are fetched by apt-get download and stay in build/vm/debs/art; nothing of them is in the project.
set -u
cd "$(dirname "$0")/../.."
export BUILD=$PWD/build SHARED=${SHARED:-$(cd .. && pwd)/shared}
guest=${1:-gki-6.1} keep=build/vm/debs/art
skip() { echo "ok - art arm64 # SKIP $1"; exit 0; }
for tool in smali dexdump cpio qemu-system-aarch64 aarch64-linux-gnu-readelf; do command -v $tool >/dev/null || skip "no $tool here"; done
if [ ! -e $keep/usr/lib/aarch64-linux-gnu/android/libart.so.0 ]; then
	mkdir -p $keep
	(cd $keep && timeout 120 apt-get -q download {android-libart,android-libziparchive,android-libnativeloader,android-libnativebridge,android-libbase,android-liblog,android-libcutils,android-libutils,android-libnativehelper,android-libbacktrace,android-libunwind,liblz4-1,p7zip-full}:arm64 >log 2>&1 &&
		for deb in *_arm64.deb; do dpkg-deb -x "$deb" . || exit 1; done) || skip "no libart for arm64 to be had: $(tail -1 $keep/log)"
fi
reason=$(tests/vm/fetch.sh "$guest" 2>&1) || skip "$guest: $(tail -1 <<<"$reason")"
python3 tests/vm/art_guest.py pack $keep build/vm/art.cpio || { echo "not ok - art arm64: the initramfs"; exit 1; }
tests/vm/run_guest.sh "$guest" build/vm/art.cpio /payload/art.sh "${VM_TIMEOUT:-400}" >build/vm/art.log 2>&1
rc=$?
grep -E '^(ok|not ok) - |^# ' build/vm/art.log
[ $rc = 0 ] || { tail -20 build/vm/art.log | sed 's/^/# | /'; echo "not ok - art arm64: the guest ended with $rc"; }
python3 tests/vm/art_guest.py judge build/vm/art.log && [ $rc = 0 ]
