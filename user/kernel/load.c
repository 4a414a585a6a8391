/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/load.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *program_variant_name(enum program_variant variant)
{
	switch (variant) {
	case VARIANT_TP_BTF:
		return "tp_btf";
	case VARIANT_RAW_TP:
		return "raw_tp";
	case VARIANT_AUTO:
		break;
	}
	return "auto";
}

/* libbpf's print callback has no context pointer, so its state must stand here. */
static struct {
	bool verbose;
	char reason[160];
} log_state;

/* The line before "processed N insns" is the verifier's verdict; libbpf prints the whole log in one
 * message. */
static void keep_verdict(const char *message)
{
	const char *end = strstr(message, "\nprocessed ");
	const char *begin;
	size_t length;

	if (!end)
		return;
	for (begin = end; begin > message && begin[-1] != '\n'; begin--)
		;
	length = (size_t)(end - begin);
	if (length >= sizeof(log_state.reason))
		length = sizeof(log_state.reason) - 1;
	memcpy(log_state.reason, begin, length);
	log_state.reason[length] = 0;
}

static int log_print(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char message[4096];
	va_list copy;

	va_copy(copy, arguments);
	vsnprintf(message, sizeof(message), format, copy);
	va_end(copy);
	if (level == LIBBPF_WARN) {
		keep_verdict(message);
		if (!log_state.reason[0]) {
			size_t length = strcspn(message, "\n");

			if (length >= sizeof(log_state.reason))
				length = sizeof(log_state.reason) - 1;
			memcpy(log_state.reason, message, length);
			log_state.reason[length] = 0;
		}
	}
	if (log_state.verbose && level <= LIBBPF_INFO)
		fprintf(stderr, "jankscope: debug: %s", message);
	return 0;
}

void kernel_log_init(bool verbose)
{
	log_state.verbose = verbose;
	libbpf_set_print(log_print);
}

const char *kernel_log_reason(void)
{
	return log_state.reason;
}

void kernel_log_clear(void)
{
	log_state.reason[0] = 0;
}

int tracepoint_arguments(const struct btf *btf, const char *tracepoint)
{
	char name[128];
	const struct btf_type *type;
	int id;

	if (!btf)
		return -ENOENT;
	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return -ENOENT;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (unsigned)id)->type);
	if (!type || !btf_is_ptr(type))
		return -ENOENT;
	type = btf__type_by_id(btf, type->type);
	if (!type || !btf_is_func_proto(type) || !btf_vlen(type))
		return -ENOENT;
	return btf_vlen(type) - 1;
}

/* Neither what bpf() asks for since 5.8 nor the one that stands for it. A root without them is one
 * of a container. */
static bool lacks_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	uint64_t effective;

	if (syscall(SYS_capget, &header, data))
		return false;
	effective = data[0].effective | (uint64_t)data[1].effective << 32;
	return !(effective >> CAP_SYS_ADMIN & 1) &&
	       !((effective >> CAP_BPF & 1) && (effective >> CAP_PERFMON & 1));
}

/* libbpf says that there is no BTF when it cannot open the file of it for want of descriptors. */
static bool no_descriptors(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), pair[2];
	bool none = fd < 0 && (errno == EMFILE || errno == ENFILE);

	if (fd >= 0) {
		none = pipe2(pair, O_CLOEXEC) && (errno == EMFILE || errno == ENFILE);
		if (!none) {
			close(pair[0]);
			close(pair[1]);
		}
		close(fd);
	}
	return none;
}

void kernel_explain(int err, const char *what, char *reason, size_t size)
{
	const char *detail = kernel_log_reason();

	if (err == -EMFILE || err == -ENFILE || no_descriptors())
		snprintf(reason, size, "%s: too many open files: raise the limit (ulimit -n)",
			 what);
	else if (err == -EPERM && geteuid() != 0)
		snprintf(reason, size,
			 "%s: not permitted: run as root, or with CAP_BPF and CAP_PERFMON", what);
	else if (err == -EPERM && lacks_capabilities())
		snprintf(reason, size,
			 "%s: not permitted: this root is a limited one, without CAP_BPF and "
			 "CAP_PERFMON",
			 what);
	else if (err == -EPERM || err == -EACCES)
		/* That not even libbpf's trivial program loads says no more than err does. */
		snprintf(reason, size, "%s: the kernel refused it (%s): %s", what, strerror(-err),
			 detail[0] && !strstr(detail, "probe_loading")
				 ? detail
				 : "seccomp, SELinux or a locked-down kernel?");
	else if (err == -ESRCH || strstr(detail, "BTF"))
		snprintf(reason, size,
			 "%s: no BTF: needs CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux) or "
			 "--btf FILE",
			 what);
	else if (err == -ENOSYS)
		snprintf(reason, size, "%s: this kernel has no bpf(): needs CONFIG_BPF_SYSCALL",
			 what);
	else
		snprintf(reason, size, "%s: %s%s%s", what, strerror(-err), detail[0] ? ": " : "",
			 detail);
}
