#!/usr/bin/env bash
# Stands for the device's perfetto: takes a configuration on stdin, then plays a real trace on stdout
# in pieces. FAKE_TRACE, FAKE_LOG (what happened), FAKE_DIE_AFTER (pieces until it dies, once), FAKE_NEXT
# (what it plays when it was started again), FAKE_SLOW_END (seconds that it takes to end).
echo "start $*" >>"$FAKE_LOG"
trap 'sleep "${FAKE_SLOW_END:-0}"; echo "end by SIGINT" >>"$FAKE_LOG"; [ -n "$rest" ] && tail -c +$((at + 1)) "$FAKE_TRACE"; exit 0' INT
trap 'echo "end by SIGTERM" >>"$FAKE_LOG"; exit 0' TERM
config=$(cat)
grep -q 'android.surfaceflinger.frametimeline' <<<"$config" || { echo "no data source" >&2; exit 1; }
grep -q 'write_into_file: true' <<<"$config" || { echo "would read only at the end" >&2; exit 1; }
[ ! -e "$FAKE_LOG.died" ] || FAKE_TRACE=${FAKE_NEXT:-$FAKE_TRACE}
grep -q 'snapshot_interval_ms: 1000' <<<"$config" || { echo "would not say what is lost at the end" >&2; exit 1; }
grep -q 'atrace_categories: "am"' <<<"$config" && echo "markers of launches" >>"$FAKE_LOG"
size=$(stat -c %s "$FAKE_TRACE") at=0 rest=1 pieces=0
while [ $at -lt $size ]; do
	tail -c +$((at + 1)) "$FAKE_TRACE" | head -c 60000
	at=$((at + 60000)) pieces=$((pieces + 1))
	if [ -n "${FAKE_DIE_AFTER:-}" ] && [ $pieces = "$FAKE_DIE_AFTER" ] && [ ! -e "$FAKE_LOG.died" ]; then
		touch "$FAKE_LOG.died"; echo "died" >>"$FAKE_LOG"; echo "traced is gone" >&2; exit 1
	fi
	sleep 0.02
done
rest=
echo "played" >>"$FAKE_LOG"
while :; do sleep 0.1; done
