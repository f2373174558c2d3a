package node_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// The nodes of testdata/messages.pcap.
var (
	sender4, sender6     = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:1::1")
	receiver4, receiver6 = netip.MustParseAddr("192.0.2.14"), netip.MustParseAddr("2001:db8:4::e")
	switch4, switch6     = netip.MustParseAddr("198.51.100.5"), netip.MustParseAddr("2001:db8:ffff::5")
	proxy4, proxy6       = netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("2001:db8:ffff::9")
	pe, egress           = netip.MustParseAddr("2001:db8:ffff::e1"), netip.MustParseAddr("2001:db8:ffff::e2")
)

// connected are the host's queue pairs: 0x21 of a sender sends to 0x11 of a receiver, and back.
type connected struct{}

func (connected) SourceQP(k qpmap.Key, _ time.Time) (qpmap.Pair, error) {
	for _, c := range []rocev2.FlowKey{{Src: sender4, Dst: receiver4}, {Src: sender6, Dst: receiver6}} {
		switch {
		case k.Src == c.Src && k.Dst == c.Dst && k.DestQP == 0x11:
			return qpmap.Pair{SrcQP: 0x21}, nil
		case k.Src == c.Dst && k.Dst == c.Src && k.DestQP == 0x21:
			return qpmap.Pair{SrcQP: 0x11}, nil
		}
	}
	return qpmap.Pair{}, qpmap.ErrUnknown
}

// observingPairs are connected pairs that learn one more of every packet to queue pair 0x12.
var observingPairs learner

type learner struct {
	connected
	last    qpmap.Key
	noPairs bool
}

func (l *learner) Observe(p *rocev2.Packet, domain uint32, _ time.Time) int {
	l.last = qpmap.Key{FlowKey: rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}, Domain: domain}
	if l.last.DestQP == 0x12 && !l.noPairs {
		return 1
	}
	return 0
}

func (l *learner) Learned() iter.Seq2[qpmap.Key, qpmap.Pair] {
	return func(yield func(qpmap.Key, qpmap.Pair) bool) {
		if l.last.DestQP == 0x12 {
			yield(l.last, qpmap.Pair{SrcQP: 0x22})
		}
	}
}

// A script is the input of a fuzzer. Reads after its end return zeros.
type script []byte

func (s *script) next() (b byte) {
	if len(*s) > 0 {
		b, *s = (*s)[0], (*s)[1:]
	}
	return b
}

func (s *script) nextOctets(n int) []byte {
	n = min(n, len(*s))
	b := (*s)[:n]
	*s = (*s)[n:]
	return b
}

// traffic returns the Ethernet frames that scripts choose from: messages of every kind with their headers, and data
// with all values of ECN, with and without tunnels.
func traffic(t testing.TB) (frames [][]byte) {
	for _, p := range wiretest.Capture(t, "messages.pcap") {
		frames = append(frames, p.Data)
	}
	ethernet := func(ip []byte) {
		etherType := "86dd"
		if ip[0]>>4 == 4 {
			etherType = "0800"
		}
		frames = append(frames, append(wiretest.Hex(t, "020000000002020000000001"+etherType), ip...))
	}
	for _, k := range []rocev2.FlowKey{
		{Src: sender6, Dst: receiver6, DestQP: 0x11}, {Src: sender4, Dst: receiver4, DestQP: 0x11},
		{Src: sender6, Dst: receiver6, DestQP: 0x12}, {Src: switch6, Dst: receiver6, DestQP: 0x11},
	} {
		p := rocev2.Packet{Payload: make([]byte, 8)}
		p.Src, p.Dst, p.SrcPort, p.DstPort = k.Src, k.Dst, 0xC000, rocev2.Port
		p.HopLimit = 64
		p.BTH.Opcode, p.BTH.DestQP, p.BTH.PKey = bth.RCSendOnly, k.DestQP, 0xFFFF
		for ecn := range rocev2.ECN(4) {
			ip, err := p.AppendBinary(nil)
			require.NoError(t, err)
			wiretest.SetECN(t, ip, uint8(ecn))
			ethernet(ip)
			for _, tunnel := range []encap.Tunnel{
				&encap.IPInIPv6{Src: pe, Dst: egress}, &encap.VXLAN{Src: egress, Dst: pe, Ethernet: make([]byte, 14)},
			} {
				outer := wiretest.Must(tunnel.Append(nil, ip, 0x12345))(t)
				ethernet(outer)
			}
		}
	}
	return frames
}

