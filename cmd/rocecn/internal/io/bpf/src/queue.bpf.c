// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reports packets that wait in queues of this host. For each RoCEv2 data packet that a qdisc
 * adds to a queue of at least some depth, and if so configured for each packet of a tunnel, the
 * depth and the first octets of the packet go into a ring buffer.
 *
 * The tracepoint is called for every packet of the machine, so cheap checks come first. A size
 * that a helper receives is compared in 64 bits, right before the call: otherwise the verifier
 * of Linux 6.1 does not know its bounds.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	SNAP = 1280,	     /* octets of a packet, from its IP header on */
	MAX_INTERFACES = 1024,
	MAX_FLOWS = 1 << 16,
	RING = 4 << 20,
};

/* Set before the program is loaded. */
volatile const __u32 namespace;	 /* inode number of the network namespace */
volatile const __u64 interval;	 /* least ns between two events of a flow; 0: no limit */
volatile const __u8 tunnels;	 /* enum tunnels */

/* The packets of tunnels to report. */
enum tunnels {
	NO_TUNNELS,
	READABLE, /* those that may carry readable RoCEv2 */
	ANY,	  /* also each other ECN-capable IPv6 packet with a flow label, such as ESP */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_INTERFACES);
	__type(key, __u32);   /* interface index */
	__type(value, __u64); /* octets in the queue from which on it is congested */
} thresholds SEC(".maps");

/* An event of the ring buffer. */
struct event {
	__u64 time; /* ns, CLOCK_MONOTONIC */
	__u32 interface;
	__u32 depth;  /* octets in the queue, including the packet */
	__u32 length; /* of the packet, from its IP header on */
	__u32 snap;   /* of data */
	__u8 data[SNAP];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING);
} events SEC(".maps");

struct flow {
	__u32 src[4], dst[4];
	__u32 id;	 /* destination queue pair, or flow label of a tunnel */
	__u32 interface;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow);
	__type(value, __u64); /* time of the last event */
} flows SEC(".maps");

/* Counters of packets above the threshold. */
enum {
	GIVEN,
	LIMITED,  /* the flow had an event within interval */
	LOST,	  /* no room in the ring buffer */
	UNKNOWN,  /* not known whether above: the qdisc counts by CPU */
	COUNTERS,
};

#include "counters.h"

/* The linear octets of a packet, from its IP header on. */
struct octets {
	const unsigned char *begin;
	__u64 n;
};

static __always_inline int load(const struct octets *from, __u32 at, void *to, __u32 n)
{
	if ((__u64)at + n > from->n)
		return -1;
	return bpf_probe_read_kernel(to, n, from->begin + at);
}

#include "rocev2.h"

/* ready reports whether the flow may have an event now, and records it. */
static __always_inline int ready(const struct packet *p, enum kind kind, __u32 interface, __u64 now)
{
	struct flow flow = { .interface = interface };
	__u64 *last;

	if (!interval)
		return 1;
	__builtin_memcpy(flow.src, p->src, sizeof(flow.src));
	__builtin_memcpy(flow.dst, p->dst, sizeof(flow.dst));
	flow.id = kind == TUNNEL ? p->label : p->bth.qp & bpf_htonl(0xFFFFFF);
	last = bpf_map_lookup_elem(&flows, &flow);
	if (!last) {
		bpf_map_update_elem(&flows, &flow, &now, BPF_ANY);
		return 1;
	}
	if (now - *last < interval)
		return 0;
	*last = now;
	return 1;
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(enqueue, struct Qdisc *qdisc, const struct netdev_queue *txq, struct sk_buff *skb)
{
	struct net_device *device = skb->dev;
	__u32 interface = device->ifindex, depth;
	__u64 *threshold = bpf_map_lookup_elem(&thresholds, &interface);
	struct octets from;
	struct packet p;
	struct event *e;
	enum kind kind;
	__u64 now, snap;

	if (!threshold || device->nd_net.net->ns.inum != namespace)
		return 0;
	if (qdisc->flags & TCQ_F_CPUSTATS) {
		count(UNKNOWN);
		return 0;
	}
	depth = qdisc->qstats.backlog;
	if (depth < *threshold)
		return 0;
	from.begin = skb->head + skb->network_header;
	from.n = (__u64)(skb->data + (skb->len - skb->data_len)) - (__u64)from.begin;
	if (from.n > 1 << 16) /* or the IP header is not among the linear octets */
		return 0;
	kind = parse(&from, skb->protocol, &p);
	if (kind == OTHER && tunnels == ANY && p.label && p.ecn)
		kind = TUNNEL;
	if (kind != DATA && !(kind == TUNNEL && tunnels))
		return 0;
	now = bpf_ktime_get_ns();
	if (!ready(&p, kind, interface, now)) {
		count(LIMITED);
		return 0;
	}
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		count(LOST);
		return 0;
	}
	e->time = now;
	e->interface = interface;
	e->depth = depth;
	e->length = from.n + skb->data_len;
	snap = from.n;
	barrier_var(snap);
	if (snap > SNAP)
		snap = SNAP;
	if (bpf_probe_read_kernel(e->data, snap, from.begin))
		snap = 0;
	e->snap = snap;
	bpf_ringbuf_submit(e, 0);
	count(GIVEN);
	return 0;
}
