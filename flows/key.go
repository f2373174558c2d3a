package flows

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/rocev2"
)

// A key names one direction between two addresses and a queue pair at its end:
// what a packet has as source, destination and destination queue pair. It is a
// [rocev2.FlowKey] without pointers.
type key struct {
	src, dst [16]byte
	qp       uint32 // 24 bits, and the marks
}

// Marks beside the queue pair.
const (
	overIPv4  = 1 << 31 // the addresses are IPv4, written as IPv4-mapped ones
	withoutQP = 1 << 30 // the packet names no queue pair
	qpMask    = 1<<24 - 1
)

func keyOf(k rocev2.FlowKey) key {
	out := key{k.Src.As16(), k.Dst.As16(), k.DestQP & qpMask}
	if k.Src.Is4() {
		out.qp |= overIPv4
	}
	return out
}

func (k *key) flowKey() rocev2.FlowKey {
	src, dst := netip.AddrFrom16(k.src), netip.AddrFrom16(k.dst)
	if k.qp&overIPv4 != 0 {
		src, dst = src.Unmap(), dst.Unmap()
	}
	return rocev2.FlowKey{Src: src, Dst: dst, DestQP: k.qp & qpMask}
}

// reversed returns the key of what comes back to this queue pair of the source.
func (k *key) reversed(qp uint32) key {
	return key{k.dst, k.src, k.qp&overIPv4 | qp}
}

// road returns a hash of the two addresses, in this direction, the same in every
// table: what depends on it in the output does not change from run to run.
func (k *key) road() uint64 {
	h := hash.Mix(le.Uint64(k.src[:])^0x9E3779B97F4A7C15, le.Uint64(k.src[8:])^0xD6E8FEB86659FD93)
	return hash.Mix(h^le.Uint64(k.dst[:]), le.Uint64(k.dst[8:])^0xA0761D6478BD642F^uint64(k.qp&overIPv4))
}

// pair returns a hash of the two addresses, the same in both directions.
func (k *key) pair() uint64 {
	back := k.reversed(0)
	return k.road() + back.road()
}

// hash returns a hash of the key. Who does not know the seed cannot choose keys
// that collide.
func (k *key) hash(seed uint64) uint32 {
	return uint32(hash.Mix(hash.Addresses(&k.src, &k.dst, seed)^uint64(k.qp), seed^0xE7037ED1A0B428DB))
}

// fork returns the hash of a road and of a number on it.
func fork(road, number uint64) uint64 { return hash.Mix(road^number, 0xE7037ED1A0B428DB) }

var le = binary.LittleEndian
