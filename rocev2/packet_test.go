package rocev2

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// hardwareCNP is a CNP that a ConnectX-4 Lx sent over IPv4, with its Ethernet
// header (DSCP 48, ECN 10, hop limit 64, UDP source port and checksum 0).
const hardwareCNP = `e41d2dab2bc2 7cfe90643b32 0800
	45c2003c718c400040119161 0a001101 0a001201
	000012b700280000
	8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a`

// send6 is a zero-length RC SEND Only that soft-RoCE sent over IPv6.
const send6 = `525400770001 525400770002 86dd
	6680000000181140 fd770000000000000000000000000002 fd770000000000000000000000000001
	e34112b700180000 0400ffff 00000011 80fffff0 4b69f6c2`

func TestDecodeEthernet(t *testing.T) {
	b := wiretest.Hex(t, hardwareCNP)
	var p Packet
	require.NoError(t, p.DecodeEthernet(append(b, 0xEE, 0xEE))) // Ethernet padding
	require.Equal(t, Packet{
		Datagram: Datagram{
			Link: b[:14], IP: b[14:],
			Src: netip.MustParseAddr("10.0.17.1"), Dst: netip.MustParseAddr("10.0.18.1"),
			TrafficClass: 0xC2, HopLimit: 64, ID: 0x718C, Flags: 2,
			SrcPort: 0, DstPort: 4791, Length: 40, Data: b[42:],
		},
		BTH:     bth.Headers{Header: bth.Header{Opcode: bth.CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118}},
		Payload: make([]byte, 16), ICRC: 0x2A00FD82,
	}, p)
	require.Equal(t, uint8(48), p.DSCP())
	require.Equal(t, ECT0, p.ECN())
	require.Equal(t, 16, p.PayloadLen())

	b = wiretest.Hex(t, send6)
	require.NoError(t, p.DecodeIP(b[14:]))
	require.Equal(t, Packet{
		Datagram: Datagram{
			Link: []byte{}, IP: b[14:],
			Src: netip.MustParseAddr("fd77::2"), Dst: netip.MustParseAddr("fd77::1"),
			TrafficClass: 0x68, HopLimit: 64, NextHeader: 17,
			SrcPort: 0xE341, DstPort: 4791, Length: 24, Data: b[62:],
		},
		BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17, AckReq: true,
			PSN: 0xFFFFF0}},
		Payload: []byte{}, ICRC: 0xC2F6694B,
	}, p)
}

// Every RoCEv2 packet of the soft-RoCE captures decodes, and AppendBinary builds the same octets if the ICRC is right.
func TestCaptures(t *testing.T) {
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		t.Run(name, func(t *testing.T) {
			var p Packet
			rebuilt := 0
			for _, c := range wiretest.Capture(t, name) {
				err := p.Decode(c.Data, DecodeOptions{AllowTruncated: len(c.Data) < c.OrigLen})
				if err != nil {
					require.ErrorIs(t, err, ErrNotRoCEv2, "frame %d", c.Number)
					continue
				}
				coverage, err := icrc.Verify(p.IP)
				if p.BTH.Opcode == bth.RCFlush {
					require.ErrorIs(t, err, rocecn.ErrICRC, "frame %d", c.Number) // soft-RoCE's known mistake
					continue
				}
				require.NoError(t, err, "frame %d", c.Number)
				require.Equal(t, icrc.AsSent, coverage)
				out, err := p.AppendBinary(nil)
				require.NoError(t, err, "frame %d", c.Number)
				require.Equal(t, p.IP, out, "frame %d", c.Number)
				rebuilt++
			}
			require.NotZero(t, rebuilt)
		})
	}
}

// wrap puts octets into an IPv6 packet with this next header.
func wrap(next uint8, inner []byte) []byte {
	b := make([]byte, 40, 40+len(inner))
	b[0], b[4], b[5], b[6], b[7] = 0x60, uint8(len(inner)>>8), uint8(len(inner)), next, 64
	b[23], b[39] = 1, 2
	return append(b, inner...)
}

// extension is an extension header of 8 octets.
func extension(next uint8) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

