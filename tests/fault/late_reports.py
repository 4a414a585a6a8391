# SPDX-License-Identifier: BSD-2-Clause
"""Late frames by cause in each output of report, against the records that they are of.
usage: late_reports.py JANKSCOPE TRACE-ORACLE"""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import made_recording as made

jankscope, oracle = (os.path.abspath(path) for path in sys.argv[1:3])
os.chdir(tempfile.mkdtemp(prefix="late-reports-"))


def say(good, name, detail=""):
    print(("ok" if good else "not ok") + " - late reports: " + name, flush=True)
    if not good:
        for line in str(detail).splitlines()[:20]:
            print("#", line[:400])


def report(*arguments, file="late.jsonl", code=3):
    """The recordings have no footers, and 3 says so."""
    done = subprocess.run([jankscope, "report", file, *arguments], capture_output=True, text=True, timeout=120)
    others = [line for line in done.stderr.splitlines() if "no footer last" not in line]
    say(done.returncode == code and not others, "report %s %s" % (file, " ".join(arguments)), (done.returncode, done.stderr))
    return done.stdout


whole = made.late_frames()
for record in whole:
    # As /proc has it: the start by the tick, which the switch program knows to the nanosecond.
    for part in ("processes", "tasks") if record["type"] == "interval" else ():
        for row in record["cpu"][part]:
            row["start_boot_ns"] = 40_001_234_567 + row["pid"]
    for row in record["memory"]["processes"] if record["type"] == "interval" else ():
        row["start_boot_ns"] = 40_000_000_000
made.write("late.jsonl", whole)
janks = [record for record in map(json.loads, open("late.jsonl")) if record["type"] == "jank"]
sums = {cause: [sum(1 for j in janks if j["cause"] == cause), sum(j["late_ns"] for j in janks if j["cause"] == cause)]
        for cause in made.CAUSES}
