# SPDX-License-Identifier: BSD-2-Clause
"""Blocks at moments that are hard to tell right: behind messages with a sleep of their own, in many
threads at once, amid an end, an exec, a fork, a stop. Each program keeps its own truth
(tests/apps/rhythm.c). usage: burst_truth.py [PART...]"""
import os, random, signal, subprocess, sys, time
from attack_common import *
from rhythm_common import *

test = Test("burst")
SLACK = 4 * MS


def compare(recorder, target, since, until, threshold=100):
    """What is wrong with the blocks of a program that begin and end between these times: a list of
    (what, truth or block). Truths near the threshold may go either way."""
    rows = [(b, w) for b, w in target.read() if w and b >= since and b + w <= until]
    mine = [b for b in recorder.ended_blocks(target.pid)]
    wrong, used = [], set()
    for begin, wall in rows:
        if wall < threshold * MS + SLACK:
            continue
        hits = [b for b in mine if b["start_boot_ns"] <= begin + SLACK and
                b["start_boot_ns"] + b["wall_ns"] >= begin + wall - SLACK]
        if len(hits) != 1:
            wrong.append(("told %d times" % len(hits), begin, wall / MS))
        for b in hits:
            used.add(b["seq"])
            late = b["t_boot_ns"] - (b["start_boot_ns"] + b["wall_ns"])
            # What waits for the machine's CPUs before and behind the app's own clock is its time.
            longer = b["wall_ns"] - wall
            if longer > SLACK + b["ledger"]["runnable_ns"]:
                wrong.append(("too long by %.1f ms" % (longer / MS), begin, wall / MS, b["ledger"]))
            if sum(b["ledger"].values()) != b["wall_ns"]:
                wrong.append(("ledger", b["wall_ns"], b["ledger"]))
            if not 0 <= late <= 1000 * MS:
                wrong.append(("told %.0f ms behind its end" % (late / MS), begin, wall / MS))
            if not has_stack(b):
                wrong.append(("no stack", begin, wall / MS, b.get("missing"), b.get("lost")))
    ends = [b["start_boot_ns"] for b in mine]
    for b in recorder.blocks:
        if b["pid"] != target.pid:
            continue
        if b["seq"] not in used and b["state"] != "open" and awake_ns(b) >= threshold * MS and \
                since <= b["start_boot_ns"] and b["start_boot_ns"] + b["wall_ns"] <= until and \
                not any(begin - SLACK <= b["start_boot_ns"] + b["wall_ns"] and
                        b["start_boot_ns"] <= begin + wall + SLACK and wall >= threshold * MS
                        for begin, wall in rows):
            wrong.append(("false", b["start_boot_ns"], b["wall_ns"] / MS))
        if b["state"] == "open" and since <= b["start_boot_ns"] <= until - 1500 * MS and \
                not any(abs(e - b["start_boot_ns"]) < SLACK for e in ends):
            wrong.append(("open for ever", b["start_boot_ns"], b["wall_ns"] / MS))
    # At its end the run tells of an open one once more, as far as it went.
    opens = [b["start_boot_ns"] // MS for b in recorder.blocks
             if b["pid"] == target.pid and b["state"] == "open" and b["wall_ns"] < 4900 * MS and
             b["start_boot_ns"] + b["wall_ns"] < until]
    if len(opens) != len(set(opens)):
        wrong.append(("told open twice", opens))
    return wrong, len([r for r in rows if r[1] >= threshold * MS + SLACK])


def judge(name, recorder, targets, since, until, threshold=100, least=1, eintr=True, bare=False):
    """Two results. bare: blocks may lack their stack, if that is counted."""
    wrong, count, interrupted, without = [], 0, 0, 0
    for target in targets:
        its, told = compare(recorder, target, since, until, threshold)
        wrong += [(target.pid, *w) for w in its if not bare or w[0] != "no stack"]
        without += len([w for w in its if w[0] == "no stack"])
        count += told
        interrupted += target.interrupted
    said = recorder.losses()
    if without > said.get("lost.blocks_without_stack", 0):
        wrong.append(("without a stack", without, "but counted"))
    test.ok(recorder.footer and count >= least and not wrong,
            "%s: %d blocks, each told once, in time, with its length and %s" % (
                name, count, "stack or the loss of it" if bare else "a stack"),
            "%d wrong" % len(wrong), *wrong[:6], said, recorder.code, recorder.errors())
    test.ok(not eintr or not interrupted, "%s: no wait of an app is interrupted" % name,
            interrupted)