// A scriptRun is the state of a script in progress, with the last frame passed to the role and the last packet that it
// sent.
type scriptRun struct {
	t     testing.TB
	pool  [][]byte
	now   time.Time
	known time.Time     // time of the last frame with a known time
	ahead time.Duration // sum of all steps forward between frames; no clock can have advanced further
	last  []byte        // last packet sent by the role

	frame   rocev2.Frame
	options rocev2.DecodeOptions
}

// next makes the next frame of a script, or only lets time pass.
func (p *scriptRun) next(s *script) (received bool) {
	var octets []byte
	p.options = rocev2.DecodeOptions{}
	switch op := s.next(); op % 8 {
	case 0:
		step := time.Duration(1) << (s.next() % 42)
		if op&0x80 != 0 {
			step = -step
		}
		if p.now.IsZero() {
			p.now = p.known
		}
		p.now = p.now.Add(step)
		return false
	case 1:
		p.now = time.Time{}
		return false
	case 2, 3, 4: // one as it should be
		octets = p.pool[int(s.next())%len(p.pool)]
	case 5: // some octets of one are others, and it is cut; its ICRC may be right all the same
		octets = bytes.Clone(p.pool[int(s.next())%len(p.pool)])
		for range op >> 6 {
			octets[int(s.next())%len(octets)] ^= s.next()
		}
		octets = octets[:len(octets)-min(int(op>>5&1)*int(s.next()), len(octets))]
		if p.options.AllowTruncated = op&0x10 != 0; op&0x08 != 0 && len(octets) > 14 {
			_ = icrc.Write(octets[14:], icrc.AsSent)
		}
	case 6: // anything
		p.options.Link = rocev2.LinkType(op >> 3 % 6)
		octets = s.nextOctets(int(s.next()))
	case 7: // an answer to the last packet of the role
		p.options.Link = rocev2.LinkIP
		octets = p.returned(op >> 3)
	}
	p.frame.Decode(octets, p.options)
	if !p.now.IsZero() {
		p.ahead += max(p.now.Sub(p.known), 0)
		p.known = p.now
	}
	return true
}

// returned is the packet that was sent last, an FCN about it, or the ICMPv6 error of a host that does not know its
// Fast CNP option.
func (p *scriptRun) returned(how byte) []byte {
	if len(p.last) < 40 {
		return p.last
	}
	p.frame.Decode(p.last, p.options)
	switch how % 3 {
	case 0:
		if b, err := fcn.AppendFor(nil, &p.frame, switch6, 3, fcn.Config{}); err == nil {
			return b
		}
	case 1:
		src, dst := netip.AddrFrom16([16]byte(p.last[8:])), netip.AddrFrom16([16]byte(p.last[24:]))
		return wiretest.Rejection(dst, src, p.last)
	}
	return p.last
}

// limits are those of a Config, as far as a role has them.
type limits struct {
	out, perSource node.Rate // rates of sent or accepted packets
	perFlow        time.Duration
}

// A limitChecker has the limits, and the highest possible remainder of each.
type limitChecker struct {
	limits
	all     float64 // packets
	sources map[netip.Addr]float64
	flows   map[any]time.Duration // when one was sent last
	seen    time.Duration
}

// configure changes the limits. The remainder of a rate that has changed is not tracked.
func (j *limitChecker) configure(l limits) {
	if l.out != j.out {
		j.all = burst(l.out)
	}
	if l.perSource != j.perSource {
		j.sources = map[netip.Addr]float64{}
	}
	if j.perFlow == 0 || l.perFlow == 0 { // without a limit no time is kept
		j.flows = map[any]time.Duration{}
	}
	j.limits = l
}

