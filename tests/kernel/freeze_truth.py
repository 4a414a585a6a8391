# SPDX-License-Identifier: BSD-2-Clause
"""Targets that are frozen by their cgroup (v1 and v2), while idle and amid a block, while they are
captured, while probes are set and removed. usage: freeze_truth.py [PART...]   FULL=1: all parts"""
import os, random, signal, sys, time
from attack_common import *
from rhythm_common import *

test = Test("freeze")
BLOCK = 100
# A target is looked at each 50 ms, and a change counts from the middle between two looks.
LOOK = 60 * MS


class Group:
    """A cgroup of our own of this version; None where there is no such freezer."""
    places = {1: ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
              2: (None, "cgroup.freeze", "1", "0")}

    def __init__(self, version, pids):
        base, self.file, self.on, self.off = self.places[version]
        if version == 2:
            base = next((b for b in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
                         if os.path.exists(b + "/cgroup.controllers")), None)
        self.base, self.version, self.pids = base, version, pids
        self.path = "%s/freeze-%d-%d" % (base, os.getpid(), random.getrandbits(20))
        self.times = []
        if not base:
            raise OSError("no cgroup v%d" % version)
        os.mkdir(self.path)
        if not os.path.exists(self.path + "/" + self.file):
            os.rmdir(self.path)
            raise OSError("no freezer in cgroup v%d" % version)
        for pid in pids:
            self.move(pid, self.path)

    @staticmethod
    def move(pid, path):
        try:
            with open(path + "/cgroup.procs", "w") as f:
                f.write(str(pid))
        except OSError:
            pass

    def set(self, on):
        with open(self.path + "/" + self.file, "w") as f:
            f.write(self.on if on else self.off)

    def is_frozen(self):
        if self.version == 1:
            with open(self.path + "/" + self.file) as f:
                return f.read().strip() == "FROZEN"
        with open(self.path + "/cgroup.events") as f:
            return "frozen 1" in f.read()

    def freeze(self, seconds=None):
        """True: all of them came to a stand."""
        since = boot_ns()
        self.set(True)
        stands = wait_for(self.is_frozen, 2, 0.001)
        if seconds is not None:
            time.sleep(seconds)
            self.set(False)
            self.times.append((since, boot_ns()))
        return stands

    def end(self):
        self.set(False)
        for pid in self.pids:
            self.move(pid, self.base)
        wait_for(lambda: not open(self.path + "/cgroup.procs").read(), 2)
        try:
            os.rmdir(self.path)
        except OSError as e:
            note("%s: %s" % (self.path, e))

    def during(self, begin, wall):
        """How much of this time it was frozen."""
        return sum(max(0, min(b, begin + wall) - max(a, begin)) for a, b in self.times)


def group_of(version, targets, results, name):
    try:
        return Group(version, [t.pid for t in targets])
    except OSError as e:
        for i in range(results):
            test.skip("%s %d" % (name, i), str(e))
        return None


def compare_frozen(recorder, target, group, since, until):
    wrong, worst = [], 0
    mine = recorder.ended_blocks(target.pid)
    rows = [(b, w) for b, w in target.read() if w and b >= since and b + w <= until]
    for begin, wall in rows:
        frozen = group.during(begin, wall)
        awake = wall - frozen
        hits = [b for b in mine if b["start_boot_ns"] <= begin + 5 * MS and
                b["start_boot_ns"] + b["wall_ns"] >= begin + wall - 5 * MS]
        if awake >= BLOCK * MS + (LOOK if frozen else 5 * MS) and len(hits) != 1:
            wrong.append(("told %d times" % len(hits), wall / MS, frozen / MS))
        for b in hits:
            b["true"] = True
            if awake < BLOCK * MS - (LOOK if frozen else 5 * MS) - b["ledger"]["runnable_ns"]:
                wrong.append(("no block", wall / MS, frozen / MS, b["ledger"]))
            # One that it was frozen before has begun with that, in place of its wait.
            worst = max(worst, abs(b["ledger"]["stopped_ns"] -
                                   group.during(b["start_boot_ns"], b["wall_ns"])))
            if not has_stack(b):
                wrong.append(("no stack", wall / MS, frozen / MS, b.get("missing")))
    for b in mine:
        if "true" not in b and since <= b["start_boot_ns"] <= until - 2000 * MS:
            wrong.append(("false", b["wall_ns"] / MS, b["ledger"], [
                f.get("symbol") for s in b.get("stacks", [])[:1] for f in s["frames"][:4]]))
    # What lasts is told as open only for time that it was not frozen.
    for b in recorder.blocks:
        if b["pid"] == target.pid and b["state"] == "open" and since <= b["start_boot_ns"] and \
                b["wall_ns"] - group.during(b["start_boot_ns"], b["wall_ns"]) < BLOCK * MS - LOOK:
            wrong.append(("open", b["wall_ns"] / MS, b["ledger"]))
    return wrong, worst, len(rows)


