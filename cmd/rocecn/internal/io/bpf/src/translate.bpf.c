// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A translator in front of hosts that only understand CNPs. A Fast CNP becomes the CNP that
 * the flow's receiver would send, from the receiver's address to the host's own queue pair.
 *
 * It knows Fast CNPs in the form that nodes are to send, with the option at the place of the
 * draft's figures. It passes others on to the host or the agent.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	ETHER_IPV6 = 0x86DD,
	ETHER_VLAN = 0x8100,
	ETHER_SVID = 0x88A8,

	PROTO_UDP = 17,
	PROTO_DESTINATION_OPTIONS = 60,
	PORT_ROCEV2 = 4791,
	OPCODE_CNP = 0x81,
	DEFAULT_PKEY = 0xFFFF, /* sent for a P_Key of 0 */
	PPFC_BIT = 0x20, /* of octet 4 of the BTH */
	PAD_N = 1,

	IPV6 = 40, /* octets */
	UDP = 8,
	BTH = 12,
	RESERVED = 16,
	ICRC = 4,
	TRANSPORT = UDP + BTH + RESERVED + ICRC, /* of a CNP */
	CNP = IPV6 + TRANSPORT,

	MAX_EXTENSION = 264,

	MAX_SWITCHES = 1 << 12, /* prefixes */
	MAX_PAIRS = 1 << 18,
};

/* Set before the program is loaded. */
volatile const __u8 option1, option2;	/* option types */
volatile const __u32 only[4];		/* the only host; 0: all hosts */
volatile const __u8 receivers;		/* accept a Fast CNP from the receiver of its flow, in addition to switches */
volatile const __u8 drop;		/* drop packets that cannot be translated */
volatile const __u64 window;		/* ns after a CNP in which further Fast CNPs about the flow are dropped */
volatile const __u32 cnp[CNP / 4];	/* with zeros for octets of the Fast CNP and the pair */
volatile const __u32 crc[4][256];	/* CRC-32 of an octet with 0 to 3 octets after it */

struct prefix {
	__u32 length;
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, MAX_SWITCHES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, __u32); /* unused */
} switches SEC(".maps");

struct flow {
	__u32 host[4], receiver[4];
	__be32 qp; /* the receiver's */
};

struct pair {
	__u64 at;  /* ns since boot: beginning of the window; 0: none */
	__be32 qp; /* the host's queue pair */
	__be16 port; /* UDP source port of CNPs */
	__u16 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PAIRS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow);
	__type(value, struct pair);
} pairs SEC(".maps");

/* Counters. Each packet that may be a Fast CNP counts in one of them. */
enum {
	TRANSLATED,
	DENIED,	    /* dropped: source not in switches */
	ICRC_WRONG, /* dropped: invalid ICRC */
	ADDRESS,    /* dropped: a CNP cannot have such an address */
	UNKNOWN_QP, /* passed on, or dropped with drop: no queue pair is known */
	PASSED,	    /* passed on, or dropped with drop: unusual form */
	AGAIN,	    /* dropped: within the window of the flow */
	COUNTERS,
};

#include "counters.h"

struct ipv6 {
	__be32 first; /* version, traffic class, flow label */
	__be16 length;
	__u8 next, hop_limit;
	__u32 src[4], dst[4];
};

struct transport {
	__be16 src, dst, length, checksum; /* UDP */
	__u8 opcode, flags;
	__be16 pkey;
	__be32 qp; /* with 8 other bits */
	__be32 psn;
};

static __always_inline __u32 little(__u32 word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap32(word);
#else
	return word;
#endif
}

/* add returns the CRC register after a word. */
static __always_inline __u32 add(__u32 sum, __u32 word)
{
	sum ^= little(word);
	return crc[3][sum & 0xFF] ^ crc[2][sum >> 8 & 0xFF] ^ crc[1][sum >> 16 & 0xFF] ^ crc[0][sum >> 24];
}

