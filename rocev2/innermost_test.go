package rocev2_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// Parts of a tagged frame with a VXLAN packet over IPv6 that carries an IPv4 packet.
const (
	taggedHeader = `020000000002 020000000001 8100 0064 86dd`
	vxlanPacket  = `60000000 0046 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
		c000 12b5 0046 0000 08000000 00006400 020000000004 020000000003 0800` + innerIPv4
	erspan = `4500004e 0000 4000 40 2f 0000 c0000201 c0000202 000088be 020000000004 020000000003 0800` + innerIPv4

	innerIPv4 = `45000028 0000 4000 40 11 0000 c0000201 c0000202 c001 12b7 0014 0000 81 00 ffff 00000011 00000000`
)

func TestInnermost(t *testing.T) {
	inner := wiretest.Hex(t, innerIPv4)
	for _, c := range []struct {
		name   string
		octets string
		o      rocev2.DecodeOptions
		inner  []byte
	}{
		{"tagged frame", taggedHeader + vxlanPacket, rocev2.DecodeOptions{}, inner},
		{"padding after it", taggedHeader + vxlanPacket + `000000`, rocev2.DecodeOptions{}, inner},
		{"raw IP", vxlanPacket, rocev2.DecodeOptions{Link: rocev2.LinkIP}, inner},
		{"no tunnel", innerIPv4, rocev2.DecodeOptions{Link: rocev2.LinkIP}, inner},
		{"MPLS labels", `020000000002 020000000001 8847 00010040 00020140` + innerIPv4, rocev2.DecodeOptions{}, inner},
		{"a mirrored copy", erspan, rocev2.DecodeOptions{Link: rocev2.LinkIP}, wiretest.Hex(t, erspan)},
		{"not IP", `020000000002 020000000001 0806 0001`, rocev2.DecodeOptions{}, nil},
		{"another version than announced", `020000000002 020000000001 0800 60000000`, rocev2.DecodeOptions{}, nil},
		{"nothing", ``, rocev2.DecodeOptions{Link: rocev2.LinkIP}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			require.Equal(t, c.inner, rocev2.Innermost(b, c.o))
			wiretest.NoAllocs(t, c.name, func() { rocev2.Innermost(b, c.o) })
		})
	}
}

// BorderPacket returns a malformed innermost packet: truncated at any octet, with a wrong length field, or a fragment.
func TestInnermostBroken(t *testing.T) {
	o := rocev2.DecodeOptions{Link: rocev2.LinkIP}
	b := wiretest.Hex(t, vxlanPacket)
	from := len(b) - 40
	for n := from + 1; n < len(b); n++ {
		require.Equal(t, b[from:n], rocev2.Innermost(b[:n:n], o))
	}
	for _, change := range []struct {
		at    int
		value byte
	}{{2, 0xFF}, {2, 0x00}, {0, 0x4F}, {6, 0x20}, {7, 0x01}, {9, 6}, {25, 0x01}, {24, 0xFF}} {
		broken := wiretest.Hex(t, vxlanPacket)
		broken[from+change.at] = change.value
		require.Equal(t, broken[from:], rocev2.Innermost(broken, o), change)
	}
	broken := wiretest.Hex(t, vxlanPacket)
	broken[45] = 0 // wrong outer UDP length: the walk does not enter such a tunnel
	require.Equal(t, broken, rocev2.Innermost(broken, o))
}

