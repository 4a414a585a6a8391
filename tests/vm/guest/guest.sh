# Everything that a guest checks; TAP on the serial line. Runs under busybox sh.
cd /tmp
failed=0
ok() { # STATUS NAME [DETAIL]
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2${3:+: $3}"; failed=1; fi
}
export GUEST EMULATED=1

# The kernel tests are programs that need nothing but the kernel.
for name in ${TESTS:-$(cd /payload/kernel && ls -d test_*)}; do
	t=/payload/kernel/$name
	[ -x "$t" ] || continue
	begin=$(cut -d' ' -f1 /proc/uptime)
	timeout -s KILL 60 "$t" </dev/null >/tmp/out 2>&1
	rc=$?
	echo "# $name: $begin to $(cut -d' ' -f1 /proc/uptime) s"
	sed "s/^\(not ok\|ok\) - /\1 - $name: /; /^\(not ok\|ok\) - /!s/^/# /" /tmp/out
	if [ $rc != 0 ]; then
		grep -q '^not ok' /tmp/out || echo "not ok - $name: exit status $rc"
		failed=1
	fi
done
exit $failed
