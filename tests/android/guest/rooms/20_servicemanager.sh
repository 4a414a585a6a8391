# servicemanager (a Looper of libutils on bionic's epoll) while `service list` asks it over binder.
# What was recorded is judged on the host.
if [ -x /system/bin/service ]; then
	while :; do service list >/dev/null 2>&1; service check activity >/dev/null 2>&1; done &
	traffic=$!
	record servicemanager -p servicemanager --block 1ms -d 6s -i 2s
	ok $? "servicemanager: record ends with 0" "$(tail -1 /tmp/servicemanager.err)"
	kill $traffic
	wait $traffic 2>/dev/null
else
	skip "servicemanager" "the image has no /system/bin/service"
fi
