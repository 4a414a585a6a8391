/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets against a made-up Android: folders with the files of /proc, /data, /dev and /sys. */
#include "core/loop.h"
#include "jankscope/source.h"
#include "jankscope/target.h"
#include "source/context/context.h"
#include "source/frames/owners.h"
#include "target/packages.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char root[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void setup(void)
{
	strcpy(root, "/tmp/jankscope-target-XXXXXX");
	cr_assert(mkdtemp(root));
}

static void teardown(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Write len bytes to ROOT/path, making the folders. */
static void put_bytes(const char *path, const void *bytes, size_t len)
{
	char full[512], *slash;
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	file = fopen(full, "w");
	cr_assert(file, "%s", full);
	cr_assert_eq(fwrite(bytes, 1, len, file), len);
	fclose(file);
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text));
}

static void drop(const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	cr_assert_eq(remove(full), 0, "%s", full);
}

struct fake {
	pid_t pid;
	uid_t uid;
	const char *argv0, *comm, *cgroup;
	uint64_t start_ticks;
	char state;
};

static void fake_process(struct fake fake)
{
	char path[64], text[512];
	size_t len = fake.argv0 ? strlen(fake.argv0) + 1 : 0;

	if (!fake.comm)
		fake.comm = "main";
	snprintf(path, sizeof(path), "proc/%d/stat", fake.pid);
	snprintf(text, sizeof(text),
		 "%d (%s) %c 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %llu 99 88\n", fake.pid,
		 fake.comm, fake.state ? fake.state : 'S',
		 (unsigned long long)(fake.start_ticks ? fake.start_ticks : 100));
	put(path, text);
	snprintf(path, sizeof(path), "proc/%d/status", fake.pid);
	snprintf(text, sizeof(text), "Name:\t%s\nTgid:\t%d\nPid:\t%d\nUid:\t%u\t%u\t%u\t%u\n",
		 fake.comm, fake.pid, fake.pid, fake.uid, fake.uid, fake.uid, fake.uid);
	put(path, text);
	snprintf(path, sizeof(path), "proc/%d/cmdline", fake.pid);
	memset(text, 0, sizeof(text));
	if (len)
		memcpy(text, fake.argv0, len);
	put_bytes(path, text, len);
	if (fake.cgroup) {
		snprintf(path, sizeof(path), "proc/%d/cgroup", fake.pid);
		put(path, fake.cgroup);
	}
}

static void remove_process(pid_t pid)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/proc/%d", root, pid);
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char packages_list[] =
	"com.example.shop 10123 0 /data/user/0/com.example.shop default:targetSdkVersion=33 "
	"3003,1065 0 42 1 @system\n"
	"com.example.shop.helper 10124 1 /data/user/0/h default none\n"
	"com.shared.a 10200 0 /data/user/0/a default none 0\n"
	"com.shared.b 10200 0 /data/user/0/b default none 0\n"
	"android.sys 1000 0 /data/system platform none\n"
	"com.short 10300 0\n"
	"com.nouid x 0 /d default none\n";

static struct target_spec name_spec(const char *name)
{
	struct target_spec spec = {.kind = TARGET_NAME};

	snprintf(spec.name, sizeof(spec.name), "%s", name);
	return spec;
}

struct changes {
	int started, exited;
	pid_t last;
};

static void note_change(void *ctx, enum target_change change, const struct target_process *process)
{
	struct changes *changes = ctx;

	changes->started += change == TARGET_STARTED;
	changes->exited += change == TARGET_EXITED;
	changes->last = process->pid;
}

TestSuite(target_fixture, .init = setup, .fini = teardown);

Test(target_fixture, packages_list_rows)
{
	struct packages packages = {0};
	const struct package_row *row;

	put("data/system/packages.list", packages_list);
	cr_assert_eq(packages_refresh(&packages, root), 1);
	cr_assert_eq(packages.origin, PACKAGES_LIST);
	cr_assert_eq(packages.count, 5);
	cr_assert_eq(packages.rejected, 2); /* three fields; a uid that is no number */
	row = packages_of_uid(&packages, 10123);
	cr_assert(row && !row->shared);
	cr_assert_str_eq(row->name, "com.example.shop");
	row = packages_of_uid(&packages, 10 * 100000 + 10123); /* user 10 */
	cr_assert(row);
	cr_assert_str_eq(row->name, "com.example.shop");
	row = packages_of_uid(&packages, 10200);
	cr_assert(row && row->shared);
	cr_assert_str_eq(row->name, "com.shared.a");
	cr_assert_null(packages_of_uid(&packages, 10125));
	cr_assert_eq(packages_of_name(&packages, "com.shared.b")->app_id, 10200);
	cr_assert_null(packages_of_name(&packages, "com.example"));
	cr_assert_eq(packages_refresh(&packages, root), 0); /* unchanged: not read again */
	packages_free(&packages);
}

/* The same file, which could not be read before. ASan gives memory of its own. */
Test(target_fixture, a_list_that_could_not_be_read_is_read_again)
{
#ifndef __SANITIZE_ADDRESS__
	struct rlimit limit = {0}, none;
	struct packages packages = {0};
	size_t size = 8 << 20;
	char *list = malloc(size + 1);

	memset(list, '\n', size);
	list[size] = 0;
	memcpy(list, packages_list, sizeof(packages_list) - 1);
	put("data/system/packages.list", list);
	free(list);
	cr_assert_eq(getrlimit(RLIMIT_AS, &none), 0);
	limit.rlim_cur = 1 << 20;
	limit.rlim_max = none.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	cr_expect_eq(packages_refresh(&packages, root), -ENOMEM);
	setrlimit(RLIMIT_AS, &none);
	cr_expect_eq(packages_refresh(&packages, root), 1);
	cr_expect_eq(packages.count, 5);
	packages_free(&packages);
#endif
}

