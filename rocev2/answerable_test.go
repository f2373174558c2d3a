package rocev2

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Of two faults the opcode's is said: nothing answers it, wherever it is from.
func TestMayAnswer(t *testing.T) {
	for opcode := range 256 {
		for _, tunnelled := range []bool{false, true} {
			for _, inner := range []bool{false, true} {
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
					if tunnelled && !inner {
						want = ErrTunnelled
					}
				}
				require.Equal(t, want, MayAnswer(&p, inner), "%#x %v %v", opcode, tunnelled, inner)
			}
		}
	}
}

func TestFlowMayAnswer(t *testing.T) {
	const (
		head6 = "6000000000ff ff40 20010db8000000000000000000000001 20010db8000000000000000000000002"
		udp   = "c001 12b7 0018 0000"
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
		f := Flow{FiveTuple: FiveTuple{Protocol: 17, DstPort: Port}, IP: wiretest.Hex(t, c.ip)}
		if f.IP[0]>>4 == 6 {
			f.IP[6] = 17
		}
		require.Equal(t, c.err, f.MayAnswer(), c.name)
		f.DstPort = 1021
		require.NoError(t, f.MayAnswer(), c.name)
		f.DstPort, f.Protocol = Port, 6
		require.NoError(t, f.MayAnswer(), c.name)
	}

	// Behind extension headers, of 8 and of 16 octets, as far as they are there.
	ip := wiretest.Hex(t, head6+"3c00 0104 00000000 1101 010c 000000000000000000000000"+udp+ack)
	f := Flow{FiveTuple: FiveTuple{Protocol: 17, DstPort: Port}}
	ip[6] = 0
	for n := range len(ip) + 1 {
		f.IP = ip[:n:n]
		require.Equal(t, n > 40+8+16+8, f.MayAnswer() != nil, n)
	}
	ip[41] = 255 // a header that runs beyond the packet
	require.NoError(t, f.MayAnswer())
}

func TestMirrored(t *testing.T) {
	for tunnel, want := range map[Tunnel]bool{
		ERSPAN1: true, ERSPAN2: true, ERSPAN3: true, GRE: false, VXLAN: false, Geneve: false, MPLS: false, SRv6: false,
	} {
		var all Tunnels
		require.False(t, all.Mirrored())
		require.NoError(t, all.add(VXLAN))
		require.NoError(t, all.add(tunnel))
		require.Equal(t, want, all.Mirrored(), tunnel)
	}
}
