//go:build linux

package kerneltest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A bottleneck is a node that forwards between two devices in user space. The device towards the receiver is slow,
// and the node's agent answers packets when its queue is long. No qdisc of these kernels marks CE, so the node
// does.
//
//	sender ── in  node  out ── receiver
//	                    TBF
type bottleneck struct {
	sender, node, receiver *host
	start, in, out, end    *tap
	queue                  level.Thresholds // of the octets in the queue
	level                  uint8
	now                    time.Time // a millisecond per packet

	agent *congested.Role
	pairs *qpmap.Map // the hosts' knowledge of their own traffic
	send  *sender.Role
	recv  *receiver.Role

	sent      [][]byte // frames of the node and of the receiver, for tshark
	decisions []node.Decision
	events    []node.Decision
}

const (
	slow = "tbf rate 80bit burst 2000 limit 1000000"
	fast = "tbf rate 1gbit burst 100000 limit 1000000"
)

func newBottleneck(t *testing.T, cfg congested.Config) *bottleneck {
	t.Helper()
	wiretest.Tool(t, "tc")
	r := &bottleneck{
		sender: newHost(t, "sender"), node: newHost(t, "node"), receiver: newHost(t, "receiver"),
		queue: level.Thresholds{Up: []uint64{1, 10_000}}, now: time.Unix(1795254649, 0),
		pairs: qpmap.New(qpmap.Config{}),
	}
	connect(t, r.sender, "eth0", r.node, "in")
	connect(t, r.node, "out", r.receiver, "eth0")
	r.shape(t, "add", slow)
	r.start, r.in, r.out, r.end = r.sender.tap(t, "eth0"), r.node.tap(t, "in"), r.node.tap(t, "out"),
		r.receiver.tap(t, "eth0")
	cfg.Enabled, cfg.Self6 = true, switchAddr
	cfg.Methods = acl.NewMap(acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"),
		Value: congested.MethodFastCNP})
	agent := wiretest.Must(congested.New(cfg))(t)
	r.agent = agent
	r.send = wiretest.Must(sender.New(sender.Config{
		Enabled: true, Self6: senderAddr, Accept: acl.New(netip.PrefixFrom(switchAddr, 48)),
		QPs: notLearning{r.pairs}, Window: time.Hour,
	}))(t)
	r.recv = wiretest.Must(receiver.New(receiver.Config{
		Enabled: true, Self6: receiverAddr, QPs: notLearning{r.pairs}, PerFlow: time.Hour,
	}))(t)
	return r
}

// notLearning keeps a node from learning pairs.
type notLearning struct{ node.Pairs }

// frameOf decodes an Ethernet frame.
func frameOf(octets []byte) *rocev2.Frame {
	f := new(rocev2.Frame)
	f.Decode(octets, rocev2.DecodeOptions{})
	return f
}

// rejected passes an ICMPv6 message to the node's agent, as netio.ListenICMPv6 does, and returns the reason why it
// is not accepted.
func (r *bottleneck) rejected(from netip.Addr, octets []byte) node.Reason {
	ip := binary.BigEndian.AppendUint32([]byte{0x60, 0, 0, 0}, uint32(len(octets))<<16|58<<8|64)
	ip = append(append(append(ip, from.AsSlice()...), switchAddr.AsSlice()...), octets...)
	var f rocev2.Frame
	f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	_, d := r.agent.Receive(nil, &f, node.Event{Now: r.now})
	return d.Reason
}

// shape adds or changes the qdisc of the slow device.
func (r *bottleneck) shape(t *testing.T, verb, qdisc string) {
	t.Helper()
	_, err := r.node.TryRun("", "sh", "-c", "tc qdisc "+verb+" dev out root "+qdisc)
	require.NoError(t, err)
}

// flow is the replayed flow: the one with the largest packets in the rxe capture. Its queue pair differs from the
// sender's own, 0x11.
var (
	flow     = rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: 0x77}
	senderQP = uint32(0x11)
)

