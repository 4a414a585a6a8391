# SPDX-License-Identifier: BSD-2-Clause
"""Loads whose CPU time, names and stacks are known, against the records of the tool.
usage: rows_truth.py [PART...]"""
import os, signal, sys, time
from attack_common import *

test = Test("rows")
FIRST, SECOND = 100000 + os.getpid() * 4, 100001 + os.getpid() * 4


def burn(ms):
    end = time.thread_time_ns() + ms * MS
    while time.thread_time_ns() < end:
        pass


def child(body):
    pid = os.fork()
    if not pid:
        try:
            body()
        finally:
            os._exit(0)
    return pid


def uid_ns(recorder, uid):
    return sum(u["cpu_ns"] for i in recorder.intervals for u in i["cpu"]["uids"] if u["uid"] == uid)


def rows_of(recorder, pid):
    return [t for i in recorder.intervals for t in i["cpu"]["tasks"] if t["pid"] == pid]


def processes_of(recorder, pid):
    return {(p.get("start_boot_ns"), p.get("process")) for i in recorder.intervals
            for p in i["cpu"].get("processes", []) if p["pid"] == pid}


# ---- whose CPU time ----

def setuid(_):
    """Each start of an app is one: time as one uid, then as another."""
    recorder = Recorder("setuid", ["-i", "1s", "--cpu", "switch"])

    def app():
        os.setresuid(FIRST, 0, 0)
        burn(60)
        os.setresuid(SECOND, SECOND, SECOND)
        burn(30)
    for _ in range(12):
        os.waitpid(child(app), 0)
    time.sleep(0.5)
    recorder.end()
    first, second = uid_ns(recorder, FIRST) / MS, uid_ns(recorder, SECOND) / MS
    # Python's way from fork to the first call, and from the last to the end, is the app's own time
    # as root and as the second one.
    test.ok(recorder.footer and 720 <= first < 760, "setuid: 12 x 60 ms before it: %.1f" % first)
    test.ok(recorder.footer and 360 <= second < 440, "setuid: 12 x 30 ms after it: %.1f" % second)


def creds(_):
    """A freed cred is given out again at the same address: the uid changes, its address does not."""
    recorder = Recorder("creds", ["-i", "1s", "--cpu", "switch"])
    uids = [FIRST + 200000 + n for n in range(3)]

    def app():
        for n in range(60):
            os.setresuid(uids[n % 3], 0, 0)
            time.sleep(0.001)
            burn(3)
            time.sleep(0.015)
    os.waitpid(child(app), 0)
    time.sleep(0.3)
    recorder.end()
    each = [uid_ns(recorder, uid) / MS for uid in uids]
    test.ok(recorder.footer and all(60 <= ms < 75 for ms in each),
            "creds: 60 ms as each of three uids in turns", ["%.1f" % ms for ms in each])


def execute(name, ms):
    """Become this interpreter under another name, and compute."""
    path = os.path.join(work, name)
    if not os.path.exists(path):
        os.symlink(os.path.realpath(sys.executable), path)
    script = "import time\ne = time.thread_time_ns() + %d\nwhile time.thread_time_ns() < e: pass"
    os.execv(path, [name, "-S", "-c", script % (ms * MS)])


