package rocev2

import (
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// An Answer is what a notification carries between the UDP header and the ICRC:
// the BTH and what follows it, in words of 64 bits. If Len is not a multiple of
// 8, the lower half of the last word is not used.
type Answer struct {
	Octets [5]uint64
	Len    int // 24, 28 or 36
}

var errAnswer = wireerr.New("rocev2", "Answer", 0,
	"not 24, 28 or 36 octets, or behind more than an extension header", wireerr.Range)

// AppendAnswer appends the RoCEv2 packet from src to dst, both IPv4 or both
// IPv6, with this answer and the ICRC. The AppendFor of the packages cnp,
// fastcnp and ppfc end with it: a [Datagram] would append the same at several
// times the cost. ext is the length of a Destination Options header that the
// caller has already written to the free capacity of b, at its place in the
// packet; 0 for none.
//
// It returns [ErrNotReachable] if src or dst cannot be reached by others, and
// [ErrAddress] if they are not of one family.
func (c *Carriage) AppendAnswer(b []byte, src, dst *netip.Addr, ext int, a *Answer, coverage icrc.Coverage) ([]byte,
	error) {
	class, hopLimit, ok := c.ip()
	if a.Len != 24 && a.Len != 28 && a.Len != 36 || ext < 0 || ext > 8*256 {
		return b, errAnswer
	}
	n := 8 + a.Len + icrcSize // from the UDP header on
	words := a.Octets[:(a.Len+icrcSize)/8]

	// All stores are 64 bits wide, at multiples of 8 octets from the start. The
	// ICRC loads words of the same width, so no load has to wait until a store
	// has reached the cache.
	var out, ip []byte
	udp := 40 + ext
	switch {
	case src.Is6() && dst.Is6():
		from, to := src.AsSlice(), dst.AsSlice()
		from1, from2, to1, to2 := be.Uint64(from), be.Uint64(from[8:]), be.Uint64(to), be.Uint64(to[8:])
		switch {
		case !reachable6(from1, from2) || !reachable6(to1, to2):
			return b, ErrNotReachable
		case !ok:
			return b, errTrafficClassRange
		case c.FlowLabel > 0xFFFFF:
			return b, errFlowLabelRange
		}
		next := uint64(protoUDP)
		if ext > 0 {
			next = protoDestOpts
		}
		out = slices.Grow(b, udp+n)[:len(b)+udp+n]
		ip = out[len(b):]
		h := (*[40]byte)(ip)
		be.PutUint64(h[:], 6<<60|uint64(class)<<52|uint64(c.FlowLabel)<<32|
			uint64(ext+n)<<16|next<<8|uint64(hopLimit))
		be.PutUint64(h[8:], from1)
		be.PutUint64(h[16:], from2)
		be.PutUint64(h[24:], to1)
		be.PutUint64(h[32:], to2)
		rest := ip[udp:]
		be.PutUint64(rest, uint64(c.SrcPort)<<48|Port<<32|uint64(n)<<16)
		for _, w := range words {
			rest = rest[8:]
			be.PutUint64(rest, w)
		}
	case src.Is4() && dst.Is4():
		s, d := src.As4(), dst.As4()
		from, to := be.Uint32(s[:]), be.Uint32(d[:])
		switch {
		case !reachable4(from) || !reachable4(to):
			return b, ErrNotReachable
		case !ok:
			return b, errTrafficClassRange
		}
		udp = 20
		out = slices.Grow(b, udp+n)[:len(b)+udp+n]
		ip = out[len(b):]
		first, third := 0x45<<24|uint32(class)<<16|uint32(udp+n), uint32(hopLimit)<<24|protoUDP<<16
		second := uint32(c.ID)<<16 | uint32(c.flags())<<13
		checksum := ^fold(uint64(first) + uint64(second) + uint64(third) + uint64(from) + uint64(to))
		h := (*[24]byte)(ip)
		be.PutUint64(h[:], uint64(first)<<32|uint64(second))
		be.PutUint64(h[8:], uint64(third|uint32(checksum))<<32|uint64(from))
		be.PutUint64(h[16:], uint64(to)<<32|uint64(c.SrcPort)<<16|Port)
		rest, half := ip[24:], uint64(n)<<16
		for _, w := range words {
			be.PutUint64(rest, half<<32|w>>32)
			rest, half = rest[8:], w
		}
		be.PutUint32(rest, uint32(half)) // the ICRC overwrites or follows it
	case !src.IsValid() || !dst.IsValid():
		return b, ErrNotReachable
	default:
		return b, ErrAddress
	}
	if err := icrc.PutAt(ip, udp, coverage); err != nil {
		return b, err
	}
	if c.Checksum {
		putUDPChecksum(ip, udp) // after the ICRC, which it covers; the ICRC masks the checksum field
	}
	return out, nil
}
