// Package ioam decodes and encodes In Situ OAM: data that the nodes of a network
// record in packets (RFC 9197), carried in IPv6 options (RFC 9486), and direct
// export (RFC 9326).
//
// An IPv6 option of type [IPv6MayChange] or [IPv6NoChange] holds an [Option]. Its
// Type determines the type that decodes its data: [Trace], [ProofOfTransit],
// [EdgeToEdge] or [DirectExport]. [Trace.Nodes] yields the nodes of a trace; see
// the examples.
//
//	host ──> node B2 ──> node C3 ──> node D4 ──>
//	         B2          C3 B2       D4 C3 B2      newest first
//
// [AddNode] adds the record of a transit node. Package
// [github.com/rocecn/rocecn/rocev2] finds the options in a packet, and a Fast CNP of
// package [github.com/rocecn/rocecn/fastcnp] carries the trace back to the sender.
package ioam

import (
	"github.com/rocecn/rocecn/internal/enumtext"
)

// Types of the IPv6 options that carry IOAM (RFC 9486 section 3).
const (
	IPv6MayChange = 0x31 // trace and proof of transit, in Hop-by-Hop Options
	IPv6NoChange  = 0x11 // direct export in Hop-by-Hop Options, edge-to-edge in Destination Options
)

// OptType is an IOAM-Option-Type (RFC 9197 section 4.1, RFC 9326 section 3.2).
type OptType uint8

// The option types.
const (
	OptTypePreallocated   OptType = iota // pre-allocated trace
	OptTypeIncremental                   // incremental trace
	OptTypeProofOfTransit                // proof of transit
	OptTypeEdgeToEdge                    // edge-to-edge
	OptTypeDirectExport                  // direct export
)

var optTypeNames = [...]string{"pre-allocated trace", "incremental trace", "proof of transit", "edge-to-edge",
	"direct export"}

// String returns the name of the type in lower case.
func (t OptType) String() string { return enumtext.Name(t, optTypeNames[:], "OptType") }

// MarshalText returns the text of String.
func (t OptType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText sets t to the type with this String.
func (t *OptType) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(t, text, "ioam", "type")
}

// Option is the data of an IPv6 option that carries IOAM (RFC 9486 section 3). Its
// alignment in the extension header is 4n.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Option-Type  |  Opt Data Len |   Reserved    | IOAM-Opt-Type |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                          option data                          ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Option-Type and Opt Data Len are not part of Option: see package ipv6opt.
type Option struct {
	Reserved uint8 // zero on send, ignored on receipt
	Type     OptType
	Data     []byte // option data, in the format of Type; aliases the input after decoding
}

// Decode reads all of b, the data of an IPv6 option. Data aliases b, which must not
// change while o is in use. It fails only if b has fewer than 2 octets, with an
// error that matches rocecn.ErrTruncated; o is then unchanged.
func (o *Option) Decode(b []byte) error {
	if len(b) < 2 {
		return errTruncatedOption
	}
	o.Reserved = b[0]
	o.Type = OptType(b[1])
	o.Data = b[2:len(b):len(b)]
	return nil
}

// AppendBinary appends the data of the IPv6 option to b. It returns an error that
// matches rocecn.ErrRange if this is more than 255 octets.
func (o Option) AppendBinary(b []byte) ([]byte, error) {
	if len(o.Data) > 253 {
		return b, errOptionLen
	}
	b = append(b, o.Reserved, uint8(o.Type))
	return append(b, o.Data...), nil
}
