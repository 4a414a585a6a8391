# SPDX-License-Identifier: BSD-2-Clause
"""What --daemon, status and stop promise. usage: daemon.py JANKSCOPE. Prints TAP."""
import json
import os
import pty
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

JS = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="jankscope-daemon-")
lock = threading.Lock()
sleepers = []


def say(good, name, *more):
    with lock:
        print(("ok" if good else "not ok") + f" - daemon: {name}")
        if not good:
            for text in more:
                for line in str(text).splitlines()[:20]:
                    print(f"# {line}")
        sys.stdout.flush()


def run(*arguments, timeout=60, **more):
    return subprocess.run([JS, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout, **more)


def sleeper():
    child = subprocess.Popen(["sleep", "1000"])
    sleepers.append(child)
    return child


def target():
    return str(sleeper().pid)


def start(name, *more, code=0):
    """Begin a recording in a folder; what was printed."""
    folder = f"{WORK}/{name}"
    done = run("record", "-i", "100ms", "--max-lost", "100", "--power", "off", "--daemon", "-o",
               folder, *more)
    if done.returncode != code:
        say(False, f"{name}: starts with {code}", done.returncode, done.stdout, done.stderr)
    return folder, done


def status(folder):
    done = run("status", "--json", folder)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"state": "", "said": done.stdout + done.stderr}


def wait_for(folder, what, seconds=20):
    until = time.monotonic() + seconds
    while True:
        state = status(folder)
        if what(state) or time.monotonic() > until:
            return state
        time.sleep(0.05)


def records(folder):
    """Every record of a folder, whole lines only."""
    found = []
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if name.endswith(".jsonl"):
            text = open(path, "rb").read()
        elif name.endswith(".jsonl.zst"):
            text = subprocess.run(["zstd", "-dcq", path], capture_output=True).stdout
        else:
            continue
        found += [json.loads(line) for line in text.split(b"\n")[:-1]]
    return found


