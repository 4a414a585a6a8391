# Everything that a guest checks; TAP on the serial line. Runs under busybox sh. TESTS (kernel test
# programs) and STAGES choose; empty: all.
cd /tmp
failed=0
ok() { # STATUS NAME [DETAIL]
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2${3:+: $3}"; failed=1; fi
	return "$1"
}
skip() { echo "ok - $1 # SKIP $2"; }
notes() { sed 's/^/# /' "$@"; }
stage() {
	case " ${STAGES:-$1} " in *" $1 "*) ;; *) return 1 ;; esac
	echo "# $1: at $(cut -d' ' -f1 /proc/uptime) s"
}
export GUEST EMULATED=1
js=/bin/jankscope

# Record until there is what is looked for: awk's RULES tell() of records, ON_EVENT sees each word in
# $event, and when it returns 0 the recording is ended by a signal, as a user ends it. Neither a quick
# machine waits nor does a slow one miss it: the 90 s are for one that stands still. The shell sees
# words only, because it reads a pipe by the byte. Status: that of the recorder.
follow() { # OUT RULES ON_EVENT RECORD_ARGUMENTS...
	out=$1 rules=$2 on_event=$3 ended=
	shift 3
	rm -f lines events
	mkfifo lines events
	$js record "$@" -d 90s --json --max-lost 100 >lines 2>follow.err &
	recorder=$!
	awk -v out="$out" "function tell(what) { print what; fflush() } { print >out } $rules" <lines >events &
	while read -r event; do
		if [ -z "$ended" ] && $on_event; then
			kill -TERM $recorder
			ended=1
		fi
	done <events
	wait $recorder
}

# ---- the kernel tests are programs that need nothing but the kernel; NAME:ARGUMENT:... gives arguments
kernel_tests() {
	for name in ${TESTS:-test_android_targets test_guest_truth test_cpu test_cpu_losses test_stack_safety}; do
		t=/payload/kernel/${name%%:*} arguments=$(echo "$name:" | cut -d: -f2- | tr : ' ')
		[ -x "$t" ] || continue
		begin=$(cut -d' ' -f1 /proc/uptime)
		timeout -s KILL ${TEST_SECONDS:-150} "$t" $arguments </dev/null >/tmp/out 2>&1
		rc=$?
		echo "# $name: $begin to $(cut -d' ' -f1 /proc/uptime) s"
		sed "s/^\(not ok\|ok\) - /\1 - $name: /; /^\(not ok\|ok\) - /!s/^/# /" /tmp/out
		[ $rc = 0 ] && continue
		grep -q '^not ok' /tmp/out || echo "not ok - $name: exit status $rc"
		failed=1
	done
}

# ---- doctor: all that this kernel line has is found by loading
doctor() {
	$js doctor >doctor.txt 2>&1
	ok $? "doctor: supported, exit 0" || notes doctor.txt
	grep -i '^  no ' doctor.txt | notes
	# 5.12 brought atomics that fetch, 5.11 to 5.15 the three helpers.
	case $(uname -r) in 5.10.*) older="atomics helpers " ;; *) older= ;; esac
	[ "$(sed -n 's/^  no  *\([^ ]*\).*/\1/p' doctor.txt | sort | tr '\n' ' ')" = "$older" ]
	ok $? "doctor: every feature is here${older:+ but $older}"
	$js doctor --json >doctor.json 2>/dev/null
	grep -q '"name": *"tp_btf"' doctor.json
	ok $? "doctor --json: has its rows"
}

