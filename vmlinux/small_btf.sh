#!/usr/bin/env bash
# Cut the small BTFs that are kept in vmlinux/btf out of whole ones: of each android*-arm64.btf[.xz]
# in FULL_DIR the types and fields that our BPF objects ask for. NAME.missing beside each says what
# they asked for in vain, so that a field that was asked for later can be told from one that this
# kernel lacks, without the whole BTF (tests/vm/test_core.sh).
# usage: small_btf.sh FULL_DIR OUT_DIR BPFTOOL CORE_FIELDS OBJECT.bpf.o...
set -eu
full=$1 out=$2 bpftool=$3 core_fields=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=
for btf in "$full"/android*-arm64.btf "$full"/android*-arm64.btf.xz; do
	[ -f "$btf" ] || continue
	found=1
	name=$(basename "${btf%.xz}" .btf)
	case $btf in *.xz) xz -dc "$btf" >"$work/kernel.btf" ;; *) cp "$btf" "$work/kernel.btf" ;; esac
	"$bpftool" gen min_core_btf "$work/kernel.btf" "$work/small.btf" "$@"
	# 1: a field is missing; the test says whether there is a guard.
	"$core_fields" "$work/kernel.btf" "$@" >"$work/answers" || [ $? = 1 ]
	sed -n 's/^[^:]*: \(asked, not there\|missing, guarded\|MISSING WITHOUT A GUARD\): //p' "$work/answers" |
		sort -u >"$work/missing"
	mkdir -p "$out"
	mv "$work/small.btf" "$out/$name.btf"
	mv "$work/missing" "$out/$name.missing"
	echo "$out/$name.btf: $(stat -c %s "$out/$name.btf") bytes"
done
[ "$found" ] || { echo "small_btf.sh: no android*-arm64.btf[.xz] in $full" >&2; exit 1; }
