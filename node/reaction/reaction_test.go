package reaction

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

const µs = time.Microsecond

var start = time.Unix(1795254649, 0)

func flow(t *testing.T, cfg DCQCNConfig) *DCQCNFlow {
	d := wiretest.Must(NewDCQCN(cfg))(t)
	f := d.Start()
	return &f
}

// The paper's equations at 40 Gbit/s, by hand.
func TestStepByStep(t *testing.T) {
	f := flow(t, PaperDCQCN(40e9))
	at := func(d time.Duration) time.Time { return start.Add(d) }
	state := func(rate, target uint64, alpha float64, now time.Duration) {
		t.Helper()
		require.InDelta(t, alpha, f.Alpha(at(now)), 1e-9)
		require.Equal(t, rate, f.Rate())
		require.Equal(t, target, f.target)
	}
	state(40e9, 40e9, 1, 0)
	_, ok := f.Next()
	require.False(t, ok)

	f.Notified(at(0)) // α = 1: half, and α = 255/256 + 1/256
	state(20e9, 40e9, 1, 0)
	f.Notified(at(50 * µs)) // sooner than τ': α stays 1
	state(10e9, 20e9, 1, 50*µs)
	next, ok := f.Next()
	require.True(t, ok)
	require.Equal(t, at(105*µs), next.In(start.Location()))

	f.Advance(at(105*µs - 1))
	state(10e9, 20e9, 1, 105*µs-1)
	f.Advance(at(105 * µs)) // first stage of fast recovery; α falls
	state(15e9, 20e9, 255./256, 105*µs)
	state(17.5e9, 20e9, 255./256*255/256, 160*µs)

	// R_C = 17.5·(1 − α/2) with α = (255/256)², which then is (255/256)³ + 1/256.
	f.Notified(at(170 * µs))
	alpha := 255. * 255 / 256 / 256
	state(17.5e9-8_681_774_139, 17.5e9, alpha*255/256+1./256, 170*µs)
}

// Five stages are fast recovery, then the target rises by 40 Mbit/s.
func TestStages(t *testing.T) {
	f := flow(t, PaperDCQCN(40e9))
	f.Notified(start)
	f.Notified(start)
	for i, want := range []uint64{15e9, 17.5e9, 18.75e9, 19.375e9, 19.6875e9, 19.86375e9, 19.971875e9} {
		f.Advance(start.Add(time.Duration(i+1) * 55 * µs))
		require.Equal(t, want, f.Rate(), "stage %d", i+1)
	}
	require.EqualValues(t, 20.08e9, f.target)
}

// The byte counter has stages of its own; either may be the one that is ahead.
func TestByteCounter(t *testing.T) {
	f := flow(t, PaperDCQCN(40e9))
	f.Notified(start)
	f.Notified(start)
	f.Sent(9_999_999, start)
	require.EqualValues(t, 10e9, f.Rate())
	f.Sent(1, start)
	require.EqualValues(t, 15e9, f.Rate())
	for range 5 {
		f.Sent(10_000_000, start)
	}
	require.EqualValues(t, 20.04e9, f.target, "the sixth stage is additive")
	f.Advance(start.Add(55 * µs))
	require.EqualValues(t, 20.08e9, f.target, "and so is the timer's first, as the byte counter is past them")
	f.Notified(start.Add(56 * µs))
	rate, target := f.Rate(), f.target
	f.Sent(10_000_000, start.Add(57*µs))
	require.Equal(t, target, f.target, "a notification begins at the first stage")
	require.Equal(t, (rate+target+1)/2, f.Rate())
}

