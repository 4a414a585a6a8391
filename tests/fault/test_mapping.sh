#!/usr/bin/env bash
# report --mapping and --native: a recording of Java methods under changed names, written line by line
# by a program that shares nothing with jankscope. Prints TAP.
# Runs beside others (4 s)
set -u
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
js=$BUILD/jankscope
say() { # exit-status name [file]
	if [ "$1" = 0 ]; then echo "ok - mapping: $2"; else echo "not ok - mapping: $2"; [ -z "${3:-}" ] || head -20 "$3" | sed 's/^/# /'; fi
}
cat >make.py <<'END'
import json, sys
table = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    table.append(byte)
out = open(sys.argv[1], "wb")
seq = 0
def line(record):
    global seq
    head = json.dumps({"type": record.pop("type"), "seq": seq, "t_boot_ns": 10**9 + seq, **record}, separators=(",", ":"))[:-1].encode()
    crc = 0xFFFFFFFF
    for byte in head:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    out.write(head + b',"crc":"%08x"}\n' % (crc ^ 0xFFFFFFFF))
    seq += 1
art, libc, vdex = "/apex/com.android.art/lib64/libart.so", "/apex/com.android.runtime/lib64/bionic/libc.so", "/data/app/x/oat/arm64/base.vdex"
def frame(symbol, kind="native", module=art, **more):
    return {"module": module, "offset": 16, "symbol": symbol, "kind": kind, **more}
def dex(symbol, **more):
    return frame(symbol, "dex", vdex, **more)
outer = [frame("nterp_helper"), frame("android.os.Looper.loop", module="/system/framework/arm64/boot-framework.oat"), frame("art_quick_invoke_static_stub"), frame("__libc_init", module=libc)]
sleep = frame("nanosleep", module=libc)
stacks = [
    [sleep, frame("Java_com_example_Native_nap", module="/data/app/x/lib/arm64/libshop.so"), frame("art_jni_trampoline", module="/data/app/x/oat/arm64/base.odex"), frame("a.a.a", "jit", "[anon:dalvik-jit-code-cache]"), *outer],   # load or save
    [sleep, frame("art::Thread_sleep(int)"), frame("nterp_helper"), dex("a.a.a", offset=3), *outer],             # inlined: price < load; by its place, as it has no line
    [sleep, frame("nterp_helper"), dex("void a.a.a(int, a.b)", line=25), *outer],                                         # save by its types
    [sleep, frame("art::gc::Heap::Wait()"), frame("art_quick_alloc_object"), frame("a.a.b", "jit", "[anon:dalvik-jit-code-cache]"), *outer],
    [sleep, frame("a.a.a", module="/data/app/x/lib/arm64/libshop.so"), frame("main", module="/system/bin/app_process64")],  # no method of Java
]
line({"type": "header", "schema": 1, "version": "0", "session": "", "boot_id": "", "kernel": "k", "arch": "arm64",
      "clock": {"boot_ns": 1, "mono_ns": 1, "unix_ns": 1}, "interval_ns": 10**9, "block_ns": 1, "targets": [{"package": "com.example"}], "sources": []})
ledger = dict.fromkeys(("running_ns", "runnable_ns", "sleeping_ns", "uninterruptible_ns", "stopped_ns"), 0)
for n, stack in enumerate(stacks):
    ms = 600 + 100 * n
    line({"type": "block", "pid": 7, "tid": 7, "start_boot_ns": n, "wall_ns": ms * 10**6, "state": "closed", "class": "short", "ledger": ledger,
          "reasons": [], "preemptors": [], "stacks": [{"t_boot_ns": 1, "weight_ns": ms * 10**6, "capture": "snapshot", "complete": True, "frames": stack}],
          "top": 0, "lost": {}, "missing": {}})