func burst(r node.Rate) float64 { return float64(max(r.Burst, 1)) }

// pass lets time pass.
func (j *limitChecker) pass(ahead time.Duration) {
	seconds := (ahead - j.seen).Seconds()
	j.seen = ahead
	j.all = min(burst(j.out), j.all+j.out.PerSecond*seconds)
	for from, n := range j.sources {
		j.sources[from] = min(burst(j.perSource), n+j.perSource.PerSecond*seconds)
	}
}

// sent notes that something was sent about a flow, or accepted. Tables have room for four at least.
func (j *limitChecker) sent(t testing.TB, from netip.Addr, flow any) {
	const nearly = 1 - 1e-6
	if j.out.PerSecond > 0 {
		if j.all < nearly {
			t.Fatalf("%v exceeded: there were %v left", j.out, j.all)
		}
		j.all--
	}
	if j.perSource.PerSecond > 0 {
		left, ok := j.sources[from]
		if !ok {
			left = burst(j.perSource)
		}
		if left < nearly && len(j.sources) <= 4 {
			t.Fatalf("%v of %v exceeded: there were %v left", j.perSource, from, left)
		}
		j.sources[from] = max(left-1, 0)
	}
	if flow != nil && j.perFlow > 0 {
		if last, ok := j.flows[flow]; ok && len(j.flows) <= 4 && j.seen-last < j.perFlow {
			t.Fatalf("%v: only %v after the one before, not %v", flow, j.seen-last, j.perFlow)
		}
		j.flows[flow] = j.seen
	}
}

// A configurable role can be given other rules.
type configurable[C any] interface {
	node.Role
	Configure(C) error
}

// A fuzzedRole is a role with the parameters of its fuzz target.
type fuzzedRole[C any] struct {
	fresh   func(C) (configurable[C], error)
	configs []C // the first of them is on
	on      func(C) bool
	limits  func(C) limits
	self    []netip.Addr

	// receive passes a frame to a role in the way that op selects, one of ops.
	ops     byte
	receive func(r configurable[C], op byte, out []byte, p *scriptRun) (sent []byte, d node.Decision)
	// check checks further rules, and reports whether the limits are charged, with the source and the flow of the
	// message.
	check func(r configurable[C], c C, p *scriptRun, sent []byte, d node.Decision) (charged bool, from netip.Addr,
		flow any)
	state func(r configurable[C], now time.Time) any // visible state of the role; nil if there is none
}

// fuzz is a fuzz target that runs scripts. The seeds pass all frames to the role with each configuration.
func (c *fuzzedRole[C]) fuzz(f *testing.F) {
	pool := traffic(f)
	for i := range c.configs {
		for op := range c.ops {
			f.Add([]byte(scriptOfAll(pool, byte(i), op)))
		}
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		if len(s) <= 1000 {
			c.perform(t, pool, s)
		}
	})
}

// scriptOfAll returns a script that passes all frames to a role in one way, under some rules, with the answers to the
// packets that the role sends.
func scriptOfAll(pool [][]byte, config, op byte) script {
	s := script{0xF0 | op, config, 0, 0}
	for i := range pool {
		s = append(s, op, 2, byte(i), op+byte(i)%7|8, byte(7+8*(i%3)))
	}
	return s
}

