package fastcnp

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// Config has the choices of a deployment about the Fast CNPs that it sends.
type Config struct {
	// Carriage: DSCP 48, hop limit 64 and UDP checksum 0 by default. A source
	// port of 0 stands for the congested packet's (D6).
	Carriage   rocev2.Carriage
	CodePoints CodePoints
	Coverage   icrc.Coverage // how the ICRC treats the option header; AsSent by default (D1)

	// The trace is the first one in the Hop-by-Hop header or, with ByNamespace,
	// the first one of Namespace; traces that do not parse are skipped. In a
	// tunnelled packet the headers directly before the RoCEv2 UDP header count;
	// with OuterTrace, only the headers outside of those (D5).
	ByNamespace bool
	Namespace   uint16
	OuterTrace  bool

	// Long is the treatment of a trace that does not fit into option 2 (D4).
	Long LongTrace

	// InnerSource: also answer packets inside another IP header (D17); see
	// rocev2.Packet.MayAnswer.
	InnerSource bool
}

// LongTrace is the treatment of a trace that is too long for option 2 (D4).
// Node data is never dropped.
type LongTrace uint8

const (
	LongTraceReject   LongTrace = iota // return ErrTooLong
	LongTraceTrim                      // drop the free space and set RemainingLen to 0; ErrTooLong if that is not enough
	LongTraceFallBack                  // send option 1 instead
)

// A choice of AppendFor between the options, and its reason.
type choice uint8

// The choices. The first three are option 1, the others option 2.
const (
	noTrace      choice = iota // the packet carries no trace
	brokenTrace                // none of its traces parses
	traceTooLong               // its trace does not fit, and Config.Long is FallBack
	copied                     // its trace was copied
	trimmed                    // its trace was copied without the free space
)

// Report describes a Fast CNP that AppendFor has built.
type Report struct {
	Option uint8 // number of the option: 1 or 2
	// The congested node's own record is in the trace of option 2. It is not if there is none, if option 1 was sent,
	// and if the trace has too little space left, which sets its overflow flag.
	OwnRecord bool
}

// Errors of AppendFor, besides those of rocev2.Packet.MayAnswer and rocev2.CheckAnswerable.
var (
	ErrIPv4 = wireerr.New("fastcnp", "congested packet", 0, "IPv4: a Fast CNP is IPv6 only (FAST section 3)",
		wireerr.Other)

	errLong = wireerr.New("fastcnp", "Config.Long", 0, "not Refuse, Trim or FallBack", wireerr.Range)
	errIPv6 = wireerr.New("fastcnp", "src", 0, "not an IPv6 address", wireerr.Range)
)

// AppendFor appends the Fast CNP that the switch at src sends to the source of a congested packet (FAST section
// 4): a complete IPv6 packet with its ICRC. src is an address that others can reach: the draft says that of the
// loopback interface, which is not ::1. The Fast CNP has the packet's queue pair and P_Key (D6). It has option
// 2 if the packet carries an IOAM trace, otherwise option 1.
//
// The trace is copied unchanged, with flags, RemainingLen, free space and
// reserved octets; of several, the first that parses (D5). own is the congested
// node's own record. Senders need it most, but the packet does not have it yet:
// AppendFor adds it to the copy by the rule of [ioam.AddNode] (D14). If own is
// nil nothing is added.
//
// The original destination is the one that the sender knows: with a Segment
// Routing header without encapsulation, Segment List[0]
// (rocev2.Datagram.FinalDst).
//
// AppendFor rejects packets as rocev2.Packet.MayAnswer does, IPv4 (ErrIPv4), option types
// that the draft does not allow (rocecn.ErrRange), and addresses that others cannot
// reach (rocev2.ErrNotReachable), the original destination included. P_Key 0 becomes
// bth.DefaultPKey. The caller decides whether the flow is to slow down.
//
// Sent reports which option the Fast CNP has, and whether it holds own. On error Sent is zero.
//
// b must not overlap the octets that congested aliases.
func AppendFor(b []byte, congested *rocev2.Packet, src netip.Addr, own *ioam.Node, cfg Config) ([]byte, Report, error) {
	switch {
	case !congested.Src.Is6():
		return b, Report{}, ErrIPv4
	case !congested.Dst.Is6():
		return b, Report{}, errDestination
	case !src.Is6():
		return b, Report{}, errIPv6
	case cfg.Long > LongTraceFallBack:
		return b, Report{}, errLong
	}
	var a answer.Answer
	if err := a.To(congested, congested.BTH.DestQP, cfg.InnerSource); err != nil {
		return b, Report{}, err
	}
	points := cfg.CodePoints.withDefaults()
	sent := Report{Option: 1}
	o := header{typ: points.Option1, original: congested.FinalDst()}
	if rocev2.CheckAnswerable(o.original) != nil {
		return b, Report{}, rocev2.ErrNotReachable
	}
	if cfg.mayFindTrace(congested) {
		if err := cfg.embedTrace(&o, congested, own); err != nil {
			return b, Report{}, err
		}
		if len(o.ioam) > 0 {
			o.typ, sent.Option = points.Option2, 2
		}
	}
	if cfg.Carriage.SrcPort == 0 {
		cfg.Carriage.SrcPort = congested.SrcPort
	}
	var (
		out []byte
		n   int
		err error
	)
	if own == nil || len(o.ioam) == 0 {
		out, n, err = o.appendAfterIP(b)
	} else {
		out, n, sent.OwnRecord, err = o.appendWithOwn(b, own)
	}
	if err == nil {
		out, err = a.Append(out, &src, &congested.Src, n, &cfg.Carriage, cfg.Coverage)
	}
	if err != nil {
		return b, Report{}, err
	}
	return out, sent, nil
}

