package rocev2

import (
	"fmt"
	"testing"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The texts of packets, flows and frames.
func TestStrings(t *testing.T) {
	var p Packet
	require.NoError(t, p.DecodeEthernet(wiretest.Hex(t, send6)))
	require.Equal(t,
		"[fd77::2]:58177 > [fd77::1]:4791, RC SEND Only DestQP 0x000011 PSN 16777200 PKey 0xffff AckReq 1, 0 octets "+
			"of payload", fmt.Sprint(p))
	require.Equal(t, "[fd77::2]:58177 > [fd77::1]:4791, 16 octets", fmt.Sprint(p.Datagram))
	flow, ok := p.FlowKey()
	require.True(t, ok)
	require.Equal(t, "fd77::2 > fd77::1 qp 0x000011", fmt.Sprint(flow))
	p.BTH.Opcode = 0x81
	flow, ok = p.FlowKey()
	require.False(t, ok, "a notification")
	require.Zero(t, flow)
	var f Frame
	require.False(t, f.Tunnelled())
	require.Equal(t, "no flow: "+errFrame.Error(), fmt.Sprint(&f))
	f.Decode(wiretest.Hex(t, send6), DecodeOptions{})
	require.Equal(t, "[fd77::2]:58177 > [fd77::1]:4791 protocol 17", fmt.Sprint(&f))
	f.Decode(wrap(wire.ProtoIPv6, wiretest.Hex(t, send6)[14:]), DecodeOptions{Link: LinkIP})
	require.Equal(t, "[fd77::2]:58177 > [fd77::1]:4791 protocol 17 in a tunnel ::1 > ::2", fmt.Sprint(&f))
}

// A verified packet is built with the same ICRC.
func TestVerifyICRC(t *testing.T) {
	var p Packet
	require.NoError(t, p.DecodeIP(wrap(wire.ProtoHopByHop,
		append(extension(wire.ProtoUDP), wiretest.Hex(t, send6)[54:]...))))
	p.Coverage = icrc.Without
	out := wiretest.Must(p.AppendBinary(nil))(t)
	require.NoError(t, p.DecodeIP(out))
	require.Equal(t, icrc.AsSent, p.Coverage)
	c := wiretest.Must(p.VerifyICRC())(t)
	require.Equal(t, icrc.Without, c)
	again, err := p.AppendBinary(nil)
	require.NoError(t, err)
	require.Equal(t, out, again)
	out[len(out)-1]++
	_, err = p.VerifyICRC()
	require.ErrorIs(t, err, rocecn.ErrICRC)
	require.Equal(t, icrc.Without, p.Coverage, "as it was")
	require.NoError(t, p.Decode(out[:len(out)-1], DecodeOptions{Link: LinkIP, Cut: true}))
	_, err = p.VerifyICRC()
	require.ErrorIs(t, err, errTruncated)
}

func TestAnswerable(t *testing.T) {
	for _, good := range []string{"192.0.2.1", "10.0.0.1", "2001:db8::1", "fd77::1", "223.255.255.255"} {
		require.NoError(t, CheckAnswerable(addr(good)), good)
	}
	for _, bad := range []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
		"255.255.255.255", "169.254.1.1",
		"::", "::1", "ff02::1", "fe80::1", "fe80::1%eth0", "::ffff:192.0.2.1"} {
		require.ErrorIs(t, CheckAnswerable(addr(bad)), ErrNotReachable, bad)
	}
	var none Packet
	require.ErrorIs(t, CheckAnswerable(none.Src), ErrNotReachable)
}
