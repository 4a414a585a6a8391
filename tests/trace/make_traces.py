"""Traces with frames of known fate, for tests that need no device and no file but this one.
usage: make_traces.py FOLDER -- writes the traces and truth.json with what each layer showed.
       make_traces.py --demo FOLDER -- writes demo.pb and demo.json, which `make demo` shows."""
import gzip, json, os, random, shutil, struct, subprocess, sys, zipfile, zlib

MS, SECOND = 1000000, 1000000000
V60, V120 = 16666667, 8333333
MARKER = bytes.fromhex('82477a76b28d42ba81dc33326d57a079')  # Perfetto's synchronisation marker
NONE, APP, STUFFING, DROPPED_JANK, NON_ANIMATING = 1, 64, 128, 1024, 2048
ON_TIME, LATE, DROPPED = 1, 2, 4


# ---- protobuf
def varint(n):
    out = b''
    n &= (1 << 64) - 1
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def packet(*fields):
    return field(1, b''.join(fields))


def timeline(ts, kind, *fields, clock=None):
    return packet(*([field(58, clock)] if clock else []), field(8, ts), field(76, field(kind, b''.join(fields))), field(10, 3))


def clock_snapshot(ts, **clocks):
    ids = {'mono': 3, 'raw': 5, 'boot': 6}
    return packet(field(8, ts), field(6, b''.join(field(1, field(1, ids[c]) + field(2, t)) for c, t in clocks.items())))


def process_tree(*names):
    return packet(field(2, b''.join(field(1, field(1, pid) + field(3, name.encode())) for pid, name in names)))


def bundle(events, cpu=0):
    """events: (ts, tid, text) as print events of ftrace."""
    return packet(field(1, field(1, cpu) + b''.join(
        field(2, field(1, ts) + field(2, tid) + field(3, field(2, text.encode()))) for ts, tid, text in events)))


class Display:
    """SurfaceFlinger with a vsync grid; frames of apps are shown in its display frames."""
    def __init__(self, clock=None):
        self.events, self.cookie, self.clock, self.displays = [], 0, clock, {}

    def next(self):
        self.cookie += 1
        return self.cookie

    def add(self, ts, kind, *fields):
        self.events.append((ts, len(self.events), timeline(ts, kind, *fields, clock=self.clock)))

    def span(self, kind, start, end, *fields):
        cookie = self.next()
        self.add(start, kind, field(1, cookie), *fields)
        self.add(end, 5, field(1, cookie))

    def shown_at(self, present, period):
        """The token of the display frame that is presented then."""
        if present not in self.displays:
            token = self.displays[present] = 100000 + len(self.displays)
            self.span(1, present - 2 * period, present, field(2, token), field(3, 500))
            self.span(2, present - 2 * period, present, field(2, token), field(3, 500), field(4, ON_TIME),
                      field(5, 1), field(6, 0), field(7, NONE), field(8, 1))
        return self.displays[present]

    def frame(self, pid, layer, token, due, present, period, jank=NONE, buffer=1, present_type=None):
        """A frame of an app that was due at `due`; present None: dropped."""
        shown = present if present is not None else due
        if present is None:
            display = self.displays.get(shown) or self.shown_at(shown, period)
        else:
            display = self.shown_at(shown, period)
        wake = due - 4 * period
        name = [] if layer is None else [field(5, layer.encode())]
        self.span(3, wake, due - 2 * period, field(2, token), field(3, display), field(4, pid), *name)
        if present_type is None:
            present_type = DROPPED if present is None else ON_TIME if present == due else LATE
        self.span(4, wake + 1000, (present or due) - 2 * period - 500, field(2, token), field(3, display), field(4, pid),
                  *name, field(6, present_type), field(7, present_type == ON_TIME), field(8, 0), field(9, jank),
                  field(10, 1), field(11, buffer))

    def bytes(self):
        return b''.join(p for _, _, p in sorted(self.events, key=lambda e: e[:2]))


