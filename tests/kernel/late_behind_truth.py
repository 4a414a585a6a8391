"""Rows of frames that come half a minute behind their frames, and rows whose clock is told wrong.
usage: late_behind_truth.py [behind|clocks]..."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trace"))
import janks_truth
from janks_truth import MS, boot_ns, ok
from late_odd_truth import Playing, Recorder
from make_traces import Display, clock_snapshot, field

SECOND = 1000 * MS
CAUSES = ("main_cpu", "render_cpu", "lock")
# The longest ring, of a main thread or a RenderThread (user/source/flight/README.md), and how long what
# a thread did is kept when it has ended.
RING, KEPT, BEHIND = 8192, 30, 35


def apart_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Monotonic(Display):
    """Rows in CLOCK_MONOTONIC; behind: by how much that clock is behind CLOCK_BOOTTIME at a time of it."""

    def __init__(self, behind):
        super().__init__(clock=3)
        self.behind = behind

    def add(self, ts, kind, *fields):
        super().add(ts - self.behind(ts), kind, *fields)


def causes(frames, janks):
    return [(f["cause"], janks[f["token"]]["cause"]) for f in frames if f["token"] in janks]


def is_unsaid(jank):
    """Nothing is told of what the frame's threads did, and that is said."""
    window = jank["window_end_ns"] - jank["window_start_ns"]
    known = [t for t in jank["threads"] if t["ledger"].get("unknown_ns", 0) != window]
    return jank["cause"] == "unknown" and "threads" in jank["missing"] and not known and not jank.get("chain")


def behind():
    """calm rests behind its frames, so that the ring has them still; busy sleeps more often than a ring
    has room for; of left nothing is kept any more."""
    calm, busy, left = (Playing("com.example." + name) for name in ("calm", "busy", "left"))
    recorder = Recorder(*(word for app in (calm, busy, left) for word in ("-p", app.name)))
    of = {app.name.split(".")[2]: app.frames(*CAUSES) for app in (calm, busy, left)}
    time.sleep(0.6)
    # amid a frame, whose buffer never comes
    left.send("frame", "lock")
    time.sleep(0.045)
    begun = boot_ns() - 10 * MS
    left.end()
    ended = time.monotonic()
    busy.do("churn", str(RING + 500))
    of["busy"] += (again := busy.frames(*CAUSES))
    time.sleep(max(0, ended + BEHIND - time.monotonic()))
    frames = [f for group in of.values() for f in group]
    display = Display()
    for kind, cookie in ((3, 900001), (4, 900002)):
        display.add(begun, kind, field(1, cookie), field(2, 6999), field(3, 89999), field(4, left.pid), field(5, b"TX - left#7"),
                    *([field(6, 2)] if kind == 4 else []))
    recorder.show(frames, display=display)
    recorder.wait(10, len(frames))
    time.sleep(0.5)
    janks = recorder.end()
    for app in (calm, busy):
        app.end()
    ok(recorder.process.returncode == 0 and set(janks) == {f["token"] for f in frames},
       f"{len(frames)} late frames of {BEHIND} s ago are told, and not the one that has no end", sorted(janks), recorder.talk[-800:])
    right = [pair for pair in causes(of["calm"] + again, janks) if pair[0] == pair[1]]
    ok(len(right) >= 5, f"behind: what the rings have still is told: {len(right)} of 6 causes", causes(of["calm"] + again, janks))
    gone = [f for f in of["busy"] + of["left"] if f not in again]
    told = [janks[f["token"]] for f in gone if f["token"] in janks]
    ok(len(told) == len(gone) == 6 and all(map(is_unsaid, told)), "behind: what they have no more is missing, and no cause is invented",
       *[(j["process"], j["cause"], j["missing"], [(t["role"], t["ledger"]) for t in j["threads"]]) for j in told if not is_unsaid(j)])
    names = [j["process"] for j in told]
    ok(names == [busy.name] * 3 + [left.name] * 3, "behind: whose frames they were is known", names)
    footer = recorder.records[-1]
    counts = {name: footer["lost"].get(name) for name in ("frames.janks_not_recorded", "frames.timeline_unpaired")}
    ok(counts == {"frames.janks_not_recorded": len(gone), "frames.timeline_unpaired": 2}, "behind: and they are counted", footer["lost"])
    lines = [line for line in " ".join(recorder.talk.split()).split("LATE ")[1:]]
    unsaid = [line for line in lines if "cause not known" in line.split("why late:")[0]]
    ok(len(lines) == len(frames) and len(unsaid) == len(gone) + len(causes(of["calm"] + again, janks)) - sum(
        janks[f["token"]]["cause"] != "unknown" for f in of["calm"] + again), "behind: a line says that its cause is not known", *lines)


def clocks():
    """Rows in CLOCK_MONOTONIC, as Android 12 writes them, and snapshots of the clocks that are wrong:
    taken by a task that was held up, and as of a suspend that there was not."""
    app = Playing("com.example.clocks")
    recorder = Recorder("-p", app.name)
    frames = []
    for wrong in (0, 60 * MS, 0, -2 * SECOND, 2 * SECOND):
        now = boot_ns()
        time.sleep(0.1)
        made = app.frames(*CAUSES)
        recorder.show(made, display=Monotonic(lambda _: apart_ns()), more=clock_snapshot(now, mono=now - apart_ns(), boot=now + wrong))
        frames += made
    recorder.wait(10, len(frames))
    time.sleep(0.5)
    janks = recorder.end()
    app.end()
    ok(recorder.process.returncode == 0 and set(janks) == {f["token"] for f in frames}, f"clocks: {len(frames)} late frames are told",
       sorted(janks), recorder.talk[-800:])
    off = [(f["cause"], janks[f["token"]]["window_start_ns"] - f["begin"]) for f in frames if f["token"] in janks]
    ok(all(-MS < ns < MS for _, ns in off), "clocks: each where it was by the machine's own clocks", off)
    wrong = [pair for pair in causes(frames, janks) if pair[0] != pair[1]]
    ok(len(wrong) <= 1, f"clocks: {len(frames) - len(wrong)} of {len(frames)} causes", wrong)


if __name__ == "__main__":
    for part in sys.argv[1:] or ["behind", "clocks"]:
        {"behind": behind, "clocks": clocks}[part]()
    sys.exit(janks_truth.failed)