Test(target_fixture, packages_by_cmd_only_where_the_list_is_missing)
{
	struct packages packages = {0};
	char path[128];

	snprintf(path, sizeof(path), "%s/system/bin/cmd", root);
	put("system/bin/cmd", "#!/bin/sh\n[ \"$*\" = 'package list packages -U' ] || exit 1\n"
			      "echo package:com.example.shop uid:10123\n"
			      "echo package:com.two.users uid:10140,1010140\n"
			      "echo Warning: something\n");
	chmod(path, 0755);
	cr_assert_eq(packages_refresh(&packages, root), 1);
	cr_assert_eq(packages.origin, PACKAGES_CMD);
	cr_assert_eq(packages.count, 2);
	cr_assert_eq(packages.rejected, 1);
	cr_assert_str_eq(packages_of_uid(&packages, 10140)->name, "com.two.users");
	cr_assert_eq(packages_refresh(&packages, root), 0); /* asked once */
	put("data/system/packages.list", packages_list);    /* readable now: it is the better one */
	cr_assert_eq(packages_refresh(&packages, root), 1);
	cr_assert_eq(packages.origin, PACKAGES_LIST);
	packages_free(&packages);
}

Test(target_fixture, no_android_means_no_packages)
{
	struct target_set *set;

	put("proc/version", "x");
	set = target_set_new(NULL, 0, root);
	cr_assert(set);
	cr_assert(target_set_is_all(set));
	cr_assert_null(target_packages_origin(set));
	cr_assert_null(target_package_of_uid(set, 10123));
	target_set_free(set);
}

Test(target_fixture, hostile_list_is_survived)
{
	struct packages packages = {0};
	char *junk = malloc(1 << 16);
	size_t i;

	srand(5);
	for (i = 0; i < 1 << 16; i++)
		junk[i] = (char)(i % 7 ? rand() : " \n1:"[rand() % 4]);
	put_bytes("data/system/packages.list", junk, 1 << 16);
	cr_assert_geq(packages_refresh(&packages, root), 0);
	cr_assert_null(packages_of_name(&packages, "com.example.shop"));
	packages_free(&packages);
	free(junk);
}

Test(target_fixture, package_matches_by_cmdline_uid_and_cgroup_never_by_comm)
{
	struct target_spec spec = name_spec("com.example.shop");
	struct target_set *set;
	struct changes changes = {0};
	const struct target_process *process;

	put("data/system/packages.list", packages_list);
	fake_process((struct fake){.pid = 10, .uid = 10123, .argv0 = "com.example.shop"});
	fake_process((struct fake){.pid = 11, .uid = 10123, .argv0 = "com.example.shop:remote"});
	/* a process name of its own choice: by uid */
	fake_process((struct fake){.pid = 12, .uid = 10123, .argv0 = "their.own.name"});
	/* isolated: by the name's prefix, or by the cgroup of the app */
	fake_process((struct fake){.pid = 13, .uid = 99005, .argv0 = "com.example.shop:iso"});
	fake_process((struct fake){.pid = 14,
				   .uid = 99006,
				   .argv0 = "odd",
				   .cgroup = "5:cpuset:/\n0::/apps/uid_10123/pid_10\n"});
	/* another user of the same device */
	fake_process((struct fake){.pid = 15, .uid = 1010123, .argv0 = "zzz"});
	/* none of these: other package with the same beginning, same comm, kernel thread, zombie */
	fake_process((struct fake){.pid = 20, .uid = 10124, .argv0 = "com.example.shop.helper"});
	fake_process(
		(struct fake){.pid = 21, .uid = 10130, .argv0 = "x", .comm = "om.example.shop"});
	fake_process((struct fake){.pid = 22, .uid = 0, .comm = "om.example.shop"});
	fake_process((struct fake){.pid = 23, .uid = 10123, .comm = "m", .state = 'Z'});
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, note_change, &changes), 6);
	cr_assert_eq(changes.started, 6);
	process = target_set_find(set, 11);
	cr_assert(process);
	cr_assert_str_eq(process->process, "com.example.shop:remote");
	cr_assert_str_eq(process->package, "com.example.shop");
	cr_assert_eq(process->start_boot_ns, 100 * 10000000ull);
	cr_assert_eq(process->uid, 10123);
	cr_assert_str_eq(target_set_find(set, 14)->package, "com.example.shop");
	cr_assert_str_eq(target_set_find(set, 13)->package, "com.example.shop");
	cr_assert_null(target_set_find(set, 20));
	cr_assert_not_null(target_set_at(set, 5));
	cr_assert_null(target_set_at(set, 6));
	cr_assert_str_eq(target_process_name(set, 20, 100 * 10000000ull + 9999999),
			 "com.example.shop.helper");
	cr_assert_str_eq(target_process_name(set, 22, 100 * 10000000ull), "om.example.shop");
	cr_assert_null(target_process_name(set, 20, 101 * 10000000ull)); /* another life */
	cr_assert_null(target_process_name(set, 4000, 0));
	cr_expect_eq(target_packages_take_rejected(set), 2); /* told once */
	cr_expect_eq(target_packages_take_rejected(set), 0);
	target_set_free(set);
}

Test(target_fixture, shared_uid_matches_by_name_only)
{
	struct target_spec spec = name_spec("com.shared.b");
	struct target_set *set;

	put("data/system/packages.list", packages_list);
	fake_process((struct fake){.pid = 10, .uid = 10200, .argv0 = "com.shared.a"});
	fake_process((struct fake){.pid = 11, .uid = 10200, .argv0 = "com.shared.b:x"});
	fake_process((struct fake){.pid = 12, .uid = 10200, .argv0 = "custom"});
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	cr_assert_str_eq(target_set_find(set, 11)->package, "com.shared.b");
	/* Time and bytes of the uid are of neither package alone. */
	cr_assert_null(target_package_of_uid(set, 10200));
	target_set_free(set);
}

Test(target_fixture, zygote_child_is_found_when_it_specialises)
{
	struct target_spec spec = name_spec("com.example.shop");
	struct target_set *set;
	struct changes changes = {0};

	put("data/system/packages.list", packages_list);
	/* old start times: only the zygote rule reads these again */
	fake_process((struct fake){.pid = 5, .argv0 = "zygote64"});
	fake_process((struct fake){.pid = 30, .argv0 = "zygote64"});
	fake_process((struct fake){.pid = 31, .argv0 = "usap64"});
	fake_process((struct fake){.pid = 32, .argv0 = "<pre-initialized>"});
	fake_process((struct fake){.pid = 33, .argv0 = "com.browser_zygote"});
	fake_process((struct fake){.pid = 34, .uid = 10130, .argv0 = "settled"});
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, note_change, &changes), 0);
	fake_process((struct fake){.pid = 30, .uid = 10123, .argv0 = "com.example.shop"});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	fake_process((struct fake){.pid = 31, .uid = 10123, .argv0 = "com.example.shop:a"});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 2);
	fake_process((struct fake){.pid = 32, .uid = 10123, .argv0 = "com.example.shop:b"});
	/* specialised by uid first, named a moment later */
	fake_process((struct fake){.pid = 33, .uid = 10123, .argv0 = "com.browser_zygote"});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 4);
	fake_process((struct fake){.pid = 33, .uid = 10123, .argv0 = "com.example.shop:c"});
	/* an old, settled process costs no read: its change is not seen at once */
	fake_process((struct fake){.pid = 34, .uid = 10123, .argv0 = "com.example.shop:d"});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 4);
	cr_assert_str_eq(target_set_find(set, 33)->process, "com.example.shop:c");
	cr_assert_eq(changes.started, 4);
	cr_assert_eq(changes.exited, 0);
	target_set_free(set);
}

