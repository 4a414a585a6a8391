# SPDX-License-Identifier: BSD-2-Clause
"""What --daemon, status and stop do where somebody works against them. usage: daemon_hostile.py
JANKSCOPE [CASE...]. Prints TAP."""
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.argv[2:], WANTED = [], sys.argv[2:]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from daemon import (JS, WORK, clean_up, ends, family, gone, records, run, run_cases, say, start,
                    status, target, wait_for)

TEXT_BYTES = 64 << 10


def connect(folder):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    here = os.open(folder, os.O_RDONLY)
    try:
        client.connect(f"/proc/self/fd/{here}/control")
    finally:
        os.close(here)
    return client


def answer_to(folder, request):
    with connect(folder) as client:
        client.sendall(request)
        text = b""
        try:
            while part := client.recv(4096):
                text += part
        except ConnectionResetError:
            pass
        return text


def clients():
    """Half requests, nonsense, a thousand connections, another user."""
    folder, _ = start("clients", "-p", target())
    before = wait_for(folder, lambda s: s.get("intervals", 0) > 3)
    for name, request, wanted in (
            ("no newline", b"x" * 512, b"error 90\n"), ("too long", b"status" + b" " * 5000 + b"\n", b"error 90\n"),
            ("two", b"status\nstop\n", b"error 22\n"), ("a NUL", b"sta\0tus\n", b"error 22\n"),
            ("an escape", b"mark \x1b[2J\n", b"error 22\n"), ("half a character", b"mark \xc3\n", b"error 22\n"),
            ("unknown", b"reboot\n", b"error 38\n"), ("empty", b"\n", b"error 38\n"),
            ("an argument too many", b"stop now\n", b"error 38\n"), ("a scene without a name", b"mark  \n", b"error ")):
        text = answer_to(folder, request)
        say(text.startswith(wanted), f"a request that is {name} is refused", text)
    # Eight that say nothing have all places; somebody else is served all the same.
    silent = [connect(folder) for _ in range(8)]
    begin = time.monotonic()
    state = status(folder)
    took = time.monotonic() - begin
    say(state["state"] == "running" and took < 1.9, f"beside eight silent clients status takes {took:.2f} s", state)
    for client in silent:
        client.close()
    halves, refused = [], 0
    for i in range(1000):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            client.connect(f"{folder}/control")
            client.send(b"sta" if i % 2 else b"status\n")
            halves.append(client)
        except BlockingIOError:
            refused += 1
            client.close()
            time.sleep(0.002)
    begin = time.monotonic()
    state = status(folder)
    took = time.monotonic() - begin
    for client in halves:
        client.close()
    say(state["state"] == "running" and took < 5, f"after 1000 connections ({refused} found no room) status takes {took:.2f} s", state)
    after = wait_for(folder, lambda s: s.get("intervals", 0) > before.get("intervals", 0) + 10)
    say(after["intervals_overlong"] == before["intervals_overlong"] or after["intervals_overlong"] < 3,
        "no interval was long for it", before, after)
    # Whoever may open the folder has still to be its owner, or root.
    os.chmod(WORK, 0o755)
    os.chmod(folder, 0o755)
    os.chmod(f"{folder}/control", 0o666)
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "python3", "-c",
                           "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
                           "try: s.sendall(b'stop\\n')\nexcept OSError: pass\nprint(s.recv(100))", f"{folder}/control"], capture_output=True, text=True)
    say("error 1\\n" in done.stdout and status(folder)["state"] == "running", "another user's request is refused", done)
    ends("clients", folder)


