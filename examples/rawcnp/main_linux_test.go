package main

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The ICRC is right where the CNP arrives, except in an IPv4 packet that may be
// fragmented and has no Identification, because Linux sets it.
func TestSend(t *testing.T) {
	a, b := wiretest.NewHost(t, "a"), wiretest.NewHost(t, "b")
	wiretest.Link(t, wiretest.End{Host: a, Device: "a0", Addresses: []string{"192.0.2.2/24", "2001:db8:1::b/64"}},
		wiretest.End{Host: b, Device: "b0", Addresses: []string{"192.0.2.1/24", "2001:db8:1::a/64"}})
	in := wiretest.Open(t, b, netio.OpenPackets, netio.PacketConfig{
		Interface: "b0", Filter: &filter.Capture{Selection: filter.RoCEv2},
	})
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	defer poll.Close()
	out := wiretest.Open(t, a, netio.OpenRaw, "")
	for _, c := range []struct {
		receiver, sender string
		as               rocev2.Carriage
		right            bool
	}{
		{"192.0.2.2", "192.0.2.1", rocev2.Carriage{}, true},
		{"192.0.2.2", "192.0.2.1", rocev2.Carriage{MayFragment: true}, false},
		{"192.0.2.2", "192.0.2.1", rocev2.Carriage{MayFragment: true, ID: 1}, true},
		{"192.0.2.77", "192.0.2.1", rocev2.Carriage{ID: 1}, true}, // in another's name
		{"2001:db8:1::b", "2001:db8:1::a", rocev2.Carriage{}, true},
	} {
		receiver, sender := netip.MustParseAddr(c.receiver), netip.MustParseAddr(c.sender)
		require.NoError(t, sendCNP(out, 0x11, receiver, sender, c.as))
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.Len(t, packets, 1)
		var p rocev2.Packet
		require.NoError(t, p.Decode(packets[0].Data, packets[0].Options()))
		require.Equal(t, receiver, p.Src)
		require.EqualValues(t, 0x11, p.BTH.DestQP)
		if _, err = icrc.Verify(p.IP); c.right {
			require.NoError(t, err, "%+v", c)
		} else {
			require.Error(t, err, "%+v", c)
		}
	}
	require.Error(t, sendCNP(out, 0x11, netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.1"),
		rocev2.Carriage{}))
}
