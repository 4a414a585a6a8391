#!/usr/bin/env bash
# The host's part of room 95_adbd: Debian's adb client against the image's own adbd. What the user of a
# device does, and a client that goes away in the middle of a recording. Prints TAP.
# usage: adb.sh MONITOR OUT_DIR
# MONITOR: QEMU's, a socket; it knows which port of 127.0.0.1 leads to the guest. Files of OUT_DIR/adb,
# which the guest sees too: key.pub and done (of this script), ready (of the guest), over (there is no
# guest any more).
set -u
cd "$(dirname "$0")/../.."
monitor=$1 out=$2/adb
at=/data/local/tmp
work=$(mktemp -d)
mkdir -p "$out"
# The client's server listens on a socket in a folder of ours, looks for no emulator and asks nobody on the
# network.
export HOME=$work TMPDIR=$work ADB_SERVER_SOCKET=localfilesystem:$work/server ADB_LOCAL_TRANSPORT_MAX_PORT=1 ADB_MDNS=0
ask() { timeout 60 adb "$@" </dev/null; }
trap 'ask kill-server >/dev/null 2>&1; touch "$out/done"; rm -rf "$work"' EXIT
failed=0
ok() { # STATUS NAME [DETAIL]
	if [ "$1" = 0 ]; then echo "ok - adbd: $2"; else echo "not ok - adbd: $2${3:+: $3}"; failed=1; fi
	return "$1"
}
mkdir -p "$work/.android"
ask keygen "$work/.android/adbkey" >/dev/null 2>&1 && cp "$work/.android/adbkey.pub" "$out/key.pub"

end=$((SECONDS + ${VM_TIMEOUT:-600}))
while [ ! -e "$out/ready" ] && [ ! -e "$out/over" ] && [ $SECONDS -lt $end ]; do sleep 0.2; done
[ -e "$out/ready" ] || exit 0 # the image has no adbd, or the room was not asked for
port=$(timeout 20 python3 - "$monitor" <<-'END'
	import re, socket, sys
	monitor = socket.socket(socket.AF_UNIX)
	monitor.connect(sys.argv[1])
	monitor.sendall(b"info usernet\n")
	text = b""
	while not (found := re.search(rb"HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", text)):
	    text += monitor.recv(4096) or sys.exit("the monitor says: " + repr(text))
	print(int(found[1]))
	END
)
ok $? "QEMU says which port leads to the guest" || exit 1
serial=127.0.0.1:$port
ask start-server >"$out/server.txt" 2>&1
ok $? "the client's server starts" "$(tail -1 "$out/server.txt")" || exit 1

# ---- what a user does
connect() {
	local i
	for i in $(seq 20); do
		ask connect "$serial" >"$out/connect.txt" 2>&1
		[ "$(ask -s "$serial" get-state 2>/dev/null)" = device ] && return
		sleep 0.5
	done
	return 1
}
connect
ok $? "adbd takes the client's key" "$(cat "$out/connect.txt")" || exit 1
printf '#!/bin/sh\nexec timeout 60 adb "$@"\n' >"$work/adb"
chmod 755 "$work/adb"
begin=$SECONDS
EMULATED=1 SECONDS_TO_RECORD=2 ADB=$work/adb timeout 200 tests/device/run.sh "$serial" "$out/run" >"$out/run.tap" 2>&1
ok $? "tests/device/run.sh ends with 0" "$(tail -1 "$out/run.tap")"
sed 's/^\(ok\|not ok\) - /\1 - adbd: run.sh: /' "$out/run.tap"
echo "# adbd: run.sh: $((SECONDS - begin)) s"
grep -q '^ok - root shell by: adbd' "$out/run.tap"
ok $? "root comes by adb root" "$(grep -m1 root "$out/run.tap")"

# ---- a client that goes away
intervals() { ask -s "$serial" shell "grep -c '\"type\":\"interval\"' $at/$1.jsonl" 2>/dev/null | tr -dc 0-9; }
cut_off() { # NAME OPTION SECONDS [BEFORE AFTER]: begin a recording in `adb shell OPTION`, wait for two intervals
	local i
	connect || ok 1 "$1: adbd is there again" "$(cat "$out/connect.txt")"
	# No timeout before it: it is the client that is to be killed.
	adb -s "$serial" shell "$2" \
		"${4:-} $at/jankscope-cut record -d $3s -i 500ms --max-lost 100 --overwrite -o $at/$1.jsonl ${5:-}" \
		</dev/null >"$out/$1.txt" 2>&1 &
	client=$!
	for i in $(seq 60); do
		[ "$(intervals "$1")" -ge 2 ] 2>/dev/null && break
		sleep 0.3
	done
	[ "$(intervals "$1")" -ge 2 ] 2>/dev/null && kill -0 $client 2>/dev/null
	ok $? "$1: a recording runs, and its client" "$(tail -1 "$out/$1.txt")"
}
client_ends() { # NAME
	local i
	for i in $(seq 100); do kill -0 $client 2>/dev/null || break; sleep 0.1; done
	! kill -0 $client 2>/dev/null
	ok $? "$1: the client ends" || kill -KILL $client
	wait $client 2>/dev/null
}
# The cable is pulled: adbd loses the whole connection. With or without a terminal (-tt, -T) the recorder
# has SIGHUP, from the kernel or from adbd, and the recording ends.
cut_off cut_disconnect -tt 120
ask disconnect "$serial" >/dev/null 2>&1
client_ends cut_disconnect
# The client dies, and the connection stays.
cut_off cut_killed -tt 120
kill -KILL $client
client_ends cut_killed
cut_off cut_raw -T 120
ask disconnect "$serial" >/dev/null 2>&1
client_ends cut_raw
# With nohup it goes on to its end, also where the pipe of its table breaks.
cut_off cut_nohup -tt 10 nohup '>/dev/null 2>&1'
ask disconnect "$serial" >/dev/null 2>&1
client_ends cut_nohup
cut_off cut_pipe -T 10 nohup
ask disconnect "$serial" >/dev/null 2>&1
client_ends cut_pipe
exit $failed
