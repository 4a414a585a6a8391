#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""report --html without a browser: the figures in the file are those of the records, a peak of one
interval survives, names of other programs are text, the file is small and asks for nothing. Prints
TAP. usage: html_report.py JANKSCOPE"""
import base64
import hashlib
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import made_recording as made
from made_recording import BOOT, HOSTILE, SEC

JANKSCOPE = os.path.abspath(sys.argv[1])
APPS = (("com.example.a", 100, 10001, SEC // 4), ("com.example.b:remote", 200, 10002, SEC // 8))


def say(good, name, detail=""):
    print(f"{'ok' if good else 'not ok'} - html: {name}", flush=True)
    if not good:
        for text in str(detail).splitlines()[:8]:
            print(f"# {text[:300]}", flush=True)


class Page(html.parser.HTMLParser):
    """What a browser would see: elements, scripts, the policy, the data."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.policy, self.urls, self.inside = [], [], "", [], None
        self.feed(text)
        self.data = json.loads(next(text for kind, text in self.scripts
                                    if kind == "application/json"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.urls += [value for key, value in attributes.items()
                      if key in ("src", "href", "action", "data", "srcset", "poster")]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag == "script":
            self.scripts.append([attributes.get("type", ""), ""])

    def handle_data(self, text):
        if self.tags[-1:] == ["script"]:
            self.scripts[-1][1] += text

    def handle_endtag(self, tag):
        self.tags.append("/" + tag)


def report(*arguments):
    done = subprocess.run([JANKSCOPE, "report", *arguments], capture_output=True)
    return done, done.stderr.decode("utf-8", "replace")


def page(*arguments):
    done, err = report(*arguments, "--html", "-")
    return Page(done.stdout.decode("utf-8")), done.stdout, err


def series(data, group, name=None, part="sum"):
    return next((s[part] for s in data["series"] if s["group"] == group and s.get("name") == name),
                None)


def check_sums(count):
    """Of `count` intervals: with 3000 a row has four of them."""
    rng = made.rng(count)
    records = [made.header(targets=["com.example.a"])]
    for n in range(1, count + 1):
        peak = SEC if n == count // 3 else SEC // 8
        records.append(made.interval(BOOT + n * SEC, rng, (APPS[0], ("peak", 300, 7, peak))))
        if n == count // 3:
            task = next(t for t in records[-1]["cpu"]["tasks"] if t["tid"] == 300)
            records[-1]["cpu"]["busy_ns"] += 900_000_000 - task["cpu_ns"]
            task["cpu_ns"] = 900_000_000
            records[-1]["memory"]["processes"][0]["rss_bytes"] = 3 << 30
            records[-1]["lost"] = {"records_dropped": 7}
        if n % 5 == 0:
            records.append(made.block(BOOT + (n - 2) * SEC, SEC + n, "com.example.a", 100,
                                      (f"f{n % 7}", "main")))
    made.write("sums.jsonl", records)
    shown, raw, err = page("sums.jsonl")
    data = shown.data
    every = [r for r in records if r["type"] == "interval"]
    what = f"{count} intervals"
    say(sum(row[3] for row in data["rows"]) == count and 500 < len(data["rows"]) <= 1200,
        f"{what}: each is in one of {len(data['rows'])} rows", err)
    wanted = {("cpu", "all CPUs, busy"): sum(r["cpu"]["busy_ns"] for r in every),
              ("net", "received"): sum(u["rx_bytes"] for r in every for u in r["net"]["uids"]),
              ("net", "sent"): sum(u["tx_bytes"] for r in every for u in r["net"]["uids"]),
              ("frames", "shown"): 60 * 2 * count,
              ("frames", "late or dropped (janky)"): sum(
                  layer["janky"] for r in every for layer in r["frames"]["layers"]),
              ("losses", "lost: records_dropped"): 7,
              ("blocks", "main threads blocked"): sum(
                  r["wall_ns"] for r in records if r["type"] == "block"),
              ("cpu", "peak of peak"): sum(t["cpu_ns"] for r in every for t in r["cpu"]["tasks"]
                                           if t["tid"] == 300)}
    got = {key: sum(value or 0 for value in series(data, *key)) for key in wanted}
    say(got == wanted, f"{what}: sums are those of the records",
        [(key, got[key], wanted[key]) for key in wanted if got[key] != wanted[key]])
    cpu = [s for s in data["series"] if s["group"] == "cpu" and s.get("name") != "all CPUs, busy"]
    say(all(sum(s["sum"][i] for s in cpu) == series(data, "cpu", "all CPUs, busy")[i]
            for i in range(len(data["rows"]))), f"{what}: threads and others are all busy time")
    most = max(series(data, "cpu", "peak of peak", "max" if count > 1200 else "sum"))
    rss = max(series(data, "memory", "RSS of com.example.a 100", "max"))
    say(most == 9e8 and rss == 3 << 30, f"{what}: peaks of one interval are there", (most, rss))
    flame = data["flame"]
    say(sum(stack[0] for stack in flame["stacks"]) + flame["left_out_ns"] ==
        wanted["blocks", "main threads blocked"] == data["blocks"]["wall_ns"],
        f"{what}: the flame graph is all blocked time")
    longest = sorted((r["wall_ns"] for r in records if r["type"] == "block"), reverse=True)[:400]
    say([row["wall_ns"] for row in data["blocks"]["rows"]] == longest,
        f"{what}: the longest blocks, in order")
    # the summary is that of the records, and its text what report prints
    summary = data["runs"][0]["footer"]["summary"]
    text = subprocess.run([JANKSCOPE, "report", "sums.jsonl"], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "100"}).stdout
    say(summary["cpu"]["busy_ns"] == wanted["cpu", "all CPUs, busy"] and
        summary["blocks"]["count"] == data["blocks"]["count"] and
        words(data["runs"][0]["text"]) == words(text), f"{what}: the summary is report's own",
        data["runs"][0]["text"][:300])


def words(text):
    """Of the summary, however wide its lines are; names are cut to that."""
    return text[text.index("\nsummary: "):].split("PROCESS")[0].split()


def check_alone(shown, raw):
    say(not [url for url in shown.urls if not url.startswith("#")] and
        not re.search(rb"(?i)@import|url\(|sourceMappingURL|<(iframe|img|link|object|embed)", raw),
        "nothing that would be asked for", shown.urls)
    hashes = re.findall(r"'sha256-([^']+)'", shown.policy)
    code = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            for kind, text in shown.scripts if not kind]
    say("default-src 'none'" in shown.policy and sorted(code) == sorted(hashes) and len(code) == 2 and
        "unsafe-inline" not in shown.policy.split("script-src")[1].split(";")[0],
        "the policy allows its own two scripts, and no request", shown.policy)


