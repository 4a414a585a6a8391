# SPDX-License-Identifier: BSD-2-Clause
"""How long targets took to start, against programs that know it (tests/apps/startup_load.c).
usage: startup_truth.py [PART...]"""
import subprocess, sys, time
from attack_common import *

test = Test("startup")
LEDGER = ("running_ns", "runnable_ns", "sleeping_ns", "uninterruptible_ns", "stopped_ns")
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


def refused(_):
    run = subprocess.run([jankscope, "record", "--startup", "-n", "1", "-i", "100ms"],
                         capture_output=True, text=True)
    test.ok(run.returncode == 5 and "target" in run.stderr, "without a target it is refused",
            run.returncode, run.stderr)


test.run([(burns_sleeps_idles, 4), (no_rest, 3), (idle_at_once, 1), (refused, 1)], sys.argv[1:])
