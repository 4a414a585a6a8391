# The image's own adbd over TCP. The host's part (tests/android/adb.sh) connects Debian's adb client,
# runs tests/device/run.sh, goes away in the middle of recordings, and says when it is done. Both talk
# by files of the folder that both see.
at=/data/local/tmp
recordings="cut_disconnect cut_killed cut_raw cut_nohup cut_pipe"
ended() { # NAME: the recorder is gone, and its recording has its footer
	local i=0
	while grep -qs "$1.jsonl" /proc/[0-9]*/cmdline && [ $i -lt 120 ]; do i=$((i + 1)); sleep 0.1; done
	! grep -qs "$1.jsonl" /proc/[0-9]*/cmdline
	ok $? "adbd: $1: the recorder has ended"
	echo $1 >>/tmp/recorded
	cp $at/$1.jsonl $out/ 2>/dev/null
	tail -n 1 $at/$1.jsonl 2>/dev/null | grep -q '"type":"footer"'
	ok $? "adbd: $1: the recording ends with its footer" "$(tail -n 1 $at/$1.jsonl 2>/dev/null | cut -c1-80)"
	$at/jankscope-cut report $at/$1.jsonl >/tmp/report.txt 2>&1
	ok $? "adbd: $1: report reads it" "$(tail -n 1 /tmp/report.txt)"
}
if [ ! -x /system/bin/adbd ]; then
	skip "adbd" "the image has no /system/bin/adbd"
elif [ ! -s $out/adb/key.pub ]; then
	ok 1 "adbd: the host has an adb client with a key"
else
	[ ! -f /guest/adbd.txt ] || note "$(cat /guest/adbd.txt)"
	ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up
	ok $? "adbd: the guest has a network"
	cp $out/adb/key.pub /adb_keys && chmod 644 /adb_keys
	cp /guest/jankscope $at/jankscope-cut && chmod 755 $at/jankscope-cut
	setprop service.adb.tcp.port 5555
	start adbd
	running adbd >/dev/null
	ok $? "adbd: runs" "$(getprop init.svc.adbd)"
	: >$out/adb/ready
	end=$(($(now | cut -d. -f1) + 300))
	while [ ! -e $out/adb/done ] && [ "$(now | cut -d. -f1)" -lt $end ]; do sleep 0.2; done
	[ -e $out/adb/done ]
	ok $? "adbd: the host came to its end"
	for name in $recordings; do ended $name; done
	stop adbd
	ip link set eth0 down
	setprop service.adb.root 0
	rm -f /adb_keys $at/jankscope-cut
	for name in $recordings; do rm -f $at/$name.jsonl; done
	# run.sh takes away what it has pushed.
	cp /guest/jankscope $js
	chmod 755 $js
	chcon u:object_r:shell_data_file:s0 $js 2>/dev/null
fi
