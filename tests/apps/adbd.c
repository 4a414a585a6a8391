/* SPDX-License-Identifier: BSD-2-Clause */
/* A small stand-in for Android's adbd, so that tests/device/run.sh can be tested with the real adb
 * client in front of a guest: CNXN without AUTH over TCP, `shell,v2:` with and without a terminal,
 * `shell:`, `exec:`, `sync:` (STAT, SEND, RECV), `root:`. It listens on all addresses: on a host
 * give it a network of its own. Its second name is su, in the two forms that devices have.
 * Protocol: packages/modules/adb/{protocol,SYNC,SERVICES}.TXT and shell_protocol.h of AOSP.
 *
 * usage: adbd PORT root|noroot [SU_DIR]    shells are uid 2000; root: `adb root` is granted
 *        su ...      AOSP's: su WHO COMMAND...   (-c is refused)
 *                    Magisk's, where /system/xbin/su-is-magisk is: su -c COMMAND (only that) */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PAYLOAD 65536u
#define MAX_STREAMS 32
#define SHELL_UID   2000

static char root_flag[32]; /* this file is there: shells are root */
static const char *su_folder = "/system/xbin";

#define COMMAND(a, b, c, d) ((uint32_t)(a) | (b) << 8 | (c) << 16 | (uint32_t)(d) << 24)
#define CNXN                COMMAND('C', 'N', 'X', 'N')
#define OPEN                COMMAND('O', 'P', 'E', 'N')
#define OKAY                COMMAND('O', 'K', 'A', 'Y')
#define WRTE                COMMAND('W', 'R', 'T', 'E')
#define CLSE                COMMAND('C', 'L', 'S', 'E')

struct message {
	uint32_t command, arg0, arg1, length, check, magic;
};

struct stream {
	uint32_t own, peer; /* own 0: free */
	int fd;
	pid_t child;
	bool may_write; /* the client has acknowledged our last WRTE */
	char *pending;  /* of the client's last WRTE, not yet taken by the service */
	size_t pending_at, pending_length;
	bool is_root_service;
};

