# SPDX-License-Identifier: BSD-2-Clause
"""Who asks --metrics wrongly, slowly, or much; where it listens. usage: metrics.py JANKSCOPE. Prints
TAP."""
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

from metrics_common import *

SHELL = 2000


def refused(address, code, text):
    done = subprocess.run([JS, "record", "-q", "-d", "1s", "--power", "off", "--metrics", address],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    return done.returncode == code and len(errors) == 1 and text in errors[0] or \
        f"{address}: {done.returncode} {done.stderr}"


def check_addresses():
    bad = []
    for address in ("0.0.0.0:9101", "localhost:9101", "192.168.1.1:80", "[::]:80", "127.0.0.1:0",
                    "127.0.0.1:65536", "9101", "", "@", "unix:", "@" + "x" * 107, "unix:/tmp/" + "x" * 90):
        result = refused(address, 2, "--metrics")
        if result is not True:
            bad.append(result)
    say(not bad, "an address that is not of this device alone is refused, exit 2", *bad)

    path = f"{WORK}/file"
    with open(path, "w") as file:
        file.write("kept")
    results = [refused(f"unix:{path}", 1, "no socket"), refused(f"unix:{WORK}/no/folder", 1, "No such file")]
    os.symlink(path, f"{WORK}/link")
    results.append(refused(f"unix:{WORK}/link", 1, "no socket"))
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(f"{WORK}/foreign")
    os.chown(f"{WORK}/foreign", 65534, 65534)
    results.append(refused(f"unix:{WORK}/foreign", 1, "another user"))
    # a file system on which nobody makes sockets
    results.append(refused("unix:/sys/jankscope", 1, "not permitted"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        results.append(refused(f"127.0.0.1:{taken.getsockname()[1]}", 1, "listens there already"))
    say(all(r is True for r in results) and open(path).read() == "kept",
        "what is there already and no socket of a dead recorder is left alone, exit 1", *[r for r in results if r is not True])


def check_path():
    path = f"{WORK}/{'deep' * 40}/sock"
    os.makedirs(os.path.dirname(path))
    address = f"unix:{os.path.relpath(path, WORK)}"
    words = [JS, "record", "-q", "-i", "100ms", "--power", "off", "--max-lost", "100", "--metrics", address]

    def begin():
        child = spawn(*words, cwd=WORK, stderr=subprocess.PIPE)
        return child, wait_for(lambda: os.path.exists(path) and page())

    def page():
        """A path of more than 108 bytes is reached by its folder."""
        folder = os.open(os.path.dirname(path), os.O_PATH)
        try:
            status, _, body = ask(f"unix:/proc/self/fd/{folder}/sock")
        finally:
            os.close(folder)
        return body if status == 200 and b"jankscope_intervals_total" in body else None

    first, body = begin()
    mode = os.stat(path)
    say(body and stat.S_IMODE(mode.st_mode) == 0o600 and mode.st_uid == 0, "a socket in a folder has mode 0600, with a path of any length", oct(mode.st_mode))
    second = subprocess.run(words, cwd=WORK, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    say(second.returncode == 1 and "listens there already" in second.stderr and page(), "two recorders do not share one", second.stderr)
    end(first, signal.SIGKILL)
    time.sleep(0.5)
    left = os.path.exists(path)
    third, body = begin()
    say(left and body, "the socket of a killed recorder is replaced")
    code = end(third)
    say(code == 0 and not os.path.exists(path), "a recorder that ends takes its socket away", code)


def check_peer():
    name = f"@jankscope-test-{os.getpid()}"
    recorder = record(name, "-i", "100ms", name="abstract")
    wait_for(lambda: ask(name)[0] == 200)
    script = ("import socket,sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(10)\n"
              "s.connect('\\0' + sys.argv[1])\ntry: s.sendall(b'GET /status HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\nexcept OSError: pass\n"
              "print(s.recv(100).decode().split(' ')[1])\n")

    def by(uid):
        return subprocess.run(["setpriv", f"--reuid={uid}", "--clear-groups", "python3", "-c", script, name[1:]],
                              capture_output=True, text=True, timeout=30).stdout.strip()

    # shell is adb's on Android only
    got = [by(0), by(65534), by(SHELL)]
    say(got == ["200", "403", "403"], "an abstract socket answers root and the recorder's own user only", got)
    say(end(recorder) == 0, "the recorder of an abstract socket ends in order", words_of("abstract"))


def check_answers(address):
    port = address.rsplit(":", 1)[1]
    get = "GET /metrics HTTP/1.1\r\n"
    here = f"Host: {address}\r\n"
    cases = [
        (get + here + "\r\n", 200), (get + f"host: LOCALHOST:{port}\r\n\r\n", 200),
        ("GET /metrics?x=1 HTTP/1.1\r\n" + here + "\r\n", 200), ("\r\n" + get + here + "\r\n", 200),
        ("GET / HTTP/1.1\r\n" + here + "\r\n", 404), ("GET /metrics/ HTTP/1.1\r\n" + here + "\r\n", 404),
        ("GET /../etc/passwd HTTP/1.1\r\n" + here + "\r\n", 404), ("GET /metric HTTP/1.1\r\n" + here + "\r\n", 404),
        ("POST /metrics HTTP/1.1\r\n" + here + "Content-Length: 3\r\n\r\nabc", 405),
        ("HEAD /metrics HTTP/1.1\r\n" + here + "\r\n", 405), ("DELETE /status HTTP/1.1\r\n" + here + "\r\n", 405),
        ("BREW / HTTP/1.1\r\n" + here + "\r\n", 405), (get + here + "Content-Length: 3\r\n\r\nabc", 413),
        (get + here + "Transfer-Encoding: chunked\r\n\r\n", 413), (get + "\r\n", 400), (get + here + here + "\r\n", 400),
        ("GET http://" + address + "/metrics HTTP/1.1\r\n" + here + "\r\n", 400), ("hello\r\n\r\n", 400),
        ("GET /metrics\r\n\r\n", 400), ("GET /metrics HTTP/2.0\r\n\r\n", 505), (b"\x16\x03\x01\x02\x00\x01\n", 400), (b"\0" * 100 + b"\n", 400),
        (get + "Host: evil.example\r\n\r\n", 421), (get + f"Host: evil.example:{port}\r\n\r\n", 421),
        (get + f"Host: 127.0.0.1.evil.example:{port}\r\n\r\n", 421), (get + "Host: localhost\r\n\r\n", 421),
        ("GET /metrics HTTP/1.0\r\n\r\n", 421),
        (get + "A: " + "b" * 9000 + "\r\n\r\n", 431), (get + "A: b\r\n" * 3000 + "\r\n", 431),
        ("GET /" + "a" * 2000 + " HTTP/1.1\r\n" + here + "\r\n", 414), ("GET /" + "a" * 20000 + " HTTP/1.1\r\n", 414),
    ]
    bad = []
    for request, wanted in cases:
        status, head, body = ask(address, request)
        length = [line for line in head.split("\r\n") if line.startswith("Content-Length: ")]
        whole = request[:4] == "HEAD" or (length and int(length[0][16:]) == len(body))
        if status != wanted or not whole or "Connection: close" not in head or (status == 405) != ("Allow: GET" in head):
            bad.append(f"{request[:60]!r}: {status}, not {wanted}; {head[:200]!r}")
    say(not bad, f"{len(cases)} requests, right and wrong ones, have the answers of HTTP", *bad)

    # One request a connection: what is sent behind it is not answered, and does no harm.
    with connect(address) as client:
        client.sendall((get + here + "\r\n").encode() * 20)
        answers = read_all(client).count(b"HTTP/1.1 ")
    status, head, body = ask(address)
    say(answers == 1 and status == 200 and "application/openmetrics-text; version=1.0.0; charset=utf-8" in head and body.endswith(b"\n# EOF\n"),
        "the first of many requests at once is answered, with the type of OpenMetrics", answers, head)
    status, head, body = ask(address, path="/status")
    told = json.loads(body)
    say(status == 200 and "application/json" in head and told["state"] == "running" and told["intervals"] > 0, "/status is what status --json says", body)
    in_bytes = get + here + "Accept: */*\r\n\r\n"
    with connect(address) as client:
        for byte in in_bytes.encode():
            client.sendall(bytes([byte]))
            time.sleep(0.002)
        say(b" 200 OK" in read_all(client), "a request that comes byte by byte is answered")


def check_names(address):
    """Threads whose names are those of ours, or that look equal, do not spoil the page."""
    script = """import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
def work(name):
    libc.prctl(15, ctypes.c_char_p(name))
    while True: sum(range(3000)); time.sleep(0.002)
for name in (b'_other', b'a\\x01', b'a\\x02', b'"} 1', b'a\\nb 1', b'\\xff\\xfe', b'\\\\', b''):
    threading.Thread(target=work, args=(name,), daemon=True).start()
libc.prctl(15, b'_other')
time.sleep(60)
"""
    child = spawn("python3", "-c", script)
    time.sleep(2)
    body = ask(address)[2]
    subprocess.run([JS, "record", "-q", "-d", "1s", "--power", "off", "--max-lost", "100", "-p", str(child.pid), "-o", f"{WORK}/names.jsonl"],
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    end(child, signal.SIGKILL)
    report = subprocess.run([JS, "report", f"{WORK}/names.jsonl", "--openmetrics", f"{WORK}/names.prom"], capture_output=True, text=True, timeout=30)
    try:
        with open(f"{WORK}/names.prom", "rb") as file:
            say('thread="a?"' in str(samples(file.read())), "nor in what report writes of them")
    except (OSError, ValueError) as error:
        say(False, "nor in what report writes of them", error, report.stderr)
    try:
        values, why = samples(body), ""
    except ValueError as error:
        values, why = {}, error
    with open(f"{WORK}/page", "wb") as file:
        file.write(body)
    strict = subprocess.run(["/usr/bin/python3", "-c", "import sys\nfrom prometheus_client.openmetrics.parser import text_fd_to_metric_families as read\n"
                             "print(sum(len(f.samples) for f in read(open(sys.argv[1], encoding='utf-8'))))", f"{WORK}/page"], capture_output=True, text=True)
    known = strict.returncode == 0 or "No module" in strict.stderr
    say(values and known and len(values) <= 200 and any('thread="_other"' in v for v in values), "hostile names make no series twice, and the strict reader takes the page", why, strict.stderr)
    # Chromium's processes are called by their flags, --crashpad-handler-pid=N among them.
    say(not any(re.search(r'[{,]pid="', v) for v in values), "no series has a pid")


def check_crowd(address):
    idle = [connect(address) for _ in range(4)]
    time.sleep(0.2)
    status, head, _ = ask(address)
    say(status == 503 and "Retry-After" in head, "a fifth connection is told so", status)
    time.sleep(0.6)
    status = ask(address)[0]
    say(status == 200, "four who ask nothing keep nobody out", status)
    for client in idle:
        client.close()

    # Deadlines: who does not end its request, who does not read its answer.
    begun = time.monotonic()
    with connect(address) as client:
        client.sendall(b"GET /metrics HTT")
        answer = read_all(client)
        took = time.monotonic() - begun
    say(b" 408 " in answer and 4 < took < 7, "a request has 5 s", f"{took:.1f} s", answer[:200])
    with connect(address) as client:
        client.sendall(f"GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        time.sleep(0.5)
        begun, sent = time.monotonic(), 0
        try:
            while time.monotonic() - begun < 15:
                sent += client.send(b"x" * 65536)
        except OSError:
            pass
        took = time.monotonic() - begun
    say(took < 7, "who sends on behind its request is cut off", f"{took:.1f} s, {sent} bytes")


def memory_kb(pid):
    with open(f"/proc/{pid}/status") as file:
        return int([line for line in file if line.startswith("VmRSS")][0].split()[1])


def attack(address, until, kind):
    """Clients of one kind, one after another, as fast as they can."""
    get = f"GET /{'metrics' if kind % 2 else 'status'} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    held = []
    while time.monotonic() < until:
        try:
            client = connect(address)
            client.settimeout(2)
            if kind < 2:
                client.sendall(get)
                read_all(client)
                client.close()
            elif kind == 2: # never asks
                held.append(client)
            elif kind == 3: # asks, and does not read
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.sendall(get)
                held.append(client)
            elif kind == 4: # leaves at once, by RST
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.sendall(get[:20])
                client.close()
            else:
                for byte in get[:40]:
                    client.sendall(bytes([byte]))
                    time.sleep(0.01)
                client.close()
        except OSError:
            pass
        if len(held) > 50:
            held.pop(0).close()
        time.sleep(0.002)


def check_storm(address, recorder, path):
    """Six kinds of hostile clients at once: intervals go on, memory stays, and it answers again."""
    before_kb, seconds = memory_kb(recorder.pid), 8
    begun = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=attack, args=(address, until, kind)) for kind in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    after_kb = memory_kb(recorder.pid)
    say(after_kb - before_kb < 2048, "a storm of clients takes no memory", f"{before_kb} KiB, then {after_kb}")
    say(wait_for(lambda: ask(address)[0] == 200, 10), "it answers after the storm")
    time.sleep(0.5)
    rows = [r for r in records(path) if r["type"] == "interval" and begun <= r["t_boot_ns"] <= ended]
    lengths = sorted(r["dur_ns"] for r in rows)
    missed = sum(r.get("late", {}).get("interval_overruns", 0) for r in rows)
    say(len(rows) + missed >= (ended - begun) / 100e6 - 3 and lengths and lengths[len(lengths) // 2] < 103e6,
        "intervals go on meanwhile", f"{len(rows)} intervals, {missed} overruns, median {lengths[len(lengths) // 2] if lengths else 0} ns")


def check_redact(address):
    recorder = record(address, "-i", "100ms", "--redact", name="redact")
    marker = spawn("bash", "-c", "exec -a telltale bash -c 'while :; do :; done'")
    wait_for(lambda: b'thread="' in ask(address)[2])
    time.sleep(1)
    body = ask(address)[2]
    end(marker, signal.SIGKILL)
    say(b'thread="#' in body and b'process="#' in body and b"telltale" not in body and b"jank-prober" not in body,
        "with --redact the names are hashes", body[:600])
    end(recorder)


def check_daemon(address):
    folder = f"{WORK}/daemon"
    done = subprocess.run([JS, "record", "--daemon", "-i", "100ms", "--power", "off", "--max-lost", "100", "-o", folder, "--metrics", address],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    first = json.loads(wait_for(lambda: ask(address, path="/status")[2]) or b"{}")
    os.kill(first["pid"], signal.SIGKILL)

    def again():
        told = json.loads(ask(address, path="/status")[2] or b"{}")
        return told if told.get("pid") not in (None, first["pid"]) and told.get("recorder_restarts") else None

    second = wait_for(again, 30)
    say(done.returncode == 0 and second, "the recorder that a keeper begins anew answers at the same place", done.stderr, second)
    stopped = subprocess.run([JS, "stop", folder], capture_output=True, text=True, timeout=60)
    say(stopped.returncode == 0, "and it is stopped in order", stopped.stderr)


def check_waiting(address):
    """A recorder that waits for its target has no sums yet, and says so."""
    recorder = record(address, "-p", "there-is-no-such-name", "--wait", "20s", name="waits")
    told = json.loads(wait_for(lambda: ask(address, path="/status")[2]) or b"{}")
    status, _, body = ask(address)
    say(told.get("state") == "starting" and status == 200 and body == b"# EOF\n", "a recorder that waits for its target answers", told, body[:200])
    end(recorder)


def main():
    check_addresses()
    check_path()
    check_peer()
    address, path = f"127.0.0.1:{free_port()}", f"{WORK}/rec.jsonl"
    recorder = record(address, "-i", "100ms", "-o", path)
    say(wait_for(lambda: b"jankscope_intervals_total" in ask(address)[2]), "a port of 127.0.0.1 answers", words_of())
    check_answers(address)
    check_names(address)
    check_crowd(address)
    check_storm(address, recorder, path)
    say(end(recorder) == 0, "the recorder ends in order", words_of())
    if os.path.exists("/proc/net/if_inet6") and "00000000000000000000000000000001" in open("/proc/net/if_inet6").read():
        six = f"[::1]:{free_port()}"
        recorder = record(six, name="six")
        say(wait_for(lambda: ask(six)[0] == 200), "a port of [::1] answers", words_of("six"))
        end(recorder)
    else:
        print("ok - metrics: a port of [::1] # SKIP there is no IPv6")
    check_waiting(f"127.0.0.1:{free_port()}")
    check_redact(f"127.0.0.1:{free_port()}")
    check_daemon(f"127.0.0.1:{free_port()}")


try:
    main()
finally:
    cleanup()