// traffic returns the data packets of the flow from a capture of soft-RoCE, with other addresses. Both hosts learn
// from them and from the answers.
func (r *bottleneck) traffic(t *testing.T) (data []rocev2.Packet) {
	t.Helper()
	requester := netip.MustParseAddr("fd77::2")
	for _, c := range wiretest.Capture(t, "rxe-verbs6.pcap") {
		var p rocev2.Packet
		if p.DecodeEthernet(c.Data) != nil || p.BTH.DestQP != 0x11 {
			continue
		}
		p.TrafficClass = uint8(rocev2.ECT0)
		if p.Src == requester {
			p.Src, p.Dst, p.BTH.DestQP = flow.Src, flow.Dst, flow.DestQP
			data = append(data, p)
		} else {
			p.Src, p.Dst = flow.Dst, flow.Src
		}
		r.pairs.Observe(&p, 0, r.now)
	}
	pair := wiretest.Must(r.pairs.SourceQP(qpmap.Key{FlowKey: flow}, r.now))(t)
	require.Equal(t, senderQP, pair.SrcQP)
	return data
}

// replay sends the packets through the node. The node's notifications reach the sender. answered is called for
// each packet, with the notification if there was one.
func (r *bottleneck) replay(t *testing.T, data []rocev2.Packet, notified func(frame []byte)) {
	t.Helper()
	for i := range data {
		r.now = r.now.Add(time.Millisecond)
		r.start.sendIP(t, r.in, whole(t, &data[i]))
		frame := r.in.receive(t, "data packet", isPacket(&data[i]))
		if i == len(data)-1 { // the last packet finds an empty queue, and pushes the others
			require.NotZero(t, r.node.backlog(t, "out"))
			r.shape(t, "change", fast)
		}
		r.forward(t, frame, notified)
	}
}

// forward handles a packet as the node does.
func (r *bottleneck) forward(t *testing.T, frame []byte, notified func(frame []byte)) {
	t.Helper()
	ip := frame[14:]
	if r.level = r.queue.Level(r.node.backlog(t, "out"), r.level); r.level > 0 {
		out, d := r.agent.Receive(nil, frameOf(frame), node.Event{Level: r.level, Now: r.now})
		r.decisions = append(r.decisions, d)
		if d.MarkECN {
			was := wiretest.SetECN(t, ip, uint8(rocev2.CE))
			require.NotEqual(t, rocev2.NotECT, was)
			r.sent = append(r.sent, frame)
		}
		if d.Message != message.KindOther {
			require.Equal(t, senderAddr, d.To)
			r.in.sendIP(t, r.start, out)
			notified(r.start.receive(t, "Fast CNP", isFrom(switchAddr)))
		}
	}
	r.out.sendIP(t, r.end, ip)
}

// arrive counts the ECN fields of the packets that arrive, and sends the receiver's CNPs back to the sender.
// Packets may arrive out of order: any CPU may take frames out of a qdisc, and delivers them itself.
func (r *bottleneck) arrive(t *testing.T, data []rocev2.Packet, notified func(frame []byte)) (ecn map[rocev2.ECN]int) {
	t.Helper()
	ecn = map[rocev2.ECN]int{}
	for missing := slices.Clone(data); len(missing) > 0; {
		frame := r.end.receive(t, "data packet", func(frame []byte) bool {
			i := slices.IndexFunc(missing, func(p rocev2.Packet) bool { return isPacket(&p)(frame) })
			if i < 0 {
				return false
			}
			missing = slices.Delete(missing, i, i+1)
			return true
		})
		var p rocev2.Packet
		require.NoError(t, p.DecodeEthernet(frame))
		_, err := icrc.Verify(p.IP)
		require.NoError(t, err, "a mark breaks nothing")
		ecn[p.ECN()]++
		out, d := r.recv.Receive(nil, frameOf(frame), node.Event{Now: r.now})
		if d.Message == message.KindOther {
			continue
		}
		r.end.sendIP(t, r.out, out)
		cnp := r.out.receive(t, "CNP", isFrom(receiverAddr))
		r.in.sendIP(t, r.start, cnp[14:])
		notified(r.start.receive(t, "CNP", isFrom(receiverAddr)))
	}
	return ecn
}

