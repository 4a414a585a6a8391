# SPDX-License-Identifier: BSD-2-Clause
"""Recordings whose every figure a test knows: records as dicts, and the lines of them."""
import json
import random

from check_records import crc32c

BOOT = 5_000 * 10**9
UNIX = 1_763_985_600 * 10**9  # 2025-11-24T12:00:00Z
SEC = 10**9
FOUR = ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets")


def line(record, seq):
    head = {"type": record["type"], "seq": seq, "t_boot_ns": record["t_boot_ns"]}
    rest = {key: value for key, value in record.items() if key not in head}
    text = json.dumps({**head, **rest}, separators=(",", ":"), ensure_ascii=False)
    data = text[:-1].encode("utf-8", "surrogateescape")
    return data + b',"crc":"%08x"}\n' % crc32c(data)


def write(path, records):
    with open(path, "wb") as file:
        for seq, record in enumerate(records):
            record["seq"] = seq
            file.write(line(record, seq))


def header(boot_ns=BOOT, unix_ns=UNIX, boot_id="b0", session="s0", targets=()):
    return {"type": "header", "t_boot_ns": boot_ns, "schema": 1, "version": "0.1.0",
            "session": f"{session}-00000000-0000-0000-0000-0000000000"[:36],
            "boot_id": f"{boot_id}-00000000-0000-0000-0000-0000000000"[:36],
            "kernel": "Linux 6.1", "arch": "arm64",
            "clock": {"boot_ns": boot_ns, "mono_ns": boot_ns, "unix_ns": unix_ns},
            "interval_ns": SEC, "block_ns": SEC // 2,
            "targets": [{"package": name} for name in targets], "sources": []}


def bytes_of(rng):
    return {key: rng.randrange(10_000) for key in FOUR}


