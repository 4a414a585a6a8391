/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/diag.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define MAX_SOCKETS   (1u << 18)
#define MAX_ADDRESSES (1u << 14)
#define ANSWER_BYTES  32768
#define MAX_ANSWERS   65536

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

/* Make room for one more; arrays grow at powers of two. */
static int grow(void **items, size_t count, size_t size, size_t max)
{
	void *grown;

	if (count >= max)
		return -E2BIG;
	if (count && (count < 16 || count & (count - 1)))
		return 0;
	grown = realloc(*items, (count ? count * 2 : 16) * size);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	return 0;
}

static bool is_v4_mapped(const uint32_t address[4])
{
	return !address[0] && !address[1] && address[2] == htonl(0xffff);
}

static void unmap(uint32_t address[4])
{
	address[0] = address[3];
	address[1] = address[2] = address[3] = 0;
}

static int add_socket(struct net_diag *diag, uint64_t netns, uint8_t protocol,
		      const struct inet_diag_msg *msg, size_t length)
{
	struct net_diag_socket *sock;
	const struct rtattr *attr = (const void *)(msg + 1);
	int rest = (int)(length - sizeof(*msg)), err;

	if (msg->idiag_family != AF_INET && msg->idiag_family != AF_INET6)
		return 0;
	err = grow((void **)&diag->sockets, diag->socket_count, sizeof(*diag->sockets),
		   MAX_SOCKETS);
	if (err)
		return err;
	sock = &diag->sockets[diag->socket_count++];
	*sock = (struct net_diag_socket){
		.netns = netns,
		.protocol = protocol,
		.state = msg->idiag_state,
		.ipv6 = msg->idiag_family == AF_INET6,
		.local_port = msg->id.idiag_sport,
		.remote_port = msg->id.idiag_dport,
		.uid = msg->idiag_uid,
		.inode = msg->idiag_inode,
	};
	memcpy(sock->local, msg->id.idiag_src, sock->ipv6 ? 16 : 4);
	memcpy(sock->remote, msg->id.idiag_dst, sock->ipv6 ? 16 : 4);
	/* An IPv6 socket that is bound or connected to an IPv4 address speaks IPv4. */
	if (sock->ipv6 && (is_v4_mapped(sock->local) || is_v4_mapped(sock->remote))) {
		unmap(sock->local);
		unmap(sock->remote);
		sock->ipv6 = false;
	}
	for (; RTA_OK(attr, rest); attr = RTA_NEXT(attr, rest))
		if (attr->rta_type == INET_DIAG_SKV6ONLY && RTA_PAYLOAD(attr) >= 1)
			sock->v6only = *(const uint8_t *)RTA_DATA(attr);
	return 0;
}

static int add_route(struct net_diag *diag, uint64_t netns, const struct rtmsg *msg, size_t length)
{
	const struct rtattr *attr = (const void *)(msg + 1);
	int rest = (int)(length - sizeof(*msg)), err;
	size_t bytes = msg->rtm_family == AF_INET6 ? 16 : 4;
	struct net_diag_address *address;

	if ((msg->rtm_family != AF_INET && msg->rtm_family != AF_INET6) ||
	    (msg->rtm_type != RTN_LOCAL && msg->rtm_type != RTN_BROADCAST &&
	     msg->rtm_type != RTN_ANYCAST) ||
	    msg->rtm_dst_len > bytes * 8)
		return 0;
	err = grow((void **)&diag->addresses, diag->address_count, sizeof(*diag->addresses),
		   MAX_ADDRESSES);
	if (err)
		return err;
	address = &diag->addresses[diag->address_count];
	*address = (struct net_diag_address){
		.netns = netns, .ipv6 = msg->rtm_family == AF_INET6, .prefix = msg->rtm_dst_len};
	for (; RTA_OK(attr, rest); attr = RTA_NEXT(attr, rest))
		if (attr->rta_type == RTA_DST && RTA_PAYLOAD(attr) >= bytes)
			memcpy(address->address, RTA_DATA(attr), bytes);
	diag->address_count++;
	return 0;
}

int net_diag_parse(struct net_diag *diag, uint64_t netns, uint8_t protocol, const void *data,
		   size_t length)
{
	const struct nlmsghdr *nlh = data;
	int err = 0;

	for (; NLMSG_OK(nlh, length); nlh = NLMSG_NEXT(nlh, length)) {
		size_t payload = nlh->nlmsg_len - NLMSG_HDRLEN;

		if (nlh->nlmsg_type == NLMSG_DONE)
			return 0;
		if (nlh->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *error = NLMSG_DATA(nlh);

			if (payload < sizeof(error->error) || error->error >= 0)
				return -EBADMSG;
			return error->error;
		}
		if (nlh->nlmsg_type == SOCK_DIAG_BY_FAMILY &&
		    payload >= sizeof(struct inet_diag_msg))
			err = add_socket(diag, netns, protocol, NLMSG_DATA(nlh), payload);
		else if (nlh->nlmsg_type == RTM_NEWROUTE && payload >= sizeof(struct rtmsg))
			err = add_route(diag, netns, NLMSG_DATA(nlh), payload);
		if (err)
			return err;
	}
	return 1;
}

