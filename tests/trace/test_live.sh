#!/usr/bin/env bash
# Frames while they happen: a file that grows, a perfetto that dies, and the kernel's own trace buffer.
# Runs beside others (25 s)
set -u
jankscope=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
# Where a recording goes that is not there yet.
fresh() { rm -f "$work/records"; echo "$work/records"; }
ok() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

if [ "$(id -u)" != 0 ]; then echo "ok - live frames # SKIP need root"; exit 0; fi
if ! "$jankscope" record --max-lost 100 -d 100ms -q 2>"$work/talk"; then
	echo "not ok - record does not run here: $(head -1 "$work/talk")"; exit 1
fi

# What all intervals showed of a layer, and their sums.
sums() { # records layer-substring
	jq -s --arg layer "$2" '[.[] | select(.type == "interval") | .frames.layers[]? | select(.layer | contains($layer))] |
		{shown: map(.shown) | add, dropped: map(.dropped) | add, janky: map(.janky) | add, intervals: length,
		 hist: map(.interval_hist // [] | map(.[2]) | add) | add}' "$1"
}

python3 "$here/make_traces.py" "$work/made" || { echo "not ok - make_traces.py"; exit 1; }
trace=$work/made/timeline.pb app=com.example.app.Main#10
# what the trace was made of
read -r shown janky dropped < <(jq -r --arg app "$app" '."timeline.pb" | to_entries[] | select(.key | contains($app)) | .value | "\(.shown) \(.janky) \(.dropped)"' "$work/made/truth.json")

# --- a file that grows
: >"$work/growing"
"$jankscope" record --max-lost 100 -i 200ms -d 60s -a --top 1 -q -o "$(fresh)" --frames "$work/growing" 2>"$work/talk" &
pid=$!
for _ in $(seq 100); do grep -q '"type":"header"' "$work/records" 2>/dev/null && break; sleep 0.1; done
size=$(stat -c %s "$trace")
for ((at = 0; at < size; at += 90000)); do
	tail -c +$((at + 1)) "$trace" | head -c 90000 >>"$work/growing"; sleep 0.1
done
sleep 0.5
kill -INT $pid; wait $pid; status=$?
ok $status "follows a file that grows (status $status: $(head -1 "$work/talk"))"
got=$(sums "$work/records" "$app")
[ "$(jq .shown <<<"$got")" = "$shown" ]; ok $? "the file's frames: $(jq .shown <<<"$got") shown, $shown in the whole trace"
[ "$(jq .janky <<<"$got")" = "$janky" ]; ok $? "the file's janky frames: $(jq .janky <<<"$got"), $janky in the whole trace"
[ "$(jq .dropped <<<"$got")" = "$dropped" ]; ok $? "the file's dropped refreshes: $(jq .dropped <<<"$got"), $dropped in the whole trace"
[ "$(jq .hist <<<"$got")" = "$((shown - 1))" ]; ok $? "every interval but the first is in a histogram"

# --- perfetto
mkdir "$work/bin"; cp "$here/fake_perfetto.sh" "$work/bin/perfetto"; chmod +x "$work/bin/perfetto"
export FAKE_TRACE=$trace FAKE_LOG=$work/log
: >"$FAKE_LOG"
until_played() { # FLAG...: records until the stand-in has played all of its trace, and ends then
	PATH=$work/bin:$PATH "$jankscope" record --max-lost 100 -i 500ms -d 60s "${@:--a}" --top 1 -q -o "$(fresh)" --frames perfetto 2>"$work/talk" &
	pid=$!
	for _ in $(seq 300); do grep -q played "$FAKE_LOG" && break; sleep 0.1; done
	sleep 0.5
	kill -INT $pid; wait $pid
}
until_played
ok $? "runs perfetto ($(head -1 "$work/talk"))"
got=$(sums "$work/records" "$app")
[ "$(jq .shown <<<"$got")" = "$shown" ]; ok $? "perfetto's frames: $(jq .shown <<<"$got") shown, $shown in the whole trace"
grep -q 'start -c - --txt -o -' "$FAKE_LOG" && grep -q 'end by SIGINT' "$FAKE_LOG"
ok $? "it got its configuration on stdin, and was ended"
[ "$(jq -r 'select(.type == "header") | .sources[] | select(.name == "frames") | .state' "$work/records")" = ok ]
ok $? "the header names the source"
grep -q 'markers of launches' "$FAKE_LOG"; [ $? = 1 ]; ok $? "without --startup it is not asked for ActivityManager's markers"
: >"$FAKE_LOG"
until_played --startup --wait 1s -p com.example.none
grep -q 'markers of launches' "$FAKE_LOG"; ok $? "with --startup it is ($(head -1 "$work/talk"))"

# --- a perfetto that dies is started again, and that is said
: >"$FAKE_LOG"
FAKE_DIE_AFTER=4 until_played
ok $? "goes on when perfetto dies"
[ "$(grep -c '^start' "$FAKE_LOG")" = 2 ]; ok $? "perfetto was started twice"
jq 'select(.type == "event" and .event == "degraded" and .source == "frames") | .reason | contains("traced is gone")' "$work/records" | grep -q true
ok $? "an event says why"
[ "$(jq -s '[.[] | select(.type == "interval") | .lost["frames.perfetto_restarts"] // 0] | add' "$work/records")" = 1 ]
ok $? "the restart is counted"
got=$(jq -s '[.[] | select(.type == "interval") | .lost["frames.truncated_packets"] // 0] | add' "$work/records")
[ "$got" = 1 ]; ok $? "the packet that its death cut is counted once: $got"

# --- what comes after a restart is another trace: no interval goes from one to the other, and an event
# says from which to which frame nothing is known
python3 - "$here" "$work" <<'MAKE'
import json, sys
sys.path.insert(0, sys.argv[1])
import make_traces as m
spans = []
for name, start in (('early', 10), ('later', 60)):
    display, sums = m.Display(), {}
    m.play(display, 100, 'TX - com.example.app/com.example.app.Main#10', sums, stop=400, start=start * m.SECOND)
    with open(f'{sys.argv[2]}/{name}.pb', 'wb') as f:
        f.write(m.process_tree((100, 'com.example.app')) + display.bytes())
    spans.append((min(display.displays), max(display.displays), *sums.values()))
with open(f'{sys.argv[2]}/spans', 'w') as f:
    print(spans[0][1], spans[1][0], spans[0][2]['shown'], spans[1][2]['shown'], file=f)
MAKE
read -r last first early later <"$work/spans"
: >"$FAKE_LOG"; rm -f "$FAKE_LOG.died"
FAKE_TRACE=$work/early.pb FAKE_NEXT=$work/later.pb FAKE_DIE_AFTER=$((($(stat -c %s "$work/early.pb") + 59999) / 60000)) until_played
got=$(sums "$work/records" "$app")
[ "$(jq .shown <<<"$got")" = $((early + later)) ]; ok $? "before and after a restart: $(jq .shown <<<"$got") shown, $early and $later in the traces"
[ "$(jq .hist <<<"$got")" = $((early + later - 2)) ]; ok $? "no interval from the one trace to the other: $(jq .hist <<<"$got") intervals"
got=$(jq -c 'select(.type == "event" and .event == "gap" and .source == "frames") | [.from_boot_ns, .until_boot_ns]' "$work/records")
[ "$got" = "[$last,$first]" ]; ok $? "an event says between which frames others are lost: $got, $last to $first"

# --- what the service says that it lost is told when it says so, and once
python3 - "$here" "$work" <<'MAKE'
import sys
sys.path.insert(0, sys.argv[1])
from make_traces import field, packet
with open(f'{sys.argv[2]}/early.pb', 'ab') as f:
    for overwritten in (4, 7, 7):
        f.write(packet(field(35, field(1, field(3, overwritten) + field(12, 1 << 24)))))
MAKE
: >"$FAKE_LOG"; rm -f "$FAKE_LOG.died"
PATH=$work/bin:$PATH FAKE_TRACE=$work/early.pb "$jankscope" record --max-lost 100 -i 1s -d 5s -a --top 1 -q -o "$(fresh)" --frames perfetto 2>/dev/null
got=$(jq -s -c '[.[] | select(.type == "interval") | .lost["frames.chunks_overwritten"] // 0] | [add, last]' "$work/records")
[ "$got" = '[7,0]' ]; ok $? "what the service lost is told at once: in all, and in the last interval $got"

# --- one that takes longer to end than a run may: what it did not write is not told as if there were none
: >"$FAKE_LOG"; rm -f "$FAKE_LOG.died"
PATH=$work/bin:$PATH FAKE_SLOW_END=3 "$jankscope" record --max-lost 100 -i 500ms -d 2s -a --top 1 -q -o "$(fresh)" --frames perfetto 2>/dev/null
[ "$(jq -s '[.[] | select(.type == "interval") | .lost["frames.perfetto_unfinished"] // 0] | add' "$work/records")" = 1 ]
ok $? "a perfetto that does not end in time is told"

# --- it ends with us, also when we are killed
: >"$FAKE_LOG"; rm -f "$FAKE_LOG.died"
PATH=$work/bin:$PATH "$jankscope" record --max-lost 100 -i 500ms -d 20s -a --top 1 -q -o "$(fresh)" --frames perfetto 2>/dev/null &
pid=$!
for _ in $(seq 300); do grep -q start "$FAKE_LOG" && break; sleep 0.1; done
kill -9 $pid; wait $pid 2>/dev/null
for _ in $(seq 30); do grep -q 'end by SIGTERM' "$FAKE_LOG" && break; sleep 0.1; done
grep -q 'end by SIGTERM' "$FAKE_LOG"; ok $? "perfetto ends when we are killed"
# one that hangs: no frames from it are not "no frames"
printf '#!/bin/sh\ncat >/dev/null\nexec sleep 60\n' >"$work/hangs"; chmod +x "$work/hangs"; mkdir -p "$work/hang"; mv "$work/hangs" "$work/hang/perfetto"
rm -f "$work/records"
PATH=$work/hang:$PATH "$jankscope" record --max-lost 100 -i 1s -d 7s -a --top 1 -q -o "$(fresh)" --frames perfetto 2>/dev/null
got=$(jq -s -c '[.[] | select(.type == "interval")] | last | [.frames, .missing.frames]' "$work/records")
[ "$got" = '[null,"perfetto runs, but writes nothing"]' ]; ok $? "a perfetto that hangs: $got"
PATH=/usr/bin:/bin "$jankscope" record --max-lost 100 -d 300ms -q --frames perfetto >/dev/null 2>"$work/talk"; status=$?
[ $status != 0 ] && grep -q 'No such file' "$work/talk"; ok $? "without perfetto: status $status, $(head -1 "$work/talk")"

"$jankscope" record --max-lost 100 -d 300ms -q --frames "$work" >/dev/null 2>"$work/talk"; status=$?
[ $status != 0 ] && grep -q "Is a directory" "$work/talk"; ok $? "a folder is no trace: $(head -1 "$work/talk")"

# --- the kernel's own trace buffer
tracefs=/sys/kernel/tracing
[ -e $tracefs/trace_marker ] || mount -t tracefs tracefs $tracefs 2>/dev/null
if [ ! -e $tracefs/trace_marker ]; then
	echo "ok - live from tracefs # SKIP no tracefs here"; exit 0
fi
# the trace buffer is one for the machine: tests that use it take turns
exec 9>/tmp/jankscope-tests.tracefs.lock
flock -w 240 9 || { echo "not ok - the lock of the tests of the trace buffer is not given up"; exit 1; }
if [ "$(cat $tracefs/current_tracer)" != nop ] || grep -qv 'bpf_trace:bpf_trace_printk' $tracefs/set_event; then
	echo "ok - live from tracefs # SKIP somebody else traces: $(cat $tracefs/current_tracer) $(head -1 $tracefs/set_event)"; exit 0
fi
# What --frames live changes.
settings() { (cd $tracefs && head -1 tracing_on trace_clock buffer_size_kb && stat -c %a trace_marker) 2>/dev/null; }
# A buffer that nobody used yet shows "7 (expanded: 1408)", and the kernel rounds a size that is
# written up to whole sub-buffers of 4080 bytes and shows 1410 from then on (6.18). So the size is
# written back once here: what the kernel makes of it is what it must be after each run.
sed -E 's/^[0-9]+ \(expanded: ([0-9]+)\)$/\1/' $tracefs/buffer_size_kb >"$work/size"
cat "$work/size" >$tracefs/buffer_size_kb
# Who else writes to them while we look: their process ids and names, one a line.
python3 "$here/watch_writes.py" "$work/writers" $tracefs/{tracing_on,trace_clock,buffer_size_kb,trace_marker} 9>&- & watcher=$!
trap 'kill $watcher 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 300); do [ -e "$work/writers" ] && break; sleep 0.1; done
before_on=$(cat $tracefs/tracing_on)
echo 0 >$tracefs/tracing_on # so that there is something to put back
before=$(settings)
as_before() { # what: the settings are as before, or somebody else is seen to have written to them
	local now others
	for _ in $(seq 30); do now=$(settings); [ "$now" = "$before" ] && break; sleep 0.1; done
	others=$(grep -vE '^[0-9]+ (jankscope|bash|test_live.sh|play_markers|[?])$' "$work/writers" | sort -u | xargs)
	if [ "$now" != "$before" ] && [ -n "$others" ]; then
		echo "ok - tracefs: settings are as before$1 # SKIP another process wrote them meanwhile: $others"
	else
		[ "$now" = "$before" ]; ok $? "tracefs: settings are as before$1"
		[ "$now" = "$before" ] || diff <(echo "$before") <(echo "$now") | sed 's/^/# /'
	fi
}
rm -f "$work/records"

"$jankscope" record --max-lost 100 -i 500ms -d 6s -a --top 1 -q -o "$(fresh)" --frames live 2>"$work/talk" 9>&- &
pid=$!
# the sources are open when the header is written
for _ in $(seq 100); do grep -q '"type":"header"' "$work/records" 2>/dev/null && break; sleep 0.1; done
during=$(settings)
"$BUILD/tests/apps/play_markers" "$work/truth" 2 30
read -r app frames holes <"$work/truth"
wait $pid; status=$?
ok $status "reads the kernel's trace buffer (status $status: $(head -1 "$work/talk"))"
got=$(sums "$work/records" 'BufferTX - com.example.play')
shown=$(jq .shown <<<"$got")
[ "$shown" = "$frames" ]; ok $? "tracefs: $shown latches shown, $frames played"
got=$(sums "$work/records" 'Choreographer#doFrame')
[ "$(jq .shown <<<"$got")" = "$frames" ]; ok $? "tracefs: $(jq .shown <<<"$got") frames of the app, $frames played"
dropped=$(jq .dropped <<<"$got")
[ "$dropped" -ge $((4 * holes)) ] && [ "$dropped" -le $((6 * holes + 5)) ]; ok $? "tracefs: $dropped refreshes dropped in $holes holes of five"
got=$(jq -r 'select(.type == "interval") | .frames.layers[]? | select(.layer | contains("com.example.play")) | .package' "$work/records" | sort -u)
[ "$got" = com.example.play ]; ok $? "tracefs: the layer's package is $got"
[ "$during" != "$before" ]; ok $? "tracefs: settings were changed"
as_before ""

# killed in the middle: the helper puts everything back
"$jankscope" record --max-lost 100 -i 500ms -d 20s -a --top 1 -q -o "$(fresh)" --frames live 2>"$work/talk" 9>&- &
pid=$!
for _ in $(seq 300); do [ "$(cat $tracefs/tracing_on)" = 1 ] && break; sleep 0.1; done
# a second one may not
"$jankscope" record --max-lost 100 -d 300ms -q --frames live >/dev/null 2>"$work/talk2"; status=$?
[ $status != 0 ] && grep -q 'another jankscope' "$work/talk2"; ok $? "a second reader is refused: $(head -1 "$work/talk2")"
kill -9 $pid; wait $pid 2>/dev/null
as_before " after SIGKILL"

# killed together with the helper: the next run puts everything back
"$jankscope" record --max-lost 100 -i 500ms -d 20s -a --top 1 -q -o "$(fresh)" --frames live 2>"$work/talk" 9>&- &
pid=$!
for _ in $(seq 300); do [ "$(cat $tracefs/tracing_on)" = 1 ] && break; sleep 0.1; done
# the helper has made a session of its own, and holds tracefs open
helper=$(for p in $(pgrep -P $pid); do [ "$(ps -o sid= -p $p | xargs)" = $p ] && [ -n "$(find /proc/$p/fd -lname $tracefs 2>/dev/null)" ] && echo $p; done)
# stopped first: a recorder that sees it die has a prober make another
kill -STOP $helper; kill -9 $pid; kill -9 $helper; wait $pid 2>/dev/null
[ -n "$helper" ] && [ "$(settings)" = "$during" ]; ok $? "tracefs: nobody puts settings back when the helper (${helper:-not found}) is killed too"
"$jankscope" record --max-lost 100 -d 300ms -q --frames live >/dev/null 2>"$work/talk" 9>&-
as_before " after the next run"

# somebody else's trace
echo 1 >$tracefs/tracing_on
echo 1 >$tracefs/events/sched/sched_process_exit/enable
"$jankscope" record --max-lost 100 -d 300ms -q --frames live >/dev/null 2>"$work/talk"; status=$?
[ $status != 0 ] && grep -q 'a trace runs' "$work/talk"; ok $? "a running trace is left alone: $(head -1 "$work/talk")"
"$jankscope" record --max-lost 100 -d 300ms -q --frames live --frames-force >/dev/null 2>"$work/talk"; ok $? "unless told to"
echo 0 >$tracefs/events/sched/sched_process_exit/enable
echo "$before_on" >$tracefs/tracing_on
