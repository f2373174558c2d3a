package node_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A wire is a connection of queue pair a at host A with b at host B. psnA is the first PSN that A sends, psnB that of
// B.
type wire struct {
	A, B         netip.Addr
	a, b         uint32
	psnA, psnB   uint32
	commA, commB uint32
	transport    uint8
}

func newWire(transport uint8) wire {
	return wire{A: sender6, B: receiver6, a: 0x21, b: 0x31, psnA: 0x123456, psnB: 0xABCDEF, commA: 0xA1, commB: 0xB1,
		transport: transport}
}

// turned returns the same connection seen from B.
func (w wire) turned() wire {
	w.A, w.B, w.a, w.b, w.psnA, w.psnB, w.commA, w.commB = w.B, w.A, w.b, w.a, w.psnB, w.psnA, w.commB, w.commA
	return w
}

func (w wire) packet(op bth.Opcode, psn uint32) rocev2.Packet {
	p := rocev2.Packet{Datagram: rocev2.Datagram{Src: w.A, Dst: w.B, HopLimit: 64, SrcPort: 0xC123,
		DstPort: rocev2.Port, TrafficClass: uint8(rocev2.ECT0)}}
	p.BTH.Header = bth.Header{Opcode: op, PKey: 0xFFFF, DestQP: w.b, AckReq: true, PSN: psn & bth.MaxPSN}
	p.BTH.Present = op.Headers()
	return p
}

// request returns the n-th request from A, or with READ the READ of 2,048 octets with this PSN.
func (w wire) request(n uint32, read bool) rocev2.Packet {
	switch {
	case read:
		p := w.packet(bth.RCRDMAReadRequest, w.psnA+n)
		p.BTH.RETH.DMALength = 2048
		return p
	case w.transport == cm.TransportTypeUC:
		return w.packet(bth.UCSendOnly, w.psnA+n)
	}
	return w.packet(bth.RCSendOnly, w.psnA+n)
}

// response returns an acknowledgement of the n-th request, or a response to a READ.
func (w wire) response(op bth.Opcode, n uint32) rocev2.Packet {
	return w.turned().packet(op, w.psnA+n)
}

// datagram returns a datagram from a queue pair of A.
func (w wire) datagram(srcQP uint32) rocev2.Packet {
	p := w.packet(bth.UDSendOnly, 1)
	p.BTH.DETH = bth.DETH{QKey: 1, SrcQP: srcQP}
	return p
}

// management returns a packet of connection management from A.
func (w wire) management(a cm.Attribute, m interface {
	AppendBinary([]byte) ([]byte, error)
}) rocev2.Packet {
	w.b = cm.QP
	p := w.packet(bth.UDSendOnly, 0)
	p.BTH.DETH = bth.DETH{QKey: cm.QKey, SrcQP: cm.QP}
	h := cm.NewHeader(a, 1)
	p.Payload, _ = h.AppendBinary(nil)
	p.Payload, _ = m.AppendBinary(p.Payload)
	return p
}

// exchange returns a REQ of A and the REP of B.
func (w wire) exchange() []rocev2.Packet {
	return []rocev2.Packet{
		w.management(cm.AttributeREQ, &cm.REQ{LocalCommID: w.commA, LocalQPN: w.a, StartingPSN: w.psnB, PKey: 0xFFFF,
			PathMTU: 3, TransportType: w.transport, Primary: cm.Path{LocalGID: w.A, RemoteGID: w.B}}),
		w.turned().management(cm.AttributeREP, &cm.REP{LocalCommID: w.commB, RemoteCommID: w.commA, LocalQPN: w.b,
			StartingPSN: w.psnA}),
	}
}

// The roles that look up queue pairs.
const (
	atReceiver = iota // CNPs for marked packets
	atSender          // accepts the CNPs of the receiver
	atProxy           // CNPs for the messages of a switch
	atIngress         // CNPs for FCNs about the label of the flow
	rolesInAll
)

// A mark is the result of a role for a marked packet.
type mark uint8

const (
	unanswered mark = iota
	answered
	answeredWrongly
)

// A stage has the roles around a data packet's source and destination. Each has a map of its own.
type stage struct {
	t        *testing.T
	receiver *receiver.Role
	sender   *sender.Role
	proxy    *proxy.Role
	ingress  *ingress.Role
	now      time.Time
	source   netip.Addr         // of the data packets
	routed   bool               // packets of the source have a Segment Routing header
	waiting  func()             // the notifications about the last marked packet, which come when the next packet does
	marks    [][rolesInAll]mark // by marked packet and role
}

var egressWAN = netip.MustParseAddr("2001:db8:ffff::e2")

