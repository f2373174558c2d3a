package bth

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// HeaderSet is a set of extended headers, with one bit for each.
type HeaderSet uint16

// The extended headers, in wire order.
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

// Has reports whether all headers of x are in s.
func (s HeaderSet) Has(x HeaderSet) bool { return s&x == x }

// All yields each header of s, in wire order.
func (s HeaderSet) All() iter.Seq[HeaderSet] {
	return func(yield func(HeaderSet) bool) {
		for left := s; left != 0; left &= left - 1 {
			if !yield(left & -left) {
				return
			}
		}
	}
}

// extended has, for the bit number of each extended header, its name, its length
// in octets and its error for missing octets.
var extended = [...]struct {
	name      string
	size      uint8
	truncated error
}{
	{"RDETH", rdethSize, newTruncatedError("RDETH", rdethSize)},
	{"DETH", dethSize, newTruncatedError("DETH", dethSize)},
	{"XRCETH", xrcethSize, newTruncatedError("XRCETH", xrcethSize)},
	{"FETH", fethSize, newTruncatedError("FETH", fethSize)},
	{"RETH", rethSize, newTruncatedError("RETH", rethSize)},
	{"AtomicETH", atomicETHSize, newTruncatedError("AtomicETH", atomicETHSize)},
	{"AETH", aethSize, newTruncatedError("AETH", aethSize)},
	{"AtomicAckETH", atomicAckETHSize, newTruncatedError("AtomicAckETH", atomicAckETHSize)},
	{"ImmDt", immDtSize, newTruncatedError("ImmDt", immDtSize)},
	{"IETH", iethSize, newTruncatedError("IETH", iethSize)},
}

// newTruncatedError returns the error of an extended header with fewer than size
// octets.
func newTruncatedError(name string, size int) error {
	return wireerr.New("bth", name, fmt.Sprintf("truncated: shorter than %d octets", size), wireerr.Truncated)
}

// String returns the names of the headers in wire order, such as "RETH ImmDt",
// or "none" for the empty set.
func (s HeaderSet) String() string {
	if s == 0 {
		return "none"
	}
	var names []string
	for x := range s.All() {
		if bit := x.lowestBit(); bit < len(extended) {
			names = append(names, extended[bit].name)
		} else {
			names = append(names, fmt.Sprintf("unknown %#x", uint16(x)))
		}
	}
	return strings.Join(names, " ")
}

// lowestBit returns the number of the lowest bit of s.
func (s HeaderSet) lowestBit() int { return bits.TrailingZeros16(uint16(s)) }

// truncatedError returns the error of the first of these headers that does not fit
// into n octets.
func (s HeaderSet) truncatedError(n int) error {
	var err error
	for ; s != 0 && n >= 0; s &= s - 1 {
		x := &extended[s.lowestBit()]
		n -= int(x.size)
		err = x.truncated
	}
	return err
}
