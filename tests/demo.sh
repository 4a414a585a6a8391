#!/usr/bin/env bash
# The demo: a program that knows what it does runs under `jankscope record`; truth and measurement
# are printed side by side. Exits 0 only if every row passes.  usage: demo.sh BUILD [SECONDS]
set -u
build=$1 seconds=${2:-10}
work=$build/demo
here=js-demo-$$
peer=js-peer-$$
address=192.0.2.2 # TEST-NET-1, inside two namespaces of our own
mkdir -p "$work"
rm -f "$work"/*.json*
if [ "$(id -u)" != 0 ]; then
	echo "demo: loading BPF programs needs root: sudo make demo" >&2
	exit 5
fi
peer_pid= record_pid=
cleanup() {
	[ -n "$record_pid" ] && kill -INT "$record_pid" 2>/dev/null
	[ -n "$peer_pid" ] && kill "$peer_pid" 2>/dev/null
	wait 2>/dev/null
	ip netns del "$here" 2>/dev/null
	ip netns del "$peer" 2>/dev/null
}
trap cleanup EXIT
{
	ip netns add "$here" && ip netns add "$peer" &&
		ip link add demo0 netns "$here" type veth peer name demo1 netns "$peer" &&
		ip -n "$here" addr add 192.0.2.1/24 dev demo0 && ip -n "$here" link set demo0 up &&
		ip -n "$peer" addr add $address/24 dev demo1 && ip -n "$peer" link set demo1 up &&
		ip -n "$here" link set lo up
} || { echo "demo: cannot make network namespaces" >&2; exit 1; }
ip netns exec "$peer" "$build/tests/apps/demo" --peer $address &
peer_pid=$!

"$build/jankscope" record -a -i 1s --cpu switch --net hooks -o "$work/record.jsonl" >"$work/table.txt" &
record_pid=$!
for _ in $(seq 100); do
	grep -qs '"event":"start"' "$work/record.jsonl" && break
	sleep 0.1
done
sleep 0.5
steal_ticks() { awk '/^cpu /{print $9}' /proc/stat; } # what a hypervisor took is neither busy nor idle
steal=$(steal_ticks)
echo "demo: $seconds s of known load under jankscope record ..."
ip netns exec "$here" "$build/tests/apps/demo" "$seconds" "$work/truth.json" $address || exit 1
sleep 0.5
kill -INT "$record_pid"
wait "$record_pid"
status=$?
record_pid=
tail -n +3 "$work/table.txt" | awk '/ busy /{n++} n==6' | head -24
steal=$((($(steal_ticks) - steal) * 10))
[ $status = 0 ] || { echo "demo: jankscope record ended with $status" >&2; exit 1; }

# Rows: name, truth, measured, limit in percent, unit.
jq -rn --argjson steal_ms "$steal" --slurpfile truth "$work/truth.json" --slurpfile records "$work/record.jsonl" '
	$truth[0] as $t | [$records[] | select(.type == "interval")] as $i |
	[$i[].cpu.tasks[] | select(.pid == $t.pid)] as $tasks |
	def sum(f): map(f) | add // 0;
	($t.threads[] as $thread |
		["CPU of \($thread.name)", $thread.cpu_ns / 1e6,
		 ([$tasks[] | select(.tid == $thread.tid)] | sum(.cpu_ns)) / 1e6, 1, "ms"]),
	(([$t.threads[].tid]) as $known |
		([$tasks[] | select(.tid as $tid | $known | index($tid) | not)]) as $short |
		["CPU of short threads", $t.short.cpu_ns / 1e6, ($short | sum(.cpu_ns)) / 1e6, 3, "ms"],
		["short threads", $t.short.threads, ($short | map(select(.exited)) | length), 0, ""]),
	($t.uids[] as $u | [$i[].net.uids[] | select(.uid == $u.uid)] as $rows |
		["sent by uid \($u.uid)", $u.tx_bytes, ($rows | sum(.tx_bytes)),
		 (if $u.uid == 10124 then 0 else 0.1 end), "B"],
		["received by uid \($u.uid)", $u.rx_bytes, ($rows | sum(.rx_bytes)),
		 (if $u.uid == 10124 then 0 else 0.1 end), "B"]),
	["busy + idle of all CPUs", ($i | sum(.cpu.online_cpus * .dur_ns)) / 1e6 - $steal_ms,
	 ($i | sum(.cpu.busy_ns + .cpu.idle_ns)) / 1e6, 1, "ms"],
	["sum of tasks", ($i | sum(.cpu.busy_ns)) / 1e6,
	 ($i | sum((.cpu.tasks | map(.cpu_ns) | add // 0) + .cpu.other_ns + .cpu.overflow_ns)) / 1e6,
	 0, "ms"]
	| @tsv' >"$work/rows.tsv" || exit 1
awk -F'\t' '
	BEGIN { printf "\n%-26s %16s %16s %9s %8s\n", "", "truth", "measured", "error", "limit" }
	{
		error = $2 ? 100 * ($3 - $2) / $2 : ($3 ? 100 : 0)
		# Sums of floats: equal means equal to nine digits.
		pass = (error < 0 ? -error : error) <= $4 + 1e-7
		format = $5 == "ms" ? "%.3f" : "%d"
		printf "%-26s %13s %-2s %13s %-2s %8.3f%% %7s%%  %s\n", $1, sprintf(format, $2), $5,
			sprintf(format, $3), $5, error, $4, pass ? "PASS" : "FAIL"
		rows++; bad += !pass
	}
	END {
		print rows && !bad ? "\nPASS" : "\nFAIL"
		exit rows && !bad ? 0 : 1
	}' "$work/rows.tsv"