# As the recorder groups them: by the names of the recording. One block more than there are records of.
paths = [{"path": "android.os.Looper.loop;a.a.a", "count": 6, "total_ns": 4_100_000_000, "longest_ns": 10**9}]
line({"type": "footer", "summary": {"intervals": 1, "dur_ns": 10**9, "blocks": {"count": 6, "total_ns": 4_100_000_000, "paths": paths}}, "lost": {}, "missing": {}})
END
python3 make.py app.jsonl || exit 1
cat >mapping.txt <<'END'
# compiler: R8
# min_api: 26
# {"id":"com.android.tools.r8.mapping","version":"2.2"}
com.example.Store -> a.a:
# {"id":"sourceFile","fileName":"Store.kt"}
    1:9:void com.example.Price.of(int):5:13 -> a
    1:9:void load(int):40 -> a
    10:20:void load(int):41:51 -> a
    21:30:void save(int,com.example.Item):60:69 -> a
    1:1:void <clinit>():1:1 -> <clinit>
    0:65535:int sum():70:70 -> b
com.example.Item -> a.b:
END
cp app.jsonl before.jsonl
"$js" report app.jsonl --folded - >raw 2>err; code=$?
[ $code = 0 ] && grep -q '^__libc_init;android.os.Looper.loop;a.a.a;Java_com_example_Native_nap;nanosleep 600000$' raw && [ "$(grep -c . raw)" = 5 ]
say $? "without --mapping the recorded names are shown" raw
! grep -q 'nterp_helper\|art_quick\|art_jni' raw && grep -qF ';a.a.b;art::gc::Heap::Wait();nanosleep 900000' raw && grep -q '^main;a.a.a;nanosleep' raw && grep -q '^jankscope: info: 12 frames of ART are left out; --native shows them$' err
say $? "the way from one method to the next is left out, what ART and JNI code do is not" err
"$js" report app.jsonl --folded - --native >native 2>err
[ ! -s err ] && grep -q '^__libc_init;art_quick_invoke_static_stub;android.os.Looper.loop;nterp_helper;a.a.a;art_jni_trampoline;Java_com_example_Native_nap;nanosleep 600000$' native
say $? "--native leaves nothing out" native
"$js" report app.jsonl --mapping mapping.txt --folded - >folded 2>err; code=$?
sort >want <<'END'
__libc_init;android.os.Looper.loop;com.example.Store.load or save;Java_com_example_Native_nap;nanosleep 600000
__libc_init;android.os.Looper.loop;com.example.Store.load;com.example.Price.of_[i];art::Thread_sleep(int);nanosleep 700000
__libc_init;android.os.Looper.loop;void com.example.Store.save(int, com.example.Item);nanosleep 800000
__libc_init;android.os.Looper.loop;com.example.Store.sum;art::gc::Heap::Wait();nanosleep 900000
main;a.a.a;nanosleep 1000000
END
sort folded | diff - want >bad; [ $? = 0 ] && [ $code = 0 ]; say $? "names of the source, inlined ones too, by lines and types" bad
cmp -s app.jsonl before.jsonl; say $? "the recording keeps its names"
"$js" report app.jsonl >plain 2>err
grep -q 'a\.a\.a < android.os.Looper.loop' plain; say $? "the summary without --mapping is the recorded one" plain
"$js" report app.jsonl --mapping mapping.txt >summary 2>err; code=$?
tr -s ' \n' ' ' <summary >flat
[ $code = 0 ] && grep -qF '1 x 600.0 ms, longest 600.0: Java_com_example_Native_nap < com.example.Store.load or save < android.os.Looper.loop' flat &&
	grep -qF '1 x 700.0 ms, longest 700.0: com.example.Price.of_[i] < com.example.Store.load < android.os.Looper.loop' flat &&
	grep -qF 'com.example.Store.save(...) < android.os.Looper.loop' flat && grep -qF '900.0: com.example.Store.sum < android.os.Looper.loop' flat
