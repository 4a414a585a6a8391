#!/usr/bin/env bash
# What a person sees of real runs: rows, names that others chose, colours, widths, and sums that
# close. Prints TAP.
# Runs beside others (72 s, 35 s of CPU)
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); pids=
end_child() { grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$1/status" && kill -9 "$1" 2>/dev/null; }
trap '[ $BASHPID = $$ ] || exit; for p in $pids; do end_child "$p"; done; rm -rf "$work"' EXIT
js=$BUILD/jankscope
cd "$work" || exit 1
say() { # status name file: a result, and the file if it is bad
	if [ "$1" = 0 ]; then echo "ok - table: $2"; return; fi
	echo "not ok - table: $2"
	[ -z "${3:-}" ] || sed 's/^/# /' "$3" | cat -v | head -"${4:-40}"
}
loss="--max-lost 100" # overruns of a busy machine are no matter here

# ---- words ----
for verb in record frames report; do
	"$js" $verb --legend >legend 2>err; code=$?
	[ $code = 0 ] && [ -s legend ] && [ ! -s err ] && [ "$(awk 'length > 80' legend | wc -l)" = 0 ]
	say $? "$verb --legend is a page of 80 columns" legend
done
"$js" record --legend >legend; missing=
for word in '%core' 'CPU ms' 'wait ms' 'vol' 'invol' 'PID/TID' 'xN' 'ended' "not the target's" 'LOST' 'late, repaired' \
	'self' 'BLOCK' 'so far' 'run' 'wait' 'sleep' 'D' 'held by' 'until' 'after' 'unaccounted' 'captures' 'EINTR risk' 'missing'; do
	grep -qF -- "  $word " legend || grep -qxF -- "  $word" legend || missing="$missing [$word]"
done
"$js" man | tr -d '\\' >man
for word in '%core' 'unaccounted' 'EINTR risk' 'captures' 'SHOWN' 'DROP'; do grep -qF "fB$word" man || missing="$missing man:[$word]"; done
"$js" frames --legend >legend; for word in SHOWN 'fps raw' DROP SLOW FROZ WORK; do grep -qF -- "  $word " legend || missing="$missing frames:[$word]"; done
echo "$missing" >missing; [ -z "$missing" ]; say $? "every word is in the legend and in the man page" missing

if [ "$(id -u)" != 0 ]; then echo "ok - table: real runs # SKIP need root"; exit 0; fi
cat >fit.py <<'END'
"""usage: fit.py COLUMNS [colour] <text. Every line is UTF-8, no wider, and has no control character
(but for SGR sequences where colours are wanted)."""
import re, sys, unicodedata
data = sys.stdin.buffer.read().replace(b"\r\n", b"\n")
text = data.decode("utf-8")
bad = []
for line in text.split("\n"):
    if len(sys.argv) > 2:
        line = re.sub("\x1b\\[[0-9;]*m", "", line)
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Cn") for c in line):
        bad.append("control: %r" % line)
    width = sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)
    if width > int(sys.argv[1]):
        bad.append("%d columns: %r" % (width, line))
print("\n".join(bad[:20]))
sys.exit(1 if bad else 0)
END

