#!/usr/bin/env bash
# The unwinder against eu-stack, gdb and the program's own truth: gcc and clang, with and without
# frame pointers, shared library, static, vdso, signal frames, recursion, every place that unwind
# tables can be in, and an ELF inside another file. Prints TAP.
set -u
src=$PWD/tests/apps/stack_target.c
export C_INCLUDE_PATH=$PWD/tests # spin.h
dump=$BUILD/tests/kernel/stack_dump
work=$(mktemp -d)
# Only children that nobody has waited for: the number of another may be a stranger's by now.
trap 'for p in $(jobs -p); do kill -9 "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
cd "$work" || exit 1
n=0
say() { # ok? name detail
	if [ "$1" = 0 ]; then echo "ok - stack: $2"; else echo "not ok - stack: $2"; sed 's/^/# /' "${3:-/dev/null}" | head -60; fi
}
if ! command -v eu-stack >/dev/null; then echo "ok - stack oracle # SKIP no eu-stack"; exit 0; fi
[ -x "$dump" ] || { echo "not ok - stack: $dump was not built"; exit 1; }

start() { # program args... -> $pid, ready
	rm -f out
	"$@" >out 2>&1 &
	pid=$!
	for _ in $(seq 500); do grep -qs ready out && break; sleep 0.02; done
	sleep 0.05
}
stop() { kill -9 "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; true; }
ours() { sed -n 's/^#[0-9]* 0x0*\([0-9a-f]*\) \(.*\) [a-z]* [^ ]*$/\1 \2/p' ours; }
eus() { sed -n 's/^#[0-9]* *0x0*\([0-9a-f]*\)\( - 1\)\?\( \([^ ]*\).*\)\?$/\1 \4/p' eu | sed 's/@.*//'; }

# The same return addresses as eu-stack's; where both have a name, the same but for underscores.
versus_eu() { # name
	"$dump" "$pid" ptrace >ours 2>&1
	eu-stack -p "$pid" >eu 2>&1
	ours >a; eus >b
	{ cat ours; echo "eu-stack:"; cat eu; } >both
	[ -s a ] && diff <(cut -d' ' -f1 a) <(cut -d' ' -f1 b) >/dev/null &&
		paste -d' ' <(cut -d' ' -f2- a | tr -s ' ' _) <(cut -d' ' -f2 b) | awk '
			{ a = $1; b = $2; gsub(/^_+/, "", a); gsub(/^_+/, "", b); sub(/^vdso_/, "", a); sub(/^vdso_/, "", b); sub(/^libc_/, "", a); sub(/^libc_/, "", b)
			  if (a != "?" && b != "" && a != b) { print "name", a, b; bad = 1 } } END { exit bad }' >>both &&
		grep -q '; outermost frame; .*; complete' ours
	say $? "$1 = eu-stack, $(wc -l <a) frames" both
}
# The program's own truth: these names in this order, innermost first ('...' skips any number).
versus_truth() { # name pattern [end]
	"$dump" "$pid" ptrace >ours 2>&1
	ours | cut -d' ' -f2- | tr '\n' ' ' | grep -qE "^$2" && grep -q "${3:-outermost frame}" ours
	say $? "$1" ours
}
rec6='descend descend descend descend descend descend '

for cc in gcc clang; do
	command -v $cc >/dev/null || { echo "ok - stack: $cc # SKIP not installed"; continue; }
	for fp in -fomit-frame-pointer -fno-omit-frame-pointer; do
		$cc -O2 $fp -o t "$src" && for mode in block sleep vdso spin qsort raise segv deep; do
			# A spinning target moves between the two looks; only its outer frames hold still.
			start ./t $mode
			if [ $mode = vdso ] || [ $mode = spin ]; then
				versus_truth "$cc $fp $mode" "(.*vdso[^ ]* )?(clock_gettime|__clock_gettime|\? )?.*leaf ${rec6}main "
			else
				versus_eu "$cc $fp $mode"
			fi
			stop
		done
	done
	$cc -O2 -fPIC -shared -DSECOND_PART -o libsecond.so "$src" &&
		$cc -O2 -DFIRST_PART -o t "$src" -L. -lsecond -Wl,-rpath,"$work" -rdynamic &&
		{ start ./t block; versus_eu "$cc shared library"; stop; }
done
start "$BUILD/tests/apps/stack_target" raise; versus_eu "static"; stop
start "$BUILD/tests/apps/stack_target" segv; versus_eu "static, signal frame over a fault"; stop

# .debug_frame instead of .eh_frame
gcc -O2 -g -fno-asynchronous-unwind-tables -fomit-frame-pointer -o t "$src" && {
	readelf -S t | grep -q '\.debug_frame' || echo "# no .debug_frame made"
	start ./t block; versus_eu ".debug_frame only"; stop
}
# .debug_frame and symbols only inside .gnu_debugdata: the shape of ART's odex files
nm t | sed -n 's/.* [Tt] //p' >keep
objcopy --only-keep-debug t d && objcopy -S --remove-section .gdb_index --remove-section .comment \
	--keep-symbols=keep --remove-section .debug_info --remove-section .debug_abbrev --remove-section .debug_line \
	--remove-section .debug_str --remove-section .debug_line_str --remove-section .debug_loclists \
	--remove-section .debug_rnglists --remove-section .debug_aranges --keep-section .debug_frame d mini &&
	xz -k mini && strip -o stripped t && objcopy --add-section .gnu_debugdata=mini.xz stripped packed && {
	readelf -SW mini 2>/dev/null | grep -q '\.debug_frame' || echo "# no .debug_frame in mini"
	readelf -SW packed 2>/dev/null | grep -q '\.debug_frame' && echo "# .debug_frame left in packed"
	start ./packed block
	versus_truth ".debug_frame only in .gnu_debugdata (eu-stack cannot)" "[^ ]+ leaf ${rec6}main "
	stop
}
# symbols only inside .gnu_debugdata, .eh_frame in the file: Fedora's and AOSP's shape
gcc -O2 -fomit-frame-pointer -o t "$src"
nm t | sed -n 's/.* [Tt] //p' >keep
objcopy --only-keep-debug t d; rm -f mini mini.xz
objcopy -S --keep-symbols=keep d mini && xz -k mini && strip -o stripped t &&
	objcopy --add-section .gnu_debugdata=mini.xz stripped packed && {
	start ./packed block; versus_eu "stripped + .gnu_debugdata"; stop
}
# No tables at all: along the frame pointers, and it says so
gcc -O2 -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-omit-frame-pointer -o t "$src" && {
	start ./t block
	"$dump" "$pid" ptrace >ours 2>&1
	ours | cut -d' ' -f2- | tr '\n' ' ' | grep -qE "^[^ ]+ leaf ${rec6}main " && grep -q ' descend fp ' ours &&
		grep -q 'incomplete' ours
	say $? "no tables: frame pointers, marked and not called complete" ours
	stop
}
# 64 KiB of a deep stack: cut, and it says where
gcc -O2 -o t "$src" && {
	start ./t deep
	"$dump" "$pid" ptrace 4096 >ours 2>&1
	grep -q 'memory outside snapshot; 4096 bytes; incomplete' ours
	say $? "a cut stack says so" ours
	# deleted while it runs
	rm -f t
	"$dump" "$pid" ptrace >ours 2>&1
	grep -q 'outermost frame' ours && grep -q ' main cfi ' ours
	say $? "deleted ELF file still read" ours
	stop
}
# An ELF inside another file at an offset, as a library stored in an APK
cat >emb.c <<'E'
__attribute__((noinline)) static int inner(int (*f)(int), int n) { return f(n) + 1; }
int embedded(int (*f)(int), int n) { return inner(f, n) + 1; }
E
gcc -O2 -fPIC -shared -nostdlib -fno-omit-frame-pointer -fno-optimize-sibling-calls -Wl,-e,embedded -o emb.so emb.c &&
	{ printf 'PK\003\004'; head -c 8188 /dev/zero; cat emb.so; head -c 5000 /dev/zero; } >base.apk &&
	gcc -O2 -o t "$src" && {
	start ./t apk "$work/base.apk" 8192
	versus_truth "ELF inside an APK" "[^ ]+ leaf descend descend descend from_apk.* (inner )?embedded .*main "
	grep -q 'base.apk+0x' ours; say $? "ELF inside an APK: module and offset" ours
	stop
}
# A library whose file was emptied under the process: marked, said, survived
gcc -O2 -fPIC -shared -fno-omit-frame-pointer -DSECOND_PART -o libsecond.so "$src" &&
	gcc -O2 -DFIRST_PART -o t "$src" -L. -lsecond -Wl,-rpath,"$work" -rdynamic && {
	start ./t block
	: >libsecond.so
	"$dump" "$pid" ptrace >ours 2>&1
	grep -q ' leaf cfi ' ours && grep -q '/libsecond.so+0x' ours && grep -q '; incomplete' ours
	say $? "a library without its bytes: $(sed -n '1s/.*; \(.*\); [0-9]* bytes.*/\1/p' ours)" ours
	stop
}
# C++ names
if command -v g++ >/dev/null; then
	cat >c.cc <<'E'
#include <unistd.h>
namespace app { template <class T> struct Box { __attribute__((noinline)) int wait(T); }; 
template <class T> int Box<T>::wait(T t) { (void)!write(1, "ready\n", 6); pause(); return t; } }
int main() { app::Box<int> b; return b.wait(3) + 1; }
E
	g++ -O1 -o t c.cc && { start ./t; "$dump" "$pid" ptrace >ours 2>&1; grep -q 'app::Box<int>::wait(int)' ours; say $? "C++ names are demangled" ours; stop; }
fi
# gdb, where it is there: the same names down to main
if command -v gdb >/dev/null; then
	gcc -O2 -o t "$src"
	for mode in block qsort segv; do
		start ./t $mode
		"$dump" "$pid" ptrace >ours 2>&1
		timeout 60 gdb -nx -batch -p "$pid" -ex bt 2>/dev/null |
			sed -n 's/^#[0-9]* *\(0x[0-9a-f]* in \)\?\([^(]*\) (.*/\2/p; s/^#[0-9]* *<signal handler called>/SIGNAL/p' |
			sed 's/^_*//; s/ *$//' >g
		ours | cut -d' ' -f2- | sed 's/^_*//' >o
		awk '/^main$/ { print; exit } { print }' g >g1; awk '/^main$/ { print; exit } { print }' o >o1
		paste -d' ' o1 g1 | awk '$1 != "?" && $2 != "SIGNAL" && $1 != $2 && !($1 ~ /restore_rt/) { bad = 1 } END { exit bad || NR < 4 }' &&
			[ "$(wc -l <g1)" = "$(wc -l <o1)" ]
		{ cat ours; echo gdb:; cat g; } >both
		say $? "gdb $mode, $(wc -l <g1) frames down to main" both
		stop
	done
else
	echo "ok - stack: gdb # SKIP not installed"
fi
exit 0
