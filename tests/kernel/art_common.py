# SPDX-License-Identifier: BSD-2-Clause
"""DEX files out of smali, and tests/apps/art_rig with its truth."""
import glob, re, zipfile
from attack_common import *

LIBART = glob.glob("/usr/lib/*/android/libart.so.0")[0]
PACKAGE = "com.example.app."
# Byte code that runs for itself: its method.
LOOPS = {"mterp": "count", "nterp": "many"}

# ---- byte code ----

SMALI = {
    "MainActivity": """
.class public Lcom/example/app/MainActivity;
.super Ljava/lang/Object;
.source "MainActivity.java"
.method public constructor <init>()V
    .registers 1
    invoke-direct {p0}, Ljava/lang/Object;-><init>()V
    return-void
.end method
.method public native read(J)I
.end method
.method public onClick(Ljava/lang/Object;)V
    .registers 5
    .line 12
    new-instance v0, Lcom/example/app/Db;
    invoke-direct {v0}, Lcom/example/app/Db;-><init>()V
    .line 13
    const/16 v1, 0x64
    invoke-virtual {v0, v1}, Lcom/example/app/Db;->query(I)V
    .line 14
    return-void
.end method
""",
    "Db": """
.class public Lcom/example/app/Db;
.super Ljava/lang/Object;
.source "Db.java"
.field private count:I
.method public constructor <init>()V
    .registers 1
    .line 10
    invoke-direct {p0}, Ljava/lang/Object;-><init>()V
    return-void
.end method
.method public query(I)V
    .registers 5
    .line 20
    const/16 v0, 0xa
    :loop
    if-lez v0, :done
    .line 21
    add-int/lit8 v0, v0, -0x1
    :try_start
    .line 22
    new-instance v1, Lcom/example/app/Db$Inner;
    invoke-direct {v1}, Lcom/example/app/Db$Inner;-><init>()V
    invoke-virtual {v1, p1}, Lcom/example/app/Db$Inner;->sleep(I)V
    :try_end
    .catch Ljava/lang/RuntimeException; {:try_start .. :try_end} :caught
    goto :loop
    :caught
    move-exception v1
    .line 24
    goto :loop
    :done
    return-void
.end method
""",
    "Inner": """
.class public Lcom/example/app/Db$Inner;
.super Ljava/lang/Object;
.method public constructor <init>()V
    .registers 1
    invoke-direct {p0}, Ljava/lang/Object;-><init>()V
    return-void
.end method
.method public sleep(I)V
    .registers 4
    .line 40
    int-to-long v0, p1
    invoke-static {v0, v1}, Ljava/lang/Thread;->sleep(J)V
    return-void
.end method
""",
    "Loop": """
.class public Lcom/example/app/Loop;
.super Ljava/lang/Object;
.method public static count()V
    .registers 4
    const/4 v0, 0x0
    :again
    add-int/lit8 v0, v0, 0x1
    nop
    goto :again
.end method
""",
    "Nterp": """
.class public Lcom/example/app/Nterp;
.super Ljava/lang/Object;
.method public static few()V
    .registers 2
    const/16 v0, 0x5
    :again
    add-int/lit8 v0, v0, -0x1
    if-gtz v0, :again
    return-void
.end method
.method public static many()V
    .registers 2
    const/high16 v0, 0x05000000
    :again
    add-int/lit8 v0, v0, -0x1
    if-gtz v0, :again
    return-void
.end method
""",
    "Shape": """
.class public abstract Lcom/example/app/Shape;
.super Ljava/lang/Object;
.method public abstract area()I
.end method
.method public static native count()I
.end method
"""}
OTHER = """
.class public Lcom/example/lib/Worker;
.super Ljava/lang/Object;
.method public static work()V
    .registers 1
    invoke-static {}, Lcom/example/lib/Worker;->work()V
    return-void
.end method
"""


def many(count):
    """A class of many methods, so that where a method is has to be searched."""
    return ".class public Lcom/example/app/Many;\n.super Ljava/lang/Object;\n" + "".join(
        ".method public static m%d()I\n    .registers 1\n    const/16 v0, %d\n%s    return v0\n"
        ".end method\n" % (n, n, "    nop\n" * (n % 7)) for n in range(count))


