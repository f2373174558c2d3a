package rocev2

import (
	"slices"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// An RDMA WRITE Only of 1024 octets that a switch trimmed to an IP length of 64 (0x40): 8 octets of payload are left.
// The UDP length stays 8 + 12 + 16 + 1024 + 4 = 1064 (0x428).
const trimmedWrite = `456a0040 00010000 40110000 c0000201 c0000202 c35012b7 04280000` +
	`0a40ffff 00000222 800003e8 00007f00000fa000 00001234 00000400 e8e8e8e8e8e8e8e8`

// trimTo returns trimmedWrite with this IP length, which ends with the octets.
func trimTo(t testing.TB, length int) []byte {
	b := wiretest.Hex(t, trimmedWrite)[:length:length]
	be.PutUint16(b[2:], uint16(length))
	return b
}

func TestTrimmed(t *testing.T) {
	write := bth.Header{Opcode: bth.RCRDMAWriteOnly, MigReq: true, PKey: 0xFFFF, DestQP: 0x222, AckReq: true, PSN: 1000}
	for _, c := range []struct {
		name    string
		length  int // IP length
		present bth.HeaderSet
		payload int // octets of payload that are left
	}{
		{"8 octets of payload are left", 64, bth.HasRETH, 8},
		{"no payload is left", 56, bth.HasRETH, 0},
		{"15 octets of the RETH are left", 55, 0, 0},
		{"the BTH is left", 40, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := trimTo(t, c.length)
			for _, padding := range [][]byte{nil, make([]byte, 18)} {
				frame := slices.Concat(wiretest.Hex(t, macs+`0800`), ip, padding)
				p := used
				require.NoError(t, p.DecodeEthernet(frame))
				require.True(t, p.Trimmed && p.Truncated)
				require.Equal(t, write, p.BTH.Header)
				require.Equal(t, c.present, p.BTH.Present)
				require.Equal(t, []int{c.length - 28, c.payload, 1024, 1064},
					[]int{len(p.Data), len(p.Payload), p.PayloadLen(), int(p.Length)})
				require.Equal(t, ip, p.IP)
				require.Zero(t, p.ICRC)
				_, err := p.VerifyICRC()
				require.ErrorIs(t, err, wireerr.Truncated)
				requireWalked(t, frame, DecodeOptions{})
				requireWalked(t, frame, DecodeOptions{AllowTruncated: true})
				wiretest.NoAllocs(t, "decoding", func() { _ = p.DecodeEthernet(frame) })

				var d Datagram
				require.NoError(t, d.Decode(frame, DecodeOptions{}, Port))
				require.Equal(t, p.Datagram, d)
				again := used
				require.NoError(t, again.DecodeDatagram(&d))
				require.Equal(t, p, again)
				_, err = p.AppendBinary(nil)
				require.ErrorIs(t, err, wireerr.Truncated)
			}
		})
	}
}

// Only data is trimmed, and only to 4791 with a complete BTH.
func TestNotTrimmed(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int
		at     int // offset of the changed octet
		value  byte
		err    error
	}{
		{"11 octets of BTH", 39, 0, 0x45, errUDPBeyondIP},
		{"Acknowledge", 64, 28, 0x11, errUDPBeyondIP},
		{"CNP", 64, 28, 0x81, errUDPBeyondIP},
		{"another port", 64, 23, 0xB8, ErrPort},
		{"no room for the extended headers in the UDP length", 40, 24, 0, errHeadersRoom},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := trimTo(t, c.length)
			ip[c.at] = c.value
			if c.at == 24 {
				ip[25] = 8 + 12 + 16
			}
			var p Packet
			require.Equal(t, c.err, p.DecodeIP(ip))
			require.Equal(t, Packet{}, p)
			requireWalked(t, ip, DecodeOptions{Link: LinkIP})
			var d Datagram
			if c.err == errHeadersRoom || c.err == ErrPort {
				c.err = nil
			}
			if c.at == 23 {
				c.err = errUDPBeyondIP
			}
			require.Equal(t, c.err, d.DecodeIP(ip))
		})
	}
}

// A network device cuts a frame: octets of the IP packet are missing, although the capture calls the
// frame complete. The octets of the BTH are enough.
func TestTruncatedByDevice(t *testing.T) {
	whole := trimTo(t, 64)
	be.PutUint16(whole[2:], 20+1064)
	inVXLAN := wiretest.Hex(t, `4500046e 00000000 40110000`+sites+`c00112b5 045a0000`+vni42+macs+`0800`) // 1134, 1114
	// The IP length of the mirror is right for 64 octets of the innermost packet.
	inGRE := func(header string, tunnel []byte) []byte {
		b := append(wiretest.Hex(t, `450000ff 00000000 402f0000`+sites+header+macs+`0800`), tunnel...)
		be.PutUint16(b[2:], uint16(len(b)+64))
		return b
	}
	for _, c := range []struct {
		name   string
		around []byte // between the Ethernet header and the cut packet
		inner  bool
	}{
		{"plain", nil, false},
		{"IP in IP", wiretest.Hex(t, `45000450 00000000 40040000`+sites), false}, // 20 + 1084
		{"VXLAN", inVXLAN, true},
		{"VXLAN in IPv6 in IPv4", slices.Concat(wiretest.Hex(t, `450004ac 00000000 40290000`+sites+
			`6000000004700440`+nodes+`4500046e 00000000 40110000`+sites), inVXLAN[20:]), true},
		{"MPLS in UDP", wiretest.Hex(t, `4500045c 00000000 40110000`+sites+`c00119eb 04480000 3e801140`), true},
		{"ERSPAN type I", inGRE(`000088be`, nil), true},
		{"ERSPAN type II, T not set", inGRE(`100088be 00000001 10000000 00000000`, nil), true},
		{"ERSPAN type II, T set", inGRE(`100088be 00000001 10000400 00000000`, nil), true},
		{"ERSPAN type III, T not set", inGRE(`100022eb 00000001 20000000 00000000 00000000`, nil), true},
		{"VXLAN in ERSPAN type I", inGRE(`000088be`, inVXLAN), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := 20; n <= len(whole); n++ {
				ether := `0800`
				if len(c.around) > 0 && c.around[0]>>4 == 6 {
					ether = `86dd`
				}
				frame := slices.Concat(wiretest.Hex(t, macs+ether), c.around, whole[:n])
				var f Frame
				f.Decode(frame, DecodeOptions{})
				v := f.Outer()
				if c.inner {
					v = f.Inner()
				}
				var p Packet
				err := v.Packet(&p)
				if n < 40 {
					require.ErrorIs(t, err, wireerr.Truncated, "%d octets", n)
					require.Equal(t, Packet{}, p)
					continue
				}
				require.NoError(t, err, "%d octets", n)
				require.True(t, p.Truncated && !p.Trimmed)
				require.Equal(t, uint32(0x222), p.BTH.DestQP)
				require.Equal(t, n >= 56, p.BTH.Present == bth.HasRETH)
				require.Equal(t, 1024, p.PayloadLen())
				require.Len(t, p.Payload, max(n-56, 0))
				tuple, err := f.FiveTuple()
				require.NoError(t, err)
				require.Equal(t, addr("192.0.2.1"), tuple.Src)
				wiretest.NoAllocs(t, "decoding", func() {
					f.Decode(frame, DecodeOptions{})
					_ = f.Inner().Packet(&p)
				})
			}
		})
	}
}