def plain(name, *messages, seconds=6, threshold=100, least=5, flags=(), count=1, eintr=True,
          settle=1, bare=False):
    targets = [Rhythm(*messages) for _ in range(count)]
    time.sleep(0.3)
    recorder = record(name, targets, *flags, threshold=threshold, settle=settle)
    since = boot_ns()
    time.sleep(seconds)
    until = boot_ns()
    time.sleep(1.2)
    recorder.end()
    judge(name, recorder, targets, since, until, threshold, least, eintr, bare)
    return recorder


# ---- parts ----

def behind_a_sleep(_):
    """A short message with a sleep of its own right before each block: its spell stands in the
    ring when the first sample of the block comes."""
    plain("behind a short sleep", "60:s3", "20:s150")


def behind_a_block(_):
    plain("behind another block", "3:s120", "0:s130,c5", least=20)


def just_over(_):
    """1000 short blocks just over the threshold, in three programs."""
    plain("just over", "4:s22", seconds=10, threshold=17, least=900, count=3)


def at_once(_):
    """All of 300 programs block at the same time, then nothing for a while."""
    recorder = plain("300 at once", "@0:s200", "0:", seconds=4, count=300, least=600, settle=3,
                     bare=True)
    full_rings = recorder.losses().get("lost.blocks_event_ring_full", 0)
    test.ok(not full_rings, "300 at once: no event finds its ring full", full_rings)


def peak_bytes(pid):
    return int((status_of(pid, "VmHWM") or "0").split()[0]) * 1024


def unwinder_storm(_):
    """All of 100 programs block at once with deep stacks, again and again, while the unwinder is
    killed and stopped: each stack is the right one or lost by name, and nothing piles up."""
    flat = [Rhythm("@0:s250", "@500:s250", "0:") for _ in range(50)]
    deep = [Rhythm("@0:d250", "@500:d250", "0:") for _ in range(50)]
    targets = flat + deep
    recorder = record("unwinder storm", targets, settle=2.5)
    before, since, killed, stopped_ = peak_bytes(recorder.pid), boot_ns(), 0, 0
    end = time.monotonic() + 4
    while time.monotonic() < end:
        for pid in recorder.of_kind("unwinder"):
            number = random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
            try:
                os.kill(pid, number)
            except OSError:
                continue
            killed += number == signal.SIGKILL
            stopped_ += number == signal.SIGSTOP
        time.sleep(random.random() * 0.15)
    # The last one that was stopped is replaced after a second, and its successors have the queue.
    time.sleep(3)
    until = boot_ns()
    time.sleep(1.5)
    grown = peak_bytes(recorder.pid) - before
    recorder.end()
    judge("unwinder storm", recorder, targets, since, until, least=400, bare=True)
    said, wrong, without = recorder.losses(), [], 0
    for target in targets:
        for b in recorder.ended_blocks(target.pid):
            names = [f.get("symbol") or "" for s in b.get("stacks", []) for f in s["frames"]]
            below = any("sleep_deep" in n for n in names)
            # Names of a file that was being read when the unwinder died are missing for a while.
            if below != (target in deep) and any("play" in n for n in names):
                wrong.append(("another's stack", target in deep, names[:6]))
            why = (b.get("missing") or {}).get("stacks")
            without += why in ("unwinding gave no frame", "the unwinder gave it up")
            if not has_stack(b) and not why:
                wrong.append(("no reason", b.get("missing"), b.get("lost")))
    test.ok(not wrong, "unwinder storm: each stack is its own thread's, or missing with a reason "
            "(%d killed, %d stopped)" % (killed, stopped_), len(wrong), *wrong[:6], said)
    named = sum(v for k, v in said.items() if k.startswith("lost.stacks_"))
    test.ok(killed + stopped_ and named >= without, "unwinder storm: %d samples without a frame are "
            "counted by name (%d)" % (without, named), said, killed, stopped_)
    # It may be killed at any moment, also while the recorder answers it.
    test.ok(not said.get("repaired.unwinder_malformed"),
            "unwinder storm: nobody who was killed passes for one that lies", said)
    test.ok(grown < 8 << 20, "unwinder storm: the recorder grows by %.1f MiB at its peak" % (
        grown / (1 << 20)))


def renamed(_):
    plain("renamed", "30:s110,rfirst-name,s20", "30:s110,rother,s20")


def forks(_):
    plain("forks", "50:s60,f,s60", "30:v,s120")


