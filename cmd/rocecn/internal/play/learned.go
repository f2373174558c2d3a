package play

import (
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// learnedFrom returns the line of a packet that a Map has just observed: it has
// Action silent when the packet taught nothing. Of the two pairs of a connection,
// which are learned together, it names the queue pair of the host that the packet
// goes to: the one that a CNP about what that host sends must name.
func learnedFrom(m *qpmap.Map, p *rocev2.Packet) (l line) {
	for k, pair := range m.Learned() {
		if l.Action == silent || k.Src == p.Dst {
			l = line{Action: learned, QP: &pair.SrcQP}
		}
	}
	return l
}
