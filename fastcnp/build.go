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
	ErrIPv4   = wireerr.Old("fastcnp: the congested packet is IPv4; a Fast CNP is IPv6 only (FAST section 3)")
	ErrSource = wireerr.Old("fastcnp: Config.Source is no IPv6 address", wireerr.Range)
	ErrLong   = wireerr.Old("fastcnp: Config.Long is none of Refuse, Trim and FallBack", wireerr.Range)
)

// AppendFor appends the Fast CNP, a whole IPv6 packet with its ICRC, that a
// switch sends to the source of a congested packet (FAST section 4). It
// carries option 2 if the packet has an IOAM trace, else option 1. The trace is
// copied verbatim: flags, RemainingLen, free space and reserved octets
// included: of several the first that parses (D5).
//
// The original destination is the one that the sender knows: where the packet
// carries a Segment Routing header without encapsulation, Segment List[0]
// (rocev2.Datagram.FinalDst).
//
// b must not overlap the octets that congested aliases.
//
// Whether congested is of a flow that is to be slowed down, and not itself a
// CNP, is the caller's to decide.
func AppendFor(b []byte, congested *rocev2.Packet, cfg Config) ([]byte, error) {
	switch {
	case !congested.Src.Is6():
		return b, ErrIPv4
	case !congested.Dst.Is6():
		return b, ErrDestination
	case !cfg.Source.Is6():
		return b, ErrSource
	case cfg.Long > FallBack:
		return b, ErrLong
	}
	o := header{typ: cfg.CodePoints.Option1, original: congested.FinalDst()}
	if err := cfg.embedTrace(&o, congested); err != nil {
		return b, err
	}
	var d rocev2.Datagram
	if err := cfg.Apply(&d); err != nil {
		return b, err
	}
	d.Src, d.Dst = cfg.Source, congested.Src
	if d.SrcPort == 0 {
		d.SrcPort = congested.SrcPort
	}
	c := cnp.New(congested.BTH.DestQP, congested.BTH.PKey)
	if cfg.PKey != 0 {
		c.PKey = cfg.PKey
	}
	return appendPacket(b, &d, &o, &c, cfg.Coverage)
}

// embedTrace makes o an option 2 if a trace goes with the congested packet and
// fits or can be trimmed to fit (D4).
func (c *Config) embedTrace(o *header, congested *rocev2.Packet) error {
	if len(congested.Ext) == 0 && !c.OuterTrace {
		return nil
	}
	var trace ioam.Trace
	data := c.findTrace(congested, &trace)
	if data == nil {
		return nil
	}
	if len(trace.Data) > maxNodeData {
		switch free := len(trace.Data) - len(trace.NodeData()); {
		case c.Long == FallBack:
			return nil
		case c.Long == Refuse || len(trace.Data)-free > maxNodeData:
			return ErrTooLong
		default:
			o.trimmed = free
		}
	}
	o.typ, o.ioam = c.CodePoints.Option2, data
	return nil
}

// findTrace finds the trace that goes with a congested packet (D5), and returns
// the data of its option.
func (c *Config) findTrace(p *rocev2.Packet, trace *ioam.Trace) (data []byte) {
	var h ipv6opt.Header
	if c.OuterTrace {
		for typ, octets := range rocev2.Extensions(p.Outer, rocev2.Options{IP: true}) {
			if _, err := h.Decode(octets); err == nil && typ == ipv6opt.HopByHop {
				if data = c.findTraceIn(&h, trace); data != nil {
					break
				}
			}
		}
		return data
	}
	for next, ext := p.NextHeader, p.Ext; len(ext) > 0; next = h.NextHeader { // p.Extensions() at less cost
		var err error
		if ext, err = h.Decode(ext); err == nil && next == ipv6opt.HopByHop {
			if data = c.findTraceIn(&h, trace); data != nil {
				break
			}
		}
	}
	return data
}

// findTraceIn looks through one Hop-by-Hop header.
func (c *Config) findTraceIn(h *ipv6opt.Header, trace *ioam.Trace) (data []byte) {
	for o, err := range h.All() {
		var option ioam.Option
		if err != nil || o.Type != ioam.IPv6MayChange || option.Decode(o.Data) != nil || trace.Decode(option) != nil {
			continue
		}
		if !c.ByNamespace || trace.Namespace == c.Namespace {
			return o.Data
		}
	}
	return nil
}

// AppendPacket appends n as a whole IPv6 packet with its ICRC, which covers
// the option header as sent. A Carriage's source port is taken as it is.
func (n *Notification) AppendPacket(b []byte, as rocev2.Carriage) ([]byte, error) {
	switch {
	case n.CNP.Opcode != bth.CNP:
		return b, cnp.ErrNotCNP
	case n.CNP.Resv6&bth.P != 0:
		return b, cnp.ErrPPFC
	case !n.Source.Is6() || !n.Destination.Is6():
		return b, rocev2.ErrAddress
	}
	if err := n.Option.check(); err != nil {
		return b, err
	}
	o := header{typ: n.OptionType, original: n.Option.OriginalDestination}
	if n.Option.Number == 2 {
		data := append(make([]byte, 0, maxData), n.Option.Reserved, uint8(n.Option.Trace.Kind)) // on the stack
		var err error
		if o.ioam, err = n.Option.Trace.AppendBinary(data); err != nil {
			return b, err
		}
	}
	var d rocev2.Datagram
	if err := as.Apply(&d); err != nil {
		return b, err
	}
	d.Src, d.Dst = n.Source, n.Destination
	return appendPacket(b, &d, &o, &n.CNP, icrc.AsSent)
}

// appendPacket appends the packet of d with this option header.
func appendPacket(b []byte, d *rocev2.Datagram, o *header, c *cnp.CNP, coverage icrc.Coverage) ([]byte, error) {
	if o.typ == 0 {
		o.typ = DefaultType
	}
	if o.typ.IsPadding() {
		return b, ipv6opt.ErrPadding
	}
	// The option header is written where it will stand, behind the IPv6 header,
	// and AppendRoCEv2 leaves it there.
	n := o.len()
	out := slices.Grow(b, ipv6Size+n+8+cnp.Size+4)
	at := len(b) + ipv6Size
	d.NextHeader, d.Ext, d.DstPort = ipv6opt.DestinationOptions, out[at:at+n], rocev2.Port
	o.put(d.Ext)
	out, err := d.AppendRoCEv2(out, &c.Header, c.Reserved[:], coverage)
	if err != nil {
		return b, err
	}
	return out, nil
}
