#!/usr/bin/env bash
# `frames --why`: late frames with known causes in made traces, and real traces, where the tables
# actual_frame_timeline_slice and thread_state of Perfetto's trace_processor are the oracle.
# Runs beside others (20 s)
set -u
jankscope=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
ok() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

python3 "$here/make_why.py" "$work" || { echo "not ok - make_why.py"; exit 1; }
"$jankscope" record --json-schema >"$work/schema.json"
# why.txt has no FrameTimeline: there a frame is a doFrame and its DrawFrame
for form in why.pb:why.json why_compact.pb:why.json why.txt:why_text.json; do
	"$jankscope" frames --json --why "$work/${form%:*}" >"$work/out.json" 2>"$work/talk"; status=$?
	[ $status = 0 ]; ok $? "${form%:*}: exit $status, $(head -1 "$work/talk")"
	python3 - "$work" "${form%:*}" "${form#*:}" <<'PYTHON'
import json, sys
work, form, name = sys.argv[1:]
truth, got = json.load(open(f'{work}/{name}')), json.load(open(work + '/out.json'))
janks = {j.get('surface_frame_token', j['actual_start_ns']): j for j in got['janks']}
for t in truth:
    t.setdefault('token', t['begin'])
def say(name, wrong):
    print('not ok' if wrong else 'ok', f'- {form}: {name}', '; '.join(map(str, wrong))[:400])
say(f'{len(truth)} late frames are told, and none that was in time',
    sorted(set(janks) ^ {t['token'] for t in truth}))
causes, culprits, windows, ledgers, sums = [], [], [], [], []
for t in truth:
    j = janks.get(t['token'], {})
    if (j.get('cause'), j.get('second_cause')) != (t['cause'], t['second']):
        causes.append((t['token'], t['cause'], t['second'], j.get('cause'), j.get('second_cause')))
    if t['culprit'] and j.get('culprit', {}).get('tid') != t['culprit']:
        culprits.append((t['token'], t['culprit'], j.get('culprit')))
    if (j.get('window_start_ns'), j.get('window_end_ns'), j.get('late_ns')) != (t['begin'], t['end'], t['late_ns']):
        windows.append((t['token'], t['begin'], t['end'], t['late_ns'], j))
    threads = {str(thread['tid']): thread for thread in j.get('threads', [])}
    for tid, ledger in t['threads'].items():
        if threads.get(tid, {}).get('ledger') != ledger:
            ledgers.append((t['token'], tid, ledger, threads.get(tid, {}).get('ledger')))
    for thread in threads.values():
        if sum(p['ns'] for p in thread.get('preemptors', [])) != thread['ledger']['runnable_ns']:
            sums.append((t['token'], thread['tid'], thread.get('preemptors')))
        if sum(thread['ledger'].values()) != t['end'] - t['begin']:
            sums.append((t['token'], thread['tid'], thread['ledger']))
say('each has its cause, and its second one', causes)
say('the thread that had the CPU, held the lock or served the call', culprits)
say('windows and delays to the nanosecond', windows)
say('the ledger of each thread is what it did, to the nanosecond', ledgers)
say('ledgers sum to the window, and who ran instead to the wait', sums)
calls = [dict(c, process=None) for j in janks.values() for c in j.get('chain', [])]
say('the call that was served late: how long it was queued, and served', [] if calls == [dict(
    pid=3000, tid=3001, thread='Binder:3000_1', process=None, how='binder', queued_ns=9000100, served_ns=11999900)] else calls)
