#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Judge what a guest's session recorded, as TAP: each recording by its own sums, its blocks and its
stacks.  usage: judge.py HOST_DIR SYSTEM_IMAGE"""
import collections
import json
import os
import subprocess
import sys
import tempfile

import callees
import edges

failed = False
# An emulated CPU is held for its turn for milliseconds: what is late by that is told, and not judged.
EMULATED = ("blocks_without_stack", "samples_late", "interval_overruns", "cpu_torn_reads", "cpu_told_ahead_ns", "cpu_missed_switches",
            "blocks_missed_switches")


def ok(good, name, detail=""):
    global failed
    print(f"ok - {name}" if good else f"not ok - {name}: {detail}")
    failed |= not good


def load(path):
    """The records of a recording; what is no record raises."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def of(records, kind):
    return [record for record in records if record["type"] == kind]


def blocks_of(records):
    """The last word on each block: one that goes on is told open first."""
    return list({(block["tid"], block["start_boot_ns"]): block for block in of(records, "block")}.values())


def whole(name, records):
    """Header first, footer last, no gap; and each sum is what it is the sum of, to the nanosecond."""
    ok(records[0]["type"] == "header" and records[-1]["type"] == "footer" and
       [r["seq"] for r in records] == list(range(len(records))), f"{name}: whole, from header to footer",
       f"{records[0]['type']} to {records[-1]['type']}")
    summary = records[-1]["summary"]
    wrong = []
    busy = 0
    for interval in of(records, "interval"):
        cpu = interval.get("cpu")
        if not cpu:
            continue
        busy += cpu["busy_ns"]
        tasks = sum(task["cpu_ns"] for task in cpu["tasks"])
        if tasks + cpu["other_ns"] + cpu["overflow_ns"] != cpu["busy_ns"]:
            wrong.append(f"interval {interval['seq']}: tasks + other + overflow - busy = "
                         f"{tasks + cpu['other_ns'] + cpu['overflow_ns'] - cpu['busy_ns']}")
        uids = sum(uid["cpu_ns"] for uid in cpu["uids"])
        if uids != cpu["busy_ns"] - cpu["overflow_ns"]:
            wrong.append(f"interval {interval['seq']}: the uids are {uids} of {cpu['busy_ns']}")
    if busy != summary["cpu"]["busy_ns"]:
        wrong.append(f"the footer's busy_ns is {summary['cpu']['busy_ns']}, that of the intervals {busy}")
    blocks = blocks_of(records)
    ended = [block for block in blocks if block["state"] != "open"]
    for block in blocks:
        if sum(block["ledger"].values()) != block["wall_ns"]:
            wrong.append(f"block {block['seq']}: ledger {sum(block['ledger'].values())}, wall {block['wall_ns']}")
    told = summary.get("blocks", {})
    if told.get("count", 0) != len(ended) or told.get("total_ns", 0) != sum(block["wall_ns"] for block in ended):
        wrong.append(f"the footer tells of {told.get('count', 0)} blocks, {len(ended)} are there")
    ok(not wrong, f"{name}: every sum is exact", "; ".join(wrong[:3]))
    lost = {key: value for key, value in records[-1]["lost"].items() if key not in EMULATED}
    if records[-1]["lost"]:
        print(f"# {name}: lost {records[-1]['lost']}")
    if name not in FRAMES_LOST:
        ok(not lost, f"{name}: nothing lost", lost)


def header(name, records, host):
    """The recording names the Android as getprop does; a property that is empty has no key."""
    with open(os.path.join(host, "properties.txt"), encoding="utf-8") as lines:
        known = dict(line.rstrip("\n").split("=", 1) for line in lines)
    android = records[0].get("android", {})
    want = {"fingerprint": known["ro.build.fingerprint"], "release": known["ro.build.version.release"],
            "build_type": known["ro.build.type"], "api": known["ro.build.version.sdk"]}
    want = {key: value for key, value in want.items() if value}
    ok({key: str(value) for key, value in android.items()} == want, f"{name}: the header names the Android",
       f"{android}, getprop {want}")
    ok(records[0].get("selinux", "") == "u:r:su:s0" and records[0].get("page_bytes") in (4096, 16384),
       f"{name}: the header has the SELinux context and the page size",
       f"{records[0].get('selinux')}, {records[0].get('page_bytes')}")


