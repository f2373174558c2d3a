package pnc

import (
	"cmp"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// The bits that the draft suggests (PROXY section 7). Bit 0 is the most
// significant bit of the first octet.
const (
	SuggestedISIS   = 7 // in the IS-IS prefix attribute flags (RFC 7794)
	SuggestedOSPFv2 = 2 // in the OSPFv2 prefix extended flags (RFC 9792)
	SuggestedOSPFv3 = 2 // in the OSPFv3 prefix extended flags (RFC 9792)
)

// Codes says where the capability stands. None of it is assigned yet: of the
// bits, 0 means the suggested one (so that bit 0 itself cannot be chosen); of
// the BGP code there is no suggestion, and 0 means that there is none,
// which the BGP functions refuse.
type Codes struct {
	ISIS   uint8  // P-flag (PNC flag) in the IS-IS prefix attribute flags
	OSPFv2 uint8  // P-flag in the OSPFv2 prefix extended flags
	OSPFv3 uint8  // P-flag in the OSPFv3 prefix extended flags
	NHC    uint16 // code of the PNC characteristic (TBD2) in BGP
}

var errNoCode = wireerr.New("pnc", "characteristic code", 0,
	"Codes.NHC is 0: the draft suggests no code, one must be given", wireerr.Range)

func (c Codes) isisBit() uint   { return uint(cmp.Or(c.ISIS, SuggestedISIS)) }
func (c Codes) ospfv2Bit() uint { return uint(cmp.Or(c.OSPFv2, SuggestedOSPFv2)) }
func (c Codes) ospfv3Bit() uint { return uint(cmp.Or(c.OSPFv3, SuggestedOSPFv3)) }

// A flag field has as many octets as its sender cared to send; a flag beyond
// them is 0 (RFC 7794 section 2.1, RFC 9792 section 2).
func hasFlag(flags []byte, bit uint) bool {
	return bit/8 < uint(len(flags)) && flags[bit/8]&(0x80>>(bit%8)) != 0
}

// appendFlag appends a flag field with this one flag, no longer than it must
// be in units of so many octets.
func appendFlag(b []byte, bit, unit uint) []byte {
	at := uint(len(b)) + bit/8
	b = append(b, make([]byte, flagsLen(bit, unit))...)
	b[at] = 0x80 >> (bit % 8)
	return b
}

// flagsLen is the length of what appendFlag appends.
func flagsLen(bit, unit uint) uint { return (bit/8/unit + 1) * unit }
