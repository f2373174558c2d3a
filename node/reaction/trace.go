package reaction

import (
	"time"

	"github.com/rocecn/rocecn/ioam"
)

// Hops appends to hops what the nodes of a trace said, newest first: those that recorded
// the depth of their queue, in octets, and whose bandwidth is known. Bandwidth returns that of
// the port that a node names, in bits a second; 0 stands for not known. The times
// are those of the namespace's format, counted from 1970; a node without one has 0.
func Hops(hops []Hop, t *ioam.Trace, f ioam.TimeFormat, bandwidth func(n ioam.Node) uint64) []Hop {
	var n ioam.Node
	for c := t.Cursor(); c.Next(&n); {
		if !n.Available().Has(ioam.BitQueueDepth) {
			continue
		}
		h := Hop{B: bandwidth(n), QLen: uint64(n.QueueDepth)}
		if h.B == 0 {
			continue
		}
		if at, ok := n.Time(f); ok {
			h.TS = time.Duration(at.UnixNano())
		}
		hops = append(hops, h)
	}
	return hops
}