def stop_while_starting():
    folder = f"{WORK}/starting"
    child = subprocess.Popen([JS, "record", "-p", "no.such.program", "--wait", "1h", "--daemon", "-o", folder + "/"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    state = wait_for(folder, lambda s: s["state"] == "starting" and "pid" in s and "keeper_pid" in s)
    processes = family(state.get("keeper_pid", child.pid))
    begin = time.monotonic()
    done = run("stop", folder)
    code = child.wait(20)
    say(done.returncode in (0, 4) and len(done.stderr.splitlines()) <= 1 and time.monotonic() - begin < 5 and
        gone(processes), f"stop before it has begun ends all of it: {code}", done.returncode, done.stdout, done.stderr, code)
    for delay in (0, 0.05, 0.2, 0.5):
        folder = f"{WORK}/starting{delay}"
        child = subprocess.Popen([JS, "record", "-p", target(), "-i", "100ms", "--daemon", "-o", folder + "/"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        done = run("stop", folder)
        child.wait(20)
        state = status(folder)
        if state["state"] in ("running", "starting", "restarting"):  # it was not there yet
            ends(f"stop {delay} s after the start", folder)
        else:
            say(state["state"] in ("ended", "died", ""), f"stop {delay} s after the start: {state['state'] or 'nothing'}",
                done.stdout, done.stderr, state)


def every_order():
    """SIGKILL of keeper, recorder and warden in every order: nothing is left but who should be."""
    watched = target()
    for order in itertools.permutations(("keeper", "recorder", "warden")):
        folder, _ = start("-".join(order), "-p", watched)
        state = wait_for(folder, lambda s: s.get("intervals", 0) > 2)
        processes = family(state["keeper_pid"])
        warden = next((pid for pid in processes if open(f"/proc/{pid}/comm").read() == "jank-warden\n"), 0)
        victims = {"keeper": state["keeper_pid"], "recorder": state["pid"], "warden": warden}
        for who in order:
            try:
                os.kill(victims[who], signal.SIGKILL)
            except ProcessLookupError:
                pass
        if order.index("keeper") < order.index("recorder"):
            after = wait_for(folder, lambda s: s["state"] == "died")
            good = after["state"] == "died"
        else:
            # The keeper was killed last: it may have begun another one by then.
            time.sleep(0.3)
            after = status(folder)
            good = after["state"] in ("died", "running", "starting")
            if after["state"] != "died":
                run("stop", folder)
        say(warden and good and gone(processes, 15), f"kill -9 of {', '.join(order)}: nothing of them is left", after,
            [pid for pid in processes if os.path.exists(f"/proc/{pid}")])
    # A new one begins where they died.
    folder, _ = start("keeper-recorder-warden", "-p", watched)
    ends("in the folder of the dead", folder)


def one_that_hangs():
    """A recorder that is stopped writes nothing: its keeper begins another one."""
    folder, _ = start("hangs", "-p", target(), "--tune", "hang=1s")
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 5)
    os.kill(state["pid"], signal.SIGSTOP)
    after = wait_for(folder, lambda s: s["state"] == "running" and s.get("recorder_restarts") == 1, 25)
    gaps, until = [], time.monotonic() + 5
    while not gaps and time.monotonic() < until:  # its writer has it before the file
        gaps = [r for r in records(folder) if r.get("event") == "gap" and "from_boot_ns" in r]
    say(after["state"] == "running" and after["pid"] != state["pid"] and len(gaps) == 1 and
        "emitted nothing for" in gaps[0]["reason"], "a recorder that hangs is replaced, and the gap says why", after, gaps)
    os.kill(after["keeper_pid"], signal.SIGSTOP)
    more = wait_for(folder, lambda s: s.get("intervals", 0) > after["intervals"] + 5)
    os.kill(after["keeper_pid"], signal.SIGCONT)
    say(more["state"] == "running" and more["pid"] == after["pid"], "a keeper that is stopped holds nobody up", more)
    os.kill(more["pid"], signal.SIGSTOP)
    os.kill(more["keeper_pid"], signal.SIGTERM)
    end = wait_for(folder, lambda s: s["state"] in ("died", "ended") and "exit_code" in s, 25)
    say(end["state"] == "died" and end["exit_code"] == 1, "one that does not end when it is told to is killed", end)


def full_disk_at_restart():
    """The recorder dies while the disk is full: the keeper's next one waits for room."""
    folder = f"{WORK}/full/new"
    os.mkdir(f"{WORK}/full")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", f"{WORK}/full"]).returncode:
        print("ok - daemon: a full disk at a restart # SKIP tmpfs cannot be mounted")
        return
    run("record", "-i", "100ms", "--max-lost", "100", "--power", "off", "--daemon", "-p", target(), "-o", folder + "/")
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 5)
    with open(f"{WORK}/full/other", "wb", buffering=0) as other:
        try:
            while True:
                other.write(bytes(4096))
        except OSError:
            pass
    time.sleep(0.5)
    os.kill(state["pid"], signal.SIGKILL)
    time.sleep(6)
    meanwhile = status(folder)
    os.unlink(f"{WORK}/full/other")
    after = wait_for(folder, lambda s: s["state"] == "running" and s.get("last_interval_age_ns", 1e12) < 1e9, 30)
    say(meanwhile["state"] in ("running", "restarting", "starting") and after["state"] == "running" and after["gaps"] == 1,
        "killed while the disk is full: it goes on when there is room", meanwhile, after, open(f"{folder}/log").read()[-600:])
    ends("after a full disk", folder)
    subprocess.run(["umount", f"{WORK}/full"], check=False)


def odd_folders():
    """Whatever lies in a folder: one line, in time, and no signal to whom it names."""
    victim = subprocess.Popen(["sleep", "1000"])
    for i, (name, make) in enumerate((
            ("a keeper's file that names another process", lambda d: open(f"{d}/keeper", "w").write(f"{victim.pid}\n")),
            ("nonsense in each file", lambda d: [open(f"{d}/{n}", "wb").write(os.urandom(3000))
                                                 for n in ("keeper", "lock", "index", "00000001.jsonl", "log")]),
            ("a fifo for each file", lambda d: [os.mkfifo(f"{d}/{n}") for n in
                                                ("keeper", "lock", "index", "00000001.jsonl", "control")]),
            ("links to /dev/zero", lambda d: [os.symlink("/dev/zero", f"{d}/{n}") for n in
                                              ("keeper", "lock", "index", "00000001.jsonl", "control")]),
            ("folders for each file", lambda d: [os.mkdir(f"{d}/{n}") for n in
                                                 ("keeper", "lock", "index", "00000001.jsonl", "control")]),
            ("only a footer", lambda d: open(f"{d}/00000001.jsonl", "w").write('{"type":"footer"}\n')))):
        folder = f"{WORK}/odd{i}"
        os.mkdir(folder, 0o700)
        make(folder)
        for verb in ("status", "stop", "verify"):
            begin = time.monotonic()
            try:
                done = run(verb, folder, timeout=20)
                say(done.returncode in (1, 2, 3, 4, 5) and time.monotonic() - begin < 6 and
                    done.stderr.count("jankscope: error:") <= 1 and "\x1b" not in done.stdout + done.stderr,
                    f"{name}: {verb} ends with {done.returncode}", done.returncode, done.stdout, done.stderr)
            except subprocess.TimeoutExpired:
                say(False, f"{name}: {verb} ends")
    say(victim.poll() is None, "none of them had a stranger signalled")
    # Another user's folder, whose lock he holds, and which names a process of ours.
    os.chmod(WORK, 0o755)
    folder = f"{WORK}/foreign"
    os.mkdir(folder, 0o755)
    os.chown(folder, 65534, 65534)
    holder = subprocess.Popen(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "python3", "-c", (
        "import fcntl,os,socket,sys,threading\nos.chdir(sys.argv[1])\nf=open('keeper','w')\nf.write(sys.argv[2]+'\\n')\nf.flush()\n"
        "fcntl.flock(f,2)\ns=socket.socket(socket.AF_UNIX)\ns.bind('control')\ns.listen(9)\nprint('ready',flush=True)\n"
        "answers=[b'ok\\n{\"state\":\"\\\\u001b[2Jrunning\",\"pid\":1,\"warnings\":[\"\\\\u001b[2J\"],\"last_error\":\"\\\\u0007\"}',"
        "b'ok\\n'+b'['*60000,b'ok\\n{}',b'x'*100000,b'']\n"
        "for i in range(99):\n c=s.accept()[0]\n try:\n  c.recv(99)\n  c.sendall(answers[min(i,4)])\n except OSError: pass\n c.close()\n"),
        folder, str(victim.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ready = holder.stdout.readline()
    for i in range(5):
        done = run("status", folder, timeout=20)
        say(ready and "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout and
            done.stderr.count("\n") <= 1, f"what a stranger answers reaches no terminal ({i}): {done.returncode}", done.stdout, done.stderr)
    done = run("stop", folder, timeout=60)
    time.sleep(0.2)
    say(victim.poll() is None and done.returncode != 0 and done.stderr.count("\n") == 1,
        "stop of a stranger's folder signals nobody but the stranger", done.returncode, done.stdout, done.stderr)
    holder.kill()
    holder.wait()
    victim.kill()
    victim.wait()


def taken_folders():
    """The folder is moved, emptied or removed while its recorder runs: nobody records on unseen."""
    folder, _ = start("moved", "-p", target())
    before = wait_for(folder, lambda s: s.get("intervals", 0) > 3)
    os.rename(folder, folder + ".new")
    folder += ".new"
    os.kill(before["pid"], signal.SIGKILL)
    after = wait_for(folder, lambda s: s["state"] == "running" and s.get("gaps") == 1)
    ends("moved, then killed", folder)
    done = run("verify", folder)
    say(after["state"] == "running" and done.returncode == 0, "moved: it goes on where the folder is by now, over a kill, too",
        after, done.stdout)

    folder, _ = start("emptied", "-p", target())
    before = wait_for(folder, lambda s: s.get("intervals", 0) > 3)
    for name in os.listdir(folder):
        os.unlink(f"{folder}/{name}")
    other = run("record", "-i", "100ms", "-n", "3", "-q", "-p", target(), "-o", folder)
    after = wait_for(folder, lambda s: s["state"] == "running" and s.get("intervals", 0) > before["intervals"] + 3)
    say(after["state"] == "running" and after.get("pid") == before["pid"] and other.returncode == 1 and
        "being written by another jankscope" in other.stderr, "emptied: status finds it, and nobody else may write", after, other)
    ends("emptied", folder)
    done = run("verify", folder)
    say(done.returncode == 0 and "not explained: 0" in done.stdout, "emptied: what was taken is told", done.stdout)

    folder, _ = start("removed", "-p", target())
    state = wait_for(folder, lambda s: s.get("intervals", 0) > 3)
    processes = family(state["keeper_pid"])
    subprocess.run(["rm", "-rf", folder], check=True)
    say(gone(processes, 15), "removed: recorder and keeper end", [pid for pid in processes if os.path.exists(f"/proc/{pid}")])


def storm_of_restarts():
    """A recorder that dies again and again: given up in the end, and a new recording begins at once."""
    folder, _ = start("storm", "-p", target(), "--tune", "restarts=4")
    until = time.monotonic() + 30
    killed = set()
    while time.monotonic() < until:
        state = status(folder)
        if state["state"] == "died":
            break
        if state.get("pid") and state["pid"] not in killed:
            try:
                os.kill(state["pid"], signal.SIGKILL)
                killed.add(state["pid"])
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    state = status(folder)
    done = run("verify", folder)
    say(state["state"] == "died" and len(killed) == 5 and done.returncode in (0, 3) and "torn 0, damaged 0" in done.stdout,
        f"given up after {len(killed)} dead recorders; what they wrote is whole", state, done.stdout)
    folder, _ = start("storm", "-p", target())
    ends("after a storm", folder)


def main():
    run_cases((clients, every_order, odd_folders, taken_folders, stop_while_starting, one_that_hangs, full_disk_at_restart,
               storm_of_restarts), WANTED)
    subprocess.run(["umount", "-l", f"{WORK}/full"], capture_output=True, check=False)
    clean_up()


main()
