// Package node has the parts that all roles share: [Role], [Event], [Decision] with its [Action], [Reason] and
// [Request], [Counters], and [Pairs], the queue pairs that send flows.
//
// A role is the part of one kind of node in the drafts: the congested switch, the receiver, the sender, the proxy, the
// ingress PE, the border. Each is a package of its own, a state machine without I/O: a frame and an Event go in, a
// packet to send and a Decision come out. No role starts a goroutine or reads a clock. Times are those of packets, and
// may jump back. The zero Time, of a packet without a known time, stands for the time of the packet before.
//
// A role allocates all its memory when it is first enabled; every table has a maximum size. It is not safe for
// concurrent use, except for its Counters: use one instance for each core, with the flows of that core.
//
// # The fields of a Config
//
// The zero Config of each role is off. The Configs of all roles use the same names:
//
//	Enabled           without it nothing is sent or accepted
//	Self4, Self6      the node's own addresses; one of them is needed, unless the Config documents otherwise
//	Accept            the nodes whose messages are accepted; nil has none
//	QPs               the queue pairs that send flows; nil knows none. A [Learner] learns from every packet
//	In, InPerSource   rates of the messages of all nodes, and of each, so that no node uses up the share of others.
//	                  A message of a node on the list is charged to both before it is read, even if it is rejected
//	PerFlow, Out      the shortest time between two messages that are sent about one flow, and the rate of all.
//	                  Only sent messages are charged
//	Accepted, AcceptedPerSource
//	                  rates of the messages of all nodes, and of each, that the sender accepts. Only accepted messages
//	                  are charged
//	MaxFlows, …       the number of entries of a table; 0 stands for the default. A full table evicts an old entry
//	Seed              of the hash tables, so that an attacker cannot choose keys that collide, and of the labels of
//	                  an ingress PE. 0 stands for a random one, drawn when the role is first enabled
//
// By default there is no limit. A message that one limit rejects is not charged to the others.
//
// Experimental: this package may change in a minor release.
package node
