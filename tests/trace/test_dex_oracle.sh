#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The methods of 60,000 that dex_list finds in a file of smali, their places, names and lines, are those
# that Android's dexlist and dexdump print; also where the file is in a jar.
# Runs beside others (30 s)
set -u
here=$(cd "$(dirname "$0")" && pwd)
dex_list=$BUILD/tests/trace/dex_list
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in smali dexlist dexdump; do
	command -v $tool >/dev/null && continue
	echo "ok - methods and lines of byte code # SKIP no $tool (libsmali-java, dexdump)"
	exit 0
done

check() { # name what the-rest-for-dex_truth.py
	local name=$1 said; shift
	if said=$(python3 "$here/dex_truth.py" "$@" 2>&1); then echo "ok - $name: $said"
	else echo "not ok - $name: $said"; fi
}

mkdir "$work/source"
python3 - "$work/source" <<'PY'
import sys
for number in range(6000):
    text = [".class public Lgen/p%d/Class%d$In;" % (number % 97, number), ".super Ljava/lang/Object;"]
    for method in range(10):
        text += [".method public %sm%d_%d(I)I" % ("static " if method % 4 else "", method, number * 7 % 13),
                 ".registers %d" % (4 + method % 3)]
        for step in range(1 + number * method % 9):
            text += [".line %d" % (number % 500 + 1 + step * (37 if method % 2 else -1) % 200),
                     "const/16 v0, %d" % ((number * 10 + method + step) % 30000), "add-int/2addr v0, v0"]
        text += [".line %d" % (number % 500 + 3001), "return v0", ".end method"]
    open("%s/%d.smali" % (sys.argv[1], number), "w").write("\n".join(text) + "\n")
PY
if ! smali assemble "$work/source" -o "$work/classes.dex" >"$work/log" 2>&1; then
	echo "not ok - smali: $(tail -1 "$work/log")"; exit 1
fi
"$dex_list" "$work/classes.dex" lines >"$work/ours" 2>"$work/facts"
echo "# $(cat "$work/facts")"
dexlist "$work/classes.dex" >"$work/methods" 2>/dev/null
dexdump -d "$work/classes.dex" >"$work/lines" 2>/dev/null
if [ "$(grep -c ^code "$work/ours")" = 60000 ]; then echo "ok - 60,000 methods"
else echo "not ok - $(grep -c ^code "$work/ours") methods of 60,000"; fi
check "methods as dexlist has them" methods "$work/ours" "$work/methods"
check "lines as dexdump has them" lines "$work/ours" "$work/lines"
python3 - "$work" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + "/app.jar", "w") as jar:
    jar.comment = b"a comment"
    jar.writestr("META-INF/MANIFEST.MF", "x" * 1000, zipfile.ZIP_DEFLATED)
    jar.write(sys.argv[1] + "/classes.dex", "classes.dex", zipfile.ZIP_STORED)
    jar.write(sys.argv[1] + "/classes.dex", "classes2.dex", zipfile.ZIP_STORED)
PY
"$dex_list" "$work/app.jar" >"$work/ours" 2>/dev/null
check "methods in a jar with two files" methods "$work/ours" "$work/methods" "$work/methods"
