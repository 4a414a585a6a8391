# SPDX-License-Identifier: BSD-2-Clause
"""Main threads that block in methods which Debian's libart interprets, or which its list of
compiled code tells; stacks of them against the truth, dexdump, gdb and libunwindstack.
usage: art_truth.py [PART...]"""
from art_common import *

test = Test("art")
BLOCK_MS = 80
GAP = 0.12
LEAF = {"sleep": "nap", "recv": "receive", "spin": "compute", "lock": "wait_for_lock",
        "wait": "wait_for_notify", "notify": "notify"}
KINDS = ("sleep", "recv", "spin", *LOOPS)
# How an interpreter comes to call the next method, innermost first, and who called the interpreter.
CHECKPOINT = ["NextMethod::Run(void*)", "art::Thread::RunCheckpointFunction()"]
BEFORE = {"mterp": CHECKPOINT + ["MterpSuspendCheck"],
          "nterp": CHECKPOINT + ["artTestSuspendFromCode", None]}
BEHIND = {"mterp": ["run_loop"], "nterp": ["run_nterp"]}
RUNS = [(kind, 250) for _ in range(4) for kind in KINDS]

NO_ENTRY = "code of a JIT compiler"
app = None


def prepare():
    global app, lib, stored, deflated
    if app:
        return
    app = Dex(assemble("app", dict(SMALI, Many=many(300))))
    lib = Dex(assemble("lib", {"Worker": OTHER}))
    stored, deflated = apk("stored", [lib, app], True), apk("deflated", [lib, app], False)


def truth(test):
    """The rig itself: what is said of it by those who did not write it."""
    prepare()
    listed = {}
    for line in call("dexlist", app.path).splitlines():
        words = line.split()
        if len(words) > 4 and words[0].startswith("0x"):
            listed[words[2] + "." + words[3]] = int(words[0], 16)
    starts = {name: rows[0][0] for name, rows in app.methods.items()}
    test.ok(listed == starts and len(starts) == 309,
            "dexlist and dexdump agree on where %d methods begin" % len(starts),
            set(listed.items()) ^ set(starts.items()))
    wrong = []
    rig = Rig("truth")
    for how, path, numbers in (("open", app.path, 1), ("open", stored, 2), ("open", deflated, 2),
                               ("memory", app.path, 1)):
        files = rig.load(how, path)
        for number, address, size in files:
            rig.ask("enter", number)
            if (address, size) not in rig.entries("dex"):
                wrong.append((how, path, number))
        if len(files) != numbers:
            wrong.append((how, path, files))
    said = {(int(w[1], 16), int(w[2])) for w in map(str.split, rig.ask("list", "dex"))}
    test.ok(not wrong and said == rig.entries("dex") and len(said) == 6,
            "libart opens a DEX file, in an APK stored and deflated, in memory; its list tells six",
            wrong, said, rig.entries("dex"))
    hot_methods(rig)
    app_chain(rig, app)
    test.ok(len(rig.entries("jit") - {(0, 0)}) == 3, "its list of compiled code tells three",
            rig.entries("jit"))
    rig.send("run", "sleep", 20000, *MIXED)
    rig.send("quit")
    time.sleep(0.5)
    check_gdb(test, rig)
    check_unwindstack(test)


def interesting(names):
    return [n for n in names if n.startswith(PACKAGE)]


