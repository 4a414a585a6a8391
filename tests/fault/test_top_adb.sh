#!/usr/bin/env bash
# jankscope top behind `adb shell`: Debian's adb client in tmux, a stand-in for adbd (tests/apps/adbd.c) with
# a terminal of its own, which adb sizes. What is seen, the keys, sizes, and a client that goes away. Prints TAP.
# Runs beside others (15 s)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - top over adb # SKIP needs root"; exit 0; fi
for needed in tmux adb ip; do command -v $needed >/dev/null || { echo "ok - top over adb # SKIP no $needed"; exit 0; }; done
# A network of its own: the shells of this adbd are root's, and its port is nobody else's. So is /run.
if [ "${INSIDE:-}" != 1 ]; then INSIDE=1 exec unshare -nm "$0"; fi
ip link set lo up && mount -t tmpfs none /run || { echo "not ok - top over adb: no network of its own"; exit 1; }
js=$BUILD/jankscope work=$(mktemp -d) socket= daemon= load=
cd "$work" || exit 1
socket=$work/tmux
export LANG=C.UTF-8 HOME=$work ANDROID_ADB_SERVER_PORT=6037 ADB_MDNS=0 TERM=xterm-256color
unset NO_COLOR LC_ALL TMUX COLUMNS LINES ANDROID_SERIAL ADB_SERVER_SOCKET
t() { tmux -S "$socket" "$@"; }
# shellcheck disable=SC2086
trap 't kill-server 2>/dev/null; adb kill-server 2>/dev/null; kill $daemon $load 2>/dev/null; cd /; rm -rf "$work"' EXIT
say() { if [ "$1" = 0 ]; then echo "ok - top over adb: $2"; else echo "not ok - top over adb: $2"; sed 's/^/# |/' "${3:-screen}" | head -45; fi; }
screen() { t capture-pane -p >screen; }
see() { for _ in $(seq 200); do screen; grep -qE -- "$1" screen && return 0; sleep 0.1; done; return 1; }
key() { t send-keys "$@"; }
type() { t send-keys -l -- "$1"; t send-keys Enter; }
sized() {
	for _ in $(seq 200); do
		screen
		[ "$(wc -l <screen)" = "$2" ] && [ "$(wc -L <screen)" -le "$1" ] && head -1 screen | grep -qE '[0-9]Z' && tail -1 screen | grep -q '^q quit' && return 0
		sleep 0.1
	done
	return 1
}
top_pid() { pgrep -x jankscope -P "$(pgrep -x sh -P "$(pgrep -x adbd -P "$(pgrep -x adbd -P "$daemon" | tail -1)" | tail -1)" | tail -1)" | head -1; }

: >/run/adbd.5555
"$BUILD/tests/apps/adbd" 5555 root & daemon=$!
sleep 600 & load=$!
for _ in $(seq 50); do adb connect 127.0.0.1:5555 >connect 2>&1; grep -q '^connected' connect && break; sleep 0.2; done
[ "$(adb -s 127.0.0.1:5555 shell id -u 2>&1 | tr -d '\r')" = 0 ]; say $? "the client reaches a root shell" connect
t -f /dev/null new-session -d -x 80 -y 24 "exec bash --norc --noprofile" || { echo "not ok - top over adb: tmux"; exit 1; }
type "PS1='prompt: '; clear"; see '^prompt:'
shell="adb -s 127.0.0.1:5555 shell -tt"
run="$js top -p $load -i 500ms --max-lost 100 -o $work/run.jsonl --overwrite"
# The client tells the size when the shell is there already.
type "$shell 'echo TERM \$TERM; for i in \$(seq 100); do stty size | grep -v ^0 && break; sleep 0.1; done'; echo code \$?"; see '^code 0'; grep -q '^TERM tmux-256color' screen && grep -q '^24 80' screen; say $? "the terminal behind adb has the client's TERM and size"
type "clear; $shell '$run'; echo code \$?"
see '^TASKS' && sized 80 24; say $? "the screen, at the client's size"
grep -q '^NET rx' screen && grep -q '^BLOCKS' screen && head -1 screen | grep -q '^jankscope [0-9:]*Z .* busy'; say $? "with its panes"
t resize-window -x 40 -y 10; sized 40 10; say $? "40 x 10 by the client's window"
t resize-window -x 300 -y 100; sized 300 100 && grep -qE '^.{135} *BLOCKS' screen; say $? "300 x 100"
for i in $(seq 60); do t resize-window -x $((40 + i * 7 % 90)) -y $((10 + i * 5 % 30)); done
t resize-window -x 80 -y 24; sized 80 24 && [ "$(grep -c '^TASKS' screen)" = 1 ]; say $? "sixty sizes, one after the other"
key s; see '^TASKS .* by wait'; say $? "keys come through"
key p; see '^PAUSED'; key p; key '?'; see 'Ctrl-L'; say $? "and the page of help"; key x
key q; see '^code 0'; t capture-pane -p -S - >all; grep -q '^summary: [0-9]* intervals' all; say $? "q: the summary, and adb's exit code" all
[ "$(t display-message -p '#{cursor_flag} #{alternate_on} #{wrap_flag}')" = "1 0 1" ]; say $? "the client's terminal is as before"
"$js" verify run.jsonl >verify 2>&1; say $? "the recording beside it is whole" verify

# ---- Ctrl-C goes through, as on a device ----
type "clear; $shell '$run'; echo code \$?"; see '^TASKS'; key C-c; see '^code 0'; say $? "Ctrl-C: the summary, exit 0"

# ---- the cable is pulled: the client dies ----
type "clear; $shell '$run'; echo code \$?"; see '^TASKS'; sleep 1
recorder=$(top_pid)
[ -n "$recorder" ]; say $? "the recorder is adbd's descendant ($recorder)"
adb -s 127.0.0.1:5555 kill-server >/dev/null 2>&1; adb kill-server >/dev/null 2>&1
gone() { ! grep -q '^State:.*[^Z] (' "/proc/$1/status" 2>/dev/null; }
for _ in $(seq 100); do gone "$recorder" && break; sleep 0.1; done
[ -n "$recorder" ] && gone "$recorder"; say $? "a client that goes away ends the run" <(ps -o pid,ppid,stat,wchan,args -p "$recorder")
"$js" verify run.jsonl >verify 2>&1 && tail -1 run.jsonl | grep -q '"type":"footer"'; say $? "whose recording is whole, footer and all" verify
