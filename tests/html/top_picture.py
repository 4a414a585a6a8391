#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The picture of `jankscope top` in README: the real screen in tmux, of an app that blocks and of frames
that come late, with its colours, as SVG. Needs root, tmux and the tests' apps. Make it anew when the screen
changes.
usage: top_picture.py BUILD WORK OUT.svg"""
import fcntl
import html
import os
import re
import subprocess
import sys
import time
import unicodedata

BUILD, WORK, OUT = map(os.path.abspath, sys.argv[1:4])
COLUMNS, LINES = 100, 30
WIDE, HIGH, EDGE = 7.8, 16, 10  # of a cell; around all
COLOURS = ["#1c1e22", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d7dae0"]


def select(state, codes):
    for code in [int(c or 0) for c in codes.split(";")]:
        if code == 0:
            state.clear()
        elif code in (1, 2, 7):
            state[{1: "bold", 2: "dim", 7: "reverse"}[code]] = True
        elif code in (22, 27):
            for key in ("bold", "dim") if code == 22 else ("reverse",):
                state.pop(key, None)
        elif code // 10 in (3, 4, 9, 10):
            key = "front" if code // 10 in (3, 9) else "back"
            if code % 10 == 9:
                state.pop(key, None)
            else:
                state[key] = COLOURS[code % 10]


def columns_of(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def drawn(text, state, x, y):
    """One piece of a line: as wide as its cells, whatever font there is."""
    front, back = state.get("front", COLOURS[7]), state.get("back")
    if state.get("reverse"):
        front, back = back or COLOURS[0], front
    width = columns_of(text) * WIDE
    if back:
        yield f'<rect x="{x:.1f}" y="{y - 12}" width="{width:.1f}" height="{HIGH}" fill="{back}"/>'
    more = (' font-weight="bold"' if state.get("bold") else "") + (' opacity=".65"' if state.get("dim") else "")
    # Of blanks in a row browsers make one.
    for word in re.finditer(r"\S+(?: \S+)*", text):
        yield (f'<text x="{x + columns_of(text[:word.start()]) * WIDE:.1f}" y="{y}" '
               f'textLength="{columns_of(word[0]) * WIDE:.1f}" fill="{front}"{more}>{html.escape(word[0], quote=False)}</text>')


def picture(screen):
    width, height = COLUMNS * WIDE + 2 * EDGE, LINES * HIGH + 2 * EDGE
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
             f'font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="13">',
             f'<rect width="{width:.0f}" height="{height}" rx="6" fill="{COLOURS[0]}"/>']
    state = {}
    for number, line in enumerate(screen.split("\n")[:LINES]):
        x, y = EDGE, EDGE + 12 + number * HIGH
        for text in re.split(r"(\x1b\[[0-9;]*m)", line):
            if text.startswith("\x1b["):
                select(state, text[2:-1])
            elif text:
                parts.extend(drawn(text, state, x, y))
                x += columns_of(text) * WIDE
    return "\n".join(parts + ["</svg>", ""])


def tmux(*arguments):
    return subprocess.run(["tmux", "-S", f"{WORK}/tmux", *arguments], capture_output=True, text=True, check=True).stdout


# Threads with names, each with something to do now and then.
THREADS = """
import ctypes, threading, time
def work(name, share):
    ctypes.CDLL(None).prctl(15, name.encode())
    while True:
        until = time.thread_time() + share / 20
        while time.thread_time() < until:
            pass
        time.sleep(0.05)
for name, share in (("RenderThread", 0.4), ("OkHttp Dispatch", 0.2), ("Uploader", 0.1), ("GC", 0.02)):
    threading.Thread(target=work, args=(name, share), daemon=True).start()
threading.Event().wait()
"""


def as_package(name, *command, **more):
    return subprocess.Popen(["bash", "-c", 'name=$1; shift; exec -a "$name" "$@"', "bash", name, *command],
                            stdout=subprocess.DEVNULL, text=True, **more)


def screen():
    tracefs = "/sys/kernel/tracing"
    if not os.path.exists(f"{tracefs}/trace_marker"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", tracefs], check=True)
    lock = open("/tmp/jankscope-tests.tracefs.lock", "w")  # one test at a time traces
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
    app = as_package("com.example.feed", f"{BUILD}/tests/apps/looper", stdin=subprocess.PIPE)
    programs = [app, as_package("com.example.feed:sync", sys.executable, "-c", THREADS)]
    try:
        tmux("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES),
             f"{BUILD}/jankscope top -p 'com.example.*' -i 1s --block 300ms --frames live --color always")
        time.sleep(3)  # what is played before the kernel traces is not there
        programs.append(as_package("com.example.play", f"{BUILD}/tests/apps/play_markers", f"{WORK}/truth", "60", "30"))
        time.sleep(2)
        for command in ("run 350", "lock 700", "sleep 500", "lock 900"):
            app.stdin.write(command + "\n")
            app.stdin.flush()
            time.sleep(2.5)
        tmux("send-keys", "j")
        time.sleep(0.5)
        return tmux("capture-pane", "-p", "-e")
    finally:
        tmux("send-keys", "q")
        time.sleep(2)
        subprocess.run(["tmux", "-S", f"{WORK}/tmux", "kill-server"], stderr=subprocess.DEVNULL)
        for process in programs:
            process.kill()
            process.wait()


def main():
    if not os.environ.get("INSIDE"):  # what is mounted stays in here
        os.execvpe("unshare", ["unshare", "-m", sys.executable, __file__, BUILD, WORK, OUT], {**os.environ, "INSIDE": "1"})
    os.makedirs(WORK, exist_ok=True)
    with open(OUT, "w", encoding="utf-8") as file:
        file.write(picture(screen()))


main()
