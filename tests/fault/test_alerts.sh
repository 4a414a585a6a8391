#!/usr/bin/env bash
# --alert and --on-alert of a running recorder: rules that make no sense are refused, a rule fires and
# is over when a program of known behaviour does what it says, and a command that fails, hangs or is
# one too many holds nobody up and leaves no zombie. Prints TAP.
# Runs beside others (14 s)
set -u
work=$(mktemp -d); chmod 755 "$work"
# What the commands below wrote: processes of this test, if they still have its folder.
end_all() { local p; for p in $(cat "$work"/pids 2>/dev/null); do
	[ "$(readlink "/proc/$p/cwd")" = "$work" ] && kill -9 "$p" 2>/dev/null; done; }
trap 'end_all; rm -rf "$work"' EXIT
cd "$work" || exit 1
js=$BUILD/jankscope

say() { # status name [file...]
	local bad=$1 name=$2; shift 2
	if [ "$bad" = 0 ]; then echo "ok - alerts: $name"; return; fi
	echo "not ok - alerts: $name"
	for f in "$@"; do sed "s/^/# $f: /" "$f" 2>/dev/null | cut -c1-400 | head -12; done
}
refuse() { # name pattern flags...
	local name=$1 pattern=$2 bad=0; shift 2
	timeout 20 "$js" record -n 1 "$@" >out 2>err </dev/null
	[ $? = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q -- "$pattern" err && [ ! -s out ] || bad=1
	say $bad "refused: $name" err
}
refuse "a metric that is not there, with the nearest" "near it: cpu.busy_ns" --alert 'cpu.bussy_ns > 1s'
refuse "a value without a unit" "needs a time" --alert 'cpu.busy_ns > 5'
refuse "a rule with a control character" "only ASCII" --alert $'cpu.busy_ns > 1s \e[2J'
refuse "a file that is not there" "No such file" --alert @nowhere
printf '# old tools\n\ncpu.processes.cpu_ns > 80%%\ncpu.tasks.cpu_ns >\n' >rules
refuse "a line of a file, by its number" "@rules:4: a value is missing" --alert @rules
mkfifo pipe
refuse "a FIFO without a writer, after 5 s" "timed out" --alert @pipe
refuse "the second rule of a pipe that is slow" ":2: there is no metric nothing_there" --alert @<(sleep 0.3; echo 'cpu.busy_ns > 1s'; sleep 0.3; echo 'nothing_there > 1')
head -c 100000 /dev/zero | tr '\0' 'a' >long
refuse "a file that is too long" "at most 64 KiB" --alert @long
printf 'cpu.busy_ns\0 > 1s\n' >binary
refuse "a file with a NUL" "no file of rules" --alert @binary
for i in $(seq 65); do echo 'cpu.busy_ns > 1s'; done >many
refuse "65 rules" "64 rules already" --alert @many
refuse "a command that is not there" "No such file" --alert 'cpu.busy_ns > 1s' --on-alert /nowhere/x
refuse "a command that cannot be run" "Permission denied" --alert 'cpu.busy_ns > 1s' --on-alert ./rules
refuse "a quote that is not closed" "not closed" --alert 'cpu.busy_ns > 1s' --on-alert "echo 'a"
refuse "a command without a rule" "nothing to run it for" --on-alert true
[ "$(id -u)" = 0 ] || { echo "ok - alerts: a running recorder # SKIP need root"; exit 0; }

# A program that burns CPU for 1 s once it is told to, and then sleeps.
cat >burner <<'END'
import os, time
open("ready", "w").close()
while not os.path.exists("go"): time.sleep(0.02)
end = time.monotonic() + 1
while time.monotonic() < end: pass
time.sleep(20)
END
# Its own arguments and what it was told, in one line each.
cat >note <<'END'
#!/bin/sh
echo $$ >>pids
{ for a in "$@"; do printf '[%s]' "$a"; done
echo "|$JANKSCOPE_METRIC|$JANKSCOPE_SUBJECT|$JANKSCOPE_PID|$JANKSCOPE_ALERT"; } >>noted
exit 3
END
chmod 755 note
python3 burner & burner=$!; echo $burner >>pids
# `python3` may be a script that takes a while to find Python, with CPU time and a name of its own.
for _ in $(seq 500); do [ -e ready ] && break; sleep 0.02; done
"$js" record -q -p $burner -i 100ms -d 3s --block 10s -o run.jsonl --max-lost 100 \
	--alert 'cpu.processes.cpu_ns > 5% for 200ms clear 0.5% cooldown 0s' \
	--alert 'net.uids.rx_bytes > 1G' --on-alert './note "two words" $HOME *' 2>err & recorder=$!
for _ in $(seq 500); do grep -qs '"interval"' run.jsonl && break; sleep 0.02; done
touch go
wait $recorder; code=$?
cat >check.py <<'END'
import json, sys
pid = int(sys.argv[1])
events, footer, ends = [], None, {}
for line in open("run.jsonl"):
    r = json.loads(line)
    if r["type"] == "event" and r["event"] == "alert": events.append(r)
    if r["type"] == "footer": footer = r
    if r["type"] == "interval":
        for p in r.get("cpu", {}).get("processes", []):
            if p["pid"] == pid: ends[r["t_boot_ns"]] = 100.0 * p["cpu_ns"] / r["dur_ns"]
bad = []
states = [e["state"] for e in events]
if states[:1] != ["fired"] or states != ["fired", "cleared"] * (len(states) // 2): bad.append(f"states {states}")
if len(states) > 4: bad.append(f"{len(states)} alerts")
for e in events:
    if e["pid"] != pid or e["metric"] != "cpu.processes.cpu_ns": bad.append(f"of {e}")
    if e["state"] == "fired":
        if not e["value"] > 5 or e["held_ns"] < 200e6: bad.append(f"fired at {e['value']} after {e['held_ns']}")
        # Every record in that time was above: nothing is told of a moment that was not measured.
        span = [v for t, v in ends.items() if e["t_boot_ns"] - e["held_ns"] - 2e6 <= t <= e["t_boot_ns"]]
        if len(span) < 2 or min(span) <= 5: bad.append(f"in {span}")
s = footer["summary"]["alerts"]
if s["fired"] != states.count("fired") or s["cleared"] != states.count("cleared"): bad.append(f"summary {s}")
if s["commands"]["started"] + s["commands"].get("unanswered", 0) != s["fired"] or s["commands"]["not_run"]: bad.append(f"commands {s}")
if s["commands"]["failed"] < 1: bad.append(f"the command that failed is not counted: {s}")
print("\n".join(bad)); sys.exit(bool(bad))
END
python3 check.py $burner >checked; bad=$?
[ $code = 0 ] || bad=1
say $bad "a burner fires and is over, in events and the summary" checked err
bad=0
grep -q "^jankscope: alert: .*(pid $burner): cpu.processes.cpu_ns is .* % (cpu.processes.cpu_ns > 5% for 200ms clear 0.5% cooldown 0s)$" err || bad=1
grep -q "^jankscope: alert is over: " err || bad=1
grep -q "^jankscope: warn: --on-alert: [1-9][0-9]* failed" err || bad=1
say $bad "lines on stderr, and the command that failed" err
[[ $(head -1 noted) == "[two words][\$HOME][*]|cpu.processes.cpu_ns|"*"python3 (pid $burner)|$burner|cpu.processes.cpu_ns > 5% for 200ms clear 0.5% cooldown 0s" ]]
say $? "the command: its words are not expanded, its environment says which" noted err
kill $burner; wait $burner 2>/dev/null

# Commands that hang: four at a time, the others are counted, and the run ends in time.
cat >hang <<'END'
#!/bin/sh
trap '' TERM INT HUP
echo $$ >>pids
echo $$ >>hung
while :; do sleep 100; done
END
chmod 755 hang
start=$(date +%s%N)
"$js" record -q -i 100ms -d 1500ms -o hang.jsonl --max-lost 100 --on-alert ./hang \
	--alert 'cpu.uids.cpu_ns >= 0ns' --alert 'cpu.busy_ns >= 0ns' --alert 'self.cpu_ns >= 0ns' \
	--alert 'cpu.idle_ns >= 0ns' --alert 'dur_ns > 1ns' --alert 'cpu.online_ns > 1ns' 2>err & recorder=$!
sleep 1.2
# All that the recorder and its helpers have below them, and who of them is a zombie.
zombies=$(ps -eo pid=,ppid=,stat=,comm= | awk -v top=$recorder '{p[$1]=$2; s[$1]=$3; c[$1]=$4}
	END {for (i in p) {for (j = i; j && j != top; j = p[j]); if (j == top && s[i] ~ /Z/) print i, c[i]}}')
wait $recorder; code=$?
ms=$((($(date +%s%N) - start) / 1000000))
bad=0
[ $code = 0 ] && [ "$(sort -u hung | wc -l)" = 4 ] && [ -z "$zombies" ] && [ $ms -lt 6000 ] || bad=1
tail -1 hang.jsonl | python3 -c '
import json, sys
c = json.loads(sys.stdin.read())["summary"]["alerts"]
k = c["commands"]
ok = k["started"] == 4 and k["not_run"] + k.get("unanswered", 0) == c["fired"] - 4 and c["fired"] >= 6
print(c); sys.exit(not ok)' >checked || bad=1
echo "exit $code, $ms ms, zombies: $zombies" >>checked
say $bad "commands that hang: 4 run, the others are counted, the run ends" checked err
end_all

# What a command leaves behind is reaped, and one that runs as a daemon is not waited for.
cat >leave <<'END'
#!/bin/sh
(sleep 0.2 &) ; (sleep 0.3 &)
exit 0
END
chmod 755 leave
"$js" record -q -i 100ms -d 1200ms -o leave.jsonl --max-lost 100 --on-alert ./leave --alert 'dur_ns > 1ns' 2>err & recorder=$!
sleep 1
zombies=$(ps -eo pid=,ppid=,stat=,comm= | awk -v top=$recorder '{p[$1]=$2; s[$1]=$3; c[$1]=$4}
	END {for (i in p) {for (j = i; j && j != top; j = p[j]); if (j == top && s[i] ~ /Z/) print i, c[i]}}')
wait $recorder; code=$?
echo "exit $code zombies $zombies" >checked
[ $code = 0 ] && [ -z "$zombies" ]; say $? "no zombie of what a command left behind" checked err

# A rule whose source is not there is said at the start.
"$js" record -q -n 2 -i 100ms --net off -o off.jsonl --alert 'net.uids.rx_bytes > 1G' 2>err; code=$?
[ $code = 0 ] && grep -q "never fires, the source is absent: it was not asked for" err &&
	! grep -q '"alert"' off.jsonl; say $? "a source that is absent is said" err
exit 0
