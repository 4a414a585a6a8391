#!/usr/bin/env bash
# What --frames live keeps to put settings back can name no file of the machine, whoever wrote it,
# and the programs of the device that it runs get nothing that they should not have. Everything
# planted lies in mount namespaces of this test's own.
# Runs beside others (20 s)
set -u
jankscope=$BUILD/jankscope
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
# Where a recording goes that is not there yet.
fresh() { rm -f "$work/records"; echo "$work/records"; }
ok() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2"; fi; }

if [ "$(id -u)" != 0 ]; then echo "ok - trace settings # SKIP need root"; exit 0; fi
tracefs=/sys/kernel/tracing
[ -e $tracefs/trace_marker ] || mount -t tracefs tracefs $tracefs 2>/dev/null
if [ ! -e $tracefs/trace_marker ]; then
	grep -q tracefs /proc/filesystems && echo "not ok - tracefs cannot be mounted" || echo "ok - trace settings # SKIP this kernel has no tracefs"
	exit 0
fi
unshare -m true 2>"$work/talk" || { echo "ok - trace settings # SKIP no mount namespaces: $(cat "$work/talk")"; exit 0; }
# the trace buffer is one for the machine: tests that use it take turns
exec 9>/tmp/jankscope-tests.tracefs.lock
flock -w 120 9 || { echo "not ok - the lock of the tests of the trace buffer is not given up"; exit 1; }

# In a namespace of its own: run a script (stdin) that plants, then one recording. The victims are
# looked at from the outside.
attack() { # flags of record: result in $status, talk in $work/talk
	rm -rf "$work/victim" "$work/secret" "$work/plant.sh"
	echo victim >"$work/victim"; chmod 700 "$work/victim"
	echo secret >"$work/secret"; chmod 600 "$work/secret"
	cat >"$work/plant.sh"
	unshare -m --propagation private env work="$work" bash -c '
		shell() { setpriv --reuid 2000 --regid 2000 --clear-groups "$@"; }
		mount -t tmpfs -o mode=755 tmpfs /run; mount -t tmpfs -o mode=755 tmpfs /data
		. "$work/plant.sh"
		exec "$@"' attack timeout 20 "$jankscope" record --max-lost 100 -i 100ms -d 300ms -q "$@" -o "$(fresh)" --frames live 9>&- >"$work/out" 2>"$work/talk"
	status=$?
}
untouched() { [ "$(stat -c %a "$work/victim")" = 700 ] && [ "$(cat "$work/victim" "$work/secret" | xargs)" = "victim secret" ] && [ "$(stat -c %a "$work/secret")" = 600 ]; }

made_data=; [ -d /data ] || { mkdir /data && made_data=1; }
trap 'rm -rf "$work"; [ -n "$made_data" ] && rmdir /data' EXIT

# --- the shell user's own folder
attack <<'PLANT'
mkdir -p /data/local/tmp && chown 2000:2000 /data/local/tmp
shell sh -c "printf 'jankscope 1 1\nmode\t$work/victim\t4755\nfile\t$work/secret\towned\n' >/data/local/tmp/jankscope.tracefs"
PLANT
untouched; ok $? "a state file that the shell user planted changes nothing ($(stat -c %a "$work/victim"), $(cat "$work/secret"))"
ok $status "and the run goes on (status $status: $(head -1 "$work/talk"))"
attack <<'PLANT'
mkdir -p /data/local/tmp && chown 2000:2000 /data/local/tmp
start=$(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)
shell sh -c "echo 'jankscope 1 $start' >/data/local/tmp/jankscope.tracefs"
PLANT
ok $status "a planted owner that lives keeps no run from starting (status $status: $(head -1 "$work/talk"))"

# --- the same in the folder of our own, as if somebody had got in there
for kind in owner mode link hardlink fifo long; do
	attack <<PLANT
mkdir -m 700 /run/jankscope; f=/run/jankscope/trace-settings
case $kind in
owner) printf '%s\n1 0\n' "\$(cat /proc/sys/kernel/random/boot_id)" >\$f; chmod 600 \$f; chown 2000 \$f ;;
mode) echo 1 0 >\$f; chmod 644 \$f ;;
link) ln -s "\$work/secret" \$f ;;
hardlink) mount --bind "\$work" /mnt; rm -rf /run/jankscope; mkdir -m 700 /run/jankscope; (umask 077; echo 1 0 >\$f); ln \$f /run/jankscope/other ;;
fifo) mkfifo -m 600 \$f ;;
long) (umask 077; head -c 100000 /dev/zero | tr '\\\\000' 1 >\$f) ;;
esac
PLANT
	untouched && [ $status = 0 ] && [ "$(grep -c 'trace-settings: not read: ' "$work/talk")" = 1 ]
	ok $? "a state file with the wrong $kind is not read, one line says so, the run goes on (status $status: $(head -1 "$work/talk"))"
done
attack <<'PLANT'
mkdir -m 700 /run/jankscope; chown 2000 /run/jankscope
PLANT
untouched && [ $status != 0 ] && grep -q 'is not a folder of root' "$work/talk"
ok $? "a folder that is not root's is not used: $(head -1 "$work/talk")"
# lines that name no setting, or a value out of bounds
attack <<'PLANT'
mkdir -m 700 /run/jankscope; (umask 077; printf '%s\nfile\t%s\towned\nmode\t%s\t4755\n4 4755\n5 1\n10 1\n0 1\n3 99999999\n1 2\n2 ../../x\n../victim 1\n3 4' "$(cat /proc/sys/kernel/random/boot_id)" "$work/secret" "$work/victim" >/run/jankscope/trace-settings)
PLANT
untouched && [ $status = 0 ]; ok $? "lines that name no setting are not carried out (status $status: $(head -1 "$work/talk"))"

