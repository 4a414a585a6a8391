# SPDX-License-Identifier: BSD-2-Clause
"""A recording of the minutes of a trace that Perfetto made on a device, as a Perfetto trace, and both as
one file. The recording is made: its clocks are those of the trace's snapshot, and its target is a process
that the trace has, too. usage: merged_trace.py JANKSCOPE SHARED"""
import os
import shutil
import subprocess
import sys
import tempfile

import made_recording as made

jankscope, shared = (os.path.abspath(path) for path in sys.argv[1:3])
oracle, traces = shared + "/tools/trace-oracle", shared + "/traces/"
TRACES = ["pixel7pro_a13_120hz_nowinandroid.perfetto-trace", "cuttlefish_a16_db_ui_thread.pftrace",
          "cuttlefish_a16_app_startup.pftrace", "emulator_a12_cpuschedstack.pftrace",
          "pixel6a_a13_startup_warm.perfetto-trace", "cuttlefish_a16_lock_contention_no_frametimeline.pftrace"]
MSEC = 10**6
# What there is of the trace, without what Perfetto numbers by itself.
SLICES = "select s.ts, s.dur, s.name, t.name, ifnull(th.tid, 0) from slice s join track t on s.track_id = t.id " \
         "left join thread_track tt on s.track_id = tt.id left join thread th using(utid) order by 1, 2, 3, 4, 5"
COUNTERS = "select c.ts, c.value, t.name from counter c join counter_track t on c.track_id = t.id order by 1, 2, 3"
SCHED = "select count(*), sum(ts), sum(dur) from sched"
ERRORS = "select name, value from stats where value > 0 and severity in ('error', 'data_loss') order by 1"
QUERIES = (SLICES, COUNTERS, SCHED, ERRORS)


def say(good, name, detail=""):
    print(("ok" if good else "not ok") + " - merged trace: " + name, flush=True)
    for line in [] if good else str(detail).splitlines()[:20]:
        print("#", line[:400])


def ask(path, *queries):
    """The rows of each answer. A mark stands between them, because names have lines of their own."""
    marked = [word for query in queries for word in (query, "select 'THE END'")]
    # A file: of what goes into a pipe the oracle's last part may be missing.
    with open("answer", "w+", encoding="utf-8") as answer:
        done = subprocess.run([oracle, path, *marked], stdout=answer, stderr=subprocess.PIPE, text=True, timeout=300)
        answer.seek(0)
        text = answer.read()
    if done.returncode:
        raise RuntimeError(done.stderr[-400:])
    answers = text.split("'THE END'\nTHE END\n")[:-1]
    assert len(answers) == len(queries), text[-400:]
    return [answer.strip("\n").splitlines()[1:] for answer in answers]


