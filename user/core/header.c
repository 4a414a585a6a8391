/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "proc/read.h"
#include "proc/selinux.h"
#include "util/android_property.h"
#include "util/clock.h"

static void read_line(const char *path, char *buffer, size_t size)
{
	proc_read(AT_FDCWD, path, buffer, size);
	buffer[strcspn(buffer, "\n")] = 0;
}

enum { FINGERPRINT, RELEASE, BUILD_TYPE, API, PROPERTIES };

static const char *known(const struct android_property *property)
{
	return property->value[0] ? property->value : NULL;
}

/* The strings stay those of the caller's properties. */
static void name_android(struct android_property properties[PROPERTIES],
			 struct header_android *android)
{
	char *end;
	uint64_t api;

	properties[FINGERPRINT].name = "ro.build.fingerprint";
	properties[RELEASE].name = "ro.build.version.release";
	properties[BUILD_TYPE].name = "ro.build.type";
	properties[API].name = "ro.build.version.sdk";
	android_properties_read("/dev/__properties__", properties, PROPERTIES);
	android->fingerprint = known(&properties[FINGERPRINT]);
	android->release = known(&properties[RELEASE]);
	android->build_type = known(&properties[BUILD_TYPE]);
	api = strtoul(properties[API].value, &end, 10);
	if (end != properties[API].value && !*end)
		android->api = SOME_U64(api);
}

static size_t list_targets(const struct session_options *options, struct header_target *targets)
{
	for (size_t i = 0; i < options->spec_count; i++) {
		const struct target_spec *spec = &options->specs[i];

		if (spec->kind == TARGET_NAME)
			targets[i].package = spec->name;
		else if (spec->kind == TARGET_PID)
			targets[i].pid = SOME_U64((uint64_t)spec->pid);
		else
			targets[i].uid = SOME_U64(spec->uid);
	}
	return options->spec_count;
}

static struct header_source describe(const struct source *source)
{
	static const char *const states[] = {"ok", "degraded", "absent"};

	return (struct header_source){
		.name = source->ops->name,
		.state = states[source->state],
		.variant = source->variant,
		.reason = source->reason[0] ? source->reason : NULL,
	};
}

int header_emit(const struct session_options *options, struct source *const *sources, size_t count,
		void (*emit)(void *emit_ctx, struct record *record), void *emit_ctx)
{
	struct header_target *targets = calloc(options->spec_count + 1, sizeof(*targets));
	struct header_source *described = calloc(count + 1, sizeof(*described));
	struct record_header header = {
		.interval_ns = options->interval_ns,
		.block_ns = options->block_ns,
		.estimate = options->estimate,
		.targets = targets,
		.sources = described,
		.source_count = count,
	};
	struct record record = {.type = RECORD_HEADER, .header = &header};
	struct android_property properties[PROPERTIES];
	struct selinux selinux;
	char kernel[160], device[96];
	long page_bytes = sysconf(_SC_PAGESIZE);
	struct utsname names;
	int err = targets && described ? 0 : -ENOMEM;

	if (err)
		goto out;
	read_line("/proc/sys/kernel/random/uuid", header.session, sizeof(header.session));
	read_line("/proc/sys/kernel/random/boot_id", header.boot_id, sizeof(header.boot_id));
	read_line("/proc/device-tree/model", device, sizeof(device));
	if (!device[0])
		read_line("/sys/class/dmi/id/product_name", device, sizeof(device));
	uname(&names);
	snprintf(kernel, sizeof(kernel), "%s %s", names.sysname, names.release);
	header.kernel = kernel;
	header.arch = !strcmp(names.machine, "aarch64") ? "arm64" : names.machine;
	header.device = device[0] ? device : NULL;
	name_android(properties, &header.android);
	selinux_read(&selinux, SELINUX_CONTEXT_FILE, SELINUX_ENFORCE_FILE);
	header.selinux = selinux.context[0] ? selinux.context : NULL;
	if (page_bytes > 0)
		header.page_bytes = SOME_U64((uint64_t)page_bytes);
	header.clock.boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	header.clock.mono_ns = clock_now_ns(CLOCK_MONOTONIC);
	header.clock.unix_ns = clock_now_ns(CLOCK_REALTIME);
	header.target_count = list_targets(options, targets);
	for (size_t i = 0; i < count; i++)
		described[i] = describe(sources[i]);
	emit(emit_ctx, &record);
out:
	free(targets);
	free(described);
	return err;
}
