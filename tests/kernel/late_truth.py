"""Why a frame was late, against an app each late frame of which has a cause that was planned
(tests/apps/late_app.c). The truth is what the app's threads read from their own clocks.
usage: late_truth.py [rows|rates|pipelined|markers|namespace]...   FULL=1: 1,000 late frames of rows; LATE_SEED: another lot
   rows       FrameTimeline's, by a stand-in for perfetto (record --frames perfetto)
   rates      the same at 24 and 144 Hz
   pipelined  the same, of frames that begin while the one before them is drawn
   markers    atrace's alone, in the kernel's trace buffer (record --frames live)
   namespace  rows again, told by a recorder in a time namespace"""
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

MS = 1000000
BUILD = os.environ["BUILD"]
PACKAGE = "com.example.late"
WORK = ("main_cpu", "render_cpu", "gpu")
DISPLAY = ("surfaceflinger", "hwc")
PAIRS = ("lock_main+hog_main,main_cpu+peer_receive,lock_main+render_cpu,disk+main_cpu,main_cpu+gpu,peer_poll+hog_render,"
         "main_cpu+render_cpu,hog_early+lock_main,fault_user+disk_render")
WITH_DISPLAY = "main_cpu+sf_cpu,lock_main+hwc,gpu+sf_engine"
# Sleeps whose time the ledger's reason has to have, of the thread that slept.
REASONS = {"lock_main": ("main", "futex"), "lock_render": ("render", "futex"), "peer_receive": ("main", "read"),
           "peer_poll": ("main", "poll"), "fence": ("render", "poll"), "disk": ("main", "io"), "disk_render": ("render", "io"),
           "fault_disk": ("main", "page_fault"), "fault_user": ("main", "page_fault"), "binder": ("main", "binder")}
failed = False
folder_of = None  # of the part that runs


def ok(good, name, *details):
    global failed
    failed |= not good
    print(f"{'ok' if good else 'not ok'} - late: {name}", flush=True)
    for detail in () if good else details:
        print(f"# {str(detail)[:700]}", flush=True)


def waited(frame):
    """For how long both threads were ready without a CPU, from the vsync on."""
    before = MS if any(way["way"] == "hog_early" for way in frame["ways"]) else 0
    return frame["main_waited_ns"] + frame["render_waited_ns"] - before


def by_cause(frame):
    """What both threads did, by their own clocks."""
    ns = {"main_cpu": frame["main_ran_ns"], "render_cpu": frame["render_ran_ns"], "no_cpu": waited(frame)}
    for way in frame["ways"]:
        if way["cause"] not in ns and way["cause"] not in DISPLAY:
            ns[way["cause"]] = way["took_ns"]
    return ns


def overran(frame):
    return frame["ready_ns"] > frame["expected_end_ns"]


def unplanned(frame):
    """For how long a thread of the app waited for a CPU that nobody was planned to take, the
    hypervisor's part included."""
    planned = sum(way["took_ns"] for way in frame["ways"] if way["cause"] == "no_cpu")
    stolen = sum(way["off_ns"] for way in frame["ways"] if way["way"] in ("main_cpu", "render_cpu"))
    return waited(frame) - planned + stolen


def is_spoiled(frame):
    """The machine had the CPUs for more than a tenth of the delay."""
    return unplanned(frame) > max(MS, 0.1 * (frame["ready_ns"] - frame["expected_start_ns"]))


def shares(frame):
    """Which part of the delay each cause has: what the app did beyond half of its time, and of the
    delay the part that comes behind the display's first vsync with the buffer."""
    ns = by_cause(frame)
    half = (frame["expected_end_ns"] - frame["expected_start_ns"]) / 2
    work = sum(ns.get(cause, 0) for cause in WORK)
    for cause in WORK:
        if cause in ns:
            ns[cause] *= max(0, work - half) / work
    all_ = sum(ns.values())
    late = frame["present_ns"] - frame["predicted_ns"]
    vsync = frame["expected_end_ns"]
    while vsync < frame["ready_ns"]:
        vsync += frame["period_ns"]
    of_app = vsync - frame["expected_end_ns"] if overran(frame) else 0
    if all(way["cause"] not in DISPLAY for way in frame["ways"]):
        of_app = late
    parts = {cause: of_app / late * value / all_ for cause, value in ns.items() if of_app}
    for way in frame["ways"]:
        if way["cause"] in DISPLAY:
            parts[way["cause"]] = 1 - of_app / late
    return parts


