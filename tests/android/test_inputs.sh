#!/usr/bin/env bash
# What `make check-android SYSTEM=...` and artdemo say of what they cannot use: one line, exit code 2, nothing
# left.
# Runs beside others (20 s)
set -u
cd "$(dirname "$0")/../.."
PATH=$PATH:/sbin:/usr/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
ok() { # STATUS NAME [DETAIL]
	if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2${3:+: $3}"; failed=1; fi
}
refused() { # NAME SYSTEM WORDS
	local text rc
	text=$(timeout 60 tests/android/image.sh "$2" "$work/out" 2>&1)
	rc=$?
	[ $rc = 2 ] && [ "$(wc -l <<<"$text")" = 1 ] && grep -q -- "$3" <<<"$text" && ! ls "$work"/out/work.* >/dev/null 2>&1
	ok $? "inputs: $1" "exit $rc, $text"
}
# An ELF header: CLASS (1: 32 bit, 2: 64 bit) MACHINE
elf() { printf "\x7fELF\\x$1\1\1\0\0\0\0\0\0\0\0\0\3\0\\x$2\0"; }
tree() { # NAME CLASS MACHINE: a tree with init, linker and C library
	mkdir -p "$work/$1"/{bin,lib64,etc/selinux}
	touch "$work/$1/etc/selinux/plat_property_contexts"
	elf "$2" "$3" >"$work/$1/bin/init"
	cp "$work/$1/bin/init" "$work/$1/bin/linker64"
	for library in libc libdl libm; do cp "$work/$1/bin/init" "$work/$1/lib64/$library.so"; done
	echo 'ro.build.version.release=14' >"$work/$1/build.prop"
}
tree whole 2 b7
tree arm32 1 28
tree x86 2 3e
tree no64 2 b7
tree unnamed 2 b7
rm -r "$work/unnamed/etc/selinux"
rm -r "$work/no64/bin/linker64" "$work/no64/lib64"
tree outside 2 b7
rm "$work/outside/bin/linker64"
ln -s /bin/true "$work/outside/bin/linker64"
mkdir "$work/empty" "$work/other"
touch "$work/other/file"
truncate -s 8M "$work/whole.img" "$work/other.img"
mke2fs -q -t ext4 -b 4096 -O ^has_journal -d "$work/whole" "$work/whole.img"
mke2fs -q -t ext4 -b 4096 -O ^has_journal -d "$work/other" "$work/other.img"
head -c 3000000 "$work/whole.img" >"$work/short.img"
# A sparse image of whole.img: its blocks as they are, those of zeros filled and left out in turn.
sparse() { # BLOCKS_SAID
	python3 - "$work/whole.img" "$1" <<-'EOF'
	import struct, sys
	data = open(sys.argv[1], "rb").read()
	chunks = []
	for at in range(0, len(data), 4096):
	    block = data[at:at + 4096]
	    kind = 0xCAC1 if any(block) else 0xCAC2 + at // 4096 % 2
	    body = {0xCAC1: block, 0xCAC2: bytes(4), 0xCAC3: b""}[kind]
	    chunks.append(struct.pack("<HHII", kind, 0, 1, 12 + len(body)) + body)
	head = struct.pack("<IHHHHIIII", 0xED26FF3A, 1, 0, 28, 12, 4096, int(sys.argv[2]), len(chunks), 0)
	sys.stdout.buffer.write(head + b"".join(chunks))
	EOF
}
sparse 2048 >"$work/whole.simg"
head -c 90000 "$work/whole.simg" >"$work/short.simg"
head -c 20 "$work/whole.simg" >"$work/head.simg"
sparse 4096 >"$work/more.simg"
truncate -s 8M "$work/zeros.img"

refused "a path that is not there" "$work/nowhere" 'no such file or folder'
refused "an empty folder" "$work/empty" 'empty folder'
refused "a folder of other things" "$work/other" 'no bin/init'
refused "a tree of 32 bit only" "$work/arm32" '32-bit'
refused "a tree with a 64-bit init and no 64-bit linker" "$work/no64" 'no linker64'
refused "a tree of another machine" "$work/x86" 'not for arm64'
refused "a linker64 that is a link out of the tree" "$work/outside" 'no linker64'
refused "a recovery without SELinux's files" "$work/unnamed" 'POLICY='
refused "a truncated ext4 image" "$work/short.img" 'truncated ext4'
refused "an ext4 image of other things" "$work/other.img" 'without /bin/init'
refused "a truncated sparse image" "$work/short.simg" 'sparse image: truncated at byte'
refused "a sparse image's head alone" "$work/head.simg" 'sparse image: truncated'
refused "a sparse image that says more than it has" "$work/more.simg" 'sparse image: 2048 of 4096 blocks'
refused "zeros" "$work/zeros.img" 'neither an ext4 image nor a sparse one'
refused "a device" /dev/null 'neither a file nor a folder'

