#!/usr/bin/env bash
# Debian's eu-stack and gdb for arm64, with the libraries that they need, for the guest's payload.
# usage: oracle.sh OUT_DIR   Exit code 1: one of them is not to be had, and one line says why.
set -u
cd "$(dirname "$0")/../.."
out=$1 keep=build/vm/debs/oracle
if [ ! -x $keep/usr/bin/eu-stack ] || [ ! -x $keep/usr/bin/gdb ]; then
	mkdir -p $keep
	# The cross compilers' packages have the other libraries.
	(cd $keep && timeout 120 apt-get -q download {elfutils,gdb-minimal,libexpat1,libgmp10,libreadline8,libtinfo6,libxxhash0}:arm64 \
		>log 2>&1 && for deb in *_arm64.deb; do dpkg-deb -x "$deb" . || exit 1; done) ||
		{ echo "no elfutils and gdb for arm64: $(tail -1 $keep/log)"; exit 1; }
fi
mkdir -p "$out"
cp $keep/usr/bin/eu-stack $keep/usr/bin/gdb "$out/"
# gdb asks servers for files of symbols by this library, which needs some thirty others; there is no network.
printf '%s\n' 'void *debuginfod_begin(void) { return 0; }' 'void debuginfod_end(void) {}' \
	'int debuginfod_find_debuginfo(void) { return -38; }' 'int debuginfod_find_executable(void) { return -38; }' \
	'int debuginfod_find_source(void) { return -38; }' 'void *debuginfod_get_user_data(void) { return 0; }' \
	'void debuginfod_set_progressfn(void) {}' 'void debuginfod_set_user_data(void) {}' >$keep/none.c
printf 'ELFUTILS_0.178 { debuginfod_begin; debuginfod_end; debuginfod_find_*; debuginfod_set_progressfn; };
ELFUTILS_0.179 { debuginfod_get_user_data; debuginfod_set_user_data; };\n' >$keep/none.map
aarch64-linux-gnu-gcc -shared -fPIC -Wl,--version-script=$keep/none.map -Wl,-soname,libdebuginfod.so.1 \
	-o "$out/libdebuginfod.so.1" $keep/none.c || { echo "no library for gdb"; exit 1; }
# Each library that is needed, and what that needs in turn.
todo="$out/eu-stack $out/gdb"
while [ -n "$todo" ]; do
	needed=$(aarch64-linux-gnu-readelf -d $todo 2>/dev/null | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' | sort -u)
	todo=
	for name in $needed; do
		[ ! -e "$out/$name" ] || continue
		for folder in {$keep/,/}{lib,usr/lib}/aarch64-linux-gnu /usr/aarch64-linux-gnu/lib; do
			[ -e $folder/$name ] && cp -L $folder/$name "$out/" && break
		done
		[ -e "$out/$name" ] || { echo "no $name for arm64"; exit 1; }
		todo="$todo $out/$name"
	done
done