def exec_by_a_thread(_):
    """Another thread than the main one calls execve amid a block: it takes the main thread's tid, and
    the blocks of the program that runs then are told with stacks."""
    target = Rhythm("2000:s150,e", *["40:s130"] * 8)
    recorder = record("exec by a thread", [target])
    wait_for(lambda: recorder.load() and exited(recorder, target.pid), 5)
    since = boot_ns()
    time.sleep(4)
    until = boot_ns()
    time.sleep(1.2)
    recorder.end()
    # Its first block ends with the program.
    judge("exec by a thread", recorder, [target], since, until, least=8)
    told = exited(recorder, target.pid)
    test.ok(len(told) == 1 and 150 * MS <= told[0]["wall_ns"] < 1000 * MS and
            sum(told[0]["ledger"].values()) == told[0]["wall_ns"] and
            told[0]["cpu_ns"] <= told[0]["wall_ns"],
            "exec by a thread: the block of the program before ends with it", told)


def preempt_often(cpu):
    """A process that takes this CPU from all others for a moment, thousands of times a second."""
    pid = os.fork()
    if not pid:
        try:
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            end = time.monotonic() + 60
            while time.monotonic() < end:
                time.sleep(0.0001)
        finally:
            os._exit(0)
    return pid


def execs_in_a_crowd(_):
    """Some are preempted between the change of the tid and the tracepoint of the exec: the sums of
    the thread that has the tid now are not those of the block."""
    preempters = [preempt_often(cpu) for cpu in os.sched_getaffinity(0)]
    targets = [Rhythm("2000:s150,e", *["40:s130"] * 2) for _ in range(24)]
    recorder = record("execs in a crowd", targets)
    wait_for(lambda: recorder.load() and all(exited(recorder, t.pid) for t in targets), 8)
    time.sleep(1)
    recorder.end()
    for pid in preempters:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    wrong = [b for b in recorder.blocks if sum(b["ledger"].values()) != b["wall_ns"] or
             b.get("cpu_ns", 0) > b["wall_ns"]]
    told = [len(exited(recorder, t.pid)) for t in targets]
    test.ok(not wrong and sum(told) >= 6 and max(told) == 1,
            "execs in a crowd: of %d blocks the parts make the whole, %d ended with their program" % (
                len(recorder.blocks), sum(told)), told, *wrong[:3])


def exited(recorder, pid):
    return [b for b in recorder.blocks if b["pid"] == pid and b["state"] == "exited"]


def deaths(_):
    """Blocks that end with their process: by exit, by SIGKILL, by exec."""
    survivor = Rhythm("200:s20")
    name = "rhythm-%d" % os.getpid()
    recorder = record("deaths", [survivor, name], settle=0.5)
    for action in "qkx":
        targets, since = [], boot_ns()
        for _ in range(6):
            targets.append(Rhythm(*["40:s20"] * 12, "60:s150," + action, arg0=name))
            time.sleep(0.15)
        time.sleep(2)
        for t in targets:
            t.dead = None if t.process.poll() is not None else t.process.kill()
        time.sleep(1.2)
        recorder.load()
        bad = []
        for t in targets:
            begins = [b for b, w in t.read() if not w and b >= since]
            told = exited(recorder, t.pid)
            # The last message of one that goes on by exec was cut off by this test.
            if len(told) < (len(begins) - 1 if action == "x" else 1):
                bad.append((t.pid, "told %d" % len(told), len(begins)))
            for b in told:
                near = [x for x in begins if abs(x - b["start_boot_ns"]) < SLACK +
                        b["ledger"]["runnable_ns"]]
                if not near and len(begins) < 16000 and action != "x":
                    bad.append((t.pid, "begin", b["start_boot_ns"], begins))
                if b["wall_ns"] < 100 * MS or b["wall_ns"] > 165 * MS + \
                        b["ledger"]["runnable_ns"]:
                    bad.append((t.pid, "length", b["wall_ns"] / MS, b["ledger"]))
                if b["t_boot_ns"] - b["start_boot_ns"] - b["wall_ns"] > 1000 * MS:
                    bad.append((t.pid, "late"))
                if not has_stack(b):
                    bad.append((t.pid, "no stack", b["wall_ns"] / MS, b.get("missing")))
        test.ok(not bad, "deaths by %s: each block is told as exited, with its length and a stack" %
                action, *bad[:8], recorder.losses())
    recorder.end()
    test.ok(recorder.footer and recorder.code == 0, "deaths: the run ends", recorder.code,
            recorder.errors())


def last_breath(_):
    """The only target ends amid a block: the run ends with it, and the block is told."""
    bad = []
    for i in range(6):
        target = Rhythm("1200:s150,%s" % "qk"[i % 2])
        recorder = record("last breath %d" % i, [target], wait=5, settle=0)
        recorder.wait(10)
        told = exited(recorder, target.pid)
        if len(told) != 1 or not has_stack(told[0]) or not recorder.footer:
            bad.append((i, [(b["state"], b["wall_ns"] / MS, b.get("missing"))
                            for b in recorder.blocks], recorder.losses(), recorder.code))
    test.ok(not bad, "last breath: the last block of the only target is told", *bad)


