#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does anything grow? A recorder beside a process that makes what could be kept for ever: threads,
processes, code mappings, flows, blocks. Each STEP_S seconds the memory of each process of the run,
of its BPF maps, and the charge of the memory cgroup that it runs in are noted; at the end comes the
slope of each after the first ten minutes, and how far that slope can be believed (slope.py).
`make soak` (tests/fault/soak.py) is the one with faults, and with a verdict on each promise.

usage: soak.py BUILD SECONDS [SLOPE_KIB_PER_HOUR] [LOG] [--times N] [--settle SECONDS]
The rates are N (20) times those of a phone in use: 16 threads, 1 process, 0.2 code mappings, 10
flows and 0.4 blocks a second. What the machine allowed of them is printed. Exit 1: the memory of
all processes and maps, or the cgroup's charge, grew faster than SLOPE (default 64) KiB an hour, or
there was too little to say so."""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from slope import fit

# of a phone in use, a second
RATES = {"threads": 16, "procs": 1, "files": 0.1, "memfds": 0.1, "flows": 10, "blocks": 0.4}
UID = 20123
STEP_S = 10
MEMORY = "/sys/fs/cgroup/memory"


def read(path):
    try:
        # Any process may be named with any bytes.
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def field(text, name):
    found = re.search(rf"^{name}:?\s+(\d+)", text, re.M)
    return int(found.group(1)) if found else 0


class Group:
    """A memory cgroup for the run, of whichever version is there; none: no charge is told."""

    def __init__(self):
        self.path, self.version = None, 1
        name = f"jankscope-soak-{os.getpid()}"
        try:
            if os.access(f"{MEMORY}/cgroup.procs", os.W_OK):
                path = f"{MEMORY}/{name}"
            else:
                mount = [l.split()[1] for l in read("/proc/mounts").splitlines()
                         if l.split()[2] == "cgroup2"][0]
                with open(f"{mount}/cgroup.subtree_control", "w") as file:
                    file.write("+memory")
                path, self.version = f"{mount}/{name}", 2
            os.mkdir(path)
            self.path = path
        except (OSError, IndexError) as error:
            print(f"no memory cgroup: {error}")

    def enter(self):
        if self.path:
            with open(f"{self.path}/cgroup.procs", "w") as file:
                file.write("0")

    def sample(self):
        """{what: bytes}: the charge without the cache of files, and what it is made of."""
        if not self.path:
            return {}
        stat = read(f"{self.path}/memory.stat")
        if self.version == 2:
            usage = int(read(f"{self.path}/memory.current") or 0)
            rows = {"cgroup": usage - field(stat, "file") + field(stat, "shmem")}
            for name in ("anon", "shmem", "kernel", "slab_reclaimable"):
                rows[f"cgroup {name}"] = field(stat, name)
            return rows
        usage = int(read(f"{self.path}/memory.usage_in_bytes") or 0)
        shmem = field(stat, "total_shmem")
        return {"cgroup": usage - field(stat, "total_cache") + shmem,
                "cgroup anon": field(stat, "total_rss"), "cgroup shmem": shmem,
                "cgroup kernel": int(read(f"{self.path}/memory.kmem.usage_in_bytes") or 0)}

    def remove(self):
        for _ in range(50):
            try:
                if self.path:
                    os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


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


def count_descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def sample(root, known, group):
    """{row: bytes} of one moment, and {name: pids}."""
    known |= family(root, known)
    rows, pids = {"all": 0, "all with files": 0}, {}
    for pid in sorted(known):
        text = read(f"/proc/{pid}/smaps_rollup")
        if not text:
            continue
        name = "recorder" if pid == root else read(f"/proc/{pid}/comm").strip()
        own = (field(text, "Pss_Anon") + field(text, "Pss_Shmem")) * 1024
        pids.setdefault(name, []).append(pid)
        rows[name] = rows.get(name, 0) + own
        rows["all"] += own
        rows["all with files"] += field(text, "Pss") * 1024
    known &= {pid for some in pids.values() for pid in some} | {root}
    rows["maps"] = kernel_bytes(root)
    rows["all"] += rows["maps"]
    rows["all with files"] += rows["maps"]
    rows.update(group.sample())
    rows["descriptors"] = sum(count_descriptors(pid) for pid in known)
    return rows, pids


def tell(series, pids, settle_s):
    """Print a row each; {row: slope in KiB an hour}, and whether there was enough to fit."""
    slopes, enough, to = {}, True, series[-1][0]
    # Processes and sums first, then what a sum is made of.
    order = {"all": 0, "all with files": 8, "descriptors": 9}
    names = sorted({name for _, rows in series for name in rows},
                   key=lambda n: (order.get(n, 7 if n.startswith("cgroup") else 1), n))
    print(f"{'after warm-up (%d s)' % settle_s:22} {'first':>9} {'last':>9} {'most':>9}"
          f"{'':5}  {'slope an hour':>13}  {'90 % of fits':>20} {'noise':>8}")
    for name in names:
        points = [(t, rows.get(name, 0)) for t, rows in series if t >= settle_s]
        if len(points) < 12 or to - settle_s < 120:
            enough = False
        if not points:
            continue
        unit = 1 if name == "descriptors" else 1024
        slope, low, high, noise = (v / unit for v in fit(points))
        slopes[name] = slope * 3600
        values = [p[1] for p in points]
        grows = "  GROWS" if low > 0 and slope * 3600 > (8 if unit == 1024 else 1) else ""
        made = len(pids.get(name, ()))
        print(f"{name:22} {values[0] / unit:9.0f} {values[-1] / unit:9.0f} "
              f"{max(values) / unit:9.0f} {'KiB' if unit == 1024 else '':5} {slope * 3600:13.1f}  "
              f"{low * 3600:9.1f} .. {high * 3600:7.1f} {noise:8.1f}"
              + (f"  ({made} processes)" if made > 1 else "") + grows)
    return slopes, enough


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("seconds", type=int)
    parser.add_argument("allowed", type=float, nargs="?", default=64.0)
    parser.add_argument("log", nargs="?")
    parser.add_argument("--times", type=float, default=20.0)
    parser.add_argument("--settle", type=int, default=600)
    options = parser.parse_args()
    seconds, build = options.seconds, options.build
    log = open(options.log, "w") if options.log else None
    folder = tempfile.mkdtemp(prefix="jankscope-soak-")
    output = f"{folder}/soak.jsonl"
    rates = {name: round(rate * options.times) for name, rate in RATES.items()}
    # Begun by a shell in the background it would be deaf to SIGINT, and its children with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    group = Group()
    churn = subprocess.Popen([f"{build}/tests/apps/churn", f"uid={UID}", "length_ms=20",
                              *(f"{name}={rate}" for name, rate in rates.items())],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    churn.stdout.readline()
    record = subprocess.Popen([f"{build}/jankscope", "record", "-q", "-u", str(UID), "--block",
                               "10ms", "-o", output], preexec_fn=group.enter)
    known, made, series, begin = set(), {}, [], time.monotonic()
    try:
        while record.poll() is None and (now := time.monotonic() - begin) < seconds:
            rows, pids = sample(record.pid, known, group)
            series.append((now, rows))
            for name, some in pids.items():
                made.setdefault(name, set()).update(some)
            if log:
                print(json.dumps({"s": round(now), **rows, "pids": pids}), file=log, flush=True)
            time.sleep(max(0.0, STEP_S - (time.monotonic() - begin - now)))
    except KeyboardInterrupt:
        pass
    finally:
        died = record.poll() is not None
        record.send_signal(signal.SIGINT)
        status = record.wait(30)
        churn.stdin.close()
        counts = churn.stdout.read().strip()
        churn.wait()
        group.remove()
    with open(output, "rb") as file:
        file.seek(max(0, os.path.getsize(output) - (1 << 22)))
        footer = json.loads(file.read().splitlines()[-1])
    os.unlink(output)
    os.rmdir(folder)
    print(f"churn ({options.times:g} times a phone's): {counts}")
    print(f"lost: {footer.get('lost')} late: {footer.get('late')} exit {status}")
    slopes, enough = tell(series, made, min(options.settle, series[-1][0] / 3))
    over = [name for name in ("all", "cgroup") if slopes.get(name, 0) > options.allowed]
    print(f"{len(series)} samples, allowed {options.allowed:g} KiB an hour: "
          + (f"grew faster: {', '.join(over)}" if over else "nothing grew faster")
          + ("" if enough else "; too few samples to say so"))
    return 1 if died or over or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
