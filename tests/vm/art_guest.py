# SPDX-License-Identifier: BSD-2-Clause
"""The libart rig in an arm64 guest.  usage: art_guest.py pack DEBS OUT.cpio | judge LOG
pack makes the initramfs: busybox, the tool, the rig with Debian's libart for arm64 (unpacked in DEBS), an APK out of
smali and what the rig is told; judge reads what the guest printed."""
import json, os, shutil, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernel"))
from art_truth import *

ANDROID = "/usr/lib/aarch64-linux-gnu/android/"
LIBS = "/lib/aarch64-linux-gnu/"
METHODS = (("onClick", "MainActivity.onClick", "Db;.query"), ("query", "Db.query", "Db$Inner;.sleep"),
           ("sleep", "Db$Inner.sleep", "Thread;.sleep"))
# mterp has the main thread only, and not what another thread runs of it.
WHOLE, SHORT = "onClick hot few lined loop count query other sleep", "onClick hot few lined loop query other sleep"
RUNS = [("sleep", WHOLE), ("spin", WHOLE), ("bytecode", WHOLE + " count"), ("lock", SHORT), ("wait", SHORT)] * 2
GUEST = f"""export EMULATED=1
cd /tmp
/payload/kernel/test_oat_live || failed=1
mkfifo in
/art/art_rig {ANDROID}libart.so.0 <in >out 2>err &
rig=$!
exec 3>in
cat /art/commands >&3
i=0; until grep -q '^inlined' out || [ $i = 240 ]; do sleep 0.25; i=$((i + 1)); done
sed 's/^/# rig: /' out err
jankscope record -p $rig --block 80ms -d 150s -i 4s --net off --json >rec.jsonl 2>rec.err &
recorder=$!
i=0; until grep -q target_start rec.jsonl || [ $i = 240 ]; do sleep 0.25; i=$((i + 1)); done
n=0
while read -r run; do
	echo "$run" >&3
	n=$((n + 1))
	i=0; until [ "$(grep -c '^run' out)" = $n ] || [ $i = 120 ]; do sleep 0.25; i=$((i + 1)); done
	sleep 1
done </art/runs
kill -TERM $recorder; wait $recorder
grep -E '"type":"(block|stack|footer)"' rec.jsonl
grep '^run' out
sed 's/^/# /' rec.err
echo "run sleep 600000 {WHOLE}" >&3
sleep 2
for i in 1 2 3 4 5; do /payload/kernel/stack_dump $rig >dump; grep -q '^#' dump && break; done
sed 's/^/DUMP /' dump
kill $rig
exit ${{failed:-0}}
"""


def first(name, *folders):
    return next((os.path.join(f, name) for f in folders if os.path.exists(os.path.join(f, name))), None)


def needed(path):
    text = subprocess.run(["aarch64-linux-gnu-readelf", "-d", path], capture_output=True, text=True).stdout
    return [line.split("[")[1].split("]")[0] for line in text.splitlines() if "NEEDED" in line]


