# incidentd looks for a service that is not there, from its main thread and by the image's own
# libbinder; servicemanager stands still for 0.8 s meanwhile: the reason for that time is binder.
if [ -x /system/bin/incidentd ] && [ -x /system/bin/incident ]; then
	start incidentd
	running incidentd >/dev/null
	manager=$(pidof servicemanager)
	record binder -p incidentd --block 200ms -d 10s -i 3s &
	recorder=$!
	sleep 2
	# A report for a receiver: incidentd asks for "incidentcompanion" again and again.
	timeout 10 incident -s com.example/.Receiver 3000 >/tmp/incident.log 2>&1
	sleep 1
	kill -STOP $manager
	sleep 0.8
	kill -CONT $manager
	wait $recorder
	ok $? "binder: record ends with 0" "$(tail -1 /tmp/binder.err)"
else
	skip "binder" "the image has no incidentd"
fi
