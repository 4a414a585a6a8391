#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Judge what a guest's session recorded, as TAP: each recording by its own sums, its blocks and its
stacks.  usage: judge.py HOST_DIR SYSTEM_IMAGE"""
import functools
import json
import os
import subprocess
import sys
import tempfile

import edges

failed = False
# An emulated CPU is held for its turn for milliseconds: what is late by that is told, and not judged.
EMULATED = ("blocks_without_stack", "samples_late", "interval_overruns", "cpu_torn_reads", "cpu_missed_switches",
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
    expected = {"frames.perfetto_restarts"} if name == "traced_restart" else set()
    ok(set(lost) == expected, f"{name}: {'the restart of traced is told' if expected else 'nothing lost'}", lost)


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
    """The image's files, read for the places of their PLTs."""

    def __init__(self, path):
        self.path = path

    @functools.lru_cache(maxsize=None)
    def file(self, module):
        """The file's bytes, its PLTs and its loads, each as (address, end, offset in the file)."""
        inside = module[len("/system"):] if module.startswith("/system/") else module
        with tempfile.TemporaryDirectory() as work:
            file = os.path.join(work, "file")
            subprocess.run(["debugfs", "-R", f"dump {inside} {file}", self.path], capture_output=True, timeout=60)
            if not os.path.exists(file):
                return b"", [], []
            text = subprocess.run(["readelf", "-SlW", file], capture_output=True, text=True, timeout=60).stdout
            with open(file, "rb") as source:
                data = source.read()
        sections = [line.split("]", 1)[1].split() for line in text.splitlines() if line.strip().startswith("[") and "plt " in line]
        plts = [(int(row[2], 16), int(row[2], 16) + int(row[4], 16)) for row in sections if row[0] in (".plt", ".iplt")]
        segments = [line.split() for line in text.splitlines() if line.strip().startswith("LOAD ")]
        return data, plts, [(int(row[2], 16), int(row[2], 16) + int(row[4], 16), int(row[1], 16)) for row in segments]

    def plt(self, module):
        return self.file(module)[1]

    def follows_a_call(self, frame):
        """Whether the instruction before the return address is bl, blr or one of blr's signed forms."""
        data, _, loads = self.file(frame.get("module", ""))
        for begin, end, offset in loads:
            if begin + 4 <= frame["offset"] < end:
                at = frame["offset"] - 4 - begin + offset
                word = int.from_bytes(data[at:at + 4], "little")
                return word >> 26 == 0x25 or word & 0xFEFFF000 == 0xD63F0000
        return False

    def is_stub(self, frame):
        return any(begin <= frame["offset"] < end for begin, end in self.plt(frame.get("module", "")))


def stacks(name, records, image, least):
    """Stacks of a main thread go to bionic's __libc_init, and each frame has its name."""
    found = [stack for stack in stacks_of(records) if stack.get("frames")]
    blocks = len(blocks_of(records))
    print(f"# {name}: {blocks} blocks, {len(found)} stacks, {sum(1 for s in found if s.get('in_wait'))} of them in the wait, "
          f"{records[-1]['lost'].get('blocks_without_stack', 0)} blocks without one")
    ok(blocks >= least and len(found) >= least, f"{name}: blocks and stacks are there", f"{blocks}, {len(found)}")
    # A request for the mappings that was late is counted; its stack has one frame.
    unread = [s for s in found if s["end_reason"] == "mappings not read"]
    late = sum(value for key, value in records[-1]["late"].items() if key.startswith("probe_"))
    print(f"# {name}: {len(unread)} stacks without mappings, {late} requests late or refused")
    ok(len(unread) <= late, f"{name}: mappings that were not read are counted", f"{len(unread)} of {late}")
    found = [s for s in found if s not in unread]
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
    not waited yet or waits for something else when the recording begins, what is told of it later counts."""
    starts = [event for event in of(records, "event") if event["event"] == "target_start"]
    loops = [event.get("loop") for event in starts]
    later = [event["loop"] for event in of(records, "event")
             if event["event"] == "target_loop" and event["pid"] == starts[0]["pid"]]
    ok(loops[:1] == [LOOPS[name]] or loops[:1] == ["none"] and LOOPS[name] in later, f"{name}: its loop is {LOOPS[name]}", loops)


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
    for pair in others:
        print(f"# {name}: only jankscope: {' < '.join(pair)}")
    ok(seen >= 50 and missed <= 0.03 * seen, f"{name}: 97 % of the calls are in simpleperf's stacks", f"{missed} of {seen} are not")
    unknown = [pair for pair in others if not all(image.follows_a_call(frame) for frame in ours[pair])]
    ok(not unknown, f"{name}: each of the others follows a call in the image's code", unknown)


# Recordings with a judge of their own: what is to be seen at least.
BLOCKS = {"servicemanager": 3, "init": 3, "incidentd": 1, "traced_probes": 1, "binder": 1, "enforcing": 3,
          "edges_servicemanager": 3, "edges_init": 3}
LOOPS = {"servicemanager": "epoll", "init": "epoll", "incidentd": "epoll", "binder": "epoll", "traced_probes": "poll",
         "shell": "none", "enforcing": "epoll",
         "edges_servicemanager": "epoll", "edges_init": "epoll"}


def main():
    host, image = sys.argv[1], Image(sys.argv[2])
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
            if name in BLOCKS:
                stacks(name, records, image, BLOCKS[name])
        except (ValueError, KeyError, IndexError, TypeError) as why:
            ok(False, f"{name}: can be read", repr(why))
    return failed


sys.exit(main())