# ---- which rights each process of a run has, asked of the processes on this kernel
process_row() { tr -d ' \n' <doctor.json | grep -o '{"name":"'$1'","ok":true[^}]*}'; }
has_rights() { # PROCESS WORDS...: its row has all of them
	row=$(process_row $1)
	name=$1
	shift
	for words in "$@"; do
		case $row in *"$words"*) ;; *) ok 1 "rights of the $name" "no $words in ${row:-no row}"; return ;; esac
	done
	ok 0 "rights of the $name"
}
rights() {
	[ -s doctor.json ] || $js doctor --json >doctor.json 2>/dev/null
	has_rights recorder '"capabilities":"bpf"' '"no_new_privs":true'
	has_rights unwinder '"uid":65534' '"capabilities":"none"' '"no_new_privs":true' '"seccomp":2' \
		'"address_limit_bytes":268435456' '"cpu_limit_s":600'
	for kind in prober sampler asker power; do
		has_rights $kind '"capabilities":"all"' '"address_limit_bytes":536870912' '"cpu_limit_s":3600'
	done
	case $(process_row warden) in *limit*) false ;; *'"capabilities":"all"'*) ;; *) false ;; esac
	ok $? "rights of the warden: it has no limit that others would get from it" "$(process_row warden)"
	# And of a recorder that runs: what doctor shows is a copy of one.
	$js record -p $$ -q -i 100ms --net off -o rights.jsonl 2>rights.err &
	recorder=$!
	tries=0
	while ! grep -qs '"type":"interval"' rights.jsonl && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
	sets=$(sed -n 's/^Cap\(Prm\|Eff\|Bnd\|Amb\|Inh\):.//p; s/^NoNewPrivs:.//p' /proc/$recorder/status | tr '\n' ' ')
	kill -INT $recorder
	wait $recorder
	# CAP_BPF is number 39.
	[ "$sets" = "0000000000000000 0000008000000000 0000008000000000 0000008000000000 0000000000000000 1 " ]
	ok $? "rights of a recorder that runs: CAP_BPF and no more" "$sets $(cat rights.err)"
}

# ---- F17: somebody sets the clock of the machine
clocks() {
	case $GUEST in debian-*) ;; *) return ;; esac
	now=$(date +%s) step=
	follow clock.jsonl '/"type":"interval"/ { tell("interval") } /"event":"clock_jump"/ { tell("jump") }' on_clock \
		-p $$ --net off -i 100ms
	rc=$?
	date -s @$(($(date +%s) - 86400)) >/dev/null
	jumps=$(grep -c '"event":"clock_jump"' clock.jsonl)
	[ $rc = 0 ] && [ "$jumps" = 2 ]
	ok $? "the clock of the machine is set to 1970 and on: each step is told" "$rc $jumps $(cat follow.err)"
	! grep '"type":"interval"' clock.jsonl | grep -qE '"dur_ns":[0-9]{12}'
	ok $? "the clock of the machine: no interval has the length of a step"
}
on_clock() {
	case $step/$event in
	/interval) step=back; date -s @86400 >/dev/null ;;
	back/jump) step=on; date -s @$((now + 86400)) >/dev/null ;;
	on/jump) return 0 ;;
	esac
	return 1
}

# ---- stacks of a known call chain, by kind of capture; on arm64 with signed return addresses
chain_is_right() { # FILE: leaf, descend several times, main, in this order
	grep '^#' "$1" | cut -d' ' -f3 | grep -E '^(leaf|descend|main)$' | uniq >chain
	[ "$(tr '\n' ' ' <chain)" = 'leaf descend main ' ]
}
one_stack() { # KIND MODE NAME
	$target "$2" >ready &
	pid=$!
	while [ ! -s ready ]; do sleep 0.05; done
	# A capture that misses its deadline of 20 ms is given up, as it must be: where the host is busy
	# the emulator may not run for longer than that.
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		timeout 20 $dump $pid "$1" >stack.txt 2>&1
		grep -qE '^no capture: (did not stop within|capture worker was lost)' stack.txt || break
	done
	if [ $try = 20 ] && grep -q '^no capture' stack.txt; then
		skip "$3" "no capture met its deadline in 20 tries: the host is too busy"
	else
		chain_is_right stack.txt
		ok $? "$3" || notes stack.txt
	fi
	kill -9 $pid
	wait $pid 2>/dev/null
	rm -f ready
}
stacks() {
	dump=/payload/kernel/stack_dump
	target=/payload/apps/stack_target_signed
	if [ ! -x $dump ] || [ ! -x $target ]; then
		skip stacks "no stack_dump or stack_target_signed in the payload"
		return
	fi
	pac="plain return addresses"
	grep -qw paca /proc/cpuinfo && pac="signed return addresses"
	one_stack ptrace spin "stack by ptrace, $pac, on a CPU"
	one_stack ptrace sleep "stack by ptrace, $pac, asleep"
	one_stack perf spin "stack by perf, $pac, on a CPU"
	one_stack auto spin "stack by auto, $pac, on a CPU"
	one_stack auto handler_spin "stack by auto, $pac, through a signal handler"
}