def pack(debs, out):
    root = os.path.join(work, "root")
    for folder in ("bin", "dev", "art", "payload/kernel", LIBS[1:], ANDROID[1:]):
        os.makedirs(os.path.join(root, folder))
    build = "build/arm64/"
    for source, to in (("build/vm/busybox-arm64", "bin/busybox"), ("tests/vm/guest/init", "init"),
                       (build + "jankscope", "bin/jankscope"), (build + "tests/apps/art_rig", "art/art_rig"),
                       (build + "tests/kernel/stack_dump", "payload/kernel/stack_dump"),
                       (build + "tests/kernel/test_oat_live", "payload/kernel/test_oat_live")):
        shutil.copy(source, os.path.join(root, to))
        os.chmod(os.path.join(root, to), 0o755)
    places = [debs + "/usr/lib/aarch64-linux-gnu", debs + ANDROID, debs + "/usr/lib/p7zip", "/usr/aarch64-linux-gnu/lib", "/usr/lib/aarch64-linux-gnu", "/lib/aarch64-linux-gnu"]
    shutil.copy("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1", root + "/lib/")
    todo = [root + "/art/art_rig"]
    for name in os.listdir(debs + ANDROID):
        if name.endswith(".so.0"):
            shutil.copy(debs + ANDROID + name, root + ANDROID)
            todo.append(root + ANDROID + name)
    names = {"liblz4.so.1", "libz.so.1"}
    while todo or names:
        names |= set(needed(todo.pop())) if todo else set()
        for name in list(names):
            names.remove(name)
            if os.path.exists(root + LIBS + name) or os.path.exists(root + ANDROID + name):
                continue
            found = first(name, *places)
            if not found:
                raise RuntimeError("no %s for arm64" % name)
            shutil.copy(os.path.realpath(found), root + LIBS + name)
            todo.append(root + LIBS + name)
    app = Dex(assemble("app", dict(SMALI)))
    shutil.copy(apk("app", [app], True), root + "/art/app.apk")
    units, commands = {}, ["open /art/app.apk", "enter 0"]
    for step, method, callee in METHODS:
        at, unit = app.call_of(PACKAGE + method, callee)
        units[step] = dict(kind="dex", symbol=PACKAGE + method, units=[unit])
        commands.append("pc %s 0 %d" % (step, at))
    rows = app.methods[PACKAGE + "Loop.count"]
    units["count"] = dict(kind="mterp", symbol=PACKAGE + "Loop.count", units=[rows[1][1]], moving=[r[1] for r in rows])
    commands.append("loop count 0 %d" % rows[0][0])
    at, unit = app.call_of(PACKAGE + "MainActivity.onClick", "Db;.query")
    units["few"] = dict(kind="nterp12", symbol=PACKAGE + "MainActivity.onClick", units=[unit])
    commands.append("nterp12 few 0 %d" % at)
    for step, how in (("loop", "plain"), ("other", "packed")):
        units[step] = dict(kind="jit", symbol=PACKAGE + "Hot." + step)
        commands.append("jit %s %sHot.%s %s" % (step, PACKAGE, step, how))
    rows = app.methods[PACKAGE + "Db.query"]
    units["hot"] = dict(kind="jit", symbol=PACKAGE + "Hot.inlines", dex_pc=7, inlined=(None, 3))
    shutil.copy(oat_file("boot.oat", b"183", "aarch64"), root + "/art/boot.oat")
    commands += ["method inner 0 %d %d" % (rows[0][0], app.plain), "map /art/boot.oat",
                 "jit hot %sHot.inlines plain inner 3 7" % PACKAGE]
    at, unit = app.call_of(PACKAGE + "Db.query", "Db$Inner;.sleep")
    units["lined"] = dict(kind="jit", symbol=PACKAGE + "Db.query", dex_pc=unit, line=22, inlined=(None, 3))
    commands += ["method own 0 %d %d" % (rows[0][0], app.numbers[PACKAGE + "Db.query"]),
                 "jit lined %sDb.query plain inner 3 %d own" % (PACKAGE, unit), "inlined hot 7"]
    for name, lines in (("commands", commands), ("runs", ["run %s 900 %s" % run for run in RUNS])):
        with open(root + "/art/" + name, "w") as f:
            f.write("\n".join(lines) + "\n")
    with open(root + "/payload/art.sh", "w") as f:
        f.write(GUEST)
    with open(os.path.join(os.path.dirname(os.path.abspath(out)), "art_steps.json"), "w") as f:
        json.dump(units, f)
    subprocess.run("find . -mindepth 1 | sort | cpio -o -H newc -R 0:0 --quiet", shell=True, cwd=root, check=True,
                   stdout=open(out, "wb"))


class Told:
    """What art_truth asks of a rig."""
    module = "/art/app.apk"

    def __init__(self, steps):
        self.steps = steps


