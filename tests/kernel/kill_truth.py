# SPDX-License-Identifier: BSD-2-Clause
"""SIGKILL of recorder, warden, prober, sampler and unwinder, one or several, in any order, while
captures are in flight; what is left of them afterwards.
usage: kill_truth.py [PART...]   FULL=1: 200 rounds each, and all parts   SEED=N"""
import os, random, re, signal, subprocess, sys, time
from attack_common import *

test = Test("kill_helpers")
ROUNDS = 200 if full else 20
KINDS = ["recorder", "warden", "prober", "sampler", "unwinder"]
TRACE_FILES = ["tracing_on", "current_tracer", "trace_clock", "buffer_size_kb", "set_event"]


def trace_settings():
    said = {}
    for name in TRACE_FILES:
        for root in ("/sys/kernel/tracing/", "/sys/kernel/debug/tracing/"):
            try:
                with open(root + name) as f:
                    said[name] = f.read().strip()
                    break
            except OSError:
                pass
    return said


class Round:
    """A recorder of loopers that block all the time, by the given way to capture."""

    def __init__(self, targets, stack, number):
        self.recorder = Recorder("kill %s %d %s" % (stack, number, random.getrandbits(30)), [
            "--block", "20ms", "--stack", stack, "-i", "100ms", "--max-lost", "100"],
            targets=targets, settle=0.25)
        self.pids = targets

    def victims(self, kind):
        if kind == "recorder":
            return [self.recorder.pid] if self.recorder.process.poll() is None else []
        return self.recorder.of_kind(kind)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except OSError:
        return False


class Log:
    """What the kernel says from here on of probes that it could not remove."""

    def __init__(self):
        self.fd = None
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.fd, 0, os.SEEK_END)
        except OSError:
            pass

    def leaks(self, tids):
        """Lines that name one of these threads."""
        lines = []
        while self.fd is not None:
            try:
                line = os.read(self.fd, 8192).decode(errors="replace").split("\n")[0]
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            who = re.search(r"uprobe: \S+:(\d+) failed to unregister", line)
            if who and int(who.group(1)) in tids:
                lines.append(line)
        return lines


def threads(pid):
    try:
        return {int(t) for t in os.listdir("/proc/%d/task" % pid)}
    except OSError:
        return set()


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError as e:
        return e.strerror


def portrait(pid):
    """What a process that should be gone is at."""
    fds = []
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                fds.append(name + " " + os.readlink("/proc/%d/fd/%s" % (pid, name)))
            except OSError:
                pass
    except OSError:
        pass
    status = read("/proc/%d/status" % pid)
    stack = re.findall(r"\] (\w+)", read("/proc/%d/stack" % pid))
    return dict(comm=comm_of(pid), parent=status_of(pid, "PPid"), links=links_of(pid),
                children=read("/proc/%d/task/%d/children" % (pid, pid)),
                wchan=sorted(map(wchan, threads(pid)))[:8],
                stack=stack[:4], threads=status_of(pid, "Threads"),
                pending=re.findall(r"(?:SigPnd|ShdPnd):\s*(\w+)", status), fds=fds[:20])


def links_of(pid):
    """How many links this process holds."""
    count = 0
    try:
        for name in os.listdir("/proc/%d/fdinfo" % pid):
            count += "link_id:" in read("/proc/%d/fdinfo/%s" % (pid, name))
    except OSError:
        pass
    return count


