# SPDX-License-Identifier: BSD-2-Clause
"""A soak that nobody watches (story 3 of users-and-reliability.md §7), each step run and judged, in 40
seconds instead of 72 hours: a daemon beside an app that leaks and dies twice; the recorder is killed;
status, verify and a report that finds the leak. usage: story_soak.py JANKSCOPE APPS"""
import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

JS, APPS = (os.path.abspath(path) for path in sys.argv[1:3])
# Another run of the tests on this machine has an app of its own; a comm has 15 bytes.
APP, SECONDS, INTERVAL_NS = f"story.{os.getpid()}", 40, 100_000_000
WORK = tempfile.mkdtemp(prefix="story-soak-")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
os.chdir(WORK)


def say(good, name, *details):
    print(("ok" if good else "not ok") + " - story 3: " + name, flush=True)
    if not good:
        for line in "\n".join(str(detail) for detail in details).splitlines()[:30]:
            print("#", line[:400])


def run(*arguments):
    return subprocess.run([JS, *arguments], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


def status():
    try:
        return json.loads(run("status", "--json", "soak").stdout)
    except ValueError:
        return {"state": "none"}


def wait_until(what, seconds=15):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def start_app():
    """It leaks 4 MiB a second."""
    app = subprocess.Popen([f"{APPS}/memory_load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in (f"name {APP}", "leak 4194304"):
        app.stdin.write(line + "\n")
        app.stdin.flush()
        app.stdout.readline()
    return app


def end_app(app):
    app.kill()
    app.wait()


app = start_app()
begin = run("record", "-p", APP, "-i", "100ms", "-d", f"{SECONDS}s", "--max-disk", "200M", "--max-lost",
            "100", "--daemon", "-o", "soak/")
say(begin.returncode == 0 and
    re.match(r"jankscope: started pid \d+ \(keeper \d+\), 40\.0 s until \S+Z by boot clock, \d+ of \d+ "
             r"data sources ok\n", begin.stdout), "it starts, and says until when", begin.stdout, begin.stderr)
for _ in range(2):
    time.sleep(4)
    end_app(app)
    app = start_app()
wait_until(lambda: status().get("target_restarts") == 2)
text, state = run("status", "soak").stdout, status()
say(re.match(r"running \d+\.\d s  intervals (\d+)/(\d+)  target restarts 2  gaps 0  suspend 0 ms \(0x\)  lost .*\n"
             r"disk .* of 200\.0 MiB  self cpu [\d.]+ % anon [\d.]+ MiB.*  stops \d+ .*max [\d.]+ ms\n"
             r"last interval [\d.]+ m?s ago   warnings: ", text), "the next morning: how it goes", text)
told_ns = state["intervals_expected"] * state["interval_ns"]
went_ns = state["age_ns"] - state["last_interval_age_ns"]
say(abs(told_ns - went_ns) < 2 * INTERVAL_NS, "what is told is the time that went by",
    told_ns, went_ns)

pid = int(run("status", "--pid", "soak").stdout)
os.kill(pid, signal.SIGKILL)
wait_until(lambda: status()["state"] == "running" and status().get("gaps") == 1)
after = status()
say(after.get("recorder_restarts") == 1 and after.get("gaps") == 1 and 0 < after["gap_ns"] < 2_000_000_000 and
    after["pid"] != pid, f"killed: another recorder goes on after {after.get('gap_ns', 0) / 1e9:.1f} s", after)
end_app(app)
app = start_app()
say(wait_until(lambda: status()["state"] == "ended", SECONDS + 10) and status().get("exit_code") == 0,
    "it ends by the boot clock", status())
end_app(app)

done = run("verify", "soak")
say(done.returncode == 0 and "not explained: 0" in done.stdout, "verify explains what is missing", done.stdout)
rows = []
for name in sorted(os.listdir("soak")):
    if re.match(r"\d{8}\.jsonl", name):
        path = f"soak/{name}"
        lines = subprocess.run(["zstd", "-dcq", path], capture_output=True).stdout if name.endswith(".zst") \
            else open(path, "rb").read()
        rows += [json.loads(line) for line in lines.splitlines()]
spans = sorted((row["t_boot_ns"] - row["dur_ns"], row["t_boot_ns"]) for row in rows if row["type"] == "interval")
# A gap with planned_ns is an interval that is long.
gap_ns = sum(row["dur_ns"] for row in rows if row.get("event") == "gap" and "planned_ns" not in row)
sum_ns = sum(row["dur_ns"] for row in rows if row["type"] == "interval")
wall_ns = spans[-1][1] - spans[0][0]
say(gap_ns and abs(sum_ns + gap_ns - wall_ns) < INTERVAL_NS,
    f"{sum_ns / 1e9:.2f} s are told, {gap_ns / 1e9:.2f} s are a gap: together the {wall_ns / 1e9:.2f} s that went by",
    sum_ns, gap_ns, wall_ns)
starts = [row for row in rows if row.get("event") == "target_start"]
say(len(starts) >= 3, f"{len(starts)} lives of the target are told", starts)

report = run("report", "soak", "--since", "+5s", "--fail-if", "memory.processes.pss_slope_bytes_per_h > 1M")
say(report.returncode == 10 and "pss_slope_bytes_per_h" in report.stderr + report.stdout,
    "report finds the leak, and ends with 10", report.returncode, report.stderr, report.stdout[-800:])
