# The image's own simpleperf (Android's libunwindstack) and jankscope look at the same traffic, one after
# the other; the host compares the calls in their stacks.
simpleperf_of() { # NAME PID TRAFFIC JANKSCOPE_TARGET BLOCK
	local rc
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
ask_services() { while :; do service list; service check activity; done; }
set_properties() {
	while :; do
		for i in 1 2 3 4 5 6 7 8 9 10; do setprop debug.jankscope.$i $i; done
		stop $restarted
		start $restarted
	done
}
if [ -x /system/bin/simpleperf ]; then
	setprop security.perf_harden 0
	[ ! -x /system/bin/service ] || simpleperf_of servicemanager "$(pidof servicemanager)" ask_services servicemanager 1ms
	simpleperf_of init 1 set_properties 1 3ms
else
	skip "simpleperf" "the image has none"
fi
