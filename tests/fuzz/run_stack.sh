#!/usr/bin/env bash
# Fuzz one of the stack readers.  usage: run_stack.sh BUILD maps|elf|unwind|wire|names|jit|dex|vdex|zip|oat|told SECONDS
# The corpus starts from real files: maps of processes, small ELF files, and the .eh_frame of some;
# what is found stays in BUILD/tests/fuzz.
set -u
build=$1 kind=$2 seconds=$3
out=$build/tests/fuzz corpus=$build/tests/fuzz/corpus_stack_$kind
mkdir -p "$corpus"
cp "$(dirname "$0")"/crashes/stack_"$kind"_* "$corpus/" 2>/dev/null
case $kind in
maps) head -c 8000 /proc/self/maps >"$corpus/self"; head -c 8000 /proc/1/maps >"$corpus/init" 2>/dev/null ;;
elf)
	printf 'int main(void) { return 0; }\n' >"$out/tiny_$kind.c"
	for flags in "-O2" "-O2 -g -fno-asynchronous-unwind-tables" "-shared -fPIC"; do
		gcc $flags -o "$corpus/gcc_$(echo "$flags" | cksum | cut -d' ' -f1)" "$out/tiny_$kind.c"
	done ;;
unwind)
	for file in /bin/true /lib/"$(uname -m)"-linux-gnu/libdl.so.2; do
		[ -f "$file" ] || continue
		{ head -c 64 /dev/urandom; head -c 2040 /dev/zero; objcopy -O binary --only-section=.eh_frame "$file" /dev/stdout |
			head -c 4000; } >"$corpus/eh_$(basename "$file")"
	done ;;
wire) # a trace of two frames, a need, places: user/stack/unwinder_wire.h
	python3 - "$corpus" <<'PY'
import struct, sys
texts = b"/lib/a\0inner\0"
frames = b"".join(struct.pack("<3Q3I4B4I", pc, 2, 3, 1, 0, 8, 0, 1, 1, 0, 7, 0, 0, 0) for pc in (1, 4))
trace = struct.pack("<iIIIIIQ15Q", 0, 0, 1, 2, len(texts), 0, 9, *range(15)) + frames + texts
need = struct.pack("<QII4QII6Q256s", 1, 4, 0, 4096, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, b"/lib/a")
places = struct.pack("<iIIIII", 0, 0, 1, 1, 0, 0) + struct.pack("<QII", 16, 1, 0) * 64
unwind = struct.pack("<iIQ34QqQQ", 1, 0, 0, 1 << 7, *range(33), -1, 4096, 8)
for name, type, body in (("trace", 18, trace), ("need", 16, need), ("places", 19, places), ("unwind", 1, unwind)):
    with open(sys.argv[1] + "/" + name, "wb") as f:
        f.write(struct.pack("<IIQ", type, 16 + len(body), 1) + body)
PY
	;;
jit) # a descriptor of each layout, two entries and their files
	python3 - "$corpus" <<'PY'
import struct, sys
for layout, magic in ((0, b""), (1, b"Android1"), (2, b"Android2")):
    d = struct.pack("<IIQQ8sIIIIQ", 1, 1, 0, 0x1040, magic, 0, 56, 48 if layout == 2 else 40, 2, 7)
    memory = bytearray(d.ljust(64, b"\0"))
    for next, file in ((0x1080, 0x1100), (0, 0x1200)):
        memory += struct.pack("<QQQQQI", next, 0, file, 0x100, 5, 2).ljust(64, b"\0")
    memory += bytes(64) + b"\x7fELF\2\1\1".ljust(256, b"\0") * 2
    with open(f"{sys.argv[1]}/list{layout}", "wb") as f:
        f.write(memory)
PY
	printf 'int main(void) { return 0; }\n' >"$out/tiny_$kind.c"
	gcc -c -O2 -g -fno-asynchronous-unwind-tables -o "$corpus/object" "$out/tiny_$kind.c" ;;
names)
	printf 'INvNtC3std3mem8align_ofINtC3foo3BarKj7b_TRhQlEEE' >"$corpus/rust"
	printf '10 20 first\n18 8 second\n0x20 10 third name\n' >"$corpus/map" ;;
dex | vdex | zip | oat | told) # of each kind that tests/unit/made_dex.h or made_oat.h makes
	"$out/dex_seeds" "$kind" "$corpus" || exit 1 ;;
esac
chmod -R u+w "$corpus"
exec "$out/fuzz_stack_$kind" -max_total_time="$seconds" -max_len=32768 -timeout=10 -rss_limit_mb=2048 \
	-print_final_stats=1 -artifact_prefix="$out/stack_${kind}_" "$corpus" 2>"$out/stack_$kind.log" ||
	{ tail -40 "$out/stack_$kind.log"; exit 1; }
