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

# The small BTFs of vmlinux/btf, which the binary carries. Alone: what the objects miss in them is
# what they missed in the whole one when it was cut, else a field was asked for since. And where the
# whole one is: cut down to what is asked for today, both are the same.
bpftool=$(command -v bpftool || echo /usr/sbin/bpftool)
for small in vmlinux/btf/*.btf; do
	name=$(basename "$small" .btf) whole=$work/$(basename "$small")
	"$program" "$small" $objects >"$work/small"
	sed -n 's/^[^:]*: \(asked, not there\|missing, guarded\|MISSING WITHOUT A GUARD\): //p' "$work/small" |
		sort -u >"$work/missing"
	new=$(comm -23 "$work/missing" "vmlinux/btf/$name.missing" | tr '\n' ' ')
	if [ -s "$work/small" ] && [ -z "$new" ]; then
		echo "ok - $name: the small BTF ($(stat -c %s "$small") bytes) was asked for all that the objects ask"
	else
		echo "not ok - $name: asked for since the small BTF was cut (make small-btf): $new"
		fail=1
	fi
	if [ ! -f "$whole" ]; then
		echo "ok - $name: the small BTF is like the whole one # SKIP no $name.btf.xz in $SHARED/btf"
		continue
	fi
	"$program" "$whole" $objects | grep -v helper | sort >"$work/of_whole"
	grep -v helper "$work/small" | sort >"$work/of_small"
	if "$bpftool" gen min_core_btf "$small" "$work/a" $objects && "$bpftool" gen min_core_btf "$whole" "$work/b" $objects &&
		cmp "$work/a" "$work/b" && cmp "$work/of_whole" "$work/of_small"; then
		echo "ok - $name: the small BTF is like the whole one"
	else
		diff "$work/of_whole" "$work/of_small" | head -5 | sed 's/^/# /'
		echo "not ok - $name: the small BTF differs from the whole one (make small-btf)"
		fail=1
	fi
done
# And the binary for arm64 carries them.
embedded=$(dirname $arm64)/btf/embedded.c
for small in vmlinux/btf/*.btf; do
	branch=$(basename "$small" | sed -n 's/^\(android[0-9]*-[0-9]*\.[0-9]*\).*/\1/p')
	if grep -q "{\"$branch\", " "$embedded" 2>/dev/null; then
		echo "ok - $branch: embedded"
	else
		echo "not ok - $branch: not in $embedded"
		fail=1
	fi
done
exit $fail