Test(target_fixture, young_process_is_read_again_and_dropped_when_it_becomes_another)
{
	struct target_spec spec = name_spec("loader");
	struct target_set *set;
	struct changes changes = {0};
	struct timespec now;
	uint64_t ticks;

	clock_gettime(CLOCK_BOOTTIME, &now);
	ticks = now.tv_sec * 100ull + now.tv_nsec / 10000000;
	fake_process((struct fake){.pid = 40, .argv0 = "sh", .start_ticks = ticks});
	fake_process((struct fake){.pid = 41, .argv0 = "/usr/bin/loader", .start_ticks = ticks});
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	/* execve: both names change */
	fake_process((struct fake){
		.pid = 40, .argv0 = "bin/loader", .comm = "loader", .start_ticks = ticks});
	fake_process((struct fake){.pid = 41, .argv0 = "ls", .comm = "ls", .start_ticks = ticks});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	cr_assert_not_null(target_set_find(set, 40));
	cr_assert_eq(changes.started, 2);
	cr_assert_eq(changes.exited, 1);
	target_set_free(set);
}

Test(target_fixture, restart_is_an_exit_and_a_start)
{
	struct target_spec spec = name_spec("com.example.shop");
	struct target_set *set;
	struct changes changes = {0};

	put("data/system/packages.list", packages_list);
	put("proc/version", "x");
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, note_change, &changes), 0); /* not there yet */
	fake_process((struct fake){.pid = 50, .uid = 10123, .argv0 = "com.example.shop"});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	remove_process(50);
	cr_assert_eq(target_set_scan(set, note_change, &changes), 0);
	cr_assert_eq(changes.exited, 1);
	/* its last samples still get their name */
	cr_assert_str_eq(target_process_name(set, 50, 100 * 10000000ull), "com.example.shop");
	fake_process((struct fake){
		.pid = 51, .uid = 10123, .argv0 = "com.example.shop", .start_ticks = 200});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	/* the same pid used again, seen by its start time: fixtures have no pidfd */
	fake_process((struct fake){
		.pid = 51, .uid = 10123, .argv0 = "com.example.shop", .start_ticks = 300});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	cr_assert_eq(changes.started, 3);
	cr_assert_eq(changes.exited, 2);
	cr_assert_eq(target_set_find(set, 51)->start_boot_ns, 300 * 10000000ull);
	target_set_free(set);
}

/* The end of the first process is seen after the second one has begun with its pid: the second
 * one's frames between the two are not the first one's. */
Test(target_fixture, frames_of_a_pid_that_was_given_again_are_the_later_process_s)
{
	const uint64_t tick_ns = 10000000;
	struct target_spec specs[] = {name_spec("first"), name_spec("second")};
	struct owners *owners;
	struct target_set *set;
	struct changes changes = {0};

	fake_process((struct fake){.pid = 60, .argv0 = "first", .comm = "first"});
	set = target_set_new(specs, 2, root);
	owners = owners_new(set);
	cr_assert(owners);
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	cr_assert_eq(owners_look(owners, 1), 0);
	fake_process(
		(struct fake){.pid = 60, .argv0 = "second", .comm = "second", .start_ticks = 200});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 1);
	cr_assert_eq(owners_look(owners, 2), 0);
	cr_expect_str_eq(owners_name(owners, 60, 150 * tick_ns), "first");
	cr_expect_str_eq(owners_left(owners, 60, 150 * tick_ns), "first");
	cr_expect_str_eq(owners_name(owners, 60, 250 * tick_ns), "second");
	cr_expect_null(owners_left(owners, 60, 250 * tick_ns));
	cr_expect_not(owners_have(owners, 60, 50 * tick_ns));
	cr_expect(owners_began_later(owners, 60, 50 * tick_ns));
	cr_expect_not(owners_began_later(owners, 60, 150 * tick_ns));
	cr_expect_not(owners_began_later(owners, 60, 0));
	cr_expect_not(owners_began_later(owners, 61, 50 * tick_ns));
	owners_free(owners);
	target_set_free(set);
}

Test(target_fixture, plain_linux_names)
{
	static const struct {
		const char *argv0;
		bool match;
	} cases[] = {
		{"worker", true},
		{"worker:1", true},
		{"/opt/my app/worker", true},
		{"./worker", true},
		{"worker: idle", true},
		{"/opt/worker.sh", false},
		{"python3", false}, /* its script is an argument */
		{"sshd: /tmp/worker", false},
		{"workers", false},
		{"/opt/worker/x", false},
		{"", false},
	};
	struct target_spec spec = name_spec("worker");
	struct target_set *set;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fake_process(
			(struct fake){.pid = 60 + i, .argv0 = cases[i].argv0, .comm = "other"});
	set = target_set_new(&spec, 1, root);
	target_set_scan(set, NULL, NULL);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(target_set_find(set, 60 + i) != NULL, cases[i].match, "%s",
			     cases[i].argv0);
	target_set_free(set);
}

