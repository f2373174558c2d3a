package rocev2

import (
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// An Answer is what stands between the UDP header and the ICRC of a
// notification that answers a packet: BTH and what follows it, 64 bits at a
// time. Of the last of them the lower half may be where the ICRC goes.
type Answer struct {
	Octets [5]uint64
	Len    int // 24, 28 or 36
}

var errAnswer = wireerr.New("rocev2", "Answer", 0,
	"not 24, 28 or 36 octets, or behind more than an extension header", wireerr.Range)

// AppendAnswer appends the RoCEv2 packet from src to dst, both IPv4 or both
// IPv6, with this answer and the ICRC. It is what AppendFor of the packages cnp,
// fastcnp and ppfc ends with: what a [Datagram] with as much in it would append,
// at a fraction of the cost. ext is the length of a Destination Options header
// that stands in the room behind b where it goes, 0 for none.
//
// It returns [ErrNotReachable] where src or dst is no address that others can
// reach, and [ErrAddress] where they are not of one family.
func (c *Carriage) AppendAnswer(b []byte, src, dst *netip.Addr, ext int, a *Answer, coverage icrc.Coverage) ([]byte,
	error) {
	class, hopLimit, ok := c.ip()
	if a.Len != 24 && a.Len != 28 && a.Len != 36 || ext < 0 || ext > 8*256 {
		return b, errAnswer
	}
	n := 8 + a.Len + icrcSize // from the UDP header on
	words := a.Octets[:(a.Len+icrcSize)/8]

	// Whatever is stored is stored 64 bits at a time, each multiple of 8 octets
	// behind the start: then the ICRC, which loads as much at a time, need not
	// wait until it has reached the cache.
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
		be.PutUint32(rest, uint32(half)) // where the ICRC goes, or before it
	case !src.IsValid() || !dst.IsValid():
		return b, ErrNotReachable
	default:
		return b, ErrAddress
	}
	if err := icrc.PutAt(ip, udp, coverage); err != nil {
		return b, err
	}
	if c.Checksum {
		putUDPChecksum(ip, udp) // it covers the ICRC, which masks it
	}
	return out, nil
}
