#!/usr/bin/env bash
# A recording begins with its header, also where 150 targets are there when it is begun and their main
# threads are looked at before all sources are open: an event of theirs came first once. Prints TAP.
# Runs beside others (4 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - the first line # SKIP needs root"; exit 0; fi
js=$BUILD/jankscope work=$(mktemp -d) name=first$$
sleepers=()
trap 'kill "${sleepers[@]}" 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 150); do (exec -a "$name" sleep 60) & sleepers+=($!); done
"$js" record -q -p "$name" -i 200ms -n 3 -o "$work/o.jsonl" 2>"$work/err"; code=$?
first=$(head -1 "$work/o.jsonl" | jq -r '"\(.type) \(.seq)"')
[ $code = 0 ] && [ "$first" = "header 0" ]
if [ $? = 0 ]; then echo "ok - the first line of a recording of 150 targets is its header"
else echo "not ok - the first line of a recording of 150 targets is its header ($code, $first)"; sed 's/^/# /' "$work/err" | head; fi
# Each target is told, once, behind it.
told=$(jq -r 'select(.event == "target_start") | .pid' "$work/o.jsonl" | sort -u | wc -l)
all=$(jq -r 'select(.event == "target_start") | .pid' "$work/o.jsonl" | wc -l)
if [ "$told" = 150 ] && [ "$all" = 150 ]; then echo "ok - each of them is told once"
else echo "not ok - each of them is told once ($told of 150 in $all events)"; fi
