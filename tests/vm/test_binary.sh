#!/usr/bin/env bash
# The binaries that go to a device: static, stripped, small, aligned for 16 KiB pages and for
# bionic's TLS rule, without a loader.
set -u
cd "$(dirname "$0")/../.."
fail=0
ok() { if [ "$1" = 0 ]; then echo "ok - $2"; else echo "not ok - $2${3:+: $3}"; fail=1; fi; }

check() { # ARCH FILE MACHINE
	local name="$1 binary" file=$2 header segments loads
	if [ ! -f "$file" ]; then
		ok 1 "$name is built" "no $file"
		return
	fi
	header=$(readelf -hW "$file")
	segments=$(readelf -lW "$file")
	grep -q "Machine:.*$3" <<<"$header"; ok $? "$name is for $3"
	! grep -qE ' INTERP|Requesting program interpreter' <<<"$segments" && ! readelf -dW "$file" | grep -q NEEDED
	ok $? "$name is static: no interpreter, no libraries"
	! readelf -SW "$file" | grep -qE '\.symtab|\.debug_info'; ok $? "$name is stripped"
	size=$(stat -c %s "$file")
	[ "$size" -le $((4 << 20)) ]; ok $? "$name has at most 4 MiB" "$size bytes"
	echo "# $name: $size bytes"
	loads=$(awk '$1 == "LOAD" { print $NF }' <<<"$segments")
	[ -n "$loads" ] && for align in $loads; do [ $((align)) -ge $((0x4000)) ] || exit 1; done
	ok $? "$name's segments are aligned for 16 KiB pages" "$loads"
	[ "$(awk '$1 == "TLS" { print $NF }' <<<"$segments")" = 0x40 ]; ok $? "$name's TLS segment is aligned to 64"
	! awk '$1 == "GNU_STACK"' <<<"$segments" | grep -q RWE; ok $? "$name's stack is not executable"
}
case $(uname -m) in
aarch64) native=arm64 ;;
*) native=x86_64 ;;
esac
for arch in arm64 x86_64; do
	[ "$arch" = "$native" ] && file=build/jankscope || file=build/$arch/jankscope
	[ "$arch" = arm64 ] && machine=AArch64 || machine=X86-64
	if [ "$arch" = x86_64 ] && [ "$native" = arm64 ] && [ ! -f "$file" ]; then
		echo "ok - x86_64 binary # SKIP not built on this machine (make ARCH=x86_64)"
		continue
	fi
	check "$arch" "$file" "$machine"
done
exit $fail
