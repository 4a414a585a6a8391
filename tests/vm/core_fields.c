/* SPDX-License-Identifier: BSD-2-Clause */
/* Every CO-RE relocation of BPF objects against a kernel's BTF, without that kernel: is the field
 * there, and if not, does the object ask first? With --load also what the verifier of this machine
 * says of the raw programs relocated for that kernel (missing fields must be in dead code).
 * usage: core_fields [--load] BTF OBJECT.bpf.o...    exit 1: a field is missing without a guard */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RELOCATIONS 4096
#define MAX_DEPTH       16

/* Kinds and layout of .BTF.ext's CO-RE part: include/uapi/linux/bpf.h,
 * tools/lib/bpf/libbpf_internal.h */
enum {
	FIELD_EXISTS = 2,
	TYPE_ID_LOCAL = 6,
	TYPE_EXISTS = 8,
	TYPE_SIZE = 9,
	ENUMVAL_EXISTS = 10,
	ENUMVAL_VALUE = 11
};

struct ext_header {
	__u16 magic;
	__u8 version, flags;
	__u32 hdr_len, func_info_off, func_info_len, line_info_off, line_info_len;
	__u32 core_relo_off, core_relo_len;
};

struct relocation {
	char root[128]; /* of the local type, with its flavour */
	char *fields[MAX_DEPTH];
	unsigned sorts[MAX_DEPTH]; /* of the fields: sort_of */
	size_t depth;
	unsigned kind;
	bool present;
	char text[512];
};

static size_t essential_length(const char *name)
{
	const char *flavour = strstr(name, "___");

	return flavour ? (size_t)(flavour - name) : strlen(name);
}

static int skip_modifiers(const struct btf *btf, int id)
{
	const struct btf_type *type = btf__type_by_id(btf, id);

	while (type && (btf_is_mod(type) || btf_is_typedef(type))) {
		id = (int)type->type;
		type = btf__type_by_id(btf, id);
	}
	return id;
}

/* What libbpf takes for the same (bpf_core_fields_are_compat in tools/lib/bpf/relo_core.c): any
 * struct or union for another, any two integers; never a struct for an integer. A field that
 * differs in this is not there. */
static unsigned sort_of(const struct btf *btf, int id)
{
	const struct btf_type *type = btf__type_by_id(btf, skip_modifiers(btf, id));

	while (type && btf_is_array(type))
		type = btf__type_by_id(btf, skip_modifiers(btf, btf_array(type)->type));
	if (!type)
		return BTF_KIND_UNKN;
	if (btf_is_composite(type))
		return BTF_KIND_STRUCT;
	return btf_is_any_enum(type) ? BTF_KIND_ENUM : btf_kind(type);
}

/* The member of that name, also inside of unnamed ones; its type, or -1. */
static int member_type(const struct btf *btf, int id, const char *name)
{
	const struct btf_type *type = btf__type_by_id(btf, skip_modifiers(btf, id));
	const struct btf_member *member;
	int i, inner;

	while (type && btf_is_array(type))
		type = btf__type_by_id(btf, skip_modifiers(btf, btf_array(type)->type));
	if (!type || !btf_is_composite(type))
		return -1;
	member = btf_members(type);
	for (i = 0; i < btf_vlen(type); i++, member++) {
		const char *own = btf__name_by_offset(btf, member->name_off);

		if (own[0]) {
			if (!strcmp(own, name))
				return (int)member->type;
		} else {
			inner = member_type(btf, (int)member->type, name);
			if (inner >= 0)
				return inner;
		}
	}
	return -1;
}

