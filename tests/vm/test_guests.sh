#!/usr/bin/env bash
# Boot guests, a few at a time, and let each test the arm64 or x86_64 build on its kernel.
# VM_GUESTS: "all", names, or empty for those of every push (tests/vm/guests.sh).
# VM_TESTS, VM_STAGES: comma lists, to run less.
set -u
cd "$(dirname "$0")/../.."
. tests/vm/guests.sh
tests_of=guest_tests stages_of=:
case ${VM_GUESTS:-} in
'') guests=$guests_check tests_of=guest_tests_of_check stages_of=guest_stages_of_check ;;
all) guests=$guests_all ;;
*) guests=$VM_GUESTS ;;
esac
export SHARED=${SHARED:-$(cd .. && pwd)/shared}
out=build/vm/run
rm -rf "$out"
mkdir -p "$out"
[ "$(uname -m)" = aarch64 ] && native=arm64 || native=amd64

runnable=
for guest in $guests; do
	if [ $guest = device ]; then
		runnable="$runnable $guest"
		continue
	fi
	guest_fields "$guest" || exit 1
	if ! reason=$(tests/vm/fetch.sh "$guest" 2>&1); then
		echo "ok - $guest # SKIP $(tail -1 <<<"$reason")"
		continue
	fi
	if [ $arch = $native ]; then build=build; elif [ $arch = amd64 ]; then build=build/x86_64; else build=build/$arch; fi
	if [ ! -f "$build/libjankscope.a" ]; then
		echo "ok - $guest # SKIP no $build: cannot build for $arch here"
		continue
	fi
	[ -f "$out/$arch.cpio" ] || tests/vm/pack.sh "$arch" "$build" "$out/$arch.cpio" || exit 1
	runnable="$runnable $guest"
done

boot() { # GUEST
	local begin=$SECONDS
	if [ "$1" = device ]; then
		tests/vm/device.sh >"$out/$1.tap" 2>&1
	else
		guest_fields "$1"
		VM_TESTS=${VM_TESTS:-$($tests_of "$1")} VM_STAGES=${VM_STAGES:-$($stages_of "$1")} tests/vm/run_guest.sh "$1" "$out/$arch.cpio" \
			/payload/guest.sh "${VM_TIMEOUT:-900}" >"$out/$1.log" 2>&1
	fi
	echo $? $((SECONDS - begin)) >"$out/$1.rc"
}
report() { # GUEST
	local rc seconds
	read -r rc seconds <"$out/$1.rc"
	[ "$rc" = 0 ] || failed=1
	if [ "$1" = device ]; then
		echo "# device: $seconds s"
		cat "$out/device.tap"
		return
	fi
	echo "# $1: $seconds s, $(grep -m1 '^##READY' "$out/$1.log" || echo 'never ready')"
	sed -n "s/^\(ok\|not ok\) - /\1 - $1: /p; s/^# /# $1: /p" "$out/$1.log"
	if [ "$rc" != 0 ] && ! grep -q '^not ok' "$out/$1.log"; then
		tail -25 "$out/$1.log" | sed 's/^/# | /'
		echo "not ok - $1: exit code $rc (99: it did not finish; log: $out/$1.log)"
	fi
}
failed=0
# They wait as much as they compute: one more than there are processors.
jobs=$(($(nproc) + 1))
for guest in $runnable; do
	while [ "$(jobs -rp | wc -l)" -ge $jobs ]; do wait -n; done
	boot "$guest" &
done
wait
for guest in $runnable; do report "$guest"; done
exit $failed
