#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does anything grow? A recorder beside a process that makes what could be kept for ever: threads,
processes, code mappings, flows, blocks. Every 10 s the memory of all processes of the run and of
their BPF maps is summed; at the end comes its slope after the first ten minutes (Theil-Sen: the
median of the slopes of all pairs of samples, which no single jump can bend).

usage: soak.py BUILD SECONDS [SLOPE_KIB_PER_HOUR] [LOG]
The rates are 20 times those of a phone in use: 16 threads, 1 process, 0.2 code mappings, 10 flows
and 0.4 blocks a second. What the machine allowed of them is printed. Exit 1: it grew faster than
SLOPE (default 64) KiB an hour."""
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

RATES = ["threads=320", "procs=20", "files=2", "memfds=2", "flows=200", "blocks=8", "length_ms=20"]
UID = 20123
STEP_S = 10
SETTLE_S = 600


def read(path):
    try:
        # Any process may be named with any bytes.
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def field(text, name):
    found = re.search(rf"^{name}:\s*(\d+)", text, re.M)
    return int(found.group(1)) if found else 0


def family(root, known):
    """The recorder, and whatever came from it: a helper is a child of another one, and belongs to
    the run also when that has ended."""
    parents = {}
    for name in os.listdir("/proc"):
        stat = name.isdigit() and read(f"/proc/{name}/stat")
        if stat:
            parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root} | (known & parents.keys())
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in found}
        grew = not more <= found
        found |= more
    return found


def kernel_bytes(pid):
    """Maps and programs of the recorder's descriptors, each counted once."""
    sums = {}
    folder = f"/proc/{pid}/fdinfo"
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    for name in names:
        text = read(f"{folder}/{name}")
        for kind in ("map_id", "prog_id"):
            if f"{kind}:" in text and "memlock:" in text:
                sums[kind, field(text, kind)] = field(text, "memlock")
    return sum(sums.values())


def sample(root, known):
    known |= family(root, known)
    rows = {}
    for pid in known:
        text = read(f"/proc/{pid}/smaps_rollup")
        if text:
            rows[pid] = (read(f"/proc/{pid}/comm").strip(), field(text, "Pss") * 1024,
                         (field(text, "Pss_Anon") + field(text, "Pss_Shmem")) * 1024)
    known &= rows.keys() | {root}
    return rows, kernel_bytes(root)


def theil_sen(points):
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1:]]
    return statistics.median(slopes) if slopes else 0.0


def main():
    build, seconds = sys.argv[1], int(sys.argv[2])
    allowed = float(sys.argv[3]) if len(sys.argv) > 3 else 64.0
    log = open(sys.argv[4], "w") if len(sys.argv) > 4 else None
    folder = tempfile.mkdtemp(prefix="jankscope-soak-")
    output = f"{folder}/soak.jsonl"
    # Begun by a shell in the background it would be deaf to SIGINT, and its children with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    churn = subprocess.Popen([f"{build}/tests/apps/churn", f"uid={UID}", *RATES],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    churn.stdout.readline()
    record = subprocess.Popen([f"{build}/jankscope", "record", "-q", "-u", str(UID), "--block",
                               "10ms", "-o", output])
    known, private, whole, begin = set(), [], [], time.monotonic()
    try:
        while record.poll() is None and (now := time.monotonic() - begin) < seconds:
            rows, kernel = sample(record.pid, known)
            anon = sum(row[2] for row in rows.values()) + kernel
            private.append((now, anon))
            whole.append((now, sum(row[1] for row in rows.values()) + kernel))
            if log:
                by_name = {}
                for name, _, bytes_ in rows.values():
                    by_name[name] = by_name.get(name, 0) + bytes_
                print(json.dumps({"s": round(now), "private": anon, "pss": whole[-1][1],
                                  "kernel": kernel, "by": by_name}), file=log, flush=True)
            time.sleep(max(0.0, STEP_S - (time.monotonic() - begin - now)))
    except KeyboardInterrupt:
        seconds = 0
    finally:
        died = record.poll() is not None
        record.send_signal(signal.SIGINT)
        status = record.wait(30)
        churn.stdin.close()
        counts = churn.stdout.read().strip()
        churn.wait()
    with open(output, "rb") as file:
        file.seek(max(0, os.path.getsize(output) - (1 << 22)))
        footer = json.loads(file.read().splitlines()[-1])
    os.unlink(output)
    os.rmdir(folder)
    late = [p for p in private if p[0] >= min(SETTLE_S, private[-1][0] / 3)]
    late_whole = whole[len(whole) - len(late):]
    slope = theil_sen(late) * 3600 / 1024
    print(f"churn: {counts}")
    print(f"lost: {footer.get('lost')} late: {footer.get('late')} exit {status}")
    print(f"memory at {late[0][0]:.0f} s: {late[0][1] / 1048576:.2f} MiB, at {late[-1][0]:.0f} s: "
          f"{late[-1][1] / 1048576:.2f}, most {max(p[1] for p in private) / 1048576:.2f}; "
          f"with shares of files {late_whole[-1][1] / 1048576:.2f}")
    print(f"slope: {slope:.1f} KiB/h of anonymous memory and maps, "
          f"{theil_sen(late_whole) * 3600 / 1024:.1f} with shares of files "
          f"({len(late)} samples, allowed {allowed:g})")
    return 1 if died or slope > allowed else 0


if __name__ == "__main__":
    sys.exit(main())
