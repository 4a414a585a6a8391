#!/usr/bin/env bash
# Run the tests of the named rooms (default: all of them), print each result as TAP, count, name the
# ten slowest files and each failure, and end with "N passed, N failed, N skipped".
# usage: run.sh BUILD [unit|kernel|trace|fault|android|vm ...]
#
# A test is a program (BUILD/tests/kernel/*, or tests/ROOM/test_*.sh) that prints TAP lines:
#   ok - name     not ok - name     ok - name # SKIP reason
# A program that ends non-zero without a "not ok" line, or prints no result, counts as one failure; so
# does one that announces a plan ("1..N") and gives another number of results.
#
# A test whose results do not depend on what runs beside it, and most of which wait more than compute,
# has a line "Runs beside others (SECONDS s)" or "(SECONDS s, SECONDS s of CPU)" in a comment of its own.
# Those tests run together, the longest first, as many at a time as take three quarters of the
# processors' time; one that does not say its CPU time is taken to use a third of a processor. The
# others run alone. ALONE=1 runs all of them alone.
#
# A file that fails is run again when all others have ended, alone. When it fails again it has failed.
# When it passes, that which it failed first is told and counted in a line of its own: it was the load of
# the tests beside it or a pause of the machine, or a race that is seldom lost and is to be looked into. A
# break fails twice. More than five files are not run again, because so many are no accident; guests
# run again by themselves (tests/vm/test_guests.sh). AGAIN=0: nothing is.
#
# What the guests (room vm) run is built while other tests run alone, most of which wait: as
# SCHED_IDLE, so that a test that wakes finds its processor free at once. The guests themselves are
# emulated and take all the CPU there is, so they run last.
set -u
cd "$(dirname "$0")/.."
build=$1; shift
export BUILD=$PWD/$build
export SHARED=${SHARED:-$(cd .. && pwd)/shared}
rooms=${*:-unit kernel trace fault android vm}
passed=0 failed=0 skipped=0 counted_cpu=0 free=$(($(nproc) * 75))
work=$(mktemp -d)
beside=() # "SECONDS PERCENT NAME COMMAND" of the tests that run together
declare -A running=() # process id of a running test: its name
declare -A percents=() # of a processor, by name; free: what nobody uses
declare -A commands=() results=() # of each test by name; "PASSED FAILED SKIPPED"
trap 'rm -rf "$work"' EXIT
payload= # process id of what builds the guests' files
# A test is in a process group of its own (timeout makes it): Ctrl-C reaches this script alone.
stop() { kill ${!running[*]} $payload 2>/dev/null; wait; exit 130; }
trap stop INT TERM

