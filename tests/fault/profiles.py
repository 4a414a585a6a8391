"""What a profile or a page of OpenMetrics says, against the JSON of the recording that it is made of.
usage: profiles.py pprof|npm|protoc|speedscope|openmetrics|perfetto RECORDING FILE"""
import json
import re
import sys

kind, recording, path = sys.argv[1:]
records = [json.loads(line) for line in open(recording, encoding="utf-8")]

# The last record of each block (an open one is told again), with the stacks that followed.
blocks = {}
for record in records:
    if record["type"] == "block":
        blocks[record["pid"], record["tid"], record["start_boot_ns"]] = record
by_seq = {block["seq"]: block for block in blocks.values()
          if block["state"] == "open" or block.get("missing", {}).get("stacks") == "follows"}
for record in records:
    if record["type"] == "stack" and record["of"] in by_seq:
        by_seq[record["of"]].setdefault("stacks", []).append(record)
want = {}  # process: [stacks, ns]
for block in blocks.values():
    row = want.setdefault(block.get("process") or block.get("package") or "unknown", [0, 0])
    row[0] += sum(1 for stack in block.get("stacks", []) if stack["frames"])
    row[1] += sum(stack["weight_ns"] for stack in block.get("stacks", []))
    row[1] += block.get("unsampled_ns", 0)


def clean(name):
    """As sink/text.h: what a terminal must not see is '?'. Enough for the names of these recordings."""
    return re.sub(r"[\x00-\x1f\x7f]", "?", name)


def in_order(names, frames):
    """Whether these begin frames, one behind the other, with others in between."""
    rest = iter(frames)
    return all(any(frame.startswith(name) for frame in rest) for name in names)


want = {clean(name): row for name, row in want.items() if row[1] or row[0]}
# A profile of pprof has what ran in late frames as well. process: [stacks, ns blocked, ns of CPU]
want_all = {name: [*row, 0] for name, row in want.items()}
for record in records:
    for stack in record.get("stacks", []) if record["type"] == "jank" else []:
        if stack["frames"] and not stack.get("asleep"):
            row = want_all.setdefault(clean(record.get("process") or record.get("package") or "unknown"), [0, 0, 0])
            row[0] += stack.get("samples", 1)
            row[2] += stack["weight_ns"]

if kind == "pprof":
    text = open(path, encoding="utf-8").read()
    assert "samples/count block/nanoseconds[dflt] cpu/nanoseconds" in text, "value types"
    have = {}
    last = None
    for line in text.split("Locations\n")[0].splitlines():
        sample = re.match(r"^ +(\d+) +(\d+) +(\d+): ", line)
        if sample:
            last = [int(value) for value in sample.groups()]
            continue
        label = re.search(r"process:\[(.*?)\]", line)
        if label and last:
            row = have.setdefault(label[1], [0, 0, 0])
            for n, value in enumerate(last):
                row[n] += value
            last = None
    have = {name: row for name, row in have.items() if any(row)}
    assert have == want_all, (have, want_all)
    # Every frame of the records has its function and, where it has a file, its mapping.
    for block in blocks.values():
        for stack in block.get("stacks", []):
            for frame in stack["frames"]:
                if "symbol" in frame and not frame.get("shared"):
                    assert clean(frame["symbol"])[:60] in text, frame["symbol"]
                if "build_id" in frame:
                    assert frame["build_id"] in text, frame
elif kind == "npm":
    profile = json.load(open(path, encoding="utf-8"))
    assert profile["types"] == ["samples/count", "block/nanoseconds", "cpu/nanoseconds"], profile["types"]
    have = {}
    for sample in profile["samples"]:
        row = have.setdefault(sample["labels"]["process"], [0, 0, 0])
        for n, value in enumerate(sample["values"]):
            row[n] += value
    have = {name: row for name, row in have.items() if any(row)}
    assert have == want_all, (have, want_all)
    # Frames with a name of their own, innermost first, are the frames of a sample in this order.
    shown = [sample["frames"] for sample in profile["samples"]]
    for block in blocks.values():
        for stack in block.get("stacks", []):
            names = [clean(frame["symbol"])[:60] for frame in stack["frames"]
                     if "symbol" in frame and not frame.get("shared") and frame.get("kind") != "kernel"]
            assert any(in_order(names, frames) for frames in shown), names
            assert all(frame["build_id"] in profile["build_ids"] for frame in stack["frames"] if "build_id" in frame)
