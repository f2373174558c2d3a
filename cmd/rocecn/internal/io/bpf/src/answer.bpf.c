// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A congested node in the kernel: RoCEv2 data packets that leave by a port with a long queue
 * are answered by a Fast CNP with option 1, marked, or both, depending on the sender.
 *
 * enqueue, dequeue and reset record the queue depths. egress processes a packet before its
 * queue. If the packet is to be answered, egress sends a copy to the loopback interface, which
 * does not copy its octets. There answer turns the copy into the Fast CNP by a template.
 * CRC-32 is affine, so the ICRC is that of the template and the changes by each octet, which
 * are in tables.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	AF_INET6 = 10,
	TC_ACT_UNSPEC = -1, /* continue as without a program */
	TC_ACT_SHOT = 2,

	ETHERNET = 14, /* octets */
	FAST_CNP = 104,

	LEVELS = 7, /* above level 0, no congestion */

	DEFAULT_PKEY = 0xFFFF, /* sent for a P_Key of 0 */

	STALE = 10, /* s: an older depth counts as 0 */

	MAX_PORTS = 1024,
	MAX_SENDERS = 1 << 16, /* prefixes */
	MAX_FLOWS = 1 << 16,
	MAX_SENT = 1 << 16, /* Fast CNPs */
};

/* Offsets in a Fast CNP of its flow label and of the octets from the congested packet. */
enum {
	AT_LABEL = 1,
	AT_DESTINATION = 24,
	AT_ORIGINAL = 44,
	AT_PORT = 64,
	AT_PKEY = 74,
	AT_QP = 77,
	AT_ICRC = 100,
};

/* The first table of these octets. Each octet has one. */
enum {
	OF_DESTINATION = 0,
	OF_ORIGINAL = 16,
	OF_PORT = 32,
	OF_PKEY = 34,
	OF_QP = 36,
	TABLES = 39,
};

/* Set before the programs are loaded. */
volatile const __u32 namespace;	    /* inode number of the network namespace */
volatile const __u32 loopback;	    /* its interface index */
volatile const __u32 token;	    /* mark of copies on their way to answer */
volatile const __u64 intervals[LEVELS + 1]; /* by level: least ns between two Fast CNPs about a flow; 0: no limit */
volatile const __u8 remember;	    /* remember Fast CNPs in the map sent */
volatile const __u32 after_probe;   /* policy of a sender after its probe: MARK or NOTHING */
volatile const __u64 label_key[2];  /* key of the flow labels of Fast CNPs */
volatile const __u8 fixed_port;	    /* use the source port of the template */
volatile const __u8 __attribute__((aligned(8))) fast_cnp[FAST_CNP]; /* with zeros for octets of the congested packet */
volatile const __u32 icrc;		    /* of the template */
volatile const __u32 tables[TABLES][256];

struct port {
	__u64 up[LEVELS], down[LEVELS]; /* octets at which the level rises, and below which it falls */
	__u64 depth;
	__u64 level;
	__u64 noted; /* time of the depth, ns since boot */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32); /* interface index */
	__type(value, struct port);
} ports SEC(".maps");

/* The reaction to congested packets of a sender. */
enum policy {
	NOTHING,
	NOTIFY_AND_MARK, /* for senders of unknown capability */
	NOTIFY,		 /* for senders that understand Fast CNPs: FAST section 4 forbids to mark as well */
	MARK,		 /* for senders that do not */
	PROBE,		 /* for one packet as for senders of unknown capability, then after_probe */
};

struct prefix {
	__u32 length;
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, MAX_SENDERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct prefix);
	__type(value, __u32); /* enum policy */
} senders SEC(".maps");

struct flow {
	__u32 src[4], dst[4];
	__u32 qp;
};

/* The Fast CNPs about a flow. */
struct notified {
	__u64 last; /* time of the last one, ns since boot */
	__u64 sent;
	__u64 limited; /* withheld by the limit, or because another packet was the probe */
	__u32 level;   /* of the queue at the last one */
	__u32 depth;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow);
	__type(value, struct notified);
} flows SEC(".maps");

/* A Fast CNP by its destination and flow label. */
struct sent_key {
	__u32 host[4];
	__be32 label;
};

