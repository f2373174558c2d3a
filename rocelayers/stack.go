package rocelayers

import (
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/rocev2"
)

// Stack is a parser with every layer of this package and those that may carry
// it. The zero value is ready for use. Decode sets the layers of one frame
// after another and allocates nothing:
//
//	var s rocelayers.Stack
//	for each frame {
//		if err := s.Decode(frame); err != nil {
//			continue // a message of this package, or what carries it, is broken
//		}
//		for _, t := range s.Decoded {
//			switch t {
//			case rocelayers.LayerTypeCNP:
//				s.CNP.DestQP // is to slow down
//			case rocelayers.LayerTypeFastCNP:
//				s.FastCNP.Option.Trace
//			}
//		}
//	}
//
// Only the layers with a type in Decoded belong to the frame; the contents of others are left over from earlier frames.
// The layers alias the frame. If a type is in Decoded more than once (VLAN tags, IP in IP, two headers with Destination
// Options), its layer is the innermost one. IP returns the innermost IP layer. Packet returns the packet for the other
// packages of this library: qpmap, the roles, the builders of answers.
//
// A Stack is not safe for concurrent use, and not to be copied while in use.
type Stack struct {
	// Config has the ports and Fast CNP option types; the zero value stands for the
	// defaults. It may be changed between frames. The ports that [Register] and its
	// like claim do not matter to a Stack. SkipVerify has no effect, because layers
	// are verified by [BTH.VerifyICRC].
	Config message.Config

	// Decoded is the types of the frame's layers, from the outermost inwards.
	Decoded []gopacket.LayerType

	Ethernet           layers.Ethernet
	Dot1Q              layers.Dot1Q
	IPv4               layers.IPv4
	IPv6               IPv6
	HopByHop           HopByHop
	Routing            Routing
	DestinationOptions DestinationOptions
	UDP                UDP
	IOAM               []IOAM // the options of all headers before the BTH, outermost first
	BTH                BTH    // with the ICRC
	CNP                CNP
	FastCNP            FastCNP
	PPFC               PPFC
	CM                 CM
	FCN                FCN
	Proxy              Proxy
	FlowControl        FlowControl
	Payload            gopacket.Payload

	all    []gopacket.DecodingLayer
	parser *gopacket.DecodingLayerParser
	octets []byte
	frame  rocev2.Frame
	walked bool // frame is that of octets
	packet rocev2.Packet
}

// Decode sets the layers from an Ethernet frame. For other traffic the error is
// nil, and Decoded ends with the last layer that a Stack has. Any other error
// means that the layer after those in Decoded is malformed. For an IP packet
// without an Ethernet header the error matches rocecn.ErrMalformed: prepend a
// header.
func (s *Stack) Decode(frame []byte) error {
	if s.BTH.config != &s.Config || s.parser == nil { // not used yet, or a copy
		all := gopacket.DecodingLayerContainer(gopacket.DecodingLayerArray(nil))
		for _, l := range s.Layers() {
			if l != &s.FlowControl { // decodeControl is for it, whether its EtherType is registered or not
				all = all.Put(l)
			}
		}
		s.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet)
		s.parser.SetDecodingLayerContainer(all)
		s.parser.IgnoreUnsupported = true
	}
	// Contents left over from earlier frames are no part of this one.
	s.IPv4.Contents, s.IPv6.Contents, s.BTH.Contents = nil, nil, nil
	s.IOAM = s.IOAM[:0]
	s.octets, s.walked = frame, false
	s.HopByHop.ioam, s.DestinationOptions.ioam = &s.IOAM, &s.IOAM
	err := s.parser.DecodeLayers(frame, &s.Decoded)
	s.HopByHop.ioam, s.DestinationOptions.ioam = nil, nil
	if err == nil {
		err = s.decodeControl()
	}
	if err == nil && len(s.Decoded) == 1 && isIP(frame) {
		err = errRawIP
	}
	s.addIOAM()
	return err
}

// isIP reports whether octets are an IP packet of exactly the length that its header gives.
func isIP(b []byte) bool { return wire.Version(b) != 0 && wire.Length(b) == len(b) }

// IP returns the innermost IP layer of the frame, &s.IPv4 or &s.IPv6.IPv6, or
// nil if there is none. The other layer may have the contents of an earlier
// frame.
func (s *Stack) IP() gopacket.NetworkLayer {
	for _, t := range slices.Backward(s.Decoded) {
		switch t {
		case layers.LayerTypeIPv4:
			return &s.IPv4
		case layers.LayerTypeIPv6:
			return &s.IPv6.IPv6
		}
	}
	return nil
}