/* -p NAME: argv[0] or the last part of its path, comm, globs; literal first. */
Test(target_fixture, names_comms_and_globs)
{
	static const struct {
		const char *name, *argv0, *comm;
		bool match;
	} cases[] = {
		/* a program that rewrote its argv[0] */
		{"redis-server", "redis-server *:6379", "redis-server", true},
		{"redis-server", "/usr/bin/redis-server 127.0.0.1:6379", "redis-server", true},
		{"redis-server", "redis-server *:6379", "redis", false},
		/* a script: its own name is the comm, argv[0] is the interpreter's */
		{"job.py", "/usr/bin/python3", "job.py", true},
		{"python3", "/usr/bin/python3", "job.py", true},
		{"kworker/0:1", "", "kworker/0:1", true},
		{"kworker/*", "", "kworker/0:1", true},
		/* comm is cut to 15 bytes: a cut name is no match of a longer one */
		{"a-name-of-more-than-15", "x", "a-name-of-more-", false},
		{"a-name-of-more-", "x", "a-name-of-more-", true},
		{"com.foo.*", "com.foo.bar", "om.foo.bar", true},
		{"com.foo.*", "com.foo.bar:remote", "x", true},
		{"com.foo.*", "com.foo", "x", false},
		{"com.foo.b?r", "com.foo.bar:remote", "x", true},
		{"worker-?", "/opt/w/worker-1", "x", true},
		{"worker-?", "/opt/w/worker-12", "x", false},
		{"worker-?", "x", "worker-7", true},
		{"worker-[13]", "x", "worker-2", false},
		{"worker-[13]", "x", "worker-3", true},
		/* a name that matches literally matches */
		{"worker-[13]", "worker-[13]", "x", true},
		{"a[b", "a[b", "x", true},
		{"a*", "a*", "x", true},
		{"[", "x", "[", true},
		{"SurfaceView[x]:1", "SurfaceView[x]:1", "x", true},
		{"*", "anything", "x", true},
		/* text of setproctitle is not a path */
		{"work*", "sshd: /tmp/worker", "sshd", false},
		{"sshd", "sshd: /tmp/worker", "x", true},
		{"/opt/*/w", "/opt/a/w", "x", true},
		{"", "x", "", false},
		{"no", "yes", ") R 1 2", false},
		{") R 1 2", "yes", ") R 1 2", true},
		{"x\ny", "yes", "x\ny", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct target_spec spec = name_spec(cases[i].name);
		struct target_set *set;

		fake_process(
			(struct fake){.pid = 70, .argv0 = cases[i].argv0, .comm = cases[i].comm});
		set = target_set_new(&spec, 1, root);
		target_set_scan(set, NULL, NULL);
		cr_expect_eq(target_set_find(set, 70) != NULL, cases[i].match, "%s: %s, %s",
			     cases[i].name, cases[i].argv0, cases[i].comm);
		target_set_free(set);
	}
}

Test(target_fixture, glob_of_packages)
{
	struct target_spec spec = name_spec("com.example.*");
	struct target_set *set;

	put("data/system/packages.list", packages_list);
	fake_process((struct fake){.pid = 10, .uid = 10123, .argv0 = "their.own.name"});
	fake_process((struct fake){.pid = 11, .uid = 10124, .argv0 = "x"});
	fake_process((struct fake){.pid = 12, .uid = 10200, .argv0 = "com.shared.a"});
	fake_process((struct fake){.pid = 13, .uid = 1000, .argv0 = "x"});
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 2);
	cr_expect(target_set_has_uid(set, 10123) && target_set_has_uid(set, 1010124));
	cr_expect(!target_set_has_uid(set, 10200) && !target_set_has_uid(set, 1000));
	target_set_free(set);
	/* the android package has a uid below the apps': it is not its own */
	spec = name_spec("android.*");
	set = target_set_new(&spec, 1, root);
	cr_expect(!target_set_has_uid(set, 1000));
	target_set_free(set);
}

/* ---- what the kernel side tells ---- */

#define START(n) ((n)*10000000ull + 123) /* in the n-th tick */

static struct target_told told(pid_t pid, uint64_t start, uint64_t at, const char *comm,
			       const char *argv0)
{
	return (struct target_told){.pid = pid,
				    .start_boot_ns = start,
				    .at_boot_ns = at,
				    .uid = 0,
				    .comm = comm,
				    .argv0 = argv0};
}

static int birth(struct target_set *set, pid_t pid, uint64_t start, const char *comm, pid_t parent,
		 uint64_t parent_start)
{
	struct target_told child = told(pid, start, start, comm, NULL);

	return target_told_birth(set, &child, parent, parent_start);
}

static int names(struct target_set *set, pid_t pid, uint64_t start, uint64_t at, const char *comm,
		 const char *argv0, bool program, struct target_turn *turn)
{
	struct target_told name = told(pid, start, at, comm, argv0);

	return target_told_name(set, &name, program, turn);
}

static bool means(const struct target_set *set, pid_t pid, uint64_t start)
{
	return target_set_means(set, pid, start, 0, NULL);
}