# ---- kernels without BTF: the same kernel, its BTF hidden
check_records() { # NAME FILE
	tail -1 "$2" | grep -q '"type":"footer"'
	ok $? "$1: the records end with a footer"
	[ "$(grep -c '"type":"interval"' "$2")" -ge 1 ]
	ok $? "$1: intervals were recorded"
}
sources_of() { head -1 "$1" | grep -o '"sources":.*' | tr -d '"{}' | cut -c1-200; }
tiers() {
	# What is tried is our own doing, on one kernel of each line.
	case $GUEST in debian-6.1-arm64 | debian-6.12-arm64 | gki-6.1) ;; *) return ;; esac
	cp /sys/kernel/btf/vmlinux /tmp/kernel.btf
	mkdir -p /tmp/empty
	mount --bind /tmp/empty /sys/kernel/btf || { skip tiers "cannot hide the BTF"; return; }
	$js doctor >doctor.txt 2>&1
	rc=$?
	grep -qi '^  no *btf .*the kernel has none' doctor.txt
	ok $? "no BTF: doctor says so" "$(grep ' btf ' doctor.txt)"
	[ $rc = 5 ]
	ok $? "no BTF: doctor ends with 5" "$rc"
	$js doctor --btf /tmp/kernel.btf >doctor.txt 2>&1
	ok $? "no BTF, --btf FILE: doctor ends with 0" "$(cat doctor.txt)"
	$js record -a -d 400ms -i 200ms --max-lost 100 -q --btf /tmp/kernel.btf -o tier.jsonl 2>tier.err
	ok $? "no BTF, --btf FILE: record runs" "$(cat tier.err)"
	check_records "no BTF, --btf FILE" tier.jsonl
	sources_of tier.jsonl | notes
	head -1 tier.jsonl | grep -q 'raw_tp'
	ok $? "no BTF, --btf FILE: by raw_tp"
	$js record -a -d 400ms -i 200ms --max-lost 100 -q -o bare.jsonl 2>bare.err
	rc=$?
	notes bare.err
	if [ $rc = 0 ]; then
		head -1 bare.jsonl | grep -q '"state":"degraded"'
		ok $? "no BTF at all: /proc is read, marked degraded"
		check_records "no BTF at all" bare.jsonl
		sources_of bare.jsonl | notes
	else
		[ $rc = 5 ] && [ -s bare.err ]
		ok $? "no BTF at all: exit 5 and a reason" "$rc"
	fi
	umount /sys/kernel/btf
}

# ---- the layout of Android, from the command line
android() {
	. /payload/android.sh
	android_layout
	fake_app 10123 com.example.shop top-app 0
	ok $? "the app runs" || return
	shop=$app_pid
	fake_app 10123 com.example.shop:remote background 905 fps 4
	fake_app 10124 com.example.shopping background 905 fps 4
	phase=measured intervals=0 remote=
	follow app.jsonl '
		/"type":"interval"/ { tell("interval") }
		/"process":"com.example.shop:remote"/ { tell("remote") }
		/"event":"target_exit"/ { match($0, /"pid":[0-9]+/); tell("exit " substr($0, RSTART + 6, RLENGTH - 6)) }
		/"event":"target_start"/ { match($0, /"pid":[0-9]+/); tell("start " substr($0, RSTART + 6, RLENGTH - 6)) }' \
		on_restart -p com.example.shop -i 250ms
	ok $? "record -p PACKAGE over a restart of it" "$(cat follow.err)"
	check_records "record -p PACKAGE" app.jsonl
	grep -q '"process":"com.example.shop:remote"' app.jsonl
	ok $? "record -p PACKAGE: its :remote process is in the records" \
		"$(grep -o '"\(late\|lost\|repaired\)":{[^}]*}' app.jsonl | sort | uniq -c | tr '\n' ' ') $(grep -o '"process":"[^"]*"' app.jsonl | sort | uniq -c | tr '\n' ' ')"
	! grep '"type":"interval"' app.jsonl | grep -q 'com.example.shopping'
	ok $? "record -p PACKAGE: another package that begins the same is not"
	grep -q '"package":"com.example.shop"' app.jsonl
	ok $? "record -p PACKAGE: rows carry the package"
	grep -q '"thread":"om.example.shop"' app.jsonl
	ok $? "record -p PACKAGE: the main thread's comm is cut to 15"
	case $GUEST in gki-*) split_of_frequencies ;; esac
	[ $phase = back ]
	ok $? "a restart is a target_exit and a target_start" "$phase: $(grep '"event"' app.jsonl | cut -c1-150 | tr '\n' ' ')"
	$js record -p com.nobody.here -d 1s -q --wait 300ms -o none.jsonl 2>none.err
	[ $? = 4 ]
	ok $? "a package that is not there: exit 4" "$(cat none.err)"
	end_apps
}