func newStage(t *testing.T, source, destination netip.Addr, routed bool) *stage {
	pairs := func() *qpmap.Map {
		return qpmap.New(qpmap.Config{MaxPairs: 64, MaxPending: 64, MaxOpen: 64, Seed: 1})
	}
	accept := acl.New(netip.PrefixFrom(switch6, 128))
	return &stage{
		t: t, source: source, routed: routed, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		receiver: wiretest.Must(receiver.New(receiver.Config{Enabled: true, Self6: destination, QPs: pairs()}))(t),
		sender:   wiretest.Must(sender.New(sender.Config{Enabled: true, Self6: source, QPs: pairs()}))(t),
		proxy: wiretest.Must(proxy.New(proxy.Config{Enabled: true, Self6: proxy6, Accept: accept, QPs: pairs(),
			Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: netip.PrefixFrom(source, 128),
				Value: proxy.AnswerCNP})}))(t),
		ingress: wiretest.Must(ingress.New(ingress.Config{Enabled: true, WAN: pe, Self6: pe, Accept: accept,
			QPs: pairs(), Tunnel: &encap.IPInIPv6{Src: pe, Dst: egressWAN}}))(t),
	}
}

// segment is a router on the way of packets with a Segment Routing header.
var segment = netip.MustParseAddr("2001:db8:5::5")

// setRoute adds a Segment Routing header (RFC 8754 section 2) with the packet's destination as the only segment. If
// left is 1, the packet is on its way to the router before that.
func setRoute(t *testing.T, p *rocev2.Packet, left byte) {
	at := p.Dst.As16()
	p.NextHeader, p.Ext = 43, append(wiretest.Hex(t, "1102040000000000"), at[:]...)
	if p.Ext[3] = left; left > 0 {
		p.Dst = segment
	}
}

func (s *stage) frame(ip []byte) *rocev2.Frame {
	f := new(rocev2.Frame)
	f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return f
}

// passPacket passes a packet to all roles. With marked, it is marked, and the roles have to notify srcQP, each when its
// notification comes: after the next packet.
func (s *stage) passPacket(p rocev2.Packet, marked bool, srcQP uint32) {
	s.now = s.now.Add(10 * time.Microsecond)
	if marked {
		p.TrafficClass |= uint8(rocev2.CE)
	}
	arrived := p
	if s.routed && p.Src == s.source {
		setRoute(s.t, &p, 1)
		setRoute(s.t, &arrived, 0)
	}
	ip := wiretest.Must(p.AppendBinary(nil))(s.t)
	e := node.Event{Now: s.now}
	s.sender.Receive(nil, s.frame(ip), e)
	s.proxy.Receive(nil, s.frame(ip), e)
	_, d := s.receiver.Receive(nil, s.frame(wiretest.Must(arrived.AppendBinary(nil))(s.t)), e)
	var wan []byte
	if p.Src == s.source {
		wan, _ = s.ingress.Receive(nil, s.frame(ip), e)
	} else {
		tunnel := encap.IPInIPv6{Src: egressWAN, Dst: pe}
		s.ingress.Receive(nil, s.frame(wiretest.Must(tunnel.Append(nil, ip, 7))(s.t)), e)
	}
	if !marked {
		return
	}
	s.notify()
	i := len(s.marks)
	s.marks = append(s.marks, [rolesInAll]mark{})
	judge := func(role int, d *node.Decision) {
		switch {
		case d.Action != node.ActionSent:
		case d.SrcQP == srcQP:
			s.marks[i][role] = answered
		default:
			s.marks[i][role] = answeredWrongly
		}
	}
	judge(atReceiver, &d)
	s.waiting = func() {
		e := node.Event{Now: s.now}
		c := cnp.New(srcQP, 0xFFFF)
		b := wiretest.Must(c.AppendPacket(nil, p.FinalDst(), p.Src, cnp.Config{}))(s.t)
		if _, d := s.sender.Receive(nil, s.frame(b), e); d.Action == node.ActionAccepted {
			s.marks[i][atSender] = answered
		}
		b = wiretest.Must(proxymsg.AppendFor(nil, s.frame(ip), switch6, proxy6, 3, proxymsg.Config{}))(s.t)
		_, d := s.proxy.Receive(nil, s.frame(b), e)
		judge(atProxy, &d)
		b = wiretest.Must(fcn.AppendFor(nil, s.frame(wan), switch6, 3, fcn.Config{}))(s.t)
		_, d = s.ingress.Receive(nil, s.frame(b), e)
		judge(atIngress, &d)
	}
}

// notify lets the notifications about the last marked packet come.
func (s *stage) notify() {
	if s.waiting != nil {
		s.waiting()
		s.waiting = nil
	}
}

