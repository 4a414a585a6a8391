#!/usr/bin/env bash
# Our BPF objects against the BTF of kernels that are not here: every field that CO-RE asks for is
# there or guarded, every helper is known, and the raw programs, relocated for that kernel, pass
# this machine's verifier.
set -u
cd "$(dirname "$0")/../.."
SHARED=${SHARED:-$(cd .. && pwd)/shared}
program=build/tests/vm/core_fields
[ -x "$program" ] || { echo "not ok - core fields: $program is not built"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail=0 found=0
load=--load
[ "$(id -u)" = 0 ] || { load=; echo "ok - relocated programs pass the verifier # SKIP needs root"; }
arm64=build/arm64/bpf
[ "$(uname -m)" = aarch64 ] && arm64=build/bpf
objects=
for source in bpf/*.bpf.c; do objects="$objects $arm64/$(basename "$source" .c).o"; done
for xz in "$SHARED"/btf/*arm64*.btf.xz; do
	[ -f "$xz" ] || continue
	found=1
	name=$(basename "$xz" .btf.xz)
	xz -dc "$xz" >"$work/$name.btf"
	if "$program" $load "$work/$name.btf" $objects >"$work/out" 2>&1; then
		echo "ok - $name: every field is there or guarded, every helper is known"
		sed -n 's/^/# /; /relocations,\|guarded\|asked, not\|verifier/p' "$work/out" | sed "s/^# /# $name: /"
	else
		grep -v ': has ' "$work/out" | sed "s/^/# $name: /"
		echo "not ok - $name: a field or helper is missing without a guard"
		fail=1
	fi
done
[ $found = 1 ] || echo "ok - core fields # SKIP no BTF files in $SHARED/btf"

# What the embedded BTFs hold is all that the objects can find in the kernel they are cut from.
list=build/arm64/btf/list
if [ "$(uname -m)" != aarch64 ] && [ -s "$list" ] && grep -q android "$list"; then
	for btf in $(cat "$list"); do
		name=$(basename "$btf" .btf.xz)
		bpftool=$(command -v bpftool || echo /usr/sbin/bpftool)
		"$bpftool" gen min_core_btf "$work/$name.btf" "$work/small.btf" $objects
		"$program" "$work/$name.btf" $objects | grep -v 'helper' | sort >"$work/full"
		"$program" "$work/small.btf" $objects | grep -v 'helper' | sort >"$work/small"
		if cmp -s "$work/full" "$work/small"; then
			echo "ok - $name: the embedded BTF ($(stat -c %s "$work/small.btf") bytes) answers like the whole one"
		else
			diff "$work/full" "$work/small" | head -5 | sed 's/^/# /'
			echo "not ok - $name: the embedded BTF lacks something"
			fail=1
		fi
	done
else
	echo "ok - embedded BTFs # SKIP this build carries none (BTF_DIR)"
fi
exit $fail
