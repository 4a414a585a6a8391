/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/types.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

#include "kernel/types_cut.h"

#define BTF_FOLDER "/sys/kernel/btf"
#define MAX_BYTES  (64u << 20)
#define MAX_IDS    64
#define NAME_BYTES 64

/* libbpf asks for the number of a program's tracepoint or iterator through a callback that knows
 * the program only. The numbers are constants of the running kernel. */
static struct {
	bool registered;
	size_t count;
	struct {
		char name[NAME_BYTES];
		uint32_t id;
	} of[MAX_IDS];
} kernel_ids;

/* A name that the object gives to a type, and whether the kernel has one like it. */
struct wanted {
	char *name;
	bool found;
	UT_hash_handle hh;
};

/* Variables that each CPU has, and where they lie in their section of this kernel. */
enum percpu { PERCPU_RUNQUEUES, PERCPU_PREEMPT_COUNT, PERCPU_HOT, PERCPU_NAMES };
static struct {
	uint32_t id; /* of its BTF_KIND_VAR; 0: the kernel has none */
	bool placed;
	uint32_t offset;
} percpu[PERCPU_NAMES];

/* ---- the bytes ---- */

struct file_bytes {
	void *bytes;
	size_t size;
};

/* Kernels since 6.16 let the file be mapped; before, it is copied. */
static int read_file(const char *path, struct file_bytes *file)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	size_t done = 0;
	ssize_t n = 1;

	*file = (struct file_bytes){.bytes = MAP_FAILED};
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || status.st_size <= 0 || status.st_size > MAX_BYTES) {
		close(fd);
		return -EINVAL;
	}
	file->size = (size_t)status.st_size;
	file->bytes = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file->bytes == MAP_FAILED) {
		file->bytes = mmap(NULL, file->size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		while (file->bytes != MAP_FAILED && done < file->size && n > 0) {
			n = pread(fd, (char *)file->bytes + done, file->size - done, (off_t)done);
			done += n > 0 ? (size_t)n : 0;
		}
	}
	close(fd);
	if (file->bytes != MAP_FAILED && n > 0)
		return 0;
	if (file->bytes != MAP_FAILED)
		munmap(file->bytes, file->size);
	file->bytes = MAP_FAILED;
	return -EIO;
}

static void free_file(struct file_bytes *file)
{
	if (file->bytes != MAP_FAILED)
		munmap(file->bytes, file->size);
	file->bytes = MAP_FAILED;
}

/* ---- what the object names ---- */

static bool want(struct wanted **all, const char *name, size_t length)
{
	struct wanted *wanted;

	HASH_FIND(hh, *all, name, length, wanted);
	if (wanted || !length)
		return true;
	wanted = calloc(1, sizeof(*wanted));
	if (!wanted || !(wanted->name = strndup(name, length))) {
		free(wanted);
		return false;
	}
	HASH_ADD_KEYPTR(hh, *all, wanted->name, length, wanted);
	return true;
}

static struct wanted *find_wanted(struct wanted *all, const char *name)
{
	struct wanted *wanted;

	HASH_FIND(hh, all, name, strlen(name), wanted);
	return wanted;
}

static void free_wanted(struct wanted *all)
{
	struct wanted *wanted, *next;

	HASH_ITER (hh, all, wanted, next) {
		HASH_DEL(all, wanted);
		free(wanted->name);
		free(wanted);
	}
}

static bool is_named_kind(const struct btf_type *type)
{
	switch (btf_kind(type)) {
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
	case BTF_KIND_TYPEDEF:
		return true;
	}
	return false;
}

/* Types by their names, without the flavour behind "___". */
static bool want_types(struct wanted **all, const void *btf, size_t size)
{
	struct types_image image;
	bool good = true;

	if (types_image_open(&image, NULL, btf, size))
		return false;
	for (uint32_t id = image.first_id; id < image.end_id && good; id++) {
		const struct btf_type *type = types_image_type(&image, id);
		const char *name = types_image_string(&image, type->name_off), *flavour;

		flavour = strstr(name, "___");
		if (is_named_kind(type) && *name)
			good = want(all, name, flavour ? (size_t)(flavour - name) : strlen(name));
	}
	types_image_close(&image);
	return good;
}

/* Tracepoints and iterators by the sections of their programs. */
static bool want_section(struct wanted **all, const char *section)
{
	const char *slash = strrchr(section, '/');
	char name[NAME_BYTES];

	if (!slash)
		return true;
	snprintf(name, sizeof(name), "%s%s", strstr(section, "iter/") ? "bpf_iter_" : "btf_trace_",
		 slash + 1);
	return want(all, name, strlen(name));
}