def recording(start_ns, seconds, clocks, pid, package):
    """Intervals that fill the time of the trace, a block and a late frame in it."""
    head = made.header(boot_ns=start_ns, targets=(package,))
    head["clock"] = {"boot_ns": start_ns, "mono_ns": start_ns + clocks["MONOTONIC"], "unix_ns": start_ns + clocks["REALTIME"]}
    head["sources"] = made.JUDGES
    random = made.rng(11)
    records = [head]
    for n in range(1, seconds + 1):
        end_ns = start_ns + n * made.SEC
        records.append(made.interval(end_ns, random, [(package, pid, 10100, made.SEC // 8)]))
        records.append(made.block(end_ns - 800 * MSEC, 700 * MSEC, package, pid))
        records.append(made.jank(end_ns - 300 * MSEC, 20 * MSEC, "lock", package, pid, token=2 * n))
    return records


def without(rows, ours):
    """The rows that are not ours, and those of ours that are not there."""
    left, missing = list(rows), []
    for row in ours:
        if row in left:
            left.remove(row)
        else:
            missing.append(row)
    return left, missing


def moved_ns(rows, before):
    """How far the row that moved most is from where it was; infinite: they are not the same rows."""
    def by_name(row):
        ts, rest = row.split("\t", 1)
        return rest, int(ts)

    pairs = list(zip(sorted(map(by_name, rows)), sorted(map(by_name, before))))
    if len(rows) != len(before) or any(now[0] != then[0] for now, then in pairs):
        return float("inf")
    return max((abs(now[1] - then[1]) for now, then in pairs), default=0)


def check(name):
    trace = traces + name
    # Two snapshots of a trace may differ by 0.3 ms, because the clocks were not read at once.
    snapshot = "select clock_name, clock_value - ts, max(ts) from clock_snapshot " \
               "where clock_name in ('BOOTTIME', 'MONOTONIC', 'REALTIME') group by 1"
    busiest = "select p.pid, ifnull(p.name, 'com.example.app') from slice s join thread_track tt on s.track_id = tt.id join thread t using(utid) " \
              "join process p using(upid) where p.pid > 0 group by 1, 2 order by count(*) desc limit 1"
    spread = "select max(clock_value - ts) - min(clock_value - ts) from clock_snapshot where clock_name = 'MONOTONIC'"
    bounds, clocks, (spread_ns,), main, *theirs = ask(trace, "select start_ts, end_ts from trace_bounds", snapshot, spread, busiest, *QUERIES)
    clocks = {row.split("\t")[0]: int(row.split("\t")[1]) for row in clocks}
    assert clocks.get("BOOTTIME") == 0, "the trace's clock is another one"
    start_ns, end_ns = map(int, bounds[0].split("\t"))
    pid, package = main[0].split("\t") if main else ("4321", "com.example.app")
    pid = int(pid)
    made.write("run.jsonl", recording(start_ns, max(1, min(20, (end_ns - start_ns) // made.SEC)), clocks, pid, package))
    done = subprocess.run([jankscope, "report", "run.jsonl", "--perfetto", "ours.pftrace"], capture_output=True, text=True, timeout=60)
    say(done.returncode == 3 and os.path.exists("ours.pftrace"), f"{name}: the report", done.stderr)
    ours = ask("ours.pftrace", *QUERIES)
    say(not ours[3] and len(ours[0]) > 3 and len(ours[1]) > 10, f"{name}: our trace by itself", ours)
    for first, second, how in ((trace, "ours.pftrace", "behind"), ("ours.pftrace", trace, "ahead")):
        with open("both.pftrace", "wb") as both:
            for part in (first, second):
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, both)
        *found, owners = ask("both.pftrace", *QUERIES, f"select count(*) from process where pid = {pid}")
        for kind, all_rows, our_rows, their_rows in zip(("slices", "counters"), found, ours, theirs):
            left, missing = without(all_rows, our_rows)
            say(not missing, f"{name}, {how}: our {len(our_rows)} {kind} are where they were", "\n".join(missing))
            # Ahead, our snapshot counts for what the trace tells of before its first one.
            most_ns = int(spread_ns) if how == "ahead" else 0
            say(moved_ns(left, their_rows) <= most_ns, f"{name}, {how}: its {len(their_rows)} {kind} are where they were, to {most_ns} ns",
                "\n".join(sorted(set(left) ^ set(their_rows))))
        say(found[2] == theirs[2], f"{name}, {how}: its scheduling is as it was", (found[2], theirs[2]))
        say(found[3] == theirs[3], f"{name}, {how}: no error that it did not have", (found[3], theirs[3]))
        say(owners == ["1"], f"{name}, {how}: a process of both is one", owners)


def main():
    if not os.access(oracle, os.X_OK) or subprocess.run([oracle, traces + TRACES[0], "select 1"], capture_output=True).returncode:
        print("ok - merged trace # SKIP " + ("trace_processor cannot be had" if os.access(oracle, os.X_OK) else "no ../shared"))
        return
    work = tempfile.mkdtemp(prefix="jankscope-merged-")
    os.chdir(work)
    try:
        for name in TRACES if os.environ.get("FULL") == "1" else TRACES[:1]:
            check(name)
    finally:
        shutil.rmtree(work)


main()
