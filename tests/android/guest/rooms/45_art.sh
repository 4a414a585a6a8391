# Compiled Java code of the image, run by tests/apps/artdemo without a runtime: Java frames by each way in
# which stacks can be captured.
boot=/system/framework/arm64/boot
demo=/data/local/tmp/artdemo
if [ ! -s $boot.art ] || [ ! -s $boot.oat ]; then
	skip "art" "the image has no $boot.art with its boot.oat"
else
	cp /guest/artdemo $demo && chmod 755 $demo
	chcon u:object_r:shell_data_file:s0 $demo 2>/dev/null
	$demo $boot.art $boot.oat 700000 100000 500 >/tmp/artdemo.txt 2>&1 &
	artdemo=$!
	i=0
	until grep -q '^round' /tmp/artdemo.txt || ! kill -0 $artdemo 2>/dev/null || [ $i = 200 ]; do i=$((i + 1)); sleep 0.1; done
	if grep -q '^round' /tmp/artdemo.txt; then
		ok 0 "art: Java code of the image sorts"
		cp $demo $out/
		modes=$($js record --stack which 2>&1 | sed -n 's/.*choose one of: \([^;]*\).*/\1/p')
		[ -n "$modes" ]
		ok $? "art: record says which ways of capture there are"
		for mode in $modes; do
			# A file that an emulated CPU reads for longer than a job may take (1 s) is told and left alone for
			# 30 s. A recorder that has met it is not judged: another one is, and the third in any case.
			for try in 1 2 3; do
				record art_$mode -p $artdemo --block 100ms --stack $mode -d 4s -i 2s
				ok $? "art: record --stack $mode ends with 0" "$(tail -1 /tmp/art_$mode.err)"
				tail -n 1 /tmp/art_$mode.jsonl | grep -q '"elf_refused"\|"elf_unreadable"' || break
				note "art: --stack $mode, try $try: $(tail -n 1 /tmp/art_$mode.jsonl | grep -o '"lost":{[^}]*}' | tail -1)"
			done
			kill -0 $artdemo 2>/dev/null
			ok $? "art: artdemo lives on" "$(tail -1 /tmp/artdemo.txt)"
		done
		idle() { sleep 60; }
		[ ! -x /system/bin/simpleperf ] || simpleperf_of art $artdemo idle $artdemo 100ms
		note "art: $(grep -c '^round' /tmp/artdemo.txt) rounds, the last: $(tail -1 /tmp/artdemo.txt) us"
		kill $artdemo
		wait $artdemo 2>/dev/null
	else
		kill $artdemo 2>/dev/null
		wait $artdemo
		rc=$?
		if [ $rc = 77 ]; then
			skip "art" "$(tail -1 /tmp/artdemo.txt)"
		else
			ok 1 "art: Java code of the image sorts" "exit $rc, $(tail -1 /tmp/artdemo.txt)"
		fi
	fi
	rm -f $demo
fi
