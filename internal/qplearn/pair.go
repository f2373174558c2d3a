package qplearn

import (
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
)

// A Basis is the kind of evidence for a pair.
type Basis uint8

// The bases.
const (
	BasisCM    Basis = iota + 1 // a REQ and its REP
	BasisVotes                  // the PSNs of requests and responses
	BasisUD                     // a DETH
	BasisGiven                  // [Map.Add]
	BasisPort                   // votes that tie unless the UDP source port counts: see Config.Ports
)

var bases = [...]string{"unknown", "cm", "votes", "ud", "given", "port"}

// String returns "cm", "votes", "ud", "given" or "port", and "unknown" for 0.
func (b Basis) String() string { return enumtext.Name(b, bases[:], "Basis") }

// MarshalText implements encoding.TextMarshaler: it returns the text of String.
func (b Basis) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText sets b to the basis for which String returns the text.
func (b *Basis) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(b, text, "qpmap", "basis")
}

// A Pair is the sender of a flow, as far as it is known.
type Pair struct {
	SrcQP     uint32 // the sender's queue pair, 24 bits
	PKey      uint16 // of the REQ, or of the flow's last packet
	MTU       uint16 // path MTU in octets, 0 if it is not known
	Transport bth.Transport
	From      Basis
	Seen      time.Time // time of the last packet that agreed with the pair
}

// Pair returns the pair of an entry.
func (m *Map) Pair(e *Entry) Pair {
	return Pair{
		SrcQP: e.SrcQP, PKey: e.PKey, MTU: e.MTU, Transport: e.Transport, From: e.From, Seen: m.clock.time(e.seen),
	}
}