Test(target_fixture, children_of_a_name_are_followed_from_their_birth)
{
	struct target_spec spec = name_spec("worker");
	struct target_turn turn;
	struct target_set *set;

	put("proc/version", "x");
	fake_process((struct fake){.pid = 10, .argv0 = "worker", .comm = "worker"});
	fake_process((struct fake){.pid = 11, .argv0 = "sh", .comm = "sh"});
	set = target_set_new(&spec, 1, root);
	cr_assert(target_set_follows(set));
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	/* fork without exec: of a target, of a child of it, of another program */
	cr_assert_eq(birth(set, 20, START(200), "worker", 10, 100 * 10000000ull), 0);
	cr_assert_eq(birth(set, 21, START(201), "any-thread", 20, START(200)), 0);
	cr_assert_eq(birth(set, 22, START(202), "sh", 11, 100 * 10000000ull), 0);
	/* a thread of that name forks */
	cr_assert_eq(birth(set, 23, START(203), "worker", 11, 100 * 10000000ull), 0);
	cr_expect(means(set, 20, START(200)) && means(set, 21, START(201)));
	cr_expect(!means(set, 22, START(202)) && means(set, 23, START(203)));
	/* the pid again, for another process in the same tick */
	cr_expect(!means(set, 20, START(200) + 1));
	cr_expect_str_eq(target_process_name(set, 21, START(201)), "worker");
	/* exec of another name ends it, exec of the name begins it */
	cr_expect_eq(names(set, 20, START(200), START(300), "ls", "ls", true, &turn), 1);
	cr_expect(turn.was_target);
	cr_expect_str_eq(turn.name, "worker");
	cr_expect(!means(set, 20, START(200)));
	cr_expect_eq(names(set, 22, START(202), START(300), "worker", "/x/worker", true, &turn), 1);
	cr_expect(!turn.was_target && means(set, 22, START(202)));
	/* what it forks now is what it is now */
	cr_assert_eq(birth(set, 24, START(301), "ls", 20, START(200)), 0);
	cr_assert_eq(birth(set, 25, START(301), "worker", 22, START(202)), 0);
	cr_expect(!means(set, 24, START(301)) && means(set, 25, START(301)));
	/* a thread that ended before its process changed is of the one before */
	cr_expect(target_set_means(set, 20, START(200), START(299), NULL));
	cr_expect(!target_set_means(set, 20, START(200), START(301), NULL));
	cr_expect(!target_set_means(set, 22, START(202), START(299), NULL));
	target_set_free(set);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define TICK 10000000ull

static void wait_until(uint64_t until_ns)
{
	while (now_ns() < until_ns)
		;
}

/* The first of two owners of pid 50, both of this tick, and what a scan would read of each. */
static void become(bool second, uint64_t tick)
{
	const char *name = second ? "other" : "worker";

	fake_process((struct fake){.pid = 50, .argv0 = name, .comm = name, .start_ticks = tick});
}

enum met { FIRST_AHEAD, SECOND_AHEAD, FIRST_BEHIND, SECOND_BEHIND, MET };

/* False: the machine was too slow for a tick of 10 ms. */
static bool two_owners(enum met met)
{
	struct target_spec spec = name_spec("worker");
	struct target_set *set;
	struct target_turn turn;
	uint64_t tick, first, second;

	put("proc/version", "x");
	fake_process((struct fake){.pid = 10, .argv0 = "sh", .comm = "sh"});
	set = target_set_new(&spec, 1, root);
	target_set_scan(set, NULL, NULL);
	tick = now_ns() / TICK + 1;
	first = tick * TICK + 123;
	second = first + 8000000;
	wait_until(first);
	if (met == FIRST_AHEAD || met == FIRST_BEHIND)
		become(false, tick);
	if (met == FIRST_AHEAD)
		target_set_scan(set, NULL, NULL);
	birth(set, 50, first, "sh", 10, START(100));
	if (met == SECOND_AHEAD) {
		become(true, tick);
		wait_until(second);
		target_set_scan(set, NULL, NULL);
	}
	cr_expect_eq(names(set, 50, first, first + 1, "worker", "worker", true, &turn), 1);
	cr_expect(!turn.was_target);
	if (met == FIRST_BEHIND)
		target_set_scan(set, NULL, NULL);
	if (met != SECOND_AHEAD && now_ns() >= second) {
		target_set_free(set);
		remove_process(50);
		return false;
	}
	wait_until(second);
	target_told_death(set, 50, first, 0, second - 1);
	birth(set, 50, second, "sh", 10, START(100));
	cr_expect_eq(names(set, 50, second, second + 1, "other", "other", true, &turn), 0,
		     "%d: the second is no target before its execve", met);
	become(true, tick);
	if (met == SECOND_BEHIND)
		target_set_scan(set, NULL, NULL);
	target_process_renamed(set, 50, first, "worker");
	target_process_renamed(set, 50, second, "other");
	for (int i = 0; i < 2; i++) {
		cr_expect(means(set, 50, first), "%d: the first is a target", met);
		cr_expect(!means(set, 50, second), "%d: the second is none", met);
		cr_expect_str_eq(target_process_name(set, 50, first), "worker", "%d", met);
		cr_expect_eq(target_set_scan(set, NULL, NULL), 0, "%d: none is watched", met);
		cr_expect_str_eq(target_process_name(set, 50, second), "other", "%d", met);
	}
	target_set_free(set);
	remove_process(50);
	return true;
}

/* A pid that is used again within the 10 ms of a tick: /proc knows both processes by one start
 * time. Whichever of the two a scan meets, ahead of what the kernel side tells of them or behind
 * it, each has its own name and only one is a target. */
Test(target_fixture, two_owners_of_a_pid_in_one_tick)
{
	for (int met = 0; met < MET; met++)
		for (int tries = 0; tries < 20 && !two_owners(met); tries++)
			;
}

/* A scan read a process between its fork and its execve. */
Test(target_fixture, what_an_execve_told_is_newer_than_a_scan)
{
	struct target_spec spec = name_spec("worker");
	struct target_turn turn;
	struct target_set *set;

	put("proc/version", "x");
	fake_process((struct fake){.pid = 50, .argv0 = "sh", .comm = "sh", .start_ticks = 400});
	set = target_set_new(&spec, 1, root);
	target_set_scan(set, NULL, NULL);
	cr_expect_eq(names(set, 50, START(400), now_ns(), "worker", "/x/worker", true, &turn), 1);
	cr_expect_str_eq(turn.name, "sh");
	cr_expect_str_eq(target_process_name(set, 50, START(400)), "/x/worker");
	/* what a scan reads after it is newer still */
	fake_process((struct fake){
		.pid = 50, .argv0 = "worker: busy", .comm = "worker", .start_ticks = 400});
	target_set_scan(set, NULL, NULL);
	cr_expect_str_eq(target_process_name(set, 50, START(400)), "worker: busy");
	/* a program that is none, and takes the name itself */
	fake_process((struct fake){.pid = 51, .argv0 = "sh", .comm = "sh", .start_ticks = 400});
	target_set_scan(set, NULL, NULL);
	cr_expect_eq(names(set, 51, START(400), now_ns(), "other", "/x/other", true, &turn), 0);
	cr_expect_eq(names(set, 51, START(400), now_ns(), "worker", NULL, false, &turn), 1);
	cr_expect_str_eq(turn.name, "/x/other");
	cr_expect_str_eq(target_process_name(set, 51, START(400)), "/x/other");
	/* a program that was dead before its argv could be read again */
	cr_expect_eq(names(set, 50, START(400), now_ns(), "worker", "/y/worker", true, &turn), 0);
	remove_process(50);
	target_process_renamed(set, 50, START(400), "worker");
	cr_expect_str_eq(target_process_name(set, 50, START(400)), "/y/worker");
	target_set_free(set);
}

/* execve sets the comm before the kernel side tells of it. A scan that reads it then is ahead: what
 * the process ran before, and what of it a read-out books meanwhile, is not the target's. */
Test(target_fixture, a_scan_amid_an_execve_hides_no_time_before_it)
{
	struct target_spec spec = name_spec("worker");
	struct target_turn turn;
	struct target_set *set;

	put("proc/version", "x");
	fake_process((struct fake){.pid = 50, .argv0 = "sh", .comm = "sh", .start_ticks = 400});
	fake_process((struct fake){.pid = 51, .argv0 = "sh", .comm = "sh", .start_ticks = 400});
	fake_process((struct fake){.pid = 52, .argv0 = "sh", .comm = "sh", .start_ticks = 400});
	fake_process((struct fake){.pid = 53, .argv0 = "sh", .comm = "sh", .start_ticks = 400});
	set = target_set_new(&spec, 1, root);
	target_set_is_told(set);
	target_set_scan(set, NULL, NULL);
	/* 51 is followed: it was a target once */
	cr_expect_eq(names(set, 51, START(400), now_ns(), "worker", "worker", true, &turn), 1);
	cr_expect_eq(names(set, 51, START(400), now_ns(), "sh", "sh", true, &turn), 1);
	for (pid_t pid = 50; pid < 53; pid++)
		fake_process((struct fake){
			.pid = pid, .argv0 = "sh", .comm = "worker", .start_ticks = 400});
	/* an argv that the process writes itself is told by nobody */
	fake_process((struct fake){.pid = 53, .argv0 = "worker", .comm = "sh", .start_ticks = 400});
	target_set_look_again(set);
	cr_expect_eq(target_set_scan(set, NULL, NULL), 4, "all are watched from now on");
	for (pid_t pid = 50; pid < 53; pid++)
		cr_expect(!means(set, pid, START(400)), "%d: not told yet", pid);
	cr_expect(means(set, 53, START(400)));
	target_set_turn(set);
	for (pid_t pid = 50; pid < 52; pid++) {
		uint64_t at = now_ns();

		cr_expect_eq(names(set, pid, START(400), at, "worker", "worker", true, &turn), 1);
		cr_expect(!turn.was_target, "%d", pid);
		cr_expect_str_eq(turn.name, "sh");
		cr_expect(means(set, pid, START(400)));
		cr_expect(!target_set_means(set, pid, START(400), at - 1, NULL));
	}
	/* no word comes: then the scan was right */
	cr_expect(!means(set, 52, START(400)));
	target_set_turn(set);
	cr_expect(means(set, 52, START(400)));
	/* word was lost */
	cr_expect_eq(names(set, 52, START(400), now_ns(), "sh", "sh", true, &turn), 1);
	target_set_scan(set, NULL, NULL); /* the comm is as it was */
	cr_expect(!means(set, 52, START(400)));
	target_set_look_again(set);
	cr_expect(means(set, 52, START(400)));
	target_set_free(set);
}

Test(target_fixture, who_took_a_name_keeps_it_and_who_inherited_it_does_not)
{
	struct target_spec spec = name_spec("zygote");
	struct target_turn turn;
	struct target_set *set;

	put("proc/version", "x");
	set = target_set_new(&spec, 1, root);
	target_set_scan(set, NULL, NULL);
	/* by prctl; then it renames itself: it is the same program */
	cr_expect_eq(names(set, 10, START(100), START(110), "zygote", NULL, false, &turn), 1);
	cr_expect_eq(names(set, 10, START(100), START(120), "other", NULL, false, &turn), 0);
	cr_expect(means(set, 10, START(100)));
	/* its child takes another name: that is an app now */
	cr_assert_eq(birth(set, 11, START(130), "zygote", 10, START(100)), 0);
	cr_expect(means(set, 11, START(130)));
	cr_expect_eq(names(set, 11, START(130), START(140), "e.app:remote", NULL, false, &turn), 1);
	cr_expect(turn.was_target && !means(set, 11, START(130)));
	/* another program */
	cr_expect_eq(names(set, 10, START(100), START(150), "ls", "ls", true, &turn), 1);
	cr_expect(!means(set, 10, START(100)));
	/* argv[0] could not be read: the comm decides */
	cr_expect_eq(names(set, 10, START(100), START(160), "zygote", NULL, true, &turn), 1);
	target_set_free(set);
}

Test(target_fixture, names_of_the_dead_are_kept_for_a_record_and_no_longer)
{
	struct target_spec spec = name_spec("worker");
	struct target_set *set;

	put("proc/version", "x");
	set = target_set_new(&spec, 1, root);
	target_set_scan(set, NULL, NULL);
	for (pid_t pid = 1000; pid < 11000; pid++) {
		struct target_turn turn;

		cr_assert_eq(
			names(set, pid, START(100), START(100), "worker", "worker", true, &turn),
			1);
		target_told_death(set, pid, START(100), 0, START(100));
	}
	target_set_turn(set);
	cr_expect(means(set, 5000, START(100)));
	cr_expect_eq(target_set_take_unmet(set), 0, "a scan may meet them yet");
	target_set_turn(set);
	target_set_turn(set);
	cr_expect(!means(set, 5000, START(100)));
	cr_expect_eq(target_set_take_unmet(set), 10000, "no scan met them: they are counted");
	cr_expect_eq(target_set_take_unmet(set), 0);
	target_set_free(set);
}

/* Two were watched, two had ended before the scan that read them, one began and ended in between.
 */
Test(target_fixture, of_targets_that_died_those_are_counted_whose_start_no_change_told)
{
	struct target_spec spec = name_spec("worker");
	struct changes changes = {0};
	struct target_turn turn;
	struct target_set *set;

	put("proc/version", "x");
	set = target_set_new(&spec, 1, root);
	target_set_scan(set, note_change, &changes);
	for (pid_t pid = 10; pid < 14; pid++)
		names(set, pid, START(100), START(100), "worker", "worker", true, &turn);
	fake_process((struct fake){.pid = 10, .argv0 = "worker", .comm = "worker"});
	fake_process((struct fake){.pid = 11, .comm = "worker", .state = 'Z'});
	fake_process((struct fake){.pid = 12, .comm = "worker", .state = 'Z'});
	/* known by a scan before the kernel side tells of its name */
	fake_process((struct fake){.pid = 14, .argv0 = "worker", .comm = "worker"});
	cr_assert_eq(target_set_scan(set, note_change, &changes), 2);
	cr_expect_eq(changes.started, 2);
	names(set, 14, START(100), START(100), "worker", "worker", true, &turn);
	for (pid_t pid = 10; pid < 15; pid++)
		target_told_death(set, pid, START(100), 0, START(110));
	for (int i = 0; i < 3; i++)
		target_set_turn(set);
	cr_expect_eq(target_set_take_unmet(set), 3);
	target_set_free(set);
}

/* A short process of an isolated uid has no name by the time that anybody could read it. */
Test(target_fixture, isolated_processes_without_a_name_are_counted)
{
	struct target_spec spec = name_spec("com.example.shop");
	struct target_set *set;

	put("data/system/packages.list", packages_list);
	fake_process((struct fake){.pid = 10, .uid = 10123, .argv0 = "com.example.shop"});
	fake_process((struct fake){.pid = 11, .uid = 99001, .argv0 = "com.example.shop:i"});
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 2);
	target_told_death(set, 11, START(100), 99001, START(200)); /* its name is known */
	target_told_death(set, 12, START(150), 10130, START(200)); /* another app */
	cr_expect_eq(target_set_take_unnamed(set), 0);
	target_told_death(set, 13, START(150), 99002, START(200));
	cr_expect_eq(target_set_take_unnamed(set), 1);
	cr_expect_eq(target_set_take_unnamed(set), 0);
	target_set_free(set);
}

