package qpmap_test

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A pair is known immediately after the message that makes it: the first REP to an uncontradicted
// REQ accepts the connection, and any message with the communication ids of the pair ends it.
func TestAcceptedAndEnded(t *testing.T) {
	c := &connection{A: netip.MustParseAddr("10.0.0.1"), B: netip.MustParseAddr("10.0.0.2"), a: 17, b: 18,
		psnA: 100, psnB: 200, commA: 7, commB: 8, mtu: 3}
	forged, stranger := *c, *c
	forged.a, stranger.commB = 66, 9
	accepted := qplearn.Connection{Requester: qplearn.End{CommID: 7, QP: 17, PSN: 200},
		Responder: qplearn.End{CommID: 8, QP: 18, PSN: 100}, PKey: 0xFFFF, MTU: 1024, Transport: bth.TransportRC}
	forth, back := flowtable.KeyOf(c.A, c.B, c.b, 5), flowtable.KeyOf(c.B, c.A, c.a, 5)
	for _, x := range []struct {
		name            string
		packets         []rocev2.Packet
		accepted, ended bool // by the last one
	}{
		{"REQ", []rocev2.Packet{c.req()}, false, false},
		{"REP", []rocev2.Packet{c.req(), c.rep()}, true, false},
		{"REP without REQ", []rocev2.Packet{c.rep()}, false, false},
		{"REP again", []rocev2.Packet{c.req(), c.rep(), c.rep()}, false, false},
		{"REQ and REP again", []rocev2.Packet{c.req(), c.rep(), c.req(), c.rep()}, false, false},
		{"another REQ", []rocev2.Packet{c.req(), forged.req(), c.rep()}, false, false},
		{"RTU", []rocev2.Packet{c.req(), c.rep(), c.rtu()}, false, false},
		{"data", []rocev2.Packet{c.req(), c.rep(), c.request(0)}, false, false},
		{"DREQ", []rocev2.Packet{c.req(), c.rep(), c.dreq()}, false, true},
		{"DREP", []rocev2.Packet{c.req(), c.rep(), c.drep()}, false, true},
		{"REJ", []rocev2.Packet{c.req(), c.rep(), c.rej()}, false, true},
		{"DREQ, and then DREP", []rocev2.Packet{c.req(), c.rep(), c.dreq(), c.drep()}, false, false},
		{"DREQ of another connection", []rocev2.Packet{c.req(), c.rep(), stranger.dreq()}, false, false},
		{"REJ of a REQ", []rocev2.Packet{c.req(), c.rej()}, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := qpmap.New(qpmap.Config{Grow: true})
			for i := range x.packets {
				m.Observe(&x.packets[i], 5, start)
			}
			got, ok := m.QPs().Accepted()
			require.Equal(t, x.accepted, ok)
			if ok {
				require.Equal(t, accepted, got)
			}
			key, ok := m.QPs().Ended()
			require.Equal(t, x.ended, ok)
			if ok && key != forth {
				require.Equal(t, back, key)
			}
		})
	}
}
