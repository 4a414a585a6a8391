#!/usr/bin/env bash
# report --csv: every figure of a real recording and of made-up ones is in the table, once, under its
# key path, as Python's csv module reads it; names cannot be formulas; no half file. Prints TAP.
# Runs beside others (5 s)
set -u
js=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
say() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; [ -f "${3:-}" ] && sed 's/^/# /' "$3" | head -20; fi; }
cp "$here/../unit/golden/full.jsonl" full.jsonl
ln -s "$(command -v sleep)" '=cmd|calc'
if [ "$(id -u)" = 0 ]; then
	while [ ! -e recorded ]; do "./=cmd|calc" 0.1; done & # a busy machine takes seconds to begin
	"$js" record -q -i 500ms -d 2s --max-lost 100 -o real.jsonl 2>err; code=$?
	touch recorded; wait
	[ $code = 0 ]; say $? "a run is recorded" err
else
	echo "ok - a run is recorded # SKIP needs root"
fi
for file in *.jsonl; do
	"$js" report "$file" --csv "$file.csv" >out 2>err; code=$?
	[ $code = 0 ] && [ ! -s out ]; say $? "$file: a table and no summary" err
	python3 - "$file" "$file.csv" >bad <<'PYTHON'
import csv, json, sys
rows = list(csv.reader(open(sys.argv[2], newline="", encoding="utf-8")))
head, rows = rows[0], rows[1:]
assert all(len(row) == len(head) == 14 for row in rows), "rows of another length"
assert not [cell for row in rows for cell in row if cell and cell.strip()[0] in "=+@|%"], "a formula"
assert not [cell for row in rows for cell in row if any(ord(c) < 32 for c in cell)], "control characters"
have = {}
UNITS = {"ns", "bytes", "pct", "ua", "uv", "mc", "uah", "uj", "khz"}
for row in rows:
    row = dict(zip(head, row))
    end = row["metric"].rsplit("_", 1)[-1]
    number = row["value"].lstrip("-").replace(".", "", 1).isdigit()
    assert not number or end not in UNITS or row["unit"] == end, row
    have.setdefault((int(row["seq"]), row["metric"]), []).append(row["value"])
WHO = {"pid", "tid", "uid", "package", "process", "thread"}
SKIPPED = {"stacks", "chain", "owner_stack", "stack"}
want = {}
def walk(seq, path, value):
    if isinstance(value, dict):
        for key, below in value.items():
            if path == ["summary", "scenes"]:
                walk(seq, path, below)
                continue
            if key not in SKIPPED and not (key in WHO and not isinstance(below, dict) and "missing" not in path and want_who):
                walk(seq, path + [key], below)
    elif isinstance(value, list):
        for below in value:
            if isinstance(below, list):
                walk(seq, path + [f"{below[0]}..{below[1]}"], below[2])
            else:
                walk(seq, path, below)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        want.setdefault((seq, ".".join(path)), []).append(value)
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    if record["type"] == "stack":
        continue
    want_who = record["type"] != "event"
    for key in ("type", "seq", "t_boot_ns", "crc"):
        record.pop(key, None)
    walk(json.loads(line)["seq"], [], record)
number = lambda text: float(text) if "." in text or "e" in text else int(text)
wrong = 0
for key, values in want.items():
    got = have.get(key, [])
    if sorted(values) != sorted(number(text) for text in got):
        wrong += 1
        print(key, values[:4], got[:4])
print(f"{len(want)} metrics of records, {sum(map(len, want.values()))} values, {wrong} wrong", file=sys.stderr)
assert len(want) > 100
sys.exit(wrong > 0)
PYTHON
	say $? "$file: each figure of the records, and no other" bad
done 2>&1 | tee all | grep -v '^[0-9]* metrics'
grep '^[0-9]* metrics' all | sed 's/^/# /'
if [ -f real.jsonl.csv ]; then
	grep -q ",\"'=cmd|calc\"," real.jsonl.csv; say $? "a name that is a formula is defused"
fi
"$js" report full.jsonl --csv /dev/full 2>err; code=$?
[ $code = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -q '/dev/full: No space left' err; say $? "a full disk: exit 1 and one line ($code)" err
echo old >kept.csv
(ulimit -f 1; trap '' XFSZ; "$js" report full.jsonl --csv kept.csv 2>err); code=$?
[ $code = 1 ] && [ "$(cat kept.csv)" = old ] && [ "$(ls kept.csv* | wc -l)" = 1 ]; say $? "a file that cannot be written whole leaves the old one ($code)" err
"$js" report full.jsonl --csv - 2>err | head -1 >head; code=${PIPESTATUS[0]}
[ $code = 0 ] && grep -q '^record,seq,' head; say $? "a reader that goes away ends it ($code)" err
"$js" report full.jsonl --csv /nowhere/x.csv 2>err; code=$?
[ $code = 1 ] && grep -q -- '--csv /nowhere/x.csv' err; say $? "a folder that is not there is named" err
head -c 3000 full.jsonl >torn.jsonl
"$js" report torn.jsonl --csv torn.csv 2>err; code=$?
[ $code = 3 ] && [ -s torn.csv ]; say $? "a torn recording: what is whole, and exit 3 ($code)" err