/* What was found by a scan and died in a long interval is still to be listed in its record. */
Test(target_fixture, dead_targets_outlive_the_scans_of_a_long_interval)
{
	struct target_spec spec = name_spec("worker");
	struct target_set *set;

	fake_process((struct fake){.pid = 10, .argv0 = "worker", .comm = "worker"});
	put("proc/version", "x");
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	target_set_turn(set);
	remove_process(10);
	for (int i = 0; i < 300; i++)
		cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	cr_expect(means(set, 10, 100 * 10000000ull));
	cr_expect_str_eq(target_process_name(set, 10, 100 * 10000000ull), "worker");
	target_set_turn(set);
	target_set_turn(set);
	for (int i = 0; i < 40; i++)
		target_set_scan(set, NULL, NULL);
	cr_expect(!means(set, 10, 100 * 10000000ull));
	target_set_free(set);
}

Test(target_fixture, names_longer_than_the_buffer_are_cut)
{
	char long_name[400];
	struct target_set *set;

	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	fake_process((struct fake){.pid = 70, .argv0 = long_name});
	set = target_set_new(NULL, 0, root);
	cr_assert_eq(strlen(target_process_name(set, 70, 100 * 10000000ull)), 255);
	target_set_free(set);
}

Test(target_fixture, list_that_changes_is_read_again)
{
	struct target_spec spec = name_spec("com.new");
	struct target_set *set;

	put("data/system/packages.list", packages_list);
	fake_process((struct fake){.pid = 80, .uid = 10400, .argv0 = "odd.name"});
	set = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(set, NULL, NULL), 0);
	put("data/system/packages.list", "com.new 10400 0 /data/user/0/n default none 0\n");
	cr_assert_eq(target_set_scan(set, NULL, NULL), 1);
	cr_assert_str_eq(target_set_find(set, 80)->package, "com.new");
	cr_assert_str_eq(target_packages_origin(set), "packages.list");
	target_set_free(set);
}

