#!/usr/bin/env bash
# Stacks through methods that Debian's real libart interprets and that its lists tell, against the
# truth of the process, dexdump, gdb and Android's libunwindstack. Prints TAP.
# Runs beside others (60 s, 29 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - art # SKIP needs root"; exit 0; fi
for program in art_rig unwindstack; do
	[ -e "$BUILD/tests/apps/$program" ] ||
		make -s "${BUILD#"$PWD"/}/tests/apps/$program" >/dev/null 2>&1
done
if [ "$(uname -m)" != x86_64 ]; then
	echo "ok - art # SKIP THE RIG IS FOR X86_64, this is $(uname -m)"
	exit 0
elif ! [ -e "$BUILD/tests/apps/art_rig" ]; then
	echo "not ok - art: the rig does not build"
	exit 1
fi
for need in /usr/lib/*/android/libart.so.0:android-libart \
	/usr/lib/*/android/libziparchive.so.0:android-libziparchive \
	/usr/lib/*/android/libnativeloader.so.0:android-libnativeloader \
	/usr/lib/*/android/libbacktrace.so.0:android-libbacktrace \
	/usr/bin/smali:libsmali-java /usr/bin/dexdump:dexdump /usr/bin/dexlist:dexlist; do
	compgen -G "${need%:*}" >/dev/null || {
		echo "ok - art # SKIP NO ${need##*:} HERE: apt-get install ${need##*:}"
		exit 0
	}
done
# The rig knows where things are in this one.
version=$(dpkg-query -W -f '${Version}' android-libart 2>/dev/null)
case $version in
11.0.0+r48-*) ;;
*) echo "ok - art # SKIP ANOTHER LIBART THAN 11.0.0+r48 HERE: ${version:-no package}"; exit 0 ;;
esac
exec timeout -k 5 "${PART_TIMEOUT:-300}" python3 "$(dirname "$0")/art_truth.py" "$@"
