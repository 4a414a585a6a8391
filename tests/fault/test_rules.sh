#!/usr/bin/env bash
# report --fail-if, --baseline, --junit: each rule against what jq says of the same summary; what cannot
# be judged never passes. Prints TAP.
# Runs beside others (6 s)
set -u
js=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'kill $idle $busy 2>/dev/null; rm -rf "$work"' EXIT
idle= busy=
cd "$work" || exit 1
say() { if [ "$1" = 0 ]; then echo "ok - rules: $2"; else echo "not ok - rules: $2"; [ -f "${3:-}" ] && sed 's/^/# /' "$3" | head -20; fi; }
# CODE NAME FILE RULE [ARGUMENT...]
rule() {
	local wanted=$1 name=$2 file=$3 text=$4 code; shift 4
	"$js" report "$file" --csv /dev/null --fail-if "$text" "$@" >out 2>err; code=$?
	[ $code = "$wanted" ]; say $? "$name: $text: exit $wanted" err
}
cp "$here/../unit/golden/full.jsonl" full.jsonl
summary() { jq -s "[.[] | select(.type == \"footer\")][-1].summary$1" "$2"; }
blocks=$(summary .blocks.count full.jsonl)
rule 10 "a count" full.jsonl "blocks.count >= $blocks"
grep -qx "jankscope: fail: full.jsonl: blocks.count is $blocks, >= $blocks" err; say $? "one line says what it is, and what it may be" err
rule 0 "a count" full.jsonl "blocks.count > $blocks"
rule 0 "a count" full.jsonl "blocks.count < $blocks"
rule 10 "a count" full.jsonl "blocks.count<=$blocks"
rule 10 "all parts are true" full.jsonl "blocks.count >= 0 and intervals >= 0"
rule 0 "one part is not" full.jsonl "blocks.count >= 0 and intervals < 0"
rule 3 "not there" full.jsonl "no.such_metric > 1"
rule 3 "not there, whatever else is true" full.jsonl "blocks.count >= 0 and no.such_metric > 1"
rule 0 "not there, but something else is false" full.jsonl "no.such_metric > 1 and blocks.count < 0"
for bad in "" "blocks.count" "blocks.count >" "blocks.count > x" "blocks.count == 1" "blocks.count > 1 or intervals > 1" \
	"> 1" "blocks.count > base" "blocks.count > nan" "blocks.count > 1s" "cpu.busy_ns > 1M" "blocks.count > 1 and" "cpu.busy_ns > $(printf '%300s' 1)"; do
	"$js" report full.jsonl --fail-if "$bad" >out 2>err; code=$?
	[ $code = 2 ] && [ "$(grep -c . err)" = 1 ] && [ ! -s out ] || { say 1 "a rule that makes no sense is refused: $bad ($code)" err; bad=failed; break; }
done
[ "$bad" = failed ] || say 0 "a rule that makes no sense is refused with 2 and one line"
"$js" report full.jsonl --baseline full.jsonl --fail-if "intervals < 1" >out 2>err; [ $? = 2 ]; say $? "a baseline that no rule names" err
"$js" report full.jsonl --junit x.xml >out 2>err; [ $? = 2 ] && [ ! -e x.xml ]; say $? "--junit without a rule" err
# The same run twice: whatever it has is equal.
rule 0 "itself" full.jsonl "cpu.busy_ns > base" --baseline full.jsonl
rule 10 "itself" full.jsonl "cpu.busy_ns >= base" --baseline full.jsonl
rule 10 "itself" full.jsonl "cpu.busy_ns > base * 0.9" --baseline full.jsonl
rule 0 "itself" full.jsonl "cpu.busy_ns > base + 1ms" --baseline full.jsonl
rule 10 "itself" full.jsonl "cpu.busy_ns > base - 1ms" --baseline full.jsonl
# A footer that is torn off is made anew from the records.
head -n -1 full.jsonl >torn.jsonl
rule 10 "without a footer" torn.jsonl "intervals >= 1"
grep -q "warn: .*footer" err; say $? "without a footer: the damage is told as well" err
rule 3 "without a footer" torn.jsonl "intervals < 1"
"$js" report full.jsonl torn.jsonl --fail-if "intervals < 1" --fail-if 'blocks.count >= 0' --fail-if 'no.such > "&<' >out 2>err
[ $? = 2 ]; say $? "several, one of which makes no sense" err
"$js" report full.jsonl torn.jsonl --fail-if "intervals < 1" --fail-if 'blocks.count >= 0' --fail-if 'no."&<such > 1' --junit j.xml >out 2>err; code=$?
[ $code = 2 ]; say $? "what is no word of a rule" err
"$js" report full.jsonl torn.jsonl --fail-if "intervals < 1" --fail-if 'blocks.count >= 0' --fail-if 'no."&such > 1' --junit j.xml >out 2>err; code=$?
[ $code = 10 ] && python3 - >bad 2>&1 <<'PYTHON'
import xml.etree.ElementTree as tree
suite = tree.parse("j.xml").getroot()[0]
assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "2", "2"), suite.attrib
cases = [(c.get("classname"), c.get("name"), [e.tag for e in c]) for c in suite]
assert cases == [(f, n, t) for f in ("full.jsonl", "torn.jsonl") for n, t in (
    ("intervals < 1", []), ("blocks.count >= 0", ["failure"]), ('no."&such > 1', ["error"]))], cases