# A run in which all frames were in time, one without frames and one whose late frames nobody judged.
quiet = [made.header(targets=("com.example.app",)), made.interval(made.BOOT + made.SEC, made.rng(), [("com.example.app", 100, 10100, made.SEC // 8)])]
quiet[0]["sources"] = made.JUDGES
made.write("quiet.jsonl", quiet)
quiet[0]["sources"] = made.JUDGES[:1]
made.write("unjudged.jsonl", quiet)

# ---- OpenMetrics ----
def samples(path):
    found = {}
    for line in open(path, encoding="utf-8"):
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in found, name
            found[name] = float(value)
    return found


def by_cause(values, family):
    return {match[1]: value for name, value in values.items() for match in [re.fullmatch(family + r'\{cause="(\w+)"\}', name)] if match}


report("--openmetrics", "late.om")
values = samples("late.om")
say(by_cause(values, "jankscope_late_frames_total") == {cause: row[0] for cause, row in sums.items()}, "openmetrics: frames by cause", values)
delays = by_cause(values, "jankscope_late_frames_delay_seconds_total")
say(set(delays) == set(sums) and all(abs(delays[cause] - row[1] / 1e9) < 1e-9 for cause, row in sums.items()), "openmetrics: time by cause", delays)
say(len(values) <= 200 and not any("causes_lock" in name or "frames_late" in name for name in values) and
    "jankscope_frames_causes_app_total" in values, "openmetrics: at most 200 series, a cause is a label, FrameTimeline's keep their names", sorted(values))
report("--openmetrics", "quiet.om", file="quiet.jsonl")
say(by_cause(samples("quiet.om"), "jankscope_late_frames_total") == dict.fromkeys(made.CAUSES, 0), "openmetrics: no late frame is 0 of each cause")
report("--openmetrics", "unjudged.om", file="unjudged.jsonl")
say(not any("late_frames" in name for name in samples("unjudged.om")), "openmetrics: nothing where nobody judged")
if shutil.which("promtool"):
    done = subprocess.run(["promtool", "check", "metrics"], stdin=open("late.om"), capture_output=True, text=True, timeout=60)
    # The older text format has _total in the names of families.
    bad = [line for line in (done.stdout + done.stderr).splitlines() if not re.match(
        r'^jankscope_[a-z0-9_]+_total (no help text|counter metrics should have|non-counter metrics should not have "_total" suffix)', line)]
    say(not bad, "openmetrics: promtool takes them", bad)
else:
    print("ok - late reports: promtool # SKIP it is not installed here")

# ---- CSV ----
report("--csv", "late.csv")
with open("late.csv", newline="", encoding="utf-8") as file:
    rows = [row for row in csv.DictReader(file) if row["record"] == "jank"]
frames = [(row["process"], row["name"], int(row["value"])) for row in rows if row["metric"] == "late_ns"]
say(sorted(frames) == sorted((j["process"], j["cause"], j["late_ns"]) for j in janks), "csv: one row a late frame: process, cause, delay", frames[:3])
ran = sum(int(row["value"]) for row in rows if row["metric"] == "threads.ledger.running_ns")
say(ran == sum(t["ledger"]["running_ns"] for j in janks for t in j["threads"]), "csv: the ledgers of the threads", ran)

# ---- HTML ----
report("--html", "late.html")
text = open("late.html", encoding="utf-8").read()
data = json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])
late = data["late"]
say([row[1:] for row in late["causes"]] == [sums[cause] for cause in made.CAUSES] and late["count"] == len(janks) and
    late["late_ns"] == sum(j["late_ns"] for j in janks), "html: sums by cause", late["causes"])


def place(j):
    return (made.UNIX + j["window_start_ns"] - made.BOOT) // 1000


want = sorted((-j["late_ns"], place(j), made.CAUSES.index(j["cause"]), j["window_end_ns"] - j["window_start_ns"]) for j in janks)[:600]
say(sorted((-row["late_ns"], row["us"], row["cause"], row["window_ns"]) for row in late["rows"]) == want and
    [row["late_ns"] for row in late["rows"]] == [-row[0] for row in want], "html: the latest frames, in order, to the microsecond")
say(all(sum(t["ledger"].values()) == row["window_ns"] for row in late["rows"] for t in row["threads"]), "html: ledgers sum to the window")
lines = {s.get("name"): sum(value or 0 for value in s["sum"]) for s in data["series"] if s["group"] == "late"}
say(lines == {words: row[2] for words, *row in [(c[0], 0, c[1], c[2]) for c in late["causes"]] if row[1]}, "html: the timeline has each cause's time", (lines, late["causes"]))
report("--html", "quiet.html", file="quiet.jsonl")
# More than there is room for: the sums are those of all, the latest are there.
many = [made.header(targets=("com.example.app",))]
many[0]["sources"] = made.JUDGES
random_, all_ns = made.rng(3), []
for n in range(1, 1501):
    many.append(made.interval(made.BOOT + n * made.SEC, random_, [("com.example.app", 100, 10100, made.SEC // 8)]))
    for k in range(3):
        all_ns.append(random_.randrange(10**6, 10**8))
        many.append(made.jank(made.BOOT + n * made.SEC - random_.randrange(made.SEC), all_ns[-1], made.CAUSES[random_.randrange(12)], "com.example.app", 100))
made.write("many.jsonl", many)
report("--html", "many.html", file="many.jsonl")
text = open("many.html", encoding="utf-8").read()
late = json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])["late"]
say([row["late_ns"] for row in late["rows"]] == sorted(all_ns, reverse=True)[:600] and late["count"] == 4500 and
    late["late_ns"] == sum(all_ns) == sum(row[2] for row in late["causes"]), "html: of 4500 the 600 latest, and the sums of all", (len(late["rows"]), late["count"]))

# ---- in two threads and in one ----
# Of a file lines are parsed ahead by a second thread; of a pipe they are not.
for flag in ("csv", "perfetto", "html", "openmetrics", "pprof", "speedscope", "folded"):
    with open("pipe.out", "wb") as out, open("many.jsonl", "rb") as given:
        source = subprocess.Popen(["cat"], stdin=given, stdout=subprocess.PIPE)
        piped = subprocess.run([jankscope, "report", "/dev/stdin", "--" + flag, "-"], stdin=source.stdout, stdout=out, stderr=subprocess.PIPE)
        source.stdout.close()
        source.wait()
    with open("file.out", "wb") as out:
        done = subprocess.run([jankscope, "report", "many.jsonl", "--" + flag, "-"], stdout=out, stderr=subprocess.PIPE)
    a, b = open("pipe.out", "rb").read(), open("file.out", "rb").read()
    say(a == b and (len(a) > 100 or flag in ("folded", "pprof", "speedscope")) and piped.returncode == done.returncode == 3,
        "--%s: of a file and of a pipe the same %d bytes" % (flag, len(a)), (len(a), len(b), piped.stderr[-200:]))

# ---- Perfetto ----
report("--perfetto", "late.pftrace")


def ask(query):
    done = subprocess.run([oracle, "late.pftrace", query], capture_output=True, text=True, timeout=240)
    return [line.split("\t") for line in done.stdout.splitlines()] if done.returncode == 0 else done.stderr


if not os.access(oracle, os.X_OK):
    print("ok - late reports: perfetto # SKIP no ../shared")
else:
    ARG = "extract_arg(%s.arg_set_id, 'debug.%s')"
    answer = ask("select s.name || '|' || s.ts || '|' || s.dur || '|' || p.pid || '|' || " + ARG % ("s", "late_ns") + " || '|' || " +
                 ARG % ("s", "cause") + " || '|' || " + ARG % ("s", "surface_frame_token") +
                 " from slice s join process_track t on s.track_id = t.id join process p using (upid) "
                 "where t.name = 'late frames'")
    if isinstance(answer, str) and "cannot" in answer:
        print("ok - late reports: perfetto # SKIP", answer.splitlines()[0])
    else:
        words = {"unknown": "unknown", "main_cpu": "CPU-bound main", "render_cpu": "CPU-bound render", "no_cpu": "no CPU", "binder": "binder",
                 "lock": "lock", "io": "I/O", "page_fault": "page faults", "gpu": "GPU wait", "surfaceflinger": "SurfaceFlinger",
                 "hwc": "display HAL", "stuffing": "buffer stuffing"}
        want = sorted("%s: %s|%d|%d|%d|%d|%s|%d" % ("DROPPED" if j.get("dropped") else "LATE", words[j["cause"]], j["window_start_ns"],
                      j["window_end_ns"] - j["window_start_ns"], j["pid"], j["late_ns"], j["cause"], j["surface_frame_token"]) for j in janks)
        have = sorted(row[0] for row in answer) if isinstance(answer, list) else [answer]
        say([row for row in have if row.startswith(("LATE", "DROPPED"))] == want, "perfetto: %d late frames with window, process, delay and cause" % len(janks),
            "\n".join(map(str, [len(have), len(want)] + [row for row in have if row not in want][:3] + [row for row in want if row not in have][:3])))
        answer = ask("select sum(" + ARG % ("s", "ledger_running_ns") + ") || '|' || sum(" + ARG % ("s", "ledger_sleeping_ns") + ") || '|' || count(*)"
                     " || '|' || sum(s.dur) from slice s join track t on s.track_id = t.id where t.name = 'in late frames'")
        threads = [(t, j) for j in janks for t in j["threads"]]
        want = "|".join(str(value) for value in (sum(t["ledger"]["running_ns"] for t, _ in threads), sum(t["ledger"]["sleeping_ns"] for t, _ in threads),
                        len(threads), sum(j["window_end_ns"] - j["window_start_ns"] for _, j in threads)))
        say([want] in answer, "perfetto: the ledgers of the threads sum up", (answer, want))
        answer = ask("select count(*) || '|' || count(distinct f.slice_in) || '|' || count(distinct f.slice_out) || '|' || sum(" + ARG % ("a", "surface_frame_token") +
                     " = " + ARG % ("b", "surface_frame_token") + " and a.ts = b.ts and a.dur = b.dur and ta.name = 'late frames' and tb.name = 'in late frames') "
                     "from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id join track ta on a.track_id = ta.id join track tb on b.track_id = tb.id")
        say([f"{len(threads)}|{len(threads)}|{len(janks)}|{len(threads)}"] in answer, "perfetto: a flow from each frame to each of its threads", (answer, len(threads), len(janks)))
        answer = ask("select th.tid || '|' || th.name || '|' || p.pid || '|' || count(*) from slice s join thread_track t on s.track_id = t.id "
                     "join thread th using (utid) join process p using (upid) where t.name = 'in late frames' group by th.utid")
        tids = {t["tid"]: (t, j) for t, j in threads}
        want = sorted("%d|%s|%d|%d" % (tid, t["thread"], j["pid"], sum(one["tid"] == tid for one, _ in threads)) for tid, (t, j) in tids.items())
        say(sorted(row[0] for row in answer if row[0].count("|") == 3 and row[0][0].isdigit()) == want,
            "perfetto: they are on the tracks of their threads, of which there is one each", (answer, want))
        answer = ask("select pid || '|' || count(*) from process where pid > 0 group by pid")
        say(["100|1"] in answer and ["110|1"] in answer, "perfetto: a process is one, also where its start is not told", answer)
        answer = ask("select 'bad=' || count(*) from stats where value > 0 and severity in ('error', 'data_loss')")
        say(["bad=0"] in answer, "perfetto: trace_processor finds no error", answer)
