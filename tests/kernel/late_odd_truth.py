"""Late frames of apps whose processes and threads come, go and change amid their frames.
usage: late_odd_truth.py
       late_odd_truth.py app   (an app: takes a command a line, answers each with a line of JSON)"""
import argparse
import ctypes
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import janks_truth
from janks_truth import MS, PERIOD, boot_ns, burn, go_first, libc, ok

HERE = os.path.dirname(os.path.abspath(__file__))
PR_SET_NAME, PR_SET_PDEATHSIG = 15, 1
CHUNK = """#!/usr/bin/env python3
import os, signal, sys, time
ended = False
def end(*_):
    global ended
    ended = True
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
sys.stdin.buffer.read()
at, path = 0, os.environ["ODD_TRACE"]
while True:
    last = ended
    if os.path.exists(path):
        with open(path, "rb") as file:
            file.seek(at)
            data = file.read()
        at += len(data)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    if last:
        break
    time.sleep(0.05)
"""


def run_again():
    os.execve("/proc/self/exe", [sys.argv[2], __file__, "app", sys.argv[2]], os.environ)


class Render:
    """A RenderThread: draws a frame when it is asked to, and ends when it is told so."""

    def __init__(self, name="RenderThread", slow_name=0):
        self.ask, self.done = os.pipe(), os.pipe()
        self.render_ns, self.name, self.slow_name = 0, name, slow_name
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        os.read(self.done[0], 1)

    def run(self):
        if self.slow_name:
            os.write(self.done[1], b"r")
            time.sleep(self.slow_name)
        libc.prctl(PR_SET_NAME, self.name.encode())
        go_first()
        if not self.slow_name:
            os.write(self.done[1], b"r")
        while (what := os.read(self.ask[0], 1)) != b"e":
            if what == b"x":
                run_again()
            if what == b"c":
                os.write(self.done[1], b"c")
                continue
            burn(MS + self.render_ns)
            self.ready_ns = boot_ns()
            os.write(self.done[1], b"d")

    def draw(self, ns):
        self.render_ns = ns
        os.write(self.ask[1], b"d")
        os.read(self.done[0], 1)
        return self.ready_ns

    def end(self):
        os.write(self.ask[1], b"e")
        self.thread.join()