def stacks_of(records):
    return [stack for block in of(records, "block") for stack in block.get("stacks", [])] + of(records, "stack")


class Image:
    """The image's files. A program of the tests' own in /data/local/tmp is in the folder of the recordings."""

    def __init__(self, path, host):
        self.path = path
        self.host = host
        self.callees = callees.Callees(self.read)

    def read(self, module):
        """The bytes of a file; none where there is none."""
        inside = module[len("/system"):] if module.startswith("/system/") else module
        with tempfile.TemporaryDirectory() as work:
            file = os.path.join(work, "file")
            if os.path.dirname(module) == "/data/local/tmp":
                file = os.path.join(self.host, os.path.basename(module))
            else:
                subprocess.run(["debugfs", "-R", f"dump {inside} {file}", self.path], capture_output=True, timeout=60)
            if not os.path.exists(file):
                return b""
            with open(file, "rb") as source:
                return source.read()

    def follows_a_call(self, frame):
        """Whether the instruction before the return address is bl, blr or one of blr's signed forms."""
        module = self.callees.module(frame.get("module", ""))
        return module and module.is_call(frame["offset"] - 4)

    def is_stub(self, frame):
        module = self.callees.module(frame.get("module", ""))
        return module and module.is_stub(frame["offset"])


def stacks(name, records, image, least):
    """Stacks of a main thread go to bionic's __libc_init, and each frame has its name."""
    found = [stack for stack in stacks_of(records) if stack.get("frames")]
    blocks = len(blocks_of(records))
    print(f"# {name}: {blocks} blocks, {len(found)} stacks, {sum(1 for s in found if s.get('in_wait'))} of them in the wait, "
          f"{records[-1]['lost'].get('blocks_without_stack', 0)} blocks without one")
    ok(blocks >= least and len(found) >= least, f"{name}: blocks and stacks are there", f"{blocks}, {len(found)}")
    # A request for the mappings or the memory that was late is counted; its stack has one frame, or is the kernel's.
    unread = [s for s in found if s["end_reason"] == "mappings not read"]
    kernel = [s for s in found if s["capture"] == "kernel"]
    late = sum(value for key, value in records[-1]["late"].items() if key.startswith("probe"))
    print(f"# {name}: {len(unread)} stacks without mappings, {len(kernel)} of the kernel, {late} requests late or refused")
    ok(len(unread) + len(kernel) <= late, f"{name}: what was not read is counted", f"{len(unread)} and {len(kernel)} of {late}")
    found = [s for s in found if s not in unread and s not in kernel]
    short = [s for s in found if not s["complete"] or s["frames"][-1].get("symbol") != "__libc_init"]
    ok(not short, f"{name}: every stack goes to __libc_init",
       [(s["end_reason"], [f.get("symbol", f.get("module")) for f in s["frames"]]) for s in short[:2]])
    callers = [f for s in found for f in s["frames"][1:]]
    wrong = [f for f in callers if not image.follows_a_call(f)]
    ok(not wrong, f"{name}: each of {len(callers)} return addresses follows a call in the image's code", wrong[:2])
    bare = [f for s in found for f in s["frames"] if not f.get("symbol")]
    stubs = [f for f in bare if image.is_stub(f)]
    probe = [f for f in bare if f.get("module", "").strip("[]") == "uprobes"]
    print(f"# {name}: {sum(len(s['frames']) for s in found)} frames, without a name {len(stubs)} PLT stubs, "
          f"{len(probe)} in the uprobe page")
    ok(len(bare) == len(stubs) + len(probe), f"{name}: every frame has a name but PLT stubs",
       [(f.get("module"), hex(f.get("offset", 0))) for f in bare if f not in stubs and f not in probe][:3])