def ends_with_the_run(_):
    """Blocks that end about when the run does, and runs that end amid blocks of many."""
    bad, exits = [], []
    many = [Rhythm("@0:s480", "0:") for _ in range(40)]
    for i in range(5):
        now = time.monotonic()
        recorder = record("run's end %d" % i, many, "-i", "500ms", wait=10, settle=0.3)
        # 480 ms behind a full second, or shortly before or behind that
        at = (0.2, 0.47, 0.478, 0.482, 0.5)[i]
        now = time.monotonic()
        time.sleep(1.9 - now % 1 + at + (0.1 if 1 - now % 1 < 0.4 else 0))
        now = time.monotonic()
        time.sleep((at - now) % 1)
        stop = boot_ns()
        recorder.end()
        exits.append(recorder.exit_seconds)
        if recorder.exit_seconds > recorder.exit_allowed() or recorder.code or not recorder.footer:
            bad.append((i, "exit", recorder.exit_seconds, recorder.code))
        since = recorder.blocks[0]["start_boot_ns"] + 400 * MS if recorder.blocks else 0
        for t in many:
            for begin, wall in t.read():
                if begin < since or begin > stop - 110 * MS or 0 < wall < 110 * MS:
                    continue
                told = [b for b in recorder.blocks if b["pid"] == t.pid and
                        abs(b["start_boot_ns"] - begin) < SLACK + b["ledger"]["runnable_ns"]]
                over = wall and begin + wall < stop - 2 * MS
                if not told or (over and not [b for b in told if b["state"] == "closed"]):
                    bad.append((i, t.pid, "not told", over, (stop - begin) / MS, wall / MS,
                                [b["state"] for b in told]))
                if len([b for b in told if b["state"] == "closed"]) > 1:
                    bad.append((i, t.pid, "told twice"))
                if told and not any(has_stack(b) for b in told):
                    bad.append((i, t.pid, "no stack", told[-1].get("missing")))
    test.ok(not bad, "run's end: what blocks then is told, and so is what ended (exits %s s)" %
            " ".join("%.2f" % e for e in exits), len(bad), *bad[:8])


def recorder_stands_still(_):
    """For 350 ms, while 40 deep stacks fill the sampler's socket: a thread that sleeps on is sampled
    again, and the sampler's answer, which found no room, is no reason to replace it."""
    deep = [Rhythm("@0:d600", "0:") for _ in range(40)]
    recorder = record("stands still", deep, settle=2.5)
    time.sleep((0.9 - time.monotonic()) % 1)
    since = boot_ns()
    os.kill(recorder.pid, signal.SIGSTOP)
    time.sleep(0.35)
    os.kill(recorder.pid, signal.SIGCONT)
    time.sleep(2.5)
    recorder.end()
    told = [b for b in recorder.blocks if b["state"] != "open" and
            since <= b["start_boot_ns"] <= since + 300 * MS]
    bare = [b.get("missing") for b in told if not has_stack(b)]
    test.ok(len(told) == 40 and len(bare) <= 15, "stands still: %d blocks, %d without a stack" % (
        len(told), len(bare)), *bare[:3], recorder.losses())
    test.ok("repaired.sampler_replaced" not in recorder.losses(),
            "stands still: the sampler is not replaced", recorder.losses())


def last_losses(_):
    """What is lost behind the last interval is in the footer: stacks that an unwinder, which stands
    still, does not give."""
    flat = [Rhythm("@0:s300", "0:") for _ in range(3)]
    recorder = record("last stacks", flat, settle=2.5)
    time.sleep((0.9 - time.monotonic()) % 1)
    for pid in recorder.of_kind("unwinder"):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.45)
    recorder.end()
    said = recorder.losses()
    bare = [b for b in recorder.blocks if b["state"] != "open" and not has_stack(b)]
    test.ok(bare and said.get("lost.stacks_abandoned", 0) >= len(bare),
            "last losses: %d stacks that are not unwound" % len(bare), said,
            [b.get("missing") for b in bare], recorder.code, recorder.errors())


def events_of_perf(recorder):
    links = []
    for pid in recorder.of_kind("sampler"):
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                links.append(os.readlink("/proc/%d/fd/%s" % (pid, name)))
            except OSError:
                pass
    return sum("perf_event" in link for link in links)