# ---- rows: a storm of short processes hides nobody ----
cat >spin.c <<'END'
#define _GNU_SOURCE
#include <pthread.h>
static volatile unsigned long sink;
static void *spin(void *p) { for (;;) sink++; return p; }
int main(void) { pthread_t t; pthread_create(&t, 0, spin, 0); pthread_setname_np(t, "spinner-thread"); for (;;) sink++; }
END
gcc -O1 -pthread -o heavy-spinner spin.c || { echo "not ok - table: gcc"; exit 1; }
chmod 755 "$work" heavy-spinner
as() { exec setpriv --reuid=54321 --regid=54321 --clear-groups "$@"; }
(as ./heavy-spinner) & spinner=$!; pids="$pids $spinner"; disown
# Longer than any of its recorders, which need seconds to start on a busy machine.
storm() { (as bash -c 'for ((i = 0; i < 5000; i++)); do for _ in $(seq 10); do sleep 0.01 & done; wait; done') & storm=$!; pids="$pids $storm"; disown; }
storm
"$js" record -u 54321 -d 3s $loss -o storm.jsonl >out 2>err; code=$?
end_child $storm
[ $code = 0 ] && awk -v pid=$spinner '$6 == pid && /heavy-spinner \(2 threads\)/ {p++} /^ .*  spinner-thread$/ {t++} END {exit !(p >= 2 && t >= 2)}' out
say $? "a row per process, its threads below" out
grep -qE ' - sleep x[0-9]+$' out; say $? "short-lived processes of one name are one row" out
[ "$(sed '/^summary/,$d' out | awk '/^ *[0-9.]+ +[0-9.]+ +[0-9.-]+ / && ($NF == "sleep" || ($(NF-1) == "sleep" && $NF == "ended"))' | wc -l)" -le 3 ]; say $? "and are not told one by one" out
grep -qE '^ *[0-9.]+ +[0-9.]+  sleep x[0-9]+$' out; say $? "one row in the summary, too" out
grep -qE "^ *[0-9.]+ +[0-9.]+  heavy-spinner $spinner$" out; say $? "the summary says who used most" out
python3 fit.py 80 <out >bad; say $? "80 columns in a pipe" bad
cp out storm.out
"$js" record -i 200ms -n 1 --cpu iter $loss >out 2>err && grep -q '^summary: 1 intervals' out && ! grep -q missing out; say $? "a run with --cpu iter does not end as if something broke" out
"$js" record -i 200ms -n 1 --cpu iter -v $loss 2>/dev/null | grep -q 'missing cpu.tasks.sleeping_ns'; say $? "-v tells what only records would have"

# %core is CPU time of the clock: of a thread that always runs, and of the kernel's own count.
"$js" record -p $spinner -i 500ms -d 2s $loss -o target.jsonl >target.out 2>err
python3 - target.jsonl target.out >bad <<'END'
import json, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
text = open(sys.argv[2]).read()
intervals = [l for l in lines if l["type"] == "interval"]
heads = re.findall(r"target ([0-9.]+) %core  busy", text)
assert len(heads) == len(intervals) >= 3, (heads, len(intervals))
for head, interval in zip(heads, intervals):
    used = sum(p["cpu_ns"] for p in interval["cpu"]["processes"])
    assert abs(float(head) - 100 * used / interval["dur_ns"]) < 0.06, (head, used, interval["dur_ns"])
footer = lines[-1]["summary"]
used = sum(p["cpu_ns"] for i in intervals for p in i["cpu"]["processes"])
assert footer["targets"]["cpu_ns"] == used > 0
assert re.search(r"target: %.3f s CPU, %.1f %% of a core" % (used / 1e9, 100 * used / footer["dur_ns"]), text), text
assert "not the target's" in text
END
say $? "the target's share stands apart from the machine's" bad

# ---- sums: rows + other = the run = its intervals ----
cat >sums.py <<'END'
import json, sys
for path in sys.argv[1:]:
    lines = [json.loads(line) for line in open(path)]
    intervals = [l for l in lines if l["type"] == "interval"]
    assert lines[-1]["type"] == "footer" and intervals, path
    summary = lines[-1]["summary"]
    top = summary["top"]
    busy = sum(i["cpu"]["busy_ns"] for i in intervals)
    assert summary["cpu"]["busy_ns"] == busy, path
    for kind in ("threads", "processes", "uids"):
        rows = sum(row["cpu_ns"] for row in top[kind])
        assert len(top[kind]) <= 40 and rows + top["other"][kind]["cpu_ns"] == busy, (path, kind, rows, busy)
        assert top[kind] and rows > 0, (path, kind)
    for kind in ("threads", "processes"):
        assert [r["cpu_ns"] for r in top[kind]] == sorted((r["cpu_ns"] for r in top[kind]), reverse=True)
    for key in ("rx_bytes", "tx_bytes"):
        told = sum(u[key] for i in intervals if "net" in i for u in i["net"]["uids"])
        rows = sum(row.get(key, 0) for row in top["uids"]) + top["other"]["uids"].get(key, 0)
        assert rows == told == summary.get("net", {}).get(key, 0), (path, key, rows, told)
    # each row against what the intervals have of it
    for row in top["processes"]:
        if row.get("count", 1) > 1 or row.get("partial"):
            continue
        told = sum(p["cpu_ns"] for i in intervals for p in i["cpu"]["processes"]
                   if (p["pid"], p.get("start_boot_ns")) == (row["pid"], row.get("start_boot_ns")))
        assert told == row["cpu_ns"], (path, row, told)
    print(path, len(intervals), "intervals", busy, "ns")
