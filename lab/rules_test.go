package lab

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
)

// A higher priority does not wait for queued packets of a lower one: at most for the frame on the wire.
func TestStrictPriority(t *testing.T) {
	wait := func(priority uint8) (took sim.Time) {
		cfg := dcqcn(None)
		cfg.AckPriority = priority
		n, out := star(cfg, 2, 100*sim.Gbps, µs)
		h := n.Hosts()
		must(n.Flow(h[0], h[2], 0)).Endless()
		must(n.Flow(h[1], h[2], 0)).Endless()
		probe := must(n.Flow(h[2], h[0], 0))
		n.Done = func(_ *Flow, _ int64, posted sim.Time) { took = n.Sim.Now() - posted }
		n.RunAt(50*µs, func() { probe.Post(100) }) // its acknowledgement meets the queue
		n.Until(400 * µs)
		require.Greater(t, out.Most(), int64(500_000))
		return took - n.Alone(h[2], h[0], 100)
	}
	frame := (100 * sim.Gbps).Time(1024 + 200)
	require.LessOrEqual(t, wait(6), 3*frame)
	require.Less(t, 300*frame, wait(3), "in the class of the data")
	require.Less(t, wait(1)-1, sim.Time(0), "below it: it never comes")
}

// A queue may have alpha times the free octets: of B octets alpha·B/(1+alpha), and each of two queues
// alpha·B/(1+2·alpha).
func TestDynamicThreshold(t *testing.T) {
	const whole, frame = 600_000, 1106
	for _, c := range []struct {
		alpha     float64
		receivers int
		want      float64
	}{{1, 1, whole / 2}, {0.5, 1, whole / 3}, {2, 1, whole * 2 / 3}, {1, 2, whole / 3}, {0.5, 2, whole / 4}} {
		cfg := dcqcn(None)
		cfg.Buffer = Buffer{Total: whole, Alpha: c.alpha}
		n, _ := star(cfg, 8+c.receivers-1, 100*sim.Gbps, µs)
		for i, h := range n.Hosts()[:8] {
			must(n.Flow(h, n.Hosts()[8+i%c.receivers], 0)).Endless()
		}
		n.Until(200 * µs)
		require.NoError(t, n.Check())
		for i := range c.receivers {
			most := n.Switches()[0].Ports()[8+i].Most()
			require.InDelta(t, c.want, float64(most), 8*frame, "alpha %v, %d queues", c.alpha, c.receivers)
		}
	}
}

// A pause ends when the account of the ingress port is XON below where it began.
func TestXON(t *testing.T) {
	cfg := dcqcn(None)
	cfg.Buffer = Buffer{Total: 10_000_000, Alpha: 1, PFC: true, XOFF: 50_000, XON: 30_000, Headroom: 100_000}
	n := must(New(cfg))
	s, from, to := n.Switch(), n.Host(), n.Host()
	_, in := n.Link(from, s, 100*sim.Gbps, µs)
	n.Link(s, to, 10*sim.Gbps, µs)
	must(n.Flow(from, to, 0)).Endless()
	was, ends := false, 0
	for at := sim.Time(0); at < 500*µs; at += µs / 10 {
		n.Until(at)
		if was && !in.in.off {
			ends++
			require.LessOrEqual(t, in.in.shared, int64(20_000))
			require.Greater(t, in.in.shared, int64(20_000-3*1106))
		}
		was = in.in.off
	}
	require.Greater(t, ends, 5)
	require.Zero(t, n.Counts().Lost)
}

// Switches choose differently: of the flows that one switch has sent to the next, that one uses all of its ways.
func TestSpreadTwice(t *testing.T) {
	n := must(New(Config{Seed: 1, DataPriority: 3, AckPriority: 6, AckEvery: 1}))
	first, last, from, to := n.Switch(), n.Switch(), n.Host(), n.Host()
	n.Link(from, first, 400*sim.Gbps, µs)
	n.Link(to, last, 400*sim.Gbps, µs)
	c := []*Switch{n.Switch(), n.Switch()}
	var links []*Port
	for range 2 {
		b := n.Switch()
		n.Link(first, b, 100*sim.Gbps, µs)
		for i := range c {
			p, _ := n.Link(b, c[i], 100*sim.Gbps, µs)
			links = append(links, p)
		}
	}
	for i := range c {
		n.Link(c[i], last, 100*sim.Gbps, µs)
	}
	for range 400 {
		must(n.Flow(from, to, sim.Gbps)).Post(50_000)
	}
	n.Until(5 * ms)
	for _, p := range links {
		require.InEpsilon(t, 400*50*1106/4, float64(p.Sent()), 0.3)
	}
}

