# The device is one: init, its properties, servicemanager, SELinux, doctor.
[ "$(tr '\0' ' ' </proc/1/cmdline | cut -d' ' -f1)" = /system/bin/init ]
ok $? "boot: process 1 is Android's init" "$(tr '\0' ' ' </proc/1/cmdline)"
id=$(cat /proc/self/attr/current 2>/dev/null)
note "selinux: ${id:-none}, $(getenforce 2>/dev/null)"
getprop >/tmp/props
[ "$(grep -c '^\[ro\.' /tmp/props)" -gt 20 ]
ok $? "boot: properties are there" "$(wc -l </tmp/props)"
note "properties: $(wc -l </tmp/props), $(getprop ro.build.fingerprint)"
setprop debug.jankscope.test ok-$$
[ "$(getprop debug.jankscope.test)" = ok-$$ ]
ok $? "boot: setprop through the property service"
if [ -x /system/bin/service ]; then
	timeout 10 service list >/tmp/services 2>&1
	grep -q 'android.os.IServiceManager' /tmp/services
	ok $? "boot: servicemanager answers over binder" "$(head -1 /tmp/services)"
fi
note "processes: $(ps -o pid,args 2>/dev/null | grep -c .)"
$js doctor >/tmp/doctor.txt 2>&1
ok $? "doctor: exit 0" "$(tail -1 /tmp/doctor.txt)"
cp /tmp/doctor.txt $out/
sed -n 's/^  no /# doctor: no /p' /tmp/doctor.txt
for property in ro.build.fingerprint ro.build.version.release ro.build.version.sdk ro.build.type; do
	echo "$property=$(getprop $property)"
done >$out/properties.txt
record boot -d 1s
ok $? "boot: record of the whole device ends with 0" "$(tail -1 /tmp/boot.err)"
