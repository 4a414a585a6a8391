/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of the kernel's ring buffer, containers, clocks: what the real traces do not reach. */
#include "trace/container.h"
#include "trace/perfetto_clock.h"
#include "trace/ring_page.h"
#include "trace/wire.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char page_64[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
			      "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
			      "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
			      "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
static const char page_32[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
			      "\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"
			      "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
			      "\tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
static const char event[] = "# compressed entry header\n\ttype_len    :    5 bits\n"
			    "\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n"
			    "\tpadding     : type == 29\n\ttime_extend : type == 30\n"
			    "\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
static const char print[] =
	"name: print\nID: 5\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	"\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n";

struct seen {
	int64_t ts[8];
	int32_t tid[8];
	size_t count;
	uint64_t lost;
};

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct seen *seen = ctx;

	cr_assert_lt(seen->count, 8);
	seen->ts[seen->count] = mark->ts_ns;
	seen->tid[seen->count++] = mark->tid;
}

static void on_loss(void *ctx, const char *reason, uint64_t count)
{
	((struct seen *)ctx)->lost += count;
}

static const struct trace_events events = {.mark = on_mark, .loss = on_loss};

static struct ring_layout layout_of(const char *page)
{
	struct ring_layout layout;

	cr_assert_eq(ring_layout_page(&layout, page), 0);
	cr_assert_eq(ring_layout_event(&layout, event), 0);
	cr_assert_eq(ring_layout_print(&layout, print), 0);
	return layout;
}

static size_t put32(uint8_t *page, size_t at, uint32_t value)
{
	memcpy(page + at, &value, 4);
	return at + 4;
}

/* An entry of the print event with a text of at most 8 bytes: 24 bytes. */
static size_t put_print(uint8_t *page, size_t at, uint32_t delta, uint16_t id, const char *text)
{
	int32_t pid = 77;

	at = put32(page, at, 6 | delta << 5);
	memset(page + at, 0, 24);
	memcpy(page + at, &id, 2);
	memcpy(page + at + 4, &pid, 4);
	memcpy(page + at + 16, text, strlen(text));
	return at + 24;
}

static void check_page(const char *description)
{
	struct ring_layout layout = layout_of(description);
	uint8_t page[4096] = {0};
	struct seen seen = {.count = 0};
	uint64_t ts = 1000000, missed = 3;
	uint32_t commit;
	size_t at = layout.data_offset;

	memcpy(page, &ts, 8);
	at = put_print(page, at, 10, 5, "E|1");
	at = put_print(page, at, 20, 6, "E|1"); /* another event */
	at = put32(page, at, 30 | 5 << 5);      /* time extend: (2 << 27) + 5 */
	at = put32(page, at, 2);
	at = put_print(page, at, 0, 5, "B|1|x\n");
	/* padding in the middle, with a length */
	at = put32(page, at, 29 | 1 << 5);
	at = put32(page, at, 8);
	at = put32(page, at, 0);
	/* a long entry: its length stands in front */
	at = put32(page, at, 0 | 7 << 5);
	at = put32(page, at, 28);
	memcpy(page + at, page + layout.data_offset + 4, 24);
	at += 24;
	/* an absolute time */
	at = put32(page, at, 31 | 9 << 5);
	at = put32(page, at, 1);
	at = put_print(page, at, 1, 5, "E|1");
	commit = (uint32_t)(at - layout.data_offset) | 1u << 31 | 1u << 30;
	memcpy(page + layout.commit_offset, &commit, 4);
	memcpy(page + at, &missed, 8);
	cr_assert_eq(ring_page_decode(&layout, page, sizeof(page), &events, &seen), 5);
	cr_assert_eq(seen.count, 4);
	cr_assert_eq(seen.lost, 3);
	cr_assert_eq(seen.tid[0], 77);
	cr_assert_eq(seen.ts[0], 1000010);
	cr_assert_eq(seen.ts[1], 1000035 + (2LL << 27));
	cr_assert_eq(seen.ts[2], 1000042 + (2LL << 27));
	cr_assert_eq(seen.ts[3], 10 + (1LL << 27));
	/* whatever is broken in it, nothing outside of the page is read */
	for (size_t byte = 0; byte < at; byte++) {
		for (unsigned value = 0; value < 256; value += 51) {
			uint8_t *copy = malloc(sizeof(page));
			struct seen any = {.count = 0};

			memcpy(copy, page, sizeof(page));
			copy[byte] = (uint8_t)value;
			ring_page_decode(&layout, copy, sizeof(page), &events, &any);
			free(copy);
		}
	}
	cr_assert_eq(ring_page_decode(&layout, page, 10, &events, &seen), -EBADMSG);
}

Test(ring_page, of_64_bits)
{
	check_page(page_64);
}