def judge(log):
    with open(os.path.join(os.path.dirname(os.path.abspath(log)), "art_steps.json")) as f:
        rig = Told(json.load(f))
    lines = open(log, encoding="utf-8", errors="replace").read().splitlines()
    test = Test("art arm64")

    # The number of the method that is inlined is that of another one, whose name libart says.
    name = next((line.split()[-1] for line in lines if line.startswith("# rig: inlined ")), "")
    for step in ("hot", "lined"):
        rig.steps[step]["inlined"] = (name, 3)
    test.ok(name.startswith(PACKAGE), "libart's own reader finds %s inlined" % name)
    # Innermost first; the interpreter's own frame stands before each method that it runs.
    steps = [rig.steps[step] for step in reversed(WHOLE.split())]
    for step in ("hot", "lined"):
        steps.insert(steps.index(rig.steps[step]), dict(symbol=name))
    frames = [line.split() for line in lines if line.startswith("DUMP #")]
    dump = [(f[3], int(f[-1].rsplit("+", 1)[1], 16)) for f in frames if f[3].startswith(PACKAGE)]
    test.ok([n for n, _ in dump] == [s["symbol"] for s in steps] and
            all(offset in s.get("units", [offset]) for (_, offset), s in zip(dump, steps)),
            "stack_dump: methods of both interpreters and compiled ones, each at dexdump's place", dump, *frames)
    names = [f[3] for f in frames]
    test.ok("main" in names and names[-1] == "_start", "stack_dump: to the first function", names)

    records = [json.loads(line) for line in lines if line.startswith('{"type":')]
    blocks = [r for r in records if r["type"] == "block" and r["state"] == "closed"]
    for late in [r for r in records if r["type"] == "stack"]:
        for block in blocks:
            if block["seq"] == late["of"]:
                block.setdefault("stacks", []).append(late)
    told = [line.split() for line in lines if line.startswith("run ")]
    runs = [dict(kind="mterp" if kind == "bytecode" else kind, chain=tuple(chain.split()), start=int(w[2]), wall=int(w[3]))
            for (kind, chain), w in zip(RUNS, told)]
    test.ok([w[1] for w in told] == [kind for kind, _ in RUNS], "the rig did %d runs" % len(RUNS), told)
    for run in runs:
        run["blocks"] = [b for b in blocks if b["start_boot_ns"] < run["start"] + run["wall"] and
                         b["start_boot_ns"] + b["wall_ns"] > run["start"] + run["wall"] // 2]
    footer = next((r for r in reversed(records) if r["type"] == "footer"), {})
    dropped = footer.get("lost", {}).get("symbol_names_dropped", 0)
    for kind in dict.fromkeys(run["kind"] for run in runs):
        mine = [r for r in runs if r["kind"] == kind]
        stacks = [s for r in mine for b in r["blocks"] for s in b.get("stacks", []) if s["capture"] != "kernel"]
        found = [(wrong_frames(rig, mine[0], s), s.get("end_reason"), frames_of(s)) for s in stacks]
        # A busy machine answers too late for what is inlined; each such place is counted.
        late = [f for f in found if f[0] == "dropped"][:dropped]
        dropped -= len(late)
        wrong = [f for f in found if f[0] not in (None, "way") and f not in late]
        test.ok(all(len(r["blocks"]) == 1 for r in mine) and not wrong and sum(f[0] is None for f in found) + len(late) >= len(mine),
                "record, %s: %d stacks of %d blocks, each right and complete" % (kind, len(stacks), len(mine)),
                [len(r["blocks"]) for r in mine], *wrong[:2])
    another = dict(chain=tuple(SHORT.split()[1:]))
    holders = [l.get("stack") for r in runs if r["kind"] == "lock" for b in r["blocks"] for l in b.get("chain", [])
               if l["thread"] == "holder"]
    found = [s and (wrong_frames(rig, dict(another, kind="sleep", outer=("hold", "")), s), frames_of(s)) for s in holders]
    test.ok(found and all(f and not f[0] for f in found), "record, lock: the chain has the holder with its methods", *found)
    # One that comes 200 ms late does not follow, and says so.
    waits = [b for r in runs if r["kind"] == "wait" for b in r["blocks"]]
    wakers = [b.get("waker", {}) for b in waits if "stack" in b.get("waker", {}) or
              b["missing"].get("waker.stack") != "its stack was not unwound in time"]
    found = [(w.get("thread"), w.get("what"), w.get("stack") and
              (wrong_frames(rig, dict(another, kind="notify", outer=("notifier", "")), w["stack"]), frames_of(w["stack"])))
             for w in wakers]
    test.ok(found and all(f[:2] == ("notifier", "futex") and f[2] and not f[2][0] for f in found) and
            all(b["waker"].get("thread") == "notifier" for b in waits),
            "record, wait: who notified it, with its methods", *found)
    return test.failed


if __name__ == "__main__":
    if sys.argv[1] == "pack":
        pack(sys.argv[2], sys.argv[3])
    else:
        sys.exit(1 if judge(sys.argv[2]) else 0)
