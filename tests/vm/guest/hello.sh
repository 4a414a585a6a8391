# A look at the machine; for people: run_guest.sh GUEST PAYLOAD /payload/hello.sh
uname -a
grep -m1 Features /proc/cpuinfo
cat /sys/devices/system/cpu/cpu*/cpu_capacity 2>/dev/null | tr '\n' ' '
echo
for policy in /sys/devices/system/cpu/cpufreq/policy*; do
	[ -d "$policy" ] && echo "$policy: cpus $(cat "$policy/related_cpus"), $(cat "$policy/scaling_available_frequencies"), $(cat "$policy/scaling_governor")"
done
cat /sys/devices/system/cpu/cpu0/cpuidle/state*/name 2>/dev/null | tr '\n' ' '
echo
ls /sys/class/power_supply /sys/class/thermal 2>/dev/null | tr '\n' ' '
echo
