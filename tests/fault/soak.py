#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""make soak: does a recording survive what a lab does to it in a week? Two recordings with --daemon,
at 20 times the usual rate (an interval is 50 ms), beside 20 times the churn of a phone in use, whose
processes come and go in a pid namespace where pids wrap after 700. Every minute:

  F1   SIGKILL of the recorder `killed`, each third time of its writer as well
  F3   the disk is full for eight seconds, then there is room again
  F9   a target dies and comes again every 200 ms, ten seconds long
  F17  the wall clock of both recordings goes a day ahead, or back to 1970, and returns

`steady` has all but F1: its memory and descriptors are what the slopes are of. Each minute a line
tells them, with what was lost; the last line is PASS, or the promises that broke (P1 ... of
users-and-reliability.md). A promise that so short a run cannot judge is named. What is late while the
machine has no CPU left is no promise broken, but NOT JUDGED; what is not told at all is one.

usage: soak.py BUILD [MINUTES]    exit code 0: PASS, 1: FAIL, 2: NOT JUDGED"""
import collections
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from slope import fit

BUILD = os.path.abspath(sys.argv[1])
MINUTES = float(sys.argv[2]) if len(sys.argv) > 2 else 30
JS, APPS = f"{BUILD}/jankscope", f"{BUILD}/tests/apps"
APP, APP_UID, CHURN_UID = "jank.soak.app", 20124, 20123
TIMES = 20
# of a phone in use, a second (tests/bench/soak.py)
RATES = {"threads": 16, "procs": 1, "files": 0.1, "memfds": 0.1, "flows": 10, "blocks": 0.4}
INTERVAL_NS = 50_000_000
DISK, MAX_DISK = 256 << 20, 48 << 20
DAY = 86400
STEP_S = 5            # between two looks at memory
WARM_UP_S = 600       # or a third of the run: what grows until then fills caches with a limit,
                      # which takes longer where the machine is busy
# Files of code that the unwinder holds open, and maps of processes (MAX_OPEN and KEPT_MAPS).
CACHE_CODE, CACHE_MAPS = 256, 64
SLOPE_LEAST_S = 1200  # of looks after the warm-up that can tell 64 KiB an hour from noise
ANON_BYTES, SLOPE_BYTES_H = 24 << 20, 64 << 10
GAP_NS, STOP_NS, FOLLOW_S = 2_000_000_000, 50_000_000, 1.0
FULL_S, RESTART_S, RESTART_EVERY_S = 8, 10, 0.2
COUNT_S = 6           # a target whose start was never told is counted so long after its end
IDLE_LEAST = 0.2      # a machine with less time to spare is too busy to judge what is late

broken, not_judged, too_busy = {}, [], {}


def breaks(promise, text):
    broken.setdefault(promise, text)
    print(f"# {promise} BROKE: {text}", flush=True)


class Spell:
    """How much time all CPUs together had to spare since then."""

    def __init__(self):
        self.began = self.now()

    @staticmethod
    def now():
        # user nice system idle iowait irq softirq steal
        times = [int(text) for text in read("/proc/stat").splitlines()[0].split()[1:9]]
        return times[3] + times[4], sum(times)

    def idle(self):
        idle, total = (now - began for now, began in zip(self.now(), self.began))
        return idle / max(total, 1)


def late(promise, text, spell):
    """It came later than promised: the promise is broken, unless others had all CPUs."""
    if spell.idle() >= IDLE_LEAST:
        return breaks(promise, text)
    too_busy.setdefault(promise, []).append(text)
    print(f"# {promise} NOT JUDGED: {text} (all CPUs together idle {100 * spell.idle():.0f} %)", flush=True)
    return None


def read(path):
    try:
        with open(path, errors="replace") as file:  # any process may be named with any bytes
            return file.read()
    except OSError:
        return ""


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Recording:
    """One recording with --daemon, with a wall clock of its own."""

    def __init__(self, name, folder, *more):
        self.name, self.folder, self.members = name, f"{folder}/{name}", set()
        self.clock = subprocess.Popen(
            [f"{APPS}/own_clocks", JS, "record", "--daemon", "-i", "50ms", "-u", str(CHURN_UID),
             "-p", APP, "--block", "10ms", "--max-lost", "100", "--max-disk", str(MAX_DISK >> 20) + "M",
             "-o", self.folder + "/", *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.clock.stdout.readline().strip()
        if "started pid" not in self.said:
            sys.exit(f"soak: {name} does not start: {self.said or self.clock.wait()}")

    def set_clock(self, offset_s):
        self.clock.stdin.write(f"wall {offset_s}\n")
        self.clock.stdin.flush()

    def ask(self):
        done = subprocess.run([JS, "status", "--json", self.folder], capture_output=True, text=True)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"state": "none", "said": done.stderr}

    def await_state(self, what, seconds):
        until = time.monotonic() + seconds
        while not what(state := self.ask()) and time.monotonic() < until:
            time.sleep(0.05)
        return state

    def verify(self):
        return subprocess.run([JS, "verify", self.folder], capture_output=True, text=True)

    def processes(self, keeper):
        """The keeper and whatever came from it, also where a parent in between has ended."""
        parents = {}
        for name in os.listdir("/proc"):
            stat = name.isdigit() and read(f"/proc/{name}/stat")
            if stat:
                parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
        self.members = {keeper} | (self.members & parents.keys())
        grew = True
        while grew:
            more = {pid for pid, parent in parents.items() if parent in self.members}
            grew = not more <= self.members
            self.members |= more
        return self.members


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
    """Memory and descriptors of `steady`, and the size of both folders, every STEP_S seconds."""

    def __init__(self, steady, others, keeper):
        super().__init__(daemon=True)
        self.steady, self.others, self.keeper = steady, others, keeper
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


class Load:
    """The churn, with pids that wrap, and the target that restarts."""

    def __init__(self):
        wraps = "echo 1000 >/proc/sys/kernel/pid_max; "
        # Until 7863dcc72d0f (6.14) pid_max is the machine's.
        if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
            wraps = "(while sleep 1; do echo 299 >/proc/sys/kernel/ns_last_pid; done) & "
        rates = [f"{name}={round(rate * TIMES)}" for name, rate in RATES.items()]
        self.churn = subprocess.Popen(
            ["unshare", "-pf", "--mount-proc", "--kill-child", "sh", "-c", wraps + 'exec "$@"', "sh",
             f"{APPS}/churn", f"uid={CHURN_UID}", "length_ms=20", "long", *rates],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.churn.stdout.readline().strip() != "ready":
            sys.exit("soak: the churn does not begin")
        self.app = None
        self.restart()

    def restart(self):
        if self.app:
            self.app.kill()
            self.app.wait()
        self.app = subprocess.Popen([f"{APPS}/fakeapp", str(APP_UID), APP, "block", "30"],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.app.stdout.readline()  # it has its name
        self.app.stdout.close()

    def stopped(self):
        """Threads of the targets that somebody has stopped."""
        found = []
        for pid in os.listdir("/proc"):
            if not pid.isdigit() or field_uid(pid) not in (APP_UID, CHURN_UID):
                continue
            try:
                tids = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            found += [tid for tid in tids if read(f"/proc/{pid}/task/{tid}/stat")
                      .rpartition(")")[2].split()[:1] in (["T"], ["t"])]
        return found

    def end(self):
        self.app.kill()
        self.app.wait()
        self.churn.stdin.close()
        counts = self.churn.stdout.read().strip()
        self.churn.wait()
        return counts


def field_uid(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


# ---- the faults ----

def kill_recorder(killed, with_writer):
    """F1: what is between two recorders is told, and shorter than 2 s."""
    before, spell = killed.ask(), Spell()
    if "pid" not in before:
        return breaks("P8", f"nobody records to {killed.folder}: {before}")
    victims = [before["pid"]]
    if with_writer:
        victims += [int(pid) for pid in
                    read(f"/proc/{victims[0]}/task/{victims[0]}/children").split()
                    if read(f"/proc/{pid}/comm").strip() == "jankscope-write"]
    time.sleep(random.uniform(0, 0.2))
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    after = killed.await_state(lambda s: s["state"] == "running" and
                               s["gaps"] == before["gaps"] + 1, 30)
    gap_ns = after.get("gap_ns", 0) - before["gap_ns"]
    if after["state"] != "running" or not gap_ns:
        breaks("P8", f"no recorder, or no gap event, 30 s after a kill: {after}")
    elif gap_ns >= GAP_NS:
        late("P8", f"a gap of {gap_ns / 1e9:.2f} s after a kill", spell)
    return gap_ns


def fill_disk(folder, recordings):
    """F3: the recorders live, and go on within a second or so of there being room again."""
    path, until = f"{folder}/other", time.monotonic() + FULL_S
    with open(path, "wb", buffering=0) as other:
        while time.monotonic() < until:
            try:
                other.write(bytes(1 << 18))
            except OSError:
                time.sleep(0.02)  # what the recorders give up goes at once
    states = [(recording, recording.ask()) for recording in recordings]
    os.unlink(path)
    for recording, state in states:
        if state["state"] != "running":
            breaks("P5", f"a full disk, {recording.name}: {state}")
        if not wait_for_growth(recording.folder):
            breaks("P5", f"{recording.name} writes nothing 10 s after the disk was full")


def wait_for_growth(folder):
    def size():
        return sum(os.stat(f"{folder}/{name}").st_size for name in os.listdir(folder)
                   if name.endswith(".jsonl"))
    until, first = time.monotonic() + 10, size()
    while time.monotonic() < until:
        time.sleep(0.1)
        try:
            if size() != first:
                return True
        except FileNotFoundError:
            return True
    return False


def restart_target(load, steady):
    """F9: each birth is told within a second; one that no scan of a busy machine met is counted."""
    since, begin_ns, until = time.time(), boot_ns(), time.monotonic() + RESTART_S
    made, spell = set(), Spell()
    while time.monotonic() < until:
        load.restart()
        made.add(load.app.pid)
        time.sleep(RESTART_EVERY_S)
    # To follow it, and for the writer to write it.
    time.sleep(FOLLOW_S + 0.5)
    told, counted = targets_since(steady.folder, since, begin_ns)
    told &= made
    idle = spell.idle()
    until = time.monotonic() + COUNT_S
    while len(told) + counted < len(made) and time.monotonic() < until:
        time.sleep(0.5)
        told, counted = targets_since(steady.folder, since, begin_ns)
        told &= made
    if told == made and not counted:
        return len(made), len(told), 0
    text = f"{len(made)} restarts of a target, {len(told)} told, {counted} counted as unmet"
    if len(told) + counted != len(made):
        breaks("F9", f"{text}; not told {sorted(made - told)}, all CPUs together idle {100 * idle:.0f} %")
    else:
        late("F9", text, spell)
    return len(made), len(told), counted


def segment_text(path):
    """The text of a segment; "" where it is neither plain nor compressed any more: it was removed."""
    for _ in range(2):  # the plain one goes when the compressed one is there
        try:
            with open(path, errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            pass
        done = subprocess.run(["zstd", "-dcq", path + ".zst"], capture_output=True, check=False)
        if not done.returncode:
            return done.stdout.decode(errors="replace")
    return ""


def targets_since(folder, since, begin_ns):
    """(the pids of target_start, the sum of targets_unmet) of the records since then"""
    pids, unmet, plain = set(), 0, set()
    for name in os.listdir(folder):
        try:
            if ".jsonl" in name and os.stat(f"{folder}/{name}").st_mtime >= since:
                plain.add(name.removesuffix(".zst"))
        except FileNotFoundError:
            plain.add(name.removesuffix(".zst"))
    for name in plain:
        for line in segment_text(f"{folder}/{name}").splitlines():
            at = re.search(r'"t_boot_ns":(\d+)', line)
            if not at or int(at.group(1)) < begin_ns:
                continue
            if '"event":"target_start"' in line:
                pids.add(int(re.search(r'"pid":(\d+)', line).group(1)))
            for count in re.findall(r'"targets_unmet":(\d+)', line):
                unmet += int(count)
    return pids, unmet


def jump(recordings, offset_s):
    """F17: each step of the wall clock is told, and nothing else notices it."""
    # Not the fold over the files, where the recorder does not answer in time.
    before = [recording.await_state(lambda s: s["state"] == "running", 20) for recording in recordings]
    for offset in (offset_s, 0):
        for recording in recordings:
            recording.set_clock(offset)
        time.sleep(1.5)
    for recording, old in zip(recordings, before):
        new = recording.await_state(lambda s: s["state"] == "running", 20)
        told = new.get("clock_jumps", 0) - old.get("clock_jumps", 0)
        if told != 2 or new.get("gaps") != old.get("gaps") or new.get("suspends") != old.get("suspends"):
            breaks("F17", f"{recording.name}: 2 steps of the wall clock, {told} told; {new}")


def check_sums(recording):
    """What was measured and what lies between two recorders are together the time that went by."""
    state = recording.await_state(lambda s: s["state"] == "running", 20)
    if state["state"] != "running" or not state.get("intervals"):
        return breaks("P2", f"{recording.name}: {state}")
    told_ns = state["intervals_expected"] * state["interval_ns"] + state["suspended_ns"]
    went_ns = state["age_ns"] - state["last_interval_age_ns"]
    # Half an interval of rounding, and of each recorder what lies ahead of its first interval.
    if abs(told_ns - went_ns) > (2 + state["recorder_restarts"]) * INTERVAL_NS:
        breaks("P2", f"{recording.name}: {went_ns / 1e9:.3f} s went by, {told_ns / 1e9:.3f} s are told")
    if state["self"]["stop_max_ns"] > STOP_NS:
        breaks("P1", f"a target was stopped for {state['self']['stop_max_ns'] / 1e6:.1f} ms")
    return state


# ---- the report ----

def lost_of(state):
    return sum(value for name, value in state.get("lost", {}).items() if name != "interval_overruns")


def tell_minute(minute, looks, state, lost_before, gap_ns, restarts, begun, idle):
    _, anon, total, fds, _ = looks.series[-1] if looks.series else (0, 0, 0, 0, 0)
    points = looks.after_warm_up(1)
    slope = "      -"
    if len(points) >= 12:
        value, low, high, _ = (v * 3600 / 1024 for v in fit(points))
        slope = f"{value:+.0f} ({low:+.0f}..{high:+.0f})"
    lost = lost_of(state)
    cpu = 100 * state["self"]["cpu_ns"] / 1e9 / max(time.monotonic() - begun, 1)
    print(f"{minute:4d}  anon {anon >> 10:6d} KiB  slope {slope:>20} KiB/h  with maps of files "
          f"{total >> 10:6d} KiB  fds {fds:4d}  lost {lost - lost_before:4d} ({lost})  "
          f"gap {gap_ns / 1e9:.2f} s  restarts {restarts[1]}+{restarts[2]}/{restarts[0]}  cpu {cpu:.1f} %  "
          f"idle {100 * idle:.0f} %"
          + "".join(f"  WARNS: {text}" for text in state["warnings"]), flush=True)
    return lost


def slope_text(value, low, high):
    """Of bytes an hour."""
    return f"{value / 1024:+.1f} KiB an hour (90 % of fits: {low / 1024:+.1f} .. {high / 1024:+.1f})"


def judge_slopes(looks):
    points, fds = looks.after_warm_up(1), looks.after_warm_up(4)
    if len(points) < 12:
        not_judged.append("P3")
        return
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
        not_judged.append(f"P3's slope ({text})")
        return
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


def end(recording, wanted_stop):
    if wanted_stop:
        done = subprocess.run([JS, "stop", recording.folder], capture_output=True, text=True)
        if done.returncode:
            breaks("P2", f"stop of {recording.name}: {done.returncode} {done.stdout}{done.stderr}")
    state = recording.await_state(lambda s: s["state"] == "ended" and "exit_code" in s, 20)
    if state["state"] != "ended" or state.get("exit_code"):
        breaks("P2", f"{recording.name} did not end in order: {state}")
    done = recording.verify()
    print(f"verify {recording.name}: {done.returncode}: {done.stdout.strip().splitlines()[-1:]}")
    if done.returncode:
        breaks("P2", f"verify of {recording.name}: {done.returncode} {done.stdout[-600:]}")
    try:
        recording.clock.wait(20)
    except subprocess.TimeoutExpired:
        breaks("P8", f"processes of {recording.name} are left: {recording.members}")
        recording.clock.kill()


def minute_of(turn, minute_s, folder, load, steady, killed):
    """One minute's faults, each in its place of the minute; (gap, restarts)"""
    begin = time.monotonic()

    def at(part):
        time.sleep(max(0.0, begin + part * minute_s - time.monotonic()))

    at(0.05)
    gap_ns = kill_recorder(killed, turn % 3 == 2) or 0
    time.sleep(0.1)
    stopped = load.stopped()
    if stopped:
        time.sleep(0.1)
        stopped = [tid for tid in load.stopped() if tid in stopped]
    if stopped:
        breaks("P1", f"{len(stopped)} threads of targets are stopped after a kill")
    at(0.2)
    for recording in (steady, killed):
        done = recording.verify()
        if done.returncode:
            breaks("P2", f"verify of {recording.name}: {done.returncode} {done.stdout[-600:]}")
    at(0.25)
    fill_disk(folder, (steady, killed))
    at(0.5)
    restarts = restart_target(load, steady)
    at(0.75)
    jump((steady, killed), random.choice((DAY, -DAY, -int(time.time()))))
    at(0.9)
    return gap_ns, restarts


