#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What --keep makes of old segments, against what they held before; what is left of it when recorder
and writer are killed meanwhile; what report says of a run that has no footer; and whether --redact
leaves a name. Prints TAP.
usage: keep.py JANKSCOPE [NAME...]    FULL=1: 100 kills"""
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

JANKSCOPE = os.path.abspath(sys.argv[1])
FULL = os.environ.get("FULL") == "1"
QUICK = ["-q", "-i", "50ms", "--max-lost", "100"]
SLOW = ["-q", "-i", "1s", "--max-lost", "100"]


def say(good, name, detail=""):
    print(f"{'ok' if good else 'not ok'} - keep: {name}", flush=True)
    if not good and detail != "":
        for line in str(detail).splitlines()[:12]:
            print(f"# {line[:400]}", flush=True)
    return good


def wait_until(what, seconds=20, pause=0.05):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(pause)
    return False


def start(*arguments, **more):
    return subprocess.Popen([JANKSCOPE, "record", *arguments], stdin=subprocess.DEVNULL,
                            **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **more})


def writer_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/comm") as comm:
                    if comm.read().strip() == "jankscope-write":
                        return int(child)
    except FileNotFoundError:
        pass
    return 0


def lines(folder):
    """Of all segments, each once: one of the two files where a compression did not come to its end."""
    text = b""
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"\d{8}\.jsonl(\.zst)?", name))
    for name in names:
        path = os.path.join(folder, name)
        if not name.endswith(".zst"):
            text += open(path, "rb").read()
        elif name[:-4] not in names:
            text += subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout
    return text.split(b"\n")[:-1]


def verify(folder):
    return subprocess.run([JANKSCOPE, "verify", folder], capture_output=True, text=True)


# What is no sum, by its key; all other whole numbers of an interval are.
NO_SUMS = {"type", "seq", "t_boot_ns", "crc", "pid", "tid", "uid", "start_boot_ns", "online_cpus",
           "threads", "resolution_ns", "stop_max_ns", "anon_bytes", "memory_bytes", "cpu",
           "begin_boot_ns", "first", "last", "merged", "power", "memory", "context", "missing",
           "cluster", "khz", "max_khz", "capacity"}


def add_up(value, path, sums):
    if isinstance(value, dict):
        who = "".join(f"[{value[key]}]" for key in ("tid", "pid", "uid", "start_boot_ns")
                      if key in value)
        for key, part in value.items():
            if key not in NO_SUMS or (key == "cpu" and isinstance(part, dict)):
                add_up(part, f"{path}{who}.{key}", sums)
    elif isinstance(value, list):
        for part in value:
            add_up(part, path, sums)
    elif isinstance(value, int) and not isinstance(value, bool):
        sums[path] += value


def account(folder, session):
    """Sums of every number of the intervals of a run, which seq they have, and all other lines."""
    sums, seqs, others, intervals, ours = collections.Counter(), [], [], 0, False
    for line in lines(folder):
        row = json.loads(line)
        if row["type"] == "header":
            ours = row["session"] == session
            continue
        if not ours:
            continue
        if row["type"] != "interval":
            others.append(line)
            continue
        intervals += 1
        add_up(row, "", sums)
        ranges = row.get("merged", {}).get("seqs", [{"first": row["seq"], "last": row["seq"]}])
        for one in ranges:
            seqs += range(one["first"], one["last"] + 1)
    return sums, seqs, others, intervals


def intervals_of(folder, session):
    """How many there are by now in a folder that is being written; many while a file is replaced."""
    try:
        return account(folder, session)[3]
    except (FileNotFoundError, subprocess.CalledProcessError):
        return 1 << 30


def first_session(folder):
    return json.loads(lines(folder)[0])["session"]


def compare(name, before, after, done):
    sums, seqs, others, count = before
    sums2, seqs2, others2, count2 = after
    wrong = [f"{key}: {sums[key]} was, {sums2[key]} is" for key in sums.keys() | sums2.keys()
             if sums[key] != sums2[key]]
    lost = set(seqs) - set(seqs2)
    twice = len(seqs2) - len(set(seqs2))
    return say(not wrong and not lost and not twice and others == others2 and done.returncode == 0,
               name.format(was=count, now=count2, sums=len(sums)),
               "\n".join([f"lost {sorted(lost)[:9]} twice {twice} others {len(others)} "
                          f"{len(others2)} verify {done.returncode}", *wrong[:5], done.stdout]))


KEEP = ["--keep", "50ms:1s,500ms:1500ms,1s:1h"]


def record_some(folder, intervals):
    """A folder with several segments, each of some intervals, and a copy of it."""
    run = start(*QUICK, "-n", str(intervals), "--tune", "segment=256K", "-o", folder + "/")
    run.communicate()
    shutil.copytree(folder, folder + ".before")
    return account(folder, first_session(folder))


def keeps():
    before = record_some("new", 60)
    session = first_session("new")
    run = start(*SLOW, *KEEP, "--tune", "segment=256K", "-o", "new")
    # The thread that merges has the lowest priority, and compresses first what is new: a busy machine
    # lets it wait. To count is work as well.
    wait_until(lambda: intervals_of("new", session) < before[3] / 3, 60, 3)
    run.send_signal(signal.SIGINT)
    code = run.wait()
    done = verify("new")
    after = account("new", session)
    say(code == 0, "a recorder that merges ends well", run.stderr.read().decode())
    compare("{was} intervals became {now}: all {sums} sums are the same, each seq is there once, all "
            "other lines are the same bytes, verify: 0", before, after, done)
    say(after[3] < before[3] / 3, f"{before[3]} intervals are {after[3]} now")
    report = subprocess.run([JANKSCOPE, "report", "new"], capture_output=True, text=True)
    say(report.returncode == 0 and not report.stderr, "report reads it without a complaint",
        report.stderr)
    again = start(*SLOW, "--keep", "50ms:1s,500ms:2s,2s:1h", "-o", "new")
    wait_until(lambda: intervals_of("new", session) < after[3], 60, 3)
    again.send_signal(signal.SIGINT)
    again.wait()
    coarser = account("new", session)
    compare("merged once more, {was} to {now}", before, coarser, verify("new"))
    say(coarser[3] < after[3], f"{after[3]} intervals are {coarser[3]} at 2 s")
    wrong = [usage for usage in ("1s", "1s:", "1s:1m,1s:2m", "1s:1m,10s:1m", "10s:1m,15s:2m", "x:y")
             if start("--keep", usage, "-o", "new", "-n", "1").wait() != 2]
    say(not wrong, "a rule that makes no sense is refused with 2", wrong)


def kills():
    """SIGKILL of both while segments are rewritten: nothing is lost, nothing is there twice."""
    before = record_some("new", 40)
    session, random_ = first_session("new"), random.Random(9)
    for turn in range(100 if FULL else 4):
        if turn % 5 == 4:  # begin again
            shutil.rmtree("new")
            shutil.copytree("new.before", "new")
        run = start(*QUICK, *KEEP, "-o", "new", stderr=subprocess.DEVNULL)
        wait_until(lambda pid=run.pid: writer_of(pid), 10)
        time.sleep(random_.uniform(0, 0.6))
        for pid in (run.pid, writer_of(run.pid)):
            if pid:
                os.kill(pid, signal.SIGKILL)
        run.wait()
        after = account("new", session)
        if after[0] != before[0] or sorted(after[1]) != sorted(before[1]) or after[2] != before[2]:
            return compare(f"after kill {turn}", before, after, verify("new"))
    start(*QUICK, *KEEP, "-n", "70", "-o", "new").wait()
    return compare("killed again and again while {was} intervals became {now}: nothing is lost or "
                   "doubled, verify: 0", before, account("new", session), verify("new"))


def no_footer():
    """A run whose recorder and writer were killed: report makes the summary of its records."""
    run = start(*QUICK, "-o", "new/", stderr=subprocess.DEVNULL)
    wait_until(lambda: os.path.isdir("new") and len(lines("new")) > 25)
    victims = [run.pid, writer_of(run.pid)]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    run.wait()
    rows = [json.loads(line) for line in lines("new")]
    busy = sum(row["cpu"]["busy_ns"] for row in rows if "cpu" in row) / 1e9
    report = subprocess.run([JANKSCOPE, "report", "-v", "new"], capture_output=True, text=True)
    csv = subprocess.run([JANKSCOPE, "report", "--csv", "-", "new"], capture_output=True, text=True)
    say(report.returncode == 3 and "not written to its end" in report.stdout and
        f"{busy:.3f} s" in report.stdout and "missing footer:" in report.stdout,
        f"report adds up what a killed run left ({busy:.3f} s busy), and says so",
        report.stdout + report.stderr)
    say(any(re.search(r"\bfooter\b.*cpu\.busy_ns", line) for line in csv.stdout.splitlines()),
        "so does --csv", "\n".join(csv.stdout.splitlines()[-3:]))
    # The next run in the folder explains the end of this one, and has a summary of its own.
    start(*QUICK, "-n", "3", "-o", "new").wait()
    both = subprocess.run([JANKSCOPE, "report", "new"], capture_output=True, text=True)
    say(both.returncode == 0 and both.stdout.count("What they make") == 1 and
        len(re.findall("^summary:", both.stdout, re.M)) == 2, "two runs, two summaries, one of them made up",
        both.stdout + both.stderr)


def foresees(what, arguments, path, pack):
    """One run of -a: the bytes a day that it foresees against those that it takes. Others may begin or
    end much work in between: then it is run again, five times at most."""
    for _ in range(5):
        run = start("-a", "-q", "-i", "500ms", "--net", "off", *arguments, "-o", path)
        said = run.communicate()[1].decode()
        head, *rows = lines(path) if path.endswith("/") else open(path, "rb").read().split(b"\n")[:-1]
        foreseen = json.loads(head)["estimate"]
        intervals = [row for row in rows if b'"type":"interval"' in row]
        day = len(pack(b"\n".join(intervals))) / len(intervals) * 2 * 86400
        active = sorted(len(json.loads(row)["cpu"]["tasks"]) for row in intervals)[len(intervals) // 2]
        if foreseen["active_threads"] / 4 < active < foreseen["active_threads"] * 2:
            break
        print(f"# estimate: {foreseen['active_threads']} threads foreseen, {active} came: once more")
        shutil.rmtree(path) if path.endswith("/") else os.unlink(path)
    say(day / 3 < foreseen["bytes_per_day"] < day * 3 and "a day: " in said,
        f"-a foresees {foreseen['bytes_per_day'] / day:.2f} times what {what} takes: {said.strip()}",
        f"{foreseen} {day:.0f}")


def estimate():
    """-a says what a day will take: within a factor of 3 of what a run takes, as text and packed."""
    foresees("a file", ["-n", "5"], "all.jsonl", lambda text: text)
    foresees("a folder", ["-n", "9"], "new/",
             lambda text: subprocess.run(["zstd", "-8", "-qc"], input=text, capture_output=True, check=True).stdout)


PROGRAM = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
def work(name):
    libc.prctl(15, name, 0, 0, 0)
    while True:
        sum(range(20000)); time.sleep(0.01)
for i in range(3):
    threading.Thread(target=work, args=(b"quagga-thread%d" % i,), daemon=True).start()
libc.prctl(15, b"quagga-main", 0, 0, 0)
time.sleep(40)
"""