/* One request and its answers, through a socket of its own. */
static int dump(struct net_diag *diag, uint64_t netns, int family, uint8_t protocol,
		const void *request, size_t request_length)
{
	struct timeval timeout = {.tv_sec = 2};
	char *answer = malloc(ANSWER_BYTES);
	int fd = -1, err = -ENOMEM, one = 1, i;

	if (!answer)
		return err;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
	/* Without it a route dump heeds no filter (89d35528d17d, 4.20): longer, not wrong. */
	if (fd >= 0)
		setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    send(fd, request, request_length, 0) < 0) {
		err = -errno;
		goto cleanup;
	}
	for (i = 0, err = 1; i < MAX_ANSWERS && err > 0; i++) {
		ssize_t got = recv(fd, answer, ANSWER_BYTES, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			err = got < 0 ? -errno : -EPIPE;
		else
			err = net_diag_parse(diag, netns, protocol, answer, (size_t)got);
	}
	if (err > 0)
		err = -EMSGSIZE;
cleanup:
	if (fd >= 0)
		close(fd);
	free(answer);
	return err;
}

static int dump_sockets(struct net_diag *diag, uint64_t netns, uint8_t family, uint8_t protocol)
{
	struct {
		struct nlmsghdr nlh;
		struct inet_diag_req_v2 req;
	} request = {
		.nlh = {.nlmsg_len = sizeof(request),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.req = {.sdiag_family = family, .sdiag_protocol = protocol, .idiag_states = ~0u},
	};

	return dump(diag, netns, NETLINK_SOCK_DIAG, protocol, &request, sizeof(request));
}

static int dump_routes(struct net_diag *diag, uint64_t netns, uint8_t family)
{
	struct {
		struct nlmsghdr nlh;
		struct rtmsg msg;
	} request = {
		.nlh = {.nlmsg_len = sizeof(request),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.msg = {.rtm_family = family, .rtm_table = RT_TABLE_LOCAL},
	};
	int err = dump(diag, netns, NETLINK_ROUTE, 0, &request, sizeof(request));

	return err == -ENOENT ? 0 : err; /* no address yet, so no table */
}

/* Everything of the namespace that the calling thread is in. */
static int dump_namespace(struct net_diag *diag, const struct net_diag_request *request,
			  uint64_t netns)
{
	static const uint8_t families[] = {AF_INET, AF_INET6};
	int err = 0;
	size_t i;

	for (i = 0; i < 2 && !err; i++) {
		err = dump_routes(diag, netns, families[i]);
		if (!err && request->tcp)
			err = dump_sockets(diag, netns, families[i], IPPROTO_TCP);
		if (!err && request->udp)
			err = dump_sockets(diag, netns, families[i], IPPROTO_UDP);
		/* -ENOENT: this kernel has no UDP-Lite, so that nobody has such a socket. */
		if (!err && request->udplite) {
			err = dump_sockets(diag, netns, families[i], IPPROTO_UDPLITE);
			if (err == -ENOENT)
				err = 0;
		}
	}
	return err;
}

/* ---- finding and entering namespaces ---- */
struct walk {
	struct net_diag *diag;
	const struct net_diag_request *request;
	size_t visited;
	uint32_t here; /* the namespace that this thread is in; entering it needs no privilege */
	uint32_t seen[NET_DIAG_MAX_NAMESPACES]; /* inode numbers */
	size_t seen_count;
};

static int read_cookie(uint64_t *cookie)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	socklen_t length = sizeof(*cookie);
	int err =
		fd < 0 || getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &length) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

bool net_diag_has_cookies(void)
{
	uint64_t cookie;

	return !read_cookie(&cookie);
}

static struct net_diag_namespace *find_namespace(const struct net_diag *diag, uint64_t netns)
{
	size_t i;

	for (i = 0; i < diag->namespace_count; i++)
		if (diag->namespaces[i].netns == netns)
			return &diag->namespaces[i];
	return NULL;
}

/* Not found is what a namespace starts as. */
static int add_namespace(struct net_diag *diag, uint64_t netns)
{
	int err = grow((void **)&diag->namespaces, diag->namespace_count, sizeof(*diag->namespaces),
		       NET_DIAG_MAX_NAMESPACES);

	if (!err)
		diag->namespaces[diag->namespace_count++] =
			(struct net_diag_namespace){.netns = netns, .error = -ENOENT};
	return err;
}

static bool was_seen(struct walk *walk, uint32_t inode)
{
	size_t i;

	for (i = 0; i < walk->seen_count; i++)
		if (walk->seen[i] == inode)
			return true;
	return false;
}

static int enter(struct walk *walk, const char *path, uint32_t inode)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_ino != inode)
		err = -ESTALE;
	else if (inode != walk->here && setns(fd, CLONE_NEWNET))
		err = -errno;
	close(fd);
	if (!err)
		walk->here = inode;
	return err;
}

