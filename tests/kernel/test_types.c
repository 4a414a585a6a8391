/* SPDX-License-Identifier: BSD-2-Clause */
/* The types that are cut out of the kernel's BTF make of our BPF programs what the whole BTF makes
 * of them, instruction for instruction; and damaged BTF is refused or read, and nothing else. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/net.h"
#include "kernel/load.h"
#include "kernel/types.h"
#include "kernel/types_cut.h"
#include "looper.skel.h"
#include "net.skel.h"
#include "sched.skel.h"
#include "tap.h"
#include "tcp.skel.h"

#define OBJECTS 4

static const char *const names[OBJECTS] = {"sched", "looper", "net", "tcp"};

static const void *image_of(int i, size_t *size)
{
	return i == 0   ? sched_bpf__elf_bytes(size)
	       : i == 1 ? looper_bpf__elf_bytes(size)
	       : i == 2 ? net_bpf__elf_bytes(size)
			: tcp_bpf__elf_bytes(size);
}

/* All programs at once, whichever twin they are. */
static struct bpf_object *load(int i, const char *path)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = path);
	struct bpf_program *program;
	struct bpf_object *object;
	struct bpf_map *map;
	size_t size;
	const void *image = image_of(i, &size);

	object = bpf_object__open_mem(image, size, &options);
	if (!object)
		return NULL;
	bpf_object__for_each_program (program, object)
		bpf_program__set_autoload(program, true);
	bpf_object__for_each_map (map, object)
		if (bpf_map__type(map) == BPF_MAP_TYPE_HASH)
			bpf_map__set_max_entries(map, 64);
	if (!bpf_object__load(object))
		return object;
	bpf_object__close(object);
	return NULL;
}

/* Descriptors of maps differ from one load to the next. */
static bool same_insn(const struct bpf_insn *a, const struct bpf_insn *b)
{
	bool map = a->code == (BPF_LD | BPF_DW | BPF_IMM) &&
		   (a->src_reg == BPF_PSEUDO_MAP_FD || a->src_reg == BPF_PSEUDO_MAP_VALUE);

	return a->code == b->code && a->dst_reg == b->dst_reg && a->src_reg == b->src_reg &&
	       a->off == b->off && (map || a->imm == b->imm);
}

static void compare(int i, struct bpf_object *whole, struct bpf_object *cut)
{
	size_t programs = 0, same = 0, insns = 0;
	struct bpf_program *a;

	bpf_object__for_each_program (a, whole) {
		struct bpf_program *b = bpf_object__find_program_by_name(cut, bpf_program__name(a));
		size_t count = bpf_program__insn_cnt(a), k = 0;

		programs++;
		if (!b || bpf_program__insn_cnt(b) != count)
			continue;
		while (k < count && same_insn(bpf_program__insns(a) + k, bpf_program__insns(b) + k))
			k++;
		if (k < count)
			printf("# %s: instruction %zu differs\n", bpf_program__name(a), k);
		same += k == count;
		insns += count;
	}
	tap_ok(programs >= 5 && same == programs,
	       "%s: %zu programs of %zu instructions are the same with the cut types", names[i],
	       programs, insns);
}

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	return *state ^= *state << 5;
}

/* Take every type of a damaged image: whatever it says stays within its bytes (SAN=1 watches). */
static void damage(const uint8_t *whole, size_t size)
{
	uint32_t random = 2463534242u;
	unsigned refused = 0, read = 0;
	uint8_t *bytes = malloc(size);

	for (int round = 0; bytes && round < 300; round++) {
		struct types_image image;
		struct types_cut cut = {0};
		size_t cut_bytes, length = round % 3 ? size : next_random(&random) % size;

		memcpy(bytes, whole, size);
		for (int n = 0; n < 1 + round % 20; n++)
			bytes[next_random(&random) % (round & 1 ? size : 64)] ^=
				(uint8_t)next_random(&random);
		if (types_image_open(&image, NULL, bytes, length)) {
			refused++;
			continue;
		}
		for (uint32_t id = 1; id < image.end_id; id++)
			types_cut_take(&cut, &image, id, id & 1);
		types_cut_settle(&cut);
		free(types_cut_bytes(&cut, &cut_bytes));
		types_cut_free(&cut);
		types_image_close(&image);
		read++;
	}
	free(bytes);
	tap_ok(refused > 50 && read > 50, "damaged types: %u refused, %u read", refused, read);
}

int main(void)
{
	struct bpf_object *whole[OBJECTS], *cut[OBJECTS];
	struct kernel_types types;
	uint8_t *bytes;
	struct stat status;
	size_t size;

	kernel_log_init(false);
	if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		tap_skip("cut types", "this kernel has no BTF");
		return tap_done();
	}
	/* As libbpf does it by itself: once kernel_types_open ran, libbpf asks us. */
	for (int i = 0; i < OBJECTS; i++) {
		whole[i] = load(i, NULL);
		tap_ok(whole[i], "%s loads with the whole BTF", names[i]);
	}
	for (int i = 0; i < OBJECTS; i++) {
		const void *image = image_of(i, &size);

		kernel_types_open(&types, NULL, image, size);
		if (types.fd < 0 || fstat(types.fd, &status))
			status.st_size = -1;
		tap_ok(types.path && status.st_size > 0 && status.st_size < 256 << 10,
		       "%s: types are cut, less than 256 KiB (%lld bytes)", names[i],
		       (long long)status.st_size);
		cut[i] = types.path ? load(i, types.path) : NULL;
		tap_ok(cut[i], "%s loads with them", names[i]);
		if (whole[i] && cut[i])
			compare(i, whole[i], cut[i]);
		if (i == OBJECTS - 1 && types.fd >= 0) {
			bytes = malloc((size_t)status.st_size);
			if (bytes &&
			    pread(types.fd, bytes, (size_t)status.st_size, 0) == status.st_size)
				damage(bytes, (size_t)status.st_size);
			free(bytes);
		}
		kernel_types_close(&types);
		bpf_object__close(whole[i]);
		bpf_object__close(cut[i]);
	}
	return tap_done();
}
