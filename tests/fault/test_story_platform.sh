#!/usr/bin/env bash
# A platform engineer's day, step by step (story 1 of users-and-reliability.md §7): "why does scrolling stutter since
# yesterday's build?" Behind Debian's adb client and a stand-in for adbd (tests/apps/adbd.c): doctor, two runs of an app
# on the real android::Looper, whose frames come from a stand-in for perfetto (a trace of frames of known fate), the
# report, its exports in other programs, the rule that fails, and a cable that is pulled. Prints TAP.
# Runs beside others (30 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - story 1 # SKIP needs root"; exit 0; fi
for needed in adb ip; do command -v $needed >/dev/null || { echo "ok - story 1 # SKIP no $needed"; exit 0; }; done
# A network of its own: the shells of this adbd are root's, and its port is nobody else's. So is /run.
if [ "${INSIDE:-}" != 1 ]; then INSIDE=1 exec unshare -nm "$0"; fi
ip link set lo up && mount -t tmpfs none /run || { echo "not ok - story 1: no network of its own"; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) app= daemon=
cd "$work" || exit 1
export HOME=$work ANDROID_ADB_SERVER_PORT=6038 ADB_MDNS=0 FAKE_LOG=$work/perfetto.log FAKE_TRACE=$work/trace.pb
unset ANDROID_SERIAL ADB_SERVER_SOCKET
# shellcheck disable=SC2086
trap 'adb kill-server >/dev/null 2>&1; kill $daemon $app 2>/dev/null; cd /; rm -rf "$work"' EXIT
say() { if [ "$1" = 0 ]; then echo "ok - story 1: $2"; else echo "not ok - story 1: $2"; for f in "${@:3}"; do sed 's/^/# |/' "$f" | tail -30; done; fi; }
device() { adb -s 127.0.0.1:5555 "$@"; }
mkdir phone bin
cp "$here/../trace/fake_perfetto.sh" bin/perfetto && chmod +x bin/perfetto
js=$work/phone/jankscope

# The app, whose main thread blocks when it is told to, and says how long each block took.
mkfifo commands
[ -x "$BUILD/tests/apps/looper" ] || make -s -C "$here/../.." "build/tests/apps/looper" >/dev/null 2>&1
if [ ! -x "$BUILD/tests/apps/looper" ]; then
	echo "ok - story 1: # SKIP NO android::Looper HERE: apt-get install android-libutils-dev"; exit 0
fi
# Another run of the tests on this machine has an app of its own.
package=com.example.app$$
export STORY_APP=$package
(exec -a $package "$BUILD/tests/apps/looper" <commands >>truth 2>/dev/null) & app=$!
exec 9>commands
for _ in $(seq 100); do grep -q ready truth && break; sleep 0.1; done
python3 "$here/story_frames.py" make "$app" yesterday.pb today.pb frames.json >err 2>&1 || say 1 "traces are made" err
: >/run/adbd.5555
"$BUILD/tests/apps/adbd" 5555 root "$work/bin" & daemon=$!
for _ in $(seq 50); do adb connect 127.0.0.1:5555 >out 2>&1; grep -q '^connected' out && break; sleep 0.2; done

# $ adb root && adb push jankscope ... && adb shell jankscope doctor
device root >out 2>&1; for _ in $(seq 50); do adb connect 127.0.0.1:5555 >>out 2>&1; [ "$(device get-state 2>/dev/null)" = device ] && break; sleep 0.2; done
[ "$(device shell id -u)" = 0 ]; say $? "adb root" out
device push "$BUILD/jankscope" "$js" >out 2>&1 && device shell chmod 755 "$js"; say $? "adb push" out
device shell "$js doctor" >doctor 2>err; code=$?
[ $code = 0 ] && grep -q '^record: everything that exact numbers need is here' doctor; say $? "doctor: this device measures exactly (exit $code)" doctor err

# $ adb shell jankscope record -p com.example.app -d 30s -i 1s --block 100ms -o r1
record() { # FOLDER TRACE BLOCKS...: a run; the app blocks as it is told
	local folder=$1 recorder code block; cp "$2" trace.pb; shift 2
	device shell "$js record -p $package -d 7s -i 1s --block 100ms --frames perfetto -o $work/phone/$folder/" >"$folder.out" 2>"$folder.err" </dev/null & recorder=$!
	for _ in $(seq 100); do grep -q 'target_start' "$folder.out" && break; sleep 0.1; done
	: >truth
	for block in "$@"; do echo "$block" >&9; sleep 0.8; done
	wait $recorder; code=$?
	grep -v '^ready' truth >"$folder.truth"
	[ $code = 0 ]; say $? "record of $folder ends with 0 behind adb shell" "$folder.err" "$folder.out"
	device pull "$work/phone/$folder/00000001.jsonl" "$folder.jsonl" >out 2>&1; say $? "adb pull of $folder" out
}
record r0 yesterday.pb
record r1 today.pb "sleep 130" "cpu 150" "lock 412" "sleep 120"
sed -n '/^summary:/,$p' r1.out | tail -n +2 | grep -qv '^ ' ; [ $? = 1 ] && grep -q '^summary: 7 intervals' r1.out
say $? "what adb shell prints last is the summary" r1.out
python3 "$here/story_frames.py" judge frames.json r1.jsonl r1.truth >bad 2>&1; say $? "frames, late ones, percentiles of the intervals and blocks are the truth" bad

