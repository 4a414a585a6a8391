#!/usr/bin/env bash
# Debian's eu-stack for arm64, with the libraries that it needs, for the guest's payload.
# usage: oracle.sh OUT_DIR   Exit code 1: it is not to be had, and one line says why.
set -u
cd "$(dirname "$0")/../.."
out=$1 keep=build/vm/debs/eu-stack
if [ ! -x $keep/usr/bin/eu-stack ]; then
	mkdir -p $keep
	(cd $keep && timeout 60 apt-get -q download elfutils:arm64 >log 2>&1 && dpkg-deb -x elfutils_*_arm64.deb .) ||
		{ echo "no elfutils for arm64: $(tail -1 $keep/log)"; exit 1; }
fi
mkdir -p "$out"
cp $keep/usr/bin/eu-stack "$out/"
# Each library that is needed, and what that needs in turn.
todo="$out/eu-stack"
while [ -n "$todo" ]; do
	needed=$(aarch64-linux-gnu-readelf -d $todo 2>/dev/null | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' | sort -u)
	todo=
	for name in $needed; do
		[ ! -e "$out/$name" ] || continue
		for folder in /lib/aarch64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/aarch64-linux-gnu/lib; do
			[ -e $folder/$name ] && cp -L $folder/$name "$out/" && break
		done
		[ -e "$out/$name" ] || { echo "no $name for arm64"; exit 1; }
		todo="$todo $out/$name"
	done
done
