package reaction

import (
	"time"

	"github.com/rocecn/rocecn/ioam"
)

// Hops appends to hops the nodes of a trace, newest first, that recorded the depth of their queue, in octets, and
// have a known bandwidth. Bandwidth returns the bandwidth of the port that a node names, in bits a second, or 0 if it
// is unknown. The times are in the format of the namespace, counted from 1970; a node without a time has 0.
func Hops(hops []Hop, t *ioam.Trace, f ioam.TimeFormat, bandwidth func(n ioam.Node) uint64) []Hop {
	var n ioam.Node
	for c := t.Cursor(); c.Next(&n); {
		depth, ok := n.QueueDepth()
		if !ok {
			continue
		}
		h := Hop{B: bandwidth(n), QLen: uint64(depth)}
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
