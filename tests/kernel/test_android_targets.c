/* SPDX-License-Identifier: BSD-2-Clause */
/* Fake apps in an Android layout of cgroups, cpusets and packages.list, found by the target room.
 * It writes to /data and mounts cgroups, so it runs in a guest only. */
#include "jankscope/target.h"
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char packages_list[] =
	"com.example.shop 10123 0 /data/user/0/com.example.shop default:targetSdkVersion=33 none\n"
	"com.android.systemui 10098 0 /data/user_de/0/c platform:privapp 3002,1065 0 33 1 @system\n"
	"com.example.shopping 10124 1 /data/user/0/com.example.shopping default none 0 7 1 @null\n";

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		tap_note("%s: %s", path, strerror(errno));
	close(fd);
}

static void put_pid(const char *path, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	put(path, text);
}

/* Start a fake app; the pid of the app (under a zygote: of its child), read from its output. */
static pid_t start(const char *uid, const char *name, const char *zygote_ms, pid_t *starter)
{
	int out[2];
	char text[16] = "";

	if (pipe2(out, O_CLOEXEC))
		return -1;
	*starter = fork();
	if (*starter == 0) {
		dup2(out[1], 1);
		if (zygote_ms)
			execl("/payload/apps/fakeapp", "fakeapp", uid, name, "zygote", zygote_ms,
			      NULL);
		else
			execl("/payload/apps/fakeapp", "fakeapp", uid, name, NULL);
		_exit(127);
	}
	close(out[1]);
	if (zygote_ms) { /* not yet what it will be: the caller watches it become so */
		close(out[0]);
		return 0;
	}
	if (read(out[0], text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(out[0]);
	return atoi(text);
}

static void place(pid_t pid, const char *uid, const char *cpuset, const char *score)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/fs/cgroup/uid_%s", uid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "/sys/fs/cgroup/uid_%s/pid_%d", uid, (int)pid);
	mkdir(path, 0755);
	strcat(path, "/cgroup.procs");
	put_pid(path, pid);
	snprintf(path, sizeof(path), "/dev/cpuset/%s/cgroup.procs", cpuset);
	if (!access(path, F_OK))
		put_pid(path, pid);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	put(path, score);
}

static void end(pid_t starter)
{
	kill(starter, SIGKILL);
	waitpid(starter, NULL, 0);
}

static bool mount_cpusets(void)
{
	static const char *const groups[] = {"top-app", "foreground", "background"};
	char path[64], text[64];
	size_t i;
	int fd;
	ssize_t n;

	mkdir("/dev/cpuset", 0755);
	if (mount("cpuset", "/dev/cpuset", "cgroup", 0, "cpuset,noprefix") && errno != EBUSY)
		return false;
	for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		snprintf(path, sizeof(path), "/dev/cpuset/%s", groups[i]);
		mkdir(path, 0755);
		fd = open("/dev/cpuset/cpus", O_RDONLY);
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
		text[n > 0 ? n : 0] = '\0';
		snprintf(path, sizeof(path), "/dev/cpuset/%s/cpus", groups[i]);
		put(path, text);
		snprintf(path, sizeof(path), "/dev/cpuset/%s/mems", groups[i]);
		put(path, "0");
	}
	return true;
}

static int wait_frozen(struct target_set *set, pid_t pid)
{
	int tries, state = 0;

	for (tries = 0; tries < 500; tries++) {
		state = target_is_frozen(set, pid);
		if (state)
			break;
		usleep(10000);
	}
	return state;
}

