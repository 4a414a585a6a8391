# Frames through the real perfetto and traced, while another session of the device traces.
if [ -x /system/bin/perfetto ] && [ -x /system/bin/traced ]; then
	start traced
	start traced_probes
	running traced >/dev/null
	ok $? "perfetto: traced runs"
	timeout 20 perfetto --txt -c - -o /data/misc/perfetto-traces/other >/tmp/other.log 2>&1 <<-'EOF' &
	buffers { size_kb: 1024 }
	data_sources { config { name: "linux.process_stats" process_stats_config { scan_all_processes_on_start: true proc_stats_poll_ms: 200 } } }
	duration_ms: 7000
	EOF
	other=$!
	record perfetto --frames perfetto -d 4s -i 2s
	ok $? "perfetto: record ends with 0" "$(tail -1 /tmp/perfetto.err)"
	wait $other
	ok $? "perfetto: the other session ends with 0" "$(tail -1 /tmp/other.log)"
	[ -s /data/misc/perfetto-traces/other ]
	ok $? "perfetto: the other session has its trace"
	# traced is killed and started again in the middle.
	(sleep 2; stop traced; sleep 0.3; start traced) &
	record traced_restart --frames perfetto -d 5s -i 1s
	rc=$?
	note "traced restarted: record ends with $rc: $(tail -1 /tmp/traced_restart.err)"
	[ $rc = 0 ] || [ $rc = 3 ]
	ok $? "perfetto: traced killed and started again, the recording ends whole" "exit $rc"
	wait
else
	skip "perfetto" "the image has no perfetto"
fi