func TestHyper(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*DCQCNConfig)
		targets []uint64 // above 20 Gbit/s, in Mbit/s, after each round of both
	}{
		{"off", func(*DCQCNConfig) {}, []uint64{0, 0, 80, 160, 240, 320}},
		{"on", func(c *DCQCNConfig) { c.Hyper = 100e6 }, []uint64{0, 0, 40 + 100, 340, 540, 740}},
		{"growing", func(c *DCQCNConfig) { c.Hyper, c.HyperGrows = 100e6, true }, []uint64{0, 0, 140,
			140 + 100 + 200, 440 + 200 + 300, 940 + 300 + 400}},
		{"no byte counter", func(c *DCQCNConfig) { c.Hyper, c.ByteCounter = 100e6, 0 },
			[]uint64{0, 0, 40, 140, 240, 340}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := PaperDCQCN(40e9)
			cfg.Stages, cfg.ByteCounter = 2, 1000
			c.change(&cfg)
			f := flow(t, cfg)
			f.Notified(start)
			f.Notified(start)
			for i, want := range c.targets {
				now := start.Add(time.Duration(i+1) * 55 * µs)
				f.Advance(now) // first the timer's stage, then the byte counter's
				f.Sent(1000, now)
				require.Equal(t, 20e9+want*1e6, f.target, "round %d", i+1)
			}
		})
	}
}

// A second notification within 4 µs waits for the gate; of more, one counts.
func TestGate(t *testing.T) {
	f := flow(t, ConnectX(100e9))
	f.Notified(start)
	first := f.Rate()
	require.EqualValues(t, 100e9-100e9*1023/1024/2, first, "the first cuts immediately")
	f.Notified(start.Add(time.Microsecond))
	f.Notified(start.Add(2 * time.Microsecond))
	require.Equal(t, first, f.Rate())
	next, ok := f.Next()
	require.True(t, ok)
	require.True(t, next.Equal(start.Add(4*µs)))
	f.Advance(start.Add(4*µs - 1))
	require.Equal(t, first, f.Rate())
	f.Advance(start.Add(4 * µs))
	second := f.Rate()
	require.InDelta(t, float64(first)/2, float64(second), 1e9)
	require.EqualValues(t, 100e9, f.target, "no stage of the timer lies between the two")
	f.Advance(start.Add(8 * µs))
	require.Equal(t, second, f.Rate(), "the gate opens for nothing")
	f.Advance(start.Add(304 * µs))
	require.Equal(t, (second+100e9+1)/2, f.Rate())
	third := f.Rate()
	f.Notified(start.Add(305 * µs))
	require.Equal(t, third, f.target, "after a stage of the timer the target is the rate")
}

// α of ConnectX moves each microsecond: up where a notification came in it.
func TestAlphaByTimer(t *testing.T) {
	f := flow(t, ConnectX(100e9))
	f.Notified(start)
	alpha := 1023. / 1024
	require.InDelta(t, alpha, f.Alpha(start.Add(µs-1)), 1e-9)
	alpha = alpha*1019/1024 + 5./1024
	require.InDelta(t, alpha, f.Alpha(start.Add(µs)), 1e-9)
	for range 9 {
		alpha = alpha * 1019 / 1024
	}
	require.InDelta(t, alpha, f.Alpha(start.Add(10*µs)), 1e-8)
	require.Zero(t, f.Alpha(start.Add(time.Hour)))
}

// The history of one flow does not affect another: α belongs to the flow, not to the port.
func TestTwoHistories(t *testing.T) {
	d := wiretest.Must(NewDCQCN(PaperDCQCN(40e9)))(t)
	a, b := d.Start(), d.Start()
	a.Notified(start)
	for i := range 2000 { // two in three intervals are quiet
		a.Notified(start.Add(time.Duration(i) * 165 * µs))
	}
	now := start.Add(time.Second)
	require.Less(t, a.Alpha(now), 0.1)
	require.EqualValues(t, 1, b.Alpha(now))
	b.Notified(now)
	require.EqualValues(t, 20e9, b.Rate())
	alpha, rate := a.Alpha(now), a.Rate()
	a.Notified(now)
	require.InDelta(t, float64(rate)*(1-alpha/2), float64(a.Rate()), 2)
}

// naive is the paper's text with floating point, each timer an event of its own.
type naive struct {
	cfg                   DCQCNConfig
	rc, rt, alpha         float64
	timer, alphaAt        time.Duration
	stages, bytes, octets uint64
	any                   bool
}

