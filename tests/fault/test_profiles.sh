#!/usr/bin/env bash
# report --pprof, --speedscope, --perfetto and --openmetrics: what other programs read in them (go's
# pprof, one from npm, promtool, Prometheus' Python client, Perfetto's trace_processor, protoc) is what the records
# say. Hostile names, full disks, half files. Prints TAP.
# Runs beside others (15 s)
set -u
js=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# Debian's python has Debian's modules.
strict=; for python in python3 /usr/bin/python3; do
	$python -c 'import prometheus_client.openmetrics.parser' 2>/dev/null && strict=$python
done
say() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; [ -f "${3:-}" ] && sed 's/^/# /' "$3" | head -20; fi; }
cp "$here/../unit/golden/full.jsonl" full.jsonl
if [ "$(id -u)" = 0 ]; then
	mkfifo go
	"$BUILD/tests/apps/demo_blocks" 1 truth.json <go >app.out 2>&1 &
	app=$!
	exec 9>go
	"$js" record -q -p $app --block 100ms -i 500ms -d 5s --max-lost 100 -o real.jsonl 2>err & recorder=$!
	sleep 1; echo >&9
	wait $recorder; code=$?
	exec 9>&-; wait $app
	[ $code = 0 ] && grep -q '"type":"block"' real.jsonl; say $? "blocks are recorded" err
else
	echo "ok - blocks are recorded # SKIP needs root"
fi
# Never a dependency of the build: where there is no registry the others read the profile.
mkdir npm; (cd npm && npm_config_cache=$PWD/cache npm pack --loglevel=error pprof-format@2.2.1 && tar xf pprof-format-2.2.1.tgz) >npm.out 2>&1 || rm -rf npm
for file in *.jsonl; do
	"$js" report "$file" --pprof "$file.pb.gz" --speedscope "$file.speedscope" --openmetrics "$file.om" \
		--perfetto "$file.pftrace" --folded "$file.folded" >out 2>err; code=$?
	[ $code = 0 ] && [ ! -s out ]; say $? "$file: four files and no summary" err
	if command -v go >/dev/null && go tool -n pprof >/dev/null 2>&1; then
		PPROF_TMPDIR=$work go tool pprof -symbolize=none -raw "$file.pb.gz" >raw 2>err; code=$?
		say $code "$file: go's pprof reads the profile" err
		python3 "$here/profiles.py" pprof "$file" raw >bad 2>&1; say $? "$file: its samples are those of the records" bad
	else
		for _ in 1 2; do echo "ok - $file: go's pprof # SKIP $(command -v go >/dev/null && echo go has no pprof || echo no go here)"; done
	fi
	if command -v protoc >/dev/null; then
		gunzip -c "$file.pb.gz" | protoc -I "$here/../../user/sink" --decode=pprof.Profile pprof.proto >decoded 2>err && python3 "$here/profiles.py" protoc "$file" decoded >bad 2>&1
		say $? "$file: protoc's sums are those of the records" bad
	else
		echo "ok - $file: protoc # SKIP no protoc here"
	fi
	if [ -d npm/package ]; then
		node "$here/read_profile.mjs" npm/package "$file.pb.gz" >decoded 2>err && python3 "$here/profiles.py" npm "$file" decoded >bad 2>&1
		say $? "$file: a reader from npm has the samples of the records" bad
	else
		echo "ok - $file: a reader from npm # SKIP $(command -v npm >/dev/null && grep -m1 'npm error\|npm ERR' npm.out || echo no npm here)"
	fi
	python3 "$here/profiles.py" speedscope "$file" "$file.speedscope" >bad 2>&1; say $? "$file: speedscope's weights are those of the records" bad
	if command -v protoc >/dev/null; then
		protoc --decode_raw <"$file.pftrace" >decoded && python3 "$here/profiles.py" perfetto "$file" decoded >bad 2>&1
		say $? "$file: sums and slices of the Perfetto trace are those of the records" bad
	else
		echo "ok - $file: the Perfetto trace # SKIP no protoc here"
	fi
	if [ -x "$SHARED/tools/trace-oracle" ] && "$SHARED/tools/trace-oracle" "$file.pftrace" \
		"select 'busy=' || sum(value) from counter join counter_track t on track_id = t.id where name = 'CPU busy'" \
		"select 'bad=' || count(*) from stats where value > 0 and severity in ('error', 'data_loss')" >answer 2>err; then
		grep -qx "busy=$(jq -s '[.[] | select(.type == "interval").cpu.busy_ns] | add' "$file").0" answer && grep -qx bad=0 answer
		say $? "$file: Perfetto's trace_processor has the same sum, and finds no error" answer
	else
		echo "ok - $file: trace_processor # SKIP $([ -x "$SHARED/tools/trace-oracle" ] && echo cannot be had || echo no ../shared)"
	fi
	python3 "$here/profiles.py" openmetrics "$file" "$file.om" >bad 2>&1; say $? "$file: OpenMetrics has the figures of the summary" bad
	if command -v promtool >/dev/null; then
		# The older text format has _total in the names of families, so that promtool misses the
		# HELP of the name that it reads: it may say that, and nothing else.
		promtool check metrics <"$file.om" 2>&1 | grep -vE '^jankscope_[a-z0-9_]+_total (no help text|counter metrics should have|non-counter metrics should not have "_total" suffix)' >bad
		[ ! -s bad ]; say $? "$file: promtool takes them" bad
	else
		echo "ok - $file: promtool # SKIP it is not installed here"
	fi
	if [ -n "$strict" ]; then
		$strict -c 'import sys; from prometheus_client.openmetrics.parser import text_fd_to_metric_families as read