Test(target_fixture, foreground_and_frozen)
{
	struct target_set *set;
	int score;

	fake_process((struct fake){.pid = 90,
				   .argv0 = "com.a",
				   .cgroup = "3:cpuset:/top-app\n0::/uid_10123/pid_90\n"});
	fake_process(
		(struct fake){.pid = 91, .argv0 = "com.b", .cgroup = "0::/uid_10124/pid_91\n"});
	fake_process((struct fake){.pid = 92, .argv0 = "com.c", .cgroup = "0::/\n"});
	fake_process((struct fake){.pid = 93, .argv0 = "com.d", .cgroup = "0::/../../x\n"});
	put("proc/90/oom_score_adj", "0\n");
	put("proc/91/oom_score_adj", "905\n");
	put("proc/92/oom_score_adj", "-700\n");
	put("proc/90/cpuset", "/top-app\n");
	put("proc/91/cpuset", "/background\n");
	put("proc/92/cpuset", "/top-app\n");
	put("sys/fs/cgroup/uid_10123/pid_90/cgroup.events", "populated 1\nfrozen 0\n");
	put("sys/fs/cgroup/uid_10124/pid_91/cgroup.events", "populated 1\nfrozen 1\n");
	set = target_set_new(NULL, 0, root);
	cr_assert_eq(target_is_foreground(set, 90), -ENOTSUP); /* no Android cpusets */
	put("dev/cpuset/top-app/cgroup.procs", "90\n92\n");
	cr_assert_eq(target_is_foreground(set, 90), 1);
	cr_assert_eq(target_is_foreground(set, 91), 0);
	cr_assert_eq(target_is_foreground(set, 92), 0); /* a helper in top-app */
	cr_assert_lt(target_is_foreground(set, 4000), 0);
	cr_assert_eq(target_is_frozen(set, 90), 0);
	cr_assert_eq(target_is_frozen(set, 91), 1);
	cr_assert_eq(target_is_frozen(set, 92), 0);
	cr_assert_eq(target_is_frozen(set, 93), -ENOTSUP);
	cr_assert_eq(target_oom_score_adj(set, 92, &score), 0);
	cr_assert_eq(score, -700);
	target_set_free(set);
}