def play(display, pid, layer, truth, stop=1200, buffer=1, start=10 * SECOND, refreshes=600):
    """60 Hz, then 120 Hz: late and dropped frames, and a rest of 30 refreshes, with their sums."""
    now, token, grid = start, pid * 100000, []
    for i in range(refreshes * 2):
        grid.append((now, V60 if i < refreshes else V120))
        now += grid[-1][1]
    sums = dict(shown=0, dropped=0, janky=0, rows=0)
    i = 8
    while i < min(stop, len(grid)) - 12:
        at, period = grid[i]
        token += 1
        if i % 400 == 300:  # a rest that the app asked for
            i += 30
        elif i % 100 == 50:  # three refreshes late
            display.frame(pid, layer, token, at, grid[i + 3][0], period, APP, buffer)
            sums['dropped'] += 3
            sums['janky'] += 1
            sums['shown'] += 1
            sums['rows'] += 1
            i += 4
        elif i % 100 == 70 and i != 570:  # four frames in a row are dropped; not where the rate changes
            for k in range(4):
                display.frame(pid, layer, token, grid[i + k][0], None, period, DROPPED_JANK, buffer)
                token += 1
            sums['dropped'] += 4
            sums['janky'] += 4
            sums['rows'] += 4
            i += 4
        else:
            quiet = i % 100 in (20, 21, 22)
            display.frame(pid, layer, token, at, at, period, NON_ANIMATING if quiet else NONE, buffer)
            sums['shown'] += 1
            sums['rows'] += 1
            i += 1
    truth[layer] = dict(sums, pid=pid)


def slice_of(pid, tid, start, end, name):
    return [(start, tid, f'B|{pid}|{name}\n'), (end, tid, f'E|{pid}\n')]


def app_without_draw_frame(pid, count, start=10 * SECOND):
    """doFrames alone, each of them a frame."""
    events = []
    for i in range(count):
        events += slice_of(pid, pid, start + i * V60, start + i * V60 + 4 * MS, f'Choreographer#doFrame {i}')
    return events


def old_phone(truth, seconds=8):
    """Android 9: SurfaceFlinger's counters by the window's name, an app that draws, a game at 30, and
    counters of the app that look like layers."""
    start, sf, app, game = 50 * SECOND, 500, 1000, 2000
    events = []
    main, view = 'com.example.app/com.example.app.Main#0', 'SurfaceView - com.example.game/com.example.game.Play#0'
    refreshes = seconds * 60
    shown = dropped = game_shown = queued = 0
    late_until = 0
    for i in range(refreshes):
        t = start + i * V60
        events.append((t, sf, f'C|{sf}|VSYNC-sf|{i % 2}\n'))
        events.append((t + 2000, sf, f'C|{sf}|VSYNC-app|{i % 2}\n'))
        # what the app counts itself
        events.append((t + 3000, app, f'C|{app}|aq:pending:{main}|{1 + i % 2}\n'))
        events.append((t + 4000, app, f'C|{app}|aq:pending:{main}|{i % 2}\n'))
        if i % 2 == 0:
            events.append((t + MS, game, f'C|{game}|wq:{view}|1\n'))
            events.append((t + 2 * MS, sf, f'C|{sf}|{view}|1\n'))
            events.append((t + 3 * MS, sf, f'C|{sf}|{view}|0\n'))
            game_shown += 1
        if i < late_until or 200 <= i < 230:
            continue
        long = i % 60 == 40
        work = 4 * V60 if long else 0
        if long:
            late_until = i + 5
            dropped += 4
        events += slice_of(app, app, t + 100000, t + 5 * MS + work, 'Choreographer#doFrame')
        events += [(t + 3 * MS + work, app + 1, f'B|{app}|DrawFrame\n'), (t + 6 * MS + work, app + 1, f'B|{app}|queueBuffer\n'),
                   (t + 7 * MS + work, app + 1, f'E|{app}\n'), (t + 8 * MS + work, app + 1, f'E|{app}\n'),
                   (t + 7 * MS + work, sf, f'C|{sf}|{main}|1\n'), (t + 9 * MS + work, sf, f'C|{sf}|{main}|0\n')]
        shown += 1
    truth[main] = dict(pid=sf, shown=shown, dropped=dropped)
    truth[view] = dict(pid=sf, shown=game_shown, dropped=0)
    return sorted(events, key=lambda e: e[0])


def as_text(events):
    names = {500: 'surfaceflinger', 1000: 'com.example.app', 1001: 'RenderThread', 2000: 'com.example.game'}
    lines = ['# tracer: nop\n', '#\n']
    for ts, tid, text in events:
        tgid = 1000 if tid == 1001 else tid
        lines.append(f'{names[tid][-15:]:>16}-{tid:<5} ({tgid:5}) [000] ...1 {ts // SECOND}.{ts % SECOND // 1000:06}: '
                     f'tracing_mark_write: {text.rstrip()}\n')
    return ''.join(lines).encode()


def as_bundles(events):
    """Two CPUs, drained each quarter of a second, one after the other."""
    out, at = b'', 0
    while at < len(events):
        end = at
        while end < len(events) and events[end][0] < events[at][0] + SECOND // 4:
            end += 1
        for cpu in (1, 0):
            part = [e for e in events[at:end] if (e[1] != 500) == (cpu == 1)]
            if part:
                out += bundle(part, cpu)
        at = end
    return out


