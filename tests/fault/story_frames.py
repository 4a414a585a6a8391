# SPDX-License-Identifier: BSD-2-Clause
"""Frames of known fate for the stories, and what a recording says of them.
usage: story_frames.py make PID SMOOTH LATE TRUTH     two traces of one app, and the truth of the second
       story_frames.py judge TRUTH RECORDING BLOCKS   BLOCKS: what tests/apps/looper printed"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trace"))
import make_traces as m  # noqa: E402

APP = os.environ.get("STORY_APP", "com.example.app")
LAYER = f"TX - {APP}/com.example.app.Main#10"


class Seen(m.Display):
    """It writes down when frames came to the screen, apart from how the trace says so."""

    def __init__(self):
        super().__init__()
        self.presents = []

    def frame(self, pid, layer, token, due, present, *more, **named):
        if present is not None:
            self.presents.append(present)
        super().frame(pid, layer, token, due, present, *more, **named)


def write(path, pid, display):
    with open(path, "wb") as file:
        file.write(m.clock_snapshot(9 * m.SECOND, mono=4 * m.SECOND, boot=9 * m.SECOND) +
                   m.process_tree((pid, APP), (500, "/system/bin/surfaceflinger")) + display.bytes())


def make(pid, smooth, late, truth):
    display = m.Display()
    for i in range(300):
        at = 10 * m.SECOND + i * m.V60
        display.frame(pid, LAYER, 1000 + i, at, at, m.V60)
    write(smooth, pid, display)
    display, sums = Seen(), {}
    m.play(display, pid, LAYER, sums)
    write(late, pid, display)
    presents = sorted(display.presents)
    intervals = sorted(b - a for a, b in zip(presents, presents[1:]))
    with open(truth, "w") as file:
        json.dump(dict(sums[LAYER], intervals=intervals), file)


def judge(truth, recording, blocks):
    truth = json.load(open(truth))
    records = [json.loads(line) for line in open(recording)]
    summary = records[-1]["summary"]
    bad = [f"{key}: {summary['frames'][key]}, {truth[key]} in truth" for key in ("shown", "dropped", "janky")
           if summary["frames"][key] != truth[key]]
    rows, buckets = truth["rows"], {}
    if abs(summary["frames"]["jank_pct"] - 100 * truth["janky"] / rows) > 0.001:
        bad.append(f"jank_pct: {summary['frames']['jank_pct']}, {truth['janky']} of {rows}")
    for record in records:
        for layer in record.get("frames", {}).get("layers", []):
            for low, high, count in layer["interval_hist"]:
                buckets[low, high] = buckets.get((low, high), 0) + count
    if sum(buckets.values()) != len(truth["intervals"]):
        bad.append(f"{sum(buckets.values())} intervals, {len(truth['intervals'])} in truth")
    for percent in (50, 95, 99):
        rank = (len(truth["intervals"]) - 1) * percent // 100
        below = 0
        for (low, high), count in sorted(buckets.items()):
            below += count
            if below > rank:
                break
        if not low <= truth["intervals"][rank] <= high:
            bad.append(f"p{percent}: {low}..{high}, {truth['intervals'][rank]} in truth")
    # Each block that the app took, once, and as long.
    took = sorted(int(line.split()[2]) for line in open(blocks))
    last = {record["start_boot_ns"]: record for record in records if record["type"] == "block"}
    told = sorted(record["wall_ns"] for record in last.values())
    if len(took) != len(told) or any(not 0 <= b - a < 20_000_000 for a, b in zip(took, told)):
        bad.append(f"blocks: {told}, {took} in truth")
    for record in last.values():
        if abs(sum(record["ledger"].values()) - record["wall_ns"]) > record["wall_ns"] / 100:
            bad.append(f"ledger: {record['ledger']} of {record['wall_ns']}")
    print("\n".join(bad))
    return bool(bad)


if sys.argv[1] == "make":
    make(int(sys.argv[2]), *sys.argv[3:])
else:
    sys.exit(judge(*sys.argv[2:]))