// A receiver reports missing packets immediately: without any timeout a message arrives complete.
func TestNAK(t *testing.T) {
	cfg := dcqcn(None)
	cfg.Timeout, cfg.Buffer = 0, Buffer{Total: 1_000_000, Alpha: 1, Queue: 10_000}
	n, _ := star(cfg, 2, 100*sim.Gbps, µs)
	h := n.Hosts()
	long, short := must(n.Flow(h[0], h[2], 0)), must(n.Flow(h[1], h[2], 0))
	var done []*Flow
	n.Done = func(f *Flow, _ int64, _ sim.Time) { done = append(done, f) }
	long.Post(2_000_000)
	n.RunAt(20*µs, func() { short.Post(100_000) })
	n.Until(ms)
	require.Greater(t, uint64(long.draws), uint64(2_000_000/1024+10), "some were retransmitted")
	require.Contains(t, done, long)
	require.EqualValues(t, 2_000_000, long.Octets())
}

// A PFC frame takes effect PauseDelay after it has arrived.
func TestPauseTakesTime(t *testing.T) {
	sent := func(delay sim.Time) uint64 {
		cfg := dcqcn(None)
		cfg.PauseDelay = delay
		n, _ := star(cfg, 1, 100*sim.Gbps, µs)
		must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0)).Endless()
		n.Until(10 * µs)
		n.sendPause(n.Switches()[0].Ports()[0], maxQuanta)
		n.Until(100 * µs)
		return n.Hosts()[0].Port().Sent()
	}
	require.InDelta(t, (100 * sim.Gbps).Octets(5*µs), sent(5*µs)-sent(0), 1200)
}

// A watchdog empties the data queue of a port that is paused for as long as it waits, and lets nothing come until
// the pause ends. Without a packet that waits there is nothing to do, nor about a pause that ends in time.
func TestWatchdog(t *testing.T) {
	const wait = 20 * µs
	cfg := dcqcn(None)
	cfg.Buffer = Buffer{Total: 100_000_000, Alpha: 1, PFC: true, XON: 3000, Headroom: 100_000, Watchdog: wait}
	n, out := star(cfg, 1, 100*sim.Gbps, µs)
	f := must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0))
	pause := func(quanta uint16) { n.sendPause(out.peer, quanta) } // from the receiver

	pause(maxQuanta)
	n.Until(3 * wait)
	require.Zero(t, n.Counts().Storms, "nothing waits")
	pause(0)
	n.Until(4 * wait)

	f.Endless()
	n.Until(5 * wait)
	pause(maxQuanta)
	n.Until(5*wait + 2*µs)
	require.EqualValues(t, 1, out.paused>>3&1)
	for _, stop := range []sim.Time{5*wait + 15*µs, 5*wait + 19*µs} {
		n.Until(stop)
		require.Zero(t, n.Counts().Storms)
	}
	pause(0)
	n.Until(6*wait + 15*µs)
	require.Zero(t, n.Counts().Storms, "resumed in time")
	require.Zero(t, n.Counts().Lost)

	began := n.Sim.Now()
	pause(maxQuanta)
	n.Until(began + wait + µs) // the frame takes more than that
	require.Zero(t, n.Counts().Lost)
	queued := out.dataQueue().octets
	require.Greater(t, queued, int64(150_000))
	n.Until(began + wait + 2*µs)
	require.EqualValues(t, 1, n.Counts().Storms)
	require.Zero(t, out.dataQueue().octets)
	lost := n.Counts().LostData
	require.Greater(t, lost, uint64(150))
	n.Until(began + wait + 20*µs)
	require.Greater(t, n.Counts().LostData, lost+100, "arriving packets are dropped as well")
	require.EqualValues(t, 1, n.Counts().Storms)
	require.NoError(t, n.Check())

	before := f.Octets()
	pause(0)
	n.Until(began + wait + 60*µs)
	require.Greater(t, f.Octets(), before+100_000, "the flow goes on")
	require.EqualValues(t, 1, n.Counts().Storms)
	require.NoError(t, n.Check())
}