# What the targets ran at each frequency is, to the nanosecond, what they ran at it in the foreground,
# in the background, and where that changed or is not known.
split_of_frequencies() {
	$js report app.jsonl --csv app.csv 2>report.err
	tr -d '\r' <app.csv | awk -F, '
		$1 == "footer" && $(NF - 2) ~ /clusters/ {
			state = key = $(NF - 2)
			sub(/\.?clusters.*/, "", state)
			sub(/.*\.?clusters/, "clusters", key)
			if (state ~ /targets$/) whole[key] = $NF
			else if (state ~ /(foreground|background|mixed|unknown)$/) part[key] += $NF
			if (state ~ /foreground$/ && key ~ /_khz_ns$/) shown += $NF
			print state, key, $NF
		}
		END {
			for (key in whole) if (whole[key] != part[key]) { bad++; print "BAD", key, whole[key], part[key] }
			print "RESULT", (shown > 0 && !bad ? "good" : "bad")
		}' >split.txt
	grep -q "RESULT good" split.txt
	ok $? "record -p PACKAGE: time at each frequency by foreground and background is the whole" "$(cat report.err split.txt)"
}

# Two intervals of it running; then it is killed; when that is seen it is started again. Not before
# its other process was seen as well, whose name a slow machine may tell late.
on_restart() {
	[ "$event" = remote ] && remote=seen
	case $phase/$event in
	measured/interval)
		intervals=$((intervals + 1))
		[ $intervals = 2 ] && kill -9 "$shop" && phase=killed
		return 1 ;;
	killed/"exit $shop")
		fake_app 10123 com.example.shop top-app 0
		phase=started
		return 1 ;;
	started/"start $app_pid")
		phase=back ;;
	back/*) ;;
	*) return 1 ;;
	esac
	[ -n "$remote" ]
}

end_apps() {
	for pid in $app_pids; do kill -9 "$pid" 2>/dev/null; done
	wait 2>/dev/null
	app_pids=
}

# ---- long blocks of a main thread, by kind of capture
blocks() {
	. /payload/android.sh
	android_layout
	fake_app 10130 com.example.slow top-app 0 block 700
	kinds="snapshot perf ptrace"
	# What auto takes is one of them.
	case $GUEST in debian-6.1-* | gki-6.12) kinds="auto $kinds" ;; esac
	for kind in $kinds; do
		case $kind in auto) want= ;; *) want=$kind ;; esac
		# The first capture may come too late on a slow machine: there are more.
		follow block.jsonl '/"type":"block".*"capture":"'$want'.*"symbol":"(burn|sleep_ms)"/ { tell("stack") }' true \
			-p com.example.slow --net off --block 300ms --stack $kind
		ok $? "blocks, --stack $kind: record" "$(cat follow.err)"
		grep '"type":"block"' block.jsonl >block.only
		[ -s block.only ]
		ok $? "blocks, --stack $kind: found" "$(head -1 block.jsonl | cut -c1-900)"
		grep -q "\"capture\":\"${want:-[a-z]*}\"" block.only
		ok $? "blocks, --stack $kind: with a stack of that kind" "$(head -1 block.only | cut -c1-900)"
		grep -q "\"capture\":\"${want:-[a-z]*}\"" block.only ||
			grep -o '"\(lost\|late\|repaired\|captures\|missing\)":{[^}]*}' block.jsonl | sort | uniq -c | notes
		# One message of the app: half of it in burn(), half in sleep_ms().
		grep -qE '"symbol":"(burn|sleep_ms)"' block.only
		ok $? "blocks, --stack $kind: the stack names the app's own function" "$(head -1 block.only | cut -c1-900)"
		state=$(cut -d')' -f2 /proc/"$app_pid"/task/*/stat | cut -c2 | grep -c '[Tt]')
		[ "$state" = 0 ]
		ok $? "blocks, --stack $kind: nothing is left stopped"
	done
	end_apps
}

