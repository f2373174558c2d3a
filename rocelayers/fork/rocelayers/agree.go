// Code generated from rocelayers/agree.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"bytes"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
)

// A CNP, FastCNP or PPFC layer repeats fields of other layers: the Header of the BTH, and the option in the Destination
// Options. In a decoded packet the two agree. A program that changes only one of them must not send the packet: a Fast
// CNP without its option would be a CNP with the DestQP of another host.

// leads returns an error if the opcode or the P bit does not match the layer after the BTH. That layer is the last one
// in the buffer, apart from an ICRC.
func (l *BTH) leads(written []gopacket.LayerType) error {
	if n := len(written); n > 0 && written[n-1] == LayerTypeICRC {
		written = written[:n-1]
	}
	if len(written) == 0 {
		return nil
	}
	switch next := written[len(written)-1]; {
	case next != LayerTypeCNP && next != LayerTypeFastCNP && next != LayerTypePPFC:
	case l.Opcode != bth.CNP:
		return errNoCNP
	case next == LayerTypePPFC && l.Resv6&ppfc.Bit == 0:
		return errNoPPFC
	}
	return nil
}

// agree returns an error where layers of one message do not say the same.
func agree(ls []gopacket.SerializableLayer) error {
	for i := range ls {
		l, ok := ls[i].(*BTH)
		if !ok {
			continue
		}
		after := ls[i+1:]
		if len(after) > 0 && after[0].LayerType() == LayerTypeICRC {
			after = after[1:]
		}
		if len(after) == 0 {
			continue
		}
		var repeated bth.Header
		switch next := after[0].(type) {
		case *CNP:
			repeated = next.Header
		case *PPFC:
			repeated = next.Header
		case *FastCNP:
			repeated = next.CNP.Header
			if err := next.hasOption(ls[:i]); err != nil {
				return err
			}
		}
		if repeated != (bth.Header{}) && repeated != l.Header {
			return errHeader
		}
	}
	return nil
}

// hasOption returns an error unless Option is in a Destination Options layer between IP and the BTH, the last of these
// layers. Without an IP layer the caller writes the option.
func (l *FastCNP) hasOption(before []gopacket.SerializableLayer) error {
	var buf [0xFF]byte
	if l.Option.Number == 0 {
		return errNoOption
	}
	data, err := l.Option.AppendBinary(buf[:0])
	if err != nil {
		return err
	}
	typ := l.optionType()
	for i := len(before) - 1; i >= 0; i-- {
		switch h := before[i].(type) {
		case *DestinationOptions:
			for o, err := range h.All() {
				if err == nil && o.Type == typ && bytes.Equal(o.Data, data) {
					return nil
				}
			}
		case *layers.IPv6Destination:
			for _, o := range h.Options {
				if ipv6opt.Type(o.OptionType) == typ && bytes.Equal(o.OptionData, data) {
					return nil
				}
			}
		case *layers.IPv4, *layers.IPv6, *IPv6:
			return errNoOption
		}
	}
	return nil
}
