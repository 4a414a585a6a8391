# SPDX-License-Identifier: BSD-2-Clause
"""report --baseline without a rule: what of two sets of runs differs."""
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import made_recording as made

jankscope = sys.argv[1]
SEC = made.SEC
APP = "com.example.app"
os.chdir(tempfile.mkdtemp(prefix="compare-"))


def say(good, name, detail=""):
    print(("ok" if good else "not ok") + " - compare: " + name)
    if not good:
        for line in str(detail).splitlines()[:40]:
            print("#", line)


def run(path, seed, seconds=120, load=1.0, blocks=0, thread=None, symbol="work", footer=True):
    """A recording of so many seconds; its figures. Each run has a load of its own, as devices do."""
    rng = made.rng(seed)
    own = load * rng.uniform(0.95, 1.05)
    records, sums = [made.header(targets=(APP,))], dict(cpu=0, rx=0, janky=0, shown=0, rss=0, blocked=0)
    records[0]["sources"] = [{"name": "blocks", "state": "ok"}]
    now = made.BOOT
    for second in range(seconds):
        now += SEC
        if second < blocks:
            wall = rng.randrange(600, 900) * 1_000_000
            records.append(made.block(now - SEC // 2 - wall, wall, APP, 100, (symbol, "main")))
            sums["blocked"] += wall
        record = made.interval(now, rng, [(APP, 100, 10100, int(own * SEC / 4))])
        if thread:
            for task in record["cpu"]["tasks"]:
                if task["thread"] == "RenderThread":
                    task["thread"] = thread
        records.append(record)
        sums["cpu"] += record["cpu"]["processes"][0]["cpu_ns"]
        sums["rx"] += record["net"]["uids"][0]["rx_bytes"]
        sums["janky"] += record["frames"]["layers"][0]["janky"]
        sums["shown"] += 60
        sums["rss"] += record["memory"]["processes"][0]["rss_bytes"]
    made.write(path, records)
    return {"target CPU, % of a core": sums["cpu"] / (seconds * SEC) * 100,
            "received by uids, KiB/s": sums["rx"] / seconds / 1024,
            "janky frames, %": sums["janky"] / sums["shown"] * 100,
            "target RSS, MiB": sums["rss"] / seconds / (1 << 20),
            "blocks an hour": blocks / seconds * 3600,
            "blocked, ms an hour": sums["blocked"] / 1e6 / seconds * 3600}


def report(*arguments, code=3):
    """The recordings here have no footers: their summaries are made of their records, and 3 says so."""
    done = subprocess.run([jankscope, "report", *arguments], capture_output=True, text=True,
                          errors="surrogateescape", timeout=60)
    others = [line for line in done.stderr.splitlines()
              if code == 3 and not line.endswith("no footer last: the run was not written to its end")]
    say(done.returncode == code and not others, "%s: exit %d" % (arguments[0], code),
        (done.returncode, done.stderr))
    return done.stdout


ROW = re.compile(r"^ {0,2}(?P<name>\S.{0,23}?) +(?P<old>[-+0-9.?]+) +(?P<new>[-+0-9.?]+) "
                 r"+(?P<change>[-+][0-9.]+|\?)(?:  (?P<low>[-+][0-9.]+) to (?P<high>[-+][0-9.]+))? *(?P<said>.*)$")


def figures(text):
    rows = {}
    for line in text.splitlines():
        row = ROW.match(line)
        if row:
            rows[row["name"]] = row
    return rows


def is_near(text, value):
    return abs(float(text) - value) <= 0.006 * max(1, abs(value))


run("evil.jsonl", 5, thread="\x1b[2J\u202eevil", symbol="a\x1b]0;t\x07b", blocks=3)

# ---- five runs a side ----
old = [run("old%d.jsonl" % i, 10 + i) for i in range(5)]
new = [run("new%d.jsonl" % i, 20 + i, load=1.5, blocks=10, thread="Uploader", symbol="upload")
       for i in range(5)]
bases = [a for i in range(5) for a in ("--baseline", "old%d.jsonl" % i)]
news = ["new%d.jsonl" % i for i in range(5)]
text = report(*news, *bases)
rows = figures(text)
for name in old[0]:
    mean_old, mean_new = (sum(side[name] for side in sides) / 5 for sides in (old, new))
    row = rows.get(name)
    say(row and is_near(row["old"], mean_old) and is_near(row["new"], mean_new) and
        is_near(row["change"], mean_new - mean_old), "%s: the means of the runs" % name,
        (row and row[0], mean_old, mean_new))
row = rows.get("target CPU, % of a core")
say(row and row["said"] == "worse" and float(row["low"]) > 0, "half as much again is worse", text)
say(row and float(row["low"]) < float(row["change"]) < float(row["high"]),
    "a change lies in its interval", row and row[0])
for name in ("target RSS, MiB", "janky frames, %", "received by uids, KiB/s"):
    row = rows.get(name)
    say(row and row["said"].startswith("no evidence; ") and float(row["low"]) <= 0 <= float(row["high"]),
        "%s: the same but for chance is no evidence" % name, row and row[0])
say(rows["blocked, ms an hour"]["said"] == "worse" and rows["blocks an hour"]["said"] == "worse",
    "blocks where there were none are worse", text)
say(re.search(r"^ +- +[0-9.]+ +\+[0-9.]+  Uploader of " + APP + "$", text, re.M),
    "a thread that was not there grew", text)
say(re.search(r"^ +- +[0-9.]+ +\+[0-9.]+  main;upload$", text, re.M), "a stack that was not there grew", text)
say("A run is a sample." in text, "it says that runs are the samples", text)
say(re.search(r"^  worse:.* targets_cpu_pct .*blocks_per_h", text, re.M) and "  better: none\n" in text,
    "taken together they are worse, too", text)
say("NOT ALIKE" not in text, "runs that are alike are not called otherwise", text)
folded = report("new0.jsonl", "--baseline", "old1.jsonl", "--baseline", "evil.jsonl", "--folded", "-")
say(re.search(r"^main;upload 0 [0-9]+$", folded, re.M) and
    re.search(r"^main;.*a.+b [0-9]+ 0$", folded, re.M) and "CHANGE" not in folded,
    "--folded has the stacks of both sides", folded)
back = figures(report("old0.jsonl", "old1.jsonl", "old2.jsonl", "--baseline", "new0.jsonl",
                      "--baseline", "new1.jsonl", "--baseline", "new2.jsonl"))
say(back["target CPU, % of a core"]["said"] == "better", "the other way round it is better")

# ---- one run a side ----
text = report("new0.jsonl", "--baseline", "old0.jsonl")
rows = figures(text)
say(rows["target CPU, % of a core"]["said"] == "worse" and "Fewer than 3 runs a side" in text,
    "one run each: by its blocks, and it says so", text)
rows = figures(report("old0.jsonl", "--baseline", "old0.jsonl"))
say(rows and all(float(row["change"]) == 0 and row["said"].split(";")[0] in ("no evidence", "the same")
                 for row in rows.values()), "a run does not differ from itself",
    [row[0] for row in rows.values()])
run("short.jsonl", 3, seconds=2)
rows = figures(report("short.jsonl", "--baseline", "old0.jsonl"))
say(rows and all(row["said"] == "too short to be judged" for row in rows.values()),
    "two intervals are too short", [row[0] for row in rows.values()])

# ---- what a recording does not have ----
made.write("bare.jsonl", [made.header()])
rows = figures(report("bare.jsonl", "--baseline", "old0.jsonl"))
say(not rows, "what is not on both sides is not compared", [row[0] for row in rows.values()])
text = report("bare.jsonl", "--baseline", "old0.jsonl")
say(re.search(r"^janky frames, % +- +- +- +only OLD has it: not judged$", text, re.M) and
    "NOT ALIKE: targets: %s, all\n" % APP in text, "what one side has only is told, and that the targets differ",
    text)


# ---- recordings that were not made alike ----
def changed(path, source, change):
    """A recording with another header."""
    records = [json.loads(text) for text in open(source)]
    for record in records:
        record.pop("crc")
    change(records[0])
    made.write(path, records)


for i in range(5):
    changed("lower%d.jsonl" % i, "new%d.jsonl" % i, lambda head: head.update(block_ns=head["block_ns"] // 5))
    changed("else%d.jsonl" % i, "new%d.jsonl" % i,
            lambda head: head.update(device="Fon\x1b[2J 7", targets=[{"package": "com.other"}]))
text = report(*["lower%d.jsonl" % i for i in range(5)], *bases)
rows = figures(text)
say(rows["blocks an hour"]["said"] == rows["blocked, ms an hour"]["said"] == "of other lengths: not judged" and
    rows["target CPU, % of a core"]["said"] == "worse" and "NOT ALIKE: what is a block: 500 ms, 100 ms" in text and
    not re.search(r"^  worse:.*block", text, re.M), "blocks of other lengths are not compared", text)
text = report(*["else%d.jsonl" % i for i in range(5)], *bases)
say("NOT ALIKE: targets: %s, com.other\n" % APP in text and "\x1b" not in text, "other targets are told", text)
runs = report("bare.jsonl", "new0.jsonl", "new1.jsonl", "new2.jsonl", *bases)
say(re.search(r"^janky frames, % .*; 5 and 3 runs have it$", runs, re.M), "a run without the figure is told", runs)


# ---- rules about the comparison ----
def rule(code, text, *arguments, junit=None):
    """code: of the exit status. The recordings have no footers, so that 3 stands for 0."""
    done = subprocess.run([jankscope, "report", *arguments, "--fail-if", text,
                           *(["--junit", junit] if junit else [])], capture_output=True, text=True, timeout=60)
    say(done.returncode == code, "--fail-if %s: exit %d" % (text, code), (done.returncode, done.stderr))
    return done


done = rule(10, "compare.worse > 0", *news, *bases, junit="compare.xml")
say("jankscope: fail: new0.jsonl and 4 more: compare.worse is 5, > 0" in done.stderr and "95 % INTERVAL" in done.stdout,
    "the rule is told beside the table", done)
case = xml.etree.ElementTree.parse("compare.xml").getroot().find(".//testcase")
say(case.get("name") == "compare.worse > 0" and case.find("failure") is not None, "the rule is in the XML", case)
rule(3, "compare.worse > 0", *["old%d.jsonl" % i for i in range(5)],
     *[a for i in range(5) for a in ("--baseline", "new%d.jsonl" % i)])
rule(10, "compare.better >= 5", *["old%d.jsonl" % i for i in range(5)],
     *[a for i in range(5) for a in ("--baseline", "new%d.jsonl" % i)])
low = float(figures(report(*news, *bases))["target CPU, % of a core"]["low"])
rule(10, "compare.targets_cpu_pct.low > %g" % (low - 0.01), *news, *bases)
done = rule(3, "compare.targets_cpu_pct.low > %g" % (low + 0.01), *news, *bases)
say("error" not in done.stderr, "a rule that is not true is not an unknown one", done.stderr)
rule(10, "compare.blocks_per_h.low >= 300", *news, *bases)
done = rule(3, "compare.pss_mib.low > 0", *news, *bases)
say("compare.pss_mib.low: no run has it" in done.stderr, "what no run has cannot be judged", done.stderr)
done = rule(3, "compare.worse > 0", "bare.jsonl", "--baseline", "old0.jsonl")
say("compare.worse: nothing can be judged" in done.stderr, "nothing to judge never passes", done.stderr)
rule(10, "compare.unjudged > 1", *["lower%d.jsonl" % i for i in range(5)], *bases)
for text, why in (("compare.worst > 0", "there is compare.worse, "), ("compare.jank_pct > 0", "KEY: targets_cpu_pct"),
                  ("compare.worse > base", "against the baseline already"),
                  ("compare.worse > 0 and blocks.count > 0", "a rule of its own")):
    done = rule(2, text, "new0.jsonl", "--baseline", "old0.jsonl")
    say(why in done.stderr and len(done.stderr.splitlines()) == 1, "%s: one line" % text, done.stderr)
done = rule(2, "compare.worse > 0", "new0.jsonl")
say("compare needs --baseline" in done.stderr, "a comparison needs a baseline", done.stderr)
# Both kinds in one call: each by what it is about.
done = subprocess.run([jankscope, "report", *news, *bases, "--fail-if", "compare.worse > 100", "--fail-if",
                       "blocks.count > base + 5", "--junit", "both.xml"], capture_output=True, text=True, timeout=60)
cases = xml.etree.ElementTree.parse("both.xml").getroot().findall(".//testcase")
say(done.returncode == 10 and len(cases) == 6 and len([c for c in cases if c.find("failure") is not None]) == 5,
    "rules of runs and of the comparison stand beside each other", (done.returncode, done.stderr, len(cases)))

# ---- late frames by cause ----
CAUSES = made.CAUSES


def late_run(path, seed, causes, seconds=60, judges=True, frames=True):
    """causes: {cause: late frames}; what they come to: {cause: [frames, ns]}."""
    rng = made.rng(seed)
    records, sums = [made.header(targets=(APP,))], {cause: [0, 0] for cause in CAUSES}
    records[0]["sources"] = made.JUDGES if judges else made.JUDGES[:1]
    todo = [cause for cause, count in causes.items() for _ in range(count)]
    rng.shuffle(todo)
    for second in range(1, seconds + 1):
        now = made.BOOT + second * SEC
        record = made.interval(now, rng, [(APP, 100, 10100, SEC // 4)])
        if not frames:
            del record["frames"]
        records.append(record)
        # The last of them come behind the last interval.
        for n in range(len(todo) * (second - 1) // seconds, len(todo) * second // seconds):
            late = rng.randrange(1_000_000, 30_000_000)
            records.append(made.jank(now - SEC // 2, late, todo[n], APP, 100, token=n))
            sums[todo[n]][0] += 1
            sums[todo[n]][1] += late
    made.write(path, records)
    return sums


old = [late_run("calm%d.jsonl" % i, 40 + i, {"main_cpu": 20 + i, "unknown": 3}) for i in range(5)]
new = [late_run("held%d.jsonl" % i, 50 + i, {"main_cpu": 21 + i, "unknown": 2 + i % 2, "lock": 30 + i}) for i in range(5)]
late_run("undisturbed.jsonl", 60, {})
late_run("unjudged.jsonl", 61, {}, judges=False)
late_run("frameless.jsonl", 62, {}, frames=False)
calm = [a for i in range(5) for a in ("--baseline", "calm%d.jsonl" % i)]
held = ["held%d.jsonl" % i for i in range(5)]
text = report(*held, *calm)
rows = figures(text)


def per_hour(sums, cause, what):
    values = [sum(run[one][what] for one in CAUSES if cause in (one, "all")) for run in sums]
    return sum(values) / 5 * 60 * (1e-6 if what else 1)


for name, cause, what in (("late frames an hour", "all", 0), ("late, ms an hour", "all", 1), ("CPU-bound main, ms/h", "main_cpu", 1),
                          ("lock, ms/h", "lock", 1), ("unknown, ms/h", "unknown", 1)):
    row = rows.get(name)
    a, b = per_hour(old, cause, what), per_hour(new, cause, what)
    say(row and is_near(row["old"], a) and is_near(row["new"], b) and is_near(row["change"], b - a),
        "%s: the means of the runs" % name, (row and row[0], a, b, text))
say(re.search(r"^  lock, ms/h .*worse$", text, re.M) and "late_lock_ms_per_h" in re.search(r"^  worse:(.*(\n   .*)*)", text, re.M)[1],
    "a cause that was not there is worse, also taken together", text)
say(re.search(r"^  CPU-bound main, ms/h .*no evidence", text, re.M), "a cause that is as it was is no evidence", text)
say(not re.search(r"^  (GPU wait|binder|display HAL)", text, re.M), "causes of no frame are not printed", text)
text = report("held0.jsonl", "--baseline", "frameless.jsonl")
say(re.search(r"^late frames an hour +- +- +- +only NEW has it: not judged$", text, re.M), "without frames nothing is known of late ones", text)
text = report("held0.jsonl", "--baseline", "unjudged.jsonl")
say(re.search(r"^late frames an hour .*only NEW has it: not judged$", text, re.M) and re.search(r"^janky frames, % +[0-9]", text, re.M),
    "without the flight recorder they have no cause", text)
text = report("held0.jsonl", "--baseline", "undisturbed.jsonl")
say(re.search(r"^  lock, ms/h +0.000 +[0-9]+ .*worse$", text, re.M), "a run in which no frame was late has 0, and one is worse", text)
rule(10, "compare.late_lock_ms_per_h.low > 0", *held, *calm)
rule(3, "compare.late_main_cpu_ms_per_h.low > 0", *held, *calm)
done = rule(3, "compare.late_gpu_ms_per_h.low > 0", *held, *calm)
say("compare.late_gpu_ms_per_h.low: no run has it" in done.stderr, "a cause that no frame has is not judged", done.stderr)
# Of one run against the baseline, by the totals of its footer; the median of the baselines counts.
counts = sorted(run["main_cpu"][0] for run in old)
times = sorted(run["lock"][1] for run in new)
rule(10, "frames.causes.lock > base", "held0.jsonl", *calm)
rule(10, "frames.causes.lock_ns > base + 50ms", "held0.jsonl", *calm)
rule(3, "frames.causes.lock > base", "calm0.jsonl", *calm)
rule(10, "frames.causes.lock >= base", "undisturbed.jsonl", *calm)
rule(10, "frames.causes.main_cpu >= %d" % counts[0], "calm0.jsonl")
rule(3, "frames.causes.main_cpu > %d" % counts[0], "calm0.jsonl")
rule(10, "frames.causes.unexplained > 2 and frames.late < 24", "calm0.jsonl")
rule(10, "frames.causes.lock_ns >= %d" % new[0]["lock"][1], "held0.jsonl")
rule(3, "frames.causes.lock_ns > %d" % new[0]["lock"][1], "held0.jsonl")
for name, why in (("frameless", "no frame"), ("unjudged", "no flight recorder")):
    done = rule(3, "frames.causes.lock > base", name + ".jsonl", *calm)
    say("frames.causes.lock is not in the summary" in done.stderr, "%s: not known is not 0" % why, done.stderr)
done = rule(3, "frames.causes.lock > base", "held0.jsonl", "--baseline", "frameless.jsonl")
say("frames.causes.lock is not in the baseline" in done.stderr, "a baseline without frames judges nothing", done.stderr)

# ---- names of others, damages, flags ----
text = report("evil.jsonl", "--baseline", "old0.jsonl")
say("\x1b" not in text and "\u202e" not in text and "\x07" not in text and "evil of" in text,
    "names cannot move the cursor", repr(text))
with open("torn.jsonl", "wb") as file:
    file.write(open("new0.jsonl", "rb").read()[:-20])
done = subprocess.run([jankscope, "report", "torn.jsonl", "--baseline", "old0.jsonl"], capture_output=True,
                      text=True, timeout=60)
say(done.returncode == 3 and "torn.jsonl:131: " in done.stderr and
    figures(done.stdout)["target CPU, % of a core"]["said"] == "worse",
    "a torn run is compared, and exit 3 says so", done.stderr)
report("new0.jsonl", "--baseline", "gone.jsonl", code=1)
report("new0.jsonl", "--baseline", "old0.jsonl", "--fail-if", "blocks.count > 1", code=2)
