"""Why a frame was late, live: a program makes frames as an app does, each late by one cause that it
plants; a stand-in for perfetto tells SurfaceFlinger's timeline of them, seconds later as the real one
does. `record --frames perfetto` has to name each cause, by what the flight recorder kept.
usage: janks_truth.py
       janks_truth.py app FRAMES PERFETTO-FOLDER   (the program; prints what it did)"""
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MS = 1000000
PERIOD = 16666667
LAUNCHED = 2
PR_SET_NAME, PR_SET_PDEATHSIG = 15, 1
libc = ctypes.CDLL(None, use_errno=True)
CAUSES = ("main_cpu", "render_cpu", "lock", "io", "no_cpu", "ok")
FAKE = """#!/usr/bin/env python3
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
sys.stdin.buffer.read()
while not os.path.exists(os.environ["JANKS_TRACE"]):
    time.sleep(0.05)
sys.stdout.buffer.write(open(os.environ["JANKS_TRACE"], "rb").read())
sys.stdout.buffer.flush()
open(os.environ["JANKS_TRACE"] + ".played", "w").close()
while True:
    time.sleep(0.1)
"""


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def burn(ns):
    end = time.thread_time_ns() + ns
    while time.thread_time_ns() < end:
        pass


def waited_ns():
    """For how long this thread has waited for a CPU, as of its last switch."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])


def go_first():
    """Before others on this machine, and behind the process that takes the CPU."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    except OSError:
        pass


class App:
    """Main thread, RenderThread, a worker that holds a lock, a process that writes to a pipe and one
    that takes the CPU."""

    def __init__(self):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        cpus = sorted(os.sched_getaffinity(0))
        self.cpu, self.other = cpus[0], cpus[-1]
        self.pipes = {name: os.pipe() for name in ("render", "done", "worker", "held", "io", "reply", "hog")}
        self.lock = threading.Lock()
        self.render_ns = 0
        for target in (self.render, self.worker):
            threading.Thread(target=target, daemon=True).start()
        self.reader, self.hog = self.child(self.serve), self.child(self.take_cpu)
        os.sched_setaffinity(0, {self.cpu})
        libc.prctl(PR_SET_NAME, b"m.example.janks")
        go_first()

    def child(self, run):
        pid = os.fork()
        if not pid:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            run()
            os._exit(0)
        return pid

    def ask(self, name):
        os.write(self.pipes[name][1], b"x")

    def wait(self, name):
        os.read(self.pipes[name][0], 1)

    def render(self):
        libc.prctl(PR_SET_NAME, b"RenderThread")
        os.sched_setaffinity(0, {self.other})
        go_first()
        while True:
            self.wait("render")
            waited = waited_ns()
            burn(MS + self.render_ns)
            self.ready_ns = boot_ns()
            self.render_waited_ns = waited_ns() - waited
            self.ask("done")

    def worker(self):
        libc.prctl(PR_SET_NAME, b"loader")
        while True:
            self.wait("worker")
            with self.lock:
                self.ask("held")
                time.sleep(0.025)

    def serve(self):
        while True:
            self.wait("io")
            time.sleep(0.025)
            self.ask("reply")

    def take_cpu(self):
        libc.prctl(PR_SET_NAME, b"dex2oat64")
        os.sched_setaffinity(0, {self.cpu})
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
        except OSError:
            os.nice(-20)
        while True:
            self.wait("hog")
            burn(25 * MS)

    def frame(self, cause):
        """Its begin, its end, what the main thread's clock says that it ran for between them, and
        for how long both threads waited for a CPU that nobody had planned to take."""
        self.render_ns = 25 * MS if cause == "render_cpu" else 0
        if cause == "lock":
            self.ask("worker")
            self.wait("held")
        begin, ran, waited = boot_ns(), time.thread_time_ns(), waited_ns()
        burn(MS)
        if cause == "main_cpu":
            burn(25 * MS)
        elif cause == "lock":
            self.lock.acquire()
            self.lock.release()
        elif cause == "io":
            self.ask("io")
            self.wait("reply")
        elif cause == "no_cpu":
            self.ask("hog")
            burn(MS)
        self.ask("render")
        self.wait("done")
        ran = time.thread_time_ns() - ran
        waited = waited_ns() - waited + self.render_waited_ns
        return begin, self.ready_ns, ran, waited if cause != "no_cpu" else 0


