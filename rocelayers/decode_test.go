package rocelayers_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// wrap puts octets into an IPv6 packet with this next header, after an Ethernet header.
func wrap(next uint8, inner []byte) []byte {
	frame := make([]byte, 54)
	frame[12], frame[13], frame[14] = 0x86, 0xDD, 0x60
	binary.BigEndian.PutUint16(frame[18:], uint16(len(inner)))
	frame[20], frame[21], frame[37], frame[53] = next, 64, 1, 2
	return append(frame, inner...)
}

// withICRC puts the right ICRC into a frame.
func withICRC(t testing.TB, frame []byte, coverage icrc.Coverage) []byte {
	var d rocev2.Datagram
	require.NoError(t, d.Decode(frame, rocev2.DecodeOptions{}))
	require.NoError(t, icrc.Write(d.IP, coverage))
	return frame
}

// with returns a copy of b with these octets at an offset.
func with(b []byte, at int, octets ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], octets)
	return b
}

// vlan puts 802.1Q tags into a frame.
func vlan(frame []byte, tags int) []byte {
	return slices.Concat(frame[:12], bytes.Repeat([]byte{0x81, 0x00, 0x00, 0x07}, tags), frame[12:])
}

func TestCNP(t *testing.T) {
	frame := wiretest.Hex(t, cnp4)
	want := bth.Headers{Header: bth.Header{Opcode: bth.CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118}}
	for mode, options := range modes {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
		l := bthOf(packet)
		require.NotNil(t, l, mode)
		require.Equal(t, want, l.Headers)
		c := packet.Layer(rocelayers.LayerTypeCNP).(*rocelayers.CNP)
		require.Equal(t, cnp.New(0x118, 0xFFFF), c.CNP)
		require.NoError(t, c.Validate())
		require.Equal(t, frame[54:70], c.LayerContents())
		require.EqualValues(t, 0x2A00FD82, packet.Layer(rocelayers.LayerTypeICRC).(*rocelayers.ICRC).Value)
		_, err := rocelayers.VerifyICRC(packet)
		require.NoError(t, err)

		text := packet.String()
		require.Contains(t, text, "(12 bytes) = BTH\tCNP DestQP 0x000118 PSN 0 PKey 0xffff BECN 1\n")
		require.Contains(t, text, "(16 bytes) = CNP\tCNP DestQP 0x000118 PSN 0 PKey 0xffff BECN 1\n")
		require.Contains(t, text, "(04 bytes) = ICRC\t0x2a00fd82\n")
		require.NotEmpty(t, packet.Dump())
	}
	frame[54] = 0xA0
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	require.Contains(t, packet.String(), "Reserved a0000000000000000000000000000000\n")
	_, err := rocelayers.VerifyICRC(packet)
	require.ErrorIs(t, err, rocecn.ErrICRC)
}

// Octets after the end of the IP packet, such as Ethernet padding, belong to no layer. gopacket's IPv6 layer passes
// them on if there is a Hop-by-Hop header.
func TestOctetsBehindThePacket(t *testing.T) {
	udp := wiretest.Hex(t, send6)[54:]
	hopByHop := []byte{17, 0, 1, 4, 0, 0, 0, 0}
	two := slices.Concat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, hopByHop)
	s, withoutLength := newStack(), newStack()
	withoutLength.BTH.UDP = nil
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"IPv4", wiretest.Hex(t, cnp4)},
		{"IPv6", wiretest.Hex(t, send6)},
		{"VLAN", vlan(wiretest.Hex(t, cnp4), 1)},
		{"two VLAN tags", vlan(wiretest.Hex(t, send6), 2)},
		{"Hop-by-Hop", withICRC(t, wrap(0, slices.Concat(hopByHop, udp)), icrc.AsSent)},
		{"and Destination Options", withICRC(t, wrap(0, slices.Concat(two, udp)), icrc.AsSent)},
		{"inserted Hop-by-Hop", withICRC(t, wrap(0, slices.Concat(hopByHop, udp)), icrc.Without)},
		{"IPv4 in IPv6", wrap(4, wiretest.Hex(t, cnp4)[14:])},
		{"IPv6 in IPv6", wrap(41, wiretest.Hex(t, send6)[14:])},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p rocev2.Packet
			require.NoError(t, p.DecodeEthernet(c.frame))
			coverage, err := icrc.Verify(p.IP)
			require.NoError(t, err)
			for padding := range 12 {
				padded := append(bytes.Clone(c.frame), bytes.Repeat([]byte{0xEE}, padding)...)
				check := func(l *rocelayers.BTH, got icrc.Coverage, err error) {
					requireSame(t, &p, l)
					require.NoError(t, err)
					require.Equal(t, coverage, got)
				}
				packet := gopacket.NewPacket(padded, layers.LayerTypeEthernet, modes["Default"])
				got, err := rocelayers.VerifyICRC(packet)
				check(bthOf(packet), got, err)

				require.NoError(t, s.decode(padded))
				got, err = s.BTH.VerifyICRC()
				check(&s.BTH, got, err)
			}

			err = withoutLength.decode(c.frame) // gopacket treats a packet with a Hop-by-Hop header as truncated
			require.Equal(t, withoutLength.parser.Truncated, err != nil)
			if withoutLength.parser.Truncated {
				require.ErrorIs(t, err, rocelayers.ErrCut)
				require.EqualValues(t, 0, c.frame[20])
			}
		})
	}
}

