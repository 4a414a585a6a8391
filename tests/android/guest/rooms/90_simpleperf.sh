# The image's own simpleperf and jankscope look at the same traffic.
ask_services() { while :; do service list; service check activity; done; }
set_properties() {
	while :; do
		for i in 1 2 3 4 5 6 7 8 9 10; do setprop debug.jankscope.$i $i; done
		stop $restarted
		start $restarted
	done
}
if [ -x /system/bin/simpleperf ]; then
	[ ! -x /system/bin/service ] || simpleperf_of servicemanager "$(pidof servicemanager)" ask_services servicemanager 1ms
	simpleperf_of init 1 set_properties 1 3ms
else
	skip "simpleperf" "the image has none"
fi
