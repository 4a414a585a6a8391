#!/usr/bin/env bash
# jankscope mark: scenes of a running recording, from outside, and what the summary has of them.
# Prints TAP.
# Runs beside others (14 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - mark # SKIP needs root"; exit 0; fi
js=$BUILD/jankscope work=$(mktemp -d)
cd "$work" || exit 1
trap '[ -n "${recorder:-}" ] && kill -INT "$recorder" 2>/dev/null; rm -rf "$work"' EXIT
say() { if [ "$1" = 0 ]; then echo "ok - mark: $2"; else echo "not ok - mark: $2"; [ -f "${3:-}" ] && sed 's/^/# /' "$3" | head -12; fi; }
"$js" mark 2>err; code=$?; [ $code = 2 ] && [ "$(wc -l <err)" = 1 ]; say $? "without a folder: usage" err
"$js" stop 2>err; code=$?; [ $code = 2 ] && [ "$(wc -l <err)" = 1 ]; say $? "stop without a folder: usage" err
mkdir -m 700 empty
"$js" mark empty a 2>err; code=$?; [ $code = 4 ] && grep -q 'nobody records here' err; say $? "nobody records: exit 4 ($code)" err
"$js" record -q -i 200ms -o run/ 2>record.err & recorder=$!
for _ in $(seq 200); do "$js" status run 2>/dev/null | grep -q '^running' && break; sleep 0.1; done
"$js" mark run 'a scene' 2>err; code=$?; [ $code = 0 ]; say $? "a scene begins" err
"$js" mark run 'a scene' 2>err; code=$?; [ $code = 2 ] && grep -q 'open already' err; say $? "not twice ($code)" err
"$js" mark run $'bad\e[31m' 2>err; code=$?; [ $code = 2 ] && ! grep -q $'\e' err; say $? "no control characters ($code)" err
"$js" mark run $'a\nb' 2>err; code=$?; [ $code = 2 ] && grep -q '1 to 64 bytes' err; say $? "no second line ($code)" err
"$js" mark run "$(printf 'x%.0s' $(seq 600))" 2>err; code=$?; [ $code = 2 ]; say $? "no name of 600 bytes ($code)" err
"$js" mark run --end nobody 2>err; code=$?; [ $code = 2 ] && grep -q 'no scene of that name' err; say $? "only an open one ends ($code)" err
sleep 1.5
"$js" mark run 'a scene' --end 2>err; code=$?; [ $code = 0 ]; say $? "it ends" err
"$js" mark run left 2>err
sleep 0.5
# Two markers at once that want the same scene, and others beside them, as fast as they can.
python3 - >bad <<'PYTHON'
import collections, os, socket, threading
os.chdir("run")
told = collections.Counter()
def ask(text):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect("control")
    s.sendall(text + b"\n")
    got = b""
    while part := s.recv(4096):
        got += part
    return got.split(b"\n")[0]
def marker(k):
    for i in range(40):
        name = b"storm %d.%d" % (k, i) if k else b"same"
        for text in (b"mark " + name, b"mark --end " + name):
            told[ask(text)] += 1
threads = [threading.Thread(target=marker, args=(k,)) for k in (0, 0, 1, 2)]
[t.start() for t in threads]
[t.join() for t in threads]
print(told)
with open("../told", "w") as file:
    file.write(str(told[b"ok"]))
assert sum(told.values()) == 4 * 80 and set(told) <= {b"ok", b"error 2", b"error 114"}, told
PYTHON
say $? "320 marks as fast as they can be" bad
# What was given up because the recorder was stopped is not done later.
kill -STOP "$recorder"
"$js" mark run late 2>err; code=$?; [ $code = 1 ] && grep -q 'timed out' err; say $? "a recorder that is stopped does not answer ($code)" err
kill -CONT "$recorder"
"$js" mark run late --end 2>err; code=$?; [ $code = 2 ] && grep -q 'no scene of that name' err; say $? "and begins no scene that the client was told had failed ($code)" err
"$js" stop run >out 2>err; code=$?; [ $code = 0 ]; say $? "the recording ends ($code)" err
recorder=
{ cat run/*.jsonl 2>/dev/null; zstd -qdc run/*.zst 2>/dev/null; } | grep '"type":"footer"' >footer
python3 - footer >bad <<'PYTHON'
import json, sys
summary = json.load(open(sys.argv[1]))["summary"]
scenes = summary["scenes"]
a = scenes["a scene"]
print({name: scene.get("dur_ns") for name, scene in scenes.items()})
assert a["times"] == 1 and 1.2e9 < a["dur_ns"], a
assert scenes["left"]["open_at_end"] is True
told = int(open("told").read())
storm = sum(scene["times"] for name, scene in scenes.items() if name == "same" or name.startswith("storm"))
assert summary["events"] >= told > 160, (summary["events"], told)
assert sum("storm" in name for name in scenes) == 80 and 2 * storm == told, (storm, told)
whole = {key: sum(scene.get(key, 0) for scene in scenes.values()) for key in ("dur_ns", "intervals")}
print(whole, summary.get("intervals"))
# Scenes overlap in the storm: each interval is in one of them at least.
assert whole["intervals"] >= summary["intervals"]
PYTHON
say $? "each mark is told once, and each interval is in a scene" bad
