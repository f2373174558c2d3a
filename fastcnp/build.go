package fastcnp

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration of the Fast CNPs that a deployment sends.
type Config struct {
	// Carriage has the defaults DSCP 48, hop limit 64 and UDP checksum 0. A source
	// port of 0 stands for that of the congested packet (D6).
	Carriage   rocev2.Carriage
	CodePoints CodePoints
	Coverage   icrc.Coverage // coverage of the option header by the ICRC; AsSent by default (D1)

	// ByNamespace selects the first trace of Namespace instead of the first trace.
	// Traces that do not decode are skipped. OuterTrace selects the traces in the
	// outer headers of a tunnelled packet instead of those in the headers directly
	// before the RoCEv2 UDP header (D5).
	ByNamespace bool
	Namespace   uint16
	OuterTrace  bool

	// OwnNamespaces are the namespaces with traces that get the record of the congested node. Nodes must not add
	// records to traces of namespaces that they are not configured for (RFC 9197 section 4.3). nil stands for all.
	OwnNamespaces *Namespaces

	// Long is the treatment of a trace that does not fit into option 2 (D4).
	Long LongTrace

	// InnerSource enables answers to packets inside another IP header (D17), see
	// rocev2.Packet.MayAnswer.
	InnerSource bool
}

// Namespaces are a set of IOAM namespaces. The zero value has none.
type Namespaces struct{ bits [1 << 16 / 64]uint64 }

// Add adds a namespace.
func (n *Namespaces) Add(namespace uint16) { n.bits[namespace/64] |= 1 << (namespace % 64) }

// has reports whether a namespace is in the set. A nil set has all.
func (n *Namespaces) has(namespace uint16) bool {
	return n == nil || n.bits[namespace/64]>>(namespace%64)&1 == 1
}

// LongTrace is the treatment of a trace that is too long for option 2 (D4).
// Node data is never dropped.
type LongTrace uint8

// The treatments.
const (
	LongTraceReject   LongTrace = iota // return ErrTooLong
	LongTraceTrim                      // omit the free space, set RemainingLen to 0; ErrTooLong if still too long
	LongTraceFallBack                  // send option 1 instead
)

// choice is the choice of AppendFor between the options, with its reason.
type choice uint8

// The choices: first those of option 1, then those of option 2.
const (
	noTrace      choice = iota // the packet carries no trace
	invalidTrace               // none of its traces decodes
	traceTooLong               // its trace does not fit, and Config.Long is FallBack
	copied                     // its trace was copied
	trimmed                    // its trace was copied without the free space
)

// Report describes a Fast CNP that AppendFor has built.
type Report struct {
	Option uint8 // number of the option: 1 or 2

	// OwnRecord is true if the trace of option 2 has the record of the congested node. It is false for option 1,
	// without a record, for a trace of a namespace that is not in Config.OwnNamespaces, and if the trace has too little
	// space, which sets its overflow flag.
	OwnRecord bool
}

// Errors of AppendFor, in addition to those of rocev2.Packet.MayAnswer and rocev2.CheckAnswerable.
var (
	// ErrIPv4 is the error for a congested IPv4 packet.
	ErrIPv4 = wireerr.New("fastcnp", "congested packet", "IPv4: a Fast CNP is IPv6 only (FAST section 3)",
		wireerr.Other)

	errLong = wireerr.New("fastcnp", "Config.Long", "want LongTraceReject, LongTraceTrim or LongTraceFallBack",
		wireerr.Range)
	errIPv6 = wireerr.New("fastcnp", "src", "not an IPv6 address", wireerr.Range)
)

// AppendFor appends to b the Fast CNP that a switch sends to the source of a congested
// packet (FAST section 4): a complete IPv6 packet with its ICRC. The caller decides
// that the flow must slow down. b must not overlap the octets that congested aliases.
//
// src is a reachable address of the switch: according to the draft that of the loopback
// interface, which is not ::1. own is the record of the switch, or nil. The Fast CNP
// has the queue pair and P_Key of the congested packet (D6), with bth.DefaultPKey in
// place of P_Key 0. The original destination is the one that the sender uses: with a
// Segment Routing header without encapsulation it is Segment List[0]
// (rocev2.Datagram.FinalDst).
//
// The Fast CNP has option 2 if the packet carries an IOAM trace, otherwise option 1. The
// trace is copied unchanged, with flags, RemainingLen and free space; the Reserved octet
// before it is 0. If there are several, the first that decodes is used (D5). AppendFor
// adds own to the copy as [ioam.AddNode] does (D14), if Config.OwnNamespaces has the
// namespace of the trace: the packet does not have the record of the congested node yet,
// which senders need most.
//
// It returns b unchanged and a zero Report with these errors:
//   - those of rocev2.Packet.MayAnswer
//   - ErrIPv4
//   - rocev2.ErrNotReachable: src, the sender or the original destination cannot be
//     reached by other nodes
//   - ErrTooLong: see Config.Long
//   - an error that matches rocecn.ErrRange: an option type that the draft does not allow,
//     or another invalid value of cfg or own
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
	report := Report{Option: 1}
	var (
		out []byte
		n   int
		err error
	)
	o := header{typ: points.Option1, original: congested.FinalDst()}
	if !o.original.Is6() || !ipudp.Reachable6(ipudp.Halves(&o.original)) { // CheckAnswerable, inlined
		return b, Report{}, rocev2.ErrNotReachable
	}
	if cfg.mayFindTrace(congested) {
		if own, err = cfg.embedTrace(&o, congested, own); err != nil {
			return b, Report{}, err
		}
		if len(o.ioam) > 0 {
			o.typ, report.Option = points.Option2, 2
		}
	}
	if cfg.Carriage.SrcPort == 0 {
		cfg.Carriage.SrcPort = congested.SrcPort
	}
	if own == nil || len(o.ioam) == 0 {
		out, n, err = o.appendAfterIP(b)
	} else {
		out, n, report.OwnRecord, err = o.appendWithOwn(b, own)
	}
	if err == nil {
		out, err = a.Append(out, &src, &congested.Src, n, &cfg.Carriage, cfg.Coverage)
	}
	if err != nil {
		return b, Report{}, err
	}
	return out, report, nil
}

