# SPDX-License-Identifier: BSD-2-Clause
"""Blocks in odd calls, on odd stacks and in odd places: each is told once, as long as it was, for
its reason, and with the functions that it was in; and samples that found no room.
usage: odd_truth.py [MODE...]"""
import ctypes, json, os, shutil, signal, socket, subprocess, sys, time
from attack_common import *

test = Test("odd")
app, go = apps + "block_odd", os.path.join(work, "go")
# mode: reason, functions of the stack from the inside out, complete
modes = {
    "abstime": ("sleep", ["block_in_timed_call", "block_here", "main"], True),
    "sigtimedwait": ("other", ["block_in_timed_call", "block_here", "main"], True),
    "sigsuspend": ("other", ["block_in_ipc", "block_here", "main"], True),
    "ppoll": ("poll", ["block_in_timed_call", "block_here", "main"], True),
    "pwait2": ("poll", ["block_in_timed_call", "block_here", "main"], True),
    "waitv": ("futex", ["block_in_new_call", "block_here", "main"], True),
    "uring": ("other", ["block_in_new_call", "block_here", "main"], True),
    "flock": ("other", ["block_on_file", "block_here", "main"], True),
    "setlkw": ("other", ["block_on_file", "block_here", "main"], True),
    "fifo": ("other", ["block_on_file", "block_here", "main"], True),
    "msgrcv": ("other", ["block_in_ipc", "block_here", "main"], True),
    "semop": ("other", ["block_in_ipc", "block_here", "main"], True),
    "uffd": ("page_fault", ["block_in_fault", "block_here", "main"], True),
    # A snapshot is of one stack: what the handler interrupted is on another.
    "altstack": ("sleep", ["nanosleep", "on_alternate_stack"], False),
    "context": ("sleep", ["nanosleep", "on_heap_stack"], None),
    "deep": ("sleep", ["nanosleep", "deep", "block_here", "main"], True),
    "remapped": ("sleep", ["nanosleep", "inside_code"], None),
    "fork": ("sleep", ["nanosleep", "block_beside_forks", "block_here", "main"], True),
    "traced": ("stopped", ["wait4", "block_under_tracer", "block_here", "main"], True),
    "exec": ("sleep", ["nanosleep", "block_here", "main"], True),
    "execpoll": ("sleep", ["nanosleep", "block_here", "main"], True),
}
# plain, in a place of its own
places = ("unlinked", "replaced", "mntns", "chroot", "pidns", "strace")
modes["plain"] = ("sleep", ["nanosleep", "block_here", "main"], True)
modes.update({place: ("sleep", ["nanosleep", "block_here", "main"], True) for place in places})
exits = {"exec": 2}  # blocks that an execve ends


def command(mode):
    """Arguments, and whether the target is a child of what they start."""
    if mode not in places:
        return [app, mode, go], False
    folder = os.path.join(work, mode + ".d")
    own = os.path.join(folder, "block_odd")
    os.mkdir(folder)
    if mode in ("unlinked", "replaced"):
        shutil.copy(app, own)
    elif mode == "mntns":
        # At the same path the host has another program.
        shutil.copy("/bin/true", own)
        return ["unshare", "-m", "sh", "-c", "mount -t tmpfs none %s && cp %s %s && exec %s plain %s" %
                (folder, app, own, own, go)], False
    elif mode == "chroot":
        libraries = subprocess.run(["ldd", app], capture_output=True, text=True).stdout.split()
        for path in {*(l for l in libraries if l.startswith("/")), app}:
            to = folder + (path if path != app else "/block_odd")
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(path, to)
        return ["chroot", folder, "/block_odd", "plain", "/go"], False
    elif mode == "pidns":
        return ["unshare", "-pf", "--mount-proc", app, "plain", go], True
    elif mode == "strace":
        return ["strace", "-f", "-o", "/dev/null", app, "plain", go], True
    return [own, "plain", go], False


