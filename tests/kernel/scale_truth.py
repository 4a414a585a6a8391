# SPDX-License-Identifier: BSD-2-Clause
"""Many watched processes, many deaths at once, few descriptors.
usage: scale_truth.py [PART...]"""
import os, shutil, signal, statistics, subprocess, sys, threading, time
from attack_common import *

test = Test("scale")
# A uid of this run, so that two runs beside each other do not see one another's processes.
UID = 20000 + os.getpid() % 30000


class Many:
    def __init__(self, count, block_ms=120, every_ms=2000, phases=20, uid=UID, program=None):
        self.process = start([program or apps + "many", count, uid, block_ms, every_ms, phases],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pids = [int(p) for p in self.process.stdout.readline().split()]
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("many did not start")

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self, count):
        self.send("kill %d" % count)
        self.process.stdout.readline()

    def read(self):
        """[(pid, start, wall)]"""
        self.send("read")
        rows = []
        for line in self.process.stdout:
            if line == "end\n":
                return rows
            rows.append(tuple(int(w) for w in line.split()))
        raise RuntimeError("many died")


class Restarts:
    """A package that is killed and started again each second."""

    def __init__(self, name, uid):
        self.name, self.uid, self.stopping, self.starts = name, uid, threading.Event(), 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def be(self):
        os.setgroups([])
        os.setgid(self.uid)
        os.setuid(self.uid)

    def run(self):
        while not self.stopping.is_set():
            process = subprocess.Popen([self.name, "none"], executable=apps + "hang_target",
                                       stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                       preexec_fn=self.be, start_new_session=True)
            self.starts += 1
            self.stopping.wait(1)
            process.kill()
            process.wait()
            process.stdin.close()

    def end(self):
        self.stopping.set()
        self.thread.join()


