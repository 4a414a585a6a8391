# init forks a service as root, and the child becomes uid 1013 before it runs the program: each uid is
# booked what it ran.
rm -f /tmp/worker.txt /tmp/uid.jsonl
# It starts when the recording has.
(
	i=0
	until grep -q '"event":"start"' /tmp/uid.jsonl 2>/dev/null || [ $i = 100 ]; do i=$((i + 1)); sleep 0.1; done
	start worker
) &
record uid -d 5s -i 2s
ok $? "uid: record ends with 0" "$(tail -1 /tmp/uid.err)"
[ -s /tmp/worker.txt ]
ok $? "uid: the service ran" "$(getprop init.svc.worker)"
cp /tmp/worker.txt $out/