// accept handles a notification as the sender does.
func (r *bottleneck) accept(t *testing.T) func(frame []byte) {
	return func(frame []byte) {
		r.sent = append(r.sent, frame)
		_, d := r.send.Receive(nil, frameOf(frame), node.Event{Now: r.now})
		require.Equal(t, node.ActionAccepted, d.Action)
		require.Equal(t, senderQP, d.SrcQP)
		r.events = append(r.events, d)
	}
}

// isPacket matches a data packet by its PSN and opcode.
func isPacket(p *rocev2.Packet) func([]byte) bool {
	return func(frame []byte) bool {
		var got rocev2.Packet
		return got.DecodeEthernet(frame) == nil && got.Src == p.Src && got.BTH.PSN == p.BTH.PSN &&
			got.BTH.Opcode == p.BTH.Opcode
	}
}

// isFrom matches a notification by its source address.
func isFrom(src netip.Addr) func([]byte) bool {
	return func(frame []byte) bool {
		var got rocev2.Packet
		return got.DecodeEthernet(frame) == nil && got.Src == src && got.BTH.Opcode == bth.CNP
	}
}

// A sender of unknown capability gets both signals. The marks and the Fast CNP of one congestion are one event,
// and later ones repeat it.
func TestSenderUnknown(t *testing.T) {
	r := newBottleneck(t, congested.Config{PerFlow: [8]time.Duration{1: time.Hour, 2: time.Hour}})
	data := r.traffic(t)
	r.replay(t, data, r.accept(t))
	ecn := r.arrive(t, data, r.accept(t))

	require.NotEmpty(t, r.decisions)
	require.Equal(t, node.Decision{
		Action: node.ActionSent, Packet: message.KindData, Flow: qpmap.Key{FlowKey: flow}, Message: message.KindFastCNP,
		To: senderAddr, Option: 1, MarkECN: true,
	}, r.decisions[0])
	for _, d := range r.decisions[1:] { // the limit of Fast CNPs does not apply to marks
		require.Equal(t, node.Decision{
			Action: node.ActionMarked, Packet: message.KindData, Flow: qpmap.Key{FlowKey: flow},
			Reason: node.ReasonLimited, MarkECN: true,
		}, d)
	}
	require.Equal(t, map[rocev2.ECN]int{rocev2.ECT0: len(data) - len(r.decisions), rocev2.CE: len(r.decisions)}, ecn)
	require.Len(t, r.events, 2)
	require.Equal(t, []any{message.KindFastCNP, fastcnp.OriginNetwork, flow, false},
		[]any{r.events[0].Message, r.events[0].Origin, r.events[0].Flow.FlowKey, r.events[0].Repeated})
	require.Equal(t, []any{message.KindCNP, fastcnp.OriginReceiver, true},
		[]any{r.events[1].Message, r.events[1].Origin, r.events[1].Repeated})

	// tshark checks the sent packets: the first marked packet, the Fast CNP, the CNP.
	require.Len(t, r.sent, len(r.decisions)+2)
	rows := wiretest.Tshark(t, r.sent[0], r.sent[1], r.sent[len(r.sent)-1])
	require.Equal(t, []string{"3", "0x000077"},
		[]string{rows[0].Get("ipv6.tclass.ecn"), rows[0].Get("infiniband.bth.destqp")})
	require.Equal(t, []string{switchAddr.String(), senderAddr.String(), "0x000077"},
		[]string{rows[1].Get("ipv6.src"), rows[1].Get("ipv6.dst"), rows[1].Get("infiniband.bth.destqp")})
	require.Contains(t, rows[1].All("ipv6.opt.type"), fastcnp.Option1Type.String())
	require.Equal(t, []string{receiverAddr.String(), senderAddr.String(), "0x000011"},
		[]string{rows[2].Get("ipv6.src"), rows[2].Get("ipv6.dst"), rows[2].Get("infiniband.bth.destqp")})
	for _, row := range rows[1:] {
		require.EqualValues(t, 0x81, row.Uint("infiniband.bth.opcode"))
		require.False(t, row.Has("_ws.malformed"), row.Get("_ws.expert.message"))
	}
}

