# Main threads of other kinds: incidentd (android::Looper), traced_probes (poll), a shell (no loop).
if [ -x /system/bin/incidentd ]; then
	start incidentd
	running incidentd >/dev/null
	ok $? "incidentd: runs" "$(getprop init.svc.incidentd)"
	(while :; do timeout 5 incident -l; timeout 5 incident 1000 1001 3000 3001; done) >/tmp/incident.log 2>&1 &
	traffic=$!
	record incidentd -p incidentd --block 5ms -d 6s -i 2s
	ok $? "incidentd: record ends with 0" "$(tail -1 /tmp/incidentd.err)"
	kill $traffic
	wait $traffic 2>/dev/null
	head -3 /tmp/incident.log | sed 's/^/# incident: /'
else
	skip "incidentd" "the image has none"
fi
if [ -x /system/bin/traced_probes ]; then
	start traced
	start traced_probes
	running traced_probes >/dev/null
	ok $? "traced_probes: runs" "$(getprop init.svc.traced_probes)"
	cat >/tmp/probes.txt <<-'EOF'
	buffers { size_kb: 1024 }
	data_sources { config { name: "linux.process_stats" process_stats_config { scan_all_processes_on_start: true proc_stats_poll_ms: 200 } } }
	data_sources { config { name: "linux.sys_stats" sys_stats_config { meminfo_period_ms: 100 stat_period_ms: 100 } } }
	duration_ms: 3000
	EOF
	(while :; do perfetto --txt -c - -o /data/misc/perfetto-traces/probes </tmp/probes.txt; done) >/tmp/probes.log 2>&1 &
	traffic=$!
	record traced_probes -p traced_probes --block 5ms -d 6s -i 2s
	ok $? "traced_probes: record ends with 0" "$(tail -1 /tmp/traced_probes.err)"
	kill $traffic
	wait $traffic 2>/dev/null
	head -3 /tmp/probes.log | sed 's/^/# perfetto: /'
else
	skip "traced_probes" "the image has none"
fi
cat >/tmp/shell.sh <<'EOF'
while :; do toybox ls -l /system/etc | toybox wc >/dev/null; done
EOF
/system/bin/sh /tmp/shell.sh &
shell=$!
record shell -p $shell --block 5ms -d 3s -i 1s
ok $? "shell: record ends with 0" "$(tail -1 /tmp/shell.err)"
kill $shell
wait $shell 2>/dev/null