def main(folder):
    truth = {}

    def write(name, data, **rows):
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(data)
        if rows:
            truth[name] = rows['layers']

    snapshot = clock_snapshot(9 * SECOND, mono=9 * SECOND - 5 * SECOND, boot=9 * SECOND)
    names = process_tree((500, '/system/bin/surfaceflinger'), (100, 'com.example.app'), (101, 'com.example.other'),
                         (50, 'system_server'), (200, 'com.example.drawn'))
    # FrameTimeline: two apps, and a container whose many rows hold no buffer
    layers, display = {}, Display()
    play(display, 100, 'TX - com.example.app/com.example.app.Main#10', layers)
    play(display, 101, 'TX - SurfaceView[com.example.other/com.example.other.Play](BLAST)#12', layers, stop=540)
    # more rows than any app has frames, and some of them dropped: a property that nobody animates asks for
    # no refresh of its own
    for i in range(1180):
        at = 10 * SECOND + (8 + i) * V60 if i < 590 else 10 * SECOND + 598 * V60 + (i - 590) * V120
        period = V60 if i < 590 else V120
        display.frame(50, 'Task=7#3', 5000000 + i, at, None if i % 100 == 99 else at, period, NONE, 0)
    layers['Task=7#3'] = dict(pid=50, shown=1169, rows=1180, no_buffer=1169, dropped=0)
    write('timeline.pb', snapshot + names + display.bytes(), layers=layers)
    # the same with the apps' own slices beside it; one app has nothing but those
    marks = sorted(app_without_draw_frame(100, 300) + app_without_draw_frame(200, 109), key=lambda e: e[0])
    parts = sorted([(e[0], e[2]) for e in display.events] + [(marks[i][0], bundle(marks[i:i + 20])) for i in range(0, len(marks), 20)],
                   key=lambda p: p[0])
    write('timeline_and_slices.pb', snapshot + names + b''.join(p for _, p in parts),
          layers=dict(layers, **{'Choreographer#doFrame': dict(pid=200, shown=109, dropped=0)}))
    # nine of ten frames are dropped
    layers, display = {}, Display()
    for i in range(301):
        at = 10 * SECOND + (8 + i) * V60
        display.frame(100, 'L', 1000 + i, at, None if i % 10 else at, V60, DROPPED_JANK if i % 10 else NONE)
    layers['L'] = dict(pid=100, shown=31, dropped=270, janky=270, rows=301)
    write('dropped.pb', snapshot + names + display.bytes(), layers=layers)
    # without FrameTimeline
    layers = {}
    events = old_phone(layers)
    text = as_text(events)
    write('systrace.txt', text, layers=layers)
    write('systrace.html', b'<html><body>\n<script class="trace-data" type="application/text">\n' + text + b'</script></body></html>\n', layers=layers)
    write('ftrace.pb', as_bundles(events), layers=layers)
    write('doframes.pb', process_tree((200, 'com.example.drawn')) + bundle(app_without_draw_frame(200, 109)),
          layers={'Choreographer#doFrame': dict(pid=200, shown=109, dropped=0)})
    write('nothing_drawn.txt', b'# tracer: nop\n' + b'        app-1000  ( 1000) [000] ...1 50.000000: tracing_mark_write: B|1000|nothing\n')
    # clocks: MONOTONIC, and all snapshots behind the data
    display = Display(clock=3)
    for i in range(120):
        at = 20 * SECOND + i * V60
        display.frame(100, 'L', 1000 + i, at, at, V60)
    after = clock_snapshot(30 * SECOND, mono=20 * SECOND, boot=30 * SECOND) + clock_snapshot(31 * SECOND, mono=21 * SECOND, boot=31 * SECOND + 7)
    write('late_clock.pb', display.bytes() + after, layers={'L': dict(pid=100, shown=120, dropped=0)})
    # names that differ behind the part that is kept
    display = Display()
    for i in range(60):
        at = 10 * SECOND + i * V60
        for end in 'ab':
            display.frame(100, 'n' * 1500 + end, 1000 + 2 * i + (end == 'b'), at, at, V60)
    write('long_names.pb', display.bytes())
    # small ones, in each wrapping
    display, layers = Display(), {}
    for i in range(9):
        at = 10 * SECOND + i * V60
        display.frame(100, 'TX - com.example.app/com.example.app.Main#10', 1000 + i, at, at, V60)
    small = display.bytes()
    write('small.pb', small)
    write('small.pb.gz', gzip.compress(small, mtime=0))
    write('small_packets.pb', packet(field(50, zlib.compress(small))))
    with zipfile.ZipFile(os.path.join(folder, 'small.zip'), 'w', zipfile.ZIP_DEFLATED) as z:
        z.writestr('trace.pb', small)
    if shutil.which('zstd'):
        subprocess.run(['zstd', '-q', '-f', os.path.join(folder, 'small.pb'), '-o', os.path.join(folder, 'small.pb.zst')], check=True)
    kinds(folder)
    disorder(folder)
    # late frames, each with a doFrame whose length says of which token it is
    display, marks = Display(), []
    for i in range(60):
        due, token = 10 * SECOND + (8 + i) * V60, 3000 + i
        late = i % 12 == 5
        display.frame(100, 'L', token, due, due + late * V60, V60, APP if late else NONE)
        marks += slice_of(100, 100, due - 4 * V60 + 2000, due - 4 * V60 + 2000 + token * 1000, f'Choreographer#doFrame {token}')
    parts = sorted([(e[0], e[2]) for e in display.events] + [(m[0], bundle([m])) for m in marks], key=lambda p: p[0])
    write('worst.pb', snapshot + names + b''.join(p for _, p in parts))
    # damage: a stretch of garbage, then the marker that reading goes on behind
    half = timeline_halves(small)
    write('damaged.pb', half[0] + b'\x07' * 500 + packet(field(36, MARKER)) + half[1])
    with open(os.path.join(folder, 'truth.json'), 'w') as f:
        json.dump(truth, f, indent=1)