Test(ring_page, of_32_bits)
{
	check_page(page_32);
}

Test(ring_page, descriptions_that_lack_something)
{
	struct ring_layout layout;

	cr_assert_eq(ring_layout_page(&layout, "field: u64 timestamp; offset:0; size:8;\n"),
		     -EBADMSG);
	cr_assert_eq(ring_layout_page(&layout, ""), -EBADMSG);
	cr_assert_eq(ring_layout_event(&layout, "type_len : 5 bits\n"), -EBADMSG);
	cr_assert_eq(ring_layout_print(&layout, page_64), -EBADMSG);
}

/* The clocks parted at one snapshot among thousands: an error near to it and none elsewhere, asked
 * for by more frames than could look at each snapshot. */
Test(clocks, errors_of_many_snapshots)
{
	const int64_t SNAPSHOTS = 8000, STEP = 1000000, JUMP = 777000, AT = 4242;
	struct trace_clocks *clocks = trace_clocks_new();
	int64_t boot, offset, wrong = 0;

	for (int64_t n = 0; n < SNAPSHOTS; n++) {
		offset = n >= AT ? JUMP : 0;
		cr_assert_eq(trace_clocks_add(clocks, 0, 0, CLOCK_ID_MONOTONIC, n * STEP,
					      n * STEP + offset),
			     0);
	}
	/* nothing was converted by it yet */
	cr_expect_eq(trace_clocks_error(clocks, 0, INT64_MAX), 0);
	cr_assert(trace_clocks_convert(clocks, 0, 0, CLOCK_ID_MONOTONIC, 5, &boot));
	for (int64_t n = 0; n + 3 < SNAPSHOTS; n++) {
		int64_t from_ns = n * STEP + (n >= AT ? JUMP : 0) + STEP / 4;
		/* from the snapshot before the jump to the one behind the first that has it */
		bool near = n >= AT - 1 && n <= AT;

		wrong += (trace_clocks_error(clocks, from_ns, from_ns + 1) != 0) != near;
	}
	cr_expect_eq(wrong, 0, "%lld", (long long)wrong);
	cr_expect_eq(trace_clocks_error(clocks, (AT - 1) * STEP + 1, (AT - 1) * STEP + 2), JUMP);
	cr_expect_eq(trace_clocks_error(clocks, 0, INT64_MAX), JUMP);
	/* one more, behind all, on which a clock goes back */
	cr_assert_eq(trace_clocks_add(clocks, 0, 0, CLOCK_ID_MONOTONIC, SNAPSHOTS * STEP, 5), 0);
	cr_expect_gt(trace_clocks_error(clocks, 0, 10), JUMP);
	trace_clocks_free(clocks);
}

Test(clocks, the_latest_snapshot_before)
{
	struct trace_clocks *clocks = trace_clocks_new();
	int64_t boot = 0;

	cr_assert(!trace_clocks_convert(clocks, 0, 0, CLOCK_ID_MONOTONIC, 5, &boot));
	cr_assert(trace_clocks_convert(clocks, 0, 0, CLOCK_ID_BOOTTIME, 5, &boot) && boot == 5);
	trace_clocks_add(clocks, 0, 0, CLOCK_ID_MONOTONIC, 2000, 12000);
	trace_clocks_add(clocks, 0, 0, CLOCK_ID_MONOTONIC, 1000, 1500);
	cr_assert(trace_clocks_convert(clocks, 0, 0, CLOCK_ID_MONOTONIC, 10, &boot) && boot == 510);
	cr_assert(trace_clocks_convert(clocks, 0, 0, CLOCK_ID_MONOTONIC, 1999, &boot) &&
		  boot == 2499);
	cr_assert(trace_clocks_convert(clocks, 0, 0, CLOCK_ID_MONOTONIC, 2000, &boot) &&
		  boot == 12000);
	/* another machine has clocks of its own */
	cr_assert(!trace_clocks_convert(clocks, 1, 0, CLOCK_ID_MONOTONIC, 5, &boot));
	trace_clocks_free(clocks);
}

struct bare {
	uint8_t data[4096];
	size_t size;
	unsigned begun, ended;
	enum trace_format format;
};

static int on_begin(void *ctx, enum trace_format format)
{
	struct bare *bare = ctx;

	bare->begun++;
	bare->format = format;
	return 0;
}

static int on_data(void *ctx, const uint8_t *data, size_t size)
{
	struct bare *bare = ctx;

	cr_assert_leq(bare->size + size, sizeof(bare->data));
	memcpy(bare->data + bare->size, data, size);
	bare->size += size;
	return 0;
}

static int on_end(void *ctx)
{
	((struct bare *)ctx)->ended++;
	return 0;
}

