# SPDX-License-Identifier: BSD-2-Clause
"""usage: hostile_names.py JANKSCOPE"""
import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
import xml.etree.ElementTree

import made_recording as made

jankscope = os.path.abspath(sys.argv[1])
os.chdir(tempfile.mkdtemp(prefix="hostile-"))


def say(good, name, detail=""):
    print(("ok" if good else "not ok") + " - hostile names: " + name)
    if not good:
        for line in str(detail).splitlines()[:10]:
            print("#", repr(line)[:300])


def report(*arguments):
    return subprocess.run([jankscope, "report", "run.jsonl", *arguments], capture_output=True, timeout=60)


def commands(raw):
    """What a terminal would obey, or turn its writing by."""
    text = raw.decode("utf-8", "surrogateescape")
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"]


def scripts(name):
    with open(name, "rb") as file:
        return len(re.findall(rb"<script|<img|<style", file.read(), re.I))


def protobuf(data):
    done = subprocess.run(["protoc", "--decode_raw"], input=data, capture_output=True, timeout=60)
    return done.returncode == 0 and done.stdout


made.write("run.jsonl", made.hostile())
made.write("plain.jsonl", [made.header(targets=["app"]),
                           made.interval(made.BOOT + made.SEC, made.rng(), (("app", 1, 10001, made.SEC),))])

for flags in ([], ["--hourly"], ["-v"], ["--native"], ["--baseline", "plain.jsonl"], ["--folded", "-"],
              ["--scene", made.HOSTILE[3][:20]], ["--target", made.HOSTILE[2]], ["--fail-if", "cpu.busy_ns > 1"]):
    done = report(*flags)
    found = commands(done.stdout) + commands(done.stderr)
    say(done.returncode in (3, 10, 4) and (done.stdout or flags[:1] in (["--scene"], ["--target"])) and not found,
        "no command for a terminal in report %s" % " ".join(map(ascii, flags)), (done.returncode, found, done.stderr[-300:]))

done = report("--csv", "out.csv")
with open("out.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.reader(file))
say(len({len(row) for row in rows}) == 1 and len(rows) > 50, "csv: as many columns in each row",
    {len(row) for row in rows})
formulas = [cell for row in rows for cell in row
            if re.match(r"[=+@\t\r]|-(?![0-9])", cell)]
say(not formulas, "csv: no cell is a formula", formulas[:3])
say(any("calc" in cell for row in rows for cell in row), "csv: the name is there", rows[:2])

late = [row for row in rows if row[0] == "jank"]
say(len([row for row in late if row[11] == "late_ns"]) == len(made.HOSTILE) + 1 and len(late) > 300,
    "csv: each late frame, with its names", len(late))

done = report("--openmetrics", "out.om")
with open("out.om", encoding="utf-8") as file:
    text = file.read()
# Debian's module belongs to Debian's Python.
done = subprocess.run(["/usr/bin/python3", "-c", "import sys\nfrom prometheus_client.openmetrics.parser import "
                       "text_string_to_metric_families as read\n"
                       "for family in read(sys.stdin.read()):\n"
                       "    for sample in family.samples: print(ascii(sorted(sample.labels.values())))"],
                      input=text, capture_output=True, text=True, timeout=60)
if "No module named" in done.stderr:
    print("ok - hostile names: openmetrics # SKIP", done.stderr.splitlines()[-1])
else:
    say(done.returncode == 0 and done.stdout.count("\n") > 50 and "evil" in done.stdout and text.endswith("# EOF\n"),
        "openmetrics: %d samples read by its own parser" % done.stdout.count("\n"), done.stderr[-500:])

done = report("--fail-if", "cpu.busy_ns > 1", "--fail-if", "intervals > 1000", "--junit", "out.xml")
root = xml.etree.ElementTree.parse("out.xml").getroot()
say(len(root.findall(".//testcase")) == 2 and len(root.findall(".//failure")) == 1, "junit: two cases, one failure")

done = report("--speedscope", "out.json")
with open("out.json", encoding="utf-8") as file:
    profile = json.load(file)
names = {frame["name"] for frame in profile["shared"]["frames"]}
say("__proto__" in names and len(names) > 10, "speedscope: JSON, with the names", names)

done = report("--pprof", "out.pb.gz", "--perfetto", "out.pftrace")
with open("out.pb.gz", "rb") as file:
    packed = protobuf(gzip.decompress(file.read()))
with open("out.pftrace", "rb") as file:
    trace = protobuf(file.read())
say(packed and b"__proto__" in packed, "pprof: protobuf, with the names", packed)
say(trace and b"__proto__" in trace, "perfetto: protobuf, with the names", trace and trace[:200])
say(trace and trace.count(b'"late frames"') > 10 and trace.count(b'"preemptor.0"') == len(made.HOSTILE) + 1,
    "perfetto: late frames with those who ran instead", trace and trace.count(b'"preemptor.0"'))

report("--html", "out.html")
subprocess.run([jankscope, "report", "plain.jsonl", "--html", "plain.html"], capture_output=True, timeout=60)
say(scripts("out.html") == scripts("plain.html") > 0, "html: no element that is not of the page",
    (scripts("out.html"), scripts("plain.html")))

with open("out.html", encoding="utf-8") as file:
    data = json.loads(file.read().split('<script type="application/json" id="data">')[1].split("</script>")[0])
say(len(data["late"]["rows"]) == len(made.HOSTILE) + 1 and any(row["layer"] == "__proto__" for row in data["late"]["rows"]),
    "html: late frames are there as text", data["late"]["rows"][:1])

done = subprocess.run([jankscope, "verify", "run.jsonl"], capture_output=True, timeout=60)
say(not commands(done.stdout + done.stderr), "no command for a terminal in verify")