static bool want_all(struct wanted **all, const void *object, size_t object_bytes)
{
	Elf *elf;
	Elf_Scn *section = NULL;
	size_t names;
	bool good = false;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)object, object_bytes);
	if (!elf || elf_getshdrstrndx(elf, &names)) {
		elf_end(elf);
		return false;
	}
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header)
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;
		Elf_Data *data;

		if (!name || (header.sh_type == SHT_PROGBITS && header.sh_flags & SHF_EXECINSTR &&
			      !want_section(all, name)))
			continue;
		if (strcmp(name, ".BTF") || !(data = elf_getdata(section, NULL)))
			continue;
		good = want_types(all, data->d_buf, data->d_size);
	}
	elf_end(elf);
	/* Not in the object: whether the kernel has them decides what is loaded. */
	return good && want(all, "bpf_mem_alloc", 13) && want(all, "btf_trace_cap_capable", 21);
}

/* ---- what the kernel has of it ---- */

static void remember_id(const char *name, uint32_t id)
{
	for (size_t i = 0; i < kernel_ids.count; i++)
		if (!strcmp(kernel_ids.of[i].name, name))
			return;
	if (kernel_ids.count == MAX_IDS)
		return;
	snprintf(kernel_ids.of[kernel_ids.count].name, NAME_BYTES, "%s", name);
	kernel_ids.of[kernel_ids.count++].id = id;
}

/* A section stands behind its variables. */
static void take_percpu(const struct types_image *image, uint32_t id, const struct btf_type *type)
{
	static const char *const names[PERCPU_NAMES] = {"runqueues", "__preempt_count", "pcpu_hot"};
	const char *name = types_image_string(image, type->name_off);
	const struct btf_var_secinfo *entry = btf_var_secinfos(type);

	if (btf_is_var(type)) {
		for (int i = 0; i < PERCPU_NAMES; i++)
			if (!strcmp(name, names[i]))
				percpu[i].id = id;
		return;
	}
	if (strcmp(name, ".data..percpu"))
		return;
	for (uint32_t i = 0; i < btf_vlen(type); i++, entry++)
		for (int k = 0; k < PERCPU_NAMES; k++)
			if (percpu[k].id && percpu[k].id == entry->type) {
				percpu[k].placed = true;
				percpu[k].offset = entry->offset;
			}
}

static void find_preempt_count(struct kernel_types *types)
{
	enum percpu found = percpu[PERCPU_PREEMPT_COUNT].placed ? PERCPU_PREEMPT_COUNT : PERCPU_HOT;

	if (!percpu[PERCPU_RUNQUEUES].placed || !percpu[found].placed)
		return;
	types->preempt_count =
		found == PERCPU_HOT ? PREEMPT_COUNT_IN_HOT : PREEMPT_COUNT_IS_VARIABLE;
	types->preempt_count_distance =
		(int64_t)percpu[found].offset - (int64_t)percpu[PERCPU_RUNQUEUES].offset;
}

static void take_wanted(struct types_cut *cut, struct wanted *all, const struct types_image *image,
			bool missing_only)
{
	for (uint32_t id = image->first_id; id < image->end_id; id++) {
		const struct btf_type *type = types_image_type(image, id);
		bool function = btf_kind(type) == BTF_KIND_FUNC;
		struct wanted *wanted;
		const char *name;
		bool trace;

		if (!missing_only && (btf_is_var(type) || btf_is_datasec(type)))
			take_percpu(image, id, type);
		if (!function && !is_named_kind(type))
			continue;
		name = types_image_string(image, type->name_off);
		wanted = find_wanted(all, name);
		if (!wanted || (missing_only && wanted->found))
			continue;
		trace = !strncmp(name, "btf_trace_", 10);
		if (!missing_only && (function ? !strncmp(name, "bpf_iter_", 9) : trace))
			remember_id(name, id);
		if (!function)
			types_cut_take(cut, image, id, trace);
	}
	types_cut_settle(cut);
	for (uint32_t id = image->first_id; id < image->end_id && !missing_only; id++) {
		const struct btf_type *type = types_image_type(image, id);
		struct wanted *wanted =
			is_named_kind(type)
				? find_wanted(all, types_image_string(image, type->name_off))
				: NULL;

		if (wanted)
			wanted->found = true;
	}
}

/* Types that only a loaded module has, as libbpf would look for them. */
static void take_from_modules(struct types_cut *cut, struct wanted *all,
			      const struct types_image *kernel)
{
	DIR *folder = opendir(BTF_FOLDER);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		struct types_image image;
		struct file_bytes file;
		char path[300];

		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "vmlinux"))
			continue;
		snprintf(path, sizeof(path), BTF_FOLDER "/%s", entry->d_name);
		if (read_file(path, &file))
			continue;
		if (!types_image_open(&image, kernel, file.bytes, file.size)) {
			take_wanted(cut, all, &image, true);
			types_image_close(&image);
		}
		free_file(&file);
	}
	if (folder)
		closedir(folder);
}