static __always_inline int same(const __u32 *a, const volatile __u32 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

enum { CRC_START = 0xDEBB20E3 }; /* the register after the 8 octets of ones at the beginning */

/* reachable is rocev2.Answerable for IPv6. */
static __always_inline int reachable(const __u32 *address)
{
	__u32 first = bpf_ntohl(address[0]);

	if (first == 0 && address[1] == 0) {
		__u32 third = bpf_ntohl(address[2]);

		/* unspecified, loopback, IPv4-mapped */
		if (third == 0xFFFF || (third == 0 && bpf_ntohl(address[3]) < 2))
			return 0;
	}
	return first >> 24 != 0xFF && first >> 22 != 0xFE80 >> 6; /* multicast, link-local */
}

/*
 * A packet, in which the fields masked by the ICRC are set to ones later. Masking before the
 * loop, instead of in it, adds nothing to the work of the verifier.
 */
struct scratch {
	__u32 words[128];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* mask sets the fields to ones that change on the path. UDP begins at word transport. */
static __always_inline void mask(__u32 *words, __u32 transport)
{
	words[0] |= bpf_htonl(0x0FFFFFFF);		      /* traffic class, flow label */
	words[1] |= bpf_htonl(0xFF);			      /* hop limit */
	words[(transport + 1) & 127] |= bpf_htonl(0xFFFF);    /* UDP checksum */
	words[(transport + 3) & 127] |= bpf_htonl(0xFF000000); /* the octet before the queue pair */
}

struct crc {
	const __u32 *words;
	__u32 sum;
};

static long add_word(__u32 i, void *context)
{
	struct crc *c = context;

	c->sum = add(c->sum, c->words[i & 127]);
	return 0;
}

static __always_inline int translate(struct xdp_md *ctx, __u32 link)
{
	__u64 size = ctx->data_end - ctx->data;
	__u32 zero = 0, extension, transport, original, words[CNP / 4], *packet;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct ipv6 *h;
	struct transport *t;
	struct prefix source = { .length = 128 };
	struct flow flow = {};
	struct crc crc_in = { .sum = CRC_START };
	__u32 sum = CRC_START, icrc;
	__u8 *option;
	struct pair *own;
	__u64 now;
	int listed;

	if (!scratch || size < link + IPV6 + 24 + TRANSPORT)
		return XDP_PASS;
	packet = scratch->words;
	size -= link;
	barrier_var(size);
	if (size > sizeof(scratch->words))
		size = sizeof(scratch->words);
	if (size < IPV6 + 24 + TRANSPORT || bpf_xdp_load_bytes(ctx, link, packet, size))
		return XDP_PASS;
	h = (struct ipv6 *)packet;
	option = (__u8 *)packet + IPV6;
	extension = 8 + 8 * (__u32)option[1];
	if (h->next != PROTO_DESTINATION_OPTIONS || option[0] != PROTO_UDP || extension > MAX_EXTENSION ||
	    IPV6 + extension + TRANSPORT > size)
		return XDP_PASS;
	transport = (IPV6 + extension) / 4;
	t = (struct transport *)(packet + transport);
	if (t->dst != bpf_htons(PORT_ROCEV2) || t->opcode != OPCODE_CNP)
		return XDP_PASS;
	if ((only[0] | only[1] | only[2] | only[3]) && !same(h->dst, only))
		return XDP_PASS;
	__builtin_memcpy(source.address, h->src, sizeof(source.address));
	listed = bpf_map_lookup_elem(&switches, &source) != 0;
	original = 0;
	if (option[2] == option1 && option[3] == 16 && extension == 24)
		original = 4;
	else if (option[2] == PAD_N && option[3] == 0 && option[4] == option2 && option[5] >= 26 &&
		 extension == (((__u32)option[5] + 6 + 7) & ~7U))
		original = 6 + option[5] - 16;
	if (!listed && (!receivers || !original ||
			bpf_xdp_load_bytes(ctx, link + IPV6 + original, flow.receiver, sizeof(flow.receiver)) ||
			!same(h->src, flow.receiver))) {
		count(DENIED);
		return XDP_DROP;
	}
	if (!original || h->length != bpf_htons(extension + TRANSPORT) || t->length != bpf_htons(TRANSPORT) ||
	    t->checksum || bpf_ntohl(t->qp) >> 24 & PPFC_BIT) {
		count(PASSED);
		return drop ? XDP_DROP : XDP_PASS;
	}

	for (int i = 0; i < CNP / 4; i++)
		words[i] = cnp[i];
	if (bpf_xdp_load_bytes(ctx, link + IPV6 + original, flow.receiver, sizeof(flow.receiver)))
		return XDP_PASS;
	__builtin_memcpy(flow.host, h->dst, sizeof(flow.host));
	flow.qp = t->qp & bpf_htonl(0xFFFFFF);
	words[12] |= bpf_htonl(t->pkey ? bpf_ntohs(t->pkey) : DEFAULT_PKEY);
	icrc = packet[(transport + (TRANSPORT - ICRC) / 4) & 127];
	mask(packet, transport);
	crc_in.words = packet;
	bpf_loop(transport + (TRANSPORT - ICRC) / 4, add_word, &crc_in, 0);
	if (icrc != little(~crc_in.sum)) {
		count(ICRC_WRONG);
		return XDP_DROP;
	}
	own = bpf_map_lookup_elem(&pairs, &flow);
	if (!own) {
		count(UNKNOWN_QP);
		return drop ? XDP_DROP : XDP_PASS;
	}
	if (!reachable(flow.receiver) || !reachable(flow.host)) {
		count(ADDRESS);
		return XDP_DROP;
	}

	if (window) {
		now = bpf_ktime_get_ns();
		if (own->at && now - own->at < window) {
			count(AGAIN);
			return XDP_DROP;
		}
		own->at = now;
	}

	__builtin_memcpy(words + 2, flow.receiver, 16);
	__builtin_memcpy(words + 6, flow.host, 16);
	words[10] |= bpf_htonl((__u32)bpf_ntohs(own->port) << 16);
	words[13] |= own->qp & bpf_htonl(0xFFFFFF);
	__builtin_memcpy(packet, words, sizeof(words));
	mask(packet, IPV6 / 4);
#pragma unroll
	for (int i = 0; i < CNP / 4 - 1; i++)
		sum = add(sum, packet[i]);
	words[CNP / 4 - 1] = little(~sum);
	if (bpf_xdp_store_bytes(ctx, link, words, sizeof(words)) ||
	    bpf_xdp_adjust_tail(ctx, (int)(link + CNP) - (int)(ctx->data_end - ctx->data)))
		return XDP_DROP;
	count(TRANSLATED);
	return XDP_PASS;
}

SEC("xdp")
int translator(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	__be16 *ether = (void *)(long)ctx->data + 12;

	if ((void *)(ether + 5) > end)
		return XDP_PASS;
	if (ether[0] == bpf_htons(ETHER_IPV6))
		return translate(ctx, 14);
	if ((ether[0] == bpf_htons(ETHER_VLAN) || ether[0] == bpf_htons(ETHER_SVID)) && ether[2] == bpf_htons(ETHER_IPV6))
		return translate(ctx, 18);
	if (ether[0] == bpf_htons(ETHER_SVID) && ether[2] == bpf_htons(ETHER_VLAN) && ether[4] == bpf_htons(ETHER_IPV6))
		return translate(ctx, 22);
	return XDP_PASS;
}
