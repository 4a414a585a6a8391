# SPDX-License-Identifier: BSD-2-Clause
"""Compare what dex_list says of a file with dexlist (methods) and dexdump (lines).
usage: dex_truth.py methods|lines OURS THEIRS...   THEIRS: one for each DEX file in it, in order

Prints "N the same" and exits 0, or what differs first."""
import collections
import re
import sys

UNIT = 2


def ours(path):
    """For each DEX file {offset: (bytes, name, shared, {pc: line})}."""
    files = []
    for text in open(path, errors="surrogateescape"):
        word = text.split()
        if word[0] == "dex":
            files.append({})
        elif word[0] == "code":
            lines = {}
            files[-1][int(word[1], 16)] = (int(word[2]), word[3], word[4] == "shared", lines)
        elif word[0] == "line":
            lines[int(word[1])] = int(word[2])
        else:
            sys.exit("dex_list: " + text)
    return files


def methods_of(path):
    """What dexlist says, one table for each DEX file: {offset: [(bytes, name)]}."""
    files = []
    for text in open(path, errors="surrogateescape"):
        if text.startswith("#"):
            files.append(collections.defaultdict(list))
            continue
        word = text.split()
        files[-1][int(word[0], 16)].append((int(word[1]), word[2] + "." + word[3]))
    return files


def lines_of(path):
    """What dexdump -d says: {offset: {pc: line}}."""
    files, table, opened = [], None, False
    for text in open(path, errors="surrogateescape"):
        if text.startswith("Opened "):
            files.append({})
            continue
        code = re.match(r"[0-9a-f]{6,}: +\|\[([0-9a-f]+)\]", text)
        if code:
            table = files[-1].setdefault(int(code[1], 16) + 16, {})
        elif text.startswith("      positions"):
            opened = True
        elif opened and text.startswith("        0x"):
            pc, line = re.match(r" *0x([0-9a-f]+) line=(\d+)", text).groups()
            table[int(pc, 16)] = int(line)
        else:
            opened = False
    return files


def compare_methods(mine, theirs):
    """The number of methods, all of which are the same."""
    total = 0
    if set(mine) != set(theirs):
        odd = min(set(mine) ^ set(theirs))
        sys.exit("code at 0x%x only in %s" % (odd, "ours" if odd in mine else "dexlist's"))
    for at, (size, name, shared, _) in mine.items():
        total += len(theirs[at])
        if (size, name) not in theirs[at] or shared != (len(theirs[at]) > 1):
            sys.exit("at 0x%x: %s, dexlist says %s" % (at, (size, name, shared), theirs[at]))
    return total


def compare_lines(mine, theirs):
    """The number of methods with lines, all of which are the same."""
    total = 0
    for at, (size, name, _, lines) in mine.items():
        truth, last = {}, 0
        for pc in sorted(theirs[at]):
            if pc < size // UNIT and theirs[at][pc] != last:
                last = truth[pc] = theirs[at][pc]
        if truth != lines:
            sys.exit("%s: %s, dexdump says %s" % (name, lines, truth))
        total += bool(truth)
    return total


def main():
    """See above."""
    mine = ours(sys.argv[2])
    read, compare = {"methods": (methods_of, compare_methods), "lines": (lines_of, compare_lines)}[sys.argv[1]]
    theirs = [table for path in sys.argv[3:] for table in read(path)]
    if len(mine) != len(theirs):
        sys.exit("%d DEX files, %d in theirs" % (len(mine), len(theirs)))
    print("%d the same" % sum(compare(a, b) for a, b in zip(mine, theirs)))


main()
