#!/usr/bin/env bash
# Launches of activities in traces: in a text whose launches are known, and in real traces, where
# Perfetto's own android.startup.startups and actual_frame_timeline_slice are the oracle. Prints TAP.
# Runs beside others (10 s)
set -u
jankscope=$BUILD/jankscope
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
say() { # status name: a result, and what was got if it is bad
	[ "$1" = 0 ] && { echo "ok - launches: $2"; return; }
	echo "not ok - launches: $2"; sed 's/^/# /' "$work/got" "$work/diff" 2>/dev/null
}
python3 - >"$work/launches.txt" <<'END'
# 30 frames of com.example, one each 20 ms from 50.0 s on; 5 ms each.
lines = []
def mark(ms, task, pid, text):
    lines.append((ms, f"{task:>16}-{pid:<5} ({pid:5}) [000] ...1 {50 + ms / 1000:.6f}: tracing_mark_write: {text}\n"))
for i in range(30):
    mark(20 * i, "com.example", 1000, "B|1000|Choreographer#doFrame")
    mark(20 * i + 5, "com.example", 1000, "E|1000")
def launch(number, begin, end, kind, package, task="system_server", pid=900, told=True):
    mark(begin, task, pid, f"S|{pid}|launchingActivity#{number}|0")
    mark(end, task, pid, f"F|{pid}|launchingActivity#{number}|0")
    if told:
        mark(end + 1, task, pid, f"I|{pid}|launchingActivity#{number}:completed{kind}:{package}")
launch(1, 102, 150, "-hot", "com.example")        # its frame is on the screen at 105
launch(2, 200, 260, "", "com.example")            # Android 13: no kind
mark(210, "com.example", 1000, "B|1000|activityStart")
mark(212, "com.example", 1000, "E|1000")
mark(213, "com.example", 1000, "B|1000|activityResume")
mark(214, "com.example", 1000, "E|1000")
launch(3, 300, 340, "-cold", "com.none")          # of an app that drew nothing
launch(4, 400, 440, "-hot", "com.example", told=False)  # given up
launch(5, 410, 450, "-hot", "com.example", "com.liar", 3000)
mark(500, "system_server", 900, "S|900|focused app: com.example|0")
print("# tracer: nop\n#")
print("".join(text for _, text in sorted(lines)), end="")
END
"$jankscope" frames --json "$work/launches.txt" 2>/dev/null |
	jq -c '.launches[] | [.number, .package, .kind, .start_boot_ns, .drawn_ns, .first_frame_ns]' >"$work/got"
cat >"$work/want" <<'END'
[1,"com.example","hot",50102000000,48000000,3000000]
[2,"com.example","warm",50200000000,60000000,5000000]
[3,"com.none","cold",50300000000,40000000,null]
END
diff "$work/want" "$work/got" >"$work/diff"; say $? "of a text: hot, warm by the steps of the main thread, one without a frame; none of a liar, none that was given up"
"$jankscope" frames --json "$work/launches.txt" 2>/dev/null | jq -c .focus >"$work/got"
[ "$(cat "$work/got")" = '{"activity":"com.example","since_boot_ns":50500000000}' ]; say $? "the focus"
rm "$work/diff"
"$jankscope" frames "$work/launches.txt" >"$work/got" 2>/dev/null
grep -qE '^  cold +- +40\.0 .* com.none$' "$work/got" && grep -qE '^  hot +3\.0 +48\.0 ' "$work/got"; say $? "as a table"

# The same from record, which reads the trace as it is written.
of_record() { # records: [number, package, kind, start_boot_ns, drawn_ns, first_frame_ns] of each launch
	jq -c 'select(.event == "launch") | [.number, .package, .kind, .start_boot_ns, .drawn_ns, .first_frame_ns]' "$1"
}
root=$([ "$(id -u)" = 0 ] && echo yes)
if [ -n "$root" ]; then
	# Its first half is there, the rest comes line by line.
	head -60 "$work/launches.txt" >"$work/growing"
	"$jankscope" record -a --top 1 --max-lost 100 -i 200ms -d 60s -q --frames "$work/growing" -o "$work/records" 2>"$work/talk" &
	pid=$!
	for _ in $(seq 100); do grep -q '"type":"interval"' "$work/records" 2>/dev/null && break; sleep 0.1; done
	tail -n +61 "$work/launches.txt" | while IFS= read -r line; do echo "$line" >>"$work/growing"; sleep 0.01; done
	# A launch is told while the run goes on.
	for _ in $(seq 100); do grep -q '"number":1,' "$work/records" && break; sleep 0.1; done
	grep -q '"number":1,' "$work/records"; say $? "record tells a launch while it runs"
	kill -INT $pid; wait $pid; say $? "record ends ($(head -1 "$work/talk"))"
	of_record "$work/records" | sort >"$work/got"
	diff "$work/want" "$work/got" >"$work/diff"; say $? "record: the launches of a text that grows"
	jq -c 'select(.event == "focus") | .activity' "$work/records" | tail -1 >"$work/got"
	[ "$(cat "$work/got")" = '"com.example"' ]; say $? "record: the focus"
	jq -r 'select(.event == "launch" and .number == 3) | .no_first_frame' "$work/records" >"$work/got"
	grep -qE '^(none of it was seen by then|the trace ended before)$' "$work/got"; say $? "record: why a first frame is absent"
	rm "$work/diff"
else
	echo "ok - launches: record # SKIP needs root"
fi

oracle=${SHARED:-}/tools/trace-oracle
for trace in cuttlefish_a16_app_startup.pftrace pixel6a_a13_startup_warm.perfetto-trace; do
	file=${SHARED:-}/traces/$trace
	if [ ! -x "$oracle" ] || [ ! -f "$file" ]; then
		echo "ok - launches: $trace # SKIP no ../shared"
		continue
	fi
	if ! "$oracle" "$file" "INCLUDE PERFETTO MODULE android.startup.startups;
		SELECT 'row', startup_id, package, startup_type, ts, dur, (SELECT min(d.ts + d.dur)
			FROM actual_frame_timeline_slice a JOIN process p USING (upid)
			JOIN actual_frame_timeline_slice d ON d.display_frame_token = a.display_frame_token AND d.surface_frame_token IS NULL
			WHERE p.name = package AND a.present_type NOT LIKE 'Dropped%' AND d.ts + d.dur >= s.ts) - ts
		FROM android_startups s;" 2>/dev/null | grep ^row >"$work/want"; then
		echo "ok - launches: $trace # SKIP trace_processor cannot be had"
		continue
	fi
	"$jankscope" frames --json "$file" 2>/dev/null |
		jq -r '.launches[] | ["row", .number, .package, .kind, .start_boot_ns, .drawn_ns, .first_frame_ns] | @tsv' >"$work/got"
	diff "$work/want" "$work/got" >"$work/diff"; say $? "$trace: kind, begin, length and first frame are trace_processor's"
	[ -n "$root" ] || continue
	cut -f2- "$work/want" | jq -Rc 'split("\t") | [(.[0] | tonumber), .[1], .[2]] + (.[3:] | map(tonumber))' >"$work/wanted"
	"$jankscope" record -a --top 1 --max-lost 100 -i 200ms -d 1500ms -q --overwrite --frames "$file" -o "$work/records" 2>"$work/talk"
	of_record "$work/records" >"$work/got"
	diff "$work/wanted" "$work/got" >"$work/diff"; say $? "$trace: so does record"
done
