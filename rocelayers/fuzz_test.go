package rocelayers_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// FuzzBTHLayer decodes any UDP data, truncated by a number of octets. NewPacket and a parser agree with package rocev2,
// and serialize the data unchanged.
func FuzzBTHLayer(f *testing.F) {
	f.Add(wiretest.Hex(f, cnp4)[42:], uint16(0))
	f.Add(wiretest.Capture(f, "rxe-ucmatose4.pcap")[27].Data[42:], uint16(0)) // a REQ
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		if len(data) == 0 || len(data) > 0xFFFF-8 {
			return
		}
		frame := wrap(17, append([]byte{0xC0, 0x01, 4791 >> 8, 4791 & 0xFF, 0, 0, 0, 0}, data...))
		binary.BigEndian.PutUint16(frame[58:], uint16(8+len(data)))
		there := max(len(frame)-int(cut), 54+8+1) // gopacket calls no decoder for no octets
		frame = frame[:there:there]

		var p rocev2.Packet
		want := p.Decode(frame, rocev2.DecodeOptions{AllowTruncated: true})
		if want == nil && p.BTH.Opcode == bth.CNP && p.PayloadLen() == 0 {
			want = wireerr.CNPLength // the layer's word, where no decoder would be called
			if p.BTH.Resv6&ppfc.Bit != 0 {
				want = wireerr.PPFCLength
			}
		}
		s := newStack()
		err := s.decode(frame)
		require.Equal(t, want == nil, s.has(rocelayers.LayerTypeBTH))
		for _, options := range modes {
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
			require.Equal(t, want == nil, bthOf(packet) != nil)
			failure := packet.ErrorLayer()
			require.Equal(t, err == nil, failure == nil)
			if err != nil {
				require.Equal(t, err, failure.Error())
				continue
			}
			requireSame(t, &p, bthOf(packet))
			coverage, verdict := icrc.Verify(p.IP)
			got, err := rocelayers.VerifyICRC(packet)
			require.Equal(t, verdict, err)
			require.Equal(t, coverage, got)
			require.NotEmpty(t, packet.String())
		}
		if want != nil {
			requireSameFault(t, want, err)
			return
		}
		requireSame(t, &p, &s.BTH)
		if err != nil { // a CNP of another length
			require.Equal(t, bth.CNP, s.BTH.Opcode)
			return
		}
		if p.Truncated {
			return
		}

		buf := gopacket.NewSerializeBuffer()
		require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, s.layers()[2:]...))
		require.Equal(t, p.Data, buf.Bytes()[8:])
		require.NoError(t, rocelayers.SerializeLayers(buf, gopacket.SerializeOptions{ComputeChecksums: true},
			s.layers()...))
		_, err = icrc.Verify(buf.Bytes()[14:])
		require.NoError(t, err)
	})
}

// FuzzMessages decodes any UDP data to one of our ports, over IPv6 with any options, truncated by a number of octets.
// All ways of decoding agree with package message, and with package ioam about the options. The layers of a parser are
// serialized unchanged.
func FuzzMessages(f *testing.F) {
	ports := []uint16{rocev2.Port, fcn.Port, proxymsg.Port}
	for _, c := range append(built(f), broken(f)...) {
		var d rocev2.Datagram
		require.NoError(f, d.Decode(c.frame, rocev2.DecodeOptions{}))
		if d.Src.Is6() && (len(d.Ext) == 0 || len(d.Ext) == 8+8*int(d.Ext[1])) {
			f.Add(d.NextHeader == 0, d.Ext[min(2, len(d.Ext)):], uint8(slices.Index(ports, d.DstPort)), d.Data,
				uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, hopByHop bool, options []byte, port uint8, data []byte, cut uint16) {
		d := rocev2.Datagram{Src: src6, Dst: dst6, DstPort: ports[port%3], Data: data}
		h := ipv6opt.Header{NextHeader: 17, Options: options}
		if ext, err := h.AppendBinary(nil); err == nil { // otherwise without
			d.NextHeader, d.Ext = 60, ext
			if hopByHop {
				d.NextHeader = 0
			}
		}
		frame, err := d.AppendBinary(bytes.Clone(ether6))
		if err != nil {
			return
		}
		frame = frame[:max(len(frame)-int(cut), 14)]
		frame = frame[:len(frame):len(frame)]

		check := func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error) {
			requireMessageIn(t, decoder, frame, get, failure)
		}
		if d.DstPort == proxymsg.Port { // gopacket's decoders get to see any invoking packet
			eachParser(frame, check)
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
			requireNoPanicOfOurs(t, packet)
			return
		}
		eachDecoder(frame, check)
		s := newOwnStack()
		if s.decode(frame) != nil || s.parser.Truncated {
			return
		}
		if s.has(rocelayers.LayerTypeBTH) {
			requireIOAM(t, frame)
		}
		buf := gopacket.NewSerializeBuffer()
		require.NoError(t, rocelayers.SerializeLayers(buf, gopacket.SerializeOptions{}, s.layers()...))
		require.Equal(t, frame, buf.Bytes()[:len(frame)]) // Ethernet pads
	})
}