def blocks(version, *flags):
    name = "v%d%s" % (version, "".join(" " + f for f in flags))
    # The second one has no block of its own.
    targets = [Rhythm("150:s230"), Rhythm("600:s20"), Rhythm("60:c140")]
    group = group_of(version, targets, 3, name)
    if not group:
        return
    stands = []
    try:
        recorder = record(name, targets, *flags, threshold=BLOCK)
        since = boot_ns()
        for _ in range(12 if full else 4):
            time.sleep(0.2 + random.random() * 0.6)
            stands.append(group.freeze(random.choice([0.1, 0.3, 0.7, 1.2])))
        time.sleep(1)
        until = boot_ns()
        time.sleep(1.2)
        recorder.end()
    finally:
        group.end()
    wrong, worst, count = [], 0, 0
    for target in targets:
        its, far, rows = compare_frozen(recorder, target, group, since, until)
        wrong += [(target.pid, *w) for w in its]
        worst, count = max(worst, far), count + rows
    test.ok(recorder.footer and count > 12 and not wrong, "%s: of %d messages none is a block for "
            "the time that it was frozen, and no block is missed" % (name, count),
            "%d wrong" % len(wrong), *wrong[:6], recorder.losses(), recorder.errors())
    test.ok(worst <= 2 * LOOK, "%s: the ledgers have that time within %d ms (%.0f ms)" % (
        name, 2 * LOOK / MS, worst / MS))
    # A freezer interrupts waits of its own, once each time; what a stop of ours does is said.
    interrupted = [t.read() and t.interrupted for t in targets]
    excess = sum(max(0, i - len(group.times)) for i in interrupted)
    risk = recorder.footer and recorder.footer["summary"]["captures"]["eintr_risk"]
    test.ok(all(stands) and recorder.footer and excess <= risk and
            not stopped_or_traced([t.pid for t in targets]),
            "%s: it can be frozen at any time, and nothing else interrupts it unsaid (%d of %d)" % (
                name, excess, risk or 0), stands, interrupted,
            stopped_or_traced([t.pid for t in targets]))


def ends(version):
    """The recorder begins, ends, and is killed while its targets are frozen."""
    name = "v%d: while frozen" % version
    targets = [Rhythm("50:s130") for _ in range(4)]
    time.sleep(0.3)
    group = group_of(version, targets, 4, name)
    if not group:
        return
    bad, times, moved, told = [], [], [], []
    try:
        for how in ("SIGINT", "SIGKILL", "begins"):
            if how == "begins":
                group.freeze()
            recorder = record(name + " " + how, targets, threshold=BLOCK, settle=1.5)
            if how == "begins":
                group.set(False)
                time.sleep(2)
                since = boot_ns()
                time.sleep(1.5)
            else:
                group.freeze()
            links = recorder.links()
            if not links:
                bad.append((how, "no link"))
            recorder.interrupt(signal.SIGKILL if how == "SIGKILL" else signal.SIGINT)
            recorder.wait(8)
            times.append(round(recorder.exit_seconds, 2))
            if recorder.exit_seconds > recorder.exit_allowed() or \
                    (how != "SIGKILL" and (recorder.code or not recorder.footer)):
                bad.append((how, recorder.exit_seconds, recorder.code, recorder.errors()))
            if not wait_for(lambda: not recorder.helpers(), 3):
                bad.append((how, "left", {p: (*w, wchan(p)) for p, w in
                                          recorder.helpers().items()}))
            if not wait_for(lambda: not links & set(bpf_links()), 3, 0.1):
                bad.append((how, "links are left"))
            if how != "begins" and not group.is_frozen():
                bad.append((how, "not frozen any more"))
            group.set(False)
            before = [len(t.read()) for t in targets]
            moved.append(bool(wait_for(lambda: all(len(t.read()) > n for t, n in
                                                   zip(targets, before)), 2)))
            told.append(stopped_or_traced([t.pid for t in targets]))
    finally:
        group.end()
    test.ok(not bad, "%s: a recorder ends within 1 s and leaves nothing (%s s)" % (name, times),
            *bad)
    test.ok(all(moved), "%s: they go on when they thaw" % name, moved)
    test.ok(not any(told), "%s: none is stopped or traced" % name, told)
    mine = [b for t in targets for b in recorder.ended_blocks(t.pid) if b["start_boot_ns"] > since]
    test.ok(len(mine) >= 4 * 4 and all(has_stack(b) for b in mine) and
            {b["detector"] for b in mine} <= {"uprobe", "uprobe_multi"},
            "%s: a recorder that began then tells their %d blocks, by its probes" % (
                name, len(mine)), len(mine), {b["detector"] for b in mine},
            [b.get("missing") for b in mine if not has_stack(b)][:3])


def blocks_1(_):
    blocks(1)


def blocks_2(_):
    blocks(2)


def switch_1(_):
    blocks(1, "--detector", "switch")


def switch_2(_):
    blocks(2, "--detector", "switch")


def syscall_2(_):
    blocks(2, "--detector", "syscall")


def ptrace_1(_):
    blocks(1, "--stack", "ptrace")


def ptrace_2(_):
    blocks(2, "--stack", "ptrace")


def ends_1(_):
    ends(1)


def ends_2(_):
    ends(2)


parts = [(blocks_1, 3), (blocks_2, 3), (ends_2, 4)]
more = [(ptrace_1, 3), (ptrace_2, 3), (switch_1, 3), (switch_2, 3), (syscall_2, 3),
        (ends_1, 4)]
parts += [part for part in more if full or part[0].__name__ in sys.argv]
test.run(parts, sys.argv[1:])