int main(void)
{
	struct target_spec spec = {.kind = TARGET_NAME, .name = "com.example.shop"};
	pid_t shop, remote, odd, other, lookalike, isolated, starters[7];
	const struct target_process *process;
	struct target_set *set;
	bool cpusets;
	char path[128];
	int tries, found;

	if (!getenv("GUEST") || geteuid() != 0) {
		tap_skip("android targets", "writes to /data and mounts cgroups: only in a guest");
		return 0;
	}
	if (access("/payload/apps/fakeapp", X_OK)) {
		tap_skip("android targets", "no /payload/apps/fakeapp");
		return 0;
	}
	mkdir("/data", 0755);
	mkdir("/data/system", 0755);
	put("/data/system/packages.list", packages_list);
	cpusets = mount_cpusets();

	shop = start("10123", "com.example.shop", NULL, &starters[0]);
	remote = start("10123", "com.example.shop:remote", NULL, &starters[1]);
	odd = start("10123", "their.own.process", NULL, &starters[2]);
	other = start("10098", "com.android.systemui", NULL, &starters[3]);
	lookalike = start("10124", "com.example.shopping", NULL, &starters[4]);
	isolated = start("99001", "sandboxed_process0", NULL, &starters[5]);
	place(shop, "10123", "top-app", "0");
	place(remote, "10123", "background", "905");
	place(odd, "10123", "background", "200");
	place(other, "10098", "top-app", "-800");
	place(lookalike, "10124", "background", "900");
	place(isolated, "10123", "background", "0");

	set = target_set_new(&spec, 1, "");
	found = target_set_scan(set, NULL, NULL);
	tap_ok(found == 4, "package: four processes by cmdline, uid and cgroup (%d)", found);
	tap_ok(target_set_find(set, shop) && target_set_find(set, remote),
	       "package: main process and :remote");
	tap_ok(target_set_find(set, odd) != NULL,
	       "package: process name of its own choice, by uid");
	process = target_set_find(set, isolated);
	tap_ok(process && process->package && !strcmp(process->package, "com.example.shop"),
	       "package: isolated process, by the cgroup of the app");
	tap_ok(!target_set_find(set, other) && !target_set_find(set, lookalike),
	       "package: others are not, whatever their name begins with");
	tap_ok(target_package_of_uid(set, 10098) &&
		       !strcmp(target_package_of_uid(set, 1010098), "com.android.systemui"),
	       "package: of a uid, of another user's too");

	/* zygote64 -> child -> specialised half a second later */
	start("10123", "com.example.shop:late", "500", &starters[6]);
	usleep(100000);
	found = target_set_scan(set, NULL, NULL);
	tap_ok(found == 4, "zygote: the child is nobody's before specialisation (%d)", found);
	for (tries = 0; tries < 100 && found != 5; tries++) {
		usleep(100000);
		found = target_set_scan(set, NULL, NULL);
	}
	for (tries = 0; tries < 100; tries++) {
		process = target_set_at(set, 4);
		if (process && !strcmp(process->process, "com.example.shop:late"))
			break;
		usleep(50000);
		target_set_scan(set, NULL, NULL);
	}
	tap_ok(process && !strcmp(process->process, "com.example.shop:late"),
	       "zygote: found when it became the app");

	if (cpusets) {
		tap_ok(target_is_foreground(set, shop) == 1, "foreground: top-app with score 0");
		tap_ok(target_is_foreground(set, other) == 0, "foreground: not a top-app helper");
		tap_ok(target_is_foreground(set, remote) == 0, "foreground: not the background");
	} else {
		tap_skip("foreground", "this kernel has no cpuset v1");
	}
	tap_ok(target_is_frozen(set, shop) == 0, "frozen: not the one in front");
	snprintf(path, sizeof(path), "/sys/fs/cgroup/uid_10123/pid_%d/cgroup.freeze", (int)remote);
	put(path, "1");
	found = wait_frozen(set, remote);
	tap_ok(found == 1, "frozen: by cgroup.events (%d)", found);
	put(path, "0");

	end(starters[0]);
	found = target_set_scan(set, NULL, NULL);
	tap_ok(found == 4 && !target_set_find(set, shop), "exit is seen");
	shop = start("10123", "com.example.shop", NULL, &starters[0]);
	found = target_set_scan(set, NULL, NULL);
	tap_ok(found == 5 && target_set_find(set, shop), "restart is followed");
	for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
		end(starters[i]);
	target_set_free(set);
	return tap_done();
}