fail() { echo "not ok - $1: $2"; echo "#   $1: $2" >>"$work/failures"; }
count() { # name exit-status seconds file
	local p f s plan cpu
	s=$(grep -ciE '^ok .*# *skip' "$4"); p=$(($(grep -cE '^ok\b' "$4") - s)); f=$(grep -cE '^not ok\b' "$4")
	plan=$(sed -n 's/^1\.\.\([0-9][0-9]*\)$/\1/p' "$4" | awk '{n += $1} END {print n + 0}')
	sed -n "s|^not ok\b|#   $1|p" "$4" >>"$work/failures"
	sed -n "s|^# failed at first: |#   $1 - |p" "$4" >>"$work/unsteady"
	if [ "$2" != 0 ] && [ "$f" = 0 ]; then fail "$1" "exit status $2"; f=1; fi
	if [ $((p + f + s)) = 0 ]; then fail "$1" "printed no result"; f=1; fi
	if [ "$plan" != 0 ] && [ "$f" = 0 ] && [ $((p + s)) != "$plan" ]; then
		fail "$1" "$((p + s)) results, $plan were announced"; f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	results[$1]="$p $f $s"
	times >"$work/times"; cpu=$(cpu_seconds)
	echo "# $1: $3 s, $((cpu - counted_cpu)) s of CPU"
	counted_cpu=$cpu
	echo "$3 $1" >>"$work/seconds"
}
limit() { echo "${TEST_TIMEOUT:-$([ "$1" = vm ] && echo 1800 || echo 600)}"; }
run() { # name command...
	local name=$1 status start=$SECONDS; shift
	commands[$name]=$*
	echo "# $name"
	timeout --kill-after=10 "$(limit "${name%%/*}")" "$@" </dev/null 2>&1 | tee "$work/out"
	status=${PIPESTATUS[0]}
	count "$name" "$status" $((SECONDS - start)) "$work/out"
}
reap() { # wait until one of the running tests ends; print what it printed
	local pid status name seconds
	wait -n -p pid "${!running[@]}"; status=$?
	name=${running[$pid]} seconds=$((SECONDS - $(<"$work/$pid.start")))
	unset "running[$pid]"
	free=$((free + percents[$name]))
	echo "# $name"
	cat "$work/${name//\//.}.out"
	count "$name" $status $seconds "$work/${name//\//.}.out"
}
# Seconds of CPU of all tests that have ended, by bash's own sum.
cpu_seconds() { awk 'NR == 2 {gsub("[ms]", " "); printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4}' "$work/times"; }
build_payload() { # in a shell of its own
	[ "$rooms" = vm ] || chrt --idle --pid 0 $BASHPID
	exec env -u BUILD make --no-print-directory -j"$(nproc)" vm-payload >"$work/payload" 2>&1 </dev/null
}
# The payload's process and those that come from it get their share of a busy machine again.
no_longer_idle() {
	local child
	chrt --all-tasks --other --pid 0 "$1" 2>/dev/null
	for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do no_longer_idle "$child"; done
}
reap_payload() {
	local status start=$SECONDS
	[ -n "$payload" ] || return
	no_longer_idle "$payload"
	wait "$payload"; status=$?
	payload=
	if [ $status = 0 ]; then echo "ok - what the guests run is built"; else tail -40 "$work/payload"; fi >"$work/out"
	echo "# vm/payload"
	cat "$work/out"
	count vm/payload $status $((SECONDS - start)) "$work/out"
}
run_beside() {
	local line percent name command count=${#beside[@]} start=$SECONDS cpu=$counted_cpu waiting i
	[ "$count" = 0 ] && return
	mapfile -t waiting < <(printf '%s\n' "${beside[@]}" | sort -rn)
	while [ ${#waiting[@]} -gt 0 ]; do
		for i in "${!waiting[@]}"; do
			read -r _ percent name command <<<"${waiting[i]}"
			[ "$percent" -gt $free ] && [ ${#running[@]} -gt 0 ] || break
			name=
		done
		if [ -z "$name" ]; then reap; continue; fi
		unset "waiting[i]"
		# What a shell without job control starts with & has SIGINT ignored, and a test's own
		# scripts and recorders are ended with SIGINT.
		env --default-signal=INT,QUIT timeout --kill-after=10 "$(limit "${name%%/*}")" $command \
			</dev/null >"$work/${name//\//.}.out" 2>&1 &
		running[$!]=$name commands[$name]=$command percents[$name]=$percent
		free=$((free - percent))
		echo $SECONDS >"$work/$!.start"
	done
	while [ ${#running[@]} -gt 0 ]; do reap; done
	beside=()
	echo "# $count tests beside each other: $((SECONDS - start)) s, $((counted_cpu - cpu)) s of CPU"
}
# The files that failed, once more; what they result in now counts instead.
run_again() {
	local name names=() p f s
	for name in "${!results[@]}"; do
		read -r _ f _ <<<"${results[$name]}"
		[ "$f" = 0 ] || [ "${name%%/*}" = vm ] || names+=("$name")
	done
	if [ ${#names[@]} -gt 5 ] || [ "${AGAIN:-1}" = 0 ]; then return; fi
	for name in "${names[@]}"; do
		read -r p f s <<<"${results[$name]}"
		passed=$((passed - p)) failed=$((failed - f)) skipped=$((skipped - s))
		grep -E "^#   $name(:| -) " "$work/failures" >"$work/first"
		sed -i -E "\,^#   $name(:| -) ,d" "$work/failures"
		echo "# again, alone:"
		# shellcheck disable=SC2086
		run "$name" ${commands[$name]}
		read -r _ f _ <<<"${results[$name]}"
		[ "$f" != 0 ] || cat "$work/first" >>"$work/unsteady"
	done
}
add() { # name source-file command...: run it now, or with those that run beside others
	local name=$1 seconds cpu
	read -r seconds cpu < <(sed -nE 's/^(#|\/\*) Runs beside others \(([0-9]+) s(, ([0-9]+) s of CPU)?\)( \*\/)?$/\2 \4/p' "$2")
	shift 2
	if [ -n "$seconds" ] && [ -z "${ALONE:-}" ]; then
		beside+=("$seconds $((${cpu:-$(((seconds + 2) / 3))} * 100 / seconds)) $name $*")
	else
		run "$name" "$@"
	fi
}

case " $rooms " in *" vm "*) build_payload & payload=$! ;; esac
[ -z "${ALONE:-}" ] || reap_payload
for room in $rooms; do
	if [ "$room" = vm ]; then
		reap_payload
		run_beside
	fi
	case $room in
	unit)
		if [ "$rooms" = unit ]; then
			run unit "$BUILD/tests/unit/all" --tap
		else
			beside+=("60 100 unit $BUILD/tests/unit/all --tap")
		fi ;;
	kernel)
		if [ "$(id -u)" != 0 ]; then
			echo "ok - kernel tests # SKIP need root"; skipped=$((skipped + 1)); continue
		fi
		for src in tests/kernel/test_*.c; do
			[ -f "$src" ] || continue
			t=$(basename "$src" .c)
			add "kernel/$t" "$src" "$BUILD/tests/kernel/$t"
		done ;;
	esac
	for t in tests/"$room"/test_*.sh; do
		[ -f "$t" ] || continue
		add "$room/$(basename "$t" .sh)" "$t" bash "$t"
	done
done
run_beside
run_again
echo "# $SECONDS s in all; the slowest:"
sort -rn "$work/seconds" | head -10 | sed 's/^\([0-9]*\) \(.*\)/#   \1 s  \2/'
[ -s "$work/unsteady" ] && { echo "# failed at first, and not when run again:"; cat "$work/unsteady"; }
[ -s "$work/failures" ] && { echo "# failed:"; cat "$work/failures"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
