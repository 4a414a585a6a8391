# SPDX-License-Identifier: BSD-2-Clause
"""Calls in the stacks of jankscope and of simpleperf, as pairs of function and caller."""
import re

# Two names of one function: the symbol that a tool takes of several at one address.
ALIASES = {"open64": "open", "__memset_chk": "memset", "__memset_aarch64": "memset", "__memcpy_aarch64": "memcpy",
           "__memset_aarch64_nt": "memset", "__strlen_aarch64": "strlen", "__strcmp_aarch64": "strcmp"}


def function(name):
    """A name without arguments, template arguments and clones, which each demangler spells its own way."""
    name = re.sub(r"\s*\[clone[^]]*\]", "", name).replace("(anonymous namespace)", "{anonymous}")
    depth, out = 0, []
    for char in name:
        if char in "(<":
            depth += 1
        elif char in ")>" and depth:
            depth -= 1
        elif not depth:
            out.append(char)
    name = "".join(out).replace(" const", "").split("@")[0].strip()
    name = re.sub(r"\.(__uniq|cfi|llvm).*", "", name)
    name = name.split(" ")[-1] if "operator" not in name else name
    return ALIASES.get(name, name)


def pairs(chain):
    return {(inner, outer) for inner, outer in zip(chain, chain[1:]) if inner and outer and inner != outer}


def of_jankscope(stacks):
    """The pairs, each with the pairs of frames that it stands for: a caller's offset is a return address."""
    found = {}
    for stack in stacks:
        # Between an inlined method and the next frame is no call, and simpleperf does not know them.
        frames = [frame for frame in stack["frames"] if not frame.get("inlined")]
        for inner, outer in zip(frames, frames[1:]):
            names = function(inner.get("symbol", "")), function(outer.get("symbol", ""))
            if all(names) and names[0] != names[1]:
                found.setdefault(names, []).append((inner, outer))
    return found


def of_simpleperf(path):
    """The pairs, and the number of samples, of `simpleperf report-sample --show-callchain`."""
    found, chain, samples = set(), [], 0
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            line = line.strip()
            if line == "sample:":
                found |= pairs(chain)
                chain = []
                samples += 1
            elif line.startswith("symbol: "):
                chain.append(function(line[len("symbol: "):]))
    return found | pairs(chain), samples
