/* SPDX-License-Identifier: BSD-2-Clause */
/* The order that include/abi/ promises is in the object code: begun, ended and the sequences are
 * added to by atomics that fetch (BPF_FETCH), which the arm64 JIT makes ordering ones of, and none
 * of them is in a subprogram, where kernel/atomics.c would not find it for older kernels. Reads the
 * objects of this build and, where it was made, of the arm64 one. */
#include <fcntl.h>
#include <gelf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

#define FETCH 1

struct counts {
	unsigned fetch_32, fetch_64;
};

static struct counts count_in(Elf_Data *data)
{
	const struct bpf_insn *code = data->d_buf;
	struct counts counts = {0};

	for (size_t i = 0; i < data->d_size / sizeof(*code); i++) {
		bool fetch = code[i].imm == (BPF_ADD | FETCH);

		counts.fetch_32 += fetch && code[i].code == (BPF_STX | BPF_ATOMIC | BPF_W);
		counts.fetch_64 += fetch && code[i].code == (BPF_STX | BPF_ATOMIC | BPF_DW);
	}
	return counts;
}

/* The least that a section needs: a begin and an end of the slot for each program of it. */
static const struct need {
	const char *object, *section;
	unsigned fetch_32, fetch_64;
} needs[] = {
	{"looper", "?uprobe/epoll", 2, 0},
	{"looper", "?uprobe/poll", 2, 0},
	{"looper", "?uprobe/select", 2, 0},
	{"looper", "?uprobe/leave", 2, 0},
	{"looper", "?tp_btf/sys_enter", 2, 0},
	{"looper", "?raw_tp/sys_enter", 2, 0},
	{"looper", "?tp_btf/sched_process_exec", 2, 0},
	{"looper", "?raw_tp/sched_process_exec", 2, 0},
	/* switch-out and switch-in of a looper; the stash: odd, even, odd */
	{"sched", "?tp_btf/sched_switch", 4, 3},
	{"sched", "?raw_tp/sched_switch", 4, 3},
	/* into a section and out of it, in each of its uses */
	{"net", "?tp_btf/netif_receive_skb", 0, 2},
	{"net", "?raw_tp/netif_receive_skb", 0, 2},
	{"net", "?tp_btf/net_dev_queue", 0, 2},
	{"net", "?raw_tp/net_dev_queue", 0, 2},
	{"net", "?tp_btf/inet_sock_set_state", 0, 4},
	{"net", "?raw_tp/inet_sock_set_state", 0, 4},
};

static void test_object(const char *folder, const char *arch, const char *name)
{
	char path[700];
	GElf_Shdr header;
	unsigned met = 0, wanted = 0;
	Elf_Scn *section = NULL;
	size_t names;
	Elf *elf;
	int fd;

	snprintf(path, sizeof(path), "%s/%s.bpf.o", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_getshdrstrndx(elf, &names)) {
		tap_skip(path, "this build has not made it");
		goto cleanup;
	}
	while ((section = elf_nextscn(elf, section))) {
		const char *title = NULL;
		struct counts counts;

		if (gelf_getshdr(section, &header))
			title = elf_strptr(elf, names, header.sh_name);
		if (!title || header.sh_type != SHT_PROGBITS || !(header.sh_flags & SHF_EXECINSTR))
			continue;
		counts = count_in(elf_getdata(section, NULL));
		if (!strcmp(title, ".text"))
			tap_ok(!counts.fetch_32 && !counts.fetch_64,
			       "%s %s: no subprogram holds a fetching add", arch, name);
		for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++) {
			const struct need *need = &needs[i];
			/* On arm64 the slots and CPUs of all tasks, too. */
			unsigned more = !strcmp(arch, "arm64") && *name == 's' ? 4 : 0;

			if (strcmp(need->object, name) || strcmp(need->section, title))
				continue;
			met++;
			tap_ok(counts.fetch_32 >= need->fetch_32 + more &&
				       counts.fetch_64 >= need->fetch_64,
			       "%s %s: %u and %u adds fetch", arch, title, counts.fetch_32,
			       counts.fetch_64);
		}
	}
	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
		wanted += !strcmp(needs[i].object, name);
	tap_ok(met == wanted, "%s %s: %u of %u sections are there", arch, name, met, wanted);
cleanup:
	elf_end(elf);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
#ifdef __aarch64__
	const char *host = "arm64";
#else
	const char *host = "x86_64";
#endif
	char folder[512], *end;

	elf_version(EV_CURRENT);
	snprintf(folder, sizeof(folder), "%.400s", argv[0]);
	end = strstr(folder, "/tests/kernel/");
	if (!end) {
		tap_skip("order", "not run from a build folder");
		return 0;
	}
	strcpy(end, "/bpf");
	test_object(folder, host, "sched");
	test_object(folder, host, "looper");
	test_object(folder, host, "net");
	if (strcmp(host, "arm64")) {
		strcpy(end, "/arm64/bpf");
		test_object(folder, "arm64", "sched");
		test_object(folder, "arm64", "looper");
		test_object(folder, "arm64", "net");
	}
	return tap_done();
}
