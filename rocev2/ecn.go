package rocev2

import (
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// ECN is a value of the field for Explicit Congestion Notification, the lower
// two bits of Traffic Class or TOS (RFC 3168 section 5).
type ECN uint8

// Values of the ECN field (RFC 3168 section 5).
const (
	NotECT ECN = 0 // not ECN-capable
	ECT1   ECN = 1 // ECN-capable transport, ECT(1)
	ECT0   ECN = 2 // ECN-capable transport, ECT(0)
	CE     ECN = 3 // congestion experienced
)

var ecnNames = [...]string{"not_ect", "ect1", "ect0", "ce"}

// String returns "not_ect", "ect1", "ect0" or "ce".
func (e ECN) String() string { return enumtext.Name(e, ecnNames[:], "ECN") }

var (
	errECNRange = wireerr.New("rocev2", "ECN", "over 3", wireerr.Range)
	errNoHeader = wireerr.New("rocev2", "IP header",
		"truncated: shorter than 20 octets of IPv4 or 40 octets of IPv6", wireerr.Truncated)
)

// DecapsulateECN returns the ECN field of a packet that leaves a tunnel, computed from the fields of its outer and
// inner headers (RFC 6040 section 4.2, figure 4). It uses only the lower two bits of outer and inner. If drop is true,
// the packet must be dropped: a router in the tunnel marked it, and its transport does not support ECN. On entry to a
// tunnel, the outer header gets the value of the inner one (section 4.1).
func DecapsulateECN(outer, inner ECN) (ecn ECN, drop bool) {
	outer, inner = outer&3, inner&3
	switch {
	case inner == NotECT:
		return NotECT, outer == CE
	case outer == CE:
		return CE, false
	case outer == ECT1 && inner == ECT0:
		return ECT1, false
	}
	return inner, false
}

// DecapsulateECN returns the ECN field with which the innermost packet leaves its tunnels: it applies RFC 6040 section
// 4.2 to each IP header and the next one inside, from the outermost to the innermost, as the package function
// [DecapsulateECN] does for two. If drop is true, the packet must be dropped. The headers of a mirror do not count, and
// neither do MPLS labels.
func (f *Frame) DecapsulateECN() (ecn ECN, drop bool) {
	if f.single() {
		return f.Inner().ECN(), false
	}
	b, w := f.octets, f.inner()
	around := false // ecn is that of the header around
	combine := func(inner ECN) (dropped bool) {
		if around {
			inner, dropped = DecapsulateECN(ecn, inner)
		}
		ecn, around = inner, true
		return dropped
	}
	for _, p := range w.packets[:w.n] {
		if combine(ECN(wire.TrafficClass(b[p.ip:]) & 3)) {
			return NotECT, true
		}
		if p.carriesMirror(b) {
			around = false
		}
	}
	if combine(f.Inner().ECN()) {
		return NotECT, true
	}
	return ecn, false
}

// Marked reports whether the innermost packet experienced congestion: it is ECN-capable, and its IP header or one
// around it has CE (RFC 6040 section 4.2). The headers of a mirror do not count.
func (f *Frame) Marked() bool {
	if f.single() {
		return f.Inner().ECN() == CE
	}
	ecn, drop := f.DecapsulateECN()
	return (ecn == CE || drop) && f.Inner().ECN() != NotECT
}