def names_of(rows):
    """Whatever a record calls a process, a package, a thread, a symbol or a file."""
    found = set()

    def walk(value, key=""):
        if isinstance(value, dict):
            for name, part in value.items():
                walk(part, name)
        elif isinstance(value, list):
            for part in value:
                walk(part, key)
        elif isinstance(value, str) and key in ("process", "package", "thread", "symbol", "module",
                                                "layer", "path", "waker", "name"):
            found.add(value)
    for row in rows:
        if row["type"] != "header":
            walk(row)
    return {name for name in found if len(name) > 3}


def redacted():
    """Every output of two runs: no name of the first one is in the second one."""
    with open("quagga-program.py", "w") as file:
        file.write(PROGRAM)
    os.symlink(sys.executable, "quagga-python")
    app = subprocess.Popen(["./quagga-python", "quagga-program.py"])
    try:
        time.sleep(0.3)
        args = ["record", "-p", "quagga-*", "-i", "200ms", "-n", "8", "--block", "100ms",
                "--wait", "5s", "--max-lost", "100", "-v", "--alert", "cpu.processes.cpu_ns > 1us",
                "--alert", "cpu.tasks.cpu_ns > 999h"]
        plain = subprocess.run([JANKSCOPE, *args, "-o", "plain.jsonl"], capture_output=True)
        hidden = subprocess.run([JANKSCOPE, *args, "--redact", "-o", "hidden.jsonl"],
                                capture_output=True)
        late = subprocess.run([JANKSCOPE, "record", "-p", "quagga-nobody", "--redact", "--wait",
                               "200ms"], capture_output=True)
        keyed = [subprocess.run([JANKSCOPE, "record", "-p", str(app.pid), "-i", "100ms", "-n", "2",
                                 "-q", "--redact-key", "the.key", "-o", f"{n}.jsonl"],
                                capture_output=True) for n in range(2)]
    finally:
        app.kill()
        app.wait()
    rows = [json.loads(line) for line in open("plain.jsonl")]
    names = names_of(rows)
    say(plain.returncode == 0 and any("quagga" in name for name in names),
        f"a run without --redact has {len(names)} names", plain.stderr.decode())
    text = open("hidden.jsonl", "rb").read() + hidden.stdout + hidden.stderr + late.stderr
    left = sorted(name for name in names if name.encode() in text and name not in VOCABULARY)
    say(hidden.returncode == 0 and not left and b"quagga" not in text,
        "none of them is in the records, the table or on stderr of a run with it",
        f"{left}\n{hidden.stderr.decode()}\n" +
        "\n".join(line[:300] for line in text.decode().splitlines() if "quagga" in line))
    hashes = collections.Counter(re.findall(rb"#[0-9a-f]{12}", open("hidden.jsonl", "rb").read()))
    say(len(hashes) >= 4 and max(hashes.values()) > 8, f"{len(hashes)} hashes stand for them")
    done = verify("hidden.jsonl")
    say(done.returncode == 0, "verify finds it whole", done.stdout + done.stderr)
    both = [set(re.findall(rb"#[0-9a-f]{12}", open(f"{n}.jsonl", "rb").read())) for n in range(2)]
    say(both[0] & both[1] and os.stat("the.key").st_mode & 0o777 == 0o600 and
        not both[0] & set(hashes), "with --redact-key two runs have the same hashes, else other ones",
        f"{keyed[0].stderr} {keyed[1].stderr}")
    os.chmod("the.key", 0o644)
    seen = subprocess.run([JANKSCOPE, "record", "-n", "1", "--redact-key", "the.key"],
                          capture_output=True)
    open("no.key", "w").write("short\n")
    os.chmod("no.key", 0o600)
    bad = subprocess.run([JANKSCOPE, "record", "-n", "1", "--redact-key", "no.key"],
                         capture_output=True)
    say(seen.returncode == 2 and bad.returncode == 2, "a key that others may read, or that is none, is "
        "refused", f"{seen.stderr} {bad.stderr}")


# Names that are words of ours as well.
VOCABULARY = {"main", "stat", "self", "poll"}

TESTS = {"keeps": keeps, "kills": kills, "no_footer": no_footer, "estimate": estimate, "redacted": redacted}
for test in sys.argv[2:] or TESTS:
    with tempfile.TemporaryDirectory(prefix="jankscope-keep-") as folder:
        home = os.getcwd()
        os.chdir(folder)
        begin = time.monotonic()
        try:
            TESTS[test]()
        except Exception as error:  # a test that breaks is a failure
            say(False, test, repr(error))
        print(f"# {test}: {time.monotonic() - begin:.1f} s", flush=True)
        os.chdir(home)