def check_hostile():
    plain, _, _ = page("sums.jsonl")
    records = made.hostile()
    made.write("hostile.jsonl", records)
    shown, raw, err = page("hostile.jsonl")
    say(shown.tags == plain.tags, "hostile names make no element", err)
    say(raw.count(b"<") == open("sums.html", "rb").read().count(b"<"),
        "there is no < that is not of the page itself")
    check_alone(shown, raw)
    names = {s.get("name") for s in shown.data["series"]}
    say(f"{HOSTILE[0][:15]} of {HOSTILE[0]}" in names and len(shown.data["blocks"]["rows"]) == len(HOSTILE) + 1,
        "and are there as text", sorted(map(str, names))[:5])
    # what no recorder writes, and no reader believes
    with open("raw.jsonl", "wb") as file:
        for seq, record in enumerate(records):
            data = made.line(record, seq).replace(b"__proto__", (b"a\xff\x80<b", b"a\\u0000b")[seq % 2])
            head = data.rpartition(b',"crc":"')[0]
            file.write(head + b',"crc":"%08x"}\n' % made.crc32c(head))
    done, err = report("raw.jsonl", "--html", "raw.html")
    with open("raw.html", "rb") as file:
        raw = file.read()
    say(done.returncode == 3 and Page(raw.decode("utf-8")).tags == plain.tags,
        "NUL and bytes that are no UTF-8: a damage is said, and the page is whole", err)