END
storm
"$js" record -q -i 50ms -d 1s $loss -o fast.jsonl 2>/dev/null
"$js" record -q -i 200ms -d 1s --cpu switch --top 2 $loss -o top.jsonl 2>/dev/null
"$js" record -q -p $spinner -i 200ms -d 600ms --top 1 $loss -o one.jsonl 2>/dev/null
end_child $storm
python3 sums.py storm.jsonl target.jsonl fast.jsonl top.jsonl one.jsonl >bad 2>&1; say $? "rows and their rest are the run, and the run is its intervals" bad
jq -se '.[-1].summary.top.processes | map(select(.process == "sleep" and .count > 20 and (has("pid") | not))) | length == 1' storm.jsonl >/dev/null
say $? "the footer has the storm as one row"
# --top cuts lists, not what a thread of the summary used.
jq -se '[.[-1].summary.top.threads[] | select(.pid == '$spinner')] | length == 2' one.jsonl >/dev/null; say $? "--top 1: both threads of the target are in the summary"

# ---- a recording is read back as it was printed ----
"$js" report storm.jsonl >report 2>err; code=$?
[ $code = 0 ] && sed -n '/^summary/,$p' report >a && sed -n '/^summary/,$p' storm.out >b && [ -s a ] && diff a b >bad
say $? "report FILE prints the run's own summary" bad
head -n -1 storm.jsonl >headless.jsonl
"$js" report headless.jsonl >report 2>err; code=$?
[ $code = 3 ] && grep -q '^no summary: the recording was not written to its end; it has [0-9]* records' report && grep -q 'no footer last' err
say $? "report of a recording without an end says so, exit 3" report
python3 - >hostile.jsonl <<'END'
import json
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)
def line(record):
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)[:-1].encode()
    crc = 0xFFFFFFFF
    for byte in text:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    print((text + b',"crc":"%08x"}' % (crc ^ 0xFFFFFFFF)).decode())
evil = "\x1b]0;owned\x07\x1b[2J\u202e%s%n"
line({"type": "header", "seq": 0, "t_boot_ns": 1, "schema": 1, "kernel": evil, "arch": evil, "targets": [{"package": evil}],
      "sources": [{"name": evil, "state": evil, "variant": evil * 20}, {}], "clock": 5})
deep = evil
for _ in range(2):
    deep = {evil: deep, "n": -1e308}
row = {"process": evil, "thread": evil, "package": evil, "pid": -1, "cpu_ns": 2**63 - 1, "rx_bytes": 2**63 - 1, "count": 2**62}
line({"type": "footer", "seq": 1, "t_boot_ns": 2, "lost": {evil: 3}, "late": 7, "missing": {evil: evil},
      "summary": {"deep": deep, "intervals": 1e308, "dur_ns": -5, "cpu": {"busy_ns": 1e308}, "targets": {"cpu_ns": -1e308},
                  "blocks": {"count": 1e300, "paths": [{"path": (evil + ";") * 50, "count": 1, "total_ns": 2**63 - 1}, 5], "wall_ns": {"max": -1}},
                  "frames": {"shown": 1, "layers": [{"layer": evil, "shown": 2**63 - 1}], "other": []},
                  "top": {"threads": [row] * 3, "processes": [row, [], "x"], "uids": [row, {}], "other": {"threads": {"cpu_ns": 2**63 - 1}, "processes": 1, "uids": {}}}}})
