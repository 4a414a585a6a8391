#!/usr/bin/env bash
# Numbers only, no verdicts: every bench of every room, one after the other.  usage: run.sh BUILD
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
	case $bench in
	*.bpf.c) ;;
	*.c) "$BUILD/tests/bench/$(basename "$bench" .c)" "$BUILD/jankscope" ;;
	*) [ -f "$bench" ] && bash "$bench" ;;
	esac
done
