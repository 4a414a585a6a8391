#!/usr/bin/env bash
# What the records of a whole-device run promise: names that follow an exec, and intervals whose
# duration is that of their sums, however late the tool itself got its CPU.
set -u
work=$(mktemp -d) record= load= hogs=
cleanup() {
	[ -n "$record" ] && kill -KILL "$record" 2>/dev/null
	[ -n "$load$hogs" ] && kill -KILL $load $hogs 2>/dev/null
	wait 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
result() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

"$BUILD/jankscope" record -a -i 50ms --net off -q --max-lost 100 \
	-o "$work/record.jsonl" &
record=$!
for _ in $(seq 100); do
	grep -qs '"event":"start"' "$work/record.jsonl" && break
	sleep 0.1
done
# Long enough as bash that its first name is taken, then the same process under another one.
bash -c 'end=$((SECONDS + 2)); while [ $SECONDS -lt $end ]; do :; done
	exec -a js-second-name bash -c "while :; do :; done"' &
load=$!
# The pid alone may have been another process's before.
ticks=$(awk '{print $22}' "/proc/$load/stat")
sleep 4
kill -INT "$record"
wait "$record"
record=
jq -r --argjson pid $load --argjson ticks "$ticks" 'select(.type == "interval") | .cpu.tasks[] |
	select(.pid == $pid and (.start_boot_ns / 1e7 | floor) == $ticks) | .process // empty' \
	"$work/record.jsonl" >"$work/names"
[ "$(head -1 "$work/names")" = bash ]
result $? "-a: before its exec a process has its first name"
[ "$(tail -1 "$work/names")" = js-second-name ]
result $? "-a: after it, the second one"
# An interval that comes late makes the next one shorter: the one in the middle is what was asked for.
middle=$(jq -s '[.[] | select(.type == "interval") | .dur_ns] | sort | .[length / 2 | floor] / 1e6' "$work/record.jsonl")
awk -v ms="$middle" 'BEGIN { exit !(ms > 35 && ms < 70) }'
result $? "-i 50ms: the middle one of the intervals has $middle ms"

# More load than CPUs: now and then the tool has to wait between its looks at the clock.
for _ in 1 2 3 4 5 6 7 8; do
	bash -c 'while :; do :; done' &
	hogs="$hogs $!"
done
"$BUILD/jankscope" record -a -i 50ms -n 60 --cpu switch --net off -q --max-lost 100 \
	-o "$work/busy.jsonl"
{ kill -KILL $hogs; wait $hogs; } 2>/dev/null
hogs=
[ "$(jq -s '[.[] | select(.type == "interval") | .cpu + {dur_ns} |
	select(.unaccounted_ns and .online_cpus * .dur_ns != .busy_ns + .idle_ns + .unaccounted_ns)] | length' \
	"$work/busy.jsonl")" = 0 ]
result $? "busy + idle + unaccounted is CPUs x dur_ns of the same interval, to the nanosecond"
