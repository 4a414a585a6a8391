# SPDX-License-Identifier: BSD-2-Clause
"""What tasks read and wrote as records tell it, against /proc/PID/io and the clock of a program that
does it in every way that the kernel accounts differently (tests/apps/disk_load.c).
usage: disk_truth.py [PART...]"""
import subprocess, sys, time
from attack_common import *

test = Test("disk")
KIB, MIB = 1 << 10, 1 << 20
# A record's key, and that of /proc/PID/io.
KEYS = {"read_bytes": "read_bytes", "write_bytes": "write_bytes",
        "cancelled_write_bytes": "cancelled_write_bytes", "rchar_bytes": "rchar",
        "wchar_bytes": "wchar", "read_calls": "syscr", "write_calls": "syscw"}
folder = os.path.join(os.environ.get("DISK_FOLDER", build), "tests")


def io_of(pid):
    with open("/proc/%d/io" % pid) as f:
        return {l.split(":")[0]: int(l.split(":")[1]) for l in f}


def total(intervals, pids, rows="processes", key="pid"):
    """{key: sum} over all rows of these."""
    sums = dict.fromkeys(KEYS, 0)
    for interval in intervals:
        for row in interval["disk"][rows]:
            if row[key] in pids:
                for k in KEYS:
                    sums[k] += row[k]
    return sums