def perf_rests(_):
    """Each hand of the sampler closes its perf events when nobody computes any more, also one that
    does not lead."""
    idle = Rhythm("60000:s1")
    targets = [Rhythm("@0:c300", "@400:c300", "900:") for _ in range(12)]
    recorder = record("perf", [idle, *targets], settle=2)
    time.sleep(4)
    for target in targets:
        target.process.kill()
    wait_for(lambda: not events_of_perf(recorder), 5, 0.2)
    left = events_of_perf(recorder)
    recorder.end()
    test.ok(recorder.footer and not left, "perf: %d events are left" % left, recorder.losses())


def shorter_than_a_block(_):
    """-d ends amid the block; and before its threshold."""
    bad = []
    for i in range(3):
        recorder = record("shorter %d" % i, [Rhythm("1500:s4000")], "-d", "1800ms", wait=5,
                          settle=0)
        recorder.wait(10)
        told = [(b["state"], b["wall_ns"] // MS, has_stack(b), b.get("missing"))
                for b in recorder.blocks]
        if not told or told[0][0] != "open" or not all(t[2] for t in told):
            bad.append((told, recorder.code, recorder.errors()))
    test.ok(not bad, "a run shorter than its block tells of it as open, with a stack", *bad)


def stopped(_):
    """SIGSTOP and SIGCONT amid a block of 400 ms: the stop is in its ledger."""
    target = Rhythm("@0:s400", "0:")
    recorder = record("stopped", [target])
    since, lengths = boot_ns(), []
    for i in range(4):
        time.sleep((0.1 + 0.05 * i - time.monotonic()) % 1)
        target.signal(signal.SIGSTOP)
        before = boot_ns()
        time.sleep(0.12)
        target.signal(signal.SIGCONT)
        lengths.append((boot_ns() - before) / MS)
    time.sleep(1)
    until = boot_ns()
    time.sleep(1)
    recorder.end()
    judge("stopped", recorder, [target], since, until, least=4, eintr=False)
    stops = [b["ledger"]["stopped_ns"] / MS for b in recorder.ended_blocks(target.pid)
             if since < b["start_boot_ns"] < until]
    test.ok(all(any(abs(s - length) < 15 for s in stops) for length in lengths),
            "stopped: each stop is in a ledger", lengths, stops)


def twins(_):
    """Two recorders of one target tell the same blocks."""
    target = Rhythm("40:s3", "40:s130", "30:c120")
    first = record("twin one", [target])
    second = record("twin two", [target], threshold=60)
    since = boot_ns()
    time.sleep(4)
    until = boot_ns()
    time.sleep(1.2)
    second.end()
    first.end()
    judge("twin one", first, [target], since, until, least=15)
    judge("twin two", second, [target], since, until, 60, least=15)


def reused(_):
    """The pid of a target that dies amid a block is another target's at once."""
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        for i in range(2):
            test.skip("pid reuse %d" % i, "no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)")
        return
    name = "again-%d" % os.getpid()
    recorder = record("reused", [Rhythm("200:s20"), name])
    first, again, since = Rhythm("40:s130", arg0=name), None, boot_ns()
    time.sleep(1.0)
    first.process.kill()
    first.process.wait()
    for _ in range(400):
        with open("/proc/sys/kernel/ns_last_pid", "w") as f:
            f.write(str(first.pid - 1))
        process = subprocess.Popen([name, first.path + ".2", "40:s130"],
                                   executable=apps + "rhythm", stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        if process.pid == first.pid:
            again = process
            break
        process.kill()
        process.wait()
    if not again:
        for i in range(2):
            test.skip("pid reuse %d" % i, "the pid was not to be had in 400 tries")
        recorder.end()
        return
    started.append(again)
    time.sleep(3)
    until = boot_ns()
    time.sleep(1.2)
    recorder.end()
    second = Rhythm.__new__(Rhythm)
    second.path, second.pid = first.path + ".2", first.pid
    rows = second.read()
    # The start of the second one is its first message; it is found by the next scan at the latest.
    judge("reused", recorder, [second], rows[0][0] + 600 * MS, until, least=8)


parts = [(behind_a_sleep, 2), (deaths, 4), (exec_by_a_thread, 3), (execs_in_a_crowd, 1)]
more = [(behind_a_block, 2), (just_over, 2), (at_once, 3), (unwinder_storm, 6), (renamed, 2), (forks, 2),
        (last_breath, 1), (ends_with_the_run, 1),
        (last_losses, 1), (recorder_stands_still, 2), (perf_rests, 1), (shorter_than_a_block, 1), (stopped, 3),
        (twins, 4), (reused, 2)]
parts += [part for part in more if full or part[0].__name__ in sys.argv]
test.run(parts, sys.argv[1:])
