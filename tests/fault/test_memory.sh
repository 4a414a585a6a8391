#!/usr/bin/env bash
# The memory of a recording does not grow with the number of processes that came and went.
set -u
cd "$(dirname "$0")/../.."
if [ "$(id -u)" != 0 ]; then
	echo "ok - memory under a fork storm # SKIP needs root"
	exit 0
fi
if [ ! -w /proc/sys/kernel/ns_last_pid ]; then
	echo "ok - memory under a fork storm # SKIP no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for mode in switch iter; do
	"$BUILD/jankscope" record -a -q -i 50ms -d 20s --cpu $mode -o "$work/$mode.jsonl" &
	record=$!
	# Some live long enough to be named. Always the same pids: the table of tids, which grows with
	# them up to pid_max, stays out of it.
	end=$((SECONDS + 19))
	while [ $SECONDS -lt $end ]; do
		echo 20000 >/proc/sys/kernel/ns_last_pid
		for _ in 1 2 3 4 5 6 7 8; do /bin/sleep 0.02 & done
		wait -n
	done
	wait $record
	# What the table of tids takes for numbers that others used meanwhile (512 to a page of 40 KiB)
	# is no leak: it ends with pid_max.
	jq -s -r '[.[] | select(.type == "interval" and .self.anon_bytes)] | length as $n |
		([.[($n / 3 | floor):($n / 2 | floor)][].self.anon_bytes] | max) as $early |
		([.[-($n / 6 | floor):][].self.anon_bytes] | max) as $late |
		(def pages: [.[].cpu.tasks[].tid / 512 | floor] | unique;
		 (pages - (.[:($n / 3 | floor)] | pages)) | length * 40960) as $table |
		([.[].cpu.tasks[] | select(.exited)] | length) as $dead |
		"\($n) \($early) \($late) \($dead) \($table)"' "$work/$mode.jsonl" >"$work/figures"
	read -r n early late dead table <"$work/figures"
	echo "# --cpu $mode: $n intervals, $dead tasks ended, anonymous memory $early then $late bytes, new tids $table"
	name="--cpu $mode: memory does not grow with processes that came and went"
	# A name costs some 130 bytes: 4,000 of them would stand out from the heap's own unrest.
	if [ "$dead" -lt 4000 ]; then
		echo "ok - $name # SKIP the machine was too busy to fork enough ($dead)"
	elif [ "$late" -le $((early + table + 300 * 1024)) ]; then
		echo "ok - $name"
	else
		echo "not ok - $name"
	fi
done