def event_loop(name, records):
    """Of the process that was there first; a child of it has no loop until it runs a program. Where the process has
    not waited yet or waits for something else when the recording begins, what is told of it last counts."""
    starts = [event for event in of(records, "event") if event["event"] == "target_start"]
    loops = [event.get("loop") for event in starts]
    later = [event["loop"] for event in of(records, "event")
             if event["event"] == "target_loop" and event["pid"] == starts[0]["pid"]]
    if later:
        print(f"# {name}: first its loop was told to be {loops[0]}, then {', '.join(later)}")
    ok((loops[:1] + later)[-1:] == [LOOPS[name]], f"{name}: its loop is {LOOPS[name]}", loops + later)


def binder(name, records):
    """One sleep is the synchronous call: reason, waker and stack say so. servicemanager stood for 0.8 s, and
    the call may have begun within that time."""
    calls = [(sleep["ns"], sleep.get("waker", {}).get("thread")) for block in blocks_of(records)
             for sleep in block.get("sleeps", []) if sleep["reason"] == "binder"]
    longest = max(calls, default=(0, None))
    print(f"# {name}: {len(calls)} sleeps in binder, the longest {longest[0] / 1e6:.1f} ms")
    ok(300e6 <= longest[0] <= 2e9 and longest[1] == "servicemanager", f"{name}: the call waits for servicemanager", longest)
    named = [stack for stack in stacks_of(records)
             if any("BpBinder::transact" in f.get("symbol", "") for f in stack["frames"]) and
             any("ServiceManager" in f.get("symbol", "") for f in stack["frames"])]
    ok(named, f"{name}: its stack goes through libbinder to the caller", "no such stack")


def uid(name, records, host):
    """A child of init has two uids in its life; each is booked what it ran as such. What the child itself read of
    its CPU time lies between: at its script's begin (then it had the new uid for some time) and at its end."""
    with open(os.path.join(host, "worker.txt"), encoding="utf-8") as line:
        pid, begin, end = (int(word) for word in line.read().split())
    whole_ns = sum(task["cpu_ns"] for interval in of(records, "interval") for task in interval["cpu"]["tasks"]
                   if task["pid"] == pid)
    own = sum(row["cpu_ns"] for interval in of(records, "interval") for row in interval["cpu"]["uids"] if row["uid"] == 1013)
    print(f"# {name}: {whole_ns} ns in all, {own} as uid 1013, {whole_ns - own} as root; its own clock {begin} to {end}")
    ok(end <= whole_ns <= end + 50e6, f"{name}: the child's CPU time is what its own clock says", f"{whole_ns}, {end}")
    ok(end - begin <= own < whole_ns, f"{name}: what it ran before setuid is root's", f"{own} of {whole_ns}")


def calls(name, records, image, host):
    """At least 97 % of the calls in the stacks are calls that simpleperf's stacks have. The others are told, and
    each is one by the image's own code: simpleperf's samples did not meet it."""
    ours = edges.of_jankscope(stack for stack in stacks_of(records) if stack["complete"])
    theirs, samples = edges.of_simpleperf(os.path.join(host, name + ".samples"))
    others = sorted(set(ours) - theirs)
    seen, missed = sum(map(len, ours.values())), sum(len(ours[pair]) for pair in others)
    print(f"# {name}: {seen - missed} of {seen} calls, {len(ours) - len(others)} of {len(ours)} pairs of functions, are in "
          f"simpleperf's {len(theirs)} pairs ({samples} samples)")
    kinds = {pair: collections.Counter(image.callees.kind(*frames) for frames in ours[pair]) for pair in ours}
    for pair in others:
        print(f"# {name}: only jankscope: {' < '.join(pair)} ({', '.join(kinds[pair])} in the code)")
    ok(seen >= 50 and missed <= 0.03 * seen, f"{name}: 97 % of the calls are in simpleperf's stacks", f"{missed} of {seen} are not")
    print(f"# {name}: by the image's code {dict(sum(kinds.values(), collections.Counter()))}")
    unknown = [pair for pair in ours if kinds[pair]["no call"]]
    ok(not unknown, f"{name}: each call is one that the image's code makes", unknown)


