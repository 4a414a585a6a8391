#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turn an Android sparse image (AOSP's libsparse/sparse_format.h) into a raw one; holes stay holes.
usage: unsparse.py IN OUT      On damage: one line on stderr, exit code 2, no OUT."""
import os
import struct
import sys

MAGIC = 0xED26FF3A
RAW, FILL, SKIP, CRC = 0xCAC1, 0xCAC2, 0xCAC3, 0xCAC4
LARGEST_BYTES = 16 << 30


class Damage(Exception):
    pass


def take(source, count):
    data = source.read(count)
    if len(data) != count:
        raise Damage(f"truncated at byte {source.tell()}")
    return data


def expand(source, sink):
    head = take(source, 28)
    magic, major, _, head_bytes, chunk_head_bytes, block_bytes, blocks, chunks, _ = struct.unpack("<IHHHHIIII", head)
    if magic != MAGIC or major != 1 or head_bytes < 28 or chunk_head_bytes < 12:
        raise Damage("not a sparse image of version 1")
    if not block_bytes or block_bytes % 4 or block_bytes > 1 << 20 or blocks * block_bytes > LARGEST_BYTES:
        raise Damage(f"{blocks} blocks of {block_bytes} bytes are not an image")
    take(source, head_bytes - 28)
    done = 0
    for _ in range(chunks):
        kind, _, length, total = struct.unpack("<HHII", take(source, 12))
        take(source, chunk_head_bytes - 12)
        body = total - chunk_head_bytes
        wanted = {RAW: length * block_bytes, FILL: 4, SKIP: 0, CRC: 4}.get(kind)
        if wanted is None or body != wanted or (kind != CRC and done + length > blocks):
            raise Damage(f"chunk {kind:#x} of {length} blocks and {body} bytes at byte {source.tell()}")
        if kind == RAW:
            while body:
                piece = take(source, min(body, 1 << 20))
                sink.write(piece)
                body -= len(piece)
        elif kind == FILL:
            word = take(source, 4)
            if word == bytes(4):
                sink.seek(length * block_bytes, os.SEEK_CUR)
            else:
                for _ in range(length):
                    sink.write(word * (block_bytes // 4))
        elif kind == SKIP:
            sink.seek(length * block_bytes, os.SEEK_CUR)
        else:
            take(source, 4)
        done += 0 if kind == CRC else length
    if done != blocks:
        raise Damage(f"{done} of {blocks} blocks are there")
    sink.truncate(blocks * block_bytes)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out = sys.argv[2]
    try:
        with open(sys.argv[1], "rb") as source, open(out, "wb") as sink:
            expand(source, sink)
    except (Damage, OSError) as why:
        if os.path.exists(out):
            os.unlink(out)
        print(f"sparse image: {why}", file=sys.stderr)
        sys.exit(2)


main()
