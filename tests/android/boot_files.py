#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Make a small boot.art and boot.oat for artdemo, sound but for what is asked for.
usage: boot_files.py NAME [KEY=VALUE...]   writes NAME.art and NAME.oat"""
import struct
import sys

value = {"begin": 0x70000000, "size": 0x3000, "checksum": 0x1234, "oat_begin": 0x71000000, "oat_end": 0x71004000,
         "oat_data": 0x71001000, "blocks": 0x100, "count": 1, "mode": 2, "from": 0x114, "bytes": 0, "to": 0x100,
         "room": 0x2000, "machine": 183, "offset": 0x1000, "at": 0x1000, "memory": 0x1000}
# 16 literals, 8171 bytes each from 16 bytes before it, 5 literals
more, rest = divmod(0x2000 - 16 - 5 - 4 - 15, 255)
lz4 = b"\xff\x01" + bytes(range(16)) + b"\x10\x00" + b"\xff" * more + bytes([rest]) + b"\x50last!"
for text in sys.argv[2:]:
    key, _, number = text.partition("=")
    if key == "lz4":
        lz4 = bytes.fromhex(number)
    elif key in value:
        value[key] = int(number, 0)
    else:
        sys.exit(f"boot_files.py: {key} is no key")
header = struct.pack("<8s2I8I6I", b"art\n108", 0x10000000, 1, value["begin"], value["size"], 0, value["checksum"],
                     value["oat_begin"], value["oat_data"], 0, value["oat_end"], 0, 0, 0, 0, 0, 8)
header += bytes(12 * 8 + 9 * 8) + struct.pack("<4I", len(lz4), value["blocks"], value["count"], 0)
block = struct.pack("<5I", value["mode"], value["from"], value["bytes"] or len(lz4), value["to"], value["room"])
with open(sys.argv[1] + ".art", "wb") as file:
    file.write(header + block + lz4 + bytes(256))
elf = b"\x7fELF\2\1\1" + bytes(9)
elf += struct.pack("<HHIQQQIHHHHHH", 3, value["machine"], 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
for offset, at, memory in (0, 0, 0x1000), (value["offset"], value["at"], value["memory"]):
    elf += struct.pack("<IIQQQQQQ", 1, 4, offset, at, at, memory, memory, 0x1000)
with open(sys.argv[1] + ".oat", "wb") as file:
    file.write(elf.ljust(0x1000, b"\0") + struct.pack("<8sI", b"oat\n239", 0x1234).ljust(0x1000, b"\0"))
