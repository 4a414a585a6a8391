# SPDX-License-Identifier: BSD-2-Clause
"""How long targets took to start, against programs that know it (tests/apps/startup_load.c).
usage: startup_truth.py [PART...]"""
import subprocess, sys, time
from attack_common import *
from janks_truth import FAKE

test = Test("startup")
LEDGER = ("running_ns", "runnable_ns", "sleeping_ns", "uninterruptible_ns", "stopped_ns")
PERIOD = 16666667
program = apps + "startup_load"


def record(name, *flags):
    return Recorder(name, ["-i", "500ms", "--startup", "--max-lost", "100", "--wait", "20s", *flags],
                    targets=[program], wait=0, settle=1)


def begin(*arguments):
    return start([program, *arguments], stdout=subprocess.PIPE, text=True)


def startups(recorder):
    return [e for e in recorder.events if e["event"] == "startup"]


def burns_sleeps_idles(_):
    recorder = record("known")
    # A target that is there already did not start in this run.
    old = begin("1", "1")
    old.stdout.readline()
    wait_for(lambda: os.path.exists(recorder.path) and os.path.getsize(recorder.path), 10)
    time.sleep(0.5)
    load = begin("400", "300")
    idle_boot_ns, cpu_ns = map(int, load.stdout.readline().split())
    time.sleep(1)
    recorder.end()
    told = [e for e in startups(recorder) if e["pid"] == load.pid]
    if not test.ok(len(told) == 1 and told[0]["kind"] == "cold" and told[0]["process"] == program,
                   "a start is told once", startups(recorder), recorder.errors()):
        for name in ("its end", "the ledger", "its parts"):
            test.ok(False, name)
        return
    event = told[0]
    end_ns = event["start_boot_ns"] + event.get("first_idle_ns", 0)
    # From its own clock to its wait: a write and a system call, and whatever runs in between.
    test.ok(0 <= end_ns - idle_boot_ns < 20 * MS, "the first idle is when it came to its loop",
            end_ns - idle_boot_ns, event)
    test.ok(all(k in event for k in LEDGER) and
            sum(event[k] for k in LEDGER) == event["first_idle_ns"],
            "the ledger sums up to the window", event)
    # It slept 300 ms and 4 x 20 ms; what it ran after its last look at the clock is little.
    test.ok(0 <= event.get("running_ns", 0) - cpu_ns < 10 * MS and
            380 * MS <= event.get("sleeping_ns", 0) < 480 * MS and
            "no source of frames" in event.get("no_first_frame", ""),
            "with the CPU time and the sleep that it had", event, cpu_ns)


def no_rest(_):
    """One that never comes to a loop, one that dies on its way, one whose waits are too short."""
    recorder = record("no-rest")
    first = begin("1", "1")
    first.stdout.readline()
    wait_for(lambda: os.path.exists(recorder.path) and os.path.getsize(recorder.path), 10)
    time.sleep(0.5)
    never, dying, short = begin("100", "10", "none"), begin("100", "5000"), begin("100", "10", "short")
    time.sleep(1.2)
    dying.kill()
    time.sleep(1)
    recorder.end()
    told = {e["pid"]: e for e in startups(recorder)}
    for load, why, name in ((never, "the run ended before", "one that has no loop"),
                            (dying, "it ended before", "one that dies on its way"),
                            (short, "the run ended before", "one whose waits are too short")):
        event = told.get(load.pid, {})
        test.ok(event.get("no_first_idle") == why and "first_idle_ns" not in event and
                not [k for k in LEDGER if k in event], name + " has no first idle, and why", event)


def idle_at_once(_):
    """Programs that wait in their loop before anybody can look at them: their first idle is known
    exactly, or not at all."""
    recorder = record("at-once")
    first = begin("1", "1")
    first.stdout.readline()
    wait_for(lambda: os.path.exists(recorder.path) and os.path.getsize(recorder.path), 10)
    time.sleep(0.5)
    loads = {}
    for i in range(10):
        load = begin("1", "0", "at-once")
        loads[load.pid] = int(load.stdout.readline().split()[0])
        time.sleep(0.03)
    time.sleep(1)
    recorder.end()
    told = {e["pid"]: e for e in startups(recorder)}
    wrong = [e for p, e in told.items() if p in loads and "first_idle_ns" in e and
             not 0 <= e["start_boot_ns"] + e["first_idle_ns"] - loads[p] < 20 * MS]
    untold = [e for p, e in told.items() if p in loads and "first_idle_ns" not in e and
              "before it could be looked at" not in e["no_first_idle"]]
    test.ok(all(p in told for p in loads) and not wrong and not untold,
            "who idles at once has an exact first idle, or none and why", len(told), wrong[:3], untold[:3])