elif kind == "protoc":
    # What protoc --decode prints of each sample.
    values = re.findall(r"^  value: (\d+)$", open(path, encoding="utf-8").read(), re.M)
    assert len(values) % 3 == 0
    have = [sum(map(int, values[n::3])) for n in (0, 1, 2)]
    assert have == [sum(row[n] for row in want_all.values()) for n in (0, 1, 2)], (have, want_all)
elif kind == "speedscope":
    page = json.load(open(path, encoding="utf-8"))
    assert page["$schema"].endswith("file-format-schema.json") and page["exporter"].startswith("jankscope@")
    frames = page["shared"]["frames"]
    have = {}
    for profile in page["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds" and profile["startValue"] == 0
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < len(frames) for sample in profile["samples"] for frame in sample)
        assert all(sample for sample in profile["samples"]), "a sample without a frame"
        assert sum(profile["weights"]) == profile["endValue"]
        have[profile["name"]] = have.get(profile["name"], 0) + profile["endValue"]
    have = {name: ns for name, ns in have.items() if ns}
    assert have == {name: row[1] for name, row in want.items() if row[1]}, (have, want)
    # The stacks are outermost first: the last frame of a sample is the innermost of a record.
    innermost = {clean(stack["frames"][0].get("symbol", ""))[:60] for block in blocks.values()
                 for stack in block.get("stacks", []) if stack["frames"] and not stack["frames"][0].get("shared")} - {""}
    shown = {frames[sample[-1]]["name"][:60] for profile in page["profiles"] for sample in profile["samples"]}
    missing = {name for name in innermost if not any(one.startswith(name) for one in shown)}
    # ART's own frames are folded away.
    assert not missing or recording.startswith("full"), missing
elif kind == "perfetto":
    # What protoc --decode_raw prints: numbers of fields, which know nothing of our .proto.
    def message(lines):
        fields = {}
        for line in lines:
            if line.strip() == "}":
                break
            if line.rstrip().endswith("{"):
                fields.setdefault(line.strip().split()[0], []).append(message(lines))
                continue
            number, value = line.strip().split(": ", 1)
            fields.setdefault(number, []).append(value.strip('"') if value.startswith('"') else int(value, 0))
        return fields

    packets = message(iter(open(path, encoding="utf-8").read().splitlines()))["1"]
    names, sums, begun, slices, points = {}, {}, {}, [], {}
    for packet in packets:
        for track in packet.get("60", []):
            names[track["1"][0]] = track.get("2", [""])[0]
            assert track["1"][0] not in points, "a track is described behind its events"
        for event in packet.get("11", []):
            uuid, kind_of = event["11"][0], event["9"][0]
            assert uuid in names, "an event on no track"
            points[uuid] = points.get(uuid, 0) + 1
            if kind_of == 4:
                sums[names[uuid]] = sums.get(names[uuid], 0) + event.get("30", [0])[0]
            elif kind_of == 1:
                begun.setdefault(uuid, []).append((packet["8"][0], event["23"][0]))
            elif kind_of == 2:
                at, name = begun[uuid].pop()
                slices.append((name, packet["8"][0] - at))
    intervals = [record for record in records if record["type"] == "interval" and "cpu" in record]
    assert sums["CPU busy"] == sum(one["cpu"]["busy_ns"] for one in intervals)
    assert sums.get("CPU", 0) == sum(row["cpu_ns"] for one in intervals for part in ("tasks", "processes") for row in one["cpu"][part])
    assert sums.get("jankscope CPU", 0) == sum(one["self"]["cpu_ns"] for one in intervals)
    for name in {key for one in intervals for key in one["lost"]}:
        assert sums[f"lost {name}"] == sum(one["lost"].get(name, 0) for one in intervals), name
    bytes_of = sum(value for name, value in sums.items() if name.startswith("net "))
    assert bytes_of == sum(row["rx_bytes"] + row["tx_bytes"] for one in intervals if "net" in one
                           for row in one["net"]["uids"] + [one["net"][key] for key in ("loopback", "unattributed") if key in one["net"]])
    # Readings are added up here as well, which says nothing but that each is there.
    whole = [record for record in records if record["type"] == "interval"]
    for part, rows, figures in (
            ("memory", "processes", {"RSS": "rss_bytes", "PSS": "pss_bytes", "swap": "swap_bytes", "threads": "threads",
                                     "descriptors": "fds"}),
            ("disk", "processes", {"read from storage": "read_bytes", "written to storage": "write_bytes"}),
            ("power", None, {"battery current, uA": "current_ua", "battery voltage, uV": "voltage_uv",
                             "battery charge, %": "charge_pct"})):
        for name, key in figures.items():
            values = [row.get(key, 0) for one in whole if part in one for row in (one[part][rows] if rows else [one[part]])]
            assert (sums.get(name, 0) - sum(values)) % 2 ** 64 == 0, (name, sums.get(name), values)
    for what, rows, key in (("limit of policy", "policies", "limit_khz"), ("temperature ", "zones", "temperature_mc")):
        values = [row.get(key, 0) for one in whole for row in one.get("power", {}).get(rows, [])]
        assert (sum(value for name, value in sums.items() if name.startswith(what)) - sum(values)) % 2 ** 64 == 0, (what, values)
    resent = sum(row["retransmits"] for one in whole for row in one.get("tcp", {}).get("uids", []))
    assert sum(value for name, value in sums.items() if name.startswith("TCP uid ")) == resent, resent
    told = [slice_of for slice_of in slices if slice_of[0].startswith("BLOCK")]
    # An open block is told again, until it ends.
    last = {}
    for record in records:
        if record["type"] == "block":
            rows = last.setdefault((record["pid"], record["start_boot_ns"]), [])
            rows[:] = [row for row in rows if row["state"] != "open"] + [record]
    ended = [row["wall_ns"] for rows in last.values() for row in rows]
    assert sorted(length for _, length in told) == sorted(ended), (told, ended)
    clocks = {clock["1"][0]: clock["2"][0] for clock in packets[0]["6"][0]["1"]}
    header = records[0]["clock"]
    assert clocks == {6: header["boot_ns"], 3: header["mono_ns"], 1: header["unix_ns"]}, clocks
