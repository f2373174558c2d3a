package pnc

import (
	"cmp"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Bits that the draft suggests (PROXY section 7). Bit 0 is the most significant bit
// of the first octet.
const (
	SuggestedISIS   = 7 // bit of the IS-IS prefix attribute flags (RFC 7794)
	SuggestedOSPFv2 = 2 // bit of the OSPFv2 prefix extended flags (RFC 9792)
	SuggestedOSPFv3 = 2 // bit of the OSPFv3 prefix extended flags (RFC 9792)
)

// Codes are the code points of the capability. None is assigned yet. A bit of 0
// stands for the suggested one, so bit 0 itself cannot be chosen. The draft suggests
// no BGP code: the functions for BGP return an error that matches rocecn.ErrRange if
// NHC is 0.
type Codes struct {
	ISIS   uint8  // P-flag (PNC flag) in the IS-IS prefix attribute flags
	OSPFv2 uint8  // P-flag in the OSPFv2 prefix extended flags
	OSPFv3 uint8  // P-flag in the OSPFv3 prefix extended flags
	NHC    uint16 // code of the PNC characteristic (TBD2) in BGP
}

var errNoCode = wireerr.New("pnc", "characteristic code",
	"Codes.NHC is 0: want a code, the draft suggests none", wireerr.Range)

func (c Codes) isisBit() uint   { return uint(cmp.Or(c.ISIS, SuggestedISIS)) }
func (c Codes) ospfv2Bit() uint { return uint(cmp.Or(c.OSPFv2, SuggestedOSPFv2)) }
func (c Codes) ospfv3Bit() uint { return uint(cmp.Or(c.OSPFv3, SuggestedOSPFv3)) }

// hasFlag reports whether a flag is set. Flags after the end of the field are 0 (RFC
// 7794 section 2.1, RFC 9792 section 2).
func hasFlag(flags []byte, bit uint) bool {
	return bit/8 < uint(len(flags)) && flags[bit/8]&(0x80>>(bit%8)) != 0
}

// appendFlag appends the shortest flag field with this flag set. unit is the unit of
// the field's length in octets.
func appendFlag(b []byte, bit, unit uint) []byte {
	i := uint(len(b)) + bit/8
	b = append(b, make([]byte, flagsLen(bit, unit))...)
	b[i] = 0x80 >> (bit % 8)
	return b
}

// flagsLen returns the length in octets of the field that appendFlag appends.
func flagsLen(bit, unit uint) uint { return (bit/8/unit + 1) * unit }