def cut_off(name, records):
    """A recording of 120 s ends when its adb shell goes away; one of 10 s with nohup goes on to its end."""
    length_s = sum(interval["dur_ns"] for interval in of(records, "interval")) / 1e9
    ends = name in ("cut_disconnect", "cut_killed", "cut_raw")
    ok(1 <= length_s < 60 if ends else 9.9 <= length_s < 12,
       f"{name}: it {'ends with its shell' if ends else 'goes on to its end'}", f"{length_s:.1f} s")
    print(f"# {name}: {length_s:.1f} s")


def java_name(oat, frame, place):
    """By the symbols that a stripped boot.oat hides (callees.py); None: another module's frame, or it has none."""
    if not frame.get("module", "").endswith("/boot.oat"):
        return None
    names = oat.names_at(frame["offset"] - (4 if place else 0))
    return next((n.split("(")[0].split()[-1] for n in sorted(names)), None)


def java(name, records, image, mode):
    """Compiled Java code between C: each stack is complete, and its Java frames have names and are found by the
    tables of boot.oat. Below Arrays.sort lies what calls it."""
    blocks = blocks_of(records)
    taken = [stack for stack in stacks_of(records) if stack.get("frames") and not stack.get("in_wait")]
    # What the kernel does for the thread, where nothing else could be captured at that moment.
    found = [stack for stack in taken if stack["capture"] != "kernel" or mode != "auto"]
    without = records[-1]["lost"].get("blocks_without_stack", 0)
    ways = sorted({stack["capture"] for stack in found})
    sorting = [s for s in found if any(f.get("module", "").endswith("/boot.oat") for f in s["frames"])]
    print(f"# {name}: {len(blocks)} blocks, {len(found)} stacks by {ways}, {len(sorting)} of them in Java, {len(taken) - len(found)} of the kernel, "
          f"{without} blocks without one")
    ok(len(blocks) >= 3, f"{name}: blocks are there", len(blocks))
    if mode == "off":
        ok(not found and not without, f"{name}: no stack, and none is missed", f"{len(found)}, {without}")
        return
    # A thread that computes does not leave its CPU by itself, and then nothing can be copied without a stop.
    least = 0 if mode == "snapshot" else 3
    ok(len(sorting) >= least, f"{name}: stacks in Java code are there", len(sorting))
    later = {stack["of"] for stack in of(records, "stack")}
    told = {(block["tid"], block["start_boot_ns"]) for block in of(records, "block")
            if block["stacks"] or block["seq"] in later}
    bare = [block for block in blocks if (block["tid"], block["start_boot_ns"]) not in told]
    ok(len(bare) <= without, f"{name}: each block without a stack is counted", f"{len(bare)} of {without}")
    allowed = {"snapshot", "perf", "ptrace"} if mode == "auto" else {mode}
    ok(set(ways) <= allowed, f"{name}: stacks are captured as they may be", ways)
    short = [s for s in found if not s["complete"]]
    ok(not short, f"{name}: every stack is complete",
       [(s["end_reason"], [f.get("symbol", f.get("module")) for f in s["frames"]]) for s in short[:2]])
    # Names of inlined methods are in the DEX file, which is in no process here.
    frames = [f for s in sorting for f in s["frames"] if f.get("module", "").endswith("/boot.oat") and not f.get("inlined")]
    oat = image.callees.module("/system/framework/arm64/boot.oat") if frames else None
    if oat and oat.is_stripped:
        # Its DEX file is in an apex. Whoever called such code was found by ART's layout, everybody else by tables.
        wrong = [(f, caller) for s in sorting for f, caller in zip(s["frames"], s["frames"][1:])
                 if (caller.get("by") == "quick") != f.get("module", "").endswith("/boot.oat") or caller.get("by", "quick") != "quick"]
        ok(not wrong and not [f for f in frames if "symbol" in f],
           f"{name}: the callers of {len(frames)} frames of stripped code are found by ART's layout", wrong[:2])
        names = [[java_name(oat, f, i) or f.get("symbol") for i, f in enumerate(s["frames"])] for s in sorting]
    else:
        wrong = [f for f in frames if not f.get("symbol", "").startswith("java.util.") or f.get("by") or f.get("shared")]
        ok(not wrong, f"{name}: each of {len(frames)} Java frames has its name and is found by tables", wrong[:2])
        names = [[f.get("symbol") for f in s["frames"]] for s in sorting]
    below = ["java.util.Arrays.sort", "art_invoke", "sort_round", "main"]
    other = [chain for chain in names if below != [n for n in chain if n in below]]
    ok(not other, f"{name}: below Java lie the C frames that call it", other[:1])
    callers = [f for s in found for f in s["frames"][1:]]
    wrong = [f for f in callers if not image.follows_a_call(f)]
    ok(not wrong, f"{name}: each of {len(callers)} return addresses follows a call", wrong[:2])
    both = [chain for chain in names if chain[0] in ("insertion_sort", "merge_runs")]
    deepest = " < ".join(symbol or "?" for symbol in max(names, key=len, default=[]))
    print(f"# {name}: {len(both)} stacks go from C through Java to C; the deepest: {deepest}")