say $? "the summary has them too" summary
grep -qF '1 x 100.0 ms, longest 0.0: others' flat; say $? "a block whose record is missing stays in the summary" summary
"$js" report app.jsonl --native >summary 2>err; tr -s ' \n' ' ' <summary >flat
grep -qF '900.0: art::gc::Heap::Wait() < art_quick_alloc_object < a.a.b < nterp_helper' flat; say $? "the summary with --native" summary
awk 'length > 80 { bad = 1 } END { exit bad }' plain summary; say $? "no line is wider than 80 columns"

# ---- mappings that are none ----
fails() { # name exit-code text file
	"$js" report app.jsonl --mapping "$4" >out 2>err; code=$?
	[ $code = "$2" ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$3" err && [ ! -s out ]; say $? "$1" err
}
printf 'com.example.A -> a:\n    void f() => a\n' >broken.txt
printf '# nothing\n' >empty.txt
fails "a broken line is named" 2 "--mapping broken.txt:2: no line of a mapping: give the mapping.txt" broken.txt
fails "an empty file" 2 "--mapping empty.txt: no class in it" empty.txt
fails "a recording in its place" 2 "--mapping app.jsonl:1: no line of a mapping" app.jsonl
fails "no such file" 1 "--mapping gone.txt: No such file or directory" gone.txt
fails "a folder" 1 "--mapping .: Is a directory" .
truncate -s 1100M huge.txt
fails "a file that is too large is not read" 2 "--mapping huge.txt: larger than 1 GiB" huge.txt
rm huge.txt
printf 'com.other.A -> x.y:\n' >other.txt
"$js" report app.jsonl --mapping other.txt >out 2>err; code=$?
[ $code = 0 ] && grep -q '^jankscope: warn: --mapping other.txt: it has none of the 8 recorded methods; is it of this build?$' err; say $? "a mapping of another build is told" err

# ---- a large one: time and memory of what an app of 100,000 classes has ----
python3 - <<'END'
with open("large.txt", "w") as out:
    for n in range(100000):
        out.write(f"com.example.feature{n % 300}.internal.SomeLongClassName{n} -> z{n:x}.q:\n# {{\"id\":\"sourceFile\",\"fileName\":\"SourceFile{n}.kt\"}}\n")
        for k in range(16):
            out.write(f"    {k}:{k}:java.lang.Object someMethodOfIt{k}(java.lang.String,int):{k * 7}:{k * 7} -> m{k}\n")
    out.write(open("mapping.txt").read())
END
bytes=$(stat -c %s large.txt) start=$(date +%s%N)
python3 - "$js" <<'END' >usage
import resource, subprocess, sys
code = subprocess.run([sys.argv[1], "report", "app.jsonl", "--mapping", "large.txt", "--folded", "large.folded"], stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, f"{used.ru_utime + used.ru_stime:.2f}")
END
read -r code kib cpu <usage
sort large.folded | diff -q - want >/dev/null && [ "$code" = 0 ] && { [[ $BUILD = *san ]] || [ "$kib" -lt $((bytes / 1024 + 32768)) ]; }
say $? "$((bytes >> 20)) MiB of mapping take no more than its bytes and 32 MiB ($((kib >> 10)) MiB, $cpu s CPU, $((($(date +%s%N) - start) / 1000000)) ms)"

# ---- the oracle: ProGuard shrinks a program, which runs, and its ReTrace names the stacks ----
retrace=/usr/share/java/proguard-retrace.jar
for tool in "$(command -v proguard || echo proguard)" "$(command -v javac || echo javac)" "$(command -v java || echo java)" $retrace; do
	[ -e "$tool" ] || { echo "ok - mapping: ProGuard's ReTrace # SKIP there is no $tool here"; exit 0; }
done
mkdir -p source classes
cat >source/Main.java <<'END'
package shop;

public class Main {
	static class Item {
		int price;
		Item(int price) { this.price = price; }
		int price(int n) {
			if (n < 0)
				throw new IllegalStateException("negative");
			return price * n;
		}
	}
	static class Store {
		private int sum;
		private int once(Item item, int n) { return item.price(n) + 1; }
		int load(Item item, int n) { sum += once(item, n); return sum; }
		int load(Item item, long n) { sum += once(item, (int) n) * 2; return sum; }
		int save(Item[] items, int n) { for (Item i : items) sum += load(i, n); return sum; }
		int walk(int depth, Item[] items) { return depth > 0 ? walk(depth - 1, items) + 1 : save(items, -depth - 1); }
	}
	static void show(Runnable what) {
		try {
			what.run();
		} catch (IllegalStateException e) {
			System.out.println("trace");
			for (StackTraceElement f : e.getStackTrace())
				System.out.println("\tat " + f);
		}
	}
	public static void main(String[] args) {
		Store store = new Store();
		Item[] items = {new Item(3), new Item(4)};
		show(() -> store.load(items[0], -1));
		show(() -> store.load(items[1], -1L));
		show(() -> store.save(items, -5));
		show(() -> store.walk(3, items));
		show(() -> items[1].price(-2));
	}
}
END
cat >shrink.conf <<'END'
-injars classes
-outjars small.jar
-printmapping shrunk.txt
-keepattributes SourceFile,LineNumberTable
-renamesourcefileattribute SourceFile
-keep public class shop.Main { public static void main(java.lang.String[]); }
-optimizationpasses 3
-allowaccessmodification
-repackageclasses a
-ignorewarnings
-dontwarn
-dontnote
END
{ javac -g -source 8 -target 8 -d classes source/Main.java && proguard @shrink.conf && java -cp small.jar shop.Main >trace.txt &&
	java -cp $retrace proguard.retrace.ReTrace shrunk.txt trace.txt >retraced.txt; } >log 2>&1 || { say 1 "ProGuard's ReTrace" log; exit 0; }
cat >oracle.py <<'END'
import re, sys
exec(open("make.py").read().split("art, libc")[0])  # line() of the recording that is named
stacks, at = [], re.compile(r"\tat (.*)\(\w+(?:\.java)?:(\d+)\)")
for text in open(sys.argv[2]):
    if text.startswith("trace"):
        stacks.append([])
    elif (found := at.match(text)):
        stacks[-1].append(found.groups())
if sys.argv[3] == "folded":
    print("\n".join(sorted({";".join(re.sub(r"_\[i\]$", "", name) for name, _ in reversed(stack)) for stack in stacks})))
    sys.exit()
line({"type": "header", "schema": 1, "version": "0", "session": "", "boot_id": "", "kernel": "k", "arch": "arm64",
      "clock": {"boot_ns": 1, "mono_ns": 1, "unix_ns": 1}, "interval_ns": 10**9, "block_ns": 1, "targets": [], "sources": []})
ledger = dict.fromkeys(("running_ns", "runnable_ns", "sleeping_ns", "uninterruptible_ns", "stopped_ns"), 0)
for n, stack in enumerate(stacks):
    frames = [{"module": "/data/app/x/base.vdex", "offset": 1, "symbol": name, "kind": "dex", "line": int(number)} for name, number in stack]
    line({"type": "block", "pid": 7, "tid": 7, "start_boot_ns": n, "wall_ns": 10**9, "state": "closed", "class": "short", "ledger": ledger,
          "reasons": [], "preemptors": [], "stacks": [{"t_boot_ns": 1, "weight_ns": 10**9, "capture": "snapshot", "complete": True, "frames": frames}],
          "top": 0, "lost": {}, "missing": {}})
line({"type": "footer", "summary": {}, "lost": {}, "missing": {}})
END
python3 oracle.py oracle.jsonl trace.txt recording && python3 oracle.py /dev/null retraced.txt folded >want &&
	"$js" report oracle.jsonl --mapping shrunk.txt --folded - 2>log | sed 's/ [0-9]*$//; s/_\[i\]//g' | sort -u >got
diff got want >bad; [ $? = 0 ] && [ "$(wc -l <want)" -ge 4 ] && ! diff -q trace.txt retraced.txt >/dev/null
say $? "$(wc -l <want) stacks of a shrunk program are named as by ProGuard's ReTrace" bad
exit 0
