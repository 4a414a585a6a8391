#!/usr/bin/env bash
# Pack the initramfs of an Android guest.  usage: pack.sh BUILD_OF_ARM64 IMAGE_DIR OUT.cpio
set -eu
cd "$(dirname "$0")/../.."
build=$1 image=$2 out=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir -p "$root"/{bin,dev,guest}
cp build/vm/busybox-arm64 "$root/bin/busybox"
cp tests/android/guest/init "$root/init"
chmod 755 "$root/init"
cp -r tests/android/guest/*.sh tests/android/guest/rooms "$image/runtime" "$root/guest/"
[ -f "$image/policy" ] && cp "$image/policy" "$root/guest/"
cp "$build/jankscope" "$build/tests/apps/artdemo" "$build/tests/apps/frame_producer" "$build/tests/kernel/stack_dump" "$root/guest/"
mkdir "$root/guest/debian"
tests/android/oracle.sh "$root/guest/debian" >"$root/guest/why" || rm -rf "$root/guest/debian/eu-stack"
mv "$root/guest/why" "$root/guest/debian/"
chmod -R a+rX "$root"
(cd "$root" && find . -mindepth 1 | sort | cpio -o -H newc -R 0:0 --quiet) >"$out.tmp"
mv "$out.tmp" "$out"
