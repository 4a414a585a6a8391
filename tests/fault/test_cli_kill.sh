#!/usr/bin/env bash
# SIGKILL at random moments of a run: what was written is whole lines with a right crc, without a
# gap; on a disk file and on tmpfs no line is torn, because each is one write. Prints TAP.
# Runs beside others (45 s, 11 s of CPU)
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
if [ "$(id -u)" != 0 ]; then echo "ok - kill # SKIP need root"; exit 0; fi
cd "$work" || exit 1
runs=${KILL_RUNS:-50}
shm=$(mktemp -d /dev/shm/jankscope.XXXXXX 2>/dev/null) && trap 'rm -rf "$work" "$shm"' EXIT || shm=$work
cut=0
for i in $(seq "$runs"); do
	file=$work/$i.jsonl; [ $((i % 2)) = 0 ] && file=$shm/$i.jsonl
	"$BUILD/jankscope" record -q -i 50ms --cpu switch --max-lost 100 -o "$file" 2>/dev/null & pid=$!
	# Half of them from the first moment on, half once it runs.
	if [ $((i % 4)) -lt 2 ]; then
		for _ in $(seq 400); do [ -s "$file" ] && break; sleep 0.02; done
	fi
	sleep 0.$(printf %03d $((RANDOM % 300)))
	kill -9 $pid; { wait $pid; } 2>/dev/null
	[ -s "$file" ] && cut=$((cut + 1)) || rm -f "$file"
done
python3 "$here/check_records.py" ./*.jsonl "$shm"/*.jsonl >check 2>&1; status=$?
lines=$(awk '{n += $2} END {print n + 0}' check)
if [ $status = 0 ] && [ "$cut" -ge $((runs / 4)) ]; then
	echo "ok - kill: $runs runs killed, $cut of them with records: all $lines lines whole, none torn"
else
	echo "not ok - kill: $runs runs killed, $cut with records"; grep -v ' 0 problems' check | head -20 | sed 's/^/# /'
fi
# Nothing of a killed run stays in the kernel: no link, no program, no map of ours.
left=$(ls -d /sys/fs/bpf/*jankscope* 2>/dev/null | wc -l)
[ "$left" = 0 ] && echo "ok - kill: nothing is pinned" || echo "not ok - kill: $left things pinned in /sys/fs/bpf"
exit 0
