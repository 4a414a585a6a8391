#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does the judge of a soak see a leak, and none where there is none? Looks of an hour are made up:
a recorder, a writer that has 3 MiB more while it compresses, a cache that fills. Prints TAP."""
import collections
import contextlib
import io
import random
import sys

import soak_memory as soak


class Made(soak.Looks):
    """Looks at what nobody has."""

    def __init__(self, minutes, leak_bytes_h, seed, fill_s=500):
        super().__init__(None, [], 0, None)
        deal, spike = random.Random(seed), 0
        for at in range(5, minutes * 60, soak.STEP_S):
            full = min(1.0, at / fill_s)
            cache = int(full * (4 << 20))
            # A compression of some 15 s, each half a minute or so.
            spike = spike - 1 if spike else 3 if deal.random() < 0.15 else 0
            shares = collections.Counter({
                "jankscope": int((5 << 20) + leak_bytes_h * at / 3600 + deal.gauss(0, 60 << 10)),
                "jankscope-write": (64 << 10) + (3 << 20) * bool(spike),
                soak.UNWINDER: cache + (300 << 10) + deal.randrange(32 << 10)})
            total = sum(shares.values())
            self.series.append((at, total, total, 400, 250))
            self.shares.append((at, shares))
            self.caches.append(cache)
            self.kinds.append(collections.Counter({soak.CODE: int(256 * full)}))


def verdict(*arguments):
    """(which promises broke, what was not judged, what was printed)"""
    broken, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        left = soak.judge(Made(*arguments), broken.setdefault)
    return set(broken), left, printed.getvalue()


bad = 0
for name, minutes, leak, wanted, judged in (
        ("an hour without a leak", 60, 0, set(), True),
        ("a leak of 200 KiB an hour, in an hour", 60, 200 << 10, {"P3"}, True),
        ("a leak of 10 MiB an hour, in half an hour", 30, 10 << 20, {"P3"}, True),
        ("ten minutes without a leak say nothing", 10, 0, set(), False)):
    for seed in range(3):
        broken, left, text = verdict(minutes, leak, seed)
        good = broken == wanted and bool(left) != judged
        bad += not good
        print(f"{'ok' if good else 'not ok'} - soak judge: {name}, {seed}")
        if not good:
            print(f"# {broken} {left}\n# " + text.replace("\n", "\n# "))
sys.exit(bad > 0)
