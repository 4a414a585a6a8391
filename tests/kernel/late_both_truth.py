"""The same late frames told twice: while they are recorded, by the flight recorder, and from a trace of
the scheduler's events, by `frames TRACE --why`. Both go through one rule (user/why/README.md), so that
windows, delays, ledgers and causes have to be the same, as far as a trace tells why a thread sleeps.
usage: late_both_truth.py"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trace"))
import late_truth
from late_truth import BUILD, MS, App, is_spoiled, ok, record
from make_traces import field, packet

EVENTS = ("sched/sched_switch", "sched/sched_waking", "task/task_newtask")
LINE = re.compile(r"^ *(.+)-(\d+) +\[(\d+)\] (\S+) +(\d+)\.(\d{6}): (\w+): (.*)$")
SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+)")
WAKING = re.compile(r"comm=(.*) pid=(\d+) prio=(-?\d+) target_cpu=(\d+)")
NEW = re.compile(r"pid=(\d+) comm=(.*) clone_flags")
ROLES = ("main", "render", "sf_main", "render_engine")
EXACT = ("window_start_ns", "window_end_ns", "late_ns", "actual_start_ns", "actual_end_ns", "jank_type", "dropped", "display_frame_token")
# Why a thread sleeps there no marker says.
UNTOLD = ("disk", "disk_render", "fault_disk", "fault_user", "peer_receive", "peer_poll")
STATES = {"R": 0, "S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "Z": 32, "P": 64, "I": 128, "R+": 256}


class Instance:
    """A trace buffer of the kernel of this test's own."""

    def __init__(self):
        self.path, self.reason = None, ""
        if not os.path.exists("/sys/kernel/tracing/instances"):
            subprocess.run(["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"], stderr=subprocess.DEVNULL)
        if not os.path.exists("/sys/kernel/tracing/instances"):
            self.reason = "this kernel has no instances of tracefs"
            return
        path = f"/sys/kernel/tracing/instances/late-{os.getpid()}"
        os.mkdir(path)
        self.path = path
        self.write("buffer_size_kb", "32768")
        self.write("trace_clock", "boot")
        for event in EVENTS:
            self.write(f"events/{event}/enable", "1")

    def write(self, file, text):
        with open(f"{self.path}/{file}", "w") as to:
            to.write(text)

    def lines(self):
        self.write("tracing_on", "0")
        with open(self.path + "/trace", errors="replace") as file:
            return file.read().splitlines()

    def end(self):
        if self.path:
            os.rmdir(self.path)


def name_of(comm, tid, own):
    """A device has one SurfaceFlinger: that of a test beside this one is none."""
    return (comm if comm != "surfaceflinger" or tid in own else "other").encode()


def body_of(name, text, own):
    """The number of an event's message in Perfetto's bundles, and its bytes."""
    if name == "tracing_mark_write":
        return 3, [field(2, (text + "\n").encode())]
    found = {"sched_switch": SWITCH, "sched_waking": WAKING, "task_newtask": NEW}[name].match(text)
    if not found:  # of a thread whose name has a new line in it
        return 0, []
    if name == "sched_switch":
        prev, tid, state, comm, next_ = found.groups()
        return 4, [field(1, name_of(prev, tid, own)), field(2, int(tid)), field(3, 120), field(4, STATES[state]), field(5, name_of(comm, next_, own)),
                   field(6, int(next_)), field(7, 120)]
    if name == "sched_waking":
        comm, tid, _, cpu = found.groups()
        return 20, [field(1, name_of(comm, tid, own)), field(2, int(tid)), field(3, 120), field(4, 1), field(5, int(cpu))]
    return 235, [field(1, int(found[1])), field(2, name_of(found[2], found[1], own))]


def bundles(lines, own):
    """own: the app's threads. What Perfetto's traced_probes makes of the buffer: per CPU, each drained after the other."""
    of = {}
    for line in lines:
        found = LINE.match(line)
        if not found or found[7] not in ("sched_switch", "sched_waking", "task_newtask", "tracing_mark_write"):
            continue
        number, body = body_of(found[7], found[8], own)
        if not number:
            continue
        flags = 8 if found[4][2:3] in "hHzZ" else 16 if found[4][2:3] == "s" else 0
        of.setdefault(int(found[3]), []).append(field(2, field(1, int(found[5]) * 10**9 + int(found[6]) * 1000) + field(2, int(found[2])) +
                                                      field(number, b"".join(body)) + field(5, flags)))
    out = b""
    for cpu, events in of.items():
        for at in range(0, len(events), 500):
            out += packet(field(1, field(1, cpu) + b"".join(events[at:at + 500])))
    return out


def tree(pid):
    """Perfetto's process tree of the app and of what it started, and their threads."""
    rows, own = b"", set()
    for task in [pid] + [int(child) for path in glob.glob(f"/proc/{pid}/task/*/children") for child in open(path).read().split()]:
        with open(f"/proc/{task}/cmdline", "rb") as file:
            rows += field(1, field(1, task) + field(3, file.read().split(b"\0")[0]))
        for path in glob.glob(f"/proc/{task}/task/*/comm"):
            own.add(path.split("/")[4])
            rows += field(2, field(1, int(path.split("/")[4])) + field(2, open(path).read().strip().encode()) + field(3, task))
    return packet(field(2, rows)), own