same() { # NAME SYSTEM
	rm -rf "$work/out"
	text=$(tests/android/image.sh "$2" "$work/out" 2>&1) && cmp -s "$work/whole/bin/init" "$work/out/runtime/bin/linker64" &&
		debugfs -R 'cat /bin/init' "$work/out/system.img" 2>/dev/null | cmp -s - "$work/whole/bin/init"
	ok $? "inputs: $1 becomes a disk" "$text"
}
same "a tree" "$work/whole"
mkdir -p "$work/recovery/root"
mv "$work/whole" "$work/recovery/root/system"
ln -s recovery/root/system "$work/whole"
same "a recovery's root" "$work"/recovery
same "an ext4 image" "$work/whole.img"
same "a sparse image" "$work/whole.simg"

# ---- artdemo: boot.art and boot.oat that are not what they say. Their code is never reached here.
artdemo() { # NAME EXIT_CODE WORDS [KEY=VALUE...]
	local name=$1 want=$2 words=$3 text rc
	shift 3
	python3 tests/android/boot_files.py "$work/boot" "$@" || { ok 1 "artdemo: $name: the files are made"; return; }
	text=$(timeout 20 "${BUILD:-build}/tests/apps/artdemo" "$work/boot.art" "$work/boot.oat" 10 1 1 2>&1)
	rc=$?
	[ $rc = "$want" ] && [ "$(wc -l <<<"$text")" = 1 ] && grep -q -- "$words" <<<"$text"
	ok $? "artdemo: $name" "exit $rc, $text"
}
artdemo "a sound image that nobody knows" 77 'checksum 0x1234 are not known'
artdemo "blocks that are not in the file" 2 'blocks are not in it' blocks=0xfff0
artdemo "blocks without end" 2 'blocks are not in it' count=0xffffffff
artdemo "a block whose data are not in the file" 2 'block 0 is not in it' from=0xfffffff0
artdemo "a block that goes out of the image" 2 'block 0 is not in it' to=0x1001
artdemo "a block of another kind" 2 'mode 1) cannot be unpacked' mode=1
artdemo "a block with more than it says" 2 'cannot be unpacked' room=0x1fff
artdemo "LZ4 from before its beginning" 2 'cannot be unpacked' lz4=10001100
artdemo "LZ4 with a length that does not end" 2 'cannot be unpacked' lz4=f0ffffff
artdemo "LZ4 that ends in a distance" 2 'cannot be unpacked' lz4=100001
artdemo "an image that ends behind 4 GiB" 2 'its place is' begin=0xfffff000
artdemo "an image at the program's place" 2 'its place is' begin=0x400000
artdemo "a boot.oat at boot.art's place" 2 'cannot be mapped' oat_begin=0x70000000 oat_end=0x70004000 oat_data=0x70001000
artdemo "a boot.oat that ends before it begins" 2 'its place is' oat_end=0x70fff000
artdemo "a boot.oat of another machine" 2 'no ELF file for arm64' machine=62
artdemo "a segment that is not in the file" 2 'segment 1 is not in its place' offset=0x2000
artdemo "a segment behind the end of its place" 2 'segment 1 is not in its place' at=0x4000
artdemo "an oat header that is not in the file" 2 'no oat header' oat_data=0x80000000
artdemo "a boot.oat of another boot.art" 2 'no oat file' checksum=0x4321

# A policy as those of Android 16 and later: with statements that a secilc of before 2024 does not know.
tree newer 2 b7
cat >"$work/newer/etc/selinux/plat_sepolicy.cil" <<'EOF_CIL'
(handleunknown deny)
(mls true)
(policycap open_perms)
(policycap functionfs_seclabel)
(class file (read))
(class netlink_route_socket (nlmsg))
(classorder (file netlink_route_socket))
(sensitivity s0)
(sensitivityorder (s0))
(category c0)
(categoryorder (c0))
(sensitivitycategory s0 (c0))
(type init)
(role r)
(roletype r init)
(user u)
(userrole u r)
(userlevel u (s0))
(userrange u ((s0) (s0)))
(sid kernel)
(sidorder (kernel))
(sidcontext kernel (u r init ((s0) (s0))))
(allow init self (file (read)))
(allowx init self (nlmsg netlink_route_socket ((range 0x10 0x12))))
EOF_CIL
text=$(timeout 60 tests/android/image.sh "$work/newer" "$work/out" 2>&1) && [ -s "$work/out/policy" ]
ok $? "inputs: a policy of Android 16 is taken" "$text"

text=$(SYSTEM='' tests/android/check.sh 2>&1)
rc=$?
[ $rc = 0 ] && [ "$(wc -l <<<"$text")" = 1 ] && grep -q '# SKIP .*developer.android.com/topic/generic-system-image' <<<"$text"
ok $? "inputs: without SYSTEM one line says how to get one" "exit $rc, $text"
text=$(SYSTEM=$work/nowhere tests/android/check.sh 2>&1)
[ $? = 2 ] && [ "$(wc -l <<<"$text")" = 1 ]
ok $? "inputs: check-android ends with 2 as well" "$text"
exit $failed
