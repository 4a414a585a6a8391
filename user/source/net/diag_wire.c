/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/diag_wire.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WIRE_MAGIC 0x6a6b6e64u /* "jknd" */
#define WIRE_BYTES (64u << 20) /* more than the limits of net_diag.c allow */
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct wire_head {
	uint32_t magic;
	uint32_t socket_count, address_count, namespace_count;
};

_Static_assert(sizeof(struct net_diag_socket) == 56, "crosses a process border");
_Static_assert(sizeof(struct net_diag_address) == 32, "crosses a process border");
_Static_assert(sizeof(struct net_diag_namespace) == 16, "crosses a process border");

size_t net_diag_request_bytes(uint32_t namespace_count)
{
	return offsetof(struct net_diag_request_wire, namespaces) +
	       namespace_count * sizeof(uint64_t);
}

size_t net_diag_packed_bytes(const struct net_diag *diag)
{
	return sizeof(struct wire_head) + diag->socket_count * sizeof(*diag->sockets) +
	       diag->address_count * sizeof(*diag->addresses) +
	       diag->namespace_count * sizeof(*diag->namespaces);
}

static char *append(char *to, const void *items, size_t bytes)
{
	if (bytes)
		memcpy(to, items, bytes);
	return to + bytes;
}

void net_diag_pack(const struct net_diag *diag, void *to)
{
	struct wire_head head = {.magic = WIRE_MAGIC,
				 .socket_count = (uint32_t)diag->socket_count,
				 .address_count = (uint32_t)diag->address_count,
				 .namespace_count = (uint32_t)diag->namespace_count};

	to = append(to, &head, sizeof(head));
	to = append(to, diag->sockets, diag->socket_count * sizeof(*diag->sockets));
	to = append(to, diag->addresses, diag->address_count * sizeof(*diag->addresses));
	append(to, diag->namespaces, diag->namespace_count * sizeof(*diag->namespaces));
}

int net_diag_unpack(struct net_diag *diag, const void *blob, size_t length)
{
	const struct wire_head *head = blob;
	char *at = (char *)blob + sizeof(*head);

	memset(diag, 0, sizeof(*diag));
	if (length < sizeof(*head) || head->magic != WIRE_MAGIC)
		return -EBADMSG;
	/* 32-bit counts of small structs: no overflow in 64 bits. */
	if ((uint64_t)head->socket_count * sizeof(*diag->sockets) +
		    (uint64_t)head->address_count * sizeof(*diag->addresses) +
		    (uint64_t)head->namespace_count * sizeof(*diag->namespaces) !=
	    length - sizeof(*head))
		return -EBADMSG;
	diag->sockets = (void *)at;
	diag->socket_count = head->socket_count;
	at += diag->socket_count * sizeof(*diag->sockets);
	diag->addresses = (void *)at;
	diag->address_count = head->address_count;
	at += diag->address_count * sizeof(*diag->addresses);
	diag->namespaces = (void *)at;
	diag->namespace_count = head->namespace_count;
	return 0;
}

static int write_blob(const struct net_diag *diag, int *memfd)
{
	size_t bytes = net_diag_packed_bytes(diag);
	int fd = memfd_create("jankscope-net-diag", MFD_CLOEXEC | MFD_ALLOW_SEALING), err = 0;
	void *map;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes)) {
		err = -errno;
		goto cleanup;
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		err = -errno;
		goto cleanup;
	}
	net_diag_pack(diag, map);
	munmap(map, bytes);
	if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		err = -errno;
cleanup:
	if (err)
		close(fd);
	else
		*memfd = fd;
	return err;
}

int net_diag_serve(const struct net_diag_request_wire *wire, size_t length, int *memfd)
{
	struct net_diag_request request;
	struct net_diag diag;
	int err;

	if (length < net_diag_request_bytes(0) || wire->namespace_count > NET_DIAG_MAX_NAMESPACES ||
	    length != net_diag_request_bytes(wire->namespace_count))
		return -EBADMSG;
	request = (struct net_diag_request){
		.namespaces = wire->flags & NET_DIAG_WIRE_ALL ? NULL : wire->namespaces,
		.namespace_count = wire->namespace_count,
		.by_cookie = wire->flags & NET_DIAG_WIRE_BY_COOKIE,
		.tcp = wire->flags & NET_DIAG_WIRE_TCP,
		.udp = wire->flags & NET_DIAG_WIRE_UDP,
		.udplite = wire->flags & NET_DIAG_WIRE_UDPLITE};
	err = net_diag_read(&diag, &request);
	if (!err)
		err = write_blob(&diag, memfd);
	net_diag_free(&diag);
	return err;
}

int net_diag_map(struct net_diag *diag, int memfd)
{
	int seals = fcntl(memfd, F_GET_SEALS), err = -EBADMSG;
	struct stat st;
	void *map;

	memset(diag, 0, sizeof(*diag));
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(memfd, &st) || st.st_size <= 0 ||
	    (size_t)st.st_size > WIRE_BYTES)
		goto cleanup;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, memfd, 0);
	if (map == MAP_FAILED) {
		err = -errno;
		goto cleanup;
	}
	err = net_diag_unpack(diag, map, (size_t)st.st_size);
	if (err) {
		munmap(map, (size_t)st.st_size);
		memset(diag, 0, sizeof(*diag));
		goto cleanup;
	}
	diag->mapping = map;
	diag->mapping_bytes = (size_t)st.st_size;
cleanup:
	close(memfd);
	return err;
}
