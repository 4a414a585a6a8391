# The session that init starts as a service, in u:r:su:s0: run the rooms of the tests, print TAP. ROOMS
# (kernel command line: tests=A,B) chooses; empty: all.
export PATH=/bin:/system/bin HOME=/tmp TMPDIR=/tmp
cd /tmp
failed=0
ok() { # STATUS NAME [DETAIL]
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2${3:+: $3}"; failed=1; fi
	return "$1"
}
skip() { echo "ok - $1 # SKIP $2"; }
note() { echo "# $*"; }
now() { cut -d' ' -f1 /proc/uptime; }
js=/data/local/tmp/jankscope
out=/mnt/host
# record NAME ARGUMENTS...: a recording, whole on the host as NAME.jsonl; what the tool says in NAME.err
record() {
	local name=$1
	shift
	echo $name >>/tmp/recorded
	$js record "$@" -q --max-lost 100 --overwrite -o /tmp/$name.jsonl 2>/tmp/$name.err
	local rc=$?
	cp /tmp/$name.jsonl /tmp/$name.err $out/ 2>/dev/null
	return $rc
}
running() { # SERVICE: its pid, once init has it running
	local i=0
	while [ $i -lt 50 ]; do
		[ "$(getprop init.svc.$1)" = running ] && pidof $1 && return
		i=$((i + 1))
		sleep 0.1
	done
	return 1
}
# The image's own simpleperf (Android's libunwindstack) and jankscope look at the same traffic, one after
# the other; the host compares the calls in their stacks.
simpleperf_of() { # NAME PID TRAFFIC JANKSCOPE_TARGET BLOCK
	local rc
	setprop security.perf_harden 0
	$3 >/dev/null 2>&1 &
	traffic=$!
	timeout 60 simpleperf record -p $2 -e cpu-clock -f 3000 --trace-offcpu --call-graph dwarf,32768 --duration 14 \
		-o /tmp/$1.data >/tmp/$1.log 2>&1
	rc=$?
	record edges_$1 -p $4 --block $5 -d 14s -i 2s
	ok $? "edges $1: record ends with 0" "$(tail -1 /tmp/edges_$1.err)"
	kill $traffic
	wait $traffic 2>/dev/null
	ok $rc "edges $1: simpleperf record ends with 0" "$(tail -2 /tmp/$1.log)"
	timeout 60 simpleperf report-sample --show-callchain -i /tmp/$1.data -o /tmp/$1.samples >/tmp/$1.log 2>&1
	ok $? "edges $1: simpleperf report-sample ends with 0" "$(tail -1 /tmp/$1.log)"
	note "edges $1: $(grep -c '^sample' /tmp/$1.samples) samples of simpleperf, $(stat -c %s /tmp/$1.data) bytes"
	cp /tmp/$1.samples $out/edges_$1.samples
	rm -f /tmp/$1.data
}
# The service that is stopped and started.
restarted=worker
[ ! -x /system/bin/traced ] || restarted=traced
rooms=
for word in $(cat /proc/cmdline); do
	case $word in tests=*) rooms=$(echo "${word#tests=}" | tr , ' ') ;; esac
done
[ -n "$rooms" ] || rooms=$(cd /guest/rooms && ls | sed 's/\.sh$//')
echo
echo "##READY $(now)"
cp /guest/jankscope $js
chmod 755 $js
# As what adb pushes there.
chcon u:object_r:shell_data_file:s0 /data/local/tmp $js 2>/dev/null
dmesg -n 1
for room in $rooms; do
	echo "# room $room: at $(now) s"
	. /guest/rooms/$room.sh
done
dmesg >$out/dmesg.txt
[ ! -f /tmp/recorded ] || cp /tmp/recorded $out/
echo
echo "##RC:$failed uptime $(now)"
sync
/bin/busybox poweroff -f
