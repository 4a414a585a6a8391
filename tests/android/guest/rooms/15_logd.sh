# logd, where the image's starts without its apexes: it takes lines, gives them back, and is a target.
if [ -x /system/bin/logd ]; then
	start logd
	running logd >/dev/null
	i=0
	while [ "$(getprop logd.ready)" != true ] && [ $i -lt 50 ]; do i=$((i + 1)); sleep 0.1; done
	if [ "$(getprop logd.ready)" = true ]; then
		log -t jankscope "word-$$"
		sleep 0.5
		timeout 10 logcat -d >/tmp/logcat.txt 2>&1
		grep -q "word-$$" /tmp/logcat.txt
		ok $? "logd: takes a line and gives it back" "$(tail -1 /tmp/logcat.txt)"
		record logd -p logd --block 5ms -d 3s -i 1s
		ok $? "logd: record ends with 0" "$(tail -1 /tmp/logd.err)"
	else
		skip "logd" "it is never ready here: $(getprop init.svc.logd), $(dmesg | grep logd | tail -1)"
	fi
	stop logd
else
	skip "logd" "the image has none"
fi
