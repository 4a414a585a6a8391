#!/usr/bin/env bash
# Make the disk of an Android guest out of a /system tree, a folder that holds one (a recovery's
# root), an ext4 image or a sparse image.  usage: image.sh SYSTEM OUT_DIR
#   -> OUT_DIR/system.img (ext4), OUT_DIR/runtime (what the runtime apex would give: linker and libc),
#      OUT_DIR/policy (SELinux, from the image's own CIL; absent where it has none), OUT_DIR/about
# What cannot be used is told in one line; exit code 2. All of SYSTEM is taken for hostile: it is
# read, never run, and no path in it is followed out of it.
# POLICY=TREE: take SELinux's files from another tree (recoveries have no CIL).
set -u
here=$(cd "$(dirname "$0")" && pwd)
system=${1:?usage: image.sh SYSTEM OUT_DIR} out=${2:?usage: image.sh SYSTEM OUT_DIR}
PATH=$PATH:/sbin:/usr/sbin
fail() { echo "check-android: SYSTEM=$system: $*" >&2; exit 2; }
number() { od -An -v -tu"$2" -j"$3" -N"$2" "$1" 2>/dev/null | tr -d ' '; } # FILE BYTES OFFSET

[ -e "$system" ] || fail "there is no such file or folder"
[ -r "$system" ] || fail "cannot be read"
mkdir -p "$out" || exit 1
work=$(mktemp -d "$out/work.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# Compiled Java code; newer images have it in an apex.
boot_image="framework/arm64/boot.art framework/arm64/boot.oat"

# ---- an image becomes a tree
unpack_ext4() { # IMAGE: only the folders that the guest uses
	local root=/ folder file blocks block_bytes
	blocks=$(number "$1" 4 1028) block_bytes=$((1024 << $(number "$1" 4 1048)))
	[ "$block_bytes" -ge 1024 ] && [ "$block_bytes" -le 65536 ] || fail "an ext4 image with blocks of $block_bytes bytes"
	[ "$(stat -c %s "$1")" -ge $((blocks * block_bytes)) ] ||
		fail "a truncated ext4 image: $(stat -c %s "$1") of $((blocks * block_bytes)) bytes"
	debugfs -R 'stat /system/bin' "$1" 2>/dev/null | grep -q 'Type: directory' && root=/system/
	mkdir "$work/tree"
	for folder in bin lib64 etc system_ext/etc product/etc; do
		mkdir -p "$work/tree/$(dirname $folder)"
		timeout 300 debugfs -R "rdump $root$folder $work/tree/$(dirname $folder)" "$1" >/dev/null 2>&1
	done
	debugfs -R "dump ${root}build.prop $work/tree/build.prop" "$1" >/dev/null 2>&1
	mkdir -p "$work/tree/framework/arm64"
	for file in $boot_image; do debugfs -R "dump $root$file $work/tree/$file" "$1" >/dev/null 2>&1; done
	tree=$work/tree
}
if [ -d "$system" ]; then
	[ -n "$(ls -A "$system")" ] || fail "an empty folder"
	tree=
	for folder in . system system/system root/system recovery/root/system; do
		if [ -d "$system/$folder/bin" ] && [ -f "$system/$folder/bin/init" ]; then tree=$system/$folder; break; fi
	done
	[ -n "$tree" ] || fail "no bin/init in it, nor in system/ or root/system/: not an Android /system"
elif [ -f "$system" ]; then
	image=$system
	if [ "$(number "$image" 4 0)" = $((0xed26ff3a)) ]; then
		why=$(python3 "$here/unsparse.py" "$image" "$work/raw.img" 2>&1) || fail "$why"
		image=$work/raw.img
	fi
	case $(number "$image" 4 0):$(number "$image" 2 1080):$(number "$image" 4 1024) in
	*:$((0xef53)):*) unpack_ext4 "$image" ;;
	*:$((0xe0f5e1e2))) fail "an erofs image; unpack it (fsck.erofs --extract=DIR) and give the folder" ;;
	$((0x04034b50)):*) fail "a zip file; unpack system.img out of it" ;;
	*) fail "neither an ext4 image nor a sparse one" ;;
	esac
	[ -f "$tree/bin/init" ] || fail "an ext4 image without /bin/init and /system/bin/init"
else
	fail "neither a file nor a folder"
fi
tree=$(cd "$tree" && pwd) || exit 1

