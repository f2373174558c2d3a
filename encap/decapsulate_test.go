package encap

import (
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The ECN field after decapsulation, by outer (columns) and inner field (RFC 6040 section 4.2, figure 4); 9 is a drop.
var rfc6040 = [4][4]byte{ // Not-ECT, ECT(1), ECT(0), CE outside
	{0, 0, 0, 9}, // Not-ECT inside
	{1, 1, 1, 3}, // ECT(1)
	{2, 1, 2, 3}, // ECT(0)
	{3, 3, 3, 3}, // CE
}

func TestDecapsulate(t *testing.T) {
	for _, tunnel := range tunnels() {
		for _, inner := range []struct{ name, octets string }{{"IPv6", six}, {"IPv4", four}} {
			for outerECN := range byte(4) {
				for innerECN := range byte(4) {
					name := fmt.Sprintf("%T %s outer %d inner %d", tunnel, inner.name, outerECN, innerECN)
					t.Run(name, func(t *testing.T) {
						packet := wiretest.Hex(t, inner.octets)
						wiretest.SetECN(t, packet, uint8(innerECN))
						frame := wiretest.Must(tunnel.Append(nil, packet, 5))(t)
						wiretest.SetECN(t, frame, uint8(outerECN))
						var f rocev2.Frame
						f.Decode(append(frame, 0, 0), rocev2.DecodeOptions{Link: rocev2.LinkIP})
						out, err := Decapsulate([]byte{9}, &f)
						ecn := rfc6040[innerECN][outerECN]
						if ecn == 9 {
							require.ErrorIs(t, err, ErrCongested)
							require.Equal(t, []byte{9}, out)
							return
						}
						require.NoError(t, err)
						wiretest.SetECN(t, packet, uint8(ecn))
						require.Equal(t, append([]byte{9}, packet...), out)
						buf := make([]byte, 0, 256)
						wiretest.NoAllocs(t, "Decapsulate", func() { _, _ = Decapsulate(buf, &f) })
					})
				}
			}
		}
	}
}

func TestNotDecapsulated(t *testing.T) {
	tunnelled := func(cut int) []byte {
		b := wiretest.Must((&VXLAN{pe, egress, 7, ethernet}).Append(nil, wiretest.Hex(t, four), 5))(t)
		return b[:len(b)-cut]
	}
	for _, c := range []struct {
		name  string
		frame []byte
		err   error
	}{
		{"no tunnel", wiretest.Hex(t, six), errNotTunnelled},
		{"not IP", []byte{1, 2, 3}, errNotTunnelled},
		{"an octet is missing", tunnelled(1), wireerr.Truncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f rocev2.Frame
			f.Decode(c.frame, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true})
			out, err := Decapsulate([]byte{9}, &f)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, []byte{9}, out)
		})
	}
}

// Pieces of frames.
const (
	macs    = "020000000002 020000000001"
	hosts   = "c0000201 c0000202"
	label   = "3e801140"                                       // the last one of its stack
	payload = "00 0018 00004000 40fd0000" + hosts + "deadbeef" // IPv4 after its first octet, Not-ECT
)

// The ECN field of each header counts (RFC 6040 section 4.2), one after the other.
func TestDecapsulateLayers(t *testing.T) {
	const outer, middle = " 0040 00000000 40040000" + hosts, " 002c 00000000 40040000" + hosts
	for _, c := range []struct {
		name  string
		frame string
		ecn   byte
		err   error
	}{
		{"CE in the middle", "4502" + outer + "4503" + middle + "4502", 3, nil},
		{"CE in the middle around Not-ECT", "4502" + outer + "4503" + middle + "4500", 0, ErrCongested},
		{"CE outside around Not-ECT", "4503" + outer + "4500" + middle + "4502", 0, ErrCongested},
		{"ECT(1) outside", "4501" + outer + "4502" + middle + "4502", 1, nil},
		{"CE inside", "4500" + outer + "4500" + middle + "4503", 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f rocev2.Frame
			f.Decode(wiretest.Hex(t, macs+"0800"+c.frame+payload[2:]), rocev2.DecodeOptions{})
			out, err := Decapsulate([]byte{9}, &f)
			require.Equal(t, c.err, err)
			if c.err != nil {
				require.Equal(t, []byte{9}, out)
				return
			}
			require.Equal(t, []byte{9, 0x45, c.ecn, 0, 24}, out[:5])
			require.Len(t, out, 1+24)
			buf := make([]byte, 0, 256)
			wiretest.NoAllocs(t, "Decapsulate", func() { _, _ = Decapsulate(buf, &f) })
		})
	}
}

func TestDecapsulateFrame(t *testing.T) {
	const packet = "45" + payload
	for _, c := range []struct {
		name, frame   string
		packet, inner string // the results of Decapsulate and DecapsulateFrame
		err, frameErr error
	}{
		{"labels", macs + "8847" + label + packet, packet, macs + "0800" + packet, nil, nil},
		{"pseudowire", macs + "8847" + label + "00000000" + "04" + macs[2:] + "0800" + packet, packet,
			"04" + macs[2:] + "0800" + packet, nil, nil},
		{"labels in VXLAN", macs + "0800 4500004e 00000000 40110000" + hosts + "c00112b5 003a 0000 0800000000002a00" +
			"04" + macs[2:] + "8847" + label + packet, packet, "04" + macs[2:] + "0800" + packet, nil, nil},
		{"labels in VXLAN after a tag", macs + "0800 45000052 00000000 40110000" + hosts +
			"c00112b5 003e 0000 0800000000002a00" + "04" + macs[2:] + "81002007 8847" + label + packet, packet,
			"04" + macs[2:] + "81002007 0800" + packet, nil, nil},
		{"Not-ECT copied by a mirror, in a marked tunnel", macs + "0800 4503 0052 00000000 40040000" + hosts +
			"4502003e 00000000 402f0000" + hosts + "000088be" + "04" + macs[2:] + "0800" + packet, packet,
			"04" + macs[2:] + "0800" + packet, nil, nil},
		{"IP in IP", macs + "0800 4500002c 00000000 40040000" + hosts + packet, packet, "", nil, errNoEthernet},
		{"no IP header inside", macs + "0800 45000020 00000000 40040000" + hosts + "0102030405060708090a0b0c", "", "",
			errInner, errNoEthernet},
		{"no IPv6 header inside", macs + "0800 45000020 00000000 40290000" + hosts + "0102030405060708090a0b0c", "", "",
			errInner, errNoEthernet},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f rocev2.Frame
			f.Decode(append(wiretest.Hex(t, c.frame), 0, 0), rocev2.DecodeOptions{})
			out, err := Decapsulate([]byte{9}, &f)
			require.Equal(t, c.err, err)
			require.Equal(t, wiretest.Hex(t, "09"+c.packet), out)
			out, err = DecapsulateFrame([]byte{9}, &f)
			require.Equal(t, c.frameErr, err)
			require.Equal(t, wiretest.Hex(t, "09"+c.inner), out)
			buf := make([]byte, 0, 256)
			wiretest.NoAllocs(t, "DecapsulateFrame", func() { _, _ = DecapsulateFrame(buf, &f) })
		})
	}
}