static bool is_present(const struct btf *kernel, const struct relocation *relocation)
{
	size_t length = essential_length(relocation->root), depth;
	unsigned id, count = btf__type_cnt(kernel);

	for (id = 1; id < count; id++) {
		const struct btf_type *type = btf__type_by_id(kernel, id);
		const char *name = btf__name_by_offset(kernel, type->name_off);
		int at = (int)id;

		if (strncmp(name, relocation->root, length) || name[length])
			continue;
		if (btf_is_any_enum(type)) {
			int i, found = !relocation->depth;

			for (i = 0; i < btf_vlen(type) && !found; i++) {
				__u32 off = btf_is_enum(type) ? btf_enum(type)[i].name_off
							      : btf_enum64(type)[i].name_off;
				const char *own = btf__name_by_offset(kernel, off);
				size_t own_length = essential_length(relocation->fields[0]);

				found = !strncmp(own, relocation->fields[0], own_length) &&
					!own[own_length];
			}
			if (found)
				return true;
			continue;
		}
		if (btf_is_fwd(type) || (!btf_is_composite(type) && relocation->depth))
			continue;
		for (depth = 0; depth < relocation->depth && at >= 0; depth++) {
			at = member_type(kernel, at, relocation->fields[depth]);
			if (at >= 0 && sort_of(kernel, at) != relocation->sorts[depth])
				at = -1;
		}
		if (at >= 0)
			return true;
	}
	return false;
}

static int decode(const struct btf *local, __u32 type_id, const char *access,
		  struct relocation *out)
{
	int id = skip_modifiers(local, (int)type_id);
	const struct btf_type *type = btf__type_by_id(local, id);
	char *text = strdup(access), *save = NULL, *part;
	size_t used;
	bool first = true;
	int err = -EINVAL;

	if (!text || !type)
		goto cleanup;
	snprintf(out->root, sizeof(out->root), "%s", btf__name_by_offset(local, type->name_off));
	used = (size_t)snprintf(out->text, sizeof(out->text), "%s", out->root);
	err = 0;
	if (out->kind >= TYPE_ID_LOCAL && out->kind != ENUMVAL_EXISTS && out->kind != ENUMVAL_VALUE)
		goto cleanup;
	for (part = strtok_r(text, ":", &save); part; part = strtok_r(NULL, ":", &save)) {
		unsigned index = (unsigned)strtoul(part, NULL, 10);
		const char *name = NULL;
		int own = 0;

		if (btf_is_any_enum(type)) {
			if (index >= btf_vlen(type)) {
				err = -EINVAL;
				break;
			}
			name = btf__name_by_offset(
				local, btf_is_enum(type) ? btf_enum(type)[index].name_off
							 : btf_enum64(type)[index].name_off);
		} else if (first) {
			first = false;
			continue; /* the index of the root as an array */
		} else if (btf_is_array(type)) {
			type = btf__type_by_id(local, skip_modifiers(local, btf_array(type)->type));
			continue;
		} else if (btf_is_composite(type) && index < btf_vlen(type)) {
			const struct btf_member *member = btf_members(type) + index;

			own = (int)member->type;
			name = btf__name_by_offset(local, member->name_off);
			type = btf__type_by_id(local, skip_modifiers(local, own));
		} else {
			err = -EINVAL;
			break;
		}
		if (name[0] && out->depth < MAX_DEPTH) {
			out->sorts[out->depth] = sort_of(local, own);
			out->fields[out->depth++] = strdup(name);
			if (used < sizeof(out->text))
				used += (size_t)snprintf(out->text + used, sizeof(out->text) - used,
							 ".%s", name);
		}
	}
cleanup:
	free(text);
	return err;
}

static int read_relocations(const char *object, struct relocation *list, size_t *count)
{
	struct btf_ext *ext = NULL;
	struct btf *local = btf__parse_elf(object, &ext);
	const struct ext_header *header;
	const char *at, *end;
	__u32 size, record, i;
	int err = 0;

	if (!local || !ext)
		return -EINVAL;
	header = btf_ext__get_raw_data(ext, &size);
	if (header->hdr_len < sizeof(*header) || !header->core_relo_len)
		goto cleanup;
	at = (const char *)header + header->hdr_len + header->core_relo_off;
	end = at + header->core_relo_len;
	record = *(const __u32 *)at;
	for (at += 4; at + 8 <= end;) {
		__u32 n = ((const __u32 *)at)[1];

		for (at += 8, i = 0; i < n && at + record <= end; i++, at += record) {
			const __u32 *fields = (const __u32 *)at; /* insn, type, access, kind */
			struct relocation *out = &list[*count];

			if (*count >= MAX_RELOCATIONS) {
				err = -E2BIG;
				goto cleanup;
			}
			*out = (struct relocation){.kind = fields[3]};
			if (out->kind == TYPE_ID_LOCAL)
				continue;
			err = decode(local, fields[1], btf__name_by_offset(local, fields[2]), out);
			if (err)
				goto cleanup;
			(*count)++;
		}
	}
cleanup:
	btf_ext__free(ext);
	btf__free(local);
	return err;
}