class Target:
    def __init__(self, mode, **more):
        self.mode, self.path = mode, os.path.join(work, mode + ".out")
        arguments, is_child = command(mode)
        with open(self.path, "w") as out:
            self.process = start(arguments, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, **more)
        self.pid = self.process.pid
        wait_for(lambda: "ready" in self.text() or self.process.poll() is not None, 5)
        if is_child:
            kids = open("/proc/%d/task/%d/children" % (self.pid, self.pid)).read().split()
            self.pid = int(kids[0]) if kids else 0

    def text(self):
        with open(self.path, errors="replace") as f:
            return f.read()

    def blocks(self):
        rows = [l.split() for l in self.text().splitlines() if l.startswith("block ")]
        return [(int(boot), int(wall)) for _, boot, wall in rows]


def judge(target, records, details):
    reason, wanted, complete = modes[target.mode]
    mine = [b for b in records if b["pid"] == target.pid]
    ended = [b for b in mine if b["state"] != "open"]
    good = len(ended) == len(target.blocks()) and \
        sum(b["state"] == "exited" for b in ended) == exits.get(target.mode, 0)
    if not good:
        details.append(("told", [(b["state"], b["wall_ns"] / MS) for b in mine]))
    for boot, wall in target.blocks():
        hits = [b for b in ended if abs(b["start_boot_ns"] - boot) < 30 * MS]
        for b in hits[:1]:
            if abs(b["wall_ns"] - wall) > 10 * MS:
                details.append(("wall", b["wall_ns"] / MS, wall / MS))
            best = max(b.get("sleeps") or [{"reason": "none", "ns": 0}], key=lambda s: s["ns"])
            reasons = {r["reason"]: r["ns"] for r in b.get("reasons", [])}
            # Half of it each.
            if reason not in (best["reason"], *(r for r in reasons if reasons[r] > 100 * MS)):
                details.append(("reason", reasons, b.get("sleeps")))
            stacks = sorted(b.get("stacks", []), key=lambda s: -s["weight_ns"])
            names = [f.get("symbol") or "?" for f in stacks[0]["frames"]] if stacks else []
            rest = iter(names)
            if not all(any(n == name for n in rest) for name in wanted):
                details.append(("stack", names, b.get("missing")))
            elif complete is not None and bool(stacks[0].get("complete")) != complete:
                details.append(("complete", stacks[0].get("end_reason"), names))
        good &= len(hits) == 1
    return good and not details


def told_blocks(recorder):
    """The blocks so far, each with its stacks, those that came after it as well."""
    with open(recorder.path) as f:
        rows = [json.loads(line) for line in f if line.endswith("\n")]
    blocks = {r["seq"]: r for r in rows if r["type"] == "block"}
    for r in rows:
        if r["type"] == "stack" and r.get("of") in blocks:
            blocks[r["of"]].setdefault("stacks", []).append(r)
    return list(blocks.values())


def all_modes(test):
    chosen = [m for m in modes if not sys.argv[1:] or m in sys.argv[1:]]
    lacking = {}
    if "strace" in chosen and not shutil.which("strace"):
        lacking["strace"] = "no strace here"
    targets = [Target(m) for m in chosen if m not in lacking]
    for target in targets:
        own = os.path.join(work, target.mode + ".d", "block_odd")
        if target.mode == "unlinked":
            os.unlink(own)
        if target.mode == "replaced":
            shutil.copy("/bin/true", own + ".new")
            os.rename(own + ".new", own)
    recorder = Recorder("odd", ["--block", "100ms", "-i", "1s", "--max-lost", "100"],
                        targets=[t.pid for t in targets if t.pid])
    for path in (go, os.path.join(work, "chroot.d", "go")):
        if os.path.isdir(os.path.dirname(path)):
            open(path, "w").close()
    wait_for(lambda: all(len(t.blocks()) >= (1 if t.mode == "execpoll" else 2) for t in targets), 8)
    time.sleep(0.5)
    # Thirty programs at once, none of them unwound before: a busy machine takes its time.
    wait_for(lambda: all(b.get("stacks") for b in told_blocks(recorder)), 5)
    recorder.process.send_signal(signal.SIGINT)
    recorder.process.wait(10)
    records = told_blocks(recorder)
    for mode, why in lacking.items():
        test.skip(mode, why)
    for target in targets:
        details = []
        if [w for _, w in target.blocks() if w < 100 * MS]:
            test.skip(target.mode, "the kernel has no such call, or refuses it")
            continue
        test.ok(judge(target, records, details) and target.blocks(), "%s: %d blocks" %
                (target.mode, len(target.blocks())), *details,
                *([] if target.blocks() else [target.text()]))


