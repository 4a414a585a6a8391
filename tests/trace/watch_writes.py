"""Who writes to these files: fanotify tells the process. Makes OUT when it watches; a line "PID NAME"
for each event. usage: watch_writes.py OUT FILE..."""
import ctypes, os, struct, sys

FAN_MODIFY, FAN_MARK_ADD, FAN_CLASS_NOTIF, AT_FDCWD = 0x2, 0x1, 0x0, -100
libc = ctypes.CDLL(None, use_errno=True)
libc.fanotify_mark.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]
fan = libc.fanotify_init(FAN_CLASS_NOTIF, os.O_RDONLY)
if fan < 0:
    sys.exit(f'fanotify: {os.strerror(ctypes.get_errno())}')
for path in sys.argv[2:]:
    # trace_marker cannot be opened for reading, which each event does: what is not watched is only
    # not proven to be another's
    libc.fanotify_mark(fan, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, path.encode())
with open(sys.argv[1], 'w', buffering=1) as out:
    while True:
        try:
            data = os.read(fan, 65536)
        except PermissionError:
            continue
        while data:
            length, _, _, _, _, fd, pid = struct.unpack_from('IBBHQii', data)
            data = data[length:]
            if fd >= 0:
                os.close(fd)
            try:
                name = open(f'/proc/{pid}/comm').read().strip()
            except OSError:
                name = '?'
            if pid != os.getpid():
                print(pid, name, file=out)