func TestWalk(t *testing.T) {
	cnp := wiretest.Hex(t, hardwareCNP)
	ip4, ip6 := cnp[14:], wiretest.Hex(t, send6)[14:]
	udp := ip6[40:]
	options := append(bytes.Clone(ip4[:20]), 1, 1, 1, 1)
	options[0], options[3] = 0x46, 64
	options = append(options, ip4[20:]...)

	chain := func(n int) []byte {
		b := bytes.Repeat(extension(wire.ProtoDestinationOptions), n)
		b[len(b)-8] = wire.ProtoUDP
		return append(b, udp...)
	}

	tunnel := func(depth int) []byte {
		b := ip6
		for range depth {
			b = wrap(wire.ProtoIPv6, b)
		}
		return b
	}
	for _, c := range []struct {
		name       string
		octets     []byte
		outer, ext int // octets before the innermost IP header, and of options or extension headers
	}{
		{"IPv4", ip4, 0, 0},
		{"IPv4 with options", options, 0, 4},
		{"IPv6", ip6, 0, 0},
		{"Hop-by-Hop", wrap(wire.ProtoHopByHop, append(extension(wire.ProtoUDP), udp...)), 0, 8},
		{"Hop-by-Hop, Routing, Destination Options",
			wrap(wire.ProtoHopByHop, bytes.Join([][]byte{extension(wire.ProtoRouting),
				extension(wire.ProtoDestinationOptions),
				extension(wire.ProtoUDP), udp}, nil)), 0, 24},
		{"20 extension headers", wrap(wire.ProtoDestinationOptions, chain(20)), 0, 160},
		{"2,000 extension headers", wrap(wire.ProtoDestinationOptions, chain(2000)), 0, 16000},
		{"IPv4 in IPv6", wrap(wire.ProtoIPv4, ip4), 40, 0},
		{"IPv4 in IPv6 after an extension header",
			wrap(wire.ProtoDestinationOptions, append(extension(wire.ProtoIPv4), ip4...)), 48, 0},
		{"IPv6 four deep in IPv6", tunnel(4), 160, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Packet
			require.NoError(t, p.DecodeIP(c.octets))
			require.Len(t, p.Outer, c.outer)
			require.Len(t, p.Ext, c.ext)
			require.Equal(t, c.octets[c.outer:], p.IP)
			require.Equal(t, uint16(Port), p.DstPort)

			ethertype := []byte{0x08, 0x00}
			if c.octets[0]>>4 == 6 {
				ethertype = []byte{0x86, 0xDD}
			}
			for tags := range 4 {
				frame := make([]byte, 12)
				for i := range tags {
					frame = append(frame, [][]byte{{0x81, 0x00, 0, 7}, {0x88, 0xA8, 0, 9}}[i%2]...)
				}
				frame = append(append(frame, ethertype...), c.octets...)
				require.NoError(t, p.DecodeEthernet(frame))
				require.Len(t, p.Link, 14+4*tags)
				require.Equal(t, c.octets[c.outer:], p.IP)
				if len(frame) > 1000 {
					continue // 16,000 prefixes
				}
				bthEnd := len(frame) - len(p.Data) + bth.Size
				wiretest.Prefixes(t, frame[:bthEnd], func(b []byte) error {
					was := p
					err := p.DecodeEthernet(b)
					require.Equal(t, was, p)
					return err
				})
			}
		})
	}
}

