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
			f.Decode(c.frame, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true})
			out, err := Decapsulate([]byte{9}, &f)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, []byte{9}, out)
		})
	}
}
