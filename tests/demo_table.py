# SPDX-License-Identifier: BSD-2-Clause
"""The table of the demo: what the programs know of themselves beside what jankscope measured.
usage: demo_table.py FOLDER -- with the files that demo.sh leaves there. Exits 1 if a row is off."""
import json, os, sys

folder = sys.argv[1]
rows = wrong = 0


def load(name):
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def records(name):
    with open(os.path.join(folder, name)) as file:
        return [json.loads(line) for line in file]


def section(title, truth):
    print(f'\n{title}\n  true: {truth}\n{"":26}{"true":>16}{"measured":>17}{"difference":>12}{"allowed":>9}')


def row(name, true, measured, right, difference='', allowed=''):
    global rows, wrong
    rows += 1
    wrong += not right
    print(f'  {name:<24}{true:>16}{measured:>17}{difference:>12}{allowed:>9}  {"ok" if right else "WRONG"}')


def same(name, true, measured):
    """A count or a name: nothing but the truth will do."""
    row(name, str(true), 'absent' if measured is None else str(measured), true == measured)


def share(name, true, measured, percent, unit):
    """A sum: no more than so many per cent off."""
    off = 100 * (measured - true) / true if true else 100
    text = (lambda n: f'{n / 1e6:.3f} ms') if unit == 'ms' else (lambda n: f'{n} B')
    row(name, text(true), text(measured), abs(off) <= percent, f'{off:+.3f} %', f'{percent} %')


def length(name, true_ns, measured_ns, allowed_ms):
    if measured_ns is None:
        row(name, f'{true_ns / 1e6:.3f} ms', 'absent', False)
        return
    off_ms = (measured_ns - true_ns) / 1e6
    row(name, f'{true_ns / 1e6:.3f} ms', f'{measured_ns / 1e6:.3f} ms', abs(off_ms) <= allowed_ms,
        f'{off_ms:+.3f} ms', f'{allowed_ms} ms')


def cpu(truth, intervals):
    section('CPU time', "the threads' own clocks (CLOCK_THREAD_CPUTIME_ID)")
    tasks = [t for i in intervals for t in i['cpu']['tasks'] if t['pid'] == truth['pid']]
    known = {t['tid'] for t in truth['threads']}
    for thread in truth['threads']:
        share(thread['name'], thread['cpu_ns'], sum(t['cpu_ns'] for t in tasks if t['tid'] == thread['tid']), 1, 'ms')
    short = [t for t in tasks if t['tid'] not in known]
    same('threads that lived 6 ms', truth['short']['threads'], sum(bool(t.get('exited')) for t in short))
    # The end of a thread, some 60 us behind its own last look at the clock, is CPU time too.
    share('  all of them together', truth['short']['cpu_ns'], sum(t['cpu_ns'] for t in short), 3, 'ms')
    share('the process', truth['process_cpu_ns'], sum(t['cpu_ns'] for t in tasks), 1, 'ms')


def traffic(truth, intervals):
    section('Bytes', "the senders' own counters (UDP: datagrams; TCP: the kernel's TCP_INFO)")
    for uid in truth['uids']:
        found = [u for i in intervals for u in i['net']['uids'] if u['uid'] == uid['uid']]
        for key, word in (('tx_bytes', 'sent'), ('rx_bytes', 'received')):
            # TCP_INFO knows no headers: they are counted by segments, which retransmission blurs.
            share(f'{word} by uid {uid["uid"]}', uid[key], sum(u[key] for u in found), 0 if uid['uid'] == 10124 else 0.1, 'B')


def culprit(block):
    """The innermost function of the app itself on the heaviest stack: it called what waits."""
    if 'top' not in block:
        return None
    frames = block['stacks'][block['top']]['frames']
    return next((f['symbol'] for f in frames if f.get('symbol') and f.get('module', '').endswith('demo_blocks')), None)


def blocks(truth, found):
    section('Long blocks of a main thread', "the app's own clock around each message; its own names")
    found = [b for b in found if b['pid'] == truth['pid'] and b['state'] == 'closed']
    same('blocks', len(truth['blocks']), len(found))
    for number, block in enumerate(truth['blocks'], 1):
        near = [b for b in found if abs(b['start_boot_ns'] - block['start_boot_ns']) < 30e6]
        measured = near[0] if len(near) == 1 else {}
        true_ns, measured_ns, name = block['wall_ns'], measured.get('wall_ns'), f'{number}: length'
        # On a busy machine the app may lose its CPU between its epoll_wait() and its own look at the
        # clock. Both sides know how long it waited for one: the kernel's count, and the ledger.
        if measured_ns is not None and abs(measured_ns - true_ns) > 5e6:
            true_ns -= block['waited_ns']
            measured_ns -= measured['ledger']['runnable_ns']
            name = f'{number}: less CPU waits'
        length(name, true_ns, measured_ns, 5)
        same('   function', block['function'], culprit(measured))
        if block['holder_tid']:
            holder = f'db-writer {block["holder_tid"]}'
            for name, key in (('   lock held by', 'owner'), ('   woken by', 'waker')):
                thread = measured.get(key)
                same(name, holder, thread and f'{thread["thread"]} {thread["tid"]}')


def frames(truth, measured):
    section('Frames', 'how the trace was made (`jankscope frames demo.pb`)')
    layer = measured['layers'][0] if measured['layers'] else {}
    same('shown', truth['shown'], layer.get('shown'))
    same('late or never shown', truth['janky'], layer.get('janky'))
    same('refreshes missed', truth['dropped'], layer.get('dropped'))
    worst = {w['surface_frame_token']: w['late_ns'] for w in measured['worst']}
    for frame in sorted(truth['late'], key=lambda f: -f['late_ms']):
        length(f'frame {frame["token"]} is late by', round(frame['late_ms'] * 1e6), worst.pop(frame['token'], None), 0.001)
    same('other late frames', 0, len(worst))


device = [r for r in records('device.jsonl') if r['type'] == 'interval']
load_truth = load('load.json')
cpu(load_truth, device)
traffic(load_truth, device)
blocks(load('blocks.json'), [r for r in records('app.jsonl') if r['type'] == 'block'])
frames(load('demo.json'), load('frames.json'))
if wrong:
    for name in ('device.jsonl', 'app.jsonl'):
        footer = records(name)[-1]
        print(f'\n{name}: ' + '; '.join(f'{kind} {footer.get(kind) or "nothing"}' for kind in ('lost', 'late', 'repaired')))
print(f'\n{rows - wrong} of {rows} rows are right' + ('' if wrong else '.'))
sys.exit(wrong != 0 or rows == 0)