def exec_name(_):
    """Seen under one name, then it executes another program and ends in the same interval."""
    recorder = Recorder("exec name", ["-i", "2s", "--cpu", "switch"])
    go = os.pipe()

    def app():
        burn(20)
        os.read(go[0], 1)
        execute("row-after", 150)
    pid = child(app)
    wait_for(lambda: len(open(recorder.path).readlines()) > 3, 8)
    os.write(go[1], b"x")
    os.waitpid(pid, 0)
    wait_for(lambda: any('"row-after"' in l for l in open(recorder.path)), 3)
    time.sleep(2.2)
    recorder.end()
    rows = [(t.get("process"), t["cpu_ns"] // MS) for t in rows_of(recorder, pid)]
    test.ok(recorder.footer and any(p == "row-after" and ms >= 150 for p, ms in rows),
            "exec: 150 ms of the new program stand under its name", rows)


def pid_reuse(_):
    """Two processes with one pid in one interval."""
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        for i in range(2):
            test.skip("pid reuse %d" % i, "no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)")
        return
    recorder = Recorder("pid reuse", ["-i", "10s", "--cpu", "switch"])

    def owner(name, ms):
        return child(lambda: execute(name, ms))
    pid, second = 0, None
    for attempt in range(300):
        # Another program's process may have the number by now, and keep it.
        if attempt % 30 == 0:
            pid = owner("row-one", 60)
            os.waitpid(pid, 0)
        with open("/proc/sys/kernel/ns_last_pid", "w") as f:
            f.write(str(pid - 1))
        second = owner("row-two", 90)
        if second == pid:
            os.waitpid(second, 0)
            break
        os.kill(second, signal.SIGKILL)
        os.waitpid(second, 0)
    time.sleep(0.5)
    recorder.end()
    rows = {}
    for t in rows_of(recorder, pid):
        rows[t.get("process")] = rows.get(t.get("process"), 0) + t["cpu_ns"] // MS
    test.ok(second == pid and recorder.footer and rows.get("row-one", 0) >= 60 and
            rows.get("row-two", 0) >= 90, "pid reuse: each process's time under its name", rows)
    # Another program's process may have had the number in between.
    ours = {p for p in processes_of(recorder, pid) if p[1] in ("row-one", "row-two")}
    test.ok(len(ours) == 2, "pid reuse: a row for each process", processes_of(recorder, pid))


def idle_ticks():
    with open("/proc/stat") as f:
        return int(f.readline().split()[4])


def idle(_):
    """The default mode from 1 s on: idle in nanoseconds, not in whole ticks of /proc/stat."""
    began = idle_ticks()
    recorder = Recorder("idle", ["-i", "1s", "-n", "4"], settle=0)
    recorder.wait(20)
    ticks = idle_ticks() - began
    values = [i["cpu"].get("idle_ns") for i in recorder.intervals]
    if values and not any(values) and ticks <= 4:
        test.skip("idle: not in whole ticks", f"others took all CPUs: {ticks} ticks of idle")
        return
    test.ok(len(values) >= 3 and all(v is not None for v in values) and
            sum(v % (10 * MS) == 0 for v in values if v) <= 1, "idle: not in whole ticks", values)


def storm(_):
    """Short processes without an end: no time is told before it is over or twice, no death is lost.
    What a task ran behind its exit comes when RCU frees it, all at once where RCU was held up: such
    an interval is busier than the CPUs, the run until then never is."""
    storm_of_three = start([apps + "loop_storm", 3])
    time.sleep(0.3)
    recorder = Recorder("storm", ["-i", "50ms", "-d", "8s", "--cpu", "iter", "--max-lost", "100"],
                        settle=0)
    recorder.wait(30)
    os.killpg(storm_of_three.pid, signal.SIGKILL)
    cpus = os.cpu_count()
    worst = max((i["cpu"]["busy_ns"] / (i["dur_ns"] * cpus) for i in recorder.intervals), default=9)
    busy = capacity = ahead = before = 0
    for i in recorder.intervals:
        busy += i["cpu"]["busy_ns"]
        capacity += i["dur_ns"] * cpus
        # A walk that waits for a CPU reads sums that are younger than the end of its interval; the
        # next one is not late by as much. So a lead counts that two read-outs have.
        ahead = max(ahead, min(before, busy - capacity))
        before = busy - capacity
    # Those that had exited when it began were not freed yet.
    # A walk past all tasks takes longer than 50 ms where others want the CPUs: an interval that is
    # longer says by how much.
    late = max((i["dur_ns"] - 50 * MS for i in recorder.intervals), default=0)
    test.ok(recorder.footer and recorder.intervals and ahead <= 50 * MS + max(late, 0) * cpus,
            "storm: the run is never busier than the CPUs: %.1f ms ahead at most, of %d intervals one "
            "%.0f %%, one %.1f ms late" % (ahead / MS, len(recorder.intervals), worst * 100, late / MS),
            recorder.footer)
    lost = {k: v for k, v in recorder.losses().items() if k.startswith("lost.cpu_deaths")}
    test.ok(recorder.footer and not lost, "storm: no death that comes late is called lost", lost)


# ---- whose frames ----

def frames_of(recorder, pid):
    return [f for b in recorder.blocks if b["pid"] == pid for s in b.get("stacks", [])
            for f in s["frames"]]


def frames(_):
    """Frames that are easily named wrong; tests/apps/loop_frames.c."""
    go, go_hacked = work + "/go-frames", work + "/go-hacked"
    processes = {}
    for mode in ("hacked", "vdso", "named", "decoy"):
        processes[mode] = start([apps + "loop_frames", mode,
                                 go_hacked if mode == "hacked" else go],
                                stdout=subprocess.DEVNULL)
        time.sleep(0.2)
    recorder = Recorder("frames", ["--block", "150ms", "-i", "1s", "--max-lost", "100"],
                        targets=[p.pid for p in processes.values()], settle=2)
    # Who was met first named the vdso of all.
    open(go_hacked, "w").close()
    time.sleep(2)
    open(go, "w").close()
    time.sleep(5)
    recorder.end()
    for p in processes.values():
        try:
            os.unlink("/tmp/perf-%d.map" % p.pid)
        except OSError:
            pass
    names = {m: [f.get("symbol") or "" for f in frames_of(recorder, p.pid)]
             for m, p in processes.items()}
    text = {m: sorted(set(n))[:20] for m, n in names.items()}
    test.ok(any("hacked" in n for n in names["hacked"]),
            "frames: a process with another vdso has the names of its own", text["hacked"])
    test.ok(any("run_vdso" in n or "now_ns" in n for n in names["vdso"]) and
            not any("hacked" in n for n in names["vdso"]),
            "frames: a vdso of another process names nobody else's frames", text["vdso"])
    test.ok(any("jit_render" in n for n in names["named"]),
            "frames: /tmp/perf-PID.map names code of a JIT compiler", text["named"])
    decoys = [f for f in frames_of(recorder, processes["decoy"].pid)]
    test.ok(decoys and not any("decoy" in (f.get("symbol") or "") for f in decoys),
            "frames: what a frame pointer behind JIT code leads to is no frame", text["decoy"])


test.run([(setuid, 2), (creds, 1), (exec_name, 1), (pid_reuse, 2), (idle, 1), (storm, 2),
          (frames, 4)], sys.argv[1:])
