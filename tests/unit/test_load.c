/* SPDX-License-Identifier: BSD-2-Clause */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "kernel/load.h"

static const char *explain(int err, const char *what)
{
	static char reason[160];

	kernel_explain(err, what, reason, sizeof(reason));
	cr_expect_null(strchr(reason, '\n'), "one line: %s", reason);
	cr_expect_eq(strncmp(reason, what, strlen(what)), 0, "%s", reason);
	return reason;
}

Test(kernel_load, every_error_says_what_to_do)
{
	kernel_log_init(false);
	kernel_log_clear();
	cr_expect_str_empty(kernel_log_reason());
	cr_expect(strstr(explain(-ESRCH, "cpu"), "CONFIG_DEBUG_INFO_BTF"));
	cr_expect(strstr(explain(-ESRCH, "cpu"), "--btf"));
	cr_expect(strstr(explain(-ENOSYS, "cpu"), "CONFIG_BPF_SYSCALL"));
	cr_expect(strstr(explain(-EPERM, "cpu"), geteuid() ? "CAP_BPF" : "refused"));
	cr_expect(strstr(explain(-EACCES, "cpu"), "seccomp"));
	cr_expect(strstr(explain(-ENOMEM, "cpu"), "memory"));
}

/* libbpf prints through the function that kernel_log_init() gave to it. */
static void print(enum libbpf_print_level level, const char *format, ...)
{
	libbpf_print_fn_t product = libbpf_set_print(NULL);
	va_list arguments;

	va_start(arguments, format);
	product(level, format, arguments);
	va_end(arguments);
	libbpf_set_print(product);
}

Test(kernel_load, reason_is_kept_until_cleared)
{
	kernel_log_init(false);
	kernel_log_clear();
	print(LIBBPF_INFO, "libbpf: loading %s\n", "sched");
	cr_expect_str_empty(kernel_log_reason(), "only a warning is a reason");
	print(LIBBPF_WARN, "libbpf: %s\nand more\n", "the first warning");
	print(LIBBPF_WARN, "libbpf: what follows from it\n");
	cr_expect_str_eq(kernel_log_reason(), "libbpf: the first warning");
	cr_expect(strstr(explain(-EINVAL, "cpu"), "the first warning"));
	/* The verifier's verdict says more than what was printed before it. */
	print(LIBBPF_WARN, "0: (79) r1 = *(u64 *)(r1 +0)\nR1 invalid mem access 'scalar'\n"
			   "processed 3 insns (limit 1000000)\n");
	cr_expect_str_eq(kernel_log_reason(), "R1 invalid mem access 'scalar'");
	kernel_log_clear();
	cr_expect_str_empty(kernel_log_reason());
	/* And libbpf itself, with what is no ELF file. */
	cr_assert_null(bpf_object__open_mem("no object", 9, NULL));
	cr_expect_str_not_empty(kernel_log_reason());
}

Test(kernel_load, short_buffer_is_cut)
{
	char reason[8];

	kernel_explain(-ENOSYS, "a long name of something", reason, sizeof(reason));
	cr_expect_str_eq(reason, "a long ");
}

/* A tracepoint in made-up BTF: a typedef to a pointer to a function with the private first. */
Test(kernel_load, arguments_of_a_tracepoint)
{
	struct btf *btf = btf__new_empty();
	int number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	int proto = btf__add_func_proto(btf, 0);

	cr_assert_eq(btf__add_func_param(btf, "__data", number), 0);
	cr_assert_eq(btf__add_func_param(btf, "preempt", number), 0);
	cr_assert_eq(btf__add_func_param(btf, "prev", number), 0);
	cr_assert_gt(btf__add_typedef(btf, "btf_trace_good", btf__add_ptr(btf, proto)), 0);
	cr_assert_gt(btf__add_typedef(btf, "btf_trace_int", number), 0);
	cr_assert_gt(btf__add_typedef(btf, "btf_trace_ptr", btf__add_ptr(btf, number)), 0);
	cr_assert_gt(btf__add_typedef(btf, "btf_trace_none",
				      btf__add_ptr(btf, btf__add_func_proto(btf, 0))),
		     0);
	cr_expect_eq(tracepoint_arguments(btf, "good"), 2);
	cr_expect_eq(tracepoint_arguments(btf, "int"), -ENOENT);
	cr_expect_eq(tracepoint_arguments(btf, "ptr"), -ENOENT);
	cr_expect_eq(tracepoint_arguments(btf, "none"), -ENOENT);
	cr_expect_eq(tracepoint_arguments(btf, "absent"), -ENOENT);
	cr_expect_eq(tracepoint_arguments(NULL, "good"), -ENOENT);
	btf__free(btf);
}

Test(kernel_load, names_of_the_twins)
{
	cr_expect_str_eq(program_variant_name(VARIANT_TP_BTF), "tp_btf");
	cr_expect_str_eq(program_variant_name(VARIANT_RAW_TP), "raw_tp");
	cr_expect_str_eq(program_variant_name(VARIANT_AUTO), "auto");
}