func TestRefused(t *testing.T) {
	cnp, send := wiretest.Hex(t, hardwareCNP), wiretest.Hex(t, send6)
	with := func(b []byte, at int, octets ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[at:], octets)
		return b
	}
	ip4, ip6 := cnp[14:], send[14:]
	udp := ip6[40:]
	five := ip6
	for range 5 {
		five = wrap(wire.ProtoIPv6, five)
	}
	lied := with(wrap(wire.ProtoIPv6, ip6), 40+5, 25)
	longer := append(bytes.Clone(send), make([]byte, 8)...)
	for _, c := range []struct {
		name  string
		frame []byte
		ip    []byte
		err   error
		other bool // other traffic, not RoCEv2
	}{
		{name: "nothing", frame: nil, err: errFrame, other: true},
		{name: "ARP", frame: with(cnp, 12, 0x08, 0x06), err: errNotIP, other: true},
		{name: "802.3 length", frame: with(cnp, 12, 0x00, 0x2E), err: errNotIP, other: true},
		{name: "VLAN tags without end", frame: bytes.Repeat([]byte{0x81, 0x00}, 500), err: errFrame, other: true},
		{name: "IPv6 announced, IPv4 there", frame: with(send, 14, 0x45), err: errVersion, other: true},
		{name: "IPv4 announced, IPv6 there", frame: with(cnp, 14, 0x65), err: errVersion, other: true},
		{name: "IP version 0", ip: make([]byte, 60), err: errVersion, other: true},
		{name: "IHL 4", ip: with(ip4, 0, 0x44), err: errIHL, other: true},
		{name: "IHL beyond the packet", ip: with(ip4[:24], 0, 0x4F), err: errIPv4Header, other: true},
		{name: "Total Length 19", ip: with(ip4, 2, 0, 19), err: errTotal, other: true},
		{name: "Total Length 27", ip: with(ip4, 2, 0, 27), err: errUDPHeader, other: true},
		{name: "More Fragments", ip: with(ip4, 6, 0x20, 0), err: ErrFragment, other: true},
		{name: "fragment offset", ip: with(ip4, 6, 0, 1), err: ErrFragment, other: true},
		{name: "IPv6 fragment", ip: wrap(wire.ProtoFragment, append(extension(17), udp...)), err: ErrFragment,
			other: true},
		{name: "AH", ip: with(ip6, 6, 51), err: errNotUDP, other: true},
		{name: "TCP", ip: with(ip4, 9, 6), err: errNotUDP, other: true},
		{name: "Hop-by-Hop is no IPv4 protocol", ip: with(ip4, 9, 0), err: errNotUDP, other: true},
		{name: "extension header of no octets", ip: wrap(wire.ProtoDestinationOptions, nil), err: errExtension,
			other: true},
		{name: "extension header beyond the packet",
			ip:  wrap(wire.ProtoDestinationOptions, []byte{17, 1, 1, 4, 0, 0, 0, 0}),
			err: errExtension, other: true},
		{name: "extension header after the packet",
			ip:  slices.Concat(wrap(wire.ProtoDestinationOptions, nil), extension(wire.ProtoUDP), udp),
			err: errExtension, other: true},
		{name: "Payload Length 0", ip: with(ip6, 4, 0, 0), err: errUDPHeader, other: true},
		{name: "IPv6 five deep in IPv6", ip: five, err: errDepth, other: true},
		{name: "other port", ip: with(ip4, 22, 0, 53), err: ErrPort, other: true},
		{name: "other port, UDP length 0", ip: with(ip4, 22, 0, 53, 0, 0), err: ErrPort, other: true},
		{name: "other port, Total Length beyond the octets", ip: with(with(ip4, 22, 0, 53), 2, 1), err: ErrPort,
			other: true},

		{name: "UDP length 7", ip: with(ip4, 24, 0, 7), err: errUDPLength},
		{name: "UDP length 0", ip: with(ip4, 24, 0, 0), err: errUDPLength},
		{name: "UDP length beyond the octets", ip: with(ip4, 24, 0, 41), err: errUDPBeyondIP},
		{name: "UDP length beyond the IP packet in an acknowledgement", frame: with(with(longer, 58, 0, 29), 62, 0x11),
			err: errUDPBeyondIP},
		{name: "UDP length and BTH beyond the IP packet", frame: with(with(longer, 18, 0, 19), 58, 0, 24),
			err: errUDPBeyondIP},
		{name: "Total Length beyond the octets, 11 of BTH", ip: with(ip4[:39], 2, 0, 60), err: errIPLength},
		{name: "Payload Length beyond the octets, 11 of BTH", ip: ip6[:59], err: errIPLength},
		{name: "inner packet longer than the outer one", ip: lied, err: errIPLength},
		{name: "UDP header alone", ip: with(ip4, 24, 0, 8), err: errRoom},
		{name: "no space for the ICRC", ip: with(ip4, 24, 0, 23), err: errRoom},
		{name: "no space for AtomicETH", ip: with(ip4, 28, 0x13), err: errHeadersRoom},
		{name: "pad count beyond the payload", ip: with(ip6, 49, 0x10), err: errPad},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Packet
			decode, octets := p.DecodeEthernet, c.frame
			if c.ip != nil {
				decode, octets = p.DecodeIP, c.ip
			}
			err := decode(octets)
			require.ErrorIs(t, err, c.err)
			if c.err == nil {
				return
			}
			if c.other {
				require.ErrorIs(t, err, ErrNotRoCEv2)
			} else {
				require.NotErrorIs(t, err, ErrNotRoCEv2)
			}
			require.Equal(t, Packet{}, p)
			wiretest.NoAllocs(t, "refusing", func() { _ = decode(octets) })
		})
	}
}