// For a capable sender, no packet arrives with CE: the node MUST NOT mark, and the receiver sends no CNP.
func TestSenderCapable(t *testing.T) {
	r := newBottleneck(t, congested.Config{
		Capable: acl.NewMap(acl.Entry[congested.Capability]{Prefix: netip.PrefixFrom(senderAddr, 128),
			Value: congested.Capable}),
	})
	data := r.traffic(t)
	r.replay(t, data, r.accept(t))
	ecn := r.arrive(t, data, func([]byte) { t.Error("a CNP without CE") })

	require.Equal(t, map[rocev2.ECN]int{rocev2.ECT0: len(data)}, ecn)
	require.NotEmpty(t, r.decisions)
	for _, d := range r.decisions {
		require.Equal(t, node.Decision{
			Action: node.ActionSent, Packet: message.KindData, Flow: qpmap.Key{FlowKey: flow},
			Message: message.KindFastCNP,
			To:      senderAddr, Option: 1,
		}, d)
	}
	require.Len(t, r.events, len(r.decisions))
	for i, e := range r.events {
		require.Equal(t, i > 0, e.Repeated)
	}
	for _, row := range wiretest.Tshark(t, r.sent...) {
		require.EqualValues(t, 0x81, row.Uint("infiniband.bth.opcode"))
		require.False(t, row.Has("_ws.malformed"), row.Get("_ws.expert.message"))
	}
}

// An unmodified Linux host answers each Fast CNP with an ICMPv6 error. After two of them the node sends it no Fast CNP
// and marks its packets.
func TestLinuxTurnsFastCNPOff(t *testing.T) {
	r := newBottleneck(t, congested.Config{})
	r.sender.set(t, "ipv6/icmp/ratelimit", 0)
	r.sender.address(t, "eth0", senderAddr.String()+"/64")
	r.sender.ip(t, "route add "+switchAddr.String()+" dev eth0\n"+
		fmt.Sprintf("neigh add %s lladdr %s dev eth0 nud permanent", switchAddr, r.in.mac))
	data := r.traffic(t)
	r.replay(t, data, func([]byte) {
		frame := r.in.receive(t, "ICMPv6 error", func(frame []byte) bool {
			const icmpv6, errors = 58, 128
			return len(frame) > 62 && frame[14]>>4 == 6 && frame[20] == icmpv6 && frame[54] < errors &&
				[16]byte(frame[38:54]) == switchAddr.As16()
		})
		ip := frame[14:]
		from := netip.AddrFrom16([16]byte(ip[8:24]))
		problem := ip[40 : 40+int(binary.BigEndian.Uint16(ip[4:]))]

		forged := append([]byte{}, problem...)
		forged[len(forged)-40+7] ^= 1 // about another queue pair
		require.Equal(t, node.ReasonDenied, r.rejected(from, forged))
		require.Equal(t, node.ReasonDenied, r.rejected(receiverAddr, problem))
		want := node.NoReason
		if len(r.decisions) == 1 {
			want = node.ReasonUnconfirmed
		}
		require.Equal(t, want, r.rejected(from, problem))
	})
	ecn := r.arrive(t, data, func([]byte) {})

	require.Greater(t, len(r.decisions), 3)
	for _, d := range r.decisions[:2] {
		require.Equal(t, node.Decision{
			Action: node.ActionSent, Packet: message.KindData, Flow: qpmap.Key{FlowKey: flow},
			Message: message.KindFastCNP, To: senderAddr, Option: 1, MarkECN: true,
		}, d)
	}
	for _, d := range r.decisions[2:] {
		require.Equal(t, node.Decision{
			Action: node.ActionMarked, Packet: message.KindData, Flow: qpmap.Key{FlowKey: flow}, MarkECN: true,
		}, d)
	}
	require.Equal(t, map[rocev2.ECN]int{rocev2.ECT0: len(data) - len(r.decisions), rocev2.CE: len(r.decisions)}, ecn)
	require.EqualValues(t, 1, r.agent.Counters().Load(node.Count{Action: node.ActionLearned}))
	for _, row := range wiretest.Tshark(t, r.sent...) {
		require.Equal(t, "3", row.Get("ipv6.tclass.ecn"))
	}
}

