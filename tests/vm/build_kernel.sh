#!/usr/bin/env bash
# Build a GKI-like arm64 kernel from Debian's linux-source, and the device tree of a phone, into
# build/vm/gki. Unpatched; 10 to 15 minutes on two cores, 2 GB of disk.  usage: build_kernel.sh 6.1|6.12
set -eu
cd "$(dirname "$0")/../.."
version=${1:?usage: build_kernel.sh 6.1|6.12}
out=$PWD/build/vm/gki
mkdir -p "$out/$version"
missing=
for p in flex bison bc libssl-dev libelf-dev dwarves rsync device-tree-compiler xz-utils; do
	dpkg-query -W -f '${Status}' $p 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
	[ "$(id -u)" = 0 ] || { echo "vm-kernel: install as root:$missing" >&2; exit 1; }
	echo "vm-kernel: installing$missing"
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null
fi

# QEMU's own device tree, made a phone: two clusters with capacities, cpufreq tables, an energy
# model and an idle state. The clocks are fixed ones: nothing slows down, but all of the kernel's
# accounting by frequency is there.
make_dtb() { # OUT.dtb
	local dtb=$1 cpu cluster handle=900
	qemu-system-aarch64 -M virt,dumpdtb="$dtb" -cpu max -smp 4 -m 1024 -display none >/dev/null 2>&1
	node() { fdtput -c "$dtb" "$1"; }
	text() { fdtput -t s "$dtb" "$@"; }
	cells() { fdtput -t u "$dtb" "$@"; }
	cluster() { # NAME CLOCK_HANDLE OPP_HANDLE KHZ...
		local name=$1 clock=$2 opp=$3 khz microvolt=600000
		shift 3
		node "/clock-$name"
		text "/clock-$name" compatible fixed-clock
		cells "/clock-$name" '#clock-cells' 0
		cells "/clock-$name" clock-frequency $((${*: -1} * 1000))
		cells "/clock-$name" phandle "$clock"
		node "/opp-table-$name"
		text "/opp-table-$name" compatible operating-points-v2
		fdtput "$dtb" "/opp-table-$name" opp-shared
		cells "/opp-table-$name" phandle "$opp"
		for khz; do
			node "/opp-table-$name/opp-$((khz * 1000))"
			cells "/opp-table-$name/opp-$((khz * 1000))" opp-hz $((khz * 1000 >> 32)) $((khz * 1000 & 0xffffffff))
			cells "/opp-table-$name/opp-$((khz * 1000))" opp-microvolt $microvolt
			microvolt=$((microvolt + 150000))
		done
	}
	cluster little 901 902 576000 1017600 1804800
	cluster big 903 904 844800 1766400 2841600
	node /cpus/idle-states
	text /cpus/idle-states entry-method psci
	node /cpus/idle-states/cpu-sleep
	text /cpus/idle-states/cpu-sleep compatible arm,idle-state
	cells /cpus/idle-states/cpu-sleep arm,psci-suspend-param $((0x0010000))
	cells /cpus/idle-states/cpu-sleep entry-latency-us 250
	cells /cpus/idle-states/cpu-sleep exit-latency-us 500
	cells /cpus/idle-states/cpu-sleep min-residency-us 1500
	cells /cpus/idle-states/cpu-sleep phandle 905
	fdtput -r "$dtb" /cpus/cpu-map
	node /cpus/cpu-map
	for cluster in 0 1; do node /cpus/cpu-map/cluster$cluster; done
	for cpu in 0 1 2 3; do
		handle=$((910 + cpu))
		cells /cpus/cpu@$cpu phandle $handle
		if [ $cpu = 3 ]; then set -- 1 0 1024 480 903 904; else set -- 0 $cpu 420 110 901 902; fi
		cells /cpus/cpu@$cpu capacity-dmips-mhz "$3"
		cells /cpus/cpu@$cpu dynamic-power-coefficient "$4"
		cells /cpus/cpu@$cpu '#cooling-cells' 2
		cells /cpus/cpu@$cpu clocks "$5"
		cells /cpus/cpu@$cpu operating-points-v2 "$6"
		cells /cpus/cpu@$cpu cpu-idle-states 905
		node /cpus/cpu-map/cluster"$1"/core"$2"
		cells /cpus/cpu-map/cluster"$1"/core"$2" cpu $handle
	done
}
make_dtb "$out/phone.dtb"
[ "${2:-}" = dtb ] && exit 0

work=$out/work-$version
mkdir -p "$work"
source=$work/linux-source-$version
if [ ! -f "$source/Makefile" ]; then
	(cd "$work" && apt-get download -qq "linux-source-$version")
	dpkg-deb --fsys-tarfile "$work"/linux-source-"$version"_*.deb |
		tar -x -O --wildcards "./usr/src/linux-source-$version.tar.xz" | tar -xJ -C "$work"
	rm -f "$work"/*.deb
fi
# NAME, NAME=value, NAME=n -> a config fragment
sed 's/#.*//' tests/vm/gki.options | tr -s ' ' '\n' | grep . |
	sed '/=/!s/$/=y/; s/^/CONFIG_/; s/^\(CONFIG_[^=]*\)=n$/# \1 is not set/' >"$work/gki.config"
make=(make -C "$source" ARCH=arm64 O="$work/out")
[ "$(uname -m)" = aarch64 ] || make+=(CROSS_COMPILE=aarch64-linux-gnu-)
begin=$SECONDS
"${make[@]}" KCONFIG_ALLCONFIG="$work/gki.config" allnoconfig >"$work/log" 2>&1
# Options that this version does not know are named: a typo must not pass for a missing option.
grep '=y$' "$work/gki.config" | while read -r line; do
	grep -qxF "$line" "$work/out/.config" || echo "vm-kernel: $version has not taken ${line#CONFIG_}"
done
[ "${2:-}" = config ] && exit 0
"${make[@]}" -j"$(nproc)" Image >>"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
cp "$work/out/arch/arm64/boot/Image" "$out/$version/Image"
cp "$work/out/.config" "$out/$version/config"
[ -n "${KEEP_TREE:-}" ] || rm -rf "$work"
# The next fetch takes this one.
rm -rf "build/vm/kernels/gki-$version"
echo "vm-kernel: $version in $((SECONDS - begin)) s: $out/$version/Image, $(stat -c %s "$out/$version/Image") bytes"