def demo(folder):
    """Six seconds of one app at 60 Hz; five of its frames come late, each by a known number of refreshes,
    and two never reach the screen."""
    display, period, start = Display(), V60, 10 * SECOND
    late_by, never = {60: 1, 121: 2, 180: 5, 240: 3, 300: 9}, (150, 151)
    truth = dict(shown=0, late=[], dropped=0)
    layer = 'TX - com.example.shop/com.example.shop.Checkout#1'
    i = 8
    while i < 360:
        due, token = start + i * period, 7000 + i
        if i in never:
            display.frame(100, layer, token, due, None, period, DROPPED_JANK)
            truth['dropped'] += 1
            i += 1
            continue
        late = late_by.get(i, 0)
        display.frame(100, layer, token, due, due + late * period, period, APP if late else NONE)
        truth['shown'] += 1
        truth['dropped'] += late
        if late:
            truth['late'].append(dict(token=token, late_ms=late * period / MS))
        i += late + 1
    truth.update(janky=len(truth['late']) + len(never), never=[7000 + i for i in never])
    with open(os.path.join(folder, 'demo.pb'), 'wb') as f:
        f.write(clock_snapshot(9 * SECOND, mono=4 * SECOND, boot=9 * SECOND) +
                process_tree((100, 'com.example.shop'), (500, '/system/bin/surfaceflinger')) + display.bytes())
    with open(os.path.join(folder, 'demo.json'), 'w') as f:
        json.dump(truth, f, indent=1)


def kinds(folder):
    """Each value that a row may have, and fields that are not there: kinds.pb. kinds.tsv holds what
    trace_processor v55.3 makes of it."""
    display, at, token = Display(), 10 * SECOND, 900

    def surface(*fields, length=12 * MS, layer=b'TX - L#1', pid=100):
        nonlocal at, token
        at, token = at + V60, token + 1
        display.span(1, at, at + 10 * MS, field(2, token), field(3, 500))
        display.span(2, at, at + length, field(2, token), field(3, 500), field(4, ON_TIME), field(5, 1), field(6, 0),
                     field(7, NONE), field(8, 1))
        display.span(3, at - V60, at + 8 * MS, field(2, token), field(3, token), field(4, pid), field(5, layer))
        display.span(4, at - V60 + 1000, at + 9 * MS, field(2, token), field(3, token), field(4, pid), field(5, layer), *fields)

    usual = (field(6, ON_TIME), field(7, 1), field(8, 0), field(9, NONE), field(10, 1), field(11, 1))
    for present in range(7):
        surface(field(6, present), field(7, 1), field(8, 0), field(9, NONE), field(10, 1), field(11, 1))
    for bit in range(14):
        surface(field(6, LATE), field(7, 0), field(8, 1), field(9, 1 << bit), field(10, 1), field(11, 1), field(12, bit % 5))
    for jank in (APP | STUFFING, APP | 2, 2 | 4 | 8, STUFFING | DROPPED_JANK, NON_ANIMATING | APP, 0xfff):
        surface(field(6, LATE), field(7, 0), field(8, 0), field(9, jank), field(10, 1), field(11, 1), field(12, 2))
    for prediction in range(5):
        surface(field(6, ON_TIME), field(7, 1), field(8, 0), field(9, NONE), field(10, prediction), field(11, 1))
    for number in range(6, 13):  # each field that may be absent
        surface(*(f for n, f in zip(range(6, 13), usual + (field(12, 1),)) if n != number))
    surface()
    surface(*usual, layer=b'')
    surface(*usual, pid=4)
    surface(*usual, layer='TX - \u00fcber#2'.encode())
    for jank in (NONE, 2, 4, 8, 16, 32, 64, 512, 2 | 4):  # display frames of their own
        at, token = at + V60, token + 1
        display.span(2, at, at + 9 * MS, field(2, token), field(3, 500), field(4, LATE if jank > 1 else ON_TIME),
                     field(5, jank == 1), field(6, jank & 2 > 0), field(7, jank), field(8, 1 + (jank > 8)), field(9, jank % 4))
    with open(os.path.join(folder, 'kinds.pb'), 'wb') as f:
        f.write(clock_snapshot(9 * SECOND, mono=4 * SECOND, boot=9 * SECOND) +
                process_tree((100, 'com.example.app'), (500, '/system/bin/surfaceflinger')) + display.bytes())


