#!/usr/bin/env bash
# Batteries, heat and frequency limits from a made-up /sys in a mount namespace: values and their units,
# a cap that begins and ends, energy between read-outs, power from outside, files that hold no value,
# a pipe in a file's place, and a driver that never answers.
# Runs beside others (12 s)
set -u
cd "$(dirname "$0")/../.." || exit 1
name="a made-up /sys in a mount namespace"
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "ok - $name # SKIP unshare cannot make a mount namespace"
	exit 0
fi
if [ "${1:-}" != inside ]; then
	exec unshare -m --propagation private bash "$0" inside
fi
js=$BUILD/jankscope
work=$(mktemp -d)
fs= target=
cleanup() {
	[ -n "$target" ] && kill "$target" 2>/dev/null
	[ -n "$fs" ] && kill "$fs" 2>/dev/null
	exec 7>&-
	wait
	rm -rf "$work" 2>/dev/null
}
trap cleanup EXIT
result() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; sed 's/^/# err: /' "$work/err"; fi; }
check() { # name jq-expression, over all records as a list
	[ "$(jq -s "$2" "$work/o.jsonl" 2>>"$work/err")" = true ]; result $? "$1"
}
put() { mkdir -p "$sys/$(dirname "$1")"; printf '%s\n' "$2" >"$sys/$1"; }

# tmpfs over /sys would hide what BPF needs: only the folders that the source reads are covered. On a
# kernel without one of them its place is made by a tmpfs over its parent, which holds nothing else.
sys=$work/sys
battery=class/power_supply/battery policy=devices/system/cpu/cpufreq/policy0
put $battery/type Battery
put $battery/status Discharging
put $battery/current_now -512000
put $battery/voltage_now 3912000
put $battery/capacity 83
put $battery/charge_counter 2900000
put $battery/temp 312
put class/power_supply/usb/type USB
put class/power_supply/usb/online 0
put class/power_supply/odd/type Battery
put class/power_supply/odd/scope Device
put class/power_supply/odd/current_now 18446744073709551616
put class/power_supply/odd/voltage_now -1
put class/power_supply/odd/capacity ""
head -c 1048576 /dev/urandom >$sys/class/power_supply/odd/temp
put class/thermal/thermal_zone0/type cpu-big
put class/thermal/thermal_zone0/temp 62000
put class/thermal/thermal_zone1/type pipe
mkfifo $sys/class/thermal/thermal_zone1/temp
put class/thermal/cooling_device0/type cpufreq-cpu0
put class/thermal/cooling_device0/cur_state 3
put class/thermal/cooling_device0/max_state 17
put $policy/related_cpus "0 1"
put $policy/cpuinfo_max_freq 2841600
put $policy/scaling_max_freq 2841600
for folder in class/power_supply class/thermal devices/system/cpu/cpufreq; do
	if ! mount --bind $sys/$folder /sys/$folder 2>"$work/err"; then
		echo "ok - $name # SKIP this kernel has no /sys/$folder to be covered"
		exit 0
	fi
done
# A driver that hangs is a file of a FUSE server that stops answering.
hangs=
if [ -c /dev/fuse ]; then
	mkdir "$work/fuse"
	echo 55 >"$work/capacity"
	mkfifo "$work/stdin"
	"$BUILD/tests/apps/hang_fs" "$work/fuse" "$work/capacity" 20 <"$work/stdin" >"$work/ready" 2>&1 &
	fs=$!
	exec 7>"$work/stdin"
	for _ in $(seq 200); do grep -q ready "$work/ready" && break; sleep 0.05; done
	if grep -q ready "$work/ready"; then
		put class/power_supply/slow/type Battery
		ln -s "$work/fuse/prog" $sys/class/power_supply/slow/capacity
		hangs=yes
	fi
fi

# Each change waits for what the recording says of the one before it.
sleep 600 &
target=$!
"$js" record -q -d 300s -p $target --net off -o "$work/o.jsonl" 7>&- 2>"$work/err" &
recorder=$!
await() { # jq-expression, true for one record
	for _ in $(seq 200); do
		[ "$(jq "select($1) | true" "$work/o.jsonl" 2>/dev/null | head -1)" = true ] && return 0
		kill -0 $recorder 2>/dev/null || return 1
		sleep 0.1
	done
	return 1
}
await '.power'
put $policy/scaling_max_freq 1766400
await '.event == "thermal_cap" and .state == "begin"'
put $policy/scaling_max_freq 2841600
await '.event == "thermal_cap" and .state == "end"'
put class/power_supply/usb/online 1
await '.power.external'
if [ -n "$hangs" ]; then
	kill -USR1 "$fs"
	await '.missing."power.slow" and .power'
