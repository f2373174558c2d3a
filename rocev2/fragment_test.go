package rocev2_test

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
		{"IPv6, Destination Options behind", "60000000 0018 2c 40" + v6 + "3c 00 0001 00000001 1100 01040000 0000" +
			udp, true},
		{"IPv6, Hop-by-Hop before", "60000000 0018 00 40" + v6 + "2c00 01040000 0000 11 00 0001 00000001" + udp, true},
		{"IPv6, second", next6 + udp, false},
		{"IPv6, header cut", more6[:len(more6)-2], false},
		{"IPv6, extension behind cut", "60000000 0018 2c 40" + v6 + "3c 00 0001 00000001 1101 01040000 0000", false},
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
