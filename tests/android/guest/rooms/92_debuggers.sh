# Debian's eu-stack (elfutils' unwinder) and gdb as other opinions: processes of the test's own that sleep in
# the image's bionic, each looked at by all three. The same return addresses from the system call to the first
# frame.
debian=/guest/debian
run_debian() { # PROGRAM ARGUMENT...
	local program=$1; shift
	timeout 120 $debian/ld-linux-aarch64.so.1 --library-path $debian $debian/$program "$@"
}
stack_of() { # NAME PID
	local i=0
	# It sleeps where it is to sleep.
	while [ "$(cut -d' ' -f3 /proc/$2/stat)" != S ] && [ $i -lt 50 ]; do i=$((i + 1)); sleep 0.1; done
	sleep 0.5
	/guest/stack_dump $2 ptrace >/tmp/ours 2>&1
	run_debian eu-stack -p $2 >/tmp/theirs 2>&1
	sed -n 's/^#[0-9]* *0x0*\([0-9a-f]*\).*/\1/p' /tmp/ours >/tmp/a
	sed -n 's/^#[0-9]* *0x0*\([0-9a-f]*\).*/\1/p' /tmp/theirs >/tmp/b
	if grep -q '............' /tmp/b && ! grep -q '............' /tmp/a; then
		# elfutils 0.188 knows no pointer authentication: an address with its bits (39 and above, here) is
		# in no module, so eu-stack follows frame pointers from there on, meets a frame twice, and goes on
		# behind the outermost one.
		note "eu-stack: $1: its addresses have the bits of pointer authentication, which are cut off"
		sed 's/.*\(..........\)$/\1/; s/^8/0/; s/^9/1/; s/^a/2/; s/^b/3/; s/^c/4/; s/^d/5/; s/^e/6/; s/^f/7/; s/^0*//' /tmp/b |
			uniq | head -n "$(wc -l </tmp/a)" >/tmp/cut
		mv /tmp/cut /tmp/b
	fi
	[ "$(wc -l </tmp/a)" -ge 3 ] && cmp -s /tmp/a /tmp/b && grep -q complete /tmp/ours
	ok $? "eu-stack: $1: the same $(wc -l </tmp/a) return addresses" "$(tr '\n' ' ' </tmp/a)| $(tr '\n' ' ' </tmp/b)" ||
		{ sed 's/^/# ours: /' /tmp/ours; sed 's/^/# eu-stack: /' /tmp/theirs; }
	run_debian gdb -nx -batch -ex 'set backtrace past-main on' -ex 'set backtrace past-entry on' -p $2 -ex bt >/tmp/theirs 2>&1
	sed -n 's/^#[0-9]* *0x0*\([0-9a-f]*\)\( \[PAC\]\)* in .*/\1/p' /tmp/theirs >/tmp/b
	[ "$(wc -l </tmp/a)" -ge 3 ] && cmp -s /tmp/a /tmp/b
	ok $? "gdb: $1: the same $(wc -l </tmp/a) return addresses" "$(tr '\n' ' ' </tmp/a)| $(tr '\n' ' ' </tmp/b)" ||
		sed 's/^/# gdb: /' /tmp/theirs
	kill -0 $2
	ok $? "debuggers: $1: it lives on"
	kill -KILL $2 # no wait: the shell would wait for the other end of its pipe too
}
if [ ! -x $debian/eu-stack ]; then
	skip "debuggers" "$(cat $debian/why 2>/dev/null)"
else
	/system/bin/sleep 600 &
	stack_of "sleep (nanosleep)" $!
	# Calls that a stop does not end (user/stack/README.md): others are not captured by a stop.
	sleep 60 | /system/bin/cat >/dev/null &
	stack_of "cat (read of a pipe)" $!
fi