// perform plays a script with a role, and with a twin that is switched off and on again in between, which changes
// nothing. Then it plays the script a second time, which allocates nothing.
//
// The checks of every frame do without package require: its calls of t.Helper took a third of the time.
func (c *fuzzedRole[C]) perform(t *testing.T, pool [][]byte, s script) {
	p := &scriptRun{t: t, pool: pool, known: time.Unix(1795254649, 0)}
	p.now = p.known
	cfg, off := c.configs[0], *new(C)
	role, twin := c.made(t, cfg), c.made(t, cfg)
	var j limitChecker
	j.configure(c.limits(cfg))
	out, twinOut := append(make([]byte, 0, 16<<10), 9), append(make([]byte, 0, 16<<10), 9)
	var scenes []scene
	for len(s) > 0 {
		op := s.next()
		if op&0xF0 == 0xF0 {
			cfg = c.configs[int(s.next())%len(c.configs)]
			c.configure(t, cfg, role, twin)
			if c.on(cfg) {
				j.configure(c.limits(cfg))
			}
		}
		if op&0x08 != 0 {
			c.configure(t, off, twin)
			c.configure(t, cfg, twin)
		}
		if !p.next(&s) {
			continue
		}
		octets := bytes.Clone(p.frame.Octets())
		scenes = append(scenes, scene{octets, p.options, p.now, op})
		before := maps.Collect(role.Counters().All())
		sent, d := c.receive(role, op, out, p)
		if !bytes.Equal(octets, p.frame.Octets()) || sent[0] != 9 {
			t.Fatalf("%x has changed to %x, or 9 to %d", octets, p.frame.Octets(), sent[0])
		}
		counted(t, before, maps.Collect(role.Counters().All()), d)
		c.outcome(t, cfg, p, sent[1:], d)
		j.pass(p.ahead)
		if charged, from, flow := c.check(role, cfg, p, sent[1:], d); charged {
			j.sent(t, from, flow)
		}
		same, twins := c.receive(twin, op, twinOut, p)
		if d.Trace != nil && twins.Trace != nil {
			twins.Trace = d.Trace // each has one of its own
		}
		if d != twins || !bytes.Equal(sent, same) {
			t.Fatalf("since it was off: %+v and %x, not %+v and %x", twins, same, d, sent)
		}
		if c.state != nil && !reflect.DeepEqual(c.state(role, p.now), c.state(twin, p.now)) {
			t.Fatalf("since it was off: %+v, not %+v", c.state(twin, p.now), c.state(role, p.now))
		}
		if len(sent) > 1 {
			p.last = bytes.Clone(sent[1:])
		}
	}
	observingPairs.noPairs = true // a range over the pairs of a Learner allocates
	defer func() { observingPairs.noPairs = false }()
	for tries := 0; ; tries++ { // something else may allocate meanwhile
		n := testing.AllocsPerRun(1, func() {
			for i := range scenes {
				scene := &scenes[i]
				p.now = scene.now
				p.frame.Decode(scene.octets, scene.options)
				c.receive(role, scene.op, out, p)
			}
		})
		if n == 0 {
			return
		} else if tries == 3 {
			t.Fatalf("%v allocations", n)
		}
	}
}

// A scene is a frame that was shown.
type scene struct {
	octets  []byte
	options rocev2.DecodeOptions
	now     time.Time
	op      byte
}

func (c *fuzzedRole[C]) made(t testing.TB, cfg C) configurable[C] {
	return wiretest.Must(c.fresh(cfg))(t)
}

func (c *fuzzedRole[C]) configure(t testing.TB, cfg C, roles ...configurable[C]) {
	for _, r := range roles {
		require.NoError(t, r.Configure(cfg))
	}
}

// counted fails the test unless a Decision was counted once, by its action, reason and mark.
func counted(t testing.TB, before, after map[node.Count]uint64, d node.Decision) {
	want := maps.Clone(before)
	if d.MarkECN {
		want[node.Count{Action: node.ActionMarked}]++
	}
	if d.Reason != node.NoReason {
		want[node.Count{Action: node.ActionRefused, Reason: d.Reason}]++
	}
	switch d.Action {
	case node.ActionSent, node.ActionAccepted, node.ActionDropped:
		want[node.Count{Action: d.Action, Message: d.Message}]++
	case node.ActionForwarded, node.ActionLearned, node.ActionPassed:
		want[node.Count{Action: d.Action}]++
	}
	for k, n := range after {
		extra := k.Effect != 0 || k == (node.Count{}) // counts in addition to actions
		if extra && n < before[k] || !extra && n != want[k] {
			t.Fatalf("%v: %d, not %d after %+v", k, n, want[k], d)
		}
		delete(want, k)
	}
	if len(want) > 0 {
		t.Fatalf("not counted: %v", want)
	}
}

