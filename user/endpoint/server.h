/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages for a scraper on the same device, served in a loop: one request a connection, nobody is
 * waited for, and memory is bounded. README.md says who may ask and what a hostile client can do.
 */
#pragma once
#include <stddef.h>

struct endpoint;
struct endpoint_address;
struct loop;

#define ENDPOINT_CONNECTIONS 4             /* that are served at a time */
#define ENDPOINT_PAGE_BYTES  (256u << 10)  /* of a page, at the most */
#define ENDPOINT_TIMEOUT_NS  5000000000ull /* for a request, and again for its answer */
#define ENDPOINT_CACHE_NS    100000000ull  /* a page is made anew after this */

/* A page, made when it is asked for: text becomes the caller's, who frees it. 0; -EAGAIN: not now,
 * something else is due, but in 10 ms; another -errno. Must not wait. */
struct endpoint_page {
	const char *path, *type; /* "/metrics", its media type */
	int (*make)(void *ctx, char **text, size_t *bytes);
};

/* Listen there; see endpoint_listen(). NULL with errno. */
struct endpoint *endpoint_new(const struct endpoint_address *address);
/* Serve these pages (two at the most, the caller's) in this loop from now on; loop NULL: leave it,
 * before it is freed. 0 or -errno. */
int endpoint_join_loop(struct endpoint *endpoint, struct loop *loop,
		       const struct endpoint_page *pages, size_t page_count, void *ctx);
void endpoint_free(struct endpoint *endpoint);
