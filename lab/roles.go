package lab

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/lab/sim"
	kinds "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// This file is the only one that calls the roles: what they read is made here,
// and what they say is carried out here.

// roles has what the roles of a network share: room for octets.
type roles struct {
	making int // packets that a node is making or reading

	data    rocev2.Packet                       // the packet that is written
	frame   []byte                              // its octets
	read    rocev2.Packet                       // the packet that a receiver reads
	told    rocev2.Datagram                     // the message that a proxy reads
	learned *qpmap.Map                          // by the proxies, of all flows
	answer  []byte                              // what a role answers
	zeros   []byte                              // the data of all packets
	event   congested.Event                     // what a congested node is asked
	dcqcn   map[reaction.Config]*reaction.DCQCN // by what they were made of
}

var (
	hostPrefix   = netip.MustParsePrefix("2001:db8:1::/96")
	switchPrefix = netip.MustParsePrefix("2001:db8:ffff::/96")
)

const defaultPKey = 0xFFFF

// numbered returns an address of a prefix.
func numbered(prefix netip.Prefix, i int) netip.Addr {
	octets := prefix.Addr().As16()
	binary.BigEndian.PutUint32(octets[12:], uint32(i)+1)
	return netip.AddrFrom16(octets)
}

// index returns the number of an address that numbered returned.
func index(prefix netip.Prefix, addr netip.Addr) (i int, ok bool) {
	octets := addr.As16()
	i = int(binary.BigEndian.Uint32(octets[12:])) - 1
	return i, prefix.Contains(addr) && i >= 0
}

// pairs knows the queue pairs of a network: flow i is sent by 2i+2 to 2i+3.
type pairs struct{ net *Network }

func (f *Flow) sourceQP() uint32 { return uint32(2*f.index + 2) }
func (f *Flow) destQP() uint32   { return uint32(2*f.index + 3) }

// SourceQP does what [node.Pairs] asks.
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

// Sends does what [sender.QPTable] asks.
func (p pairs) Sends(qp uint32, dst netip.Addr, _ time.Time) (sends, known bool) {
	i := int(qp)/2 - 1
	if i < 0 || i >= len(p.net.flows) || p.net.flows[i].sourceQP() != qp {
		return false, false
	}
	return p.net.flows[i].dst.role.addr == dst, true
}

// seed returns the seed of the roles: never 0, which would be another one in each run.
func (n *Network) seed() uint64 { return n.cfg.Seed*2 + 1 }

// reacts returns the reaction point of a flow.
func (r *roles) reacts(cfg reaction.Config) (*reaction.DCQCN, error) {
	d := r.dcqcn[cfg]
	if d == nil {
		var err error
		if d, err = reaction.New(cfg); err != nil {
			return nil, err
		}
		if r.dcqcn == nil {
			r.dcqcn = map[reaction.Config]*reaction.DCQCN{}
		}
		r.dcqcn[cfg] = d
	}
	return d, nil
}

// play gives each node its roles.
func (n *Network) play() {
	n.roles.frame, n.roles.answer = make([]byte, 0, 16384), make([]byte, 0, 4096)
	n.roles.zeros = make([]byte, n.cfg.Payload+4)
	into := make([]int, len(n.hosts))
	for _, f := range n.flows {
		into[f.dst.index]++
	}
	for i, h := range n.hosts {
		h.role = newHostRole(h, into[i])
	}
	if n.cfg.Variant == Proxy {
		n.roles.learned = qpmap.New(qpmap.Config{})
		for _, f := range n.flows {
			n.learn(f)
		}
	}
	for _, s := range n.switches {
		s.role = newSwitchRole(s)
	}
}

// A switchRole is the congested node in a switch.
type switchRole struct {
	agent *congested.Agent
	proxy *proxy.Proxy
	ready sim.ID
	of    *Switch
}

func newSwitchRole(s *Switch) *switchRole {
	n := s.net
	method, capable := congested.Mark, congested.Unknown
	switch n.cfg.Variant {
	case FastCNP, Oracle:
		method, capable = congested.FastCNP, congested.Yes
	case FastCNPMarks:
		method = congested.FastCNP
	case Proxy:
		method = congested.Proxy
	}
	cfg := congested.Config{
		Enabled:  n.cfg.Variant != None && n.cfg.Variant != HPCC,
		Self6:    numbered(switchPrefix, s.index),
		Methods:  acl.NewMap(acl.Entry[congested.Method]{Prefix: hostPrefix, Value: method}),
		Capable:  acl.NewMap(acl.Entry[congested.Capability]{Prefix: hostPrefix, Value: capable}),
		Proxies:  leaves{n},
		MaxFlows: max(4096, 4*len(n.flows)), MaxSent: 4, MaxRejected: 4, MaxPaused: 4,
		Seed: n.seed(),
	}
	for i := range cfg.PerFlow {
		cfg.PerFlow[i] = n.cfg.Interval
	}
	agent, err := congested.New(cfg)
	if err != nil {
		panic("lab: " + err.Error()) // all of it is the laboratory's own
	}
	role := &switchRole{agent: agent, of: s}
	role.ready = n.Sim.Add(role)
	p, err := proxy.New(proxy.Config{
		Enabled: n.cfg.Variant == Proxy, Self6: cfg.Self6, Accept: acl.New(switchPrefix),
		Senders: acl.NewMap(acl.Entry[proxy.Method]{Prefix: hostPrefix, Value: proxy.CNP}),
		QPs:     n.roles.learned, Seed: n.seed(),
	})
	if err != nil {
		panic("lab: " + err.Error()) // all of it is the laboratory's own
	}
	role.proxy = p
	return role
}