// outcome fails the test unless a Decision fits the packet that was sent, and that packet is complete and comes from
// the node itself.
func (c *fuzzedRole[C]) outcome(t testing.TB, cfg C, p *scriptRun, sent []byte, d node.Decision) {
	switch {
	case d.Action == node.ActionRefused && (d.Reason == node.NoReason || d.Message != message.KindOther),
		(d.Action == node.NoAction || d.Action == node.ActionSent) && d.Reason != node.NoReason:
		t.Fatalf("%+v", d)
	}
	if !c.on(cfg) {
		require.Empty(t, sent)
		require.Contains(t, []node.Action{node.NoAction, node.ActionRefused}, d.Action)
		require.True(t, d.Reason == node.NoReason || d.Reason == node.ReasonDisabled, d.Reason)
	}
	if d.Action != node.ActionSent {
		if len(sent) > 0 && d.Action != node.ActionForwarded && d.Action != node.NoAction {
			t.Fatalf("%+v, and %x", d, sent)
		}
		return
	}
	var m message.Message
	of := message.Config{ProxyFamily: proxymsg.IPv6}
	if d.Flow.Src.Is4() {
		of.ProxyFamily = proxymsg.IPv4
	}
	require.NoError(t, m.Decode(sent, rocev2.DecodeOptions{Link: rocev2.LinkIP}, of))
	require.Equal(t, d.Message, m.Kind)
	require.Equal(t, d.To, m.Packet.Dst)
	require.NoError(t, rocev2.CheckAnswerable(d.To))
	require.Contains(t, c.self, m.Packet.Src)
	require.Zero(t, len(m.Packet.Outer))
	switch m.Kind {
	case message.KindFCN, message.KindProxy:
		require.NoError(t, m.Packet.Datagram.VerifyChecksum())
	default:
		_, err := icrc.Verify(sent)
		require.NoError(t, err)
	}
}

// kind returns the kind of a frame as a monitor sees it, inside its tunnels.
func (p *scriptRun) kind() message.Kind {
	var m message.Message
	if _ = m.DecodeView(p.frame.Outer(), message.Config{}); m.Kind == message.KindOther {
		_ = m.DecodeView(p.frame.Inner(), message.Config{})
	}
	return m.Kind
}

// All roles are a Role.
var (
	_ node.Role = (*border.Role)(nil)
	_ node.Role = (*congested.Role)(nil)
	_ node.Role = (*ingress.Role)(nil)
	_ node.Role = (*pause.Role)(nil)
	_ node.Role = (*proxy.Role)(nil)
	_ node.Role = (*receiver.Role)(nil)
	_ node.Role = (*sender.Role)(nil)
)

func run[C any](t *testing.T, r configurable[C], cfg C) node.Role {
	require.NoError(t, r.Configure(cfg))
	return r
}

// roles returns all roles by name, on or off, with queue pairs that know none.
func roles(t *testing.T, on bool) map[string]node.Role {
	four, six := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")
	all := acl.New(netip.MustParsePrefix("::/0"), netip.MustParsePrefix("0.0.0.0/0"))
	var none *qpmap.Map
	return map[string]node.Role{
		"border":    run(t, new(border.Role), border.Config{Enabled: on}),
		"congested": run(t, new(congested.Role), congested.Config{Enabled: on, Self4: four, Self6: six}),
		"ingress": run(t, new(ingress.Role),
			ingress.Config{Enabled: on, WAN: six, Self4: four, Self6: six, Accept: all, QPs: none}),
		"pause": run(t, new(pause.Role), pause.Config{Enabled: on, Self4: four, Self6: six, Accept: all, QPs: none}),
		"proxy": run(t, new(proxy.Role), proxy.Config{Enabled: on, Self4: four, Self6: six, Accept: all, QPs: none}),
		"receiver": run(t, new(receiver.Role),
			receiver.Config{Enabled: on, Self4: four, Self6: six, QPs: none}),
		"sender": run(t, new(sender.Role),
			sender.Config{Enabled: on, Self4: four, Self6: six, Accept: all, QPs: none}),
	}
}

