/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RoCEv2 packets as programs in the kernel process them.
 *
 * The including file defines before
 *
 *	static int load(const struct octets *from, __u32 at, void *to, __u32 n);
 *
 * which copies n octets of the packet, counted from its IP header, and returns 0 if they
 * exist.
 */
#ifndef ROCEV2_H
#define ROCEV2_H

enum {
	ETHER_IPV4 = 0x0800,
	ETHER_IPV6 = 0x86DD,

	PROTO_HOP_BY_HOP = 0,
	PROTO_IPV4 = 4,
	PROTO_UDP = 17,
	PROTO_IPV6 = 41,
	PROTO_ROUTING = 43,
	PROTO_GRE = 47,
	PROTO_DESTINATION_OPTIONS = 60,

	PORT_ROCEV2 = 4791,
	PORT_VXLAN = 4789,
	PORT_GENEVE = 6081,

	OPCODE_CNP = 0x81,

	MAX_EXTENSIONS = 6, /* headers; packets with more are skipped */
};

struct ipv6 {
	__be32 first; /* version, traffic class, flow label */
	__be16 length;
	__u8 next, hop_limit;
	__u32 src[4], dst[4];
};

struct ipv4 {
	__u8 version_ihl, tos;
	__be16 length, id, fragment;
	__u8 ttl, proto;
	__be16 checksum;
	__u32 src, dst;
};

struct udp {
	__be16 src, dst, length, checksum;
};

struct bth {
	__u8 opcode, flags;
	__be16 pkey;
	__be32 qp; /* with 8 other bits */
	__be32 psn;
};

/* The kind of a packet. */
enum kind {
	OTHER,	  /* neither RoCEv2 nor a tunnel */
	DATA,	  /* RoCEv2 that may be answered */
	ACK,	  /* RoCEv2 acknowledgement */
	NOTICE,	  /* RoCEv2 notification */
	TUNNEL,	  /* may carry RoCEv2 in a tunnel */
	BROKEN,	  /* RoCEv2, truncated or with invalid lengths */
};

struct packet {
	struct udp udp;
	struct bth bth;
	__u32 src[4], dst[4]; /* IPv4: in the last word, after zeros */
	__u32 label;	      /* the flow label of IPv6, big-endian */
	__u32 transport;      /* offset of the header after IP */
	__u8 version;
	__u8 ecn;
	__u8 extended; /* has options or extension headers */
	__u8 routed;   /* has a Routing header: dst may not be the final destination */
};

/*
 * acknowledges reports whether an opcode is Acknowledge or ATOMIC Acknowledge of RC, RD or
 * XRC: 0x11, 0x12, 0x51, 0x52, 0xB1, 0xB2.
 */
static __always_inline int acknowledges(__u8 opcode)
{
	__u8 transport = opcode & 0xE0, operation = opcode & 0x1F;

	return (transport == 0x00 || transport == 0x40 || transport == 0xA0) && (operation == 0x11 || operation == 0x12);
}

/* parse_ipv6 decodes the IPv6 header and skips its extension headers. */
static __always_inline enum kind parse_ipv6(const struct octets *from, struct packet *p, __u32 *end, __u8 *proto)
{
	struct ipv6 ip;
	__u8 next;
	__u32 at = sizeof(ip);

	if (load(from, 0, &ip, sizeof(ip)) || bpf_ntohl(ip.first) >> 28 != 6)
		return OTHER;
	__builtin_memcpy(p->src, ip.src, sizeof(p->src));
	__builtin_memcpy(p->dst, ip.dst, sizeof(p->dst));
	p->label = ip.first & bpf_htonl(0xFFFFF);
	p->ecn = bpf_ntohl(ip.first) >> 20 & 3;
	*end = at + bpf_ntohs(ip.length);
	next = ip.next;
#pragma unroll
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		__u8 header[2]; /* next, length in 8 octets without the first 8 */

		if (next != PROTO_HOP_BY_HOP && next != PROTO_ROUTING && next != PROTO_DESTINATION_OPTIONS)
			break;
		if (load(from, at, header, sizeof(header)))
			return OTHER;
		p->extended = 1;
		if (next == PROTO_ROUTING)
			p->routed = 1;
		next = header[0];
		at += 8 + 8 * (__u32)header[1];
	}
	p->transport = at;
	*proto = next;
	return DATA;
}

static __always_inline enum kind parse_ipv4(const struct octets *from, struct packet *p, __u32 *end, __u8 *proto)
{
	struct ipv4 ip;

	if (load(from, 0, &ip, sizeof(ip)) || ip.version_ihl >> 4 != 4 || (ip.version_ihl & 0xF) < 5)
		return OTHER;
	if (ip.fragment & bpf_htons(0x3FFF)) /* More Fragments, or an offset */
		return OTHER;
	p->src[3] = ip.src;
	p->dst[3] = ip.dst;
	p->ecn = ip.tos & 3;
	p->transport = (ip.version_ihl & 0xF) * 4;
	p->extended = p->transport > sizeof(ip);
	*end = bpf_ntohs(ip.length);
	*proto = ip.proto;
	return DATA;
}

/* parse returns the kind of a packet, and decodes RoCEv2 and tunnels. */
static __always_inline enum kind parse(const struct octets *from, __be16 ether, struct packet *p)
{
	enum kind kind = OTHER;
	__u32 end = 0;
	__u8 proto = 0;

	__builtin_memset(p, 0, sizeof(*p));
	if (ether == bpf_htons(ETHER_IPV6)) {
		p->version = 6;
		kind = parse_ipv6(from, p, &end, &proto);
	} else if (ether == bpf_htons(ETHER_IPV4)) {
		p->version = 4;
		kind = parse_ipv4(from, p, &end, &proto);
	}
	if (kind == OTHER)
		return OTHER;
	if (proto == PROTO_IPV4 || proto == PROTO_IPV6 || proto == PROTO_GRE)
		return TUNNEL;
	if (proto != PROTO_UDP || load(from, p->transport, &p->udp, sizeof(p->udp)))
		return OTHER;
	if (p->udp.dst == bpf_htons(PORT_VXLAN) || p->udp.dst == bpf_htons(PORT_GENEVE))
		return TUNNEL;
	if (p->udp.dst != bpf_htons(PORT_ROCEV2))
		return OTHER;
	if (bpf_ntohs(p->udp.length) < sizeof(p->udp) + sizeof(p->bth) + 4 ||
	    p->transport + bpf_ntohs(p->udp.length) > end ||
	    load(from, p->transport + sizeof(p->udp), &p->bth, sizeof(p->bth)))
		return BROKEN;
	if (p->bth.opcode == OPCODE_CNP)
		return NOTICE;
	if (acknowledges(p->bth.opcode))
		return ACK;
	return DATA;
}

#endif
