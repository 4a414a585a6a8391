#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""report --since, --until, --scene, --target: what comes out is the sum of the records that are in,
in every output; what is left out is said. Prints TAP. usage: selection.py JANKSCOPE"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

import made_recording as made
from made_recording import BOOT, SEC

JANKSCOPE = os.path.abspath(sys.argv[1])
APPS = (("com.example.a", 100, 10001, SEC // 4), ("com.example.b:remote", 200, 10002, SEC // 8))
TOTALS = ("cpu.busy_ns", "cpu.idle_ns", "cpu.other_ns", "dur_ns")


def say(good, name, detail=""):
    print(f"{'ok' if good else 'not ok'} - select: {name}", flush=True)
    if not good:
        for text in str(detail).splitlines()[:8]:
            print(f"# {text[:300]}", flush=True)


def report(*arguments):
    return subprocess.run([JANKSCOPE, "report", *arguments], capture_output=True, text=True)


def table(*arguments):
    done = report(*arguments, "--csv", "-")
    return done, list(csv.DictReader(done.stdout.splitlines()))


def seqs(rows, kind):
    return sorted({int(row["seq"]) for row in rows if row["record"] == kind})


def totals(rows):
    return {row["metric"]: float(row["value"]) for row in rows
            if row["record"] == "footer" and row["metric"].startswith("summary.")
            and not row["name"] and not row["package"] and not row["process"]
            and row["value"].replace(".", "").lstrip("-").isdigit()}


def sums(records):
    """What a summary of these intervals has to say, by this file's own arithmetic."""
    return {"summary.intervals": len(records),
            "summary.dur_ns": sum(r["dur_ns"] for r in records),
            **{f"summary.cpu.{key}": sum(r["cpu"][key] for r in records)
               for key in ("busy_ns", "idle_ns", "other_ns")},
            "summary.net.rx_bytes": sum(u["rx_bytes"] for r in records for u in r["net"]["uids"]),
            "summary.frames.janky": sum(layer["janky"] for r in records
                                        for layer in r["frames"]["layers"])}


def differ(want, got):
    return [(key, value, got.get(key)) for key, value in want.items() if got.get(key) != value]


def recording(rng):
    """60 s; A is open from 10 to 20 s and from 40 to 45 s, B from 5 to 42 s, C from 15 to 50.5 s."""
    marks = {10: [("A", False)], 5: [("B", False)], 15: [("C", False)], 20: [("A", True)],
             40: [("A", False)], 42: [("B", True)], 45: [("A", True)]}
    blocks = {12: (11.2, 0.7, 0), 21: (19.7, 0.6, 1), 31: (30.1, 0.8, 1), 41: (40.2, 0.7, 0)}
    records = [made.header()]
    for second in range(1, 61):
        end = BOOT + second * SEC
        records.append(made.interval(end, rng, APPS))
        if second in blocks:
            start, wall, app = blocks[second]
            records.append(made.block(BOOT + int(start * SEC), int(wall * SEC), APPS[app][0],
                                      APPS[app][1], (f"work_{second}", "main")))
        for name, is_end in marks.get(second, ()):
            records.append(made.mark(end + 1000, name, is_end))
        if second == 50:
            records.append(made.mark(end + SEC // 2, "C", True, exact=False))
        if second in (8, 33):
            records.append(made.event(end - SEC // 3, "target_exit", pid=200,
                                      process=APPS[second == 8][0], package=APPS[second == 8][0]))
    return records


def check_time(records):
    want = [r for r in records if r["type"] == "interval"
            and BOOT + 10 * SEC < r["t_boot_ns"] <= BOOT + 20 * SEC]
    forms = (("+10s", "+20s"), ("boot:5010s", "boot:5020s"), ("12:00:10", "12:00:20Z"),
             ("2025-11-24T12:00:10Z", "2025-11-24 12:00:20.000"), ("+10s", "12:00:20"))
    texts = set()
    for since, until in forms:
        done, rows = table("r.jsonl", "--since", since, "--until", until)
        texts.add(done.stdout)
        if len(texts) == 1:
            say(seqs(rows, "interval") == [r["seq"] for r in want], "the intervals of ten seconds",
                done.stderr)
            say(not differ(sums(want), totals(rows)), "their summary is their sum",
                differ(sums(want), totals(rows)))
            names = {row["process"] for row in rows if row["record"] == "block"}
            say(names == {APPS[0][0]}, "a block that ends outside is out", names)
            say("10 of 60 intervals and 1 of 4 blocks" in done.stderr and
                done.stderr.count("\n") == 2 and "0 and 1 that are in only in part" in done.stderr,
                "one line says what is left out", done.stderr)
    say(len(texts) == 1, "each form of a time selects the same", len(texts))
    done, rows = table("r.jsonl", "--since", "+10.5s", "--until", "+20.5s")
    say(len(seqs(rows, "interval")) == 9 and "2 and 0 that" in done.stderr,
        "an interval that is in only in part is out, and counted", done.stderr)
    done = report("r.jsonl", "--since", "+10s", "--until", "+20s", "--fail-if", "intervals > 10",
                  "--fail-if", "intervals < 10")
    say(done.returncode == 3 and "+10" not in done.stdout and "summary: 10 intervals" in done.stdout,
        "the summary and its rules are of it", done.stdout[-300:] + done.stderr)


def check_scenes(records):
    _, rows = table("r.jsonl")
    for scene, at_least in (("A", 15), ("B", 37), ("C", 35)):
        want = {row["metric"].replace("summary.scenes.", "summary."): float(row["value"])
                for row in rows if row["record"] == "footer" and row["name"] == scene
                and row["metric"].startswith("summary.scenes.") and
                # marks are events of the run and of no scene
                row["metric"].split(".")[-1] not in ("times", "open_at_end", "events")}
        done, mine = table("r.jsonl", "--scene", scene)
        got = totals(mine)
        say(want and want["summary.intervals"] == at_least and not differ(want, got),
            f"scene {scene}: {len(want)} figures are those of the run's summary",
            differ(want, got) or want.get("summary.intervals"))
        # what the others were meanwhile: B is open through all of A's first time
        again = [row for row in mine if row["record"] == "footer" and
                 row["metric"] == "summary.scenes.intervals"]
        have = {row["name"]: int(row["value"]) for row in again}
        overlaps = {"A": {"A": 15, "B": 12, "C": 10}, "B": {"A": 12, "B": 37, "C": 27},
                    "C": {"A": 10, "B": 27, "C": 35}}[scene]
        say({k: v for k, v in have.items() if k in "ABC"} == overlaps,
            f"scene {scene}: the others that were open meanwhile", have)
    done, rows = table("r.jsonl", "--scene", "A", "--since", "+12s")
    say(len(seqs(rows, "interval")) == 13, "a scene and a time: what is in both", done.stderr)


def check_target(records):
    everything = [r for r in records if r["type"] == "interval"]
    done, rows = table("r.jsonl", "--target", "com.example.a")
    busy = {}
    for row in rows:
        if row["record"] == "interval" and row["metric"] in ("cpu.busy_ns", "cpu.other_ns",
                                                             "cpu.tasks.cpu_ns"):
            part = busy.setdefault(row["seq"], [0, 0])
            part[row["metric"] != "cpu.busy_ns"] += int(row["value"])
    say(len(busy) == 60 and all(a == b for a, b in busy.values()),
        "tasks and others are still the busy time", done.stderr)
    got = totals(rows)
    mine = sum(p["cpu_ns"] for r in everything for p in r["cpu"]["processes"] if p["pid"] == 100)
    bytes_ = sum(u["rx_bytes"] for r in everything for u in r["net"]["uids"] if u["uid"] == 10001)
    janky = sum(layer["janky"] for r in everything for layer in r["frames"]["layers"]
                if layer["pid"] == 100)
    want = {"summary.targets.cpu_ns": mine, "summary.net.rx_bytes": bytes_,
            "summary.targets.rx_bytes": bytes_, "summary.frames.janky": janky,
            "summary.blocks.count": 2,
            "summary.cpu.busy_ns": sum(r["cpu"]["busy_ns"] for r in everything)}
    say(not differ(want, got), "its sums, and the machine's", differ(want, got))
    for flags in (["--csv", "-"], ["--openmetrics", "-"], ["--perfetto", "o"], ["--pprof", "o"],
                  ["--speedscope", "-"], ["--folded", "-"], []):
        if os.path.exists("o"):
            os.remove("o")
        for target, other in (("com.example.a", b"com.example.b"), ("*.b", b"com.example.a")):
            text = subprocess.run([JANKSCOPE, "report", "r.jsonl", "--target", target, *flags],
                                  capture_output=True).stdout
            if os.path.exists("o"):
                with open("o", "rb") as file:
                    text = file.read()
            stacks = flags and flags[0] in ("--pprof", "--speedscope", "--folded")
            ours = b"work_12" if target == "com.example.a" else b"work_31"
            if flags and flags[0] == "--pprof":
                import gzip
                text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
            say(text and other not in text and (not stacks or ours in text) and
                not (stacks and (b"work_31" if target == "com.example.a" else b"work_12") in text),
                f"--target {target} {flags[0] if flags else 'the summary'}: nothing of another app",
                re.findall(other + rb".{0,80}", text)[:3])


def check_targets():
    done, rows = table("r.jsonl", "-p", "200", "--target", "com.nobody")
    say({row["process"] for row in rows if row["metric"] == "cpu.tasks.cpu_ns"} == {APPS[1][0]},
        "-p of a pid, and of several", done.stderr)


def check_blocks():
    done = report("r.jsonl", "--scene", "A", "--speedscope", "-")
    whole = json.loads(done.stdout)
    say(sum(sum(p["weights"]) for p in whole["profiles"]) == 7 * SEC // 5,
        "stacks are those of blocks that are in", done.stdout[:300])
    done = report("r.jsonl", "--until", "+30s", "--folded", "-")
    say(re.findall(r"work_\d+", done.stdout) and
        set(re.findall(r"work_\d+", done.stdout)) == {"work_12", "work_21"},
        "folded stacks too", done.stdout)


def check_runs():
    rng = made.rng(2)
    two = [made.header()] + [made.interval(BOOT + n * SEC, rng, APPS) for n in range(1, 6)]
    # the device was started anew an hour later
    two += [made.header(SEC, made.UNIX + 3600 * SEC, "b1", "s1")]
    two += [made.interval(SEC + n * SEC, rng, APPS) for n in range(1, 6)]
    made.write("two.jsonl", two)
    done, rows = table("two.jsonl", "--since", "+1h", "--until", "13:00:03")
    say(len(seqs(rows, "header")) == 1 and seqs(rows, "interval") == [7, 8, 9],
        "of a run with nothing in it not even the header comes", seqs(rows, "interval"))
    done, rows = table("two.jsonl", "--until", "+4s")
    say(seqs(rows, "interval") == [1, 2, 3, 4], "+: on the wall clock where the boot is another",
        seqs(rows, "interval"))


def check_hourly():
    rng = made.rng(7)
    target = (("com.example.a", 100, 10001, SEC // 4),)
    seconds = [n for n in range(0, 3 * 3600, 60) if not 5000 < n < 5600] + [20000]
    records = [made.header(targets=["com.example.a"])]
    for n in seconds:
        records.append(made.interval(BOOT + (n + 60) * SEC, rng, target, dur_ns=60 * SEC))
        if n % 1800 == 600:
            records.append(made.block(BOOT + n * SEC, 2 * SEC + n, "com.example.a", 100))
    records[3]["lost"] = {"records_dropped": 5}
    made.write("hours.jsonl", records)
    done = report("hours.jsonl", "--hourly")
    lines = [text.split() for text in done.stdout.splitlines()[2:]]
    every = [r for r in records if r["type"] == "interval"]
    say([text[:2] for text in lines] == [["11-24", f"{hour}:00Z"] for hour in (12, 13, 14, 17)],
        "--hourly: one row an hour that has anything", done.stdout)
    for row, hour in zip(lines, (0, 1, 2, 5)):
        mine = [r for r in every if hour * 3600 * SEC < r["t_boot_ns"] - BOOT <= (hour + 1) * 3600 * SEC]
        dur = sum(r["dur_ns"] for r in mine)
        shown = sum(layer["shown"] for r in mine for layer in r["frames"]["layers"])
        janky = sum(layer["janky"] for r in mine for layer in r["frames"]["layers"])
        blocks = [r["wall_ns"] for r in records if r["type"] == "block" and
                  hour * 3600 * SEC < r["t_boot_ns"] - BOOT <= (hour + 1) * 3600 * SEC]
        want = [f"{dur / 1e9:.0f}", f"{100 * sum(r['cpu']['busy_ns'] for r in mine) / dur / 4:.1f}",
                f"{100 * sum(r['cpu']['processes'][0]['cpu_ns'] for r in mine) / dur:.1f}",
                f"{100 * janky / shown:.1f}", str(len(blocks)),
                f"{max(blocks) / 1e9:.2f}" if blocks else "-"]
        say(row[2:8] == want, f"--hourly: hour {hour} is the sum of its records", (row, want))
    say([row[12] for row in lines] == ["5", "0", "0", "0"] and
        [" ".join(row[13:]) for row in lines] == ["-", "1, 10m00s", "-", "1, 2h33m"],
        "--hourly: losses and gaps", done.stdout)
    done = report("hours.jsonl", "--hourly", "--since", "+1h", "--until", "+2h")
    say(len(done.stdout.splitlines()) == 3, "--hourly of a part", done.stdout)


def check_errors():
    for arguments, code, text in (
            (["--since", "+2m"], 4, "no interval and no block"),
            (["--since", "+10.1s", "--until", "+10.9s"], 4, "its intervals are from boot:5000.000s"),
            (["--scene", "D"], 4, "no scene --scene D"),
            (["--target", "com.other"], 4, "nothing of --target in it"),
            (["--since", "10"], 2, "no moment"), (["--since", "+10"], 2, "no moment"),
            (["--until", "2025-02-30T00:00:00Z"], 2, "no moment"),
            (["--until", "25:00"], 2, "no moment"), (["--since", "boot:"], 2, "no moment"),
            (["--since", ""], 2, "must not be empty"),
            (["--since", "+1e9d"], 2, "no moment")):
        done = report("r.jsonl", *arguments, "--csv", "out.csv")
        say(done.returncode == code and text in done.stderr and not os.path.exists("out.csv"),
            f"{' '.join(arguments)}: exit {code}, and no file", done.stderr)
    made.write("noclock.jsonl", [made.header(unix_ns=0), made.interval(BOOT + SEC, made.rng(3), APPS)])
    done = report("noclock.jsonl", "--since", "12:00:00")
    say(done.returncode == 2 and "its clock was not set" in done.stderr, "a run without a wall clock",
        done.stderr)
    say(report("noclock.jsonl", "--since", "+0s").returncode in (0, 3), "but with its boot clock")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        records = recording(made.rng())
        made.write("r.jsonl", records)
        check_time(records)
        check_scenes(records)
        check_target(records)
        check_targets()
        check_blocks()
        check_runs()
        check_hourly()
        check_errors()


main()
