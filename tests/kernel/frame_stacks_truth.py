"""Stacks and chains of late frames while they are recorded: tests/apps/frame_stacks.c makes frames, each late
by what its kind plants; the record has to name the function that ran too long, or who held the lock.
usage: frame_stacks_truth.py"""
import json, os, signal, subprocess, sys, tempfile, time
from janks_truth import FAKE, MS, PERIOD, ok, result, sums_up, trace_of

COUNT = 8
# By kind: the cause, and the functions that its line has to name, innermost first.
KINDS = {"main_cpu": ("main_cpu", ["burn_layout", "bind_row"]), "render_cpu": ("render_cpu", ["burn_paint", "render"]),
         "renamed": ("main_cpu", ["burn_layout", "bind_row"])}


def names(stack):
    return [f.get("symbol", "?") for f in stack["frames"]]


DIES = """#!/usr/bin/env python3
import os, sys, time
sys.stdin.buffer.read()
base = os.environ["JANKS_TRACE"]
first = not os.path.exists(base + ".began")
open(base + ".began", "w").close()
while not os.path.exists(base):
    time.sleep(0.05)
sys.stdout.buffer.write(open(base + (".1" if first else ".2"), "rb").read())
sys.stdout.buffer.flush()
if first:
    time.sleep(1)
    os._exit(1)
while True:
    time.sleep(0.1)
"""