// mayFindTrace reports whether the packet has headers that can carry a trace.
func (c *Config) mayFindTrace(congested *rocev2.Packet) bool {
	return len(congested.Ext) > 0 || c.OuterTrace
}

// embedTrace makes o an option 2 if the congested packet has a trace that fits
// together with the node's own record, or can be trimmed to fit (D4).
func (c *Config) embedTrace(o *header, congested *rocev2.Packet, own *ioam.Node) error {
	var trace ioam.Trace
	data, what := c.findTrace(congested, &trace)
	if what != copied {
		return nil
	}
	what, free, err := c.fitTrace(&trace, own)
	if err != nil || what == traceTooLong {
		return err
	}
	if what == trimmed {
		o.trimmed = free
	}
	o.ioam = data
	return nil
}

// fitTrace returns the treatment of a trace with the node's own record: copied,
// trimmed or too long, and the number of free octets.
func (c *Config) fitTrace(t *ioam.Trace, own *ioam.Node) (what choice, free int, err error) {
	size, nodes := len(t.Data), len(t.NodeData())
	if own != nil {
		n, err := t.NodeSize(own)
		if err != nil {
			return noTrace, 0, err
		}
		nodes += n
		size = max(size, nodes) // an incremental trace grows
	}
	switch {
	case size <= maxNodeData:
		return copied, size - nodes, nil
	case c.Long == LongTraceFallBack:
		return traceTooLong, 0, nil
	case c.Long == LongTraceReject || nodes > maxNodeData:
		return noTrace, 0, ErrTooLong
	}
	return trimmed, size - nodes, nil
}

// findTrace returns the option data with the trace of a congested packet (D5)
// and the choice copied, or the reason why there is none.
func (c *Config) findTrace(p *rocev2.Packet, trace *ioam.Trace) (data []byte, what choice) {
	var h ipv6opt.Header
	if c.OuterTrace {
		for typ, octets := range p.OuterExtensions() {
			if _, err := h.Decode(octets); err == nil && typ == ipv6opt.HopByHop && data == nil {
				data = c.findTraceIn(&h, trace, &what)
			}
		}
		return data, what
	}
	// as p.Extensions(), but faster
	for next, ext := p.NextHeader, p.Ext; len(ext) > 0 && data == nil; next = h.NextHeader {
		var err error
		if ext, err = h.Decode(ext); err == nil && next == ipv6opt.HopByHop {
			data = c.findTraceIn(&h, trace, &what)
		}
	}
	return data, what
}

// findTraceIn looks through one Hop-by-Hop header. If it finds a trace, it sets
// *what to copied, and if a trace does not parse, to brokenTrace.
func (c *Config) findTraceIn(h *ipv6opt.Header, trace *ioam.Trace, what *choice) (data []byte) {
	for o, err := range h.All() {
		if o.Type != ioam.IPv6MayChange && o.Type != ioam.IPv6NoChange {
			continue
		}
		var option ioam.Option
		if err == nil {
			err = option.Decode(o.Data)
		}
		if err == nil {
			if option.Type != ioam.OptTypePreallocated && option.Type != ioam.OptTypeIncremental {
				continue
			}
			err = trace.Decode(option)
		}
		switch {
		case err != nil:
			*what = brokenTrace
		case !c.ByNamespace || trace.Namespace == c.Namespace:
			*what = copied
			return o.Data
		}
	}
	return nil
}