# ---- frames: from a file, and from this kernel's trace_marker
frames() {
	trace=$(ls /payload/traces/* 2>/dev/null | head -1)
	if [ -n "$trace" ]; then
		for trace in /payload/traces/*; do
			$js frames --json "$trace" >frames.json 2>frames.err
			ok $? "frames FILE: ${trace##*/}" "$(cat frames.err)"
			grep -q '"layers"' frames.json
			ok $? "frames FILE: ${trace##*/}: has layers"
		done
	else
		skip "frames FILE" "no traces in the payload"
	fi
	tracing=/sys/kernel/tracing
	echo 1 >$tracing/tracing_on
	echo >$tracing/trace
	echo 512 >$tracing/buffer_size_kb # a page until somebody traces
	/payload/apps/play_markers played 1 0
	ok $? "play_markers plays"
	read -r pid shown holes <played
	cat $tracing/trace >marker.txt
	$js frames --json marker.txt >frames.json 2>frames.err
	ok $? "frames of what went through trace_marker" "$(cat frames.err)"
	for source in Choreographer#doFrame 'BufferTX - com.example.play/com.example.play.Main#7'; do
		grep -o '"layers":.*' frames.json | tr '{' '\n' | grep "\"layer\":\"$source\"" | grep -q "\"shown\":$shown,"
		ok $? "frames of what went through trace_marker: $shown of $source" "$(head -c 600 frames.json)"
	done
	echo 0 >$tracing/tracing_on
	echo >$tracing/trace
	follow live.jsonl '/"event":"start"/ { tell("start") } /"frames":[{]"layers":[[][{]/ { tell("frames") }' \
		on_live -a -i 250ms --frames live
	ok $? "record --frames live" "$(cat follow.err)"
	wait
	grep -q '"frames":{"layers":\[{' live.jsonl
	ok $? "record --frames live: layers in the intervals" "$(grep -o '"frames".*' live.jsonl | head -2 | cut -c1-300) $(cat follow.err)"
	[ "$(cat $tracing/tracing_on)" = 0 ]
	ok $? "record --frames live: the trace is off again, as it was"
}
on_live() {
	[ $event = frames ] && return 0
	/payload/apps/play_markers played 1 0 >/dev/null &
	return 1
}

# ---- battery, heat and frequency limits of the phone-like guests, and what is told of them
phone() {
	case $GUEST in gki-*) ;; *) return ;; esac
	battery=/sys/class/power_supply/test_battery cpufreq=/sys/devices/system/cpu/cpufreq
	set_battery=/sys/module/test_power/parameters zone=/sys/class/thermal/thermal_zone0
	[ -f $battery/capacity ]
	ok $? "phone: a battery"
	[ -d $zone ]
	ok $? "phone: a thermal zone"
	[ "$(cat $cpufreq/policy3/related_cpus)" = 3 ]
	ok $? "phone: cpufreq tables of two clusters"
	[ "$(cat /sys/devices/system/cpu/cpu*/cpu_capacity | sort -u | wc -l)" = 2 ]
	ok $? "phone: two capacities"
	full=$(cat $cpufreq/policy3/cpuinfo_max_freq) phase=first
	echo 42 >$set_battery/battery_capacity
	echo discharging >$set_battery/battery_status
	echo off >$set_battery/ac_online
	echo off >$set_battery/usb_online
	follow power.jsonl '
		/"type":"interval"/ && /"power":[{]/ { tell("power") }
		/"event":"thermal_cap"/ && /"state":"begin"/ && /"policy":3/ { tell("capped") }
		/"event":"thermal_cap"/ && /"state":"end"/ && /"policy":3/ { tell("freed") }' \
		on_phone -a --net off --smaps off
	ok $? "power: record" "$(cat follow.err)"
	[ $phase = over ]
	ok $? "power: a cap of a cluster is an event, and its end is" "$phase $(grep thermal_cap power.jsonl | cut -c1-300)"
	grep -q '"charge_pct":42[,}]' power.jsonl
	ok $? "power: the battery's charge" "$(grep -o '"power":{.\{0,400\}' power.jsonl | tail -1)"
	grep -o '"power":{.*' power.jsonl | grep -q "\"current_ua\":$(cat $battery/current_now)[,}]"
	ok $? "power: the battery's current, with the kernel's sign"
	grep -q '"status":"Discharging"' power.jsonl
	ok $? "power: its status"
	grep -q "\"type\":\"$(cat $zone/type)\",\"temperature_mc\":71500[,}]" power.jsonl
	ok $? "power: the heat of a zone, by its type" "$(grep -o '"zones":.\{0,200\}' power.jsonl | tail -1)"
	grep -q "\"policy\":3,.*\"limit_khz\":$low,\"max_khz\":$full" power.jsonl
	ok $? "power: a cluster's limit and its highest frequency" "$(grep -o '"policies":.\{0,300\}' power.jsonl | tail -1)"
	tail -1 power.jsonl | grep -q '"power":{'
	ok $? "power: the summary has it"
}
on_phone() {
	case $phase/$event in
	first/power)
		echo 71500 >$zone/emul_temp
		low=$(tr ' ' '\n' <$cpufreq/policy3/scaling_available_frequencies | grep . | sort -n | head -1)
		echo $low >$cpufreq/policy3/scaling_max_freq
		phase=hot ;;
	hot/capped)
		echo 0 >$zone/emul_temp
		echo $full >$cpufreq/policy3/scaling_max_freq
		phase=cool ;;
	cool/freed)
		phase=over
		return 0 ;;
	esac
	return 1
}