def interval(end_ns, rng, apps, dur_ns=SEC, cpus=4, **more):
    """apps: (package, pid, uid, most CPU time)"""
    tasks, processes, uids = [], [], []
    for package, pid, uid, most in apps:
        whole = 0
        for tid, thread in ((pid, package[-15:]), (pid + 1, "RenderThread")):
            cpu_ns = rng.randrange(most)
            whole += cpu_ns
            tasks.append({"tid": tid, "pid": pid, "uid": uid, "start_boot_ns": 1, "thread": thread,
                          "process": package, "package": package, "cpu_ns": cpu_ns,
                          "runnable_ns": cpu_ns // 10})
        processes.append({"pid": pid, "uid": uid, "start_boot_ns": 1, "process": package,
                          "package": package, "cpu_ns": whole, "runnable_ns": whole // 10,
                          "threads": 2})
        uids.append({"uid": uid, "cpu_ns": whole})
    other_ns = rng.randrange(SEC // 10)
    busy_ns = sum(task["cpu_ns"] for task in tasks) + other_ns
    record = {
        "type": "interval", "t_boot_ns": end_ns, "dur_ns": dur_ns,
        "cpu": {"online_cpus": cpus, "busy_ns": busy_ns, "idle_ns": cpus * dur_ns - busy_ns,
                "online_ns": cpus * dur_ns, "other_ns": other_ns, "overflow_ns": 0,
                "tasks": tasks, "processes": processes, "uids": uids},
        "net": {"uids": [{"uid": uid, "package": package, **bytes_of(rng)}
                         for package, _, uid, _ in apps],
                "loopback": bytes_of(rng),
                "unattributed": {**bytes_of(rng), "forwarded": bytes_of(rng),
                                 "kernel": bytes_of(rng), "no_socket": bytes_of(rng)}},
        "frames": {"layers": [{"pid": pid, "package": package, "layer": f"{package}/Main#0",
                               "period_ns": 16666667, "shown": 60, "dropped": 0,
                               "fps_active": 60.0, "janky": rng.randrange(3),
                               "jank": {"app": 0, "sf": 0, "hw": 0, "stuffing": 0, "dropped": 0,
                                        "unknown": 0}} for package, pid, _, _ in apps]},
        "memory": {"processes": [{"pid": pid, "uid": uid, "start_boot_ns": 1, "process": package,
                                  "package": package,
                                  "rss_bytes": (100 << 20) + rng.randrange(1 << 20)}
                                 for package, pid, uid, _ in apps],
                   "system": {"total_bytes": 8 << 30,
                              "available_bytes": (4 << 30) + rng.randrange(1 << 20)}},
        "lost": {}, "late": {}, "repaired": {}, "missing": {},
        "self": {"cpu_ns": 1000, "stops": 0, "stop_max_ns": 0}}
    record.update(more)
    return record


def frame(symbol, module="/data/app/lib/libgame.so", kind="native"):
    return {"module": module, "build_id": "00ff", "offset": 4096, "symbol": symbol, "kind": kind}


def block(start_ns, wall_ns, package, pid, symbols=("work", "main"), **more):
    half = wall_ns // 2
    record = {
        "type": "block", "t_boot_ns": start_ns + wall_ns, "pid": pid, "tid": pid,
        "package": package, "process": package, "start_boot_ns": start_ns, "wall_ns": wall_ns,
        "state": "closed",
        "class": "anr" if wall_ns >= 5 * SEC else "long" if wall_ns >= 2 * SEC else "short",
        "ledger": {"running_ns": half, "runnable_ns": 0, "sleeping_ns": wall_ns - half,
                   "uninterruptible_ns": 0, "stopped_ns": 0},
        "reasons": [{"reason": "futex", "ns": wall_ns - half}], "preemptors": [],
        "stacks": [{"t_boot_ns": start_ns + half, "weight_ns": wall_ns, "capture": "snapshot",
                    "complete": True, "end_reason": "outermost frame",
                    "frames": [frame(symbol) for symbol in symbols]}],
        "top": 0, "lost": {}, "missing": {}}
    record.update(more)
    return record


# Of a run in which each late frame of a target has a jank record.
JUDGES = [{"name": "frames", "state": "ok", "variant": "perfetto"}, {"name": "flight", "state": "ok"}]
# The words of a cause in totals, where they differ: FrameTimeline has these words for itself.
TOTALS = {"unknown": "unexplained", "stuffing": "stuffed"}
PERIOD = 16_666_667


def jank_thread(pid, tid, role, name, process, window_ns, running_ns, sleeping_ns=0, **more):
    return {"pid": pid, "tid": tid, "thread": name, "process": process, "role": role,
            "ledger": {"running_ns": running_ns, "runnable_ns": window_ns - running_ns - sleeping_ns,
                       "sleeping_ns": sleeping_ns, "uninterruptible_ns": 0, "stopped_ns": 0}, **more}


def jank(start_ns, late_ns, cause, package, pid, token=1, **more):
    """A frame that was to begin at start_ns and to take a period."""
    end_ns = start_ns + PERIOD + late_ns
    window_ns = end_ns - start_ns
    record = {
        "type": "jank", "t_boot_ns": end_ns + SEC // 2, "pid": pid, "package": package, "process": package,
        "layer": f"TX - {package}/Main#0", "surface_frame_token": token, "display_frame_token": token + 1,
        "expected_start_ns": start_ns, "expected_end_ns": start_ns + PERIOD,
        "actual_start_ns": start_ns + 1000, "actual_end_ns": end_ns,
        "window_start_ns": start_ns, "window_end_ns": end_ns, "late_ns": late_ns,
        "jank_type": "App Deadline Missed", "cause": cause, "cause_ns": late_ns, "cause_thread": 0,
        "confidence": 0.9,
        "threads": [jank_thread(pid, pid, "main", package[-15:], package, window_ns, window_ns // 4, window_ns // 2,
                                critical_ns=window_ns // 2, reasons=[{"reason": "futex", "ns": window_ns // 2}]),
                    jank_thread(pid, pid + 1, "render", "RenderThread", package, window_ns, window_ns // 8)],
        "lost": {}, "missing": {}}
    record.update(more)
    return record


CAUSES = ("unknown", "main_cpu", "render_cpu", "no_cpu", "binder", "lock", "io", "page_fault", "gpu",
          "surfaceflinger", "hwc", "stuffing")


def late_frames(seed=7, seconds=30, names=("com.example.app", "com.example.other"), per_second=6):
    """A run in which frames are late by every cause, some dropped; windows overlap, and frames are told in
    another order than they came in."""
    random_, records, told = rng(seed), [header(targets=names)], []
    records[0]["sources"] = JUDGES
    for second in range(1, seconds + 1):
        now = BOOT + second * SEC
        records += [one for one in told if one["t_boot_ns"] <= now]
        told = [one for one in told if one["t_boot_ns"] > now]
        records.append(interval(now, random_, [(name, 100 + 10 * n, 10100 + n, SEC // 8) for n, name in enumerate(names)]))
        for n in range(random_.randrange(per_second - 2, per_second + 3)):
            app = random_.randrange(len(names))
            cause = CAUSES[(second * per_second + n) % len(CAUSES)]
            late = random_.choice((1, 8, 30, 250)) * random_.randrange(500_000, 1_500_000)
            frame = jank(now - random_.randrange(SEC), late, cause, names[app], 100 + 10 * app, token=second * 100 + n)
            if random_.random() < 0.2:
                frame["dropped"] = True
            if random_.random() < 0.3:
                frame.update(second_cause=CAUSES[1 + second % 11], second_cause_ns=late // 3)
            if cause == "no_cpu":
                frame["threads"][0]["preemptors"] = [{"tid": 7, "thread": "kswapd0", "process": "kswapd0", "ns": 1_000_000}]
                frame["culprit"] = {"pid": 7, "tid": 7, "thread": "kswapd0", "process": "kswapd0"}
            if cause in ("lock", "binder"):
                frame["threads"][0]["waker"] = {"pid": 900, "tid": 907, "thread": "binder:900_7", "process": "system_server"}
                frame["culprit"] = frame["threads"][0]["waker"]
                frame["chain"] = [{"pid": 900, "tid": 907, "process": "system_server", "thread": "binder:900_7",
                                   "how": "binder" if cause == "binder" else "lock", "what": "getTasks"}]
            told.append(frame)
        random_.shuffle(told)
    records += told  # of the end: behind the last interval
    return records


def event(t_boot_ns, what, **keys):
    return {"type": "event", "t_boot_ns": t_boot_ns, "event": what, **keys}


def mark(t_boot_ns, name, end=False, exact=True):
    keys = {"exact": 1} if exact else {}
    return event(t_boot_ns, "mark", name=name, state="end" if end else "begin", **keys)


def rng(seed=1):
    return random.Random(seed)


# Names that some format or some terminal takes for more than text.
HOSTILE = ("</script><script>alert(1)</script>", "<!--<script>", "\u202eevil\u200b", "\x1b[2J\x07",
           "caf\ufffd\ufffe\x9b", "\u2028\u2029\\u003c\"'&amp;", "]]></style>", "__proto__",
           "constructor", "<img src=x onerror=alert(1)>",
           "=cmd|' /C calc'!A0", "a\"b,c\r\nd", "x{y=\"z\"} 1\n# EOF", "a;b 99", "\x9b31m\x85")


def hostile():
    """A run in which whatever bears a name has such a one."""
    random_, records = rng(4), [header(targets=[HOSTILE[0]])]
    records[0]["device"], records[0]["sources"] = HOSTILE[9], JUDGES
    for n in range(1, len(HOSTILE) + 2):
        name = HOSTILE[(n - 1) % len(HOSTILE)]
        record = interval(BOOT + n * SEC, random_, ((name, 100 + n, 10000 + n, SEC),))
        record["cpu"]["tasks"][0]["thread"] = name[:15]
        record["lost"] = {name: 1}
        record["missing"] = {name: name}
        records.append(record)
        records.append(mark(BOOT + n * SEC, name[:20], exact=False))
        records.append(event(BOOT + n * SEC, "target_exit", process=name, package=name))
        frame_ = jank(BOOT + n * SEC - SEC // 2, n * 1_000_000, CAUSES[n % len(CAUSES)], name, 100 + n, token=n, layer=name,
                      second_cause=CAUSES[1 + n % 11], culprit={"pid": 1, "tid": 2, "thread": name[:15], "process": name},
                      chain=[{"pid": 1, "tid": 2, "process": name, "thread": name[:15], "how": "binder", "what": name}],
                      stacks=[{"t_boot_ns": BOOT + n * SEC, "weight_ns": 5, "capture": "snapshot", "complete": True,
                               "end_reason": name, "frames": [frame(name, name), frame("main")]}], top=0,
                      lost={name: 1}, missing={name: name})
        frame_["threads"][0].update(thread=name[:15], reasons=[{"reason": name, "ns": 7}],
                                    preemptors=[{"tid": 3, "thread": name[:15], "process": name, "ns": 8}],
                                    waker={"pid": 1, "tid": 2, "thread": name[:15], "process": name})
        frame_["jank_type"] = name
        records.append(frame_)
        records.append(block(BOOT + (n - 1) * SEC, SEC, name, 100 + n, (name, "main"),
                             waker={"pid": 1, "tid": 2, "thread": name[:15], "process": name},
                             reasons=[{"reason": name, "ns": 5}]))
    return records