// A pausing is a host. Its queue pair 17 sends through a class of its own, and the token bucket of the class follows
// PPFC.
//
//	host ── congested
type pausing struct {
	host, congested *host
	end, far        *tap
	psn             uint32
}

var (
	pausedAddr = netip.MustParseAddr("2001:db8:1::1")
	remoteAddr = netip.MustParseAddr("2001:db8:1::e") // connected to the congested node
	nodeAddr   = netip.MustParseAddr("2001:db8:1::5")
)

const (
	stoppedPair = 17
	otherPair   = 18

	running = "rate 1gbit burst 100000 limit 1000000"
	stopped = "rate 8bit burst 1600 limit 1000000" // an octet per second once the bucket is empty
)

func newPausing(t *testing.T) *pausing {
	t.Helper()
	wiretest.Tool(t, "tc")
	p := &pausing{host: newHost(t, "host"), congested: newHost(t, "congested")}
	connect(t, p.host, "eth0", p.congested, "eth0")
	program, err := (&filter.Capture{Selection: filter.QueuePair, DestQP: stoppedPair}).Program(rocev2.LinkEthernet)
	require.NoError(t, err)
	file := wiretest.File(t, "qp.bpf", filter.Bytecode(program)+"\n")
	p.tc(t, "qdisc add dev eth0 root handle 1: htb default 1")
	p.tc(t, "class add dev eth0 parent 1: classid 1:1 htb rate 1gbit")
	p.tc(t, "class add dev eth0 parent 1: classid 1:2 htb rate 1gbit")
	p.tc(t, "qdisc add dev eth0 parent 1:2 handle 2: tbf "+running)
	p.tc(t, "filter add dev eth0 parent 1: bpf bytecode-file "+file+" flowid 1:2")
	p.end, p.far = p.host.tap(t, "eth0"), p.congested.tap(t, "eth0")
	return p
}

func (p *pausing) tc(t *testing.T, command string) {
	t.Helper()
	p.host.Run(t, command+"\n", "tc", "-batch", "-")
}

// follow sets the class to the state of a target. Hold and alarm do not stop it.
func (p *pausing) follow(t *testing.T, state pause.State) {
	t.Helper()
	rate := running
	if state == pause.StateStopped {
		rate = stopped
	}
	p.tc(t, "qdisc change dev eth0 parent 1:2 handle 2: tbf "+rate)
}

// send sends a packet of a queue pair with this number of octets of payload, and returns its PSN.
func (p *pausing) send(t *testing.T, qp uint32, payload int) uint32 {
	t.Helper()
	p.psn++
	d := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: qp, PSN: p.psn}},
		Payload: make([]byte, payload)}
	d.Src, d.Dst, d.SrcPort, d.DstPort, d.HopLimit = pausedAddr, remoteAddr, 49152, rocev2.Port, 64
	p.end.sendIP(t, p.far, whole(t, &d))
	return p.psn
}

