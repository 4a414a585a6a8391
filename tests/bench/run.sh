#!/usr/bin/env bash
# Numbers only, no verdicts: every bench of every room, one after the other, or those of PARTS.
# usage: run.sh BUILD    PARTS="switch net" PAIRS=21
# The machine's load stands first: nothing measured beside a build is worth keeping.
set -u
cd "$(dirname "$0")/../.."
export BUILD=$PWD/$1 SHARED=${SHARED:-$(cd .. && pwd)/shared}
echo "$(uname -sr), $(nproc) CPUs, load $(cut -d' ' -f1-3 /proc/loadavg)"
if [ "$(id -u)" != 0 ]; then
	echo "bench: needs root" >&2
	exit 5
fi
for bench in tests/bench/bench_*.c tests/bench/bench_*.sh; do
	part=$(basename "${bench%.*}")
	case " ${PARTS:-${part#bench_}} " in
	*" ${part#bench_} "*) ;;
	*) continue ;;
	esac
	case $bench in
	*.bpf.c) ;;
	*_stack.c) "$BUILD/tests/bench/bench_stack" "$BUILD/jankscope" ;; # has samples, not pairs
	*.c) "$BUILD/tests/bench/$(basename "$bench" .c)" "$BUILD/jankscope" ${PAIRS:+"$PAIRS"} ;;
	*) [ -f "$bench" ] && bash "$bench" ;;
	esac
done
