#!/usr/bin/env bash
# Rows of events that no phone should write: what trace_processor v55.3 makes of the same file.
# Runs beside others (6 s)
set -u
jankscope=$BUILD/jankscope here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 - "$work" <<'PYTHON'
import sys
from make_traces import field, packet
work = sys.argv[1]
def surface(ts, cookie, *fields, outer=()):
    return packet(*outer, field(8, ts), field(76, field(4, field(1, cookie) + field(2, cookie) + field(3, 50) + b''.join(fields))))
def display(ts, cookie, token, pid):
    return packet(field(8, ts), field(76, field(2, field(1, cookie) + field(2, token) + field(3, pid))))
def end(ts, cookie, outer=()):
    return packet(*outer, field(8, ts), field(76, field(5, field(1, cookie))))
sequence, cleared, needs = field(10, 7), field(13, 1), field(13, 2)
open(work + '/odd.pb', 'wb').write(
    # names: none, empty, not UTF-8, cut inside a character, control bytes
    surface(100, 1, field(4, 10)) + surface(101, 2, field(4, 10), field(5, b'')) +
    surface(102, 3, field(4, 10), field(5, b'a\xff\xfe#1')) + surface(103, 4, field(4, 10), field(5, b'\xe4\xbd\xa0\xe5\xa5')) +
    surface(104, 5, field(4, 10), field(5, b'\xed\xa0\x80')) +
    # a process id and tokens at the ends of what a number can be
    display(110, 11, -1, -1) + display(111, 12, (1 << 63) - 1, 0) +
    # what builds on packets of its writer that are not there is left out
    surface(120, 21, field(4, 10), field(5, b'lost'), outer=(sequence, needs)) +
    surface(121, 22, field(4, 10), field(5, b'begins'), outer=(sequence, cleared)) +
    surface(122, 23, field(4, 10), field(5, b'goes on'), outer=(sequence, needs)) +
    surface(123, 24, field(4, 10), field(5, b'needs nothing'), outer=(sequence, field(42, 1))) +
    surface(124, 25, field(4, 10), field(5, b'lost'), outer=(sequence, needs)) +
    b''.join(end(200 + c, c) for c in (1, 2, 3, 4, 5, 11, 12, 21, 22, 23, 24, 25)))
# more rows than wait to be sorted; whose they are stands at the very end
def process(pid, name):
    return field(1, field(1, pid) + field(3, name))
with open(work + '/late_names.pb', 'wb') as f:
    for i in range(1, 60001):
        f.write(surface(i * 1000, i, field(4, 10 + i % 2), field(5, b'Layer')) + end(i * 1000 + 500, i))
    f.write(packet(field(2, process(10, b'com.example.even') + process(11, b'com.example.odd'))))
PYTHON
cut -f1-3,5-7 >"$work/want" <<'ROWS'
100	101	10	NULL	50	1	NULL
101	101	10	NULL	50	2	
102	101	10	NULL	50	3	a��#1
103	101	10	NULL	50	4	你�
104	101	10	NULL	50	5	���
110	101	4294967295	NULL	-1	NULL	NULL
111	101	0	NULL	9223372036854775807	NULL	NULL
121	101	10	NULL	50	22	begins
122	101	10	NULL	50	23	goes on
123	101	10	NULL	50	24	needs nothing
ROWS
"$jankscope" frames --rows "$work/odd.pb" 2>"$work/talk" | sed 1d | cut -f1-3,5-7 >"$work/rows"
if diff "$work/want" "$work/rows" >"$work/diff"; then
	echo "ok - names, numbers and lost packets: $(wc -l <"$work/rows") rows as trace_processor's"
else
	echo "not ok - rows differ"; sed 's/^/# /' "$work/diff"
fi
got=$("$jankscope" frames --json --rows "$work/odd.pb" 2>/dev/null | jq -c '[.frames[0:3][].layer, .frames[5].pid]')
[ "$got" = '[null,"","a��#1",4294967295]' ] && echo "ok - the same as JSON" || echo "not ok - as JSON: $got"

got=$("$jankscope" frames --rows --package com.example.odd "$work/late_names.pb" 2>/dev/null | sed 1d | cut -f3,4 | sort | uniq -c | xargs)
[ "$got" = "30000 11 com.example.odd" ] && echo "ok - --package: by names that come after the rows" ||
	echo "not ok - --package, names at the end: $got"
