package main

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The FCN of label BEEF5 becomes a CNP to the flow's sender and its queue pair.
func TestAnswer(t *testing.T) {
	sender := netip.MustParseAddr("192.0.2.1")
	p := pe{self: netip.MustParseAddr("192.0.2.9"), flows: map[uint32]flow{
		0xBEEF5: {rocev2.FlowKey{Src: sender, Dst: netip.MustParseAddr("192.0.2.2"), DestQP: 0x12}, 0x11, 0xABCD},
	}}
	b, err := p.answer(nil, []byte{0xBE, 0xEF, 0x5E, 0})
	require.NoError(t, err)
	var packet rocev2.Packet
	require.NoError(t, packet.DecodeIP(b))
	_, err = packet.VerifyICRC()
	require.NoError(t, err)
	c := wiretest.Must(cnp.FromPacket(&packet))(t)
	require.Equal(t, cnp.New(0x11, 0xABCD), c)
	require.Equal(t, sender, packet.Dst)
	for _, data := range [][]byte{{}, {1, 2, 3}, {1, 2, 3, 4}, {0xBE, 0xEF, 0x5E, 0, 0}} {
		b, err := p.answer(nil, data)
		require.Error(t, err, "%x", data)
		require.Empty(t, b)
	}
}