// arrive waits until the packets with these PSNs have arrived, in any order, as any CPU may take frames out of a
// qdisc and delivers them itself. No other packet may arrive.
func (p *pausing) arrive(t *testing.T, psns ...uint32) {
	t.Helper()
	var d rocev2.Packet
	p.far.receive(t, "data packet", func(frame []byte) bool {
		if d.DecodeEthernet(frame) != nil || d.Src != pausedAddr {
			return false
		}
		i := slices.Index(psns, d.BTH.PSN)
		require.GreaterOrEqual(t, i, 0, "queue pair %d, PSN %d", d.BTH.DestQP, d.BTH.PSN)
		psns = slices.Delete(psns, i, i+1)
		return len(psns) == 0
	})
}

// notify makes the congested node send a PPFC, and the host apply it.
func (p *pausing) notify(t *testing.T, table *pause.Role, typ ppfc.Type, duration time.Duration,
	now time.Time) node.Decision {
	t.Helper()
	n := ppfc.New(stoppedPair, 0xFFFF, ppfc.Extension{Congested: remoteAddr, Type: typ, Pause: duration})
	b := wiretest.Must(n.AppendPacket(nil, nodeAddr, pausedAddr, ppfc.Config{}))(t)
	p.far.sendIP(t, p.end, b)
	var m message.Message
	frame := p.end.receive(t, "PPFC", func(frame []byte) bool {
		return m.Decode(frame, rocev2.DecodeOptions{}, message.Config{}) == nil && m.Kind == message.KindPPFC
	})
	_, d := table.Receive(nil, frameOf(frame), node.Event{Now: now})
	require.Equal(t, node.ActionAccepted, d.Action)
	return d
}

// A token bucket of Linux follows the actions. While a flow is stopped, none of its packets leaves the host, and
// those of another flow do. After a resume or the end of the time, all of them leave. The test sets the time.
func TestLinuxPauses(t *testing.T) {
	p := newPausing(t)
	table := wiretest.Must(pause.New(pause.Config{
		Enabled: true, Self6: pausedAddr, Accept: acl.New(netip.PrefixFrom(nodeAddr, 128)), MaxPause: time.Millisecond,
	}))(t)
	flow := pause.FlowTarget(remoteAddr, stoppedPair)
	now := time.Unix(1_800_000_000, 0)
	burst := func() (psns []uint32) {
		for range 20 {
			psns = append(psns, p.send(t, stoppedPair, 200))
		}
		return psns
	}
	stop := func() (waiting []uint32) {
		t.Helper()
		state, _ := table.State(flow, now)
		require.Equal(t, pause.StateStopped, state)
		p.follow(t, state)
		p.arrive(t, p.send(t, stoppedPair, 1420)) // nearly the capacity of the bucket
		waiting = burst()
		p.arrive(t, p.send(t, otherPair, 200))
		return waiting
	}
	resume := func(waiting []uint32) {
		t.Helper()
		state, _ := table.State(flow, now)
		require.Equal(t, pause.StateRunning, state)
		p.follow(t, state)
		p.arrive(t, append(waiting, p.send(t, stoppedPair, 200))...)
	}
	p.arrive(t, burst()...)

	p.notify(t, table, ppfc.Stop, 100*time.Microsecond, now)
	waiting := stop()
	next, ok := table.Next(now)
	require.True(t, ok)
	now = next.Add(-1)
	state, _ := table.State(flow, now)
	require.Equal(t, pause.StateStopped, state)
	now = next
	resume(waiting)

	p.notify(t, table, ppfc.Stop, ppfc.MaxPause, now)
	waiting = stop()
	now = now.Add(10 * time.Microsecond)
	p.notify(t, table, ppfc.Resume, 0, now)
	resume(waiting)

	for _, typ := range []ppfc.Type{ppfc.Hold, ppfc.Alarm} {
		p.follow(t, pause.StateAfter(p.notify(t, table, typ, time.Millisecond, now).Request))
		p.arrive(t, burst()...)
	}

	p.notify(t, table, ppfc.Resume, 0, now)
	p.notify(t, table, ppfc.Stop, ppfc.MaxPause, now) // its resume is lost
	waiting = stop()
	now = now.Add(time.Millisecond)
	resume(waiting)
}