def frames_of(frames):
    """What perfetto tells of frames: [(pid, begin, on the screen, layer)], each in time."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trace"))
    from make_traces import NONE, ON_TIME, Display, field, process_tree
    display = Display()
    for n, (pid, begin, shown, layer) in enumerate(frames):
        name = field(5, b"TX - com.example.first/com.example.first.Main#%d" % layer)
        display.span(1, shown - PERIOD, shown, field(2, 9000 + n), field(3, 1))
        display.span(2, shown - PERIOD, shown, field(2, 9000 + n), field(3, 1), field(4, ON_TIME),
                     field(5, 1), field(6, 0), field(7, NONE), field(8, 1))
        display.span(3, begin, begin + PERIOD, field(2, 7000 + n), field(3, 9000 + n),
                     field(4, pid), name)
        display.span(4, begin, begin + 5 * MS, field(2, 7000 + n), field(3, 9000 + n),
                     field(4, pid), name, field(6, ON_TIME), field(7, 1), field(8, 0),
                     field(9, NONE), field(10, 1), field(11, 1))
    pids = sorted({frame[0] for frame in frames})
    return process_tree(*((pid, "com.example.first") for pid in pids),
                        (1, "/system/bin/surfaceflinger")) + display.bytes()


def first_frame(_):
    """An app that is started again while the screen still shows frames of its former process, and once
    more and dies on its way: the first frame of each is its own."""
    bin_folder, trace = os.path.join(work, "bin"), os.path.join(work, "trace")
    os.mkdir(bin_folder)
    with open(bin_folder + "/perfetto", "w") as f:
        f.write(FAKE)
    os.chmod(bin_folder + "/perfetto", 0o755)
    recorder = Recorder("frame", ["-i", "500ms", "--startup", "--frames", "perfetto", "--max-lost", "100",
                                  "--wait", "20s"], targets=["com.example.first"], wait=0, settle=1,
                        env={**os.environ, "PATH": bin_folder + ":" + os.environ["PATH"], "JANKS_TRACE": trace})

    def run():
        load = start(["com.example.first", "1", "0", "at-once"], executable=program,
                     stdout=subprocess.PIPE, text=True)
        load.stdout.readline()
        return load.pid
    run()
    wait_for(lambda: os.path.exists(recorder.path) and '"interval"' in open(recorder.path).read(), 10)
    frames, pids = [], []
    for at in range(2):
        pids.append(run())
        time.sleep(0.5)
        begin = boot_ns() - 50 * MS
        frames += [(pids[-1], begin + n * PERIOD, begin + (n + 2) * PERIOD, at) for n in (0, 2)]
    # The former process draws another layer behind the begin of the other one, which has drawn nothing yet.
    again = frames[2][1] - 20 * PERIOD
    frames[2:2] = [(pids[0], again + n * PERIOD, again + (n + 2) * PERIOD, 7) for n in (0, 2, 4)]
    dying = start(["com.example.first", "1", "5000"], executable=program)
    pids.append(dying.pid)
    time.sleep(0.4)
    frames.append((dying.pid, boot_ns() - 4 * PERIOD, boot_ns() - 2 * PERIOD, 8))
    dying.kill()
    dying.wait()
    time.sleep(0.3)
    with open(trace + ".tmp", "wb") as f:
        f.write(frames_of(frames))
    os.rename(trace + ".tmp", trace)
    wait_for(lambda: open(recorder.path).read().count('"startup"') >= 4, 20)
    recorder.end()
    told = {e["pid"]: e for e in startups(recorder)}
    for pid, frame, which in ((pids[0], frames[0], "an app"), (pids[1], frames[5], "the one that follows it"),
                              (pids[2], frames[7], "one that died before it came to rest")):
        event = told.get(pid, {})
        test.ok(event.get("first_frame_ns") == frame[2] - event.get("start_boot_ns", 0),
                "the first frame of %s is its own" % which, event, frame[2] - event.get("start_boot_ns", 0),
                recorder.errors())


def refused(_):
    run = subprocess.run([jankscope, "record", "--startup", "-n", "1", "-i", "100ms"],
                         capture_output=True, text=True)
    test.ok(run.returncode == 5 and "target" in run.stderr, "without a target it is refused",
            run.returncode, run.stderr)


test.run([(burns_sleeps_idles, 4), (no_rest, 3), (idle_at_once, 1), (first_frame, 3), (refused, 1)], sys.argv[1:])
