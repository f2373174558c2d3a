/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of the kernel's types that the programs use. The offsets of the members are found
 * when a program is loaded, by the BTF of the running kernel.
 */
#ifndef KERNEL_H
#define KERNEL_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct netdev_queue {
	struct net_device *dev;
};

struct gnet_stats_queue {
	__u32 qlen;
	__u32 backlog;
};

struct Qdisc {
	unsigned int flags;
	struct netdev_queue *dev_queue;
	struct gnet_stats_queue qstats;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len, data_len;
	__be16 protocol;
	__u16 network_header;
	unsigned char *head, *data;
};

#pragma clang attribute pop

/* The statistics of such a qdisc are kept by CPU (include/net/sch_generic.h). */
#define TCQ_F_CPUSTATS 0x20

#endif
