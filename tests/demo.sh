#!/usr/bin/env bash
# The demo: programs that know what they do run under `jankscope record`, and a trace of known frames
# goes through `jankscope frames`. Truth and measurement are printed side by side. Exits 0 only if each
# row is right.  usage: demo.sh BUILD [SECONDS]
set -u
cd "$(dirname "$0")/.."
build=$1 seconds=${2:-10}
jankscope=$build/jankscope
work=$build/demo
here=js-demo-$$
peer=js-peer-$$
address=192.0.2.2 # TEST-NET-1, inside two namespaces of our own
mkdir -p "$work"
rm -f "$work"/*
if [ "$(id -u)" != 0 ]; then
	echo "demo: loading BPF programs needs root: sudo make demo" >&2
	exit 5
fi
peer_pid= app_pid= device_record_pid= app_record_pid= app_stdin=
cleanup() {
	for pid in $device_record_pid $app_record_pid; do kill -INT "$pid" 2>/dev/null; done
	for pid in $peer_pid $app_pid; do kill "$pid" 2>/dev/null; done
	wait 2>/dev/null
	ip netns del "$here" 2>/dev/null
	ip netns del "$peer" 2>/dev/null
}
trap cleanup EXIT
give_up() { echo "demo: $1" >&2; exit 1; }
wait_for() { # words file process: until the file has the words, 20 s at most
	for _ in $(seq 200); do
		grep -qs "$1" "$2" && return
		kill -0 "$3" 2>/dev/null || return 1
		sleep 0.1
	done
	return 1
}

{
	ip netns add "$here" && ip netns add "$peer" &&
		ip link add demo0 netns "$here" type veth peer name demo1 netns "$peer" &&
		ip -n "$here" addr add 192.0.2.1/24 dev demo0 && ip -n "$here" link set demo0 up &&
		ip -n "$peer" addr add $address/24 dev demo1 && ip -n "$peer" link set demo1 up &&
		ip -n "$here" link set lo up
} || give_up "cannot make network namespaces"
ip netns exec "$peer" "$build/tests/apps/demo" --peer $address &
peer_pid=$!

# The app with the slow main thread, at an app's priority in front, waits for a byte on its stdin, which is a pipe of this script's.
mkfifo "$work/go"
(renice -n -10 -p $BASHPID >/dev/null; exec -a demo_blocks "$build/tests/apps/demo_blocks" 2 "$work/blocks.json" <"$work/go" >"$work/app.out") &
app_pid=$!
exec {app_stdin}>"$work/go"
wait_for ready "$work/app.out" $app_pid || give_up "the app did not start"

# Short intervals: of one in which more than 2,048 tasks end, the rest have no rows of their own.
"$jankscope" record -a -i 100ms --cpu switch --net hooks -o "$work/device.jsonl" >"$work/device.txt" &
device_record_pid=$!
"$jankscope" record -p $app_pid --block 200ms -o "$work/app.jsonl" >"$work/app.txt" &
app_record_pid=$!
wait_for '"event":"start"' "$work/device.jsonl" $device_record_pid && wait_for '"event":"target_start"' "$work/app.jsonl" $app_record_pid ||
	give_up "jankscope record did not start: jankscope doctor says what is missing"
sleep 0.5

cat <<TEXT
Two programs with a known load run for $seconds s, beside

  jankscope record -a -i 100ms --cpu switch  the whole device
  jankscope record -p $app_pid --block 200ms    one app, with the stacks of its long blocks

TEXT
echo go >&$app_stdin
ip netns exec "$here" "$build/tests/apps/demo" "$seconds" "$work/load.json" $address || exit 1
wait_for '"blocks"' "$work/blocks.json" $app_pid || give_up "the app did not end its messages"
sleep 0.5
kill -INT $device_record_pid $app_record_pid
wait $device_record_pid; device_status=$?
wait $app_record_pid; app_status=$?
device_record_pid= app_record_pid=
[ $device_status$app_status = 00 ] || give_up "jankscope record ended with $device_status and $app_status"

echo "What the second one printed of three of the app's blocks:"
echo
# A block is told twice: at the threshold ("so far"), and when it ended.
awk '/  BLOCK / { shown = !/so far/ } shown && (/  BLOCK / || /^    [^ ]/) { print }' "$work/app.txt" | head -6
echo
python3 tests/trace/make_traces.py --demo "$work" || give_up "the trace could not be made"
"$jankscope" frames --json "$work/demo.pb" >"$work/frames.json" || give_up "jankscope frames ended with $?"
python3 tests/demo_table.py "$work"
