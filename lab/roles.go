package lab

import (
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// The roles are called only in this file, switchrole.go, hostrole.go and edge.go: this file builds their input, the
// others carry out their decisions.

// roles holds the shared parts of the roles of a network, mostly buffers.
type roles struct {
	making int // packets that a node is building or reading

	data     rocev2.Packet                            // the packet that is being built
	ack      rocev2.Packet                            // the acknowledgement that is being built
	frame    []byte                                   // the octets of one of them
	outer    []byte                                   // the octets with the tunnel around it
	ext      []byte                                   // the Hop-by-Hop header
	read     rocev2.Frame                             // the frame that a role reads
	learned  *qpmap.Map                               // of all proxies and PEs, known from the start; nil for Cold
	answer   []byte                                   // the answer of a role
	accepted node.Decision                            // the decision of a sender
	acked    Ack                                      // the acknowledgement that a sender reads
	zeros    []byte                                   // the payload of all packets
	own      ioam.Node                                // its own IOAM record
	hops     [reaction.MaxHops + 1]reaction.Hop       // the hops that a sender reads
	dcqcn    map[reaction.DCQCNConfig]*reaction.DCQCN // by their configuration
	capable  *acl.Map[congested.Capability]           // of senders, as switches know it
}

var (
	hostPrefix   = netip.MustParsePrefix("2001:db8:1::/96")
	switchPrefix = netip.MustParsePrefix("2001:db8:ffff::/96")
)

const defaultPKey = 0xFFFF

// decodeFrame decodes octets as a frame for a role.
func (r *roles) decodeFrame(ip []byte) *rocev2.Frame {
	r.read.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return &r.read
}

// eventNow returns the Event of a frame that a role sees now.
func (n *Network) eventNow() node.Event { return node.Event{Now: n.Sim.Now().Clock()} }

// numberedAddr returns the i-th address of a prefix.
func numberedAddr(prefix netip.Prefix, i int) netip.Addr {
	octets := prefix.Addr().As16()
	binary.BigEndian.PutUint32(octets[12:], uint32(i)+1)
	return netip.AddrFrom16(octets)
}

// addrIndex returns i for an address from numbered.
func addrIndex(prefix netip.Prefix, addr netip.Addr) (i int, ok bool) {
	octets := addr.As16()
	i = int(binary.BigEndian.Uint32(octets[12:])) - 1
	return i, prefix.Contains(addr) && i >= 0
}

// pairs has the queue pairs of a network: flow i goes from 2i+2 to 2i+3.
type pairs struct{ net *Network }

func (f *Flow) sourceQP() uint32 { return uint32(2*f.index + 2) }
func (f *Flow) destQP() uint32   { return uint32(2*f.index + 3) }

// sourcePort is the UDP source port of the flow's packets.
func (f *Flow) sourcePort() uint16 { return 0xC000 | uint16(f.index) }

// SourceQP implements [node.Pairs].
func (p pairs) SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error) {
	i := int(k.DestQP-3) / 2
	if i < 0 || i >= len(p.net.flows) {
		return qpmap.Pair{}, qpmap.ErrUnknown
	}
	f := p.net.flows[i]
	if f.destQP() != k.DestQP || k.Src != f.src.role.addr || k.Dst != f.dst.role.addr {
		return qpmap.Pair{}, qpmap.ErrUnknown
	}
	return qpmap.Pair{SrcQP: f.sourceQP(), PKey: defaultPKey, Seen: now}, nil
}

// Sends implements [sender.QPTable].
func (p pairs) Sends(qp uint32, dst netip.Addr, _ time.Time) (sends, known bool) {
	i := int(qp)/2 - 1
	if i < 0 || i >= len(p.net.flows) || p.net.flows[i].sourceQP() != qp {
		return false, false
	}
	return p.net.flows[i].dst.role.addr == dst, true
}

// roleSeed returns the seed of the roles: never 0, which would be random.
func (n *Network) roleSeed() uint64 { return n.cfg.Seed*2 + 1 }

// newReaction returns the reaction point for a configuration.
func (r *roles) newReaction(cfg reaction.DCQCNConfig) (*reaction.DCQCN, error) {
	d := r.dcqcn[cfg]
	if d == nil {
		var err error
		if d, err = reaction.NewDCQCN(cfg); err != nil {
			return nil, err
		}
		if r.dcqcn == nil {
			r.dcqcn = map[reaction.DCQCNConfig]*reaction.DCQCN{}
		}
		r.dcqcn[cfg] = d
	}
	return d, nil
}

// createRoles makes the roles of each node, or returns the error of ctx when that ends.
func (n *Network) createRoles(ctx context.Context) error {
	n.roles.frame, n.roles.answer = make([]byte, 0, 16384), make([]byte, 0, 4096)
	n.roles.outer, n.roles.ext = make([]byte, 0, 16384), make([]byte, 0, 512)
	n.roles.zeros = make([]byte, n.cfg.Payload+4)
	into := make([]int, len(n.hosts))
	for _, f := range n.flows {
		into[f.dst.index]++
	}
	for i, h := range n.hosts {
		if err := ctx.Err(); err != nil {
			return err
		}
		h.role = newHostRole(h, into[i])
	}
	if (n.cfg.Variant == Proxy || n.cfg.Variant == FCN) && !n.cfg.Cold {
		n.roles.learned = qpmap.New(qpmap.Config{Grow: true})
		for _, f := range n.flows {
			n.learnPair(f)
		}
	}
	for _, s := range n.switches {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.role = newSwitchRole(s)
	}
	return nil
}

