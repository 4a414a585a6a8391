#!/usr/bin/env bash
# Try jankscope on a real device (rooted or userdebug): push it, find a root shell, run doctor and a
# short record of the app in front, check what came back, keep the files. TAP on stdout.
# usage: run.sh SERIAL [OUT_DIR]      SERIAL as in `adb devices`
#   SECONDS_TO_RECORD=10  ADB=adb  BINARY=build/arm64/jankscope (by the device's uname -m)
#   EMULATED=1: no figure is judged
# It changes nothing on the device but /data/local/tmp/jankscope*, which it removes again.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
serial=${1:?usage: run.sh SERIAL [OUT_DIR]}
out=${2:-$here/build/device/$serial}
adb=${ADB:-adb}
seconds=${SECONDS_TO_RECORD:-10}
at=/data/local/tmp
mkdir -p "$out"
failed=0
ok() { # STATUS NAME [DETAIL]
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2${3:+: $3}"; failed=1; fi
	return "$1"
}
skip() { echo "ok - $1 # SKIP $2"; }
stop() { ok 1 "$@"; exit 1; }
device() { "$adb" -s "$serial" "$@"; }

# Exit codes do not come through old adbds: take them from a line of our own.
plain() { # COMMAND: as the shell user; output in $output
	local text
	text=$(device shell "$1; echo \"##RC:\$?\"" </dev/null 2>"$out/stderr" | tr -d '\r')
	output=$(sed '/^##RC:/d' <<<"$text")
	return "$(sed -n 's/.*##RC:\([0-9]*\)$/\1/p' <<<"$text" | tail -1 | grep . || echo 99)"
}
root_form=
as_root() { # COMMAND
	case $root_form in
	adbd) plain "$1" ;;
	'su 0') plain "su 0 sh -c '$1'" ;;
	'su -c') plain "su -c '$1'" ;;
	esac
}

device get-state >/dev/null 2>&1 || stop "device $serial is there" "adb sees no such device; try adb devices"
plain 'uname -m' || stop "shell" "adb shell does not answer"
machine=$output
case $machine in
aarch64) binary=${BINARY:-$here/build/arm64/jankscope} ;;
x86_64) binary=${BINARY:-$here/build/jankscope} ;;
*) stop "the device is arm64 or x86_64" "it is $machine" ;;
esac
[ -f "$binary" ] || binary=$here/build/jankscope
[ -f "$binary" ] || stop "binary" "build it first: make ARCH=arm64"
plain 'uname -r; getprop ro.build.fingerprint; getprop ro.build.version.release'
echo "$output" | sed 's/^/# device: /'

# A root shell: adb root (userdebug), su of AOSP, su of Magisk; the one whose id -u prints 0.
try_root() {
	root_form=$1
	as_root 'id -u' && [ "$output" = 0 ]
}
if ! try_root adbd; then
	device root >"$out/root" 2>&1
	# adbd starts anew; over TCP the client must connect again.
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		case $serial in *:*) "$adb" connect "$serial" >/dev/null 2>&1 ;; esac
		[ "$(device get-state 2>/dev/null)" = device ] && break
		sleep 0.5
	done
	try_root adbd || try_root 'su 0' || try_root 'su -c' || root_form=
fi
[ -n "$root_form" ] || stop "root shell" "neither adb root ($(head -1 "$out/root")), su 0 nor su -c gives one"
echo "ok - root shell by: $root_form"

device push "$binary" $at/jankscope >"$out/push" 2>&1 || stop "push" "$(tail -1 "$out/push")"
plain "chmod 755 $at/jankscope" || as_root "chmod 755 $at/jankscope" || stop "chmod" "$output"
js="$at/jankscope"
# On an emulator timers are late, interrupts nest, and a CPU may be held for its turn in the middle of a
# slot (it is read at the next read-out), and smaps_rollup takes longer than it is waited for: all are
# told, and not judged.
lost=${EMULATED:+--max-lost 100} late=${EMULATED:+| del(.interval_overruns, .cpu_torn_reads, .cpu_told_ahead_ns, .cpu_missed_switches, .blocks_missed_switches, .samples_late, .memory_unread)}
trap 'as_root "rm -f $at/jankscope $at/jankscope-app.jsonl $at/jankscope-all.jsonl" >/dev/null 2>&1' EXIT

