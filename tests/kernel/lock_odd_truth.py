# SPDX-License-Identifier: BSD-2-Clause
"""Locks and waits of odd kinds (tests/apps/lock_odd.c keeps the truth) as records tell them. All of
them run at a time under one recorder."""
import subprocess, sys, threading
from attack_common import *

test = Test("lock_odd")
HOLD_NS = 200 * MS
OWNED = {"recursive": "mutex of glibc", "check": "mutex of glibc", "robust": "mutex of glibc",
         "adaptive": "mutex of glibc", "process": "mutex of glibc", "crowd": "mutex of glibc",
         "namespace": "mutex of glibc", "bitset": "mutex of glibc", "pi2": "PI futex",
         "bionic": "mutex of bionic", "namespace_pi": "PI futex"}
NOBODY = ("other", "rwlock", "reader", "dead", "lies", "waitv")


class Odd:
    """The program, and what it says: [(begin, end, who)] of its waits, CLOCK_BOOTTIME."""

    def __init__(self, mode):
        self.mode, self.waits, self.last = mode, [], None
        process = start([apps + "lock_odd", mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.input = process.stdin
        words = process.stdout.readline().split()
        self.pid = process.pid if words[0] == "ready" else None
        if self.pid and int(words[1]) != process.pid:
            with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as f:
                self.pid = int(f.read().split()[0])
        self.output = process.stdout
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.output:
            words = line.split()
            if words[0] == "wait":
                self.waits.append((int(words[1]), int(words[2]), words[3]))
            else:
                self.last = int(words[1])

    def tids(self, name):
        return [int(t) for t in os.listdir("/proc/%d/task" % self.pid)
                if open("/proc/%d/task/%s/comm" % (self.pid, t)).read().strip() == name]

    def blocks(self, recorder):
        """Those of a whole wait."""
        return [b for b in recorder.blocks if b["pid"] == self.pid and b["state"] == "closed" and
                any(begin - 20 * MS <= b["start_boot_ns"] <= begin and
                    end <= b["start_boot_ns"] + b["wall_ns"] + 20 * MS for begin, end, _ in self.waits)]


def functions(link):
    return [f.get("symbol", "?") for f in link.get("stack", {}).get("frames", [])]


def bare(block):
    return [{k: l[k] for k in l if k != "stack"} for l in block.get("chain", [])], block["missing"]


def most(good, blocks):
    """All but one: a look can be late on a busy machine."""
    return len(blocks) >= 3 and sum(map(bool, good)) >= len(blocks) - 1


def record(modes, seconds, *flags):
    odd = {mode: Odd(mode) for mode in modes}
    odd = {mode: o for mode, o in odd.items() if o.pid}
    recorder = Recorder("-".join(modes)[:40], ["--block", "50ms", "-i", "1s", "--max-lost", "100", *flags],
                        targets=[o.pid for o in odd.values()])
    # The recorder knows the loops by now.
    time.sleep(1)
    for o in odd.values():
        o.input.write("now")
        o.input.flush()
    time.sleep(seconds)
    for o in odd.values():
        o.holders = {name: o.tids(name) for name in ("holder", "a", "b")}
    recorder.end()
    return odd, recorder


def owners(_):
    odd, recorder = record(OWNED, 3)
    for mode, what in OWNED.items():
        if mode not in odd:
            test.skip("%s: its owner" % mode, "no pid namespace can be made here")
            continue
        blocks = odd[mode].blocks(recorder)
        wrong = [bare(b) for b in blocks if b.get("chain") and
                 [(l["tid"], l["thread"], l["how"], l.get("what")) for l in b["chain"]] !=
                 [(odd[mode].holders["holder"][0], "holder", "lock", what)] or b.get("deadlock")]
        stacks = [functions(b["chain"][0]) for b in blocks if b.get("chain")]
        test.ok(most([b.get("chain") for b in blocks], blocks) and not wrong and
                all("hold_and_sleep" in s for s in stacks if s) and any(stacks),
                "%s: of %d waits each has its owner and what it did" % (mode, len(blocks)),
                *wrong[:3], *stacks[:2], *[bare(b) for b in blocks if not b.get("chain")][:2], recorder.errors())


def three_in_a_row(three, recorder):
    """The chain is that of the longest of three waits, which is the second, and owner and stacks are too."""
    blocks = three.blocks(recorder)
    second, longest, whole, wrong = three.tids("second"), 0, 0, []
    for block in blocks:
        links, frames = block.get("chain", []), block.get("owner_stack", {}).get("frames", [])
        owner = block.get("owner", {})
        stacks = [s for s in (functions(links[0]) if links else [], [f.get("symbol", "?") for f in frames]) if s]
        if len(links) > 1 or [l["tid"] for l in links] != [owner["tid"]] * len(links) or \
                any("hold_" + owner["thread"] not in s for s in stacks):
            wrong.append((bare(block), owner, stacks))
        longest += [l["tid"] for l in links] == second
        whole += len(stacks) == 2
    test.ok(longest >= len(blocks) - 1 >= 2 and whole >= 2 and not wrong,
            "three locks in a row: of %d blocks %d tell who had the longest one" % (len(blocks), longest),
            *wrong[:3])


def signal_between(signal, recorder):
    """The longest wait is for a condition variable: no chain of a shorter one is told in its place."""
    blocks, second = signal.blocks(recorder), signal.tids("second")
    wrong = [(bare(b), b.get("owner"), b.get("waker")) for b in blocks if b.get("chain") or b.get("owner") or
             "chain" not in b["missing"] or b.get("waker", {}).get("tid") not in second]
    test.ok(len(blocks) >= 3 and len(wrong) <= 1,
            "a signal between two locks: of %d blocks none has a lock's owner" % len(blocks), *wrong[:3])


def nobody(_):
    odd, recorder = record(NOBODY + ("unmapped", "three", "signal3"), 3)
    for mode in NOBODY:
        blocks = odd[mode].blocks(recorder)
        wrong = [bare(b) for b in blocks if any(l["how"] == "lock" for l in b.get("chain", [])) or
                 b.get("deadlock") or b.get("owner")]
        test.ok(len(blocks) >= 3 and not wrong and
                most([b.get("chain") or "chain" in b["missing"] for b in blocks], blocks),
                "%s: of %d waits none has an owner, and that is said" % (mode, len(blocks)), *wrong[:3],
                *[bare(b) for b in blocks[:2]])
    blocks = odd["unmapped"].blocks(recorder)
    wrong = [bare(b) for b in blocks for l in b.get("chain", []) if l["thread"] != "holder"]
    test.ok(len(blocks) >= 3 and not wrong, "a mutex whose memory goes: %d waits, no other owner" % len(blocks),
            *wrong[:3])
    three_in_a_row(odd["three"], recorder)
    signal_between(odd["signal3"], recorder)


def turns(_):
    """Two locks in turns, each waited for some ms: the owner is that of the lock that is waited for then."""
    odd, recorder = record(["two"], 5)
    two, looks, wrong = odd["two"], 0, []
    for block in recorder.blocks:
        for link in block.get("chain", [])[:1]:
            at = link.get("stack", {}).get("t_boot_ns")
            inside = [w for b, e, w in two.waits if at and b <= at <= e]
            looks += len(inside)
            if inside and link["how"] == "lock" and inside[0] != link["thread"]:
                wrong.append((at, inside, bare(block)))
    test.ok(looks >= 10 and not wrong, "two locks in turns: %d owners, each that of its lock" % looks, *wrong[:3])


def for_ever(_):
    odd, recorder = record(["own", "late"], 5)
    for mode, tids in (("own", []), ("late", odd["late"].holders["holder"])):
        blocks = [b for b in recorder.blocks if b["pid"] == odd[mode].pid and b["state"] == "open"]
        last = blocks[-1:]
        test.ok(last and last[0].get("deadlock") and [l["tid"] for l in last[0].get("chain", [])] == tids,
                "%s: told as a deadlock" % mode, *[(b["wall_ns"], b.get("deadlock"), bare(b)) for b in blocks])
        early = [b for b in recorder.blocks if b["pid"] == odd[mode].pid and b["state"] == "closed" and
                 b.get("deadlock")]
        test.ok(not early, "%s: and not before" % mode, *early[:1])


test.run([(owners, len(OWNED)), (nobody, len(NOBODY) + 3), (turns, 1), (for_ever, 4)], sys.argv[1:])