def check_gdb(test, rig):
    if not shutil.which("gdb"):
        test.skip("gdb sees the compiled methods", "no gdb")
        return
    text = call("gdb", "-nx", "-batch", "-p", rig.pid, "-ex", "bt")
    names = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+) \(", text, re.M)
    test.ok(interesting(names) == [PACKAGE + "Hot." + n for n in ("other", "loop", "old")] and
            "nap" in names and "main" in names and text.count("libart.so") >= 3,
            "gdb sees the compiled methods, by libart's list, and the interpreter's frames", text)


def check_unwindstack(test):
    if not os.path.exists(apps + "unwindstack"):
        test.skip("libunwindstack sees the same byte code", "no android-libbacktrace-dev")
        return
    rig = Rig("unwindstack")
    rig.load("open", app.path)
    app_chain(rig, app)
    rig.send("run", "sleep", 20000, *APP_CHAIN)
    time.sleep(0.3)
    text = call(apps + "unwindstack", rig.pid)
    wanted = [rig.steps[s]["address"] for s in reversed(APP_CHAIN)]
    rows = [line.split() for line in text.splitlines()]
    found = [int(r[0], 16) for r in rows if app.path in r[2]]
    before = [rows[i - 1][2] for i, r in enumerate(rows) if app.path in r[2]]
    test.ok(found == wanted and all(LIBART in b for b in before) and rows[-1][1] == "_start",
            "libunwindstack sees the same byte code, each behind a frame of libart", text, wanted)


# ---- the recorder's stacks ----

def is_libart(frame):
    return frame["kind"] == "native" and os.path.basename(frame.get("module", "")) == "libart.so.0"


def short(name):
    return (name or "").split("(")[0]


def frames_of(stack):
    return ["%s:%s" % (f["kind"], f.get("symbol", os.path.basename(f.get("module", "?"))))
            for f in stack["frames"]]


def guessed(frames):
    """Not found by tables: but the caller of what has none on arm64, the vDSO (vdso.lds.S discards
    .eh_frame) and entries of the PLT, which have no symbol either."""
    return [f for i, f in enumerate(frames) if "by" in f and not (
        f["by"] == "lr" and i == 1 and (frames[0]["kind"] == "vdso" or "symbol" not in frames[0]))]


def wrong_frames(rig, run, stack):
    """What is wrong with a stack that was taken in a run; None: it is right; "cut": right until it
    ends, which it says, at a compiled method that is in no list then; "way": the thread was not yet,
    or no more, where it should wait, as on a machine that others keep busy."""
    frames, chain = stack["frames"], list(reversed(run["chain"]))
    outer, last = run.get("outer", ("main", "_start"))
    names, loop = [f.get("symbol") for f in frames], run["kind"] in LOOPS
    if loop:
        # Its helpers are the interpreter's as well: the one that counts branches.
        dex = next((i for i, f in enumerate(frames) if f["kind"] == "dex"), 0)
        at = dex - 1 if dex and all(map(is_libart, frames[:dex])) else None
    else:
        at = next((i for i, n in enumerate(names) if short(n) == LEAF[run["kind"]]), None)
    if at is None:
        return "way" if {"run", "interpret", outer} & {short(n) for n in names} else "no leaf"
    if any(f["kind"] not in ("native", "vdso") for f in frames[:at]) or guessed(frames[:at + 1]):
        return "the wait's own frames"
    if loop:
        problem = wrong_interpreted(rig, rig.steps[chain.pop(0)], frames[at:], innermost=True)
        if problem:
            return "byte code: %s" % problem
        at, behind = at + 2, BEHIND[run["kind"]] + ["interpret"]
    else:
        at, behind = at + 1, ["interpret"]
    if names[at:at + len(behind)] != behind:
        return "behind what waits"
    at += len(behind)
    for name in chain:
        step = rig.steps[name]
        before = BEFORE.get(step["kind"], [])
        if names[at:at + len(before)] != before:
            return "%s: its checkpoint" % name
        at += len(before)
        if step["kind"] == "jit":
            problem = wrong_inlined(step, frames[at:]) if "inlined" in step else None
            if problem == "dropped":
                return problem
            at += "inlined" in step
            problem = problem or wrong_compiled(step, frames[at:], stack)
            at += 1
        else:
            problem = wrong_interpreted(rig, step, frames[at:])
            at += 2
        if problem:
            return problem if problem == "cut" else "%s: %s" % (name, problem)
        behind = BEHIND.get(step["kind"], []) + ["interpret"]
        if names[at:at + len(behind)] != behind:
            return "behind %s" % name
        at += len(behind)
    if outer not in map(short, names[at:]) or last not in (names[-1] or "") or guessed(frames):
        return "the outer frames"
    return None if stack["complete"] else "not complete"


def wrong_compiled(step, frames, stack):
    frame = frames[0] if frames else {}
    if len(frames) == 1 and "symbol" not in frame and not stack["complete"] and \
            stack.get("end_reason") == NO_ENTRY:
        return "cut"
    if frame.get("kind") != "jit" or frame.get("symbol") != step["symbol"] or "by" in frame or \
            frame.get("dex_pc") != step.get("dex_pc") or "inlined" in frame or \
            frame.get("line") != step.get("line"):
        return "compiled method: %s" % frame
    return None


def wrong_inlined(step, frames):
    frame, (name, dex_pc) = frames[0] if frames else {}, step["inlined"]
    if frame.get("symbol") == step["symbol"] and "dex_pc" not in frame:
        return "dropped"
    if frame.get("kind") != "jit" or frame.get("symbol") != name or not frame.get("inlined") or \
            frame.get("dex_pc") != dex_pc or "by" in frame:
        return "inlined method: %s" % frame
    return None


def wrong_interpreted(rig, step, frames, innermost=False):
    if len(frames) < 2:
        return "no frames"
    native, dex = frames[:2]
    own = native.get("symbol") == "nterp_of_12" and step["kind"] == "nterp12"
    if not (own or is_libart(native)) or "by" in native:
        return "the interpreter: %s" % native
    wanted = step["moving" if innermost else "units"]
    if dex["kind"] != "dex" or dex.get("symbol") != step["symbol"] or \
            dex.get("module") != rig.module or dex["offset"] not in wanted or "by" in dex:
        return "interpreted method at %s: %s" % (wanted, dex)
    return None


def drive(rig, runs):
    def go():
        for kind, ms, chain in runs:
            time.sleep(GAP)
            rig.run(kind, ms, *chain)
    thread = threading.Thread(target=go)
    thread.start()
    return thread


def blocks_of(recorder, rig, run):
    """The blocks that lie in a run."""
    return [b for b in recorder.ended_blocks(rig.pid) if b["start_boot_ns"] < run["start"] + run["wall"]
            and b["start_boot_ns"] + b["wall_ns"] > run["start"] + run["wall"] // 2]


def judge(recorder, rigs):
    """{rig: (runs, those without a user stack, stacks, cut ones where they may be, those on their
    way, wrong ones)}"""
    verdict, dropped = {}, recorder.losses().get("lost.symbol_names_dropped", 0)
    for rig in rigs:
        stacks, cut, way, without, wrong = 0, 0, 0, 0, []
        for run in rig.truth:
            blocks = blocks_of(recorder, rig, run)
            mine = [s for b in blocks for s in b.get("stacks", []) if s["capture"] != "kernel"]
            if len(blocks) != 1 or any(not b.get("stacks") and not b["missing"] for b in blocks):
                wrong.append((run, "%d blocks" % len(blocks), blocks[:1]))
            without += not mine
            for stack in mine:
                stacks += 1
                problem = wrong_frames(rig, run, stack)
                if problem == "cut" and rig.may_cut:
                    cut += 1
                elif problem == "way":
                    way += 1
                elif problem == "dropped" and dropped:
                    dropped -= 1
                elif problem:
                    wrong.append((run["kind"], run["chain"], problem, stack.get("end_reason"),
                                  frames_of(stack)))
        verdict[rig.name] = (len(rig.truth), without, stacks, cut, way, wrong)
    return verdict


def interpreted_rigs():
    """Each place that a DEX file can be in, with and without an entry in libart's list."""
    rigs = []
    for name, how, path, number, listed in (
            ("file", "open", app.path, 0, True), ("file, in no list", "open", app.path, 0, False),
            ("stored", "open", stored, 1, True), ("stored, in no list", "open", stored, 1, False),
            ("deflated", "open", deflated, 1, True), ("memory", "memory", app.path, 0, True)):
        rig = Rig(name)
        rig.load(how, path)
        if listed:
            rig.ask("enter", number)
        app_chain(rig, app, number)
        rig.chain = APP_CHAIN
        rig.module = path if how == "open" and path != deflated else None
        rigs.append(rig)
    return rigs


def record(name, rigs, runs):
    """All of them, each one blocked as runs say: [(kind, ms)]."""
    recorder = Recorder(name, ["-i", "1s", "--block", "%dms" % BLOCK_MS, "--net", "off"],
                        [r.pid for r in rigs], settle=1.5)
    threads = [drive(r, [(kind, ms, r.chain + tuple(filter(None, [LOOPS.get(kind)])))
                         for kind, ms in runs]) for r in rigs]
    for thread in threads:
        thread.join()
    time.sleep(0.5)
    recorder.end()
    return recorder


def check_stacks(test, recorder, rigs):
    verdict = judge(recorder, rigs)
    for rig in rigs:
        runs, without, stacks, cut, way, wrong = verdict[rig.name]
        note("%s: %d runs, %d without a stack, %d stacks, %d cut, %d on their way, %d wrong"
             % (rig.name, runs, without, stacks, cut, way, len(wrong)))
        test.ok(not wrong and without + way <= runs // 4, "%s: each stack is right" % rig.name,
                *wrong[:3])
    return verdict


def interpreted(test):
    prepare()
    rigs = interpreted_rigs()
    recorder = record("interpreted", rigs, RUNS)
    check_stacks(test, recorder, rigs)
    check_untouched(test, recorder, rigs)


def app_rig(name, spoil=None):
    rig = Rig(name)
    rig.load("open", stored)
    rig.ask("enter", 1)
    app_chain(rig, app, 1)
    hot_methods(rig)
    rig.chain, rig.module = MIXED, stored
    if spoil:
        rig.ask("spoil", spoil)
    return rig


def compiled(test):
    prepare()
    rig, unknown = app_rig("compiled"), app_rig("a method without an entry")
    unknown.compiled("nobody", "none", "none")
    unknown.chain = ("onClick", "nobody", "loop", "sleep")
    rigs = [rig, unknown]
    for version, boot in ((b"183", "boot.oat"), (b"190", "other.oat")):
        inlining = app_rig("what was inlined, " + boot)
        inlining.ask("map", oat_file(boot, version))
        inlining.inlining("hot", PACKAGE + "Hot.inlines", "few", 3, 7)
        inlining.inlining("lie", PACKAGE + "Hot.lies", "query", 2, 5)
        inlining.lined("lined", app, PACKAGE + "Db.query", "Db$Inner;.sleep", 22, "few", 1)
        if version == b"190":
            inlining.steps["lined"].update(inlined=(None, 3), line=None)
            # Where ArtMethod has its number is not known.
            inlining.steps["hot"]["inlined"] = (None, 3)
        inlining.chain = ("onClick", "hot", "lined", "loop", "lie", "sleep")
        rigs.append(inlining)
    for how in ("huge", "gone", "half", "cycle"):
        rigs.append(app_rig("a list with an entry that is %s" % how, how))
    unknown.may_cut = rigs[-1].may_cut = True # a cycle
    recorder = record("compiled", rigs, RUNS)
    verdict = check_stacks(test, recorder, rigs)
    lost = {k: n for k, n in recorder.losses().items() if "jit" in k}
    note("spoiled lists: %s" % lost)
    _, _, stacks, cut, way, _ = verdict[unknown.name]
    test.ok(cut + way == stacks and sum(lost.values()) >= 4,
            "a method that no list has ends the stack; each spoiled list is counted",
            verdict[unknown.name], lost)
    check_untouched(test, recorder, rigs)


def woken(test):
    """A wait that nobody has the end of, as Object.wait: who notified it, from which methods."""
    prepare()
    rig = app_rig("woken")
    # Without mterp and nterp, whose thread is the main one.
    rig.chain = tuple(step for step in MIXED if step not in ("count", "few"))
    recorder = record("woken", [rig], [("wait", 250)] * 6)
    check_stacks(test, recorder, [rig])
    wakers, chains, unwound, late = [], [], [], 0
    for run in rig.truth:
        for block in blocks_of(recorder, rig, run):
            waker, missing = block.get("waker", {}), block["missing"].get("waker.stack")
            said = (waker.get("pid"), waker.get("thread"), waker.get("what"))
            if said != (rig.pid, "notifier", "futex") or waker["tid"] == rig.pid:
                wakers.append(said)
            if "chain" in block or "owner" in block:
                chains.append((block.get("chain"), block.get("owner")))
            late += missing == "its stack was not unwound in time"
            if "stack" in waker:
                stack, told = waker["stack"], dict(kind="notify", chain=run["chain"][1:],
                                                   outer=("notifier", ""))
                unwound.append((wrong_frames(rig, told, stack), stack.get("end_reason"), frames_of(stack)))
            elif missing != "its stack was not unwound in time":
                unwound.append(("none", missing))
    wrong = [row for row in unwound if row[0]]
    test.ok(not wakers and not chains, "each wait was ended by the thread that notified it, and has no owner",
            wakers, chains)
    test.ok(not wrong and len(unwound) >= 4 and len(unwound) + late == len(rig.truth),
            "%d stacks of who notified name its methods, %d were late" % (len(unwound), late), *wrong[:3])


def changing(test):
    """Stacks while another thread enters, removes and packs entries of both lists."""
    prepare()
    rigs = []
    for name, pause in (("5 ms", 5000), ("200 us", 200), ("no pause", 0)):
        rig = app_rig(name)
        rig.may_cut = True
        # The thread that changes the lists would have the weight of a whole session, against what
        # runs beside this test.
        try:
            with open("/proc/%d/autogroup" % rig.pid, "w") as f:
                f.write("10")
        except OSError:
            pass  # no sessions are told apart: it has the weight of one thread
        rig.ask("churn", pause, lib.path)
        rigs.append(rig)
    recorder = record("changing", rigs, RUNS)
    for rig in rigs:
        note("%s between two changes: %s" % (rig.name, rig.tell("calm")))
    verdict = check_stacks(test, recorder, rigs)
    cut = {rig.name: verdict[rig.name][3] for rig in rigs}
    test.ok(cut["5 ms"] <= verdict["5 ms"][2] // 4 and cut["200 us"] <= verdict["200 us"][2] // 2,
            "lists that change each 5 ms and each 200 us are read", cut, recorder.losses())
    unread = recorder.losses().get("lost.jit_lists_unread", 0)
    test.ok(sum(cut.values()) <= unread, "each of the %d stacks that were cut is counted (%d)" %
            (sum(cut.values()), unread), cut, recorder.losses())
    check_untouched(test, recorder, rigs)


def check_untouched(test, recorder, rigs):
    """A thread that waits for a CPU may be stopped, one that sleeps never."""
    eintr = [(r.name, t) for r in rigs for t in r.truth if t["eintr"]]
    captures = (recorder.footer or {}).get("summary", {}).get("captures", {})
    note("captures: %s" % captures)
    test.ok(not eintr and captures and not captures["eintr_risk"] and
            not stopped_or_traced([r.pid for r in rigs]) and not recorder.died_of_signal(),
            "no wait ended with EINTR, and no app was left stopped", eintr, captures,
            recorder.code, recorder.errors())


if __name__ == "__main__":
    test.run([(truth, 5), (interpreted, 7), (compiled, 10), (woken, 3), (changing, 6)], sys.argv[1:])
