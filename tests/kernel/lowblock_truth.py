# SPDX-License-Identifier: BSD-2-Clause
"""Blocks of 9 to 12 ms, 60 a second, with a threshold of 8 ms: all told, 99 % with a stack.
usage: lowblock_truth.py [PART...]"""
import os, subprocess, sys, time
from attack_common import *

test = Test("lowblock")
SECONDS = 40 if full else 8


def switches_of(pid, kind):
    """How often the threads of a process left their CPU; "voluntary_...": to wait."""
    count = 0
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, tid)) as f:
            count += sum(int(line.split()[1]) for line in f
                         if kind in line and not (kind[0] == "v" and line[0] == "n"))
    return count


def all_switches(recorder, kind="ctxt_switches"):
    """Of the processes of the run, by their names; probers together."""
    counts = {"recorder": switches_of(recorder.pid, kind)}
    for pid, (name, _) in recorder.helpers().items():
        counts[name] = counts.get(name, 0) + switches_of(pid, kind)
    return counts


def low(name, extra, threshold="8ms", block="9-12", every=16, stack="auto"):
    rate = 0.8 * 1000 / every
    many = start([apps + "many", 1, 22000 + os.getpid() % 20000, block, every, 1, *extra],
                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    pid = int(many.stdout.readline())
    many.stdout.readline()
    recorder = Recorder(name, ["--block", threshold, "-i", "1s", "--max-lost", "100", "--stack",
                               stack], targets=[pid], settle=2)
    begin, before = boot_ns(), all_switches(recorder)
    time.sleep(SECONDS)
    end, after = boot_ns(), all_switches(recorder)
    switches = {name: after[name] - before.get(name, 0) for name in after}
    recorder.end()
    many.stdin.write("read\n")
    many.stdin.flush()
    truths = []
    for line in many.stdout:
        if line == "end\n":
            break
        _, since, wall = (int(w) for w in line.split())
        if begin <= since and since + wall <= end - 30 * MS:
            truths.append((since, wall))
    mine = sorted(recorder.ended_blocks(pid), key=lambda b: b["start_boot_ns"])
    missed, bare, at = [], [], 0
    for since, wall in truths:
        # Two messages that a late timer brought at once are one period.
        hits = [b for b in mine if b["start_boot_ns"] <= since + 3 * MS and
                b["start_boot_ns"] + b["wall_ns"] >= since + wall - 3 * MS and
                b["start_boot_ns"] >= since - 100 * MS]
        if not hits:
            missed.append((since, wall / MS))
        elif not has_stack(hits[0]):
            bare.append((hits[0]["wall_ns"] / MS, hits[0].get("missing"), hits[0].get("lost")))
    said = recorder.losses()
    words = {k: v for k, v in said.items() if "stack" in k or "sample" in k or "thin" in k or
             "capture" in k}
    words.update({e["event"]: 1 for e in recorder.events if e["event"] == "degraded"})
    test.ok(recorder.code == 0 and recorder.footer and len(truths) >= SECONDS * rate,
            "%s: %d blocks in %d s" % (name, len(truths), SECONDS), recorder.code,
            recorder.errors())
    test.ok(truths and not missed, "%s: all are told" % name, len(missed), missed[:5], said)
    share = 1 - len(bare) / max(len(truths), 1)
    test.ok(truths and share >= 0.99, "%s: %.1f %% of them with a stack, 99 wanted" % (
        name, 100 * share), *bare[:4])
    # One for the wake-up at a period's begin and one for the sample's time, and as many when others
    # take its CPU. A sampler that each switch of the target wakes takes its CPU 30 times a block.
    test.ok(switches["jank-sampler"] <= 10 * len(truths),
            "%s: the sampler wakes seldom (%d switches, %d blocks)" % (
                name, switches["jank-sampler"], len(truths)))
    # The loop takes what 40 ms brought in one turn; an unpaced one wakes 6 times a block.
    others = {n: c for n, c in switches.items() if n != "jank-sampler"}
    test.ok(max(others.values()) <= 100 * SECONDS,
            "%s: the others wake less than 100 times a second" % name, others)
    test.ok(truths and (not bare or words), "%s: where there is no stack, the losses say so" %
            name, said)


def sleeping(_):
    low("60 a second, asleep", [])


def computing(_):
    low("60 a second, computing", ["spin"])


def twenty(_):
    """20 ms: more than a frame late."""
    low("20 ms, 15 a second", [], "20ms", "21-40", 66) if full else \
        low("20 ms, 20 a second", [], "20ms", "21-30", 50)


def idle(_):
    """A target that does nothing costs next to nothing: who wakes is counted, not the time."""
    seconds = 40 if full else 6
    sleeper = start(["sleep", 1000])
    recorder = Recorder("idle", ["-i", "1s", "--max-lost", "100"], targets=[sleeper.pid],
                        settle=4)
    before = all_switches(recorder, "voluntary")
    time.sleep(seconds)
    after = all_switches(recorder, "voluntary")
    recorder.end()
    waits = {name: after[name] - before.get(name, 0) for name in after}
    # An interval, what its questions to the sampler and the warden are answered with, and a look
    # at the target; a scan and a look each 200 ms were 15.
    test.ok(waits["recorder"] <= 7 * seconds, "idle: the recorder wakes seldom", waits)
    others = {n: c for n, c in waits.items() if n != "recorder"}
    test.ok(max(others.values()) <= 4 * seconds, "idle: the others wake seldom", waits)
    test.ok(recorder.code == 0 and recorder.footer and
            recorder.footer["summary"]["intervals"] >= seconds, "idle: each interval came",
            recorder.code, recorder.errors())


def slow_captures(_):
    """A stack that takes 10 ms to be copied, when another hand of the sampler leads on: the thread is
    sampled again all the same, once a nap."""
    app = start([apps + "slow_stack"], stdout=subprocess.PIPE, text=True, bufsize=1)
    line = app.stdout.readline()
    if line != "ready\n":
        for what in ("it blocks", "sampled again"):
            test.skip("slow captures: " + what, "no userfaultfd for root here")
        return
    recorder = Recorder("slow captures", ["--block", "100ms", "--stack", "snapshot", "-i", "1s",
                                          "--max-lost", "100"], targets=[app.pid], settle=3)
    time.sleep(SECONDS)
    recorder.end()
    blocks = recorder.ended_blocks(app.pid)
    naps = 16 * len(blocks)
    captures = (recorder.footer or {}).get("summary", {}).get("captures", {})
    test.ok(recorder.code == 0 and len(blocks) >= 3, "slow captures: %d blocks" % len(blocks),
            recorder.errors())
    test.ok(naps / 2 <= captures.get("snapshot", 0) <= 1.5 * naps,
            "slow captures: %s samples of %d naps" % (captures.get("snapshot"), naps), captures,
            recorder.losses(), [b.get("missing") for b in blocks][:4])


parts = [(sleeping, 6), (twenty, 6), (idle, 3), (slow_captures, 2)]
if full or "computing" in sys.argv:
    parts.insert(1, (computing, 6))
test.run(parts, sys.argv[1:])
