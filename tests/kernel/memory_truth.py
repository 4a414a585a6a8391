# SPDX-License-Identifier: BSD-2-Clause
"""Memory as records tell it, against a program that uses known bytes (tests/apps/memory_load.c) and
against the kernel's own files. usage: memory_truth.py [PART...]"""
import ctypes, os, subprocess, sys, tempfile, time
from attack_common import *

test = Test("memory")
KIB, MIB = 1 << 10, 1 << 20


class Load:
    def __init__(self):
        self.process = start([apps + "memory_load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, bufsize=1)
        self.pid = self.process.pid
        self.process.stdout.readline()

    def do(self, command):
        """What it answers: the number behind "ok"."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise RuntimeError("%s: %s" % (command, " ".join(answer)))
        return int(answer[1])


class Rows:
    """The rows of a recording that grows."""

    def __init__(self, recorder):
        self.file, self.intervals, self.rest = open(recorder.path, "rb"), [], b""

    def read(self):
        *lines, self.rest = (self.rest + self.file.read()).split(b"\n")
        for line in lines:
            record = json.loads(line)
            if record["type"] == "interval":
                self.intervals.append(record)

    def after(self, pid, since, key="pss_bytes"):
        """The first row of that process all of whose values are of a later moment."""
        self.read()
        for interval in self.intervals:
            for row in interval.get("memory", {}).get("processes", []):
                if row["pid"] == pid and key in row and row.get("t_boot_ns", 0) > since and \
                        interval["t_boot_ns"] - interval["dur_ns"] > since:
                    return row
        return None

    def now(self, pid, key="pss_bytes"):
        since = boot_ns()
        row = wait_for(lambda: self.after(pid, since, key), 10)
        if not row:
            raise RuntimeError("no row of %d with %s" % (pid, key))
        return row


def rollup(pid):
    with open("/proc/%d/smaps_rollup" % pid) as f:
        return {l.split(":")[0]: int(l.split()[1]) * KIB for l in f if l.endswith(" kB\n")}


def near(value, want, slack=256 * KIB):
    return abs(value - want) <= slack


def record(targets, *flags, interval="200ms", smaps="200ms", name="memory"):
    recorder = Recorder(name, ["-i", interval, "--smaps", smaps, "--block", "5s", "--max-lost",
                               "100", *flags], targets=targets)
    return recorder, Rows(recorder)


def lost(recorder):
    """What is in no record; switches of a busy machine and packets of other programs here apart."""
    return {k[5:]: v for k, v in recorder.losses().items() if k.startswith("lost.") and
            not k.startswith(("lost.cpu_", "lost.net_"))}


def grown(before, after, **want):
    """{key: (is, wanted)} of what grew by another amount."""
    return {k: (after[k] - before[k], v) for k, v in want.items()
            if not near(after[k] - before[k], v)}


def known_bytes(_):
    load = Load()
    recorder, rows = record([load.pid])
    before = rows.now(load.pid)
    load.do("anon %d" % (40 * MIB))
    bad = grown(before, rows.now(load.pid), rss_bytes=40 * MIB, rss_anon_bytes=40 * MIB,
                pss_bytes=40 * MIB, pss_anon_bytes=40 * MIB, private_dirty_bytes=40 * MIB,
                vss_bytes=40 * MIB, rss_shmem_bytes=0, swap_bytes=0)
    test.ok(not bad, "40 MiB written to are there, and anonymous", bad)
    load.do("free")
    bad = grown(before, rows.now(load.pid), rss_bytes=0, pss_bytes=0, private_dirty_bytes=0,
                vss_bytes=0)
    test.ok(not bad, "given back they are gone", bad)
    before = rows.now(load.pid)
    child = load.do("share %d" % (32 * MIB))
    alone = grown(before, rows.now(load.pid), rss_bytes=32 * MIB, rss_shmem_bytes=32 * MIB,
                  pss_bytes=16 * MIB, pss_shmem_bytes=16 * MIB, rss_anon_bytes=0)
    test.ok(not alone, "32 MiB shared by two are 16 MiB of each", alone)
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: state_of(child) in ("gone", "Z"), 3)
    bad = grown(before, rows.now(load.pid), pss_bytes=32 * MIB, rss_bytes=32 * MIB)
    test.ok(not bad, "and 32 MiB of the one that is left", bad)
    # Exactly: nothing moves meanwhile.
    row, kernel = rows.now(load.pid), rollup(load.pid)
    pairs = {"pss_bytes": "Pss", "pss_anon_bytes": "Pss_Anon", "pss_file_bytes": "Pss_File",
             "pss_shmem_bytes": "Pss_Shmem", "private_dirty_bytes": "Private_Dirty",
             "swap_pss_bytes": "SwapPss"}
    # Pages of libc are shared with whoever comes and goes on this machine.
    bad = {k: (row[k], kernel[v]) for k, v in pairs.items() if not near(row[k], kernel[v], 64 * KIB)}
    test.ok(not bad, "PSS and its parts as in smaps_rollup", bad)
    status = {k: int(status_of(load.pid, v).split()[0]) * KIB for k, v in (
        ("rss_bytes", "VmRSS"), ("rss_anon_bytes", "RssAnon"), ("rss_shmem_bytes", "RssShmem"),
        ("vss_bytes", "VmSize"), ("swap_bytes", "VmSwap"))}
    test.ok(all(row[k] == v for k, v in status.items()), "RSS and its parts as in status",
            status, row)
    load.do("threads 50")
    load.do("fds 500")
    load.do("name ) R 1 2")
    after = rows.now(load.pid)
    test.ok((after["threads"], after["fds"]) == (row["threads"] + 50, row["fds"] + 500) and
            after["fds"] == len(os.listdir("/proc/%d/fd" % load.pid)),
            "50 threads and 500 descriptors more, of a program named ) R 1 2", row, after)
    by_kind = rows.now(load.pid, "kinds")
    total = sum(k["pss_bytes"] for k in by_kind["kinds"])
    mappings = sum(k["mappings"] for k in by_kind["kinds"])
    test.ok(0 <= by_kind["pss_bytes"] - total <= mappings * KIB + 64 * KIB,
            "the kinds sum up to PSS, less what each mapping is cut by",
            by_kind["pss_bytes"] - total, mappings)
    costs = [by_kind["smaps_rollup"], by_kind["smaps"]]
    test.ok(all(0 < c["cpu_ns"] <= c["wall_ns"] + MS for c in costs),
            "what the readings cost is told", costs)
    recorder.end()
    test.ok(recorder.code == 0 and not lost(recorder),
            "nothing was lost", recorder.code, recorder.losses(), recorder.errors())


class Zram:
    """A swap area in memory, of its own."""
    control = "/sys/class/zram-control/"

    def __init__(self, bytes):
        self.number = None
        with open(self.control + "hot_add") as f:
            self.number = int(f.read())
        self.device = "/dev/zram%d" % self.number
        try:
            with open("/sys/block/zram%d/disksize" % self.number, "w") as f:
                f.write(str(bytes))
            subprocess.run(["mkswap", self.device], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["swapon", "-p", "32000", self.device], check=True)
        except Exception:
            self.end()
            raise

    def end(self):
        subprocess.run(["swapoff", self.device], stderr=subprocess.DEVNULL)
        for _ in range(50):
            try:
                with open(self.control + "hot_remove", "w") as f:
                    f.write(str(self.number))
                return
            except OSError:
                time.sleep(0.1)
        note("%s is left" % self.device)


def swapped(_):
    try:
        zram = Zram(128 * MIB)
    except (OSError, subprocess.CalledProcessError) as e:
        test.skip("24 MiB swapped out", "no zram here: %s" % e)
        test.skip("the machine's swap", "no zram here: %s" % e)
        return
    try:
        load = Load()
        recorder, rows = record([load.pid], name="swap")
        load.do("anon %d" % (24 * MIB))
        before = rows.now(load.pid)
        load.do("pageout")
        kernel = int(status_of(load.pid, "VmSwap").split()[0]) * KIB
        after = rows.now(load.pid)
        # The kernel leaves out a page here and there that somebody looks at.
        test.ok(kernel > 20 * MIB and near(after["swap_bytes"], kernel, 0) and
                near(after["swap_pss_bytes"], kernel, 0) and
                near(before["rss_bytes"] - after["rss_bytes"], kernel) and
                near(before["pss_bytes"] - after["pss_bytes"], kernel),
                "24 MiB swapped out are swap and no RSS", kernel, before, after)
        system = rows.intervals[-1]["memory"]["system"]
        test.ok(system["swap_total_bytes"] >= 127 * MIB and
                kernel <= system["swap_total_bytes"] - system["swap_free_bytes"],
                "the machine's swap", system)
        recorder.end()
        end_all()
    finally:
        end_all()
        zram.end()


def huge_pages(_):
    """Pages of hugetlbfs are in no RSS and no PSS of the kernel, and are told by themselves."""
    pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    what = "8 MiB of huge pages are told, and are no RSS"
    try:
        with open(pool) as f:
            before = int(f.read())
        with open(pool, "w") as f:
            f.write(str(before + 4))
    except OSError as e:
        test.skip(what, "no pool of huge pages: %s" % e)
        return
    try:
        load = Load()
        try:
            load.do("huge %d" % (8 * MIB))
        except RuntimeError as e:
            test.skip(what, "the pool got no pages: %s" % e)
            return
        recorder, rows = record([load.pid], name="huge")
        row = rows.now(load.pid)
        recorder.end()
        test.ok(row.get("hugetlb_bytes") == 8 * MIB and row["rss_bytes"] < 8 * MIB and
                row["pss_bytes"] < 8 * MIB, what, row)
    finally:
        end_all()
        with open(pool, "w") as f:
            f.write(str(before))


def leak(_):
    """Slopes of a leak of known speed, and of the one that started in its place."""
    first = Load()
    recorder, rows = record([apps + "memory_load"], name="leak")
    rows.now(first.pid)
    first.do("leak %d" % (4 * MIB))
    time.sleep(4)
    first.process.kill()
    first.process.wait()
    second = Load()
    second.do("anon %d" % (8 * MIB))
    rows.now(second.pid)
    time.sleep(1.5)
    recorder.end()
    told = {p["pid"]: p for p in recorder.footer["summary"]["memory"]["processes"]}
    a, b = told.get(first.pid), told.get(second.pid)
    want = 4 * MIB * 3600
    test.ok(a and abs(a["pss_slope_bytes_per_h"] - want) < 0.05 * want and
            abs(a["rss_slope_bytes_per_h"] - want) < 0.05 * want,
            "a leak of 4 MiB a second has that slope", a, want)
    test.ok(a and a["low"] <= a["pss_slope_bytes_per_h"] <= a["high"] and
            a["high"] - a["low"] < 0.2 * want and a.get("exited"),
            "with its interval, and of a process that ended", a)
    test.ok(b and abs(b["pss_slope_bytes_per_h"]) < 0.01 * want and not b.get("exited"),
            "what was started in its place has a slope of its own", b)
    # The first reading of the second may come while it writes.
    test.ok(a and b and a["pss_bytes"]["max"] > 12 * MIB > b["pss_bytes"]["max"] and
            b["pss_bytes"]["p50"] > 8 * MIB and a["pss_bytes"]["n"] >= 8 and a["threads_max"] == 2,
            "their sizes are apart", a, b)


# ---- files that nobody should trust, in a mount namespace ----

HOSTILE = {
    "empty": b"",
    "zero": b"0\n",
    "minus": b"VmRSS:\t-1 kB\nPss:\t-1 kB\nThreads:\t-1\n",
    "too much": b"VmRSS:\t18446744073709551616 kB\nPss:\t18446744073709551616 kB\n",
    "in bytes too much": b"VmRSS:\t18446744073709551615 kB\nPss:\t18446744073709551615 kB\n",
    "binary": bytes(range(256)) * 16,
    "a line of 1 MB": b"VmRSS:" + b"9" * (1 << 20),
    "a name": b"Name:\t) R 1 2\nState:\tR\n",
    "a FIFO": None,
}


def hostile(_):
    """smaps_rollup, smaps and, behind the lines that make a process a target, status of one target
    each are such a file."""
    targets, mounts = {}, []
    for number, (name, text) in enumerate(HOSTILE.items()):
        path = os.path.join(work, "hostile-%d" % number)
        targets[name] = Load()
        if text is None:
            os.mkfifo(path)
        else:
            with open(path, "wb") as f:
                f.write(text)
            with open(path + ".status", "wb") as f:
                f.write(b"Uid:\t0\t0\t0\t0\n" + text)
            mounts.append("mount --bind %s.status /proc/%d/status" % (path, targets[name].pid))
        for file in ("smaps", "smaps_rollup"):
            mounts.append("mount --bind %s /proc/%d/%s" % (path, targets[name].pid, file))
        if name in ("too much", "a FIFO"):
            mounts.append("mount --bind %s /proc/%s" % (path, "meminfo" if text else
                                                         "pressure/memory"))
    healthy = Load()
    script = " && ".join(mounts) + ' && exec "$@"'
    recorder = Recorder("hostile", ["-i", "200ms", "--smaps", "400ms", "--block", "5s",
                                    "--max-lost", "100"],
                        targets=[healthy.pid, *[t.pid for t in targets.values()]],
                        limits=["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                script, "sh"])
    time.sleep(3.5)
    recorder.end()
    rows = [r for i in recorder.intervals for r in i["memory"]["processes"]]
    for name, target in targets.items():
        mine = [r for r in rows if r["pid"] == target.pid]
        keys = {"pss_bytes", "kinds"} | ({"rss_bytes"} if HOSTILE[name] is not None else set())
        numbers = [r for r in mine if keys & set(r)]
        reasons = {k: v for r in mine for k, v in r.get("missing", {}).items()}
        test.ok(mine and not numbers and keys == set(reasons),
                "%s gives no number, and is said" % name, numbers[:2], reasons, len(mine))
    mine = [r for r in rows if r["pid"] == healthy.pid]
    test.ok(len(mine) >= 8 and all("rss_bytes" in r and not r.get("missing") for r in mine) and
            sum("pss_bytes" in r for r in mine) >= 3,
            "a target beside them is read as ever", len(mine), [r.get("missing") for r in mine])
    system = [i["memory"]["system"] for i in recorder.intervals]
    missing = recorder.intervals[-1]["missing"]
    test.ok(not any("total_bytes" in s or "pressure_some_ns" in s for s in system) and
            "memory.system.available_bytes" in missing and
            "memory.system.pressure_some_ns" in missing,
            "what stands in the place of /proc/meminfo is not read", system[:1], missing)
    lengths = sorted(i["dur_ns"] / MS for i in recorder.intervals[1:-1])
    test.ok(recorder.code == 0 and lost(recorder).get("memory_unread", 0) >= 9 and
            lengths[len(lengths) // 2] < 260,
            "it is counted, and no interval waits for it", recorder.code, recorder.losses(),
            lengths)


def whole_device(_):
    recorder = Recorder("device", ["-i", "200ms", "-n", "4", "--max-lost", "100"])
    recorder.wait()
    memory = [i["memory"] for i in recorder.intervals]
    with open("/proc/meminfo") as f:
        total = int(f.readline().split()[1]) * KIB
    test.ok(len(memory) == 4 and all(not m["processes"] and m["system"]["total_bytes"] == total and
                                     0 < m["system"]["available_bytes"] <= total for m in memory),
            "without a target: the machine alone", memory[:1])


def dies_and_denied(_):
    """A zombie, a kernel thread and one that dies meanwhile: absent with their reasons, never 0."""
    zombie = Load()
    kernel = next(int(p) for p in os.listdir("/proc") if p.isdigit() and
                  comm_of(int(p)).startswith("ksoftirqd"))
    dying = Load()
    parent = start(["sh", "-c", "sleep 0.2 & echo $!; exec sleep 60"], stdout=subprocess.PIPE,
                   text=True)
    defunct = int(parent.stdout.readline())
    recorder, rows = record([zombie.pid, kernel, dying.pid, defunct], name="dying")
    rows.now(dying.pid)
    dying.process.kill()
    time.sleep(1)
    recorder.end()
    rows = [r for i in recorder.intervals for r in i["memory"]["processes"]]
    mine = [r for r in rows if r["pid"] == kernel]
    test.ok(mine and not any("rss_bytes" in r or "pss_bytes" in r for r in mine) and
            all("kernel thread" in r["missing"]["rss_bytes"] for r in mine),
            "a kernel thread has no memory, and that is said", mine[:2])
    zeros = [r for r in rows if r["pid"] in (dying.pid, defunct, zombie.pid) and
             (r.get("rss_bytes") == 0 or r.get("pss_bytes") == 0)]
    test.ok(not zeros and rows[-1]["pid"] != dying.pid and "memory_unread" not in
            lost(recorder),
            "who dies has no row any more: no 0, and nothing that is lost", zeros[:2],
            recorder.losses())


def leader_ended(_):
    """Its main thread has ended while others go on: the kernel shows the process without memory."""
    load = Load()
    load.do("anon %d" % (20 * MIB))
    load.do("fds 100")
    recorder, rows = record([load.pid], name="leader")
    before = rows.now(load.pid)
    for turn in ("main thread", "thread that was read"):
        load.do("leave")
        wait_for(lambda: state_of(load.pid) == "Z", 3)
        load.do("anon %d" % (10 * MIB))
        after = rows.now(load.pid)
        bad = grown(before, after, rss_bytes=10 * MIB, pss_bytes=10 * MIB, fds=0)
        test.ok(not bad and after["fds"] >= 103 and "missing" not in after,
                "memory and descriptors are told when the %s has ended" % turn, bad, after)
        before = after
    recorder.end()
    test.ok("memory_unread" not in recorder.losses(), "and nothing is lost", recorder.losses())


def groups(_):
    """The groups stand before the memory in status."""
    few = start(["sleep", "600"], preexec_fn=lambda: os.setgroups(range(4000000, 4003000)))
    lots = start(["sleep", "600"], preexec_fn=lambda: os.setgroups(range(4000000, 4030000)))
    recorder, rows = record([few.pid, lots.pid], name="groups")
    one, other = rows.now(few.pid), rows.now(lots.pid)
    recorder.end()
    test.ok(one.get("rss_bytes") and "rss_bytes" not in other and "pss_bytes" in other and
            "thousands of groups" in other["missing"]["rss_bytes"],
            "a status that is too long for its groups is said to be so", one, other)


def many(_):
    """The first round of readings does not take an interval for each process."""
    sleepers = [start(["sleep", "600"]).pid for _ in range(40)]
    recorder, rows = record(sleepers, interval="1s", smaps="60s", name="many")

    def unread():
        rows.read()
        return set(sleepers) - {r["pid"] for i in rows.intervals
                                for r in i["memory"]["processes"] if "pss_bytes" in r}

    wait_for(lambda: not unread(), 20)
    left = len(unread())
    recorder.end()
    test.ok(not left, "PSS of 40 processes is there after 20 intervals", left, len(rows.intervals))


def kinds_behind(_):
    """The first PSS of a target does not wait for its smaps, which comes at once behind it."""
    load = Load()
    recorder, rows = record([load.pid], interval="100ms", smaps="60s", name="kinds")

    def told():
        rows.read()
        return [sorted({"pss_bytes", "kinds"} & set(r)) for i in rows.intervals
                for r in i["memory"]["processes"] if {"pss_bytes", "kinds"} & set(r)]

    wait_for(lambda: len(told()) > 1, 10)
    recorder.end()
    test.ok(told() == [["pss_bytes"], ["kinds"]], "first PSS, then kinds", told())


def descriptors(_):
    """How many there are is told in each interval where the kernel counts them, not at --smaps only."""
    load = Load()
    recorder, rows = record([load.pid], interval="100ms", smaps="10s", name="descriptors")
    time.sleep(1)
    recorder.end()
    told = [r.get("fds") for i in recorder.intervals for r in i["memory"]["processes"]]
    counts = os.stat("/proc/self/fd").st_size > 0
    want = len(os.listdir("/proc/%d/fd" % load.pid))
    test.ok(len(told) >= 5 and set(told) == ({want} if counts else {want, None}),
            "descriptors are told in %s interval" % ("each" if counts else "some"), told, want)
    # The buffers among too many of them are not looked at, and a part of them is no sum.
    load.do("fds 4000")
    recorder, rows = record([load.pid], name="few-buffers")
    few = rows.now(load.pid)
    load.do("fds 2000")
    many = rows.now(load.pid)
    recorder.end()
    test.ok(few.get("dmabufs") == 0 and "missing" not in few and many["fds"] == few["fds"] + 2000 and
            "dmabufs" not in many and "dmabuf_bytes" not in many and
            "4096 descriptors" in many["missing"]["dmabuf_bytes"],
            "of 6,000 descriptors nothing is said of buffers", few, many)


def few_descriptors(_):
    """A recorder that has too few descriptors says so of each target whose files it cannot open."""
    pids = {start(["sleep", "600"]).pid for _ in range(150)}
    recorder = Recorder("few", ["-i", "500ms", "-n", "6", "--max-lost", "100", "--block", "5s"], targets=pids,
                        limits=["prlimit", "--nofile=400:400"])
    recorder.wait()
    rows = [{r["pid"]: r for r in i["memory"]["processes"]} for i in recorder.intervals[1:]]
    silent = [len(pids - set(r)) for r in rows]
    bare = [r for i in rows for r in i.values() if "rss_bytes" not in r and
            "Too many open files" not in r.get("missing", {}).get("rss_bytes", "")]
    note("rows with RSS: %s of %d, without a row: %s" % (
        [sum("rss_bytes" in r for r in i.values()) for i in rows], len(pids), silent))
    test.ok(rows and not any(silent) and not bare,
            "with few descriptors each target has a row or its reason", silent, bare[:2], recorder.errors())


def descriptors_cost(_):
    """To look at thousands of descriptors takes longer than smaps_rollup: there is a rest behind it, too."""
    def cost(fds):
        load = Load()
        if fds:
            load.do("fds %d" % fds)
        recorder, rows = record([load.pid], interval="200ms", smaps="100ms", name="fds-%d" % fds)
        time.sleep(4)
        recorder.end()
        load.process.kill()
        spans = recorder.intervals[1:-1]
        return sum(i["self"]["cpu_ns"] for i in spans) / sum(i["dur_ns"] for i in spans)

    few, many = cost(0), cost(12000)
    test.ok(many - few < 0.035, "12,000 descriptors cost some 2 % of a core at the most",
            "%.4f of a core with few, %.4f with many" % (few, many))
    note("of a core: %.4f with few descriptors, %.4f with 12,000" % (few, many))


class GpuMap:
    """A map as Android's gpu_mem_total program keeps it, pinned in a bpffs of its own."""
    BPF_HASH = 1

    def __init__(self, key_bytes=8):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.folder = tempfile.mkdtemp(dir=work)
        if self.libc.mount(b"none", self.folder.encode(), b"bpf", 0, None):
            raise OSError(ctypes.get_errno(), "no bpffs")
        self.fd = self.call(0, struct.pack("=IIII", self.BPF_HASH, key_bytes, 8, 64))
        path = ctypes.create_string_buffer((self.folder + "/map_gpuMem_gpu_mem_total_map").encode())
        self.call(6, struct.pack("=QI", ctypes.addressof(path), self.fd))

    def call(self, command, attributes):
        buffer = ctypes.create_string_buffer(attributes, 128)
        done = self.libc.syscall(321 if os.uname().machine == "x86_64" else 280, command, buffer, 128)
        if done < 0:
            raise OSError(ctypes.get_errno(), "bpf %d" % command)
        return done

    def put(self, gpu, pid, value):
        key, value = ctypes.c_uint64(gpu << 32 | pid), ctypes.c_uint64(value)
        self.call(2, struct.pack("=IIQQQ", self.fd, 0, ctypes.addressof(key), ctypes.addressof(value), 0))

    def limits(self):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                'mount --bind %s /sys/fs/bpf && exec "$@"' % self.folder, "sh"]

    def end(self):
        os.close(self.fd)
        self.libc.umount2(self.folder.encode(), 2)


def gpu_map(_):
    """What the kernel tells of GPUs by Android's map is each process's, and the machine's."""
    what = "bytes of two GPUs are the process's and the machine's"
    try:
        gpus, other = GpuMap(), GpuMap(key_bytes=4)
    except OSError as e:
        test.skip(what, "no map can be pinned: %s" % e)
        test.skip("a map of another shape is not believed", "no map can be pinned: %s" % e)
        return
    load = Load()
    gpus.put(0, 0, 9 * MIB)
    gpus.put(1, 0, 5 * MIB)
    gpus.put(0, load.pid, 3 * MIB)
    gpus.put(1, load.pid, 4 * MIB)
    gpus.put(0, 1, 2 * MIB)
    recorder = Recorder("gpu", ["-i", "200ms", "--smaps", "400ms", "--max-lost", "100"],
                        targets=[load.pid], limits=gpus.limits())
    rows = Rows(recorder)
    first = rows.now(load.pid, "rss_bytes")
    gpus.put(1, load.pid, 6 * MIB)
    second = rows.now(load.pid, "rss_bytes")
    recorder.end()
    system = [i["memory"]["system"].get("gpu_bytes") for i in recorder.intervals]
    test.ok(first.get("gpu_bytes") == 7 * MIB and second.get("gpu_bytes") == 9 * MIB and
            set(system) == {14 * MIB}, what, first, second, system)
    recorder = Recorder("gpu-other", ["-i", "200ms", "-n", "3", "--max-lost", "100"],
                        targets=[load.pid], limits=other.limits())
    recorder.wait()
    recorder.load()
    told = [i for i in recorder.intervals if "gpu_bytes" in i["memory"]["system"]]
    reasons = {i["missing"].get("memory.system.gpu_bytes") for i in recorder.intervals}
    test.ok(recorder.intervals and not told and reasons == {"the map is not as Android's"},
            "a map of another shape is not believed", told[:1], reasons)
    gpus.end()
    other.end()


def pressure_now():
    with open("/proc/pressure/memory") as f:
        return [int(line.rsplit("total=", 1)[1]) * 1000 for line in f]


def pressure(_):
    """Waits for memory (PSI) in the intervals are what the kernel's sums grew by."""
    what = "waits for memory are the kernel's own"
    group = None
    for place, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                         ("/sys/fs/cgroup", "memory.max")):
        path = "%s/jankscope-pressure-%d" % (place, os.getpid())
        try:
            os.mkdir(path)
            with open("%s/%s" % (path, limit), "w") as f:
                f.write(str(12 * MIB))
            group = path
            break
        except OSError:
            if os.path.isdir(path):
                os.rmdir(path)
    try:
        pressure_now()
    except OSError as e:
        test.skip(what, "the kernel tells no pressure: %s" % e)
        return
    if not group:
        test.skip(what, "no memory cgroup can be made")
        return

    def enter():
        with open(group + "/cgroup.procs", "w") as f:
            f.write(str(os.getpid()))

    big = os.path.join(work, "big")
    with open(big, "wb") as f:
        f.write(os.urandom(64 * MIB))
        f.flush()
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # none is charged to us
    reader = start(["sh", "-c", "while :; do cat %s %s >/dev/null; done" % (big, big)], preexec_fn=enter)
    try:
        before = pressure_now()
        recorder, rows = record([reader.pid], name="pressure")
        outer = pressure_now()
        time.sleep(4)
        inner = pressure_now()
        recorder.end()
        after = pressure_now()
        told = [sum(i["memory"]["system"].get("pressure_%s_ns" % kind, 0) for i in recorder.intervals)
                for kind in ("some", "full")]
        grown = [b - a for a, b in zip(before, after)]
        note("waits of some %.1f of %.1f ms, of all %.1f of %.1f" % (
            told[0] / MS, grown[0] / MS, told[1] / MS, grown[1] / MS))
        if inner[0] - outer[0] < 20 * MS:
            test.skip(what, "this kernel counted %.1f ms of waits" % ((inner[0] - outer[0]) / MS))
        else:
            # The first interval begins behind `before`; each sum is cut to whole us.
            test.ok(all(t <= g + 1000 for t, g in zip(told, grown)) and
                    all(t >= i - o - 400 * MS for t, i, o in zip(told, inner, outer)) and
                    told[0] >= (inner[0] - outer[0]) * 8 // 10, what, told, grown, outer, inner)
    finally:
        end_all()
        for _ in range(50):
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.1)


test.run([(known_bytes, 10), (kinds_behind, 1), (descriptors, 2), (few_descriptors, 1), (descriptors_cost, 1), (leader_ended, 3), (many, 1), (groups, 1), (swapped, 2), (huge_pages, 1), (leak, 4), (hostile, 12), (whole_device, 1), (gpu_map, 2), (pressure, 1),
          (dies_and_denied, 2)], sys.argv[1:])