class Traced(App):
    """The app, of which a trace is made when it has played."""

    def play(self):
        truth = super().play()
        names, self.own = tree(self.pid)
        self.trace = names + bundles(self.instance.lines(), self.own)
        return truth


def is_whole(jank):
    """A kernel that hides process 1 (tests/kernel/hides_init.h) shows no switch from it, and counts none as lost:
    what a thread did behind one is unknown to a trace."""
    return not any(t["ledger"].get("unknown_ns") for t in jank["threads"] if t["role"] in ROLES)


def compare(live, told, own):
    """By how much ledgers differ, [(ns, token, role, state)]; and what differs that should not, [...]."""
    off, other = [], []
    for token, a in live.items():
        b = told[token]
        other += [(token, key, a[key], b[key]) for key in EXACT if a.get(key) != b.get(key)]
        of = {t["tid"]: t for t in b["threads"]}
        for t in a["threads"]:
            same = of.get(t["tid"])
            if t["role"] not in ROLES or str(t["tid"]) not in own:
                continue
            if not same or same["role"] != t["role"]:
                other.append((token, t["role"], t["tid"], same and same["role"]))
            elif not same["ledger"].get("unknown_ns"):
                off += [(abs(ns - same["ledger"].get(key, 0)), token, t["role"], key) for key, ns in t["ledger"].items()
                        if ns or same["ledger"].get(key)]
    return sorted(off), other


def causes_of(jank):
    return [jank[key] for key in ("cause", "second_cause") if jank.get(key) not in (None, "unknown")]


def judge(late, live, told):
    """[same, unknown to the trace] by cause, and the frames that are told another one."""
    rows, wrong = {}, []
    for token, frame in late.items():
        a, b = live[token], told[token]
        untold = {way["way"] for way in frame["ways"]} & set(UNTOLD) or not is_whole(b)
        same = causes_of(a) == causes_of(b)
        if causes_of(a) == ["no_cpu"] and same and not is_spoiled(frame) and a["culprit"]["tid"] != b["culprit"]["tid"]:
            wrong.append((token, frame["ways"], a["culprit"], b["culprit"]))
        # What a trace says nothing about is no cause there, and makes no other one.
        if same or untold and set(causes_of(b)) < set(causes_of(a)):
            rows.setdefault(a["cause"], [0, 0])[not same] += 1
        else:
            wrong.append((token, frame["ways"], [(j["cause"], j.get("second_cause"), [(t["role"], t["ledger"], t.get("critical_ns")) for t in j["threads"]])
                                                 for j in (a, b)]))
    return rows, wrong


def main():
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    instance = Instance()
    if not instance.path:
        print(f"ok - late_both # SKIP {instance.reason}")
        return
    try:
        app = Traced(folder.name, "--marker", instance.path + "/trace_marker", "--rows", "1", "60:3:all", "120:3:all")
        app.instance = instance
        truth, records, status, talk = record(app, folder.name, "perfetto")
    finally:
        instance.end()
    with open(folder.name + "/both.pb", "wb") as file:
        file.write(open(folder.name + "/trace", "rb").read() + app.trace)
    done = subprocess.run([BUILD + "/jankscope", "frames", "--why", "--json", folder.name + "/both.pb"], capture_output=True, text=True)
    out = json.loads(done.stdout)
    told = {j["surface_frame_token"]: j for j in out["janks"]}
    live = {r["surface_frame_token"]: r for r in records if r["type"] == "jank"}
    late = {f["token"]: f for f in truth if f["present_ns"] > f["predicted_ns"]}
    good = status == 0 and done.returncode == 0 and set(live) == set(told) == set(late)
    ok(good, f"both: {len(late)} late frames are told, by both the same", sorted(set(live) ^ set(told)), done.stderr[-400:], talk[-400:])
    if not good:
        return
    off, other = compare(live, told, app.own)
    ok(not other, "both: windows, delays, tokens and threads are the same", len(other), *other[:4])
    # A trace is in microseconds here, and a run of a thread that an idle CPU takes is charged from before the
    # switch that a trace shows: 30 us, for each sleep. More is what the hypervisor takes between these two.
    ok(off and off[len(off) * 95 // 100][0] < MS // 10 and off[len(off) * 99 // 100][0] < MS // 2 and off[-1][0] < 5 * MS,
       f"both: {len(off)} sums of ledgers, the same to {off[len(off) // 2][0]} ns in the median, {off[-1][0]} at most", *off[-5:])
    rows, wrong = judge(late, live, told)
    for cause, (same, untold) in sorted(rows.items()):
        print(f"# both: {cause}: {same} are told the same, {untold} are unknown to the trace")
    # A second cause has over a third of the delay, or has not: microseconds may say which.
    ok(len(wrong) <= len(late) // 50 and sum(row[0] for row in rows.values()) > len(late) / 3, f"both: the causes are the same, or a trace says nothing of them ({len(wrong)} others)",
       *wrong[:6])


if __name__ == "__main__":
    main()
    sys.exit(late_truth.failed)