say('nothing was lost', [got['lost']] if got['lost'] else [])
schema = json.load(open(work + '/schema.json'))
text = json.dumps(schema)
say('each key is one of the schema', [k for j in got['janks'] for k in j if f'"{k}"' not in text])
PYTHON
done
"$jankscope" frames --why "$work/why.pb" >"$work/narrow"; status=$?
[ "$(awk 'length > n {n = length} END {print n}' "$work/narrow")" -le 80 ]; ok $? "no line is wider than 80 columns"
python3 -c 'import re, sys; sys.stdout.write(re.sub(r"\n    ", " ", open(sys.argv[1]).read()))' "$work/narrow" >"$work/out" # lines as they are meant
[ $status = 0 ] && [ "$(grep -c '^LATE ' "$work/out")" = 13 ]; ok $? "as text: a line for each"
grep -q '^LATE     0.260 s  +17.0 ms  app   main waited 19.0 ms for a CPU: behind dex2oat64 (19.0)$' "$work/out"; ok $? "who had the CPU: $(grep '0.260' "$work/out")"
grep -q '^LATE     1.160 s .* app   cause not known: main slept 21.8 of 26.8 ms, ended by loader$' "$work/out"; ok $? "what is not known: for whom the frame waited"
grep -q '^LATE .* main in binder to system_server 20.0 ms (queued 9.0), ended by Binder:3000_1$' "$work/out"; ok $? "who was called: $(grep 'in binder' "$work/out")"
grep -q '^LATE .* main waited 10.0 ms for a lock, ended by loader; and no CPU$' "$work/out"; ok $? "two causes in one line"
grep -q '^why late: 13 frames, 220 ms   lock 2 (34 ms)  ' "$work/out"; ok $? "and all: $(grep '^why late' "$work/out")"

# --- what cannot be told is said
"$jankscope" frames --why "$work/why_none.pb" >"$work/out" 2>"$work/talk"; status=$?
[ $status = 4 ] && [ "$(grep -c 'no scheduler events' "$work/talk")" = 1 ] && ! grep -q '^LATE' "$work/out"
ok $? "a trace without scheduler events: exit $status, $(sed "s|$work/||" "$work/talk")"
got=$("$jankscope" frames --why --json "$work/why_none.pb" 2>/dev/null | jq -c '[.janks[] | select(.missing.threads and (.threads == [])) | .cause] | group_by(.) | map([.[0], length])')
[ "$got" = '[["stuffing",1],["surfaceflinger",1],["unknown",11]]' ]; ok $? "and no guess, only what SurfaceFlinger says itself: $got"
cat "$work/why.pb" | "$jankscope" frames --why - >"$work/out" 2>"$work/talk"; status=$?
[ $status = 5 ]; ok $? "a pipe: exit $status, $(head -1 "$work/talk")"
"$jankscope" frames --why --rows "$work/why.pb" >"$work/out" 2>"$work/talk"; status=$?
[ $status = 2 ]; ok $? "--rows as text: exit $status, $(head -1 "$work/talk")"
got=$("$jankscope" frames --why --rows --json "$work/why.pb" | jq -c '[(.frames | length) > 13, (.janks | length)]')
[ "$got" = "[true,13]" ]; ok $? "--rows and --why in one object: $got"
gzip -k "$work/why.pb"
"$jankscope" frames --why --json "$work/why_tokens.pb" >"$work/out.json" 2>"$work/talk"
got=$(jq -c '[.janks[] | [.window_start_ns, .surface_frame_token, .cause]] | sort' "$work/out.json" | jq -c --slurpfile truth "$work/why_tokens.json" \
	'. - [$truth[0][] | [.begin, .token, .cause]] | [length, .[:3]]')
[ "$got" = "[0,[]]" ] && [ "$(jq '.janks | length' "$work/out.json")" = "$(jq length "$work/why_tokens.json")" ]
ok $? "tokens below 0, of 64 bits and such as come again: not as planned $got of $(jq '.janks | length' "$work/out.json")"
cmp -s <("$jankscope" frames --why --json "$work/why.pb.gz" | jq .janks) <("$jankscope" frames --why --json "$work/why.pb" | jq .janks); ok $? "packed, the same"

cmp <("$jankscope" frames --why --json "$work/why_restart.pb" | jq .janks) <("$jankscope" frames --why --json "$work/why.pb" | jq .janks)
ok $? "behind them SurfaceFlinger starts anew, and numbers of threads are given again: of before it is who had them then"

