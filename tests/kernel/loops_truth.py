# SPDX-License-Identifier: BSD-2-Clause
"""Programs with a main loop of every kind block for known times; others have no main loop.
usage: loops_truth.py [PART...]"""
import os, shutil, signal, socket, subprocess, sys, threading, time
from attack_common import *

test = Test("loops")
here = os.path.dirname(os.path.abspath(__file__))
sources = os.path.join(os.path.dirname(here), "apps")
IDLE_SECONDS = 20 if full else 5
BLOCK = 150


class App:
    def __init__(self, name, command, **options):
        self.name, self.log = name, os.path.join(work, "app-" + name)
        with open(self.log, "w") as out:
            self.process = start(command, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, **options)
        self.pid, self.truth = self.process.pid, []

    def ready(self):
        return wait_for(lambda: "ready" in open(self.log).read() or
                        self.process.poll() is not None, 20) and self.process.poll() is None

    def read(self):
        """[(start or 0, wall, and what it lasted at the most)] that the program told."""
        rows = [l.split() for l in open(self.log, errors="replace") if l.startswith("block ")]
        return [(int(r[1]), int(r[2]), int(r[-1])) for r in rows]


def compare(recorder, pid, truths):
    """(wrong, false): truths that no block tells within 5 ms + 2 %, and blocks that no truth has.
    Waits for a CPU, which this machine makes, count in neither."""
    mine = sorted(recorder.ended_blocks(pid), key=lambda b: b["start_boot_ns"])
    used, wrong = set(), []
    for start_ns, wall, most in truths:
        slack = 5 * MS + wall // 50
        for i, b in enumerate(mine):
            waited = b["ledger"]["runnable_ns"]
            near = not start_ns or abs(b["start_boot_ns"] - start_ns) < 50 * MS + waited
            if i not in used and near and \
                    wall - slack <= b["wall_ns"] <= most + slack + waited:
                used.add(i)
                break
        else:
            wrong.append((start_ns, wall))
    false = [(b["state"], b["class"], b["wall_ns"] // MS, b["start_boot_ns"])
             for i, b in enumerate(mine) if i not in used and
             b["wall_ns"] - b["ledger"]["runnable_ns"] >= BLOCK * MS]
    # One that is told open and never ends is a block that no truth has as well.
    ends = {b["start_boot_ns"] // (20 * MS) for b in mine}
    for b in recorder.blocks:
        key = b["start_boot_ns"] // (20 * MS)
        if b["pid"] == pid and b["state"] == "open" and not {key - 1, key, key + 1} & ends and \
                b["wall_ns"] - b["ledger"]["runnable_ns"] >= BLOCK * MS:
            false.append(("open", b["class"], b["wall_ns"] // MS, b["start_boot_ns"]))
    return wrong, false


def loop_of(recorder, pid):
    """What target_start, or a later event about the loop, says of this process; the last word."""
    said = None
    for e in recorder.events:
        if e.get("pid") == pid and "loop" in e:
            said = e
    return said


def record(name, apps_started, go, flags=(), during=None, after=None):
    recorder = Recorder(name, ["--block", "%dms" % BLOCK, "-i", "1s", "--max-lost", "100", *flags],
                        targets=[a.pid for a in apps_started], wait=30, settle=2.5)
    open(go, "w").close()
    if during:
        during()
    else:
        time.sleep(5.5)
    wait_for(lambda: all(len(a.read()) >= 5 for a in apps_started if a.blocks), 10, 0.1)
    if after:
        after()
    time.sleep(IDLE_SECONDS)
    recorder.end()
    return recorder


def judge(recorder, app, want_loop=None):
    """Three results for a program with a main loop."""
    truths = app.truth or app.read()
    wrong, false = compare(recorder, app.pid, truths)
    test.ok(recorder.footer and len(truths) >= 5 and not wrong,
            "%s: its %d blocks are told within 5 ms + 2 %%" % (app.name, len(truths)), wrong,
            [(b["state"], b["wall_ns"] // MS) for b in recorder.blocks if b["pid"] == app.pid],
            recorder.errors())
    test.ok(recorder.footer and not false, "%s: no false block in %d s of idling" % (
        app.name, IDLE_SECONDS), *false[:6])
    said = loop_of(recorder, app.pid)
    test.ok(said and (said["loop"] in want_loop if want_loop else said["loop"] != "none"),
            "%s: target_start names its loop (%s)" % (app.name, said and said["loop"]), said)


def judge_none(recorder, app, lives=True):
    """Two results for a program without a main loop."""
    told = [(b["state"], b["class"], b["wall_ns"] // MS) for b in recorder.blocks
            if b["pid"] == app.pid and b["wall_ns"] - b["ledger"]["runnable_ns"] >= BLOCK * MS]
    test.ok(recorder.footer and (app.process.poll() is None) == lives and not told,
            "%s: no loop, no block" % app.name, *told[:6])
    said = loop_of(recorder, app.pid)
    why = {k: v for k, v in (said or {}).items() if k not in ("event", "type", "crc") and
           ("reason" in k or "why" in k or "loop_" in k)}
    test.ok(said and said["loop"] == "none" and any(why.values()),
            "%s: target_start says loop none, and why" % app.name, said)


def start_all(rows, go):
    started_apps = []
    for name, command, blocks in rows:
        app = App(name, command)
        app.blocks = blocks
        started_apps.append(app)
    for app in started_apps:
        if not app.ready():
            note("%s did not start: %s" % (app.name, open(app.log).read()[-500:]))
    return started_apps


def has_module(python, name):
    return python and not subprocess.run([python, "-c", "import " + name],
                                         stderr=subprocess.DEVNULL).returncode


# ---- loops of C programs ----

KINDS = ["epoll", "epoll_raw", "poll", "ppoll", "select", "pselect", "io_uring"]
LOOPS = {"epoll_raw": ["epoll"], "ppoll": ["poll", "ppoll"], "pselect": ["select", "pselect"]}


def kinds(_):
    go = work + "/go-kinds"
    programs = start_all([(k, [apps + "loop_kinds", k, go], True) for k in KINDS], go)
    recorder = record("kinds", programs, go)
    for app in programs:
        judge(recorder, app, LOOPS.get(app.name, [app.name]))


def odd(_):
    """Seen first in a nested epoll; a second loop that takes over; exec in a handler."""
    go = work + "/go-odd"
    names = ["nested", "second", "exec"]
    programs = start_all([(k, [apps + "loop_kinds", k, go], True) for k in names], go)
    recorder = record("odd", programs, go)
    for app in programs:
        truths = app.read()
        wrong, false = compare(recorder, app.pid, truths)
        # A loop that nobody can know before it waits for the first time may cost one block.
        test.ok(recorder.footer and len(truths) >= 5 and len(truths) - len(wrong) >= 4,
                "%s: at least 4 of its %d blocks are told" % (app.name, len(truths)), wrong,
                [(b["state"], b["wall_ns"] // MS) for b in recorder.blocks
                 if b["pid"] == app.pid])
        bad = [f for f in false if f[1] == "anr" or f[0] == "open"]
        test.ok(recorder.footer and not bad, "%s: no endless block" % app.name, *bad[:6])


def nobody(_):
    """Main threads that are no loop."""
    go = work + "/go-nobody"
    rows = [(k, [apps + "loop_kinds", k, go], False) for k in ("join", "futex", "sleeper")]
    programs = start_all(rows, go)
    for name, command in (("sleep", ["sleep", "300"]),
                          ("sleep that ends", ["sleep", "6"]),
                          ("shell", ["sh", "-c", "while :; do sleep 1.5; done"])):
        app = App(name, command)
        app.blocks = False
        programs.append(app)
    recorder = record("nobody", programs, go)
    for app in programs:
        judge_none(recorder, app, app.name != "sleep that ends")


def helper(_):
    """A looper in a helper thread, asked for by its name; the main thread is in pthread_join."""
    go = work + "/go-helper"
    programs = start_all([("helper", [apps + "loop_kinds", "helper", go], True)], go)
    recorder = record("helper", programs, go, flags=["--thread", "worker-*"])
    app = programs[0]
    wrong, false = compare(recorder, app.pid, app.read())
    test.ok(recorder.footer and len(app.read()) == 5 and not wrong,
            "helper: --thread NAME: its 5 blocks are told", wrong, recorder.errors())
    test.ok(recorder.footer and not false, "helper: --thread NAME: no false block", *false[:5])
    tids = {b["tid"] for b in recorder.blocks if b["pid"] == app.pid}
    test.ok(tids and app.pid not in tids, "helper: the blocks name the helper's tid", tids)


ODD = {"pwait2": "epoll", "swap": "poll", "signalfd": "epoll", "uring_ext": "io_uring",
       "coroutines": "epoll", "vfork": "epoll", "fork": "epoll", "renumbered": "epoll",
       "late_thread": "epoll"}


def unusual(_):
    """Waits that are easily taken for something else; tests/apps/loop_odd.c."""
    go = work + "/go-unusual"
    programs = start_all([(k, [apps + "loop_odd", k, go], True) for k in ODD], go)
    recorder = record("unusual", programs, go)
    for app in programs:
        judge(recorder, app, [ODD[app.name]])


def moved(_):
    """A loop that moves into a deeper function: what it did on the way there may cost one block."""
    go = work + "/go-moved"
    app, left = start_all([(k, [apps + "loop_odd", k, go], True) for k in ("moved", "left")], go)
    recorder = record("moved", [app, left], go)
    truths = app.read()
    wrong, false = compare(recorder, app.pid, truths)
    test.ok(recorder.footer and len(truths) == 5 and len(wrong) <= 1,
            "moved: at least 4 of its 5 blocks are told", wrong,
            [(b["state"], b["wall_ns"] // MS) for b in recorder.blocks])
    test.ok(recorder.footer and not [f for f in false if f[1] == "anr" or f[2] > 400],
            "moved: no endless block", *false[:6])
    # Nobody can say what the inner wait is: it has 4 of the 8 waits that prove a loop.
    wrong, false = compare(recorder, left.pid, left.read())
    test.ok(recorder.footer and not [f for f in false if f[1] == "anr" or f[2] > 400],
            "left: a loop further in is no endless block before it is known", *false[:6])
    unproved = (recorder.footer or {}).get("summary", {}).get("blocks", {}).get("unproved")
    test.ok(unproved == 1, "left: what is not known at the end is counted", unproved)


def shared(_):
    """Pollers that several threads wait in, and epolls that are not used any more: no loop. The part
    that is attached to while the threads are parked is as well seen by its waits alone. A thread
    that only asks an epoll (brief) does not sleep in it: no switch shows it, the probes do."""
    for detector in ("uprobe", "switch"):
        go = work + "/go-shared-" + detector
        programs = start_all([(k, [apps + "loop_odd", k, go], False)
                              for k in ("pool", "hand_over", "closed", "sigwait", "turns",
                                        *(["brief"] if detector == "uprobe" else []))], go)
        recorder = record("shared " + detector, programs, go, flags=["--detector", detector])
        for app in programs:
            name, app.name = app.name, "%s, %s" % (app.name, detector)
            judge_none(recorder, app)
            app.process.kill()


# ---- loops that nobody here wrote ----

def python_loops(_):
    go = work + "/go-python"
    debian = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    script = sources + "/loop_python.py"
    rows = [("asyncio", [sys.executable, script, "asyncio", go], True)]
    import ctypes
    try:
        ctypes.CDLL("libglib-2.0.so.0")
        rows.append(("glib", [sys.executable, script, "glib", go], True))
    except OSError:
        for what in ("blocks", "idle", "loop"):
            test.skip("glib: " + what, "no libglib-2.0.so.0 here: apt-get install libglib2.0-0")
    if has_module(debian, "uvloop"):
        rows.append(("uvloop", [debian, script, "uvloop", go], True))
    else:
        for what in ("blocks", "idle", "loop"):
            test.skip("uvloop: " + what, "no uvloop here: apt-get install python3-uvloop")
    rows.append(("asyncio_helper", [sys.executable, script, "asyncio_helper", go], False))
    programs = start_all(rows, go)
    recorder = record("python", programs, go)
    for app in programs:
        if app.blocks:
            judge(recorder, app)
        else:
            judge_none(recorder, app)


def node_loops(_):
    go = work + "/go-node"
    if not shutil.which("node"):
        for i in range(6):
            test.skip("node %d" % i, "no node here: apt-get install nodejs")
        return
    rows = [(k, ["node", sources + "/loop_node.js", k, go], True) for k in ("node", "spawn")]
    programs = start_all(rows, go)
    recorder = record("node", programs, go)
    for app in programs:
        # /proc/uptime has 10 ms: its starts are as exact
        app.truth = [(0, wall, most) for _, wall, most in app.read()]
        judge(recorder, app, ["epoll"])


def qt_loops(_):
    go = work + "/go-qt"
    if not os.path.exists(apps + "loop_qt"):
        for i in range(6):
            test.skip("qt %d" % i, "no Qt here: apt-get install qtbase5-dev")
        return
    programs = []
    for name in ("qt", "qt_glib"):
        app = App(name, [apps + "loop_qt", name, go],
                  env=dict(os.environ, **({"QT_NO_GLIB": "1"} if name == "qt" else {}),
                           QT_QPA_PLATFORM="offscreen"))
        app.blocks = True
        app.ready()
        programs.append(app)
    recorder = record("qt", programs, go)
    for app in programs:
        judge(recorder, app, ["poll", "ppoll"])


def go_loops(_):
    """Go's runtime lets any thread, the main thread too, wait in its network poller for a while and
    park in a futex after that: no loop. What a locked main thread waits in itself is one."""
    go = work + "/go-go"
    if not os.path.exists(apps + "loop_go") or not os.path.exists(apps + "loop_cgo"):
        for i in range(10):
            test.skip("go %d" % i, "no Go here: apt-get install golang-go")
        return
    programs = start_all([("go_locked", [apps + "loop_go", "go_locked", go], True),
                          ("cgo_locked", [apps + "loop_cgo", "cgo_locked", go], True),
                          ("go_server", [apps + "loop_go", "go_server", go], False),
                          ("cgo_server", [apps + "loop_cgo", "cgo_server", go], False)], go)
    recorder = record("go", programs, go)
    for app in programs:
        if app.blocks:
            judge(recorder, app, ["epoll"])
        else:
            judge_none(recorder, app)


def java_command(go):
    return ["java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", apps.rstrip("/"), "LoopJava", "java", go]


def java_loops(_):
    """The launcher's main thread is in pthread_join; the loop is in a thread of its own."""
    if not os.path.exists(apps + "LoopJava.class") or not shutil.which("java"):
        for i in range(4):
            test.skip("java %d" % i, "no Java here: apt-get install default-jdk-headless")
        return
    go, again = work + "/go-java", work + "/go-java-thread"
    programs = start_all([("java", java_command(go), False)], go)
    recorder = record("java", programs, go)
    judge_none(recorder, programs[0])
    programs = start_all([("java_thread", java_command(again), True)], again)
    recorder = record("java thread", programs, again, flags=["--thread", "nio-loop"])
    app = programs[0]
    app.truth = [(0, wall, most) for _, wall, most in app.read()]
    wrong, false = compare(recorder, app.pid, app.truth)
    test.ok(recorder.footer and len(app.truth) >= 5 and not wrong,
            "java: --thread nio-loop: its 5 blocks are told", wrong, *[
                (b["state"], b["wall_ns"], b["ledger"]) for b in recorder.ended_blocks(app.pid)],
            recorder.errors())
    test.ok(recorder.footer and not false, "java: --thread nio-loop: no false block", *false[:5])


def redis(_):
    # redis-check-rdb of redis-tools is the same program
    program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if not program:
        for i in range(3):
            test.skip("redis %d" % i, "no redis here: apt-get install redis-tools")
        return
    path = work + "/redis.sock"
    app = App("redis", ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", work,
                        "--enable-debug-command", "yes"], executable=program)
    app.blocks = False
    if not wait_for(lambda: os.path.exists(path), 5):
        raise RuntimeError(open(app.log).read())

    def during():
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        for _ in range(5):
            time.sleep(0.5)
            client.sendall(b"DEBUG SLEEP 0.3\r\n")
            if not client.recv(100).startswith(b"+OK"):
                raise RuntimeError("redis refuses DEBUG SLEEP")
            app.truth.append((0, 300 * MS + 60000, 300 * MS + 60000))
    recorder = record("redis", [app], work + "/go-redis", during=during)
    judge(recorder, app, ["epoll"])


def nginx(_):
    """A worker blocks in open() of a file whose disk does not answer for 300 ms; a master waits in
    sigsuspend."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not program:
        for i in range(5):
            test.skip("nginx %d" % i, "no nginx here: apt-get install nginx-light")
        return
    mount, sock = work + "/nginx-fuse", work + "/nginx.sock"
    os.mkdir(mount)
    fs = start([apps + "hang_fs", mount, "/bin/true", 20], stdin=subprocess.PIPE,
               stdout=subprocess.PIPE, text=True)
    fs.stdout.readline()
    config = work + "/nginx.conf"
    with open(config, "w") as f:
        f.write("""daemon off; worker_processes 1; user root; pid %s/nginx.pid; error_log stderr;
            events { worker_connections 64; }
            http { access_log off; client_body_temp_path %s/body; proxy_temp_path %s/proxy;
            fastcgi_temp_path %s/fastcgi; uwsgi_temp_path %s/uwsgi; scgi_temp_path %s/scgi;
            server { listen unix:%s; root %s; } }""" % ((work,) * 6 + (sock, mount)))
    try:
        app = App("nginx", [program, "-c", config, "-e", "stderr"])
        app.blocks = False
        if not wait_for(lambda: os.path.exists(sock), 5):
            raise RuntimeError(open(app.log).read())
        time.sleep(0.5)
        children = open("/proc/%d/task/%d/children" % (app.pid, app.pid)).read().split()
        worker = App.__new__(App)
        worker.name, worker.pid, worker.process = "nginx worker", int(children[0]), app.process
        worker.truth, worker.blocks = [], False

        def during():
            for _ in range(5):
                time.sleep(0.5)
                os.kill(fs.pid, signal.SIGUSR1)
                time.sleep(0.05)
                client = socket.socket(socket.AF_UNIX)
                client.connect(sock)
                since = time.monotonic_ns()
                client.sendall(b"GET /prog HTTP/1.0\r\n\r\n")
                # It is in open() from some time before this one until SIGUSR2, and serves no longer
                # than until the answer is here.
                wait_for(lambda: state_of(worker.pid) == "D", 5, 0.001)
                hangs = time.monotonic_ns()
                time.sleep(0.3)
                least = time.monotonic_ns() - hangs
                os.kill(fs.pid, signal.SIGUSR2)
                if b"200 OK" not in client.recv(200):
                    raise RuntimeError("nginx does not serve")
                worker.truth.append((0, least, time.monotonic_ns() - since))
                client.close()
        recorder = record("nginx", [app, worker], work + "/go-nginx", during=during)
        judge(recorder, worker, ["epoll"])
        judge_none(recorder, app)
    finally:
        fs.kill()
        subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL)


test.run([(kinds, 21), (odd, 6), (nobody, 12), (helper, 3), (unusual, 27), (moved, 4), (shared, 22), (python_loops, 11), (node_loops, 6),
          (qt_loops, 6), (go_loops, 10), (java_loops, 4), (redis, 3), (nginx, 5)], sys.argv[1:])