def check_many():
    """More threads than are followed, and one that comes late and is the heaviest of all."""
    rng = made.rng(10)
    records, start = [made.header()], time.monotonic()
    for n in range(1, 301):
        apps = [(f"app{rng.randrange(400)}", 1000 + 10 * i, 10000 + i, 10_000_000) for i in range(60)]
        if n > 250:
            apps.append(("late", 9000, 9, SEC))
        records.append(made.interval(BOOT + n * SEC, rng, apps))
    made.write("many.jsonl", records)
    made_s, start = time.monotonic() - start, time.monotonic()
    data = page("many.jsonl")[0].data
    cpu = [s for s in data["series"] if s["group"] == "cpu" and s["unit"] == "ns"]
    busy = series(data, "cpu", "all CPUs, busy")
    say(all(sum(s["sum"][i] for s in cpu) == busy[i] for i in range(len(busy))) and
        len([s for s in cpu if "name" in s]) <= 12, "800 threads: those with a name and the rest are all",
        [s.get("name") for s in cpu])
    late = series(data, "cpu", "late of late") or []
    say(late and late[:250] == [0] * 250 and sum(late[252:]) == sum(
        t["cpu_ns"] for r in records[253:] for t in r["cpu"]["tasks"] if t["tid"] == 9000),
        "one that comes late and heavy has its series", [s.get("name") for s in cpu])
    say(time.monotonic() - start < max(5, 3 * made_s), "in time", time.monotonic() - start)


def check_gaps():
    rng = made.rng(5)
    records = [made.header()]
    records += [made.interval(BOOT + n * SEC, rng, APPS) for n in (1, 2, 3)]
    records.append(made.event(BOOT + 60 * SEC, "suspend", dur_ns=57 * SEC))
    records += [made.interval(BOOT + n * SEC, rng, APPS) for n in (61, 62)]
    records += [made.interval(BOOT + n * SEC, rng, APPS) for n in (70, 71)]
    records += [made.header(5 * SEC, made.UNIX + 600 * SEC, "b1", "s1")]
    records += [made.interval((5 + n) * SEC, rng, APPS) for n in (1, 2)]
    made.write("gaps.jsonl", records)
    shown, _, _ = page("gaps.jsonl")
    unix_ms = made.UNIX // 10**6
    say([[a - unix_ms, b - unix_ms, why] for a, b, why in shown.data["holes"]] == [
        [3000, 60000, "suspended"], [62000, 69000, "not recorded"], [71000, 600000, "no recorder"]],
        "gaps, suspends and times between runs", shown.data["holes"])
    say(len(shown.data["runs"]) == 2, "both runs have their summary", len(shown.data["runs"]))


def check_absent():
    rng = made.rng(6)
    records = [made.header()]
    for n in range(1, 6):
        record = made.interval(BOOT + n * SEC, rng, APPS)
        if n == 3:
            del record["net"], record["frames"]
            record["missing"] = {"net": "it hung", "frames": "it hung"}
        records.append(record)
    made.write("absent.jsonl", records)
    data = page("absent.jsonl")[0].data
    say(series(data, "net", "sent")[2] is None and None not in series(data, "net", "sent")[3:],
        "what was not measured is absent, and not 0", series(data, "net", "sent"))
    say(series(data, "power") is None, "a source that is not there has no series")


def check_files():
    done, err = report("sums.jsonl", "--html", "/dev/full")
    say(done.returncode == 1 and "--html /dev/full: No space left" in err, "a full disk", err)
    open("kept.html", "w").write("old")
    done, err = report("nothing.jsonl", "--html", "kept.html")
    say(done.returncode != 0 and open("kept.html").read() == "old", "no recording: the old file stays")
    made.write("empty.jsonl", [made.header()])
    shown, raw, err = page("empty.jsonl")
    say(shown.data["rows"] == [] and shown.data["blocks"]["count"] == 0, "a run without an interval", err)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_sums(700)
        check_sums(3000)
        report("sums.jsonl", "--html", "sums.html")
        check_hostile()
        check_many()
        check_gaps()
        check_absent()
        check_files()


main()