// FuzzFrame decodes any frame. Where package message finds one of its messages
// and gopacket gets as far as UDP, the layers are the same. Nothing panics, but
// for gopacket's own decoders in NewPacket.
func FuzzFrame(f *testing.F) {
	f.Add(wiretest.Hex(f, cnp4))
	f.Add(wiretest.Hex(f, send6))
	f.Add(wrap(4, wiretest.Hex(f, cnp4)[14:]))
	f.Add(vlan(wiretest.Hex(f, send6), 2))
	empty := wrap(17, wiretest.Hex(f, "c000 12b7 0018 0000 81400000 00000000 00000000 00000000"))
	f.Add(empty[:len(empty)-3]) // a CNP that ends after the BTH, truncated in the ICRC
	f.Fuzz(func(t *testing.T, frame []byte) {
		var m message.Message
		err := m.Decode(frame, rocev2.DecodeOptions{AllowTruncated: true}, message.Config{SkipVerify: true})
		p := &m.Packet
		// The layers do not detect truncation of octets after the UDP length.
		roce := m.Reach == message.ReachTransport && p.Truncated == (len(p.Data) < int(p.Length)-8)
		check := func(s *rocelayers.Stack, failure error) {
			if roce && s.Layer(rocelayers.LayerTypeBTH) != nil {
				requireSame(t, p, &s.BTH)
				if len(p.Payload) == p.PayloadLen() { // a cut one is a Payload
					requireSameFault(t, err, failure)
				}
				coverage, verdict := icrc.Verify(p.IP)
				got, err := s.BTH.VerifyICRC()
				require.Equal(t, verdict, err)
				require.Equal(t, coverage, got)
			}
			for _, typ := range s.Decoded {
				for o := range rocelayers.IOAMOf(s.Layer(typ)) {
					_ = o.String()
				}
				switch typ { // no other kind of message
				case rocelayers.LayerTypeCNP, rocelayers.LayerTypeFastCNP, rocelayers.LayerTypePPFC,
					rocelayers.LayerTypeFCN, rocelayers.LayerTypeProxy:
					if m.Reach != message.ReachNothing { // gopacket takes wrong IP lengths for a cut packet
						require.Equal(t, kindOf(m.Kind), typ)
					}
				}
			}
		}
		for _, s := range []*stack{newStack(), newOwnStack()} {
			s.parser.IgnorePanic = true
			check(&s.Stack, s.decode(frame))
		}
		var s rocelayers.Stack
		check(&s, s.Decode(frame))
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		requireNoPanicOfOurs(t, packet)
		if l := bthOf(packet); roce && l != nil {
			requireSame(t, p, l)
		}
		_, _ = rocelayers.VerifyICRC(packet)
	})
}

// FuzzTwoFrames decodes two frames one after the other, in one buffer, into one Stack. The result for the second does
// not depend on the first.
func FuzzTwoFrames(f *testing.F) {
	var frames [][]byte
	for _, c := range append(built(f), broken(f)...) {
		frames = append(frames, c.frame)
	}
	frames = append(frames, wiretest.Hex(f, send6), vlan(wiretest.Hex(f, cnp4), 1), wrap(4, wiretest.Hex(f, cnp4)[14:]),
		wrap(44, make([]byte, 60)))
	for i := range frames {
		f.Add(frames[i], frames[(i*7+3)%len(frames)])
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if len(first) > 2048 || len(second) > 2048 {
			return
		}
		var single, s rocelayers.Stack
		want := single.Decode(second[:len(second):len(second)])

		stack, parser := oneBuffer(&s)
		for i, decode := range []func([]byte) error{stack, parser} {
			_ = decode(first)
			err := decode(second)
			if i == 1 { // a parser of one's own does not see the two
				single.Decoded = slices.DeleteFunc(single.Decoded, func(t gopacket.LayerType) bool {
					return t == rocelayers.LayerTypeIOAM || t == rocelayers.LayerTypeFlowControl
				})
				control := single.Ethernet.EthernetType == pfc.EtherType || single.Dot1Q.Type == pfc.EtherType
				if control || want == rocelayers.ErrRawIP { // nor that octets are an IP packet
					want = err
				}
			}
			require.Equal(t, want, err)
			require.True(t, slices.Equal(single.Decoded, s.Decoded))
			if i == 0 {
				require.Equal(t, single.Packet(), s.Packet())
			}
			for _, typ := range s.Decoded {
				require.Equal(t, gopacket.LayerString(single.Layer(typ)), gopacket.LayerString(s.Layer(typ)))
				require.Equal(t, single.Layer(typ).LayerContents(), s.Layer(typ).LayerContents())
				require.Equal(t, single.Layer(typ).LayerPayload(), s.Layer(typ).LayerPayload())
			}
			if s.Layer(rocelayers.LayerTypeBTH) == nil {
				continue
			}
			wantCoverage, wantVerdict := single.BTH.VerifyICRC()
			coverage, verdict := s.BTH.VerifyICRC()
			require.Equal(t, wantCoverage, coverage)
			require.Equal(t, wantVerdict, verdict)
			wantFast, wantErr := single.BTH.FastCNP(fastcnp.CodePoints{})
			fast, err := s.BTH.FastCNP(fastcnp.CodePoints{})
			require.Equal(t, wantFast, fast)
			require.Equal(t, wantErr, err)
			wantCNP, wantErr := single.BTH.CNP()
			c, err := s.BTH.CNP()
			require.Equal(t, wantCNP, c)
			require.Equal(t, wantErr, err)
		}
	})
}

