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
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
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
func TestOctetsAfterThePacket(t *testing.T) {
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
				require.ErrorIs(t, err, rocelayers.ErrUDPTruncated)
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
		{name: "no space for BTH", frame: with(ip4, 38, 0, 19), err: wireerr.Truncated},
		{name: "no space for the ICRC", frame: with(ip4, 38, 0, 23), err: wireerr.Truncated},
		{name: "no space for AtomicETH", frame: with(ip4, 42, 0x13), err: wireerr.Truncated},
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
func TestTruncated(t *testing.T) {
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
				want := p.Decode(c.frame[:n:n], rocev2.DecodeOptions{AllowTruncated: true})
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
					require.ErrorIs(t, withoutLength.decode(c.frame[:n:n]), rocelayers.ErrUDPTruncated)
				}
			}
			require.NoError(t, withoutLength.decode(c.frame))
		})
	}
}

// A switch trims an RDMA WRITE Only of 1024 octets to an IP length of 96, 88, 87 or 72 octets: payload, only headers,
// a part of the RETH, or only the BTH is left. Octets after the IP packet, few or as many as were trimmed, do not
// belong to the packet. google/gopacket passes them on if there is a Hop-by-Hop header.
func TestTrimmed(t *testing.T) {
	const write = `020000000002 020000000001 86dd
		60000000 0000 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
		c350 12b7 0428 0000 0a00ffff 00000222 80000001 0000000000001000 00000007 00000400 0001020304050607`
	for _, c := range []struct {
		name     string
		length   uint16 // IPv6 payload length
		contents int    // octets of headers that are left
		payload  int    // octets of payload that are left
	}{
		{"8 octets of payload", 44, 28, 8},
		{"headers", 36, 28, 0},
		{"15 octets of the RETH", 35, 27, 0},
		{"BTH", 20, 12, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, write)
			binary.BigEndian.PutUint16(frame[18:], c.length)
			traced := slices.Insert(bytes.Clone(frame), 14+40, 17, 0, 1, 4, 0, 0, 0, 0) // PadN
			binary.BigEndian.PutUint16(traced[18:], c.length+8)
			traced[20] = 0
			end := 14 + 40 + int(c.length)
			for _, frame := range [][]byte{frame, frame[:end:end], traced, traced[: end+8 : end+8],
				append(frame, make([]byte, 1024)...), append(traced, make([]byte, 1024)...)} {
				check := func(l *rocelayers.BTH) {
					require.True(t, l.Trimmed && l.Truncated)
					require.Equal(t, []int{c.contents, c.payload, 1024},
						[]int{len(l.Contents), len(l.Payload), l.PayloadLen})
					require.Equal(t, c.contents == 28, l.Present == bth.HasRETH)
					require.EqualValues(t, 0x222, l.DestQP)
					require.Zero(t, l.ICRC)
					_, err := l.VerifyICRC()
					require.ErrorIs(t, err, wireerr.Truncated)
				}
				for _, options := range modes {
					packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
					require.Nil(t, packet.ErrorLayer())
					check(bthOf(packet))
				}
				s := newStack()
				require.NoError(t, s.decode(frame))
				check(&s.BTH)
				var own rocelayers.Stack
				require.NoError(t, own.Decode(frame))
				check(&own.BTH)
				require.True(t, own.Packet().Trimmed)
				wiretest.NoAllocs(t, "decoding", func() { _ = own.Decode(frame) })
			}
		})
	}
}

// Without the UDP layer the octets given are all there are.
func TestBTHWithoutUDPLayer(t *testing.T) {
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
		{name: "truncated, no UDP layer", frame: ip4[:60], s: withoutLength, err: rocelayers.ErrUDPTruncated},
		{name: "no space for the ICRC", frame: with(ip4, 38, 0, 23), err: wireerr.Truncated},
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

// oneBuffer returns a function that decodes frames one after another, all in
// the same buffer as a socket's reader does, and one that does so with a parser
// that does not forget the frame before.
func oneBuffer(s *rocelayers.Stack) (stack, parser func(frame []byte) error) {
	buffer := make([]byte, 2048)
	p := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)
	p.IgnoreUnsupported = true
	into := func(frame []byte) []byte {
		clear(buffer)
		return buffer[:copy(buffer, frame)]
	}
	return func(frame []byte) error { return s.Decode(into(frame)) },
		func(frame []byte) error { return p.DecodeLayers(into(frame), &s.Decoded) }
}

