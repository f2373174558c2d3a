// Package lab simulates a network of hosts, links and switches, in which the
// roles of package node exchange their real octets, event by event.
//
//	host ── link ── switch ── link ── switch ── link ── host
//	 │ paces, reacts   │ queues, marks, notifies, pauses   │ acknowledges, sends CNPs
//
// A packet of data is only a descriptor while it waits and travels; its octets
// are built when a role reads them. CNPs, Fast CNPs and PFC frames have octets
// from sender to receiver.
//
// A [Network] is built once, from its seed, and runs once. Runs share nothing, so any number may run concurrently.
// docs/laboratory.md describes the model and its limits.
package lab
