package bth

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// HeaderSet is a set of extended headers, one bit each.
type HeaderSet uint16

// The extended headers, in the order in which they stand on the wire.
const (
	HasRDETH HeaderSet = 1 << iota
	HasDETH
	HasXRCETH
	HasFETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH
)

// Has tells whether all headers of x are in s.
func (s HeaderSet) Has(x HeaderSet) bool { return s&x == x }

// All yields the headers of s one by one, in wire order.
func (s HeaderSet) All() iter.Seq[HeaderSet] {
	return func(yield func(HeaderSet) bool) {
		for left := s; left != 0; left &= left - 1 {
			if !yield(left & -left) {
				return
			}
		}
	}
}

// extended has the name of each extended header, its length in octets and the
// error where they are not there, by the number of its bit.
var extended = [...]struct {
	name      string
	size      uint8
	truncated error
}{
	{"RDETH", rdethSize, wireerr.New("bth", "RDETH", 4, "4 octets needed", wireerr.Truncated)},
	{"DETH", dethSize, wireerr.New("bth", "DETH", 8, "8 octets needed", wireerr.Truncated)},
	{"XRCETH", xrcethSize, wireerr.New("bth", "XRCETH", 4, "4 octets needed", wireerr.Truncated)},
	{"FETH", fethSize, wireerr.New("bth", "FETH", 4, "4 octets needed", wireerr.Truncated)},
	{"RETH", rethSize, wireerr.New("bth", "RETH", 16, "16 octets needed", wireerr.Truncated)},
	{"AtomicETH", atomicETHSize, wireerr.New("bth", "AtomicETH", 28, "28 octets needed", wireerr.Truncated)},
	{"AETH", aethSize, wireerr.New("bth", "AETH", 4, "4 octets needed", wireerr.Truncated)},
	{"AtomicAckETH", atomicAckETHSize, wireerr.New("bth", "AtomicAckETH", 8, "8 octets needed", wireerr.Truncated)},
	{"ImmDt", immDtSize, wireerr.New("bth", "ImmDt", 4, "4 octets needed", wireerr.Truncated)},
	{"IETH", iethSize, wireerr.New("bth", "IETH", 4, "4 octets needed", wireerr.Truncated)},
}

// String returns the names of the headers in wire order, such as "RETH ImmDt",
// and "none" for the empty set.
func (s HeaderSet) String() string {
	if s == 0 {
		return "none"
	}
	var names []string
	for x := range s.All() {
		if bit := x.bit(); bit < len(extended) {
			names = append(names, extended[bit].name)
		} else {
			names = append(names, fmt.Sprintf("unknown %#x", uint16(x)))
		}
	}
	return strings.Join(names, " ")
}

// bit returns the number of the lowest bit of s.
func (s HeaderSet) bit() int { return bits.TrailingZeros16(uint16(s)) }

// truncated returns the error of the first of these headers that does not fit
// into n octets.
func (s HeaderSet) truncated(n int) error {
	var err error
	for ; s != 0 && n >= 0; s &= s - 1 {
		x := &extended[s.bit()]
		n -= int(x.size)
		err = x.truncated
	}
	return err
}