fi
kill -INT $recorder
wait $recorder
result $? "the recording ends well"
check "the battery's values, in the units of their files" '[.[] | select(.type == "interval" and .power) | .power][0] |
	.current_ua == -512000 and .voltage_uv == 3912000 and .charge_pct == 83 and .charge_uah == 2900000 and
	.temperature_mc == 31200 and .status == "Discharging" and (has("external") | not)'
check "zones by type, cooling devices, limits of frequency" '[.[] | select(.type == "interval" and .power) | .power][0] |
	.zones == [{zone: 0, type: "cpu-big", temperature_mc: 62000}] and
	.coolings == [{device: 0, type: "cpufreq-cpu0", state: 3, max_state: 17}] and
	(.policies[0] | .policy == 0 and .cpus == "0 1" and .max_khz == 2841600)'
check "what is no value of its unit is absent, with its reason" '[.[] | select(.type == "interval" and .power)][0] |
	([.power.supplies[] | select(.name == "odd")][0] | keys == ["name", "type"]) and
	(.missing | (."power.supplies.odd.current_ua" | test("range")) and (."power.supplies.odd.voltage_uv" | test("range")) and
	(."power.supplies.odd.charge_pct" | test("empty")) and (."power.supplies.odd.temperature_mc" | test("no number")) and
	(."power.zones.pipe.temperature_mc" | test("no ordinary file")))'
check "a cap is an event, and its end is" '[.[] | select(.event == "thermal_cap")] | map(.state) == ["begin", "end"] and
	(.[0] | .policy == 0 and .limit_khz == 1766400 and .max_khz == 2841600) and
	.[1].at_boot_ns > .[0].at_boot_ns and .[1].since_boot_ns == .[0].at_boot_ns'
check "with power from outside nothing is said of a discharge" '(.[-1].summary.power | .external_read_outs > 0 and
	.external_read_outs < .read_outs and (has("discharge_mean_ua") | not) and (has("discharge_uah") | not)) and
	(.[-1].missing | ."power.discharge_mean_ua" | test("from outside"))'
"$js" report "$work/o.jsonl" --perfetto "$work/o.pf" --html "$work/o.html" 2>"$work/err" &&
	grep -aq "battery current, uA" "$work/o.pf" && grep -q "battery current" "$work/o.html"
result $? "the battery of a recording is in its trace and its report"
# Read-outs of the time that a target was waited for: the run has one of them at the most, of its last second.
put class/power_supply/usb/online 0
rm -rf $sys/class/power_supply/slow # it may give power, and hangs: then nothing is said of a discharge
put class/power_supply/battery/charge_counter 2950000
"$js" record -q -n 3 -i 500ms -p "awaited-$$" --wait 60s --net off -o "$work/waited.jsonl" 2>"$work/err" &
recorder=$!
sleep 3
put class/power_supply/battery/charge_counter 2900000
kill "$target"
(exec -a "awaited-$$" sleep 600) &
target=$!
wait $recorder
[ "$(jq -s '([.[] | select(.event == "start")][0].t_boot_ns) as $begin | [.[] | .power // empty | .read_boot_ns] as $read |
	.[-1].summary.power | .discharge_ns < $read[-1] - $begin + 1e9 and .discharge_uah == 0' "$work/waited.jsonl" 2>>"$work/err")" = true ]
result $? "what was read while a target was waited for is no part of the run"
if [ -z "$hangs" ]; then
	echo "ok - a driver that hangs # SKIP no FUSE server can run here"
	exit 0
fi
check "a driver that hangs holds up no interval" '[.[] | select(.type == "interval") | .dur_ns] |
	length > 4 and max < 1.9e9'
check "its process is replaced, and the device left alone" '(.[-1].repaired.helper_power_replaced == 1) and
	([.[] | select(.type == "interval") | .missing."power.slow" // empty] | length > 0 and (.[0] | test("did not answer")))'
check "the other devices are read again" '[.[] | select(.type == "interval")] | .[-1].power.current_ua == -512000 and
	([.[] | select(.power | not)] | length > 0) and ([.[-1].power.supplies[] | .name] | index("slow") | not)'