def trace_of(frames, pid, layers=0, first=0):
    """layers: so many more of the app, each with a frame that is in time. first: the number of the first frame."""
    sys.path.insert(0, os.path.join(HERE, "..", "trace"))
    from make_traces import APP, LATE, NONE, ON_TIME, Display, bundle, field, process_tree
    display = Display()
    for n, (cause, begin, end, _, _) in enumerate(frames, first):
        due, late = begin + PERIOD, end > begin + PERIOD
        predicted, present = due + PERIOD, max(end, due) + PERIOD
        token, shown = 7000 + n, 9000 + n
        display.span(1, predicted - PERIOD, predicted, field(2, shown), field(3, 1))
        display.span(2, present - PERIOD, present, field(2, shown), field(3, 1), field(4, ON_TIME), field(5, 1),
                     field(6, 0), field(7, NONE), field(8, 1))
        layer = field(5, b"TX - com.example.janks/com.example.janks.Main#7")
        display.span(3, begin, due, field(2, token), field(3, shown), field(4, pid), layer)
        display.span(4, begin, end, field(2, token), field(3, shown), field(4, pid), layer,
                     field(6, LATE if late else ON_TIME), field(7, 0 if late else 1), field(8, 0),
                     field(9, APP if late else NONE), field(10, 1), field(11, 1))
    for n in range(layers):
        begin, more = frames[-1][1] + n * 1000, field(5, b"TX - com.example.janks/com.example.janks.More#%d" % (100 + n))
        display.span(3, begin, begin + PERIOD, field(2, 20000 + n), field(3, 30000 + n), field(4, pid), more)
        display.span(4, begin, begin + MS, field(2, 20000 + n), field(3, 30000 + n), field(4, pid), more, field(6, ON_TIME),
                     field(7, 1), field(8, 0), field(9, NONE), field(10, 1), field(11, 1))
    # ActivityManager brings the app to the front: its third frame is the first one then.
    begin, end = frames[min(LAUNCHED, len(frames) - 1)][1:3]
    marks = [(begin, 900, "S|900|launchingActivity#4|0\n"), (end, 900, "F|900|launchingActivity#4|0\n"),
             (end + 1000, 900, "I|900|launchingActivity#4:completed-hot:com.example.janks\n")]
    return process_tree((pid, "com.example.janks"), (1, "/system/bin/surfaceflinger"), (900, "system_server")) + \
        display.bytes() + bundle(marks)


def play(count, folder):
    app, random_, frames = App(), random.Random(5), []
    print("ready", flush=True)
    sys.stdin.readline()
    order = [cause for cause in CAUSES for _ in range(count)]
    random_.shuffle(order)
    for cause in order:
        time.sleep(0.03)
        frames.append((cause, *app.frame(cause)))
    with open(folder + "/trace.tmp", "wb") as file:
        file.write(trace_of(frames, os.getpid()))
    os.rename(folder + "/trace.tmp", folder + "/trace")
    print(json.dumps(frames), flush=True)
    sys.stdin.readline()


failed = False


def ok(good, name, *details):
    global failed
    failed |= not good
    print(f"{'ok' if good else 'not ok'} - {os.path.basename(sys.argv[0])[:-9]}: {name}", flush=True)
    for detail in () if good else details:
        print(f"# {str(detail)[:600]}", flush=True)


def sums_up(jank):
    window = jank["window_end_ns"] - jank["window_start_ns"]
    return all(sum(thread["ledger"].values()) == window for thread in jank["threads"])


