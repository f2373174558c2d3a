//go:build linux

package main

import (
	"io"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Every traced packet is answered on its way back, with its trace.
func TestAgent(t *testing.T) {
	in, _, err := open(wiretest.Path(t, "ioam-linux618-hpcc.pcap"), "")
	require.NoError(t, err)
	a := agent{self: netip.MustParseAddr("2001:db8:ffff::5")}
	congested := wiretest.Capture(t, "ioam-linux618-hpcc.pcap")
	n := 0
	require.ErrorIs(t, a.run(in, func(b []byte) error {
		var p rocev2.Packet
		require.NoError(t, p.DecodeFrame(b))
		require.Equal(t, congested[n].Data[6:12], b[:6])
		_, err := p.VerifyICRC()
		require.NoError(t, err)
		message, err := fastcnp.FromPacket(&p)
		require.NoError(t, err)
		require.Equal(t, uint8(2), message.Option.Number)
		n++
		return nil
	}), io.EOF)
	require.Equal(t, len(congested), n)
	_, _, err = open("", "no such interface")
	require.Error(t, err)
}
