#!/usr/bin/env bash
# jankscope mark: scenes of a running recording, from outside, and what the summary has of them.
# Prints TAP.
# Runs beside others (6 s)
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
"$js" mark run "$(printf 'x%.0s' $(seq 600))" 2>err; code=$?; [ $code = 2 ]; say $? "no name of 600 bytes ($code)" err
"$js" mark run --end nobody 2>err; code=$?; [ $code = 2 ] && grep -q 'no scene of that name' err; say $? "only an open one ends ($code)" err
sleep 1.5
"$js" mark run 'a scene' --end 2>err; code=$?; [ $code = 0 ]; say $? "it ends" err
"$js" mark run left 2>err
sleep 0.5
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
whole = {key: sum(scene.get(key, 0) for scene in scenes.values()) for key in ("dur_ns", "intervals")}
print(whole, summary.get("intervals"))
assert whole["intervals"] == summary["intervals"]
PYTHON
say $? "the scenes' intervals are those of the run" bad
