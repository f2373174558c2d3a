package rocev2

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/stretchr/testify/require"
)

// decodePlain takes every plain frame, the shortest ones and those with octets
// behind the packet too, and no other: not those that are changed or cut so that
// they are broken, or have tags, options or extension headers. It finds what the
// walk finds.
func TestPlain(t *testing.T) {
	src, dst := addr("2001:db8::1"), addr("2001:db8::2")
	for _, c := range []struct {
		ether    uint16
		src, dst netip.Addr
		next     uint8 // the type of ext
		ext      []byte
	}{
		{etherIPv4, addr("192.0.2.1"), addr("192.0.2.2"), 0, nil},
		{etherIPv6, src, dst, 0, nil},
		{etherIPv6, src, dst, protoDestOpts, []byte{17, 0, 1, 4, 0, 0, 0, 0}},
		{etherIPv6, src, dst, protoDestOpts, []byte{17, 1, 1, 12, 15: 0}},
		{etherIPv6, src, dst, protoHopByHop, []byte{17, 0, 1, 4, 0, 0, 0, 0}},
		{etherIPv6, src, dst, protoHopByHop, []byte{17, 1, 1, 12, 15: 0}},
	} {
		ether := c.ether
		for _, op := range []bth.Opcode{bth.RCSendOnly, bth.RCRDMAWriteOnly, bth.RCAcknowledge, bth.UDSendOnly, bth.CNP,
			0x9F} {
			for _, payload := range []int{0, 1, 2, 3, 16} {
				p := Packet{BTH: bth.Headers{Header: bth.Header{Opcode: op, DestQP: 7}}, Payload: make([]byte, payload)}
				if p.hasPad() {
					p.BTH.Pad = uint8(-payload & 3)
				}
				p.Src, p.Dst, p.SrcPort, p.DstPort = c.src, c.dst, 0xC001, Port
				p.Ext, p.NextHeader = c.ext, c.next
				frame := make([]byte, 14, 200)
				be.PutUint16(frame[12:], ether)
				frame, err := p.AppendBinary(frame)
				require.NoError(t, err)
				for behind := range 3 {
					whole := append(frame[:len(frame):len(frame)], make([]byte, behind)...)
					require.True(t, requirePlainIsWalk(t, whole), "%v, %d octets, %d behind", op, payload, behind)
				}
				if payload != 0 && payload != 3 {
					continue
				}
				for n := range frame {
					requirePlainIsWalk(t, frame[:n:n])
					short := bytes.Clone(frame[:n:n])
					switch {
					case ether == etherIPv4 && n >= 34:
						be.PutUint16(short[16:], uint16(n-14))
					case ether == etherIPv6 && n >= 54:
						be.PutUint16(short[18:], uint16(n-54))
					}
					requirePlainIsWalk(t, short)
				}
				for at := 12; at < min(14+40+len(c.ext)+8+2, len(frame)); at++ {
					for _, change := range []byte{1, 2, 4, 0x10, 0x20, 0x80, 0xFF} {
						changed := bytes.Clone(frame)
						changed[at] += change
						requirePlainIsWalk(t, changed)
					}
				}
			}
		}
	}
}

// requirePlainIsWalk tells whether decodePlain takes the frame.
func requirePlainIsWalk(t *testing.T, frame []byte) bool {
	t.Helper()
	var plain, walked Packet
	err := walked.decode(frame, DecodeOptions{})
	isPlain := err == nil && len(walked.Link) == 14 && len(walked.Outer) == 0 &&
		(len(walked.Ext) == 0 || hasOptions(&walked))
	if !isPlain {
		walked = Packet{}
	}
	ok, otherPort := plain.decodeIfPlain(frame, LinkEthernet)
	if ok && otherPort != nil {
		require.Equal(t, []error{ErrPort, ErrPort}, []error{otherPort, err}, "%x", frame)
		ok = false
	}
	require.Equal(t, isPlain, ok, "%x", frame)
	require.Equal(t, walked, plain)
	requireFrameIsWalk(t, frame, LinkEthernet)
	if len(frame) >= 14 {
		requireFrameIsWalk(t, frame[14:], LinkIP)
	}
	return isPlain
}

// hasOptions says whether one header of options is all that a packet has in front of UDP.
func hasOptions(p *Packet) bool {
	return p.Src.Is6() && (p.NextHeader == protoDestOpts || p.NextHeader == protoHopByHop) &&
		p.Ext[0] == protoUDP && len(p.Ext) == 8+8*int(p.Ext[1])
}

// decodeIfPlain is what Decode does with a plain frame.
func (p *Packet) decodeIfPlain(b []byte, link LinkType) (ok bool, err error) {
	ip, udp, end := plainIn(b, link)
	if udp == 0 {
		return false, nil
	}
	return p.decodePlainIn(b, ip, udp, end)
}

// requireFrameIsWalk holds what a Frame says, if it takes the octets for plain, to what the walk says.
func requireFrameIsWalk(t *testing.T, b []byte, link LinkType) {
	t.Helper()
	o := DecodeOptions{Link: link}
	var f Frame
	byWalk := Frame{octets: b, options: o} // which does not look whether it is plain
	require.Equal(t, byWalk.walk(), f.Decode(b, o))
	near := byWalk.way.walk
	if f.udp == 0 {
		return
	}
	if ip, udp := f.Plain(); near.udp-near.ip <= 40 {
		require.Equal(t, b[near.ip:near.end:near.end], ip, "%x", b)
		require.Equal(t, b[near.udp:near.end:near.end], udp, "%x", b)
	} else {
		require.Nil(t, ip)
		require.Nil(t, udp)
	}
	require.Equal(t, near.ether, f.EtherType())
	var p, walked Packet
	require.Equal(t, walked.decode(b, o), f.Packet(&p), "%x", b)
	require.Equal(t, walked, p)
	f.walk()
	require.Equal(t, near, f.way.walk, "%x", b)
}