class App:
    def __init__(self):
        self.render = Render()
        self.loader_ask, self.loader_held = os.pipe(), os.pipe()
        self.lock = threading.Lock()
        threading.Thread(target=self.load, daemon=True).start()
        go_first()

    def load(self):
        libc.prctl(PR_SET_NAME, b"loader")
        while os.read(self.loader_ask[0], 1):
            with self.lock:
                os.write(self.loader_held[1], b"h")
                time.sleep(0.025)

    def frame(self, cause):
        time.sleep(0.03)
        if cause == "lock":
            os.write(self.loader_ask[1], b"l")
            os.read(self.loader_held[0], 1)
        begin, ran = boot_ns(), time.thread_time_ns()
        burn(MS)
        if cause == "main_cpu":
            burn(25 * MS)
        elif cause == "lock":
            self.lock.acquire()
            self.lock.release()
        elif cause == "stopped":
            print(json.dumps("I stop"), flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        if cause == "replaced":
            self.render.draw(MS)
            self.render.end()
            self.render = Render()
        ready = self.render.draw(25 * MS if cause in ("render_cpu", "replaced") else 0)
        return {"cause": cause, "begin": begin, "end": ready, "ran": time.thread_time_ns() - ran}

    def do(self, word, *rest):
        if word == "frame":
            return self.frame(rest[0])
        if word == "render":  # a new RenderThread
            self.old, self.render = self.render, Render(slow_name=float(rest[0]))
            return {"tid": self.render.thread.native_id, "old": self.old.thread.native_id}
        if word == "drop":  # the one before
            self.old.end()
            return {}
        if word == "churn":  # both threads sleep so often
            for _ in range(int(rest[0])):
                os.write(self.render.ask[1], b"c")
                os.read(self.render.done[0], 1)
            return {}
        if word == "exec":
            run_again()
        if word == "exec_render":  # its RenderThread becomes the main thread
            os.write(self.render.ask[1], b"x")
            time.sleep(60)
        return {"error": word}

    def serve(self):
        print(json.dumps({"pid": os.getpid(), "render": self.render.thread.native_id}), flush=True)
        for line in sys.stdin:
            print(json.dumps(self.do(*line.split())), flush=True)


class Playing:
    """An app as the test sees it."""

    def __init__(self, name="com.example.odd"):
        self.name = name
        self.process = subprocess.Popen([name, __file__, "app", name], executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, "PYTHONHOME": sys.base_prefix}, text=True)
        self.born = json.loads(self.process.stdout.readline())
        self.pid = self.process.pid

    def send(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def take(self):
        return json.loads(self.process.stdout.readline())

    def do(self, *words):
        self.send(*words)
        return self.take()

    def frames(self, *causes):
        return [{"pid": self.pid, "name": self.name, **self.do("frame", cause)} for cause in causes]

    def end(self):
        self.process.kill()
        self.process.wait()


def rows_of(frames, display, first):
    """FrameTimeline's rows of these frames, as Android 13 tells them."""
    from make_traces import APP, LATE, NONE, ON_TIME, field
    for n, frame in enumerate(frames, first):
        begin, end = frame["begin"], frame["end"]
        due, late = begin + PERIOD, end > begin + PERIOD
        predicted, present = due + PERIOD, max(end, due) + PERIOD
        frame["token"], frame["late_ns"] = 7000 + n, max(0, present - predicted)
        token, shown, pid = frame["token"], 90000 + n, frame["pid"]
        display.span(1, predicted - PERIOD, predicted, field(2, shown), field(3, 1))
        display.span(2, present - PERIOD, present, field(2, shown), field(3, 1), field(4, ON_TIME), field(5, 1),
                     field(6, 0), field(7, NONE), field(8, 1))
        layer = field(5, f"TX - {frame['name']}/{frame['name']}.Main#7".encode())
        display.span(3, begin, due, field(2, token), field(3, shown), field(4, pid), layer)
        display.span(4, begin, end, field(2, token), field(3, shown), field(4, pid), layer, field(6, LATE if late else ON_TIME),
                     field(7, 0 if late else 1), field(8, 0), field(9, APP if late else NONE), field(10, 1), field(11, 1))


class Recorder:
    def __init__(self, *args, inside=()):
        sys.path.insert(0, os.path.join(HERE, "..", "trace"))
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder, self.told = self.folder.name, 0
        self.path, self.trace = folder + "/out.jsonl", folder + "/trace"
        os.mkdir(folder + "/bin")
        with open(folder + "/bin/perfetto", "w") as file:
            file.write(CHUNK)
        os.chmod(folder + "/bin/perfetto", 0o755)
        self.process = subprocess.Popen([*inside, os.environ["BUILD"] + "/jankscope", "record", "--frames", "perfetto", "-i", "60s", "-o",
                                         self.path, "--max-lost", "100", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, "PATH": folder + "/bin:" + os.environ["PATH"], "ODD_TRACE": self.trace})
        self.began = time.monotonic()
        until = self.began + 30
        while time.monotonic() < until and '"header"' not in self.text() and self.process.poll() is None:
            time.sleep(0.1)
        time.sleep(1)

    def text(self):
        return open(self.path).read() if os.path.exists(self.path) else ""

    def show(self, frames, named=True, display=None, more=b""):
        """SurfaceFlinger tells of them now, and perfetto at once."""
        from make_traces import Display, process_tree
        display = display or Display()
        display.cookie = self.told * 8
        rows_of(frames, display, self.told)
        self.told += len(frames)
        tree = process_tree(*{(f["pid"], f["name"]) for f in frames}) if named else b""
        with open(self.trace, "ab") as file:
            file.write(more + tree + display.bytes())

    def wait(self, seconds, janks):
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.text().count('"jank"') < janks:
            time.sleep(0.1)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.talk = self.process.communicate(timeout=30)[0]
        self.records = [json.loads(line) for line in self.text().splitlines()]
        self.janks = {r["surface_frame_token"]: r for r in self.records if r["type"] == "jank"}
        return self.janks


def clone_as(pid, args):
    """A process of that pid, which is free, with this argv: its stdin and stdout, or None where the kernel lets nobody choose."""
    to, from_ = os.pipe(), os.pipe()
    want = ctypes.c_int32(pid)
    how = struct.pack("<11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(want), 1, 0)
    child = libc.syscall(435, ctypes.create_string_buffer(how), len(how))
    if child == 0:
        os.dup2(to[0], 0)
        os.dup2(from_[1], 1)
        os.execve(sys.executable, args, {**os.environ, "PYTHONHOME": sys.base_prefix})
    return (os.fdopen(to[1], "w"), os.fdopen(from_[0])) if child == pid else None


class Again(Playing):
    """Another program with the pid of one that has ended; `there`: it could be made."""

    def __init__(self, name, pid):
        pipes = clone_as(pid, [name, __file__, "app", name])
        self.name, self.pid, self.there = name, pid, bool(pipes)
        if self.there:
            self.process = argparse.Namespace(stdin=pipes[0], stdout=pipes[1])
            self.born = self.take()

    def end(self):
        if self.there:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def stopped_frame(app):
    """A frame amid which the app is stopped for 60 ms."""
    app.send("frame", "stopped")
    app.take()
    while open(f"/proc/{app.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.001)
    time.sleep(0.06)
    os.kill(app.pid, signal.SIGCONT)
    return {"pid": app.pid, "name": app.name, **app.take()}


def thread_of(jank, role):
    """The thread of that role of which something is known."""
    known = [t for t in jank["threads"] if t["role"] == role and t["ledger"]["running_ns"]]
    return known[0] if known else None


def main():
    gone, old, turned, given = (Playing("com.example." + name) for name in ("gone", "old", "turned", "given"))
    recorder = Recorder(*(word for app in (gone, old, turned, given) for word in ("-p", app.name)), "--thread", "python*")
    # ends before a row of its frames has come
    of = {"gone": gone.frames("main_cpu", "render_cpu", "lock", "ok")}
    gone.end()
    time.sleep(0.6)
    # no target has its pid now
    other = Again("com.example.other", gone.pid)
    of["other"] = other.frames("main_cpu") if other.there else []
    # one program behind the other in one process
    of["turned"] = turned.frames("render_cpu", "main_cpu")
    turned.do("exec")
    born = given.do("exec_render")
    time.sleep(1.2)
    # the RenderThread of before has become the main thread
    of["given"] = given.frames("main_cpu", "lock")
    of["turned"] += turned.frames("render_cpu", "lock")
    of["stopped"] = [stopped_frame(turned)]
    # its threads are looked through seldom by now, and one gets its name when it was seen without
    time.sleep(max(0, 5.5 - (time.monotonic() - recorder.began)))
    of["old"] = old.frames("render_cpu")
    old.do("render", "0.4")
    time.sleep(1.3)
    old.do("drop")
    of["old"] += old.frames("render_cpu", "main_cpu")
    old.do("render", "0")
    # as of its hand-over nothing was recorded of the thread that draws
    of["new"] = old.frames("render_cpu")
    time.sleep(0.7)
    old.do("drop")
    of["old"] += old.frames("render_cpu", "lock")
    # the one that was recorded ends amid the frame, and one that is born in it goes on
    of["new"] += old.frames("replaced")
    frames = [f for group in of.values() for f in group]
    recorder.show(frames, named=False)
    late = {f["token"]: f for f in frames if f["late_ns"] and f["name"] != other.name}
    recorder.wait(10, len(late))
    time.sleep(0.5)
    live = recorder.text().count('"jank"')
    janks = recorder.end()
    for app in (old, turned, given, other):
        app.end()
    ok(recorder.process.returncode == 0, "the recorder ends in order", recorder.process.returncode, recorder.talk[-800:])
    ok(set(janks) == set(late), f"{len(late)} late frames are told, of an app that has ended too, and none of another with its pid",
       "not told", [late[t] for t in sorted(set(late) - set(janks))], "not to be told", sorted(set(janks) - set(late)))
    ok(live == len(late), "they are told long before the interval ends", live)
    if not other.there:
        print("# this kernel lets nobody choose a pid: that of that of the app that ended is nobody's")
    sums = [t for j in janks.values() for t in j["threads"] if sum(t["ledger"].values()) != j["window_end_ns"] - j["window_start_ns"]]
    ok(not sums, "the ledger of each thread sums to its window", sums[:2])
    planned = [f for f in late.values() if f["cause"] in ("main_cpu", "render_cpu", "lock") and f not in of["new"] and f["token"] in janks]
    said = {f["token"]: janks[f["token"]]["cause"] for f in planned}
    # a new thread is found some time after its birth: of a busy machine later
    unknown = [f for f in planned if said[f["token"]] == "unknown"]
    wrong = [(f["name"], f["cause"], said[f["token"]], [(t["role"], t["tid"], t["ledger"]) for t in janks[f["token"]]["threads"]][:3])
             for f in planned if said[f["token"]] not in ("unknown", f["cause"])]
    for row in wrong + unknown:
        print(f"# wrong: {str(row)[:600]}")
    # one that another program held up
    ok(len(wrong) <= 1 and len(unknown) <= 2 and len(planned) == 14, f"causes: {len(unknown)} of {len(planned)} unknown, {len(wrong)} wrong")
    ghosts = [t for f in of["given"] if f["token"] in janks for t in janks[f["token"]]["threads"]
              if t["tid"] not in born.values() and t["ledger"]["running_ns"]]
    ok(not ghosts, "a RenderThread that became the main thread does not run as what it was", *ghosts[:2])
    # Python's locks are semaphores
    unsaid = [j["missing"] for j in janks.values() if j["cause"] == "lock" and any(s.get("asleep") for s in j.get("stacks", ()))
              and "do not say who has it" not in j["missing"].get("chain", "")]
    ok(not unsaid, "why a lock has no holder", *unsaid)
    layers = {layer["package"] for r in recorder.records if r["type"] == "interval" for layer in r.get("frames", {}).get("layers", ())}
    ok(layers == {app.name for app in (gone, old, turned, given)}, "frames that were shown are told of the same apps", layers)
    names = {janks[t]["process"] for t, f in late.items() if t in janks and f in of["gone"]}
    ok(names == {gone.name}, "the app that has ended is named", names)
    new = [janks[f["token"]] for f in of["new"] if f["token"] in janks]
    ok(all(j["cause"] in ("unknown", "render_cpu") for j in new), "who waits for a RenderThread that nothing is known of has no other cause",
       [(j["cause"], j["threads"]) for j in new])
    for frame in of["stopped"]:
        jank = janks.get(frame["token"], {"cause": None, "threads": []})
        ns = [t["ledger"]["stopped_ns"] for t in jank["threads"] if t["role"] == "main"]
        ok(jank["cause"] == "unknown" and len(ns) == 1 and 60 * MS < ns[0] <= frame["end"] - frame["begin"] - frame["ran"],
           "an app that is stopped amid its frame", jank["cause"], ns, frame)
    text = " ".join(recorder.talk.split())
    ok("was stopped for" in text, "the line says so", recorder.talk[-1500:])


def result():
    return janks_truth.failed


if __name__ != "__main__":
    pass
elif sys.argv[1:2] == ["app"]:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    App().serve()
else:
    main()
    sys.exit(result())