func TestUnknownOpcodeKeepsTheRestRaw(t *testing.T) {
	b := wiretest.Hex(t, hardwareCNP)
	b[42], b[43] = 0x9F, 0x30 // pad count 3
	var p Packet
	require.NoError(t, p.DecodeEthernet(b))
	require.Equal(t, b[54:70], p.Payload)
	require.Empty(t, p.Padding)
	require.Equal(t, 16, p.PayloadLen())
}

// The UDP length may be shorter than the IP payload. Octets after its end are ignored, and the ICRC is before them
// (D12).
func TestUDPLengthShorterThanIP(t *testing.T) {
	b := wiretest.Hex(t, send6)
	b = append(b, 1, 2, 3, 4, 5)
	b[19] += 5
	var p Packet
	require.NoError(t, p.DecodeEthernet(b))
	require.Equal(t, uint32(0xC2F6694B), p.ICRC)
	require.Len(t, p.Data, 16)
	require.Len(t, p.IP, 69)
}

// A packet truncated by the capture decodes if its headers are complete (D13).
func TestTruncated(t *testing.T) {
	var frame []byte
	for _, c := range wiretest.Capture(t, "rxe-verbs6.pcap") {
		if len(c.Data) > 100 && c.Data[62] == uint8(bth.RCRDMAWriteOnly) {
			frame = c.Data
			break
		}
	}
	require.NotNil(t, frame)
	var whole Packet
	require.NoError(t, whole.DecodeEthernet(frame))
	headers := 14 + 40 + 8 + whole.BTH.Len()
	for n := range len(frame) + 1 {
		var p Packet
		err := p.Decode(frame[:n:n], DecodeOptions{AllowTruncated: true})
		switch {
		case n < headers:
			require.ErrorIs(t, err, wireerr.Truncated, "%d octets", n)
			require.Equal(t, n < 62, errors.Is(err, ErrNotRoCEv2), "%d octets", n)
			require.Equal(t, Packet{}, p)
		default:
			require.NoError(t, err, "%d octets", n)
			require.Equal(t, n < len(frame), p.Truncated)
			require.Equal(t, whole.BTH, p.BTH)
			require.Equal(t, whole.PayloadLen(), p.PayloadLen())
			require.Len(t, p.Payload, min(n-headers, whole.PayloadLen()))
			if p.Truncated {
				require.Zero(t, p.ICRC)
			}
		}
	}
}

// A truncated packet may end after the BTH.
func TestTruncatedAfterBTH(t *testing.T) {
	b := wiretest.Hex(t, send6)
	var p Packet
	require.NoError(t, p.Decode(b[:74], DecodeOptions{AllowTruncated: true}))
	require.Equal(t, bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17, AckReq: true, PSN: 0xFFFFF0},
		p.BTH.Header)
	require.True(t, p.Truncated)
	require.ErrorIs(t, p.Decode(b[:73], DecodeOptions{AllowTruncated: true}), errHeadersTruncated)
}

// The octets are an IPv6 packet with LinkIP, and an Ethernet frame with a RoCEv2 packet over IPv4 with LinkEthernet.
func TestLinkTypeDecides(t *testing.T) {
	b := wiretest.Hex(t,
		`60000000 0024 11 40 00000000 0800 4500 003e 00000000 4011 0000 c0000201 c0000202 c001 12b7 002a`+
			`c001 12b7 0024 0000 0400ffff 00000011 80000000 0102030405060708090a0b0c aabbccdd`)
	var p Packet
	require.NoError(t, p.DecodeEthernet(b))
	require.Equal(t, addr("192.0.2.1"), p.Src)
	require.NoError(t, p.DecodeIP(b))
	require.Equal(t, addr("0:0:800:4500:3e:0:0:4011"), p.Src)
}

func TestPorts(t *testing.T) {
	b := wiretest.Hex(t, send6)
	b[56], b[57] = 0x03, 0xFD // 1021
	var d Datagram
	require.NoError(t, d.Decode(b, DecodeOptions{}))
	require.NoError(t, d.Decode(b, DecodeOptions{}, 1022, 1021))
	require.ErrorIs(t, d.Decode(b, DecodeOptions{}, 1022), ErrPort)
	var p Packet
	require.ErrorIs(t, p.DecodeEthernet(b), ErrPort)
	q := Packet{Datagram: d}
	require.NoError(t, q.DecodeDatagram(&q.Datagram))
	require.NoError(t, p.DecodeDatagram(&d))
	require.Equal(t, p, q)
	require.Equal(t, uint16(1021), p.DstPort)
	for _, change := range []func(*Datagram){
		func(d *Datagram) { d.Length = 0 },
		func(d *Datagram) { d.Length++ },
		func(d *Datagram) { d.Data = d.Data[1:] },
		func(d *Datagram) { d.Length, d.Truncated = 8, true },
	} {
		wrong := d
		change(&wrong)
		require.ErrorIs(t, q.DecodeDatagram(&wrong), errDataLength)
		require.Equal(t, p, q)
	}
}

