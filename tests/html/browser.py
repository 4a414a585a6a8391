#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The page of report --html in a real browser: no error, no request, soon there with 72 h in it, all
by keyboard, light, dark and printed. Prints TAP.
usage: browser.py JANKSCOPE BENCH_REPORT WORK SCREENSHOTS"""
import base64
import json
import os
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fault"))
import made_recording as made  # noqa: E402
from made_recording import BOOT, SEC  # noqa: E402

JANKSCOPE, BENCH, WORK, PICTURES = map(os.path.abspath, sys.argv[1:5])


def say(good, name, detail=""):
    print(f"{'ok' if good else 'not ok'} - html: {name}", flush=True)
    if not good:
        for text in str(detail).splitlines()[:8]:
            print(f"# {text[:400]}", flush=True)


class Browser:
    """Chromium, told over a pipe (DevTools protocol): no port, no other program in between."""

    def __init__(self):
        out_read, self.out = os.pipe()
        self.into, in_write = os.pipe()

        def pipes():
            high = [os.dup(out_read), os.dup(in_write)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-features=OptimizationHints,MediaRouter,Translate", "--proxy-server=127.0.0.1:9",
             f"--user-data-dir={WORK}/profile", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=open(f"{WORK}/chromium.err", "w"))
        os.close(out_read)
        os.close(in_write)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"],
                                flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.into], [], [], max(0, end - time.monotonic()))[0]:
                return None
            more = os.read(self.into, 1 << 20)
            if not more:
                raise RuntimeError("chromium went away")
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def ask(self, method, seconds=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(seconds)
            if answer is None:
                raise RuntimeError(f"{method}: no answer")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True,
                          awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def open(self, path, width=1240, height=900):
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=f"file://{path}")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.run("document.documentElement && document.documentElement.dataset.ready || ''"):
                return
            time.sleep(0.05)
        raise RuntimeError("the page is not ready: " + str(self.errors()))

    def errors(self):
        return [str(event)[:400] for event in self.events
                if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded",
                                           "Runtime.consoleAPICalled")]

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def key(self, key, modifiers=0):
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers,
                     **({"text": key} if len(key) == 1 and kind == "keyDown" else {}),
                     windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37,
                                            "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}.get(key, 0))

    def picture(self, name, **parameters):
        shot = self.ask("Page.captureScreenshot", format="png", **parameters)
        with open(f"{PICTURES}/{name}.png", "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.session = None
            self.ask("Browser.close", seconds=10)
        except RuntimeError:
            self.process.kill()
        self.process.wait(20)


def example():
    """Ten minutes of a game: late frames, blocks, memory that grows, a suspend, losses."""
    rng = made.rng(8)
    app = ("com.example.game", 100, 10001, SEC // 3)
    records = [made.header(targets=["com.example.game"])]
    records[0]["device"], records[0]["sources"] = "Pixel 7", made.JUDGES
    suspend = 0
    for n in range(1, 601):
        end = BOOT + (n + suspend) * SEC
        record = made.interval(end, rng, (app, ("system_server", 200, 1000, SEC // 9)))
        record["memory"]["processes"][0]["rss_bytes"] = (180 << 20) + n * 130_000 + rng.randrange(1 << 21)
        record["power"] = {"read_boot_ns": end, "read_ns": 1000, "span_ns": SEC, "external": False,
                           "battery": {"name": "battery", "current_ua": -900_000 + rng.randrange(400_000),
                                       "temperature_mc": 30_000 + n * 12},
                           "supplies": [], "zones": [{"zone": 0, "type": "cpu-big",
                                                      "temperature_mc": 42_000 + n * 40 % 9000}],
                           "coolings": [], "policies": [], "rails": []}
        if n == 250:
            record["lost"] = {"cpu_task_map_full": 1200}
        records.append(record)
        for k in range(rng.randrange(4) if n % 9 == 0 or 330 < n < 345 else 0):
            cause = "lock" if 330 < n < 345 else rng.choice(made.CAUSES)
            records.append(made.jank(end - rng.randrange(SEC), rng.randrange(10**6, (80 if n % 5 else 30) * 10**6), cause, "com.example.game", 100, token=n * 10 + k))
        if n in (60, 120, 300, 420):
            records.append(made.mark(end, "level 1" if n < 300 else "level 2", n in (120, 420), exact=False))
        if n % 17 == 0 or n in (333, 334):
            wall = int(SEC * (0.5 + rng.random() * (1 if n % 51 else 5)))
            symbols = rng.choice((("sqlite3_step", "Db.load()", "Game.onFrame()", "main"),
                                  ("__epoll_pwait", "Net.call(int)", "Game.onFrame()", "main"),
                                  ("art::Monitor::Lock", "Cache.get()", "Game.onFrame()", "main")))
            records.append(made.block(end - wall, wall, "com.example.game", 100, symbols, waker={
                "pid": 200, "tid": 201, "thread": "Binder:200_1", "process": "system_server"}, chain=[
                    {"pid": 200, "tid": 202, "thread": "Binder:200_2", "process": "system_server",
                     "how": "binder", "what": "code 3", "queued_ns": 1000000, "served_ns": wall // 2, "served_cpu_ns": wall // 3,
                     "stack": {"t_boot_ns": end, "weight_ns": 0, "capture": "snapshot", "complete": True,
                               "end_reason": "outermost frame",
                               "frames": [made.frame("PackageManager.query()", "boot.oat", "dex")]}}]))
        if n == 400:
            suspend = 90
            records.append(made.event(end + 90 * SEC, "suspend", dur_ns=90 * SEC))
    return records


def report(path, html):
    done = subprocess.run([JANKSCOPE, "report", path, "--html", html], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)


def check_clean(browser, path, what):
    say(not browser.errors(), f"{what}: no error and no word on the console", browser.errors())
    urls = [url for url in browser.requests() if url != f"file://{path}"]
    say(not urls, f"{what}: no request", urls)


def check_example(browser):
    path = f"{WORK}/example.html"
    made.write(f"{WORK}/example.jsonl", example())
    report(f"{WORK}/example.jsonl", path)
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.open(path)
    check_clean(browser, path, "ten minutes")
    seen = browser.run("""({charts: document.querySelectorAll('.chart canvas').length,
        cards: [...document.querySelectorAll('.card')].map(e => e.innerText),
        flame: document.querySelectorAll('[role=treeitem]').length,
        blocks: document.querySelectorAll('#blocks tbody tr').length,
        scenes: [...document.querySelectorAll('#scenes tbody tr')].map(e => e.innerText)})""")
    data = browser.run("(d => ({blocks: d.blocks.count, s: d.runs[0].footer.summary}))"
                       "(JSON.parse(document.getElementById('data').textContent))")
    say(seen["charts"] >= 14 and seen["flame"] >= 10 and seen["blocks"] == data["blocks"] == 37 and
        any("level 1" in row for row in seen["scenes"]), "ten minutes: all its parts are drawn", seen)
    say(any(f"{data['s']['frames']['janky']} late or not shown, {data['s']['frames']['shown']:,} shown" in card or
            f"{data['s']['frames']['janky']:,} late or not shown, {data['s']['frames']['shown']:,} shown" in card
            for card in seen["cards"]) and any(card.startswith("Blocks\n37\n") for card in seen["cards"]),
        "ten minutes: the figures on the page are those of the summary", seen["cards"])
    late = browser.run("""(d => ({count: d.late.count, ms: d.late.late_ns / 1e6, most: Math.max(...d.late.causes.map(c => c[2])), causes: d.late.causes.filter(c => c[1]).map(c => c[0]),
        rows: document.querySelectorAll('#late tbody tr').length, totals: [...document.querySelectorAll('#late-causes tbody tr')].map(e => e.innerText),
        note: document.getElementById('late-note').innerText, card: [...document.querySelectorAll('.card')].map(e => e.innerText).filter(t => t.startsWith('Late frames')),
        legend: [...document.querySelectorAll('.values button')].map(e => e.innerText)}))(JSON.parse(document.getElementById('data').textContent))""")
    say(late["rows"] == late["count"] > 50 and len(late["totals"]) == len(late["causes"]) > 6 and f"{late['count']} frames were late" in late["note"] and
        any(text.startswith("L lock") for text in late["legend"]) and all(any(cause in text for text in late["totals"]) for cause in late["causes"]) and late["card"],
        "ten minutes: late frames are listed, summed up by cause and named in the timeline", late)
    whole = browser.run("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": 1240, "height": whole, "scale": 1}
    browser.picture("light", clip=clip, captureBeyondViewport=True)
    # the picture in README, which is kept small by hand
    summaries = "document.querySelectorAll('#summaries details').forEach(d => { d.open = %s; })"
    browser.run(summaries % "false")
    browser.picture("readme", clip={"x": 0, "y": 0, "width": 1240, "height": 790, "scale": 0.6})
    browser.run(summaries % "true")
    keys(browser)
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    time.sleep(0.3)
    say(browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)", "dark")
    browser.picture("dark", clip=clip, captureBeyondViewport=True)
    printed = browser.ask("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
    with open(f"{PICTURES}/print.pdf", "wb") as file:
        file.write(base64.b64decode(printed["data"]))
    subprocess.run(["pdftoppm", "-r", "60", "-png", f"{PICTURES}/print.pdf", f"{PICTURES}/print"], check=True)
    text = subprocess.run(["pdftotext", f"{PICTURES}/print.pdf", "-"], capture_output=True, text=True).stdout
    say("Janky frames" in text and "CPU by thread" in text and "sqlite3_step" in text, "printed", text[:500])
    browser.open(path, 420, 800)
    say(browser.run("document.documentElement.scrollWidth") <= 420, "on a narrow screen nothing sticks out",
        browser.run("document.documentElement.scrollWidth"))
    browser.picture("narrow")


def keys(browser):
    """Without a mouse: the cursor, the zoom of all timelines, the flame graph, its search."""
    browser.run("document.querySelector('.chart').focus()")
    labels = "[...document.querySelectorAll('.chart')].map(e => e.innerText).join('|')"
    before = browser.run(labels)
    for key in ("ArrowRight", "ArrowRight", "+", "+"):
        browser.key(key)
    after = browser.run(labels)
    say(before != after and all(a != b for a, b in list(zip(before.split("|"), after.split("|")))[:2]),
        "+ zooms all timelines", (before[:200], after[:200]))
    say("of one core" not in browser.run("document.querySelector('.values').innerText") and
        "%" in browser.run("document.querySelector('.values').innerText"), "the cursor tells values")
    browser.picture("zoomed")
    browser.key("Escape")
    say(browser.run(labels) == before, "Esc shows all time")
    browser.run("document.querySelector('[role=treeitem]').focus()")
    for _ in range(3):
        browser.key("ArrowDown")
    say("Game.onFrame()" in browser.run("document.getElementById('frame').textContent"),
        "arrows walk the flame graph", browser.run("document.getElementById('frame').textContent"))
    browser.key("Enter")
    say(browser.run("document.querySelectorAll('[role=treeitem]')[3].style.width") == "100%",
        "Enter zooms it")
    browser.key("Escape")
    browser.run("{const s = document.getElementById('search'); s.value = 'SQLITE'; s.dispatchEvent(new Event('input'))}")
    say(browser.run("document.querySelectorAll('.hit').length") == 1 and
        "found in" in browser.run("document.getElementById('found').textContent"), "search finds")
    count = browser.run("""(() => { let n = 0; for (const e of document.querySelectorAll('button,input,summary,[tabindex="0"],a'))
        { e.focus(); if (document.activeElement === e) n++; } return n; })()""")
    say(count > 100, f"{count} places can be reached by keyboard")


def check_hostile(browser):
    records = made.hostile()
    made.write(f"{WORK}/hostile.jsonl", records)
    path = f"{WORK}/hostile.html"
    report(f"{WORK}/hostile.jsonl", path)
    browser.open(path)
    check_clean(browser, path, "hostile names")
    say(browser.run("document.scripts.length") == 3 and browser.run("document.images.length") == 0 and
        "alert(1)" in browser.run("document.body.innerText"), "hostile names are text")
    say(not browser.run("/[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\u001b]/.test(document.body.innerText)"),
        "no name turns the text around it")


def check_72h(browser):
    path, recording = f"{WORK}/72h.html", f"{WORK}/72h.jsonl"
    subprocess.run([BENCH, JANKSCOPE, "make", recording], check=True)
    start = time.monotonic()
    report(recording, path)
    print(f"# 72 h: report took {time.monotonic() - start:.1f} s, {os.path.getsize(recording) >> 20} MiB "
          f"of records, {os.path.getsize(path)} bytes of HTML", flush=True)
    say(os.path.getsize(path) <= 5 << 20, "72 h: at most 5 MiB", os.path.getsize(path))
    browser.open(path)
    check_clean(browser, path, "72 h")
    paint = browser.run("performance.getEntriesByType('paint').map(e => e.startTime)")
    ready = int(browser.run("document.documentElement.dataset.ready"))
    print(f"# 72 h: first paint after {min(paint or [0]):.0f} ms, everything after {ready} ms", flush=True)
    say(paint and min(paint) <= 2000, "72 h: first paint within 2 s", paint)
    browser.picture("72h")


def main():
    os.makedirs(PICTURES, exist_ok=True)
    browser = Browser()
    try:
        check_example(browser)
        check_hostile(browser)
        check_72h(browser)
    finally:
        browser.close()


main()