def record(app, folder, *flags, odd=""):
    """What was recorded while the app made its frames: [(kind, begin, end)], records, text."""
    path, frames = folder + "/out.jsonl", []
    recorder = subprocess.Popen([os.environ["BUILD"] + "/jankscope", "record", "-p", str(app.pid), "--frames", "perfetto",
                                 "-i", "500ms", "-o", path, "--max-lost", "100", *flags],
                                env={**os.environ, "PATH": folder + "/bin:" + os.environ["PATH"], "JANKS_TRACE": folder + "/trace"},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until and not (os.path.exists(path) and '"interval"' in open(path).read()):
            time.sleep(0.1)
        app.stdin.write("\n")
        app.stdin.flush()
        while (line := app.stdout.readline().split())[0] != "end":
            frames.append((line[0], int(line[1]), int(line[2]), 0, 0))
        made = list(frames)
        if odd == "old":
            # As old as no ring is: nothing may be told of what the threads did.
            frames += [("old", begin - 40000 * MS, end - 40000 * MS, 0, 0) for _, begin, end, *_ in frames[:3]]
        with open(folder + "/trace.tmp", "wb") as file:
            file.write(trace_of(frames, app.pid, layers=1000 if odd == "old" else 0))
        if odd == "dies":
            for part, (first, last) in enumerate(((0, len(made) // 2), (len(made) // 2, len(made))), 1):
                with open(f"{folder}/trace.{part}", "wb") as file:
                    file.write(trace_of(made[first:last], app.pid, first=first))
        os.rename(folder + "/trace.tmp", folder + "/trace")
        late = sum(end > begin + PERIOD for _, begin, end, *_ in frames)
        until = time.monotonic() + 30
        while time.monotonic() < until and open(path).read().count('"jank"') < late:
            time.sleep(0.2)
        time.sleep(0.5)
    finally:
        recorder.send_signal(signal.SIGINT)
        talk = recorder.communicate(timeout=20)[0]
        app.kill()
        app.wait()
    return frames, [json.loads(line) for line in open(path)], talk


def play(*flags, odd=""):
    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/bin")
    with open(folder + "/bin/perfetto", "w") as file:
        file.write(DIES if odd == "dies" else FAKE)
    os.chmod(folder + "/bin/perfetto", 0o755)
    app = subprocess.Popen([os.environ["BUILD"] + "/tests/apps/frame_stacks", str(COUNT)], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    app.stdout.readline()
    frames, records, talk = record(app, folder, *flags, odd=odd)
    late = {7000 + n: f for n, f in enumerate(frames) if f[2] > f[1] + PERIOD}
    janks = {r["surface_frame_token"]: r for r in records if r["type"] == "jank"}
    return late, janks, records[-1], talk


def lost(footer, name):
    return sum(footer["summary"].get(kind, {}).get(name, 0) for kind in ("lost", "late_counts", "repaired"))


def told(jank, want):
    """The heaviest stack of the thread that ran too long has these functions, the first of them innermost."""
    if "top" not in jank:
        return False
    have = [n for n in names(jank["stacks"][jank["top"]]) if n in want]
    return have == want


def thinned(jank):
    """On a slow machine samples of so many late frames cost 1 % of a core: what is left out is said, and counted."""
    return "left out: samples had cost 1 % of a core" in jank["missing"].values()


def check_stacks(late, janks, footer):
    all_, named, wrong = 0, 0, []
    for kind, (cause, want) in KINDS.items():
        mine = [janks[t] for t, f in late.items() if f[0] == kind and janks.get(t, {}).get("cause") == cause]
        mine = [j for j in mine if not thinned(j)]
        good = [j for j in mine if told(j, want)]
        wrong += [(kind, j["missing"], j.get("top"), [(s.get("tid"), s.get("samples"), names(s)[:3]) for s in j.get("stacks", [])])
                  for j in mine if j not in good]
        ok(mine and len(good) >= 0.8 * len(mine), f"{kind}: {len(good)} of {len(mine)} frames with {cause} name {want[0]}", wrong[:3])
        all_, named = all_ + len(mine), named + len(good)
    ok(named >= 0.95 * all_, f"{named} of {all_} CPU-bound late frames name the function", wrong[:3])
    left_out = [j for j in janks.values() if thinned(j)]
    ok(len(left_out) <= 2 * len(janks) // 3 and (not left_out or footer["lost"].get("frame_samples_thinned")),
       f"samples of {len(left_out)} of {len(janks)} frames were too dear here, and that is counted", footer["lost"])
    died = [janks[t] for t, f in late.items() if f[0] == "died"]
    # The second one's RenderThread is too young to be known: nothing of it, or what is right.
    ok(len(died) == 2 and
       all(told(j, ["burn_paint", "render"]) or "stacks" in j["missing"] or j["cause"] not in ("main_cpu", "render_cpu") for j in died),
       "a RenderThread that dies in its frame: right, or said to be missing", [(j["cause"], j["missing"], [names(s) for s in j.get("stacks", [])]) for j in died])
    tids = [(s["tid"], [t["tid"] for t in j["threads"]]) for j in janks.values() for s in j.get("stacks", [])]
    ok(tids and all(tid in all_ for tid, all_ in tids), "each stack is of a thread of its frame", [t for t in tids if t[0] not in t[1]][:3])
    ok(all("stacks" in j["missing"] for j in janks.values() if j["cause"] in ("main_cpu", "render_cpu") and not j.get("stacks")),
       "a frame without stacks says why")


def check_chains(late, janks):
    for kind, want in (("lock", ["loader"]), ("chain", ["loader", "saver"])):
        mine = [janks[t] for t, f in late.items() if f[0] == kind and janks.get(t, {}).get("cause") == "lock"]
        mine = [j for j in mine if not thinned(j)]
        good = [j for j in mine if [link["thread"] for link in j.get("chain", [])] == want]
        ok(mine and len(good) >= 0.9 * len(mine), f"{kind}: {len(good)} of {len(mine)} frames name who held the lock",
           [(j.get("chain"), j["missing"]) for j in mine if j not in good][:2])
        stacks = [names(j["chain"][0]["stack"]) for j in good if "stack" in j["chain"][0]]
        ok(len(stacks) >= 0.9 * len(good) and all("hold_lock" in s for s in stacks), f"{kind}: and what that thread did", stacks[:2])
        own = [j for j in good if any(s.get("asleep") and "take_lock" in names(s) for s in j.get("stacks", []))]
        ok(len(own) >= 0.9 * len(good), f"{kind}: and where the main thread waited", [j.get("stacks") for j in good if j not in own][:1])


def main():
    late, janks, footer, talk = play()
    ok(footer["type"] == "footer" and set(janks) == set(late) and len(late) >= 5 * COUNT, f"{len(late)} late frames are told",
       sorted(set(janks) ^ set(late)), talk[-800:])
    ok(all(sums_up(j) for j in janks.values()), "the ledger of each thread sums to its window")
    check_stacks(late, janks, footer)
    check_chains(late, janks)
    text = " ".join(talk.split())
    ran = [part.split(" LATE ")[0] for part in text.split(" main ran ")[1:]]
    ok(ran and sum("bind_row < burn_layout (" in part and " samples)" in part for part in ran) >= 0.9 * (len(ran) - sum(thinned(j) for j in janks.values())),
       "the line names the function, and of how many samples", ran[:3])
    ok("for a lock held by loader" in text and "held by loader, which waits for saver" in text, "the line names who held the lock",
       [part[:120] for part in text.split("for a lock")[1:4]])
    paths = {(row.get("path") or "").split(";")[-1]: row for row in footer["summary"]["frames"]["late_paths"]}
    sums = [sum(row[key] for row in footer["summary"]["frames"]["late_paths"]) for key in ("count", "total_ns")]
    ok({"burn_layout", "burn_paint", "take_lock"} <= set(paths) and paths["burn_layout"]["count"] + sum(thinned(j) for j in janks.values()) >= 1.5 * COUNT and
       sums == [len(janks), sum(j["late_ns"] for j in janks.values())], "the footer sums late frames by what told", paths, sums)
    stops = footer["summary"]["captures"]["stops"]
    ok(stops == 0, f"no thread was stopped ({footer['summary']['flight']['samples']} samples)", stops)
    late, janks, footer, talk = play("--frame-samples", "off", odd="old")
    ok(janks and not any(j.get("stacks") or j.get("chain") for j in janks.values()) and
       all(j["missing"].get("stacks") == "--frame-samples off" for j in janks.values() if j["cause"] == "main_cpu"),
       "--frame-samples off takes none, and says so", [j["missing"] for j in janks.values()][:3])
    old = [t for t in late if late[t][0] == "old"]
    ok(set(late) - set(old) <= set(janks), "a thousand layers beside it: each late frame is told", sorted(set(late) - set(janks)))
    told_ = [janks[t] for t in old if t in janks]
    ok(all(j["cause"] == "unknown" and not j.get("stacks") and "threads" in j["missing"] and
           all(t["ledger"].get("unknown_ns", 0) == j["window_end_ns"] - j["window_start_ns"] for t in j["threads"]) for j in told_) and
       (len(told_) == len(old) or footer["lost"]), f"frames of 40 s ago: {len(told_)} told, with a cause that is not known; the others are counted",
       [(j["cause"], j["missing"], j["threads"]) for j in told_][:2], footer["lost"])
    late, janks, footer, talk = play(odd="dies")
    ok(footer["type"] == "footer" and (set(janks) == set(late) or any(name.startswith("frames.") for name in footer["lost"])) and
       any(t > 7000 + len(late) // 2 for t in janks), "a source of frames that dies and comes back: what it told of is told, the rest is counted",
       sorted(set(janks) ^ set(late)), footer["lost"], talk[-1500:])
    named = [j for j in janks.values() if j["cause"] == "main_cpu" and told(j, KINDS["main_cpu"][1])]
    cpu = [j for j in janks.values() if j["cause"] == "main_cpu" and not thinned(j)]
    ok(len(named) >= 0.8 * len(cpu) > 0, f"and {len(named)} of {len(cpu)} frames have their stacks", [j["missing"] for j in cpu][:4])


main()
sys.exit(result())
