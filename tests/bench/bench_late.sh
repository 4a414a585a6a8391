#!/usr/bin/env bash
# What it costs to say why frames were late: an app that draws at 120 Hz with one frame of ten late,
# recorded with --frames perfetto and without, in turns. The recorder's own CPU time (all its
# processes, by their clocks) in % of a core, and how its memory grows. What is to be reached: 1 % of
# a core and flat memory for an hour: LATE_BENCH_SECONDS (320) of each stand for it, LATE_BENCH_RUNS (1).
# LATE_BENCH_FRAMES=perfetto leaves the run without frames out.
set -u
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
exec python3 - "$work" "${LATE_BENCH_SECONDS:-320}" "${LATE_BENCH_RUNS:-1}" <<'PYTHON'
import json, os, signal, statistics, subprocess, sys, time
folder, seconds, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
app_path = os.path.abspath(os.environ['BUILD'] + '/tests/apps/late_app')
os.makedirs(folder + '/bin')
os.symlink(app_path, folder + '/bin/perfetto')
# a late frame and the nine in time behind it: about eleven refreshes
late = max(1, seconds * 120 // 11)

def run(frames):
    path = folder + '/out.jsonl'
    app = subprocess.Popen(['com.example.late', folder, '--calm', '9', f'120:{min(late, 48000)}:peer_receive'], executable=app_path,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    app.stdout.readline()
    recorder = subprocess.Popen([os.environ['BUILD'] + '/jankscope', 'record', '-p', str(app.pid), '--frames', frames, '-i', '1s', '-q',
                                 '-o', path, '--max-lost', '100'],
                                env={**os.environ, 'PATH': folder + '/bin:' + os.environ['PATH'], 'LATE_TRACE': folder + '/trace'})
    while not (os.path.exists(path) and '"interval"' in open(path).read()):
        time.sleep(0.1)
    app.stdin.write('go\n')
    app.stdin.flush()
    app.stdout.readline()
    time.sleep(4)
    recorder.send_signal(signal.SIGINT)
    recorder.wait()
    app.stdin.close()
    app.wait()
    records = [json.loads(line) for line in open(path)]
    os.unlink(path)
    intervals = [r for r in records if r['type'] == 'interval']
    # what the first of them take, and the summary, is not of an hour
    steady = intervals[3:-5]
    core = 100 * sum(i['self']['cpu_ns'] for i in steady) / sum(i['dur_ns'] for i in steady)
    sources = records[-1]['summary']['self']['sources']
    of_frames = 100 * sources.get('frames', {}).get('cpu_ns', 0) / sum(i['dur_ns'] for i in intervals)
    memory = [i['self']['anon_bytes'] for i in steady]
    behind = memory[200:] or memory[len(memory) // 2:]
    half = len(behind) // 2
    grown = statistics.median(behind[half:]) - statistics.median(behind[:half])
    shown = sum(layer['shown'] for i in intervals for layer in (i.get('frames') or {}).get('layers', []))
    return core, of_frames, memory[-1], grown, sum(r['type'] == 'jank' for r in records), shown, sum(i['dur_ns'] for i in steady) / 1e9

rows = {frames: [] for frames in os.environ.get('LATE_BENCH_FRAMES', 'perfetto off').split()}
for _ in range(runs):
    for frames in rows:
        rows[frames].append(run(frames))
took = statistics.median(r[6] for r in rows['perfetto'])
print(f'late: 120 Hz, 10 % late, {runs} runs of {took:.0f} s in turns; an hour is {3600 / took:.0f} times that')
for frames, list_ in rows.items():
    core, source, memory, grown, janks, shown = (statistics.median(r[i] for r in list_) for i in range(6))
    print(f'late: --frames {frames:9} {core:.2f} % of a core ({source:.2f} by the source of frames), {memory / 2**20:.1f} MiB of its own, '
          f'{grown / 1024:+.0f} KiB in the last {(took - 200) / 2:.0f} s; {janks:.0f} of {shown:.0f} frames judged')
if 'off' not in rows:
    sys.exit()
more = statistics.median(a[0] - b[0] for a, b in zip(rows['perfetto'], rows['off']))
print(f'late: frames and their causes cost {more:.2f} % of a core; to reach: 1')
PYTHON
