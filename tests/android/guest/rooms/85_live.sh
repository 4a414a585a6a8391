# --frames live changes the trace settings of the device, and puts them back, also when it is killed.
trace=/sys/kernel/tracing
settings() { echo "$(getprop debug.atrace.tags.enableflags | sed 's/^$/none/') $(cat $trace/tracing_on)"; }
until_settings() { # WANTED SECONDS
	local i=0
	while [ "$(settings)" != "$1" ] && [ $i -lt $(($2 * 10)) ]; do i=$((i + 1)); sleep 0.1; done
	[ "$(settings)" = "$1" ]
}
setprop debug.atrace.tags.enableflags 0
before=$(settings)
record live --frames live -d 4s -i 2s &
recorder=$!
i=0
while [ "$(settings)" = "$before" ] && [ $i -lt 60 ]; do i=$((i + 1)); sleep 0.1; done
note "live: $before, meanwhile $(settings)"
[ "$(settings)" != "$before" ]
ok $? "live: the settings are set meanwhile" "$(settings)"
wait $recorder
ok $? "live: record ends with 0" "$(tail -1 /tmp/live.err)"
[ "$(settings)" = "$before" ]
ok $? "live: the settings are as they were" "$(settings), $before"

$js record --frames live -d 20s -q --overwrite -o /tmp/killed.jsonl 2>/tmp/killed.err &
recorder=$!
i=0
while [ "$(settings)" = "$before" ] && [ $i -lt 60 ]; do i=$((i + 1)); sleep 0.1; done
[ "$(settings)" != "$before" ]
ok $? "live: set again" "$(settings)"
kill -KILL $recorder
wait $recorder 2>/dev/null
begin=$(now)
until_settings "$before" 5
ok $? "live: as they were after SIGKILL of the recorder" "$(settings), $before"
note "live: put back $(awk -v a="$begin" -v b="$(now)" 'BEGIN { print b - a }') s after SIGKILL"

if [ -x /system/bin/atrace ]; then
	atrace --async_start gfx sched >/tmp/atrace.log 2>&1
	note "atrace: $(tail -1 /tmp/atrace.log)"
	theirs=$(settings)
	$js record --frames live -d 2s -q --overwrite -o /tmp/refused.jsonl 2>/tmp/refused.err
	rc=$?
	note "live beside atrace: exit $rc, $(tail -1 /tmp/refused.err)"
	[ $rc = 5 ]
	ok $? "live: refuses while atrace runs" "exit $rc"
	[ "$(settings)" = "$theirs" ]
	ok $? "live: atrace's settings are left alone" "$(settings), $theirs"
	atrace --async_stop >/tmp/atrace.txt 2>&1
	grep -q sched_switch /tmp/atrace.txt
	ok $? "live: atrace has its trace" "$(wc -c </tmp/atrace.txt) bytes"
fi
