#!/usr/bin/env bash
# jankscope top on a real terminal (tmux): what it shows at several sizes, its keys, names that would
# move the cursor, and the terminal as it was on every way out. Prints TAP.
# Runs beside others (50 s, 8 s of CPU)
set -u
if [ "$(id -u)" != 0 ]; then echo "ok - top # SKIP needs root"; exit 0; fi
if ! command -v tmux >/dev/null; then echo "ok - top # SKIP no tmux"; exit 0; fi
js=$BUILD/jankscope work=$(mktemp -d) looper=$BUILD/tests/apps/looper loss="--max-lost 100"
socket=$work/tmux pids=
cd "$work" || exit 1
export LANG=C.UTF-8 TERM=xterm-256color
unset NO_COLOR LC_ALL LC_CTYPE TMUX COLUMNS LINES
t() { tmux -S "$socket" "$@"; }
# shellcheck disable=SC2086
trap 't kill-server 2>/dev/null; exec 3>&-; [ -n "$pids" ] && kill -KILL $pids 2>/dev/null; rm -rf "$work"' EXIT
say() { if [ "$1" = 0 ]; then echo "ok - top: $2"; else echo "not ok - top: $2"; sed 's/^/# |/' "${3:-screen}" | head -45; fi; }
screen() { t capture-pane -p >screen; }
# Until the screen has a line like this, 20 s at the most.
see() { for _ in $(seq 200); do screen; grep -qE -- "$1" screen && return 0; sleep 0.1; done; return 1; }
gone() { for _ in $(seq 200); do screen; grep -qE -- "$1" screen || return 0; sleep 0.1; done; return 1; }
key() { t send-keys "$@"; }
type() { t send-keys -l -- "$1"; t send-keys Enter; }
modes() { rm -f "$1"; type "stty -g >$work/$1.new; mv $work/$1.new $work/$1"; for _ in $(seq 200); do [ -s "$1" ] && return; sleep 0.1; done; }
shell_pid() { t list-panes -F '#{pane_pid}'; }
# The recorder is the shell's child of that name; it alone is signalled.
recorder() { for p in $(pgrep -P "$(shell_pid)" -x jankscope); do echo "$p"; return; done; }
width_of() { python3 -c '
import sys, unicodedata
wide = lambda c: 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
lines = open("screen", encoding="utf-8").read().split("\n")[:-1]
print(max(sum(map(wide, l.rstrip())) for l in lines), len(lines))'; }

# Until a frame of this size is there: within the width, with the keys in its last row.
sized() {
	for _ in $(seq 200); do
		screen; read -r columns lines < <(width_of)
		[ "$columns" -le "$1" ] && [ "$lines" = "$2" ] && head -1 screen | grep -qE '[0-9]Z' && tail -1 screen | grep -qE "${3:-^q quit}" && return 0
		sleep 0.1
	done
	return 1
}
changed() { for _ in $(seq 100); do screen; cmp -s "$1" screen || return 0; sleep 0.1; done; return 1; }

# ---- without a terminal it is the table ----
"$js" top -n 2 -i 200ms $loss >out 2>err </dev/null; code=$?
[ $code = 0 ] && grep -q '^sources:' out && grep -q '^summary: 2 intervals' out && ! grep -q $'\033' out; say $? "lines in a pipe" out
"$js" top --daemon 2>err; [ $? = 2 ] && grep -q 'unknown flag; see jankscope top --help' err; say $? "what is no flag of a screen is refused" err

# ---- targets: a looper that blocks, and a thread with a name of escapes ----
cat >odd.c <<'END'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static void *spin(void *p)
{
	struct timespec nap = {0, 20000000};

	for (;;) {
		for (int i = 0; i < 2000000; i++)
			sink++;
		nanosleep(&nap, 0);
	}
	return p;
}
int main(void)
{
	/* In the last one a byte that is CSI where nobody knows UTF-8, and what clears the screen behind it. */
	static const char *const names[] = {"\033[2J\033[1;1HX", "a\tb\nc\rd\010e", "\302\233H\302\2332Jy", "\346\274\242\345\255\227wide", "\351\233\2332Jlatin"};
	pthread_t thread;

	for (int i = 0; i < 5; i++) {
		pthread_create(&thread, 0, spin, 0);
		pthread_setname_np(thread, names[i]);
	}
	pause();
}
END
gcc -O1 -pthread -o oddnames odd.c || { echo "not ok - top: gcc"; exit 1; }
./oddnames & odd=$!; pids="$pids $odd"; disown
has_looper=
if [ -x "$looper" ]; then
	has_looper=1
	mkfifo commands
	"$looper" <commands >/dev/null & target=$!; pids="$pids $target"; disown
	exec 3>commands
else
	target=$odd
fi
t -f /dev/null new-session -d -x 80 -y 24 "exec bash --norc --noprofile" || { echo "not ok - top: tmux"; exit 1; }
type "PS1='prompt: '; clear"; see '^prompt:'
modes before
type "echo before the screen"
see '^before the screen'
type "$js top -p $odd -p $target -i 500ms --block 300ms --color never -o $work/run.jsonl $loss; echo code \$?"
see '^NET.* rx'; see ' oddnames$'; say $? "tasks at 80 x 24"
grep -q '^jankscope [0-9:]*Z .* %core busy' screen && grep -qi '^lost: ' screen && grep -q '^TASKS ' screen && grep -q '^BLOCKS ' screen &&
	grep -q '^NET rx' screen && grep -q '^MEM ' screen && grep -q '^HEAT' screen && grep -q '^FRAMES' screen && grep -q '^q quit  ? help' screen
say $? "each pane has its title"
grep -q 'before the screen' screen; [ $? = 1 ]; say $? "what the terminal showed is put aside"
for name in '?[2J?[1;1HX' 'a?b?c?d?e' '??H??2Jy' '漢字wide'; do grep -qF -- "$name" screen || break; done; say $? "names of threads with escapes are shown, not obeyed ($name)"
[ "$(grep -c '^TASKS' screen)" = 1 ] && head -1 screen | grep -q '^jankscope'; say $? "and the cursor stays where it is"

if [ -n "$has_looper" ]; then
	echo lock 700 >&3; see 'wait_lock'; say $? "a block comes with what it did"
	echo sleep 600 >&3; see 'sleep_ns|nap'; say $? "and the next one"
	key j; see '^>'; grep '^>' screen | grep -qE 'nap|sleep'; say $? "j picks the newest block"
	key Down; see '^>.*wait_lock'; say $? "the arrow goes on to the one before"
	key Enter; see '^FROZEN'; grep -qE '#[0-9]+ +wait_lock' screen && grep -qE '^ *waits for lock-holder' screen; say $? "Enter freezes it: its stack and its chain"
	cp screen frozen
	echo sleep 400 >&3; sleep 1.5; screen
	diff <(sed '1,2d;/^\*/d' frozen) <(sed '1,2d;/^\*/d' screen) >bad; say $? "a frozen block stays as it was while others come" bad
	t resize-window -x 40 -y 10; sized 40 10 '^Esc back'; key Down Down; see '^FROZEN.* 3-9/'; say $? "it scrolls at 40 x 10"
	read -r columns lines < <(width_of); [ "$columns" -le 40 ] && [ "$lines" = 10 ]; say $? "within 40 columns ($columns)"
	key Escape; gone '^FROZEN'; say $? "Esc goes back"; key Escape
fi
t resize-window -x 40 -y 10; sized 40 10 && grep -q '^TASKS' screen && grep -q '^BLOCKS' screen && grep -q '^q quit' screen && [ "$(sed -n '/^TASKS/,/^BLOCKS/p' screen | wc -l)" -ge 4 ]
say $? "40 x 10 has every pane"
t resize-window -x 300 -y 100; sized 300 100 'freeze it' && grep -q '^TASKS' screen && grep -qE '^.{135} *FRAMES' screen && grep -qE '^.{135} *BLOCKS' screen && tail -1 screen | grep -q 'freeze it'
say $? "300 x 100 has them side by side"
t resize-window -x 80 -y 24; sized 80 24
[ "$(grep -c '^TASKS' screen)" = 1 ] && head -1 screen | grep -q '^jankscope'; say $? "back to 80 x 24: nothing is left of the other sizes"

key s; see '^TASKS .* by wait'; say $? "s: sorted by wait"
key s s; see '^TASKS .* by name'; say $? "by name"
sed -n '/^ %core/,/^ *$/p' screen | sed 1d | grep -v '^ *$' | cut -b48-63 >names; [ -s names ] && tr A-Z a-z <names | LC_ALL=C sort -c 2>bad; say $? "the rows are in that order" screen
key s; see '^TASKS .* by cpu'
key t; see '^PROCESSES'; grep -qE "^ .* $odd .* oddnames" screen; say $? "t: processes"
key t; see '^TASKS'
key /; see '^filter: _'; t send-keys -l ODDNAMES; see '^filter: ODDNAMES_'; key Enter
see '^TASKS .*\(filtered\)' && ! grep -qE ' looper +looper' screen && grep -q '?\[2J' screen; say $? "a filter leaves the rows that have it"
key / ; t send-keys -l xyz; see 'ODDNAMESxyz_'; key Escape; see '^filter: ODDNAMES '; say $? "Esc takes back what was typed"
key Escape; gone '^filter:'; say $? "and then the filter"
key '?'; see 'Ctrl-L'; say $? "? is a page of help"
key x; gone 'Ctrl-L'
key p; see '^PAUSED'; cp screen paused; sleep 1.7; screen
diff paused screen >bad; say $? "p: the screen stays" bad
key s; see '^TASKS .* by wait'; say $? "and its keys work"
key s s s; key Space; gone '^PAUSED'; say $? "space: it goes on"
cp screen now; changed now; say $? "with new intervals"
key C-l; sleep 0.5; sized 80 24; head -1 screen | grep -q '^jankscope'; say $? "Ctrl-L draws anew"

# ---- Ctrl-Z, and back ----
key C-z; see '^prompt:'; see 'Stopped'; grep -q 'before the screen' screen; say $? "Ctrl-Z gives the terminal back"
modes stopped; cmp before stopped 2>bad; say $? "with its modes" bad
type fg; sized 80 24 && head -1 screen | grep -q '^jankscope'; say $? "fg: the screen is back"
kill -TSTP "$(recorder)"; see '^prompt:'; say $? "SIGTSTP of somebody else does the same"
type bg; sleep 1.5; type "echo in the background"; see '^in the background'; sleep 1; screen; ! grep -q '^TASKS' screen; say $? "bg: nothing is drawn there"
type fg; see '^TASKS'; say $? "and fg brings the screen back"
kill -STOP "$(recorder)"; sleep 1; type "fg"; see '^TASKS'; key s; see '^TASKS .* by wait'; say $? "stopped by SIGSTOP it has its keys again"; key s s s

# ---- a terminal that does not take the frames ----
key C-s; sleep 3; key C-q; see '^TASKS'; sleep 1; screen; grep -q '^lost: none' screen || grep -q '^LOST' screen; say $? "Ctrl-S and Ctrl-Q: it goes on"

# ---- every way out ----
key q; see '^prompt:'; type 'echo code $?'; see '^code 0'; say $? "q ends the run, exit 0"
grep -q '^prompt:' screen && t capture-pane -p -S - >all && grep -q '^summary: [0-9]* intervals' all && grep -q '^before the screen' all && ! grep -q '^TASKS' all
say $? "the summary stands below what was there before" all
! grep -q 'records_dropped' all; say $? "no record was lost for the screen" all
"$js" report run.jsonl >report 2>&1 && [ "$(grep -c '"type":"interval"' run.jsonl)" -gt 20 ]; say $? "-o beside it: the recording is whole" report
modes after; cmp before after 2>bad; say $? "the modes of the terminal are as before" bad
visible() { t display-message -p '#{cursor_flag} #{alternate_on} #{wrap_flag}'; }
[ "$(visible)" = "1 0 1" ]; say $? "cursor, screen and line wrap, too ($(visible))"
way() { # name, what ends it, pattern of the shell's word about it
	t send-keys C-l; type "clear; $js top -p $odd -i 500ms $loss; echo code \$?"
	see '^TASKS' || { say 1 "$1: no screen"; return; }
	eval "$2"
	see "$3"; code=$?
	modes after
	cmp -s before after || paste before after >screen
	[ $code = 0 ] && cmp -s before after && [ "$(visible)" = "1 0 1" ]; say $? "$1: the terminal is as before ($(visible))"
}
way "Ctrl-C" 'key C-c' '^code 0'
way "SIGTERM" 'kill -TERM $(recorder)' '^code 0'
way "SIGHUP" 'kill -HUP $(recorder)' '^code 0'
# Here the shell may be quicker than the process that leaves the screen, and its words go with it.
way "SIGKILL" 'kill -KILL $(recorder); sleep 1.5' '.*'
way "SIGSEGV" 'kill -SEGV $(recorder); sleep 1.5' '.*'
way "Ctrl-S and SIGTERM" 'key C-s; sleep 1; kill -TERM $(recorder); sleep 2; key C-q' '^ *self: [0-9.]+ ms CPU \('
way "Ctrl-S and two SIGINT" 'key C-s; sleep 1; r=$(recorder); kill -INT $r; sleep 0.3; kill -INT $r; sleep 1; key C-q; sleep 1' '.*'
# The process that writes the terminal is the recorder's child.
way "its writer is killed" 'kill -KILL $(pgrep -P "$(recorder)" -x jankscope-write)' '^code 1'
type "clear; $js top -p 999999999; echo code \$?"; see '^code 4'; grep -q 'no such process' screen && ! grep -q '^TASKS' screen; say $? "no target: a line and no screen"
type "clear; TERM=dumb $js top -n 1 -i 200ms $loss; echo code \$?"; see '^code 0'; t capture-pane -p -S - >all; grep -q '^sources:' all; say $? "TERM=dumb: lines" all
type "clear; $js top -n 2 -i 200ms $loss </dev/null; echo code \$?"; see '^code 0'; say $? "without stdin there is a screen without keys"
type "clear; env -i PATH=$PATH $js top -p $odd -i 500ms $loss; echo code \$?"; see '^TASKS'; key q; see '^code 0'; say $? "without TERM and a locale, as in adb shell"
# A terminal without UTF-8: all that is sent to it is ASCII.
plain() { LC_ALL=C tr -d '\000-\177' <"$1" | wc -c; }
t pipe-pane "cat >$work/sent"; type "clear; LC_ALL=en_US.ISO-8859-1 $js top -p $odd -i 500ms $loss; echo code \$?"; see '\?\?2Jlatin'; grep -qE '(^| )\?\?\?\?wide' screen && key q && see '^code 0' && t pipe-pane && [ "$(plain sent)" = 0 ]
say $? "in a locale without UTF-8 no byte beyond ASCII is sent ($(plain sent))"
"$js" record -d 1s -p $odd $loss -q -o locale.jsonl 2>err; LC_ALL=C script -qec "$js record -d 1s -p $odd $loss; $js report locale.jsonl" sent >/dev/null 2>&1 </dev/null; grep -q '??2Jlatin' sent && [ "$(plain sent)" = 0 ]; say $? "nor by the table of record and report ($(plain sent))" sent
LC_ALL=C.UTF-8 script -qec "$js report locale.jsonl" sent >/dev/null 2>&1 </dev/null; grep -q '漢字wide' sent; say $? "which shows it where the locale knows it" sent
type "clear; $js top -p $odd -i 500ms --color always $loss; echo code \$?"; see '^TASKS'; t capture-pane -p -e >colours; grep -q $'\033\[1m' colours; say $? "colours" colours
# The terminal goes away with all that is on it.
r=$(recorder); t kill-server
for _ in $(seq 100); do [ -d "/proc/$r" ] || break; sleep 0.1; done
[ ! -d "/proc/$r" ]; say $? "a terminal that goes away ends it"
