#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Faults F1 to F28 of users-and-reliability.md that no other script of this folder makes, each of the
whole tool with real parts (README.md has the map). Prints TAP.
usage: faults.py BUILD [NAME...]    FULL=1: as long and as often as the table of faults asks"""
import ctypes
import fcntl
import itertools
import json
import os
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
JS, APPS = f"{BUILD}/jankscope", f"{BUILD}/tests/apps"
FULL = os.environ.get("FULL") == "1"
QUICK = ["-q", "-i", "50ms", "--max-lost", "100", "--power", "off"]
# Names of the targets: another run of the tests on this machine has its own.
QA = f"qa.{os.getpid()}."
children = []


def say(good, name, *detail):
    print(f"{'ok' if good else 'not ok'} - faults: {name}", flush=True)
    for text in [] if good else detail:
        for line in str(text).splitlines()[:12]:
            print(f"# {line[:400]}", flush=True)


def skip(name, why):
    print(f"ok - faults: {name} # SKIP {why}", flush=True)


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def wait_until(what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def start(*command, **more):
    child = subprocess.Popen(command, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **more})
    children.append(child)
    return child


def finish(child, number=signal.SIGKILL):
    child.send_signal(number)
    return child.wait(30)


class Run:
    def __init__(self, *arguments, before=(), **more):
        self.err = tempfile.TemporaryFile("w+")
        self.process = start(*before, JS, "record", *arguments, stderr=self.err, **more)
        self.pid = self.process.pid

    def end(self, number=signal.SIGINT):
        return finish(self.process, number)

    def talk(self):
        self.err.seek(0)
        return self.err.read()


def lines(path):
    return read(path).split("\n")[:-1]


def records(path):
    return [json.loads(line) for line in lines(path)]


def has(path, *parts):
    return lambda: any(all(part in line for part in parts) for line in lines(path))


def segments(folder):
    return sorted(name for name in os.listdir(folder) if re.match(r"\d{8}\.jsonl", name))


def content(folder, name):
    if name.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", f"{folder}/{name}"], capture_output=True, check=True).stdout
    with open(f"{folder}/{name}", "rb") as file:
        return file.read()


def folder_records(folder):
    for _ in range(20):  # a segment may be compressed meanwhile
        try:
            return [json.loads(line) for name in segments(folder)
                    for line in content(folder, name).split(b"\n")[:-1]]
        except (FileNotFoundError, subprocess.CalledProcessError):
            continue
    return []


def verify(folder, *flags):
    return subprocess.run([JS, "verify", *flags, folder], capture_output=True, text=True)


def family(root):
    parents = {}
    for name in os.listdir("/proc"):
        stat = name.isdigit() and read(f"/proc/{name}/stat")
        if stat:
            parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found, grew = {root}, True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in found}
        grew = not more <= found
        found |= more
    return found


def descriptors(root):
    """By the names of the processes and what is open: how many the one with most of them has."""
    counts = {}
    for pid in family(root):
        name, own = read(f"/proc/{pid}/comm").strip(), {}
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                link = re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{fd}"))
                own[link] = own.get(link, 0) + 1
        except OSError:
            pass
        for link, count in own.items():
            counts[name, link] = max(counts.get((name, link), 0), count)
    return counts


def zombies(root):
    return [pid for pid in family(root)
            if read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["Z"]]


def app(name, *more):
    return start(f"{APPS}/fakeapp", "20125", name, *more)


# ---- F2 ----

def renames():
    """The writer is killed amid its renames and removals: never half a file at a final name."""
    bad, rounds = [], 0
    os.mkdir("new", 0o700)
    for call in ("rename", "unlink", "rename", "unlink") * (10 if FULL else 1):
        rounds += 1
        run = Run(*QUICK, "-a", "--net", "off", "--tune", "segment=64K", "-o", "new",
                  before=(f"{APPS}/refuse_syscall", call, "KILL"))
        try:
            code = run.process.wait(30)  # the writer is killed, and without an output the run ends
        except subprocess.TimeoutExpired:
            code = run.end()
            bad.append(f"round {rounds}: {call}: the writer was not killed, or the run goes on: {run.talk()}")
        if code != 1:
            bad.append(f"round {rounds}: {call}: exit code {code}: {run.talk()}")
        for name in segments("new"):
            if name.endswith(".zst") and subprocess.run(["zstd", "-tq", f"new/{name}"],
                                                        capture_output=True).returncode:
                bad.append(f"round {rounds}: {name} is half a file")
    last = Run(*QUICK, "-a", "--net", "off", "-n", "3", "-o", "new")
    code = last.process.wait(30)
    done = verify("new")
    left = [name for name in os.listdir("new") if name.endswith(".tmp")]
    # All that verify may find: a run that is killed before its first interval does not tell of the
    # one that was killed before it.
    found = [line for line in done.stdout.splitlines() if line.startswith("new/")]
    other = [line for line in found if "no footer last: the run was not written to its end" not in line]
    unexplained = [line for line in found if "(the recording tells of it)" not in line]
    say(not bad and code == 0 and not other and done.returncode == (3 if unexplained else 0) and not left and
        "torn 0, damaged 0, missing 0 records, doubled 0" in done.stdout,
        f"F2: the writer killed {rounds} times at a rename or a removal: no half file has a final name",
        "\n".join(bad), code, done.stdout, left, last.talk())
    killed_in_footer()
    killed_report()


def killed_in_footer():
    """All processes of a run are killed while it ends: before, in or after its footer."""
    os.mkdir("footer")
    bad, whole, without, rounds = [], 0, 0, 60 if FULL else 8
    random_ = random.Random(5)
    # Until both have been: how long a run takes to end depends on the machine.
    while (rounds > 0 or not whole or not without) and rounds > -40:
        rounds -= 1
        path = f"footer/{rounds}.jsonl"
        run = Run(*QUICK, "-p", str(os.getpid()), "-o", path)
        wait_until(has(path, '"interval"'))
        run.process.send_signal(signal.SIGINT)
        time.sleep(random_.uniform(0, 0.03 if without else 0.005) if whole else random_.uniform(0, 0.3))
        doomed = family(run.pid)
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        run.process.wait()
        # The kill of its writer takes its time on a busy machine, and it has the file's lock until then.
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in doomed))
        text = read(path)
        ends = text.endswith("\n") and json.loads(text.split("\n")[-2])["type"] == "footer"
        whole, without = whole + ends, without + (not ends)
        done = verify(path)
        if not text.endswith("\n") or done.returncode != (0 if ends else 3) or \
                "torn 0, damaged 0, missing 0 records, doubled 0" not in done.stdout:
            bad.append(f"{path}: {done.returncode} {done.stdout}{text[-200:]}")
    say(not bad and whole and without,
        f"F2: killed while a run ends: {whole} files with a whole footer, {without} without one, no half line",
        "\n".join(bad), whole, without)


def killed_report():
    """report is killed while it writes run.prom: at the rename, and at any time. Its name has the old
    text or the new one."""
    run = Run(*QUICK, "-a", "--net", "off", "-n", "6", "-o", "report.jsonl")
    run.process.wait(30)
    command = [JS, "report", "report.jsonl", "--openmetrics", "run.prom"]
    subprocess.run(command, check=True, capture_output=True)
    new, old = read("run.prom"), "# the report before\n# EOF\n"
    bad, olds, news, random_ = [], 0, 0, random.Random(7)
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    takes = time.monotonic() - began
    turn, least = 0, 300 if FULL else 24
    # Until both have been: how long a report takes depends on the machine.
    while turn < least or (turn < 4 * least and not (olds and news)):
        turn += 1
        with open("run.prom", "w") as file:
            file.write(old)
        at_rename = turn % 4 == 0
        before = (f"{APPS}/refuse_syscall", "rename", "KILL") if at_rename else ()
        child = start(*before, *command, stderr=subprocess.DEVNULL)
        if not at_rename:
            time.sleep(random_.uniform(0, (1.3 if news else 4) * takes))
            child.kill()
        code = child.wait(30)
        text = read("run.prom")
        olds, news = olds + (text == old), news + (text == new)
        if text not in (old, new) or (at_rename and (text != old or code != -signal.SIGSYS)):
            bad.append(f"turn {turn}: exit code {code}, {len(text)} of {len(new)} bytes: {text[-80:]}")
        for name in os.listdir("."):
            if name.startswith("run.prom."):
                os.unlink(name)
    say(not bad and olds and news and new.endswith("# EOF\n"),
        f"F2: report killed while it writes a .prom: {olds} times the old one, {news} times the new one, never a half",
        "\n".join(bad), olds, news)


# ---- F3 ----

def quota_of_ext4():
    """mount/new with a quota; its setter of KiB, or why there is none."""
    with open("image", "wb") as file:
        file.truncate(32 << 20)
    os.mkdir("mount")
    if subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "quota", "-E", "quotatype=usrquota", "image"],
                      capture_output=True).returncode:
        return None, "no mkfs.ext4 here that makes quotas"
    done = subprocess.run(["mount", "-o", "loop,usrquota", "image", "mount"], capture_output=True, text=True)
    if done.returncode:
        # The format of ext4's quotas is an option of the kernel of its own (CONFIG_QFMT_V2).
        return None, f"ext4: {done.stderr.strip()}"
    device = next(line.split(" - ")[1].split()[1] for line in lines("/proc/self/mountinfo")
                  if line.split()[4] == os.path.realpath("mount"))
    libc = ctypes.CDLL(None, use_errno=True)

    def limit(blocks_kib):
        # struct if_dqblk: block limits in KiB, QIF_BLIMITS; Q_SETQUOTA of a user
        block = struct.pack("QQQQQQQQI", blocks_kib, blocks_kib, 0, 0, 0, 0, 0, 0, 1)
        return libc.quotactl(ctypes.c_int(ctypes.c_int32(0x80000800 - (1 << 32)).value),
                             device.encode(), 0, block)

    os.mkdir("mount/new", 0o700)
    return limit, ""


def quota_of_btrfs():
    """The same by a quota group of btrfs."""
    with open("image", "wb") as file:
        file.truncate(256 << 20)
    os.makedirs("mount", exist_ok=True)
    for command in ("mkfs.btrfs -q -f image", "mount -o loop image mount", "btrfs quota enable mount",
                    "btrfs subvolume create mount/new"):
        try:
            done = subprocess.run(command.split(), capture_output=True, text=True)
        except FileNotFoundError as error:
            return None, str(error)
        if done.returncode:
            return None, f"{command}: {done.stderr.strip()}"
    os.chmod("mount/new", 0o700)
    return lambda kib: subprocess.run(["btrfs", "qgroup", "limit", f"{kib}K", "mount/new"],
                                      capture_output=True).returncode, ""


def quota():
    """A quota that is used up, and raised again."""
    name = "F3: a quota that is used up"
    limit, why = quota_of_ext4()
    if not limit:
        limit, more = quota_of_btrfs()
        why += f"; {more}"
    if not limit:
        return skip(name, f"no file system with quotas here: {why}")
    if limit(700):
        return say(False, name, "the quota cannot be set")
    # Who may pass quotas (CAP_SYS_RESOURCE) would not meet this one.
    run = Run(*QUICK, "-a", "--net", "off", "--top", "40", "-o", "mount/new/",
              before=("setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"))
    # Nothing grows any more.
    full = wait_until(lambda: used("mount/new") > 300 << 10, 40)
    size, still = -1, 0
    for _ in range(200):
        size, before = used("mount/new"), size
        still = still + 1 if size == before else 0
        if still >= 15:
            break
        time.sleep(0.1)
    time.sleep(60 if FULL else 2)
    alive = run.process.poll() is None
    limit(60000)
    told = wait_until(lambda: any(r.get("event") == "disk_ok" for r in folder_records("mount/new")), 15)
    resumed = time.monotonic()
    count = len(folder_records("mount/new"))
    wait_until(lambda: len(folder_records("mount/new")) > count)
    resumed = time.monotonic() - resumed
    code = run.end()
    done = verify("mount/new")
    reasons = {r.get("reason") for r in folder_records("mount/new") if r.get("event") == "disk_full"}
    say(full and still >= 15 and alive and told and code == 0 and done.returncode == 0 and resumed < 1 and
        "torn 0, damaged 0" in done.stdout and reasons == {"Disk quota exceeded"},
        f"{name} ({read('/proc/mounts').split(os.path.realpath('mount') + ' ')[1].split()[0]}): "
        "the recorder waits, goes on, and tears nothing",
        full, still, alive, told, resumed, code, reasons, done.stdout, run.talk(), why)


def used(folder):
    try:
        return sum(os.stat(f"{folder}/{name}").st_size for name in os.listdir(folder))
    except FileNotFoundError:
        return 0


# ---- F8, F9, F10 ----

def dying_targets():
    """The target dies while it is looked at: no error, no zombie, no descriptor that stays."""
    rounds = 1000 if FULL else 40
    random_ = random.Random(3)
    run = Run(*QUICK, "-p", QA + "dying", "--block", "10ms", "--stack", "ptrace", "--wait", "60s", "-o", "dying.jsonl")
    before, first, lived = {}, app(QA + "dying", "block", "30"), {}
    begun = wait_until(has("dying.jsonl", '"target_start"'), 30)
    for turn in range(rounds):
        target = start(f"{APPS}/fakeapp", "20125", QA + "dying", "block", "30", stdout=subprocess.PIPE)
        target.stdout.readline()  # it has its name
        target.stdout.close()
        # Once what is kept of some targets is as much as it may be.
        if turn == (rounds // 2 if FULL else 8):
            time.sleep(2)
            before = descriptors(run.pid)
        named = time.monotonic()
        time.sleep(random_.uniform(0, 0.25))
        finish(target)
        lived[target.pid] = time.monotonic() - named
    keeps, after = first, {}

    def settled():
        after.clear()
        after.update(descriptors(run.pid))
        # The same however many rounds there were; what is under way at the moment of a look differs.
        return all(count <= before.get(key, 0) + 8 for key, count in after.items())

    # A probe that is being removed has its descriptors until that is done.
    # A helper that has just ended is one until its parent runs.
    flat, left = wait_until(settled, 20), not wait_until(lambda: not zombies(run.pid), 5) and zombies(run.pid)
    alive = run.process.poll() is None
    code = run.end()
    finish(keeps)
    rows = records("dying.jsonl")
    starts = [r["pid"] for r in rows if r.get("event") == "target_start" and r["pid"] in lived]
    exits = [r["pid"] for r in rows if r.get("event") == "target_exit"]
    # A shorter one may end before its name was read.
    untold = [f"{pid}: {seconds:.3f} s" for pid, seconds in lived.items() if seconds > 0.2 and pid not in starts]
    stops = rows[-1]["summary"]["captures"]["ptrace"]
    unmet = rows[-1].get("late", {}).get("targets_unmet", 0)
    say(begun and alive and code == 0 and rows[-1]["type"] == "footer" and starts and
        sorted(starts) == sorted(exits) and len(untold) <= unmet and stops >= rounds // 3,
        f"F8: {rounds} targets that die while they are looked at, {stops} stops: {len(starts)} seen, each end told",
        alive, code, sorted(set(starts) ^ set(exits)), untold, unmet, stops, run.talk())
    grown = {key: (before.get(key, 0), count) for key, count in after.items() if count > before.get(key, 0) + 8}
    say(flat and not left, "F8: descriptors are as before, no zombie is left", grown, left)


def restarting_target():
    """Each death and birth is told within a second; what is told of a process is of its own life."""
    seconds = 600 if FULL else 6
    run = Run(*QUICK, "-p", QA + "restarting", "--block", "10ms", "--wait", "60s", "-o", "restarting.jsonl")
    lives, until, late = [], None, 0
    while until is None or time.monotonic() < until:
        begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        child = app(QA + "restarting", "block", "20")
        time.sleep(0.2)
        if until is None:
            wait_until(has("restarting.jsonl", '"start"'), 20)
            until = time.monotonic() + seconds
        finish(child)
        lives.append((child.pid, begin, time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
    time.sleep(1.2)
    code = run.end()
    rows = records("restarting.jsonl")
    def told(event):
        """When it was told of each life; a number comes again in ten minutes, but not in 100 ms."""
        found = [next((r["t_boot_ns"] for r in rows if r.get("event") == event and r["pid"] == pid and
                       begin - 1e8 <= r["start_boot_ns"] <= end + 1e8), 0) for pid, begin, end in lives]
        return found, sum(map(bool, found))

    (starts, started), (exits, ended) = told("target_start"), told("target_exit")
    unmet = rows[-1].get("late", {}).get("targets_unmet", 0)
    delays = [at - begin for at, (_, begin, _) in list(zip(starts, lives))[1:] if at] + \
        [at - end for at, (_, _, end) in zip(exits, lives) if at]
    late = max(delays, default=0)
    mixed = [r for r in rows if r["type"] == "block" and
             not any(pid == r["pid"] and begin - 1e8 <= r["start_boot_ns"] <= end + 1e8
                     for pid, begin, end in lives)]
    say(code == 0 and started == ended and len(lives) - started <= unmet and started > seconds * 3,
        f"F9: {len(lives)} restarts, every 200 ms: {started} starts and {ended} ends told, {unmet} counted as unmet",
        code, [pid for at, (pid, _, _) in zip(starts, lives) if not at][:5], run.talk())
    say(late < 1e9, f"F9: each is told within a second, the last after {late / 1e6:.0f} ms", late)
    blocks = sum(r["type"] == "block" for r in rows)
    say(blocks and not mixed, f"F9: each of {blocks} blocks is of the life that its process had", mixed[:2])


def same_pid():
    """A target's number is given to another process: nothing of that is told as the target's."""
    name = "F10: the pid of a target comes again"
    last = "/proc/sys/kernel/ns_last_pid"
    if not os.access(last, os.W_OK):
        return skip(name, f"{last} cannot be written")
    run = Run(*QUICK, "-p", QA + "same.pid", "--wait", "60s", "-o", "target.jsonl")
    whole = Run(*QUICK, "-a", "--net", "off", "-o", "all.jsonl")
    target = app(QA + "same.pid")
    good = wait_until(has("target.jsonl", '"target_start"', f'"pid":{target.pid}')) and \
        wait_until(has("all.jsonl", f'"pid":{target.pid},'))
    time.sleep(0.5)
    finish(target)
    gone_ns, other = time.clock_gettime_ns(time.CLOCK_BOOTTIME), None
    for _ in range(200):
        # Whoever forks in between has the number; then the next one is waited for.
        with open(last, "w") as file:
            file.write(str(target.pid - 1))
        other = subprocess.Popen(["sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL)
        if other.pid == target.pid:
            break
        other.kill()
        other.wait()
    if other.pid != target.pid:
        run.end(), whole.end()
        return skip(name, f"200 tries did not get the pid {target.pid} again: others fork here")
    time.sleep(1.5)
    other.kill()
    used = os.wait4(other.pid, 0)[2]
    other.returncode = -9
    cpu_ns = (used.ru_utime + used.ru_stime) * 1e9
    codes = run.end(), whole.end()
    rows = records("target.jsonl")
    end = next((r["t_boot_ns"] for r in rows if r.get("event") == "target_exit"), 0)
    # The end of a thread of the target may be told an interval after that of the target.
    after = [t for r in rows if r["type"] == "interval"
             for t in r["cpu"].get("tasks", []) if t["pid"] == target.pid and t["start_boot_ns"] > gone_ns]
    starts = [r for r in rows if r.get("event") == "target_start" and r["pid"] == target.pid]
    say(good and end and not after and len(starts) == 1 and codes == (0, 0),
        f"{name}: it is not followed, and nothing of it is told", good, end, after[:2], starts, codes, run.talk())
    by_start = {}
    for r in records("all.jsonl"):
        for task in r["cpu"]["tasks"] if r["type"] == "interval" else []:
            if task["tid"] == target.pid:
                key = task["start_boot_ns"]
                by_start[key] = by_start.get(key, 0) + task["cpu_ns"]
    told = by_start.get(max(by_start, default=0), 0)
    # A process of others may have had the number in between.
    say(len(by_start) >= 2 and abs(told - cpu_ns) < 0.02 * cpu_ns + 3e7,
        f"{name}: two tasks with that number, the second has its own {cpu_ns / 1e9:.2f} s",
        by_start, cpu_ns)


# ---- F13, F14, F15 ----

def storm():
    """As many threads a second as the machine makes: each is told or counted, and so is their time."""
    seconds = 60 if FULL else 3
    name = "F13: a storm of threads"
    load = subprocess.Popen([f"{APPS}/churn", "wait", "uid=20127", "threads=100000", f"seconds={seconds}"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    load.stdout.readline()
    run = Run("-q", "-i", "500ms", "--max-lost", "100", "--power", "off", "-u", "20127", "-o", "storm.jsonl")
    good = wait_until(has("storm.jsonl", '"start"'))
    load.stdin.write("go\n")
    load.stdin.flush()
    time.sleep(seconds / 3)
    early = anon_of(run.pid)
    words = load.stdout.readline()
    late = anon_of(run.pid)
    load.stdin.close()
    load.wait()
    time.sleep(0.7)
    code = run.end()
    made = dict(word.split("=") for word in words.split())
    rows = [r for r in records("storm.jsonl") if r["type"] == "interval"]
    mine = [p for r in rows for p in r["cpu"].get("processes", [])]
    told, cpu = sum(p["threads"] for p in mine), sum(p["cpu_ns"] for p in mine)
    threads, used = int(made["threads"]), int(made["cpu_ns"])
    lost = {}
    for r in rows:
        for key, value in r.get("lost", {}).items():
            lost[key] = lost.get(key, 0) + value
    untold = lost.get("cpu_deaths_untold", 0) + lost.get("cpu_dead_slot_reused", 0)
    # A thread that lives across the end of an interval ran in both.
    say(good and code == 0 and threads <= told + untold and told <= threads + 12 * len(rows),
        f"{name}: {threads / seconds:.0f} a second, {threads} made, {told} told, {untold} counted as lost",
        code, lost, run.talk())
    overflow = sum(r["cpu"].get("overflow_ns", 0) for r in rows)
    say(cpu + overflow >= 0.99 * used and cpu <= 1.01 * used + 5000 * threads,
        f"{name}: {used / 1e9:.2f} s of CPU time, {cpu / 1e9:.2f} s told", overflow, lost)
    say(late < early + (4 << 20), f"{name}: {early >> 20} MiB of memory before, {late >> 20} MiB at its end")


def anon_of(root):
    return sum(int(line.split()[1]) * 1024 for pid in family(root)
               for line in lines(f"/proc/{pid}/smaps_rollup") if line.startswith("Pss_Anon:"))


def full_map():
    """More tasks than have room: counted, exit code 3, and the sums are right."""
    run = Run("-q", "-a", "-i", "200ms", "-n", "8", "--net", "off", "--power", "off", "--tune", "hash", "--tune", "task-slots=8",
              "-o", "full.jsonl")
    crowd = [start("sh", "-c", "while :; do sleep 0.01; done") for _ in range(12)]
    code = run.process.wait(60)
    for child in crowd:
        finish(child)
    rows = [r for r in records("full.jsonl") if r["type"] == "interval"]
    lost = sum(r.get("lost", {}).get("cpu_task_map_full", 0) for r in rows)
    overflow = sum(r["cpu"].get("overflow_ns", 0) for r in rows)
    # Of the run: where an interval ends while its clocks are read, the next one has the rest.
    online = sum(r["cpu"]["online_cpus"] * r["dur_ns"] for r in rows[1:])
    off = abs(sum(r["cpu"]["busy_ns"] + r["cpu"]["idle_ns"] for r in rows[1:]) - online) / online
    say(code == 3 and lost > 0 and overflow > 0 and "more than --max-lost" in run.talk(),
        f"F14: a full map: {lost} tasks without room, exit code 3", code, lost, overflow, run.talk())
    say(off < 0.02, f"F14: busy and idle are the time that went by, within {100 * off:.2f} %")


def stopped_recorder():
    """The recorder does not read for five seconds: what its rings could not hold is counted."""
    load = subprocess.Popen([f"{APPS}/churn", "wait", "uid=20128", "threads=4000", "seconds=7"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    load.stdout.readline()
    run = Run("-q", "-i", "100ms", "--max-lost", "100", "--power", "off", "-u", "20128", "--tune",
              "death-ring=4K", "-o", "stopped.jsonl")
    wait_until(has("stopped.jsonl", '"start"'))
    load.stdin.write("go\n")
    load.stdin.flush()
    time.sleep(1)
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    run.process.send_signal(signal.SIGCONT)
    made = dict(word.split("=") for word in load.stdout.readline().split())
    load.stdin.close()
    load.wait()
    time.sleep(0.5)
    code = run.end()
    rows = [r for r in records("stopped.jsonl") if r["type"] == "interval"]
    told = sum(p["threads"] for r in rows for p in r["cpu"].get("processes", []))
    lost = {}
    for r in rows:
        for key, value in r.get("lost", {}).items():
            lost[key] = lost.get(key, 0) + value
    untold = lost.get("cpu_deaths_untold", 0) + lost.get("cpu_dead_slot_reused", 0)
    threads = int(made["threads"])
    gaps = [r for r in records("stopped.jsonl") if r.get("event") == "gap"]
    whole = rows[-1]["t_boot_ns"] - rows[0]["t_boot_ns"] - sum(r["dur_ns"] for r in rows[1:])
    # A dead thread stays readable until its number comes again: fewer of them than there are numbers
    # may all be told, and then none is lost.
    say(code == 0 and threads <= told + untold + 12 * len(rows) and (untold > 0 or told >= threads) and
        told <= threads + 12 * len(rows),
        f"F15: five seconds in which nobody reads: {threads} threads made, {told} told, {untold} counted as lost",
        code, lost, run.talk())
    say(len(gaps) == 1 and gaps[0]["dur_ns"] > 4.5e9 and abs(whole) < 1e8,
        "F15: it is one long interval, and told as such", gaps, whole)


# ---- F17 ----

def wall_clock():
    """A day ahead, a day back, 1970: told, and nothing goes by it."""
    clock = subprocess.Popen([f"{APPS}/own_clocks", JS, "record", *QUICK, "-p", str(os.getpid()), "--retain", "1h",
                              "--tune", "segment=64K", "-d", "6s", "-o", "clock/"], stdin=subprocess.PIPE, text=True)
    children.append(clock)
    # Before the first record: a device that boots without a clock.
    offsets = [-int(time.time()), 86400, 0, -86400, 0]
    for i, offset in enumerate(offsets):
        clock.stdin.write(f"wall {offset}\n")
        clock.stdin.flush()
        if not i:
            wait_until(lambda: os.path.isdir("clock") and len(folder_records("clock")) > 6)
        time.sleep(0.8)
    clock.stdin.close()
    code = clock.wait(30)
    rows = folder_records("clock")
    steps = [round(r["step_ns"] / 1e9) for r in rows if r.get("event") == "clock_jump"]
    wanted = [b - a for a, b in zip(offsets, offsets[1:])]
    spans = [r["dur_ns"] for r in rows if r["type"] == "interval"]
    year = time.gmtime(rows[0]["clock"]["unix_ns"] / 1e9).tm_year
    say(year == 1970 and len(steps) == len(wanted) and all(abs(a - b) < 2 for a, b in zip(steps, wanted)),
        f"F17: four steps of the wall clock from 1970 on, each told: {steps}", year, steps, wanted)
    gone = [r for r in rows if r.get("event") == "segments_removed"]
    times = [r["t_boot_ns"] for r in rows if r["type"] != "header"]  # each segment has that of the run
    done = verify("clock")
    say(code == 0 and abs(sum(spans) - 6e9) < 2e8 and not gone and done.returncode == 0 and
        times == sorted(times),
        f"F17: the run took its {sum(spans) / 1e9:.2f} s, removed nothing, and is in order", code, gone, done.stdout)


def negatives(value, path=""):
    """The key paths of all numbers below zero."""
    if isinstance(value, dict):
        return [p for key, one in value.items() for p in negatives(one, f"{path}.{key}")]
    if isinstance(value, list):
        return [p for one in value for p in negatives(one, path)]
    return [path] if isinstance(value, (int, float)) and value < 0 else []


def suspend():
    """The boot clock goes an hour ahead while CLOCK_MONOTONIC stands still, as in a suspend."""
    busy = start("python3", "-c", "while True: pass")
    clock = subprocess.Popen([f"{APPS}/own_clocks", JS, "record", *QUICK, "-p", str(busy.pid), "-o", "suspend.jsonl"],
                             stdin=subprocess.PIPE, text=True)
    children.append(clock)
    wait_until(has("suspend.jsonl", '"interval"'))
    for seconds in (3600, 7200):
        time.sleep(0.6)
        clock.stdin.write(f"boot {seconds}\n")
        clock.stdin.flush()
    time.sleep(0.6)
    recorder = next(iter(family(clock.pid) - {clock.pid}), 0)
    for pid in family(clock.pid):
        if read(f"/proc/{pid}/comm").strip() == "jankscope":
            recorder = pid
    os.kill(recorder, signal.SIGINT)
    code = clock.wait(30)
    finish(busy)
    rows = records("suspend.jsonl")
    intervals = [r for r in rows if r["type"] == "interval"]
    spans = [r["dur_ns"] for r in intervals]
    told = [r["dur_ns"] / 1e9 for r in rows if r.get("event") == "suspend"]
    # Between the ends of two intervals lie the second one and what was slept, and nothing else. Each
    # look at the boot clock waits for own_clocks here, which a busy machine may hold up. A look that
    # was late is made good by the next one; time that is missing stays so.
    off, end, slept = [], 0, 0
    for row in rows:
        slept += row["dur_ns"] if row.get("event") == "suspend" else 0
        if row["type"] == "interval":
            off += [row["t_boot_ns"] - end - row["dur_ns"] - slept] if end else []
            end, slept = row["t_boot_ns"], 0
    behind = list(itertools.accumulate(off))
    shift = statistics.median(behind[-5:]) - statistics.median(behind[:5]) if behind else 1e9
    say(code == 0 and len(told) == 2 and all(abs(t - 3600) < 0.01 for t in told) and max(spans) < 5e9 and
        abs(shift) < 5e7 and min(spans) > 0,
        f"F16: two suspends of an hour: told to {max(abs(t - 3600) for t in told) * 1e6 if told else 0:.0f} us, "
        f"no interval is longer than {max(spans) / 1e6:.0f} ms, and no time is missing",
        code, told, max(spans), shift, off)
    # The process ran on in each of them: what it did is of the time awake.
    tasks = [(r["dur_ns"], t) for r in intervals for t in r["cpu"].get("tasks", [])]
    sums = [(dur, t["cpu_ns"] + t.get("runnable_ns", 0) + t.get("sleeping_ns", 0)) for dur, t in tasks]
    # A busy machine reads the task some 100 ms later than the interval ended, and the next interval has
    # so much less; what was slept would be an hour more.
    longer = [(dur, ns) for dur, ns in sums if not 0 <= ns <= dur + 1e9]
    # Without sleeping_ns: while the task waits for a CPU that is what remains of an interval.
    awake = sum(t["cpu_ns"] + t.get("runnable_ns", 0) for _, t in tasks)
    if awake > sum(spans) + 1e8:
        longer.append(("in all", awake))
    used, summary = sum(t["cpu_ns"] for _, t in tasks), rows[-1]["summary"]
    wanted = 100 * used / sum(spans)
    # What is left of the CPUs' time may be less than nothing: their clocks are read one after the other.
    negative = [key for r in intervals for key in negatives(r) if key != ".cpu.unaccounted_ns"]
    say(tasks and not longer and not negative and wanted > 1 and summary["dur_ns"] == sum(spans) and
        abs(summary["targets"]["core_pct"] - wanted) < 0.01 * wanted,
        f"F16: a task that runs all the time has {summary['targets']['core_pct']:.1f} % of the time awake, "
        f"and in no interval more than that has", longer, negative, wanted, summary["targets"], summary["dur_ns"])
    # A run that ends by the boot clock ends when that has passed it.
    clock = subprocess.Popen([f"{APPS}/own_clocks", JS, "record", *QUICK[1:], "--daemon", "-d", "1h", "-p",
                              str(os.getpid()), "-o", "slept/"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    children.append(clock)
    clock.stdout.readline()
    clock.stdin.write("boot 3601\n")
    clock.stdin.flush()
    ended = wait_until(lambda: status("slept")["state"] == "ended", 10)
    say(ended and clock.wait(20) == 0, "F16: -d 1h ends when the machine slept through its end", status("slept"))


# ---- F19, F20, F26 ----

def rotations():
    """Many small segments: no line is lost or doubled."""
    wanted = 10000 if FULL else 40
    crowd = [start("sh", "-c", "while :; do sleep 0.01; done") for _ in range(40)]
    run = Run(*QUICK, "-a", "--net", "off", "--tune", "segment=64K", "-o", "new/")
    wait_until(lambda: os.path.isdir("new") and len(segments("new")) >= wanted, 7200 if FULL else 60)
    for child in crowd:
        finish(child)
    code = run.end()
    done = verify("new")
    seq, bad, count = 0, 0, 0
    for name in segments("new"):
        count += 1
        for line in content("new", name).split(b"\n")[:-1]:
            row = json.loads(line)
            if row["type"] != "header":
                seq += 1
                bad += row["seq"] != seq
    say(code == 0 and done.returncode == 0 and not bad and count >= wanted,
        f"F19: {count} segments hold seq 1 to {seq} once", code, bad, done.stdout[-500:], run.talk())


def hidden_proc():
    """A /proc that hides processes, and a target with an odd name and a huge command line."""
    odd = ") R 1 2\nZ ("
    code = (f"import ctypes, time\nctypes.CDLL(None).prctl(15, {odd!r}.encode(), 0, 0, 0)\n"
            "while True: sum(range(20000)); time.sleep(0.01)")
    target = start("python3", "-c", code + "\n#" + "x" * 100000)
    run = Run(*QUICK, "-p", str(target.pid), "-n", "12", "-o", "hidden.jsonl", before=(
        "unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"))
    ended = run.process.wait(60)
    finish(target)
    rows = records("hidden.jsonl")
    tasks = [t for r in rows if r["type"] == "interval" for t in r["cpu"].get("tasks", []) if t["tid"] == target.pid]
    say(ended == 0 and len(tasks) >= 8 and {t["thread"] for t in tasks[2:]} == {odd},
        f"F20: hidepid=2, a command line of 100 kB, a name of brackets and newlines: told in {len(tasks)} intervals",
        ended, tasks[:1], run.talk())
    missing = {key for r in rows for key in r.get("missing", {})}
    missing.discard("cpu.tasks.frequencies")  # of the machine: not each has cpufreq
    say(not any(key.startswith(("cpu.tasks", "cpu.processes")) for key in missing),
        "F20: nothing of the target's is missing", missing)


def no_memory():
    """The kernel kills the recorder for want of memory: another one goes on, and says so."""
    name = "F26: killed for want of memory"
    group = f"/sys/fs/cgroup/memory/jankscope-faults-{os.getpid()}"
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    if not os.path.isdir("/sys/fs/cgroup/memory"):
        mount = next((l.split()[1] for l in lines("/proc/mounts") if l.split()[2] == "cgroup2"), None)
        if not mount or "memory" not in read(f"{mount}/cgroup.controllers"):
            return skip(name, "this kernel counts no memory by cgroup")
        with open(f"{mount}/cgroup.subtree_control", "w") as file:
            file.write("+memory")
        group, names = f"{mount}/jankscope-faults-{os.getpid()}", ("memory.max", "memory.current")
    os.mkdir(group)

    def enter():
        with open(f"{group}/cgroup.procs", "w") as file:
            file.write("0")

    target = app(QA + "memory")
    started = subprocess.run([JS, "record", *QUICK[1:], "--daemon", "-p", QA + "memory", "-o", "memory/"], preexec_fn=enter,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True)
    state = status("memory")
    wait_until(lambda: status("memory").get("intervals", 0) > 20)
    # Whoever dies first is a helper, which is replaced; this test is about the recorder.
    with open(f"/proc/{state.get('pid', 0)}/oom_score_adj", "w") as file:
        file.write("1000")
    with open(f"{group}/{names[0]}", "w") as file:
        file.write(str(int(read(f"{group}/{names[1]}")) + (8 << 20)))
    hog = start("python3", "-c", "import time\nall = []\nwhile True:\n all.append(bytearray(1 << 18)); time.sleep(0.005)",
                preexec_fn=enter)
    killed = wait_until(lambda: not os.path.exists(f"/proc/{state['pid']}"), 30)
    finish(hog)
    with open(f"{group}/{names[0]}", "w") as file:
        file.write("-1" if names[0].endswith("bytes") else "max")
    again = wait_until(lambda: status("memory").get("recorder_restarts", 0) >= 1 and
                       status("memory")["state"] == "running", 30)
    end = subprocess.run([JS, "stop", "memory"], capture_output=True, text=True)
    finish(target)
    done = verify("memory")
    gaps = [r for r in folder_records("memory") if r.get("event") == "gap" and "from_boot_ns" in r]
    say(killed and again and gaps and "signal 9" in gaps[0]["reason"] and done.returncode == 0 and end.returncode == 0,
        f"{name}: another recorder goes on after {gaps[0]['dur_ns'] / 1e9 if gaps else 0:.1f} s, and what was there is whole",
        started.stdout + started.stderr, killed, again, gaps, done.stdout, end.stdout + end.stderr)
    wait_until(lambda: not remove(group), 10)


def remove(group):
    try:
        os.rmdir(group)
    except OSError:
        return True
    return False


def status(folder):
    done = subprocess.run([JS, "status", "--json", folder], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"state": "", "said": done.stderr}


# ---- power ----

def last_ns(rows):
    """Of the newest record. A segment that was just begun has the header alone, which is of the run's begin."""
    return max((row["t_boot_ns"] for row in rows if row["type"] != "header"), default=0)


