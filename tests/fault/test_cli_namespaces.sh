#!/usr/bin/env bash
# In a pid namespace the kernel's task ids are not those that /proc shows, and in a time namespace with
# offsets its clocks are not ours: a time namespace is left. Where that is not permitted, and in a pid
# namespace, BPF is not used, and the run says so.
# Runs beside others (10 s)
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
js=$BUILD/jankscope
result() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; sed 's/^/# err: /' err; fi; }

for kind in pid time; do
	inside="unshare -pf --mount-proc"
	[ $kind = time ] && inside="unshare -T --boottime 1000 setpriv --bounding-set -sys_time"
	if ! $inside true 2>/dev/null; then
		echo "ok - in a $kind namespace # SKIP unshare cannot make one"
		continue
	fi
	rm -f inside.jsonl
	$inside "$js" record -q -d 300ms --net off --max-lost 100 -o inside.jsonl 2>err
	[ $? = 0 ] && grep -q "^jankscope: warn: cpu is degraded (proc): in a $kind namespace" err
	result $? "in a $kind namespace: degraded, and why"
	[ "$(tail -1 inside.jsonl | jq '(.missing | has("cpu.tasks_exited")) and
		(.summary | tostring | test("tasks_exited") | not)')" = true ]
	result $? "in a $kind namespace: what /proc cannot tell is missing, not 0"
	$inside "$js" doctor >table 2>err
	[ $? = 5 ] && grep -q "^  NO   namespaces  *in a $kind namespace" table && grep -q "^jankscope: error: namespaces: in a $kind namespace" err
	result $? "in a $kind namespace: doctor says so, and ends with 5"
	$inside "$js" doctor --json 2>err | jq -e --arg kind $kind '.usable == false and (.features[] |
		select(.name == "namespaces") | .ok == false and (.detail | contains("in a " + $kind + " namespace")))' >out
	result $? "in a $kind namespace: doctor --json says so"
	rm -f forced.jsonl
	$inside timeout 20 "$js" record -q --cpu switch -o forced.jsonl 2>err
	[ $? = 5 ] && [ ! -e forced.jsonl ] && grep -q "^jankscope: error: in a $kind namespace" err
	result $? "in a $kind namespace, with hooks forced: refused, nothing written"
done

inside="unshare -T --boottime 1000"
if $inside true 2>/dev/null; then
	rm -f left.jsonl
	$inside "$js" record -q -d 300ms --net off --max-lost 100 -o left.jsonl 2>err
	status=$?
	read -r up _ </proc/uptime
	boot=$(head -1 left.jsonl | jq '.clock.boot_ns / 1e9 | floor')
	[ $status = 0 ] && ! grep -q degraded err && [ $((${up%.*} - boot)) -ge 0 ] && [ $((${up%.*} - boot)) -lt 100 ]
	result $? "a time namespace is left: all sources, and times of the machine ($boot of $up s)"
	"$js" doctor >table 2>err; outside=$?
	$inside "$js" doctor >table 2>err
	[ $? = $outside ] && grep -q "^  ok   namespaces" table
	result $? "a time namespace is left by doctor as well"
fi
