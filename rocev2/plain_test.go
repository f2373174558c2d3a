package rocev2

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/stretchr/testify/require"
)

// decodePlain takes every plain frame, the shortest ones and those with octets
// behind the packet too, and finds what the walk finds. Of a frame that is not
// plain, or not whole, it takes nothing that the walk would not.
func TestPlain(t *testing.T) {
	ends := map[uint16][2]netip.Addr{
		etherIPv4: {addr("192.0.2.1"), addr("192.0.2.2")},
		etherIPv6: {addr("2001:db8::1"), addr("2001:db8::2")},
	}
	for ether, end := range ends {
		for _, op := range []bth.Opcode{bth.RCSendOnly, bth.RCRDMAWriteOnly, bth.RCAcknowledge, bth.UDSendOnly, bth.CNP, 0x9F} {
			for payload := range 20 {
				p := Packet{BTH: bth.Headers{Header: bth.Header{Opcode: op, DestQP: 7}}, Payload: make([]byte, payload)}
				if p.hasPad() {
					p.BTH.Pad = uint8(-payload & 3)
				}
				p.Src, p.Dst, p.SrcPort, p.DstPort = end[0], end[1], 0xC001, Port
				frame := make([]byte, 14, 200)
				be.PutUint16(frame[12:], ether)
				frame, err := p.AppendBinary(frame)
				require.NoError(t, err)
				for behind := range 3 {
					whole := append(frame[:len(frame):len(frame)], make([]byte, behind)...)
					var plain, walked Packet
					require.True(t, plain.decodePlain(whole), "%v, %d octets, %d behind", op, payload, behind)
					require.NoError(t, walked.decode(whole, DecodeOptions{}))
					require.Equal(t, walked, plain)
				}
				for n := range frame {
					requirePlainIsWalk(t, frame[:n:n])
				}
				for at := 12; at < 14+40+8+2; at++ {
					for _, change := range []byte{1, 2, 4, 0x10, 0x20, 0x80, 0xFF} {
						changed := append([]byte(nil), frame...)
						if at < len(changed) {
							changed[at] += change
							requirePlainIsWalk(t, changed)
						}
					}
				}
			}
		}
	}
}

func requirePlainIsWalk(t *testing.T, frame []byte) {
	t.Helper()
	var plain, walked Packet
	if !plain.decodePlain(frame) {
		require.Equal(t, Packet{}, plain)
		return
	}
	require.NoError(t, walked.decode(frame, DecodeOptions{}))
	require.Equal(t, walked, plain)
}