// FuzzBuild builds a packet out of layers with any BTH, options and payload. If SerializeLayers returns no error,
// package rocev2 builds the same octets, and reads the packet with a right ICRC.
func FuzzBuild(f *testing.F) {
	f.Add(wiretest.Hex(f, "8100ffff4000011800000000"), []byte(nil), make([]byte, 16), uint8(0))
	f.Add(wiretest.Hex(f, "0400ffff0000001180fffff0"), []byte(nil), []byte("hello"), uint8(1))
	f.Add(wiretest.Hex(f, "0a00ffff0000001180fffff00000000000000000000000000000000000000005"),
		options(f, 17, 0x1E, []byte{1})[2:], []byte("hello"), uint8(6))
	f.Fuzz(func(t *testing.T, header, opts, payload []byte, how uint8) {
		l := new(rocelayers.BTH)
		if _, err := l.Headers.Decode(header); err != nil {
			return
		}
		coverage := icrc.Coverage(how >> 2 & 3)
		l.ICRC.Coverage = coverage
		u, over4 := udp(uint16(how&2)), how&1 != 0
		u.DstPort = rocev2.Port
		ls := []gopacket.SerializableLayer{u, l, gopacket.Payload(payload)}
		p := rocev2.Packet{Coverage: coverage}
		p.SrcPort, p.DstPort, p.TrafficClass, p.HopLimit, p.Checksum = uint16(u.SrcPort), rocev2.Port, 48<<2, 64,
			u.Checksum
		if over4 {
			ls = append([]gopacket.SerializableLayer{ipv4()}, ls...)
			p.Src, p.Dst, p.Flags = src4, dst4, 2
		} else {
			ip := ipv6()
			p.Src, p.Dst = src6, dst6
			if len(opts) > 0 {
				d := &rocelayers.DestinationOptions{Header: ipv6opt.Header{NextHeader: 17, Options: bytes.Clone(opts)}}
				ls = append([]gopacket.SerializableLayer{d}, ls...)
				ip.NextHeader, p.NextHeader = layers.IPProtocolIPv6Destination, ipv6opt.DestinationOptions
			}
			ls = append([]gopacket.SerializableLayer{ip}, ls...)
		}
		buf := dirty(t)
		if err := rocelayers.SerializeLayers(buf, complete, ls...); err != nil {
			require.Zero(t, len(buf.Bytes()))
			return
		}
		if d, ok := ls[1].(*rocelayers.DestinationOptions); ok {
			p.Ext, _ = d.AppendBinary(nil)
		}
		p.BTH, p.Payload = l.Headers, payload
		want, err := p.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, want, buf.Bytes())
		require.NoError(t, p.DecodeIP(want))
		require.Equal(t, p.ICRC, l.ICRC.Value)
		require.Equal(t, p.Checksum, u.Checksum)
		_, err = icrc.Verify(want)
		require.NoError(t, err)
	})
}

// requireNoPanicOfOurs fails the test if a decoder of ours panicked, and not
// one of gopacket's.
func requireNoPanicOfOurs(t *testing.T, p gopacket.Packet) {
	if failure, ok := p.ErrorLayer().(*gopacket.DecodeFailure); ok {
		_, stack, _ := strings.Cut(failure.Dump(), "\npanic(")
		for line := range strings.SplitSeq(stack, "\n") {
			if strings.HasPrefix(line, "github.com/") { // the innermost function outside the runtime
				require.NotContains(t, line, "rocecn/rocecn")
				return
			}
		}
	}
}