def family(root):
    """The processes that descend from this one, and the one itself."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = open(f"/proc/{name}/stat", errors="replace").read()
                parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
            except OSError:
                pass
    found = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} | found
        if more == found:
            return found
        found = more


def gone(pids, seconds=10):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.05)
    return False


def ends(name, folder, wanted=0):
    done = run("stop", folder)
    state = status(folder)
    say(done.returncode == wanted and done.stdout.startswith("ended ") and
        state["state"] == "ended" and "pid" not in state,
        f"{name}: stop ends it, and says how it went", done.returncode, done.stdout, done.stderr,
        state)


# ---- the cases; each in a thread of its own ----

def lives_without_its_shell():
    """A shell on a real terminal starts it, and goes away with the terminal."""
    folder, watched = f"{WORK}/shell", target()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", f"'{JS}' record -p {watched} -i 100ms --max-lost 100 "
                         f"--daemon -o {folder} && sleep 100"])
    text = b""
    while b"started pid" not in text:
        try:
            text += os.read(terminal, 4096)
        except OSError:
            break
    before = status(folder)
    # What the shell and all that it started in its session gets when the terminal is closed.
    os.close(terminal)
    gone([pid], 1) or os.kill(pid, signal.SIGHUP)
    os.waitpid(pid, 0)
    family_of = family(before.get("keeper_pid", 1)) if before.get("keeper_pid") else set()
    for number in (signal.SIGHUP,):
        for process in (before.get("pid"), before.get("keeper_pid")):
            if process:
                os.kill(process, number)
    after = wait_for(folder, lambda s: s.get("intervals", 0) > before.get("intervals", 0) + 5)
    say(b"\nstarted" not in text and after["state"] == "running" and
        after.get("pid") == before.get("pid"),
        "a closed terminal and SIGHUP do not end it", text, before, after)
    links = {os.readlink(f"/proc/{p}/fd/{n}") for p in family_of if os.path.exists(f"/proc/{p}/fd")
             for n in os.listdir(f"/proc/{p}/fd") if os.path.islink(f"/proc/{p}/fd/{n}")}
    say(family_of and not any("/dev/pts" in link or "(deleted)" in link for link in links
                              if "/memfd:" not in link and "/dev/zero" not in link),
        "no process of it has the terminal", links)
    say(all(os.stat(f"{folder}/{name}").st_mode & 0o777 == 0o600 for name in os.listdir(folder))
        and os.stat(folder).st_mode & 0o777 == 0o700, "folder 0700, files 0600", os.listdir(folder))
    ends("shell", folder)
    say(gone(family_of), "nothing is left of it", family_of)


def recorder_is_killed():
    """Three times; what it held is freed, the gap is told, and the same end is kept."""
    begin = time.monotonic()
    folder, done = start("killed", "-p", target(), "-d", "1h", "--tune", "restarts=3")
    took_ns = (time.monotonic() - begin) * 1e9
    say(re.match(r"jankscope: started pid \d+ \(keeper \d+\), 1h until \d{4}-\d\d-\d\dT[\d:]+Z by "
                 r"boot clock, \d of \d data sources ok\n$", done.stdout) is not None and
        not done.stderr, "one line when it has begun", done.stdout, done.stderr)
    end, gaps, left = None, [], []
    for i in range(3):
        state = wait_for(folder, lambda s: s["state"] == "running" and
                         s.get("recorder_restarts") == i and s.get("intervals", 0) > 3 * (i + 1))
        end = end or state.get("end_boot_ns")
        left += family(state["pid"])
        os.kill(state["pid"], signal.SIGKILL)
    state = wait_for(folder, lambda s: s.get("recorder_restarts") == 3 and
                     s["state"] == "running" and s.get("last_interval_age_ns", 1e12) < 3e8)
    gaps = [r for r in records(folder) if r.get("event") == "gap" and "from_boot_ns" in r]
    say(state["state"] == "running" and state["gaps"] == 3 and len(gaps) == 3 and
        state["end_boot_ns"] == end and "killed by signal 9" in state["last_error"],
        "a recorder that is killed is replaced, with its counts and its end", state, gaps)
    shortest = min((gap["dur_ns"] for gap in gaps), default=1e12)
    # Promise P8, where a recorder begins in a second; a busy machine takes what it takes.
    say(shortest < max(2e9, 2 * took_ns + 1e9) and all(g["dur_ns"] == g["to_boot_ns"] - g["from_boot_ns"] > 0 and
                               "killed by signal 9" in g["reason"] and g["last_seq"] > 0
                               for g in gaps),
        f"each gap is told, the shortest is {shortest / 1e6:.0f} ms (a start took "
        f"{took_ns / 1e6:.0f} ms)", gaps)
    say(gone(left), "all processes of the dead recorders are gone", left)
    text = run("status", folder).stdout
    say(re.match(r"running .*  intervals \d+/\d+  target restarts 0  gaps 3  suspend .*  lost .*  "
                 r"restarts of jankscope 3  gap ", text) is not None and
        re.search(r"^disk .* self cpu .* anon .* stops \d+ max .*\nlast interval .* ago   warnings: "
                  r"none\nlast error: the recorder was killed by signal 9$", text, re.M) is not None,
        "status as people read it", text)
    # The fourth is one too many.
    os.kill(state["pid"], signal.SIGKILL)
    state = wait_for(folder, lambda s: s["state"] == "died")
    log = open(f"{folder}/log").read()
    say(state["state"] == "died" and state.get("exit_code") == 1 and "given up" in log and
        run("status", folder).returncode == 3, "the fourth is given up, and that is said", state,
        log)
    say(abs(state["intervals"] - sum(r["type"] == "interval" for r in records(folder))) == 0 and
        state["gaps"] == 3 and state["recorder_restarts"] == 3,
        "status of a recording that died comes from its files", state)
    done = run("stop", folder)
    say(done.returncode == 4 and "nobody records here" in done.stderr, "stop: nobody records here",
        done.returncode, done.stderr)
    again, done = start("killed", "-p", target())
    state = wait_for(folder, lambda s: s["state"] == "running")
    say(state["state"] == "running", "a new recording begins in the same folder", state)
    ends("again", folder)


def keeper_is_killed():
    folder, _ = start("keeper", "-p", target())
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 2)
    os.kill(state["keeper_pid"], signal.SIGKILL)
    after = wait_for(folder, lambda s: "keeper_pid" not in s and
                     s.get("intervals", 0) > state["intervals"] + 3)
    say(after["state"] == "running" and after["pid"] == state["pid"] and
        "keeper is dead" in str(after["warnings"]),
        "without its keeper the recorder goes on, and status warns", after)
    ends("keeper", folder)


def both_are_killed():
    folder, _ = start("both", "-p", target())
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 2)
    processes = family(state["keeper_pid"])
    os.kill(state["keeper_pid"], signal.SIGKILL)
    os.kill(state["pid"], signal.SIGKILL)
    gone(processes)
    after = wait_for(folder, lambda s: s["state"] == "died")
    done = run("status", "--pid", folder)
    say(after["state"] == "died" and after["intervals"] >= state["intervals"] - 1 and
        done.returncode == 4 and done.stdout == "" and "no recorder runs" in done.stderr,
        "kill -9 of both: died, told from the files", after, done.stderr)
    say(gone(processes), "nothing of them is left", processes)


def ends_by_itself():
    folder, _ = start("itself", "-p", target(), "-d", "1s")
    state = wait_for(folder, lambda s: s["state"] == "ended" and "exit_code" in s)
    found = [r for r in records(folder) if r["type"] == "interval"]
    total = sum(r["dur_ns"] for r in found)
    say(state["state"] == "ended" and state["exit_code"] == 0 and 0.9e9 < total < 2e9,
        f"-d 1s ends by itself, after {total / 1e9:.2f} s", state)
    folder, _ = start("counted", "-p", target(), "-n", "5")
    state = wait_for(folder, lambda s: s["state"] == "ended" and "exit_code" in s)
    say(state["state"] == "ended" and state["intervals"] == 5, "-n 5 makes five", state)
    child = sleeper()
    folder, _ = start("target", "-p", str(child.pid))
    child.kill()
    child.wait()
    state = wait_for(folder, lambda s: s["state"] == "ended" and "exit_code" in s)
    say(state["state"] == "ended" and state["exit_code"] == 0,
        "a pid that ends is no crash: the recording ends", state)


def signals():
    folder, _ = start("term", "-p", target())
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 2)
    os.kill(state["keeper_pid"], signal.SIGTERM)
    state = wait_for(folder, lambda s: s["state"] == "ended" and "exit_code" in s)
    say(state["state"] == "ended" and state["exit_code"] == 0, "SIGTERM to the keeper ends it in "
        "order", state)
    folder, _ = start("int", "-p", target())
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 2)
    os.kill(state["pid"], signal.SIGINT)
    state = wait_for(folder, lambda s: s["state"] == "ended" and "exit_code" in s)
    say(state["state"] == "ended" and state["exit_code"] == 0, "SIGINT to the recorder ends it in "
        "order", state)
    # While it has not begun: the user's Ctrl-C is for all of it.
    folder = f"{WORK}/early"
    child = subprocess.Popen([JS, "record", "-p", "no.such.program", "--wait", "1h", "--daemon",
                              "-o", folder], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    state = wait_for(folder, lambda s: s["state"] == "starting" and "keeper_pid" in s)
    processes = family(state.get("keeper_pid", child.pid))
    child.send_signal(signal.SIGINT)
    code = child.wait(20)
    say(code == 130 and gone(processes), "SIGINT before it has begun ends all of it", code,
        processes)


def refusals():
    for name, code, words, arguments in (
            ("no folder is named", 2, "name a folder with -o DIR", ()),
            ("--json", 2, "--json has no stdout", ("--json", "-o", f"{WORK}/no")),
            ("a target that is not there", 4, "not running after",
             ("-p", "no.such.program", "--wait", "200ms", "-o", f"{WORK}/notarget")),
            ("a file", 2, "no folder", ("-o", JS)),
            ("a folder of a folder that is not there", 1, "No such file",
             ("-o", f"{WORK}/no/such/folder")),
            ("no BPF, and hooks forced", 5, "CAP_BPF",
             ("--cpu", "switch", "-o", f"{WORK}/nobpf"))):
        prefix = ["setpriv", "--bounding-set", "-bpf,-sys_admin,-perfmon"] if code == 5 else []
        done = subprocess.run([*prefix, JS, "record", "--daemon", *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        lines = done.stderr.splitlines()
        say(done.returncode == code and words in done.stderr and not done.stdout and
            lines and all(line.startswith("jankscope: ") for line in lines),
            f"{name}: {code}, and why", done.returncode, done.stdout, done.stderr)
    os.symlink("/tmp", f"{WORK}/link")
    os.mkdir(f"{WORK}/open", 0o777)
    os.chmod(f"{WORK}/open", 0o777)
    for name in ("link", "open"):
        done = run("record", "--daemon", "-o", f"{WORK}/{name}")
        say(done.returncode == 2 and os.listdir(f"{WORK}/open") == [],
            f"{name}: a folder that is not ours alone is refused", done.returncode, done.stderr)
    folder, _ = start("taken", "-p", target())
    state = status(folder)
    done = run("record", "--daemon", "-p", "1", "-o", folder)
    say(done.returncode == 1 and f"keeper {state.get('keeper_pid')}" in done.stderr,
        "a second one in the same folder is refused, with the pid of the first", done.stderr)
    done = run("record", "-q", "-n", "1", "-o", folder)
    say(done.returncode != 0 and f"pid {state.get('pid')}" in done.stderr,
        "so is a recorder without a keeper", done.returncode, done.stderr)
    ends("taken", folder)
    for name, path in (("no folder", f"{WORK}/nothing"), ("an empty folder", f"{WORK}/open")):
        for verb in ("status", "stop"):
            done = run(verb, path)
            say(done.returncode == 4 and len(done.stderr.splitlines()) == 1,
                f"{verb} of {name}: 4", done.returncode, done.stdout, done.stderr)


def foreground():
    """A recorder without a keeper answers as well."""
    folder = f"{WORK}/foreground"
    child = subprocess.Popen([JS, "record", "-q", "-p", target(), "-i", "100ms",
                              "--power", "off", "-o", folder + "/", "--max-lost", "100"], stdin=subprocess.DEVNULL)
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 3)
    done = run("status", "--pid", folder)
    say(state["state"] == "running" and done.stdout == f"{child.pid}\n" and not state["warnings"],
        "a recorder in the foreground answers, too", state, done.stdout)
    # One that hangs is no reason to wait for ever, or to say that it runs.
    child.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    done = run("status", folder)
    took = time.monotonic() - begin
    child.send_signal(signal.SIGCONT)
    say(done.returncode == 3 and done.stdout.startswith("hangs ") and took < 15,
        f"one that is stopped hangs, told after {took:.1f} s", done.returncode, done.stdout)
    ends("foreground", folder)
    say(child.wait(20) == 0, "and it exits with 0", child.returncode)


def watchdog():
    """A limit that nobody can keep: each step is told, in its order, then the end."""
    path = f"{WORK}/watchdog.jsonl"
    done = run("record", "-q", "-p", target(), "-i", "50ms", "--tune", "self-cpu=0.01", "--tune",
               "self-window=200ms", "-o", path)
    found = [json.loads(line) for line in open(path)]
    steps = [(r["state"], r["step"]) for r in found if r.get("event") == "degraded" and
             r.get("source") == "self"]
    spans = [r["dur_ns"] for r in found if r["type"] == "interval"]
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    say(done.returncode == 1 and len(errors) == 1 and "CPU time" in errors[0] and
        found[-1]["type"] == "footer", "a recorder above its limits ends in order, with 1 and why",
        done.returncode, done.stderr)
    say(steps == [("begin", "tasks"), ("begin", "stacks"), ("begin", "intervals")],
        "before that it leaves out tasks, stacks, intervals, and tells each", steps)
    say(len(spans) > 9 and statistics.median(spans[:8]) < 100e6 < 150e6 < spans[-2],
        "its last intervals are four times as long", spans)
    # The memory is known when all processes were looked at, which takes seconds.
    done = run("record", "-q", "-i", "50ms", "--tune", "self-cpu=0", "--tune", "self-memory=1M",
               "--tune", "self-window=100ms", "-d", "30s")
    say(done.returncode == 1 and "memory " in done.stderr and "the limit is 1" in done.stderr,
        "so does one that takes more memory than it may", done.returncode, done.stderr)
    done = run("record", "-q", "-i", "50ms", "-n", "20", "--max-lost", "100")
    say(done.returncode == 0 and "costs too much" not in done.stderr,
        "without these limits the same run is left alone", done.returncode, done.stderr)


def run_cases(cases, wanted):
    slots = threading.Semaphore(3)

    def case(function):
        with slots:
            try:
                function()
            except Exception as error:  # a case that breaks off is a failure, not a silence
                say(False, function.__name__, repr(error))

    threads = [threading.Thread(target=case, args=(f,)) for f in cases
               if not wanted or f.__name__ in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def clean_up():
    for name in os.listdir(WORK):
        if os.path.isdir(f"{WORK}/{name}") and os.path.isfile(f"{WORK}/{name}/keeper"):
            run("stop", f"{WORK}/{name}")
    for child in sleepers:
        child.kill()
        child.wait()
    shutil.rmtree(WORK)


def main():
    run_cases((watchdog, lives_without_its_shell, recorder_is_killed, keeper_is_killed, both_are_killed,
               ends_by_itself, signals, refusals, foreground), sys.argv[2:])
    clean_up()


if __name__ == "__main__":
    main()
