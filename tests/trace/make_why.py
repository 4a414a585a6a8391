"""Traces of late frames whose causes are known: threads do what a list says, and the scheduler
events of that are written as Perfetto writes them, CPU by CPU.
usage: make_why.py FOLDER -- writes why.pb, why_compact.pb (packed scheduler events), why_none.pb
       (none), why.txt (ftrace's text, without FrameTimeline) and why.json: each late frame with its
       cause and the ledger of each of its threads."""
import json, os, sys
from make_traces import APP, DROPPED, LATE, MS, NONE, ON_TIME, Display, clock_snapshot, field, packet, process_tree, timeline, varint

MAIN, RENDER, TASK, SF, ENGINE, HOG, LOCKER, SERVER = 1000, 1001, 1002, 500, 501, 2000, 1010, 3001
NAMES = {MAIN: 'm.example.late', RENDER: 'RenderThread', TASK: 'hwuiTask0', SF: 'surfaceflinger', ENGINE: 'RenderEngine',
         HOG: 'dex2oat64', LOCKER: 'loader', SERVER: 'Binder:3000_1'}
CPU = {MAIN: 0, RENDER: 1, TASK: 1, SF: 2, ENGINE: 2, HOG: 0, LOCKER: 3, SERVER: 3}
STATES = {'S': 1, 'D': 2, 'R': 0}
PERIOD, START = 100 * MS, 1000 * MS
SF_CPU, STUFFING, VSYNC = 16, 128, 16666667


class Rows(Display):
    """FrameTimeline's packets, in any clock: at(boot) is what that clock shows."""
    def add(self, ts, kind, *fields):
        self.events.append((ts, len(self.events), kind, fields))

    def bytes(self, at=None):
        return b''.join(timeline(at(ts) if at else ts, kind, *fields, clock=3 if at else None)
                        for ts, _, kind, fields in sorted(self.events, key=lambda e: e[:2]))