/* Its other octets that are not in the template. */
struct sent {
	__u64 at; /* ns since boot */
	__u32 original[4];
	__be32 qp;
	__be16 port, pkey;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SENT);
	__type(key, struct sent_key);
	__type(value, struct sent);
} sent SEC(".maps");

/*
 * Counters. Each congested RoCEv2 packet counts in CONGESTED and in one of BROKEN_PACKET to
 * NOT_COPIED, and also in MARKED if it was marked.
 */
enum {
	CONGESTED,	 /* all of them */
	BROKEN_PACKET,
	ACKNOWLEDGEMENT,
	NOTIFICATION,
	NO_METHOD,	 /* no policy for the sender, or none that IPv4 supports */
	OWN_ADDRESS,
	ADDRESS,	 /* the sender cannot be answered, or the destination not be named */
	ROUTED,		 /* has a Routing header: its final destination is not evaluated */
	NOT_CAPABLE,	 /* neither the sender supports Fast CNPs nor the packet ECN */
	LIMITED,	 /* withheld by the limit, or another packet was the probe */
	MARKED_ONLY,	 /* the sender does not understand Fast CNPs */
	COPIED,		 /* copied to answer */
	NOT_COPIED,	 /* the kernel had no memory */

	MARKED,		 /* of all counters above */

	/* Each copy counts in one of these. */
	SENT,
	NO_ROUTE,
	CHECKSUM,	 /* the device was to compute the UDP checksum, and would do so in the Fast CNP */
	FAILED,
	COUNTERS,
};

#include "counters.h"

/* A packet, from its IP header on. */
struct octets {
	struct __sk_buff *skb;
};

static __always_inline int load(const struct octets *from, __u32 at, void *to, __u32 n)
{
	return bpf_skb_load_bytes(from->skb, ETHERNET + at, to, n);
}

#include "rocev2.h"