// A notification for another flow than the one that experienced congestion is counted.
func TestAstray(t *testing.T) {
	n, _ := incast(dcqcn(CNP), 2, 100*sim.Gbps, µs)
	n.Until(200 * µs)
	require.NotZero(t, n.Counts().Notified)
	require.Zero(t, n.Counts().Astray)
	sender := n.Hosts()[0].role
	out, d := n.Hosts()[2].role.receiver.Receive(nil, n.roles.decodeFrame(n.encodePacket(0, &packet{kind: data,
		ce: true, flow: 0,
		octets: 1106, egress: -1})), node.Event{Now: n.Sim.Now().Clock().Add(time.Second)})
	require.Equal(t, node.ActionSent, d.Action)
	was := n.Counts().Notified
	sender.receiveNotification(out, 0)
	require.Zero(t, n.Counts().Astray)
	sender.receiveNotification(out, 1)
	require.EqualValues(t, 1, n.Counts().Astray)
	require.Equal(t, was+2, n.Counts().Notified)
}

// RED: nothing below Min, everything from Max on, and half of Probability in the middle.
func TestRamp(t *testing.T) {
	red := RED{Min: 100, Max: 200, Probability: 0.5}
	draws := sim.NewStream(1, "marks", 0)
	for _, c := range []struct {
		queue int64
		want  float64
	}{{0, 0}, {99, 0}, {150, 0.25}, {199, 0.495}, {200, 1}, {399, 1}} {
		t.Run(fmt.Sprint(c.queue), func(t *testing.T) {
			got := 0.
			for i := range uint32(10_000) {
				if red.isCongested(&draws, c.queue, &packet{draw: i}) {
					got++
				}
			}
			require.InDelta(t, c.want, got/10_000, 0.02, c.queue)
		})
	}
}

// half is an incast of eight hosts, of which the first four do not understand Fast CNPs.
func half(cfg Config, rejects bool) (*Network, *Port) {
	cfg.Incapable, cfg.Rejects = 4, rejects
	return incast(cfg, 8, 100*sim.Gbps, µs)
}

// Switches that know their senders send Fast CNPs to those that understand them, and mark the packets of the others,
// which receivers answer: every sender slows down, and none because of both.
func TestKnownSenders(t *testing.T) {
	n, out := half(dcqcn(FastCNP), true)
	n.Until(ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.Positive(t, c.FastCNPs)
	require.Positive(t, c.Marked)
	require.Positive(t, c.CNPs)
	require.Zero(t, c.Ignored+c.Rejected)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
		require.Equal(t, i >= 4, n.Hosts()[i].Capable())
		if i >= 4 { // a Fast CNP arrives before a CNP
			other := n.Flows()[i-4]
			require.Less(t, f.FirstCut()-f.Onset(), other.FirstCut()-other.Onset(), i)
		}
	}
	require.Less(t, out.Most(), int64(6_000_000))
}

// No sender can be told earlier than by the oracle, so it tells those as well that do not understand Fast CNPs.
func TestOracleTellsAll(t *testing.T) {
	n, _ := half(dcqcn(Oracle), false)
	n.Until(ms)
	require.NoError(t, n.Check())
	require.Zero(t, n.Counts().Marked+n.Counts().CNPs)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
		require.Equal(t, f.Onset(), f.FirstCut(), i)
	}
}

// Switches that do not know their senders send Fast CNPs to all of them, and mark. A host that does not understand a
// Fast CNP may reject it: then a switch sends no second one after the rejection has arrived.
func TestUnknownSenders(t *testing.T) {
	n, _ := half(dcqcn(FastCNPMarks), false)
	n.Until(2 * ms)
	require.NoError(t, n.Check())
	counts := n.Counts()
	require.Greater(t, counts.Ignored, uint64(4))
	require.Zero(t, counts.Rejected)

	n, _ = half(dcqcn(FastCNPMarks), true)
	n.Until(2 * ms)
	require.NoError(t, n.Check())
	c := n.Counts()
	require.EqualValues(t, 8, c.Ignored, "two for each of them")
	require.EqualValues(t, 8, c.Rejected)
	require.Less(t, c.FastCNPs, counts.FastCNPs)
	for i, f := range n.Flows() {
		require.NotEqual(t, sim.Never, f.FirstCut(), i)
	}
}

