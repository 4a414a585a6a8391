#!/usr/bin/env bash
# The schema that the program prints, against real recordings, the golden ones and lines that were
# made wrong: by python3-jsonschema, which knows nothing of jankscope. Prints TAP.
# Runs beside others (10 s)
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
js=$BUILD/jankscope
python3 -c 'import jsonschema' 2>/dev/null || { echo "ok - schema # SKIP no python3-jsonschema"; exit 0; }
"$js" record --json-schema >schema.json || { echo "not ok - schema: is printed"; exit 1; }
cp "$here"/../unit/golden/*.jsonl .
if [ "$(id -u)" = 0 ]; then
	(for _ in 1 2 3 4 5 6 7 8; do true | true; sleep 0.1; done) &
	"$js" record -q -i 200ms -n 4 --cpu switch --max-lost 100 -o switch.jsonl
	"$js" record -q -i 200ms -n 3 --cpu iter --max-lost 100 -o iter.jsonl
	"$js" record -q -i 200ms -n 2 -p $$ -p 1 --net off --max-lost 100 -o target.jsonl
	"$BUILD/tests/apps/refuse_syscall" bpf EPERM "$js" record -q -i 200ms -n 2 --max-lost 100 -o degraded.jsonl 2>/dev/null
	wait
else
	echo "ok - schema: real recordings # SKIP need root"
fi
python3 "$here/check_schema.py" schema.json ./*.jsonl
