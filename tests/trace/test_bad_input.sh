#!/usr/bin/env bash
# What is no trace, damaged, cut short or made to hurt: a clear line, the right exit code, bounded
# memory, and everything readable before the damage.
# Runs beside others (30 s)
set -u
jankscope=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

python3 "$here/make_traces.py" "$work/made" || { echo "not ok - make_traces.py"; exit 1; }

check() { # name wanted-status wanted-text file [flags]: run and compare
	local name=$1 status=$2 text=$3 file=$4; shift 4
	timeout 120 "$jankscope" frames "$@" "$file" >"$work/out" 2>"$work/talk"
	local got=$?
	if [ "$got" != "$status" ]; then
		echo "not ok - $name: exit status $got, not $status"; sed 's/^/# /' "$work/talk" | head -3
	elif [ -n "$text" ] && ! grep -qE "$text" "$work/talk"; then
		echo "not ok - $name: no line like: $text"; sed 's/^/# /' "$work/talk" | head -3
	else
		echo "ok - $name: exit $got, $(head -1 "$work/talk" | sed 's|'"$work"'/||;s/^$/quietly/')"
	fi
}

: >"$work/empty"
check "empty" 1 'error: .*empty' "$work/empty"
check "not there" 1 'error: .*No such file' "$work/nothing"
head -c 100000 /dev/zero >"$work/zeros"
check "only zeros" 1 'error: .*unknown content at byte 0' "$work/zeros"
head -c 100000 /dev/urandom | tr '\012\037\050\120' '\377' >"$work/noise"
check "noise" 1 'error: .*not a trace' "$work/noise"
echo "hello world" >"$work/prose"
check "prose" 1 'error: .*no line of it is of a trace' "$work/prose"
echo "<html><body>hello</body></html>" >"$work/page"
check "a web page" 1 'error: .*without a systrace' "$work/page"
# 1 GiB of zeros in 1 MB
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - "$work" <<'PYTHON'
import gzip, struct, sys, zlib
from make_traces import field, packet, varint
work = sys.argv[1]
with gzip.open(work + '/zeros.gz', 'wb', 9) as f:
    for _ in range(1024):
        f.write(bytes(1 << 20))
def timeline(ts, kind, *fields, clock=None):
    return packet(field(8, ts), *([field(58, clock)] if clock else []), field(76, field(kind, b''.join(fields))))
def surface(ts, cookie, token, layer, pid=10):
    return timeline(ts, 4, field(1, cookie), field(2, token), field(3, token), field(4, pid), field(5, layer))
def end(ts, cookie):
    return timeline(ts, 5, field(1, cookie))
open(work + '/zeros_in_packet.pb', 'wb').write(
    surface(1000, 1, 1, b'L') + end(2000, 1) +
    packet(field(50, zlib.compress(bytes(1 << 28), 9))) + surface(3000, 2, 2, b'L') + end(4000, 2))
with open(work + '/layers.pb', 'wb') as f:
    for i in range(1000000):
        f.write(surface(1000 + i, i, i, b'TX - layer with a name of its own #%d' % i) + end(2000 + i, i))
open(work + '/negative.pb', 'wb').write(
    surface(-1 & (1 << 64) - 1, 1, 1, b'L') + surface((1 << 63) - 5, 2, 2, b'L') + surface(1000, 3, 3, b'L') + end(2000, 3))
open(work + '/clock.pb', 'wb').write(
    timeline(1000, 4, field(1, 1), field(2, 1), field(3, 1), field(4, 10), field(5, b'L'), clock=77) + surface(1000, 3, 3, b'L') + end(2000, 3))
good = surface(1000, 1, 1, b'L') + end(2000, 1)
marker = packet(field(36, bytes.fromhex('82477a76b28d42ba81dc33326d57a079')))
open(work + '/damaged.pb', 'wb').write(good + b'\x07' * 500 + marker + surface(3000, 2, 2, b'L') + end(4000, 2))
# one column each, however the layer is called; the last is cut to the table's width
hostile = b'TX - \x1b]0;owned\x07\x9b31m\xc2\x9b31m\ta\nb\r' + '\u00e9'.encode() * 60
open(work + '/hostile_name.pb', 'wb').write(surface(1000, 1, 1, hostile) + end(2000, 1))
inner = good
for _ in range(6):
    inner = packet(field(50, zlib.compress(inner)))
open(work + '/nested.pb', 'wb').write(good + inner)
deep = good
for _ in range(8):
    deep = gzip.compress(deep)
open(work + '/deep.gz', 'wb').write(deep)
open(work + '/huge_packet.pb', 'wb').write(good + varint(1 << 3 | 2) + varint(1 << 31) + b'x' * 1000)
PYTHON
check "1 GiB of zeros, gzipped" 1 'error: .*unknown content inside' "$work/zeros.gz"
check "256 MiB of zeros in a compressed packet" 3 'warn: .*packet at byte 33: damaged inside' "$work/zeros_in_packet.pb" --json
[ "$(jq .timeline.actual "$work/out")" = 2 ] && [ "$(jq .lost.damaged_compressed_packets "$work/out")" = 1 ] &&
	echo "ok - the packets around it are read" || echo "not ok - the packets around it are not read"
check "negative times" 3 'warn: .*packet at byte 0: .*possible time' "$work/negative.pb" --json
[ "$(jq -c '[.timeline.actual, .timeline.rejected]' "$work/out")" = "[1,2]" ] &&
	echo "ok - negative times are rejected and counted" || echo "not ok - negative times: $(jq -c .timeline "$work/out")"
