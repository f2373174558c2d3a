// Package lab is a laboratory: a network of hosts, links and switches in which
// the roles of package node exchange their real octets, event by event.
//
//	host ── link ── switch ── link ── switch ── link ── host
//	 │ paces, reacts   │ queues, marks, notifies, pauses   │ acknowledges, sends CNPs
//
// Data is a descriptor while it waits and flies; its octets are made where a role
// reads them. CNPs, Fast CNPs and PFC frames are octets from where they are made
// to where they are read.
//
// A [Network] is built once, from its seed, and runs once. Runs share nothing: any number
// may go on at the same time. docs/laboratory.md says what is modelled and
// what is not.
package lab