def shrink(pid):
    """Leave no room in what this helper sends."""
    pidfd = os.pidfd_open(pid)
    with socket.socket(fileno=ctypes.CDLL(None).syscall(438, pidfd, 3, 0)) as copy:  # pidfd_getfd
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    os.close(pidfd)


def samples_without_room(test):
    """The sampler tries again each 40 ms or so, and says with its next sign of life how many were
    not taken: what came after the last one is told at the end of the run."""
    # The environment is part of the stack: with little of it a sample is smaller than the least room
    # that a socket can have.
    target = Target("abstime", env=dict(os.environ, ROOM="x" * 16384))
    recorder = Recorder("room", ["--block", "100ms", "-i", "1s", "--max-lost", "100"],
                        targets=[target.pid])
    samplers = [p for p, (comm, _) in recorder.helpers().items() if comm == "jank-sampler"]
    shrink(samplers[0])
    before = len(target.blocks())
    open(go, "w").close()
    wait_for(lambda: len(target.blocks()) > before, 5, 0.002)
    # The second block is 70 ms old, and the recorder has not looked at it yet.
    time.sleep(0.47)
    os.unlink(go)
    recorder.process.send_signal(signal.SIGINT)
    recorder.process.wait(10)
    with open(recorder.path) as f:
        records = [json.loads(line) for line in f]
    told = [r.get("lost", {}).get("samples_not_taken", 0) for r in records
            if r["type"] in ("interval", "footer")]
    test.ok(len(told) > 2 and told[-1] > sum(told[:-1]) > 0,
            "samples without room: intervals tell %d, the run %d" % (sum(told[:-1]), told[-1]),
            samplers, recorder.helpers(), target.blocks(), records[-1].get("lost"),
            [(r["wall_ns"], r.get("missing"), [s["capture"] for s in r.get("stacks", [])])
             for r in records if r["type"] == "block"])


def stale_watch(test):
    """What the prober saw of a thread is old when the recorder reads it: the thread has left its
    loop's wait since, and blocks. That block is sampled too."""
    if not shutil.which("gdb"):
        test.skip("a watch that begins late", "no gdb here")
        return
    target = Target("plain")
    path = os.path.join(work, "stale.jsonl")
    # The block begins with the next tick, of 50 ms.
    held = start(["gdb", "-nx", "-batch", "-ex", "break on_standing", "-ex", "run", "-ex",
                  "shell touch %s; sleep 0.15" % go, "-ex", "delete", "-ex", "continue", "--args",
                  jankscope + ".debug", "record", "-q", "-p", target.pid, "-o", path, "-d", "1s",
                  "--block", "100ms", "--max-lost", "100"], stdin=subprocess.DEVNULL,
                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = held.communicate(timeout=30)[0].decode(errors="replace")
    os.unlink(go)
    with open(path) as f:
        blocks = [r for r in map(json.loads, f) if r["type"] == "block" and r["state"] != "open"]
    names = [f.get("symbol") for b in blocks[:1] for s in b.get("stacks", []) for f in s["frames"]]
    test.ok("Breakpoint 1, on_standing" in text and len(blocks) >= 1 and "block_here" in names,
            "a watch that begins late: %s" % [b["wall_ns"] / MS for b in blocks], names,
            [b.get("missing") for b in blocks], target.text(), text)


parts = {"room": samples_without_room, "stale": stale_watch}
test.run([(parts[a], 1) for a in sys.argv[1:] if a in parts] or
         [(samples_without_room, 1), (stale_watch, 1)] * (not sys.argv[1:]) +
         [(all_modes, len(modes) if not sys.argv[1:] else len(sys.argv) - 1)])
