# Everything that a guest checks; TAP on the serial line. Runs under busybox sh.
cd /tmp
failed=0
ok() { # STATUS NAME [DETAIL]
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2${3:+: $3}"; failed=1; fi
}
export GUEST

# The kernel tests are programs that need nothing but the kernel.
for t in /payload/kernel/test_*; do
	[ -x "$t" ] || continue
	name=${t##*/}
	timeout -s KILL 60 "$t" </dev/null >/tmp/out 2>&1
	rc=$?
	sed "s/^\(not ok\|ok\) - /\1 - $name: /; /^\(not ok\|ok\) - /!s/^/# /" /tmp/out
	if [ $rc != 0 ]; then
		grep -q '^not ok' /tmp/out || echo "not ok - $name: exit status $rc"
		failed=1
	fi
done
exit $failed
