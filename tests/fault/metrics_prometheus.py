# SPDX-License-Identifier: BSD-2-Clause
"""Debian's Prometheus scrapes a recorder; both are killed and begin anew. Each sample that it has is a
sum of records, and what rate() says agrees with them.
usage: metrics_prometheus.py JANKSCOPE. Prints TAP. FULL=1: 5 minutes, else 20 s."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from metrics_common import *

FULL = os.environ.get("FULL") == "1"
INTERVAL = 0.2
PHASE = 59 if FULL else 5 # seconds between kills
COUNTERS = {"jankscope_cpu_busy_seconds_total": ("cpu", "busy_ns"),
            "jankscope_cpu_idle_seconds_total": ("cpu", "idle_ns"),
            "jankscope_dur_seconds_total": ("dur_ns",),
            "jankscope_net_tx_bytes_total": None}


def start_prometheus(port, scraped):
    with open(f"{WORK}/prometheus.yml", "w") as file:
        file.write(f"global: {{scrape_interval: 1s, scrape_timeout: 900ms}}\n"
                   f"scrape_configs: [{{job_name: j, static_configs: [{{targets: ['{scraped}']}}]}}]\n")
    with open(f"{WORK}/prometheus.log", "a") as log:
        child = spawn(shutil.which("prometheus"), f"--config.file={WORK}/prometheus.yml",
                      f"--storage.tsdb.path={WORK}/tsdb", f"--web.listen-address=127.0.0.1:{port}",
                      "--log.level=warn", stdout=log, stderr=log, cwd=WORK)
    return child


def query(port, text):
    """[(labels, value or values)], [] when it does not answer."""
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
    except (OSError, ValueError):
        return []
    return [(row["metric"], row.get("values") or row.get("value")) for row in result]


def raw(port, text, seconds):
    """The samples of a series of that time, [(time, value)]."""
    rows = query(port, f"{text}[{seconds}s]")
    return [(float(t), float(v)) for t, v in rows[0][1]] if rows else []


def sums(path):
    """Of each number of intervals: what the records of them add up to, in nanoseconds."""
    rows = [r for r in records(path) if r["type"] == "interval"]
    table = {name: [0] for name, key in COUNTERS.items() if key}
    for row in rows:
        for name, key in COUNTERS.items():
            value = row
            for part in key or ():
                value = value.get(part, {}) if isinstance(value, dict) else value
            if key:
                table[name].append(table[name][-1] + (value if isinstance(value, int) else 0))
    return table


def check_samples(port, runs, seconds):
    """Prometheus has, at each scrape, the sums of the records of as many intervals as it has
    counted."""
    counts = raw(port, "jankscope_intervals_total", seconds)
    tables, run, compared, wrong = [sums(path) for path in runs], 0, 0, []
    places = [] # (time, run, intervals)
    for i, (t, n) in enumerate(counts):
        if i and n < counts[i - 1][1]:
            run += 1
        places.append((t, run, int(n)))
    for name, key in COUNTERS.items():
        if not key:
            continue
        values = dict(raw(port, name, seconds))
        for t, of, n in places:
            table = tables[of][name] if of < len(tables) else []
            if t not in values and not n:
                continue
            if t not in values or n >= len(table):
                wrong.append(f"{name} at {t}: {values.get(t)}, interval {n} of run {of}, {len(table) - 1} there")
                continue
            compared += 1
            if abs(values[t] - table[n] * 1e-9) > 1e-9 * max(1, values[t]):
                wrong.append(f"{name} at {t}: {values[t]}, not {table[n] * 1e-9} of {n} intervals")
    say(not wrong and compared >= 3 * PHASE and run == len(runs) - 1,
        f"all samples are the sums of as many records, over {len(runs)} recorders", f"{compared} compared, run {run}",
        *wrong[:6])
    return places, tables


def extrapolated(points, start, stop):
    """What Prometheus' increase() makes of samples [(time, value)] (promql/functions.go,
    extrapolatedRate): their growth, where one that shrinks began at 0, drawn out to the ends of the
    window, but not below 0 and not over a hole."""
    grown = sum(b - a if b >= a else b for (_, a), (_, b) in zip(points, points[1:]))
    span = points[-1][0] - points[0][0]
    between = span / (len(points) - 1)
    before, after = points[0][0] - start, stop - points[-1][0]
    if grown > 0:
        before = min(before, span * points[0][1] / grown)
    drawn = span + sum(part if part < 1.1 * between else between / 2 for part in (before, after))
    return grown * drawn / span


def check_rates(port, places, tables):
    """increase() and rate() of windows, those with restarts in them too, from the records alone."""
    bad, compared, at = [], 0, round(time.time() - 1, 3)
    widths = [6, 8, 12, 20] + ([100, 200, 250] if FULL else [])
    for width in widths:
        inside = [p for p in places if at - width <= p[0] <= at]
        if len(inside) < 4:
            bad.append(f"{width} s: {len(inside)} scrapes")
            continue
        for name in tables[0]:
            truth = extrapolated([(t, tables[run][name][n] * 1e-9) for t, run, n in inside], at - width, at)
            for what, wanted in (("increase", truth), ("rate", truth / width)):
                rows = query(port, f"{what}({name}[{width}s] @ {at:.3f})")
                value = float(rows[0][1][1]) if rows else float("nan")
                compared += 1
                if not abs(value - wanted) <= 1e-6 * wanted:
                    bad.append(f"{what}({name}[{width}s]): {value}, the records say {wanted}")
    say(not bad and compared >= 6 * len(widths), "increase() and rate() are those of the records", *bad)


def at(port, name, moment):
    """The values of all series of a name that were scraped at that moment, by their labels. (Without the range
    Prometheus would add series of 5 minutes ago, those of a recorder that was killed among them.)"""
    return {tuple(sorted(labels.items())): float(values[-1][1])
            for labels, values in query(port, f"{name}[1ms] @ {moment:.3f}")}


def check_parts(port):
    """Threads, processes and uids, each with its rest, grow as much as the sum over all, from scrape to scrape. A name
    that gets a series begins at 0; between two scrapes that a series is gone from nothing is compared."""
    bad, compared = [], {}
    busy = raw(port, "jankscope_cpu_busy_seconds_total", 20)
    end = time.time() - 1
    for (t1, v1), (t2, v2) in zip(busy, busy[1:]):
        for kind in ("task", "process", "uid"):
            before, after = (at(port, f"jankscope_{kind}_cpu_seconds_total", t) for t in (t1, t2))
            if v2 < v1 or not before or set(before) - set(after):
                continue
            grown = sum(after.values()) - sum(before.values())
            compared[kind] = compared.get(kind, 0) + 1
            if not abs(grown - (v2 - v1)) <= 1e-6:
                bad.append(f"{kind}: {grown}, busy {v2 - v1}, of {len(before)} and {len(after)} series")
    if len(compared) < 3 or min(compared.values()) < 5:
        bad.append(f"compared {compared} of {len(busy)} scrapes")
    say(not bad, "threads, processes and uids with their rests grow as the whole does", *bad)
    resets = [row for row in query(port, f"resets({{__name__=~'jankscope_.*_total'}}[3s] @ {end:.3f}) > 0")]
    say(not resets, "no counter shrinks while a recorder lives", resets)


def main():
    if not shutil.which("prometheus"):
        print("ok - metrics: prometheus # SKIP it is not installed here")
        return
    port, scraped = free_port(), f"127.0.0.1:{free_port()}"
    load = spawn("sh", "-c", "while :; do i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.05; done")
    runs, begun = [f"{WORK}/run0.jsonl"], time.time()
    recorder = record(scraped, "-i", f"{int(INTERVAL * 1000)}ms", "-o", runs[0])
    prometheus = start_prometheus(port, scraped)
    up = wait_for(lambda: [row for row in query(port, "up") if row[1][1] == "1"], 60)
    say(up, "Prometheus scrapes it", words_of(), open(f"{WORK}/prometheus.log").read())
    rounds = 2 if FULL else 1
    for turn in range(rounds):
        time.sleep(PHASE)
        end(prometheus, signal.SIGKILL)
        time.sleep(1)
        prometheus = start_prometheus(port, scraped)
        time.sleep(PHASE)
        end(recorder, signal.SIGKILL)
        runs.append(f"{WORK}/run{turn + 1}.jsonl")
        recorder = record(scraped, "-i", f"{int(INTERVAL * 1000)}ms", "-o", runs[-1], name=f"rec{turn + 1}")
        back = wait_for(lambda: ask(scraped)[0] == 200, 20)
        say(back, "a recorder that begins where one was killed is answered for", words_of(f"rec{turn + 1}"))
    time.sleep(PHASE + 4)
    seconds = int(time.time() - begun) + 2
    # The records of the last scrapes are written.
    time.sleep(1)
    places, tables = check_samples(port, runs, seconds)
    check_rates(port, places, tables)
    check_parts(port)
    down = [v for _, v in raw(port, "up", seconds)]
    say(down and down[-1] == 1 and sum(down) >= 0.6 * len(down), "it is up but for the restarts", down)
    log = open(f"{WORK}/prometheus.log").read()
    say(not any(w in log for w in ("append failed", "out of order", "duplicate", "parse")), "Prometheus complains of no sample", log)
    say(end(recorder) == 0, "the recorder ends in order", words_of(f"rec{rounds}"))
    end(load, signal.SIGKILL)


try:
    main()
finally:
    cleanup()
