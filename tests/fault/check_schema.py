#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Validate every line of recordings with a JSON schema, then lines with one thing wrong, each of
which the schema must reject. Prints TAP. usage: check_schema.py SCHEMA RECORDING..."""
import copy
import json
import sys

import jsonschema

with open(sys.argv[1]) as file:
    SCHEMA = json.load(file)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def say(good, name, detail=""):
    print(f"{'ok' if good else 'not ok'} - schema: {name}")
    if not good and detail:
        print(f"# {str(detail)[:400]}")
    return good


def problem(record):
    return next((f"{list(e.absolute_path)}: {e.message}" for e in VALIDATOR.iter_errors(record)),
                None)


def children(value, path=()):
    """Every (path, value) below value, at most two rows of an array."""
    items = (value.items() if isinstance(value, dict) else
             list(enumerate(value))[:2] if isinstance(value, list) else ())
    for key, child in items:
        yield path + (key,), child
        yield from children(child, path + (key,))


def changed(record, path, new):
    """A copy of record with the value at path replaced; new is None: taken away."""
    result = copy.deepcopy(record)
    place = result
    for key in path[:-1]:
        place = place[key]
    if new is None:
        del place[path[-1]]
    else:
        place[path[-1]] = new[0]
    return result


def mutants(record):
    """What must be rejected: absent told as null, a number as a text or below 0, a text as a
    number, an object as a list. Not below an event's own keys and the summary, which are free."""
    for path, value in children(record):
        free = path[0] == "summary" or (record["type"] == "event" and path[0] not in
                                        ("type", "seq", "t_boot_ns", "event", "crc"))
        if free and path != ("summary",):
            continue
        yield path, "null", changed(record, path, [None])
        if isinstance(value, bool):
            yield path, "text", changed(record, path, ["true"])
        elif isinstance(value, (int, float)):
            yield path, "text", changed(record, path, [str(value)])
            # A kernel frame's offset is an address; unaccounted time has a sign.
            if path[-1] not in ("unaccounted_ns", "offset"):
                yield path, "below 0", changed(record, path, [-1])
            # Above 2^53 half a unit more is the same number again.
            if isinstance(value, int) and value < 2**52 and path[-1] != "fps_active":
                yield path, "fraction", changed(record, path, [value + 0.5])
        elif isinstance(value, str):
            yield path, "number", changed(record, path, [7])
        elif isinstance(value, dict):
            yield path, "list", changed(record, path, [[]])
        else:
            yield path, "object", changed(record, path, [{}])


# Keys that every record of the type has.
REQUIRED = {
    "header": ["schema", "version", "session", "boot_id", "kernel", "arch", "clock", "interval_ns",
               "block_ns", "targets", "sources", "clock.boot_ns", "clock.mono_ns", "clock.unix_ns"],
    "interval": ["dur_ns", "lost", "missing", "self", "self.cpu_ns", "cpu.online_cpus",
                 "cpu.busy_ns", "cpu.other_ns", "cpu.overflow_ns", "cpu.tasks", "cpu.uids",
                 "cpu.tasks.0.tid", "cpu.tasks.0.pid", "cpu.tasks.0.uid", "cpu.tasks.0.cpu_ns",
                 "cpu.tasks.0.start_boot_ns", "cpu.tasks.0.thread", "cpu.uids.0.uid",
                 "cpu.uids.0.cpu_ns", "net.uids", "net.loopback", "net.unattributed",
                 "net.loopback.rx_bytes", "net.unattributed.tx_packets", "net.uids.0.uid",
                 "net.uids.0.rx_packets", "net.uids.0.tx_bytes", "frames.layers",
                 "frames.layers.0.shown", "frames.layers.0.jank", "frames.layers.0.jank.sf"],
    "block": ["pid", "tid", "start_boot_ns", "wall_ns", "state", "class", "ledger", "reasons",
              "stacks", "ledger.running_ns", "ledger.uninterruptible_ns", "reasons.0.ns",
              "stacks.0.capture", "stacks.0.frames", "stacks.0.frames.0.kind", "waker.tid"],
    "event": ["event"],
    "stack": ["of", "weight_ns", "capture", "complete", "frames", "frames.0.kind"],
    "footer": ["summary", "lost", "missing"],
}
VALUES = {
    "header": [("schema", 2), ("arch", "mips"), ("sources.0.state", "fine"), ("session", "x")],
    "interval": [("cpu.tasks.0.thread", "more than fifteen bytes"), ("cpu.tasks.1.exited", False)],
    "block": [("state", "shut"), ("class", "huge"), ("stacks.0.capture", "magic"),
              ("stacks.0.frames.0.kind", "java"), ("merged", False)],
    "stack": [("frames.4.by", "guess"), ("frames.4.shared", False), ("in_wait", False), ("capture", "magic")],
    "event": [("event", ""), ("type", "evnt")],
    "footer": [("lost.records_dropped", -1), ("missing.x", "")],
}


def path_of(record, dotted):
    """The path that a dotted text names, and the value there, None if there is none."""
    path, place = [], record
    for key in dotted.split("."):
        key = int(key) if key.isdigit() else key
        path.append(key)
        place = place.get(key) if isinstance(place, dict) else (
            place[key] if isinstance(place, list) and key < len(place) else None)
    return path, place


try:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    say(True, "is a schema of draft 2020-12")
except jsonschema.SchemaError as error:
    say(False, "is a schema of draft 2020-12", error)

samples = {}
for name in sys.argv[2:]:
    with open(name, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    bad = [(n, problem(line)) for n, line in enumerate(lines) if problem(line)]
    say(not bad and len(lines) >= 4, f"accepts the {len(lines)} lines of {name}", bad[:3])
    if "full" in name:
        for line in lines:
            samples.setdefault(line["type"], line)

for kind in ("header", "interval", "block", "stack", "event", "footer"):
    record = samples[kind]
    tried = accepted = 0
    kept = []
    for path, what, mutant in mutants(record):
        tried += 1
        if not problem(mutant):
            kept.append(f"{'.'.join(map(str, path))} as {what}")
    say(not kept and tried > 4, f"rejects {tried} wrong values in a {kind}", kept)
    kept = []
    for dotted in REQUIRED[kind] + ["type", "seq", "t_boot_ns", "crc"]:
        path, place = path_of(record, dotted)
        if place is None or not problem(changed(record, path, None)):
            kept.append(dotted)
    say(not kept, f"rejects a {kind} without one of its {len(REQUIRED[kind]) + 4} keys", kept)
    kept = []
    for dotted, value in VALUES[kind]:
        path, _ = path_of(record, dotted)
        if not problem(changed(record, path, [value])):
            kept.append(f"{dotted} = {value}")
    say(not kept, f"rejects a {kind} with a value that is none", kept)
say(problem([]) and problem({}) and problem("header"), "rejects what is no record")