# $ adb shell jankscope report r1
device shell "$js report $work/phone/r1" >report 2>err; code=$?
diff <(sed -n '/^summary:/,$p' r1.out) <(sed -n '/^summary:/,$p' report) >bad; [ $? = 0 ] && [ $code = 0 ]; say $? "report says what the run said (exit $code)" bad err
for words in 'frames: [0-9]* shown, [0-9]* janky' 'by FrameTimeline: app 12, dropped 44' 'blocks: 4, ' 'wait_lock < run' 'looper of com.example.app' \
	'net: rx ' 'PSS mean' 'self: .* ms CPU .* 0 stops' '\(lost: none\|LOST: \)'; do
	grep -q -- "$words" report || { say 1 "the report tells: $words" report; words=; break; }
done
[ -z "$words" ] || say 0 "the report tells threads, frames and their causes, blocks with their stacks, bytes, memory, its own cost, losses"

# $ adb exec-out jankscope report r1 --perfetto - >r1.pftrace; --pprof - >blocks.pb.gz && pprof -top blocks.pb.gz
device exec-out "$js report $work/phone/r1 --perfetto -" >r1.pftrace && [ -s r1.pftrace ]; say $? "the Perfetto trace through exec-out"
if command -v protoc >/dev/null; then
	protoc --decode_raw <r1.pftrace >decoded && python3 "$here/profiles.py" perfetto r1.jsonl decoded >bad 2>&1; say $? "the Perfetto trace has the sums of the records" bad
else
	echo "ok - story 1: the Perfetto trace # SKIP no protoc"
fi
device exec-out "$js report $work/phone/r1 --pprof -" >blocks.pb.gz && [ -s blocks.pb.gz ]; say $? "the profile through exec-out"
if command -v go >/dev/null && go tool -n pprof >/dev/null 2>&1; then
	PPROF_TMPDIR=$work go tool pprof -symbolize=none -top blocks.pb.gz >top 2>err
	grep -m1 -A99 'flat%' top | sed -n 2p | grep -q 'sleep_ns\|wait_lock\|pthread\|libc\|nanosleep\|futex'; say $? "pprof -top begins with what blocked longest" top err
	grep -q 'wait_lock' top; say $? "and has the function that waited for the lock" top
else
	echo "ok - story 1: pprof -top # SKIP no go with pprof"
fi

# $ jankscope report r1 --baseline r0 --fail-if 'jank_pct > base + 1'; echo $?
"$BUILD/jankscope" report r1.jsonl --baseline r0.jsonl --fail-if 'frames.jank_pct > base + 1' >out 2>err; code=$?
[ $code = 10 ] && grep -q '^jankscope: fail: r1.jsonl: frames.jank_pct is 5[.][0-9]*, > 1 (base 0 + 1)$' err; say $? "the rule fails with 10 (exit $code), and says by how much" err
"$BUILD/jankscope" report r0.jsonl --baseline r1.jsonl --fail-if 'frames.jank_pct > base + 1' >out 2>err; code=$?
[ $code = 0 ]; say $? "the other way round it does not (exit $code)" err
"$BUILD/jankscope" report r1.jsonl --baseline r0.jsonl >out 2>err; code=$?
[ $code = 0 ] && grep -q '^janky frames, % ' out && grep -qE '^ .*wait_lock' out; say $? "the comparison tells the jank and which stack blocked more" out err
pct=$(jq -r 'select(.type == "footer").summary.frames.jank_pct' r1.jsonl)
grep -q "^janky frames, %  *0.000  *$(printf %.3f "$pct") " out; say $? "with the percentage of the summary ($pct)" out
head -n -1 r1.jsonl >torn.jsonl
got=$("$BUILD/jankscope" report torn.jsonl --csv - 2>err | grep ',summary.frames.jank_pct,' | cut -d, -f14 | tr -d '\r')
[ "$(printf %.9f "$got")" = "$(printf %.9f "$pct")" ]; say $? "a run without its footer has the same percentage ($got)" err
"$BUILD/jankscope" report r1.jsonl --hourly >hourly 2>err; grep -qE "^[-0-9]+ [0-9:]+Z .* $(printf %.1f "$pct") " hourly; say $? "and an hour of it" hourly

# ---- the cable is pulled in mid-run: adbd sends SIGHUP to the shell, in whose place the recorder is (dash would
# fork it) ----
device shell "exec $js record -p $package -d 60s -i 1s -o $work/phone/r2.jsonl" >r2.out 2>&1 </dev/null & client=$!
for _ in $(seq 200); do [ "$(grep -c '"type":"interval"' phone/r2.jsonl 2>/dev/null || :)" -ge 2 ] 2>/dev/null && break; sleep 0.1; done
adb kill-server >/dev/null 2>&1; wait $client
for _ in $(seq 100); do tail -1 phone/r2.jsonl | grep -q '"type":"footer"' && break; sleep 0.1; done
"$BUILD/jankscope" verify phone/r2.jsonl >verify 2>&1 && tail -1 phone/r2.jsonl | grep -q '"type":"footer"'; say $? "the cable is pulled: the file is whole, footer and all" verify
[ "$(awk '/^State/ {print $2}' "/proc/$app/status")" != T ]; say $? "and the app is not left stopped"