// Frames of all kinds, addressed to the role or not, complete or truncated, have no effect on a role that is off,
// except for its counters. A role that is on works with a nil table of queue pairs. Both count their decisions.
func TestRoles(t *testing.T) {
	var frames [][]byte
	for _, p := range wiretest.Capture(t, "messages.pcap") {
		frames = append(frames, p.Data)
	}
	frames = append(frames, wiretest.Hex(t, // a Parameter Problem, ICMPv6 type 4
		"020000000001 020000000002 86dd 60000000 0008 3a40 20010db8000000000000000000000001"+
			"20010db8000000000000000000000002 04020000 00000028"))
	for _, on := range []bool{false, true} {
		for name, role := range roles(t, on) {
			t.Run(name, func(t *testing.T) {
				var f rocev2.Frame
				actions, reasons := map[node.Action]uint64{}, map[node.Reason]uint64{}
				for _, octets := range frames {
					for _, ownAddress := range []bool{false, true} {
						octets := append([]byte(nil), octets...)
						if ownAddress {
							toOwn(octets)
						}
						for n := 14; n <= len(octets); n++ {
							f.Decode(octets[:n], rocev2.DecodeOptions{AllowTruncated: n < len(octets)})
							out, d := role.Receive(nil, &f, node.Event{Now: time.Unix(1795254649, 0)})
							require.Empty(t, out)
							if !on && d.Action != node.NoAction {
								require.Equal(t, []any{node.ActionRefused, node.ReasonDisabled}, []any{d.Action,
									d.Reason})
							}
							actions[d.Action]++
							reasons[d.Reason]++
						}
					}
				}
				if !on {
					require.NotZero(t, reasons[node.ReasonDisabled])
				}
				for reason, n := range reasons {
					if reason != node.NoReason {
						got := role.Counters().Load(node.Count{Action: node.ActionRefused, Reason: reason})
						require.Equal(t, n, got, reason)
					}
				}
				for action, n := range actions {
					if action != node.NoAction && action != node.ActionRefused { // which are counted by reason
						require.Equal(t, n, role.Counters().Load(node.Count{Action: action}), action)
					}
				}
			})
		}
	}
}

// An actingRole is a role that acts on frames of traffic, with these actions.
type actingRole struct {
	name    string
	newRole func() node.Role
	actions []node.Action
}

// actingRoles returns each role, enabled, with these queue pairs, and the actions that it takes on traffic.
func actingRoles(t *testing.T, qps node.Pairs) []actingRole {
	senders := acl.NewMap(acl.Entry[proxy.Answer]{Prefix: anySource, Value: proxy.AnswerCNP},
		acl.Entry[proxy.Answer]{Prefix: anybody4, Value: proxy.AnswerCNP})
	methods := acl.NewMap(acl.Entry[congested.Method]{Prefix: anySource, Value: congested.MethodFastCNP})
	return []actingRole{
		{"border", func() node.Role {
			return wiretest.Must(border.New(border.Config{Enabled: true}))(t)
		}, []node.Action{node.ActionPassed, node.ActionDropped}},
		{"congested", func() node.Role {
			return wiretest.Must(congested.New(congested.Config{Enabled: true, Self6: switch6, Methods: methods}))(t)
		}, []node.Action{node.ActionSent}},
		{"ingress", func() node.Role {
			return wiretest.Must(ingress.New(ingress.Config{Enabled: true, WAN: pe, Self4: switch4, Self6: proxy6,
				Accept: all, QPs: qps, Tunnel: &encap.IPInIPv6{Src: pe, Dst: egress}}))(t)
		}, []node.Action{node.ActionSent, node.ActionForwarded}},
		{"pause", func() node.Role {
			return wiretest.Must(pause.New(pause.Config{Enabled: true, Self4: sender4, Self6: sender6, Accept: all}))(t)
		}, []node.Action{node.ActionAccepted}},
		{"proxy", func() node.Role {
			return wiretest.Must(proxy.New(proxy.Config{Enabled: true, Self4: proxy4, Self6: proxy6, Accept: all,
				QPs: qps, Senders: senders}))(t)
		}, []node.Action{node.ActionSent}},
		{"receiver", func() node.Role {
			return wiretest.Must(receiver.New(receiver.Config{Enabled: true, Self4: receiver4, Self6: receiver6,
				QPs: qps}))(t)
		}, []node.Action{node.ActionSent}},
		{"sender", func() node.Role {
			return wiretest.Must(sender.New(sender.Config{Enabled: true, Self4: sender4, Self6: sender6, Accept: all,
				QPs: qps}))(t)
		}, []node.Action{node.ActionAccepted}},
	}
}