// newMessage returns a packet with the octets of a notification, from the node of this index among all hosts and
// switches to a host, or to ^ of the index of a switch.
func (n *Network) newMessage(ip []byte, from, to int, flow int32) ref {
	r, k := n.pool.get()
	k.kind, k.prio, k.to, k.flow = message, n.cfg.NotificationPriority, int32(to), flow
	k.hash = hashPath(uint32(from), uint32(to), 0)
	n.pool.setOctets(k, append(n.pool.buffer(k), ip...))
	k.octets = int32(wire.EthernetSize + len(ip) + frameCheck)
	n.count.Notice += uint64(k.octets)
	return r
}

// encodePacket returns the octets of a packet of data or of an acknowledgement, without its tunnel. They are valid
// until the next call.
func (n *Network) encodePacket(r ref, k *packet) []byte {
	switch k.kind {
	case ack, nak:
		return n.ackOctets(k)
	case trimmed:
		return n.pool.octets(k)
	}
	f, roles := n.flows[k.flow], &n.roles
	p := &roles.data
	p.Src, p.Dst = f.src.role.addr, f.dst.role.addr
	p.SrcPort, p.DstPort, p.HopLimit = f.sourcePort(), rocev2.Port, 64
	p.TrafficClass = 26<<2 | uint8(rocev2.ECT0)
	if k.ce {
		p.TrafficClass |= uint8(rocev2.CE)
	}
	p.BTH.Header = bth.Header{
		Opcode: bth.RCSendMiddle, PKey: defaultPKey, DestQP: f.destQP(), PSN: (f.psn + k.number) & 0xFFFFFF,
		AckReq: k.last,
	}
	switch {
	case k.first && k.last:
		p.BTH.Opcode = bth.RCSendOnly
	case k.first:
		p.BTH.Opcode = bth.RCSendFirst
	case k.last:
		p.BTH.Opcode = bth.RCSendLast
	}
	p.Payload = roles.zeros[:int(k.size())-n.head]
	if n.pool.traced {
		p.NextHeader, p.Ext = ipv6opt.HopByHop, n.traceHeader(r, k)
	}
	out, err := p.AppendBinary(roles.frame[:0])
	if err != nil {
		panic("lab: " + err.Error()) // all fields are the laboratory's own
	}
	return out
}

// ackOctets is octets for an acknowledgement of the last packet that has arrived, or a NAK for the next one.
func (n *Network) ackOctets(k *packet) []byte {
	f, roles := n.flows[k.flow], &n.roles
	p := &roles.ack
	p.Src, p.Dst = f.dst.role.addr, f.src.role.addr
	p.SrcPort, p.DstPort, p.HopLimit = f.sourcePort(), rocev2.Port, 64
	p.TrafficClass = 26 << 2
	p.BTH.Header = bth.Header{Opcode: bth.RCAcknowledge, PKey: defaultPKey, DestQP: f.sourceQP()}
	number := k.number - 1
	p.BTH.AETH.Syndrome = 0x1F // ACK, without a limit of credits
	if k.kind == nak {
		p.BTH.AETH.Syndrome, number = 0x60, k.number // NAK: PSN sequence error
	}
	p.BTH.PSN = (f.psn + number) & 0xFFFFFF
	out, err := p.AppendBinary(roles.frame[:0])
	if err != nil {
		panic("lab: " + err.Error()) // all fields are the laboratory's own
	}
	return out
}

// encodeWire returns the octets of a packet of data or of an acknowledgement as they are on the wire, with its
// tunnel if it has one.
func (n *Network) encodeWire(r ref, k *packet) []byte {
	inner := n.encodePacket(r, k)
	if k.egress < 0 {
		return inner
	}
	tunnel := encap.IPInIPv6{Src: n.switches[k.ingress].role.addr, Dst: n.switches[k.egress].role.addr}
	out, err := tunnel.Append(n.roles.outer[:0], inner, k.label)
	if err != nil {
		panic("lab: " + err.Error()) // all fields are the laboratory's own
	}
	return out
}

// sendPause sends a PFC frame for the data class to the neighbour at a port.
func (n *Network) sendPause(p *Port, quanta uint16) {
	prio := n.cfg.DataPriority
	frame := pfc.PFC{Enabled: 1 << prio}
	frame.Quanta[prio] = quanta
	r, k := n.pool.get()
	k.kind = control
	octets := frame.AppendFrame(n.pool.buffer(k), [6]byte{0x02, 0, 0, 0, byte(p.number >> 8), byte(p.number)})
	n.pool.setOctets(k, octets)
	k.octets = int32(len(octets) + frameCheck)
	p.enqueuePacket(r, k)
}

// handlePause handles a PFC frame that a port received.
func (n *Network) handlePause(in *Port, k *packet) {
	var frame pfc.PFC
	if _, err := frame.Decode(in.net.pool.octets(k)[wire.EthernetSize:]); err != nil {
		panic("lab: " + err.Error())
	}
	for prio, n := range frame.All() {
		in.pausePriority(prio, in.net.Sim.Now()+quantaTime(n, in.rate))
	}
}
