# SPDX-License-Identifier: BSD-2-Clause
"""What the recording of a soak holds in memory and descriptors, look after look, and whether it
grows (P3). Used by soak.py; test_soak_judge.py holds its verdicts against made-up looks."""
import collections
import json
import os
import re
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from slope import fit

STEP_S = 5            # between two looks at memory
WARM_UP_S = 600       # or a third of the run: what grows until then fills caches with a limit,
                      # which takes longer where the machine is busy
# Files of code that the unwinder holds open, and maps of processes (MAX_OPEN and KEPT_MAPS).
CACHE_CODE, CACHE_MAPS = 256, 64
SLOPE_LEAST_S = 1200  # of looks after the warm-up that can tell 64 KiB an hour from noise
ANON_BYTES, SLOPE_BYTES_H = 24 << 20, 64 << 10


def read(path):
    try:
        with open(path, errors="replace") as file:  # any process may be named with any bytes
            return file.read()
    except OSError:
        return ""


def field(text, name):
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


CODE, MAPS = "files of code", "maps"
CACHES = {CODE: CACHE_CODE, MAPS: CACHE_MAPS}
UNWINDER = "jank-unwinder"


def kind_of(comm, link):
    """What an open file is, with whose it is: all files of code of the unwinder are of one kind."""
    if comm == UNWINDER and link.startswith("/") and not link.startswith("/dev/"):
        return CODE
    if comm == "jankscope" and link.startswith("/memfd:jankscope "):
        return MAPS
    return f"{comm}: {re.sub('[0-9]+', 'N', link)}"