func TestExtensions(t *testing.T) {
	udp := wiretest.Hex(t, send6)[54:]
	inner := wrap(wire.ProtoHopByHop, bytes.Join([][]byte{extension(wire.ProtoRouting), extension(wire.ProtoUDP), udp},
		nil))
	outer := wrap(wire.ProtoDestinationOptions, append(extension(wire.ProtoIPv6), inner...))
	var p Packet
	require.NoError(t, p.DecodeIP(outer))

	collect := func(seq func(func(uint8, []byte) bool)) (types []uint8) {
		for typ, octets := range seq {
			require.Len(t, octets, 8)
			types = append(types, typ)
		}
		return types
	}
	require.Equal(t, []uint8{60, 0, 43}, collect(Extensions(outer, DecodeOptions{Link: LinkIP})))
	require.Equal(t, []uint8{60}, collect(Extensions(p.Outer, DecodeOptions{Link: LinkIP})))
	require.Equal(t, []uint8{0, 43}, collect(p.Extensions()))

	for range 3 {
		outer = wrap(wire.ProtoIPv6, outer)
	}
	require.Equal(t, []uint8{60, 0, 43}, collect(Extensions(outer, DecodeOptions{Link: LinkIP})), "4 deep")
	require.Equal(t, []uint8{60}, collect(Extensions(wrap(wire.ProtoIPv6, outer), DecodeOptions{Link: LinkIP})),
		"5 deep")

	icmp := wrap(wire.ProtoHopByHop, append(extension(58), 143, 0, 0, 0))
	require.Equal(t, []uint8{0}, collect(Extensions(icmp, DecodeOptions{Link: LinkIP})))
	short := wrap(wire.ProtoHopByHop, append(extension(wire.ProtoDestinationOptions), extension(wire.ProtoUDP)[:7]...))
	require.Equal(t, []uint8{0}, collect(Extensions(short, DecodeOptions{Link: LinkIP})), "the second is not all there")
	require.Empty(t, collect(Extensions(wiretest.Hex(t, hardwareCNP), DecodeOptions{})))
	for n := range outer {
		collect(Extensions(outer[:n:n], DecodeOptions{Link: LinkIP}))
	}
	wiretest.NoAllocs(t, "Extensions", func() {
		for range Extensions(outer, DecodeOptions{Link: LinkIP}) {
		}
		for range p.Extensions() {
		}
	})
}

func TestNoAllocations(t *testing.T) {
	b := wiretest.Hex(t, send6)
	var p Packet
	wiretest.NoAllocs(t, "Packet.DecodeEthernet", func() { _ = p.DecodeEthernet(b) })
	wiretest.NoAllocs(t, "Packet.Decode", func() { _ = p.Decode(b, DecodeOptions{Link: LinkSLL}) })
	var d Datagram
	wiretest.NoAllocs(t, "Datagram.Decode", func() { _ = d.Decode(b, DecodeOptions{}) })
	out := make([]byte, 0, 128)
	wiretest.NoAllocs(t, "Packet.AppendBinary", func() { out, _ = p.AppendBinary(out[:0]) })
	p.Checksum = 1
	wiretest.NoAllocs(t, "Packet.AppendBinary with checksum", func() { out, _ = p.AppendBinary(out[:0]) })
	p.FlowLabel = 1 << 20
	wiretest.NoAllocs(t, "Packet.AppendBinary, error", func() { out, _ = p.AppendBinary(out[:0]) })
}