static bool is_question(const struct relocation *relocation)
{
	return relocation->kind == FIELD_EXISTS || relocation->kind == TYPE_EXISTS ||
	       relocation->kind == ENUMVAL_EXISTS;
}

static bool same_root(const struct relocation *a, const struct relocation *b)
{
	size_t length = essential_length(a->root);

	return length == essential_length(b->root) && !strncmp(a->root, b->root, length);
}

/* The object asks for this field, or for something on the way to it; or it is the other flavour of
 * a struct whose present form was asked for and is there. */
static bool is_guarded(const struct relocation *list, size_t count,
		       const struct relocation *missing)
{
	size_t i, depth;

	for (i = 0; i < count; i++) {
		const struct relocation *asked = &list[i];
		bool prefix = asked->depth <= missing->depth;

		if (!is_question(asked) || !same_root(asked, missing))
			continue;
		for (depth = 0; prefix && depth < asked->depth; depth++)
			prefix = !strcmp(asked->fields[depth], missing->fields[depth]);
		if (prefix && !asked->present)
			return true;
		if (asked->present && strstr(missing->root, "___"))
			return true;
	}
	return false;
}

static char last_warning[512];

static int keep_warning(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN && !strstr(format, "BEGIN PROG LOAD LOG"))
		vsnprintf(last_warning, sizeof(last_warning), format, arguments);
	return 0;
}

/* Programs whose context needs no types of the running kernel: the twins of kernels without BTF. */
static bool is_raw(const struct bpf_program *program)
{
	enum bpf_prog_type type = bpf_program__type(program);

	return type == BPF_PROG_TYPE_RAW_TRACEPOINT || type == BPF_PROG_TYPE_PERF_EVENT ||
	       type == BPF_PROG_TYPE_KPROBE || type == BPF_PROG_TYPE_TRACEPOINT;
}

/* Helpers that raw programs call and that kernel's enum bpf_func_id does not know, and that the
 * object does not ask for. Their number; -ENOENT if the BTF has no such enum. */
static int unknown_helpers(const struct btf *kernel, const char *path,
			   const struct relocation *list, size_t count)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	const struct btf_type *type = NULL;
	struct bpf_program *program;
	unsigned id;
	int bad = 0;

	if (!object)
		return -errno;
	for (id = 1; id < btf__type_cnt(kernel); id++) {
		type = btf__type_by_id(kernel, id);
		if (btf_is_enum(type) &&
		    !strcmp(btf__name_by_offset(kernel, type->name_off), "bpf_func_id"))
			break;
	}
	if (id == btf__type_cnt(kernel)) {
		bpf_object__close(object);
		return -ENOENT;
	}
	bpf_object__for_each_program (program, object) {
		const struct bpf_insn *insns = bpf_program__insns(program);
		size_t i, n = bpf_program__insn_cnt(program);

		for (i = 0; i < n && is_raw(program); i++) {
			bool known = false, asked = false;
			int e;

			if (insns[i].code != (BPF_JMP | BPF_CALL) || insns[i].src_reg)
				continue;
			for (e = 0; e < btf_vlen(type) && !known; e++)
				known = btf_enum(type)[e].val == insns[i].imm &&
					strcmp(btf__name_by_offset(kernel,
								   btf_enum(type)[e].name_off),
					       "__BPF_FUNC_MAX_ID");
			for (e = 0; e < (int)count && !known && !asked; e++)
				asked = list[e].kind == ENUMVAL_EXISTS && !list[e].present;
			if (!known && !asked) {
				printf("%s: helper %d is unknown there\n",
				       bpf_program__name(program), insns[i].imm);
				bad++;
			}
		}
	}
	bpf_object__close(object);
	return bad;
}