/* What is no score, no cpuset and no state of a cgroup makes nobody shown, background or frozen. */
Test(target_fixture, hostile_scores_and_groups)
{
	static const char *const scores[] = {"",          "\n",           "0",
					     "0x0\n",     "0 0\n",        "1001\n",
					     "-1001\n",   "4294967296\n", "18446744073709551616\n",
					     ") R 1 2\n", "\xff\xfe\n",   "0\n0\n"};
	static const char *const cpusets[] = {"", "\n", "top-app\n", "0\n", "\xff/top-app\n"};
	static const char *const events[] = {
		"frozen 1",    "frozen 2\n",  "unfrozen 1\n", "xfrozen 1\n",
		"frozen 10\n", "frozen -1\n", "frozen 1 2\n", ""};
	char *megabyte = calloc(1, (1 << 20) + 1), path[128];
	struct target_set *set;
	int score;

	fake_process((struct fake){.pid = 90, .argv0 = "com.a", .cgroup = "0::/a\n"});
	put("dev/cpuset/top-app/cgroup.procs", "90\n");
	put("proc/90/cpuset", "/top-app\n");
	set = target_set_new(NULL, 0, root);
	for (size_t i = 0; i < sizeof(scores) / sizeof(*scores); i++) {
		put("proc/90/oom_score_adj", scores[i]);
		cr_expect_lt(target_oom_score_adj(set, 90, &score), 0, "'%s'", scores[i]);
		cr_expect_lt(target_is_foreground(set, 90), 0, "'%s'", scores[i]);
	}
	memset(megabyte, '0', 1 << 20);
	put("proc/90/oom_score_adj", megabyte);
	cr_expect_lt(target_is_foreground(set, 90), 0);
	snprintf(path, sizeof(path), "%s/proc/90/oom_score_adj", root);
	cr_assert_eq(remove(path), 0);
	cr_assert_eq(mkfifo(path, 0644), 0);
	cr_expect_lt(target_is_foreground(set, 90), 0, "a FIFO that never answers");
	cr_assert_eq(remove(path), 0);
	put("proc/90/oom_score_adj", "0\n");
	cr_expect_eq(target_is_foreground(set, 90), 1);
	for (size_t i = 0; i < sizeof(cpusets) / sizeof(*cpusets); i++) {
		put("proc/90/cpuset", cpusets[i]);
		cr_expect_lt(target_is_foreground(set, 90), 0, "'%s'", cpusets[i]);
	}
	put("proc/90/cpuset", "/top-app/x\n");
	cr_expect_eq(target_is_foreground(set, 90), 0);
	put("sys/fs/cgroup/a/cgroup.events", "frozen 1\npopulated 1\n");
	cr_expect_eq(target_is_frozen(set, 90), 1);
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		put("sys/fs/cgroup/a/cgroup.events", events[i]);
		cr_expect_lt(target_is_frozen(set, 90), 0, "'%s'", events[i]);
	}
	target_set_free(set);
	free(megabyte);
}

/* Processes of an app that the user sees, from one pid to before another. */
static void processes_in_front(pid_t from, pid_t to)
{
	for (pid_t pid = from; pid < to; pid++) {
		char path[64];

		fake_process((struct fake){.pid = pid, .uid = 10123, .argv0 = "com.a"});
		snprintf(path, sizeof(path), "proc/%d/oom_score_adj", (int)pid);
		put(path, "0\n");
		snprintf(path, sizeof(path), "proc/%d/cpuset", (int)pid);
		put(path, "/top-app\n");
	}
	put("dev/cpuset/top-app/cgroup.procs", "90\n");
}

/* Of a process whose state cannot be read there is no row, and the record says so; of one that is
 * gone nothing is said. */
Test(target_fixture, a_state_that_cannot_be_read_is_missing)
{
	struct target_spec spec = {.kind = TARGET_UID, .uid = 10123};
	struct source_context context = {.interval_ns = 1000000000};
	struct source *source = context_source_new();
	struct record_interval interval = {0};
	const char *why;

	processes_in_front(90, 93);
	context.targets = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(context.targets, NULL, NULL), 3);
	cr_assert_eq(source->ops->open(source, &context), 0);
	cr_assert_eq(source->ops->sample(source, &interval), 0);
	cr_expect_eq(interval.context.process_count, 3);
	cr_expect_null(missing_reason(&interval.missing, "context.processes"));
	put("proc/90/oom_score_adj", "4294967296\n");
	cr_assert_eq(source->ops->sample(source, &interval), 0);
	cr_assert_eq(interval.context.process_count, 2);
	cr_expect_eq(interval.context.processes[0].pid, 91);
	why = missing_reason(&interval.missing, "context.processes");
	cr_assert(why);
	cr_expect(strstr(why, "oom_score_adj"), "%s", why);
	missing_list_free(&interval.missing);
	/* A kernel without /proc/PID/cpuset. */
	put("proc/90/oom_score_adj", "0\n");
	drop("proc/90/cpuset");
	cr_assert_eq(source->ops->sample(source, &interval), 0);
	cr_expect_eq(interval.context.process_count, 2);
	cr_expect(missing_reason(&interval.missing, "context.processes"));
	missing_list_free(&interval.missing);
	/* Gone. */
	drop("proc/90/oom_score_adj");
	cr_assert_eq(source->ops->sample(source, &interval), 0);
	cr_expect_eq(interval.context.process_count, 2);
	cr_expect_null(missing_reason(&interval.missing, "context.processes"));
	missing_list_free(&interval.missing);
	source->ops->close(source);
	target_set_free(context.targets);
}

static int end_loop(void *ctx, uint32_t events)
{
	loop_stop(ctx);
	return 0;
}

static void run_for(struct loop *loop, uint64_t ns)
{
	int timer = loop_add_timer(loop, ns, 0, end_loop, loop);

	cr_assert_eq(loop_run(loop), 0);
	loop_remove_timer(loop, timer);
}

/* In the background and back amid an interval of a minute: it was not in the foreground all the
 * time. The one beside it was. */
Test(target_fixture, a_state_that_comes_and_goes_within_a_long_interval)
{
	struct target_spec spec = {.kind = TARGET_UID, .uid = 10123};
	struct source_context context = {.interval_ns = 60 * 1000000000ull, .loop = loop_new()};
	struct source *source = context_source_new();
	struct record_interval interval = {0};

	processes_in_front(90, 92);
	context.targets = target_set_new(&spec, 1, root);
	cr_assert_eq(target_set_scan(context.targets, NULL, NULL), 2);
	cr_assert_eq(source->ops->open(source, &context), 0);
	cr_assert_eq(source->ops->sample(source, &interval), 0);
	put("proc/90/cpuset", "/background\n");
	run_for(context.loop, 1300000000);
	put("proc/90/cpuset", "/top-app\n");
	cr_assert_eq(source->ops->sample(source, &interval), 0);
	cr_assert_eq(interval.context.process_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct record_process_context *row = &interval.context.processes[i];

		cr_expect_eq(row->state, CONTEXT_FOREGROUND);
		cr_expect_eq(row->changed, row->pid == 90, "%d", row->pid);
	}
	cr_assert_eq(source->ops->sample(source, &interval), 0);
	cr_expect_not(interval.context.processes[0].changed);
	missing_list_free(&interval.missing);
	source->ops->close(source);
	target_set_free(context.targets);
	loop_free(context.loop);
}
