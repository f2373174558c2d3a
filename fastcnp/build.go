package fastcnp

import (
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// Config says how a switch builds Fast CNPs. Only Source must be set.
type Config struct {
	// Source is the switch's own loopback address, IPv6.
	Source netip.Addr
	// Carriage: DSCP 48, hop limit 64 and UDP checksum 0 by default. A source
	// port of 0 stands for the congested packet's (D6).
	rocev2.Carriage
	PKey       uint16 // 0 stands for the congested packet's (D6)
	CodePoints CodePoints
	Coverage   icrc.Coverage // D1: how the ICRC treats the option header; AsSent by default

	// D5: the trace is the first in the Hop-by-Hop header, or the first of
	// Namespace where ByNamespace is set. Of a tunnelled packet the header
	// chain that leads to the RoCEv2 UDP header counts; with OuterTrace, only
	// the headers outside it do.
	ByNamespace bool
	Namespace   uint16
	OuterTrace  bool

	// Long says what becomes of a trace that does not fit into option 2 (D4).
	Long LongTrace
}

// LongTrace is what to do with a trace that is too long for option 2 (D4).
// Node data is never dropped.
type LongTrace uint8

const (
	Refuse   LongTrace = iota // return ErrTooLong
	Trim                      // drop the free space and set RemainingLen to 0; ErrTooLong if that is not enough
	FallBack                  // send option 1 instead
)

var (
	ErrIPv4   = wireerr.New("fastcnp: the congested packet is IPv4; a Fast CNP is IPv6 only (FAST section 3)")
	ErrSource = wireerr.New("fastcnp: Config.Source is no IPv6 address", wireerr.Range)
	ErrLong   = wireerr.New("fastcnp: Config.Long is none of Refuse, Trim and FallBack", wireerr.Range)
)

// AppendFor appends the Fast CNP, a whole IPv6 packet with its ICRC, that a
// switch sends to the source of a congested packet (FAST section 4). It
// carries option 2 if the packet has an IOAM trace, else option 1. The trace is
// copied verbatim: flags, RemainingLen, free space and reserved octets
// included. A trace that does not parse counts as none, and neither does
// IOAM of another kind.
//
// Whether congested is of a flow that is to be slowed down, and not itself a
// CNP, is the caller's to decide.
func AppendFor(b []byte, congested *rocev2.Packet, cfg Config) ([]byte, error) {
	switch {
	case !congested.Src.Is6():
		return b, ErrIPv4
	case !cfg.Source.Is6():
		return b, ErrSource
	case cfg.Long > FallBack:
		return b, ErrLong
	}
	n := Notification{
		Source: cfg.Source, Destination: congested.Src,
		CNP:        cnp.New(congested.BTH.DestQP, congested.BTH.PKey),
		Option:     Option{Number: 1, OriginalDestination: congested.Dst},
		OptionType: cfg.CodePoints.Option1,
	}
	if cfg.PKey != 0 {
		n.CNP.PKey = cfg.PKey
	}
	if cfg.SrcPort == 0 {
		cfg.SrcPort = congested.SrcPort
	}
	if reserved, trace, ok := cfg.findTrace(congested); ok {
		long := len(trace.Data) > maxNodeData
		if long && cfg.Long == Trim {
			trace.Data, trace.RemainingLen = trace.NodeData(), 0
		}
		if !long || cfg.Long != FallBack {
			n.Option.Number, n.Option.Reserved, n.Option.Trace = 2, reserved, trace
			n.OptionType = cfg.CodePoints.Option2
		}
	}
	return n.appendPacket(b, cfg.Carriage, cfg.Coverage)
}

// findTrace returns the trace that goes with a congested packet, and the
// reserved octet before it (D5).
func (c *Config) findTrace(p *rocev2.Packet) (reserved uint8, trace ioam.Trace, ok bool) {
	if c.OuterTrace {
		for typ, octets := range rocev2.Extensions(p.Outer, rocev2.Options{IP: true}) {
			if typ == ipv6opt.HopByHop {
				if reserved, ok = c.findTraceIn(octets, &trace); ok {
					break
				}
			}
		}
		return reserved, trace, ok
	}
	for typ, octets := range p.Extensions() {
		if typ == ipv6opt.HopByHop {
			if reserved, ok = c.findTraceIn(octets, &trace); ok {
				break
			}
		}
	}
	return reserved, trace, ok
}

// findTraceIn looks through one Hop-by-Hop header.
func (c *Config) findTraceIn(header []byte, trace *ioam.Trace) (reserved uint8, ok bool) {
	var h ipv6opt.Header
	if _, err := h.Decode(header); err != nil {
		return 0, false
	}
	for o, err := range h.All() {
		var data ioam.Option
		if err != nil || o.Type != ioam.IPv6MayChange || data.Decode(o.Data) != nil || trace.Decode(data) != nil {
			continue
		}
		if !c.ByNamespace || trace.Namespace == c.Namespace {
			return data.Reserved, true
		}
	}
	return 0, false
}

// AppendPacket appends n as a whole IPv6 packet with its ICRC, which covers
// the option header as sent. A Carriage's source port is taken as it is.
//
// D3: option 1 stands at 4n+2, right behind the first two octets of the
// header; option 2 at 4n, behind a PadN of 2.
func (n *Notification) AppendPacket(b []byte, as rocev2.Carriage) ([]byte, error) {
	return n.appendPacket(b, as, icrc.AsSent)
}

func (n *Notification) appendPacket(b []byte, as rocev2.Carriage, coverage icrc.Coverage) ([]byte, error) {
	if n.CNP.Opcode != bth.CNP {
		return b, cnp.ErrNotCNP
	}
	if n.CNP.Resv6&bth.P != 0 {
		return b, cnp.ErrPPFC
	}
	if err := n.Option.check(); err != nil {
		return b, err
	}
	var p rocev2.Packet
	if err := as.Apply(&p.Datagram); err != nil {
		return b, err
	}
	// The option header is built where it will stand, behind the IPv6 header;
	// p.AppendBinary copies it onto itself.
	const around = ipv6Size + 8 + cnp.Size + 4
	at := len(b) + ipv6Size
	out, err := n.appendHeader(slices.Grow(b, around+maxHeader)[:at])
	if err != nil {
		return b, err
	}
	p.Src, p.Dst, p.DstPort = n.Source, n.Destination, rocev2.Port
	p.NextHeader, p.Ext = ipv6opt.DestinationOptions, out[at:]
	p.BTH.Header = n.CNP.Header
	p.Payload = n.CNP.Reserved[:]
	p.Coverage = coverage
	if out, err = p.AppendBinary(out[:len(b)]); err != nil {
		return b, err
	}
	return out, nil
}

const (
	protoUDP = 17
	ipv6Size = 40
	// maxHeader is the length of the longest Destination Options header: two
	// octets, the PadN of 2, the option, end padding.
	maxHeader = (2 + 2 + 2 + maxData + 7) / 8 * 8
)

// appendHeader appends the Destination Options header.
func (n *Notification) appendHeader(b []byte) ([]byte, error) {
	typ, y := n.OptionType, 0
	if typ == 0 {
		typ = DefaultType
	}
	if n.Option.Number == 1 {
		y = 2
	}
	w := ipv6opt.Begin(b, protoUDP)
	data, err := w.Reserve(typ, 4, y, n.Option.Len())
	if err != nil {
		return b, err
	}
	if _, err := n.Option.AppendBinary(data[:0]); err != nil {
		return b, err
	}
	return w.Finish(), nil
}