static int make_cut(struct types_cut *cut, struct wanted *all)
{
	struct types_image image;
	struct file_bytes file;
	int err = read_file(BTF_FOLDER "/vmlinux", &file);

	if (err)
		return err;
	err = types_image_open(&image, NULL, file.bytes, file.size);
	if (!err) {
		take_wanted(cut, all, &image, false);
		take_from_modules(cut, all, &image);
		types_image_close(&image);
	}
	free_file(&file);
	return cut->failed ? -ENOMEM : err;
}

/* ---- libbpf's callbacks ---- */

static uint32_t find_id(const char *name)
{
	for (size_t i = 0; i < kernel_ids.count; i++)
		if (!strcmp(kernel_ids.of[i].name, name))
			return kernel_ids.of[i].id;
	return 0;
}

/* Another object of this process, that no kernel_types_open was called for. */
static uint32_t look_up_id(const char *name)
{
	struct types_image image;
	struct file_bytes file;
	uint32_t found = 0;

	if (read_file(BTF_FOLDER "/vmlinux", &file))
		return 0;
	if (!types_image_open(&image, NULL, file.bytes, file.size)) {
		for (uint32_t id = 1; id < image.end_id && !found; id++) {
			const struct btf_type *type = types_image_type(&image, id);

			if ((btf_is_typedef(type) || btf_is_func(type)) &&
			    !strcmp(types_image_string(&image, type->name_off), name))
				found = id;
		}
		types_image_close(&image);
	}
	free_file(&file);
	return found;
}

/* Until here the program stood as one that needs no type information of the kernel, because libbpf
 * reads all of it for any other. */
static int prepare(struct bpf_program *program, struct bpf_prog_load_opts *options, long cookie)
{
	const char *section = bpf_program__section_name(program), *slash = strrchr(section, '/');
	bool iterator = !strncmp(section, "iter", 4);
	char name[NAME_BYTES];

	if (!slash)
		return -EINVAL;
	snprintf(name, sizeof(name), "%s%s", iterator ? "bpf_iter_" : "btf_trace_", slash + 1);
	options->attach_btf_id = find_id(name) ?: look_up_id(name);
	if (!options->attach_btf_id)
		return -ESRCH;
	options->expected_attach_type = iterator ? BPF_TRACE_ITER : BPF_TRACE_RAW_TP;
	return bpf_program__set_type(program, BPF_PROG_TYPE_TRACING);
}

static int attach(const struct bpf_program *program, long cookie, struct bpf_link **link)
{
	*link = bpf_program__attach_trace(program);
	return *link ? 0 : -errno;
}

static int attach_iterator(const struct bpf_program *program, long cookie, struct bpf_link **link)
{
	*link = bpf_program__attach_iter(program, NULL);
	return *link ? 0 : -errno;
}

static bool register_handlers(void)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, trace, .prog_prepare_load_fn = prepare,
		    .prog_attach_fn = attach);
	LIBBPF_OPTS(libbpf_prog_handler_opts, iterator, .prog_prepare_load_fn = prepare,
		    .prog_attach_fn = attach_iterator);

	if (!kernel_ids.registered)
		kernel_ids.registered =
			libbpf_register_prog_handler("tp_btf+", BPF_PROG_TYPE_RAW_TRACEPOINT,
						     BPF_TRACE_RAW_TP, &trace) >= 0 &&
			libbpf_register_prog_handler("iter+", BPF_PROG_TYPE_RAW_TRACEPOINT,
						     BPF_TRACE_ITER, &iterator) >= 0;
	return kernel_ids.registered;
}

/* ---- the whole ---- */

static int put_in_memory(struct kernel_types *types, const struct types_cut *cut)
{
	size_t size, done = 0;
	char *bytes = types_cut_bytes(cut, &size);
	int fd = bytes ? memfd_create("jankscope-types", MFD_CLOEXEC) : -1;

	while (fd >= 0 && done < size) {
		ssize_t n = write(fd, bytes + done, size - done);

		if (n <= 0) {
			close(fd);
			fd = -1;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	free(bytes);
	if (fd < 0)
		return -ENOMEM;
	types->fd = fd;
	snprintf(types->memory_path, sizeof(types->memory_path), "/proc/self/fd/%d", fd);
	types->path = types->memory_path;
	return 0;
}

void kernel_types_open(struct kernel_types *types, const char *btf_path, const void *object,
		       size_t object_bytes)
{
	struct types_cut cut = {0};
	struct wanted *all = NULL, *caches;

	*types = (struct kernel_types){.path = btf_path, .fd = -1};
	if (btf_path)
		return;
	if (want_all(&all, object, object_bytes) && !make_cut(&cut, all) && register_handlers() &&
	    !put_in_memory(types, &cut)) {
		caches = find_wanted(all, "bpf_mem_alloc");
		types->has_element_caches = caches && caches->found;
		find_preempt_count(types);
	}
	types_cut_free(&cut);
	free_wanted(all);
}

void kernel_types_close(struct kernel_types *types)
{
	if (types->fd >= 0)
		close(types->fd);
	*types = (struct kernel_types){.fd = -1};
}
