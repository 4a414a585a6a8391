#!/usr/bin/env bash
# How much 72 h at 1 s of one app take on the disk: 150 intervals of a program with 50 threads, ten of
# which work all the time, ten about once a second and thirty every 3 to 20 s, as the recorder writes
# and compresses them. bench_store has the bound: fifty rows of which no number can be predicted.
# INTERVALS=150; REAL_TIME=1: its threads have their CPU at once, on a busy machine too.
set -u
work=$(mktemp -d); chmod 700 "$work"
trap 'kill "$app" 2>/dev/null; rm -rf "$work"' EXIT
n=${INTERVALS:-150}
${REAL_TIME:+chrt --rr 10} python3 - <<'EOF' &
import random
import threading
import time


def life(least, most, name):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as comm:
        comm.write(name)
    rng = random.Random(name)
    while True:
        time.sleep(rng.uniform(least, most))
        end = time.thread_time() + rng.uniform(0.00005, 0.0005)
        while time.thread_time() < end:
            pass


for i in range(50):
    pause = (0.01, 0.03) if i < 10 else (0.6, 1.4) if i < 20 else (3, 20)
    threading.Thread(target=life, args=(*pause, f"worker-{i}"), daemon=True).start()
time.sleep(3600)
EOF
app=$!
sleep 2
"$BUILD/jankscope" record -q -i 1s -n "$n" -p "$app" -o "$work/new/" || exit 1
last=$(ls "$work"/new/*.jsonl | tail -1)
plain=$(stat -c %s "$last")
# The next run compresses what this one left open.
"$BUILD/jankscope" record -q -i 1s -d 20s -p "$app" -o "$work/new" &
for _ in $(seq 150); do [ -e "$last" ] || break; sleep 0.1; done
[ -e "$last" ] && { echo "bench_size: $last is not compressed after 15 s" >&2; exit 1; }
wait $!
packed=$(stat -c %s "$last.zst")
echo "size: one app with 50 threads at 1 s"
awk -v n="$n" -v plain="$plain" -v packed="$packed" 'BEGIN {
	printf "  %-48s %8.0f B  as text %.0f B, mean of %d\n", "an interval on disk", packed / n, plain / n, n
	printf "  %-48s %6.0f MiB                              <= 150 MiB\n", "72 h at 1 s", packed / n * 259200 / 1048576
}'
