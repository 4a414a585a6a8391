# Print the init.rc of the guest: the services that are there, each in its own domain where the policy
# has one. All files carry one label (guest/init), so that a service's domain must be said.
domain() { # NAME: its domain in the image's file_contexts, else su
	if grep -qs "u:object_r:$1_exec:s0" /system/etc/selinux/plat_file_contexts; then echo u:r:$1:s0; else echo u:r:su:s0; fi
}
label() { # NAME
	[ -s /guest/policy ] && echo "    seclabel $(domain "$1")"
}
here() { [ -e /system/bin/"$1" ]; }
service() { # NAME USER GROUP [LINE...]; stdin: further lines
	here "$1" || return 0
	printf 'service %s /system/bin/%s\n    user %s\n    group %s\n    disabled\n' "$1" "$1" "$2" "$3"
	label "$1"
	shift 3
	for line; do echo "    $line"; done
}
su=$([ -s /guest/policy ] && echo u:r:su:s0 || echo -)
cat <<EOF
on early-init
    setprop ro.cold_boot_done true
    exec $su root -- /bin/busybox sh /guest/runtime.sh
on late-init
    enter_default_mount_ns
    exec $su root -- /bin/busybox sh /guest/runtime.sh
    mkdir /data/local 0751 root root
    mkdir /data/local/tmp 0771 shell shell
    mkdir /data/misc 01771 system misc
    mkdir /data/misc/perfetto-traces 0773 root shell
    mkdir /data/misc/incidents 0770 incidentd incidentd
    start servicemanager
    start session
service session /bin/busybox sh /guest/session.sh
    user root
    oneshot
    console
EOF
[ -s /guest/policy ] && echo "    seclabel u:r:su:s0"
service servicemanager system 'system readproc'
service logd logd 'logd system readproc' 'socket logd stream 0666 logd logd' \
	'socket logdr seqpacket 0666 logd logd' 'socket logdw dgram+passcred 0222 logd logd' 'file /dev/kmsg w'
service traced nobody nobody 'socket traced_consumer stream 0666 root root' 'socket traced_producer stream 0666 root root'
service traced_probes root 'root readproc log'
service incidentd incidentd 'incidentd log readproc'
# adbd gives its root away by itself, and "adb root" asks for a new one by the property, as in a recovery.
if here adbd; then
	echo "service adbd /system/bin/adbd$([ -s /guest/policy ] && echo ' --root_seclabel=u:r:su:s0')"
	printf '    user root\n    disabled\n    socket adbd stream 0660 system system\n'
	label adbd
	printf 'on property:service.adb.root=1\n    restart adbd\n'
fi
# A service of the tests' own: init forks it as root, then it becomes uid 1013.
cat <<EOF
service worker /bin/busybox sh /guest/worker.sh
    user media
    group media
    disabled
    oneshot
EOF
[ -s /guest/policy ] && echo "    seclabel u:r:su:s0"
:
