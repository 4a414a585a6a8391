/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whose a TCP socket is. */
#pragma once
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "abi/net.h"

/* A subflow of MPTCP is a socket of the kernel's; the app's is the one that it belongs to. */
static __always_inline const struct sock *mptcp_parent(const struct sock *sk)
{
	const struct mptcp_subflow_context *context;

	if (!bpf_core_type_exists(struct mptcp_subflow_context) ||
	    !bpf_core_field_exists(((struct tcp_sock *)0)->is_mptcp) ||
	    !BPF_CORE_READ((const struct tcp_sock *)sk, is_mptcp))
		return NULL;
	context = BPF_CORE_READ((const struct inet_connection_sock *)sk, icsk_ulp_data);
	return context ? BPF_CORE_READ(context, conn) : NULL;
}

/* Whose uid counts for a TCP socket, or NULL: it is the kernel's own. */
static __always_inline const struct sock *uid_holder(const struct sock *sk)
{
	if (!BPF_CORE_READ_BITFIELD_PROBED(sk, sk_kern_sock))
		return sk;
	return mptcp_parent(sk);
}

static __always_inline __u64 owner_of(const struct sock *holder)
{
	return NET_OWNER(NET_OWNER_UID, BPF_CORE_READ(holder, sk_uid.val));
}