check "an unknown clock" 3 'warn: .*packet at byte 0: its clock' "$work/clock.pb" --json
[ "$(jq -c '[.timeline.actual, .lost.unknown_clock]' "$work/out")" = "[1,1]" ] &&
	echo "ok - an event of an unknown clock is counted" || echo "not ok - unknown clock: $(jq -c .lost "$work/out")"
check "damage in the middle" 3 'warn: .*damaged at byte 33' "$work/damaged.pb" --json
[ "$(jq .timeline.actual "$work/out")" = 2 ] && echo "ok - reading goes on behind the next marker" ||
	echo "not ok - behind the damage: $(jq -c .timeline "$work/out")"
check "packets in packets in packets" 3 'warn: .*packet at byte 33: nested too deep' "$work/nested.pb" --json
[ "$(jq .lost.packets_nested_too_deep "$work/out")" = 1 ] && echo "ok - nesting has an end" || echo "not ok - nesting: $(jq -c .lost "$work/out")"
check "gzip in gzip in gzip" 1 'error: .*wrapped more than' "$work/deep.gz"
check "a packet of 2 GiB that is not there" 3 'warn: .*cut short' "$work/huge_packet.pb" --json
[ "$(jq .timeline.actual "$work/out")" = 1 ] && echo "ok - what stands before it is read" || echo "not ok - before the huge packet"

check "a layer's name drives no terminal" 0 '' "$work/hostile_name.pb"
LC_ALL=C grep -qaP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|(?<!\xc2|\xc3)\x9b' "$work/out" || ! iconv -f UTF-8 -t UTF-8 <"$work/out" >/dev/null 2>&1 &&
	echo "not ok - a layer's name in the table: $(cat -v "$work/out" | grep -a owned | head -1)" || echo "ok - a layer's name in the table: no control byte, whole characters"
check "a layer's name breaks no row" 0 '' "$work/hostile_name.pb" --rows
[ "$(wc -l <"$work/out")" = 2 ] && [ "$(awk -F'\t' '{print NF}' "$work/out" | sort -u)" = 14 ] &&
	echo "ok - a layer's name in rows: one line of 14 columns" || echo "not ok - a layer's name in rows: $(cat -A "$work/out" | tail -2)"
odd=$work/$(printf 'odd\033[31m\n"\303.pb'); cp "$work/made/small.pb" "$odd"
check "a file's name" 0 '' "$odd"
[ "$(sed -n 1p "$work/out" | tr -d ' -~')" = "" ] && [ "$(sed -n 2p "$work/out" | cut -c1-7)" = refresh ] &&
	echo "ok - a file's name in the table: one line, no control byte" || echo "not ok - a file's name in the table: $(head -2 "$work/out" | cat -A)"
check "a file's name in JSON" 0 '' "$odd" --json
jq -e .trace "$work/out" >/dev/null && echo "ok - a file's name in JSON: valid" || echo "not ok - a file's name in JSON"
check "a layer's name in JSON" 0 '' "$work/hostile_name.pb" --json
jq -e '.layers[0].layer' "$work/out" >/dev/null && echo "ok - a layer's name in JSON: it parses" || echo "not ok - a layer's name in JSON"

peak=$(python3 - "$jankscope" "$work" <<'PYTHON'
import resource, subprocess, sys
status = subprocess.run([sys.argv[1], 'frames', '--json', sys.argv[2] + '/layers.pb'], stdout=open(sys.argv[2] + '/out', 'w'), stderr=open(sys.argv[2] + '/talk', 'w')).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, status)
PYTHON
)
# a layer costs memory: 32768 of them are kept. 24 MiB + 40 bytes for each of a million frames
if [ "${peak#* }" = 3 ] && [ "${peak% *}" -le $((24 * 1024 + 40 * 1000000 / 1024)) ] && grep -q 'more than 32768 layers' "$work/talk"; then
	echo "ok - a million layers: exit 3, peak ${peak% *} KiB, $(jq '.layers | length' "$work/out") of them reported"
else
	echo "not ok - a million layers: peak and status $peak: $(head -1 "$work/talk")"
fi

# Cut at every byte: what is whole before the cut is reported, and nothing crashes.
made=("$work"/made/small.{pb,pb.gz,zip} "$work/made/small_packets.pb")
if [ -e "$work/made/small.pb.zst" ]; then
	made+=("$work/made/small.pb.zst")
elif command -v zstd >/dev/null; then
	echo "not ok - zstd is here, but no trace was made with it"
else
	echo "ok - cut inside zstd # SKIP zstd is not installed: $(command -v zstd || echo no program of that name)"
fi
for trace in "${made[@]}"; do
	size=$(stat -c %s "$trace") bad='' last=0 step=3
	[ "$size" -gt 1000 ] && step=7
	for ((cut = 1; cut < size; cut += step)); do
		head -c $cut "$trace" >"$work/cut"
		"$jankscope" frames --rows "$work/cut" >"$work/out" 2>"$work/talk"
		status=$?
		rows=$(wc -l <"$work/out")
		# 4: cut between two packets, before the first frame
		case $status in 0 | 1 | 3 | 4) ;; *) bad="$bad cut $cut: status $status;" ;; esac
		[ "$status" = 0 ] || [ -s "$work/talk" ] || bad="$bad cut $cut: silent;"
		# an end may close a row but never take one away
		[ "$rows" -lt "$last" ] && bad="$bad cut $cut: fewer rows;"
		last=$rows
	done
	# a compressed packet is whole or nothing
	[ "$last" -gt 1 ] || [[ $trace = */small_packets.pb ]] || bad="$bad no row at the last cut;"
	[ -z "$bad" ] && echo "ok - $(basename "$trace") cut at $((size / step)) places" || echo "not ok - $(basename "$trace"): $bad"
done