func (n *naive) to(now time.Duration) {
	for {
		timer, alpha := n.timer+n.cfg.Timer, n.alphaAt+n.cfg.AlphaTimer
		switch {
		case n.any && alpha <= now && alpha <= timer:
			n.alpha, n.alphaAt = (1-n.cfg.Gain)*n.alpha, alpha
		case n.any && timer <= now:
			n.timer = timer
			n.stages++
			n.increase()
		default:
			return
		}
	}
}

func (n *naive) increase() {
	f := uint64(n.cfg.Stages)
	if n.stages > f || n.bytes > f {
		n.rt = math.Min(n.rt+float64(n.cfg.Additive), float64(n.cfg.Line))
	}
	n.rc = (n.rc + n.rt) / 2
}

func (n *naive) notify(now time.Duration) {
	n.to(now)
	n.rt, n.rc = n.rc, math.Max(n.rc*(1-n.alpha/2), float64(n.cfg.Min))
	n.alpha = (1-n.cfg.Gain)*n.alpha + n.cfg.Gain
	n.timer, n.alphaAt, n.any = now, now, true
	n.stages, n.bytes, n.octets = 0, 0, 0
}

func (n *naive) send(octets uint64, now time.Duration) {
	n.to(now)
	if n.octets += octets; n.any && n.octets >= n.cfg.ByteCounter {
		n.octets -= n.cfg.ByteCounter
		n.bytes++
		n.increase()
	}
}

// Random histories, against the paper's text in floating point, at every rate.
func TestAgainstText(t *testing.T) {
	for _, line := range []uint64{10e9, 40e9, 100e9, 400e9, 1600e9, maxLine} {
		cfg := PaperDCQCN(line)
		cfg.ByteCounter = 1_000_000
		for seed := range uint64(wiretest.Rounds(20)) {
			random := rand.New(rand.NewPCG(line, seed))
			f := flow(t, cfg)
			n := &naive{cfg: cfg, rc: float64(line), rt: float64(line), alpha: 1}
			now := time.Duration(0)
			for range 3000 {
				now += time.Duration(random.IntN(20_000))
				switch random.IntN(50) {
				case 0:
					f.Notified(start.Add(now))
					n.notify(now)
				case 1:
					f.Advance(start.Add(now))
					n.to(now)
				default:
					f.Sent(4096, start.Add(now))
					n.send(4096, now)
				}
				require.InEpsilon(t, n.rc, float64(f.Rate()), 1e-6)
				require.InEpsilon(t, n.rt, float64(f.target), 1e-6)
				require.InEpsilon(t, n.alpha, f.Alpha(start.Add(now)), 1e-5)
			}
		}
	}
}

// At 400 Gbit/s and more nothing overflows, at either end.
func TestFastPorts(t *testing.T) {
	for _, line := range []uint64{400e9, 800e9, 1600e9, maxLine} {
		for _, cfg := range []DCQCNConfig{PaperDCQCN(line), ConnectX(line)} {
			cfg.Hyper, cfg.HyperGrows = maxLine, true
			f := flow(t, cfg)
			now := start
			for range 100 {
				before := f.Rate()
				now = now.Add(4 * µs)
				f.Notified(now)
				require.LessOrEqual(t, f.Rate(), before)
			}
			require.Less(t, f.Rate(), line/1000)
			require.GreaterOrEqual(t, f.Rate(), cfg.Min)
			for i := range 100_000 {
				before := f.Rate()
				f.Sent(65536, now)
				f.Advance(now.Add(time.Duration(i) * µs))
				if f.Rate() < before { // require would take long, so often
					t.Fatalf("%d after %d", f.Rate(), before)
				}
			}
			require.Equal(t, line, f.Rate())
		}
	}
}

func TestBackToLine(t *testing.T) {
	f := flow(t, PaperDCQCN(40e9))
	now := start
	f.Notified(now)
	for range 10_000 {
		next, ok := f.Next()
		if !ok {
			break
		}
		require.True(t, next.After(now))
		now = next
		f.Advance(now)
	}
	_, ok := f.Next()
	require.False(t, ok, "nothing is left to be done")
	require.EqualValues(t, 40e9, f.Rate())
	f.Sent(1<<30, now)
	require.EqualValues(t, 40e9, f.Rate())
}

