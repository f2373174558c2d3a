// Package node defines the interface of the roles: the parts that the drafts
// describe for each kind of node. A program that runs a role needs one of these
// packages and the types of this one:
//
//   - [github.com/rocecn/rocecn/node/congested]: the congested switch
//   - [github.com/rocecn/rocecn/node/receiver],
//     [github.com/rocecn/rocecn/node/sender]: the two hosts
//   - [github.com/rocecn/rocecn/node/proxy]: the proxy
//   - [github.com/rocecn/rocecn/node/ingress]: the ingress PE of a wide area
//     network
//   - [github.com/rocecn/rocecn/node/border]: the border of a domain
//   - [github.com/rocecn/rocecn/node/pause]: the host or ingress that receives
//     PPFCs
//
// A [Role] is a state machine without I/O: it gets a frame and an [Event], and
// returns a packet to send and a [Decision]. It starts no goroutine and reads
// no clock; times are those of the packets and may jump back. The zero Time
// stands for the time of the packet before.
//
// A role allocates all its memory when it is first enabled; every table has a
// maximum size. It is not safe for concurrent use, except for its [Counters]:
// use one instance for each core, with the flows of that core.
//
// # The fields of a Config
//
// The zero Config of each role is off. The Configs of all roles use the same
// names:
//
//	Enabled           turns the role on; otherwise it sends and accepts nothing
//	Self4, Self6      the node's own addresses; one of them is needed, unless the Config documents otherwise
//	Accept            addresses of the nodes that may send messages; nil accepts none
//	QPs               finds the queue pair that sends a flow; nil finds none. A [Learner] learns from every packet
//	In, InPerSource   limits on received messages: of all nodes, and of each node, so that no node uses up the share
//	                  of others. A message of a node in Accept is charged to both before it is read, even if it is
//	                  rejected later
//	PerFlow, Out      the shortest time between two messages about one flow, and the limit on all sent messages.
//	                  Only sent messages are charged
//	Accepted, AcceptedPerSource
//	                  limits on accepted messages: of all nodes, and of each node (sender). Only accepted messages
//	                  are charged
//	MaxFlows, …       the number of entries of a table; 0 stands for the default. A full table evicts an old entry
//	Seed              the seed of the hash tables, so that an attacker cannot choose keys that collide, and of the
//	                  flow labels of an ingress PE and of Fast CNPs. It should be secret, and cannot change once the
//	                  role was enabled. 0 stands for a random seed, drawn when the role is first enabled
//
// By default there is no limit. A message that one limit rejects is not charged
// to the others.
//
// Experimental: this package may change in a minor release.
package node