# --- clocks: of the rows MONOTONIC, of the scheduler those of old kernels, and snapshots that err
for form in mono:why raw:why raw_compact:why_compact global:why_compact local:why; do
	cmp <("$jankscope" frames --why --json "$work/why_${form%:*}.pb" | jq .janks) <("$jankscope" frames --why --json "$work/${form#*:}.pb" | jq .janks)
	ok $? "why_${form%:*}.pb: another clock, told by snapshots: the same"
done
for form in drift suspend back; do
	"$jankscope" frames --why --json "$work/why_$form.pb" >"$work/out.json" 2>"$work/talk"
	python3 - "$work" $form <<'PYTHON'
import json, sys
work, form = sys.argv[1:]
truth = {t['token']: t for t in json.load(open(work + '/why.json'))}
janks = {j['surface_frame_token']: j for j in json.load(open(work + '/out.json'))['janks']}
off = {k: (j['window_start_ns'] - truth[k]['begin'], j.get('clock_error_ns')) for k, j in janks.items()}
wrong = [(k, *v) for k, v in off.items() if abs(v[0]) > (v[1] or 0)]
print('not ok' if wrong or set(janks) != set(truth) else 'ok', f'- why_{form}.pb: the error that is told holds for', len(off), 'frames', wrong)
moved, sure = sum(1 for v in off.values() if v[0]), sum(1 for v in off.values() if not v[1])
print('ok' if moved and (sure or form == 'drift') else 'not ok', f'- why_{form}.pb: {moved} frames are moved by it, of {sure} nothing is in doubt')
PYTHON
done
for form in global_lost raw_lost; do
	"$jankscope" frames --why --json "$work/why_$form.pb" >"$work/out.json" 2>"$work/talk"; status=$?
	got=$(jq -c '[.lost.ftrace_bundles_without_clock > 0, ([.janks[].threads[]] | length)]' "$work/out.json")
	[ $status = 4 ] && [ "$got" = "[true,0]" ]; ok $? "why_$form.pb: a clock that nobody compares is no guess: exit $status, $got"
done
got=$("$jankscope" frames --why --json "$work/why_unsynced.pb" 2>/dev/null | jq -c '[([.janks[] | select(.surface_frame_token)] | length), .lost.unknown_clock > 0]')
[ "$got" = "[0,true]" ]; ok $? "rows whose clock nobody compares are counted, and none is placed: $got"

# --- events that the kernel lost, and a trace that wants all memory
python3 - "$here" "$work" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
from make_traces import MS, APP, Display, field, packet, process_tree, varint
work = sys.argv[2]
def display_of(count, length):
    """Late frames of one app, one each millisecond."""
    parts = [process_tree((1000, 'com.example.late'))]
    for i in range(count):
        begin = 1000 * MS + i * MS
        for cookie, kind, at, fields in ((3 * i, 3, begin, ()), (3 * i + 1, 4, begin + 10, (field(6, 2), field(9, APP)))):
            parts.append(packet(field(8, at), field(76, field(kind, field(1, cookie + 1) + field(2, i) + field(3, i) + field(4, 1000) +
                                                               field(5, b'TX - com.example.late/M#1') + b''.join(fields))), field(10, 3)))
            parts.append(packet(field(8, at + (8 * MS if kind == 3 else length)), field(76, field(5, field(1, cookie + 1))), field(10, 3)))
    return b''.join(parts)
