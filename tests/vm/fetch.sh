#!/usr/bin/env bash
# Bring the kernel and the few packages of a guest into build/vm, from Debian's archive or from
# $SHARED/kernels. Prints nothing when all is there; on failure one line with the reason, exit 1.
# usage: fetch.sh GUEST
#   -> build/vm/kernels/GUEST/{Image,phone.dtb?,modules.cpio}, build/vm/busybox-ARCH, build/vm/mksh-ARCH
set -u
cd "$(dirname "$0")/../.."
. tests/vm/guests.sh
SHARED=${SHARED:-$(cd .. && pwd)/shared}
vm=$PWD/build/vm
guest_fields "$1" || exit 1
mkdir -p "$vm/debs" "$vm/kernels"
work=$(mktemp -d "$vm/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

# Package lists: on a new machine there are none, or none of the other architecture.
if [ "$(id -u)" = 0 ] && ! apt-cache show "busybox-static:$arch" >/dev/null 2>&1; then
	apt-get update -qq >/dev/null 2>&1
fi

# Of another release of Debian: with lists of its own, so that this machine's apt knows nothing of it.
apt_options=()
use_suite() { # SUITE
	local lists=$vm/$1 mirror
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/*$') || return 1
	mkdir -p "$lists/lists/partial"
	echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$lists/sources.list"
	apt_options=(-o "Dir::Etc::SourceList=$lists/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::State::Lists=$lists/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
	ls "$lists/lists/"*_Packages* >/dev/null 2>&1 || apt-get "${apt_options[@]}" update -qq >/dev/null 2>&1
}

# Download a package once; path on stdout.
deb() { # PACKAGE:ARCH
	local name=${1%%:*} arch=${1##*:} file
	file=$(ls "$vm/debs/${name}_"*"_$arch.deb" 2>/dev/null | head -1)
	if [ -z "$file" ]; then
		(cd "$work" && apt-get "${apt_options[@]}" download -qq "$name:$arch" >"$work/log" 2>&1) ||
			{ echo "apt-get download $name:$arch: $(tail -1 "$work/log")" >&2; return 1; }
		mv "$work/${name}"_*.deb "$vm/debs/"
		file=$(ls "$vm/debs/${name}_"*"_$arch.deb" | head -1)
	fi
	echo "$file"
}

# An emulator takes 5 s to unpack an xz kernel, and boots the ELF file in it as well (PVH). Offsets:
# Documentation/x86/boot.rst, setup_sects, payload_offset, payload_length.
unpack_bzimage() { # FILE, in place; left as it is where it holds no xz
	local u32="od -An -v -tu4" begin length
	begin=$((($(od -An -tu1 -j497 -N1 "$1") + 1) * 512 + $($u32 -j584 -N4 "$1")))
	length=$($u32 -j588 -N4 "$1")
	# The last 4 bytes are not xz's: the length of what comes out.
	tail -c +$((begin + 1)) "$1" | head -c $((length - 4)) | xz -dc >"$1.elf" 2>/dev/null &&
		mv "$1.elf" "$1"
	rm -f "$1.elf"
}

for tool in busybox-static mksh; do
	case $tool in busybox-static) in_deb=bin/busybox out=$vm/busybox-$arch ;; *) in_deb=usr/lib/klibc/bin/mksh out=$vm/mksh-$arch ;; esac
	[ -f "$out" ] && continue
	file=$(deb "$tool:$arch" 2>"$work/why") || fail "$(cat "$work/why")"
	dpkg-deb -x "$file" "$work/$tool"
	[ -f "$work/$tool/$in_deb" ] || fail "$tool:$arch holds no $in_deb"
	cp "$work/$tool/$in_deb" "$out.tmp.$$" && mv "$out.tmp.$$" "$out"
done

dest=$vm/kernels/$1
[ -f "$dest/modules.cpio" ] && exit 0
mkdir -p "$work/kernel" "$work/modules"
if [ -n "$kernel_image" ]; then
	built=$vm/gki/${kernel_image#gki-like-}/Image
	if [ -f "$built" ]; then
		cp "$built" "$work/kernel/Image"
	elif [ -f "$SHARED/kernels/$kernel_image.Image.xz" ]; then
		xz -dc "$SHARED/kernels/$kernel_image.Image.xz" >"$work/kernel/Image" || fail "xz: $kernel_image"
	else
		fail "no $kernel_image.Image.xz in $SHARED/kernels; 'make vm-kernel' builds one"
	fi
	if [ -f "$SHARED/kernels/$dtb" ]; then
		cp "$SHARED/kernels/$dtb" "$work/kernel/$dtb"
	elif [ -f "$vm/gki/$dtb" ]; then
		cp "$vm/gki/$dtb" "$work/kernel/$dtb"
	else
		fail "no $dtb in $SHARED/kernels; 'make vm-kernel' makes one"
	fi
else
	[ -z "$kernel_suite" ] || use_suite "$kernel_suite"
	package=$(apt-cache "${apt_options[@]}" depends "$kernel_package:$arch" 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-image-[^:]*\).*/\1/p' | head -1)
	[ -n "$package" ] || package=$(cd "$vm/debs" && ls 2>/dev/null | sed -n "s/^\(linux-image-[^_]*\)_.*_$arch\.deb$/\1/p" |
		grep -E "$(case $1 in *16k) echo -- '-16k$' ;; *6.12*) echo '6\.12.*-arm64$' ;; *5.10*) echo '5\.10.*-arm64$' ;; *) echo "6\.1\..*-$arch\$" ;; esac)" | head -1)
	[ -n "$package" ] || fail "apt knows no $kernel_package:$arch (run apt-get update with the architecture added)"
	file=$(deb "$package:$arch" 2>"$work/why") || fail "$(cat "$work/why")"
	dpkg-deb --fsys-tarfile "$file" | tar -x -C "$work/kernel" --wildcards './boot/vmlinuz-*' './boot/config-*' './lib/modules/*' ||
		fail "cannot unpack $file"
	release=$(ls "$work/kernel/lib/modules")
	mv "$work/kernel/boot/vmlinuz-$release" "$work/kernel/Image"
	mv "$work/kernel/boot/config-$release" "$work/kernel/config"
	[ $arch != amd64 ] || unpack_bzimage "$work/kernel/Image"
	# The closure of what the tests need, unpacked, as a small cpio of its own.
	/sbin/depmod -b "$work/kernel" "$release"
	m=$work/modules/lib/modules/$release
	mkdir -p "$m"
	for name in $modules; do
		/sbin/modprobe -d "$work/kernel" -S "$release" --show-depends --ignore-install "$name" 2>/dev/null |
			sed -n 's/^insmod \([^ ]*\).*/\1/p'
	done | sort -u | while read -r ko; do
		cp "$ko" "$m/"
	done
	find "$m" -name '*.xz' -exec unxz {} +
	cp "$work/kernel/lib/modules/$release/modules.builtin" "$work/kernel/lib/modules/$release/modules.builtin.modinfo" "$work/kernel/lib/modules/$release/modules.order" "$m/"
	/sbin/depmod -b "$work/modules" "$release"
	rm -rf "$work/kernel/lib" "$work/kernel/boot"
fi
(cd "$work/modules" && find . -mindepth 1 | sort | cpio -o -H newc -R 0:0 --quiet) >"$work/kernel/modules.cpio"
rm -rf "$dest"
mv "$work/kernel" "$dest"
