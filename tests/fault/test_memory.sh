#!/usr/bin/env bash
# What a recording takes: it lives in a cgroup of 24 MiB, says what it takes, and does not grow with
# what came and went.  usage: test_memory.sh [small_cgroup|fork_storm|odd_loads|memory_bytes ...]
# Without an argument the first two, which take all the CPU there is; test_memory_beside.sh has the
# others.
set -u
cd "$(dirname "$0")/../.."
parts=${*:-small_cgroup fork_storm}
if [ "$(id -u)" != 0 ]; then
	echo "ok - memory of a recording # SKIP needs root"
	exit 0
fi
work=$(mktemp -d)
group= target= keeper=
cleanup() {
	[ -n "$target" ] && kill "$target" 2>/dev/null
	[ -n "$keeper" ] && kill "$keeper" 2>/dev/null
	wait
	[ -n "$group" ] && rmdir "$group" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT

# A memory cgroup of our own, of whichever version is there, in $group; 1: this kernel has none.
make_group() {
	local mount
	if [ -w /sys/fs/cgroup/memory/cgroup.procs ]; then
		version=1 group=/sys/fs/cgroup/memory/jankscope-test-$$
	else
		mount=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
		[ -n "$mount" ] && grep -qw memory "$mount/cgroup.controllers" || return 1
		echo +memory >"$mount/cgroup.subtree_control" || return 1
		version=2 group=$mount/jankscope-test-$$
	fi
	mkdir "$group"
}
# Whether the kernel counts memory by cgroup at all, by its own word.
has_controller() {
	awk '$1 == "memory" && $4 == 1 {found = 1} END {exit !found}' /proc/cgroups 2>/dev/null ||
		grep -qsw memory /sys/fs/cgroup/cgroup.controllers
}
limit() { # bytes
	if [ $version = 1 ]; then
		echo "$1" >"$group/memory.limit_in_bytes"
		echo "$1" >"$group/memory.memsw.limit_in_bytes" 2>/dev/null
	else
		echo "$1" >"$group/memory.max"
		echo 0 >"$group/memory.swap.max" 2>/dev/null
	fi
	true
}
kills() { awk '$1 == "oom_kill" {print $2}' "$group/memory.$([ $version = 1 ] && echo oom_control || echo events)"; }
charged() { # all but the cache of files
	awk -v version=$version 'NR == FNR {usage = $1; next}
		$1 == (version == 1 ? "total_cache" : "file") {cache = $2}
		$1 == (version == 1 ? "total_shmem" : "shmem") {shmem = $2}
		END {printf "%d\n", usage - cache + shmem}' \
		"$group/memory.$([ $version = 1 ] && echo usage_in_bytes || echo current)" "$group/memory.stat"
}
start_churn() { # arguments
	rm -f "$work/in"
	mkfifo "$work/in"
	"$BUILD/tests/apps/churn" wait "$@" <"$work/in" >"$work/churn" &
	target=$!
	sleep 10000 >"$work/in" &
	keeper=$!
	while ! grep -q ready "$work/churn"; do sleep 0.05; done
}
end_churn() {
	kill "$keeper"
	wait "$keeper" ${target:+"$target"} 2>/dev/null
	target= keeper=
}
done_by_churn() { tr ' ' '\n' <"$work/churn" | sed -n "s/^$1=//p"; }
record() { # file, arguments; within the group
	local file=$1; shift
	(echo "$BASHPID" >"$group/cgroup.procs"
		exec "$BUILD/jankscope" record -q -p "$target" -o "$file" "$@") 2>"$work/stderr" &
	record=$!
	while [ ! -s "$file" ] && kill -0 $record 2>/dev/null; do sleep 0.1; done
}
without_group() { # name
	if has_controller; then
		echo "not ok - $1: no memory cgroup could be made"
	else
		echo "ok - $1 # SKIP this kernel counts no memory by cgroup (/proc/cgroups)"
	fi
}

# The target itself makes the threads, so each of them would be a row.
small_cgroup() {
	local name="24 MiB, one target, 16,000 threads and 1,000 flows a second" status
	local seconds=${SMALL_CGROUP_SECONDS:-$([ -n "${FULL:-}" ] && echo 125 || echo 30)}
	make_group || { without_group "$name"; return; }
	limit $((24 << 20))
	start_churn threads=16000 flows=1000 blocks=2 length_ms=50 seconds="$seconds"
	record "$work/small.jsonl" --block 20ms --max-lost 100
	echo go >"$work/in"
	wait "$target"
	target=
	sleep 2
	kill -INT $record 2>/dev/null
	wait $record
	status=$?
	kill "$keeper"; wait "$keeper" 2>/dev/null; keeper=
	echo "# churn: $(tail -1 "$work/churn")"
	echo "# oom kills $(kills), peak $(cat "$group"/memory.max_usage_in_bytes "$group"/memory.peak 2>/dev/null) bytes"
	if [ "$(kills)" = 0 ] && [ $status = 0 ]; then
		echo "ok - $name: lives for $seconds s"
	else
		echo "not ok - $name: exit status $status, $(kills) processes killed"
		head -5 "$work/stderr" | sed 's/^/# /'
		rmdir "$group"; group=
		return
	fi
	rmdir "$group"; group=
	"$BUILD/jankscope" report "$work/small.jsonl" --folded "$work/folded" 2>"$work/report"
	status=$?
	if [ $status = 0 ]; then
		echo "ok - 24 MiB: each line of the recording is whole"
	else
		echo "not ok - 24 MiB: report says $status: $(head -1 "$work/report")"
	fi
	# Nothing is missing without a word: the target's rows have all of its threads and of its CPU
	# time, folded or not. A thread that lives across the end of an interval ran in both. The process
	# clock misses what a thread runs after __exit_signal() took its sum, about a microsecond.
	jq -s -r --argjson made "$(done_by_churn threads)" --argjson cpu "$(done_by_churn cpu_ns)" \
		--argjson load "$(cut -d' ' -f1 /proc/loadavg)" '
		[.[] | select(.type == "interval")] as $all
		| ($all | length) as $n
		| ([$all[].cpu.processes[].threads] | add) as $threads
		| ([$all[].cpu.processes[].cpu_ns] | add) as $cpu_ns
		| ([$all[].lost.cpu_tasks_folded // 0] | add) as $folded
		| (.[-1].lost.records_dropped // 0) as $dropped
		| "# \($n) intervals, threads \($made) made \($threads) told, CPU ns \($cpu) used \($cpu_ns) told, folded \($folded), records dropped \($dropped)",
		  (if $dropped > 0 and $load < 4 then "not ok - 24 MiB: \($dropped) records were dropped on a machine that is not busy (load \($load))"
		   elif $dropped > 0 then "ok - 24 MiB: threads and time # SKIP \($dropped) records were dropped, and counted: the disk is busy"
		   elif $threads >= $made and $threads <= $made + 12 * $n then "ok - 24 MiB: all threads are told"
		   else "not ok - 24 MiB: \($made) threads made, \($threads) told" end),
		  (if $dropped > 0 then empty
		   elif $cpu_ns >= $cpu - 20000000 and $cpu_ns <= $cpu + 5000 * $made + 20000000 then "ok - 24 MiB: all CPU time is told"
		   else "not ok - 24 MiB: \($cpu) ns used, \($cpu_ns) told" end)' "$work/small.jsonl"
	if [ "$(($(done_by_churn threads) / seconds))" -ge 8000 ]; then
		echo "ok - 24 MiB: $(($(done_by_churn threads) / seconds)) threads a second"
	else
		echo "ok - 24 MiB: the rate # SKIP the machine made $(($(done_by_churn threads) / seconds)) threads a second beside its load of $(cut -d' ' -f1 /proc/loadavg)"
	fi
}

# What does not fit costs what it is about, and is counted; the recorder goes on.
odd_load() { # name, churn's arguments; then $work/odd.jsonl and what churn did are there
	local name=$1 status; shift
	make_group || { without_group "$name"; return 1; }
	limit $((24 << 20))
	start_churn "$@" seconds=15
	# The one of the load before has intervals already, and stays until this one has its header.
	rm -f "$work/odd.jsonl"
	record "$work/odd.jsonl" --overwrite --block 20ms --max-lost 100
	# The header is written before the first interval begins; what happens between the two is in none.
	while ! grep -q '"type":"interval"' "$work/odd.jsonl" && kill -0 $record 2>/dev/null; do sleep 0.1; done
	echo go >"$work/in"
	wait "$target"
	target=
	sleep 1
	kill -INT $record 2>/dev/null
	wait $record
	status=$?
	kill "$keeper"; wait "$keeper" 2>/dev/null; keeper=
	echo "# churn: $(tail -1 "$work/churn")"
	killed=$(kills)
	echo "# $(tail -1 "$work/odd.jsonl" | jq -c .lost), oom kills $killed"
	rmdir "$group"; group=
	if [ $status = 0 ] && "$BUILD/jankscope" report "$work/odd.jsonl" --folded "$work/folded" 2>"$work/report"; then
		echo "ok - $name: the recording is whole"
		return 0
	fi
	echo "not ok - $name: exit status $status"
	head -5 "$work/stderr" "$work/report" | sed 's/^/# /'
	return 1
}
odd_loads() {
	if odd_load "24 MiB, a target of 65,000 mappings" maps=65000 memfds=4 blocks=8 length_ms=60; then
		# The mappings of a target cost what they cost, not the helpers their lives.
		if [ "$killed" = 0 ]; then
			echo "ok - 65,000 mappings: no process is killed for want of memory"
		else
			echo "not ok - 65,000 mappings: $killed processes were killed for want of memory"
		fi
		# Each block of churn is told, with its stack, with one that came later, or as one without.
		jq -s -r --argjson made "$(done_by_churn blocks)" '
			[.[] | select(.type == "block" and .state == "closed")] as $all | .[-1].lost as $lost
			| ([.[] | select(.type == "stack") | {key: (.of | tostring), value: 1}] | from_entries) as $later
			| ([$all[] | select((.stacks | length > 0) or $later[.seq | tostring])] | length) as $stacks
			| "# \($made) blocks made, \($all | length) told, \($stacks) with a stack",
			  (if ($all | length) >= $made - 1 then "ok" else "not ok" end) + " - 65,000 mappings: each block is told",
			  (if ($lost.blocks_without_stack // 0) + $stacks + 2 >= ($all | length)
			   then "ok" else "not ok" end) + " - 65,000 mappings: a block without a stack is counted",
			  (if $stacks * 2 >= ($all | length)
			   then "ok" else "not ok" end) + " - 65,000 mappings: most blocks have a stack"' "$work/odd.jsonl"
	fi
	if odd_load "24 MiB, 10,000 new flows a second" peers=10000; then
		# 32 bytes each, to a socket of a uid that nobody else has; the truth is what the kernel
		# counted as received. Others on this machine lose as well, so the sums of all losses may be
		# more than what is missing, and never less. The footer has what no interval has: a record
		# that was dropped after the last one began.
		jq -s -r --argjson sent "$(done_by_churn peers)" --argjson came "$(done_by_churn came_in)" \
			--argjson uid "$(done_by_churn peers_uid)" --argjson load "$(cut -d' ' -f1 /proc/loadavg)" '
			[.[] | select(.type == "interval")] as $all
			| ([$all[].net.uids[]? | select(.uid == $uid).rx_bytes] | add // 0) as $told
			| (.[-1].lost | (.net_lost_bytes // 0) + (.net_unresolved_bytes // 0)) as $lost
			| (.[-1].lost.records_dropped // 0) as $dropped
			| ([$all[].net.unattributed] | map(select(.)) | [(map(.rx_bytes) | add), (map(.forwarded.rx_bytes // 0) | add), (map(.kernel.rx_bytes // 0) | add), (map(.no_socket.rx_bytes // 0) | add)]) as $nobody
			| ($came * 32) as $in
			| "# received by no uid, of it forwarded, the kernel, no socket: \($nobody | join(", "))",
			  "# \($sent * 32) bytes sent, \($in) came in, \($told) told, \($lost) lost by its word (the whole machine), records dropped \($dropped)",
			  (if $dropped > 0 and $load < 4 then "not ok - flows: \($dropped) records were dropped on a machine that is not busy (load \($load))"
			   elif $dropped > 0 then "ok - flows: the sums # SKIP \($dropped) records were dropped, and counted: the disk is busy"
			   elif $told <= $in and $in - $told <= $lost then "ok - flows: what came in is told, or lost by its word"
			   else "not ok - flows: \($in) bytes came in, \($told) told, \($lost) lost" end)' "$work/odd.jsonl"
	fi
	odd_load "24 MiB, 600 processes a second with long names" procs=600 long
}

memory_bytes() {
	local name="self.memory_bytes is what the cgroup charges, within 10 % and 1 MiB" told seen
	make_group || { without_group "$name"; return; }
	start_churn threads=300 flows=100 blocks=2 length_ms=50
	record "$work/bytes.jsonl" --block 20ms --max-lost 100
	echo go >"$work/in"
	sleep 11
	for _ in 1 2 3 4 5 6 7 8 9; do charged; sleep 1; done | sort -n >"$work/charged"
	kill -INT $record
	wait $record || echo "not ok - $name: status $?"
	end_churn
	seen=$(sed -n 5p "$work/charged")
	told=$(jq -s '[.[] | select(.type == "interval") | .self.memory_bytes // empty] | .[10:19] | sort | .[length / 2 | floor] // 0' "$work/bytes.jsonl")
	rmdir "$group"; group=
	echo "# charged $seen, told $told"
	if [ $(((told > seen ? told - seen : seen - told))) -le $((seen / 10 + (1 << 20))) ]; then
		echo "ok - $name"
	else
		echo "not ok - $name: charged $seen, told $told"
	fi
}

# Processes that live long enough to be named, each with a comm of its own, as many as the row needs, and
# without an exec, of which this machine makes 100 a second beside other work. Always the same pids: the table of tids, which grows with them up to pid_max, stays out
# of it.
fork_storm() {
	local mode made n early late dead table name status
	if [ ! -w /proc/sys/kernel/ns_last_pid ]; then
		echo "ok - memory under a fork storm # SKIP no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)"
		return
	fi
	for mode in switch iter; do
		start_churn vforks=600 vforks_max=6000 same_pids=20000 seconds=60
		"$BUILD/jankscope" record -a -q -i 200ms --max-lost 100 --cpu $mode -o "$work/$mode.jsonl" 2>"$work/stderr" &
		record=$!
		while ! grep -qs '"type":"interval"' "$work/$mode.jsonl" && kill -0 $record 2>/dev/null; do sleep 0.1; done
		echo go >"$work/in"
		wait "$target"
		target=
		end_churn
		sleep 0.5
		kill -INT $record
		wait $record
		status=$?
		made=$(done_by_churn vforks)
		# What the table of tids takes for numbers that others used meanwhile (512 to a page of 36
		# KiB) is no leak: it ends with pid_max.
		jq -s -r '[.[] | select(.type == "interval" and .self.anon_bytes)] | length as $n |
			([.[($n / 3 | floor):($n / 2 | floor)][].self.anon_bytes] | max) as $early |
			([.[-($n / 6 | floor):][].self.anon_bytes] | max) as $late |
			(def pages: [.[].cpu.tasks[].tid / 512 | floor] | unique;
			 (pages - (.[:($n / 3 | floor)] | pages)) | length * 36880) as $table |
			([.[].cpu.tasks[] | select(.exited and (.thread // "" | test("^v0[0-9a-f]{13}$")))] | length) as $dead |
			"\($n) \($early) \($late) \($dead) \($table)"' "$work/$mode.jsonl" >"$work/figures"
		read -r n early late dead table <"$work/figures"
		echo "# --cpu $mode: $n intervals, $(tail -1 "$work/churn")"
		echo "# $dead of $made told, anonymous memory $early then $late bytes, new tids $table"
		name="--cpu $mode: the recorder ends as it should beside a fork storm"
		if [ $status = 0 ] && [ "$(tail -1 "$work/$mode.jsonl" | jq -r .type)" = footer ]; then
			echo "ok - $name"
		else
			echo "not ok - $name: status $status, $(head -1 "$work/stderr")"
		fi
		name="--cpu $mode: memory does not grow with processes that came and went"
		# A name costs some 130 bytes: half of 4,000 of them stand out from the heap's own unrest.
		if [ "$made" -lt 4000 ]; then
			echo "ok - $name # SKIP the machine made only $made processes in 60 s beside its load of $(cut -d' ' -f1 /proc/loadavg)"
		elif [ "$late" -le $((early + table + 300 * 1024)) ]; then
			echo "ok - $name"
		else
			echo "not ok - $name: $early then $late bytes"
		fi
	done
}

for part in $parts; do
	$part
done
