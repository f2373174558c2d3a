package rocev2

import "iter"

// Functions that decode a frame and call one method of it, and types that hold several results.

func walked(b []byte, o DecodeOptions) *Frame {
	var f Frame
	f.Decode(b, o)
	return &f
}

// decode implements Decode by the walk, even for plain frames.
func (p *Packet) decode(b []byte, o DecodeOptions) error {
	var w walk
	if err := w.from(b, o); err != nil {
		return err
	}
	return p.fromWalk(b, &w, o.Cut)
}

func Extensions(b []byte, o DecodeOptions) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		var f Frame
		o.Outer = true
		f.Decode(b, o)
		f.Extensions()(yield)
	}
}

func OptionsError(b []byte, o DecodeOptions) error {
	var f Frame
	o.Outer = true
	f.Decode(b, o)
	return f.OptionsError()
}

func IOAMOptions(b []byte, o DecodeOptions) iter.Seq2[IOAMOption, error] {
	return func(yield func(IOAMOption, error) bool) {
		var f Frame
		o.Outer = true
		f.Decode(b, o)
		f.IOAM()(yield)
	}
}

func (in *Inner) IOAM() iter.Seq2[IOAMOption, error] { return in.frame.IOAM() }

func (in *Inner) OptionsError() error { return in.frame.OptionsError() }

// A Flow holds the results of a Frame about its innermost flow.
type Flow struct {
	FiveTuple
	FlowLabel     uint32
	Tunnels       Tunnels
	Outermost, IP []byte
}

func (f *Flow) DecodeEthernet(b []byte) error { return f.Decode(b, DecodeOptions{}) }

func (f *Flow) DecodeIP(b []byte) error { return f.Decode(b, DecodeOptions{Link: LinkIP}) }

func (f *Flow) Decode(b []byte, o DecodeOptions) error { return walked(b, o).Flow(f) }

func (f *Frame) Flow(to *Flow) error {
	t, err := f.FiveTuple()
	if err != nil {
		return err
	}
	to.FiveTuple, to.FlowLabel, to.Tunnels = t, f.Inner().FlowLabel(), f.Tunnels()
	to.Outermost, to.IP = outermost(f), f.Inner().IP()
	return nil
}

// outermost returns the outermost packet: the packet of the mirror, or that of the outer view.
func outermost(f *Frame) []byte {
	if mirror := f.Mirror(); mirror != nil {
		return mirror
	}
	return f.Outer().IP()
}

// An Inner is the innermost packet, which may be malformed.
type Inner struct {
	Tunnels   Tunnels // tunnels around the packet, without IP in IP
	Outermost []byte  // octets from the outermost IP header to the end of the input
	IP        []byte  // octets from the innermost IP header to the end of the packet or frame around it

	Cut bool // the capture or a mirroring switch may have truncated IP

	octets []byte
	frame  Frame
}

func (in *Inner) Decode(b []byte, o DecodeOptions) error {
	var f Frame
	f.Decode(b, o)
	w := f.inner()
	switch {
	case f.broken != nil:
		return f.broken
	}
	if !w.begins(b) {
		return w.err
	}
	in.Tunnels, in.IP, in.Cut = f.Tunnels(), b[w.ip:w.stop:w.stop], w.cut
	in.Outermost, in.octets, in.frame = b[w.outer:len(b):len(b)], b, f
	return nil
}
func (in *Inner) Options() DecodeOptions { return DecodeOptions{Link: LinkIP, Cut: in.Cut} }
func (in *Inner) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		in.frame.Extensions()(yield)
	}
}

func Innermost(b []byte, o DecodeOptions) []byte { return walked(b, o).BorderPacket() }

func FirstFragmentPort(b []byte, o DecodeOptions) (port uint16, ok bool) {
	return walked(b, o).Fragment()
}

func LinkPayload(b []byte, o DecodeOptions) (etherType uint16, payload []byte) {
	f := walked(b, o)
	if etherType = f.EtherType(); etherType != 0 {
		payload = f.LinkPayload()
	}
	return etherType, payload
}

// Split returns the link-layer header and the outermost IP packet.
func Split(b []byte, o DecodeOptions) (link, ip []byte, err error) {
	f := walked(b, o)
	switch ip = outermost(f); {
	case ip == nil:
		return nil, nil, f.outer().err
	case f.Truncated() && !o.Cut:
		return nil, nil, errIPLength
	}
	return f.Link(), ip, nil
}
