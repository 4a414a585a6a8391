# SELinux enforcing, as on a device: the session is u:r:su:s0, which userdebug policies make permissive.
# What is denied is told; what works must be the same.
denials() { # those of jankscope since line $1 of the log, by permission
	dmesg | tail -n +$(($1 + 1)) | grep 'avc: *denied' | grep 'comm="jank' |
		sed 's/.*denied *{ \([^}]*\) }.*scontext=\([^ ]*\) tcontext=\([^ ]*\) tclass=\([^ ]*\) permissive=\(.\).*/\4 {\1} of \3 by \2, permissive=\5/' |
		sort | uniq -c
}
if [ -e /sys/fs/selinux/enforce ] && [ -s /guest/policy ]; then
	# Every denial is told, not a few a second.
	echo 0 >/proc/sys/kernel/printk_ratelimit
	dmesg -c >/dev/null
	manager=$(pidof servicemanager)
	echo 1 >/sys/fs/selinux/enforce
	[ "$(cat /sys/fs/selinux/enforce)" = 1 ]
	ok $? "enforcing: the kernel enforces"
	$js doctor >/tmp/enforcing.txt 2>&1
	ok $? "enforcing: doctor ends with 0" "$(tail -1 /tmp/enforcing.txt)"
	strip() { sed -n 's/^  \(ok\|no\)  *\([^ ]*\).*/\1 \2/p' "$1"; }
	strip /tmp/enforcing.txt >/tmp/e
	echo 0 >/sys/fs/selinux/enforce
	$js doctor >/tmp/permissive.txt 2>&1
	strip /tmp/permissive.txt >/tmp/p
	cmp -s /tmp/p /tmp/e
	ok $? "enforcing: doctor has the rows that it has permissive" "$(diff /tmp/p /tmp/e | head -3)"
	echo 1 >/sys/fs/selinux/enforce
	target="-p servicemanager --block 1ms"
	[ -x /system/bin/service ] || target="-p 1 --block 5ms"
	while :; do
		if [ -x /system/bin/service ]; then
			service list
		else
			for i in 1 2 3 4 5 6 7 8 9 10; do setprop debug.jankscope.$i x; done
			stop $restarted
			start $restarted
		fi >/dev/null 2>&1
	done &
	traffic=$!
	record enforcing $target -d 10s -i 2s
	ok $? "enforcing: record ends with 0" "$(tail -1 /tmp/enforcing.err)"
	kill $traffic
	wait $traffic 2>/dev/null
	[ "$(pidof servicemanager)" = "$manager" ]
	ok $? "enforcing: servicemanager lives on"
	# Root in another domain, as a shell that did not become su.
	if [ -x /system/bin/runcon ]; then
		# A domain keeps only descriptors of files that it may write.
		: >/data/local/tmp/shell.txt
		chcon u:object_r:shell_data_file:s0 /data/local/tmp/shell.txt
		# runcon enters a domain by a file that the domain begins with.
		cp $js /data/local/tmp/entry
		chcon u:object_r:shell_exec:s0 /data/local/tmp/entry
		timeout 60 /system/bin/runcon u:r:shell:s0 /data/local/tmp/entry doctor >/data/local/tmp/shell.txt 2>&1
		rc=$?
		note "doctor as root in u:r:shell:s0: exit $rc, $(tail -1 /data/local/tmp/shell.txt)"
		sed -n 's/^  no  */# shell: no /p' /data/local/tmp/shell.txt
		[ $rc -lt 124 ]
		ok $? "enforcing: doctor in u:r:shell:s0 ends by itself" "exit $rc"
		grep -q '^  no   selinux  *u:r:shell:s0, enforcing' /data/local/tmp/shell.txt &&
			! grep -q 'needs Linux\|the kernel has none\|needs CONFIG' /data/local/tmp/shell.txt
		ok $? "enforcing: doctor in u:r:shell:s0 says that SELinux refuses, and no word of the kernel" \
			"$(grep -m1 'needs\|selinux' /data/local/tmp/shell.txt)"
	fi
	echo 0 >/sys/fs/selinux/enforce
	# While the kernel enforces, nobody makes files in a 9p folder: they have no label.
	cp /tmp/enforcing.txt /tmp/enforcing.jsonl $out/
	[ ! -f /data/local/tmp/shell.txt ] || cp /data/local/tmp/shell.txt $out/doctor_shell.txt
	denials 0 >/tmp/denials
	cp /tmp/denials $out/denials.txt
	sed 's/^ */# denied: /' /tmp/denials
	# What su is denied is only told; a helper in another domain would be held up.
	! grep 'by u:r:su:s0' /tmp/denials | grep -q 'permissive=0'
	ok $? "enforcing: nothing is held up" "$(grep -m1 permissive=0 /tmp/denials)"
	dmesg | grep 'avc: *denied' | grep -v 'comm="jank' | grep -o 'comm="[^"]*"' | sort | uniq -c | sort -rn | head -5 | sed 's/^/# others denied: /'
else
	skip "enforcing" "the image has no policy"
fi
