#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Check recordings line by line: JSON, crc (by a CRC-32C of its own), seq without a gap, header
first. usage: check_records.py [--footer] [--torn-ok] FILE...
--footer: the last line must be the footer. --torn-ok: half a line at the end is no failure.
Prints one line a file, problems first; exit status 1 if there are any."""
import json
import sys

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def check(path, footer, torn_ok):
    problems = []
    with open(path, "rb") as file:
        data = file.read()
    lines = data.split(b"\n")
    torn = lines.pop()
    if torn and not torn_ok:
        problems.append(f"ends in {len(torn)} bytes of a torn line")
    types = []
    for number, line in enumerate(lines):
        where = f"line {number}"
        head, mark, rest = line.rpartition(b',"crc":"')
        try:
            record = json.loads(line.decode("utf-8"))
        except ValueError as error:
            problems.append(f"{where}: {error}")
            continue
        if not mark or list(record)[-1] != "crc" or rest != b'%08x"}' % crc32c(head):
            problems.append(f"{where}: crc")
        if record.get("seq") != number:
            problems.append(f"{where}: seq {record.get('seq')}")
        types.append(record.get("type"))
    if types and types[0] != "header":
        problems.append("no header first")
    if footer and (not types or types[-1] != "footer"):
        problems.append("no footer last")
    if types.count("header") > 1 or types.count("footer") > 1:
        problems.append("more than one header or footer")
    for problem in problems[:10]:
        print(f"{path}: {problem}")
    print(f"{path}: {len(lines)} lines, {types.count('interval')} intervals, "
          f"torn {1 if torn else 0}, {len(problems)} problems")
    return not problems


if __name__ == "__main__":
    flags = {argument for argument in sys.argv[1:] if argument.startswith("--")}
    files = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    results = [check(path, "--footer" in flags, "--torn-ok" in flags) for path in files]
    sys.exit(0 if files and all(results) else 1)
