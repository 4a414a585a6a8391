# SPDX-License-Identifier: BSD-2-Clause
"""Event loops of Python: as tests/apps/loop_kinds.c.  usage: loop_python.py MODE GO_FILE
MODE: glib asyncio uvloop asyncio_helper (in a thread, the main thread is in join)"""
import ctypes, os, sys, threading, time

mode, go_file = sys.argv[1:3]
blocks = 0


def block_here():
    since, boot = time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    time.sleep(0.3)
    os.write(1, b"block %d %d\n" % (boot, time.monotonic_ns() - since))


def tick():
    """Milliseconds until the next one, or None: no more."""
    global blocks
    if not os.path.exists(go_file):
        return 100
    blocks += 1
    if blocks > 5:
        return None
    block_here()
    return 500


def run_glib():
    glib = ctypes.CDLL("libglib-2.0.so.0")
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    glib.g_main_loop_new.restype = ctypes.c_void_p

    def fired(_):
        wait = tick()
        if wait is not None:
            glib.g_timeout_add(wait, callback, None)
        return 0
    callback = kind(fired)
    glib.g_timeout_add(100, callback, None)
    os.write(1, b"ready\n")
    glib.g_main_loop_run(ctypes.c_void_p(glib.g_main_loop_new(None, 0)))


def run_asyncio(new_loop):
    import asyncio
    loop = new_loop()

    def fired():
        wait = tick()
        if wait is not None:
            loop.call_later(wait / 1000, fired)
    loop.call_later(0.1, fired)
    os.write(1, b"ready\n")
    loop.run_forever()


if mode == "glib":
    run_glib()
elif mode == "asyncio":
    import asyncio
    run_asyncio(asyncio.new_event_loop)
elif mode == "uvloop":
    import uvloop
    run_asyncio(uvloop.new_event_loop)
elif mode == "asyncio_helper":
    import asyncio
    thread = threading.Thread(target=run_asyncio, args=(asyncio.new_event_loop,))
    thread.start()
    thread.join()
