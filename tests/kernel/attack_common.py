# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of an attacker share: TAP with a plan, the recorder and its processes, targets."""
import atexit, fcntl, json, os, random, re, shutil, signal, statistics, struct, subprocess, sys
import tempfile, threading, time, traceback

MS = 1000000
build = os.path.abspath(os.environ.get("BUILD", "build"))
jankscope = os.environ.get("JANKSCOPE") or build + "/jankscope"
apps = build + "/tests/apps/"
full = os.environ.get("FULL", "") not in ("", "0")
work = tempfile.mkdtemp(prefix="attack-")
os.chmod(work, 0o755)
print_lock = threading.Lock()


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def note(text):
    with print_lock:
        for line in str(text).splitlines():
            print("# " + line[:600])
        sys.stdout.flush()


class Test:
    """Each part says how many results it gives; an exception or another number is a failure."""

    def __init__(self, name):
        self.name, self.results, self.failed = name, 0, 0

    def line(self, good, name, tail=""):
        with print_lock:
            self.results += 1
            self.failed += not good
            print("%s - %s: %s%s" % ("ok" if good else "not ok", self.name, name, tail))
            sys.stdout.flush()

    def ok(self, good, name, *details):
        self.line(bool(good), name)
        if not good:
            for detail in details:
                note(str(detail)[:1500])
        return bool(good)

    def skip(self, name, why):
        """why: what this machine lacks, as the caller has just found out."""
        self.line(True, name, " # SKIP " + why)

    def run(self, parts, chosen=()):
        """parts: [(function, results)]; chosen: names of those to run. Ends the process."""
        parts = [(f, n) for f, n in parts if not chosen or f.__name__ in chosen]
        print("1..%d" % sum(n for _, n in parts))
        sys.stdout.flush()
        for function, count in parts:
            before, since = self.results, time.monotonic()
            try:
                function(self)
            except BaseException as e:
                self.line(False, "%s: %s" % (function.__name__, type(e).__name__))
                note(traceback.format_exc())
                if isinstance(e, KeyboardInterrupt):
                    break
            else:
                if self.results - before != count:
                    self.line(False, "%s gave %d results instead of %d" % (
                        function.__name__, self.results - before, count))
            end_all()
            note("%s: %.1f s" % (function.__name__, time.monotonic() - since))
        sys.exit(1 if self.failed else 0)


# ---- processes that this test started, and nobody else's ----

started, recorders = [], []


def takes_probes_back(comm):
    """Who is killed over that leaves a breakpoint in every process that has it ("leaking uprobe" in
    the kernel's log); it ends by itself."""
    return comm in ("jank-closer", "jank-attach")


def end_all():
    def helpers():
        return [h for r in recorders if r.process.poll() is not None for h in r.helpers().items()]
    for pid, (comm, _) in helpers():
        try:
            if not takes_probes_back(comm):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    if not wait_for(lambda: not helpers(), 20, 0.05):
        note("left behind: %s" % [(p, c, wchan(p)) for p, (c, _) in helpers()])
    recorders.clear()
    # Who has something to put back does it at the end of its input.
    inputs = [p.stdin for p in started if p.stdin and not p.stdin.closed and p.poll() is None]
    for stream in inputs:
        try:
            stream.close()
        except OSError:
            pass
    if inputs:
        time.sleep(0.3)
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGCONT)
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        if process.poll() is None:
            process.kill()
    for process in started:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            note("pid %d does not die: %s" % (process.pid, wchan(process.pid)))
    started.clear()


@atexit.register
def clean():
    end_all()
    if os.environ.get("KEEP"):
        print("# kept in " + work)
    else:
        shutil.rmtree(work, ignore_errors=True)


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def weigh(pid):
    """With autogroups niceness counts inside a session only; this one gets what it would have on
    a device. The control gets the same."""
    try:
        with open("/proc/%d/autogroup" % pid, "w") as f:
            f.write("-10")
    except OSError:
        pass


def start(arguments, **options):
    options.setdefault("start_new_session", True)
    process = subprocess.Popen([str(a) for a in arguments], **options)
    started.append(process)
    if options["start_new_session"]:
        weigh(process.pid)
    return process