def expected(frame, jank):
    """Whether the record says what was planned."""
    planned = [way["cause"] for way in frame["ways"]]
    said = (jank["cause"], jank.get("second_cause"))
    if len(set(planned)) == 1:
        return said[0] == planned[0] and said[1] in (None, planned[0])
    parts = shares(frame)
    first, second = sorted(planned, key=lambda cause: -parts[cause])
    must, may = parts[second] > 0.35, parts[second] > 1 / 3 - 0.015
    if parts[first] - parts[second] < 0.02 and said[0] == second:
        first, second = second, first
    return said[0] == first and (said[1] == second if must else said[1] in (None, second) if may else said[1] is None)


class App:
    def __init__(self, folder, *args):
        path = BUILD + "/tests/apps/late_app"
        self.folder = folder
        self.process = subprocess.Popen([PACKAGE, folder, "--seed", os.environ.get("LATE_SEED", "1"), *args], executable=path,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.process.stdout.readline().split()
        self.pid = self.process.pid

    def play(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"
        return json.load(open(self.folder + "/truth.json"))

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)


def record(app, folder, frames, *more, inside=()):
    """What a run of the recorder has of the app's frames: (truth, records, exit status, talk)."""
    path = folder + "/out.jsonl"
    os.makedirs(folder + "/bin", exist_ok=True)
    if not os.path.exists(folder + "/bin/perfetto"):
        os.symlink(os.path.abspath(BUILD + "/tests/apps/late_app"), folder + "/bin/perfetto")
    recorder = subprocess.Popen([*inside, BUILD + "/jankscope", "record", "-p", str(app.pid), "--frames", frames, "-i", "500ms", "-o", path,
                                 "--max-lost", "100", *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, "PATH": folder + "/bin:" + os.environ["PATH"], "LATE_TRACE": folder + "/trace"})
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until and not (os.path.exists(path) and '"interval"' in open(path).read()):
            time.sleep(0.1)
            if recorder.poll() is not None:
                break
        truth = app.play()
        # frames come with perfetto's writes, and are settled some time later
        time.sleep(4)
    finally:
        recorder.send_signal(signal.SIGINT)
        talk = recorder.communicate(timeout=30)[0]
        app.end()
    return truth, [json.loads(line) for line in open(path)], recorder.returncode, talk


def judge(what, late, janks, key):
    """Causes, windows and ledgers of the late frames {key: frame} against the records."""
    told = {j[key]: j for j in janks}
    ok(len(told) == len(janks) and set(told) == set(late), f"{what}: {len(late)} late frames are told, and none that was in time",
       f"not told {sorted(set(late) - set(told))[:8]}, in time {sorted(set(told) - set(late))[:8]}, twice {len(janks) - len(told)}")
    ways, wrong, spoiled, off, sums, unseen = {}, [], 0, [], [], []
    for token in sorted(set(told) & set(late)):
        frame, jank = late[token], told[token]
        window = jank["window_end_ns"] - jank["window_start_ns"]
        threads = {t["role"]: t for t in jank["threads"] if t["role"] in ("main", "render")}
        sums += [(token, t) for t in jank["threads"] if sum(t["ledger"].values()) != window]
        if len(threads) != 2:
            unseen.append((token, [t["role"] for t in jank["threads"]]))
            continue
        unseen += [(token, t["thread"], t["ledger"]) for t in threads.values() if t["ledger"].get("unknown_ns")]
        name = "+".join(way["way"] for way in frame["ways"])
        for way in frame["ways"]:
            if way["way"] in REASONS and len(frame["ways"]) == 1:
                role, reason = REASONS[way["way"]]
                slept = sum(r["ns"] for r in threads[role].get("reasons", ()) if r["reason"] == reason)
                # it waits for the RenderThread in a futex too
                more = frame["ready_ns"] - frame["asked_ns"] if way["way"] == "lock_main" else 0
                # and that one polls until it is asked
                more += frame["asked_ns"] - frame["expected_start_ns"] if way["way"] == "fence" else 0
                if not way["off_ns"] - MS // 2 - max(0, unplanned(frame)) < slept < way["off_ns"] + more + MS // 2:
                    off.append((token, name, "slept", slept, way["off_ns"], threads[role]))
        if not frame["ways"] or is_spoiled(frame):
            spoiled += 1
            continue
        row = ways.setdefault(name, [0, 0])
        good = expected(frame, jank)
        row[0] += good
        row[1] += 1
        if not good:
            said = [jank["cause"], jank.get("second_cause"), round(jank["confidence"], 2)]
            wrong.append((token, frame["hz"], name, said, {k: round(v, 3) for k, v in shares(frame).items()}, frame["ways"],
                          [(t["role"], t["ledger"], t.get("critical_ns"), t.get("reasons")) for t in jank["threads"]]))
    hogs = [j for t, j in told.items() if t in late and any(w["way"].startswith("hog") for w in late[t]["ways"]) and not is_spoiled(late[t])]
    named = [j for j in hogs if any(p["thread"] in ("dex2oat64", "kcompactd0") for t in j["threads"] for p in t.get("preemptors", ()))]
    ok(len(named) >= 0.9 * len(hogs) > 0, f"{what}: who had the CPU is named in {len(named)} of {len(hogs)}")
    good, all_ = sum(row[0] for row in ways.values()), sum(row[1] for row in ways.values())
    for name, row in sorted(ways.items()):
        print(f"# {what}: {name}: {row[0]} of {row[1]}")
    if all_ < max(20, len(late) // 2):
        print(f"ok - late: {what}: causes # SKIP others had the CPUs in {spoiled} of {len(late)} late frames")
    else:
        ok(good >= 0.95 * all_, f"{what}: the cause of {good} of {all_} ({spoiled} that others held up)", *wrong[:12])
        for row in wrong[:12]:
            print(f"# wrong: {str(row)[:900]}")
    ok(not sums, f"{what}: the ledger of each thread sums to its window", *sums[:3])
    ok(not unseen, f"{what}: nothing that the app's threads did is unknown", *unseen[:3])
    # where the hypervisor takes the CPU, the waiter's clock of a CPU stands still: once in 700, which a part of
    # 32 frames may meet as well
    ok(len(off) <= 1 + len(late) // 500, f"{what}: what was waited for is the waiter's clock to 0.5 ms", len(off), *off[:6])
    return told


def rows(what="rows", rates=(60, 90, 120)):
    count = 12 if os.environ.get("FULL") else 2
    folder = folder_of.name
    plans = [f"{hz}:{n}:{ways}" for hz in rates
             for n, ways in ((count, "all"), (max(1, count * 3 // 4), PAIRS + "," + WITH_DISPLAY))]
    app = App(folder, *plans)
    truth, records, status, talk = record(app, folder, "perfetto")
    ok(status == 0 and records[-1]["type"] == "footer", f"{what}: the recorder ends in order", status, talk[-800:])
    late = {f["token"]: f for f in truth if f["present_ns"] > f["predicted_ns"]}
    told = judge(what, late, [r for r in records if r["type"] == "jank"], "surface_frame_token")
    planned = [f for f in truth if f["ways"]]
    ok(len(planned) >= (330 if count > 2 else 30) * len(rates) and all(f["token"] in late for f in planned),
       f"{what}: {len(planned)} late frames were planned, {len(truth) - len(late)} were in time",
       *[f for f in planned if f["token"] not in late][:3])
    delays = [abs(told[t]["late_ns"] - (f["present_ns"] - f["predicted_ns"])) for t, f in late.items() if t in told]
    ok(delays and max(delays) < MS // 2, f"{what}: delays to 0.5 ms (worst {max(delays, default=0)} ns)")
    windows = [(t, f) for t, f in late.items() if t in told and told[t]["window_start_ns"] != f["expected_start_ns"]]
    ok(not windows, f"{what}: windows begin where the app was to begin, to the nanosecond", *windows[:2])
    ok("why late: %d frame" % len(late) in talk, f"{what}: the summary says why", talk[-1500:])


def rates():
    rows("rates", (24, 144))


def pipelined():
    """Frames that begin while the one before them is still drawn: late by its cause, or because the
    display took its buffer at their time."""
    count = 20 if os.environ.get("FULL") else 2
    folder = folder_of.name
    app = App(folder, "--pipelined", "1", "--calm", "4",
              *[f"{hz}:{count}:main_cpu,render_cpu,hog_render,lock_render,disk_render,peer_receive,gpu" for hz in (60, 90, 120)])
    truth, records, status, talk = record(app, folder, "perfetto")
    ok(status == 0, "pipelined: the recorder ends in order", status, talk[-800:])
    late = {f["token"]: f for f in truth if f["present_ns"] > f["predicted_ns"]}
    told = {r["surface_frame_token"]: r for r in records if r["type"] == "jank"}
    ok(set(told) == set(late), f"pipelined: {len(late)} late frames are told, and none that was in time", sorted(set(told) ^ set(late))[:8])
    delays = [abs(told[t]["late_ns"] - (f["present_ns"] - f["predicted_ns"])) for t, f in late.items() if t in told]
    ok(delays and max(delays) < MS // 2, f"pipelined: delays to 0.5 ms (worst {max(delays, default=0)} ns)")
    right, wrong, spoiled, cause = {}, [], 0, None
    for frame in truth:
        if frame["ways"]:
            cause = frame["ways"][0]["cause"]
        token, own = frame["token"], frame["ways"] and frame["ways"][0]["cause"]
        if token not in late or token not in told:
            continue
        jank = told[token]
        over = frame["ready_ns"] - frame["expected_end_ns"]
        # its own cause; that of the one that the RenderThread had still to draw; a buffer that waits
        stuffed = jank.get("jank_type") == "Buffer Stuffing"
        want = "stuffing" if stuffed else own or cause
        by_display = (jank.get("jank_type") or "").startswith("SurfaceFlinger")
        if by_display or unplanned(frame) > max(MS, 0.1 * frame["period_ns"]) and not (cause == "no_cpu" and not own):
            spoiled += 1
            continue
        row = right.setdefault((want if own else "behind it: ") + ("" if own else want), [0, 0])
        row[0] += jank["cause"] == want
        row[1] += 1
        if jank["cause"] != want:
            wrong.append((token, frame["hz"], want, own, jank["cause"], jank.get("second_cause"), jank.get("jank_type"), over,
                          [(t["role"], t["ledger"], t.get("critical_ns")) for t in jank["threads"]][:2], frame))
    for name, row in sorted(right.items()):
        print(f"# pipelined: {name}: {row[0]} of {row[1]}")
    good, all_ = sum(r[0] for r in right.values()), sum(r[1] for r in right.values())
    ok(all_ and good >= 0.95 * all_, f"pipelined: the cause of {good} of {all_} ({spoiled} that others held up)", *wrong[:8])


def namespace():
    """A recorder in a time namespace, whose clocks are not those that the kernel tells times by."""
    inside = ["unshare", "--time", "--boottime", "5000", "--monotonic", "777"]
    if not os.path.exists("/proc/self/ns/time"):
        print("ok - late: namespace # SKIP this kernel has no time namespaces: there is no /proc/self/ns/time")
        return
    folder = folder_of.name
    app = App(folder, "60:8:main_cpu,lock_main,hog_main,peer_receive")
    truth, records, status, talk = record(app, folder, "perfetto", inside=inside)
    ok(status == 0, "namespace: the recorder ends in order", status, talk[-800:])
    late = {f["token"]: f for f in truth if f["present_ns"] > f["predicted_ns"]}
    janks = [r for r in records if r["type"] == "jank"]
    judge("namespace", late, janks, "surface_frame_token")
    wrong = [j for j in janks if "clock_error_ns" in j or "missing" in j and "threads" in j["missing"]]
    ok(not wrong, "namespace: all threads are told, by one clock", *wrong[:2])
    done = subprocess.run([*inside, "setpriv", "--bounding-set", "-sys_time", BUILD + "/jankscope", "record", "-q", "-d", "300ms",
                           "--net", "off", "--max-lost", "100"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ok(done.returncode == 0 and "cpu is degraded (proc): in a time namespace" in done.stdout,
       "namespace: in one that cannot be left /proc is used, and it is said", done.returncode, done.stdout[-400:])


def own_buffer():
    """The kernel's trace buffer is one for the machine, and tests that use it take turns."""
    tracefs = "/sys/kernel/tracing"
    if not os.path.exists(tracefs + "/trace_marker"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", tracefs], stderr=subprocess.DEVNULL)
    if not os.path.exists(tracefs + "/trace_marker"):
        return None, "no tracefs here"
    lock = open("/tmp/jankscope-tests.tracefs.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    if open(tracefs + "/current_tracer").read() != "nop\n":
        return None, "somebody else traces"
    return lock, ""


def markers():
    lock, reason = own_buffer()
    if not lock:
        print(f"ok - late: markers # SKIP {reason}")
        return
    count = 12 if os.environ.get("FULL") else 1
    folder = folder_of.name
    # from a rate to each other one
    rates = (60, 90, 120, 60, 120, 90, 60) if count > 1 else (60, 120, 60)
    plans = [f"{hz}:{count}:{ways}" for hz in rates for ways in ("all", PAIRS.replace("hog_early", "hog_main"))]
    app = App(folder, "--marker", "/sys/kernel/tracing/trace_marker", *plans)
    truth, records, status, talk = record(app, folder, "live")
    lock.close()
    ok(status == 0 and records[-1]["type"] == "footer", "markers: the recorder ends in order", status, talk[-800:])
    janks = [r for r in records if r["type"] == "jank"]
    starts = {f["begin_ns"]: f for f in truth}
    late, near = {}, 0
    for jank in janks:
        begin = min(starts, key=lambda ns: abs(ns - jank["actual_start_ns"]))
        jank["begin_ns"] = begin if abs(begin - jank["actual_start_ns"]) < MS // 2 else -jank["actual_start_ns"]
    told = {j["begin_ns"] for j in janks}
    for frame in truth:
        # The window begins with the doFrame and ends with the buffer: what was before and comes
        # behind is not the frame's.
        frame["expected_start_ns"] = frame["begin_ns"]
        frame["expected_end_ns"] = frame["begin_ns"] + frame["period_ns"]
        frame["predicted_ns"], frame["present_ns"] = frame["expected_end_ns"], frame["marked_ns"]
        before = [w for w in frame["ways"] if w["way"] in ("message", "hog_early", "gpu") or w["cause"] in DISPLAY]
        frame["ways"] = [w for w in frame["ways"] if w not in before]
        over = frame["marked_ns"] - frame["expected_end_ns"]
        # a period is known to what the edges of vsync are written down late
        if abs(over) < MS // 4:
            near += 1
            if frame["begin_ns"] not in told:
                continue
        if over > 0 or abs(over) < MS // 4:
            late[frame["begin_ns"]] = frame
    told = judge("markers", late, janks, "begin_ns")
    delays = [abs(told[t]["late_ns"] - (f["marked_ns"] - f["expected_end_ns"])) for t, f in late.items() if t in told]
    ok(delays and max(delays) < MS // 2, f"markers: delays to 0.5 ms (worst {max(delays, default=0)} ns, {near} near to nothing)",
       *[(t, told[t]["late_ns"], f["marked_ns"] - f["expected_end_ns"], f["hz"]) for t, f in late.items()
         if t in told and abs(told[t]["late_ns"] - (f["marked_ns"] - f["expected_end_ns"])) >= MS // 2][:6])
    ok(all("surface_frame_token" not in j and "jank_type" not in j for j in janks), "markers: nothing is said of rows that there are not",
       janks[:1])


def main():
    global folder_of
    for part in sys.argv[1:] or ["rows", "rates", "pipelined", "markers", "namespace"]:
        folder_of = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        {"rows": rows, "rates": rates, "pipelined": pipelined, "markers": markers, "namespace": namespace}[part]()


if __name__ == "__main__":
    main()
    sys.exit(failed)