print(sum(len(family.samples) for family in read(open(sys.argv[1], encoding="utf-8"))), "samples")' "$file.om" >bad 2>&1
		say $? "$file: the strict reader of Prometheus' Python client takes them" bad
	else
		echo "ok - $file: the strict reader # SKIP python3-prometheus-client is not installed here"
	fi
done
# A device on which 9,000 threads lived: each has its track, and nothing is left out.
PYTHONPATH=$here python3 -c '
import made_recording as made
rng, records = made.rng(), [made.header()]
for n in range(1, 301):
    records.append(made.interval(made.BOOT + n * made.SEC, rng, [(f"app{n}.{k}", 10 * n * 15 + 10 * k, 10000 + k, made.SEC // 40) for k in range(15)]))
made.write("many", records)' 2>err && "$js" report many --perfetto many.pftrace >out 2>err; code=$?
[ $code = 3 ] && ! grep -q 'too much' err; say $? "9,000 threads fit into a Perfetto trace" err
if command -v protoc >/dev/null; then
	protoc --decode_raw <many.pftrace >decoded && python3 "$here/profiles.py" perfetto many decoded >bad 2>&1; say $? "with the sums of the records" bad
else
	echo "ok - with the sums of the records # SKIP no protoc here"
fi
for kind in pprof speedscope openmetrics perfetto; do
	"$js" report full.jsonl --$kind /dev/full >out 2>err; code=$?
	[ $code = 1 ] && grep -q "^jankscope: error: --$kind /dev/full: No space" err && [ "$(wc -l <err)" = 1 ]
	say $? "$kind: a full disk is told in one line, exit 1" err
	"$js" report full.jsonl --$kind no/such/folder >out 2>err; code=$?
	[ $code = 1 ] && [ "$(wc -l <err)" = 1 ]; say $? "$kind: a folder that is not there, exit 1" err
	echo before >kept
	head -c 100 full.jsonl >torn.jsonl
	"$js" report torn.jsonl --$kind kept >out 2>err; code=$?
	[ $code != 0 ] && [ "$(cat kept)" = before ] && [ "$(ls -d kept.* 2>/dev/null)" = "" ]
	say $? "$kind: a file that is no recording leaves the old one as it was" err
	"$js" report full.jsonl --$kind - >out 2>err; code=$?
	[ $code = 0 ] && [ -s out ]; say $? "$kind: - is stdout" err
done