END
"$js" report hostile.jsonl >report 2>err; code=$?
[ $code -le 3 ] && [ -s err ] && python3 fit.py 80 <report >bad && python3 fit.py 1000 <err >>bad; say $? "a hostile recording reaches no terminal" bad

# ---- names that others chose: argv[0], and the names of files that became those of threads ----
evil=$(printf 'a\033[31mb\007\342\200\256c'); wide='漢字プロセス'; names=; targets=
for name in "$evil" "$wide" 'has  blanks (x)' fifteen-letters "$(printf '\377\376\303')"; do
	cp heavy-spinner "$name" || continue
	"./$name" & p=$!; disown
	bash -c 'exec -a "$0" ./heavy-spinner' "$name" & names="$names $p $!"; pids="$pids $p $!"; targets="$targets -p $p -p $!"; disown
done
sleep 0.5
# shellcheck disable=SC2086
"$js" record $targets -i 500ms -n 2 --top 100 $loss >out 2>err
python3 fit.py 80 <out >bad && [ "$(grep -cE "^ .* $wide \(2 threads\)" out)" -ge 2 ] && grep -qF ' a?[31mb??c (2 threads)' out &&
	grep -qF ' has  blanks (x) (2 threads)' out && grep -qF ' ??? (2 threads)' out && sed '1,/^summary/d' out | grep -qF "$wide"
say $? "odd names: nothing of them controls the terminal, UTF-8 stays" out 60
for p in $names; do end_child "$p"; done

# ---- terminals ----
if command -v script >/dev/null; then
	tty() { script -qec "$*" /dev/null </dev/null >tty.out 2>&1; }
	tty env -u NO_COLOR -u COLUMNS TERM=xterm "$js" record -n 2 -i 200ms $loss
	grep -q $'\033\[1m' tty.out && python3 fit.py 200 colour <tty.out >bad; say $? "colours on a terminal" tty.out
	tty env NO_COLOR=1 TERM=xterm "$js" record -n 1 -i 200ms $loss
	! grep -q $'\033' tty.out; say $? "NO_COLOR is honoured" tty.out
	tty env -u NO_COLOR TERM=dumb "$js" record -n 1 -i 200ms $loss
	! grep -q $'\033' tty.out; say $? "TERM=dumb has none" tty.out
	tty env NO_COLOR=1 TERM=xterm "$js" record --color always -n 1 -i 200ms $loss
	grep -q $'\033\[1m' tty.out; say $? "--color always" tty.out
	tty env -u NO_COLOR TERM=xterm "$js" record --color never -n 1 -i 200ms $loss
	! grep -q $'\033' tty.out; say $? "--color never" tty.out
	for columns in 20 40 60 132; do
		tty env COLUMNS=$columns TERM=xterm "$js" record -p $spinner --color never -n 2 -i 200ms $loss
		python3 fit.py $columns <tty.out >bad && grep -q 'spinner' tty.out; say $? "$columns columns" bad
	done
	tty "stty cols 100; env -u COLUMNS $js record --color never -n 1 -i 200ms $loss"
	python3 fit.py 100 <tty.out >bad; say $? "the terminal's own width" bad
else
	echo "ok - table: terminals # SKIP no script(1)"
fi
"$js" record --color always -n 1 -i 200ms $loss 2>/dev/null | grep -q $'\033\[1m'; say $? "--color always in a pipe"
"$js" record -n 1 -i 200ms $loss 2>/dev/null | grep -q $'\033'; [ $? = 1 ]; say $? "no colour in a pipe"

