#!/usr/bin/env bash
# bench_binder_calls in a guest whose kernel has the binder driver (BENCH_GUEST). The machine is emulated.
set -u
cd "$(dirname "$0")/../.."
guest=${BENCH_GUEST:-gki-6.1} program=build/arm64/tests/bench/bench_binder_calls
skip() { echo "binder in a guest: - $1"; exit 0; }
for tool in cpio qemu-system-aarch64 aarch64-linux-gnu-gcc; do command -v $tool >/dev/null || skip "no $tool here"; done
reason=$(tests/vm/fetch.sh "$guest" 2>&1) || skip "$guest: $(tail -1 <<<"$reason")"
make -s --no-print-directory ARCH=arm64 SAN=0 $program >/dev/null || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/root/{bin,dev,payload}
cp build/vm/busybox-arm64 "$work/root/bin/busybox"
cp tests/vm/guest/init "$work/root/init"
aarch64-linux-gnu-strip -o "$work/root/payload/bench" $program
echo "exec /payload/bench - ${PAIRS:-11}" >"$work/root/payload/bench.sh"
(cd "$work/root" && find . -mindepth 1 | sort | cpio -o -H newc -R 0:0 --quiet) >"$work/bench.cpio"
echo "$guest (emulated):"
tests/vm/run_guest.sh "$guest" "$work/bench.cpio" /payload/bench.sh "${VM_TIMEOUT:-240}" >"$work/log" 2>&1 ||
	{ tail -5 "$work/log"; exit 1; }
grep -E '^(binder:|  )' "$work/log"
