package rocev2_test

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
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
		{"padding behind it", taggedHeader + vxlanPacket + `000000`, rocev2.DecodeOptions{}, inner},
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
