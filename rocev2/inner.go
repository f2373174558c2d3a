package rocev2

import "iter"

// An Inner is the innermost IP packet in the octets of another: what stands
// below mirrors, overlays and label stacks, whatever it is. Where a tunnel hides
// a packet from [Packet] and [Datagram], which follow IP in IP alone, they
// decode IP with Options.
//
// [Flow] says what flow the innermost packet belongs to, and refuses one that is
// broken; an Inner leaves that to whoever decodes the packet.
//
// The zero value is ready for any number of Decode calls; they allocate
// nothing.
type Inner struct {
	Tunnels Tunnels // that the packet came in, besides IP in IP

	// The octets from two IP headers on; they alias the input. Without tunnels
	// the two are one.
	Outermost []byte // from the outermost one to the end of the input
	IP        []byte // from the innermost one to the end of what carries that packet

	Cut bool // IP breaks off early: the capture, or a mirroring switch, cut it

	octets []byte
	hops   hops
}

// Decode sets in from the octets that o describes; in aliases b. An error means
// that they hold no IP packet, or that a tunnel is broken or carries something
// else. On error in is unchanged.
func (in *Inner) Decode(b []byte, o DecodeOptions) error {
	var r road
	_, fault, err := r.follow(b, o)
	end := len(r.octets)
	if err == nil && !r.begins {
		err = fault
	}
	if err != nil {
		return err
	}
	in.Tunnels, in.IP, in.Cut = r.tunnels, r.octets[r.ip:end:end], r.limit > end
	in.Outermost, in.octets, in.hops = b[r.outer:len(b):len(b)], b, r.hops
	return nil
}

// Options says what IP is, for Decode of other types.
func (in *Inner) Options() DecodeOptions { return DecodeOptions{Link: LinkIP, Cut: in.Cut} }

// Extensions is the function of this name for all IPv6 headers on the way to
// the innermost packet, and its own: the outermost first.
func (in *Inner) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		for _, h := range in.hops.list[:in.hops.n] {
			if !yieldChain(yield, h.next, in.octets[h.ext:h.end]) {
				return
			}
		}
	}
}

// IOAM is [IOAMOptions] for all IPv6 headers on the way to the innermost
// packet, and its own: the outermost first.
func (in *Inner) IOAM() iter.Seq2[IOAMOption, error] {
	return func(yield func(IOAMOption, error) bool) {
		for next, octets := range in.Extensions() {
			if !yieldIOAM(yield, next, octets) {
				return
			}
		}
	}
}

// OptionsError is the function of this name for the same headers (D19).
func (in *Inner) OptionsError() error {
	for next, octets := range in.Extensions() {
		if err := optionsError(next, octets); err != nil {
			return err
		}
	}
	return nil
}

// hops are the IPv6 headers that a road passes.
type hops struct {
	list [maxDepth + 1]hop
	n    uint8
}

// A hop says where the extension headers of one packet stand, and of which type
// the first is.
type hop struct {
	ext, end uint32
	next     uint8
}

// add notes a packet, if it is IPv6.
func (h *hops) add(p *place, version uint8) {
	if version != 6 {
		return
	}
	h.list[h.n] = hop{uint32(p.ext), uint32(p.udp), p.next}
	h.n++
}
