"""Threads of the flight recorder: programs that name their threads as Android does, beside a run of
`record --frames` whose footer says how many threads it had and what they have covered."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.environ["BUILD"]
PR_SET_NAME, PR_SET_PDEATHSIG, SIGKILL = 15, 1, 9
failed = False


def ok(condition, text):
    global failed
    failed |= not condition
    print(("ok - " if condition else "not ok - ") + text, flush=True)


def play(main, names, late):
    """The program: its main thread and one of each name, which sleep for 4 ms at a time; those of
    `late` begin when a line comes. Those called idle do not run, and the last one is a RenderThread from when the line comes."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL)

    def run(name, turn):
        libc.prctl(PR_SET_NAME, name.encode())
        if name == "idle":
            turn.wait()
            libc.prctl(PR_SET_NAME, b"RenderThread")
        while True:
            time.sleep(0.004)

    for name in names:
        turn = threading.Event()
        threading.Thread(target=run, args=(name, turn), daemon=True).start()
    libc.prctl(PR_SET_NAME, main.encode())
    print("ready", flush=True)
    sys.stdin.readline()
    turn.set()
    for name in late:
        threading.Thread(target=run, args=(name, turn), daemon=True).start()
    while True:
        time.sleep(0.004)


def start(main, names, late=()):
    program = subprocess.Popen([sys.executable, __file__, "play", main, ",".join(names), ",".join(late)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    return program


def record(folder, number, program, duration, *more, then=lambda: None):
    """The footer's totals of the recorder, and its losses; None: it has none. The program goes on a second after it began, and
    `then` is called."""
    path = f"{folder}/{number}.jsonl"
    trace = f"{folder}/empty.trace"
    open(trace, "w").close()
    done = subprocess.Popen([f"{BUILD}/jankscope", "record", "-p", str(program.pid), "-d", duration, "-q", "--max-lost", "100", "-o", path,
                             *[trace if word == "TRACE" else word for word in more]],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until = time.monotonic() + 30
    while done.poll() is None and time.monotonic() < until and not (os.path.exists(path) and '"header"' in open(path).read()):
        time.sleep(0.05)
    time.sleep(1)
    program.stdin.write("\n")
    program.stdin.flush()
    then()
    talk = done.communicate(timeout=60)[0]
    if done.returncode:
        print(f"# {talk}")
        return None, {}
    with open(path) as lines:
        footer = json.loads(lines.readlines()[-1])
    return footer["summary"].get("flight"), footer.get("lost", {})


def watched_of(pid):
    """Of a process that is called surfaceflinger: its threads that each recorder of frames on this machine watches."""
    try:
        names = [open(f"/proc/{pid}/task/{tid}/comm", errors="replace").read().strip() for tid in os.listdir(f"/proc/{pid}/task")
                 if tid != pid]
        return (pid, 1 + names.count("RenderEngine")) if open(f"/proc/{pid}/comm", errors="replace").read() == "surfaceflinger\n" else None
    except OSError:
        return None


def displays():
    return sorted(filter(None, (watched_of(pid) for pid in os.listdir("/proc") if pid.isdigit())))


def record_beside(display, *arguments):
    """The same, and how many threads of displays that other tests play, besides this one's, are among the recorder's; again
    where these changed meanwhile."""
    for attempt in range(5):
        before = displays()
        flight, lost = record(arguments[0], f"{arguments[1]}-{attempt}", *arguments[2:])
        if before == displays():
            break
    return flight, lost, sum(count for pid, count in before if not display or int(pid) != display.pid)


def record_restart(folder, app):
    """A SurfaceFlinger that dies amid a run and is started anew: the footer's totals, and those of other tests' displays."""
    own = []

    def restart():
        for display in own:
            display.kill()
            display.wait()
        own.append(start("surfaceflinger", ["RenderEngine"]))

    def others():
        return [count for pid, count in displays() if int(pid) not in [display.pid for display in own]]
    for attempt in range(5):
        restart()
        before = others()
        flight, lost = record(folder, f"8-{attempt}", app, "3s", "--frames", "TRACE", then=restart)
        if before == others():
            break
        del own[:-1]
    for display in own:
        display.kill()
        display.wait()
    return flight, lost, sum(before)


def main():
    with tempfile.TemporaryDirectory() as folder:
        app = start("app", ["RenderThread", "hwuiTask0", "hwuiTask1", "Decoder", "binder:1_1"], ["hwuiTask2"])
        flight, lost = record(folder, 1, app, "6s", "--frames", "TRACE")
        ok(flight is not None and flight["threads"] == 5,
           f"main, RenderThread and three hwuiTasks, one of them born late: {flight}")
        ok(flight is not None and 0 < flight["bytes"] <= 8 << 20 or os.cpu_count() > 16,
           "it takes at most 8 MiB")
        # The late one was found within a tick of its birth, and the others at the start.
        ok(flight is not None and 0.5e9 <= flight.get("least_covered_ns", 0) <= 5.5e9,
           "the late one has less than the run, and half a second at least")
        ok(not any(key.startswith("flight") for key in lost), f"nothing of it is lost: {lost}")
        app.kill()
        app.wait()
        app = start("app", ["RenderThread", "Decoder"])
        display = start("surfaceflinger", ["RenderEngine", "TimerDispatch"])
        flight, lost, others = record_beside(display, folder, 2, app, "2s", "--frames", "TRACE", "--thread", "Deco*")
        ok(flight is not None and flight["threads"] == 5 + others,
           f"with --thread one more, and SurfaceFlinger's main thread and RenderEngine: {flight}")
        display.kill()
        display.wait()
        flight, lost = record(folder, 3, app, "1s")
        ok(flight is None, "without --frames nothing is recorded")
        app.kill()
        app.wait()
        many = start("app", ["RenderThread"] + [f"worker{i}" for i in range(140)])
        flight, lost, others = record_beside(None, folder, 4, many, "2s", "--frames", "TRACE", "--thread", "worker*")
        ok(flight is not None and 0 < flight["threads"] <= 128 and
           lost.get("flight_threads_unwatched", 0) + flight["threads"] == 142 + others,
           f"threads that find no room are counted: {flight} {lost}")
        many.kill()
        many.wait()
        # Helpers that are born before the RenderThread leave room for it, and for the display.
        many = start("app", [f"hwuiTask{i}" for i in range(150)] + ["RenderThread"])
        display = start("surfaceflinger", ["RenderEngine"])
        flight, lost, others = record_beside(display, folder, 5, many, "2s", "--frames", "TRACE")
        ok(flight is not None and flight["threads"] == 8 + others and lost.get("flight_threads_unwatched") == 146,
           f"of 150 hwuiTasks four, and all that a frame waits for: {flight} {lost}")
        for program in (many, display):
            program.kill()
            program.wait()
        # Nor do RenderThreads take the room of those of the display.
        many = start("app", ["RenderThread"] * 150)
        display = start("surfaceflinger", ["RenderEngine"])
        flight, lost, others = record_beside(display, folder, 7, many, "2s", "--frames", "TRACE")
        ok(flight is not None and flight["threads"] == 7 + others and lost.get("flight_threads_unwatched") == 146,
           f"of 150 RenderThreads four, and the display's: {flight} {lost}")
        for program in (many, display):
            program.kill()
            program.wait()
        # One that starts anew is found at once, and not with the next look of each 4 s.
        app = start("app", ["RenderThread"])
        flight, lost, others = record_restart(folder, app)
        ok(flight is not None and flight["threads"] == 6 + others, f"a SurfaceFlinger that starts anew: {flight} {lost}")
        app.kill()
        app.wait()
        # Behind 512 threads those that do not run are asked for their names seldom: not one that runs again.
        many = start("app", ["idle"] * 700)
        flight, lost = record(folder, 6, many, "7s", "--frames", "TRACE")
        ok(flight is not None and flight["threads"] == 2, f"of 700 idle threads the one that draws from then on: {flight} {lost}")
        many.kill()
        many.wait()


if len(sys.argv) > 4 and sys.argv[1] == "play":
    play(sys.argv[2], [name for name in sys.argv[3].split(",") if name],
         [name for name in sys.argv[4].split(",") if name])
else:
    main()
    sys.exit(failed)