class Load:
    def __init__(self):
        self.process = start([apps + "disk_load", folder], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        self.pid, self.child, self.syncs = self.process.pid, 0, {}
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "done":
                break
            if words[0] == "child":
                self.child = int(words[1])
            if words[0] == "syncs":
                self.syncs[words[1]] = [int(w) for w in words[2:]]
        # What it does from here on is to wait.
        wait_for(lambda: state_of(self.pid) == "S", 3)
        self.io = io_of(self.pid)


def has_storage():
    """Writes of this folder are accounted: it is no tmpfs."""
    with open(os.path.join(folder, "disk-probe"), "wb") as f:
        before = io_of(os.getpid())["write_bytes"]
        f.write(b"x" * 8192)
        f.flush()
        wrote = io_of(os.getpid())["write_bytes"] - before
    os.unlink(f.name)
    return wrote >= 8192


def known(_):
    if not has_storage():
        for name in range(8):
            test.skip("known bytes %d" % name, "no storage below " + folder)
        return
    recorder = Recorder("disk", ["-i", "200ms", "--disk", "--max-lost", "100"])
    load = Load()
    time.sleep(1)
    recorder.end()
    want = {k: load.io[v] for k, v in KEYS.items()}
    # A parent has what its children did from when it has waited for them.
    got = total(recorder.intervals, (load.pid, load.child))
    test.ok(got == want, "each of the seven sums is that of /proc/PID/io", got, want)
    child = total(recorder.intervals, (load.child,))
    test.ok(child["write_bytes"] >= 48 * KIB and child["cancelled_write_bytes"] >= 48 * KIB and
            child["wchar_bytes"] == 48 * KIB,
            "a child that dies at once, with what its death takes back", child)
    test.ok(want["cancelled_write_bytes"] - child["cancelled_write_bytes"] >= 256 * KIB,
            "what is cut before it is written is cancelled", want, child)
    test.ok(MIB <= want["read_bytes"] < 2 * MIB <= want["rchar_bytes"],
            "cached data is read from no storage", want)
    threads = {}
    for interval in recorder.intervals:
        for row in interval["disk"]["tasks"]:
            if row["pid"] == load.pid:
                threads.setdefault(row["tid"], 0)
                threads[row["tid"]] += row["write_bytes"]
    test.ok(total(recorder.intervals, (load.pid,), "tasks") == total(recorder.intervals, (load.pid,)) and
            any(t != load.pid and b >= 32 * KIB for t, b in threads.items()),
            "its tasks, those that ended and the one that called execve, make the process", threads)
    bad = [i["disk"] for i in recorder.intervals if any(
        i["disk"][k] != i["disk"]["other"][k] + sum(r[k] for r in i["disk"]["tasks"]) for k in KEYS)]
    test.ok(not bad, "tasks and other are the whole", bad[:1])
    syncs, own = {}, load.syncs
    by = next(s for s in recorder.header["sources"] if s["name"] == "disk")["variant"]
    if by == "iter/sync_file":
        # A descriptor that is none, and sync_file_range, reach no file system.
        own["fsync"][1] = 0
        del own["sync_file_range"]
    for interval in recorder.intervals:
        for row in interval["disk"]["processes"]:
            for kind in own:
                if row["pid"] == load.pid and kind in row:
                    sums = syncs.setdefault(kind, [0, 0, 0])
                    for n, key in enumerate(("count", "failed", "time_ns")):
                        sums[n] += row[kind][key]
    if "disk.processes.fsync" in recorder.intervals[-1].get("missing", {}):
        test.skip("fsync and its like", recorder.intervals[-1]["missing"]["disk.processes.fsync"])
    else:
        # The caller's clock has what is around the call too: a CPU may be taken from it there.
        late = {k: own[k][2] - syncs[k][2] for k in own if k in syncs}
        test.ok(syncs.keys() == own.keys() and all(syncs[k][:2] == own[k][:2] for k in own) and
                all(n >= 0 for n in late.values()) and sum(late.values()) < MS * len(own),
                "calls that wait for storage, each kind, and their time (%s)" % by, syncs, own, late)
    test.ok(recorder.code == 0 and not [k for k in recorder.losses() if "disk" in k],
            "nothing was lost", recorder.code, recorder.losses(), recorder.errors())
    load.process.stdin.close()


def targets(_):
    """Of a target by name: it is listed and the others are not; the footer and the table sum up."""
    old = Load()
    recorder = Recorder("target", ["-i", "200ms", "--disk", "--max-lost", "100", "--stack", "off"],
                        targets=[apps + "disk_load"])
    load = Load()
    time.sleep(0.7)
    recorder.end()
    rows = [r for i in recorder.intervals for r in i["disk"]["processes"]]
    summary = recorder.footer["summary"]
    test.ok({r["pid"] for r in rows} <= {load.pid, load.child, old.pid} and
            all(r.get("process", "").endswith("disk_load") for r in rows),
            "only the target is listed", rows[:3])
    got = total(recorder.intervals, (load.pid, load.child))
    test.ok(summary["targets"]["disk_write_bytes"] == got["write_bytes"] >= MIB and
            summary["targets"]["disk_read_bytes"] == got["read_bytes"] and
            summary["disk"]["write_bytes"] >= got["write_bytes"],
            "totals of the targets and of all", summary["targets"], summary["disk"], got)
    top = summary["disk"]["tasks"]
    test.ok(top and top[0]["write_bytes"] >= MIB and sum(
        t["write_bytes"] for t in top) + summary["disk"]["other"]["write_bytes"] ==
            summary["disk"]["write_bytes"], "the heaviest tasks, and the rest", top)
    report = subprocess.run([jankscope, "report", recorder.path], capture_output=True, text=True)
    test.ok(report.returncode == 0 and "  disk: read" in report.stdout and
            "CANCELLED" in report.stdout and "calls waited for storage" in report.stdout and
            max(len(l) for l in report.stdout.splitlines() if "disk" in l) <= 80,
            "report prints it", report.stdout[-2000:], report.stderr)
    for one in (load, old):
        one.process.stdin.close()


def storm(_):
    """Tasks that live for a moment, each with a write of its own: none is lost and none counts
    twice; with a ring that is too small they are, and that is told."""
    size = 1000 + os.getpid() % 9000  # another run of the tests on this machine has its own
    script = ("import os\nfor i in range(400):\n p = os.fork()\n if not p:\n"
              "  os.write(1, b'x' * %d); os._exit(0)\n os.waitpid(p, 0)\n" % size)
    for name, flags in (("all of them", ()), ("too many for the ring",
                                               ("--tune", "disk-ring=4K"))):
        recorder = Recorder("storm" + "-small" * bool(flags),
                            ["-i", "1s", "--disk", "--max-lost", "100", *flags])
        # Its loop empties the ring as soon as that is half full, if it is let.
        if flags:
            recorder.process.send_signal(signal.SIGSTOP)
        with open("/dev/null", "w") as null:
            parent = start([sys.executable, "-c", script], stdout=null)
        parent.wait()
        recorder.process.send_signal(signal.SIGCONT)
        time.sleep(1.2)
        recorder.end()
        rows = [r for i in recorder.intervals for r in i["disk"]["tasks"]
                if r["wchar_bytes"] == size and r["write_calls"] == 1]
        # A tid may come again: other tests set ns_last_pid back.
        tids = {(r["tid"], r["start_boot_ns"]) for r in rows}
        told = recorder.losses().get("lost.disk_ends_untold", 0)
        if flags:
            test.ok(told > 0 and len(rows) == len(tids), name + " are counted", len(rows), told)
        else:
            test.ok(len(rows) == len(tids) == 400 and not told, name, len(rows), len(tids), told)


def off(_):
    recorder = Recorder("off", ["-i", "200ms", "-n", "2", "--max-lost", "100"])
    recorder.wait()
    names = [s["name"] for s in recorder.header["sources"]]
    test.ok("disk" not in names and not any("disk" in i for i in recorder.intervals),
            "without --disk there is no such source", names)


test.run([(known, 8), (targets, 4), (storm, 2), (off, 1)], sys.argv[1:])