// The message of a host that does not understand a Fast CNP has a right checksum, and quotes it whole.
func TestProblem(t *testing.T) {
	n, _ := half(dcqcn(FastCNPMarks), true)
	n.ensureRoutes()
	from, to := n.Hosts()[0].role.addr, n.Switches()[0].role.addr
	for _, length := range []int{40, 41, 104, 1231, 1232, 2000} {
		quoted := make([]byte, length)
		for i := range quoted {
			quoted[i] = byte(i * 7)
		}
		b := n.buildProblem(from, to, quoted, 40)
		require.LessOrEqual(t, len(b), 1280)
		require.Equal(t, quoted[:min(length, 1232)], b[48:])
		require.EqualValues(t, len(b)-40, binary.BigEndian.Uint16(b[4:]))
		require.Equal(t, []byte{4, 2}, b[40:42])
		require.Equal(t, []byte{0, 0, 0, 40}, b[44:48])
		// RFC 1071: the sum of all 16-bit words, pseudo-header and checksum included, is all ones.
		sum := uint64(len(b)-40) + 58
		padded := append(append([]byte{}, b[8:]...), make([]byte, len(b)%2)...)
		for i := 0; i < len(padded); i += 2 {
			sum += uint64(binary.BigEndian.Uint16(padded[i:]))
		}
		for sum > 0xFFFF {
			sum = sum>>16 + sum&0xFFFF
		}
		require.EqualValues(t, 0xFFFF, sum, length)
	}
}

