#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Folders that somebody put together out of whole lines, and what each reader says: exit code 3 and
the place, in bounded time, and never 0. Prints TAP. usage: tampered.py JANKSCOPE"""
import os
import shutil
import subprocess
import sys
import tempfile

import made_recording as made
from made_recording import BOOT, SEC

JANKSCOPE = os.path.abspath(sys.argv[1])
# Among what else runs on the machine; each takes a tenth of a second.
MOST_S = 60


def say(good, name, detail=""):
    print(f"{'ok' if good else 'not ok'} - tampered: {name}", flush=True)
    if not good:
        for text in str(detail).splitlines()[:8]:
            print(f"# {text[:300]}", flush=True)


def header(session, number, first_seq, boot=BOOT, **more):
    record = made.header(boot, session=session, targets=["com.example.app"])
    return {**record, "segment": {"number": number, "first_seq": first_seq}, **more}


def interval(seq, boot=BOOT, **more):
    return made.interval(boot + seq * SEC, made.rng(seq), [("com.example.app", 100, 10001, SEC // 4)], **more)


def footer(seq, boot=BOOT):
    return {"type": "footer", "t_boot_ns": boot + seq * SEC, "summary": {}, "lost": {}, "missing": {}}


def run(session, first, last, boot=BOOT):
    """Lines by segment: five intervals in each, and a footer behind them."""
    segments, seq = {}, 1
    for number in range(first, last + 1):
        lines = [made.line(header(session, number, seq, boot), 0)]
        for _ in range(5):
            lines.append(made.line(interval(seq, boot), seq))
            seq += 1
        segments[number] = lines
    segments[last].append(made.line(footer(seq, boot), seq))
    return segments


def whole():
    return {**run("aaaaaaaa", 1, 3), **run("bbbbbbbb", 4, 6, BOOT + 100 * SEC)}


def write(segments):
    shutil.rmtree("soak", ignore_errors=True)
    os.makedirs("soak")
    for number, lines in segments.items():
        with open(name(number), "wb") as file:
            file.write(b"".join(lines))


def name(number):
    return f"soak/{number:08}.jsonl"


def ask(*arguments):
    try:
        return subprocess.run([JANKSCOPE, *arguments], capture_output=True, text=True, errors="replace", timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, "no end", "", "")


def judge(what, words, code=3, deep=False):
    """Of verify and report both; deep: what verify looks at with --deep alone."""
    verify = ask("verify", "soak", *(["--deep"] if deep else []))
    report = ask("report", "soak")
    others = [ask("status", "soak"), ask("report", "soak", "--html", "out.html"),
              ask("report", "soak", "--csv", "out.csv", "--openmetrics", "out.prom"),
              ask("report", "whole", "--baseline", "soak")]
    codes = [verify.returncode, report.returncode, *(other.returncode for other in others)]
    good = codes == [code] * len(codes) and words in verify.stdout and words in report.stderr
    say(good, what, f"{codes}\n{verify.stdout}{verify.stderr}{report.stderr}")


def replace(number, index, record, seq):
    segments = whole()
    segments[number][index] = made.line(record, seq)
    write(segments)


def times():
    segments = whole()
    segments[1][2], segments[1][3] = (made.line(interval(3), 2), made.line(interval(2), 3))
    write(segments)
    judge("two intervals that were swapped", "00000001.jsonl:")
    for t_boot_ns in (0, 9 * 10**18):
        replace(1, 3, {**interval(3), "t_boot_ns": t_boot_ns}, 3)
        judge(f"an interval that ends at {t_boot_ns}", "untimely: t_boot_ns goes ")
        replace(6, 6, {**footer(16), "t_boot_ns": t_boot_ns}, 16)
        judge(f"a footer at {t_boot_ns}", "untimely: t_boot_ns goes ")
        replace(1, 3, {**made.event(t_boot_ns, "x")}, 3)
        judge(f"an event at {t_boot_ns}", "untimely: t_boot_ns goes ")
    replace(1, 3, interval(1), 3)
    judge("an interval of before in a place of its own", "untimely: t_boot_ns goes back")


def places():
    segments = run("aaaaaaaa", 1, 3)
    segments.update({number + 3: lines for number, lines in run("cccccccc", 1, 3, BOOT + 50 * SEC).items()})
    write(segments)
    judge("all segments of another recording behind these", "it is segment 1 by its header")
    write(whole())
    os.link(name(6), name(7))
    judge("a segment under a second name", "it is segment 6 by its header")
    segments = whole()
    segments[2], segments[3] = segments[3], segments[2]
    write(segments)
    judge("two segments that were swapped", "it is segment 3 by its header")
    segments = whole()
    for number in (1, 2, 3):
        del segments[number]
    write(segments)
    judge("the first run is not there", "missing: segments 1 to 3")
    segments = {**whole(), **run("dddddddd", 9, 9, BOOT + 200 * SEC)}
    write(segments)
    judge("a run in the middle is not there", "missing: segments 7 to 8")
    segments[7] = segments[8] = []
    write(segments)
    judge("and empty files in its place", "00000007.jsonl:0: no header first")
    for kind, make in (("fifo", os.mkfifo), ("folder", os.mkdir), ("link", lambda to: os.symlink("00000002.jsonl", to))):
        write(whole())
        os.unlink(name(3))
        make(name(3))
        judge(f"a {kind} in place of a segment", "missing: segments 3 to 3")
    replace(2, 0, header("aaaaaaaa", 2, 6, kernel="Linux 6.2"), 0)
    judge("a later header that is not that of its run", "a header that is not that of its run")


def pack(number):
    subprocess.run(["zstd", "-q", "--rm", "-f", name(number)], check=True)
    return name(number) + ".zst"


def packed():
    write(whole())
    with open(pack(2), "ab") as file:
        file.write(b"garbage")
    judge("garbage behind a compressed segment", "unreadable from here on")
    write(whole())
    path = pack(2)
    with open(path, "r+b") as file:
        file.write(file.read() * 2)
    judge("a compressed segment twice in its file", "misplaced: a second header")
    write(whole())
    os.truncate(pack(2), 300)
    judge("a compressed segment that is cut off", "unreadable from here on")
    for what, make in (("ends of lines", "tr '\\0' '\\n'"), ("nothing", "cat")):
        write(whole())
        subprocess.run(f"head -c 4000000000 /dev/zero | {make} | zstd -1qc >{name(2)}.zst; rm {name(2)}", shell=True, check=True)
        judge(f"4 GB of {what} in a few bytes", "00000002.jsonl")


def lines():
    replace(2, 2, header("aaaaaaaa", 2, 7, schema=99), 6)
    judge("a header of a newer schema amid a segment", "damaged: a header of another schema")
    replace(1, 2, {**made.event(BOOT + 2 * SEC, "records_dropped"), "first_seq": 0, "last_seq": 2**63 - 1}, 2)
    with open(name(2), "rb") as file:
        text = file.readlines()
    with open(name(2), "wb") as file:
        file.write(b"".join(text[:3] + text[4:]))
    judge("an event that excuses what is to come", "missing: 1 records, seq 8 to 8")
    segments = whole()
    segments[1].insert(3, made.line(footer(3), 3))
    write(segments)
    judge("a footer in the middle", "misplaced: a record after the footer")
    replace(6, 6, footer(16), 2**63 - 1)
    judge("a seq as large as can be", "missing: 9223372036854775791 records")
    segments = whole()
    segments[6].append(b"\0" * 5000)
    write(segments)
    judge("NUL bytes at the end", "torn: 5000 bytes")
    segments = whole()
    segments[1][2] = made.line({**made.event(BOOT + 2 * SEC, "x"), "key": "y" * (65 << 20)}, 2)
    write(segments)
    judge("a line of 65 MiB", "damaged: the line is too long")


def values():
    record = interval(2)
    record["cpu"]["idle_ns"] = 2**63
    replace(1, 2, record, 2)
    judge("a number that is too large", "damaged: cpu.idle_ns is no whole number", deep=True)
    record = interval(2)
    record["cpu"]["busy_ns"] += 1
    replace(1, 2, record, 2)
    judge("a sum that is not that of its rows", "contradictory: cpu.busy_ns is ", deep=True)
    replace(1, 2, made.block(BOOT + SEC, 2**62, "com.example.app", 100) | {"t_boot_ns": BOOT + 2 * SEC}, 2)
    judge("a block of 146 years", "contradictory: wall_ns is ", deep=True)
    replace(1, 2, interval(2) | {"lost": {"\x1b[31mevil\u202e%n": -1}}, 2)
    judge("a key for the terminal", "damaged: lost.?[31mevil?%n is no whole number", deep=True)
    replace(1, 2, {"type": "interva", "t_boot_ns": BOOT + 2 * SEC, "x": 1}, 2)
    done = ask("verify", "soak")
    say(done.returncode == 0 and "1 lines of types that this version does not know" in done.stdout,
        "a record of no known type is counted", done.stdout)


def main():
    with tempfile.TemporaryDirectory(prefix="jankscope-tampered-") as folder:
        os.chdir(folder)
        write(whole())
        shutil.copytree("soak", "whole")
        judge("a whole folder", "", code=0, deep=True)
        for part in (times, places, packed, lines, values):
            part()


main()