// A damaged packet is reported as damaged even if an IP layer still holds the packet before it.
func TestVerifyICRCOfThisPacket(t *testing.T) {
	ip4, ip6 := wiretest.Hex(t, cnp4), built(t)[5].frame
	damaged4, damaged6 := with(ip4, 60, 1), with(ip6, 80, 1)
	var s rocelayers.Stack
	stack, parser := oneBuffer(&s)
	apart := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)
	for _, decode := range []func([]byte) error{stack, parser,
		func(frame []byte) error { return apart.DecodeLayers(bytes.Clone(frame), &s.Decoded) }} {
		for _, c := range []struct {
			frame []byte
			err   error
		}{
			{ip6, nil}, {damaged4, rocecn.ErrICRC}, {ip4, nil}, {damaged6, rocecn.ErrICRC}, {ip4, nil},
			{vlan(damaged4, 1), rocecn.ErrICRC}, {vlan(ip6, 2), nil}, {damaged4, rocecn.ErrICRC},
			{wrap(4, damaged4[14:]), rocecn.ErrICRC}, {wrap(41, ip6[14:]), nil},
		} {
			require.NoError(t, decode(c.frame))
			_, err := s.BTH.VerifyICRC()
			require.ErrorIs(t, err, c.err)
			got := wiretest.Must(s.BTH.CNP())(t)
			require.Equal(t, s.CNP.CNP, got)
		}
	}
	// A packet without a BTH has none from before.
	require.NoError(t, stack(ip4))
	require.NoError(t, stack(with(ip4, 36, 0, 53)))
	_, err := s.BTH.VerifyICRC()
	require.ErrorIs(t, err, rocelayers.ErrNoIP)
	require.Error(t, stack(ip4[:20]))
	_, err = s.BTH.VerifyICRC()
	require.ErrorIs(t, err, rocelayers.ErrNoIP)
}

// If the ICRC of a packet leaves out an option that a node on the way inserted, the packet is serialized unchanged
// after its ICRC is verified. Verification does not write to a packet that goroutines share.
func TestVerifyICRCKeepsCoverage(t *testing.T) {
	inserted := options(t, 17, ioam.IPv6MayChange, ioamData(t, trace(t, 3)))
	frame := withICRC(t, message0x81(t, 0, 0, inserted, make([]byte, 16)), icrc.Without)
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	s := newOwnStack()
	require.NoError(t, s.decode(frame))
	for _, c := range []struct {
		bth *rocelayers.BTH
		all []gopacket.SerializableLayer
	}{{bthOf(packet), serializable(packet)}, {&s.BTH, s.layers()}} {
		got := wiretest.Must(rocelayers.VerifyICRC(packet))(t)
		require.Equal(t, icrc.Without, got)
		require.Equal(t, icrc.AsSent, c.bth.ICRC.Coverage)

		got = wiretest.Must(c.bth.VerifyICRC())(t)
		require.Equal(t, icrc.Without, got)
		require.Equal(t, icrc.Without, c.bth.ICRC.Coverage)
		buf := gopacket.NewSerializeBuffer()
		require.NoError(t, rocelayers.SerializeLayers(buf, complete, c.all...))
		require.Equal(t, frame, buf.Bytes())
	}

	require.NoError(t, s.decode(frame[:len(frame)-1])) // cut
	s.BTH.ICRC.Coverage = icrc.Skipped
	_, err := s.BTH.VerifyICRC()
	require.Error(t, err)
	require.Equal(t, icrc.Skipped, s.BTH.ICRC.Coverage)
}

