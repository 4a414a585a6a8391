# SPDX-License-Identifier: BSD-2-Clause
"""One process in each interruptible system call of signal(7)'s two lists, beside others that nobody
records; how many of their calls came back early.
usage: eintr_truth.py [PART...]   (auto snapshot perf off ptrace)   FULL=1: longer

Left out: getrandom before the pool is ready, ioctl of a terminal that drains, read of /dev/fuse,
fanotify and userfaultfd, preadv2/pwritev2 (the same code as read), fsync and NFS locks (not
interruptible on a local file), System V calls of 32-bit programs, keyctl, ptrace's own waits."""
import subprocess, sys, threading, time
from attack_common import *

test = Test("eintr")
program = apps + "idle_syscall"


class Group:
    """All kinds in one mode, with a process for each."""

    def __init__(self, mode):
        self.mode = mode
        self.process = start([program, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, bufsize=1)
        self.pids = {}
        for line in self.process.stdout:
            if line.startswith("ready"):
                break
            kind, pid = line.split()
            self.pids[kind] = int(pid)

    def send(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def read(self):
        """{kind: (EINTR, came back early otherwise, calls, errno)}"""
        self.send("read")
        told = {}
        for line in self.process.stdout:
            if line.startswith("end"):
                return told
            words = line.split()
            told[words[0]] = tuple(int(w) for w in words[2:])
        raise RuntimeError("idle_syscall ended: %s" % self.process.poll())

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


def bad_kinds(told):
    return {k: v for k, v in told.items() if v[0] or v[1] or v[3] or v[2] != 1}


def eintr(told):
    return {k: v[0] for k, v in told.items() if v[0]}


def attack(stack):
    """Three groups, recorded by pid: idle since before the recording, the same with an epoll
    descriptor that the main thread never waits on, and loopers that go into the call under the
    eyes of the recorder. Two groups beside them that nobody records."""
    groups = [Group("idle"), Group("epoll"), Group("looper")]
    controls = [Group("epoll"), Group("looper")]
    everyone = groups + controls
    everyone_pids = [p for g in groups for p in g.pids.values()]
    recorder = Recorder("eintr " + stack, ["--block", "100ms", "--stack", stack, "-i", "500ms",
                                           "--max-lost", "100"], targets=everyone_pids, wait=30,
                        settle=2.5)
    for group in everyone:
        if group.mode == "looper":
            group.send("go")
    time.sleep(30 if full else 4)
    alive = recorder.process.poll() is None
    told = [(g.mode, g.read()) for g in groups]
    beside = [(g.mode, g.read()) for g in controls]
    stopped = stopped_or_traced(everyone_pids)
    code = recorder.end(30)
    after = [(g.mode, g.read()) for g in groups]
    for group in everyone:
        group.end()
    seen = sum(sum(eintr(t).values()) for _, t in after)
    early = [(m, k, v) for m, t in after for k, v in bad_kinds(t).items()]
    control = [(m, bad_kinds(t)) for m, t in beside if bad_kinds(t)]
    test.ok(not control and all(len(t) >= 76 for _, t in beside),
            "%s: nobody else disturbs them: %d calls unrecorded, all still in their first wait" %
            (stack, sum(len(t) for _, t in beside)), *control)
    test.ok(alive and code == 0 and recorder.footer, "%s: the recorder lives, ends with 0 and its "
            "footer" % stack, code, recorder.errors())
    captures = ((recorder.footer or {}).get("summary") or {}).get("captures") or {}
    note("%s: %d EINTR, %d calls came back early, of %d; captures %s; blocks of %d processes" % (
        stack, seen, len(early), len(everyone_pids), captures,
        len({b["pid"] for b in recorder.blocks})))
    if stack == "ptrace":
        test.ok("eintr_risk" in captures and captures["eintr_risk"] >= seen,
                "ptrace: the risk that is told (%s) is at least what they saw (%d)" % (
                    captures.get("eintr_risk"), seen), *early[:20])
    else:
        by_mode = {m: sorted(k for a, k, _ in early if a == m) for m in ("idle", "epoll", "looper")}
        test.ok(not early, "%s: no call of %d came back early" % (stack, len(everyone_pids)),
                *["%s: %s" % (m, " ".join(k)) for m, k in by_mode.items() if k])
    blocked = {b["pid"] for b in recorder.blocks}
    # A handler that waits for events again may be a nested loop or the next one: not asked here.
    hangs = {k: p for k, p in groups[2].pids.items()
             if not k.startswith(("epoll", "poll", "ppoll", "select", "pselect", "io_"))}
    missing = [k for k, p in hangs.items() if p not in blocked]
    test.ok(not missing, "%s: the %d handlers that hang are told as blocks" % (stack, len(hangs)),
            " ".join(missing))
    idle = ["%s/%s" % (g.mode, k) for g in groups[:2] for k, p in g.pids.items() if p in blocked]
    test.ok(not idle, "%s: a main thread that waits in one place from the start is no block" %
            stack, " ".join(idle))
    ours = [(b["pid"], b["waker"]) for b in recorder.blocks
            if b.get("waker", {}).get("pid") in {recorder.pid, *recorder.seen}]
    test.ok(not ours, "%s: the recorder names none of its own as a waker" % stack, *ours[:5])
    test.ok(not stopped, "%s: nobody is stopped or traced while it records" % stack, stopped[:10])


parts = []
for name in ("auto", "snapshot", "perf", "off", "ptrace"):
    part = (lambda n: lambda _: attack(n))(name)
    part.__name__ = name
    parts.append((part, 7))
test.run(parts, sys.argv[1:])