def leftovers(pids, recorder, held):
    """What is wrong 2 s later at the most. Who takes probes back, and a warden that waits for it,
    may take 2 s more, up to 20 s, whenever some of the probes have gone, while the kernel holds it
    up inside of a close, or while it waits for a process that keeps its mmap_lock. What hangs
    elsewhere is a defect."""
    def look():
        bad = {}
        stopped = stopped_or_traced(pids)
        if stopped:
            bad["stopped"] = stopped[:5]
        processes = recorder.helpers()
        if processes:
            bad["processes"] = processes
        return bad

    def probes():
        processes = recorder.helpers()
        # Nobody can fork as long as an app keeps its mmap_lock under a probe that others set.
        if any("percpu_rwsem" in wchan(p) for p in processes):
            return -1
        if not any(takes_probes_back(c) for c, _ in processes.values()) or \
                any(not takes_probes_back(c) and c != "jank-warden" for c, _ in processes.values()):
            return None
        takers = [p for p, (c, _) in processes.items() if takes_probes_back(c)]
        # In a close it waits for RCU and for locks; before one, until nobody keeps his mmap_lock.
        if any(word in wchan(t) for p in takers for t in threads(p)
               for word in ("nanosleep", "rcu", "rwsem", "register_for_each_vma")):
            return -1
        return sum(links_of(p) + len(threads(p)) for p in takers)
    since = time.monotonic()
    end, hard_end = since + 2, since + 20
    bad, left = look(), None
    while bad and time.monotonic() < end:
        time.sleep(0.05)
        bad = look()
        now = probes() if bad else None
        if now is not None and (left is None or now < max(left, 0)) and time.monotonic() < hard_end:
            end, left = time.monotonic() + 2, now
    if time.monotonic() - since > 2 and not bad:
        note("%s: its probes took %.1f s to go" % (recorder.name, time.monotonic() - since))
    if "processes" in bad:
        bad["processes"] = {pid: portrait(pid) for pid in bad["processes"]}
    if not bad:
        # The kernel frees links after its last process in its own time.
        until = time.monotonic() + 3
        links = held & set(bpf_links())
        while links and time.monotonic() < until:
            time.sleep(0.1)
            links = held & set(bpf_links())
        if links:
            bad["links"] = [l for i, l in bpf_links().items() if i in links][:5]
    return bad


def captures_of(recorder):
    recorder.load()
    return sum(len(b.get("stacks", [])) for b in recorder.blocks) + \
        sum(1 for r in recorder.records if r["type"] == "stack")


