# SPDX-License-Identifier: BSD-2-Clause
"""What the call instruction in front of a return address calls, read from the image's code: an oracle for call edges
that no sampling can miss."""
import bisect
import functools
import lzma
import os
import re
import subprocess
import tempfile

BL, B, BLR, BR = 0x25, 0x05, 0xD63F0000, 0xD61F0000


def words(command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    return [line.split() for line in done.stdout.splitlines()]


class Module:
    """One ELF file: its code, its functions and what its PLT leads to."""

    def __init__(self, data, work):
        self.data = data
        path = os.path.join(work, "module")
        with open(path, "wb") as file:
            file.write(data)
        sections = {}
        for row in words(["readelf", "-SlW", path]):
            text = " ".join(row)
            found = re.match(r"\[ *\d+\] (\S+) \S+ ([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+)", text)
            if found:
                sections[found[1]] = [int(word, 16) for word in found.groups()[1:]]  # address, offset, size
        self.loads = [(int(row[2], 16), int(row[2], 16) + int(row[4], 16), int(row[1], 16))
                      for row in words(["readelf", "-lW", path]) if row[:1] == ["LOAD"]]
        self.plts = [(place[0], place[0] + place[2]) for name, place in sections.items() if name in (".plt", ".iplt")]
        # Where in memory a symbol of another file is put.
        self.slots = {int(row[0], 16): row[4].split("@")[0] for row in words(["readelf", "-rW", path])
                      if len(row) > 4 and re.fullmatch(r"[0-9a-f]{12,16}", row[0])}
        begins, self.chosen = {}, set()  # chosen: names whose function the processor's features choose (ifunc)
        files = [path]
        # What a stripped copy calls otherwise, so that nobody but this finds it.
        self.is_stripped = ".gnu_debugdata" not in sections
        hidden = next((name for name in (".gnu_debugdata", ".xnu_debugdata") if name in sections), None)
        if hidden:
            _, offset, size = sections[hidden]
            files.append(os.path.join(work, "small"))
            with open(files[1], "wb") as file:
                file.write(lzma.decompress(data[offset:offset + size]))
        for file in files:
            for row in words(["readelf", "-sW", file]):
                if row[3:6] == ["<OS", "specific>:", "10"]:  # STT_GNU_IFUNC in a file that does not say it is GNU's
                    row[3:6] = ["IFUNC"]
                if len(row) > 7 and row[3] in ("FUNC", "IFUNC") and row[6] != "UND" and int(row[1], 16):
                    begins.setdefault(int(row[1], 16), set()).add(row[7].split("@")[0])
                    if row[3] == "IFUNC":
                        self.chosen.add(row[7].split("@")[0])
        self.names = begins
        self.begins = sorted(begins)

    def word(self, address):
        for begin, end, offset in self.loads:
            if begin <= address and address + 4 <= end:
                return int.from_bytes(self.data[address - begin + offset:address - begin + offset + 4], "little")
        return 0

    def begin_of(self, address):
        """Where the function that holds this address begins, or None."""
        at = bisect.bisect_right(self.begins, address)
        return self.begins[at - 1] if at else None

    def names_at(self, address):
        return self.names.get(self.begin_of(address), set())

    def address_of(self, name):
        return next((at for at, names in self.names.items() if name in names), 0)

    def is_stub(self, address):
        return any(begin <= address < end for begin, end in self.plts)

    def is_call(self, address):
        word = self.word(address)
        return word >> 26 == BL or word & 0xFEFFF000 == BLR

    def behind_plt(self, stub):
        """The symbol that a PLT stub jumps to: adrp x16, page; ldr x17, [x16, offset], perhaps behind a bti."""
        for at in (stub, stub + 4):
            adrp, ldr = self.word(at), self.word(at + 4)
            if adrp & 0x9F00001F == 0x90000010 and ldr & 0xFFC003FF == 0xF9400211:
                pages = (adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3
                pages -= (pages & 1 << 20) << 1
                return self.slots.get((at & ~0xFFF) + (pages << 12) + (ldr >> 10 & 0xFFF) * 8)
        return None


def branch(word, at):
    """Where a b or bl at this address goes."""
    words_away = word & 0x3FFFFFF
    words_away -= (words_away & 1 << 25) << 1
    return at + 4 * words_away


def jumps_to(caller, function, callee, begin, steps=4):
    """Whether the function of `caller` that begins there ends in a jump to that of `callee` at `begin`, in one to
    another function that does, or in one through a register."""
    at = bisect.bisect_right(caller.begins, function)
    end = caller.begins[at] if at < len(caller.begins) else function + 4096
    if not function or not steps:
        return False
    for place in range(function, min(end, function + 65536), 4):
        word = caller.word(place)
        if word & 0xFEFFF000 == BR:
            return True
        if word >> 26 != B:
            continue
        target = branch(word, place)
        if caller is callee and target == begin:
            return True
        if caller.is_stub(target):
            named = caller.behind_plt(target)
            if named in callee.names[begin] or jumps_to(callee, callee.address_of(named), callee, begin, steps - 1):
                return True
        elif not function <= target < end and target in caller.names and jumps_to(caller, target, callee, begin, steps - 1):
            return True
    return False


class Callees:
    """read: module path -> its bytes."""

    def __init__(self, read):
        self.read = read

    @functools.lru_cache(maxsize=None)
    def module(self, name):
        data = self.read(name)
        if not data:
            return None
        with tempfile.TemporaryDirectory() as work:
            return Module(data, work)

    def kind(self, inner, outer):
        """How the function of frame `inner` was called by frame `outer`: "direct" or "plt" (the instruction names it),
        "ifunc" (it names a choice of several), "tail" (it names a function that jumps on), "indirect" (a register does),
        or "no call"."""
        caller, callee = self.module(outer.get("module", "")), self.module(inner.get("module", ""))
        if not caller:
            return "no call"
        word = caller.word(outer["offset"] - 4)
        if word & 0xFEFFF000 == BLR:
            return "indirect"
        if word >> 26 != BL:
            return "no call"
        target = branch(word, outer["offset"] - 4)
        begin = callee.begin_of(inner["offset"]) if callee else None
        if begin is None:
            return "no call"
        if caller is callee and target == begin:
            return "direct"
        named = caller.behind_plt(target) if caller.is_stub(target) else None
        if named in callee.names[begin]:
            return "plt"
        if named in callee.chosen:
            return "ifunc"
        if named:  # of the other file, or of this one, which leaves it to others to replace
            caller, target = (callee, callee.address_of(named)) if callee.address_of(named) else (caller, caller.address_of(named))
        return "tail" if jumps_to(caller, target, callee, begin) else "no call"
