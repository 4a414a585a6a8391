# SPDX-License-Identifier: BSD-2-Clause
"""Programs that keep their own truth (tests/apps/rhythm.c), and a recorder of them."""
import os, signal, struct, subprocess
from attack_common import *


class Rhythm:
    made = 0

    def __init__(self, *messages, arg0=apps + "rhythm", **options):
        Rhythm.made += 1
        self.path = os.path.join(work, "truth-%d" % Rhythm.made)
        self.process = start([arg0, self.path, *messages], executable=apps + "rhythm",
                             stdin=subprocess.DEVNULL, **options)
        self.pid = self.process.pid
        wait_for(lambda: os.path.exists(self.path) and os.path.getsize(self.path) > 16, 5)

    def read(self):
        """[(begin, wall)]; wall 0: it has not ended."""
        with open(self.path, "rb") as f:
            count, self.interrupted = struct.unpack("<QQ", f.read(16))
            return [row for row in struct.iter_unpack("<QQ", f.read(16 * min(count, 16384)))]

    def signal(self, number):
        os.kill(self.pid, number)


def record(name, targets, *flags, threshold=100, **options):
    return Recorder(name, ["--block", "%dms" % threshold, "-i", "1s", "--max-lost", "100", *flags],
                    targets=[t.pid if isinstance(t, Rhythm) else t for t in targets], **options)


def awake_ns(block):
    ledger = block["ledger"]
    return block["wall_ns"] - ledger["runnable_ns"] - ledger["stopped_ns"]
