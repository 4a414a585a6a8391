/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/redact_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_BYTES (2 * REDACT_KEY_BYTES + 1) /* digits and a newline */

static int make_key(unsigned char key[REDACT_KEY_BYTES])
{
	ssize_t n = getrandom(key, REDACT_KEY_BYTES, 0);

	return n == REDACT_KEY_BYTES ? 0 : n < 0 ? -errno : -EIO;
}

static int digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* -EINVAL: it holds no key; -EPERM: others may read it. */
static int read_key(int fd, unsigned char key[REDACT_KEY_BYTES])
{
	char text[TEXT_BYTES + 1];
	struct stat status;
	ssize_t n;

	if (fstat(fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (status.st_mode & (S_IRWXG | S_IRWXO))
		return -EPERM;
	n = read(fd, text, sizeof(text));
	if (n != TEXT_BYTES || text[TEXT_BYTES - 1] != '\n')
		return n < 0 ? -errno : -EINVAL;
	for (size_t i = 0; i < REDACT_KEY_BYTES; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		key[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}

static int write_key(int fd, const unsigned char key[REDACT_KEY_BYTES])
{
	char text[TEXT_BYTES + 1];

	for (size_t i = 0; i < REDACT_KEY_BYTES; i++)
		sprintf(text + 2 * i, "%02x", key[i]);
	text[TEXT_BYTES - 1] = '\n';
	if (write(fd, text, TEXT_BYTES) != TEXT_BYTES)
		return errno ? -errno : -ENOSPC;
	return fsync(fd) && errno != EINVAL ? -errno : 0;
}

static int take_file(const char *path, unsigned char key[REDACT_KEY_BYTES])
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), err;

	if (fd >= 0) {
		err = read_key(fd, key);
		close(fd);
		return err;
	}
	if (errno != ENOENT)
		return -errno;
	err = make_key(key);
	if (err)
		return err;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = write_key(fd, key);
	close(fd);
	if (err)
		unlink(path);
	return err;
}

enum exit_code redact_key_take(const struct options *options, struct redactor **redactor)
{
	unsigned char key[REDACT_KEY_BYTES];
	const char *path = options->redact_key;
	int err = 0;

	*redactor = NULL;
	if (!options->redact && !path)
		return EXIT_FINE;
	err = path ? take_file(path, key) : make_key(key);
	if (err) {
		fprintf(stderr, "jankscope: error: --redact%s%s: %s\n", path ? "-key " : "",
			path ? path : "",
			err == -EINVAL  ? "it holds no key; name a file that is not there yet"
			: err == -EPERM ? "others may read the key: chmod it to 600"
					: strerror(-err));
		return err == -EINVAL || err == -EPERM ? EXIT_USAGE : EXIT_INTERNAL;
	}
	*redactor = redactor_new(key);
	explicit_bzero(key, sizeof(key));
	for (size_t i = 0; *redactor && !err && i < options->target_count; i++)
		if (options->targets[i].kind == TARGET_NAME)
			err = redactor_add_name(*redactor, options->targets[i].name);
	if (*redactor && !err)
		return EXIT_FINE;
	fprintf(stderr, "jankscope: error: %s\n", strerror(ENOMEM));
	return EXIT_INTERNAL;
}
