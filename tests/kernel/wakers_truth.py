# SPDX-License-Identifier: BSD-2-Clause
"""Who ended a wait that has no owner, and what that thread did in the wake-up: tests/apps/wakers.c
keeps the truth. All of them run at a time under one recorder."""
import subprocess, sys, threading
from attack_common import *

test = Test("wakers")
WAIT_NS = 200 * MS
CALLS = ["waker_b", "waker_a"]
# How it is told, and the innermost function that it does it from.
NAMED = {"condition": ("futex", "pthread_cond_signal"), "pipe": ("write", "write"), "shared": ("futex", "syscall"),
         "signal": ("signal", None), "deep": ("futex", "pthread_cond_signal")}
NOBODY = ("timeout", "nap")


class Looper:
    """The program, and what it says: [(begin, end, pid, tid)] of its waits, CLOCK_BOOTTIME."""

    def __init__(self, mode):
        self.mode, self.waits = mode, []
        self.process = start([apps + "wakers", mode], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline().split()[1])
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.waits.append(tuple(map(int, line.split()[1:])))

    def blocks(self, recorder):
        """[(block, pid, tid)] of those of a whole wait."""
        rows = []
        for block in recorder.blocks:
            if block["pid"] != self.pid or block["state"] != "closed":
                continue
            rows += [(block, pid, tid) for begin, end, pid, tid in self.waits
                     if begin - 20 * MS <= block["start_boot_ns"] <= begin and
                     end <= block["start_boot_ns"] + block["wall_ns"] + 20 * MS]
        return rows


def functions(waker):
    return [f.get("symbol", "?").split("@")[0] for f in waker.get("stack", {}).get("frames", [])]


def bare(block):
    waker = block.get("waker", {})
    return ({k: v for k, v in waker.items() if k != "stack"}, functions(waker), waker.get("stack", {}).get("end_reason"),
            block["missing"], [{k: s[k] for k in s if k != "t_boot_ns"} for s in block.get("sleeps", [])])


def most(good, blocks):
    """All but one: on a busy machine another sleep can be the longest."""
    return len(blocks) >= 3 and sum(map(bool, good)) >= len(blocks) - 1


def in_time(rows):
    """Without those whose stack was not unwound when the record had to go out, and which say so: the
    first ones of a run on a busy machine."""
    return [r for r in rows if r[0]["missing"].get("waker.stack") != "its stack was not unwound in time"]


def record(modes, seconds, *flags):
    loopers = {mode: Looper(mode) for mode in modes}
    recorder = Recorder("-".join(modes)[:40], ["--block", "150ms", "-i", "1s", "--max-lost", "100", *flags],
                        targets=[l.pid for l in loopers.values()])
    time.sleep(seconds)
    recorder.end()
    return loopers, recorder


def is_right(mode, block, pid, tid):
    what, innermost = NAMED[mode]
    waker = block.get("waker", {})
    calls = [f for f in functions(waker) if f in CALLS or (innermost and innermost in f)]
    wanted = ([innermost] if innermost else []) + CALLS
    calls = [innermost if innermost and innermost in f else f for f in calls][:len(wanted)]
    return (waker.get("pid"), waker.get("tid"), waker.get("what"), waker.get("thread"), calls) == \
        (pid, tid, what, "waker", wanted)