else:
    text = open(path, encoding="utf-8").read()
    assert text.endswith("# EOF\n") and "\r" not in text
    samples, families, family = {}, {}, None
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            word, name = line.split(" ")[1:3]
            assert word in ("TYPE", "UNIT", "HELP"), line
            if word == "TYPE":
                assert name not in families, f"{name} is there twice"
                families[name] = line.split(" ")[3]
                family = name
            assert name == family, f"{name} stands among the lines of {family}"
            if word == "UNIT":
                assert name.endswith("_" + line.split(" ")[3]), line
            continue
        match = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)', line)
        assert match, line
        suffix = match[1][len(family):]
        assert match[1].startswith(family), f"{line}: stands among the lines of {family}"
        assert suffix in {"counter": ["_total"], "gauge": [""], "summary": ["", "_sum", "_count"]}[families[family]], line
        assert (match[1], match[3]) not in samples, f"{line}: is there twice"
        samples[match[1], match[3]] = float(match[4])
    assert len(samples) <= 200, f"{len(samples)} series"
    assert not any("pid" in re.findall(r"([a-z_]+)=", labels or "") for _, labels in samples)
    footer = [record for record in records if record["type"] == "footer"][-1]["summary"]

    def total(name, **labels):
        return sum(value for (one, text_of), value in samples.items() if one == name and
                   all(f'{key}="{label}"' in (text_of or "") for key, label in labels.items()))

    def near(a, b):
        assert abs(a - b) <= 1e-9 * max(abs(a), abs(b)), (a, b)

    near(total("jankscope_cpu_busy_seconds_total"), footer["cpu"]["busy_ns"] / 1e9)
    near(total("jankscope_intervals_total"), footer["intervals"])
    near(total("jankscope_blocks_wall_seconds_count"), footer["blocks"].get("wall_ns", {"n": 0})["n"])
    for top, name in (("threads", "task"), ("processes", "process"), ("uids", "uid")):
        one = footer["top"][top]
        other = footer["top"]["other"][top]["cpu_ns"]
        near(total(f"jankscope_{name}_cpu_seconds_total"), (sum(row["cpu_ns"] for row in one) + other) / 1e9)
    lost = footer.get("lost") or [record for record in records if record["type"] == "footer"][-1].get("lost", {})
    near(total("jankscope_losses_total", kind="lost"), sum(lost.values()))