def rounds(name, stack, plan, count):
    """plan(random) gives the kinds to be killed, in order; "recorder" last or the recorder is
    ended by SIGINT."""
    seed = int(os.environ.get("SEED", random.getrandbits(30)))
    rng = random.Random(seed)
    many = start([apps + "many", 12, 21000 + os.getpid() % 20000, 60, 100, 5],
                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    pids = [int(p) for p in many.stdout.readline().split()]
    many.stdout.readline()
    time.sleep(1.2)
    probes, log, leaks = 0, Log(), []
    bad, killed, missing, flights, broken, alive_after = [], 0, set(), 0, [], 0
    for number in range(count):
        lock = MachineLock(alone=False)
        one = Round(pids, stack, number)
        # Random in the run: the first moments too.
        time.sleep(rng.random() * (0.05 if number % 4 == 0 else 0.5))
        kinds, held, until, tids = plan(rng), set(), time.monotonic() + 1, set()
        for kind in kinds:
            victims = one.victims(kind)
            # One that was killed a moment ago is replaced; behind a dead recorder all end.
            while not victims and one.recorder.process.poll() is None and \
                    time.monotonic() < until:
                time.sleep(0.01)
                victims = one.victims(kind)
            held |= one.recorder.links()
            for pid in one.recorder.seen:
                tids |= threads(pid)
            if not victims and one.recorder.process.poll() is None:
                missing.add(kind)
            if victims:
                killed += kill(rng.choice(victims))
            time.sleep(rng.random() * 0.03)
        recorder = one.recorder
        if "recorder" not in kinds:
            # What died is replaced, or told; the recorder never dies of it.
            time.sleep(0.4)
            if recorder.process.poll() is not None:
                broken.append((kinds, recorder.process.poll(), recorder.errors()[-200:]))
            else:
                alive_after += 1
                recorder.interrupt()
        try:
            recorder.process.wait(5)
        except subprocess.TimeoutExpired:
            broken.append((kinds, "does not end", wchan(recorder.pid)))
            recorder.process.kill()
            recorder.process.wait(5)
        flights += captures_of(recorder) > 0
        if "recorder" not in kinds and not recorder.footer:
            broken.append((kinds, "no footer", recorder.process.returncode))
        probes += len(held)
        wrong = leftovers(pids, recorder, held)
        # A pid is another test's some time later.
        leaks += log.leaks(tids)
        if wrong:
            bad.append((number, kinds, wrong))
            for pid, (comm, _) in recorder.helpers().items():
                if not takes_probes_back(comm):
                    kill(pid)
        lock.__exit__()
    states = [state_of(p) for p in pids]
    tag = "%s: %d rounds, seed %d" % (name, count, seed)
    test.ok(not missing and killed >= count, "%s: each has its process to be killed (%d killed)" %
            (tag, killed), "no such process: %s" % sorted(missing))
    test.ok(flights >= count / 3, "%s: captures were in flight in %d rounds" % (tag, flights))
    stopped = [b for b in bad if "stopped" in b[2]]
    test.ok(not stopped and "T" not in states and "t" not in states and "gone" not in states,
            "%s: 0 targets stopped, traced or dead" % tag, *stopped[:4], states)
    processes = [b for b in bad if "processes" in b[2]]
    test.ok(not processes, "%s: 0 processes left after 2 s" % tag, *processes[:4])
    links = [b for b in bad if "links" in b[2]]
    test.ok(not links and probes, "%s: 0 of %d links left" % (tag, probes), *links[:4])
    if log.fd is None:
        test.skip("%s: no probe is left in place by the kernel" % tag, "there is no /dev/kmsg")
    else:
        test.ok(not leaks, "%s: no probe is left in place by the kernel" % tag, *leaks[:4])
        os.close(log.fd)
    test.ok(not broken, "%s: who loses a helper goes on, and ends with its footer" % tag,
            "%d rounds" % len(broken), *broken[:4])
    note("%s: %d killed, %d rounds with captures, the recorder outlived %d" % (
        tag, killed, flights, alive_after))


def any_order(rng):
    kinds = KINDS[:]
    rng.shuffle(kinds)
    return kinds


def one_helper(rng):
    return [rng.choice(KINDS[1:])]


def recorder_first(_):
    rounds("all in any order, auto", "auto", any_order, ROUNDS)


def with_ptrace(_):
    rounds("recorder or another, ptrace", "ptrace",
           lambda rng: rng.choice([["recorder"], any_order(rng)]), ROUNDS)


def helpers_alone(_):
    rounds("one helper, auto", "auto", one_helper, ROUNDS)


def helpers_ptrace(_):
    rounds("one helper, ptrace", "ptrace", one_helper, ROUNDS)


def recorder_alone(_):
    rounds("the recorder alone, auto", "auto", lambda _: ["recorder"], ROUNDS)


def kill_all(recorder, kinds):
    """All of these kinds at the same time, until none of those that were there is left."""
    stopped = []
    for pid in [p for kind in kinds for p in recorder.of_kind(kind)]:
        try:
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
        except ProcessLookupError:
            pass  # it ended after the look
    for pid in stopped:
        kill(pid)
    return len(stopped)


def zombies_of(pid):
    """Children of this process that have ended and were not waited for."""
    found = {}
    for other in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if status_of(other, "PPid") == str(pid) and state_of(other) == "Z":
            found[other] = comm_of(other)
    return found


def all_at_once(_):
    """Whoever is left forks a new warden, and all that hangs on it comes back; where nobody is left,
    that is said once."""
    innocent = Innocent(ms=200, every=0.5).begin()
    recorder = Recorder("all at once", ["--block", "100ms", "-i", "200ms", "--max-lost", "100"],
                        targets=[innocent.pid], settle=1.5)
    rounds, killed = [], 0
    for kinds in (["warden", "prober", "unwinder"], ["warden", "prober", "unwinder"],
                  ["prober", "warden", "unwinder"],
                  ["warden", "prober", "unwinder", "sampler"],
                  ["sampler", "prober", "unwinder", "warden"]):
        killed += kill_all(recorder, kinds)
        since = boot_ns()
        time.sleep(6)
        rounds.append((kinds, since + 3500 * MS, boot_ns()))
    alive = recorder.process.poll() is None
    wait_for(lambda: not zombies_of(recorder.pid), 2, 0.2)
    zombies = zombies_of(recorder.pid)
    everybody = kill_all(recorder, ["warden", "prober", "unwinder", "sampler", "asker"])
    time.sleep(7)
    lost_alive = recorder.process.poll() is None
    innocent.end()
    recorder.end(8)
    without, few = [], []
    for kinds, since, until in rounds:
        there = [b for b in recorder.blocks if b["pid"] == innocent.pid and b["state"] != "open" and
                 since <= b["start_boot_ns"] <= until - 700 * MS]
        if len(there) < 2:
            few.append((kinds, len(there)))
        without += [(kinds, b["t_boot_ns"], b.get("missing")) for b in there if not has_stack(b)]
    said = recorder.losses()
    told = [e for e in recorder.events if e["event"] == "degraded" and
            e.get("source") == "helpers"]
    test.ok(killed >= 18 and alive and not few, "all at once: %d helpers killed in 5 rounds, the "
            "recorder goes on" % killed, few, recorder.errors())
    test.ok(not zombies, "all at once: who died is reaped", zombies)
    test.ok(not without, "all at once: 3.5 s later each block has its stack again", *without[:4])
    test.ok(said.get("repaired.helper_warden_replaced") and not [
        e for e in told if e["t_boot_ns"] < rounds[-1][2]], "all at once: and it is said", said)
    test.ok(everybody >= 5 and lost_alive and said.get("lost.helpers_lost") == 1 and
            len(told) == 1, "all at once: with nobody left that is said once, as lost",
            everybody, lost_alive, said, told)
    wrong = leftovers([], recorder, set())
    test.ok(recorder.code == 0 and recorder.footer and not wrong,
            "all at once: it ends with its footer and leaves no process", recorder.code,
            recorder.errors(), wrong)


def asker(_):
    """The process that dumps sockets is made anew with all its rights, and counted."""
    recorder = Recorder("asker", ["-i", "100ms", "--max-lost", "100"], settle=0.6)
    wait_for(lambda: recorder.of_kind("asker"), 5)
    seen, rights = [], []
    for _ in range(3):
        pids = recorder.of_kind("asker")
        seen += pids
        for pid in pids:
            rights.append(status_of(pid, "CapEff"))
            kill(pid)
        wait_for(lambda: set(recorder.of_kind("asker")) - set(seen), 3)
        time.sleep(0.3)
    last = recorder.of_kind("asker")
    rights += [status_of(pid, "CapEff") for pid in last]
    recorder.end()
    counted = sum(r.get("repaired", {}).get("net_asker_replaced", 0) for r in recorder.intervals)
    test.ok(len(seen) == 3 and len(last) == 1 and len(set(rights)) == 1 and
            rights[0] == status_of(os.getpid(), "CapEff"),
            "asker: each that was killed was made anew, with its rights", seen, last, rights)
    test.ok(counted == 3, "asker: 3 deaths are counted by name (%d)" % counted, recorder.losses())
    test.ok(recorder.code == 0 and recorder.footer and not recorder.helpers(),
            "asker: the run ends with its footer", recorder.code, recorder.errors())


def tracing(_):
    """--frames live changes settings of the trace buffer; they are as before when it is killed."""
    bad, taken, tries, helped = [], 0, 0, 0
    wanted = 20 if full else 4
    while taken < wanted and tries < 4 * wanted:
        tries += 1
        before = trace_settings()
        recorder = Recorder("tracing %d" % tries, ["--frames", "live", "-i", "100ms", "--max-lost",
                                                   "100"], wait=5, settle=0.2)
        changed = wait_for(lambda: trace_settings() != before, 1)
        if recorder.process.poll() is not None or not changed:
            # Another tool holds the buffer, or its settings were these already.
            recorder.end()
            time.sleep(0.5)
            continue
        taken += 1
        helped += bool(recorder.helpers())
        order = random.choice([["recorder"], ["recorder", "warden"], ["warden", "recorder"],
                               ["prober", "recorder"]])
        for kind in order:
            if kind != order[0]:
                time.sleep(0.5)
            for pid in [recorder.pid] if kind == "recorder" else recorder.of_kind(kind):
                kill(pid)
        recorder.process.wait(5)
        if not wait_for(lambda: trace_settings() == before, 3):
            after = trace_settings()
            others = [p for p in os.listdir("/proc") if p.isdigit() and b"live" in
                      cmdline(p) and p != str(recorder.pid)]
            if others:
                taken -= 1  # what another recorder of this machine set is not ours to judge
                continue
            bad.append((order, {k: (before[k], after[k]) for k in before
                                if before[k] != after[k]}))
        left = wait_for(lambda: not recorder.helpers(), 2)
        if not left:
            bad.append((order, recorder.helpers()))
    if not taken:
        test.skip("trace settings are put back", "another tool holds the trace buffer, or there "
                  "is none (%d tries)" % tries)
    else:
        test.ok(not bad, "trace settings are put back within 3 s, %d of %d times" % (
            taken - len(bad), taken), *bad[:4])


def cmdline(pid):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


parts = [(recorder_first, 7), (with_ptrace, 7), (helpers_alone, 7), (all_at_once, 6), (asker, 3),
         (tracing, 1)]
parts += [(f, 7) for f in (helpers_ptrace, recorder_alone) if full or f.__name__ in sys.argv]
test.run(parts, sys.argv[1:])
