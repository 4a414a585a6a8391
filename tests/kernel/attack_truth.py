# SPDX-License-Identifier: BSD-2-Clause
"""Limits, dying helpers, threads that end and targets that come and go: what is said must be so.
usage: attack_truth.py [PART...]"""
import os, resource, signal, subprocess, sys, time
from attack_common import *

test = Test("attack")
FLAGS = ["-i", "200ms", "--block", "100ms", "--max-lost", "100"]


def looper():
    return Innocent().begin()


def descriptors(_):
    """Short of descriptors in the middle of a run, a target that lives has not exited."""
    app = looper()
    recorder = Recorder("descriptors", FLAGS, [app.pid], settle=1)
    before = resource.prlimit(recorder.pid, resource.RLIMIT_NOFILE)
    for pid in (recorder.pid, *recorder.of_kind("prober"), *recorder.of_kind("warden")):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, before[1]))
    time.sleep(3)
    test.ok(recorder.process.poll() is None, "descriptors: the run goes on")
    resource.prlimit(recorder.pid, resource.RLIMIT_NOFILE, before)
    time.sleep(1)
    recorder.end()
    exits = [e for e in recorder.events if e["event"] == "target_exit"]
    test.ok(recorder.footer and not exits and "target exited" not in recorder.errors(),
            "descriptors: the target has not exited", exits, recorder.errors())
    test.ok(recorder.losses().get("late.processes_unread"), "descriptors: it is counted",
            recorder.losses())
    few = Recorder("few descriptors", FLAGS, [app.pid], limits=["prlimit", "--nofile=12"], wait=0,
                   settle=1)
    few.end()
    test.ok(few.code != 4 and "no such process" not in few.errors() and
            "target exited" not in few.errors(), "descriptors: with 12 no false word of the target",
            few.code, few.errors())


def helpers(_):
    """All helpers at once: the run goes on, ends, and says what was missing."""
    app = looper()
    recorder = Recorder("helpers", FLAGS, [app.pid], settle=1)
    for _ in range(3):
        for pid, (comm, _) in recorder.helpers().items():
            if comm.startswith("jank-"):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
    time.sleep(2.5)
    going = recorder.process.poll() is None
    recorder.end()
    test.ok(going and recorder.code == 0 and recorder.footer, "helpers: the run goes on to its end",
            recorder.code, recorder.errors())
    said = recorder.losses()
    test.ok(any(k.endswith(("warden_replaced", "warden_absent")) for k in said),
            "helpers: their death is counted", said)
    test.ok(wait_for(lambda: not recorder.helpers(), 2), "helpers: none is left",
            recorder.helpers())


def threads(_):
    """--thread goes on with another thread of the name when one ends, and says what it finds."""
    app = start([apps + "loop_kinds", "threads", "/"], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    recorder = Recorder("threads", FLAGS + ["--thread", "short-*"], [app.pid])
    time.sleep(5)
    recorder.end()
    tids = {b["tid"] for b in recorder.blocks}
    test.ok(recorder.footer and len(tids) >= 3, "threads: %d threads that live for a second had "
            "blocks, one after the other" % len(tids), recorder.events, recorder.errors())
    recorder = Recorder("no thread", FLAGS + ["--thread", "nosuch"], [app.pid])
    recorder.end()
    starts = [e for e in recorder.events if e["event"] == "target_start"]
    test.ok(len(starts) == 1 and "nosuch" in recorder.source("blocks").get("reason", ""),
            "threads: a name that nobody has is said, the target's start too", starts,
            recorder.header)


def brief(_):
    """Targets that live for some 20 ms: each that exits has started, and the footer is the end."""
    name = "brief%d" % (os.getpid() % 100000)
    program = os.path.join(work, name)
    shutil.copy(apps + "loop_kinds", program)
    start(["bash", "-c", "while :; do %s epoll / >/dev/null & sleep 0.02; kill -9 $!; done" %
           program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lost, words, ends = [], [], []
    for i in range(6):
        recorder = Recorder("brief %d" % i, FLAGS + ["--wait", "5s"], [name], settle=0.4 + i * 0.05)
        recorder.end()
        told = {e["pid"] for e in recorder.events if e["event"] == "target_start"}
        lost += [e for e in recorder.events if e["event"] == "target_exit" and e["pid"] not in told]
        words += [recorder.errors()] if "cannot write" in recorder.errors() else []
        ends.append(bool(recorder.footer))
    test.ok(all(ends) and not words, "brief: nothing comes behind the footer", words, ends)
    test.ok(not lost, "brief: who is told to exit was told to start", *lost[:4])


test.run([(descriptors, 4), (helpers, 3), (threads, 2), (brief, 2)], sys.argv[1:])
