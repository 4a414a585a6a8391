#!/usr/bin/env bash
# Pack the initramfs of one architecture: busybox, mksh as Android's shell, the tool, the test
# programs, the guest scripts.  usage: pack.sh arm64|amd64 BUILD_OF_THAT_ARCH OUT.cpio
set -eu
cd "$(dirname "$0")/../.."
arch=$1 build=$2 out=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# mktemp gives 0700, and then no app uid could exec anything.
chmod 755 "$work"
root=$work
strip=strip
[ "$arch" = arm64 ] && [ "$(uname -m)" != aarch64 ] && strip=aarch64-linux-gnu-strip
mkdir -p "$root"/{bin,dev,payload/apps,payload/kernel,system/bin}
cp "build/vm/busybox-$arch" "$root/bin/busybox"
cp "build/vm/mksh-$arch" "$root/system/bin/sh"
cp tests/vm/guest/init "$root/init"
cp tests/vm/guest/*.sh "$root/payload/"
[ -f "$build/jankscope" ] && cp "$build/jankscope" "$root/bin/jankscope"
for kind in apps kernel; do
	for source in tests/$kind/*.c; do
		[ -f "$source" ] || continue
		name=$(basename "$source" .c)
		file=$build/tests/$kind/$name
		[ -f "$file" ] || continue
		# The apps are targets, and some tests are their own: they keep their names for the stacks.
		if [ $kind = apps ]; then cp "$file" "$root/payload/apps/"; else "$strip" -g -o "$root/payload/$kind/$name" "$file"; fi
	done
done
cp "$build"/tests/vm/stack_target_signed "$root/payload/apps/" 2>/dev/null || true
# Traces with an answer, small ones: what the emulated machine reads in a second.
shared=${SHARED:-$(cd .. && pwd)/shared}
mkdir "$root/payload/traces"
for trace in pixel7pro_a13_120hz_nowinandroid.perfetto-trace synthetic/frame_timeline_events.pb synthetic/edge_zip.zip; do
	[ ! -f "$shared/traces/$trace" ] || cp "$shared/traces/$trace" "$root/payload/traces/"
done
# Disks that are to fail, with a journal and without one.
mkdir "$root/payload/disks"
for journal in has_journal ^has_journal; do
	truncate -s 24M "$work.img"
	mke2fs -q -t ext4 -O $journal "$work.img"
	gzip -9c "$work.img" >"$root/payload/disks/$journal.img.gz"
done
rm "$work.img"
chmod -R a+rX "$root"
(cd "$root" && find . -mindepth 1 | sort | cpio -o -H newc -R 0:0 --quiet) >"$out.tmp"
mv "$out.tmp" "$out"