static const struct container_ops ops = {on_begin, on_data, on_end};

/* Through a container in pieces of every size. */
static void expect_bare(const uint8_t *data, size_t size, const char *text, unsigned members)
{
	for (size_t piece = 1; piece <= size; piece += 1 + piece / 4) {
		struct bare bare = {.size = 0};
		struct container *c = container_new(&ops, &bare);

		for (size_t at = 0; at < size; at += piece)
			cr_assert_eq(
				container_feed(c, data + at, size - at < piece ? size - at : piece),
				0);
		cr_assert_eq(container_finish(c), 0, "%s", container_error(c));
		cr_assert_eq(bare.size, strlen(text), "%zu bytes", bare.size);
		cr_assert(!memcmp(bare.data, text, bare.size));
		cr_assert_eq(bare.begun, members);
		cr_assert_eq(bare.ended, members);
		container_free(c);
	}
}

static size_t gzip(const char *text, uint8_t *out, size_t size, int window_bits)
{
	z_stream z = {.next_in = (uint8_t *)text,
		      .avail_in = (unsigned)strlen(text),
		      .next_out = out,
		      .avail_out = (unsigned)size};

	cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return size - z.avail_out;
}

Test(container, gzip_of_several_members)
{
	uint8_t data[1024];
	size_t n = gzip("# tracer: nop\n", data, sizeof(data), 31);

	n += gzip("second\n", data + n, sizeof(data) - n, 31);
	memset(data + n, 0, 40); /* padding of a tape */
	expect_bare(data, n + 40, "# tracer: nop\nsecond\n", 1);
}

Test(container, ctrace_with_talk_before_and_garbage_behind)
{
	uint8_t data[1024] = "capturing trace... done\nTRACE:\n";
	size_t n = strlen((char *)data);

	n += gzip("# tracer: nop\nline\n", data + n, sizeof(data) - n, 15);
	memset(data + n, 0xaa, 100);
	expect_bare(data, n + 100, "# tracer: nop\nline\n", 1);
	expect_bare((const uint8_t *)"TRACE:\n# tracer: nop\n", 21, "TRACE:\n# tracer: nop\n", 1);
}

Test(container, tar_of_two_files)
{
	uint8_t data[512 * 6] = {0};
	uint8_t *at = data;
	static const char *const texts[] = {"# tracer: nop\n", "# tracer: two\n"};

	for (unsigned i = 0; i < 2; i++, at += 1024) {
		snprintf((char *)at, 100, "file%u", i);
		snprintf((char *)at + 124, 12, "%011o", (unsigned)strlen(texts[i]));
		at[156] = '0';
		memcpy(at + 257, "ustar", 6);
		memcpy(at + 512, texts[i], strlen(texts[i]));
	}
	expect_bare(data, sizeof(data), "# tracer: nop\n# tracer: two\n", 2);
}

Test(container, zip_with_a_data_descriptor_and_a_stored_member)
{
	uint8_t data[1024] = {0}, *at = data;
	static const char stored[] = "# tracer: two\n";
	size_t n;

	memcpy(at, "PK\3\4", 4);
	at[6] = 8; /* sizes follow the data */
	at[8] = 8;
	at[26] = 1;
	at[30] = 'a';
	n = gzip("# tracer: nop\n", at + 31, 500, -15);
	at += 31 + n;
	memcpy(at, "PK\7\10", 4);
	at += 16;
	memcpy(at, "PK\3\4", 4);
	at[18] = at[22] = (uint8_t)strlen(stored);
	at[26] = 1;
	at[30] = 'b';
	memcpy(at + 31, stored, strlen(stored));
	at += 31 + strlen(stored);
	memcpy(at, "PK\1\2", 4);
	at += 46;
	expect_bare(data, (size_t)(at - data), "# tracer: nop\n# tracer: two\n", 2);
}

Test(wire, limits)
{
	static const uint8_t group[] = {0x0b}, cut[] = {0x0a, 5, 1}, zero[] = {0x00},
			     endless[] = {0x08, 255, 255, 255, 255, 255,
					  255,  255, 255, 255, 255, 1};
	struct wire_field field;
	struct wire wire = wire_of(group, sizeof(group));

	cr_assert_eq(wire_next(&wire, &field), -EBADMSG);
	wire = wire_of(cut, sizeof(cut));
	cr_assert_eq(wire_next(&wire, &field), -EBADMSG);
	wire = wire_of(zero, sizeof(zero));
	cr_assert_eq(wire_next(&wire, &field), -EBADMSG);
	wire = wire_of(endless, sizeof(endless));
	cr_assert_eq(wire_next(&wire, &field), -EBADMSG);
	wire = wire_of(cut, 0);
	cr_assert_eq(wire_next(&wire, &field), 0);
}