def call(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError("%s: %s" % (arguments[0], done.stderr[-600:]))
    return done.stdout


def assemble(name, texts):
    folder, path = os.path.join(work, name), os.path.join(work, name + ".dex")
    os.mkdir(folder)
    for n, text in texts.items():
        with open(os.path.join(folder, n + ".smali"), "w") as f:
            f.write(text)
    call("smali", "a", folder, "-o", path, "--api", "29")
    return path


class Dex:
    """methods: {name: [(offset in the file, 16-bit units from the method's start, text)]}"""

    def __init__(self, path):
        self.path, self.methods = path, {}
        rows = None
        for line in call("dexdump", "-d", path).splitlines():
            head = re.match(r"[0-9a-f]+: +\|\[[0-9a-f]+\] (\S+):\S+$", line)
            row = re.match(r"([0-9a-f]+): .*\|([0-9a-f]+): (.*)$", line)
            if head:
                rows = self.methods[head[1]] = []
            elif row and rows is not None:
                rows.append((int(row[1], 16), int(row[2], 16), row[3]))

        with open(path, "rb") as f:
            data = f.read()

        def at(form, offset):
            return struct.unpack_from(form, data, offset)[0]
        def text_at(n):
            start = at("<I", at("<I", 60) + 4 * n) + 1 # what is here is shorter than 128
            return data[start:data.index(0, start)].decode()

        def number_of(n):
            kind, name = at("<H", at("<I", 92) + 8 * n), at("<I", at("<I", 92) + 8 * n + 4)
            return text_at(at("<I", at("<I", 68) + 4 * kind))[1:-1].replace("/", ".") + "." + text_at(name)
        self.numbers = {number_of(n): n for n in range(at("<I", 88))}
        # The index of a method of type ()V: method_id, proto_id and string_id of the format.
        for n in range(at("<I", 88)):
            proto = at("<H", at("<I", 92) + 8 * n + 2)
            text = at("<I", at("<I", 60) + 4 * at("<I", at("<I", 76) + 12 * proto))
            if data[text:text + 3] == b"\1V\0":
                self.plain = n
                break

    def call_of(self, method, callee):
        """(offset in the file, 16-bit units from the method's first) of its call."""
        for at, unit, text in self.methods[method]:
            if text.startswith("invoke") and callee in text:
                return at, unit
        raise RuntimeError("no call of %s in %s" % (callee, method))


def apk(name, dexes, stored):
    """As the build tools make it: what is stored begins at a multiple of 4."""
    path = os.path.join(work, name + ".apk")
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("AndroidManifest.xml", b"<manifest/>" * 71)
        for n, dex in enumerate(dexes):
            info = zipfile.ZipInfo("classes%s.dex" % (n + 1 if n else ""))
            info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            room = -(z.fp.tell() + 30 + len(info.filename)) % 4
            if stored and room:
                info.extra = struct.pack("<HH", 0xd935, room) + bytes(room)
            with open(dex.path, "rb") as f:
                z.writestr(info, f.read())
    return path


def oat_file(name, version, machine=os.uname().machine):
    """An ELF file with nothing in its oat data but the version."""
    path = os.path.join(work, name)
    names, data, vaddr = b"\0oatdata\0.dynstr\0.dynsym\0", b"oat\n" + version + b"\0" + bytes(120), 0x1000
    machine = {"x86_64": 62, "aarch64": 183}[machine]
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x11, 0, 1, vaddr + 128, len(data))
    at_names, at_symbols = 128 + len(data), 128 + len(data) + 32
    at_sections = at_symbols + len(symbols)
    size = at_sections + 3 * 64
    sections = bytes(64) + struct.pack("<IIQQQQIIQQ", 9, 3, 2, vaddr + at_names, at_names, len(names), 0, 0, 1, 0) + \
        struct.pack("<IIQQQQIIQQ", 17, 11, 2, vaddr + at_symbols, at_symbols, len(symbols), 1, 1, 8, 24)
    header = b"\x7fELF\2\1\1" + bytes(9) + \
        struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, at_sections, 0, 64, 56, 1, 64, 3, 1)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, vaddr, vaddr, size, size, 4096)
    with open(path, "wb") as f:
        f.write((header + segment).ljust(128, b"\0") + data + names.ljust(32, b"\0") + symbols + sections)
    return path


# ---- the process ----

