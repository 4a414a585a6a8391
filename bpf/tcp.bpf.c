/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What TCP had to do again, how long its round trips take, and which connections came to nothing,
 * per uid and over all network namespaces. Loaded where it was asked for. Only raw_tp programs:
 * most of what is read lies in struct tcp_sock behind a pointer that the verifier knows as a struct
 * sock, so typed programs would need as many probe reads. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi/tcp.h"
#include "loss.bpf.h"
#include "socket_owner.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Macros of the kernel, so BTF has none; the same on all architectures that Android has. */
#define ERROR_HOST_DOWN    112
#define ERROR_HOST_UNREACH 113
#define ERROR_NET_DOWN     100
#define ERROR_NET_UNREACH  101
#define ERROR_TIMED_OUT    110
#define ERROR_REFUSED      111

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct tcp_sums);
} tcp_uids SEC(".maps");

/* What a uid begins with: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tcp_sums);
} tcp_nothing SEC(".maps");

DEFINE_LOSSES(tcp_losses, TCP_LOSS_COUNT);

/* NULL: a socket of the kernel's own, or no room. */
static __always_inline struct tcp_sums *sums_of(const struct sock *sk)
{
	const struct sock *holder = uid_holder(sk);
	struct tcp_sums *sums, *nothing;
	__u32 uid, zero = 0;

	if (!holder)
		return NULL;
	uid = BPF_CORE_READ(holder, sk_uid.val);
	sums = bpf_map_lookup_elem(&tcp_uids, &uid);
	if (sums)
		return sums;
	nothing = bpf_map_lookup_elem(&tcp_nothing, &zero);
	if (!nothing)
		return NULL; /* cannot be: an array has its element */
	bpf_map_update_elem(&tcp_uids, &uid, nothing, BPF_NOEXIST);
	sums = bpf_map_lookup_elem(&tcp_uids, &uid);
	if (!sums)
		loss_add(&tcp_losses, TCP_LOSS_UID_MAP_FULL, 1);
	return sums;
}

/* Atomic, because these tracepoints are passed with bottom halves on as well: a program of another
 * tracepoint may run in the middle of this one. */
static __always_inline void count(const struct sock *sk, enum tcp_counter counter, __u64 amount)
{
	struct tcp_sums *sums = sums_of(sk);

	if (sums)
		__sync_fetch_and_add(&sums->counts[counter], amount);
}

/* As __tcp_retransmit_skb counts for total_retrans: the packet's segments (tcp_skb_pcount). On
 * 6.18 the tracepoint is passed where sending failed, too (and says so in a third argument);
 * before, total_retrans alone has those. */
SEC("?raw_tp/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmitted, const struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *control = (const void *)skb + bpf_core_field_offset(skb->cb);

	count(sk, TCP_RETRANSMITS, BPF_CORE_READ(control, tcp_gso_segs));
	return 0;
}

/* The answer to a SYN; it goes to the total_retrans of the socket that is accepted. */
SEC("?raw_tp/tcp_retransmit_synack")
int BPF_PROG(tcp_answered_again, const struct sock *sk)
{
	count(sk, TCP_RETRANSMITS, 1);
	return 0;
}

SEC("?raw_tp/tcp_receive_reset")
int BPF_PROG(tcp_was_reset, const struct sock *sk)
{
	/* A connect() that is refused is told by its state. */
	if (BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_SYN_SENT)
		count(sk, TCP_RESETS_RECEIVED, 1);
	return 0;
}

static __always_inline enum tcp_counter failure_of(int error)
{
	switch (error) {
	case 0:
		return TCP_CONNECTS_GIVEN_UP;
	case ERROR_REFUSED:
		return TCP_CONNECTS_REFUSED;
	case ERROR_TIMED_OUT:
		return TCP_CONNECTS_TIMED_OUT;
	case ERROR_NET_DOWN:
	case ERROR_NET_UNREACH:
	case ERROR_HOST_DOWN:
	case ERROR_HOST_UNREACH:
		return TCP_CONNECTS_UNREACHABLE;
	}
	return TCP_CONNECTS_OTHER;
}