def compact(start, count, step, lost=0):
    """The main thread comes and goes."""
    columns = [(1, varint(start) + varint(step) * (count - 1)), (2, b'\1' * count), (3, (varint(1000) + varint(0)) * (count // 2)),
               (4, varint(120) * count), (6, b'\0' * count)]
    return packet(field(1, field(1, 0) + (field(3, 1) if lost else b'') + field(4, field(5, b'main') + b''.join(field(n, d) for n, d in columns))))
with open(work + '/lost.pb', 'wb') as f:
    f.write(display_of(2, 20 * MS) + compact(999 * MS, 10, MS) + compact(1011 * MS, 40, MS, lost=1))
with open(work + '/threads.pb', 'wb') as f:
    f.write(display_of(2, 20 * MS) + compact(999 * MS, 50, MS))
    for start in range(100000, 170000, 10000):
        f.write(packet(field(2, b''.join(field(2, field(1, tid) + field(3, 99999)) for tid in range(start, start + 10000)))))
with open(work + '/hostile.pb', 'wb') as f:
    f.write(display_of(70000, 10**10))
    for i in range(60):
        f.write(compact(900 * MS + i * 25000 * 100000, 25000, 100000))
PYTHON
got=$("$jankscope" frames --why --json "$work/lost.pb" 2>/dev/null | jq -c '[.lost.sched_gaps, ([.janks[].lost.sched_events])]')
[ "$got" = "[1,[1,1]]" ]; ok $? "frames during which events were lost say so: $got"
for form in plain compact; do
	whole=why.pb
	[ $form = compact ] && whole=why_compact.pb
	got=$("$jankscope" frames --why --json "$work/why_dropped_$form.pb" 2>/dev/null | jq -c --slurpfile whole <("$jankscope" frames --why --json "$work/$whole") \
		'[.lost.packets_dropped_by_writer, .lost.sched_gaps > 0, ($whole[0].janks - .janks | length > 0),
		([.janks[] | select(.lost | not)] - $whole[0].janks | length)]')
	[ "$got" = "[1,true,true,0]" ]; ok $? "a bundle of events had no room in the file ($form): frames that others are told of say so: $got"
done
# the kernel's own words, in the midst of a frame and where its ring has come round
awk '/doFrame 7004/ && !done {print "CPU:3 [LOST 12 EVENTS]"; done = 1} {print}' "$work/why.txt" >"$work/why_lost.txt"
awk '/\[003\]/ {if ($6 + 0 < 1.45) next; if (!done++) print "##### CPU 3 buffer started ####"} {print}' "$work/why.txt" >"$work/why_round.txt"
for form in lost round; do
	got=$("$jankscope" frames --why --json "$work/why_$form.txt" 2>/dev/null | jq -c '[.lost.sched_gaps, ([.janks[] | select(.lost.sched_events)] | length)]')
	[ "$got" = "[1,$([ $form = lost ] && echo 1 || echo 9)]" ]; ok $? "frames of a text during which events were lost say so ($form): $got"
done
got=$("$jankscope" frames --why --json "$work/threads.pb" 2>/dev/null | jq -c '[.lost.thread_names_over_limit, (.janks | length)]')
[ "$got" = "[4465,2]" ] && "$jankscope" frames --why "$work/threads.pb" 2>/dev/null | grep -q '^lost     names of threads, 4465 times'
ok $? "threads that nobody has room for are counted: $got"
python3 - "$jankscope" "$work" <<'PYTHON' >"$work/memory"
import resource, subprocess, sys
tool, work = sys.argv[1:]
run = subprocess.run(['timeout', '100', tool, 'frames', '--why', '--json', work + '/hostile.pb'], stdout=open(work + '/out.json', 'w'), stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(run.returncode)
PYTHON
status=$?
got=$(jq -c '[(.janks | length) + .lost.late_frames_over_limit, .lost.sched_events_over_limit > 0, ([.janks[] | .window_end_ns - .window_start_ns == (.threads[].ledger | add)] | unique)]' "$work/out.json")
[ $status = 0 ] && [ "$got" = "[70000,true,[true]]" ] && [ "$(cat "$work/memory")" -lt 100000 ]; ok $? "70000 late frames of 10 s and 1.5 million switches: $(cat "$work/memory") KiB, $got"

# --- real traces
oracle=${SHARED:-}/tools/trace-oracle
for trace in emulator_a12_cpuschedstack.pftrace cuttlefish_a16_app_startup.pftrace cuttlefish_a16_db_ui_thread.pftrace pixel6a_a13_startup_warm.perfetto-trace; do
	file=${SHARED:-}/traces/$trace
	if [ ! -x "$oracle" ] || [ ! -f "$file" ]; then
		echo "ok - $trace # SKIP no ../shared"
		continue
	fi
	"$jankscope" frames --json --why "$file" >"$work/out.json" 2>/dev/null
	tids=$(jq -r '[.janks[].threads[].tid] | unique | join(",")' "$work/out.json")
	# one line a row and a word before each: it answers on a terminal for people
	if ! "$oracle" "$file" "SELECT 'late', s.ts, s.ts + s.dur, s.surface_frame_token, s.display_frame_token, p.pid, s.layer_name
		FROM actual_frame_timeline_slice s LEFT JOIN process p USING (upid)
		WHERE surface_frame_token IS NOT NULL AND dur >= 0 AND (present_type LIKE 'Late%' OR present_type LIKE 'Dropped%');" \
		"SELECT 'state', t.tid, s.ts, s.dur, s.state, (SELECT end_ts FROM trace_bounds)
		FROM thread_state s JOIN thread t USING (utid) WHERE t.tid IN ($tids) ORDER BY s.utid, s.ts;" >"$work/want" 2>/dev/null; then
		echo "ok - $trace # SKIP trace_processor cannot be had"
		continue
	fi
	python3 - "$work" "$trace" <<'PYTHON'
import json, sys
work, trace = sys.argv[1:]
janks = json.load(open(work + '/out.json'))['janks']
rows = [line.split('\t') for line in open(work + '/want').read().splitlines()]
late = sorted((int(r[1]), int(r[2]), int(r[3]), int(r[4]), int(r[5]), r[6]) for r in rows if r[0] == 'late')
got = sorted((j['actual_start_ns'], j['actual_end_ns'], j['surface_frame_token'], j['display_frame_token'], j['pid'], j['layer']) for j in janks)
print('ok' if got == late and late else 'not ok', f'- {trace}: {len(got)} late frames, those of actual_frame_timeline_slice', len(late))
KEYS = {'Running': 'running_ns', 'R': 'runnable_ns', 'R+': 'runnable_ns', 'X': 'unknown_ns', 'Z': 'unknown_ns', 'x': 'unknown_ns'}
KEYS.update({k: 'uninterruptible_ns' for k in ('D', 'DK', 'D|K', 'K', 'I')}, T='stopped_ns', t='stopped_ns')
states = {}
for r in rows:
    if r[0] == 'state':
        states.setdefault(int(r[1]), []).append((int(r[2]), int(r[3]), r[4], int(r[5])))
count, wrong = 0, []
for j in janks:
    begin, end = j['window_start_ns'], j['window_end_ns']
    for thread in j['threads']:
        want, all_ = {}, states.get(thread['tid'], [])
        for i, (ts, dur, state, last) in enumerate(all_):
            # -1: the last one goes on to the end of the trace; of others the end was lost
            stop = ts + dur if dur >= 0 else last if i + 1 == len(all_) else ts
            ns = min(stop, end) - max(ts, begin)
            if ns > 0:
                key = KEYS.get(state, 'sleeping_ns')
                want[key] = want.get(key, 0) + ns
        want['unknown_ns'] = want.get('unknown_ns', 0) + end - begin - sum(want.values())
        ledger = {k: n for k, n in thread['ledger'].items() if n}
        want = {k: n for k, n in want.items() if n}
        count += 1
        if ledger != want:
            wrong.append((thread['tid'], begin, ledger, want))
print('not ok' if wrong or not count else 'ok', f'- {trace}: {count} ledgers, each that of thread_state to the nanosecond', len(wrong), wrong[:2])
PYTHON
done