def java_calls(name, records, host):
    """No call of Java code is one that simpleperf's stacks do not have."""
    ours = [pair for pair in edges.of_jankscope(stacks_of(records)) if any(side.startswith("java.") for side in pair)]
    theirs, _ = edges.of_simpleperf(os.path.join(host, name + ".samples"))
    print(f"# {name}: pairs with Java: {', '.join(' < '.join(pair) for pair in sorted(ours))}")
    ok(len(ours) >= 2 and not set(ours) - theirs, f"{name}: simpleperf has each of the calls in Java", set(ours) - theirs)


# ---- frames: what the producer says that it drew, and what the recording says of it
FIRST, SECOND = range(2)
HIDDEN = 1 | 2048  # no jank, and what nobody sees


def truth_of(name, host):
    """The head of frame_producer's truth, its sessions, and its refreshes."""
    lines = load(os.path.join(host, name + ".truth"))
    return lines[0], of_key(lines, "session"), of_key(lines, "refresh")


def of_key(lines, key):
    return [line for line in lines if key in line]


def expected_of(layer, refreshes, period_ns):
    """The sums of a layer over these refreshes: those of its rows, and refreshes that showed nothing new."""
    rows = [row[1:] for refresh in refreshes for row in refresh["rows"] if row[0] == layer]
    sums = {"shown": 0, "dropped": 0, "janky": 0, "app": 0, "sf": 0, "hw": 0, "stuffing": 0, "never": 0}
    waiting = 0
    for jank, present_type, due, present in rows:
        sums["janky"] += jank & ~HIDDEN != 0
        sums["app"] += jank & 64 != 0
        sums["sf"] += jank & 2 != 0
        sums["hw"] += jank & 4 != 0
        sums["stuffing"] += jank == 128
        sums["never"] += present_type == 4
        if not present:
            waiting += sums["shown"] > 0  # before the first frame nobody knows what is late
            continue
        if sums["shown"]:
            sums["dropped"] += waiting + round((present - due) / period_ns)
        waiting = 0
        sums["shown"] += 1
    return sums


def recorded_of(layer, head, records):
    """The same sums, over all intervals of the recording."""
    name, pid = head["layers"][layer]["layer"].split(" - ", 1)[-1], head["layers"][layer]["pid"]
    rows = [row for interval in of(records, "interval") for row in (interval.get("frames") or {}).get("layers", [])
            if row["pid"] == pid and row.get("layer", "").split(" - ", 1)[-1] == name]
    sums = {key: sum(row[key] for row in rows) for key in ("shown", "dropped", "janky")}
    jank = {key: sum(row["jank"][key] for row in rows) for key in ("app", "sf", "hw", "stuffing", "dropped")}
    jank["never"] = jank.pop("dropped")
    return {**sums, **jank}