// leaves knows the proxy of a sender: its first switch.
type leaves struct{ net *Network }

// Lookup does what [congested.Proxies] asks.
func (l leaves) Lookup(sender netip.Addr) (proxy netip.Addr, ok bool) {
	i, ok := index(hostPrefix, sender)
	if !ok || i >= len(l.net.hosts) {
		return netip.Addr{}, false
	}
	s, ok := l.net.hosts[i].port.peer.owner.(*Switch)
	if !ok {
		return netip.Addr{}, false
	}
	return numbered(switchPrefix, s.index), true
}

// translate is the proxy: it has got a message, and sends a CNP.
func (s *Switch) translate(told ref, k *packet) {
	n, r := s.net, &s.net.roles
	defer n.pool.put(told)
	if err := r.told.Decode(k.ip, rocev2.DecodeOptions{Link: rocev2.LinkIP}, proxymsg.ExperimentalPort); err != nil {
		panic("lab: " + err.Error())
	}
	out, a, reason := s.role.proxy.ReceivePacket(r.answer[:0], &r.told, n.Sim.Now().Clock())
	to, ok := index(hostPrefix, a.Flow.Src)
	if reason != node.Accepted || !ok || to >= len(n.hosts) {
		n.count.Refused++
		return
	}
	n.count.CNPs++
	s.role.later(n.message(out, to, k.flow), n.cfg.ProxyDelay)
}

// learn gives the proxies the queue pairs of a flow, as if they had learned them.
func (n *Network) learn(f *Flow) {
	if n.roles.learned != nil {
		key := rocev2.FlowKey{Src: f.src.role.addr, Dst: f.dst.role.addr, DestQP: f.destQP()}
		_ = n.roles.learned.Add(qpmap.Key{FlowKey: key}, qpmap.Pair{SrcQP: f.sourceQP()}) // of what has no room they know nothing
	}
}

// congested is told of a packet that meets congestion.
func (s *Switch) congested(k *packet) {
	n, now := s.net, s.net.Sim.Now()
	n.count.Congested++
	n.count.Onset = min(n.count.Onset, now)
	r := &n.roles
	r.event.Frame, r.event.Options = n.octets(k), rocev2.DecodeOptions{Link: rocev2.LinkIP}
	out, d := s.role.agent.Congested(r.answer[:0], &r.event, now.Clock())
	if d.Reason != node.Accepted {
		n.count.Refused++
		return
	}
	if d.MarkECN {
		n.count.Marked++
		k.ce = true
	}
	to, via := n.flows[k.flow].src.index, -1
	switch d.Kind {
	case kinds.FastCNP:
		n.count.FastCNPs++
	case kinds.Proxy: // it passes the proxy on its way to the sender
		n.count.Proxied++
		via, _ = index(switchPrefix, d.To)
	default:
		return
	}
	if n.cfg.Variant == Oracle {
		n.hosts[to].role.hears(out)
		return
	}
	told := n.message(out, to, k.flow)
	n.pool.at(told).proxy = int32(via)
	s.role.later(told, n.cfg.SwitchDelay)
}

// later lets a notification wait at the switch until it is made.
func (s *switchRole) later(r ref, wait sim.Time) {
	n := s.of.net
	n.roles.making++
	n.Sim.At(n.Sim.Now()+wait, sim.Timer, s.ready, uint32(r))
}

// Handle runs an event: a notification is ready.
func (s *switchRole) Handle(arg uint32) {
	n, r := s.of.net, ref(arg)
	n.roles.making--
	k := n.pool.at(r)
	if int(k.proxy) == s.of.index { // the congested node is the proxy itself
		s.of.translate(r, k)
		return
	}
	s.of.forward(nil, r, k)
}

// message returns a packet with the octets of a notification.
func (n *Network) message(ip []byte, to int, flow int32) ref {
	r, k := n.pool.get()
	k.kind, k.prio, k.to, k.flow = message, n.cfg.NotificationPriority, int32(to), flow
	k.ip = append(k.ip, ip...)
	k.octets = int32(etherHeader + len(ip) + frameCheck)
	n.count.Notice += uint64(k.octets)
	return r
}