// An attack is the traffic of a connection, and the packets that are forged.
type attack struct {
	name      string
	transport uint8
	withCM    bool
	reads     bool // A sends READs, and the responses are marked
	both      bool // B sends requests, too
	lockstep  bool // another connection between the hosts uses the same PSNs at the same time
	routed    bool // packets of A have a Segment Routing header
	turns     int  // requests
	interval  time.Duration
	pause     time.Duration                             // before request number 20
	gap       uint32                                    // PSNs that no role has seen, before request number 20
	forge     func(s *forger, turn int) []rocev2.Packet // before this request; with turn -1 before the connection
	after     func(s *forger, turn int) []rocev2.Packet // after this request
	lone      bool                                      // one forged packet, or those of one exchange
}

// A forger knows addresses and queue pairs, and guesses PSNs.
type forger struct{ *rand.Rand }

// guessWire returns the connection with PSNs that the forger guesses, and communication ids.
func (f *forger) guessWire(w wire) wire {
	w.psnA, w.psnB, w.commA, w.commB = f.guessPSN(w.psnA), f.guessPSN(w.psnB), f.Uint32(), f.Uint32()
	return w
}

// guessPSN returns a PSN that is far from those that follow first: one of 4,096 guesses would be right.
func (f *forger) guessPSN(first uint32) uint32 {
	return (first + 1<<20 + f.Uint32N(1<<24-1<<21)) & bth.MaxPSN
}

// forgeAny returns a packet of any kind.
func (f *forger) forgeAny(w wire) []rocev2.Packet {
	w = f.guessWire(w)
	if f.IntN(2) == 0 {
		w = w.turned()
	}
	exchange := w.exchange()
	return [][]rocev2.Packet{
		{w.request(0, false)}, {w.request(0, true)}, {w.response(bth.RCAcknowledge, 0)},
		{w.response(bth.RCRDMAReadResponseMiddle, 0)}, {w.packet(bth.UCSendOnly, w.psnA)}, {w.datagram(0x66)},
		exchange[:1], exchange[1:], exchange,
		{w.management(cm.AttributeDREQ, &cm.DREQ{LocalCommID: w.commA, RemoteCommID: w.commB, RemoteQPN: w.b})},
	}[f.IntN(10)]
}

// run plays the traffic with the forged packets, the gap and the header, or without.
func (a attack) run(t *testing.T, forged bool) *stage {
	if !forged {
		a.gap, a.routed = 0, false
	}
	w := newWire(a.transport)
	connections := []wire{w}
	if a.lockstep {
		other := w
		other.a, other.b, other.commA, other.commB = w.a+1, w.b+1, w.commA+1, w.commB+1
		connections = append(connections, other)
	}
	s := newStage(t, w.A, w.B, a.routed)
	if a.reads {
		s = newStage(t, w.B, w.A, false)
	}
	f := &forger{rand.New(rand.NewPCG(1, 2))}
	passForged := func(packets []rocev2.Packet) {
		for i := range packets {
			if forged {
				s.passPacket(packets[i], false, 0)
			}
		}
	}
	forge := func(by func(*forger, int) []rocev2.Packet, turn int) {
		if by != nil {
			passForged(by(f, turn))
		}
	}
	forge(a.forge, -1)
	for _, w := range connections {
		for _, p := range w.exchange() {
			if a.withCM {
				s.passPacket(p, false, 0)
			}
		}
	}
	psn := uint32(0)
	for turn := range a.turns {
		if turn == 20 {
			s.now = s.now.Add(a.pause)
			psn += a.gap
		}
		forge(a.forge, turn)
		for _, w := range connections {
			s.passPacket(w.request(psn, a.reads), !a.reads, w.a)
			if a.both {
				s.passPacket(w.turned().request(psn, false), false, 0)
			}
		}
		forge(a.after, turn)
		for _, w := range connections {
			switch {
			case a.reads:
				s.passPacket(w.response(bth.RCRDMAReadResponseFirst, psn), true, w.b)
				s.passPacket(w.response(bth.RCRDMAReadResponseLast, psn+1), true, w.b)
			case a.transport != cm.TransportTypeUC:
				s.notify()
				s.passPacket(w.response(bth.RCAcknowledge, psn), false, 0)
				if a.both {
					s.passPacket(w.turned().response(bth.RCAcknowledge, psn), false, 0)
				}
			}
		}
		s.now = s.now.Add(max(a.interval, time.Millisecond))
		if psn++; a.reads {
			psn++
		}
	}
	s.notify()
	return s
}

// lost returns the number of marked packets that all roles answer without forged packets, the number of those that each
// role no longer answers, and that of wrong answers.
func (s *stage) lost(without *stage) (marks int, lost [rolesInAll]int, wrong int) {
	for i := range s.marks {
		all := true
		for role, with := range s.marks[i] {
			before := without.marks[i][role]
			all = all && before == answered
			if before == answered && with != answered {
				lost[role]++
			}
			if with == answeredWrongly || before == answeredWrongly {
				wrong++
			}
		}
		if all {
			marks++
		}
	}
	return marks, lost, wrong
}

