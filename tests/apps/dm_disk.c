/* SPDX-License-Identifier: BSD-2-Clause */
/* A disk that fails when it is told to: a loop device of an image behind the device mapper's linear
 * target, which its error target takes the place of and gives back (Documentation/admin-guide/
 * device-mapper). The kernel's own EIO, below the page cache.
 * usage: dm_disk IMAGE   says "ready DEVICE"; on stdin a line each: "error", "linear". At its end
 * the disk goes. Exit code 2: this kernel has no device mapper. */
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SECTOR_BYTES 512

static int control;
static uint64_t sectors;
static char loop_path[64];

static void die(const char *what)
{
	fprintf(stderr, "dm_disk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_loop(const char *image)
{
	int loops = open("/dev/loop-control", O_RDWR | O_CLOEXEC), file, loop, number;
	struct stat status;

	if (loops < 0 || (number = ioctl(loops, LOOP_CTL_GET_FREE)) < 0)
		die("/dev/loop-control");
	snprintf(loop_path, sizeof(loop_path), "/dev/loop%d", number);
	file = open(image, O_RDWR | O_CLOEXEC);
	if (file < 0 || fstat(file, &status))
		die(image);
	loop = open(loop_path, O_RDWR | O_CLOEXEC);
	if (loop < 0 || ioctl(loop, LOOP_SET_FD, file))
		die(loop_path);
	/* The device mapper's own hold is what the loop device lives by. */
	ioctl(loop, LOOP_SET_STATUS64, &(struct loop_info64){.lo_flags = LO_FLAGS_AUTOCLEAR});
	sectors = (uint64_t)status.st_size / SECTOR_BYTES;
}

static uint64_t command(unsigned long request, uint32_t flags, const char *target, const char *text)
{
	struct {
		struct dm_ioctl head;
		struct dm_target_spec spec;
		char text[128];
	} call = {.head = {.version = {DM_VERSION_MAJOR, 0, 0},
			   .data_size = sizeof(call),
			   .data_start = sizeof(call.head),
			   .flags = flags}};

	snprintf(call.head.name, sizeof(call.head.name), "jankscope-test-%d", getpid());
	if (target) {
		call.head.target_count = 1;
		call.spec.length = sectors;
		call.spec.next = sizeof(call.spec) + sizeof(call.text);
		snprintf(call.spec.target_type, sizeof(call.spec.target_type), "%s", target);
		snprintf(call.text, sizeof(call.text), "%s", text);
	}
	if (ioctl(control, request, &call))
		die(target ? target : "device mapper");
	return call.head.dev;
}

/* What is under way fails or is done before the other table counts. */
static void load(const char *target)
{
	char text[96] = "";

	if (!strcmp(target, "linear"))
		snprintf(text, sizeof(text), "%s 0", loop_path);
	command(DM_TABLE_LOAD, 0, target, text);
	command(DM_DEV_SUSPEND, DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG, NULL,
		NULL);
	command(DM_DEV_SUSPEND, 0, NULL, NULL);
}

int main(int argc, char **argv)
{
	char line[32];
	uint64_t device;

	if (argc != 2)
		return 1;
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (control < 0) {
		fprintf(stderr, "dm_disk: /dev/mapper/control: %s\n", strerror(errno));
		return errno == ENOENT || errno == ENODEV || errno == ENXIO ? 2 : 1;
	}
	set_loop(argv[1]);
	device = command(DM_DEV_CREATE, 0, NULL, NULL);
	load("linear");
	printf("ready /dev/dm-%u\n", minor((dev_t)device));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		load(line);
		printf("%s\n", line);
		fflush(stdout);
	}
	command(DM_DEV_REMOVE, DM_DEFERRED_REMOVE, NULL, NULL);
	return 0;
}