// The result of BTH.FastCNP for an IPv4 packet does not depend on the packet before it in the buffer.
func TestFastCNPOfThisPacket(t *testing.T) {
	fast, plain6 := built(t)[0].frame, built(t)[5].frame
	var s rocelayers.Stack
	stack, parser := oneBuffer(&s)
	for _, decode := range []func([]byte) error{stack, parser} {
		for _, before := range [][]byte{nil, fast, plain6, wiretest.Hex(t, send6)} {
			_ = decode(before)
			require.NoError(t, decode(wiretest.Hex(t, cnp4)))
			_, err := s.BTH.FastCNP(fastcnp.CodePoints{})
			require.ErrorIs(t, err, fastcnp.ErrNotFastCNP)
			require.NotNil(t, s.Layer(rocelayers.LayerTypeCNP))
			require.Nil(t, s.Layer(rocelayers.LayerTypeFastCNP))

			_ = decode(before)
			require.NoError(t, decode(with(wiretest.Hex(t, cnp4), 42, uint8(bth.RCSendOnly))))
			_, err = s.BTH.FastCNP(fastcnp.CodePoints{})
			require.ErrorIs(t, err, wireerr.NotCNP)
		}
	}
}

// Octets lead to the BTH only from an IP header that it is in.
func TestLayersThatLeadElsewhere(t *testing.T) {
	ip4, ip6 := wiretest.Hex(t, cnp4), wiretest.Hex(t, send6)
	var s rocelayers.Stack
	require.NoError(t, s.Decode(ip6))
	l := s.BTH
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"no layers", func() { l.IPv4, l.IPv6 = nil, nil }},
		{"layers not decoded", func() { l.IPv4, l.IPv6 = new(layers.IPv4), new(layers.IPv6) }},
		{"another frame's", func() { l.IPv6 = layerOf(t, bytes.Clone(ip6), layers.LayerTypeIPv6).(*layers.IPv6) }},
		{"another frame's, IPv4", func() {
			l.IPv6, l.IPv4 = nil,
				layerOf(t, ip4, layers.LayerTypeIPv4).(*layers.IPv4)
		}},
		{"octets apart", func() {
			l.IPv6 = &layers.IPv6{BaseLayer: layers.BaseLayer{Contents: bytes.Clone(ip6[14:54]), Payload: ip6[54:]}}
		}},
		{"nothing decoded", func() { l.Contents = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l = s.BTH
			_, err := l.VerifyICRC()
			require.NoError(t, err)
			c.change()
			_, err = l.VerifyICRC()
			require.ErrorIs(t, err, rocelayers.ErrNoIP)
			_, err = l.CNP()
			require.ErrorIs(t, err, rocelayers.ErrNoIP)
		})
	}
}

func layerOf(t *testing.T, frame []byte, typ gopacket.LayerType) gopacket.Layer {
	l := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).Layer(typ)
	require.NotNil(t, l)
	return l
}

// A CNP with an option that must not be skipped is none: its octets are a
// payload.
func TestCNPToActOn(t *testing.T) {
	reserved := make([]byte, 16)
	for _, c := range []struct {
		typ int
		err error
	}{{0x1E, nil}, {0x5E, cnp.ErrOption}, {0x8E, cnp.ErrOption}, {0xDE, cnp.ErrOption}} {
		frame := message0x81(t, 0, ipv6opt.DestinationOptions, options(t, 17, c.typ, reserved), reserved)
		eachDecoder(frame, func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error) {
			require.NoError(t, failure, decoder)
			require.Equal(t, c.err == nil, get(rocelayers.LayerTypeCNP) != nil, decoder)
			require.Equal(t, c.err != nil, get(gopacket.LayerTypePayload) != nil, decoder)
			_, err := get(rocelayers.LayerTypeBTH).(*rocelayers.BTH).CNP()
			require.ErrorIs(t, err, c.err, decoder)
		})
	}
	_, err := bthOf(gopacket.NewPacket(wiretest.Hex(t, send6), layers.LayerTypeEthernet, gopacket.Default)).CNP()
	require.ErrorIs(t, err, wireerr.NotCNP)

	// D19: an option that overruns is an error, never a CNP.
	overrun := options(t, 17, 0x1E, reserved)
	overrun[3] = 200
	eachDecoder(message0x81(t, 0, ipv6opt.DestinationOptions, overrun, reserved),
		func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error) {
			require.ErrorIs(t, failure, wireerr.Malformed, decoder)
			require.Nil(t, get(rocelayers.LayerTypeCNP), decoder)
		})
}
