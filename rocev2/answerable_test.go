package rocev2

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// For a tunnelled packet with an opcode that is never answered, MayAnswer returns the error of the opcode.
func TestMayAnswer(t *testing.T) {
	for opcode := range 256 {
		for _, tunnelled := range []bool{false, true} {
			var p Packet
			if p.BTH.Opcode = bth.Opcode(opcode); tunnelled {
				p.Outer = make([]byte, 40)
			}
			var want error
			switch opcode {
			case 0x81:
				want = ErrNotification
			case 0x11, 0x12, 0x51, 0x52, 0xB1, 0xB2: // Acknowledge, ATOMIC Acknowledge of RC, RD, XRC
				want = ErrAcknowledgement
			default:
				if tunnelled {
					want = ErrTunnelled
				}
			}
			require.Equal(t, want, p.MayAnswer(), "%#x %v", opcode, tunnelled)
		}
	}
}

func TestFlowMayAnswer(t *testing.T) {
	const (
		head6 = "6000000000ff ff40 20010db8000000000000000000000001 20010db8000000000000000000000002"
		udp   = "c001 12b7 0014 0000"
		ack   = "11000000 00000011 00000001"
	)
	for _, c := range []struct {
		name, ip string
		err      error
	}{
		{"IPv6", head6 + udp + ack, ErrAcknowledgement},
		{"IPv4", "45000000 00000000 40110000 c0000201 c0000202" + udp + ack, ErrAcknowledgement},
		{"IPv4 options", "46000000 00000000 40110000 c0000201 c0000202 01010100" + udp + "81" + ack[2:],
			ErrNotification},
		{"data", head6 + udp + "04" + ack[2:], nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := wiretest.Hex(t, c.ip)
			proto, port := 9, int(ip[0]&0x0F)*4+2
			be.PutUint16(ip[2:], uint16(len(ip)))
			if ip[0]>>4 == 6 {
				proto, port = 6, 40+2
				be.PutUint16(ip[4:], uint16(len(ip)-40))
				be.PutUint16(ip[2:], 0)
			}
			ip[proto] = 17
			o := DecodeOptions{Link: LinkIP, AllowTruncated: true}
			mayAnswer := func() error { return walked(ip, o).MayAnswer() }
			require.Equal(t, c.err, mayAnswer())
			be.PutUint16(ip[port:], 1021)
			require.NoError(t, mayAnswer())
			require.NoError(t, walked(ip, o).MayAnswer(1020, 1022))
			require.Equal(t, ErrNotification, walked(ip, o).MayAnswer(1021, 1022))
			require.Equal(t, ErrNotification, walked(ip, o).MayAnswer(1020, 1021))
			be.PutUint16(ip[port:], Port)
			ip[proto] = 6
			require.NoError(t, mayAnswer())
			ip[0] = 0x50 // no flow
			require.Error(t, mayAnswer())
		})
	}

	// All prefixes of a packet with two extension headers, of 8 and of 16 octets.
	ip := wiretest.Hex(t, head6+"3c00 0104 00000000 1101 010c 000000000000000000000000"+udp+ack)
	ip[6] = 0
	be.PutUint16(ip[4:], uint16(len(ip)-40))
	for n := range len(ip) + 1 {
		err := walked(ip[:n:n], DecodeOptions{Link: LinkIP, AllowTruncated: true}).MayAnswer()
		switch {
		case n < 40+8+16+8: // no ports
			require.ErrorIs(t, err, wireerr.Truncated, n)
		case n == 40+8+16+8:
			require.NoError(t, err)
		default:
			require.Equal(t, ErrAcknowledgement, err, n)
		}
	}
	ip[41] = 255 // the extension header exceeds the packet
	require.Equal(t, errExtension, walked(ip, DecodeOptions{Link: LinkIP}).MayAnswer())
}

// An extension header that is truncated may lead to another one, and that one to UDP.
func TestSnapLengthOfExtensions(t *testing.T) {
	const head = "6000000000ff 0040 20010db8000000000000000000000001 20010db8000000000000000000000002"
	for _, test := range []struct {
		name, extension string
		want            int // with 8 octets each for the header that is read, and UDP
	}{
		{"UDP", "11", 56},
		{"destination options", "3c", 56},
		{"routing", "2b", 56},
		{"destination options of 16 octets", "3c 01", 64},
		{"IPv6", "29", 56},
		{"TCP", "06", 0},
		{"no next header", "3b", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			ip := wiretest.Hex(t, head+test.extension)
			require.Equal(t, test.want, walked(ip, DecodeOptions{Link: LinkIP, AllowTruncated: true}).SnapLength(Port))
		})
	}
}

func TestMirrored(t *testing.T) {
	for _, c := range []struct {
		tunnel Tunnel
		want   bool
	}{
		{ERSPAN1, true}, {ERSPAN2, true}, {ERSPAN3, true}, {GRE8949, true}, {GRE, false}, {VXLAN, false},
		{Geneve, false}, {MPLS, false}, {SRv6, false}, {VXLANGPE, false}, {GTPU, false}, {GUE, false}, {FOU, false},
	} {
		t.Run(fmt.Sprint(c.tunnel), func(t *testing.T) {
			var all Tunnels
			require.False(t, all.mirrored())
			require.NoError(t, all.add(VXLAN))
			require.NoError(t, all.add(c.tunnel))
			require.Equal(t, c.want, all.mirrored(), c.tunnel)
		})
	}
	for _, c := range flows {
		t.Run(c.name, func(t *testing.T) {
			v := walked(wiretest.Hex(t, c.link+c.tunnel+c.flow), DecodeOptions{}).Inner()
			want := strings.Contains(c.tunnels, "erspan") || strings.Contains(c.tunnels, "8949")
			require.Equal(t, want, v.Mirrored())
		})
	}
}