class World:
    def __init__(self):
        self.spells = {tid: [] for tid in NAMES}  # (begin, end, state, waker)
        self.events = {cpu: [] for cpu in range(4)}
        self.display, self.truth, self.slow = Rows(), [], []

    def note(self, ts, cpu, tid, number, *fields):
        self.events[cpu].append((ts, tid, number, b''.join(fields)))

    def mark(self, ts, tid, text):
        self.note(ts, CPU[tid], tid, 3, field(2, (text + '\n').encode()))

    def do(self, tid, until, state, waker=None):
        """Go on in a state; of a sleep: who ends it."""
        begin = self.spells[tid][-1][1] if self.spells[tid] else 0
        assert until >= begin, (tid, until, begin)
        if until > begin and state == 'Run' and self.spells[tid] and self.spells[tid][-1][2] == 'Run':
            self.spells[tid][-1] = (self.spells[tid][-1][0], until, 'Run', None)
        elif until > begin:
            self.spells[tid].append((begin, until, state, waker))

    def slice(self, tid, name, begin, end):
        pid = MAIN if tid in (MAIN, RENDER) else SF
        self.mark(begin, tid, f'B|{pid}|{name}')
        self.mark(end, tid, f'E|{pid}')

    def finish(self, end):
        """From what the threads did to what the scheduler tells of it."""
        runs = {cpu: [] for cpu in range(4)}
        for tid, spells in self.spells.items():
            self.do(tid, end, 'S')
            if spells[0][2] == 'S':
                del spells[0]
            for i, (begin, stop, state, waker) in enumerate(spells):
                after = spells[i + 1][2] if i + 1 < len(spells) else 'S'
                if state == 'Run':
                    runs[CPU[tid]].append((begin, stop, tid, after))
                elif state in 'SD' and after in ('R', 'Run') and i + 1 < len(spells):
                    cpu = CPU[waker] if waker else 3
                    self.note(stop, cpu, waker or 0, 20, field(1, NAMES[tid].encode()), field(2, tid), field(3, 120), field(4, 1), field(5, cpu))
                    if state == 'D':
                        self.note(stop + 1, cpu, waker or 0, 18, field(1, tid), field(2, 4096), field(3, 1))
        for cpu, list_ in runs.items():
            list_.sort()
            last, state = 0, 0
            for i, (begin, stop, tid, after) in enumerate(list_):
                assert not i or list_[i - 1][1] <= begin, (cpu, list_[i - 1], list_[i])
                if i and list_[i - 1][1] < begin:
                    self.switch(list_[i - 1][1], cpu, last, state, 0)
                    last, state = 0, 0
                self.switch(begin, cpu, last, state, tid)
                last, state = tid, STATES[after]
            if list_:
                self.switch(list_[-1][1], cpu, last, state, 0)

    def switch(self, ts, cpu, prev, state, next_):
        name = lambda tid: NAMES.get(tid, 'swapper').encode()
        self.note(ts, cpu, prev, 4, field(1, name(prev)), field(2, prev), field(3, 120), field(4, state),
                  field(5, name(next_)), field(6, next_), field(7, 120))

    def ledger(self, tid, begin, end):
        sums = dict(running_ns=0, runnable_ns=0, sleeping_ns=0, uninterruptible_ns=0, stopped_ns=0)
        keys = {'Run': 'running_ns', 'R': 'runnable_ns', 'S': 'sleeping_ns', 'D': 'uninterruptible_ns'}
        for a, b, state, _ in self.spells[tid]:
            sums[keys[state]] += max(0, min(b, end) - max(a, begin))
        return sums

    def frame(self, i, ready, cause, second=None, jank=APP, late=17 * MS, dropped=False, present_type=LATE, culprit=None, token=None):
        begin, shown = START + i * PERIOD, 9000 + i if token is None else token
        token = 7000 + i if token is None else token
        due, present = begin + 32 * MS, begin + 32 * MS + late
        d = self.display
        d.span(1, due - 16 * MS, due, field(2, shown), field(3, SF))
        d.span(2, present - 16 * MS, present, field(2, shown), field(3, SF), field(4, ON_TIME), field(5, 1), field(6, 0),
               field(7, NONE), field(8, 1))
        layer = field(5, b'TX - com.example.late/com.example.late.Main#7')
        d.span(3, begin, begin + 16 * MS, field(2, token), field(3, shown), field(4, MAIN), layer)
        d.span(4, begin + 1000, ready, field(2, token), field(3, shown), field(4, MAIN), layer,
               field(6, DROPPED if dropped else present_type), field(7, 0), field(8, 0), field(9, jank), field(10, 1), field(11, 1))
        # doFrame begins when the main thread first runs, and hands over when it last does
        runs = [s for s in self.spells[MAIN] if s[2] == 'Run' and s[0] >= begin]
        done = [s for s in self.spells[RENDER] if s[2] == 'Run' and s[0] >= begin]
        self.slice(MAIN, f'Choreographer#doFrame {token}', runs[0][0], runs[-1][1])
        self.slice(RENDER, f'DrawFrames {token}', done[0][0], ready)
        self.slice(RENDER, 'queueBuffer', ready - 300000, ready)
        if ready - runs[0][0] > VSYNC:
            self.slow.append(dict(begin=runs[0][0], end=ready, late_ns=ready - runs[0][0] - VSYNC, second=second, culprit=culprit,
                                  cause='main_cpu' if jank == STUFFING else cause))
        if present_type == ON_TIME:
            return
        window_end = present if not dropped and ready <= begin + 16 * MS else ready
        self.truth.append(dict(token=token, cause=cause, second=second, culprit=culprit, begin=begin, end=window_end,
                               late_ns=ready - begin - 16 * MS if dropped else late))

    def bytes(self, form, clocks=(), at=None, ftrace=0, behind=0, told=False, dropped=None):
        """clocks: snapshots before all; at: of the rows' clock; ftrace: which clock its events have,
        which is that much behind, and whether each bundle tells so; dropped: the CPU and the number
        of a bundle that is left out."""
        chunks = [process_tree((MAIN, 'com.example.late'), (SF, '/system/bin/surfaceflinger'), (3000, 'system_server'), (HOG, 'dex2oat64'))]
        owner = {RENDER: MAIN, TASK: MAIN, LOCKER: MAIN, ENGINE: SF, SERVER: 3000}
        chunks.append(packet(field(2, b''.join(field(2, field(1, tid) + field(3, pid)) for tid, pid in owner.items()))))
        chunks += clocks
        chunks.append(self.display.bytes(at))
        for cpu, events in self.events.items():
            events.sort(key=lambda e: e[0])
            for n in range(0, len(events), 40):
                moved = [(e[0] - behind, *e[1:]) for e in events[n:n + 40]]
                if (cpu, n // 40) == dropped:
                    continue
                chunks.append(bundle(cpu, moved, form, ftrace, behind if told else 0, dropped == (cpu, n // 40 - 1)))
        return b''.join(chunks)


def bundle(cpu, events, form, clock=0, behind=0, after_loss=False):
    body, switches, wakings, names = field(1, cpu), [], [], []
    for ts, tid, number, event in events:
        if number == 3 or form == 'plain' or (form == 'compact' and number not in (4, 20)):
            body += field(2, field(1, ts) + field(2, tid) + field(number, event))
        elif form == 'compact' and number == 4:
            switches.append((ts, event))
        elif form == 'compact':
            wakings.append((ts, event))
    if switches or wakings:
        body += field(4, compact(switches, wakings, names))
    body += field(5, clock) if clock else b''
    body += field(6, events[0][0]) + field(7, events[0][0] + behind) if behind else b''
    return packet(field(1, body) + (field(42, 1) if after_loss else b''))


def text(w):
    """As the kernel prints it, with all digits of the clock."""
    events = sorted((e[0], cpu, n, e) for cpu, list_ in w.events.items() for n, e in enumerate(list_))
    owner = {RENDER: MAIN, TASK: MAIN, LOCKER: MAIN, ENGINE: SF, SERVER: 3000}
    lines = ['# tracer: nop', '#']
    for _, cpu, _, (ts, tid, number, event) in events:
        v = values(event)
        word = lambda n: v[n].decode()
        body = {
            3: lambda: 'tracing_mark_write: ' + word(2).strip(),
            4: lambda: f'sched_switch: prev_comm={word(1)} prev_pid={v[2]} prev_prio=120 prev_state={"RSD"[v[4]]} ==> '
                       f'next_comm={word(5)} next_pid={v[6]} next_prio=120',
            18: lambda: f'sched_blocked_reason: pid={v[1]} iowait={v[3]} caller=0x1000',
            20: lambda: f'sched_waking: comm={word(1)} pid={v[2]} prio=120 target_cpu={v[5]:03}',
            50: lambda: f'binder_transaction: transaction={v[1]} dest_node={v[2]} dest_proc={v[3]} dest_thread={v[4]} reply={v[5]} '
                        f'flags=0x{v[7]:x} code=0x{v[6]:x}',
            51: lambda: f'binder_transaction_received: transaction={v[1]}',
        }[number]()
        lines.append(f'{NAMES.get(tid, "<idle>"):>16}-{tid:<5} ({owner.get(tid, tid):5}) [{cpu:03}] d..2 {ts // 10**9}.{ts % 10**9:09}: {body}')
    return '\n'.join(lines) + '\n'


def values(event):
    """The varints and texts of a flat message by number."""
    out, at = {}, 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            n |= (event[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if event[at - 1] < 128:
                return n
    while at < len(event):
        key = number()
        n = number()
        out[key >> 3] = event[at:at + n] if key & 7 == 2 else n
        at += n if key & 7 == 2 else 0
    return out


def compact(switches, wakings, names):
    def deltas(events):
        return b''.join(varint(ts - (events[i - 1][0] if i else 0)) for i, (ts, _) in enumerate(events))

    def index(name):
        if name not in names:
            names.append(name)
        return names.index(name)
    s, w = [values(e) for _, e in switches], [values(e) for _, e in wakings]
    columns = [(1, deltas(switches)), (2, b''.join(varint(e[4]) for e in s)), (3, b''.join(varint(e[6]) for e in s)),
               (4, b''.join(varint(120) for _ in s)), (6, b''.join(varint(index(e[5])) for e in s)), (7, deltas(wakings)),
               (8, b''.join(varint(e[2]) for e in w)), (9, b''.join(varint(e[5]) for e in w)),
               (10, b''.join(varint(120) for _ in w)), (11, b''.join(varint(index(e[1])) for e in w)),
               (12, b''.join(varint(0) for _ in w))]
    return b''.join(field(5, n) for n in names) + b''.join(field(n, data) for n, data in columns)


def draw(w, at, run, wait=0, reason=None):
    """Main wakes the RenderThread, which runs and may wait for its fence or a buffer on the way."""
    w.do(RENDER, at, 'S', MAIN)
    w.do(RENDER, at + 30000, 'R')
    w.do(RENDER, at + 30000 + run // 2, 'Run')
    if wait:
        w.slice(RENDER, reason, at + 30000 + run // 2 - 100, at + 30000 + run // 2 + wait + 100)
        w.do(RENDER, at + 30000 + run // 2 + wait, 'S')
    w.do(RENDER, at + 30000 + run + wait, 'Run')
    return at + 30000 + run + wait


def wait_in_main(w, at, state, waker, ns):
    """Main works 2 ms, waits, works 3 ms and hands over."""
    w.do(MAIN, at, 'S')
    w.do(MAIN, at + 20000, 'R')
    w.do(MAIN, at + 2 * MS, 'Run')
    w.do(MAIN, at + 2 * MS + ns, state, waker)
    w.do(MAIN, at + 2 * MS + ns + 15000, 'R')
    w.do(MAIN, at + 5 * MS + ns, 'Run')
    return draw(w, at + 5 * MS + ns - 200000, 2 * MS)


def run_other(w, tid, begin, end):
    w.do(tid, begin, 'S')
    w.do(tid, end, 'Run')


def write_clocks(w, folder):
    """The same in clocks that the snapshots tell well, badly or not at all."""
    off, behind = 700 * MS, 333 * MS
    snap = lambda boot, apart=off: clock_snapshot(boot, boot=boot, mono=boot - apart, raw=boot - behind)
    calm = [snap(START - 100 * MS), snap(START - 100 * MS), snap(START + 300 * MS), snap(START + 700 * MS)]
    mono = lambda boot: boot - off
    # each snapshot was read a little late, and one by a task that was held up for 3 ms
    drift = [snap(START - 100 * MS + i * 100 * MS, off + d) for i, d in enumerate([0, 40000, -70000, 25000, 3 * MS, 10000, 0, -20000])]
    # the machine slept between two snapshots, and frames were drawn on both sides
    slept = lambda boot: boot - off if boot < START + 450 * MS else boot - off - 80 * MS
    suspend = [snap(START - 100 * MS), snap(START + 290 * MS), snap(START + 790 * MS, off + 80 * MS)]
    # CLOCK_BOOTTIME that goes back, as no kernel tells it
    back = [snap(START - 100 * MS), snap(START + 300 * MS), snap(START + 500 * MS), clock_snapshot(START + 400 * MS, boot=START + 400 * MS, mono=START + 600 * MS - off)]
    for name, form, more in (
            ('why_mono.pb', 'plain', dict(clocks=calm, at=mono)), ('why_drift.pb', 'plain', dict(clocks=drift, at=mono)),
            ('why_suspend.pb', 'plain', dict(clocks=suspend, at=slept)), ('why_back.pb', 'plain', dict(clocks=back, at=mono)),
            ('why_unsynced.pb', 'plain', dict(at=mono)),
            ('why_raw.pb', 'plain', dict(clocks=calm, ftrace=4, behind=behind)), ('why_raw_compact.pb', 'compact', dict(clocks=calm, ftrace=4, behind=behind)),
            ('why_global.pb', 'compact', dict(ftrace=2, behind=behind, told=True)), ('why_local.pb', 'plain', dict(ftrace=3, behind=behind, told=True)),
            ('why_global_lost.pb', 'plain', dict(ftrace=2, behind=behind)), ('why_raw_lost.pb', 'compact', dict(ftrace=4, behind=behind))):
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(w.bytes(form, **more))


def write_restart(w, folder, end):
    """The same, and behind it SurfaceFlinger starts anew, as process 9000, and others have the numbers of threads that ended."""
    threads = ((9000, b'surfaceflinger'), (9001, b'RenderEngine'), (RENDER, b'kworker/u8:3'), (HOG, b'sh'))
    events = []
    for n, (tid, name) in enumerate(threads):
        for at, prev, next_ in ((end + n * MS, (0, b'swapper'), (tid, name)), (end + n * MS + 500000, (tid, name), (0, b'swapper'))):
            events.append((at, prev[0], 4, field(1, prev[1]) + field(2, prev[0]) + field(3, 120) + field(4, 1 if prev[0] else 0) +
                           field(5, next_[1]) + field(6, next_[0]) + field(7, 120)))
    with open(os.path.join(folder, 'why_restart.pb'), 'wb') as f:
        f.write(w.bytes('plain') + process_tree((9000, '/system/bin/surfaceflinger')) + packet(field(2, field(2, field(1, 9001) + field(3, 9000)))) +
                bundle(2, events, 'plain'))


def write_dropped(w, folder):
    """The same, less a bundle of CPU 0 for which there was no room on its way to the file."""
    for form in ('plain', 'compact'):
        with open(os.path.join(folder, f'why_dropped_{form}.pb'), 'wb') as f:
            f.write(w.bytes(form, dropped=(0, 1)))


def write_tokens(folder):
    """Tokens of any number, and all of them again, where SurfaceFlinger has started anew, of frames of other causes."""
    w = World()
    for i, tid in enumerate(NAMES):
        w.do(tid, START - (60 - 2 * i) * MS, 'S')
        w.do(tid, START - (59 - 2 * i) * MS, 'Run')
    tokens = [-1, -7, 2**63 - 1, -2**63, 2**32 + 5, 70, 69]
    for n, token in enumerate(tokens + list(range(9000, 9053)) + tokens):
        at, cause = START + n * PERIOD, ('main_cpu', 'render_cpu')[n % 2]
        main, render = (28 * MS, 2 * MS) if cause == 'main_cpu' else (3 * MS, 27 * MS)
        w.do(MAIN, at, 'S')
        w.do(MAIN, at + main, 'Run')
        w.frame(n, draw(w, at + main - 100000, render), cause, token=token)
    w.finish(at + PERIOD)
    with open(os.path.join(folder, 'why_tokens.pb'), 'wb') as f:
        f.write(w.bytes('plain'))
    with open(os.path.join(folder, 'why_tokens.json'), 'w') as f:
        json.dump(w.truth, f)


def main(folder):
    write_tokens(folder)
    w = World()
    # what a thread did before its first event nobody knows
    for i, tid in enumerate(NAMES):
        w.do(tid, START - (60 - 2 * i) * MS, 'S')
        w.do(tid, START - (59 - 2 * i) * MS, 'Run')
    at = lambda i: START + i * PERIOD

    def computes(i, main, render):
        t = at(i)
        w.do(MAIN, t, 'S')
        w.do(MAIN, t + 20000, 'R')
        w.do(MAIN, t + main, 'Run')
        return draw(w, t + main - 100000, render)

    w.frame(0, computes(0, 28 * MS, 2 * MS), 'main_cpu')
    w.frame(1, computes(1, 3 * MS, 27 * MS), 'render_cpu')
    # a hog has the CPU
    t = at(2)
    w.do(MAIN, t, 'S')
    run_other(w, HOG, t - 5 * MS, t + 19 * MS + 12345)
    w.do(MAIN, t + 19 * MS + 12345, 'R')
    w.do(MAIN, t + 24 * MS, 'Run')
    w.frame(2, draw(w, t + 24 * MS - 100000, 2 * MS), 'no_cpu', culprit=HOG)
    # a call, served late
    t = at(3)
    w.note(t + 1 * MS, 0, MAIN, 50, field(1, 77), field(2, 5), field(3, 3000), field(4, 0), field(5, 0), field(6, 3), field(7, 0x10))
    w.note(t + 10 * MS + 100, 3, SERVER, 51, field(1, 77))
    run_other(w, SERVER, t + 10 * MS, t + 22 * MS + 50000)
    w.frame(3, wait_in_main(w, t, 'S', SERVER, 20 * MS), 'binder', culprit=SERVER)
    w.note(t + 22 * MS + 20000, 0, MAIN, 51, field(1, 78))
    # a monitor that a worker holds
    t = at(4)
    w.slice(MAIN, 'monitor contention with owner loader (1010) at void a.B.c()(B.java:7)', t + 2 * MS - 1000, t + 22 * MS + 16000)
    run_other(w, LOCKER, t - 3 * MS, t + 22 * MS + 40000)
    w.frame(4, wait_in_main(w, t, 'S', LOCKER, 20 * MS), 'lock', culprit=LOCKER)
    # a disk
    w.frame(5, wait_in_main(w, at(5), 'D', None, 20 * MS), 'io')
    # the GPU, and a buffer that is not free
    t = at(6)
    w.do(MAIN, t, 'S')
    w.do(MAIN, t + 4 * MS, 'Run')
    w.frame(6, draw(w, t + 3900000, 3 * MS, 22 * MS, 'waiting for GPU completion 12'), 'gpu')
    t = at(7)
    w.do(MAIN, t, 'S')
    w.do(MAIN, t + 4 * MS, 'Run')
    w.frame(7, draw(w, t + 3900000, 3 * MS, 22 * MS, 'dequeueBuffer - VRI[Main]#0(BLAST)'), 'stuffing')
    # the app is in time and RenderEngine is not
    t = at(8)
    run_other(w, SF, t + 33 * MS, t + 34 * MS)
    run_other(w, ENGINE, t + 34 * MS, t + 47 * MS)
    w.frame(8, computes(8, 5 * MS, 3 * MS), 'surfaceflinger', jank=SF_CPU)
    # SurfaceFlinger says that its buffers were stuffed
    w.frame(9, computes(9, 20 * MS, 3 * MS), 'stuffing', jank=STUFFING)
    # a lock for 10 ms and a hog for 9
    t = at(10)
    w.slice(MAIN, 'Lock contention on a monitor lock (owner tid: 1010)', t + 2 * MS - 1000, t + 12 * MS + 1000)
    w.do(MAIN, t, 'S')
    w.do(MAIN, t + 2 * MS, 'Run')
    w.do(MAIN, t + 12 * MS, 'S', LOCKER)
    run_other(w, LOCKER, t + 11 * MS, t + 12 * MS + 1000)
    run_other(w, HOG, t + 11 * MS, t + 21 * MS)
    w.do(MAIN, t + 21 * MS, 'R')
    w.do(MAIN, t + 23 * MS, 'Run')
    w.frame(10, draw(w, t + 23 * MS - 100000, 2 * MS), 'lock', 'no_cpu', culprit=LOCKER)
    # nothing says what it slept for
    w.frame(11, wait_in_main(w, at(11), 'S', LOCKER, 20 * MS), 'unknown')
    # never shown
    w.frame(12, computes(12, 30 * MS, 2 * MS), 'main_cpu', dropped=True)
    w.frame(13, computes(13, 6 * MS, 2 * MS), None, late=0, present_type=ON_TIME)
    w.finish(at(15))
    for frame in w.truth:
        frame['threads'] = {tid: w.ledger(tid, frame['begin'], frame['end']) for tid in (MAIN, RENDER, SF, ENGINE)}
    for name, form in (('why.pb', 'plain'), ('why_compact.pb', 'compact'), ('why_none.pb', 'none')):
        with open(os.path.join(folder, name), 'wb') as f:
            f.write(w.bytes(form))
    write_clocks(w, folder)
    write_restart(w, folder, at(15) + MS)
    write_dropped(w, folder)
    for frame in w.slow:
        frame['threads'] = {tid: w.ledger(tid, frame['begin'], frame['end']) for tid in (MAIN, RENDER, SF, ENGINE)}
    with open(os.path.join(folder, 'why.txt'), 'w') as f:
        f.write(text(w))
    for name, truth in (('why.json', w.truth), ('why_text.json', w.slow)):
        with open(os.path.join(folder, name), 'w') as f:
            json.dump(truth, f)


if __name__ == '__main__':
    main(sys.argv[1])