def disorder(folder):
    """Events as no SurfaceFlinger sends them: ends without a start and starts without an end, cookies that
    are used again, tokens that nobody waits for, values out of range, fields and packets in any order,
    three sequences: disorder.pb. disorder.tsv holds what trace_processor v55.3 makes of it."""
    deal = random.Random(20261123).random  # of Python's generators the one that never changes

    def pick(*of):
        return of[int(deal() * len(of))]

    def mixed(items):
        return [items[i] for _, i in sorted((deal(), i) for i in range(len(items)))]

    def below(n):
        return int(deal() * n)

    at, cookies, packets = SECOND, [], []
    layers = (b'TX - com.a/com.a.Main#1', b'TX - com.b/com.b.Main#22', b'com.c/Act[com.c/Act]#3', b'TX - a b c#9', b'', None)
    for i in range(600):
        at += pick(0, 1, 1000, V120, V60, below(40 * MS))
        if deal() < 0.45 and cookies:
            cookie = pick(*cookies) if deal() < 0.95 else 1 + below(500)
            if deal() < 0.85 and cookie in cookies:
                cookies.remove(cookie)
            event = field(5, field(1, cookie))
        else:
            cookie = pick(*cookies) if deal() < 0.04 and cookies else 1 + i
            cookies.append(cookie)
            kind = pick(1, 2, 3, 4, 4, 4)
            pid = field(3 if kind < 3 else 4, pick(100, 200, 300, 77, 0))
            fields = [field(1, cookie), field(2, 1 + below(40)), pid]
            if kind > 2:
                fields.append(field(3, 1 + below(40)))
                layer = pick(*layers)
                if layer is not None:
                    fields.append(field(5, layer))
            if kind in (2, 4):
                first = 4 if kind == 2 else 6
                values = (below(6), below(2), below(2), pick(0, 1 << below(14), below(8192)), below(5))
                fields += [field(first + n, value) for n, value in enumerate(values)]
                if kind == 4:
                    fields.append(field(11, below(2)))
                if deal() < 0.5:
                    fields.append(field(9 if kind == 2 else 12, below(5)))
            event = field(kind, b''.join(mixed(fields) if deal() < 0.1 else fields))
        ts = at if deal() < 0.9 else at - below(30 * MS)
        parts = [field(8, ts), field(76, event)] + ([field(10, 1 + below(3))] if deal() < 0.9 else [])
        packets.append(packet(*(mixed(parts) if deal() < 0.3 else parts)))
    with open(os.path.join(folder, 'disorder.pb'), 'wb') as f:
        f.write(process_tree((100, 'com.a'), (200, 'com.b'), (77, 'zed')) +
                b''.join(packets[:300] + mixed(packets[300:])))


def timeline_halves(data):
    """At the border of a packet near the middle."""
    at = 0
    while at < len(data) // 2:
        size, shift, at = 0, 0, at + 1
        while True:
            size |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                break
        at += size
    return data[:at], data[at:]


if __name__ == '__main__':
    os.makedirs(sys.argv[-1], exist_ok=True)
    (demo if sys.argv[1] == '--demo' else main)(sys.argv[-1])
