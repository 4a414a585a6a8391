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
BUILD/soak-looks.jsonl has each look at memory.

usage: soak.py BUILD [MINUTES]    exit code 0: PASS, 1: FAIL, 2: NOT JUDGED"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from soak_memory import Looks, judge, read, slope_now

BUILD = os.path.abspath(sys.argv[1])
MINUTES = float(sys.argv[2]) if len(sys.argv) > 2 else 30
JS, APPS = f"{BUILD}/jankscope", f"{BUILD}/tests/apps"
APP, APP_UID, CHURN_UID = "jank.soak.app", 20124, 20123
TIMES = 20
# In the first nine minutes, so that what the unwinder keeps of files and of code without one (256 of each,
# one a second) is full and was taken by others once before slopes are looked at: with RATES' files alone
# that takes 25 minutes.
WARM_UP = {"seconds": 540, "blocks": 40, "files": 20, "memfds": 20}
# of a phone in use, a second (tests/bench/soak.py)
RATES = {"threads": 16, "procs": 1, "files": 0.1, "memfds": 0.1, "flows": 10, "blocks": 0.4}
INTERVAL_NS = 50_000_000
DISK, MAX_DISK = 256 << 20, 48 << 20
DAY = 86400
GAP_NS, STOP_NS, FOLLOW_S = 2_000_000_000, 50_000_000, 1.0
FULL_S, RESTART_S, RESTART_EVERY_S = 8, 10, 0.2
COUNT_S = 6           # a target whose start was never told is counted so long after its end
IDLE_LEAST = 0.2      # a machine with less time to spare is too busy to judge what is late

broken, too_busy = {}, {}


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
        self.warm_up = subprocess.Popen(
            [f"{APPS}/churn", f"uid={CHURN_UID}", "length_ms=20", *(f"{name}={n}" for name, n in WARM_UP.items())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
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
        self.warm_up.kill()
        self.warm_up.wait()
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
    """F9: each birth is told within a second; one that no scan of a busy machine met is counted, and
    so is each of which the kernel had no room to tell (target_births_untold, of any process)."""
    since, begin_ns, until = time.time(), boot_ns(), time.monotonic() + RESTART_S
    made, spell = set(), Spell()
    while time.monotonic() < until:
        load.restart()
        made.add(load.app.pid)
        time.sleep(RESTART_EVERY_S)
    # To follow it, and for the writer to write it.
    time.sleep(FOLLOW_S + 0.5)
    told, unmet, untold = targets_since(steady.folder, since, begin_ns)
    told &= made
    idle = spell.idle()
    until = time.monotonic() + COUNT_S
    while len(told) + unmet < len(made) and time.monotonic() < until:
        time.sleep(0.5)
        told, unmet, untold = targets_since(steady.folder, since, begin_ns)
        told &= made
    if told == made and not unmet:
        return len(made), len(told), 0
    text = f"{len(made)} restarts of a target, {len(told)} told, {unmet} counted as unmet, " \
        f"{untold} births of any process as untold"
    if not 0 <= len(made) - len(told) - unmet <= untold:
        breaks("F9", f"{text}; not told {sorted(made - told)}, all CPUs together idle {100 * idle:.0f} %")
    else:
        late("F9", text, spell)
    return len(made), len(told), len(made) - len(told)


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
    """(the pids of target_start, the sums of targets_unmet and target_births_untold) of the records
    since then"""
    pids, plain = set(), set()
    sums = {"targets_unmet": 0, "target_births_untold": 0}
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
            for key, count in re.findall(r'"(targets_unmet|target_births_untold)":(\d+)', line):
                sums[key] += int(count)
    return pids, *sums.values()


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
    lost = lost_of(state)
    cpu = 100 * state["self"]["cpu_ns"] / 1e9 / max(time.monotonic() - begun, 1)
    print(f"{minute:4d}  anon {anon >> 10:6d} KiB  slope {slope_now(looks):>20} KiB/h  with maps of files "
          f"{total >> 10:6d} KiB  fds {fds:4d}  lost {lost - lost_before:4d} ({lost})  "
          f"gap {gap_ns / 1e9:.2f} s  restarts {restarts[1]}+{restarts[2]}/{restarts[0]}  cpu {cpu:.1f} %  "
          f"idle {100 * idle:.0f} %"
          + "".join(f"  WARNS: {text}" for text in state["warnings"]), flush=True)
    return lost


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
    with open(f"{BUILD}/soak-looks.jsonl", "w", encoding="ascii") as log:
        return soak(minutes, folder, load, steady, killed, log)


def soak(minutes, folder, load, steady, killed, log):
    end_ns = killed.ask().get("end_boot_ns", 0)
    looks = Looks(steady, [killed], steady.ask()["keeper_pid"], log)
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
    not_judged = judge(looks, breaks)
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
    if killed_wanted:
        print(f"NOT JUDGED: interrupted after {(time.monotonic() - begun) / 60:.0f} of {minutes} minutes; nothing broke")
        return 2
    print(f"PASS: {minutes} minutes at {TIMES} times the rate, with F1, F3, F9 and F17 each minute: "
          "P1, P2, P5, P8, P10" + (" and P3 hold" if not not_judged else " hold"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
