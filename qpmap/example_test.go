package qpmap_test

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A proxy learns from passing packets, and then knows the queue pair that a CNP has to name.
func Example() {
	m := qpmap.New(qpmap.Config{})
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

	learn := func(p rocev2.Packet) {
		m.Observe(&p, 0, now)
		for k, pair := range m.Learned() {
			fmt.Printf("%v: from queue pair 0x%06x, by %v\n", k.FlowKey, pair.SrcQP, pair.From)
		}
	}
	c := live()
	for n := range uint32(3) {
		learn(c.request(n)) // to queue pair 0x31
		learn(c.ack(n))     // to queue pair 0x21
	}

	pair, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, now)
	fmt.Printf("CNP to queue pair 0x%06x, %v\n", pair.SrcQP, err)
	// Output:
	// 2001:db8::a > 2001:db8::b qp 0x000031: from queue pair 0x000021, by votes
	// 2001:db8::b > 2001:db8::a qp 0x000021: from queue pair 0x000031, by votes
	// CNP to queue pair 0x000021, <nil>
}