def wchan(pid):
    try:
        with open("/proc/%d/wchan" % pid) as f:
            return state_of(pid) + " " + f.read()
    except OSError:
        return "gone"


def stat_of(pid):
    """Fields of /proc/PID/stat from the state on, or None."""
    try:
        with open("/proc/%s/stat" % pid, errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None


def state_of(pid):
    fields = stat_of(pid)
    return fields[0] if fields else "gone"


def comm_of(pid):
    try:
        with open("/proc/%d/comm" % pid, errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""


def status_of(pid, key):
    try:
        with open("/proc/%d/status" % pid, errors="replace") as f:
            for line in f:
                if line.startswith(key + ":"):
                    return line.split(None, 1)[1].strip()
    except OSError:
        pass
    return None


def stopped_or_traced(pids):
    """[(pid, tid, state, tracer)] of threads that somebody stopped or traces."""
    bad = []
    for pid in pids:
        try:
            tids = os.listdir("/proc/%d/task" % pid)
        except OSError:
            continue
        for tid in tids:
            try:
                with open("/proc/%d/task/%s/status" % (pid, tid), errors="replace") as f:
                    text = dict(l.split(":", 1) for l in f if ":" in l)
            except OSError:
                continue
            state, tracer = text["State"].split()[0], int(text["TracerPid"])
            if state in "tT" or tracer:
                bad.append((pid, int(tid), state, tracer))
    return bad


def wait_for(condition, seconds, step=0.02):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() >= end:
            return value
        time.sleep(step)


# ---- other suites on this machine ----

class MachineLock:
    """An app that keeps its mmap_lock stalls fork() and the probes of the whole machine: who makes
    one holds this alone, and who measures such things shares it. After `seconds` it goes on without.
    """
    folder = "/tmp"

    def __init__(self, alone, seconds=120):
        end = time.monotonic() + seconds
        # Who waits to be alone has the gate, and nobody else comes in.
        self.gate, self.lock = self.open("gate"), self.open("lock")
        self.held = self.take(self.gate, fcntl.LOCK_EX, end) and self.take(
            self.lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, end)
        if not self.held:
            note("another suite keeps %s/jankscope-mmap.lock" % self.folder)
        if not alone:
            os.close(self.gate)
            self.gate = -1

    def open(self, name):
        return os.open("%s/jankscope-mmap.%s" % (self.folder, name), os.O_RDWR | os.O_CREAT |
                       os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)

    @staticmethod
    def take(fd, how, end):
        def now():
            try:
                fcntl.flock(fd, how | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False
        return wait_for(now, end - time.monotonic(), 0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for fd in (self.gate, self.lock):
            if fd >= 0:
                os.close(fd)


# ---- the recorder ----

class Recorder:
    def __init__(self, name, flags, targets=(), output="file", limits=(), wait=15, settle=0.5,
                 stdout=None, env=None):
        self.name = name
        self.path = os.path.join(work, re.sub(r"\W+", "-", name) + ".jsonl")
        self.errors_path = self.path + ".err"
        command = [*limits, jankscope, "record"]
        for target in targets:
            command += ["-p", target]
        if output == "file":
            command += ["-q", "-o", self.path]
        elif output:
            command += ["-q", "-o", output]
        command += list(flags)
        self.log = open(self.errors_path, "w")
        self.process = start(command, stdin=subprocess.DEVNULL, stderr=self.log,
                             stdout=self.log if stdout is None else stdout, env=env)
        self.pid = self.process.pid
        self.since = (stat_of(self.pid) or [0] * 20)[19]
        recorders.append(self)
        self.code, self.seen, self.signal_boot_ns = None, {}, None
        self.sessions = set()  # that its helpers lead
        self.out_path = self.path if output == "file" else output
        # How long its main thread was runnable and got no CPU, what this machine did to it; and
        # how long it ran.
        self.waits = []
        threading.Thread(target=self.watch_waits, daemon=True).start()
        if wait and self.out_path:
            wait_for(lambda: self.process.poll() is not None or
                     (os.path.exists(self.path) and os.path.getsize(self.path) > 0), wait)
        time.sleep(settle)

    def watch_waits(self):
        path = "/proc/%d/schedstat" % self.pid
        while True:
            try:
                with open(path) as f:
                    ran, waited = f.read().split()[:2]
                    self.waits.append((boot_ns(), int(waited), int(ran)))
            except (OSError, IndexError):
                return
            time.sleep(0.02)

    def waited_ns(self, since_boot_ns, until_boot_ns, what=1):
        """For a CPU, between about these two; what=2: ran."""
        inside = [row[what] for row in self.waits for t in row[:1] if since_boot_ns - 40 * MS <= t <=
                  until_boot_ns + 40 * MS]
        return inside[-1] - inside[0] if inside else 0

    def helpers(self):
        """{pid: (comm, start time)} of the processes that this recorder made and that are alive:
        its session's, and its descendants."""
        parents, rows = {}, {}
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            fields = stat_of(int(name))
            if fields and fields[0] not in "ZX":
                pid = int(name)
                parents[pid] = int(fields[1])
                rows[pid] = (int(fields[3]), fields[19])
        mine = {}
        # A pid that is free is given to somebody else.
        reused = self.pid in rows and rows[self.pid][1] != self.since
        for pid, (session, since) in rows.items():
            at, steps = pid, 0
            known = self.seen.get(pid)
            if reused:
                if known and known[1] == since:
                    mine[pid] = (comm_of(pid), since)
                continue
            while at not in (0, 1, self.pid) and steps < 20:
                at, steps = parents.get(at, 0), steps + 1
            # What a helper forked is in the helper's session, also when both parents are dead.
            if pid != self.pid and (at == self.pid or session == self.pid or
                                    session in self.sessions or (known and known[1] == since)):
                mine[pid] = (comm_of(pid), since)
                if session == pid:
                    self.sessions.add(pid)
        self.seen.update(mine)
        return mine

    def of_kind(self, kind):
        """pids of helpers: warden, prober, sampler or unwinder, by their names."""
        return [p for p, (comm, _) in sorted(self.helpers().items())
                if re.match(r"jank(scope)?-" + kind[:3], comm)]

    def links(self):
        """Ids of the BPF links that this recorder's processes hold now. An id is never used again."""
        ids = set()
        for pid in (self.pid, *self.helpers()):
            try:
                names = os.listdir("/proc/%d/fdinfo" % pid)
            except OSError:
                continue
            for name in names:
                try:
                    with open("/proc/%d/fdinfo/%s" % (pid, name)) as f:
                        for line in f:
                            if line.startswith("link_id:"):
                                ids.add(int(line.split()[1]))
                except OSError:
                    pass
        return ids

    def interrupt(self, number=signal.SIGINT):
        self.helpers()
        self.signal_boot_ns, self.signalled_ns = time.monotonic(), boot_ns()
        if self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, seconds=20):
        """Seconds from the signal until its end; the exit code, or "timeout"."""
        try:
            self.code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            note("%s: does not end: %s %s" % (self.name, wchan(self.pid), [
                (p, c, wchan(p)) for p, (c, _) in self.helpers().items()]))
            self.code = "timeout"
        self.exit_seconds = time.monotonic() - (self.signal_boot_ns or time.monotonic())
        if self.code == "timeout":
            self.process.kill()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                pass
        self.load()
        return self.code

    def end(self, seconds=20):
        self.interrupt()
        return self.wait(seconds)

    def load(self, path=None):
        self.records, self.torn = [], 0
        path = path or self.path
        if os.path.exists(path):
            with open(path, "rb") as f:
                for line in f:
                    try:
                        self.records.append(json.loads(line))
                    except ValueError:
                        self.torn += 1
        self.header = self.records[0] if self.records else {}
        last = self.records[-1] if self.records else {}
        self.footer = last if last.get("type") == "footer" else None
        self.intervals = [r for r in self.records if r["type"] == "interval"]
        self.blocks = [r for r in self.records if r["type"] == "block"]
        self.events = [r for r in self.records if r["type"] == "event"]
        # A stack that came after its block joins it.
        by_seq = {b["seq"]: b for b in self.blocks}
        for r in self.records:
            if r["type"] == "stack" and r.get("of") in by_seq:
                by_seq[r["of"]].setdefault("stacks", []).append(r)
        return self.records

    def errors(self):
        try:
            with open(self.errors_path, errors="replace") as f:
                return f.read()[-1500:]
        except OSError:
            return ""

    def exit_allowed(self, control=None):
        """Seconds: 1, and what the machine did: its waits for a CPU since SIGINT, some scheduling
        of the helpers that it waits for, the reaping by this test. control: a Control that ended
        just behind it; what the end of its recorder took (whose disk and helpers are as busy) is
        the machine's."""
        return 1.2 + self.waited_ns(self.signalled_ns, boot_ns()) / 1e9 + \
            min(os.getloadavg()[0], 20) * 0.01 + (control.reference.exit_seconds if control else 0)

    def died_of_signal(self):
        return isinstance(self.code, int) and self.code < 0

    def ended_blocks(self, pid, at_least_ns=0):
        return [b for b in self.blocks if b["pid"] == pid and b["state"] != "open" and
                b["wall_ns"] >= at_least_ns]

    def source(self, name):
        for s in self.header.get("sources", []):
            if s["name"] == name:
                return s
        return {}

    def losses(self):
        """Everything that this recording says was lost or late, by name."""
        said = {}
        for r in self.records:
            if r["type"] in ("interval", "footer"):
                for kind in ("lost", "late", "repaired"):
                    for key, count in (r.get(kind) or {}).items():
                        said[kind + "." + key] = max(count, said.get(kind + "." + key, 0))
        return said


def has_stack(block):
    return any(s.get("frames") for s in block.get("stacks", []))


# ---- a clock beside the recorder: what the machine itself did to an interval ----

class Control:
    """A timer program with the recorder's niceness, its intervals' lengths; and a recorder of the
    same kind without any target, which has all of the machine's troubles and none of the attack."""

    def __init__(self, interval_ms):
        self.interval_ms = interval_ms
        self.reference = Recorder("reference %d" % random.getrandbits(30), [
            "-i", "%dms" % interval_ms, "--max-lost", "100"], wait=0, settle=0)
        self.path = os.path.join(work, "control-%d-%d" % (interval_ms, random.getrandbits(30)))
        self.process = start([apps + "control_timer", interval_ms, self.path],
                             stdin=subprocess.DEVNULL)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reference.end()
        with open(self.path, "rb") as f:
            data = f.read()
        self.rows = list(struct.iter_unpack("<QQ", data[:len(data) // 16 * 16]))
        self.durations = [d for _, d in self.rows]
        return self

    def excess(self, since_boot_ns, until_boot_ns):
        """By how much the recorder without targets was late about then."""
        worst, before = 0, None
        for i in self.reference.intervals:
            if before and i["t_boot_ns"] >= since_boot_ns - 100 * MS and \
                    before <= until_boot_ns + 100 * MS:
                worst = max(worst, i["dur_ns"] - self.interval_ms * MS,
                            i["t_boot_ns"] - before - self.interval_ms * MS)
            before = i["t_boot_ns"]
        return worst

    def longest(self, since_boot_ns=0, until_boot_ns=1 << 63):
        return max([d for t, d in self.rows if since_boot_ns <= t <= until_boot_ns] or [0])


def intervals_hold(recorder, control, interval_ms, skip=1, work_counts=False):
    """(good, text): no interval is longer than 1.2 of its length, but for what the machine did to
    a timer and to a recorder without targets beside it, and but for the time that the recorder itself waited for a CPU or used
    one (a recorder that hangs does neither; with work_counts what it uses above a fifth of the
    interval is its own fault: others on this machine make work for it as well)."""
    wanted = interval_ms * MS
    lengths = [(i["dur_ns"], i["t_boot_ns"]) for i in recorder.intervals[skip:]]
    # The last one is cut by the end of the run.
    lengths = lengths[:-1]
    if len(lengths) < 3:
        return False, "only %d intervals" % len(lengths)
    delay = max(control.longest() - wanted, 0)

    def allowed(d, t):
        worked = 0 if work_counts else recorder.waited_ns(t - d, t, 2)
        return 1.2 * wanted + delay + 10 * MS + recorder.waited_ns(t - d, t) + worked + \
            1.5 * control.excess(t - d, t)
    long = [(round(d / MS, 1), round(allowed(d, t) / MS, 1), t) for d, t in lengths
            if d > allowed(d, t)]
    text = "%d intervals of %d ms, p50 %.1f max %.1f ms; the control's max %.1f ms" % (
        len(lengths), interval_ms, statistics.median(d for d, _ in lengths) / MS,
        max(d for d, _ in lengths) / MS, control.longest() / MS)
    # A gap that a record does not tell as an interval shows between two records.
    holes = []
    for a, b in zip(recorder.intervals, recorder.intervals[1:]):
        hole = b["t_boot_ns"] - a["t_boot_ns"] - b["dur_ns"]
        between = (a["t_boot_ns"], b["t_boot_ns"])
        if hole > 0.5 * wanted + delay + recorder.waited_ns(*between) + \
                1.5 * control.excess(*between) + \
                (0 if work_counts else recorder.waited_ns(*between, 2)):
            holes.append(round((b["t_boot_ns"] - a["t_boot_ns"]) / MS))
    text += "; too long: %s; holes: %s" % (long[:10], holes[:10]) if long or holes else ""
    middle = statistics.median(d for d, _ in lengths)
    waited = recorder.waits[-1][1] - recorder.waits[0][1] if recorder.waits else 0
    ran = recorder.waits[-1][2] - recorder.waits[0][2] if recorder.waits else 0
    text += "; it waited %.0f ms for a CPU and ran %.0f ms" % (waited / MS, ran / MS)
    return not long and not holes and middle <= 1.1 * wanted + delay + waited / len(lengths), text


# ---- an innocent app ----

class Innocent:
    """android::Looper that blocks for 300 ms each second; the truth it tells."""

    def __init__(self, ms=300, every=1.0, nice=0):
        self.process = start([apps + "looper"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, bufsize=1,
                             preexec_fn=(lambda: os.nice(nice)) if nice else None)
        self.pid = self.process.pid
        self.truth, self.ms, self.every = [], ms, every
        self.stop_event = threading.Event()
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the innocent app did not start")
            if line.startswith("ready"):
                break
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.driver = threading.Thread(target=self.drive, daemon=True)

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            self.truth.append(dict(kind=words[0], start=int(words[1]), wall=int(words[2]),
                                   waited=int(words[4])))

    def begin(self):
        self.driver.start()
        return self

    def drive(self):
        while not self.stop_event.wait(self.every):
            try:
                self.process.stdin.write("sleep %d\n" % self.ms)
                self.process.stdin.flush()
            except (OSError, ValueError):
                return

    def end(self):
        """No more blocks; those that were ordered have ended."""
        self.stop_event.set()
        if self.driver.ident:
            self.driver.join()
        time.sleep(self.ms / 1000 + 0.3)
        return self.truth

    def check(self, recorder):
        """(found, with a stack, truths, missed)"""
        mine, found, stacks, missed = recorder.ended_blocks(self.pid), 0, 0, []
        for truth in self.truth:
            hits = [b for b in mine if truth["start"] - 100 * MS <= b["start_boot_ns"] <=
                    truth["start"] + 10 * MS and b["start_boot_ns"] + b["wall_ns"] >=
                    truth["start"] + truth["wall"] - 5 * MS]
            if len(hits) == 1:
                found += 1
                stacks += has_stack(hits[0])
                if not has_stack(hits[0]):
                    missed.append(("no stack", truth, hits[0].get("missing"), hits[0].get("lost")))
            else:
                missed.append(("%d blocks" % len(hits), truth))
        return found, stacks, len(self.truth), missed


def bpf_links():
    """{id: link} of all links of the kernel."""
    tool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    # bpftool gives up when one of them, of anybody's, goes while it lists them.
    for _ in range(60):
        done = subprocess.run([tool, "-j", "link"], capture_output=True, text=True, timeout=20)
        try:
            return {link["id"]: link for link in json.loads(done.stdout or "[]")}
        except (ValueError, KeyError, TypeError):
            time.sleep(0.1)
    raise RuntimeError("bpftool link: " + done.stderr + done.stdout[:200])


def bpftool(*arguments):
    tool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    done = subprocess.run([tool, "-j", *[str(a) for a in arguments]], capture_output=True,
                          text=True, timeout=20)
    return json.loads(done.stdout) if done.stdout.strip() else None