def intervals_of(records):
    """How many times from frame to frame, and the longest one's bucket."""
    buckets = [bucket for interval in of(records, "interval") for row in (interval.get("frames") or {}).get("layers", [])
               for bucket in row.get("interval_hist") or []]
    return sum(bucket[2] for bucket in buckets), max((bucket[0] for bucket in buckets), default=0)


def first_that_fits(layer, head, records, choices):
    """The number of the choice (refreshes of a session or two) whose sums are the recorded ones; None: of none."""
    want = recorded_of(layer, head, records)
    for number, parts in choices:
        sums = [expected_of(layer, part, head["period_ns"]) for part in parts]
        if {key: sum(one[key] for one in sums) for key in want} == want:
            return number
    return None


def drawn(name, records, host):
    """Every frame that was drawn is in the recording, or is told as lost."""
    head, sessions, refreshes = truth_of(name, host)
    lost = records[-1]["lost"]
    for session in sessions:
        print(f"# {name}: session {session['session']}: {session['written']} packets, {session['accepted']} accepted, "
              f"{session['dropped']} dropped, {session['ended']}")
    for layer in (FIRST, SECOND):
        print(f"# {name}: layer {layer}: recorded {recorded_of(layer, head, records)}")
    ok(head["drawn"] == head["refreshes"], f"{name}: all {head['refreshes']} refreshes were drawn", head)
    told = [[refresh for refresh in refreshes if refresh["told_to"] == number] for number in range(len(sessions))]
    if name == "perfetto_burst":
        burst(name, records, head, told[0], lost)
    elif name == "traced_restart":
        traced_restart(name, records, head, sessions, told, lost)
    else:
        ok(all(s["written"] == s["accepted"] and not s["dropped"] and s["ended"] == "stopped" for s in sessions) and
           len(sessions) == 3, f"{name}: the service took every packet, of three sessions", sessions)
        for layer in (FIRST, SECOND):
            want, got = expected_of(layer, told[0], head["period_ns"]), recorded_of(layer, head, records)
            if layer == SECOND and name == "perfetto_pid":
                want = dict.fromkeys(want, 0)
            ok(got == want, f"{name}: each of {want['shown']} frames of layer {layer}, and its jank by kind", f"{got}, {want}")
        shown = [recorded_of(layer, head, records)["shown"] for layer in (FIRST, SECOND)]
        count, longest = intervals_of(records)
        ok(count == sum(max(n - 1, 0) for n in shown) and longest < 60e6, f"{name}: {count} intervals, the longest {longest} ns",
           shown)


def burst(name, records, head, told, lost):
    """Each refresh had a chunk of its own and one behind it. The first ones were overwritten before anybody read them:
    as many as the service says."""
    choices = [(n, [told[n:]]) for n in range(len(told))]
    gone = [first_that_fits(layer, head, records, choices) for layer in (FIRST, SECOND)]
    chunks = lost.get("frames.chunks_overwritten", 0)
    print(f"# {name}: the first {gone} refreshes are not there, {chunks} chunks were overwritten")
    ok(None not in gone and min(gone) > 0, f"{name}: what is there is exact, the first {gone} of {len(told)} refreshes are lost")
    ok(None not in gone and 2 * max(gone) - 1 <= chunks <= 2 * max(gone) + 20,
       f"{name}: the recording says that {chunks} chunks are lost, {gone} refreshes of two each are", lost)


