# SPDX-License-Identifier: BSD-2-Clause
"""State that is not what the recorder left: its own map's counters (as a lost update leaves them),
a state file that the shell user planted, an output file that is a link.
usage: forged_truth.py [PART...]"""
import ctypes, mmap, os, platform, stat, struct, subprocess, sys, time
from attack_common import *

test = Test("forged")
libc = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]


def map_fd(map_id):
    attr = ctypes.create_string_buffer(struct.pack("III", map_id, 0, 0), 128)
    fd = libc.syscall(SYS_BPF, 14, attr, 128)  # BPF_MAP_GET_FD_BY_ID
    if fd < 0:
        raise OSError(ctypes.get_errno(), "map %d" % map_id)
    return fd


def slots_of(recorder):
    """The map of slots of this recorder, written from outside: (memory, size of a slot, offsets of
    fields by BTF)."""
    ids = set()
    for pid in (recorder.pid, *recorder.helpers()):
        try:
            for name in os.listdir("/proc/%d/fdinfo" % pid):
                with open("/proc/%d/fdinfo/%s" % (pid, name)) as f:
                    ids |= {int(l.split()[1]) for l in f if l.startswith("map_id:")}
        except OSError:
            pass
    for i in ids:
        info = bpftool("map", "show", "id", i)
        if info.get("name") == "looper_slots":
            break
    else:
        raise RuntimeError("no map looper_slots among %d" % len(ids))
    types = {t["id"]: t for t in bpftool("btf", "dump", "id", info["btf_id"])["types"]}
    fields = {}
    for t in types.values():
        if t["kind"] == "STRUCT" and t["name"] == "looper_slot":
            fields = {m["name"]: m["bits_offset"] // 8 for m in t["members"]}
    size = (info["bytes_value"] + 7) // 8 * 8
    fd = map_fd(i)
    memory = mmap.mmap(fd, (size * info["max_entries"] + 4095) // 4096 * 4096)
    os.close(fd)
    return memory, size, fields, info["max_entries"]


def slot_at(slots, pid):
    memory, size, fields, count = slots
    for n in range(count):
        if struct.unpack_from("<I", memory, n * size + fields["tid"])[0] == pid:
            return n * size
    raise RuntimeError("no slot of pid %d" % pid)


def add(slots, at, field, by):
    memory, _, fields, _ = slots
    where = at + fields[field]
    value = struct.unpack_from("<I", memory, where)[0]
    struct.pack_into("<I", memory, where, (value + by) & 0xffffffff)


def slot(_):
    """begun and ended disagree as after a lost update: the app is watched again within 1 s."""
    cases = [("begun + 1 while it waits", "begun", 1, False),
             ("ended + 1 while it waits", "ended", 1, False),
             ("begun + 3 in a block", "begun", 3, True),
             ("ended + 1000000 in a block", "ended", 1000000, True)]
    looked = [Innocent() for _ in cases]
    untouched = Innocent()
    recorder = Recorder("forged slot", ["--block", "150ms", "-i", "200ms", "--max-lost", "100"],
                        targets=[a.pid for a in looked + [untouched]], settle=1)
    for app in looked + [untouched]:
        app.process.stdin.write("sleep 300\n")
    time.sleep(1)
    slots = slots_of(recorder)
    before = len(recorder.load() and recorder.losses())
    for app, (_, field, by, inside) in zip(looked, cases):
        if inside:
            app.process.stdin.write("sleep 300\n")
    time.sleep(0.1)
    for app, (_, field, by, inside) in zip(looked, cases):
        add(slots, slot_at(slots, app.pid), field, by)
    forged_at = boot_ns()
    time.sleep(1)
    healed = boot_ns()
    for app in looked + [untouched]:
        app.begin()
    time.sleep(5)
    for app in looked + [untouched]:
        app.end()
    recorder.end()
    for app in looked + [untouched]:
        app.truth = [t for t in app.truth if t["start"] >= healed]
    for app, (name, *_) in zip(looked, cases):
        found, stacks, total, missed = app.check(recorder)
        test.ok(total >= 4 and found == total and stacks == total,
                "%s: watched again within 1 s: %d blocks, %d told, %d with stacks" % (
                    name, total, found, stacks), *missed[:3])
        endless = [(b["state"], b["class"], b["wall_ns"] // MS) for b in recorder.blocks
                   if b["pid"] == app.pid and b["wall_ns"] - b["ledger"]["runnable_ns"] > 700 * MS]
        test.ok(recorder.footer and not endless, "%s: no invented block" % name, *endless[:4])
    found, stacks, total, missed = untouched.check(recorder)
    test.ok(total >= 4 and found == total and stacks == total, "the app beside them: %d of %d" %
            (found, total), *missed[:3])
    said = {k: v for k, v in recorder.losses().items() if "block" in k or "looper" in k or
            "slot" in k or "resync" in k}
    said = {k: v for k, v in said.items() if "missed_switches" not in k}
    test.ok(said, "what a lost update cost is counted", recorder.losses())


def planted(_):
    """A state file in a folder of the shell user, as root reads it before it traces (S1)."""
    victim, folder = work + "/victim", "/data/local/tmp"
    for place in ("/data", "/run"):
        if not os.path.isdir(place):
            # in this mount namespace only, if the root may be written
            os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    os.makedirs(folder)
    os.chown(folder, 2000, 2000)
    results = []
    for path in (folder + "/jankscope.tracefs", "/run/jankscope.tracefs"):
        with open(victim, "w") as f:
            f.write("whole\n")
        os.chmod(victim, 0o600)
        with open(path, "w") as f:
            f.write("jankscope 1 1\nfile\t%s\tpwned\nmode\t%s\t4755\nlink\tx\ty\n" % (victim,
                                                                                  victim))
        os.chown(path, 2000, 2000)
        # The link of the name itself, too
        done = subprocess.run([jankscope, "record", "--frames", "live", "-q", "-n", "1", "-i",
                               "100ms", "-o", work + "/planted.jsonl"], capture_output=True,
                              text=True, timeout=20)
        results.append((path, done.returncode, done.stderr[-300:]))
        mode, text = stat.S_IMODE(os.stat(victim).st_mode), open(victim).read()
        test.ok(mode == 0o600 and text == "whole\n",
                "%s: a planted line changes no other file" % path, oct(mode), text, results[-1])
        if os.path.lexists(path):
            os.unlink(path)
    # A line that names a living owner must not keep root from its work for ever.
    sleeper = start(["sleep", "60"])
    since = stat_of(sleeper.pid)[19]
    path = folder + "/jankscope.tracefs"
    with open(path, "w") as f:
        f.write("jankscope %d %s\n" % (sleeper.pid, since))
    os.chown(path, 2000, 2000)
    done = subprocess.run([jankscope, "record", "--frames", "live", "-q", "-n", "1", "-i", "100ms",
                           "-o", work + "/planted2.jsonl"], capture_output=True, text=True,
                          timeout=20)
    test.ok("another jankscope" not in done.stderr,
            "a planted owner keeps nobody from tracing", done.returncode, done.stderr[-300:])


def output(_):
    """-o in a folder that another user may write to (S2)."""
    folder, victim = work + "/shared", work + "/precious"
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    with open(victim, "w") as f:
        f.write("precious\n")
    link = folder + "/out.jsonl"
    os.symlink(victim, link)
    os.lchown(link, 2000, 2000)

    def run(path, *flags):
        return subprocess.run([jankscope, "record", "-q", "-n", "2", "-i", "100ms", "-o", path,
                               *flags], capture_output=True, text=True, timeout=20)
    done = run(link)
    test.ok(open(victim).read() == "precious\n" and done.returncode != 0 and done.stderr,
            "-o does not follow a link that another user planted", done.returncode,
            open(victim).read()[:60])
    fresh = work + "/fresh.jsonl"
    old_mask = os.umask(0o022)
    run(fresh)
    os.umask(old_mask)
    mode = stat.S_IMODE(os.stat(fresh).st_mode)
    test.ok(mode & 0o077 == 0, "a recording is for its owner only", oct(mode))
    both = work + "/both.jsonl"
    pair = [start([jankscope, "record", "-q", "-n", "15", "-i", "100ms", "-o", both],
                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(2)]
    codes = [p.wait(20) for p in pair]
    data = open(both, "rb").read()
    lines = data.splitlines()
    bad = 0
    for line in lines:
        try:
            json.loads(line)
        except ValueError:
            bad += 1
    test.ok(sorted(c == 0 for c in codes) == [False, True] and not bad and b"\0" not in data,
            "two recorders on one file: one of them refuses, the file is whole", codes, bad)


def status(pid):
    with open("/proc/%d/status" % pid) as f:
        return dict(l.rstrip("\n").split(":\t", 1) for l in f if ":\t" in l)


def rights(_):
    """What each process of a run may do, read from the kernel (S3, S4)."""
    app = Innocent()
    recorder = Recorder("rights", ["--block", "150ms", "-i", "200ms", "--max-lost", "100"],
                        targets=[app.pid], settle=2)
    app.begin()
    time.sleep(4)
    me = status(recorder.pid)
    kinds = {k: recorder.of_kind(k) for k in ("warden", "prober", "sampler", "unwinder")}
    note({p: c for p, (c, _) in recorder.helpers().items()})
    test.ok(all(kinds.values()), "warden, prober, sampler and unwinder run", kinds,
            recorder.helpers())
    # sys_admin 21, sys_ptrace 19, dac_override 1, dac_read_search 2, setuid 7, sys_module 16
    strong = [n for n in (1, 2, 7, 16, 19, 21) if int(me["CapEff"], 16) >> n & 1]
    test.ok(not strong, "the recorder has dropped what it does not need", me["CapEff"], strong)
    bad = []
    for pid in kinds["unwinder"]:
        s = status(pid)
        with open("/proc/%d/limits" % pid) as f:
            limits = [l for l in f if l.startswith("Max address space")]
        if int(s["CapEff"], 16) or int(s["CapPrm"], 16) or s["NoNewPrivs"] != "1" or \
                s["Seccomp"] != "2" or s["Uid"].split()[1] == "0" or "unlimited" in limits[0]:
            bad.append((pid, s["CapEff"], s["NoNewPrivs"], s["Seccomp"], s["Uid"], limits))
    test.ok(kinds["unwinder"] and not bad, "the unwinder has no right, no new ones, a filter and "
            "a limit of memory", bad)
    raised = []
    for pid in (recorder.pid, *recorder.helpers()):
        for tid in os.listdir("/proc/%d/task" % pid):
            fields = stat_of("%d/task/%s" % (pid, tid))
            if fields and int(fields[16]) < 0 and pid not in kinds["sampler"]:
                raised.append((pid, tid, comm_of(pid), fields[16]))
    test.ok(not raised, "nobody but the sampler is above nice 0", raised)
    app.end()
    recorder.end()
    found, stacks, total, missed = app.check(recorder)
    test.ok(total >= 3 and found == total and stacks == total, "and with that it does its work",
            *missed[:3])


def written_under_lock():
    """Ids of the maps of programs that may run under a run queue's lock."""
    return {i for program in bpftool("prog", "show") for i in program.get("map_ids", ())
            if program.get("name", "").startswith(("sched_", "looper_"))}


def maps(_):
    """No map that a program under the run queue's lock writes allocates then (L9). Others may,
    where the kernel's hashes take elements from caches of their own (7c8199e24fa0, 6.1)."""
    with open("/sys/kernel/btf/vmlinux", "rb") as f:
        caches = b"\0bpf_mem_alloc\0" in f.read()
    app = Innocent()
    bad, seen = [], 0
    for variant in ("tp_btf", "raw_tp"):
        recorder = Recorder("maps " + variant, ["--variant", variant, "--cpu", "switch", "-i",
                                                "200ms", "--max-lost", "100"], targets=[app.pid])
        ids = set()
        for pid in (recorder.pid, *recorder.helpers()):
            for name in os.listdir("/proc/%d/fdinfo" % pid):
                try:
                    with open("/proc/%d/fdinfo/%s" % (pid, name)) as f:
                        text = dict(l.split(":", 1) for l in f if ":" in l)
                except OSError:
                    continue
                if "map_id" in text and int(text["map_type"]) in (1, 5):
                    ids.add((int(text["map_id"]), int(text["map_flags"], 16)))
        locked = written_under_lock()
        recorder.end()
        seen += sum(i in locked for i, _ in ids)
        bad += [(variant, i, flags) for i, flags in ids
                if flags & 1 and (i in locked or not caches)]
    test.ok(seen >= 2 and not bad, "no hash of %d allocates while a program writes it" % seen, bad)


test.run([(rights, 5), (maps, 1), (slot, 10), (planted, 3), (output, 3)], sys.argv[1:])