// AppendPacket appends n as a complete IPv6 packet with its ICRC. Of cfg it uses
// Carriage and Coverage, and CodePoints if n.OptionType is 0. It rejects
// addresses, the original destination included, that rocev2.CheckAnswerable
// rejects, with rocev2.ErrNotReachable, and option types that the draft does not
// allow (rocecn.ErrRange). P_Key 0 stands for the default partition,
// bth.DefaultPKey; a [rocev2.Packet] sends it as it is.
func (n *Notification) AppendPacket(b []byte, cfg Config) ([]byte, error) {
	switch {
	case n.CNP.Opcode != bth.CNP:
		return b, wireerr.NotCNP
	case !n.Src.Is6() || !n.Dst.Is6():
		return b, errAddresses
	}
	if err := cmp.Or(rocev2.CheckAnswerable(n.Src), rocev2.CheckAnswerable(n.Dst)); err != nil {
		return b, err
	}
	if err := n.Option.checkFields(); err != nil {
		return b, err
	}
	if err := rocev2.CheckAnswerable(n.Option.OriginalDst); err != nil {
		return b, err
	}
	o := header{typ: n.optionType(cfg.CodePoints.withDefaults()), original: n.Option.OriginalDst}
	if n.Option.Number == 2 {
		data := append(make([]byte, 0, maxData), n.Option.Reserved, uint8(n.Option.Trace.OptType)) // on the stack
		var err error
		if o.ioam, err = n.Option.Trace.AppendBinary(data); err != nil {
			return b, err
		}
	}
	out, size, err := o.appendAfterIP(b)
	if err != nil {
		return b, err
	}
	c := n.CNP
	c.PKey = answer.PKey(c.PKey)
	octets, err := c.AppendBinary(make([]byte, 0, cnp.Size+4)) // on the stack
	if err != nil {
		return b, err
	}
	d := rocev2.Datagram{Data: octets[:cnp.Size+4],
		NextHeader: ipv6opt.DestinationOptions, Ext: out[len(b)+wire.IPv6Size : len(b)+wire.IPv6Size+size]}
	if err := answer.Carry(&d, n.Src, n.Dst, &cfg.Carriage); err != nil {
		return b, err
	}
	if out, err = answer.AppendRoCEv2(out, &d, cfg.Coverage); err != nil {
		return b, err
	}
	return out, nil
}

// appendAfterIP makes room after b for a Fast CNP with this option header, and
// writes the header to its place after the IPv6 header. It returns the header's
// length.
func (o *header) appendAfterIP(b []byte) (out []byte, n int, err error) {
	if o.typ.Action() != ipv6opt.ActionDiscardICMP || o.typ.MayChange() {
		return b, 0, wireerr.OptionType
	}
	n = o.encodedLen()
	out = slices.Grow(b, wire.IPv6Size+n+8+cnp.Size+4)
	at := len(b) + wire.IPv6Size
	o.writeHeader(out[at : at+n])
	return out, n, nil
}

// appendWithOwn is appendBehindIP with the node's own record added to the trace of
// option 2 (D14). A pre-allocated trace has the space for it and gets it in the
// packet; an incremental one grows, in a copy. The copy is on the stack: the
// capacity of b after the packet may be in use by others.
func (o *header) appendWithOwn(b []byte, own *ioam.Node) (out []byte, n int, added bool, err error) {
	if ioam.OptType(o.ioam[1]) == ioam.OptTypeIncremental {
		grown := *o
		grown.ioam, added, err = ioam.AppendNode(append(make([]byte, 0, maxData), o.ioam[:2]...),
			ioam.Option{Type: ioam.OptTypeIncremental, Data: o.ioam[2:]}, own)
		if err != nil {
			return b, 0, false, err
		}
		out, n, err = grown.appendAfterIP(b)
		return out, n, added, err
	}
	if out, n, err = o.appendAfterIP(b); err != nil {
		return b, 0, false, err
	}
	at := len(b) + wire.IPv6Size
	added, err = ioam.AddNode(ioam.Option{Data: out[at+traceAt : at+traceAt+len(o.ioam)-2-o.trimmed]}, own)
	return out, n, added, err
}