class Looks(threading.Thread):
    """Memory and descriptors of `steady`, and the size of both folders, every STEP_S seconds; each
    look is a line of log: [[seconds, anonymous, all, descriptors, beside caches], by process, the
    unwinder's cache, by kind of descriptor]."""

    def __init__(self, steady, others, keeper, log):
        super().__init__(daemon=True)
        self.steady, self.others, self.keeper, self.log = steady, others, keeper, log
        self.series, self.listeners, self.most_disk, self.stop = [], set(), 0, threading.Event()
        self.kinds = []  # of each look: how many descriptors of each kind
        self.shares = []  # of each look: (when, anonymous memory by the name of the process)
        self.caches = []  # of each look: what of it is the unwinder's cache, as it counts itself

    def run(self):
        begin = time.monotonic()
        while not self.stop.wait(STEP_S):
            pids = self.steady.processes(self.keeper)
            anon = total = fds = 0
            kinds, shares = collections.Counter(), collections.Counter()
            for pid in pids:
                text = read(f"/proc/{pid}/smaps_rollup")
                anon += field(text, "Pss_Anon")
                shares[read(f"/proc/{pid}/comm").strip()] += field(text, "Pss_Anon")
                total += field(text, "Pss_Anon") + field(text, "Pss_Shmem")
                try:
                    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                except OSError:
                    links = []
                fds += len(links)
                comm = read(f"/proc/{pid}/comm").strip()
                kinds.update(kind_of(comm, link) for link in links)
                self.listeners |= {link[8:-1] for link in links if link.startswith("socket:")} & \
                    listening()
            told = self.steady.ask().get("self", {}).get("unwinder_cache_bytes")
            if anon:
                self.caches.append(told if told is not None else self.caches[-1] if self.caches else 0)
                cached = sum(min(kinds[kind], most) for kind, most in CACHES.items())
                self.series.append((time.monotonic() - begin, anon, total, fds, fds - cached))
                self.kinds.append(kinds)
                self.shares.append((self.series[-1][0], shares))
                print(json.dumps([self.series[-1], shares, told, kinds]), file=self.log, flush=True)
            for recording in [self.steady, *self.others]:
                size = 0
                for name in os.listdir(recording.folder):
                    try:
                        size += os.stat(f"{recording.folder}/{name}").st_blocks * 512
                    except OSError:
                        pass
                self.most_disk = max(self.most_disk, size)

    def grown_kinds(self, count):
        """Kinds of descriptors of which the last looks have more than the first of those `count`."""
        looks, part = self.kinds[-count:], max(1, count // 5)
        first, last = ({kind: statistics.median(look[kind] for look in some)
                        for look in some for kind in look} for some in (looks[:part], looks[-part:]))
        more = {kind: (first.get(kind, 0), value) for kind, value in last.items()
                if value > first.get(kind, 0) + 1}
        return ", ".join(f"{kind} {old:.0f} -> {new:.0f}" for kind, (old, new) in
                         sorted(more.items(), key=lambda item: item[1][0] - item[1][1])[:6])

    def tell_shares(self, since):
        """Which process has how much of the memory, and grows by how much."""
        looks = [look for look in self.shares if look[0] >= since]
        for comm in sorted({comm for _, shares in looks for comm in shares}):
            points = [(at, shares[comm]) for at, shares in looks]
            value, low, high, _ = (v * 3600 / 1024 for v in fit(points))
            print(f"  {comm:16}{statistics.median(p[1] for p in points) / 1024:9.0f} KiB  "
                  f"{value:+7.0f} ({low:+.0f}..{high:+.0f}) KiB/h", flush=True)

    def after_warm_up(self, column):
        if not self.series:
            return []
        settle = min(WARM_UP_S, self.series[-1][0] / 3)
        code = [kinds[CODE] for kinds in self.kinds]
        # Full, or as full as this load makes it.
        filled = next(row[0] for row, count in zip(self.series, code) if count >= 0.95 * max(code))
        settle = max(settle, filled)
        return [(row[0], row[column]) for row in self.series if row[0] >= settle]

    def kept(self, since, cached):
        """Of each minute what every process had in all of its looks, together: what leaks stays, and
        what is there while the writer compresses, or a child has its parent's memory, does not.
        cached: with what the unwinder's cache of code holds within its limits."""
        minutes = collections.defaultdict(list)
        for (at, shares), cache in zip(self.shares, self.caches):
            if at >= since:
                minutes[int(at // 60)].append({**shares, UNWINDER: shares[UNWINDER] - cache * (not cached)})
        whole = [minute for minute, looks in minutes.items() if len(looks) >= 30 / STEP_S]
        return [(60 * minute + 30, sum(min(look.get(comm, 0) for look in minutes[minute])
                                       for comm in minutes[minute][0])) for minute in whole]


def listening():
    """Inodes of TCP sockets that listen."""
    rows = [line.split() for name in ("tcp", "tcp6")
            for line in read(f"/proc/net/{name}").splitlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A"}


def slope_now(looks):
    """Of all memory after the warm-up as of now, as text."""
    points = looks.after_warm_up(1)
    if len(points) < 12:
        return "      -"
    value, low, high, _ = (v * 3600 / 1024 for v in fit(points))
    return f"{value:+.0f} ({low:+.0f}..{high:+.0f})"


def slope_text(value, low, high):
    """Of bytes an hour."""
    return f"{value / 1024:+.1f} KiB an hour (90 % of fits: {low / 1024:+.1f} .. {high / 1024:+.1f})"


def judge(looks, breaks):
    """Print slopes; breaks(promise, text) where one is broken. What so short a run cannot judge."""
    not_judged = []
    points, fds = looks.after_warm_up(1), looks.after_warm_up(4)
    if len(points) < 12:
        return ["P3"]
    most = max(row[1] for row in looks.series)
    if most > ANON_BYTES:
        breaks("P3", f"anonymous memory of {most / 2**20:.1f} MiB")
    since = points[0][0]
    value, low, high, _ = (v * 3600 for v in fit(points))
    print(f"memory after warm-up: {slope_text(value, low, high)}; most {most / 2**20:.1f} MiB, of which")
    looks.tell_shares(since)
    value, low, high = (v * 3600 for v in fit(looks.kept(since, True))[:3])
    text = slope_text(value, low, high)
    print(f"what is kept all the minute: {text}")
    # What leaks is in both. All of it also grows while the cache fills, up to its limit; what is
    # beside the cache also grows while the cache gives back what malloc keeps for later.
    beside = tuple(v * 3600 for v in fit(looks.kept(since, False))[:3])
    print(f"without the unwinder's cache ({looks.caches[-1] / 1024:.0f} KiB at last): {slope_text(*beside)}")
    if beside[2] < high:
        value, low, high = beside
        text = f"without the unwinder's cache {slope_text(*beside)}"
    if points[-1][0] - points[0][0] < SLOPE_LEAST_S - 2 * STEP_S:
        return [f"P3's slope ({text})"]
    if low > SLOPE_BYTES_H:
        breaks("P3", f"memory grows by {text}")
    elif high > SLOPE_BYTES_H:
        not_judged.append(f"P3's slope ({text})")
    value, low, high, _ = (v * 3600 for v in fit(fds))
    part = len(fds) // 5
    first, last = (statistics.median(row[1] for row in some) for some in (fds[:part], fds[-part:]))
    kinds = looks.grown_kinds(len(fds))
    # Of the last ones; a process that is being forked has its parent's for a moment.
    code, maps = (statistics.median(look[kind] for look in looks.kinds[-part:]) for kind in CACHES)
    if code > CACHE_CODE + 4 or maps > CACHE_MAPS + 4:
        breaks("P3", f"{code:.0f} files of code and {maps:.0f} maps are held open")
    print(f"descriptors, without {code:.0f} files of code and {maps:.0f} maps, after warm-up: {value:+.1f} "
          f"an hour ({low:+.1f} .. {high:+.1f}), {first:.0f} at first, {last:.0f} at last; "
          f"grown: {kinds or 'none'}")
    if low > 1 and last > 1.1 * first:
        breaks("P3", f"descriptors grow by {value:.0f} an hour: {kinds}")
    return not_judged
