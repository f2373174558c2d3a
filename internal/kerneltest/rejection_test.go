//go:build linux

package kerneltest

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A sender that does not know the Fast CNP option answers with an ICMPv6 Parameter Problem, from which the switch
// learns the sender and the flow. The congested packets are those that arrive at the receiver.
func TestLinuxRejectsFastCNP(t *testing.T) {
	r := newRoad(t)
	r.sender.set(t, "ipv6/icmp/ratelimit", 0)
	plain := dataPacket(1, nil)
	traced := dataPacket(2, hopByHop(t, ioam.Trace{Namespace: namespace, Type: everything}, 41))
	long := dataPacket(3, hopByHop(t, ioam.Trace{Namespace: namespace, Type: hpcc}, 57))
	for _, c := range []struct {
		name   string
		about  *rocev2.Packet
		types  fastcnp.CodePoints
		number uint8
		typ    ipv6opt.Type
	}{
		{"option 1", &plain, fastcnp.CodePoints{}, 1, fastcnp.Option1Type},
		{"option 2", &traced, fastcnp.CodePoints{}, 2, fastcnp.Option2Type},
		{"option 2, the longest", &long, fastcnp.CodePoints{}, 2, fastcnp.Option2Type},
		{"option 1 of another type", &plain, fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}, 1, 0x83},
		{"option 2 of another type", &traced, fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}, 2, 0x84},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, congested := r.cross(t, c.about)
			cfg := fastcnp.Config{CodePoints: c.types}
			packet, sent := fastCNP(t, &congested, cfg)
			require.Equal(t, c.number, sent.Option.Number)
			require.Equal(t, c.typ, sent.OptionType)
			r.middleC3.sendIP(t, r.middle, packet)
			source, message := r.receiveICMPError(t)

			require.Equal(t, senderAddr.AsSlice(), source)
			require.Equal(t, []byte{4, 2}, message[:2])
			quoted := message[8:]
			packet[7]-- // b2 forwarded it
			require.Equal(t, packet, quoted)
			require.EqualValues(t, c.typ, quoted[binary.BigEndian.Uint32(message[4:])])

			n, err := c.types.FromICMP(message)
			require.NoError(t, err)
			require.Equal(t, sent, n)
			require.Equal(t, fastcnp.OriginNetwork, n.Origin())
			require.Equal(t, senderAddr, n.Dst)
			require.Equal(t, receiverAddr, n.Option.OriginalDst)
			require.Equal(t, congested.BTH.DestQP, n.CNP.DestQP)
			if c.number == 2 {
				_, trace := traceIn(t, &congested)
				require.Equal(t, trace, n.Option.Trace)
			}
			_, err = fastcnp.CodePoints{Option1: 0x85, Option2: 0x86}.FromICMP(message)
			require.ErrorIs(t, err, fastcnp.ErrNotFastCNP)
		})
	}
}

// Linux answers only if the act bits of the type are 10. If they are 00, the packet even reaches an ordinary
// socket: header and checksum are valid.
func TestLinuxSkipsOptionsByTheirActBits(t *testing.T) {
	r := newRoad(t)
	r.sender.set(t, "ipv6/icmp/ratelimit", 0)
	socket := r.sender.listen(t, senderAddr, rocev2.Port)
	traced := dataPacket(1, hopByHop(t, ioam.Trace{Namespace: namespace, Type: hpcc}, 10))
	_, congested := r.cross(t, &traced)
	var delivered [][]byte
	for _, c := range []struct {
		typ    ipv6opt.Type
		destQP uint32
	}{
		{0x1E, 1}, // skip
		{0x5E, 2}, // discard
		{0x9E, 3}, // discard, send ICMP
		{0x1E, 4}, // skip
	} {
		congested.BTH.DestQP = c.destQP
		packet, n := fastCNP(t, &congested, fastcnp.Config{Carriage: rocev2.Carriage{Checksum: true}})
		require.EqualValues(t, 2, n.Option.Number)
		packet[n.Offset] = uint8(c.typ) // a type that no builder uses; the UDP checksum does not cover it
		require.NoError(t, icrc.Write(packet, icrc.AsSent))
		var p rocev2.Packet // the checksum covers the ICRC
		require.NoError(t, p.DecodeIP(packet))
		packet = whole(t, &p)
		if c.typ.Action() == ipv6opt.ActionSkip {
			delivered = append(delivered, packet[len(packet)-32:])
		}
		r.middleC3.sendIP(t, r.middle, packet)
	}
	_, message := r.receiveICMPError(t)
	n := wiretest.Must(fastcnp.CodePoints{Option1: 0x9E, Option2: 0x9E}.FromICMP(message))(t)
	require.EqualValues(t, 3, n.CNP.DestQP)
	for _, want := range delivered {
		require.Equal(t, want, receive(t, socket))
	}
}

// receiveICMPError returns the next ICMPv6 error that c3 receives, and its source.
func (r *road) receiveICMPError(t *testing.T) (source, message []byte) {
	t.Helper()
	frame := r.middleC3.receive(t, "ICMPv6 error", func(frame []byte) bool {
		const icmpv6, errors = 58, 128
		return len(frame) > 62 && frame[14]>>4 == 6 && frame[20] == icmpv6 && frame[54] < errors &&
			[16]byte(frame[38:54]) == switchAddr.As16()
	})
	ip := frame[14:]
	return ip[8:24], ip[40 : 40+int(binary.BigEndian.Uint16(ip[4:]))]
}

// receive returns the data of the next datagram.
func receive(t *testing.T, c *net.UDPConn) []byte {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(packetTimeout)))
	b := make([]byte, 1<<16)
	n := wiretest.Must(c.Read(b))(t)
	return b[:n]
}