// Times that go back, and those far ahead, neither hang nor speed anything up.
func TestTimes(t *testing.T) {
	f := flow(t, PaperDCQCN(40e9))
	f.Notified(start)
	rate := f.Rate()
	f.Advance(start.Add(-time.Hour))
	f.Notified(start.Add(-time.Hour))
	require.Less(t, f.Rate(), rate)
	f.Advance(start.Add(54 * µs))
	require.EqualValues(t, 10e9, f.Rate())

	cfg := PaperDCQCN(400e9)
	cfg.Timer, cfg.AlphaTimer, cfg.Additive = 1, 1, 1
	f = flow(t, cfg)
	f.Notified(start)
	f.Advance(start.AddDate(100, 0, 0))
	f.Notified(start.AddDate(100, 0, 0))
	require.Less(t, f.Alpha(start.AddDate(100, 0, 0)), 0.01)
	f.Advance(start.AddDate(-1000, 0, 0))
}

func TestOff(t *testing.T) {
	f := flow(t, DCQCNConfig{Line: 25e9})
	f.Notified(start)
	f.Sent(1000, start)
	f.Advance(start.Add(time.Hour))
	_, ok := f.Next()
	require.False(t, ok)
	require.EqualValues(t, 25e9, f.Rate())
}

func TestWrongConfigs(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*DCQCNConfig)
	}{
		{"Line", func(c *DCQCNConfig) { c.Line = maxLine + 1 }},
		{"Min", func(c *DCQCNConfig) { c.Min = 0 }},
		{"Gain", func(c *DCQCNConfig) { c.Gain = math.NaN() }},
		{"FirstAlpha", func(c *DCQCNConfig) { c.FirstAlpha = 1.1 }},
		{"AlphaTimer", func(c *DCQCNConfig) { c.AlphaTimer = 0 }},
		{"Gate", func(c *DCQCNConfig) { c.Gate = -1 }},
		{"Timer", func(c *DCQCNConfig) { c.Timer = 0 }},
		{"Additive", func(c *DCQCNConfig) { c.Additive = 0 }},
		{"Hyper", func(c *DCQCNConfig) { c.Hyper = math.MaxUint64 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := PaperDCQCN(40e9)
			c.change(&cfg)
			_, err := NewDCQCN(cfg)
			var wrong *ConfigError
			require.True(t, errors.As(err, &wrong))
			require.Equal(t, c.name, wrong.Key)
			require.Contains(t, err.Error(), "reaction: "+c.name+": ")
			require.Contains(t, err.Error(), ": want ")
			cfg.Enabled = false
			_, err = NewDCQCN(cfg)
			require.NoError(t, err)
		})
	}
}

func TestNoAllocations(t *testing.T) {
	f := flow(t, PaperDCQCN(400e9))
	now := start
	wiretest.NoAllocs(t, "a flow", func() {
		now = now.Add(20 * µs)
		f.Notified(now)
		f.Sent(4096, now)
		f.Advance(now)
		f.Next()
	})
}

func BenchmarkFlow(b *testing.B) {
	d, _ := NewDCQCN(PaperDCQCN(400e9))
	f := d.Start()
	now := start
	for i := range b.N {
		now = now.Add(82)
		f.Sent(4096, now)
		if i%512 == 0 {
			f.Notified(now)
		}
	}
}

