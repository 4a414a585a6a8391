#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Outputs that nobody reads, disks that hang, files that others planted, signals: the recorder goes
on in time, ends within a second and counts what it could not write. Prints TAP.
usage: outputs.py JANKSCOPE HANG_FS [NAME...]"""
import fcntl
import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time

JANKSCOPE = os.path.abspath(sys.argv[1])
HANG_FS = os.path.abspath(sys.argv[2])
CHECK = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                      "check_records.py")]
LOSS = ["--max-lost", "100"]


def say(good, name, detail=""):
    print(f"{'ok' if good else 'not ok'} - outputs: {name}", flush=True)
    if not good and detail != "":
        for line in str(detail).splitlines()[:8]:
            print(f"# {line[:300]}", flush=True)
    return good


def records(path):
    """The whole lines of a recording."""
    with open(path, "rb") as file:
        return [json.loads(line) for line in file.read().split(b"\n")[:-1]]


def intervals(path):
    return [record for record in records(path) if record["type"] == "interval"]


def whole(path, *flags):
    done = subprocess.run([*CHECK, *flags, path], capture_output=True, text=True)
    return done.returncode == 0, done.stdout


def wait_until(what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def has_lines(path, count):
    return lambda: os.path.exists(path) and open(path, "rb").read().count(b"\n") >= count


def run_delay(pid):
    """Seconds in which a process (its first thread) was ready and the machine ran others."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0


class Run:
    """A recorder; `late` is the time from the signal to its end, which its parent sees, without that
    in which it was ready and got no CPU: that is the machine's. `delay` is the same of the run."""

    def __init__(self, *arguments, **streams):
        self.err = tempfile.TemporaryFile("w+")
        streams.setdefault("stderr", self.err)
        streams.setdefault("stdin", subprocess.DEVNULL)
        streams.setdefault("stdout", subprocess.DEVNULL)
        self.process = subprocess.Popen([JANKSCOPE, "record", *LOSS, *arguments], **streams)
        self.pid = self.process.pid

    def writers(self):
        """Its writing processes, while it is their parent."""
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
            pids = [int(pid) for pid in file.read().split()]
        return [pid for pid in pids if comm(pid) == "jankscope-write"]

    def end(self, number=signal.SIGINT, limit=10):
        begin = time.monotonic()
        before = run_delay(self.pid)
        self.process.send_signal(number)
        ended = wait_until(lambda: os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT |
                                             os.WNOHANG), limit)
        self.delay = run_delay(self.pid)
        self.late = time.monotonic() - begin - (self.delay - before)
        self.code = None
        if ended:
            self.code = self.process.wait()
        else:
            self.process.kill()
        return self.code

    def talk(self):
        """What it said on stderr but for what -a is expected to take."""
        self.err.seek(0)
        return re.sub("^jankscope: info: about .* a day: .*\n", "", self.err.read(), flags=re.M)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


class Sleepers:
    """A process with many threads that run now and then: large records."""
    CODE = """if 1:
        import sys, threading, time
        def rest():
            while True: time.sleep(0.04)
        for _ in range(int(sys.argv[1])): threading.Thread(target=rest, daemon=True).start()
        print("ready", flush=True)
        sys.stdin.read()"""

    def __init__(self, count):
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE, str(count)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