def power_cut():
    """A disk that keeps what was synced and nothing else: a FUSE server (hang_fs). Names are kept by
    an fsync of the folder, bytes by one of the file. Twice: a segment in a few intervals, each of
    which is synced at its end; and one segment for all of the time, which is synced each 60 s."""
    for name, more, seconds in [("many segments", ["--tune", "segment=64K"], 6)] + \
            ([("one segment", [], random.uniform(65, 118))] if FULL or os.environ.get("ALL_FAULTS") else []):
        folder, kept = f"fuse-{len(more)}", f"kept-{len(more)}"
        os.mkdir(folder), os.mkdir(kept, 0o700)
        server = start(f"{APPS}/hang_fs", folder, "/etc/hostname", "40", "700", kept, stdin=subprocess.PIPE,
                       stdout=subprocess.PIPE)
        server.stdout.readline()
        run = Run(*QUICK, "-p", str(os.getpid()), *more, "-o", f"{folder}/")
        wait_until(lambda: segments(folder), 60)  # a busy machine takes seconds to begin
        begun = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        time.sleep(seconds)
        cut_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        server.send_signal(signal.SIGURG)
        server.stdout.readline()
        run.end(signal.SIGKILL)
        rows = folder_records(kept)
        lost_s = (cut_ns - last_ns(rows)) / 1e9
        again = Run(*QUICK, "-p", str(os.getpid()), "-n", "3", "-o", kept)
        code = again.process.wait(30)
        done = verify(kept)
        server.stdin.close()
        server.wait(30)
        subprocess.run(["umount", "-l", folder], capture_output=True, check=False)
        # 60 s, and the intervals in which the writer woke and the disk answered.
        say(rows and 0 < lost_s <= (60.5 if not more else seconds - 2) and code == 0 and done.returncode == 0 and
            "torn 0, damaged 0, missing 0 records, doubled 0" in done.stdout,
            f"a power cut after {seconds:.0f} s, {name}: of {(cut_ns - begun) / 1e9:.1f} s the last {lost_s:.1f} s "
            f"were lost, {len(rows)} records are there", lost_s, len(rows), code, done.stdout, again.talk(),
            sorted(os.listdir(kept)))
    power_cut_of_ext4()