// A sender is held at 30 Gbit/s for 300 µs, stopped for 100 µs of these, and let go on
// by a resume, as the octets of three PPFCs say.
func TestBrake(t *testing.T) {
	var (
		sender = netip.MustParseAddr("2001:db8::1")
		far    = netip.MustParseAddr("2001:db8::2")
		node6  = netip.MustParseAddr("2001:db8::ff")
	)
	table := wiretest.Must(pause.New(pause.Config{
		Enabled: true, Self6: sender, Accept: acl.New(netip.PrefixFrom(node6, 128)),
	}))(t)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var b Brake
	receivePause := func(kind ppfc.Type, last time.Duration, rate uint64, now time.Time) {
		n := ppfc.New(0x123, 0xFFFF, ppfc.Extension{Congested: far, Type: kind, Pause: last})
		packet := wiretest.Must(n.AppendPacket(nil, node6, sender, ppfc.Config{}))(t)
		var f rocev2.Frame
		f.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		_, d := table.Receive(nil, &f, node.Event{Now: now})
		require.Equal(t, node.ActionAccepted, d.Action)
		state, until := table.State(pause.FlowTarget(far, 0x123), now)
		b.Set(state, until, rate)
	}
	const line = 100e9
	rate := func(d time.Duration) uint64 { return b.Rate(line, at(d)) }

	require.EqualValues(t, line, rate(0))
	_, ok := b.Next()
	require.False(t, ok)

	receivePause(ppfc.Hold, 300*µs, 30e9, at(0))
	require.EqualValues(t, 30e9, rate(0))
	require.EqualValues(t, 10e9, b.Rate(10e9, at(µs)), "a reaction point that asks for less has it")
	require.EqualValues(t, line, rate(300*µs), "it ends by itself")

	receivePause(ppfc.Stop, 100*µs, 30e9, at(50*µs))
	require.Zero(t, rate(50*µs))
	next, ok := b.Next()
	require.True(t, ok)
	require.True(t, next.Equal(at(150*µs)))
	require.Zero(t, rate(150*µs-1))

	// The stop is over, the hold is not: the table is asked again.
	state, until := table.State(pause.FlowTarget(far, 0x123), at(150*µs))
	b.Set(state, until, line)
	require.EqualValues(t, 30e9, rate(150*µs), "held at the rate of the time of the call")
	next, _ = b.Next()
	require.True(t, next.Equal(at(300*µs)))

	receivePause(ppfc.Resume, 0, 30e9, at(200*µs))
	require.EqualValues(t, line, rate(200*µs))
	_, ok = b.Next()
	require.False(t, ok)

	receivePause(ppfc.Alarm, time.Millisecond, line, at(300*µs))
	require.EqualValues(t, line, rate(300*µs), "an alarm slows nothing down")
	_, ok = b.Next()
	require.False(t, ok)
}

// table is a host with the queue pair 0x11, which sends to 0x22 of another host.
type table struct{ far netip.Addr }

func (t table) SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error) {
	if k.DestQP != 0x22 || k.Dst != t.far {
		return qpmap.Pair{}, qpmap.ErrUnknown
	}
	return qpmap.Pair{SrcQP: 0x11, PKey: 0xFFFF, Seen: now}, nil
}

func (t table) Sends(qp uint32, dst netip.Addr, _ time.Time) (sends, known bool) {
	return qp == 0x11 && dst == t.far, qp == 0x11
}

