/* SPDX-License-Identifier: BSD-2-Clause */
/* What is told of places in a JIT compiler's code: the line of a method whose own ArtMethod its
 * frame has. */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stack/code/jit_told.h"
#include "stack/registers.h"
#include "unit/made_oat.h"

#define CODE     0x20000000ull /* the bytes of oat data, where a compiler keeps the same */
#define APK      0x30000000ull
#define METHOD   0x71000000ull /* of number 1; behind it that of number 0 */
#define CLASS    0x72000000ull
#define CACHE    0x73000000ull
#define DEX_FILE 0x7400000000ull

static struct world {
	struct stack_files files;
	uint8_t oat[0x400];
	int apk;
	struct modules *modules;
	struct dex_code *dex;
	struct stack_maps *maps;
} world;

/* Words at their addresses, of 64 bits. */
static const uint64_t words[][2] = {
	{METHOD, CLASS},     {METHOD + 8, 1},        {METHOD + 16, CLASS}, {METHOD + 24, 0},
	{CLASS + 16, CACHE}, {CACHE + 16, DEX_FILE}, {DEX_FILE + 8, APK},
};

static ssize_t read_memory(void *ctx, const struct stack_process *process, uint64_t address,
			   void *to, size_t length)
{
	if (address >= CODE && address - CODE < sizeof(world.oat)) {
		uint64_t at = address - CODE;

		length = length < sizeof(world.oat) - at ? length : sizeof(world.oat) - at;
		memcpy(to, world.oat + at, length);
		return (ssize_t)length;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i][0] != address)
			continue;
		length = length < 8 ? length : 8;
		memcpy(to, &words[i][1], length);
		return (ssize_t)length;
	}
	return -EFAULT;
}

static int open_mapping(void *ctx, const struct stack_process *process,
			const struct stack_mapping *mapping, struct stack_file *file)
{
	*file = (struct stack_file){.fd = dup(world.apk),
				    .inode = mapping->inode,
				    .size_bytes = (uint64_t)lseek(world.apk, 0, SEEK_END)};
	return 0;
}

static void start(void)
{
	static const char text[] = "30000000-30010000 r--p 00000000 08:01 8   /data/app/base.apk\n";
	static struct made_bytes dex;
	struct made_dex_facts facts;

	made_dex(&dex, MADE_035, 0, &facts);
	made_oat(world.oat, "239", dex.bytes + 12,
		 STACK_HOST_ARCH == STACK_ARM64 ? &made_oat_arm64 : &made_oat_x86_64);
	world.apk = memfd_create("apk", MFD_CLOEXEC);
	cr_assert_eq(write(world.apk, dex.bytes, dex.size), (ssize_t)dex.size);
	world.files = (struct stack_files){.open = open_mapping, .memory = read_memory};
	world.modules = modules_new(&world.files, 1 << 20);
	world.dex = dex_code_new(&world.files, world.modules);
	world.maps = maps_parse(strdup(text), sizeof(text) - 1, NULL);
	cr_assert(world.modules && world.dex && world.maps);
}

static void stop(void)
{
	dex_code_provider.free(world.dex);
	modules_free(world.modules);
	maps_put(world.maps);
	close(world.apk);
}

static void expect_line(uint64_t art_method, const char *name, uint32_t line)
{
	const struct module_scope scope = {
		.process = {1, 1}, .arch = STACK_HOST_ARCH, .maps = world.maps};
	const struct jit_asked asked = {
		.files = &world.files,
		.scope = &scope,
		.dex = world.dex,
		.version = 239,
		.code = CODE + MADE_OAT_SHARED,
		.offset =
			STACK_HOST_ARCH == STACK_ARM64 ? made_oat_arm64.call : made_oat_x86_64.call,
		.art_method = art_method,
		.name = name,
	};
	struct oat_told told;

	cr_assert_eq(jit_tell(&asked, &told), 0);
	cr_expect_eq(told.dex_place, MADE_OAT_DEX_PC + 1);
	cr_expect_eq(told.line, line, "%s: %u", name, told.line);
	/* What was not found may be so in another stack. */
	cr_expect_eq(told.partial, !line, "%s", name);
	oat_told_free(&told);
}

Test(jit_told, line_of_the_method_itself, .init = start, .fini = stop)
{
	expect_line(METHOD, "app.Db$Inner.sleep", 300);
	expect_line(METHOD, "void app.Db$Inner.sleep(int)", 300);
	expect_line(METHOD, "app.Db$Inner.sleepless", 0);
	expect_line(METHOD, "my.app.Db$Inner.sleep", 0);
	expect_line(METHOD, "", 0);
	/* another method's, what is none, and nothing */
	expect_line(METHOD + 16, "app.Db$Inner.sleep", 0);
	expect_line(METHOD + 8, "app.Db$Inner.sleep", 0);
	expect_line(CODE, "app.Db$Inner.sleep", 0);
	expect_line(UINT64_MAX, "app.Db$Inner.sleep", 0);
	expect_line(0, "app.Db$Inner.sleep", 0);
}