// octets returns the octets of a packet of data, valid until the next call.
func (n *Network) octets(k *packet) []byte {
	f, r := n.flows[k.flow], &n.roles
	p := &r.data
	p.Src, p.Dst = f.src.role.addr, f.dst.role.addr
	p.SrcPort, p.DstPort, p.HopLimit = 0xC000|uint16(f.index), rocev2.Port, 64
	p.TrafficClass = 26<<2 | rocev2.ECT0
	if k.ce {
		p.TrafficClass |= rocev2.CE
	}
	p.BTH.Header = bth.Header{
		Opcode: bth.RCSendMiddle, PKey: defaultPKey, DestQP: f.destQP(), PSN: k.number & 0xFFFFFF, AckReq: k.last,
	}
	switch {
	case k.first && k.last:
		p.BTH.Opcode = bth.RCSendOnly
	case k.first:
		p.BTH.Opcode = bth.RCSendFirst
	case k.last:
		p.BTH.Opcode = bth.RCSendLast
	}
	p.Payload = r.zeros[:k.octets-overhead]
	out, err := p.AppendBinary(r.frame[:0])
	if err != nil {
		panic("lab: " + err.Error()) // all fields are the laboratory's own
	}
	return out
}

// A hostRole is what a host is to notifications: the receiver that sends them and the
// sender that hears them.
type hostRole struct {
	of       *Host
	addr     netip.Addr
	receiver *receiver.Receiver
	sender   *sender.Sender
}

func newHostRole(h *Host, flows int) *hostRole {
	n := h.net
	addr := numbered(hostPrefix, h.index)
	r := receiver.Config{
		Enabled: n.cfg.Variant == CNP || n.cfg.Variant == CNPPolled || n.cfg.Variant == FastCNPMarks,
		Self6:   addr, QPs: pairs{n}, Interval: n.cfg.Interval, MaxFlows: max(1024, 4*flows), Seed: n.seed(),
	}
	if n.cfg.Variant == CNPPolled {
		r.Interval = 0 // who polls is limited by that
	}
	s := sender.Config{
		Enabled: n.cfg.Variant != None, Self6: addr, Accept: acl.New(switchPrefix), QPs: pairs{n},
		Window: n.cfg.Join, MaxSources: 4, MaxQPs: 4096, Seed: n.seed(),
	}
	return &hostRole{of: h, addr: addr, receiver: receiver.New(r), sender: sender.New(s)}
}

// marked is told of a packet with CE.
func (h *Host) marked(f *Flow, k *packet) {
	if h.net.cfg.Variant == CNPPolled {
		f.polled, f.ce = *k, true
		return
	}
	h.answer(k)
}

// polls begins to look at a flow, from its first packet on.
func (h *Host) polls(f *Flow) {
	if h.net.cfg.Variant == CNPPolled {
		f.poll.Set(&h.net.Sim, h.net.Sim.Now()+sim.From(h.net.cfg.Interval))
	}
}

// looks is the look of a receiver that polls.
func (h *Host) looks(f *Flow) {
	if f.ce {
		f.ce = false
		h.answer(&f.polled)
	}
	h.polls(f)
}

// answer asks the receiver for a CNP.
func (h *Host) answer(k *packet) {
	n, r := h.net, &h.net.roles
	if err := r.read.Decode(n.octets(k), rocev2.DecodeOptions{Link: rocev2.LinkIP}); err != nil {
		panic("lab: " + err.Error())
	}
	out, d := h.role.receiver.Receive(r.answer[:0], &r.read, n.Sim.Now().Clock())
	to, ok := index(hostPrefix, d.To)
	if d.Reason != node.Accepted || d.Kind == kinds.Other || !ok || to >= len(n.hosts) {
		n.count.Refused++
		return
	}
	n.count.CNPs++
	h.later(n.message(out, to, k.flow), n.cfg.ReceiverDelay)
}

// hears reads a notification, and tells the reaction point that it is about.
func (h *hostRole) hears(ip []byte) {
	n := h.of.net
	e, reason := h.sender.Receive(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP}, n.Sim.Now().Clock())
	i := int(e.QP)/2 - 1
	if reason != node.Accepted || !e.KnownQP || i < 0 || i >= len(n.flows) || n.flows[i].src != h.of {
		n.count.Refused++
		return
	}
	if e.Again {
		n.count.Again++
		return
	}
	n.flows[i].notified()
}

// sendPause sends a PFC frame for the data class to the neighbour at a port.
func (n *Network) sendPause(p *Port, quanta uint16) {
	prio := n.cfg.DataPriority
	frame := pfc.PFC{Enabled: 1 << prio}
	frame.Quanta[prio] = quanta
	r, k := n.pool.get()
	k.kind = control
	k.ip = frame.AppendFrame(k.ip, [6]byte{0x02, 0, 0, 0, byte(p.number >> 8), byte(p.number)})
	k.octets = int32(len(k.ip) + frameCheck)
	p.enqueue(r, k)
}

// paused reads a PFC frame that came in by a port.
func (n *Network) paused(in *Port, k *packet) {
	var frame pfc.PFC
	if _, err := frame.Decode(k.ip[etherHeader:]); err != nil {
		panic("lab: " + err.Error())
	}
	for prio, n := range frame.All() {
		in.pause(prio, in.net.Sim.Now()+quanta(n, in.rate))
	}
}