// Frame returns the last frame that Decode was called with as a rocev2.Frame, for example for the roles of package
// node. The first call walks it; the Frame is valid as long as the layers are.
func (s *Stack) Frame() *rocev2.Frame {
	if !s.walked {
		cut := slices.Contains(s.Decoded, LayerTypeBTH) && s.BTH.Truncated
		s.frame.Decode(s.octets, rocev2.DecodeOptions{AllowTruncated: cut}) // the layers report the same error
		s.walked = true
	}
	return &s.frame
}

// Packet returns the RoCEv2 packet of the last frame of [Stack.Decode], or nil
// if LayerTypeBTH is not in Decoded. It is valid as long as the layers are.
func (s *Stack) Packet() *rocev2.Packet {
	if len(s.octets) == 0 || !slices.Contains(s.Decoded, LayerTypeBTH) {
		return nil
	}
	v := s.Frame().Outer()
	if v.Mirrored() || v.Packet(&s.packet) != nil || len(s.BTH.Contents) == 0 ||
		&s.packet.Data[0] != &s.BTH.Contents[0] {
		return nil // gopacket's layers describe another packet
	}
	return &s.packet
}

// decodeControl decodes the octets after the EtherType of MAC control frames, which gopacket knows only after
// [RegisterFlowControl]. Frames other than PFC and PAUSE are other traffic.
func (s *Stack) decodeControl() error {
	var control []byte
	switch last := s.Decoded[max(len(s.Decoded)-1, 0):]; {
	case slices.Contains(last, layers.LayerTypeEthernet) && s.Ethernet.EthernetType == pfc.EtherType:
		control = s.Ethernet.Payload
	case slices.Contains(last, layers.LayerTypeDot1Q) && s.Dot1Q.Type == pfc.EtherType:
		control = s.Dot1Q.Payload
	}
	if opcode, _ := pfc.Opcode(control); opcode != pfc.OpcodePFC && opcode != pfc.OpcodePause {
		return nil
	}
	err := s.FlowControl.DecodeFromBytes(control, s.parser)
	if err == nil {
		s.Decoded = append(s.Decoded, LayerTypeFlowControl)
	}
	return err
}

// addIOAM adds the types of the layers in s.IOAM before that of the BTH, where
// NewPacket has them. Without a BTH there are none.
func (s *Stack) addIOAM() {
	if len(s.IOAM) == 0 {
		return
	}
	at := slices.Index(s.Decoded, LayerTypeBTH)
	if at < 0 {
		s.IOAM = s.IOAM[:0]
		return
	}
	n := len(s.IOAM) // thousands, if a stranger wants
	s.Decoded = slices.Grow(s.Decoded, n)[:len(s.Decoded)+n]
	copy(s.Decoded[at+n:], s.Decoded[at:])
	for i := range n {
		s.Decoded[at+i] = LayerTypeIOAM
	}
}

// Layer returns the layer of a type if it is in Decoded, otherwise nil.
func (s *Stack) Layer(t gopacket.LayerType) gopacket.Layer {
	if slices.Contains(s.Decoded, t) {
		if t == LayerTypeIOAM {
			return &s.IOAM[len(s.IOAM)-1]
		}
		for _, l := range s.all {
			if l.CanDecode().Contains(t) {
				return l.(gopacket.Layer)
			}
		}
	}
	return nil
}

// Layers returns the layers, which refer to each other, for another
// DecodingLayerParser: one that begins with another layer than Ethernet, or has
// layers of other protocols as well.
//
//	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv6, s.Layers()...)
//	err := parser.DecodeLayers(packet, &s.Decoded)
func (s *Stack) Layers() []gopacket.DecodingLayer {
	s.UDP.config, s.BTH.config = &s.Config, &s.Config
	s.BTH.UDP, s.BTH.IPv4, s.BTH.IPv6 = &s.UDP.UDP, &s.IPv4, &s.IPv6.IPv6
	s.CNP.bth, s.FastCNP.bth, s.PPFC.bth = &s.BTH, &s.BTH, &s.BTH
	s.FCN.inUDP = inUDP{&s.UDP.UDP, &s.IPv6.IPv6, &s.IPv4, &s.Config}
	s.Proxy.inUDP = s.FCN.inUDP
	s.all = []gopacket.DecodingLayer{ // searched in this order
		&s.Ethernet, &s.IPv6, &s.UDP, &s.BTH, &s.CNP, &s.Payload, &s.IPv4, &s.Dot1Q,
		&s.DestinationOptions, &s.FastCNP, &s.HopByHop, &s.PPFC, &s.FCN, &s.Proxy, &s.Routing, &s.CM, &s.FlowControl,
	}
	return s.all
}