// mayFindTrace reports whether the packet has headers that can carry a trace.
func (c *Config) mayFindTrace(congested *rocev2.Packet) bool {
	return len(congested.Ext) > 0 || c.OuterTrace
}

// embedTrace makes o an option 2 if the congested packet has a trace that fits with
// the node's own record, or can be trimmed to fit (D4). It returns the record to add,
// or nil if the trace is of another namespace.
func (c *Config) embedTrace(o *header, congested *rocev2.Packet, own *ioam.Node) (*ioam.Node, error) {
	var trace ioam.Trace
	data, found := c.findTrace(congested, &trace)
	if found != copied {
		return own, nil
	}
	if !c.OwnNamespaces.has(trace.Namespace) {
		own = nil
	}
	found, free, err := c.fitTrace(&trace, own)
	if err != nil || found == traceTooLong {
		return own, err
	}
	if found == trimmed {
		o.trimmed = free
	}
	o.ioam = data
	return own, nil
}

// fitTrace returns the treatment of a trace with the node's own record (copied, trimmed
// or traceTooLong) and the length of its free space in octets.
func (c *Config) fitTrace(t *ioam.Trace, own *ioam.Node) (fit choice, free int, err error) {
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
func (c *Config) findTrace(p *rocev2.Packet, trace *ioam.Trace) (data []byte, found choice) {
	var h ipv6opt.Header
	if c.OuterTrace {
		for typ, octets := range p.OuterExtensions() {
			if _, err := h.Decode(octets); err == nil && typ == ipv6opt.HopByHop && data == nil {
				data = c.findTraceIn(&h, trace, &found)
			}
		}
		return data, found
	}
	// faster than p.Extensions()
	for next, ext := p.NextHeader, p.Ext; len(ext) > 0 && data == nil; next = h.NextHeader {
		var err error
		if ext, err = h.Decode(ext); err == nil && next == ipv6opt.HopByHop {
			data = c.findTraceIn(&h, trace, &found)
		}
	}
	return data, found
}

// findTraceIn searches one Hop-by-Hop header. It sets *found to copied if it finds a
// trace, and to invalidTrace if a trace does not decode.
func (c *Config) findTraceIn(h *ipv6opt.Header, trace *ioam.Trace, found *choice) (data []byte) {
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
			*found = invalidTrace
		case !c.ByNamespace || trace.Namespace == c.Namespace:
			*found = copied
			return o.Data
		}
	}
	return nil
}

// AppendPacket appends n to b as a complete IPv6 packet with its ICRC. It uses Carriage
// and Coverage of cfg, and CodePoints if n.OptionType is 0. It replaces P_Key 0 with
// bth.DefaultPKey; to send P_Key 0, encode a [rocev2.Packet]. On error b is returned
// unchanged: rocev2.ErrNotReachable if rocev2.CheckAnswerable rejects Src, Dst or the
// original destination, and an error that matches rocecn.ErrRange for an option type
// that the draft does not allow.
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
		o.reserved = n.Option.Reserved
		data := append(make([]byte, 0, maxData), 0, uint8(n.Option.Trace.OptType)) // on the stack
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

// appendAfterIP grows b for a Fast CNP with this option header, writes the header at
// its place after the IPv6 header, and returns the length of the header.
func (o *header) appendAfterIP(b []byte) (out []byte, n int, err error) {
	if o.typ.Action() != ipv6opt.ActionDiscardICMP || o.typ.MayChange() {
		return b, 0, wireerr.OptionType
	}
	n = o.encodedLen()
	out = slices.Grow(b, wire.IPv6Size+n+8+cnp.Size+4)
	start := len(b) + wire.IPv6Size
	o.writeHeader(out[start : start+n])
	return out, n, nil
}

// appendWithOwn is appendAfterIP for option 2 with the node's own record added to the
// trace (D14): in the packet in a pre-allocated trace, which has the space for it, and
// in a copy of an incremental one, which grows. The copy is on the stack, because the
// caller may use the capacity of b after the packet.
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
	start := len(b) + wire.IPv6Size + traceOffset
	added, err = ioam.AddNode(ioam.Option{Data: out[start : start+len(o.ioam)-2-o.trimmed]}, own)
	return out, n, added, err
}