func TestFinalDst(t *testing.T) {
	srh := append([]byte{17, 2, 4, 1, 0, 0, 0, 0}, wiretest.Hex(t, "20010db8000000000000000000000003")...)
	srh = srh[:len(srh):len(srh)]
	for _, c := range []struct {
		name string
		ip   []byte
		want string
	}{
		{"IPv4", wiretest.Hex(t, hardwareCNP)[14:], "10.0.18.1"},
		{"IPv6", wiretest.Hex(t, send6)[14:], "fd77::1"},
		{"Destination Options", wrap(wire.ProtoDestinationOptions,
			append(extension(wire.ProtoUDP), wiretest.Hex(t, send6)[54:]...)),
			"::2"},
		{"SRv6", wrap(wire.ProtoRouting, append(srh, wiretest.Hex(t, send6)[54:]...)), "2001:db8::3"},
		{"SRv6, Segments Left 0", wrap(wire.ProtoRouting,
			slices.Concat(srh[:3], []byte{0}, srh[4:], wiretest.Hex(t, send6)[54:])), "::2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Packet
			require.NoError(t, p.DecodeIP(c.ip))
			require.Equal(t, c.want, p.FinalDst().String())
			wiretest.NoAllocs(t, c.name, func() { p.FinalDst() })
		})
	}
}

func TestValidate(t *testing.T) {
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		for _, c := range wiretest.Capture(t, name) {
			var p Packet
			if p.DecodeEthernet(c.Data) == nil {
				require.NoError(t, p.Validate(), "%s frame %d", name, c.Number)
			}
		}
	}
	for _, c := range []struct {
		op      bth.Opcode
		payload int
		pad     uint8
		err     error
	}{
		{bth.RCSendOnly, 0, 0, nil},
		{bth.RCSendOnly, 5, 3, nil},
		{bth.RCSendOnly, 5, 0, errPayloadAlign},
		{bth.RCAcknowledge, 4, 0, errPayload},
		{bth.RCRDMAReadRequest, 4, 0, errPayload},
		{bth.RCAtomicWrite, 8, 0, nil},
		{bth.RCAtomicWrite, 4, 0, errPayloadEight},
		{bth.CNP, 16, 0, nil},
		{bth.CNP, 12, 0, errReserved16},
		{0x9F, 5, 0, nil},
	} {
		h := bth.Header{Opcode: c.op, PKey: bth.DefaultPKey, Pad: c.pad}
		p := Packet{BTH: bth.Headers{Header: h}, Payload: make([]byte, c.payload)}
		p.Src, p.Dst, p.DstPort = addr("::1"), addr("::2"), Port
		require.ErrorIs(t, p.Validate(), errHopLimit)
		p.HopLimit = 64
		require.ErrorIs(t, p.Validate(), c.err, "%v before it is sent", c.op)
		out := wiretest.Must(p.AppendBinary(nil))(t)
		require.NoError(t, p.DecodeIP(out))
		require.ErrorIs(t, p.Validate(), c.err, "%v", c.op)
		require.Equal(t, c.err == nil, p.Validate() == nil, "%v", c.op)
	}
}

// The texts of packets, flows and frames.
func TestStrings(t *testing.T) {
	var p Packet
	require.NoError(t, p.DecodeEthernet(wiretest.Hex(t, send6)))
	require.Equal(t,
		"[fd77::2]:58177 > [fd77::1]:4791, RC SEND Only DestQP 0x000011 PSN 16777200 PKey 0xffff AckReq 1, 0 octets "+
			"of payload", fmt.Sprint(p))
	require.Equal(t, "[fd77::2]:58177 > [fd77::1]:4791, 16 octets", fmt.Sprint(p.Datagram))
	flow, ok := p.FlowKey()
	require.True(t, ok)
	require.Equal(t, "fd77::2 > fd77::1 qp 0x000011", fmt.Sprint(flow))
	p.BTH.Opcode = 0x81
	flow, ok = p.FlowKey()
	require.False(t, ok, "a notification")
	require.Zero(t, flow)
	var f Frame
	require.False(t, f.Tunnelled())
	require.Equal(t, "no flow: "+errFrame.Error(), fmt.Sprint(&f))
	f.Decode(wiretest.Hex(t, send6), DecodeOptions{})
	require.Equal(t, "[fd77::2]:58177 > [fd77::1]:4791 protocol 17", fmt.Sprint(&f))
	f.Decode(wrap(wire.ProtoIPv6, wiretest.Hex(t, send6)[14:]), DecodeOptions{Link: LinkIP})
	require.Equal(t, "[fd77::2]:58177 > [fd77::1]:4791 protocol 17 in a tunnel ::1 > ::2", fmt.Sprint(&f))
}