// The error about an invalid Config names the field; nothing panics.
func TestWrongConfig(t *testing.T) {
	wrong := map[string][]func(*Config){
		"Variant": {func(c *Config) { c.Variant = Variant(Variants) }},
		"Payload": {
			func(c *Config) { c.Payload = -1 }, func(c *Config) { c.Payload = 1023 },
			func(c *Config) { c.Payload = 8196 }, func(c *Config) { c.Payload = 2 },
		},
		"RED.Max": {
			func(c *Config) { c.RED = RED{Min: 2, Max: 1} }, func(c *Config) { c.RED.Max = -1 },
			func(c *Config) { c.RED.Max = 1 << 60 },
		},
		"RED.Min": {func(c *Config) { c.RED.Min = -1 << 60 }},
		"RED.Probability": {
			func(c *Config) { c.RED.Probability = 1.1 }, func(c *Config) { c.RED.Probability = math.NaN() },
		},
		"RED.At": {func(c *Config) { c.RED.At = 2 }},
		"Buffer.Total": {
			func(c *Config) { c.Buffer.Total = -1 }, func(c *Config) { c.Buffer.PFC = true },
			func(c *Config) { c.Buffer = Buffer{Total: 1145, Alpha: 1} },
		},
		"Buffer.Alpha": {
			func(c *Config) { c.Buffer.Total = 1e6 },
			func(c *Config) { c.Buffer = Buffer{Total: 1e6, Alpha: math.NaN()} },
			func(c *Config) { c.Buffer = Buffer{Total: 1e6, Alpha: math.Inf(1)} },
		},
		"Buffer.Queue":    {func(c *Config) { c.Buffer.Queue = 100 }, func(c *Config) { c.Buffer.Queue = -1 }},
		"Buffer.XOFF":     {func(c *Config) { c.Buffer.XOFF = -1 }},
		"Buffer.XON":      {func(c *Config) { c.Buffer.XON = -1 }},
		"Buffer.Headroom": {func(c *Config) { c.Buffer.Headroom = -1 }},
		"Buffer.Pool":     {func(c *Config) { c.Buffer.Pool = -1 }},
		"Buffer.Reserve":  {func(c *Config) { c.Buffer.Reserve = -1 }},
		"Pausing.Up": {
			func(c *Config) { c.Variant = PPFC }, func(c *Config) { c.Pausing.Up = make([]uint64, 8) },
			func(c *Config) { c.Pausing.Up = []uint64{0} }, func(c *Config) { c.Pausing.Up = []uint64{5, 5} },
			func(c *Config) { c.Pausing.Up = []uint64{5, 4} },
		},
		"Pausing.Down": {
			func(c *Config) { c.Pausing.Down = []uint64{1} },
			func(c *Config) { c.Pausing.Up, c.Pausing.Down = []uint64{1, 2}, []uint64{1, 3} },
			func(c *Config) { c.Pausing.Up, c.Pausing.Down = []uint64{1, 3}, []uint64{1, 0} },
		},
		"Pausing.From.Alarm": {func(c *Config) { c.Pausing.From = congested.PauseFrom{Alarm: 8} }},
		"Pausing.From.Hold":  {func(c *Config) { c.Pausing.From = congested.PauseFrom{Hold: 8} }},
		"Pausing.From.Stop":  {func(c *Config) { c.Pausing.From = congested.PauseFrom{Stop: 8} }},
		"Pausing.For": {
			func(c *Config) { c.Pausing.For = 1 }, func(c *Config) { c.Pausing.For = -time.Second },
			func(c *Config) { c.Pausing.For = time.Second },
		},
		"Pausing.Interval": {func(c *Config) { c.Pausing.Interval = -1 }},
		"Pausing.Most":     {func(c *Config) { c.Pausing.Most = -1 }},
		"TraceHops":        {func(c *Config) { c.TraceHops = -1 }, func(c *Config) { c.TraceHops = 9 }},
		"Incapable":        {func(c *Config) { c.Incapable = -1 }},
		"Labels":           {func(c *Config) { c.Labels = -1 }, func(c *Config) { c.Labels = 1 << 20 }},
		"Idle":             {func(c *Config) { c.Idle = -1 }},
		"Forget":           {func(c *Config) { c.Forget = -1 }},
		"Pipeline":         {func(c *Config) { c.Pipeline = -1 }, func(c *Config) { c.Pipeline = sim.Never }},
		"SwitchDelay":      {func(c *Config) { c.SwitchDelay = -1 }},
		"ProxyDelay":       {func(c *Config) { c.ProxyDelay = -1 }},
		"EdgeDelay":        {func(c *Config) { c.EdgeDelay = -1 }},
		"PauseDelay":       {func(c *Config) { c.PauseDelay = -1 }},
		"ReceiverDelay":    {func(c *Config) { c.ReceiverDelay = -1 }},
		"SenderDelay":      {func(c *Config) { c.SenderDelay = sim.Never }},
		"Timeout":          {func(c *Config) { c.Timeout = -1 }},
		"Buffer.Watchdog":  {func(c *Config) { c.Buffer.Watchdog = -1 }},
		"NoticeLoss":       {func(c *Config) { c.NoticeLoss = -0.1 }, func(c *Config) { c.NoticeLoss = math.NaN() }},
		"SwitchLimit.PerSecond": {
			func(c *Config) { c.SwitchLimit.PerSecond = -1 }, func(c *Config) { c.SwitchLimit.PerSecond = math.Inf(1) },
		},
		"HostLimit.Burst": {func(c *Config) { c.HostLimit = node.Rate{PerSecond: 1, Burst: -1} }},
		"Interval":        {func(c *Config) { c.Interval = -1 }, func(c *Config) { c.Variant = CNPPolled }},
		"Join":            {func(c *Config) { c.Join = -1 }, func(c *Config) { c.Join = math.MaxInt64 }},
		"Window": {
			func(c *Config) { c.Window = -1 }, func(c *Config) { c.Window = 1 << 51 },
			func(c *Config) { c.Window = 1023 },
			func(c *Config) { c.Window, c.AckEvery = 4*1024-1, 4 },
		},
		"AckEvery":             {func(c *Config) { c.AckEvery = -1 }},
		"DataPriority":         {func(c *Config) { c.DataPriority = 8 }},
		"AckPriority":          {func(c *Config) { c.AckPriority = 9 }},
		"NotificationPriority": {func(c *Config) { c.NotificationPriority = 255 }},
	}
	for _, key := range slices.Sorted(maps.Keys(wrong)) {
		for i, change := range wrong[key] {
			var cfg Config
			change(&cfg)
			_, err := New(cfg)
			var wrong *ConfigError
			require.ErrorAs(t, err, &wrong, "%s, %d", key, i)
			require.Equal(t, key, wrong.Key, "%s, %d: %v", key, i, err)
			require.Regexp(t, "^lab: "+regexp.QuoteMeta(key)+": .+: want .+", err.Error())
		}
	}
	// Each field that holds an amount is in the table.
	named := func(key string) bool {
		is := func(k string) bool { return k == key || strings.HasPrefix(k, key+".") }
		return slices.ContainsFunc(slices.Collect(maps.Keys(wrong)), is)
	}
	var checkFields func(prefix string, of reflect.Type)
	checkFields = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			switch key := prefix + field.Name; {
			case field.Type.Kind() == reflect.Func || field.Type.Kind() == reflect.Bool || key == "Seed":
			case key == "RED" || key == "Buffer" || key == "Pausing":
				checkFields(key+".", field.Type)
			default:
				require.True(t, named(key), "no rule checks %s", key)
			}
		}
	}
	checkFields("", reflect.TypeFor[Config]())
}

