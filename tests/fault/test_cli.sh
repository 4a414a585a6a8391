#!/usr/bin/env bash
# What can go wrong around jankscope: arguments, outputs, rights, kernels that refuse, signals, and
# targets that come and go. Of each: the exit code of the contract, one line that says why, and
# nothing half-written. Prints TAP.
# Runs beside others (60 s, 17 s of CPU)
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); pids=
# Not in a child of this shell that a signal hits before it has become jankscope.
# A number may be a stranger's by now: only what is still a child of ours.
end_child() { grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$1/status" && kill -9 "$1" 2>/dev/null; }
trap '[ $BASHPID = $$ ] || exit; for p in $pids; do end_child "$p"; done; rm -rf "$work"' EXIT
cp "$BUILD/jankscope" "$work/jankscope" && chmod 755 "$work" "$work/jankscope" || exit 1
js=$work/jankscope
cd "$work" || exit 1

say() { # status name: a result, and what was printed if it is bad
	if [ "$1" = 0 ]; then echo "ok - cli: $2"; return; fi
	echo "not ok - cli: $2"
	echo "# exit status $code"; sed 's/^/# out: /' out | head -5; sed 's/^/# err: /' err | head -10
}
# Run; then exit code, number of lines on stderr, all of them in the tool's voice, and a pattern.
try() { # name code lines pattern command...
	local name=$1 want=$2 lines=$3 pattern=$4 bad=0; shift 4
	timeout 60 "$@" >out 2>err </dev/null; code=$?
	[ $code = "$want" ] || bad=1
	# Beside the size that a recording of the whole device is expected to have.
	[ "$(grep -vc "^jankscope: info: about .* a day: " err)" = "$lines" ] || bad=1
	grep -vqE '^jankscope: (error|warn|info): ' err && bad=1
	[ -z "$pattern" ] || grep -qE -- "$pattern" err || bad=1
	say $bad "$name"
}
# A mount namespace of its own, made ready by the first argument, then the command.
cat >mounted <<'END'
#!/bin/sh
exec unshare -m --propagation private sh -c "$1 || exit 99; shift; exec \"\$@\"" sh "$@"
END
# Other users, and a root that may not use BPF.
cat >nobody <<'END'
#!/bin/sh
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
END
cat >limited <<'END'
#!/bin/sh
exec setpriv --bounding-set -bpf,-sys_admin,-perfmon "$@"
END
chmod 755 mounted nobody limited
PATH=$work:$PATH
records() { python3 "$here/check_records.py" "$@" >check 2>&1 || { sed 's/^/# /' check; return 1; }; }
lines_of() { [ -f "$1" ] && wc -l <"$1" || echo 0; }
wait_for() { # lines file
	for _ in $(seq 400); do [ "$(lines_of "$2")" -ge "$1" ] && return 0; sleep 0.05; done; return 1
}
loss="--max-lost 100" # overruns of a busy machine are no matter here

# ---- arguments ----
usage() { try "$1 is refused" 2 1 "$2" "$js" "${@:3}"; [ ! -s out ] || say 1 "$1 printed on stdout"; }
usage "an unknown verb" 'nosuch: unknown verb; see' nosuch
usage "an unknown flag" '--nosuch: unknown flag; see jankscope record --help' record --nosuch
usage "an unknown letter" '-z: unknown flag' record -qz
usage "a flag of another verb" '-i: unknown flag' doctor -i 1s
usage "a bare number as duration" '-d 5: a duration needs a number and a unit' record -d 5
usage "a bare number as interval" '-i 1: a duration needs a number and a unit' record -i 1
usage "an interval of 0" 'at least 50ms' record -i 0s
usage "an interval of 10 ms" 'at least 50ms' record -i 10ms
usage "an interval of a million days" 'too long' record -i 1000000d
usage "a duration of 0" 'more than 0' record -d 0s
usage "-d without a value" '-d: a value is missing' record -d
usage "--btf without a value" '--btf: a value is missing' record --btf
usage "a value for a switch" 'takes no value' record --quiet=1
usage "a word too many" 'foo: unexpected argument' record foo
usage "-a with -p" 'does not go together' record -a -p 1
usage "-u with -a" 'does not go together' record -u 1 -a
usage "pid 0" 'not a pid' record -p 0
usage "an empty name" 'a name of 1 to 255 bytes' record -p ''
usage "a uid that is none" 'not a uid' record -u shell
usage "a count of 0" 'at least 1' record -n 0
usage "a choice that is none" 'choose one of: auto switch iter' record --cpu fast
usage "a percentage above 100" 'from 0 to 100' record --max-lost 101
usage "an empty output" 'must not be empty' record -o ''
usage "--btf with a text file" 'not a BTF file' record --btf /etc/passwd
usage "--btf with an ELF file without BTF" 'not a BTF file' record --btf "$js"
usage "--btf with an empty file" 'not a BTF file' record --btf /dev/null
usage "--btf with a file that is not there" 'No such file' doctor --btf /nonexistent
usage "a shell without completions" 'bash, zsh or fish' completion tcsh
head -c 3000 /sys/kernel/btf/vmlinux >cut.btf 2>/dev/null && usage "--btf with a cut file" 'not a BTF file' record --btf cut.btf
for verb in doctor record; do
	try "$verb --help" 0 0 '' "$js" $verb --help
	[ "$(awk 'length > 80' out | wc -l)" = 0 ] && grep -q "^usage: jankscope $verb" out; say $? "$verb --help is a page of 80 columns"
done
for what in man "completion bash" "completion zsh" "completion fish" "record --json-schema" --version; do
	# shellcheck disable=SC2086
	try "$what" 0 0 '' "$js" $what
	[ -s out ]; say $? "$what prints"
done
"$js" completion bash | bash -n 2>err; say $? "the completion of bash is a script of bash"

# ---- outputs (these need no rights, or fail before any are asked for) ----
try "-o in a folder that is missing" 1 1 '-o /nonexistent/x: No such file' "$js" record -o /nonexistent/x
mkdir -m 777 "$work/open"
try "-o that is a folder in which others may write" 2 1 "-o $work/open: others may write in this folder" "$js" record -o "$work/open"
for command in "record --help" man doctor "record -d 100ms $loss" "record --json -d 100ms $loss"; do
	# shellcheck disable=SC2086
	[ "$(id -u)" = 0 ] && try "stdout on a full disk: $command" 1 1 'No space left on device' sh -c 'exec "$@" >/dev/full' sh "$js" $command
done
# A target that is not there costs nothing: no file is made, none is emptied.
try "a pid that is gone" 4 1 '-p 4194303: no such process' "$js" record -p 4194303 -o new.jsonl
[ ! -e new.jsonl ]; say $? "a pid that is gone leaves no file"
echo precious >old.jsonl
try "a package that never comes" 4 1 '-p no\.such\.package: not running after 0.5 s; see --wait' "$js" record -p no.such.package --wait 500ms --overwrite -o old.jsonl
[ "$(cat old.jsonl)" = precious ]; say $? "a package that never comes leaves the recording of before alone"
try "no time to wait" 4 1 'not running after 0 s' "$js" record -p no.such.package --wait 0s
try "a uid without processes" 4 1 '-u 3999999: no process of this uid' "$js" record -u 3999999 --wait 100ms

if [ "$(id -u)" != 0 ]; then echo "ok - cli: rights, kernels, signals # SKIP need root"; exit 0; fi

try "-o on a file system that is read only" 1 1 'Read-only file system' mounted "mount -t tmpfs -o ro none /mnt" "$js" record -o /mnt/x
# A disk of 64 KiB: whole lines only, one line of explanation, and the table was told nothing else.
mkdir -p disk
cat >fill.sh <<'END'
mount -t tmpfs -o size=64k none disk || exit 99
"$1" record -q -i 50ms -d 60s --max-lost 100 -o disk/x.jsonl; code=$?
cp disk/x.jsonl filled.jsonl
exit $code
END
try "a disk that fills up" 1 1 'cannot write disk/x.jsonl: No space left on device; [0-9]+ bytes of whole records are kept' mounted "exec sh fill.sh $js"
records filled.jsonl && [ "$(lines_of filled.jsonl)" -ge 2 ]; say $? "a disk that fills up holds whole lines: $(cat check)"
grep -q "$(stat -c %s filled.jsonl) bytes of whole" err; say $? "and the line says how many bytes"

# ---- rights and kernels ----
degraded() { # name file: the header owns up to it, and the lines are whole
	records --footer "$2" && head -1 "$2" | jq -e '[.sources[] | select(.name == "cpu")][0] | .state == "degraded" and .variant == "proc" and (.reason | length > 0)' >/dev/null &&
		jq -se '[.[] | select(.type == "interval")] | length > 0 and all((.missing.net | length > 0) and (has("net") | not))' "$2" >/dev/null
	say $? "$1: the records say so, and have no net of 0 bytes"
}
chmod 777 "$work"
try "no root" 5 1 'error: .*(root|CAP_BPF)' nobody "$js" record -d 1s -o new.jsonl
[ ! -e new.jsonl ]; say $? "no root leaves no file"
try "no root, with the hook on every switch" 5 1 'CAP_BPF' nobody "$js" record --cpu switch
nobody "$js" doctor >out 2>err; code=$?
[ $code = 5 ] && [ -s err ] && ! grep -vq '^jankscope: error: ' err; say $? "doctor without root ends with 5 and says what is missing"
nobody "$js" doctor --json 2>err | jq -e '.usable == false and (.features | length > 5)' >out; say $? "doctor --json without root is JSON, and says unusable"
touch locked.jsonl; chmod 600 locked.jsonl
try "-o on a file of someone else" 1 1 '-o locked.jsonl: Permission denied' nobody "$js" record -o locked.jsonl

try "blocks without the switch program" 0 1 'blocks is absent: .*leave out --cpu iter' "$js" record -q -p $$ --cpu iter -d 300ms $loss
try "a root without CAP_BPF" 0 2 'cpu is degraded .*CAP_BPF' limited "$js" record -q -d 300ms $loss -o limited.jsonl
degraded "a root without CAP_BPF" limited.jsonl
try "a root without CAP_BPF, with the hook on every switch" 5 1 'CAP_BPF' limited "$js" record -q --cpu switch
refuse=$BUILD/tests/apps/refuse_syscall
for error in EPERM ENOSYS EACCES; do
	try "bpf() refused with $error" 0 2 'cpu is degraded' "$refuse" bpf $error "$js" record -q -d 300ms $loss -o $error.jsonl
	degraded "bpf() refused with $error" $error.jsonl
	try "bpf() refused with $error, with hooks forced" 5 1 'error: ' "$refuse" bpf $error "$js" record -q --cpu switch
done
try "perf_event_open() refused" 0 0 '' "$refuse" perf_event_open EPERM "$js" record -q -d 300ms $loss -o perf.jsonl
records --footer perf.jsonl; say $? "perf_event_open() refused: the recording is whole"

: >empty
hide="mount --bind empty /sys/kernel/btf/vmlinux"
if [ -e /sys/kernel/btf/vmlinux ]; then
	try "an empty /sys/kernel/btf/vmlinux" 0 2 'BTF' mounted "$hide" "$js" record -q -d 300ms $loss -o nobtf.jsonl
	degraded "an empty /sys/kernel/btf/vmlinux" nobtf.jsonl
	try "no /sys/kernel/btf" 0 2 'BTF.*--btf FILE' mounted "mount -t tmpfs none /sys/kernel/btf" "$js" record -q -d 300ms $loss -o nobtf2.jsonl
	try "no BTF, with hooks forced" 5 1 'CONFIG_DEBUG_INFO_BTF.*--btf FILE' mounted "$hide" "$js" record -q --cpu switch
	try "no BTF, and --btf names it" 0 0 '' mounted "cp /sys/kernel/btf/vmlinux own.btf && $hide" "$js" record -q -d 300ms $loss --btf own.btf -o btf.jsonl
	records --footer btf.jsonl && head -1 btf.jsonl | jq -e '.sources | all(.state == "ok" or .name == "power")' >/dev/null; say $? "no BTF, and --btf names it: all sources run"
else
	echo "ok - cli: no BTF # SKIP this kernel has none"
fi
try "tracefs not mounted" 0 0 '' mounted "umount -l /sys/kernel/tracing 2>/dev/null; umount -l /sys/kernel/debug 2>/dev/null; mount -t tmpfs none /sys/kernel/debug" "$js" record -q -d 300ms $loss -o notracefs.jsonl
records --footer notracefs.jsonl && head -1 notracefs.jsonl | jq -e '.sources | all(.state == "ok" or .name == "power")' >/dev/null; say $? "tracefs not mounted: all sources run"

# ---- streams ----
try "stdout closed by head" 0 0 '' bash -c 'set -o pipefail; "$@" | head -1' sh "$js" record -d 1s -i 100ms $loss
[ "$(wc -l <out)" = 1 ]; say $? "stdout closed by head: its line arrived"
try "records to head" 0 0 '' bash -c 'set -o pipefail; "$@" | head -1' sh "$js" record --json -d 1s -i 100ms $loss
jq -e '.type == "header"' out >/dev/null 2>&1; say $? "records to head: the header arrived"
try "stdout closed by head, recording goes on" 0 0 '' bash -c 'set -o pipefail; "$@" | head -1' sh "$js" record -i 100ms -n 6 $loss -o headed.jsonl
records --footer headed.jsonl && grep -q ' 6 intervals' check; say $? "stdout closed by head: the recording has its 6 intervals"
try "no reader and nothing else to do ends the run" 0 0 '' bash -c 'set -o pipefail; "$@" | true' sh "$js" record -i 100ms $loss
try "stdin, stdout and stderr closed by the shell" 0 0 '' sh -c 'exec "$@" <&- >&- 2>&-' sh "$js" record -i 100ms -n 2 $loss -o closed.jsonl
records --footer closed.jsonl; say $? "stdin, stdout and stderr closed: no stray byte in the recording"
try "--json on stdout" 0 0 '' "$js" record --json -i 100ms -n 2 $loss
cp out json.jsonl; records --footer json.jsonl && grep -q ' 2 intervals' check; say $? "--json on stdout is a recording"
try "-q prints nothing" 0 0 '' "$js" record -q -i 100ms -n 1 $loss
[ ! -s out ]; say $? "-q prints nothing on stdout"
NO_COLOR= TERM=xterm "$js" record -i 100ms -n 2 $loss >out 2>err; code=$?
[ $code = 0 ] && [ "$(awk 'length > 80' out | wc -l)" = 0 ] && ! grep -q "$(printf '\033')" out; say $? "the table keeps to 80 columns and has no escape sequences"

# ---- how long ----
try "-n 3" 0 0 '' "$js" record -q -i 100ms -n 3 $loss -o count.jsonl
records --footer count.jsonl && grep -q ' 3 intervals' check; say $? "-n 3 makes three intervals: $(cat check)"
try "-d 450ms" 0 0 '' "$js" record -q -i 200ms -d 450ms $loss -o duration.jsonl
records --footer duration.jsonl && jq -se '[.[] | select(.type == "interval")] | (map(.dur_ns) | add) >= 450000000 and .[-1].last == true and (.[:-1] | all(has("last") | not))' duration.jsonl >/dev/null
say $? "-d 450ms covers 450 ms, the last interval cut short and marked"
try "-d shorter than an interval" 0 0 '' "$js" record -q -i 1h -d 200ms $loss -o short.jsonl
records --footer short.jsonl && grep -q ' 1 intervals' check; say $? "-d shorter than an interval makes one"
try "an older file is not overwritten unasked" 2 1 'duration.jsonl: exists: name another file, or add --overwrite' "$js" record -q -i 100ms -n 1 $loss -o duration.jsonl
records --footer duration.jsonl && grep -q ' 2 intervals' check; say $? "an older file is whole after that"
try "an older, longer file is replaced" 0 0 '' "$js" record -q -i 100ms -n 1 $loss --overwrite -o duration.jsonl
records --footer duration.jsonl; say $? "an older, longer file is replaced whole"
# tasks + other + overflow = busy, and seq, crc and times of every line of all runs up to here.
jq -se '[.[] | select(.type == "interval") | .cpu] | all((.tasks | map(.cpu_ns) | add // 0) + .other_ns + .overflow_ns == .busy_ns and (.uids | map(.cpu_ns) | add // 0) == .busy_ns)' ./*.jsonl >/dev/null 2>err
code=-; say $? "in every interval of every run tasks + other + overflow = busy = uids" 
try "--top 1 cuts the list, not the sum" 0 0 '' "$js" record -q -i 200ms -n 2 --top 1 --cpu switch $loss -o top.jsonl
jq -se '[.[] | select(.type == "interval") | .cpu] | all((.tasks | length) == 1 and .tasks[0].cpu_ns + .other_ns + .overflow_ns == .busy_ns)' top.jsonl >/dev/null; say $? "--top 1: one task, the rest in other_ns"

# ---- signals ----
# Beside the size that a recording of the whole device is expected to have.
nothing_said() { ! grep -qv '^jankscope: info: about .* a day: ' err; }
begin() { # file arguments...: in the background, until its header is there
	local file=$1; shift
	# Who runs the tests may have had nohup before them, which a recorder obeys.
	env --default-signal=HUP "$js" record "$@" $loss -o "$file" >out 2>err &
	pid=$!; pids="$pids $pid"
	wait_for 2 "$file"
}
for signal in INT TERM HUP; do
	begin $signal.jsonl -i 1h || say 1 "SIG$signal: no header"
	sent=$(date +%s%N); kill -$signal $pid; wait $pid; code=$?
	took=$((($(date +%s%N) - sent) / 1000000))
	[ $code = 0 ] && nothing_said && grep -q '^summary: 1 intervals' out && records --footer $signal.jsonl
	say $? "SIG$signal ends the interval of an hour, prints the summary, exits 0 (after $took ms)"
done
# A reader that does not read: the first signal ends the run within a second all the same, and the
# second one at once, while the outputs are still waited for.
for flags in "--json" ""; do
	for signals in 1 2; do
		mkfifo stuck
		sleep 600 <stuck & pids="$pids $!"; disown
		# shellcheck disable=SC2086
		"$js" record $flags -i 50ms $loss >stuck 2>err & pid=$!; pids="$pids $pid"
		# Its writer is stuck in write() when the pipe is full: it stays in the same one.
		for _ in $(seq 400); do
			writer=$(pgrep -P $pid -x jankscope-write)
			[ -n "$writer" ] && [ "$(awk '{print $1}' "/proc/$writer/syscall" 2>/dev/null)" = 1 ] && sleep 0.3 &&
				[ "$(awk '{print $1}' "/proc/$writer/syscall" 2>/dev/null)" = 1 ] && break
			sleep 0.1
		done
		sent=$(date +%s%N); kill -INT $pid
		[ $signals = 2 ] && for _ in $(seq 100); do
			# The first one is taken when it no longer is blocked.
			grep -q '^SigBlk:.*[2367abef]$' /proc/$pid/status 2>/dev/null || break
		done && kill -INT $pid
		wait $pid; code=$?
		took=$((($(date +%s%N) - sent) / 1000000))
		if [ $signals = 2 ]; then
			[ $code = 130 ] && nothing_said; say $? "a second SIGINT ends it at once with 130 (after $took ms), nobody reads ${flags:-the table}"
		else
			[ $code = "$([ -n "$flags" ] && echo 1 || echo 0)" ] && [ $took -lt 1500 ] && grep -qE 'not be written|not printed: stdout was not read' err
			say $? "SIGINT ends it within a second, nobody reads ${flags:-the table} (after $took ms)"
		fi
		rm -f stuck
	done
done
"$js" record -p no.such.package --wait 1h >out 2>err & pid=$!; pids="$pids $pid"
for _ in $(seq 400); do
	grep -q jankscope /proc/$pid/comm 2>/dev/null && grep -q "SigBlk:.*[2367abef]$" /proc/$pid/status && break; sleep 0.05
done
kill -INT $pid; wait $pid; code=$?
[ $code = 0 ] && [ ! -s err ]; say $? "SIGINT while it waits for a target ends it"

# ---- targets that come and go ----
named() { bash -c 'exec -a "$0" sleep 600' "$1" & sleeper=$!; pids="$pids $sleeper"; disown; }
events() { jq -r 'select(.type == "event" and (.event | startswith("target"))) | "\(.event) \(.pid)"' "$1"; }
named qa.restarts.$$; first=$sleeper
begin restart.jsonl -q -p qa.restarts.$$ -i 100ms || say 1 "restart: no header"
gone() { for _ in $(seq 200); do events restart.jsonl | grep -q "$1" && return 0; sleep 0.05; done; return 1; }
kill -9 $first; gone "target_exit $first"
named qa.restarts.$$; second=$sleeper; gone "target_start $second"
kill -INT $pid; wait $pid; code=$?
printf 'target_start %s\ntarget_exit %s\ntarget_start %s\n' $first $first $second >wanted
[ $code = 0 ] && events restart.jsonl | diff wanted - >err; say $? "a target that restarts is followed: start, exit, start"
records --footer restart.jsonl; say $? "a target that restarts: the recording is whole"

begin exits.jsonl -q -p $second -i 100ms || say 1 "exit: no header"
kill -9 $second; wait $pid; code=$?
[ $code = 0 ] && grep -q '^jankscope: info: the target exited' err && records --footer exits.jsonl && events exits.jsonl | grep -q "target_exit $second"
say $? "a pid that exits ends the run with 0, a line, an event and a footer"

"$js" record -q -p qa.late.$$ --wait 1m -n 2 -i 100ms $loss -o late.jsonl 2>err & pid=$!; pids="$pids $pid"
sleep 0.5; named qa.late.$$
wait $pid; code=$?
[ $code = 0 ] && records --footer late.jsonl && events late.jsonl | grep -q "target_start $sleeper"; say $? "a target that comes while it is waited for is recorded"
exit 0