// The octets of a Fast CNP, of the CNP that follows it, and of a PPFC, through a sender: the
// first halves the rate, the CNP is the same news again, and the PPFC is no cut.
func TestReact(t *testing.T) {
	var (
		self  = netip.MustParseAddr("2001:db8::1")
		far   = netip.MustParseAddr("2001:db8::2")
		node6 = netip.MustParseAddr("2001:db8::ff")
	)
	s := wiretest.Must(sender.New(sender.Config{
		Enabled: true, Self6: self, Accept: acl.New(netip.PrefixFrom(node6, 128)), QPs: table{far},
		Window: 50 * µs,
	}))(t)
	data := rocev2.Packet{Datagram: rocev2.Datagram{Src: self, Dst: far, SrcPort: 0xC000, DstPort: rocev2.Port,
		TrafficClass: uint8(rocev2.ECT0)}}
	data.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 0x22}
	fast, _, err := fastcnp.AppendFor(nil, &data, node6, nil, fastcnp.Config{})
	require.NoError(t, err)
	message := cnp.New(0x11, 0xFFFF)
	plain := wiretest.Must(message.AppendPacket(nil, far, self, cnp.Config{}))(t)
	stop := ppfc.New(0x22, 0xFFFF, ppfc.Extension{Congested: far, Type: ppfc.Stop, Pause: time.Millisecond})
	paused := wiretest.Must(stop.AppendPacket(nil, node6, self, ppfc.Config{}))(t)

	f := flow(t, PaperDCQCN(40e9))
	h := hpccFlow(t, func(*HPCCConfig) {})
	receive := func(octets []byte, at time.Duration) node.Reason {
		var frame rocev2.Frame
		frame.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		_, d := s.Receive(nil, &frame, node.Event{Now: start.Add(at)})
		f.React(&d, start.Add(at))
		h.React(&d, []Hop{{B: 100e9, QLen: 125_000}}, start.Add(at))
		return d.Reason
	}
	require.Equal(t, node.NoReason, receive(fast, 0))
	require.EqualValues(t, 20e9, f.Rate())
	require.Equal(t, node.NoReason, receive(plain, 10*µs))
	require.EqualValues(t, 20e9, f.Rate(), "the same congestion")
	require.Equal(t, node.NoReason, receive(paused, 20*µs))
	require.EqualValues(t, 20e9, f.Rate(), "a pause is no cut")
	require.Equal(t, node.NoReason, receive(plain, 50*µs))
	require.EqualValues(t, 10e9, f.Rate(), "news")
	require.EqualValues(t, 100e9, h.Rate(), "without a trace HPCC learns nothing")

	// A rejected notification does not change the rate; only time does.
	forged := wiretest.Must(message.AppendPacket(nil, netip.MustParseAddr("2001:db8::bad"), self, cnp.Config{}))(t)
	require.NotEqual(t, node.NoReason, receive(forged, 51*µs))
	require.EqualValues(t, 10e9, f.Rate())
}

// Four flows at a port of 40 Gbit/s. Its queue begins to mark at 5 KB, and marks 1 % at 200 KB. The receiver sends at
// most one notification per 50 µs, and there is no delay: the fluid model of DCQCN's authors has a queue of 41.8 KB,
// α of 0.122 and 2,228 notifications a second and flow there (CoNEXT 2016). This loop does not use the laboratory.
func TestFixedPoint(t *testing.T) {
	const (
		flows  = 4
		packet = 1000
		line   = 40e9
		slot   = 200 * time.Nanosecond // a packet of the port
		end    = 400 * time.Millisecond
		from   = 100 * time.Millisecond
	)
	d := wiretest.Must(NewDCQCN(PaperDCQCN(line)))(t)
	random := rand.New(rand.NewPCG(1, 2))
	var all [flows]struct {
		DCQCNFlow
		credit   float64
		marked   bool
		pollTime time.Duration
	}
	for i := range all {
		all[i].DCQCNFlow = d.Start()
		all[i].pollTime = time.Duration(random.IntN(50_000))
	}
	var queue []int // senders of the queued packets
	depth, alpha, notified, slots := 0., 0., 0., 0.
	for now := time.Duration(0); now < end; now += slot {
		at := start.Add(now)
		for i := range all {
			f := &all[i]
			if f.credit += float64(f.Rate()) / line; f.credit >= 1 {
				f.credit--
				f.Sent(packet, at)
				queue = append(queue, i)
			}
			if f.pollTime <= now {
				f.pollTime += 50 * µs
				if f.marked {
					f.marked = false
					f.Notified(at)
					if now >= from {
						notified++
					}
				}
			}
		}
		if len(queue) > 0 {
			i := queue[0]
			queue = queue[1:]
			p := (float64(len(queue)*packet) - 5000) / 195_000 * 0.01
			all[i].marked = all[i].marked || random.Float64() < p || p > 0.01
		}
		if now >= from {
			depth += float64(len(queue) * packet)
			slots++
			if int(slots)%100 == 0 {
				alpha += all[0].Alpha(at)
			}
		}
	}
	require.InEpsilon(t, 41.8e3, depth/slots, 0.1)
	require.InEpsilon(t, 2228, notified/flows/(end-from).Seconds(), 0.1)
	require.InEpsilon(t, 0.122, alpha/(slots/100), 0.1)
}