static bool read_all(int fd, void *buf, size_t length)
{
	char *at = buf;

	while (length) {
		ssize_t n = read(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		length -= (size_t)n;
	}
	return true;
}

static bool write_all(int fd, const void *buf, size_t length)
{
	const char *at = buf;

	while (length) {
		ssize_t n = write(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		length -= (size_t)n;
	}
	return true;
}

static bool send_message(int fd, uint32_t command, uint32_t arg0, uint32_t arg1, const void *data,
			 uint32_t length)
{
	struct message message = {command, arg0, arg1, length, 0, ~command};
	const unsigned char *bytes = data;
	uint32_t i;

	for (i = 0; i < length; i++)
		message.check += bytes[i];
	return write_all(fd, &message, sizeof(message)) && write_all(fd, data, length);
}

/* ---- services: each a child on one end of a socket pair ---- */

static void become_shell(void)
{
	if (access(root_flag, F_OK) == 0)
		return;
	if (setgroups(0, NULL) || setresgid(SHELL_UID, SHELL_UID, SHELL_UID) ||
	    setresuid(SHELL_UID, SHELL_UID, SHELL_UID))
		_exit(126);
}

static void exec_shell(const char *command)
{
	char path[128];

	become_shell();
	if (chdir("/"))
		_exit(126);
	snprintf(path, sizeof(path), "%s:/system/bin:/bin:/sbin", su_folder);
	setenv("PATH", path, 1);
	execl("/system/bin/sh", "sh", "-c", command[0] ? command : "true", NULL);
	execl("/bin/sh", "sh", "-c", command[0] ? command : "true", NULL); /* no Android */
	_exit(127);
}

enum {
	SHELL_STDIN = 0,
	SHELL_STDOUT = 1,
	SHELL_STDERR = 2,
	SHELL_EXIT = 3,
	SHELL_CLOSE_STDIN = 4,
	SHELL_WINDOW = 5
};

static bool shell_packet(int fd, uint8_t id, const void *data, uint32_t length)
{
	char header[5] = {(char)id};

	memcpy(header + 1, &length, 4);
	return write_all(fd, header, 5) && write_all(fd, data, length);
}

static void shell_v2(int fd, const char *command)
{
	int in[2], out[2], err[2], status = 0;
	struct pollfd wait[3];
	static char buf[32768];
	pid_t child;

	if (pipe(in) || pipe(out) || pipe(err))
		_exit(1);
	child = fork();
	if (child == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		close(fd);
		close(in[1]);
		exec_shell(command);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	wait[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	wait[1] = (struct pollfd){.fd = out[0], .events = POLLIN};
	wait[2] = (struct pollfd){.fd = err[0], .events = POLLIN};
	while (wait[1].fd >= 0 || wait[2].fd >= 0) {
		int i;

		if (poll(wait, 3, -1) < 0)
			continue;
		for (i = 1; i <= 2; i++) {
			ssize_t n;

			if (wait[i].fd < 0 || !wait[i].revents)
				continue;
			n = read(wait[i].fd, buf, sizeof(buf));
			if (n <= 0)
				wait[i].fd = -1;
			else if (!shell_packet(fd, (uint8_t)i, buf, (uint32_t)n))
				_exit(1);
		}
		if (wait[0].fd >= 0 && wait[0].revents) {
			uint8_t id;
			uint32_t length;

			if (!read_all(fd, &id, 1) || !read_all(fd, &length, 4) ||
			    length > sizeof(buf) || !read_all(fd, buf, length)) {
				kill(child, SIGHUP); /* the client went away */
				break;
			}
			if (id == SHELL_STDIN && in[1] >= 0 && !write_all(in[1], buf, length))
				id = SHELL_CLOSE_STDIN;
			if (id == SHELL_CLOSE_STDIN && in[1] >= 0) {
				close(in[1]);
				in[1] = -1;
			}
		}
	}
	waitpid(child, &status, 0);
	buf[0] = (char)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	shell_packet(fd, SHELL_EXIT, buf, 1);
	_exit(0);
}

/* "shell,v2,TERM=xterm,pty:": the client's terminal. */
static void take_terminal(const char *name)
{
	const char *term = strstr(name, "TERM=");
	char value[64];

	if (!term)
		return;
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(term + 5, ",:"), term + 5);
	setenv("TERM", value, 1);
}

static void shell_pty(int fd, const char *name, const char *command)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), status = 0;
	static char buf[32768 + 1];
	pid_t child;

	if (master < 0 || grantpt(master) || unlockpt(master))
		_exit(1);
	child = fork();
	if (child == 0) {
		int terminal;

		setsid();
		terminal = open(ptsname(master), O_RDWR);
		for (int i = 0; i < 3; i++)
			dup2(terminal, i);
		close(fd);
		take_terminal(name);
		exec_shell(command);
	}
	for (;;) {
		struct pollfd wait[2] = {{.fd = fd, .events = POLLIN},
					 {.fd = master, .events = POLLIN}};
		uint8_t id;
		uint32_t length;
		ssize_t n;

		if (poll(wait, 2, -1) < 0)
			continue;
		if (wait[1].revents) {
			n = read(master, buf, sizeof(buf) - 1);
			/* EIO: nobody has the terminal open any more. */
			if (n <= 0 || !shell_packet(fd, SHELL_STDOUT, buf, (uint32_t)n))
				break;
		}
		if (!wait[0].revents)
			continue;
		if (!read_all(fd, &id, 1) || !read_all(fd, &length, 4) || length >= sizeof(buf) ||
		    !read_all(fd, buf, length))
			break;
		buf[length] = 0;
		if (id == SHELL_STDIN) {
			write_all(master, buf, length);
		} else if (id == SHELL_WINDOW) {
			struct winsize size = {0};

			if (sscanf(buf, "%hux%hu,%hux%hu", &size.ws_row, &size.ws_col,
				   &size.ws_xpixel, &size.ws_ypixel) == 4)
				ioctl(master, TIOCSWINSZ, &size);
		}
	}
	close(master); /* who still has the terminal gets SIGHUP */
	waitpid(child, &status, 0);
	buf[0] = (char)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	shell_packet(fd, SHELL_EXIT, buf, 1);
	_exit(0);
}

struct sync_header {
	char id[4];
	uint32_t length;
};

static void sync_fail(int fd, const char *reason)
{
	struct sync_header header = {{'F', 'A', 'I', 'L'}, (uint32_t)strlen(reason)};

	write_all(fd, &header, sizeof(header));
	write_all(fd, reason, header.length);
}

static void sync_receive(int fd, char *path)
{
	static char buf[MAX_PAYLOAD];
	char *comma = strrchr(path, ',');
	struct sync_header header;
	int out, mode = 0644;
	bool good;

	if (comma) {
		*comma = '\0';
		mode = atoi(comma + 1) & 0777;
	}
	unlink(path);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	good = out >= 0;
	while (read_all(fd, &header, sizeof(header))) {
		if (!memcmp(header.id, "DONE", 4))
			break;
		if (memcmp(header.id, "DATA", 4) || header.length > sizeof(buf) ||
		    !read_all(fd, buf, header.length))
			_exit(1);
		good = good && write_all(out, buf, header.length);
	}
	if (out >= 0 && (fchmod(out, (mode_t)mode) || close(out)))
		good = false;
	if (good)
		write_all(fd, &(struct sync_header){{'O', 'K', 'A', 'Y'}, 0}, 8);
	else
		sync_fail(fd, strerror(errno));
}

static void sync_send(int fd, const char *path)
{
	static char buf[MAX_PAYLOAD];
	int in = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (in < 0) {
		sync_fail(fd, strerror(errno));
		return;
	}
	while ((n = read(in, buf, sizeof(buf))) > 0) {
		struct sync_header header = {{'D', 'A', 'T', 'A'}, (uint32_t)n};

		write_all(fd, &header, sizeof(header));
		write_all(fd, buf, (size_t)n);
	}
	close(in);
	write_all(fd, &(struct sync_header){{'D', 'O', 'N', 'E'}, 0}, 8);
}

static void sync_service(int fd)
{
	struct sync_header header;
	char path[1025];

	become_shell();
	umask(0);
	while (read_all(fd, &header, sizeof(header))) {
		if (header.length > sizeof(path) - 1 || !read_all(fd, path, header.length))
			_exit(1);
		path[header.length] = '\0';
		if (!memcmp(header.id, "STAT", 4)) {
			struct {
				char id[4];
				uint32_t mode, size, mtime;
			} answer = {{'S', 'T', 'A', 'T'}, 0, 0, 0};
			struct stat st;

			if (!lstat(path, &st)) {
				answer.mode = st.st_mode;
				answer.size = (uint32_t)st.st_size;
				answer.mtime = (uint32_t)st.st_mtime;
			}
			write_all(fd, &answer, sizeof(answer));
		} else if (!memcmp(header.id, "SEND", 4)) {
			sync_receive(fd, path);
		} else if (!memcmp(header.id, "RECV", 4)) {
			sync_send(fd, path);
		} else if (!memcmp(header.id, "QUIT", 4)) {
			_exit(0);
		} else {
			sync_fail(fd, "unknown request");
			_exit(1);
		}
	}
	_exit(0);
}

static void root_service(int fd, bool granted)
{
	const char *answer = "adbd cannot run as root in production builds\n";

	if (access(root_flag, F_OK) == 0) {
		answer = "adbd is already running as root\n";
	} else if (granted) {
		close(open(root_flag, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
		answer = "restarting adbd as root\n";
	}
	write_all(fd, answer, strlen(answer));
	_exit(0);
}

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool open_service(struct stream *stream, const char *name, bool root_granted)
{
	const char *command = strchr(name, ':');
	int pair[2];

	if (!command || (!starts(name, "shell") && !starts(name, "exec:") &&
			 !starts(name, "sync:") && !starts(name, "root:")))
		return false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return false;
	stream->is_root_service = starts(name, "root:");
	stream->child = fork();
	if (stream->child == 0) {
		/* Of these the end of the connection is told by, to this service and the others. */
		for (int fd = 3; fd < 1024; fd++)
			if (fd != pair[1])
				close(fd);
		signal(SIGPIPE, SIG_DFL);
		if (starts(name, "sync:"))
			sync_service(pair[1]);
		if (starts(name, "root:"))
			root_service(pair[1], root_granted);
		if (starts(name, "shell,v2") && strstr(name, ",pty:"))
			shell_pty(pair[1], name, command + 1);
		if (starts(name, "shell,v2"))
			shell_v2(pair[1], command + 1);
		dup2(pair[1], 0);
		dup2(pair[1], 1);
		dup2(pair[1], 2);
		exec_shell(command + 1);
	}
	close(pair[1]);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	stream->fd = pair[0];
	return stream->child > 0;
}

/* ---- the connection ---- */

static void close_stream(int conn, struct stream *stream)
{
	send_message(conn, CLSE, stream->own, stream->peer, NULL, 0);
	close(stream->fd);
	free(stream->pending);
	waitpid(stream->child, NULL, 0);
	*stream = (struct stream){0};
}

static struct stream *find(struct stream *streams, uint32_t own)
{
	for (int i = 0; i < MAX_STREAMS; i++)
		if (streams[i].own == own && own)
			return &streams[i];
	return NULL;
}

static bool handle(int conn, struct stream *streams, uint32_t *next, bool root_granted)
{
	static const char banner[] = "device::ro.product.name=guest;ro.product.model=guest;"
				     "ro.product.device=guest;features=shell_v2,cmd";
	static char payload[MAX_PAYLOAD + 1];
	struct message message;
	struct stream *stream;

	if (!read_all(conn, &message, sizeof(message)) || message.length > MAX_PAYLOAD ||
	    !read_all(conn, payload, message.length))
		return false;
	payload[message.length] = '\0';
	switch (message.command) {
	case CNXN:
		return send_message(conn, CNXN, 0x01000000, MAX_PAYLOAD, banner,
				    sizeof(banner) - 1);
	case OPEN:
		for (stream = streams; stream < streams + MAX_STREAMS && stream->own; stream++)
			;
		if (stream == streams + MAX_STREAMS || !open_service(stream, payload, root_granted))
			return send_message(conn, CLSE, 0, message.arg0, NULL, 0);
		stream->own = (*next)++;
		stream->peer = message.arg0;
		stream->may_write = true;
		return send_message(conn, OKAY, stream->own, stream->peer, NULL, 0);
	case OKAY:
		stream = find(streams, message.arg1);
		if (stream)
			stream->may_write = true;
		return true;
	case WRTE:
		stream = find(streams, message.arg1);
		if (!stream)
			return send_message(conn, CLSE, 0, message.arg0, NULL, 0);
		free(stream->pending);
		stream->pending = malloc(message.length + 1);
		memcpy(stream->pending, payload, message.length);
		stream->pending_at = 0;
		stream->pending_length = message.length;
		return true;
	case CLSE:
		stream = find(streams, message.arg1);
		if (stream)
			close_stream(conn, stream);
		return true;
	}
	return true;
}

static void serve(int conn, bool root_granted)
{
	static struct stream streams[MAX_STREAMS];
	static char buf[MAX_PAYLOAD];
	uint32_t next = 1;
	bool restart = false;

	while (!restart) {
		struct pollfd wait[MAX_STREAMS + 1];
		int i;

		wait[0] = (struct pollfd){.fd = conn, .events = POLLIN};
		for (i = 0; i < MAX_STREAMS; i++) {
			struct stream *stream = &streams[i];
			short events = (short)((stream->may_write ? POLLIN : 0) |
					       (stream->pending ? POLLOUT : 0));

			wait[i + 1] = (struct pollfd){.fd = stream->own && events ? stream->fd : -1,
						      .events = events};
		}
		if (poll(wait, MAX_STREAMS + 1, -1) < 0)
			continue;
		for (i = 0; i < MAX_STREAMS; i++) {
			struct stream *stream = &streams[i];
			short got = wait[i + 1].revents;
			ssize_t n;

			if (wait[i + 1].fd < 0 || !got)
				continue;
			if (stream->pending && got & (POLLOUT | POLLERR | POLLHUP)) {
				n = write(stream->fd, stream->pending + stream->pending_at,
					  stream->pending_length - stream->pending_at);
				if (n > 0)
					stream->pending_at += (size_t)n;
				/* A service that no longer reads loses the rest, not the stream. */
				if (stream->pending_at == stream->pending_length ||
				    (n < 0 && errno == EPIPE)) {
					free(stream->pending);
					stream->pending = NULL;
					send_message(conn, OKAY, stream->own, stream->peer, NULL,
						     0);
				}
			}
			if (stream->may_write && got & (POLLIN | POLLHUP)) {
				n = read(stream->fd, buf, sizeof(buf));
				if (n > 0) {
					send_message(conn, WRTE, stream->own, stream->peer, buf,
						     (uint32_t)n);
					stream->may_write = false;
				} else if (n == 0 || errno != EAGAIN) {
					/* A real adbd that becomes root starts anew. */
					restart = stream->is_root_service && root_granted;
					close_stream(conn, stream);
				}
			}
		}
		if (wait[0].revents && !handle(conn, streams, &next, root_granted))
			break;
	}
}

/* ---- su ---- */

static int su(int argc, char **argv, bool magisk)
{
	if (setgroups(0, NULL) || setresgid(0, 0, 0) || setresuid(0, 0, 0)) {
		perror("su");
		return 1;
	}
	if (magisk) {
		if (argc == 3 && !strcmp(argv[1], "-c"))
			execl("/system/bin/sh", "sh", "-c", argv[2], NULL);
		fprintf(stderr, "su: usage: su -c COMMAND\n");
		return 2;
	}
	if (argc > 1 && strcmp(argv[1], "0") && strcmp(argv[1], "root")) {
		fprintf(stderr, "su: invalid uid/gid '%s'\n", argv[1]);
		return 1;
	}
	if (argc > 2)
		execvp(argv[2], argv + 2);
	else
		execl("/system/bin/sh", "sh", NULL);
	perror("su");
	return 127;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	struct sockaddr_in address = {.sin_family = AF_INET};
	bool root_granted;
	int listener, one = 1;

	if (!strcmp(name, "su"))
		return su(argc, argv, access("/system/xbin/su-is-magisk", F_OK) == 0);
	if (argc < 2) {
		fprintf(stderr, "usage: adbd PORT root|noroot [SU_DIR]\n");
		return 2;
	}
	root_granted = argc > 2 && !strcmp(argv[2], "root");
	snprintf(root_flag, sizeof(root_flag), "/run/adbd.%.8s", argv[1]);
	if (argc > 3)
		su_folder = argv[3];
	signal(SIGPIPE, SIG_IGN);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	address.sin_port = htons((uint16_t)atoi(argv[1]));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 8)) {
		perror("adbd");
		return 1;
	}
	for (;;) {
		int conn = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (conn < 0)
			continue;
		if (fork() == 0) {
			close(listener);
			serve(conn, root_granted);
			_exit(0);
		}
		close(conn);
	}
}