/* note records the depth of the queue of a device. */
static __always_inline void note(const struct net_device *device, __u64 depth)
{
	__u32 interface = device->ifindex;
	struct port *port = bpf_map_lookup_elem(&ports, &interface);

	if (port && device->nd_net.net->ns.inum == namespace) {
		port->depth = depth;
		port->noted = bpf_ktime_get_ns();
	}
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(enqueue, struct Qdisc *qdisc, const struct netdev_queue *txq)
{
	note(txq->dev, qdisc->qstats.backlog);
	return 0;
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(dequeue, struct Qdisc *qdisc, const struct netdev_queue *txq)
{
	note(txq->dev, qdisc->qstats.backlog);
	return 0;
}

/* A reset qdisc has an empty queue. */
SEC("tp_btf/qdisc_reset")
int BPF_PROG(reset, struct Qdisc *qdisc)
{
	note(qdisc->dev_queue->dev, 0);
	return 0;
}

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

/* reachable4 is rocev2.Answerable for IPv4. */
static __always_inline int reachable4(__u32 address)
{
	__u32 a = bpf_ntohl(address);

	/* this network, loopback, multicast and reserved, link-local */
	return a >> 24 != 0 && a >> 24 != 127 && a >> 24 < 224 && a >> 16 != 0xA9FE;
}

/*
 * level_of is level.Thresholds.Of, and sets the depth that it used: dequeue may change that of the
 * port on another processor. Before Linux 6.6, egress stays if the process dies, but the programs
 * that record the depth end: without STALE the last depth would count for ever.
 */
static __always_inline __u32 level_of(struct port *port, __u64 *used)
{
	__u64 depth = *(volatile __u64 *)&port->depth;
	__u32 level = port->level;

	if (depth && (__s64)(bpf_ktime_get_ns() - port->noted) > STALE * 1000000000LL)
		depth = 0;
	*used = depth;
#pragma unroll
	for (__u32 i = 0; i < LEVELS; i++)
		if (level == i && depth >= port->up[i])
			level = i + 1;
#pragma unroll
	for (__u32 i = LEVELS; i > 0; i--)
		if (level == i && depth < port->down[i - 1])
			level = i - 1;
	port->level = level;
	return level;
}

/*
 * own_address returns a word of the node's own address, the source of the template. It does
 * not use memcpy: without volatile the compiler assumes that the template is zero.
 */
static __always_inline __u32 own_address(int word)
{
	return ((const volatile __u32 *)fast_cnp)[2 + word];
}

/* policy_of returns the policy for the sender of a packet, or counts why there is none. */
static __always_inline enum policy policy_of(const struct packet *p)
{
	struct prefix sender = { .length = 128 };
	__u32 *policy;

	if (p->version != 6) { /* IPv4 has no Fast CNP */
		if (!reachable4(p->src[3]) || bpf_ntohl(p->dst[3]) >> 28 == 0xE) {
			count(ADDRESS);
			return NOTHING;
		}
		sender.address[2] = bpf_htonl(0xFFFF);
		sender.address[3] = p->src[3];
		policy = bpf_map_lookup_elem(&senders, &sender);
		if (policy && *policy == MARK)
			return MARK;
		count(NO_METHOD);
		return NOTHING;
	}
	if (p->src[0] == own_address(0) && p->src[1] == own_address(1) && p->src[2] == own_address(2) &&
	    p->src[3] == own_address(3)) {
		count(OWN_ADDRESS);
		return NOTHING;
	}
	if (!reachable(p->src) || bpf_ntohl(p->dst[0]) >> 24 == 0xFF) {
		count(ADDRESS);
		return NOTHING;
	}
	__builtin_memcpy(sender.address, p->src, sizeof(sender.address));
	policy = bpf_map_lookup_elem(&senders, &sender);
	if (!policy || *policy == NOTHING) {
		count(NO_METHOD);
		return NOTHING;
	}
	return *policy;
}

/* take_probe reports whether a packet is the one that is answered under the policy PROBE. */
static __always_inline int take_probe(const struct packet *p)
{
	struct prefix sender = { .length = 128 };
	__u32 *policy;

	__builtin_memcpy(sender.address, p->src, sizeof(sender.address));
	policy = bpf_map_lookup_elem(&senders, &sender);
	return policy && __sync_val_compare_and_swap(policy, PROBE, after_probe) == PROBE;
}

/*
 * ready reports whether a Fast CNP about a flow may be sent now: its limit permits it, and under the policy PROBE no
 * other packet was the probe. It records the decision for the flow, also without a limit: status lists the counts.
 */
static __always_inline int ready(const struct packet *p, __u32 level, __u64 depth, enum policy policy)
{
	struct notified first = { .last = bpf_ktime_get_ns(), .level = level, .depth = depth };
	struct notified *n;
	struct flow flow;
	int sends;

	__builtin_memcpy(flow.src, p->src, sizeof(flow.src));
	__builtin_memcpy(flow.dst, p->dst, sizeof(flow.dst));
	flow.qp = p->bth.qp & bpf_htonl(0xFFFFFF);
	n = bpf_map_lookup_elem(&flows, &flow);
	sends = (!n || first.last - n->last >= intervals[level & 7]) && (policy != PROBE || take_probe(p));
	if (!n) {
		first.sent = sends;
		first.limited = !sends;
		bpf_map_update_elem(&flows, &flow, &first, BPF_ANY);
		return sends;
	}
	if (!sends) {
		__sync_fetch_and_add(&n->limited, 1);
		return 0;
	}
	__sync_fetch_and_add(&n->sent, 1);
	n->last = first.last;
	n->level = level;
	n->depth = depth;
	return 1;
}

/* mark marks a packet if it is ECN-capable. */
static __always_inline int mark(struct __sk_buff *skb)
{
	if (bpf_skb_ecn_set_ce(skb) != 1)
		return 0;
	count(MARKED);
	return 1;
}

SEC("tc")
int egress(struct __sk_buff *skb)
{
	struct octets from = { .skb = skb };
	__u32 interface = skb->ifindex, was;
	struct packet p;
	enum policy policy;
	__u64 depth;
	__u32 level;
	struct port *port = bpf_map_lookup_elem(&ports, &interface);

	if (!port)
		return TC_ACT_UNSPEC;
	level = level_of(port, &depth);
	if (!level)
		return TC_ACT_UNSPEC;
	switch (parse(&from, skb->protocol, &p)) {
	case DATA:
		count(CONGESTED);
		break;
	case ACK:
		count(CONGESTED);
		count(ACKNOWLEDGEMENT);
		return TC_ACT_UNSPEC;
	case NOTICE:
		count(CONGESTED);
		count(NOTIFICATION);
		return TC_ACT_UNSPEC;
	case BROKEN:
		count(CONGESTED);
		count(BROKEN_PACKET);
		return TC_ACT_UNSPEC;
	default:
		return TC_ACT_UNSPEC;
	}
	policy = policy_of(&p);
	if (policy == NOTHING)
		return TC_ACT_UNSPEC;
	if (policy == MARK) {
		count(mark(skb) ? MARKED_ONLY : NOT_CAPABLE);
		return TC_ACT_UNSPEC;
	}
	if (p.routed) {
		count(ROUTED);
	} else if (!reachable(p.dst)) { /* a Fast CNP would name it */
		count(ADDRESS);
	} else if (!ready(&p, level, depth, policy)) {
		count(LIMITED);
	} else {
		was = skb->mark;
		skb->mark = token;
		count(bpf_clone_redirect(skb, loopback, BPF_F_INGRESS) ? NOT_COPIED : COPIED);
		skb->mark = was;
	}
	/* A sender that only supports ECN needs the mark, also if there is no Fast CNP. */
	if (policy == NOTIFY_AND_MARK || (policy == PROBE && after_probe == MARK))
		mark(skb);
	return TC_ACT_UNSPEC;
}

/*
 * partial reports whether the UDP checksum is only that of the pseudo-header. The device is to
 * add the rest, and would write it into the Fast CNP. One in 65,536 complete checksums looks
 * the same.
 */
static __always_inline int partial(const struct packet *p)
{
	__u32 sum = bpf_ntohs(p->udp.length) + PROTO_UDP;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u32 s = bpf_ntohl(p->src[i]), d = bpf_ntohl(p->dst[i]);

		sum += (s >> 16) + (s & 0xFFFF) + (d >> 16) + (d & 0xFFFF);
	}
	sum = (sum >> 16) + (sum & 0xFFFF);
	sum += sum >> 16;
	return p->udp.checksum && bpf_ntohs(p->udp.checksum) == (sum & 0xFFFF);
}

/* put writes n octets into a Fast CNP, and returns the change of its ICRC. */
static __always_inline __u32 put(__u8 *to, const void *octets, int n, int table)
{
	const __u8 *from = octets;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < n; i++) {
		to[i] = from[i];
		sum ^= tables[table + i][from[i]];
	}
	return sum;
}

