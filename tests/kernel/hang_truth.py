# SPDX-License-Identifier: BSD-2-Clause
"""Targets, files, readers and helpers that hang, beside an app that must lose nothing by it.
usage: hang_truth.py [PART...]"""
import fcntl, functools, os, shutil, signal, subprocess, sys, threading, time
from attack_common import *

test = Test("hang")
INTERVAL = 200
SECONDS = 12 if full else 6
APP_UID = 10123


class HangFs:
    """A FUSE mount whose server can be made to stop. It goes on by itself after `limit` seconds."""

    def __init__(self, program, limit=25):
        self.mount = os.path.join(work, "fuse-%d" % random.getrandbits(30))
        os.mkdir(self.mount)
        self.process = start([apps + "hang_fs", self.mount, program, limit],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("ready"):
            raise RuntimeError("no FUSE mount")
        self.program = self.mount + "/prog"
        self.pid = self.process.pid

    def hang(self):
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(0.1)

    def answer(self):
        os.kill(self.pid, signal.SIGUSR2)

    def end(self):
        """Aborts the connection, so that nobody is left in D."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.process.kill()
        subprocess.run(["umount", "-l", self.mount], stderr=subprocess.DEVNULL)


def as_app():
    os.setgroups([])
    os.setgid(APP_UID)
    os.setuid(APP_UID)


class Evil:
    """A looper that can be told to hang (tests/apps/hang_target.c)."""

    def __init__(self, mode, *arguments, program=None, app=False):
        self.process = start([program or apps + "hang_target", mode, *arguments],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                             preexec_fn=as_app if app else None)
        self.pid, self.mode, self.walls, self.went = self.process.pid, mode, [], False
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("hang_target %s did not start" % mode)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("went"):
                self.went = True
            elif line.startswith("block"):
                self.walls.append(int(line.split()[2]))

    def go(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except OSError:
            pass


class Scene:
    """An innocent app, a recorder of it and of the evil ones, a control beside them."""

    def __init__(self, name, evil=(), flags=(), interval=INTERVAL, extra_targets=(), **options):
        self.name, self.evil, self.interval = name, list(evil), interval
        self.innocent = Innocent()
        self.control = Control(interval)
        self.recorder = Recorder(
            name, ["-i", "%dms" % interval, "--block", "150ms", "--max-lost", "100", *flags],
            targets=[self.innocent.pid, *[e.pid for e in self.evil], *extra_targets], **options)
        self.innocent.begin()

    def finish(self, seconds=SECONDS, answer=None, expect_loss=None, codes=(0,)):
        """Results: 4, and one more with expect_loss."""
        time.sleep(seconds)
        truth = self.innocent.end()
        recorder, name = self.recorder, self.name
        died = recorder.process.poll()
        recorder.interrupt()
        try:
            recorder.process.wait(8)
        except subprocess.TimeoutExpired:
            pass
        recorder.exit_seconds = time.monotonic() - recorder.signal_boot_ns
        hung = recorder.process.poll() is None
        stuck = [(p, c, wchan(p)) for p, (c, _) in recorder.helpers().items()]
        if hung:
            note("%s: recorder %s, helpers %s" % (name, wchan(recorder.pid), stuck))
        if answer:
            answer()
        self.control.end()
        recorder.wait(5)
        allowed = recorder.exit_allowed(self.control)
        good, text = intervals_hold(recorder, self.control, self.interval, skip=2)
        test.ok(good and not hung, "%s: no interval is longer than 1.2 of its length" % name, text)
        found, stacks, total, missed = self.innocent.check(recorder)
        enough = total >= seconds / 1.5 - 1
        test.ok(enough and found == total and stacks == total,
                "%s: the innocent app's %d blocks are told (%d), with stacks (%d)" % (
                    name, total, found, stacks), *missed[:4])
        test.ok(died is None and not hung and recorder.code in codes and recorder.footer,
                "%s: ends with its footer" % name,
                "died before: %s, code %s, footer %s" % (died, recorder.code,
                                                         bool(recorder.footer)), recorder.errors())
        test.ok(not hung and recorder.exit_seconds <= allowed,
                "%s: within 1 s of SIGINT" % name, "%.2f s of %.2f s; left: %s" % (
                    recorder.exit_seconds, allowed, stuck))
        note("%s: exit %.2f s; %s; %s" % (name, recorder.exit_seconds, text, recorder.losses()))
        if expect_loss:
            said = recorder.losses()
            missing = [b.get("missing") for b in recorder.blocks
                       if b["pid"] != self.innocent.pid and not has_stack(b)]
            test.ok(expect_loss(said, missing), "%s: what is lost is said by name" % name, said,
                    missing[:3])
        return recorder


def named(said, missing):
    """A loss that somebody can look up: a counter, or the reason in the block that misses it."""
    counted = [k for k, v in said.items() if v and "missed_switches" not in k]
    return bool(counted) or (bool(missing) and all(m and m.get("stacks") for m in missing))


# ---- targets that do not answer ----

def stopped(_):
    before, later, inside = Evil("none"), Evil("none"), Evil("none", app=True)
    os.kill(before.pid, signal.SIGSTOP)
    scene = Scene("stopped", [before, later, inside])
    time.sleep(1.5)
    os.kill(later.pid, signal.SIGSTOP)
    wait_for(lambda: inside.walls, 3)
    time.sleep(0.8)
    os.kill(inside.pid, signal.SIGSTOP)
    recorder = scene.finish()
    invented = [(b["state"], b["wall_ns"] // MS, b["ledger"]) for e in scene.evil
                for b in recorder.blocks if b["pid"] == e.pid and
                b["wall_ns"] - b["ledger"]["stopped_ns"] - b["ledger"]["runnable_ns"] > 500 * MS]
    test.ok(not invented, "stopped: the time of a stopped target is no block", *invented[:4])
    states = [state_of(e.pid) for e in scene.evil]
    test.ok(states == ["T"] * 3, "stopped: they are left as stopped as they were", states)


def freezer():
    for base, tree in (("/sys/fs/cgroup/freezer", 1), ("/sys/fs/cgroup/unified", 2),
                       ("/sys/fs/cgroup", 2)):
        group = "%s/attack-%d-%d" % (base, os.getpid(), random.getrandbits(20))
        if not os.path.isdir(base) or (tree == 2 and not os.path.exists(base + "/cgroup.procs")):
            continue
        try:
            os.mkdir(group)
        except OSError:
            continue
        if os.path.exists(group + "/freezer.state"):
            return group, "freezer.state", "FROZEN", "THAWED"
        if os.path.exists(group + "/cgroup.freeze"):
            return group, "cgroup.freeze", "1", "0"
        os.rmdir(group)
    return None


class Frozen:
    def __init__(self, pids, threads=False):
        self.group, self.file, self.on, self.off = freezer()
        self.pids = pids

    def set(self, on):
        with open(self.group + "/" + self.file, "w") as f:
            f.write(self.on if on else self.off)

    def freeze(self):
        for pid in self.pids:
            with open(self.group + "/cgroup.procs", "w") as f:
                f.write(str(pid))
        self.set(True)

    def end(self):
        self.set(False)
        for pid in self.pids:
            try:
                with open(os.path.dirname(self.group) + "/cgroup.procs", "w") as f:
                    f.write(str(pid))
            except OSError:
                pass
        wait_for(lambda: not open(self.group + "/cgroup.procs").read(), 2)
        try:
            os.rmdir(self.group)
        except OSError as e:
            note("%s: %s" % (self.group, e))


def frozen(_):
    before, later = Evil("none"), Evil("none", app=True)
    first, second = Frozen([before.pid]), Frozen([later.pid])
    try:
        first.freeze()
        scene = Scene("frozen", [before, later])
        time.sleep(1.5)
        second.freeze()
        recorder = scene.finish()
    finally:
        first.end()
        second.end()
    anr = [(b["state"], b["wall_ns"] // MS) for e in scene.evil for b in recorder.blocks
           if b["pid"] == e.pid and b["wall_ns"] - b["ledger"].get("stopped_ns", 0) -
           b["lost"].get("frozen_unsure_ns", 0) > 700 * MS]
    test.ok(not anr, "frozen: a frozen app is no block", anr)


def in_vfork(_):
    before, later = Evil("vfork"), Evil("vfork", app=True)
    before.go()
    wait_for(lambda: state_of(before.pid) == "D", 3)
    scene = Scene("vfork", [before, later])
    time.sleep(1.5)
    later.go()
    scene.finish()
    test.ok([state_of(e.pid) for e in scene.evil] == ["D", "D"], "vfork: they were in D",
            [state_of(e.pid) for e in scene.evil])


def fuse_scene(name, evils, fs, when, **options):
    """when: called 1.5 s after the recorder began."""
    scene = Scene(name, evils, **options)
    time.sleep(1.5)
    when()
    return scene


def exe_before(_):
    """The program of a target lies on a mount that hangs since before the watch."""
    fs = HangFs(apps + "hang_target")
    try:
        evils = [Evil("none", program=fs.program, app=True), Evil("none", program=fs.program)]
        # its pages are there, or the target itself would hang
        time.sleep(1.6)
        fs.hang()
        scene = Scene("program on a dead disk", evils)
        scene.finish(answer=fs.end, expect_loss=named)
    finally:
        fs.end()


def exe_after(_):
    fs = HangFs(apps + "hang_target")
    try:
        evils = [Evil("none", program=fs.program, app=True), Evil("none", program=fs.program)]
        time.sleep(1.2)
        scene = fuse_scene("disk dies while it records", evils, fs, fs.hang)
        scene.finish(answer=fs.end)
    finally:
        fs.end()


def exe_exit(_):
    """The disk dies, then targets that live on it end and start."""
    fs = HangFs(apps + "hang_target")
    try:
        evils = [Evil("none", program=fs.program, app=True) for _ in range(4)]
        time.sleep(1.2)

        def when():
            fs.hang()
            for evil in evils:
                os.kill(evil.pid, signal.SIGKILL)
        scene = fuse_scene("targets end on a dead disk", evils, fs, when)
        scene.finish(answer=fs.end)
    finally:
        fs.end()


def first_sight(_):
    """A package starts from a mount that hangs a moment later: first seen by a running recorder."""
    fs = HangFs(apps + "hang_target")
    name = "attack.late.%d" % os.getpid()
    try:
        scene = Scene("a package starts on a dead disk", [], extra_targets=[name],
                      flags=["--wait", "1s"])
        evil = start([name, "none"], executable=fs.program, stdin=subprocess.PIPE,
                     stdout=subprocess.DEVNULL)
        time.sleep(0.05)
        fs.hang()
        scene.finish(answer=fs.end)
        test.ok(evil.poll() is None, "a package starts on a dead disk: it lives")
    finally:
        fs.end()


def uffd(mode):
    """As root, and as an app as far as this kernel lets an app have it."""
    root, app = Evil(mode), Evil(mode, app=True)
    early = Evil(mode)
    early.go()
    wait_for(lambda: early.went or early.process.poll() is not None, 2)
    if early.process.poll() is not None:
        raise RuntimeError("%s: no userfaultfd for root" % mode)
    scene = Scene(mode, [early, root, app])
    time.sleep(1.5)
    root.go()
    app.go()
    scene.finish(expect_loss=named if mode.startswith("stack") else None)
    blocks = [len(e.walls) for e in (early, root)]
    test.ok(all(e.process.poll() is None for e in (early, root)) and min(blocks) >= 4,
            "%s: the targets themselves never noticed" % mode, blocks)


def stack_uffd(_):
    uffd("stack_uffd")


def argv_uffd(_):
    uffd("argv_uffd")


def stack_fuse(_):
    """Any app that may map a file of a FUSE mount can do this."""
    fs = HangFs(apps + "hang_target")
    try:
        evil = Evil("stack_fuse", fs.program, fs.pid, app=False)
        scene = fuse_scene("stack on a dead disk", [evil], fs, evil.go)
        scene.finish(answer=fs.end, expect_loss=named)
    finally:
        fs.end()


def held(_):
    """The target's mmap_lock is held for writing, before one recorder begins and while another
    records: whatever takes that lock hangs (cmdline, maps, mem, copies, uprobes)."""
    fs = HangFs(apps + "hang_target", limit=20)
    try:
        evil = Evil("held", fs.mount + "/x", fs.pid)
        scene = fuse_scene("mmap_lock held", [evil], fs, evil.go, flags=["--smaps", "500ms"])
        recorder = scene.finish(answer=fs.end)
        rows = [r for i in recorder.intervals for r in i["memory"]["processes"]]
        mine = [r for r in rows if r["pid"] == evil.pid]
        said = [r["missing"]["pss_bytes"] for r in mine if "pss_bytes" in r.get("missing", {})]
        # Its PSS once before it went, and when it is free again; RSS takes no lock.
        test.ok(len(said) >= 2 and recorder.losses().get("lost.memory_unread") and
                all(r["rss_bytes"] > 0 for r in mine) and all(r.get("pss_bytes", 1) for r in mine),
                "mmap_lock held: its PSS is absent, and why, its RSS is told", said[:3], mine[-1:],
                recorder.losses())
        others = [r for r in rows if r["pid"] == scene.innocent.pid and "pss_bytes" in r]
        test.ok(len(others) >= SECONDS, "mmap_lock held: the PSS of others is told",
                len(others))
    finally:
        fs.end()


def held_before(_):
    fs = HangFs(apps + "hang_target", limit=20)
    try:
        # static: no uprobe on a shared libc has to take its lock
        evil = Evil("held", fs.mount + "/x", fs.pid)
        evil.go()
        wait_for(lambda: state_of(evil.pid) == "D", 3)
        # The innocent app must have been started before: fork takes no lock of others.
        scene = Scene("mmap_lock held before", [evil], flags=["--detector", "syscall"])
        scene.finish(answer=fs.end)
    finally:
        fs.end()


FORKER = """
import os, time
end, longest = time.monotonic() + 9, 0
while time.monotonic() < end:
    since = time.monotonic()
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    longest = max(longest, time.monotonic() - since)
    time.sleep(0.02)
print(int(longest * 1000))
"""


def forks(_):
    """A process that nobody watches holds its mmap_lock: a uprobe on the libc it maps would wait for
    it with dup_mmap_sem held, and nobody on the machine could fork."""
    fs = HangFs(apps + "hang_target", limit=3)
    try:
        evil = Evil("held", fs.mount + "/x", fs.pid)
        control = subprocess.Popen([sys.executable, "-c", FORKER], stdout=subprocess.PIPE,
                                   text=True)
        evil.go()
        wait_for(lambda: state_of(evil.pid) == "D", 3)
        scene = Scene("forks", [])
        time.sleep(5)
        fs.end()
        longest = int(control.communicate()[0])
        test.ok(longest < 1000, "forks: nobody on the machine waits to fork", "%d ms" % longest)
        recorder = scene.finish()
        degraded = [e for e in recorder.events if e["event"] == "degraded" and
                    str(evil.pid) in e.get("reason", "")]
        test.ok(len(degraded) == 1 and recorder.losses().get("late.probes_held_off"),
                "forks: who holds its lock is said", recorder.events[:9], recorder.losses())
    finally:
        fs.end()


def forks_end(_):
    """The same when the run ends: its probes stay until they can be removed, and so does one
    process; then nothing is left."""
    fs = HangFs(apps + "hang_target", limit=25)
    try:
        evil = Evil("held", fs.mount + "/x", fs.pid)
        scene = Scene("forks at the end", [])
        recorder = scene.recorder
        wait_for(lambda: recorder.links(), 3)
        time.sleep(1)
        mine = recorder.links()
        evil.go()
        wait_for(lambda: state_of(evil.pid) == "D", 3)
        control = subprocess.Popen([sys.executable, "-c", FORKER], stdout=subprocess.PIPE,
                                   text=True)
        scene.finish(seconds=2)
        # The warden waits for a while before it leaves its closer alone.
        wait_for(lambda: [c for c, _ in recorder.helpers().values()] == ["jank-closer"], 8, 0.2)
        kept = mine & set(bpf_links())
        closers = [c for c, _ in recorder.helpers().values()]
        test.ok(kept and closers == ["jank-closer"], "forks at the end: its probes are kept, by one "
                "process", mine, kept, closers)
        longest = int(control.communicate()[0])
        test.ok(longest < 1000, "forks at the end: nobody on the machine waits to fork",
                "%d ms" % longest)
        fs.end()
        wait_for(lambda: not recorder.helpers() and not mine & set(bpf_links()), 6, 0.2)
        test.ok(not recorder.helpers() and not mine & set(bpf_links()),
                "forks at the end: then no probe and no process is left", recorder.helpers(),
                mine & set(bpf_links()))
    finally:
        fs.end()


# ---- helpers that do not answer ----

def stop_helper(kind):
    evil = Evil("none", app=True)
    scene = Scene(kind + " stopped", [evil])
    time.sleep(1.5)
    pids = scene.recorder.of_kind(kind)
    if kind == "prober":
        pids = pids[:1]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1)
    states = [state_of(p) for p in pids]
    lose = kind in ("unwinder", "sampler")
    time.sleep(SECONDS)
    truth = scene.innocent.end()
    recorder = scene.recorder
    recorder.interrupt()
    recorder.wait(8)
    scene.control.end()
    good, text = intervals_hold(recorder, scene.control, INTERVAL, skip=2)
    test.ok(pids, "%s stopped: there is such a process" % kind, recorder.seen)
    test.ok(good, "%s stopped: no interval is longer than 1.2 of its length" % kind, text)
    found, stacks, total, missed = scene.innocent.check(recorder)
    # A helper that stands still is replaced after a second: what it had in its hands may be lost,
    # the rest is not.
    test.ok(pids and found == total and total >= 5, "%s stopped: no block is lost (%d of %d)" %
            (kind, found, total), *missed[:4])
    test.ok(pids and stacks >= total - (3 if lose else 1), "%s stopped: stacks come again (%d of %d)" %
            (kind, stacks, total), *missed[:4])
    without = total - stacks
    said = recorder.losses()
    named_blocks = [m for m in missed if m[0] == "no stack" and m[2] and m[2].get("stacks")]
    test.ok(pids and (not without or len(named_blocks) == without or named(said, [])),
            "%s stopped: what it cost is said by name" % kind, said, without)
    test.ok(pids and recorder.exit_seconds <= recorder.exit_allowed() and recorder.code == 0 and recorder.footer,
            "%s stopped: ends within 1 s with its footer" % kind, recorder.exit_seconds,
            recorder.code, recorder.errors())
    left = wait_for(lambda: not [p for p in recorder.helpers()], 3)
    test.ok(pids and left, "%s stopped: no process is left behind" % kind, recorder.helpers(),
            states)


def warden(_):
    stop_helper("warden")


def prober(_):
    stop_helper("prober")


def sampler(_):
    stop_helper("sampler")


def unwinder(_):
    stop_helper("unwinder")


# ---- readers and disks ----

def unread(name, flags, size):
    """stdout is a pipe that nobody reads and that is full after a moment."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, 1031, size)  # F_SETPIPE_SZ
    innocent = Innocent()
    control = Control(50)
    path = os.path.join(work, name.replace(" ", "-") + ".jsonl")
    recorder = Recorder(name, ["-i", "50ms", "--block", "150ms", "-o", path, "--max-lost", "100",
                               *flags], targets=[innocent.pid], output=None, stdout=write_end)
    os.close(write_end)
    wait_for(lambda: os.path.exists(path) and '"target_start"' in open(path).read(), 15)
    innocent.begin()
    time.sleep(SECONDS)
    innocent.end()
    recorder.interrupt()
    try:
        recorder.process.wait(6)
    except subprocess.TimeoutExpired:
        pass
    hung = recorder.process.poll() is None
    recorder.exit_seconds = time.monotonic() - recorder.signal_boot_ns
    where = wchan(recorder.pid)
    control.end()
    os.close(read_end)
    recorder.wait(3)
    recorder.load(path)
    good, text = intervals_hold(recorder, control, 50, skip=2)
    test.ok(good and len(recorder.intervals) >= SECONDS * 1000 / 50 * 0.8,
            "%s: -o goes on, in time" % name, text)
    found, stacks, total, missed = innocent.check(recorder)
    test.ok(found == total and stacks == total and total >= 3,
            "%s: the app's %d blocks are in the file (%d, %d with stacks)" % (
                name, total, found, stacks), *missed[:3])
    test.ok(not hung and recorder.exit_seconds <= recorder.exit_allowed(control) and recorder.footer,
            "%s: SIGINT ends it within 1 s with its footer" % name,
            "%.2f s of %.2f s, %s" % (recorder.exit_seconds, recorder.exit_allowed(control), where), recorder.errors())
    said = recorder.losses()
    counted = [k for k, v in said.items() if v and any(w in k for w in
                                                       ("table", "stdout", "sink", "output"))]
    text = recorder.errors()
    test.ok(counted or re.search(r"(table|stdout|interval).{0,40}(drop|not read|lost|skip)|drop",
                                 text), "%s: how much of the table was dropped is said" % name,
            said, text)


def stdout_table(_):
    unread("table that nobody reads", [], 4096)


def stdout_json(_):
    unread("JSON that nobody reads", ["--json"], 65536)


def slow_reader(_):
    """A reader that takes a line a second gets whole lines."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, 1031, 4096)
    innocent = Innocent()
    control = Control(50)
    path = os.path.join(work, "slow.jsonl")
    recorder = Recorder("slow reader", ["-i", "50ms", "-o", path, "--max-lost", "100"],
                        targets=[innocent.pid], output=None, stdout=write_end)
    os.close(write_end)
    text = b""
    for _ in range(SECONDS):
        time.sleep(1)
        text += os.read(read_end, 700)
    recorder.interrupt()

    def drain():
        chunks = []
        while True:
            chunk = os.read(read_end, 65536)
            if not chunk:
                break
            chunks.append(chunk)
        chunks_text.append(b"".join(chunks))
    chunks_text = []
    drainer = threading.Thread(target=drain)
    time.sleep(1.2)
    ended = recorder.process.poll() is not None
    drainer.start()
    recorder.wait(5)
    drainer.join(5)
    control.end()
    recorder.load(path)
    good, why = intervals_hold(recorder, control, 50, skip=2)
    test.ok(good, "slow reader: intervals hold", why)
    test.ok(ended and recorder.footer, "slow reader: SIGINT ends it within 1 s",
            recorder.exit_seconds)
    lines = (text + b"".join(chunks_text)).decode(errors="replace").splitlines()
    # Each interval of the table starts with its time; a whole one has its line of losses or rows.
    heads = [l for l in lines if re.match(r"\d\d:\d\d:\d\d", l)]
    glued = [l for l in lines if len(re.findall(r"\d\d:\d\d:\d\dZ", l)) > 1]
    test.ok(len(heads) >= 2 and not glued, "slow reader: gets whole tables or none", glued[:3],
            lines[-5:])


def output_hangs(what, folder, hang, release):
    """-o on a disk that hangs: the records on stdout go on, and the run ends."""
    innocent = Innocent().begin()
    control = Control(INTERVAL)
    collected = os.path.join(work, "out-stdout.jsonl")
    with open(collected, "w") as out:
        recorder = Recorder(what + " of -o hangs", ["-i", "%dms" % INTERVAL, "--block", "150ms",
                                                    "--json", "--max-lost", "100", "-o",
                                                    folder + "/f.jsonl"],
                            targets=[innocent.pid], output=None, stdout=out)
    time.sleep(2)
    hang()
    time.sleep(SECONDS)
    waits = [wchan(p) for p in recorder.helpers()]
    innocent.end()
    recorder.interrupt()
    try:
        recorder.process.wait(5)
    except subprocess.TimeoutExpired:
        pass
    hung = recorder.process.poll() is None
    recorder.exit_seconds = time.monotonic() - recorder.signal_boot_ns
    where = wchan(recorder.pid)
    release()
    recorder.wait(5)
    control.end()
    recorder.load(collected)
    good, text = intervals_hold(recorder, control, INTERVAL, skip=2)
    wanted = SECONDS * 1000 / INTERVAL * 0.8
    test.ok(good and len(recorder.intervals) >= wanted, what + " of -o hangs: stdout goes on",
            text)
    found, stacks, total, missed = innocent.check(recorder)
    test.ok(found == total and stacks == total and total >= 3,
            what + " of -o hangs: the app's %d blocks are told (%d, %d with stacks)" % (
                total, found, stacks), *missed[:3])
    test.ok(not hung and recorder.exit_seconds <= recorder.exit_allowed(),
            what + " of -o hangs: SIGINT ends it within 1 s", "%.2f s, %s" % (
                recorder.exit_seconds, where))
    test.ok(not hung and (recorder.code not in (0, None) or
                          "f.jsonl" in recorder.errors() or "output" in recorder.errors()),
            what + " of -o hangs: and that the file is not whole is said", recorder.code,
            recorder.errors())
    return waits


def out_fuse(_):
    fs = HangFs(apps + "hang_target")
    try:
        output_hangs("disk", fs.mount, fs.hang, fs.end)
    finally:
        fs.end()


def run(*command):
    """Output of a command, or None."""
    done = subprocess.run([str(a) for a in command], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL)
    return done.stdout.strip() if not done.returncode else None


class Disk:
    """An ext4 on a block device that can be made to hang: of the device mapper where the kernel has
    it, suspended; else a loop device whose file is on a FUSE server that stops."""

    def __init__(self):
        self.image, self.mount, self.fs = work + "/disk.img", work + "/disk", None
        self.name = "hang-%d" % os.getpid()
        self.loop = self.mapped = None
        os.mkdir(self.mount)
        with open(self.image, "wb") as f:
            f.truncate(16 << 20)
        if run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", self.image) is None:
            raise OSError("no mkfs.ext4")
        if run("dmsetup", "version") is not None:
            self.loop = run("losetup", "-f", "--show", self.image)
            if run("dmsetup", "create", self.name, "--table", "0 32768 linear %s 0" % self.loop) is None:
                raise OSError("dmsetup create fails")
            self.mapped = "/dev/mapper/" + self.name
        else:
            self.fs = HangFs(self.image)
            self.loop = run("losetup", "-f", "--show", self.fs.program)
        # Written through, so that a write of the recorder's waits for the disk.
        if not self.loop or run("mount", "-o", "sync", self.mapped or self.loop,
                                self.mount) is None:
            raise OSError("no block device: %s" % self.loop)

    def hang(self):
        if self.fs:
            self.fs.hang()
        else:
            run("dmsetup", "suspend", "--nolockfs", "--noflush", self.name)

    def release(self):
        if self.fs:
            self.fs.answer()
        elif self.mapped:
            run("dmsetup", "resume", self.name)

    def end(self):
        self.release()
        run("umount", "-l", self.mount)
        if self.mapped:
            run("dmsetup", "remove", "--retry", self.name)
        if self.loop:
            run("losetup", "-d", self.loop)
        time.sleep(0.5)
        if self.fs:
            self.fs.end()


def out_disk(_):
    disk = None
    try:
        disk = Disk()
    except OSError as e:
        for i in range(5):
            test.skip("block device of -o hangs %d" % i, str(e))
        return
    try:
        waits = output_hangs("block device", disk.mount, disk.hang, disk.release)
        # That it did hang: a process of the recorder's waited for the disk.
        test.ok(any(w.startswith("D") for w in waits),
                "block device of -o hangs: its writer waits for the disk", waits)
    finally:
        disk.end()


def alone(part):
    @functools.wraps(part)
    def run_alone(_):
        with MachineLock(alone=True):
            part(_)
    return run_alone


held, held_before, forks, forks_end = map(alone, (held, held_before, forks, forks_end))
parts = [(stopped, 6), (frozen, 5), (in_vfork, 5), (exe_before, 5), (exe_after, 4), (exe_exit, 4),
         (first_sight, 5), (stack_uffd, 6), (argv_uffd, 5), (stack_fuse, 5), (held, 6),
         (held_before, 4), (forks, 6), (forks_end, 7), (warden, 7), (prober, 7), (sampler, 7),
         (unwinder, 7), (stdout_table, 4), (stdout_json, 4), (slow_reader, 3), (out_fuse, 4),
         (out_disk, 5)]
probe = freezer()
if probe:
    os.rmdir(probe[0])
else:
    parts = [p for p in parts if p[0] != frozen]
    note("no cgroup freezer can be made here: the part frozen is left out")


def lanes(names, count):
    """Runs these parts in `count` processes beside each other, because each part waits far more
    than it computes; prints what they printed. True: all of them passed."""
    running = []
    for i in range(count):
        out = tempfile.TemporaryFile("w+", errors="replace")
        # In this process group, so that whatever ends this program ends them.
        running.append((out, subprocess.Popen([sys.executable, os.path.abspath(__file__),
                                               *names[i::count]], stdout=out,
                                              stdin=subprocess.DEVNULL)))
    codes = [process.wait() for _, process in running]
    for out, _ in running:
        out.seek(0)
        sys.stdout.write(out.read())
        sys.stdout.flush()
    return not any(codes)


chosen = sys.argv[1:]
if chosen:
    test.run(parts, chosen)
# Parts that stall fork() and uprobes of the whole machine run when the others are through.
beside = [f.__name__ for f, _ in parts if f not in (held, held_before, forks, forks_end)]
test.failed += not lanes(beside, 3)
test.run([p for p in parts if p[0].__name__ not in beside])