def power_cut_of_ext4():
    """ext4 shuts down at once and writes nothing more, its journal neither (EXT4_IOC_SHUTDOWN with
    NOLOGFLUSH, as xfstests' godown): what the folder has after the next mount is at most 60 s old.
    The kernel's own writing back is slowed down, so that what is there is there by fdatasync."""
    name = "a power cut of ext4"
    with open("image", "wb") as file:
        file.truncate(64 << 20)
    os.mkdir("mount")
    options = "loop,commit=3000,nodelalloc"
    if subprocess.run(["mkfs.ext4", "-q", "-F", "image"], capture_output=True).returncode or \
            subprocess.run(["mount", "-o", options, "image", "mount"], capture_output=True).returncode:
        return skip(name, "no ext4 on a loop device here")
    run = Run(*QUICK, "-p", str(os.getpid()), "--tune", "segment=64K", "-o", "mount/new/")
    seconds = random.uniform(70, 110) if FULL else 5
    wait_until(lambda: os.path.isdir("mount/new") and segments("mount/new"), 60)
    time.sleep(seconds)
    folder = os.open("mount", os.O_RDONLY)
    cut_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    # _IOR('X', 125, __u32), EXT4_GOING_FLAGS_NOLOGFLUSH
    fcntl.ioctl(folder, 0x8004587d, struct.pack("I", 2))
    os.close(folder)
    run.end(signal.SIGKILL)
    # Its writer ends behind it. Mounted once more beside itself, it would be the one that is shut down.
    wait_until(lambda: subprocess.run(["umount", "mount"], capture_output=True).returncode == 0, 60)
    mounted = not os.path.ismount("mount") and \
        subprocess.run(["mount", "-o", "loop", "image", "mount"], capture_output=True).returncode == 0
    rows = folder_records("mount/new") if mounted and os.path.isdir("mount/new") else []
    lost_s = (cut_ns - last_ns(rows)) / 1e9
    again = Run(*QUICK, "-p", str(os.getpid()), "-n", "3", "-o", "mount/new/")
    code = again.process.wait(30)
    done = verify("mount/new")
    say(mounted and rows and lost_s <= 60.2 and code == 0 and done.returncode == 0,
        f"{name} after {seconds:.0f} s: {len(rows)} records are there, the last {lost_s:.1f} s were lost",
        mounted, lost_s, code, done.stdout, again.talk())


TESTS = {
    "renames": renames, "quota": quota, "dying": dying_targets, "restarting": restarting_target,
    "same_pid": same_pid, "storm": storm, "full_map": full_map, "stopped": stopped_recorder,
    "suspend": suspend, "wall_clock": wall_clock, "rotations": rotations, "hidden": hidden_proc, "memory": no_memory,
    "power": power_cut,
}
for test in sys.argv[2:] or TESTS:
    with tempfile.TemporaryDirectory(prefix="jankscope-faults-") as work:
        home, began = os.getcwd(), time.monotonic()
        os.chdir(work)
        try:
            TESTS[test]()
        except Exception as error:  # a test that breaks is a failure
            say(False, test, repr(error))
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
        children.clear()
        print(f"# {test}: {time.monotonic() - began:.1f} s", flush=True)
        os.chdir(home)
        subprocess.run(["umount", "-l", f"{work}/mount"], capture_output=True, check=False)