// once returns a function that forges packets before or after one request.
func once(at int, packets func(f *forger) []rocev2.Packet) func(*forger, int) []rocev2.Packet {
	return func(f *forger, turn int) []rocev2.Packet {
		if turn != at {
			return nil
		}
		return packets(f)
	}
}

// blind returns a function that forges some requests in the flow before each request of its sender.
func blind(n int) func(*forger, int) []rocev2.Packet {
	return func(f *forger, turn int) (all []rocev2.Packet) {
		for range n {
			all = append(all, f.guessWire(newWire(cm.TransportTypeRC)).request(0, false))
		}
		return all
	}
}

// eachSecond forges one packet a second, of any kind, if requests come each 50 ms.
func eachSecond(transport uint8) func(*forger, int) []rocev2.Packet {
	return func(f *forger, turn int) []rocev2.Packet {
		if turn%20 != 10 {
			return nil
		}
		return f.forgeAny(newWire(transport))
	}
}

// attacks are the attacks on queue pairs of SECURITY.md.
func attacks() []attack {
	const rc, uc = cm.TransportTypeRC, cm.TransportTypeUC
	request := func(f *forger) []rocev2.Packet {
		w := f.guessWire(newWire(rc))
		return []rocev2.Packet{w.turned().request(0, false)}
	}
	datagram := func(*forger) []rocev2.Packet { return []rocev2.Packet{newWire(rc).datagram(0x66)} }
	exchange := func(transport uint8) func(*forger) []rocev2.Packet {
		return func(f *forger) []rocev2.Packet { return f.guessWire(newWire(transport)).exchange() }
	}
	begun := func(f *forger) []rocev2.Packet {
		w := f.guessWire(newWire(uc))
		w.a = 0x66
		return append(w.exchange(), w.request(0, false))
	}
	const pause, often = 2 * time.Second, 50 * time.Millisecond
	return []attack{
		{name: "one request in the direction of READ responses", reads: true, turns: 200, forge: once(20, request),
			lone: true},
		{name: "one datagram in a pause of UC", transport: uc, withCM: true, turns: 200, pause: pause,
			forge: once(20, datagram), lone: true},
		{name: "one datagram in a pause of RC connections in lockstep", withCM: true, lockstep: true, turns: 200,
			pause: pause, forge: once(20, datagram), lone: true},
		{name: "REQ, REP and request of another sender in a pause of UC", transport: uc, withCM: true, turns: 200,
			pause: pause, forge: once(20, begun), lone: true},
		{name: "REQ and REP before an RC connection without CM", both: true, turns: 200, forge: once(-1, exchange(rc)),
			lone: true},
		{name: "one request for each one of the flow", turns: 500, after: blind(1)},
		{name: "ten requests for each one of the flow", turns: 500, after: blind(10)},
		{name: "no attack, UC: 2,048 packets not captured", transport: uc, withCM: true, turns: 200, gap: 2048},
		{name: "no attack, Segment Routing header without a tunnel", routed: true, turns: 200},
		{name: "one packet a second, RC", turns: 2000, interval: often, forge: eachSecond(rc)},
		{name: "one packet a second, RC known from CM", withCM: true, turns: 2000, interval: often,
			forge: eachSecond(rc)},
		{name: "one packet a second, RC in both directions", both: true, turns: 2000, interval: often,
			forge: eachSecond(rc)},
		{name: "one packet a second, READ", reads: true, turns: 2000, interval: often, forge: eachSecond(rc)},
		{name: "one packet a second, RC connections in lockstep", withCM: true, lockstep: true, turns: 1000,
			interval: often, forge: eachSecond(rc)},
		{name: "one packet a second, UC", transport: uc, withCM: true, turns: 2000, interval: often,
			forge: eachSecond(uc)},
	}
}

// Under forged packets the roles still know the queue pairs. SECURITY.md has the figures.
func TestForgedQueuePairs(t *testing.T) {
	wiretest.Alone(t)
	doc := string(wiretest.Must(os.ReadFile("../SECURITY.md"))(t))
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			marks, lost, wrong := a.run(t, true).lost(a.run(t, false))
			require.Zero(t, wrong)
			for _, n := range lost {
				if a.lone {
					require.LessOrEqual(t, n, 3)
				}
				require.LessOrEqual(t, 100*n, marks)
			}
			row := fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d |", a.name, marks, lost[atReceiver], lost[atSender],
				lost[atProxy], lost[atIngress], wrong)
			require.True(t, strings.Contains(doc, row+"\n"), "SECURITY.md: want the row\n%s", row)
		})
	}
}