class Rig:
    def __init__(self, name):
        self.name, self.truth, self.steps, self.may_cut = name, [], {}, False
        self.module = None  # that its byte code is in; None: no file's
        self.log = open(os.path.join(work, "rig-" + name + ".err"), "w+")
        self.process = start([apps + "art_rig", LIBART], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1)
        self.pid = self.process.pid
        words = self.line().split()
        self.lists = {"jit": int(words[1], 16), "dex": int(words[2], 16)}

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise RuntimeError("rig %s ended: %s" % (self.name, self.log.read()[-600:]))
        return line.strip()

    def send(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")

    def ask(self, *words):
        """The lines until "ok"."""
        self.send(*words)
        return list(iter(self.line, "ok"))

    def tell(self, *words):
        self.send(*words)
        return self.line().split()

    def load(self, how, path):
        """[(number, address, bytes)] of its DEX files"""
        return [(int(w[1]), int(w[2], 16), int(w[3])) for w in
                (line.split() for line in self.ask(how, path))]

    def method(self, step, dex, name, callee, number=0):
        at, unit = dex.call_of(name, callee)
        address = int(self.tell("pc", step, number, at)[1], 16)
        self.steps[step] = dict(kind="dex", symbol=name, address=address, units=[unit])

    def loop(self, step, dex, name, number=0):
        """A method that mterp runs, and that stands at the target of its last branch, or, if it has
        no other to call, at any instruction."""
        rows = dex.methods[name]
        address = int(self.tell("loop", step, number, rows[0][0])[1], 16)
        self.steps[step] = dict(kind="mterp", symbol=name, address=address - rows[0][0] + rows[1][0],
                                units=[rows[1][1]], moving=[row[1] for row in rows])

    def nterp(self, step, dex, name, number=0):
        """One that nterp runs, and that stands at its first instruction, or the same."""
        rows = dex.methods[name]
        address = int(self.tell("nterp", step, number, rows[0][0], dex.plain)[1], 16)
        self.steps[step] = dict(kind="nterp", symbol=name, address=address, units=[0],
                                moving=[row[1] for row in rows])

    def compiled(self, step, symbol, how):
        words = self.tell("jit", step, symbol, how)
        self.steps[step] = dict(kind="jit", symbol=symbol, begin=int(words[1], 16),
                                end=int(words[2], 16), how=how)

    def lined(self, step, dex, name, callee, line, inlined, number=0):
        """A compiled method that has its own ArtMethod in its frame, at its call of callee."""
        at, unit = dex.call_of(name, callee)
        self.tell("method", "own", number, dex.methods[name][0][0], dex.numbers[name])
        words = self.tell("jit", step, name, "plain", inlined, 3, unit, "own")
        self.steps[step] = dict(kind="jit", symbol=name, begin=int(words[1], 16), end=int(words[2], 16),
                                dex_pc=unit, line=line, inlined=(self.tell("inlined", step, unit)[1], 3))

    def inlining(self, step, symbol, inlined, dex_pc, outer_dex_pc):
        """One that has the ArtMethod of a step of nterp inlined: its name is what libart's reader says. Of
        another step that is no ArtMethod at all."""
        real = self.steps[inlined]["kind"] == "nterp"
        words = self.tell("jit", step, symbol, "plain", inlined, dex_pc, outer_dex_pc)
        self.steps[step] = dict(kind="jit", symbol=symbol, begin=int(words[1], 16),
                                end=int(words[2], 16), dex_pc=outer_dex_pc,
                                inlined=(self.tell("inlined", step, outer_dex_pc)[1] if real else None,
                                         dex_pc))

    def run(self, kind, ms, *chain):
        words = self.tell("run", "bytecode" if kind in LOOPS else kind, ms, *chain)
        self.truth.append(dict(kind=kind, chain=chain, ms=ms, start=int(words[2]),
                               wall=int(words[3]), cpu=int(words[4]), eintr=int(words[5])))

    def entries(self, which):
        """{(address, bytes)} as another process reads the list."""
        found = set()
        with open("/proc/%d/mem" % self.pid, "rb") as mem:
            def read(at, form):
                mem.seek(at)
                return struct.unpack(form, mem.read(struct.calcsize(form)))
            head = read(self.lists[which], "<IIQQ8sIIII")
            if head[4] != b"Android2" or head[6:8] != (56, 48) or head[8] % 2:
                raise RuntimeError("list of %s: %s" % (which, head))
            at = head[3]
            while at:
                at, _, symfile, size, _, seqlock = read(at, "<QQQQQI")
                if seqlock % 2:
                    raise RuntimeError("an entry that is not valid is in the list")
                found.add((symfile, size))
        return found


def app_chain(rig, dex, number=0):
    rig.method("onClick", dex, PACKAGE + "MainActivity.onClick", "Db;.query", number)
    rig.method("query", dex, PACKAGE + "Db.query", "Db$Inner;.sleep", number)
    rig.method("sleep", dex, PACKAGE + "Db$Inner.sleep", "Thread;.sleep", number)
    rig.loop("count", dex, PACKAGE + "Loop.count", number)
    rig.nterp("few", dex, PACKAGE + "Nterp.few", number)
    rig.nterp("many", dex, PACKAGE + "Nterp.many", number)


def hot_methods(rig):
    rig.compiled("loop", PACKAGE + "Hot.loop", "plain")
    rig.compiled("other", PACKAGE + "Hot.other", "packed")
    rig.compiled("old", PACKAGE + "Hot.old", "zygote")


APP_CHAIN = ("onClick", "count", "few", "query", "sleep")
MIXED = ("onClick", "old", "loop", "count", "query", "few", "other", "sleep")