/* Read the namespace behind this path, unless it is not wanted or was read already. */
static void visit(struct walk *walk, const char *path, uint32_t inode)
{
	const struct net_diag_request *request = walk->request;
	struct net_diag_namespace *namespace;
	uint64_t netns = inode;
	int entered, err;

	if (was_seen(walk, inode) || walk->seen_count == NET_DIAG_MAX_NAMESPACES ||
	    (request->namespaces && !request->by_cookie && !find_namespace(walk->diag, netns)))
		return;
	entered = enter(walk, path, inode);
	if (entered == -ENOENT || entered == -ESTALE || entered == -ESRCH)
		return; /* the process went; another one may show the way */
	walk->seen[walk->seen_count++] = inode;
	/* Its name is not known before it is entered. */
	if (request->by_cookie && (entered || read_cookie(&netns)))
		return;
	namespace = find_namespace(walk->diag, netns);
	if (!namespace) {
		if (request->namespaces || add_namespace(walk->diag, netns))
			return;
		namespace = &walk->diag->namespaces[walk->diag->namespace_count - 1];
	}
	err = entered ? entered : dump_namespace(walk->diag, request, netns);
	namespace->error = err == -ENOENT ? -EOPNOTSUPP : err; /* -ENOENT: no inet_diag module */
	walk->visited++;
}

static bool all_visited(const struct walk *walk)
{
	return walk->request->namespaces && walk->visited == walk->diag->namespace_count;
}

static void walk_processes(struct walk *walk)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && !all_visited(walk) && (entry = readdir(proc))) {
		char path[64], text[64];
		unsigned netns;
		ssize_t length;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || strlen(entry->d_name) > 10)
			continue;
		snprintf(path, sizeof(path), "/proc/%.10s/ns/net", entry->d_name);
		length = readlink(path, text, sizeof(text) - 1);
		if (length <= 0)
			continue;
		text[length] = '\0';
		if (sscanf(text, "net:[%u]", &netns) == 1)
			visit(walk, path, netns);
	}
	if (proc)
		closedir(proc);
}

/* A namespace without a process is kept by a mount, as `ip netns` makes it. */
static void walk_mounts(struct walk *walk)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char line[4096], path[2048];
	unsigned netns;

	while (mounts && !all_visited(walk) && fgets(line, sizeof(line), mounts))
		if (sscanf(line, "%*s %*s %*s net:[%u] %2047s", &netns, path) == 2)
			visit(walk, path, netns);
	if (mounts)
		fclose(mounts);
}

static void *walk_namespaces(void *arg)
{
	struct walk *walk = arg;
	struct stat st;

	if (!stat("/proc/thread-self/ns/net", &st)) {
		walk->here = (uint32_t)st.st_ino;
		visit(walk, "/proc/thread-self/ns/net", walk->here);
	}
	if (!all_visited(walk))
		walk_processes(walk);
	if (!all_visited(walk))
		walk_mounts(walk);
	return NULL;
}

int net_diag_read(struct net_diag *diag, const struct net_diag_request *request)
{
	struct walk *walk;
	pthread_t thread;
	size_t i;
	int err;

	memset(diag, 0, sizeof(*diag));
	for (i = 0; request->namespaces && i < request->namespace_count; i++) {
		if (find_namespace(diag, request->namespaces[i]))
			continue;
		err = add_namespace(diag, request->namespaces[i]);
		if (err)
			return err;
	}
	walk = calloc(1, sizeof(*walk));
	if (!walk)
		return -ENOMEM;
	walk->diag = diag;
	walk->request = request;
	/* setns changes the calling thread alone, and this one ends afterwards. */
	err = -pthread_create(&thread, NULL, walk_namespaces, walk);
	if (!err) {
		pthread_join(thread, NULL);
		net_diag_index(diag);
	}
	free(walk);
	return err;
}

void net_diag_free(struct net_diag *diag)
{
	if (diag->mapping) {
		munmap(diag->mapping, diag->mapping_bytes);
		memset(diag, 0, sizeof(*diag));
		return;
	}
	free(diag->sockets);
	free(diag->addresses);
	free(diag->namespaces);
	memset(diag, 0, sizeof(*diag));
}
