// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Paces RoCEv2 flows of this host. Each packet of a flow with an order gets the earliest time
 * at which it may leave, and qdisc fq, which follows this program, keeps it until then.
 *
 * Data leaves in order, and no packet earlier than the octets before it take at the flow's
 * rate. Acknowledgements wait neither for that nor for the end of a stop, but stay after
 * earlier read responses. CNPs do not wait.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	TC_ACT_UNSPEC = -1, /* continue as without a program */

	ETHER_IPV4 = 0x0800,
	ETHER_IPV6 = 0x86DD,
	PROTO_UDP = 17,
	PORT_ROCEV2 = 4791,
	OPCODE_CNP = 0x81,

	FRACTION = 24, /* bits */
	LONGEST = 1 << 16, /* octets of a packet that count at most */
};

/*
 * Largest distance of a packet's time from now, ns. The default of fq is 10 s. The delay
 * beyond the horizon of a sender that ignores its queue is not owed.
 */
#define HORIZON 9000000000ULL

struct flow {
	__u32 dst[4]; /* IPv4-mapped for IPv4 */
	__be32 qp;
};

struct order {
	__u64 cost; /* of an octet, 2^-24 ns, below 2^47; 0: full rate */
	__u64 stop; /* ns since boot: until then nothing leaves */
	__u32 slot;
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before the program is loaded, like that of clocks */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow);
	__type(value, struct order);
} orders SEC(".maps");

struct clock {
	struct bpf_spin_lock lock;
	__u32 fraction;	 /* of next, 2^-24 ns */
	__u64 next;	 /* ns since boot: time at which the next packet with data may leave */
	__u64 responded; /* time at which the last read response leaves */
	__u64 octets;	 /* of data, with all headers */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clock);
} clocks SEC(".maps");

/* End of the validity of orders, ns since boot. The agent renews it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lease SEC(".maps");

/* Counters of packets of flows with an order. */
enum {
	PASSED,	 /* left without delay */
	DELAYED,
	STOPPED, /* delayed until the end of a stop */
	CAPPED,	 /* limited by the horizon */
	COUNTERS,
};

#include "counters.h"

struct ipv4 {
	__u8 version, tos;
	__be16 length, id, fragment;
	__u8 ttl, protocol;
	__be16 checksum;
	__u32 src, dst;
};

struct ipv6 {
	__be32 first;
	__be16 length;
	__u8 next, hop_limit;
	__u32 src[4], dst[4];
};

struct transport {
	__be16 src, dst, length, checksum; /* UDP */
	__u8 opcode, flags;
	__be16 pkey;
	__be32 qp; /* with 8 other bits */
};

/* read sets the flow and the opcode of a RoCEv2 packet, and reports whether it is one. */
static __always_inline int read(struct __sk_buff *skb, struct flow *flow, __u8 *opcode)
{
	struct transport t;
	__u32 at;

	if (skb->protocol == bpf_htons(ETHER_IPV6)) {
		struct ipv6 h;

		if (bpf_skb_load_bytes_relative(skb, 0, &h, sizeof(h), BPF_HDR_START_NET) || h.next != PROTO_UDP)
			return 0;
		__builtin_memcpy(flow->dst, h.dst, sizeof(flow->dst));
		at = sizeof(h);
	} else if (skb->protocol == bpf_htons(ETHER_IPV4)) {
		struct ipv4 h;

		/* soft-RoCE sends no fragments, so they are skipped, including the first one. */
		if (bpf_skb_load_bytes_relative(skb, 0, &h, sizeof(h), BPF_HDR_START_NET) || h.protocol != PROTO_UDP ||
		    h.fragment & bpf_htons(0x3FFF))
			return 0;
		flow->dst[0] = flow->dst[1] = 0;
		flow->dst[2] = bpf_htonl(0xFFFF);
		flow->dst[3] = h.dst;
		at = (h.version & 15) * 4;
	} else {
		return 0;
	}
	if (bpf_skb_load_bytes_relative(skb, at, &t, sizeof(t), BPF_HDR_START_NET) ||
	    t.dst != bpf_htons(PORT_ROCEV2) || t.opcode == OPCODE_CNP)
		return 0;
	flow->qp = t.qp & bpf_htonl(0xFFFFFF);
	*opcode = t.opcode & 0x1F;
	return 1;
}

SEC("tc")
int shape(struct __sk_buff *skb)
{
	struct flow flow;
	struct order *order;
	struct clock *c;
	__u64 *until, now, at, limit, stop, cost, size;
	__u32 zero = 0, what = PASSED;
	__u8 opcode;
	int response, answer;

	if (!read(skb, &flow, &opcode))
		return TC_ACT_UNSPEC;
	order = bpf_map_lookup_elem(&orders, &flow);
	until = bpf_map_lookup_elem(&lease, &zero);
	if (!order || !until)
		return TC_ACT_UNSPEC;
	c = bpf_map_lookup_elem(&clocks, &order->slot);
	now = bpf_ktime_get_ns();
	if (!c || now > *until)
		return TC_ACT_UNSPEC;
	response = opcode >= 0x0D && opcode <= 0x10; /* to a read */
	answer = opcode == 0x11 || opcode == 0x12;
	cost = order->cost;
	stop = order->stop;
	size = skb->len;
	if (size > LONGEST)
		size = LONGEST;
	limit = now + HORIZON;

	bpf_spin_lock(&c->lock);
	if (answer) {
		at = c->responded;
		if (at < now || at > limit)
			at = now;
	} else {
		at = c->next;
		if (at < now || at > limit) { /* nothing is owed, or the time was not set here */
			at = now;
			c->fraction = 0;
		}
		if (stop > at && stop <= limit) {
			at = stop;
			what = STOPPED;
		}
		cost = size * cost + c->fraction;
		c->next = at + (cost >> FRACTION);
		c->fraction = cost & ((1 << FRACTION) - 1);
		if (c->next > limit) {
			c->next = limit;
			what = CAPPED;
		}
		if (response)
			c->responded = at;
		c->octets += skb->len;
	}
	bpf_spin_unlock(&c->lock);
	if (what == PASSED && at > now)
		what = DELAYED;
	count(what);
	/*
	 * Packets that may leave immediately also get a time: otherwise fq would give them a
	 * later one than packets after them.
	 */
	if (skb->tstamp < at)
		skb->tstamp = at;
	return TC_ACT_UNSPEC;
}
