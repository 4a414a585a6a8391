#!/usr/bin/env bash
# Install what is missing by apt. Says what; asks nothing as root; tells anyone else the command.
# usage: deps.sh [ARCH [core [LIST]]]   core: only what the tool and the demo need, nothing of the
# tests but what LIST names
set -u
arch=${1:-$(uname -m)}
host=$(uname -m | sed s/aarch64/arm64/)
packages="clang llvm bpftool libbpf-dev libelf-dev libdw-dev libjansson-dev libprotobuf-c-dev protobuf-c-compiler libseccomp-dev uthash-dev
	libjs-dygraphs libzstd-dev liblzma-dev zlib1g-dev libbz2-dev libcriterion-dev pkg-config gcc make
	clang-format iproute2 jq python3 xz-utils zstd g++"
# Lists of further packages live beside the tests that need them.
[ "${2:-}" = core ] || for list in "$(dirname "$0")"/*/deps.txt; do
	[ -f "$list" ] && packages="$packages $(sed 's/#.*//' "$list")"
done
[ -n "${3:-}" ] && packages="$packages $(sed 's/#.*//' "$3")"
if [ "$arch" = arm64 ] && [ "$host" != arm64 ]; then
	packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross libbpf-dev:arm64
	libelf-dev:arm64 libdw-dev:arm64 zlib1g-dev:arm64 liblzma-dev:arm64 libbz2-dev:arm64
	libzstd-dev:arm64 libjansson-dev:arm64 libprotobuf-c-dev:arm64 libseccomp-dev:arm64 libstdc++-12-dev-arm64-cross"
fi
missing=
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
case "$missing" in *:arm64*) foreign=1 ;; *) foreign=0 ;; esac
if [ "$(id -u)" != 0 ]; then
	echo "deps: missing packages; run as root:" >&2
	[ $foreign = 1 ] && echo "  dpkg --add-architecture arm64" >&2
	echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
	exit 1
fi
echo "deps: installing$missing"
log=$(mktemp)
# What comes with a service is only a program for the tests: invoke-rc.d and deb-systemd-invoke ask
# this file whether they may start it.
policy=/usr/sbin/policy-rc.d
if [ -e $policy ]; then policy=; else printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy; fi
trap 'rm -f "$log" $policy' EXIT
export DEBIAN_FRONTEND=noninteractive
# What only tests need and this system's archive has not, they skip, and say so.
known() {
	local p
	for p in "$@"; do
		if apt-cache show "$p" >/dev/null 2>&1; then echo "$p"; else echo "deps: no package $p here" >&2; fi
	done
}
{
	if [ $foreign = 1 ]; then dpkg --add-architecture arm64; fi
	apt-get update && apt-get install -y --no-install-recommends $(known $missing)
} >"$log" 2>&1 || { tail -20 "$log" >&2; echo "deps: apt-get failed" >&2; exit 1; }
grep '^deps: no package' "$log" >&2
case " $missing " in *" nginx "*) update-rc.d nginx disable >/dev/null 2>&1 ;; esac