def stacks(_):
    loopers, recorder = record([*NAMED, "join", "child", "page", "exec", *NOBODY], 5)
    for mode in NAMED:
        rows = in_time(loopers[mode].blocks(recorder))
        wrong = [bare(b) for b, pid, tid in rows if not is_right(mode, b, pid, tid)]
        test.ok(most([is_right(mode, *row) for row in rows], rows),
                "%s: of %d waits each has who ended it, and from where" % (mode, len(rows)), *wrong[:3],
                recorder.errors())
    deep = [functions(b["waker"]) for b, _, _ in loopers["deep"].blocks(recorder) if b.get("waker", {}).get("stack")]
    cut = [b["waker"]["stack"] for b, _, _ in loopers["deep"].blocks(recorder) if b.get("waker", {}).get("stack")]
    test.ok(cut and all(not s["complete"] and s["end_reason"] == "memory outside snapshot" for s in cut) and
            all(f[-1] == "waker_a" for f in deep), "deep: its stack is cut, and says so", deep[:1],
            [(s["complete"], s["end_reason"]) for s in cut])
    rows = in_time(loopers["join"].blocks(recorder))
    good = [b.get("waker", {}).get("tid") == tid and b["waker"].get("what") == "exit" and
            "start_thread" in functions(b["waker"]) for b, _, tid in rows]
    test.ok(most(good, rows), "join: %d waits end with a thread's end" % len(rows), *[bare(b) for b, _, _ in rows[:2]])
    chains = [([{k: l.get(k) for k in ("tid", "how", "what")} for l in b.get("chain", [])],
               "wake_after_a_while" in functions(b.get("chain", [{}])[0]), b.get("owner"), tid)
              for b, _, tid in loopers["join"].blocks(recorder)]
    test.ok(most([links == [{"tid": tid, "how": "futex", "what": "its end"}] and stack and not owner
                  for links, stack, owner, tid in chains], chains),
            "join: %d waits are for that thread's end, which has a stack" % len(chains), *chains[:3])
    rows = loopers["child"].blocks(recorder)
    good = [b.get("waker", {}).get("pid") == pid and b["waker"].get("what") == "exit" and "stack" not in b["waker"] and
            "no memory any more" in b["missing"].get("waker.stack", "") for b, pid, _ in rows]
    test.ok(most(good, rows), "child: %d waits end with a process that has no memory any more" % len(rows),
            *[bare(b) for b, _, _ in rows[:2]])
    rows = loopers["page"].blocks(recorder)
    good = [b.get("waker", {}).get("tid") == tid and b["waker"].get("what") == "futex" and "stack" not in b["waker"] and
            b["missing"].get("waker.stack") == "its stack was not in memory" for b, _, tid in rows]
    test.ok(most(good, rows), "page: %d waits, the stack that ended them cannot be read" % len(rows),
            *[bare(b) for b, _, _ in rows[:2]])
    test.ok(recorder.footer["lost"].get("wakers_without_stack", 0) >= len(rows) - 1, "page: and that is counted",
            recorder.footer["lost"])
    rows = loopers["exec"].blocks(recorder)
    wrong = [bare(b) for b, pid, _ in rows if b.get("waker", {}).get("pid") != pid or (
        functions(b["waker"]) and CALLS != [f for f in functions(b["waker"]) if f in CALLS])]
    test.ok(len(rows) >= 3 and not wrong and
            all("stack" in b["waker"] or "waker.stack" in b["missing"] for b, _, _ in rows),
            "exec: %d waits, no name of the program that came after" % len(rows), *wrong[:3])
    for mode in NOBODY:
        rows = loopers[mode].blocks(recorder)
        wrong = [bare(b) for b, _, _ in rows if b.get("waker") or any("waker" in s for s in b.get("sleeps", [])
                                                                       if s["ns"] >= WAIT_NS * 9 // 10)]
        test.ok(len(rows) >= 3 and not wrong, "%s: of %d waits nobody is said to have ended one" % (mode, len(rows)),
                *wrong[:3])


def raw(_):
    """The programs of kernels without BTF."""
    loopers, recorder = record(["pipe", "timeout"], 3, "--variant", "raw_tp")
    rows = in_time(loopers["pipe"].blocks(recorder))
    test.ok(most([is_right("pipe", *row) for row in rows], rows), "raw_tp: of %d waits each has who ended it, and "
            "from where" % len(rows), *[bare(b) for b, pid, tid in rows if not is_right("pipe", b, pid, tid)][:2],
            recorder.errors())
    rows = loopers["timeout"].blocks(recorder)
    wrong = [bare(b) for b, _, _ in rows if b.get("waker")]
    test.ok(len(rows) >= 3 and not wrong, "raw_tp: of %d waits nobody is said to have ended one" % len(rows), *wrong[:2])


def off(_):
    loopers, recorder = record(["condition"], 2, "--stack", "off")
    rows = loopers["condition"].blocks(recorder)
    test.ok(len(rows) >= 2 and all(b["waker"]["tid"] == tid and "stack" not in b["waker"] and
                                   "waker.stack" in b["missing"] for b, _, tid in rows),
            "--stack off: who ended it, and no stack", *[bare(b) for b, _, _ in rows[:2]])


test.run([(stacks, len(NAMED) + 7 + len(NOBODY)), (raw, 2), (off, 1)], sys.argv[1:])