func TestRefused(t *testing.T) {
	ip4, ip6 := wiretest.Hex(t, cnp4), wiretest.Hex(t, send6)
	longer := append(bytes.Clone(ip4), 0, 0, 0, 0)
	s := newStack()
	for _, c := range []struct {
		name  string
		frame []byte
		err   error
		bth   bool // the BTH itself is readable
	}{
		{name: "UDP length 0", frame: with(ip4, 38, 0, 0), err: rocelayers.ErrUDPLength},
		{name: "no room for BTH", frame: with(ip4, 38, 0, 19), err: wireerr.Truncated},
		{name: "no room for the ICRC", frame: with(ip4, 38, 0, 23), err: wireerr.Truncated},
		{name: "no room for AtomicETH", frame: with(ip4, 42, 0x13), err: wireerr.Truncated},
		{name: "pad count beyond the payload", frame: with(ip6, 63, 0x10), err: wireerr.Malformed},
		{name: "CNP of 12 octets", frame: with(ip4, 38, 0, 36), err: wireerr.CNPLength, bth: true},
		{name: "CNP of 20 octets", frame: with(with(longer, 16, 0, 64), 38, 0, 44), err: wireerr.CNPLength, bth: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for mode, options := range modes {
				packet := gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, options)
				require.Equal(t, c.bth, bthOf(packet) != nil, mode)
				require.NotNil(t, packet.ErrorLayer())
				require.ErrorIs(t, packet.ErrorLayer().Error(), c.err)
				require.Nil(t, packet.Layer(rocelayers.LayerTypeCNP))
			}
			s.BTH.Headers = bth.Headers{}
			require.ErrorIs(t, s.decode(c.frame), c.err)
			require.Equal(t, c.bth, s.has(rocelayers.LayerTypeBTH))
			require.Equal(t, c.bth, s.BTH.Headers != bth.Headers{}) // unchanged otherwise
		})
	}
}

func TestUnknownOpcodeKeepsTheRestRaw(t *testing.T) {
	frame := with(wiretest.Hex(t, cnp4), 42, 0x9F, 0x30) // pad count 3
	l := bthOf(gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default))
	require.Equal(t, frame[54:70], l.LayerPayload())
	require.Empty(t, l.Padding)
	require.Equal(t, gopacket.LayerTypePayload, l.NextLayerType())
}

func TestPadIsNoPayload(t *testing.T) {
	frame := withICRC(t, wrap(17, slices.Concat(
		wiretest.Hex(t, "c00112b7 00200000 0430ffff 00000011 00000001"), []byte("hello\x01\x02\x03"), make([]byte, 4))),
		icrc.AsSent)
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	require.Equal(t, "hello", string(packet.ApplicationLayer().Payload()))
	require.Equal(t, []byte{1, 2, 3}, bthOf(packet).Padding)
	_, err := rocelayers.VerifyICRC(packet)
	require.NoError(t, err)
}

// If a packet is truncated at any octet, the layers agree with package rocev2, called with the option Cut.
func TestCut(t *testing.T) {
	s, withoutLength := newStack(), newStack()
	withoutLength.BTH.UDP = nil
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"CNP", wiretest.Hex(t, cnp4)},
		{"RDMA WRITE", capturedFrame(t, "rxe-verbs6.pcap", 62, uint8(bth.RCRDMAWriteOnly))},
		{"VLAN", capturedFrame(t, "rxe-vlan4.pcap", 46, uint8(bth.RCRDMAWriteFirst))},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := range len(c.frame) {
				var p rocev2.Packet
				want := p.Decode(c.frame[:n:n], rocev2.DecodeOptions{Cut: true})
				for mode, options := range modes {
					packet := gopacket.NewPacket(c.frame[:n:n], layers.LayerTypeEthernet, options)
					if want != nil {
						require.Nil(t, bthOf(packet), "%s, %s, %d octets: %v", c.name, mode, n, want)
						continue
					}
					requireSame(t, &p, bthOf(packet))
					require.Nil(t, packet.ErrorLayer())
					require.True(t, packet.Metadata().Truncated)
					require.Nil(t, packet.Layer(rocelayers.LayerTypeICRC))
					_, err := rocelayers.VerifyICRC(packet)
					require.ErrorIs(t, err, wireerr.Truncated)
				}

				err := s.decode(c.frame[:n:n])
				require.Equal(t, want == nil, s.has(rocelayers.LayerTypeBTH), "%s, %d octets: %v", c.name, n, err)
				if want == nil {
					require.NoError(t, err)
					requireSame(t, &p, &s.BTH)
					// The octets after the frame in its buffer are not read.
					require.NoError(t, s.decode(c.frame[:n]))
					_, err = s.BTH.VerifyICRC()
					require.ErrorIs(t, err, wireerr.Truncated)
					require.ErrorIs(t, withoutLength.decode(c.frame[:n:n]), rocelayers.ErrCut)
				}
			}
			require.NoError(t, withoutLength.decode(c.frame))
		})
	}
}

