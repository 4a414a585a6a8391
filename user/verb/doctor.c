/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "kernel/btf.h"
#include "kernel/features.h"
#include "kernel/namespaces.h"
#include "util/units.h"
#include "verb/doctor_processes.h"
#include "verb/verb.h"

#define MAX_FEATURES  64
#define MAX_PROCESSES 8

static json_t *json_processes(const struct doctor_process *rows, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *row = json_object();
		char text[512];

		json_object_set_new(row, "name", json_string(rows[i].name));
		json_object_set_new(row, "ok", json_boolean(rows[i].ok));
		if (rows[i].ok) {
			doctor_capabilities(&rows[i], text, sizeof(text));
			json_object_set_new(row, "uid", json_integer(rows[i].uid));
			json_object_set_new(row, "capabilities", json_string(text));
			json_object_set_new(row, "no_new_privs",
					    json_boolean(rows[i].no_new_privs));
			json_object_set_new(row, "seccomp", json_integer(rows[i].seccomp));
			json_object_set_new(row, "nice", json_integer(rows[i].nice));
			json_object_set_new(row, "nice_lowest", json_integer(rows[i].nice_lowest));
			if (rows[i].address_bytes.present)
				json_object_set_new(
					row, "address_limit_bytes",
					json_integer((json_int_t)rows[i].address_bytes.value));
			if (rows[i].cpu_s.present)
				json_object_set_new(row, "cpu_limit_s",
						    json_integer((json_int_t)rows[i].cpu_s.value));
		} else {
			json_object_set_new(row, "reason", json_string(rows[i].reason));
		}
		json_array_append_new(array, row);
	}
	return array;
}

static void print_processes(const struct doctor_process *rows, size_t count)
{
	puts("processes:");
	for (size_t i = 0; i < count; i++) {
		const struct doctor_process *row = &rows[i];
		char text[512];

		if (!row->ok) {
			printf("  %-4s %-18s %s\n", "no", row->name, row->reason);
			continue;
		}
		doctor_capabilities(row, text, sizeof(text));
		printf("  %-4s %-18s uid %u, capabilities %s%s%s, nice %d", "ok", row->name,
		       row->uid, text, row->no_new_privs ? ", no_new_privs" : "",
		       row->seccomp > 0 ? ", seccomp" : "", row->nice);
		if (row->nice_lowest != row->nice)
			printf(" (one thread %d)", row->nice_lowest);
		if (row->address_bytes.present)
			printf(", at most %s",
			       format_bytes(text, sizeof(text), row->address_bytes.value));
		putchar('\n');
	}
}

static enum exit_code print_json(const struct feature *features, size_t count, bool usable,
				 const struct doctor_process *processes, size_t process_count)
{
	json_t *root = json_object(), *array = json_array();
	struct utsname names;
	char *text;

	uname(&names);
	json_object_set_new(root, "version", json_string(JANKSCOPE_VERSION));
	json_object_set_new(root, "kernel", json_string(names.release));
	json_object_set_new(root, "machine", json_string(names.machine));
	json_object_set_new(root, "usable", json_boolean(usable));
	json_object_set_new(root, "features", array);
	for (size_t i = 0; i < count; i++) {
		json_t *row = json_object();

		json_object_set_new(row, "name", json_string(features[i].name));
		json_object_set_new(row, "ok", json_boolean(features[i].ok));
		json_object_set_new(row, "required", json_boolean(features[i].required));
		json_object_set_new(row, "needed_by", json_string(features[i].needed_by));
		json_object_set_new(row, "detail", json_string(features[i].detail));
		if (features[i].remedy[0])
			json_object_set_new(row, "remedy", json_string(features[i].remedy));
		json_array_append_new(array, row);
	}
	json_object_set_new(root, "processes", json_processes(processes, process_count));
	text = json_dumps(root, JSON_INDENT(1));
	json_decref(root);
	if (!text)
		return EXIT_INTERNAL;
	puts(text);
	free(text);
	return EXIT_FINE;
}

static void print_embedded(void)
{
	const struct embedded_btf *embedded = kernel_btf_embedded();

	fputs("embedded BTF:", stdout);
	if (!embedded || !embedded->name)
		fputs(" none; kernels without their own (android12-5.10, android13-5.10) need "
		      "--btf",
		      stdout);
	for (; embedded && embedded->name; embedded++)
		printf(" %s", embedded->name);
	putchar('\n');
}

static void print_table(const struct feature *features, size_t count, bool usable,
			const struct doctor_process *processes, size_t process_count)
{
	struct utsname names;

	uname(&names);
	printf("jankscope %s on Linux %s %s\n", JANKSCOPE_VERSION, names.release, names.machine);
	for (size_t i = 0; i < count; i++) {
		const struct feature *row = &features[i];

		printf("  %-4s %-18s %s\n",
		       row->ok         ? "ok"
		       : row->required ? "NO"
				       : "no",
		       row->name, row->detail);
		if (!row->ok && row->remedy[0])
			printf("       %-18s -> %s\n", "", row->remedy);
	}
	print_processes(processes, process_count);
	print_embedded();
	puts(usable ? "record: everything that exact numbers need is here"
		    : "record: something that exact numbers need is missing (NO)");
}

enum exit_code verb_doctor(const struct options *options)
{
	struct feature features[MAX_FEATURES];
	struct doctor_process processes[MAX_PROCESSES];
	struct kernel_btf btf = {0};
	bool usable = true;
	size_t count, process_count;
	int err;

	/* As `record` does; where it stays, the namespaces' row says so. */
	namespaces_leave_time();
	err = kernel_btf_open(&btf, options->btf_path, NULL);

	if (err) {
		fprintf(stderr, "jankscope: error: --btf %s: %s\n", options->btf_path,
			err == -EINVAL ? "not a BTF file" : strerror(-err));
		return EXIT_USAGE;
	}
	process_count = doctor_processes(processes, MAX_PROCESSES);
	count = features_probe(features, MAX_FEATURES, btf.path);
	kernel_btf_close(&btf);
	for (size_t i = 0; i < count; i++)
		usable &= features[i].ok || !features[i].required;
	if (options->json)
		err = print_json(features, count, usable, processes, process_count);
	else
		print_table(features, count, usable, processes, process_count);
	if (err)
		return EXIT_INTERNAL;
	if (!usable)
		for (size_t i = 0; i < count; i++)
			if (!features[i].ok && features[i].required)
				fprintf(stderr, "jankscope: error: %s: %s\n", features[i].name,
					features[i].detail);
	return usable ? EXIT_FINE : EXIT_UNSUPPORTED;
}