as_root "$js doctor --json"
rc=$?
echo "$output" >"$out/doctor.json"
jq -e . "$out/doctor.json" >/dev/null 2>&1; ok $? "doctor prints JSON" "$(head -c 200 "$out/doctor.json")"
[ $rc = 0 ]; ok $? "doctor: this device is supported" "exit $rc" || { as_root "$js doctor"; echo "$output" | sed 's/^/# /'; exit 1; }

# The app in front: top-app with oom_score_adj 0 (helpers of the launcher sit in top-app too).
as_root 'for p in $(cat /dev/cpuset/top-app/cgroup.procs 2>/dev/null); do
	[ "$(cat /proc/$p/oom_score_adj 2>/dev/null)" = 0 ] || continue
	tr "\0" " " < /proc/$p/cmdline | cut -d" " -f1
done'
app=$(grep -m1 '\.' <<<"$output" | sed 's/:.*//')
if [ -n "$app" ]; then echo "# in front: $app"; else skip "an app is in front" "no process in top-app with oom_score_adj 0"; fi

check_records() { # NAME FILE: the invariants of include/jankscope/record.h
	local name=$1 file=$2 bad
	jq -es 'length >= 3 and .[0].type == "header" and .[-1].type == "footer"' "$file" >/dev/null
	ok $? "$name: header first, footer last"
	bad=$(jq -r 'select(.type == "interval" and .cpu != null) |
		(([.cpu.tasks[].cpu_ns] | add // 0) + .cpu.other_ns + .cpu.overflow_ns - .cpu.busy_ns) as $d |
		select($d != 0) | $d' "$file" | head -1)
	[ -z "$bad" ]; ok $? "$name: tasks + other + overflow = busy" "off by $bad ns"
	# Unaccounted is interrupts (GKI counts them apart) and read-out skew; an emulator is full of both.
	bad=$(jq -rs '[.[] | select(.type == "interval" and .cpu.idle_ns != null)] | select(length > 0) |
		(map(.cpu.busy_ns + .cpu.idle_ns) | add) / (map(.cpu.online_cpus * .dur_ns) | add) * 100 - 100' "$file")
	if [ -n "${EMULATED:-}" ]; then
		echo "# $name: busy + idle is ${bad:-?} % off CPUs x time, not judged on an emulator"
	else
		[ -n "$bad" ] && jq -ne "$bad > -5 and $bad < 1" >/dev/null
		ok $? "$name: busy + idle = CPUs x time but for interrupts" "${bad:-? (no interval has idle_ns)} %"
	fi
	bad=$(jq -c 'select(.type == "interval" or .type == "footer") | (.lost // {})'"$late"' | select(. != {})' "$file" | head -1)
	[ -z "$bad" ]; ok $? "$name: nothing lost" "$bad"
	jq -r 'select(.type == "header") | .sources[] | "# source \(.name): \(.state) \(.variant // "") \(.reason // "")"' "$file"
}
fetch() { # REMOTE: what root wrote is not always readable for the shell user
	as_root "chmod 644 $1"
	device pull "$1" "$out/" >"$out/pull" 2>&1 || ok 1 "pull $1" "$(tail -1 "$out/pull")"
}

as_root "$js record -a -d ${seconds}s $lost -q --overwrite -o $at/jankscope-all.jsonl"
ok $? "record of the whole device" "$(tail -2 "$out/stderr")" &&
	fetch $at/jankscope-all.jsonl && check_records "whole device" "$out/jankscope-all.jsonl"
if [ -n "$app" ]; then
	as_root "$js record -p $app -d ${seconds}s $lost -q --overwrite -o $at/jankscope-app.jsonl"
	ok $? "record of $app" "$(tail -2 "$out/stderr")" &&
		fetch $at/jankscope-app.jsonl && check_records "$app" "$out/jankscope-app.jsonl"
	[ "$(jq -rs '[.[] | select(.type == "header") | .targets[]?] | length' "$out/jankscope-app.jsonl")" -ge 1 ]
	ok $? "$app: the header names the target"
	# T or t in any thread: a capture left it stopped.
	as_root 'for p in $(cat /dev/cpuset/top-app/cgroup.procs); do
		cut -d")" -f2 /proc/$p/task/*/stat 2>/dev/null | cut -c2
	done | grep -c "[Tt]"'
	[ "$output" = 0 ]; ok $? "$app: no thread was left stopped" "$output threads"
fi
echo "# files: $out"
exit $failed