#define ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))

/* round is SipRound. */
static __always_inline void sip_round(__u64 v[4])
{
	v[0] += v[1];
	v[1] = ROTATE(v[1], 13) ^ v[0];
	v[0] = ROTATE(v[0], 32);
	v[2] += v[3];
	v[3] = ROTATE(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = ROTATE(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = ROTATE(v[1], 17) ^ v[2];
	v[2] = ROTATE(v[2], 32);
}

/*
 * new_label returns a flow label that only nodes on the path of the Fast CNP can know, by SipHash-2-4 of the time and a
 * random number.
 */
static __always_inline __be32 new_label(void)
{
	__u64 words[] = { bpf_ktime_get_ns(), (__u64)bpf_get_smp_processor_id() << 32 | bpf_get_prandom_u32(),
			  16ULL << 56 }; /* the last has the length */
	__u64 v[] = { label_key[0] ^ 0x736F6D6570736575, label_key[1] ^ 0x646F72616E646F6D,
		      label_key[0] ^ 0x6C7967656E657261, label_key[1] ^ 0x7465646279746573 };

#pragma unroll
	for (int i = 0; i < 3; i++) {
		v[3] ^= words[i];
		sip_round(v);
		sip_round(v);
		v[0] ^= words[i];
	}
	v[2] ^= 0xFF;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return bpf_htonl((v[0] ^ v[1] ^ v[2] ^ v[3]) % 0xFFFFF + 1);
}

/* put_label sets the flow label of a Fast CNP, which the ICRC does not cover, and remembers the Fast CNP. */
static __always_inline void put_label(__u8 *fast_cnp, const struct packet *p)
{
	__be32 label = new_label();
	struct sent_key key = { .label = label };
	struct sent now = {};

#pragma unroll
	for (int i = 0; i < 3; i++)
		fast_cnp[AT_LABEL + i] |= ((const __u8 *)&label)[1 + i]; /* the template has label 0 */
	if (!remember)
		return;
	__builtin_memcpy(key.host, p->src, sizeof(key.host));
	__builtin_memcpy(now.original, p->dst, sizeof(now.original));
	now.at = bpf_ktime_get_ns();
	now.qp = p->bth.qp & bpf_htonl(0xFFFFFF);
	now.port = p->udp.src;
	now.pkey = p->bth.pkey;
	bpf_map_update_elem(&sent, &key, &now, BPF_ANY);
}

/* A Fast CNP as words, by which it is copied. */
union frame {
	__u64 words[FAST_CNP / 8];
	__u8 octets[FAST_CNP];
};

static __always_inline void build(union frame *f, const struct packet *p)
{
	__be16 pkey = p->bth.pkey ? p->bth.pkey : bpf_htons(DEFAULT_PKEY);
	__u32 sum = icrc;

#pragma unroll
	for (int i = 0; i < FAST_CNP / 8; i++)
		f->words[i] = ((const volatile __u64 *)fast_cnp)[i];
	sum ^= put(f->octets + AT_DESTINATION, p->src, 16, OF_DESTINATION);
	sum ^= put(f->octets + AT_ORIGINAL, p->dst, 16, OF_ORIGINAL);
	if (!fixed_port)
		sum ^= put(f->octets + AT_PORT, &p->udp.src, 2, OF_PORT);
	sum ^= put(f->octets + AT_PKEY, &pkey, 2, OF_PKEY);
	sum ^= put(f->octets + AT_QP, (const __u8 *)&p->bth.qp + 1, 3, OF_QP);
#pragma unroll
	for (int i = 0; i < 4; i++)
		f->octets[AT_ICRC + i] = sum >> 8 * i;
}

SEC("tc")
int answer(struct __sk_buff *skb)
{
	struct octets from = { .skb = skb };
	struct bpf_fib_lookup route = { .family = AF_INET6, .tot_len = FAST_CNP };
	struct bpf_redir_neigh next = { .nh_family = AF_INET6 };
	struct packet p;
	union frame f;
	long err;

	if (skb->mark != token)
		return TC_ACT_UNSPEC;
	if (parse(&from, skb->protocol, &p) != DATA || p.version != 6 || p.routed) {
		count(FAILED);
		return TC_ACT_SHOT;
	}
	if (partial(&p)) {
		count(CHECKSUM);
		return TC_ACT_SHOT;
	}
	route.ifindex = skb->ifindex;
#pragma unroll
	for (int i = 0; i < 4; i++)
		route.ipv6_src[i] = own_address(i);
	__builtin_memcpy(route.ipv6_dst, p.src, 16);
	err = bpf_fib_lookup(skb, &route, sizeof(route), 0);
	if (err != BPF_FIB_LKUP_RET_SUCCESS && err != BPF_FIB_LKUP_RET_NO_NEIGH) {
		count(NO_ROUTE);
		return TC_ACT_SHOT;
	}
	build(&f, &p);
	put_label(f.octets, &p);
	/*
	 * A packet that left by a VLAN still has its tag, but the Fast CNP leaves by another
	 * interface.
	 */
	if ((skb->vlan_present && bpf_skb_vlan_pop(skb)) ||
	    bpf_skb_change_tail(skb, ETHERNET + FAST_CNP, 0) ||
	    bpf_skb_store_bytes(skb, ETHERNET, &f, sizeof(f), BPF_F_INVALIDATE_HASH)) {
		count(FAILED);
		return TC_ACT_SHOT;
	}
	skb->mark = 0;
	__builtin_memcpy(next.ipv6_nh, route.ipv6_dst, 16);
	count(SENT);
	return bpf_redirect_neigh(route.ifindex, &next, sizeof(next), 0);
}