class HangFs:
    """A file system that stops answering."""

    def __init__(self, where):
        self.where = os.path.join(where, "mount")
        os.mkdir(self.where)
        self.process = subprocess.Popen([HANG_FS, self.where, "/etc/hostname", "40"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ready = self.process.stdout.readline().startswith(b"ready")

    def __enter__(self):
        return self

    def hang(self):
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(0.1)

    def go_on(self):
        self.process.send_signal(signal.SIGUSR2)

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def in_time(path, run, interval_s):
    """Whether no interval was held up, and how long they are. Ready without a CPU is no hold-up."""
    lengths = [record["dur_ns"] / 1e9 for record in intervals(path)]
    longest = max(lengths, default=0)
    good = sum(lengths) > 20 * interval_s and longest - run.delay < 0.4
    return good, (f"{sum(lengths):.1f} s, the longest interval of {interval_s} s took {longest:.2f} s, "
                  f"{run.delay:.1f} s without a CPU")


def pipe_that_stops(kind):
    """A reader of stdout takes a little and stops, as less does."""
    reader, writer = os.pipe() if kind == "pipe" else [end.detach() for end in socket.socketpair()]
    with Sleepers(150):
        run = Run("-i", "50ms", "--top", "1000", "-o", "x.jsonl", stdout=writer)
        os.close(writer)
        os.read(reader, 100)
        wait_until(has_lines("x.jsonl", 100), 30)
        code = run.end()
    good, told = in_time("x.jsonl", run, 0.05)
    say(good, f"{kind} that is not read: the recording goes on ({told})", run.talk())
    say(code == 0 and run.late < 1, f"{kind} that is not read: ends {run.late:.2f} s after SIGINT",
        f"code {code}\n{run.talk()}")
    good, told = whole("x.jsonl", "--footer")
    footer = records("x.jsonl")[-1]
    say(good and footer["summary"].get("tables_dropped", 0) > 10 and
        not {"tables_dropped", "records_dropped"} & set(footer["lost"]),
        f"{kind} that is not read: the footer counts the tables, and no loss",
        f"{told}{footer['summary'].get('tables_dropped')} {footer['lost']}")
    say(len(re.findall("^jankscope: warn: [0-9]+ records were not printed: stdout was not read$",
                       run.talk(), re.M)) == 1, f"{kind} that is not read: said once on stderr",
        run.talk())
    os.close(reader)


def reader_that_comes_back():
    """What was not printed is named in the next table, and no table is cut."""
    reader, writer = os.pipe()
    text = []
    with Sleepers(150):
        run = Run("-i", "50ms", "--top", "1000", "-o", "x.jsonl", stdout=writer)
        os.close(writer)
        os.read(reader, 100)
        wait_until(has_lines("x.jsonl", 100), 30)

        def read():
            while True:
                part = os.read(reader, 65536)
                if not part:
                    return
                text.append(part)

        thread = threading.Thread(target=read)
        thread.start()
        wait_until(has_lines("x.jsonl", 125), 30)
        code = run.end()
    thread.join(20)
    lines = b"".join(text).decode().splitlines()
    named = [re.search(r"\.\.\. (\d+) intervals( and \d+ other records)? were not printed: stdout "
                       "was not read", line) for line in lines]
    missed = sum(int(match[1]) for match in named if match)
    printed = len([line for line in lines if re.match(r"\d\d:\d\d:\d\dZ  [0-9.]+ s  busy", line)])
    # Behind a long list of losses it is on a line of its own.
    ended = len([line for line in lines if re.search(r"self: [0-9.]+ ms CPU(?! \()", line)])
    made = len(intervals("x.jsonl"))
    # The first 100 bytes were of the header.
    say(missed > 10 and printed + missed == made and ended == printed,
        f"a reader that comes back: {printed} printed + {missed} named = {made} intervals, each whole",
        f"{ended} ended\n" + "\n".join(line for line in lines if "..." in line))
    say(code == 0 and any(line.startswith("summary: ") for line in lines),
        "a reader that comes back gets the summary", run.talk())
    os.close(reader)


def terminal_under_ctrl_s():
    """Output of a terminal stopped by the user, with stderr on it too."""
    master, slave = pty.openpty()
    with Sleepers(150):
        run = Run("-i", "50ms", "--top", "1000", "-o", "x.jsonl", stdout=slave, stderr=slave)
        wait_until(has_lines("x.jsonl", 3))
        os.write(master, b"\x13")
        wait_until(has_lines("x.jsonl", 100), 30)
        writers = run.writers()
        code = run.end()
    good, told = in_time("x.jsonl", run, 0.05)
    say(good, f"a terminal under Ctrl-S: the recording goes on ({told})")
    say(code == 0 and run.late < 1 and whole("x.jsonl", "--footer")[0],
        f"a terminal under Ctrl-S: ends {run.late:.2f} s after SIGINT, the recording is whole",
        f"code {code}")
    say(wait_until(lambda: not any(comm(pid) == "jankscope-write" for pid in writers), 5),
        "a terminal under Ctrl-S: no process stays on it")
    os.close(slave)
    os.close(master)


def records_not_read():
    """--json on a stdout that nobody reads loses records, by name."""
    reader, writer = os.pipe()
    with Sleepers(400):
        run = Run("-i", "50ms", "--json", "-o", "x.jsonl", stdout=writer)
        os.close(writer)
        dropped = wait_until(lambda: os.path.exists("x.jsonl") and
                             b'"records_dropped"' in open("x.jsonl", "rb").read(), 40)
        code = run.end()
    footer = records("x.jsonl")[-1]
    say(dropped and footer["type"] == "footer" and footer["lost"].get("records_dropped", 0) > 0 and
        footer["summary"]["lost_pct_of"]["records"] > 0 and footer["summary"]["lost_pct"] > 0,
        "records that are not read are lost by name", footer["lost"])
    say(code == 1 and run.late < 1 and "records could not be written" in run.talk(),
        f"records that are not read: said, exit 1, {run.late:.2f} s after SIGINT",
        f"{code} {run.talk()}")
    good, told = in_time("x.jsonl", run, 0.05)
    say(good, f"records that are not read: -o goes on ({told})")
    # What was queued is whole lines, and the writer ends with its reader.
    os.close(reader)


def disk_that_hangs():
    with HangFs(os.getcwd()) as disk:
        path = os.path.join(disk.where, "x.jsonl")
        with open("good.jsonl", "wb") as good:
            # One target: with the rows of a busy machine's tasks the queue would be full.
            run = Run("-i", "100ms", "-p", str(os.getpid()), "--json", "-o", path, stdout=good)
            if not say(disk.ready and wait_until(has_lines(path, 4)), "a disk that works",
                       run.talk()):
                run.end()
                return
            writers = run.writers()
            disk.hang()
            wait_until(has_lines("good.jsonl", 30), 15)
            code = run.end()
        good, told = in_time("good.jsonl", run, 0.1)
        say(good, f"a disk that hangs: intervals stay in time ({told})", run.talk())
        say(code == 1 and run.late < 1 and whole("good.jsonl", "--footer")[0],
            f"a disk that hangs: ends {run.late:.2f} s after SIGINT, the other output is whole",
            f"code {code}\n{run.talk()}")
        say(re.search(r"^jankscope: error: cannot write .*x.jsonl: it hangs; \d+ records could not "
                      "be written$", run.talk(), re.M) and run.talk().count("\n") == 1,
            "a disk that hangs: one line says how many records", run.talk())
        disk.go_on()
        say(wait_until(lambda: not any(comm(pid) == "jankscope-write" for pid in writers)),
            "a disk that works again: the writer ends")
        good, told = whole(path, "--footer")
        say(good, "a disk that works again has the whole recording", told)


def stdout_on_a_disk_that_hangs():
    """A shell's redirection to such a disk: the recorder keeps no descriptor of it."""
    with HangFs(os.getcwd()) as disk:
        path = os.path.join(disk.where, "x.txt")
        with open(path, "wb") as out:
            run = Run("-i", "100ms", "-o", "x.jsonl", stdout=out)
        wait_until(has_lines("x.jsonl", 4))
        writers = run.writers()
        disk.hang()
        time.sleep(1)
        code = run.end()
        say(code == 0 and run.late < 1 and whole("x.jsonl", "--footer")[0],
            f"stdout on a disk that hangs: ends {run.late:.2f} s after SIGINT",
            f"code {code}\n{run.talk()}")
        disk.go_on()
        say(wait_until(lambda: not any(comm(pid) == "jankscope-write" for pid in writers)) and
            "summary: " in open(path).read(), "stdout on a disk that works again has the summary")


def disk_that_hangs_long():
    """More than the queue holds: whole records are dropped, counted, and seen by the reader."""
    with HangFs(os.getcwd()) as disk, Sleepers(400):
        path = os.path.join(disk.where, "x.jsonl")
        reader, writer = os.pipe()
        run = Run("-q", "-i", "50ms", "--max-lost", "1", "-o", path)
        wait_until(has_lines(path, 4))
        disk.hang()
        peak, begin = 0, time.monotonic()
        # Until the queue is full, and for a while after that.
        full = 0
        while full < 6 and time.monotonic() < begin + 32:
            time.sleep(0.5)
            full += peak > 8000
            with open(f"/proc/{run.pid}/status") as file:
                rss = dict(line.split(":", 1) for line in file)
            peak = max(peak, int(rss["RssShmem"].split()[0]))
        disk.go_on()
        time.sleep(1)
        code = run.end()
        os.close(reader)
        os.close(writer)
        lines = records(path)
        footer = lines[-1]
        dropped = footer["lost"].get("records_dropped", 0) if footer["type"] == "footer" else 0
        gap = footer["seq"] + 1 - len(lines)
        say(dropped > 0 and gap == dropped,
            f"a disk that hangs long: {dropped} dropped, {gap} missing by seq", run.talk())
        say(code == 3 and "records were dropped: writing took too long" in run.talk() and
            re.search("% of records was lost, more than --max-lost", run.talk()),
            "a disk that hangs long: exit 3, and why", f"{code} {run.talk()}")
        say(peak < 10 * 1024, f"a disk that hangs long: {peak} KiB are held back at the most")
        report = subprocess.run([JANKSCOPE, "report", "--folded", "/dev/null", path],
                                capture_output=True, text=True)
        say(report.returncode == 3 and re.search(r"missing: [0-9]+ records", report.stderr),
            "a disk that hangs long: report names the gap", report.stderr)


def disk_that_hangs_before():
    """Ctrl-C works while the file is being opened."""
    with HangFs(os.getcwd()) as disk:
        disk.hang()
        run = Run("-q", "-o", os.path.join(disk.where, "x.jsonl"))
        time.sleep(0.5)
        writers = run.writers()
        run.end()
        say(run.code is not None and run.late < 1,
            f"a disk that hangs at the begin: ends {run.late:.2f} s after SIGINT", run.code)
        disk.go_on()
        say(wait_until(lambda: not any(comm(pid) == "jankscope-write" for pid in writers), 5),
            "a disk that hangs at the begin: no process stays")


def small_disk():
    """ENOSPC is said when it happens, not at the next record."""
    os.mkdir("small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", "small"], check=True)
    try:
        with open("small/fill", "wb") as file:
            file.write(b"x" * 12288)
        with Sleepers(60):
            run = Run("-q", "-i", "200ms", "-o", "small/x.jsonl")
            try:
                code = run.process.wait(10)
            except subprocess.TimeoutExpired:
                run.end()
                code = None
        kept = os.path.getsize("small/x.jsonl")
        say(code == 1 and f"No space left on device; {kept} bytes of whole records are kept" in
            run.talk() and whole("small/x.jsonl")[0], f"a full disk: {kept} bytes of whole lines",
            run.talk())
    finally:
        subprocess.run(["umount", "-l", "small"], check=False)


def planted_files():
    with open("victim", "w") as file:
        file.write("precious\n")
    os.chmod("victim", 0o644)
    os.symlink("victim", "planted.jsonl")
    os.link("victim", "hard.jsonl")
    for flags in [], ["--overwrite"]:
        for name in "planted.jsonl", "hard.jsonl":
            if name == "hard.jsonl" and not flags:
                continue
            run = Run("-q", "-n", "1", "-i", "50ms", *flags, "-o", name)
            code = run.process.wait()
            say(code == 2 and run.talk().count("\n") == 1 and open("victim").read() == "precious\n",
                f"{name} {' '.join(flags)}: refused, and nothing is written", f"{code} {run.talk()}")
    run = Run("-q", "-n", "1", "-i", "50ms", "-o", "victim")
    code = run.process.wait()
    say(code == 2 and "exists" in run.talk() and open("victim").read() == "precious\n",
        "a file that exists is refused", f"{code} {run.talk()}")
    os.umask(0)
    run = Run("-q", "-n", "1", "-i", "50ms", "-o", "new.jsonl")
    code = run.process.wait()
    mode = stat.S_IMODE(os.stat("new.jsonl").st_mode)
    say(code == 0 and mode == 0o600, f"a recording is for its owner only ({mode:o})", run.talk())
    os.chmod("new.jsonl", 0o666)
    run = Run("-q", "-n", "2", "-i", "50ms", "--overwrite", "-o", "new.jsonl")
    code = run.process.wait()
    mode = stat.S_IMODE(os.stat("new.jsonl").st_mode)
    say(code == 0 and mode == 0o600 and len(intervals("new.jsonl")) == 2,
        "--overwrite replaces one of ours", f"{mode:o} {run.talk()}")
    os.chown("new.jsonl", 12345, 12345)
    run = Run("-q", "-n", "1", "-i", "50ms", "--overwrite", "-o", "new.jsonl")
    code = run.process.wait()
    say(code == 2 and "another user" in run.talk() and len(intervals("new.jsonl")) == 2,
        "--overwrite refuses a file of another user", f"{code} {run.talk()}")


def two_recorders():
    run = Run("-q", "-i", "50ms", "-o", "x.jsonl")
    wait_until(has_lines("x.jsonl", 3))
    for flags in [], ["--overwrite"]:
        other = Run("-q", "-n", "2", "-i", "50ms", *flags, "-o", "x.jsonl")
        code = other.process.wait()
        say(code == 2 and "is being written by another jankscope" in other.talk(),
            f"two recorders on one file {' '.join(flags)}: the second is refused",
            f"{code} {other.talk()}")
    code = run.end()
    good, told = whole("x.jsonl", "--footer")
    say(code == 0 and good, "two recorders on one file: the first is whole", told)


def other_signals():
    """Signals that would end a process by default, and a first one that comes at any time."""
    run = Run("-q", "-i", "50ms", "-o", "x.jsonl")
    wait_until(has_lines("x.jsonl", 3))
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGPIPE, signal.SIGVTALRM,
                   signal.SIGPROF, signal.SIGIO, signal.SIGXFSZ, signal.SIGRTMIN + 3):
        run.process.send_signal(number)
    time.sleep(0.5)
    alive = run.process.poll() is None
    code = run.end()
    say(alive and code == 0 and whole("x.jsonl", "--footer")[0],
        "SIGUSR1 and its like end nothing", f"alive {alive} code {code}")
    # The whole group, as Ctrl-C in a terminal does.
    run = Run("-q", "-i", "50ms", "-o", "y.jsonl", start_new_session=True)
    wait_until(has_lines("y.jsonl", 3))
    os.killpg(run.pid, signal.SIGINT)
    code = run.process.wait(10)
    say(code == 0 and whole("y.jsonl", "--footer")[0], "Ctrl-C reaches all processes: footer and 0",
        f"{code} {run.talk()}")