# ---- no target alive, no interval ----
sleep 0.5 & p=$!
"$js" record -p $p -d 20s -i 10s --net off $loss >out 2>err; code=$?
[ $code = 0 ] && grep -q '^summary: 1 intervals' out && python3 fit.py 80 <out >bad; say $? "a target that dies before the first interval" out
end_child $spinner

# ---- blocks ----
looper=$BUILD/tests/apps/looper
if [ ! -x "$looper" ]; then echo "ok - table: blocks # SKIP no libutils of Android here, so no tests/apps/looper"; exit 0; fi
mkfifo commands
"$looper" <commands >/dev/null & target=$!; pids="$pids $target"
exec 3>commands
sleep 0.5
"$js" record -p $target -i 1s -d 60s --block 300ms $loss -o blocks.jsonl >out 2>err & recorder=$!; pids="$pids $recorder"
for _ in $(seq 300); do grep -q target_start out && break; sleep 0.1; done
sleep 1
ended() { for _ in $(seq 300); do [ "$(jq -s '[.[] | select(.type == "block" and .state == "closed")] | length' blocks.jsonl 2>/dev/null)" -ge "$1" ] && return; sleep 0.1; done; }
echo lock 500 >&3; ended 1; echo lock 600 >&3; ended 2; echo sleep 700 >&3; ended 3
sleep 1; kill -INT $recorder; wait $recorder; code=$?
[ $code = 0 ] && grep -qE "^    looper $target: wait_lock < run\(\.\.\.\), futex held by lock-holder$" out; say $? "a lock is told by who took it, and by who held it" out
grep -qE "^    looper $target: sleep_ns\(\.\.\.\) < nap" out; say $? "a sleep is told by who slept" out
grep -qE '^    [12] x .*, longest [0-9.]+: wait_lock < run\(\.\.\.\)' out; say $? "the summary groups blocks by path, with count, sum and longest" out
sed '1,/^summary/d' out | grep -E '^    [0-9]+ x ' | sed 's/.*longest [0-9.]*: //' | sort | uniq -d >bad; [ ! -s bad ]; say $? "no two rows of the summary have one text" bad
jq -se '.[-1].summary.blocks | ([.paths[].count] | add) + .other.count == .count and ([.paths[].total_ns] | add) + .other.total_ns == .total_ns and .count >= 3' blocks.jsonl >/dev/null
say $? "blocks by path and their rest are all blocks"
echo quit >&3
# Somebody else traces it, and only ptrace may be used: no stack, and the reason.
"$looper" <commands >/dev/null & target=$!; pids="$pids $target"
exec 3>&-; exec 3>commands
if command -v strace >/dev/null; then
	sleep 0.5; strace -qq -o /dev/null -p $target & tracer=$!; pids="$pids $tracer"; disown
	for _ in $(seq 100); do grep -q "^TracerPid:[[:space:]]*[1-9]" /proc/$target/status && break; sleep 0.1; done
	"$js" record -p $target -i 1s -d 60s --block 300ms --stack ptrace $loss -o traced.jsonl >out 2>err & recorder=$!; pids="$pids $recorder"
	for _ in $(seq 300); do grep -q target_start out && break; sleep 0.1; done
	sleep 1; echo lock 900 >&3
	for _ in $(seq 300); do grep -q '"state":"closed"' traced.jsonl && break; sleep 0.1; done
	kill -INT $recorder; wait $recorder
	# With a stack there is a function; without one the record's own reason stands in its place.
	reason=$(jq -r 'select(.type == "block" and .state == "closed") | if (.stacks | length) > 0 then "stack" elif .missing.stacks == "follows" then "follows" else .missing.stacks end' traced.jsonl | head -1)
	case $reason in
	'') false ;;
	stack) grep -qE "^    looper $target: [a-z_]+" out ;;
	follows) grep -q 'stack follows' out ;;
	*) sed 's/^ */ /' out | tr -d '\n' | grep -qF "no stack: $reason" ;;
	esac
	say $? "why there is no stack is said" out
	end_child $tracer
fi
echo quit >&3
exit 0
