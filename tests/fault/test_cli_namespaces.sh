#!/usr/bin/env bash
# In a pid namespace, or a time namespace with offsets, the kernel's task ids and clocks are not
# those that /proc shows: BPF is not used there, and the run says so.
# Runs beside others (10 s)
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
js=$BUILD/jankscope
result() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; sed 's/^/# err: /' err; fi; }

for kind in pid time; do
	inside="unshare -pf --mount-proc"
	[ $kind = time ] && inside="unshare -T --boottime 1000"
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
	$inside "$js" record -q --cpu switch -o forced.jsonl 2>err
	[ $? = 5 ] && [ ! -e forced.jsonl ] && grep -q "^jankscope: error: in a $kind namespace" err
	result $? "in a $kind namespace, with hooks forced: refused, nothing written"
done
