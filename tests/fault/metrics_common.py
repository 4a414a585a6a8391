# SPDX-License-Identifier: BSD-2-Clause
"""What metrics.py and metrics_prometheus.py share."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

JS = os.path.abspath(sys.argv[1])
WORK = tempfile.mkdtemp(prefix="jankscope-metrics-")
children = []


def say(good, name, *detail):
    print(f"{'ok' if good else 'not ok'} - metrics: {name}", flush=True)
    for text in [] if good else detail:
        for line in str(text).splitlines()[:12]:
            print(f"# {line[:400]}", flush=True)
    return good


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def spawn(*words, **more):
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, **more)
    children.append(child)
    return child


def record(address, *more, name="rec"):
    """A recorder that answers there; its words are in WORK/NAME.err."""
    with open(f"{WORK}/{name}.err", "w") as err:
        return spawn(JS, "record", "-q", "--max-lost", "100", "--power", "off", "--metrics", address,
                     *more, stderr=err, stdout=subprocess.DEVNULL)


def words_of(name="rec"):
    with open(f"{WORK}/{name}.err", errors="replace") as file:
        return file.read()


def wait_for(condition, seconds=20):
    """The first true value, or the last one."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.05)


def end(child, how=signal.SIGINT):
    if child.poll() is None:
        child.send_signal(how)
    try:
        return child.wait(20)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def records(path):
    """What of a file is whole."""
    found = []
    with open(path, errors="replace") as file:
        for line in file:
            try:
                found.append(json.loads(line))
            except ValueError:
                break
    return found


def connect(address):
    if address.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(15)
        client.connect(address[5:])
    elif address.startswith("@"):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(15)
        client.connect("\0" + address[1:])
    else:
        host, port = address.rsplit(":", 1)
        client = socket.create_connection((host.strip("[]"), int(port)), timeout=15)
    return client


def read_all(client):
    data = b""
    try:
        while True:
            more = client.recv(65536)
            if not more:
                break
            data += more
    except ConnectionError:
        pass
    return data


def ask(address, request=None, path="/metrics", host=None):
    """(status, header, body); status 0: there was no answer."""
    if request is None:
        host = host or (address if address[0] not in "u@" else "localhost")
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"
    if isinstance(request, str):
        request = request.encode()
    try:
        with connect(address) as client:
            client.sendall(request)
            data = read_all(client)
    except OSError:
        return 0, "", b""
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, head.decode("latin-1"), body


def samples(body):
    """Each sample of a page, by its name with labels."""
    found = {}
    for line in body.decode().splitlines():
        if line and line[0] != "#":
            name, _, value = line.rpartition(" ")
            if name in found:
                raise ValueError(f"{name} is there twice")
            found[name] = float(value)
    return found


def cleanup():
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait()
    shutil.rmtree(WORK, ignore_errors=True)