def blocks_hangup(pid):
    """Whether SIGHUP waits for the recorder to take it, as before the first signal."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"^SigBlk:\s*(\w+)", file.read(), re.M)[1], 16) >> signal.SIGHUP - 1 & 1


def hangups():
    """A terminal that goes away: the kernel tells the group in front, the shell passes it on to its
    jobs, and the kernel tells them again when the shell has ended."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, 1031, 4096)  # F_SETPIPE_SZ
    with Sleepers(150):
        run = Run("-i", "50ms", "--top", "1000", "-o", "x.jsonl", stdout=writer,
                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        os.close(writer)
        wait_until(has_lines("x.jsonl", 20))
        run.process.send_signal(signal.SIGHUP)
        # Its table is stuck: it waits for that while the second one comes.
        taken = wait_until(lambda: not blocks_hangup(run.pid), 5)
        alive = run.process.poll() is None
        run.process.send_signal(signal.SIGHUP)
        code = run.process.wait(10)
    os.close(reader)
    say(taken and alive, "a second SIGHUP comes while it ends", f"taken {taken}, alive {alive}")
    good, told = whole("x.jsonl", "--footer")
    say(code == 0 and good, "SIGHUP twice: the recording ends with its footer", f"code {code}, {told}")


def nohup():
    """A recorder that was started with SIGHUP ignored goes on when its terminal goes away."""
    run = Run("-q", "-i", "50ms", "-o", "x.jsonl",
              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_until(has_lines("x.jsonl", 3))
    run.process.send_signal(signal.SIGHUP)
    before = len(intervals("x.jsonl"))
    goes_on = wait_until(lambda: run.process.poll() is not None or
                         len(intervals("x.jsonl")) >= before + 5)
    alive = run.process.poll() is None
    code = run.end() if alive else run.process.returncode
    say(goes_on and alive, "nohup: the recording goes on behind a SIGHUP", f"exit {code}")
    say(code == 0 and whole("x.jsonl", "--footer")[0], "nohup: SIGINT ends it in order", f"code {code}")


def terminal_gone():
    """A terminal that goes away without a SIGHUP (disown, setsid) is a reader that goes away."""
    master, slave = pty.openpty()
    run = Run("-i", "50ms", "-o", "x.jsonl", stdout=slave)
    os.close(slave)
    wait_until(has_lines("x.jsonl", 5))
    os.close(master)
    before = len(intervals("x.jsonl"))
    goes_on = wait_until(lambda: run.process.poll() is not None or
                         len(intervals("x.jsonl")) >= before + 10)
    alive = run.process.poll() is None
    code = run.end() if alive else run.process.returncode
    say(goes_on and alive, "a terminal that is gone: the recording goes on", f"{code} {run.talk()}")
    say(code == 0 and not run.talk() and whole("x.jsonl", "--footer")[0],
        "a terminal that is gone: no error, the recording is whole", f"{code} {run.talk()}")


def killed():
    """SIGKILL of the recorder: what it had queued is written, and no process stays."""
    run = Run("-q", "-i", "50ms", "-o", "x.jsonl")
    wait_until(has_lines("x.jsonl", 10))
    writers = run.writers()
    run.end(signal.SIGKILL)
    say(writers and wait_until(lambda: not any(comm(pid) == "jankscope-write" for pid in writers), 5),
        "SIGKILL: the writer ends")
    good, told = whole("x.jsonl")
    say(good, "SIGKILL: whole lines", told)
    run = Run("-q", "-i", "50ms", "-o", "y.jsonl")
    wait_until(has_lines("y.jsonl", 3))
    os.kill(run.writers()[0], signal.SIGKILL)
    code = run.process.wait(10)
    say(code == 1 and whole("y.jsonl")[0] and run.talk().count("\n") == 1,
        "SIGKILL of the writer ends the run with 1 and one line", f"{code} {run.talk()}")


def has_gap(path):
    return any(record["type"] == "event" and record["event"] == "gap" for record in records(path))


def no_stubs():
    """-d a multiple of -i makes exactly as many intervals; no interval tells nothing."""
    counts, shortest, marked = [], 1e9, 0
    for i in range(12):
        run = Run("-q", "-d", "600ms", "-i", "200ms", "-o", f"x{i}.jsonl")
        run.process.wait()
        rows = intervals(f"x{i}.jsonl")
        marked += sum(row.get("last", False) for row in rows)
        # Where the machine was late, which the recording says, the rest is what it is.
        if has_gap(f"x{i}.jsonl"):
            continue
        counts.append(len(rows))
        shortest = min(shortest, *(row["dur_ns"] for row in rows))
    say(len(counts) > 2 and counts == [3] * len(counts) and not marked, f"-d 600ms -i 200ms: {counts} intervals", marked)
    say(shortest > 100e6, f"-d 600ms -i 200ms: the shortest has {shortest / 1e6:.1f} ms")
    shortest = 1e9
    for i in range(12):
        path = f"y{i}.jsonl"
        run = Run("-q", "-i", "200ms", "-o", path)
        wait_until(has_lines(path, 3))
        time.sleep(0.003 * i)
        run.end()
        for row in intervals(path):
            shortest = min(shortest, row["dur_ns"])
    # The plan and the reading look at the clock one after the other.
    say(shortest >= 49e6, f"SIGINT just after an interval: the shortest has {shortest / 1e6:.1f} ms")
    run = Run("-q", "-d", "750ms", "-i", "200ms", "-o", "z.jsonl")
    run.process.wait()
    rows = [row["dur_ns"] for row in intervals("z.jsonl")]
    say(sum(rows) >= 750e6 and (min(rows) > 100e6 or has_gap("z.jsonl")) and "last" in intervals("z.jsonl")[-1],
        f"-d 750ms -i 200ms: a rest of half an interval or more is one ({rows})")


def gap():
    """A recorder that did not run says so; its sums are late, not lost."""
    run = Run("-q", "-i", "200ms", "--max-lost", "1", "-o", "x.jsonl")
    wait_until(has_lines("x.jsonl", 5))
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    run.process.send_signal(signal.SIGCONT)
    time.sleep(0.7)
    code = run.end()
    gaps = [record for record in records("x.jsonl")
            if record["type"] == "event" and record["event"] == "gap" and record["dur_ns"] > 1e9]
    footer = records("x.jsonl")[-1]
    say(len(gaps) >= 1 and gaps[0]["planned_ns"] == 200000000, "a recorder that was stopped: a gap",
        gaps)
    say(footer["late"].get("interval_overruns", 0) >= 5 and
        "interval_overruns" not in footer["lost"] and code == 0,
        "a recorder that was stopped: intervals are late, not lost",
        f"{code} {footer['lost']} {footer['late']} {run.talk()}")


def broken_names():
    """A thread whose name is cut inside a character keeps the characters before it."""
    code = ("import ctypes,sys,time\n"
            "ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)\n"
            "print('ready', flush=True)\n"
            "while True: time.sleep(0.01)")
    with subprocess.Popen([sys.executable, "-c", code, "\u00fc" * 8], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        Run("-q", "-i", "100ms", "-n", "3", "-o", "x.jsonl").process.wait()
        child.kill()
    names = {task["thread"] for row in intervals("x.jsonl") for task in row["cpu"]["tasks"]
             if task["pid"] == child.pid}
    say(names == {"\u00fc" * 7 + "\ufffd"}, f"a name cut inside a character: {names}")


def closed_stdout():
    """No verb dies of a reader that went away."""
    with open("ftrace.txt", "w") as file:
        file.write("# tracer: nop\n#\n")
        for i in range(200):
            for mark in "B|7|Choreographer#doFrame 1", "E|7":
                file.write(f"          <...>-7     [000] .... {1 + i / 60 + (mark[0] == 'E') / 200:.6f}: "
                           f"tracing_mark_write: {mark}\n")
    for arguments in (["man"], ["record", "--help"], ["record", "--json-schema"], ["doctor", "--json"],
                      ["completion", "bash"], ["frames", "--json", "--rows", "ftrace.txt"],
                      ["frames", "ftrace.txt"], ["record", "-d", "100ms", *LOSS],
                      ["record", "--json", "-d", "100ms", *LOSS]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([JANKSCOPE, *arguments], stdout=writer, stderr=subprocess.PIPE,
                              restore_signals=True)
        os.close(writer)
        say(done.returncode == 0 and not done.stderr, f"a closed stdout: {' '.join(arguments)}",
            f"{done.returncode} {done.stderr.decode()}")


def reading():
    """Each damage of a recording is named with its line, and ends with 3; a newer schema with 5."""
    Run("-q", "-i", "50ms", "-n", "4", "-o", "x.jsonl").process.wait()
    lines = open("x.jsonl", "rb").read().splitlines(True)

    def report(name, data, code, *texts):
        with open("damaged.jsonl", "wb") as file:
            file.write(data)
        done = subprocess.run([JANKSCOPE, "report", "--folded", "-", "damaged.jsonl"],
                              capture_output=True, text=True)
        say(done.returncode == code and all(text in done.stderr for text in texts) and
            bool(done.stderr) == bool(code), f"reading {name}", f"{done.returncode} {done.stderr}")

    def sealed(line, **changes):
        """The line with other values and a right checksum."""
        record = json.loads(line)
        record.update(changes)
        del record["crc"]
        head = json.dumps(record, separators=(",", ":"), ensure_ascii=False)[:-1].encode()
        table = []
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
            table.append(byte)
        crc = 0xFFFFFFFF
        for byte in head:
            crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return head + b',"crc":"%08x"}\n' % (crc ^ 0xFFFFFFFF)

    # An event may stand before it: on a busy machine, that an interval was late.
    at = next(i for i, line in enumerate(lines) if i > 1 and b'"busy_ns":' in line)
    seq = json.loads(lines[at])["seq"]
    changed = lines[at].replace(b'"busy_ns":', b'"busy_ns":1')
    report("one that is whole", b"".join(lines), 0)
    report("a changed number", b"".join([*lines[:at], changed, *lines[at + 1:]]), 3,
           f"damaged.jsonl:{at + 1}: damaged: the checksum is wrong")
    report("a deleted line", b"".join([*lines[:at], *lines[at + 1:]]), 3,
           f"damaged.jsonl:{at + 1}: missing: 1 records, seq {seq} to {seq}")
    report("one without its footer", b"".join(lines[:-1]), 3, "no footer last")
    report("one without its header", b"".join(lines[1:]), 3, "no header first")
    report("half a last line", b"".join(lines)[:-20], 3, "torn", "no footer last")
    report("two in one file", b"".join(lines + lines), 3, "several recordings")
    report("a newer schema", b"".join([sealed(lines[0], schema=2), *lines[1:]]), 5, "schema 2")


def nonblocking_stdout():
    """A pipe that another process made non-blocking, and that is read late: no verb's text is cut."""
    Run("-q", "-i", "50ms", "-n", "4", "-o", "x.jsonl").process.wait()
    for verb in ["man"], ["completion", "bash"], ["report", "x.jsonl"]:
        want = subprocess.run([JANKSCOPE, *verb], capture_output=True, check=False).stdout
        ours, its = os.pipe()
        fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, 4096)
        fcntl.fcntl(its, fcntl.F_SETFL, os.O_WRONLY | os.O_NONBLOCK)
        process = subprocess.Popen([JANKSCOPE, *verb], stdout=its, stderr=subprocess.PIPE)
        time.sleep(0.3)
        flags = fcntl.fcntl(its, fcntl.F_GETFL)
        os.close(its)
        got = b"".join(iter(lambda: os.read(ours, 65536), b""))
        os.close(ours)
        talk = process.communicate()[1]
        say(got == want and process.returncode == 0 and flags & os.O_NONBLOCK,
            f"non-blocking stdout: {verb[0]}: {len(got)} of {len(want)} bytes",
            f"{process.returncode} {talk}")


def losses_count():
    """A block without its stack counts for --max-lost; one that was to have none does not."""
    code = ("import asyncio, time\n"
            "async def main():\n"
            "    print('ready', flush=True)\n"
            "    while True:\n"
            "        time.sleep(0.5)\n"
            "        await asyncio.sleep(0.1)\n"
            "asyncio.run(main())")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        for mode, want in ("perf", 3), ("off", 0):
            # perf samples only who runs: a thread that sleeps has no stack by it.
            done = subprocess.run([JANKSCOPE, "record", "-q", "-p", str(child.pid), "--block", "300ms",
                                   "--net", "off", "--stack", mode, "-d", "3s", "-o", f"{mode}.jsonl"],
                                  capture_output=True, text=True)
            blocks = [row for row in records(f"{mode}.jsonl") if row["type"] == "block" and
                      row["state"] == "closed"]
            footer = records(f"{mode}.jsonl")[-1]
            bare = footer["lost"].get("blocks_without_stack", 0)
            say(done.returncode == want and len(blocks) >= 3 and
                bare == (len(blocks) if want else 0) and
                ("% of stacks was lost, more than --max-lost" in done.stderr) == bool(want),
                f"--stack {mode}: {bare} of {len(blocks)} blocks lost their stack, exit {want}",
                f"{done.returncode} {done.stderr} {footer['lost']}")
        child.kill()


TESTS = {
    "pipe": lambda: pipe_that_stops("pipe"), "socket": lambda: pipe_that_stops("socket"),
    "comes_back": reader_that_comes_back, "terminal": terminal_under_ctrl_s,
    "json": records_not_read, "disk": disk_that_hangs, "disk_long": disk_that_hangs_long,
    "disk_stdout": stdout_on_a_disk_that_hangs,
    "disk_before": disk_that_hangs_before, "small": small_disk, "planted": planted_files,
    "two": two_recorders, "signals": other_signals, "hangups": hangups, "nohup": nohup,
    "terminal_gone": terminal_gone, "killed": killed, "stubs": no_stubs,
    "gap": gap, "names": broken_names, "losses": losses_count, "reading": reading, "closed": closed_stdout,
    "nonblocking": nonblocking_stdout,
}
for test in sys.argv[3:] or TESTS:
    with tempfile.TemporaryDirectory(prefix="jankscope-outputs-") as folder:
        home = os.getcwd()
        os.chdir(folder)
        try:
            TESTS[test]()
        except Exception as error:  # a test that breaks is a failure
            say(False, test, repr(error))
        os.chdir(home)
        subprocess.run(["umount", "-l", os.path.join(folder, "mount")], capture_output=True, check=False)