# ---- what is in it
first() { # FILE...: the first that is a plain file inside the tree
	local file
	for file; do
		[ -f "$tree/$file" ] && case $(realpath "$tree/$file") in "$tree"/*) echo "$tree/$file"; return ;; esac
	done
	return 1
}
[ "$(number "$tree/bin/init" 4 0)" = $((0x464c457f)) ] || fail "its bin/init is no ELF file"
[ "$(number "$tree/bin/init" 1 4)" = 2 ] || fail "its init is a 32-bit program; the guests are arm64"
[ "$(number "$tree/bin/init" 2 18)" = 183 ] || fail "its init is not for arm64"
linker=$(first bin/bootstrap/linker64 bin/linker64) || fail "it has no linker64: only 32 bit, or not whole"
libc=$(first lib64/bootstrap/libc.so lib64/libc.so) || fail "it has no lib64/libc.so: only 32 bit, or not whole"
java=()
for file in $boot_image; do first "$file" >/dev/null && java+=("$tree/$file"); done

# SELinux's files: of the tree, of a recovery's root, or of another tree.
selinux=$tree
[ -z "${POLICY:-}" ] || selinux=$POLICY
contexts=$selinux/etc/selinux
[ -f "$contexts/plat_property_contexts" ] || contexts=$tree/..
[ -f "$contexts/plat_property_contexts" ] || fail "it has no plat_property_contexts, and init ends without; POLICY=TREE takes those of another /system"

property() { # NAME...
	local name
	for name; do
		sed -n "s/^$name=\([^\r]*\).*/\1/p" "$tree/build.prop" "$tree/prop.default" "$tree/../prop.default" 2>/dev/null | head -1 | grep . && return
	done
}
features=$(readelf -n "$tree/bin/init" 2>/dev/null | sed -n 's/.*AArch64 feature: //p')
release=$(property ro.system.build.version.release ro.build.version.release | tr -cd '0-9A-Za-z.')
about="Android ${release:-of unknown release} (API $(property ro.system.build.version.sdk ro.build.version.sdk | tr -cd 0-9)), $(property ro.build.type ro.system.build.type | tr -cd a-z), ${features:-no BTI or PAC}"

compile() { timeout 120 secilc -m -M true -G -N -c 30 -o "$out/policy" -f /dev/null "$@" >"$out/secilc.log" 2>&1; }
# The policies of 16 and later have statements that an older secilc does not know: capabilities of newer kernels, and
# rules for single netlink messages. Nothing here asks for them.
older_cil() {
	local part i=0
	mkdir -p "$work/cil"
	for part in "${cil[@]}"; do
		sed -E '/^\(allowx .*\(nlmsg /d
			/^\(policycap (network_peer_controls|open_perms|extended_socket_class|always_check_network|cgroup_seclabel|nnp_nosuid_transition|genfs_seclabel_symlinks)\)/!{ /^\(policycap /d; }' \
			"$part" >"$work/cil/$i.cil"
		i=$((i + 1))
	done
}

# The same tree again: nothing to do.
key=$({ find "$tree/bin" "$tree/lib64" "$tree/etc" "${java[@]}" -printf '%P %y %s %T@ %l\n'; cat "$0"; echo "$system ${POLICY:-}"; } | sha256sum)
if [ "$(cat "$out/key" 2>/dev/null)" != "$key" ]; then
	rm -f "$out/key"
	rm -rf "$out/runtime" "$out/policy" "$out/system.img"

	# SELinux: with system_ext's and product's rules where there are any.
	cil=()
	for part in "$selinux/etc/selinux/plat_sepolicy.cil" "$selinux"/{system_ext,product}/etc/selinux/{system_ext,product}_sepolicy.cil; do
		[ -f "$part" ] && cil+=("$part")
	done
	if [ ${#cil[@]} -gt 0 ]; then
		older_cil
		compile "${cil[@]}" || compile "${cil[0]}" || compile "$work"/cil/* || compile "$work/cil/0.cil" ||
			fail "secilc does not take its policy: $(grep -m1 . "$out/secilc.log")"
	elif [ -f "$contexts/sepolicy" ]; then
		cp -L "$contexts/sepolicy" "$out/policy"
	fi

	mkdir -p "$out/runtime/bin" "$out/runtime/lib64/bionic" "$work/system"
	cp -L "$linker" "$out/runtime/bin/linker64"
	for library in libc libdl libm; do
		cp -L "$(dirname "$libc")/$library.so" "$out/runtime/lib64/bionic/" || fail "it has no $library.so for 64 bit"
	done
	# mke2fs copies links as links.
	for folder in bin lib64 etc; do
		cp -a "$tree/$folder" "$work/system/" || exit 1
	done
	mkdir -p "$work/system/framework/arm64"
	[ ${#java[@]} = 0 ] || cp -L "${java[@]}" "$work/system/framework/arm64/" || exit 1
	for file in build.prop ../prop.default; do
		[ -f "$tree/$file" ] && cp -L "$tree/$file" "$work/system/"
	done
	mkdir -p "$work/system/etc/init" "$work/system/etc/selinux"
	if [ "$contexts" != "$tree/etc/selinux" ]; then
		rm -rf "$work/system/etc/selinux"
		mkdir "$work/system/etc/selinux"
		cp -L "$contexts"/*_contexts "$work/system/etc/selinux/"
		[ ! -d "$contexts/mapping" ] || cp -a "$contexts/mapping" "$work/system/etc/selinux/"
	fi
	# What comes out of an archive or a repository may have lost its modes.
	chmod -R a+rX,go-w "$work/system" 2>/dev/null
	find "$work/system/bin" -type f -exec chmod a+x {} +
	rm -f "$out/system.img"
	mke2fs -q -t ext4 -b 4096 -O ^has_journal -E root_owner=0:0 -d "$work/system" "$work/system.img" \
		$(($(du -sm --apparent-size "$work/system" | cut -f1) * 11 / 10 + 48))M >"$work/mke2fs.log" 2>&1 ||
		fail "mke2fs: $(tail -1 "$work/mke2fs.log")"
	mv "$work/system.img" "$out/system.img"
	echo "$about" >"$out/about"
	echo "$key" >"$out/key"
fi
echo "# image: $about, $(stat -c %s "$out/system.img") bytes, policy $(stat -c '%s bytes' "$out/policy" 2>/dev/null || echo none)"