// With Event.Observe no role answers, accepts, marks, forwards or drops a frame, although each does so without it.
func TestObservedFramesAreOnlyLearned(t *testing.T) {
	for _, c := range actingRoles(t, connected{}) {
		t.Run(c.name, func(t *testing.T) {
			observing, deciding := c.newRole(), c.newRole()
			var f rocev2.Frame
			actions := map[node.Action]bool{}
			for _, octets := range traffic(t) {
				for level := range uint8(2) {
					f.Decode(octets, rocev2.DecodeOptions{})
					e := node.Event{Level: level, Now: time.Unix(1795254649, 0)}
					_, d := deciding.Receive(nil, &f, e)
					actions[d.Action] = true
					e.Observe = true
					out, d := observing.Receive([]byte{9}, &f, e)
					require.Equal(t, []byte{9}, out)
					require.Equal(t, node.NoAction, d.Action, "%v, %x", d.Reason, octets)
				}
			}
			for _, a := range c.actions {
				require.True(t, actions[a], a)
			}
		})
	}
}

// countingPairs are connected pairs that count the packets that they observe.
type countingPairs struct {
	connected
	observed *int
}

func (c countingPairs) Observe(*rocev2.Packet, uint32, time.Time) int { *c.observed++; return 0 }

func (countingPairs) Learned() iter.Seq2[qpmap.Key, qpmap.Pair] {
	return maps.All(map[qpmap.Key]qpmap.Pair{})
}

// A frame that cannot be decoded is not treated as the frame before it: it is not answered, accepted or learned from.
func TestUndecodableFrameAfterAnother(t *testing.T) {
	observed := 0
	for _, c := range actingRoles(t, countingPairs{observed: &observed}) {
		if c.name == "border" { // it passes and drops broken frames as well
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			role := c.newRole()
			var f rocev2.Frame
			for _, octets := range traffic(t) {
				f.Decode(octets, rocev2.DecodeOptions{})
				ip := octets[bytes.Index(octets, f.Inner().IP()):]
				next, udp := &ip[6], 40
				if ip[0]>>4 == 4 {
					next, udp = &ip[9], 20
				}
				damages := []func(){func() { *next = 6 }} // TCP
				if *next == 17 {
					damages = append(damages, func() { ip[udp+4], ip[udp+5] = 0, 9 }) // the UDP length
				}
				for level := range uint8(2) {
					e := node.Event{Level: level, Now: time.Unix(1795254649, 0)}
					for _, damage := range damages {
						f.Decode(octets, rocev2.DecodeOptions{})
						role.Receive(nil, &f, e)
						was, before := bytes.Clone(ip), observed
						damage()
						f.Decode(octets, rocev2.DecodeOptions{})
						_, d := role.Receive(nil, &f, e)
						require.NotContains(t, []node.Action{node.ActionSent, node.ActionAccepted, node.ActionMarked,
							node.ActionLearned}, d.Action, "%x", octets)
						require.Equal(t, before, observed)
						copy(ip, was)
					}
				}
			}
			if c.name != "pause" && c.name != "congested" {
				require.NotZero(t, observed)
			}
			observed = 0
		})
	}
}

