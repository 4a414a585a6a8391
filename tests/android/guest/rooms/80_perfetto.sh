# Frames through the real perfetto and traced, while another session of the device traces. No
# SurfaceFlinger runs here: a producer of the tests' own draws frames of known fate (frame_producer).
# draw NAME ARGUMENTS...: its truth comes to the host as NAME.truth; $producer is its pid
draw() {
	local name=$1
	shift
	rm -f /tmp/$name.truth
	/data/local/tmp/frame_producer /tmp/$name.truth "$@" >/tmp/$name.draws 2>&1 &
	producer=$!
}
drawn() { # NAME
	wait $producer
	ok $? "$1: the frames were drawn" "exit $?"
	cp /tmp/$1.truth $out/ 2>/dev/null
	note "$1: $(grep '"session"' /tmp/$1.truth | tr '\n' ' ')"
}
until_draws() { # NAME
	local i=0
	until grep -q draws /tmp/$1.draws || [ $i = 200 ]; do i=$((i + 1)); sleep 0.1; done
}
if [ -x /system/bin/perfetto ] && [ -x /system/bin/traced ]; then
	start traced
	start traced_probes
	running traced >/dev/null
	ok $? "perfetto: traced runs"
	cp /guest/frame_producer /data/local/tmp/
	chmod 755 /data/local/tmp/frame_producer

	# Three sessions want the frames: all layers, one process, and somebody else's.
	draw perfetto 300 -w 3 -d 60
	timeout 60 perfetto --txt -c - -o /data/misc/perfetto-traces/other >/tmp/other.log 2>&1 <<-'EOF' &
	buffers { size_kb: 4096 }
	data_sources { config { name: "linux.process_stats" process_stats_config { scan_all_processes_on_start: true proc_stats_poll_ms: 200 } } }
	data_sources { config { name: "android.surfaceflinger.frametimeline" } }
	duration_ms: 16000
	EOF
	other=$!
	record perfetto_pid --frames perfetto -p $producer -d 14s -i 1s &
	second=$!
	record perfetto --frames perfetto -d 14s -i 2s
	ok $? "perfetto: record ends with 0" "$(tail -1 /tmp/perfetto.err)"
	wait $second
	ok $? "perfetto: record of one process ends with 0" "$(tail -1 /tmp/perfetto_pid.err)"
	wait $other
	ok $? "perfetto: the other session ends with 0" "$(tail -1 /tmp/other.log)"
	grep -q org.example.second/org.example.second.Play /data/misc/perfetto-traces/other
	ok $? "perfetto: the other session has its frames"
	drawn perfetto
	cp $out/perfetto.truth $out/perfetto_pid.truth

	# A burst that is larger than the session's buffer, at once: the service overwrites the first of it.
	draw perfetto_burst 330 -b -d 60
	record perfetto_burst --frames perfetto -d 14s -i 2s
	rc=$?
	[ $rc = 0 ] || [ $rc = 3 ]
	ok $? "perfetto: record of a burst ends" "exit $rc, $(tail -1 /tmp/perfetto_burst.err)"
	drawn perfetto_burst

	# traced is killed and started again in the middle.
	draw traced_restart 600 -d 60
	(until_draws traced_restart; sleep 3.3; stop traced; sleep 0.3; start traced) &
	record traced_restart --frames perfetto -d 18s -i 1s
	rc=$?
	note "traced restarted: record ends with $rc: $(tail -1 /tmp/traced_restart.err)"
	[ $rc = 0 ] || [ $rc = 3 ]
	ok $? "perfetto: traced killed and started again, the recording ends whole" "exit $rc"
	drawn traced_restart
else
	skip "perfetto" "the image has no perfetto"
fi
