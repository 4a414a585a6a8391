/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "jankscope/record.h"
#include "sink/text.h"
#include "store/folder.h"
#include "store/repair.h"
#include "store/verify.h"
#include "verb/verb.h"

struct checking {
	const char *path;
	struct verifier *verifier;
	int dir_fd;  /* of a folder; -1: a file */
	int pid;     /* who writes it now; 0: nobody */
	bool packed; /* the file read last was compressed */
	size_t stale;
	struct store_list list;
};

static void complain(const char *path, int err)
{
	fprintf(stderr, "jankscope: error: %s: %s\n", path, strerror(-err));
}

/* Whether an index says of a segment what it is. */
static bool index_is_right(const struct store_segment *segment, uint64_t bytes, uint32_t crc)
{
	return segment->known && segment->facts.bytes == bytes && segment->facts.crc == crc;
}

static int read_segment(struct checking *checking, const struct store_segment *segment, bool last)
{
	uint64_t bytes = 0;
	uint32_t crc = 0;
	bool packed;
	FILE *in = segment_open(checking->dir_fd, segment->number, &packed);
	int err;

	/* Removed since the folder was listed, to keep a limit: the gap tells of it. */
	if (!in && errno == ENOENT)
		return 0;
	verifier_begin(checking->verifier, segment->number);
	if (!in) {
		verifier_unreadable(checking->verifier, -errno);
		return 0;
	}
	err = verifier_stream(checking->verifier, in, &bytes, &crc);
	fclose(in);
	if (err && err != -ENOMEM && err != -EPROTONOSUPPORT) {
		verifier_unreadable(checking->verifier, err);
		err = 0;
	}
	if (!err && !(last && checking->pid) && !index_is_right(segment, bytes, crc))
		checking->stale++;
	return err;
}

static int read_folder(struct checking *checking)
{
	int err = 0;

	checking->pid = store_folder_writer(checking->dir_fd);
	err = store_list_read(&checking->list, checking->dir_fd);
	for (size_t i = 0; i < checking->list.count && !err; i++)
		err = read_segment(checking, &checking->list.items[i],
				   i + 1 == checking->list.count);
	return err;
}

