package main

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A message about a packet of a real capture becomes a CNP to its sender.
func TestTranslate(t *testing.T) {
	var congested rocev2.Frame
	var data rocev2.Packet
	frame := wiretest.Capture(t, "rxe-verbs6.pcap")[50].Data
	congested.Decode(frame, rocev2.DecodeOptions{})
	require.NoError(t, data.DecodeEthernet(frame))
	message, err := proxymsg.For(&congested, 3)
	require.NoError(t, err)
	message.Cut(netip.MustParseAddr("2001:db8::1"))
	octets, err := message.AppendBinary(nil)
	require.NoError(t, err)

	p := proxy{senderQP: map[rocev2.FlowKey]uint32{data.FlowKey(): 0x22}}
	b, err := p.translate(nil, octets)
	require.NoError(t, err)
	var packet rocev2.Packet
	require.NoError(t, packet.DecodeIP(b))
	c, err := cnp.FromPacket(&packet)
	require.NoError(t, err)
	require.Equal(t, cnp.New(0x22, data.BTH.PKey), c)
	require.Equal(t, []netip.Addr{data.Dst, data.Src}, []netip.Addr{packet.Src, packet.Dst})
	_, err = (&proxy{}).translate(nil, octets)
	require.ErrorContains(t, err, "no queue pair known")
	_, err = p.translate(nil, octets[:20])
	require.Error(t, err)
}