def main():
    minutes = max(1, round(MINUTES))
    folder = tempfile.mkdtemp(prefix="jankscope-soak-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "soak", folder]).returncode:
        sys.exit("soak: needs root, to mount a disk that may be full")
    random.seed(11)
    load = Load()
    print(f"soak: {minutes} minutes, load of the machine {os.getloadavg()[0]:.1f}", flush=True)
    steady = Recording("steady", folder)
    killed = Recording("killed", folder, "-d", f"{minutes * 60}s")
    end_ns = killed.ask().get("end_boot_ns", 0)
    looks = Looks(steady, [killed], steady.ask()["keeper_pid"])
    looks.start()
    lost, begun = 0, time.monotonic()
    try:
        for minute in range(minutes):
            # The last one is shorter, because -d ends it.
            spell = Spell()
            gap_ns, restarts = minute_of(minute, 60 if minute + 1 < minutes else 52, folder, load,
                                         steady, killed)
            state = check_sums(steady)
            check_sums(killed)
            if state:
                lost = tell_minute(minute + 1, looks, state, lost, gap_ns, restarts, begun,
                                   spell.idle())
    except KeyboardInterrupt:
        print("# interrupted: what was seen so far")
        killed_wanted = True
    else:
        killed_wanted = False
        time.sleep(max(0.0, (end_ns - boot_ns()) / 1e9))
    looks.stop.set()
    looks.join()
    end(killed, killed_wanted)
    end(steady, True)
    print(f"churn: {load.end()}")
    judge_slopes(looks)
    if looks.most_disk > MAX_DISK:
        breaks("P5", f"a folder took {looks.most_disk} bytes of {MAX_DISK}")
    if looks.listeners:
        breaks("P10", f"sockets {looks.listeners} listen")
    subprocess.run(["umount", "-l", folder], check=False)
    shutil.rmtree(folder, ignore_errors=True)
    if not_judged:
        print(f"too short to judge: {', '.join(not_judged)}")
    if broken:
        print("FAIL: " + "; ".join(f"{name}: {text.splitlines()[0]}" for name, text in sorted(broken.items())))
        return 1
    if too_busy:
        print("NOT JUDGED, the machine was too busy: " + "; ".join(
            f"{name} ({len(texts)} times): {texts[0]}" for name, texts in sorted(too_busy.items())))
        return 2
    print(f"PASS: {minutes} minutes at {TIMES} times the rate, with F1, F3, F9 and F17 each minute: "
          "P1, P2, P5, P8, P10" + (" and P3 hold" if not not_judged else " hold"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
