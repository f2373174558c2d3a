package flowtable

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/rocev2"
)

// A Key identifies a flow: its addresses, the queue pair at the destination, and the domain (such as a VPN) in which
// the addresses are unique. It has no pointers, so that the garbage collector skips tables of keys. An IPv4 address is
// stored IPv4-mapped; a flag in QP distinguishes it from the IPv6 address of the same octets.
type Key struct {
	Src, Dst [16]byte
	QP       uint32 // the queue pair in 24 bits, flags in the upper eight
	Domain   uint32
}

// The parts of Key.QP. Callers may use bits 25 to 29, which have no name here.
const (
	MaxQP   = 1<<24 - 1
	SrcIPv4 = 1 << 31
	DstIPv4 = 1 << 30
)

// KeyOf returns the key of a flow. A qp of more than 24 bits, which no packet has, gives the key of
// no flow. KeyOf is short enough to be inlined, because the copy of a result written in smaller
// words would be slow.
func KeyOf(src, dst netip.Addr, qp, domain uint32) Key {
	qp = min(qp, MaxQP+1)
	if src.Is4() {
		qp |= SrcIPv4
	}
	if dst.Is4() {
		qp |= DstIPv4
	}
	return Key{src.As16(), dst.As16(), qp, domain}
}

// FlowKey returns the addresses and the queue pair that KeyOf was given.
func (k *Key) FlowKey() rocev2.FlowKey {
	src, dst := netip.AddrFrom16(k.Src), netip.AddrFrom16(k.Dst)
	if k.QP&SrcIPv4 != 0 {
		src = src.Unmap()
	}
	if k.QP&DstIPv4 != 0 {
		dst = dst.Unmap()
	}
	return rocev2.FlowKey{Src: src, Dst: dst, DestQP: k.DestQP()}
}

// DestQP returns the queue pair.
func (k *Key) DestQP() uint32 { return k.QP & MaxQP }

// Reversed returns the key of the opposite direction, to the queue pair qp at the source.
func (k *Key) Reversed(qp uint32) Key {
	return Key{k.Dst, k.Src, k.QP&SrcIPv4>>1 | k.QP&DstIPv4<<1 | qp&MaxQP, k.Domain}
}

// WithQP returns the key of the flow to another queue pair at the same destination.
func (k *Key) WithQP(qp uint32) Key {
	return Key{k.Src, k.Dst, k.QP&(SrcIPv4|DstIPv4) | qp&MaxQP, k.Domain}
}

// Hash returns a hash of the whole key: the one hash of flows. Without knowing the seed an attacker cannot choose keys
// that collide.
func (k *Key) Hash(seed uint64) uint64 { return k.HashWithQP(k.QP, seed) }

// HashWithQP returns the hash of the key with another QP field, such as 0 for all flows between the same addresses.
func (k *Key) HashWithQP(qp uint32, seed uint64) uint64 {
	return hash.Mix(addresses(&k.Src, &k.Dst, seed)^(uint64(k.Domain)<<32|uint64(qp)), seed^0xE7037ED1A0B428DB)
}

// addresses returns a hash of two addresses in this order. The seed is in both factors: without the
// seed an attacker cannot make one of them 0, which would hide the other.
func addresses(src, dst *[16]byte, seed uint64) uint64 {
	seed ^= 0xA0761D6478BD642F
	other := seed>>32 | seed<<32
	h := hash.Mix(le.Uint64(src[:])^seed, le.Uint64(src[8:])^other)
	return hash.Mix(h^le.Uint64(dst[:]), le.Uint64(dst[8:])^other)
}

var le = binary.LittleEndian