PYTHON
say $? "JUnit has each rule of each run once (exit $code)" bad
"$js" report full.jsonl --fail-if "intervals < 1" --junit nowhere/j.xml >out 2>err; [ $? = 1 ]; say $? "a file that cannot be written: exit 1" err
[ "$(id -u)" = 0 ] || { echo "ok - rules: of real runs # SKIP needs root"; exit 0; }
# A farm's two runs: the app idles, and it does not.
sleep 600 & idle=$!
(exec -a sleep bash -c 'while :; do :; done') & busy=$!
"$js" record -q -p $idle -i 500ms -d 1500ms --max-lost 100 -o old.jsonl 2>err; "$js" record -q -p $busy -i 500ms -d 1500ms --max-lost 100 -o new.jsonl 2>err
[ -s old.jsonl ] && [ -s new.jsonl ]; say $? "two runs" err
rule 10 "more CPU" new.jsonl "targets.cpu_ns > base + 100ms" --baseline old.jsonl
rule 0 "less CPU" old.jsonl "targets.cpu_ns > base + 100ms" --baseline new.jsonl
value=$(summary .targets.cpu_ns new.jsonl) base=$(summary .targets.cpu_ns old.jsonl)
"$js" report new.jsonl --csv /dev/null --fail-if "targets.cpu_ns > base + 100ms" --baseline old.jsonl 2>err
grep -qx "jankscope: fail: new.jsonl: targets.cpu_ns is $value, > $((base + 100000000)) (base $base + 100000000)" err; say $? "with the figures of both" err
"$js" report new.jsonl --baseline old.jsonl >out 2>err; code=$?
[ $code = 0 ] && [ ! -s err ] && grep -Eq '^target CPU, % of a core .* \+[0-9].*(worse|too short)' out && grep -q "threads that ran more" out
say $? "and without a rule what differs" out
rule 2 "threads, processes or uids" new.jsonl "top.cpu_ns > 1s"
rule 10 "rows of a list, a distribution's part" new.jsonl "memory.rss_bytes.max > 100K"
rule 2 "a distribution" new.jsonl "memory.rss_bytes > 100K"
rule 0 "a size" new.jsonl "memory.processes.rss_bytes.max > 100G"
# Sums beyond what 64 bits hold.
python3 - "$here" <<'EOF'
import sys
sys.path.insert(0, sys.argv[1])
import made_recording as made
records = [made.header()] + [made.interval(made.BOOT + n * made.SEC, made.rng(), [("com.example.app", 100, 10100, made.SEC)]) for n in (1, 2)]
for record in records[1:]:
    record["cpu"]["busy_ns"] = 2**63 - 1
made.write("huge.jsonl", records)
EOF
rule 10 "a sum beyond 2^63" huge.jsonl "cpu.busy_ns > 2500000h"
rule 10 "a count beside it" huge.jsonl "intervals >= 2"
