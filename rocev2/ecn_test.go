package rocev2

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// setECN marks an IP packet through the outer view of a Frame.
func setECN(ip []byte, ecn ECN) (ECN, error) {
	var f Frame
	f.Decode(ip, DecodeOptions{Link: LinkIP})
	return f.Outer().SetECN(ecn)
}

// SetECN gives the same octets as decoding, changing and building the packet, for every old value. The ICRC and the
// IPv4 header checksum stay correct.
func TestSetECN(t *testing.T) {
	for _, packet := range [][]byte{wiretest.Hex(t, hardwareCNP)[14:], wiretest.Hex(t, send6)[14:]} {
		for was := range ECN(4) {
			for dscp := range uint8(64) {
				for to := range ECN(4) {
					var p Packet
					require.NoError(t, p.DecodeIP(packet))
					p.TrafficClass = dscp<<2 | uint8(was)
					ip := wiretest.Must(p.AppendBinary(nil))(t)
					p.TrafficClass = dscp<<2 | uint8(to)
					want := wiretest.Must(p.AppendBinary(nil))(t)
					got, err := setECN(ip, to)
					require.NoError(t, err)
					require.Equal(t, was, got)
					require.Equal(t, want, ip)
					_, err = icrc.Verify(ip)
					require.NoError(t, err)
				}
			}
		}
		for n := range packet {
			if n >= 20 && packet[0]>>4 == 4 || n >= 40 {
				break
			}
			_, err := setECN(bytes.Clone(packet[:n]), CE)
			require.ErrorIs(t, err, wireerr.Truncated)
		}
		_, err := setECN(packet, 4)
		require.ErrorIs(t, err, wireerr.Range)
	}
	_, err := setECN(make([]byte, 40), CE)
	require.ErrorIs(t, err, errNoHeader)
}

// RFC 6040, figure 4: the rows are the inner header, the columns the outer one,
// in the order Not-ECT, ECT(0), ECT(1), CE.
func TestECNOfTunnels(t *testing.T) {
	const drop = 9
	order := [...]ECN{NotECT, ECT0, ECT1, CE}
	for i, row := range [][4]ECN{
		{NotECT, NotECT, NotECT, drop},
		{ECT0, ECT0, ECT1, CE},
		{ECT1, ECT1, ECT1, CE},
		{CE, CE, CE, CE},
	} {
		for j, want := range row {
			got, dropped := DecapsulateECN(order[j], order[i])
			require.Equal(t, want == drop, dropped, "inner %d outer %d", order[i], order[j])
			if !dropped {
				require.Equal(t, want, got, "inner %d outer %d", order[i], order[j])
			}
		}
	}
}

// Packets of 20-octet IPv4 headers and UDP, with these ECN fields: a mirror (ERSPAN type I), then IP in IP.
func TestMarked(t *testing.T) {
	header := func(ecn ECN, protocol, length int) string {
		return fmt.Sprintf(`45%02x%04x 00000000 40%02x0000`+sites, 26<<2|uint8(ecn), length, protocol)
	}
	const udp = ` c000138900080000`
	for _, c := range []struct {
		name, packet string
		want         bool
	}{
		{"CE", header(CE, 17, 28) + udp, true},
		{"ECT(0)", header(ECT0, 17, 28) + udp, false},
		{"CE around ECT(1)", header(CE, 4, 48) + header(ECT1, 17, 28) + udp, true},
		{"Not-ECT around CE", header(NotECT, 4, 48) + header(CE, 17, 28) + udp, true},
		{"CE around Not-ECT", header(CE, 4, 48) + header(NotECT, 17, 28) + udp, false},
		{"CE around Not-ECT around ECT(0)", header(CE, 4, 68) + header(NotECT, 4, 48) + header(ECT0, 17, 28) + udp,
			true},
		{"a mirror with CE", header(CE, 47, 66) + `000088be` + macs + `0800` + header(ECT0, 17, 28) + udp, false},
		{"a mirror of CE around ECT(0)", header(NotECT, 47, 86) + `000088be` + macs + `0800` + header(CE, 4, 48) +
			header(ECT0, 17, 28) + udp, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Frame
			f.Decode(wiretest.Hex(t, c.packet), DecodeOptions{Link: LinkIP})
			require.Equal(t, c.want, f.Marked())
			wiretest.NoAllocs(t, "Marked", func() { f.Marked() })
		})
	}
}

// VerifyChecksum reports every flipped bit of a UDP datagram. A checksum of 0 is accepted over IPv4 and on port 4791.
func TestVerifyChecksum(t *testing.T) {
	for _, src := range []string{"192.0.2.1", "2001:db8::1"} {
		d := Datagram{Src: addr(src), Dst: addr(src), SrcPort: 1, DstPort: 1021, Checksum: 1, Data: []byte{1, 2, 3}}
		ip := wiretest.Must(d.AppendBinary(nil))(t)
		udp := len(ip) - 11
		require.NoError(t, d.DecodeIP(ip))
		require.NoError(t, d.VerifyChecksum())
		wiretest.NoAllocs(t, "VerifyChecksum", func() { _ = d.VerifyChecksum() })
		for i := udp * 8; i < len(ip)*8; i++ {
			bad := bytes.Clone(ip)
			bad[i/8] ^= 1 << (i % 8)
			if d.DecodeIP(bad) == nil {
				require.ErrorIs(t, d.VerifyChecksum(), errChecksum, "bit %d", i)
			}
		}
		copy(ip[udp+6:], []byte{0, 0})
		require.NoError(t, d.DecodeIP(ip))
		require.Equal(t, d.Src.Is6(), d.VerifyChecksum() != nil, "only IPv4 may leave it out")
		copy(ip[udp+2:], []byte{0x12, 0xB7})
		require.NoError(t, d.DecodeIP(ip))
		require.NoError(t, d.VerifyChecksum(), "or port 4791")
	}
	var d Datagram
	require.NoError(t, d.DecodeIP(wiretest.Hex(t, hardwareCNP)[14:]))
	d.Checksum, d.Length = 1, d.Length+1 // one octet longer than the IP packet
	require.ErrorIs(t, d.VerifyChecksum(), errTruncated)
	require.NoError(t, d.Decode(wiretest.Hex(t, hardwareCNP)[14:60], DecodeOptions{Link: LinkIP, AllowTruncated: true}))
	require.ErrorIs(t, d.VerifyChecksum(), errTruncated)
}
