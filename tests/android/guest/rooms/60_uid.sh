# init forks a service as root, and the child becomes uid 1013 before it runs the program: each uid is
# booked what it ran.
rm -f /tmp/worker.txt
(sleep 1; start worker) &
record uid -d 4s -i 2s
ok $? "uid: record ends with 0" "$(tail -1 /tmp/uid.err)"
[ -s /tmp/worker.txt ]
ok $? "uid: the service ran" "$(getprop init.svc.worker)"
cp /tmp/worker.txt $out/
