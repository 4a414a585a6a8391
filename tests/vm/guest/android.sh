# The layout of an Android device; sourced. Fake apps under their own uids, Android's cgroups and
# cpusets, packages.list, and the commands that tools ask. /system/bin/sh is mksh, as on a device.
android_layout() {
	mkdir -p /data/system /data/local/tmp /system/bin /system/xbin /dev/cpuset /dev/cpuctl
	chown 2000:2000 /data/local/tmp
	chmod 771 /data /data/local /data/local/tmp
	cat >/data/system/packages.list <<-EOF
	com.example.shop 10123 0 /data/user/0/com.example.shop default:targetSdkVersion=33 none
	com.example.shopping 10124 1 /data/user/0/com.example.shopping default none 0 7 1 @null
	com.android.systemui 10098 0 /data/user_de/0/s platform:privapp:targetSdkVersion=33 3002,1065 0 33 1 @system
	com.shared.one 10200 0 /data/user/0/one default none 0 1 0 @system
	com.shared.two 10200 0 /data/user/0/two default none 0 1 0 @system
	EOF
	chmod 640 /data/system/packages.list
	cat >/system/bin/getprop <<-'EOF'
	#!/system/bin/sh
	case $1 in
	ro.build.fingerprint) echo guest/guest/guest:13/FIXTURE/1:userdebug/test-keys ;;
	ro.build.version.release) echo 13 ;;
	ro.build.version.sdk) echo 33 ;;
	ro.product.model) echo guest ;;
	esac
	EOF
	cat >/system/bin/dumpsys <<-'EOF'
	#!/system/bin/sh
	echo "  topResumedActivity=ActivityRecord{5f3a1c u0 com.example.shop/.MainActivity t12}"
	EOF
	cat >/system/bin/cmd <<-'EOF'
	#!/system/bin/sh
	[ "$*" = 'package list packages -U' ] || exit 1
	while read -r name uid rest; do echo "package:$name uid:$uid"; done </data/system/packages.list
	EOF
	chmod 755 /system/bin/*
	grep -q " /dev/cpuset " /proc/mounts || mount -t cgroup -o cpuset,noprefix cpuset /dev/cpuset 2>/dev/null
	grep -q " /dev/cpuset " /proc/mounts || return 0
	for group in top-app foreground background system-background restricted; do
		mkdir -p /dev/cpuset/$group
		cat /dev/cpuset/cpus >/dev/cpuset/$group/cpus
		echo 0 >/dev/cpuset/$group/mems
	done
}

# fake_app UID NAME CPUSET OOM_SCORE_ADJ [fakeapp's own words]; $app_pid is its pid. An emulator on a busy
# machine takes seconds to start it.
fake_app() {
	local uid=$1 name=$2 cpuset=$3 score=$4 tries=0
	shift 4
	rm -f /tmp/fakeapp.pid
	/payload/apps/fakeapp "$uid" "$name" "$@" >/tmp/fakeapp.pid &
	while [ ! -s /tmp/fakeapp.pid ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
	app_pid=$(cat /tmp/fakeapp.pid)
	[ -n "$app_pid" ] || return 1
	app_pids="$app_pids $app_pid"
	mkdir -p "/sys/fs/cgroup/uid_$uid/pid_$app_pid"
	echo "$app_pid" >"/sys/fs/cgroup/uid_$uid/pid_$app_pid/cgroup.procs"
	grep -q " /dev/cpuset " /proc/mounts && echo "$app_pid" >"/dev/cpuset/$cpuset/cgroup.procs"
	echo "$score" >"/proc/$app_pid/oom_score_adj"
}
