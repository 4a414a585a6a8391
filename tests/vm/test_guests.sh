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

boot() { # GUEST LOG STAGES TESTS
	local begin=$SECONDS
	if [ "$1" = device ]; then
		tests/vm/device.sh >"$out/$2.log" 2>&1
	else
		guest_fields "$1"
		VM_STAGES=$3 VM_TESTS=$4 tests/vm/run_guest.sh "$1" "$out/$arch.cpio" \
			/payload/guest.sh "${VM_TIMEOUT:-900}" >"$out/$2.log" 2>&1
	fi
	echo $? $((SECONDS - begin)) >"$out/$2.rc"
}
# The stages of a guest that failed and the kernel tests that failed, a line each; none where it did not
# come to its end.
failures() { # LOG
	awk '
		/^# [a-z_]+: at [0-9.]+ s$/ { stage = substr($2, 1, length($2) - 1) }
		/^##RC:/ { ended = 1 }
		/^not ok - / {
			stages[stage]
			if (stage == "") whole = 1
			if (stage == "kernel_tests") tests[substr($4, 1, length($4) - 1)]
		}
		END {
			if (!ended || whole) exit
			for (name in stages) { printf "%s%s", comma, name; comma = "," }
			print ""; comma = ""
			for (name in tests) { printf "%s%s", comma, name; comma = "," }
		}' "$out/$1.log"
}
report() { # GUEST LOG [STAGES TESTS: what of this log a later one tells]
	local rc seconds
	read -r rc seconds <"$out/$2.rc"
	[ "$rc" = 0 ] || [ $# -gt 2 ] || failed=1
	echo "# $1: $seconds s, $(grep -m1 '^##READY' "$out/$2.log" || [ "$1" = device ] || echo 'never ready')"
	{
		cat "$out/$2.log"
		[ "$rc" = 0 ] || grep -q '^not ok' "$out/$2.log" ||
			echo "not ok - exit code $rc (99: it did not finish; its last lines: $(tail -25 "$out/$2.log" | tr -cd '[:print:]\n' | tr '\n' '|'))"
	} | if [ $# = 2 ]; then cat; else
		awk -v stages=",$3," -v tests=",$4," '
			/^# [a-z_]+: at [0-9.]+ s$/ { stage = substr($2, 1, length($2) - 1) }
			/^(not )?ok - / {
				name = $0
				sub(/^(not )?ok - /, "", name)
				part = name
				sub(/: .*/, "", part)
				if (/^not/) { print "# failed at first: " name; next }
				if (stages == ",," || index(stages, "," stage ",") && (stage != "kernel_tests" || index(tests, "," part ","))) next
			}
			{ print }'
	fi | if [ "$1" = device ]; then cat; else
		sed -n "s/^\(ok\|not ok\) - /\1 - $1: /p; s/^# failed at first: /&$1: /p; /^# failed at first/!s/^# /# $1: /p"
	fi
}
failed=0
# They wait as much as they compute: one more than there are processors.
jobs=$(($(nproc) + 1))
for guest in $runnable; do
	while [ "$(jobs -rp | wc -l)" -ge $jobs ]; do wait -n; done
	boot "$guest" "$guest" "${VM_STAGES:-$($stages_of "$guest")}" "${VM_TESTS:-$($tests_of "$guest")}" &
done
wait
# A guest that failed is booted again for what failed in it, alone (tests/run.sh says why); not two.
unsteady=()
for guest in $runnable; do
	read -r rc _ <"$out/$guest.rc"
	[ "$rc" = 0 ] || unsteady+=("$guest")
done
if [ ${#unsteady[@]} -gt 1 ] || [ "${AGAIN:-1}" = 0 ]; then unsteady=(); fi
for guest in $runnable; do
	if [ "$guest" != "${unsteady[0]:-}" ]; then
		report "$guest" "$guest"
		continue
	fi
	{ read -r stages; read -r tests; } < <(failures "$guest"; echo)
	report "$guest" "$guest" "$stages" "$tests"
	boot "$guest" "$guest.again" "${stages:-${VM_STAGES:-$($stages_of "$guest")}}" "${tests:-${VM_TESTS:-$($tests_of "$guest")}}"
	report "$guest" "$guest.again"
done
exit $failed