def traced_restart(name, records, head, sessions, told, lost):
    """Frames that were in traced when it was killed are lost, and those until it ran again. An event says from which to
    which frame, and the rest is exact."""
    ended = [session["ended"] for session in sessions]
    ok(ended == ["disconnected", "stopped"], f"{name}: the producer saw traced go and come", ended)
    if len(told) != 2:
        return
    choices = [(n, [told[0][:n], told[1]]) for n in range(len(told[0]), 0, -1)]
    kept = [first_that_fits(layer, head, records, choices) for layer in (FIRST, SECOND)]
    print(f"# {name}: {len(told[0])} refreshes told before, {kept} recorded; {len(told[1])} told after")
    ok(None not in kept and abs(kept[0] - kept[1]) <= 2, f"{name}: what was shown before and after is exact", kept)
    gaps = [(event.get("from_boot_ns"), event.get("until_boot_ns")) for event in of(records, "event")
            if event["event"] == "gap" and event.get("source") == "frames"]
    before = [refresh["shown_ns"] for refresh in told[0]]
    ok(None not in kept and len(gaps) == 1 and gaps[0][0] in before[min(kept) - 1:max(kept) + 1] and
       gaps[0][1] == told[1][0]["shown_ns"], f"{name}: an event says from which to which frame others are lost",
       f"{gaps}, {[before[n - 1] for n in kept if n]} to {told[1][0]['shown_ns']}")
    count, longest = intervals_of(records)
    ok(longest < 60e6, f"{name}: no interval goes across the gap: {count}, the longest {longest} ns")
    ok(lost.get("frames.perfetto_restarts") == 1, f"{name}: the restart of traced is told", lost)


# Recordings that lose frames because the room makes them.
FRAMES_LOST = ("perfetto_burst", "traced_restart")
FRAMES = ("perfetto", "perfetto_pid") + FRAMES_LOST

# Recordings with a judge of their own: what is to be seen at least.
BLOCKS = {"servicemanager": 3, "init": 3, "incidentd": 1, "traced_probes": 1, "binder": 1, "enforcing": 3,
          "edges_servicemanager": 3, "edges_init": 3}
LOOPS = {"servicemanager": "epoll", "init": "epoll", "incidentd": "epoll", "binder": "epoll", "traced_probes": "poll",
         "shell": "none", "enforcing": "epoll", "art_auto": "epoll", "edges_art": "epoll",
         "edges_servicemanager": "epoll", "edges_init": "epoll"}


def main():
    host = sys.argv[1]
    image = Image(sys.argv[2], host)
    recorded = set()
    if os.path.exists(os.path.join(host, "recorded")):
        with open(os.path.join(host, "recorded"), encoding="utf-8") as lines:
            recorded = set(lines.read().split())
    absent = [name for name in recorded if not os.path.exists(os.path.join(host, name + ".jsonl"))]
    ok(not absent, "recordings: each came to the host", absent)
    for file in sorted(os.listdir(host)):
        name, kind = os.path.splitext(file)
        if kind != ".jsonl":
            continue
        try:
            records = load(os.path.join(host, file))
            whole(name, records)
            if name == "boot":
                header(name, records, host)
            if name == "uid":
                uid(name, records, host)
            if name in LOOPS:
                event_loop(name, records)
            if name in ("perfetto", "live"):
                frames = [source for source in records[0]["sources"] if source["name"] == "frames"]
                ok(frames and frames[0]["state"] == "ok", f"{name}: the source of frames is ok", frames)
            if name.startswith("edges_"):
                calls(name, records, image, host)
            if name == "binder":
                binder(name, records)
            if name.startswith("cut_"):
                cut_off(name, records)
            if name.startswith("art_"):
                java(name, records, image, name.split("_")[1])
            if name == "edges_art":
                java(name, records, image, "auto")
                if not image.callees.module("/system/framework/arm64/boot.oat").is_stripped:
                    java_calls(name, records, host)
            if name in FRAMES:
                drawn(name, records, host)
            if name in BLOCKS:
                stacks(name, records, image, BLOCKS[name])
        except (ValueError, KeyError, IndexError, TypeError) as why:
            ok(False, f"{name}: can be read", repr(why))
    return failed


sys.exit(main())
