# A device for tests/device/run.sh: an app in front, one cached, one that is no app, and two
# adbds: with `adb root`; without, but with su. Ends when /data/local/tmp/stop is there.
. /payload/android.sh
android_layout
fake_app 10123 com.example.shop top-app 0 || exit 1
fake_app 10124 com.example.shopping background 905 fps 4
fake_app 10098 com.android.systemui top-app -800
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up || exit 1
cp /payload/apps/adbd /system/xbin/su
chown 0:2000 /system/xbin/su
chmod 4755 /system/xbin/su
# Of the second, su turns into Magisk's when the test asks for it.
/payload/apps/adbd 5555 root /nowhere &
/payload/apps/adbd 5556 noroot /system/xbin &
echo "##ADBD"
tries=0
while [ ! -e /data/local/tmp/stop ] && [ $tries -lt 4000 ]; do
	[ -e /data/local/tmp/magisk ] && : >/system/xbin/su-is-magisk
	sleep 0.1
	tries=$((tries + 1))
done
[ -e /data/local/tmp/stop ]