/* sk_err is set before the state changes (tcp_reset, tcp_write_err, tcp_v4_err), and 0 where the
 * program closes the socket. */
SEC("?raw_tp/inet_sock_set_state")
int BPF_PROG(tcp_changed, const struct sock *sk, int old_state, int new_state)
{
	int error;

	if (new_state != TCP_ESTABLISHED && new_state != TCP_CLOSE)
		return 0;
	if (BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	if (new_state == TCP_ESTABLISHED) {
		count(sk, old_state == TCP_SYN_SENT ? TCP_CONNECTS : TCP_ACCEPTS, 1);
		return 0;
	}
	if (old_state == TCP_LISTEN || old_state == TCP_SYN_RECV)
		return 0;
	error = BPF_CORE_READ(sk, sk_err);
	if (old_state == TCP_SYN_SENT)
		count(sk, failure_of(error), 1);
	else if (error == ERROR_TIMED_OUT)
		count(sk, TCP_TIMEOUTS, 1);
	return 0;
}

static __always_inline __u32 bucket_of(__u32 us)
{
	__u32 power = 0, bucket;

	if (us < 4)
		return us;
	if (us >> 16)
		power += 16;
	if (us >> power >> 8)
		power += 8;
	if (us >> power >> 4)
		power += 4;
	if (us >> power >> 2)
		power += 2;
	if (us >> power >> 1)
		power += 1;
	bucket = (power - 1) * 4 + (us >> (power - 2) & 3);
	return bucket < TCP_RTT_BUCKETS ? bucket : TCP_RTT_BUCKETS - 1;
}

#define TCP_AT(field) bpf_core_field_offset(struct tcp_sock, field)

/* Two words of a socket, in one read where they lie side by side (they are 4 to 130 bytes apart in
 * 5.10 to 6.18). */
static __always_inline void read_round_trip(const struct tcp_sock *tp, __u32 *unacked, __u32 *srtt)
{
	__u32 from = TCP_AT(snd_una) < TCP_AT(srtt_us) ? TCP_AT(snd_una) : TCP_AT(srtt_us);
	__u32 end = (TCP_AT(snd_una) < TCP_AT(srtt_us) ? TCP_AT(srtt_us) : TCP_AT(snd_una)) + 4;
	char span[192] __attribute__((aligned(8)));

	if (end - from > sizeof(span) ||
	    bpf_probe_read_kernel(span, end - from, (const void *)tp + from)) {
		*unacked = BPF_CORE_READ(tp, snd_una);
		*srtt = BPF_CORE_READ(tp, srtt_us);
		return;
	}
	*unacked = *(const __u32 *)(span + (TCP_AT(snd_una) - from));
	*srtt = *(const __u32 *)(span + (TCP_AT(srtt_us) - from));
}

/* A segment came for a connection that stands. Where it acknowledges something the kernel's
 * estimate is a fresh one; a program that only receives has one that is as old as its last word. */
SEC("?raw_tp/tcp_probe")
int BPF_PROG(tcp_received, const struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *control = (const void *)skb + bpf_core_field_offset(skb->cb);
	struct tcp_sums *sums;
	__u32 unacked, srtt, bucket;

	read_round_trip((const struct tcp_sock *)sk, &unacked, &srtt);
	if (!srtt || (__s32)(BPF_CORE_READ(control, ack_seq) - unacked) <= 0)
		return 0;
	sums = sums_of(sk);
	if (!sums)
		return 0;
	srtt >>= 3; /* it is kept in eighths of a us */
	bucket = bucket_of(srtt);
	/* The compiler knows that, the verifier does not. */
	asm volatile("" : "+r"(bucket));
	if (bucket >= TCP_RTT_BUCKETS)
		return 0;
	__sync_fetch_and_add(&sums->rtt_us, srtt);
	__sync_fetch_and_add(&sums->rtt_buckets[bucket], 1);
	return 0;
}
