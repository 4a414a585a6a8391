# SPDX-License-Identifier: BSD-2-Clause
"""Chains of locks (tests/apps/lock_chain.c keeps the truth) as records tell them."""
import subprocess, sys, threading
from attack_common import *

test = Test("lock_chain")
MOST = 8  # links that a record has
STANDS_NS = 300 * MS


class Chain:
    """The program, and what it says: [(CLOCK_BOOTTIME, [tids])]."""

    def __init__(self, *arguments):
        self.process = start([apps + "lock_chain", *arguments], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        self.pid, self.truth = self.process.pid, []
        self.process.stdout.readline()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            self.truth.append((int(words[1]), [int(w) for w in words[2:]]))


def record(name, chain, seconds):
    recorder = Recorder(name, ["--block", "50ms", "-i", "1s", "--max-lost", "100"], targets=[chain.pid])
    chain.process.stdin.write("watched\n")
    chain.process.stdin.flush()
    time.sleep(seconds)
    recorder.end()
    return recorder


def of_truth(chain, block):
    """What the program said at the beginning of this block."""
    inside = [tids for t, tids in chain.truth
              if block["start_boot_ns"] - 5 * MS <= t <= block["start_boot_ns"] + block["wall_ns"]]
    return inside[0] if inside else None


def functions(link):
    return [f.get("symbol", "?") for f in link.get("stack", {}).get("frames", [])]


def check(name, chain, recorder, how):
    blocks = [b for b in recorder.blocks if b["pid"] == chain.pid and b["state"] == "closed" and
              b["wall_ns"] >= STANDS_NS * 9 // 10 and of_truth(chain, b)]
    told = [b for b in blocks if b.get("chain")]
    wrong, unnamed = [], []
    for block in told:
        tids = of_truth(chain, block)[:MOST]
        links = block["chain"]
        if [l["tid"] for l in links] != tids or block.get("deadlock") or \
                [l["thread"] for l in links] != ["link-%d" % (i + 1) for i in range(len(tids))] or \
                any(l["how"] != "lock" or l.get("what") != how or l["pid"] != chain.pid for l in links) or \
                block["owner"]["tid"] != tids[0]:
            wrong.append((tids, [{k: l[k] for k in l if k != "stack"} for l in links], block.get("deadlock")))
        for i, link in enumerate(links):
            last = i + 1 == len(chain.truth[0][1])
            if ("hold_and_sleep" if last else "take_lock") not in functions(link):
                unnamed.append((link["thread"], functions(link), link.get("stack", {}).get("end_reason")))
    test.ok(len(blocks) >= 4 and len(told) >= len(blocks) - 1, "%s: of %d chains %d are told" %
            (name, len(blocks), len(told)), recorder.errors(), recorder.losses())
    test.ok(told and not wrong, "%s: each thread that holds a lock, outermost first" % name, *wrong[:3])
    # A copy of a stack can be refused (the thread moved); none may be another thread's.
    stacks = sum(len(b["chain"]) for b in told)
    bad = [u for u in unnamed if u[1]]
    test.ok(told and not bad and len(unnamed) <= stacks // 10,
            "%s: what each of them did: %d of %d stacks" % (name, stacks - len(unnamed), stacks), *unnamed[:5])


def plain(_):
    for links in (1, 3):
        chain = Chain(links)
        recorder = record("plain %d" % links, chain, 3)
        check("%d links" % links, chain, recorder, "mutex of glibc")


def pi(_):
    chain = Chain(3, "pi")
    recorder = record("pi", chain, 3)
    check("PI", chain, recorder, "PI futex")


def timed(_):
    chain = Chain(2, "timed")
    recorder = record("timed", chain, 3)
    check("waits with a time", chain, recorder, "mutex of glibc")


def long(_):
    chain = Chain(12)
    recorder = record("long", chain, 3)
    check("12 links, 8 of them told", chain, recorder, "mutex of glibc")
    for links, said in ((12, True), (8, False)):
        if links == 8:
            chain = Chain(8)
            recorder = record("eight", chain, 3)
        told = [b for b in recorder.blocks if b["pid"] == chain.pid and len(b.get("chain", [])) == MOST]
        test.ok(told and all(b.get("chain_cut", False) == said for b in told),
                "%d links: that it is cut is %ssaid" % (links, "" if said else "not "),
                *[(b.get("chain_cut"), len(b["chain"])) for b in told[:2]])


def last_of(mode, links, seconds):
    chain = Chain(links, mode)
    recorder = record("%s %d" % (mode, links), chain, seconds)
    state = state_of(chain.pid)
    blocks = [b for b in recorder.blocks if b["pid"] == chain.pid and b.get("chain")]
    return chain, recorder, blocks, state


def deadlock(_):
    for mode, links in (("deadlock", 3), ("self", 2), ("deadlock", 8)):
        chain, recorder, blocks, state = last_of(mode, links, 5)
        open_blocks = [b for b in blocks if b["wall_ns"] > 2 * STANDS_NS]
        before = [b for b in blocks if b["wall_ns"] < 2 * STANDS_NS and b["state"] == "closed"]
        tids = chain.truth[-1][1]
        test.ok(open_blocks and all(b.get("deadlock") and [l["tid"] for l in b["chain"]] == tids
                                    for b in open_blocks),
                "%s of %d: said of each of %d records, with its threads" % (mode, links, len(open_blocks)),
                tids, *[(b["wall_ns"], b.get("deadlock"), b["chain"]) for b in open_blocks[:2]])
        test.ok(before and not any(b.get("deadlock") for b in before),
                "%s of %d: not said of the %d blocks before" % (mode, links, len(before)))
        test.ok(state == "S", "%s of %d: nobody was disturbed: state %s" % (mode, links, state))
        chain.process.kill()


def no_deadlock(_):
    """Each gives up after a time: that is no deadlock, though it looks like one while it lasts."""
    chain, recorder, blocks, _ = last_of("deadlock_timed", 3, 6)
    held = [b for b in blocks if b["wall_ns"] > 2 * STANDS_NS]
    test.ok(held and not any(b.get("deadlock") for b in held),
            "waits with a time: no deadlock in %d records" % len(held), *held[:1])


def random_locks(_):
    """Locks taken in one order never make a circle, however fast they change hands. Who is followed further
    waits for a lock; the last of a chain holds its locks, or is taking one that just became free."""
    chain = Chain(7, "random")
    recorder = Recorder("random", ["--block", "8ms", "-i", "1s", "--max-lost", "100"], targets=[chain.pid])
    time.sleep(6)
    recorder.end()
    told = [b for b in recorder.blocks if b["pid"] == chain.pid and b.get("chain")]
    wrong, names, lengths = [], set(), {}
    for block in told:
        links = block["chain"]
        lengths[len(links)] = lengths.get(len(links), 0) + 1
        tids = [l["tid"] for l in links]
        if block.get("deadlock") or len(set(tids)) != len(tids) or chain.pid in tids:
            wrong.append((tids, block.get("deadlock")))
        for link in links[:-1]:
            if functions(link) and "take_and_keep" not in functions(link):
                wrong.append((tids, functions(link)))
        names.update(l["thread"] for l in links)
    test.ok(len(told) >= 20 and not wrong and names == {"random"},
            "locks in one order: %d chains (of lengths %s), no circle, each but the last waits" %
            (len(told), dict(sorted(lengths.items()))), *wrong[:3], names)


test.run([(plain, 6), (pi, 3), (timed, 3), (long, 5), (deadlock, 9), (no_deadlock, 1), (random_locks, 1)], sys.argv[1:])
