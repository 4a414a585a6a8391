# Android's init itself (an Epoll of its own): properties that are set, services that are stopped and
# started.
traffic() {
	local i
	while :; do
		for i in 1 2 3 4 5 6 7 8 9 10; do setprop debug.jankscope.$i $i; done
		stop $restarted
		start $restarted
	done
}
traffic >/dev/null 2>&1 &
traffic=$!
record init -p 1 --block 20ms -d 6s -i 2s
ok $? "init: record ends with 0" "$(tail -1 /tmp/init.err)"
kill $traffic
wait $traffic 2>/dev/null
start $restarted