/* Relocate for that kernel and let this machine's verifier read it. Number
 * of programs, or -errno. */
static int try_load(const char *btf_path, const char *path)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .btf_custom_path = btf_path);
	struct bpf_object *object = bpf_object__open_file(path, &options);
	struct bpf_program *program;
	struct bpf_map *map;
	int err, count = 0;

	if (!object)
		return -errno;
	bpf_object__for_each_program (program, object) {
		/* A uprobe's context is the machine's own struct pt_regs, which is another one
		 * there: the guests load these. */
		bool raw = is_raw(program) && bpf_program__type(program) != BPF_PROG_TYPE_KPROBE;

		bpf_program__set_autoload(program, raw);
		count += raw;
	}
	bpf_object__for_each_map (map, object) {
		if (bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF && bpf_map__max_entries(map) < 4096)
			bpf_map__set_max_entries(map, 4096);
		else if (!bpf_map__max_entries(map))
			bpf_map__set_max_entries(map, 1);
	}
	err = count ? bpf_object__load(object) : 0;
	bpf_object__close(object);
	return err ? err : count;
}

int main(int argc, char **argv)
{
	static struct relocation list[MAX_RELOCATIONS];
	bool load = argc > 1 && !strcmp(argv[1], "--load");
	const char *btf_path = argc > 1 + load ? argv[1 + load] : NULL;
	struct btf *kernel;
	int i, bad = 0;

	libbpf_set_print(keep_warning);
	kernel = btf_path ? btf__parse(btf_path, NULL) : NULL;
	if (!kernel) {
		fprintf(stderr, "core_fields: %s: no BTF\n", btf_path ? btf_path : "usage");
		return 2;
	}
	for (i = 2 + load; i < argc; i++) {
		size_t count = 0, n, missing = 0, guarded = 0;
		const char *name = strrchr(argv[i], '/');
		int err = read_relocations(argv[i], list, &count);

		name = name ? name + 1 : argv[i];
		if (err) {
			printf("%s: cannot be read: %s\n", name, strerror(-err));
			bad++;
			continue;
		}
		for (n = 0; n < count; n++)
			list[n].present = is_present(kernel, &list[n]);
		for (n = 0; n < count; n++) {
			size_t before;

			for (before = 0; before < n; before++)
				if (!strcmp(list[before].text, list[n].text) &&
				    is_question(&list[before]) == is_question(&list[n]))
					break;
			if (before < n)
				continue;
			if (list[n].present) {
				printf("%s: has %s%s\n", name, list[n].text,
				       is_question(&list[n]) ? " (asked)" : "");
			} else if (is_question(&list[n])) {
				printf("%s: asked, not there: %s\n", name, list[n].text);
			} else if (is_guarded(list, count, &list[n])) {
				printf("%s: missing, guarded: %s\n", name, list[n].text);
				guarded++;
			} else {
				printf("%s: MISSING WITHOUT A GUARD: %s\n", name, list[n].text);
				missing++;
			}
		}
		bad += missing > 0;
		printf("%s: %zu relocations, %zu missing and guarded, %zu missing\n", name, count,
		       guarded, missing);
		err = unknown_helpers(kernel, argv[i], list, count);
		bad += err > 0;
		if (err < 0)
			printf("%s: helpers: cannot be told: %s\n", name, strerror(-err));
		else
			printf("%s: %d helpers of raw programs are unknown there\n", name, err);
		if (load) {
			err = try_load(btf_path, argv[i]);
			if (err < 0) {
				printf("%s: DOES NOT LOAD: %s: %s\n", name, strerror(-err),
				       last_warning);
				bad++;
			} else {
				printf("%s: %d raw programs pass the verifier\n", name, err);
			}
		}
	}
	btf__free(kernel);
	return bad > 0;
}