static int read_file(struct checking *checking)
{
	FILE *in = segment_open_file(AT_FDCWD, checking->path);
	int err;

	if (!in)
		return -errno;
	/* The writer of a file holds its lock. */
	if (fileno(in) >= 0 && flock(fileno(in), LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK)
		checking->pid = 1;
	verifier_begin(checking->verifier, 0);
	err = verifier_stream(checking->verifier, in, NULL, NULL);
	fclose(in);
	if (err && err != -ENOMEM && err != -EPROTONOSUPPORT) {
		verifier_unreadable(checking->verifier, err);
		err = 0;
	}
	return err;
}

static const char *name_of(const struct checking *checking, uint64_t number, char *name,
			   size_t size)
{
	char segment[SEGMENT_NAME], clean[4096];
	bool packed;
	FILE *in;

	text_clean(clean, sizeof(clean), checking->path);
	if (checking->dir_fd < 0) {
		snprintf(name, size, "%s", clean);
		return name;
	}
	in = segment_open(checking->dir_fd, number, &packed);
	if (in)
		fclose(in);
	snprintf(name, size, "%s%s%s", clean, clean[strlen(clean) - 1] == '/' ? "" : "/",
		 segment_name(segment, number, in && packed));
	return name;
}

/* Each finding with its file and the offset of its line (in a compressed segment: of its content).
 */
static void print_findings(const struct checking *checking)
{
	const struct verify_counts *counts = verifier_counts(checking->verifier);
	const struct finding *finding;
	char name[4200] = "", text[FINDING_TEXT], clean[FINDING_TEXT];
	uint64_t named = UINT64_MAX;

	for (size_t i = 0; (finding = verifier_finding(checking->verifier, i)); i++) {
		bool live = checking->pid && finding->kind == FINDING_TORN && finding->explained;

		if (live)
			continue; /* it is being written */
		if (finding->segment != named)
			name_of(checking, finding->segment, name, sizeof(name));
		named = finding->segment;
		printf("%s:%" PRIu64 ": %s%s\n", name, finding->offset,
		       text_clean(clean, sizeof(clean), finding_text(finding, text, sizeof(text))),
		       finding->explained ? " (the recording tells of it)" : "");
	}
	if (counts->not_kept)
		printf("%s: %" PRIu64 " more findings\n", name, counts->not_kept);
}

static void print_summary(const struct checking *checking)
{
	const struct verify_counts *counts = verifier_counts(checking->verifier);
	char name[4096], state[64] = "";

	if (checking->dir_fd >= 0 && checking->pid)
		snprintf(state, sizeof(state), ", being written by pid %d", checking->pid);
	else if (checking->pid)
		snprintf(state, sizeof(state), ", being written");
	printf("%s: ", text_clean(name, sizeof(name), checking->path));
	if (checking->dir_fd >= 0)
		printf("%" PRIu64 " segments, ", counts->segments);
	printf("%" PRIu64 " runs, %" PRIu64 " lines, %" PRIu64 " intervals%s\n", counts->runs,
	       counts->lines, counts->intervals, state);
	if (counts->unknown)
		printf("%" PRIu64 " lines of types that this version does not know\n",
		       counts->unknown);
	printf("torn %" PRIu64 ", damaged %" PRIu64 ", missing %" PRIu64
	       " records, doubled %" PRIu64 "; not explained: %" PRIu64 "\n",
	       counts->torn, counts->damaged, counts->missing, counts->doubled,
	       counts->unexplained);
	if (checking->stale)
		printf("the index is not right about %zu segments: --repair makes it anew\n",
		       checking->stale);
}

/* Torn ends only: a damaged line in the middle stays what it is. */
static int repair(struct checking *checking)
{
	const struct finding *finding;
	char name[SEGMENT_NAME];
	int err = 0;

	if (checking->pid) {
		fprintf(stderr, "jankscope: error: --repair %s: it is being written\n",
			checking->path);
		return -EBUSY;
	}
	for (size_t i = 0; !err && (finding = verifier_finding(checking->verifier, i)); i++) {
		if (finding->kind != FINDING_TORN)
			continue;
		err = checking->dir_fd < 0
			      ? store_cut_tail(AT_FDCWD, checking->path, finding->offset)
			      : store_cut_tail(checking->dir_fd,
					       segment_name(name, finding->segment, false),
					       finding->offset);
		if (!err)
			printf("cut off: %" PRIu64 " bytes, now in a file .torn beside it\n",
			       finding->bytes);
	}
	if (!err && checking->dir_fd >= 0)
		err = store_index_rebuild(checking->dir_fd);
	if (err) {
		fprintf(stderr, "jankscope: error: --repair %s: %s\n", checking->path,
			strerror(-err));
		return err;
	}
	return 0;
}

/* A disk that gives its segments no more tells nothing of what they are. */
static bool is_unreadable(const struct checking *checking)
{
	const struct finding *finding;

	for (size_t i = 0; (finding = verifier_finding(checking->verifier, i)); i++)
		if (checking->dir_fd >= 0 && finding->kind == FINDING_UNREADABLE)
			return true;
	return false;
}

static enum exit_code judge(struct checking *checking, int err, const struct options *options)
{
	const struct verify_counts *counts = verifier_counts(checking->verifier);

	if (err == -EPROTONOSUPPORT) {
		fprintf(stderr,
			"jankscope: error: %s: schema %" PRId64
			": this jankscope reads %d at the most; use a newer one\n",
			checking->path, counts->schema, RECORD_SCHEMA);
		return EXIT_UNSUPPORTED;
	}
	if (err) {
		complain(checking->path, err);
		return EXIT_INTERNAL;
	}
	if (!checking->pid)
		verifier_check_last(checking->verifier, checking->list.last_known);
	verifier_end(checking->verifier, checking->pid != 0, checking->list.last_removed);
	if (counts->lines == counts->damaged + counts->torn && !counts->runs &&
	    !is_unreadable(checking)) {
		fprintf(stderr, "jankscope: error: %s: not a recording\n", checking->path);
		return EXIT_USAGE;
	}
	print_findings(checking);
	print_summary(checking);
	if (options->repair && repair(checking))
		return EXIT_INTERNAL;
	return counts->unexplained ? EXIT_INCOMPLETE : EXIT_FINE;
}

static enum exit_code verify(const char *path, const struct options *options)
{
	struct checking checking = {.path = path, .verifier = verifier_new(), .dir_fd = -1};
	enum exit_code code;
	int err;

	if (!checking.verifier || (options->deep && verifier_check_values(checking.verifier))) {
		verifier_free(checking.verifier);
		complain(path, -ENOMEM);
		return EXIT_INTERNAL;
	}
	checking.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = checking.dir_fd >= 0 ? read_folder(&checking)
	      : errno == ENOTDIR   ? read_file(&checking)
				   : -errno;
	code = judge(&checking, err, options);
	if (checking.dir_fd >= 0)
		close(checking.dir_fd);
	store_list_free(&checking.list);
	verifier_free(checking.verifier);
	return code;
}

enum exit_code verb_verify(const struct options *options)
{
	enum exit_code code = EXIT_FINE, one;

	if (!options->argument_count) {
		fprintf(stderr, "jankscope: error: verify: name a recording; see jankscope verify "
				"--help\n");
		return EXIT_USAGE;
	}
	for (int i = 0; i < options->argument_count; i++) {
		one = verify(options->arguments[i], options);
		if (one && (!code || code == EXIT_INCOMPLETE))
			code = one;
	}
	return code;
}