def main():
    count = 8
    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/bin")
    with open(folder + "/bin/perfetto", "w") as file:
        file.write(FAKE)
    os.chmod(folder + "/bin/perfetto", 0o755)
    # Its name is that of the package, as an app's is.
    app = subprocess.Popen(["com.example.janks", __file__, "app", str(count), folder], executable=sys.executable,
                           env={**os.environ, "PYTHONHOME": sys.base_prefix}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    app.stdout.readline()
    path = folder + "/out.jsonl"
    recorder = subprocess.Popen([os.environ["BUILD"] + "/jankscope", "record", "-p", str(app.pid), "--frames", "perfetto", "--startup",
                                 "-i", "500ms", "-o", path, "--max-lost", "100"],
                                env={**os.environ, "PATH": folder + "/bin:" + os.environ["PATH"], "JANKS_TRACE": folder + "/trace"},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until and not (os.path.exists(path) and '"interval"' in open(path).read()):
            time.sleep(0.1)
        app.stdin.write("\n")
        app.stdin.flush()
        frames = json.loads(app.stdout.readline())
        late = {7000 + n: frame for n, frame in enumerate(frames) if frame[2] > frame[1] + PERIOD}
        until = time.monotonic() + 30
        while time.monotonic() < until and open(path).read().count('"jank"') < len(late):
            time.sleep(0.2)
        time.sleep(0.5)
    finally:
        recorder.send_signal(signal.SIGINT)
        talk = recorder.communicate(timeout=20)[0]
        app.kill()
        app.wait()
    records = [json.loads(line) for line in open(path)]
    janks = {r["surface_frame_token"]: r for r in records if r["type"] == "jank"}
    footer = records[-1]
    ok(recorder.returncode == 0 and footer["type"] == "footer", "the recorder ends in order", recorder.returncode, talk[-800:])
    ok(set(janks) == set(late), f"{len(late)} late frames are told, and none that was in time", sorted(set(janks) ^ set(late)))
    ok(all(sums_up(j) for j in janks.values()), "the ledger of each thread sums to its window")
    by_cause = {cause: [0, 0] for cause in CAUSES}
    wrong, off, unknown, spoiled = [], [], [], 0
    for token, jank in janks.items():
        cause, begin, end, ran, waited = late.get(token, ("?", 0, 0, 0, 0))
        if cause == "ok" or waited > 2 * MS:
            spoiled += 1  # the machine made it late
            continue
        by_cause[cause][0] += jank["cause"] == cause
        by_cause[cause][1] += 1
        if jank["cause"] != cause:
            wrong.append((cause, jank["cause"], jank.get("second_cause"), [(t["role"], t["ledger"]) for t in jank["threads"]][:2]))
        main_ = [t for t in jank["threads"] if t["role"] == "main"]
        if len(main_) != 1 or jank["window_start_ns"] != begin or jank["window_end_ns"] != end:
            off.append((token, len(main_), jank["window_start_ns"] - begin, jank["window_end_ns"] - end))
            continue
        unknown.append(main_[0]["ledger"].get("unknown_ns", 0))
        # Its own clock was read behind the first time and before the last one, at its return from the wait.
        if abs(main_[0]["ledger"]["running_ns"] - ran) > MS:
            off.append((token, cause, main_[0]["ledger"], ran))
    text = "  ".join(f"{cause} {good} of {all_}" for cause, (good, all_) in by_cause.items() if all_)
    good, all_ = (sum(row[i] for row in by_cause.values()) for i in (0, 1))
    if all_ < 20:
        print(f"ok - janks: the cause of each # SKIP others had the CPUs in {spoiled} of {len(janks)} frames")
    else:
        ok(good >= 0.95 * all_, f"the cause of each: {text} ({spoiled} that others held up)", *wrong[:6])
    ok(len(off) <= len(janks) // 20, f"windows to the nanosecond, the main thread's time by its own clock to 1 ms ({len(off)} off)", *off[:4])
    ok(sum(unknown) == 0, "nothing of the main thread is unknown", unknown)
    held = [j for t, j in janks.items() if late.get(t, "?")[0] == "no_cpu"]
    ok(sum(any(p["thread"] == "dex2oat64" for th in j["threads"] if th["role"] == "main" for p in th["preemptors"]) for j in held)
       >= 0.9 * len(held) > 0, "who had the CPU is named", held[:1])
    delays = [abs(jank["late_ns"] - (late[t][2] - late[t][1] - PERIOD)) for t, jank in janks.items() if t in late]
    ok(delays and max(delays) < MS // 2, f"delays to 0.5 ms (worst {max(delays, default=0)} ns)")
    ok("why late: %d frame" % len(janks) in talk, "the summary says why", footer["summary"]["frames"], talk[-1500:])
    launches = [r for r in records if r.get("event") == "launch"]
    _, begin, end, ran, _ = frames[LAUNCHED]
    shown = max(end, begin + PERIOD) + PERIOD
    launch = launches[0] if len(launches) == 1 else {}
    parts = [launch.get(key, -1) for key in ("running_ns", "runnable_ns", "sleeping_ns", "uninterruptible_ns", "stopped_ns")]
    ok(launch.get("kind") == "hot" and launch["first_frame_ns"] == shown - begin and launch.get("pid") == app.pid and
       sum(parts) == shown - begin and ran - MS < parts[0] < ran + shown - end,
       "a launch has its first frame, and what the main thread did until then", launches, shown - begin, ran)


def result():
    return failed


if __name__ != "__main__":
    pass
elif sys.argv[1:2] == ["app"]:
    play(int(sys.argv[2]), sys.argv[3])
else:
    main()
    sys.exit(failed)