def found_blocks(recorder, truths, threshold_ns):
    """(missed, without a stack, total) of the truths that are above the threshold by 10 ms."""
    by_pid = {}
    for b in recorder.blocks:
        if b["state"] != "open":
            by_pid.setdefault(b["pid"], []).append(b)
    missed, bare, total = [], [], 0
    for pid, since, wall in truths:
        if wall < threshold_ns + 10 * MS:
            continue
        total += 1
        hits = [b for b in by_pid.get(pid, []) if since - 50 * MS <= b["start_boot_ns"] <=
                since + 10 * MS and b["wall_ns"] >= wall - 5 * MS]
        if not hits:
            missed.append((pid, since, wall // MS))
        elif not has_stack(hits[0]):
            bare.append((pid, wall // MS, hits[0].get("missing"), hits[0].get("lost")))
    return missed, bare, total


def end_run(recorder, control, interval, begin, end):
    """End both; whether the intervals from begin to end held, with the figures, and how long the
    recorder's exit may have taken."""
    recorder.end(40)
    allowed, until = recorder.exit_allowed(), boot_ns()
    control.end()
    recorder.intervals = [i for i in recorder.intervals if begin <= i["t_boot_ns"] <= end]
    control.rows = [(t, d) for t, d in control.rows if begin <= t <= until]
    good, text = intervals_hold(recorder, control, interval, skip=1, work_counts=True)
    return good, text, allowed


def judge_innocent(innocent, recorder, name, least):
    found, stacks, total, missed = innocent.check(recorder)
    test.ok(found == total and stacks == total and total >= least,
            "%s: the innocent app's %d blocks are told (%d) with stacks (%d)" % (
                name, total, found, stacks), *missed[:4])


def judge_exit(recorder, allowed, name):
    test.ok(recorder.code == 0 and recorder.footer and recorder.exit_seconds <= allowed, name,
            "%.2f s of %.2f, code %s" % (recorder.exit_seconds, allowed, recorder.code),
            recorder.errors())


def crowd(interval, count=300):
    """300 of one uid; 60 die at once twice; another of the uid restarts each second."""
    many = Many(count)
    innocent = Innocent()
    restarts = Restarts("attack.again.%d" % os.getpid(), UID)
    control = Control(interval)
    name = "%d watched, %d ms" % (count, interval)
    recorder = Recorder(name, ["-i", "%dms" % interval, "--block", "100ms", "-u", str(UID),
                               "--max-lost", "100"], targets=[innocent.pid], wait=60, settle=1)
    ready = wait_for(lambda: recorder.load() and len([e for e in recorder.events
                                                      if e["event"] == "target_start"]) >= count,
                     20, 0.5)
    time.sleep(3)
    begin = boot_ns()
    innocent.begin()
    seconds = 20 if full else 8
    time.sleep(seconds / 4)
    many.kill(60)
    killed = boot_ns()
    time.sleep(seconds / 4)
    many.kill(60)
    time.sleep(seconds / 2)
    restarts.end()
    innocent.end()
    many.send("quiet")
    time.sleep(0.5)
    end = boot_ns()
    alive = [p for p in many.pids if state_of(p) not in ("gone", "Z")]
    truths = [t for t in many.read() if begin <= t[1] and t[0] in set(alive)]
    good, text, allowed = end_run(recorder, control, interval, begin, end)
    test.ok(good, "%s: no interval is longer than 1.2 of its length when 60 die at once" % name,
            text)
    judge_innocent(innocent, recorder, name, seconds / 2)
    lost, bare, wanted = found_blocks(recorder, truths, 100 * MS)
    said = recorder.losses()
    unwatched = {k: v for k, v in said.items() if "watch" in k or "target" in k}
    started = len({e.get("pid") for e in recorder.events if e["event"] == "target_start"})
    # Those that are not watched have to be counted: one by one for all that is missing.
    missing_pids = len({p for p, _, _ in lost})
    test.ok(wanted >= len(alive) * 2 and (not lost or sum(unwatched.values()) >= missing_pids),
            "%s: %d blocks of %d others are told, or who is not watched is counted" % (
                name, wanted, len(alive)), "missed %d of %d processes" % (len(lost), missing_pids),
            lost[:3], said, "target_start of %d" % started)
    # 300 processes with 150 blocks a second take the unwinder a good part of a CPU: where it does
    # not get that, the stacks that found no room in its queue are told and counted.
    untold = [b for b in bare if (b[2] or {}).get("stacks") != "too many stacks waited for the unwinder"]
    test.ok(len(untold) <= wanted / 100 and
            len(bare) - len(untold) <= said.get("lost.stacks_not_unwound", 0),
            "%s: all of them with a stack (%d without), or it is told why not" % (name, len(bare)),
            *untold[:5], *sorted(said.items()))
    judge_exit(recorder, allowed,
               "%s: ends within 1 s of SIGINT with %d watched" % (name, len(alive)))
    left = recorder.helpers()
    test.ok(wait_for(lambda: not recorder.helpers(), 3), "%s: no process is left" % name, left)
    note("%s: ready %s, exit %.2f s, %s, blocks %d, missed %d, bare %d, restarts %d, %s" % (
        name, bool(ready), recorder.exit_seconds, text, wanted, len(lost), len(bare),
        restarts.starts, said))


def crowd_200(_):
    crowd(200)


def crowd_50(_):
    crowd(50)


def thousands(interval=200, count=10000):
    """A glob that means 10,000 processes, which sleep: finding, reading and dropping them has to
    leave the intervals alone."""
    need_kib = count * 150
    with open("/proc/meminfo") as f:
        free_kib = int(f.read().split("MemAvailable:")[1].split()[0])
    if free_kib < need_kib + (1 << 20):
        for _ in range(4):
            test.skip("%d processes" % count, "%d KiB of memory are free, they take %d" % (
                free_kib, need_kib))
        return
    # By a name of this run, so that two runs do not watch one another's.
    program = os.path.join(work, "crowd-%d" % os.getpid())
    shutil.copy(apps + "many", program)
    innocent = Innocent()
    control = Control(interval)
    few = Many(50, block_ms=0, every_ms=3600000, phases=1, program=program)
    name = "%d processes of a name, %d ms" % (count, interval)
    recorder = Recorder(name, ["-i", "%dms" % interval, "--block", "100ms", "--max-lost", "100"],
                        targets=[innocent.pid, os.path.basename(program) + "*"], wait=60, settle=1)
    begin = boot_ns()
    innocent.begin()
    crowd = Many(count, block_ms=0, every_ms=3600000, phases=1, program=program)
    meant = set(crowd.pids) | set(few.pids)

    def told(event):
        return {e.get("pid") for e in recorder.events if e["event"] == event} & meant
    # To make them takes this test itself some two minutes.
    found = wait_for(lambda: recorder.load() and meant <= told("target_start"), 60, 1)
    took = max(((e["t_boot_ns"] - max(e["start_boot_ns"], begin)) / 1e9 for e in recorder.events
                if e["event"] == "target_start" and e["pid"] in meant), default=0)
    time.sleep(5)
    crowd.kill(count)
    gone = wait_for(lambda: recorder.load() and set(crowd.pids) <= told("target_exit"), 60, 1)
    innocent.end()
    end = boot_ns()
    good, text, allowed = end_run(recorder, control, interval, begin, end)
    test.ok(good, "%s: no interval is longer than 1.2 of its length" % name, text)
    test.ok(found and gone, "%s: each is told to start and to end" % name,
            len(told("target_start")), len(told("target_exit")))
    judge_innocent(innocent, recorder, name, 5)
    judge_exit(recorder, allowed, "%s: ends within 1 s of SIGINT" % name)
    note("%s: each told at most %.1f s after its birth, %s, %s" % (name, took, text, recorder.losses()))


def thousands_of_a_name(_):
    thousands()


def names_of_a_crowd(_, count=1500):
    """Born together, under a glob: each is told with the name that it gives itself, which has to be
    asked for, and the one that is born after them is told after them."""
    program = os.path.join(work, "names-%d" % os.getpid())
    shutil.copy(apps + "many", program)
    quiet = dict(block_ms=0, every_ms=3600000, phases=1, program=program)
    few = Many(5, **quiet)
    name = "%d born together" % count
    recorder = Recorder(name, ["-i", "200ms", "--block", "100ms", "--max-lost", "100"],
                        targets=[os.path.basename(program) + "*"], wait=60)
    crowd = set(Many(count, **quiet).pids)
    newcomer = Many(1, **quiet).pids[0]

    def starts():
        recorder.load()
        return {e["pid"]: e for e in recorder.events if e["event"] == "target_start"}
    wait_for(lambda: crowd | {newcomer} <= set(starts()), 60, 1)
    told = starts()
    recorder.end(30)
    mine = [told[p] for p in crowd if p in told]
    test.ok(len(mine) == count and newcomer in told, "%s: each is told" % name, len(mine), count)
    named = sum(e["process"] == program for e in mine)
    # One that is read while it is forked may have a whole request of 128 read again, each alone.
    test.ok(named >= count * 0.99, "%s: with the name that it gives itself (%d)" % (name, named))
    # Each of the two probers that there always are may have such a request as its last one.
    after = sum(e["seq"] > told[newcomer]["seq"] for e in mine) if newcomer in told else count
    test.ok(after <= 2 * 128 + count / 100, "%s: before the one that was born after them" % name, after)
    # A question is refused while all probers stand still, and asked again.
    refused = sum(v for k, v in recorder.losses().items()
                  if k in ("late.probe_read_refused", "late.probe_names_refused"))
    test.ok(refused <= count / 20 and recorder.code == 0, "%s: their names are not refused" % name,
            refused, recorder.code, recorder.errors())
    lags = sorted((e["t_boot_ns"] - e["start_boot_ns"]) / 1e9 for e in mine)
    note("%s: told after %.2f s (median), %.2f s at the most, %d already there, %s" % (
        name, lags[len(lags) // 2], lags[-1], len(few.pids), recorder.losses()))


def few_files(limits, name, count=40):
    """No fall down the ladder of detectors for want of a descriptor."""
    many = Many(count, every_ms=1000)
    innocent = Innocent()
    control = Control(200)
    recorder = Recorder(name, ["-i", "200ms", "--block", "100ms", "-u", str(UID), "--max-lost",
                               "100"], targets=[innocent.pid], wait=30, settle=2,
                        limits=["prlimit", "--nofile=" + limits, "--"])
    innocent.begin()
    time.sleep(5)
    held = recorder.links()
    ours = [l for i, l in bpf_links().items() if i in held]
    hooks = [l for l in ours if l.get("tp_name") in ("sys_enter", "sys_exit")]
    innocent.end()
    many.send("quiet")
    time.sleep(0.5)
    truths = many.read()
    recorder.end(30)
    control.end()
    begin = recorder.intervals[5]["t_boot_ns"] if len(recorder.intervals) > 5 else 0
    truths = [t for t in truths if t[1] > begin]
    by_detector = {}
    for b in recorder.blocks:
        by_detector[b.get("detector")] = by_detector.get(b.get("detector"), 0) + 1
    # Where not even the programs can be loaded, the header says so and why.
    source = recorder.source("blocks")
    told = source.get("state") == "absent" and "open files" in source.get("reason", "").lower()
    # Or it ends at once with one line that says so, and records nothing.
    ended = recorder.code == 1 and "error: Too many open files" in recorder.errors() and \
        not recorder.intervals
    said = recorder.losses()
    # Programs that were loaded see nobody where no process could be read.
    told = told or ended or any("processes_unread" in key and n for key, n in said.items())
    test.ok(ended or recorder.code in (0, 3) and recorder.footer and (recorder.blocks or told),
            "%s: it records, or says for want of what it does not" % name, recorder.code, recorder.errors())
    test.ok(not hooks and "sys_enter" not in by_detector and (by_detector or told),
            "%s: no hook on every system call of the device" % name, hooks, by_detector,
            recorder.source("blocks"))
    lost, bare, wanted = found_blocks(recorder, truths, 100 * MS)
    counted = {k: v for k, v in said.items() if v and "missed_switches" not in k}
    test.ok(wanted and (not lost or counted or told), "%s: %d blocks are told, or what is lost is counted" %
            (name, wanted), "missed %d" % len(lost), lost[:3], said)
    good, text = intervals_hold(recorder, control, 200, skip=5)
    test.ok(good or ended, "%s: intervals hold" % name, text)
    note("%s: %s, links of ours %d, missed %d of %d, bare %d, %s" % (
        name, by_detector, len(ours), len(lost), wanted, len(bare), said))
    return recorder, lost, bare


def few_files_hard(_):
    few_files("96:96", "96 descriptors")


def few_files_soft(_):
    recorder, lost, bare = few_files("96:4096", "96 descriptors, 4096 if asked for", 120)
    # One sample in a hundred may come later than the 20 ms between threshold and end.
    test.ok(recorder.blocks and not lost and len(bare) <= len(recorder.blocks) / 100,
            "96:4096: the limit was raised, nothing is missing",
            len(lost), bare[:3])


parts = [(crowd_200, 6), (crowd_50, 6), (names_of_a_crowd, 4), (few_files_hard, 4),
         (few_files_soft, 5)]
# Takes minutes, most of them to make the processes.
if full or "thousands_of_a_name" in sys.argv:
    parts.append((thousands_of_a_name, 4))
test.run(parts, sys.argv[1:])