func TestFirstFragmentPort(t *testing.T) {
	const (
		macs  = "020000000001 020000000002"
		v6    = "20010db8000000000000000000000001 20010db8000000000000000000000002"
		udp   = "c000 12b7 0020 0000"
		more4 = "4500 001c 0001 2000 4011 0000 c0000201 c0000202"
		next4 = "4500 001c 0001 0001 4011 0000 c0000201 c0000202"
		more6 = "60000000 0010 2c 40" + v6 + "11 00 0001 00000001"
		next6 = "60000000 0010 2c 40" + v6 + "11 00 0009 00000001"
	)
	in4 := func(total string) string { return "4500 " + total + "0001 0000 4004 0000 c0000201 c0000202" }
	for _, c := range []struct {
		name, octets string
		ok           bool
	}{
		{"IPv4, first", more4 + udp, true},
		{"IPv4, options", "4600 0020 0001 2000 4011 0000 c0000201 c0000202 01010101" + udp, true},
		{"IPv4, ports and no more", more4 + "c000 12b7", true},
		{"IPv6, ports and no more", more6 + "c000 12b7", true},
		{"IPv6, no ports", more6 + "c000 12", false},
		{"IPv4, second", next4 + udp, false},
		{"IPv4, TCP", "4500 001c 0001 2000 4006 0000 c0000201 c0000202" + udp, false},
		{"IPv4, no ports", more4 + "c000 12", false},
		{"IPv4, no fragment", "4500 001c 0001 0000 4011 0000 c0000201 c0000202" + udp, false},
		{"IPv6, first", more6 + udp, true},
		{"IPv6, Destination Options after it", "60000000 0018 2c 40" + v6 + "3c 00 0001 00000001 1100 01040000 0000" +
			udp, true},
		{"IPv6, Hop-by-Hop before", "60000000 0018 00 40" + v6 + "2c00 01040000 0000 11 00 0001 00000001" + udp, true},
		{"IPv6, second", next6 + udp, false},
		{"IPv6, truncated header", more6[:len(more6)-2], false},
		{"IPv6, next header truncated", "60000000 0018 2c 40" + v6 + "3c 00 0001 00000001 1101 01040000 0000", false},
		{"in IPv4", in4("0030") + more4 + udp, true},
		{"in IPv6", "60000000 0038 29 40" + v6 + more6 + udp, true},
		{"4 deep in IPv4", in4("0080") + in4("006c") + in4("0058") + in4("0044") + more4 + udp, true},
		{"5 deep in IPv4", in4("0094") + in4("0080") + in4("006c") + in4("0058") + in4("0044") + more4 + udp, false},
		{"nothing", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := wiretest.Hex(t, c.octets)
			port, ok := rocev2.FirstFragmentPort(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			require.Equal(t, c.ok, ok)
			if !ok {
				return
			}
			require.EqualValues(t, rocev2.Port, port)
			var p rocev2.Packet
			require.ErrorIs(t, p.DecodeIP(ip), rocev2.ErrFragment)
			ether := "0800"
			if ip[0]>>4 == 6 {
				ether = "86dd"
			}
			frame := append(wiretest.Hex(t, macs+ether), ip...)
			port, ok = rocev2.FirstFragmentPort(frame, rocev2.DecodeOptions{})
			require.True(t, ok)
			require.EqualValues(t, rocev2.Port, port)
			wiretest.NoAllocs(t, c.name, func() { rocev2.FirstFragmentPort(frame, rocev2.DecodeOptions{}) })
			for n := range frame { // no panic
				rocev2.FirstFragmentPort(frame[:n:n], rocev2.DecodeOptions{})
			}
		})
	}
}

// Packet.Outer of a message that Decode found in a tunnel of any kind is not empty, so that a host can ignore it, and
// no answer is allowed. Link, Outer and IP follow each other.
func TestMessagesInTunnels(t *testing.T) {
	rocev2.Flows(t, func(name string, frame []byte, roce, tunnelled bool) {
		t.Run(name, func(t *testing.T) {
			var m message.Message
			err := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{SkipVerify: true})
			require.Equal(t, roce, err == nil)
			require.Equal(t, roce, m.Kind != message.KindOther)
			if !roce {
				return
			}
			p := &m.Packet
			require.Equal(t, tunnelled, len(p.Outer) > 0)
			require.Equal(t, frame, slices.Concat(p.Link, p.Outer, p.IP))
			if m.Kind == message.KindData {
				require.Equal(t, tunnelled, errors.Is(p.MayAnswer(), rocev2.ErrTunnelled))
			}
		})
	})
}
