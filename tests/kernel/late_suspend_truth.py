"""Late frames around a suspend: CLOCK_BOOTTIME goes 30 s ahead while CLOCK_MONOTONIC stands still
(tests/apps/own_clocks, of the recorder alone), amid a frame of an app that is frozen meanwhile, as
the kernel freezes all programs before a suspend, or is not."""
import errno
import json
import os
import signal
import subprocess
import sys
import time

import janks_truth
from janks_truth import MS, boot_ns, ok
from late_behind_truth import Monotonic, apart_ns
from late_odd_truth import Playing, Recorder
from make_traces import clock_snapshot

APART = 30 * 10**9
# A run is told with the interrupts in it, and with what the hypervisor took.
SPARE = 5 * MS
FREEZERS = (("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"), ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
            ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"))


class Freezer:
    def __init__(self, pid):
        self.path, self.lacks = None, []
        for base, self.file, self.on, self.off in FREEZERS:
            path = f"{base}/late-{os.getpid()}-{pid}"
            try:
                os.mkdir(path)
            except OSError as err:
                # No such hierarchy here, or none of ours to write to; all else is a failure.
                if err.errno not in (errno.ENOENT, errno.EROFS, errno.EACCES, errno.EPERM):
                    raise
                self.lacks.append(f"{base}: {err.strerror}")
                continue
            if os.path.exists(f"{path}/{self.file}"):
                self.path = path
                self.write("cgroup.procs", str(pid))
                return
            self.lacks.append(f"{base} has no {self.file}")
            os.rmdir(path)

    def write(self, file, text):
        with open(f"{self.path}/{file}", "w") as to:
            to.write(text)

    def end(self):
        if self.path:
            os.rmdir(self.path)


def family(pid):
    """This process and all that come from it."""
    found = [pid]
    for pid in found:
        try:
            for tid in os.listdir(f"/proc/{pid}/task"):
                found += [int(child) for child in open(f"/proc/{pid}/task/{tid}/children").read().split()]
        except OSError:
            pass
    return found


def suspend(recorder, freezer):
    if freezer:
        freezer.write(freezer.file, freezer.on)
        time.sleep(0.05)
    recorder.process.stdin.write("boot 30\n")
    recorder.process.stdin.flush()
    time.sleep(0.1)
    if freezer:
        freezer.write(freezer.file, freezer.off)


def later(frame):
    return {**frame, "begin": frame["begin"] + APART, "end": frame["end"] + APART}


def end(recorder):
    for pid in family(recorder.process.pid):
        if open(f"/proc/{pid}/comm").read().strip() == "jankscope":
            os.kill(pid, signal.SIGINT)
            break
    recorder.talk = recorder.process.communicate(timeout=60)[0]
    return {r["surface_frame_token"]: r for r in map(json.loads, recorder.text().splitlines()) if r["type"] == "jank"}


def main_of(jank):
    return next((t for t in jank["threads"] if t["role"] == "main"), None)


def run(what, frozen, monotonic=False):
    app = Playing("com.example.slept")
    freezer = Freezer(app.pid) if frozen else None
    if frozen and not freezer.path:
        print(f"ok - late_suspend: {what} # SKIP no control group can freeze: {'; '.join(freezer.lacks)}")
        app.end()
        return
    recorder = Recorder("-p", app.name, inside=(os.environ["BUILD"] + "/tests/apps/own_clocks",))
    time.sleep(1)
    frames = app.frames("lock", "render_cpu", "main_cpu")
    app.send("frame", "main_cpu")
    # It computes from 30 ms on for 26.
    time.sleep(0.042)
    slept_ns = boot_ns()
    suspend(recorder, freezer)
    amid = {"pid": app.pid, "name": app.name, **app.take()}
    ok(amid["begin"] < slept_ns < amid["end"], f"{what}: a frame is amid it", amid, slept_ns)
    frames.append({**amid, "end": amid["end"] + APART})
    frames += map(later, app.frames("lock", "main_cpu", "render_cpu"))
    time.sleep(2.5)
    behind = list(map(later, app.frames("lock", "main_cpu", "render_cpu")))
    frames += behind
    if monotonic:
        # Perfetto has compared the clocks before the suspend, and not yet behind it.
        rows = Monotonic(lambda ns: apart_ns() + (APART if ns > slept_ns else 0))
        recorder.show(frames, display=rows, more=clock_snapshot(slept_ns, mono=slept_ns - apart_ns(), boot=slept_ns))
    else:
        recorder.show(frames)
    recorder.wait(20, len(frames))
    janks = end(recorder)
    app.end()
    if freezer:
        freezer.end()
    told = [janks.get(f["token"]) for f in frames]
    ok(all(told) and recorder.process.returncode == 0, f"{what}: all {len(frames)} late frames are told", sorted(janks), recorder.talk[-800:])
    told = [(f, j) for f, j in zip(frames, told) if j]
    sums = [t for _, j in told for t in j["threads"] if sum(t["ledger"].values()) != j["window_end_ns"] - j["window_start_ns"]]
    ok(not sums, f"{what}: the ledger of each thread sums to its window", *sums[:2])
    # what a thread did at another time is no part of a frame
    ran = [(f["ran"], main_of(j) and main_of(j)["ledger"], f["cause"], f in behind) for f, j in told]
    wrong = [row for row in ran if row[1] and row[1]["running_ns"] > row[0] + SPARE]
    short = [row for row in ran if not row[1] or row[1]["running_ns"] < row[0] - SPARE]
    ok(not wrong, f"{what}: no main thread ran longer than its own clock says", *wrong)
    if frozen:
        ok(not short, f"{what}: and none shorter", *short)
    else:
        ok(not any(row[3] for row in short), f"{what}: behind it none ran shorter", *short)
    slept = [(j["cause"], t["role"], t["ledger"]) for _, j in told for t in j["threads"]
             if t["ledger"]["sleeping_ns"] + t["ledger"]["uninterruptible_ns"] > 10 * 10**9]
    ok(not slept, f"{what}: a suspend is no sleep", *slept)
    jank = janks.get(frames[3]["token"], {"cause": None, "threads": []})
    stopped = [t["ledger"]["stopped_ns"] for t in jank["threads"] if t["role"] == "main"]
    ok(jank["cause"] == "unknown" and (not frozen or stopped and stopped[0] >= APART), f"{what}: the frame that it was amid",
       jank["cause"], jank["threads"][:1])


if __name__ == "__main__":
    # Before the app, which may have a machine's only CPU to itself while it makes a frame.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(6))
    run("frozen", True)
    run("nobody was seen frozen", False)
    run("rows in CLOCK_MONOTONIC", False, monotonic=True)
    sys.exit(janks_truth.failed)