# --- setprop and getprop: nice 0, default signals, no descriptor of ours
mkdir "$work/bin"
cat >"$work/bin/setprop" <<'TOOL'
#!/bin/bash
exec >>"$TOOL_LOG"
awk '/^Sig(Blk|Ign)/' /proc/self/status; ls -m /proc/$$/fd; awk '{print "nice", $19}' /proc/$$/stat
[ -z "${TOOL_HANGS:-}" ] || sleep 60
exit ${TOOL_STATUS:-0}
TOOL
printf '#!/bin/sh\n' >"$work/bin/getprop"
chmod 755 "$work/bin"/*
export TOOL_LOG=$work/log
sleep 300 & target=$!
PATH=$work/bin:$PATH nice -n -5 timeout 20 "$jankscope" record --max-lost 100 -i 100ms -d 300ms -q -p $target -o "$(fresh)" --frames live 9>&- 8<"$work/victim" >/dev/null 2>"$work/talk"
status=$?
ok $status "with properties (status $status: $(head -1 "$work/talk"))"
# bash has its script open as 255; make starts its children by posix_spawn, which leaves signals 32 and
# 33 ignored (glibc's own ones, sysdeps/unix/sysv/linux/spawni.c), and nobody can set them back
seen=$(sed 's/, 255$//; s/^\(SigIgn:[ \t]*0*\)180000000$/\1000000000/' "$work/log" | sort | uniq -c | sed 's/^ *//' | tr '\t\n' ' ;')
[ "$seen" = "6 0, 1, 2;6 SigBlk: 0000000000000000;6 SigIgn: 0000000000000000;6 nice 0;" ]
ok $? "setprop runs at nice 0, without our signals and descriptors: $seen"
# --- where setprop fails the rest is recorded
rm -f "$work/records"
TOOL_STATUS=1 PATH=$work/bin:$PATH timeout 20 "$jankscope" record --max-lost 100 -i 100ms -d 500ms -q -p $target -o "$(fresh)" --frames live 9>&- >/dev/null 2>"$work/talk"
status=$?
got=$(jq -s -c '[(.[] | select(.type == "header") | .sources[] | select(.name == "frames") | .state), ([.[] | select(.type == "interval" and .cpu)] | length > 2)]' "$work/records" 2>&1)
[ $status = 0 ] && [ "$got" = '["degraded",true]' ]; ok $? "where setprop fails the CPU is recorded and frames are degraded (status $status, $got)"
began=$(date +%s)
TOOL_HANGS=1 PATH=$work/bin:$PATH timeout 30 "$jankscope" record --max-lost 100 -i 100ms -d 300ms -q -p $target -o "$(fresh)" --frames live 9>&- >/dev/null 2>"$work/talk"
status=$?
[ $status = 0 ] && [ $(($(date +%s) - began)) -lt 15 ]; ok $? "a setprop that hangs is not waited for (status $status, $(($(date +%s) - began)) s)"

# --- perfetto's file where it may not write into a pipe
cat >"$work/bin/perfetto" <<'TOOL'
#!/bin/bash
cat >"$TOOL_LOG.config"
while [ $# -gt 1 ]; do [ "$1" = -o ] && file=$2; shift; done
[ "$file" = - ] && exit 1
echo "$file" >>"$TOOL_LOG.files"
exec sleep 20 >"$file"
TOOL
chmod 755 "$work/bin/perfetto"
unshare -m --propagation private env PATH="$work/bin:$PATH" bash -c '
	mount -t tmpfs tmpfs /data; mkdir -p -m 773 /data/misc/perfetto-traces
	cd /data/misc/perfetto-traces; touch jankscope.4194300.abc.pftrace other.pftrace
	"$1" record --max-lost 100 -i 100ms -d 90s -q -p $2 --frames perfetto >/dev/null 2>&1 &
	pid=$!
	for _ in $(seq 300); do [ -s "$TOOL_LOG.files" ] && [ ! -e "$(tail -1 "$TOOL_LOG.files")" ] && break; sleep 0.1; done
	sleep 0.5; kill -9 $pid; wait $pid 2>/dev/null; ls | xargs >"$TOOL_LOG.left"' perfetto "$jankscope" $target 9>&-
[ "$(cat "$work/log.left")" = other.pftrace ]; ok $? "perfetto's file does not stay after SIGKILL, nor one of a dead run: $(cat "$work/log.left")"
grep -qE 'max_file_size_bytes: [0-9]+' "$work/log.config"; ok $? "and has a limit: $(grep max_file "$work/log.config")"
grep -qE '/jankscope\.[0-9]+\.[0-9a-f]{32}\.pftrace$' "$work/log.files"; ok $? "and a name that nobody can take before"

# --- a kernel without file locks (CONFIG_FILE_LOCKING=n)
timeout 60 "$BUILD/tests/apps/refuse_syscall" flock ENOSYS "$jankscope" record --max-lost 100 -i 100ms -d 300ms -q -o "$(fresh)" --frames live 9>&- 2>"$work/talk"
ok $? "a kernel without flock() is no other jankscope: $(head -1 "$work/talk")"
kill $target; wait $target 2>/dev/null
exit 0
