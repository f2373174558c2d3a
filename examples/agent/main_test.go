package main

import (
	"bytes"
	"net/netip"
	"os"
	"testing"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Every traced packet is answered on its way back, with its trace.
func TestAgent(t *testing.T) {
	f := wiretest.Must(os.Open(wiretest.Path(t, "ioam-linux618-hpcc.pcap")))(t)
	defer f.Close()
	in := wiretest.Must(netio.OpenFile(f))(t)
	var b bytes.Buffer
	out := wiretest.Must(in.Sink(&b, capture.Ethernet))(t)
	a := agent{self: netip.MustParseAddr("2001:db8:ffff::5")}
	require.NoError(t, netio.Run(t.Context(), out, a.answer, in))

	congested := wiretest.Capture(t, "ioam-linux618-hpcc.pcap")
	answers, err := capture.Open(&b)
	require.NoError(t, err)
	n := 0
	for r, err := range capture.All(answers) {
		require.NoError(t, err)
		var p rocev2.Packet
		require.NoError(t, p.DecodeEthernet(r.Data))
		require.Equal(t, congested[n].Data[6:12], r.Data[:6])
		_, err = p.VerifyICRC()
		require.NoError(t, err)
		message := wiretest.Must(fastcnp.FromPacket(&p))(t)
		require.Equal(t, uint8(2), message.Option.Number)
		n++
	}
	require.Equal(t, len(congested), n)
	_, _, err = open("no such interface")
	require.Error(t, err)
}