// A reaction point that is none is an error of the flow, and one that wants no rate at all sends as good as nothing.
func TestWrongControl(t *testing.T) {
	cfg := dcqcn(CNP)
	cfg.Control = func(uint64) Control { return nil }
	n, _ := star(cfg, 1, 100*sim.Gbps, 0)
	_, err := n.Flow(n.Hosts()[0], n.Hosts()[1], 0)
	require.EqualError(t, err, "lab: Control: <nil>: want a reaction point")

	cfg.Control = func(uint64) Control { return idle{} }
	n, _ = star(cfg, 1, 100*sim.Gbps, 0)
	must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0)).Endless()
	n.Until(sim.Second)
	require.NoError(t, n.Check())
	require.EqualValues(t, 1, n.Counts().Packets)
}

// idle wants no rate.
type idle struct{ ControlBase }

func (idle) Rate() uint64 { return 0 }

// fill sets the fields of a struct to values that octets select: mostly such as may run, sometimes wrong ones.
func fill(v reflect.Value, octets *[]byte) {
	next := func() (b byte) {
		if len(*octets) > 0 {
			b, *octets = (*octets)[0], (*octets)[1:]
		}
		return b
	}
	ints := []int64{0, 0, 1, 2, 4, 6, 8, 64, 1000, 1024, 2000, 3000, 4096, 8192, 50_000, 400_000, 1e6, 2e6, 1e9, 1e12,
		1 << 20, 1 << 31, 1 << 45, 1 << 51, math.MaxInt64, math.MinInt64, -1, -1e12}
	floats := []float64{0, 0, 0.1, 0.5, 1, 2, 64, 1e6, 1e300, -1, math.NaN(), math.Inf(1)}
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			fill(f, octets)
		case reflect.Bool:
			f.SetBool(next()%2 != 0)
		case reflect.Uint8:
			f.SetUint(uint64(next() % 16))
		case reflect.Uint64:
			f.SetUint(uint64(next()))
		case reflect.Int, reflect.Int64:
			f.SetInt(ints[int(next())%len(ints)])
		case reflect.Float64:
			f.SetFloat(floats[int(next())%len(floats)])
		case reflect.Slice:
			for range next() % 9 {
				f.Set(reflect.Append(f, reflect.ValueOf(uint64(next())*1000)))
			}
		}
	}
}

// No Config panics: New rejects it, or the network runs and its counts add up.
func FuzzConfig(f *testing.F) {
	for v := range byte(Variants) {
		f.Add([]byte{1, v, 14, 15, 3}, v)
		f.Add([]byte{1, v, 14, 15, 3, 0, 16, 4, 14, 1, 12, 3, 14, 0, 0, 9, 2, 50, 200, 2, 20, 100, 0, 1, 2, 16, 10, 0},
			v)
	}
	f.Fuzz(func(t *testing.T, octets []byte, other byte) {
		var cfg Config
		fill(reflect.ValueOf(&cfg).Elem(), &octets)
		cfg.HPCC = hpccOf(10 * time.Microsecond)
		if other%2 == 0 {
			cfg.Reaction = reaction.PaperDCQCN
		}
		n, err := New(cfg)
		if err != nil {
			return
		}
		near, router, far := n.PE(), n.Router(), n.PE()
		for range 3 {
			n.Link(n.Host(), near, 100*sim.Gbps, 100*sim.Nanosecond)
		}
		n.Link(near, router, 200*sim.Gbps, 0)
		n.Link(router, far, 40*sim.Gbps, µs)
		n.Link(n.Host(), far, 100*sim.Gbps, µs)
		for _, h := range n.Hosts()[:3] {
			f, err := n.Flow(h, n.Hosts()[3], 0)
			if err != nil {
				t.Fatal(err)
			}
			f.Post(1 << 20)
		}
		n.ensureRoutes()
		n.Sim.Part(300*µs, 20_000)
		if err := n.Check(); err != nil {
			t.Fatalf("%v: %+v", err, cfg)
		}
	})
}