// toOwn makes an address of a role the destination of a frame.
func toOwn(frame []byte) {
	switch {
	case len(frame) >= 14+20 && frame[14]>>4 == 4:
		copy(frame[14+16:], []byte{192, 0, 2, 9})
	case len(frame) >= 14+40 && frame[14]>>4 == 6:
		own := netip.MustParseAddr("2001:db8::9").As16()
		copy(frame[14+24:], own[:])
	}
}

// The Decision about a message from a node that is not on the access list names that node.
func TestFromOfRefused(t *testing.T) {
	from, self := netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("2001:db8::1")
	c := cnp.New(0x11, 0xFFFF)
	aCNP := wiretest.Must(c.AppendPacket(nil, from, self, cnp.Config{}))(t)
	n := ppfc.New(7, 0xFFFF, ppfc.Extension{Congested: from, Type: ppfc.Stop})
	aPPFC := wiretest.Must(n.AppendPacket(nil, from, self, ppfc.Config{}))(t)
	m := fcn.Message{FlowLabel: 5, Level: 3}
	anFCN := wiretest.Must(m.AppendPacket(nil, from, self, fcn.Config{}))(t)
	toProxy := wiretest.Hex(t, "60000000 0008 11 40 20010db8000000000000000000000005"+
		"20010db8000000000000000000000001 c000"+fmt.Sprintf("%04x", proxymsg.Port)+"0008 0000")

	var f rocev2.Frame
	frame := func(octets []byte) *rocev2.Frame {
		f.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		return &f
	}
	now := time.Unix(1795254649, 0)
	check := func(name string, d node.Decision) {
		require.Equal(t, []any{node.ActionRefused, node.ReasonDenied, from}, []any{d.Action, d.Reason, d.From}, name)
	}
	s := wiretest.Must(sender.New(sender.Config{Enabled: true, Self6: self}))(t)
	_, sent := s.Receive(nil, frame(aPPFC), node.Event{Now: now})
	check("sender", sent)
	_, sent = s.Receive(nil, frame(aCNP), node.Event{Now: now})
	require.Equal(t, []any{node.ReasonUnknownQP, from}, []any{sent.Reason, sent.From}, "sender")
	table := wiretest.Must(pause.New(pause.Config{Enabled: true, Self6: self}))(t)
	_, paused := table.Receive(nil, frame(aPPFC), node.Event{Now: now})
	check("pause", paused)
	p := wiretest.Must(proxy.New(proxy.Config{Enabled: true, Self6: self}))(t)
	_, decision := p.Receive(nil, frame(toProxy), node.Event{Now: now})
	check("proxy", decision)
	agent := wiretest.Must(congested.New(congested.Config{Enabled: true, Self6: self}))(t)
	_, learned := agent.Receive(nil, frame(wiretest.Hex(t, "60000000 0008 3a40 20010db8000000000000000000000005"+
		"20010db8000000000000000000000001 04020000 00000028")), node.Event{Now: now})
	check("congested", learned)

	r := wiretest.Must(receiver.New(receiver.Config{Enabled: true, Self6: self}))(t)
	b := wiretest.Must(border.New(border.Config{Enabled: true}))(t)
	for _, octets := range [][]byte{aPPFC, aCNP, anFCN, toProxy} {
		_, d := r.Receive(nil, frame(octets), node.Event{Now: now})
		require.Zero(t, d.From, "receiver")
		_, d = b.Receive(nil, frame(octets), node.Event{Now: now})
		require.Zero(t, d.From, "border")
	}

	pe := wiretest.Must(ingress.New(ingress.Config{Enabled: true, WAN: self}))(t)
	_, named := pe.Receive(nil, frame(anFCN), node.Event{Now: now})
	check("ingress", named)
}