// Without the UDP layer the octets given are all there are.
func TestBTHAlone(t *testing.T) {
	data := with(wiretest.Hex(t, cnp4)[42:], 0, uint8(bth.RCSendOnly))
	l := bthOf(gopacket.NewPacket(data, rocelayers.LayerTypeBTH, gopacket.Default))
	require.EqualValues(t, 0x118, l.DestQP)
	require.EqualValues(t, 0x2A00FD82, l.ICRC.Value)
	_, err := l.VerifyICRC()
	require.ErrorIs(t, err, rocelayers.ErrNoIP)

	l = new(rocelayers.BTH)
	require.NoError(t, l.DecodeFromBytes(data, gopacket.NilDecodeFeedback))
	require.EqualValues(t, 0x2A00FD82, l.ICRC.Value)
	require.ErrorIs(t, l.DecodeFromBytes(make([]byte, 0x10000), gopacket.NilDecodeFeedback), wireerr.TooLong)
	for n := range 16 {
		require.ErrorIs(t, l.DecodeFromBytes(data[:n:n], gopacket.NilDecodeFeedback), wireerr.Truncated)
	}

	// A CNP is refused: its octets alone do not tell it from a Fast CNP.
	notification := wiretest.Hex(t, cnp4)[42:]
	failure := gopacket.NewPacket(notification, rocelayers.LayerTypeBTH, gopacket.Default).ErrorLayer().Error()
	require.ErrorIs(t, failure, rocelayers.ErrNoIP)
	require.ErrorIs(t, l.DecodeFromBytes(notification, gopacket.NilDecodeFeedback), rocelayers.ErrNoIP)
	require.Equal(t, bth.RCSendOnly, l.Opcode)

	require.EqualValues(t, 0x2A00FD82, gopacket.NewPacket(data[28:], rocelayers.LayerTypeICRC, gopacket.Default).
		Layer(rocelayers.LayerTypeICRC).(*rocelayers.ICRC).Value)
	failure = gopacket.NewPacket(data, rocelayers.LayerTypeICRC, gopacket.Default).ErrorLayer().Error()
	require.ErrorIs(t, failure, rocelayers.ErrICRCSize)
	for _, typ := range []gopacket.LayerType{rocelayers.LayerTypeCNP, rocelayers.LayerTypeFastCNP,
		rocelayers.LayerTypePPFC} {
		packet := gopacket.NewPacket(data[12:28], typ, gopacket.Default)
		require.Nil(t, packet.Layer(typ)) // which would have no queue pair
		require.ErrorIs(t, packet.ErrorLayer().Error(), rocelayers.ErrNoBTH)
	}
}

func TestNoAllocations(t *testing.T) {
	ip4, ip6 := wiretest.Hex(t, cnp4), wiretest.Hex(t, send6)
	write := capturedFrame(t, "rxe-verbs6.pcap", 62, uint8(bth.RCRDMAWriteOnly))
	withoutLength := newStack()
	withoutLength.BTH.UDP = nil
	for _, c := range []struct {
		name  string
		frame []byte
		s     *stack
		err   error // of decoding
		icrc  error
	}{
		{name: "CNP over IPv4", frame: ip4},
		{name: "SEND over IPv6", frame: ip6},
		{name: "RDMA WRITE over IPv6", frame: write},
		{name: "VLAN", frame: vlan(ip4, 2)},
		{name: "IP in IP", frame: wrap(4, ip4[14:])},
		{name: "ICRC wrong", frame: with(ip4, 54, 1), icrc: rocecn.ErrICRC},
		{name: "cut", frame: ip4[:60], icrc: wireerr.Truncated},
		{name: "cut, no UDP layer", frame: ip4[:60], s: withoutLength, err: rocelayers.ErrCut},
		{name: "no room for the ICRC", frame: with(ip4, 38, 0, 23), err: wireerr.Truncated},
		{name: "pad count beyond the payload", frame: with(ip6, 63, 0x10), err: wireerr.Malformed},
		{name: "CNP of 12 octets", frame: with(ip4, 38, 0, 36), err: wireerr.CNPLength},
		{name: "another port's", frame: with(with(ip6, 56, 0x13, 0x88), 54, 4791>>8, 4791&0xFF), err: rocev2.ErrPort},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.s == nil {
				c.s = newStack()
			}
			require.ErrorIs(t, c.s.decode(c.frame), c.err)
			if c.err == nil {
				_, err := c.s.BTH.VerifyICRC()
				require.ErrorIs(t, err, c.icrc)
			}
			wiretest.NoAllocs(t, c.name, func() {
				_ = c.s.decode(c.frame)
				_, _ = c.s.BTH.VerifyICRC()
			})
			wiretest.NoAllocs(t, c.name, func() { _ = c.s.Decode(c.frame) })
		})
	}
	wiretest.NoAllocs(t, "no IP layer", func() { _, _ = new(rocelayers.BTH).VerifyICRC() })
}