# ---- frames that are late by a call through the binder driver, and by three other causes
late() {
	case $GUEST in gki-6.1) ;; *) return ;; esac
	folder=/tmp/late
	mkdir -p $folder/bin $folder/binderfs
	device=/dev/binder
	if [ ! -e $device ]; then
		mount -t binder binder $folder/binderfs
		device=$folder/binderfs/binder
	fi
	ln -s /payload/apps/late_app $folder/bin/perfetto
	mkfifo $folder/in $folder/out
	# An emulated machine needs more time for each frame.
	/payload/apps/late_app $folder --binder $device 8:8:binder,lock_main,main_cpu,hog_main <$folder/in >$folder/out &
	exec 7>$folder/in 8<$folder/out
	read -r word pid frames <&8
	[ "$word" = ready ]
	ok $? "late: the app is ready" "$word" || return
	PATH=$folder/bin:$PATH LATE_TRACE=$folder/trace $js record -p $pid --frames perfetto -i 500ms --net off --max-lost 100 \
		-q -o late.jsonl 2>late.err &
	recorder=$!
	tries=0
	while ! grep -qs '"type":"interval"' late.jsonl && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
	echo go >&7
	read -r word <&8
	[ "$word" = done ]
	ok $? "late: the app has drawn $frames frames" "$word"
	# Frames are settled when all of perfetto's have come.
	sleep 5
	kill -INT $recorder
	wait $recorder
	ok $? "late: record" "$(cat late.err)"
	exec 7>&- 8<&-
	[ $device = /dev/binder ] || umount $folder/binderfs
	awk '
		function number(key) { return match($0, "\"" key "\":[-0-9]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
		function word(key) { return match($0, "\"" key "\":\"[a-z_]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) : "" }
		/"expected_start_ns"/ && /"ways"/ {
			token = number("token")
			if (number("present_ns") > number("predicted_ns")) { late[token] = word("cause"); n++ }
			# others had the CPU
			took = word("cause") == "no_cpu" ? number("took_ns") : 0
			if (number("main_waited_ns") + number("render_waited_ns") - took > number("period_ns") / 5) spoiled[token] = 1
			next
		}
		/"type":"jank"/ {
			token = number("surface_frame_token")
			if (!(token in late)) { print "not ok - late: a frame in time is told: " token; bad = 1; next }
			told[token] = 1
			if (late[token] == "" || token in spoiled) { held++; next }
			all[late[token]]++
			if (word("cause") == late[token]) { good[late[token]]++; right++ } else print "# late: " late[token] " is told as " word("cause")
			judged++
		}
		END {
			for (token in late) if (!(token in told)) { print "not ok - late: frame " token " is not told"; bad = 1 }
			for (cause in all) print "# late: " cause ": " good[cause] + 0 " of " all[cause]
			print (right >= 0.95 * judged && judged >= 16 ? "ok" : "not ok") " - late: the cause of " right " of " judged " late frames (" held + 0 " that others held up)"
			print (good["binder"] >= 0.9 * all["binder"] && all["binder"] >= 4 ? "ok" : "not ok") " - late: binder calls, " good["binder"] + 0 " of " all["binder"] + 0
			exit bad
		}' $folder/truth.json late.jsonl >late.tap
	ok $? "late: all late frames are told, and none that was in time"
	! grep -q '^not ok' late.tap || failed=1
	cat late.tap
}

# ---- memory that a phone's kernel tells of, and this machine's does not: dmabufs, names of mappings
memory() {
	case $GUEST in gki-*) ;; *) return ;; esac
	rm -f memory.in
	mkfifo memory.in
	/payload/apps/memory_load <memory.in >memory.out &
	app=$!
	exec 8>memory.in
	# 8 MiB of which two descriptors are open, and 64 KiB; heaps of Java, of its code, of C.
	asked=0
	for line in "dmabuf 8388608" dup "dmabuf 65536" "anon 16777216" "call dalvik-main space (region space)" \
		"anon 6291456" "call dalvik-LinearAlloc" "anon 12582912" "call scudo:primary"; do
		asked=$((asked + 1))
		echo "$line" >&8
	done
	await 30 obeyed $asked
	[ $? = 0 ] && [ "$(grep -c ^ok memory.out)" = $asked ]
	ok $? "memory: dmabufs and named mappings are made" "$(cat memory.out)"
	kinds= dmabufs= machine=
	follow memory.jsonl '
		/"type":"interval"/ && /"kinds":/ { tell("kinds") }
		/"type":"interval"/ && /"dmabufs":/ { tell("dmabufs") }
		/"type":"interval"/ && /"system":[{][^}]*"dmabuf_bytes"/ { tell("machine") }' on_memory \
		-p $app --net off -i 500ms --smaps 500ms
	ok $? "memory: record" "$(cat follow.err)"
	grep -q '"dmabuf_bytes":8454144,"dmabufs":2[,}]' memory.jsonl
	ok $? "memory: each dmabuf counts once, by its bytes" "$(grep -o '"dmabuf_bytes":[^}]*' memory.jsonl | tail -1) $(ls -l /proc/$app/fd)"
	bytes=$(grep -o '"system":{[^}]*' memory.jsonl | sed -n 's/.*"dmabuf_bytes":\([0-9]*\).*/\1/p' | tail -1)
	[ "${bytes:-0}" = 8454144 ]
	ok $? "memory: the machine has them, too" "${bytes:-none} $(ls /sys/kernel/dmabuf/buffers)"
	row=$(grep -m1 '"kinds":' memory.jsonl)
	for heap in "java_heap 16777216" "java_other 6291456" "native_heap 12582912"; do
		bytes=$(echo "$row" | grep -o "\"kind\":\"${heap% *}\"[^}]*" | sed -n 's/.*"private_dirty_bytes":\([0-9]*\).*/\1/p')
		[ "${bytes:-0}" -ge ${heap#* } ] && [ "$bytes" -le $((${heap#* } + 1048576)) ]
		ok $? "memory: ${heap% *} by the names of its mappings" "${bytes:-none}, made ${heap#* }; $(echo "$row" | grep -o '"kinds":[^]]*')"
	done
	exec 8>&-
	kill $app
	wait $app
}
obeyed() { [ "$(wc -l <memory.out)" -ge $1 ]; }
on_memory() {
	eval $event=1
	[ "$kinds$dmabufs$machine" = 111 ]
}

# ---- F4: the disk gives EIO below the page cache, and works again (dm-error). The kernel took what
# was written and cannot keep it: it says so once, at the next fdatasync.
disk() {
	modprobe -a -q loop ext4 dm_mod 2>/dev/null
	if ! grep -q device-mapper /proc/misc; then
		skip "a disk that fails" "this kernel has no device mapper (/proc/misc)"
		return
	fi
	mount_disk ^has_journal && disk_without_journal
	unmount_disk
	mount_disk has_journal && disk_with_journal
	unmount_disk
}
await() { # SECONDS COMMAND...
	tries=$((10 * $1))
	shift
	until "$@"; do
		[ $tries -gt 0 ] || return 1
		tries=$((tries - 1))
		sleep 0.1
	done
}
mount_disk() { # JOURNAL; and a recording on it whose segments last 3 s
	rm -f disk.in disk.out
	gunzip -c "/payload/disks/$1.img.gz" >disk.img
	mkfifo disk.in
	/payload/apps/dm_disk disk.img <disk.in >disk.out 2>disk.err &
	disk=$!
	exec 7>disk.in
	await 10 grep -q ready disk.out
	device=$(sed -n 's/^ready //p' disk.out)
	mount -t ext4 -o errors=continue "$device" /mnt 2>>disk.err
	ok $? "a disk that fails: an ext4 with $1 behind the device mapper" "$(cat disk.err disk.out)" || return
	$js record -p $$ --net off -i 100ms -q --keep 100ms:3s,200ms:1h -o /mnt/rec/ 2>disk.err &
	recorder=$!
	await 30 packed 1
	ok $? "a disk that fails: a segment is closed" "$(ls -l /mnt/rec; cat disk.err)"
}
unmount_disk() {
	umount /mnt
	exec 7>&-
	wait $disk
}
packed() { [ "$(ls /mnt/rec/*.zst 2>/dev/null | wc -l)" -ge $1 ]; }
switch_disk() { # TARGET
	echo $1 >&7
	await 10 grep -q "^$1" disk.out
}
last_segment() { ls /mnt/rec | sed -n 's/^0*\([0-9]*\)\.jsonl.*/\1/p' | sort -n | tail -1; }

# Without a journal nothing ties what is written together: each fdatasync fails for itself.
disk_without_journal() {
	switch_disk error
	sleep 7
	kill -0 $recorder
	ok $? "EIO: the recorder lives" "$(cat disk.err)"
	last=$(last_segment)
	switch_disk linear
	await 30 packed_since $last
	ok $? "EIO: it records on where the disk works again" "$(ls -l /mnt/rec)"
	kill -TERM $recorder
	wait $recorder
	ok $? "EIO: the end is in order" "$? $(cat disk.err)"
	# What the kernel still had in its memory goes.
	umount /mnt
	mount -t ext4 "$device" /mnt
	$js verify /mnt/rec >verify.txt 2>&1
	rc=$?
	notes verify.txt
	# Damage is where the disk gave EIO, and what came behind it begins with what is missing.
	sed -n 's/^.mnt.rec.0*\([0-9]*\)\.jsonl[^ ]* \([a-z]*\).*/\1 \2/p' verify.txt |
		awk -v last=$last '$1 > last + 1 || ($1 == last + 1 && $2 != "missing") {exit 1}'
	ok $? "EIO: no damage behind the segments of that time (1 to $last)"
	$js report /mnt/rec --csv events.csv >report.txt 2>&1
	report=$?
	[ $rc = 0 ] || [ "$rc $report" = "3 3" ]
	ok $? "EIO: who reads it is told" "verify $rc, report $report"
	grep -q ',event,,sync_failed' events.csv
	ok $? "EIO: an event tells of the sync that failed" "$(grep ,event events.csv | tail -20)"
}
packed_since() { [ -e "/mnt/rec/$(printf %08d $(($1 + 1))).jsonl.zst" ]; }

# A journal that cannot be written ends all writing: ext4 is read-only from then on.
disk_with_journal() {
	switch_disk error
	sleep 7
	kill -0 $recorder
	ok $? "EIO of the journal: the recorder lives" "$(cat disk.err)"
	switch_disk linear
	$js verify /mnt/rec >verify.txt 2>&1
	# Some kernels still read what they have in memory, and what they could not write is gone.
	[ $? = 3 ] && grep -qE '(unreadable.*Input/output error|torn|missing)' verify.txt
	ok $? "EIO of the journal: verify names what is not there" "$(cat verify.txt)"
	kill -TERM $recorder
	wait $recorder
	[ $? = 1 ] && grep -qE 'the last records may not be on the disk: (Input/output error|Read-only)' disk.err &&
		grep -q 'records could not be written' disk.err
	ok $? "EIO of the journal: exit code 1, and what may be lost is told" "$(cat disk.err)"
	umount /mnt
	mount -t ext4 "$device" /mnt
	$js verify /mnt/rec >verify.txt 2>&1
	rc=$?
	notes verify.txt
	[ $rc = 3 ] && grep -q '^.mnt.rec: . segments, 1 runs, [1-9]' verify.txt
	ok $? "EIO of the journal: what was there before is there" "verify $rc"
}

for s in doctor rights clocks phone memory stacks tiers android frames late blocks disk kernel_tests; do
	stage $s && $s
done
exit $failed
