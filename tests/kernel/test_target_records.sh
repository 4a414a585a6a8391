#!/usr/bin/env bash
# -p NAME as a user types it: processes so short that no scan meets them are waited for and listed,
# by name and by glob, and the end of the wait is told apart from it.
# Runs beside others (10 s)
set -u
work=$(mktemp -d) record= load=
cleanup() {
	[ -n "$record" ] && kill -KILL "$record" 2>/dev/null
	[ -n "$load" ] && kill -KILL "$load" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
result() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

# A name that nobody else on this machine has, and that fits in comm.
name=js$$d
cp /bin/dd "$work/$name"
short() { "$work/$name" if=/dev/zero of=/dev/null bs=64k count=400 2>/dev/null; }

# Each lives for some milliseconds; a scan comes every 200.
(while :; do short; sleep 0.05; done) &
load=$!
"$BUILD/jankscope" record -p "$name" --wait 20s -d 2s -i 500ms --net off -q -o "$work/waited.jsonl"
result $? "-p NAME: a name of which only short processes come is found"
kill "$load"
wait "$load" 2>/dev/null
load=
sum() { jq -s '[.[] | select(.type == "interval") | .cpu.tasks[].cpu_ns] | add // 0' "$1"; }
[ "$(sum "$work/waited.jsonl")" -gt 1000000 ]
result $? "and listed: $(sum "$work/waited.jsonl") ns"
[ "$(jq -s --arg name "$name" '[.[] | select(.type == "interval") | .cpu.tasks[] |
	select(.process | endswith($name) | not)] | length' "$work/waited.jsonl")" = 0 ]
result $? "under its name, and nothing else is"

# Eight of them while another process of the name is there; each has a row of its own.
"$work/$name" if=/dev/zero of=/dev/null bs=1 count=1000000000 2>/dev/null &
load=$!
for pattern in "$name" "js$$*"; do
	rm -f "$work/eight.jsonl"
	"$BUILD/jankscope" record -p "$pattern" -i 500ms --net off -q --max-lost 100 \
		-o "$work/eight.jsonl" &
	record=$!
	for _ in $(seq 300); do
		grep -qs '"type":"interval"' "$work/eight.jsonl" && break
		sleep 0.1
	done
	for _ in 1 2 3 4 5 6 7 8; do short; done
	sleep 1
	kill -INT "$record"
	wait "$record"
	record=
	[ "$(jq -s --argjson pid "$load" '[.[] | select(.type == "interval") | .cpu.processes[] |
		select(.pid != $pid)] | length' "$work/eight.jsonl")" -ge 8 ]
	result $? "-p $pattern: all 8 short processes have a row"
done
kill "$load"
wait "$load" 2>/dev/null
load=

"$BUILD/jankscope" record -p "no$name" --wait 300ms -q --net off 2>"$work/err"
[ $? = 4 ] && grep -q "not running after 0.3 s" "$work/err"
result $? "one that never comes: exit 4"
