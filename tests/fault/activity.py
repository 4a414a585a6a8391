#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""report --by-activity (exit 3: the recordings have no footer): the sums of each activity that had the focus are those of the intervals and
blocks that lie wholly in its times, by this file's own arithmetic. Prints TAP. usage: activity.py
JANKSCOPE"""
import csv
import os
import subprocess
import sys
import tempfile

import made_recording as made
from made_recording import BOOT, SEC

JANKSCOPE = os.path.abspath(sys.argv[1])
APP = "com.example.a"
LONG = "com.example.a.long.package.name.that.does.not.end/com.example.a.activities.TheOneThatIsOpen"
CUT = LONG[:24] + ".." + LONG[-38:]


def say(good, name, *details):
    print(f"{'ok' if good else 'not ok'} - activity: {name}", flush=True)
    for detail in () if good else details:
        print(f"# {str(detail)[:400]}", flush=True)


def report(*arguments):
    return subprocess.run([JANKSCOPE, "report", *arguments], capture_output=True, text=True)


def scenes(path, *more):
    """{scene: {key: value}} as the rebuilt footer has it; of several runs their sums."""
    done, found = report(path, "--by-activity", "--csv", "-", *more), {}
    for row in csv.DictReader(done.stdout.splitlines()):
        if row["metric"].startswith("summary.scenes."):
            scene = found.setdefault(row["name"], {})
            key = row["metric"][len("summary.scenes."):]
            try:
                scene[key] = scene.get(key, 0) + float(row["value"])
            except ValueError:
                pass  # a word, as open_at_end
    return done, found


def recording(boot_ns, seconds, changes, gaps=(), session="s0"):
    """changes: (second, activity), told 2.5 s later, out of order. A block in each other second."""
    rng = made.rng(7)
    records = [made.header(boot_ns=boot_ns, targets=[APP], session=session)]
    for n in range(1, seconds + 1):
        end_ns = boot_ns + n * SEC
        records.append(made.interval(end_ns, rng, ((APP, 100, 10001, SEC // 4),)))
        if n % 2:
            records.append(made.block(end_ns - SEC // 2, SEC // 4 + n, APP, 100))
            records[-1]["t_boot_ns"] = end_ns + SEC // 4
        due = [c for c in changes if n == min(seconds, int(c[0] + 3))]
        for at, activity in reversed(due):
            records.append(made.event(end_ns + SEC // 3, "focus", activity=activity,
                                      since_boot_ns=boot_ns + int(at * SEC)))
        for begin, end in gaps:
            if n == int(end + 3):
                records.append(made.event(end_ns + SEC // 3, "gap", source="frames", reason="traced is gone",
                                          from_boot_ns=boot_ns + int(begin * SEC),
                                          until_boot_ns=boot_ns + int(end * SEC)))
    return records


def wanted(runs):
    """runs: (boot_ns, records, [(from second, name or None)])"""
    sums = {}
    for boot_ns, records, times in runs:
        def scene_of(begin_ns, end_ns):
            at = [(boot_ns + int(t * SEC), name) for t, name in times]
            names = [CUT if name == LONG else name for (start, name), (stop, _) in zip(at, at[1:] + [(1 << 62, None)])
                     if start < end_ns and stop > begin_ns]
            if at and at[0][0] > begin_ns:
                names.insert(0, None)
            if len(set(names)) > 1:
                return "mixed"
            return names[0] if names and names[0] else "unknown"
        for r in records:
            if r["type"] == "interval":
                scene = sums.setdefault(scene_of(r["t_boot_ns"] - r["dur_ns"], r["t_boot_ns"]), {})
                for key, value in (("dur_ns", r["dur_ns"]), ("cpu.busy_ns", r["cpu"]["busy_ns"]),
                                   ("frames.janky", r["frames"]["layers"][0]["janky"])):
                    scene[key] = scene.get(key, 0) + value
            elif r["type"] == "block":
                scene = sums.setdefault(scene_of(r["start_boot_ns"], r["start_boot_ns"] + r["wall_ns"]), {})
                scene["blocks.count"] = scene.get("blocks.count", 0) + 1
                scene["blocks.total_ns"] = scene.get("blocks.total_ns", 0) + r["wall_ns"]
    return sums


def differing(found, want):
    off = []
    for name in set(found) | set(want):
        for key in ("dur_ns", "cpu.busy_ns", "frames.janky", "blocks.count", "blocks.total_ns"):
            if found.get(name, {}).get(key, 0) != want.get(name, {}).get(key, 0):
                off.append((name, key, found.get(name, {}).get(key), want.get(name, {}).get(key)))
    return off


def main():
    os.chdir(work.name)
    main_, list_ = "com.example.a/.Main", "com.example.a/.List"
    changes = [(3, main_), (8.5, list_), (12, main_), (12.2, list_), (20, LONG), (33.9, main_)]
    first = recording(BOOT, 40, changes)
    made.write("one.jsonl", first)
    done, found = scenes("one.jsonl")
    off = differing(found, wanted([(BOOT, first, changes)]))
    if not off:
        off = [] if CUT in found and "unknown" in found and "mixed" in found else [sorted(found)]
    say(done.returncode == 3 and not off, "intervals, blocks and frames of each", done.stderr, off[:4])
    say(found.get(main_, {}).get("times") == 3 and found.get(list_, {}).get("times") == 2, "how often each came",
        {name: scene.get("times") for name, scene in found.items()})
    say("selected" not in done.stderr, "all of it is in, and nothing is said of it", done.stderr)

    # While nothing was traced nobody knows who had the focus.
    second = recording(BOOT, 40, changes, gaps=[(22, 27)])
    made.write("gap.jsonl", second)
    done, found = scenes("gap.jsonl")
    times = changes[:5] + [(22, None)] + changes[5:]
    off = differing(found, wanted([(BOOT, second, times)]))
    say(done.returncode == 3 and not off, "from a gap of the trace to the next change it is unknown", done.stderr, off[:4])

    # Another boot, whose clock is earlier: what was open in the run before is not open in it.
    other = recording(BOOT - 1000 * SEC, 20, [(5, list_)], session="s1")
    os.mkdir("two")
    made.write("two/00000001.jsonl", first)
    made.write("two/00000002.jsonl", other)
    done, found = scenes("two")
    off = differing(found, wanted([(BOOT, first, changes), (BOOT - 1000 * SEC, other, [(5, list_)])]))
    say(not off, "two runs of a folder, each with its own", done.stderr, off[:4])

    done = report("one.jsonl", "--by-activity", "--scene", list_, "--csv", "-")
    rows = [r for r in csv.DictReader(done.stdout.splitlines()) if r["metric"] == "summary.dur_ns"]
    want = wanted([(BOOT, first, changes)])[list_]["dur_ns"]
    say(done.returncode == 3 and [float(r["value"]) for r in rows] == [want], "--scene selects one",
        done.stderr, rows, want)
    done = report("one.jsonl", "--by-activity")
    table = [line.split() for line in done.stdout.splitlines() if line.rstrip().endswith("x3")]
    want = wanted([(BOOT, first, changes)])[main_]
    say(len(table) == 1 and table[0][0] == f"{want['dur_ns'] / 1e9:.3f}" and table[0][1] == f"{want['cpu.busy_ns'] / 1e9:.3f}"
        and table[0][5] == str(want["blocks.count"]) and max(map(len, done.stdout.splitlines())) <= 80,
        "the summary has a row for each", done.stdout)

    made.write("none.jsonl", recording(BOOT, 5, []))
    done = report("none.jsonl", "--by-activity")
    say(done.returncode == 4 and not done.stdout and done.stderr.count("\n") == 1 and "--startup" in done.stderr,
        "a recording that tells none: one line, exit 4", done.returncode, done.stdout, done.stderr)
    bad = [("unknown", 3), ("\x1b[2Jx", 4), ("", 5), ("x" * 5000, 6), ("\u202e" + "y" * 63, 7), ("é" * 60, 8), ("a" + "é" * 60, 9)]
    made.write("bad.jsonl", recording(BOOT, 12, [(at, name) for name, at in bad]))
    done, found = scenes("bad.jsonl")
    say(done.returncode == 3 and "\x1b" not in done.stdout and all(len(n.encode()) <= 64 for n in found) and len(found) == 5,
        "names that are no scene's", done.returncode, done.stderr, sorted(found))


work = tempfile.TemporaryDirectory()
main()