// A verified packet is built with the same ICRC.
func TestVerifyICRC(t *testing.T) {
	var p Packet
	require.NoError(t, p.DecodeIP(wrap(wire.ProtoHopByHop,
		append(extension(wire.ProtoUDP), wiretest.Hex(t, send6)[54:]...))))
	p.Coverage = icrc.Without
	out := wiretest.Must(p.AppendBinary(nil))(t)
	require.NoError(t, p.DecodeIP(out))
	require.Equal(t, icrc.AsSent, p.Coverage)
	c := wiretest.Must(p.VerifyICRC())(t)
	require.Equal(t, icrc.Without, c)
	again, err := p.AppendBinary(nil)
	require.NoError(t, err)
	require.Equal(t, out, again)
	out[len(out)-1]++
	_, err = p.VerifyICRC()
	require.ErrorIs(t, err, rocecn.ErrICRC)
	require.Equal(t, icrc.Without, p.Coverage, "as it was")
	require.NoError(t, p.Decode(out[:len(out)-1], DecodeOptions{Link: LinkIP, AllowTruncated: true}))
	_, err = p.VerifyICRC()
	require.ErrorIs(t, err, errTruncated)
}

func TestAnswerable(t *testing.T) {
	for _, good := range []string{"192.0.2.1", "10.0.0.1", "2001:db8::1", "fd77::1", "223.255.255.255"} {
		require.NoError(t, CheckAnswerable(addr(good)), good)
	}
	for _, bad := range []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
		"255.255.255.255", "169.254.1.1",
		"::", "::1", "ff02::1", "fe80::1", "fe80::1%eth0", "::ffff:192.0.2.1"} {
		require.ErrorIs(t, CheckAnswerable(addr(bad)), ErrNotReachable, bad)
	}
	var none Packet
	require.ErrorIs(t, CheckAnswerable(none.Src), ErrNotReachable)
}

func TestSplit(t *testing.T) {
	ethernet := "020000000002 020000000001 "
	four := "4500001c 00004000 40fd0000 0a000101 0a000401 0102030405060708"
	six := "60000000 00083b40 20010db8000100000000000000000001 20010db8000200000000000000000002 0102030405060708"
	for _, c := range []struct {
		name, link, ip, behind string
		o                      DecodeOptions
	}{
		{"Ethernet, padded", ethernet + "0800", four, "00000000", DecodeOptions{}},
		{"two tags", ethernet + "88a80009 81000007 86dd", six, "", DecodeOptions{}},
		{"raw IPv4", "", four, "ff", DecodeOptions{Link: LinkIP}},
		{"a header alone", "", "45000014 00004000 403b0000 0a000101 0a000401", "ff", DecodeOptions{Link: LinkIP}},
		{"raw IPv6", "", six, "", DecodeOptions{Link: LinkIP}},
		{"Linux cooked", "0000 0001 0006 020000000001 0000 86dd", six, "", DecodeOptions{Link: LinkSLL}},
		{"loopback", "02000000", four, "", DecodeOptions{Link: LinkNull}},
		{"cut", ethernet + "86dd", six[:90], "", DecodeOptions{AllowTruncated: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantLink, wantIP := wiretest.Hex(t, c.link), wiretest.Hex(t, c.ip)
			b := slices.Concat(wantLink, wantIP, wiretest.Hex(t, c.behind))
			link, ip, err := Split(b, c.o)
			require.NoError(t, err)
			require.Equal(t, wantLink, link)
			require.Equal(t, wantIP, ip)
			wiretest.NoAllocs(t, "Split", func() { _, _, _ = Split(b, c.o) })
			if !c.o.AllowTruncated {
				wiretest.Prefixes(t, b[:len(wantLink)+len(wantIP)], func(b []byte) error {
					if len(b) == 0 && c.o.Link == LinkIP {
						return wireerr.Truncated // no version, so neither header is cut
					}
					_, _, err := Split(b, c.o)
					return err
				})
			}
		})
	}
	for _, c := range []struct{ name, octets string }{
		{"ARP", ethernet + "0806 0001"},
		{"another version", ethernet + "0800 60000000"},
		{"Total Length below 20", ethernet + "0800 45000013 00004000 40fd0000 0a000101 0a000401"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Split(wiretest.Hex(t, c.octets), DecodeOptions{})
			require.Error(t, err)
		})
	}
	_, _, err := Split(nil, DecodeOptions{Link: LinkIP})
	require.Error(t, err)
}
