// Code generated from rocelayers/stack.go by internal/genfork; DO NOT EDIT.

package rocelayers

import (
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/message"
)

// Stack is a parser with every layer of this package and those that may carry
// it. The zero value is ready for use. Decode sets the layers of one frame
// after another and allocates nothing:
//
//	var s rocelayers.Stack
//	for each frame {
//		if err := s.Decode(frame); err != nil {
//			continue // a message of ours, or what carries it, is broken
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
// Only the layers whose types are in Decoded belong to the frame; what the
// others hold is left over from frames before. They alias the frame. Where a
// type is in Decoded more than once (VLAN tags, IP in IP, two headers with
// Destination Options), its layer is the innermost one.
//
// A Stack is not safe for concurrent use, and not to be copied while in use.
type Stack struct {
	// Config has the ports, Fast CNP option types and so on to go by; the zero
	// value stands for the defaults. It may be changed between frames. The ports
	// that [Register] and its like claim do not matter to a Stack.
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
	BTH                BTH // with the ICRC
	CNP                CNP
	FastCNP            FastCNP
	PPFC               PPFC
	CM                 CM
	FCN                FCN
	Proxy              Proxy
	Payload            gopacket.Payload

	all    []gopacket.DecodingLayer
	parser *gopacket.DecodingLayerParser
}

// Decode sets the layers from an Ethernet frame. The error is nil for other
// traffic: Decoded then ends where the layers that a Stack has end. It is that
// of the layer behind those in Decoded, which is broken.
func (s *Stack) Decode(frame []byte) error {
	if s.BTH.config != &s.Config || s.parser == nil { // not used yet, or a copy
		all := gopacket.DecodingLayerContainer(gopacket.DecodingLayerArray(nil))
		for _, l := range s.Layers() {
			all = all.Put(l)
		}
		s.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet)
		s.parser.SetDecodingLayerContainer(all)
		s.parser.IgnoreUnsupported = true
	}
	// What frames before have left is no part of this one.
	s.IPv4.Contents, s.IPv6.Contents, s.BTH.Contents = nil, nil, nil
	return s.parser.DecodeLayers(frame, &s.Decoded)
}

// Layer returns the layer of a type if it is in Decoded, otherwise nil.
func (s *Stack) Layer(t gopacket.LayerType) gopacket.Layer {
	if slices.Contains(s.Decoded, t) {
		for _, l := range s.all {
			if l.CanDecode().Contains(t) {
				return l.(gopacket.Layer)
			}
		}
	}
	return nil
}

// Layers returns the layers, wired to each other, for a DecodingLayerParser of
// one's own: one that begins with another layer than Ethernet, or has layers
// of other protocols, too.
//
//	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv6, s.Layers()...)
//	err := parser.DecodeLayers(packet, &s.Decoded)
func (s *Stack) Layers() []gopacket.DecodingLayer {
	s.UDP.config, s.BTH.config, s.FCN.config, s.Proxy.config = &s.Config, &s.Config, &s.Config, &s.Config
	s.BTH.UDP, s.BTH.IPv4, s.BTH.IPv6 = &s.UDP.UDP, &s.IPv4, &s.IPv6.IPv6
	s.CNP.bth, s.FastCNP.bth, s.PPFC.bth = &s.BTH, &s.BTH, &s.BTH
	s.FCN.udp, s.Proxy.udp = &s.UDP.UDP, &s.UDP.UDP
	s.all = []gopacket.DecodingLayer{ // searched in this order
		&s.Ethernet, &s.IPv6, &s.UDP, &s.BTH, &s.CNP, &s.Payload, &s.IPv4, &s.Dot1Q,
		&s.DestinationOptions, &s.FastCNP, &s.HopByHop, &s.PPFC, &s.FCN, &s.Proxy, &s.Routing, &s.CM,
	}
	return s.all
}
