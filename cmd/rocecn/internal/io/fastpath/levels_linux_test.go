package fastpath

import (
	"bytes"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The level follows the queue as level.Thresholds does, with hysteresis. At level 0 nothing is congested.
func TestAnswererLevels(t *testing.T) {
	onNode(t)
	for _, levels := range []level.Thresholds{
		from(100), {}, {Up: []uint64{100, 200, 400}, Down: []uint64{50, 150, 300}},
		{Up: []uint64{10, 20, 30, 40, 50, 60, 70}, Down: []uint64{5, 15, 25, 35, 45, 55, 65}},
		{Up: []uint64{100, 101}, Down: []uint64{200}},
	} {
		a := load(t, AnswererConfig{})
		p := newPort(levels)
		p.noted = math.MaxInt64 // for good
		r := rand.New(rand.NewPCG(25, 7))
		was, congested := uint8(0), uint64(0)
		for range 500 {
			p.depth, p.level = r.Uint64N(500), uint64(was)
			require.NoError(t, a.objects.Ports.Put(uint32(1), p))
			_, _ = run(t, a.objects.Egress, ethernet(data(t, sender, 1, 0)), nil)
			if was = levels.Level(p.depth, was); was > 0 {
				congested++
			}
			var now [2*level.Max + 3]uint64
			require.NoError(t, a.objects.Ports.Lookup(uint32(1), &now))
			require.EqualValues(t, was, now[2*level.Max+1], "%+v at %d", levels, p.depth)
			require.Equal(t, congested, a.Counters().Congested)
		}
	}
}

// A depth that is no longer updated counts for 10 s: the tracing programs may have ended with their process while
// egress stayed.
func TestAnswererStale(t *testing.T) {
	onNode(t)
	a := load(t, AnswererConfig{})
	p := newPort(from(100))
	p.depth = 100
	for _, c := range []struct {
		ago       time.Duration
		congested uint64
	}{{0, 1}, {time.Hour, 1}, {11 * time.Second, 1}, {0, 2}} {
		p.level, p.noted = 1, uint64(bpf.Monotonic()-int64(c.ago))
		require.NoError(t, a.objects.Ports.Put(uint32(1), p))
		_, _ = run(t, a.objects.Egress, ethernet(data(t, sender, 1, 0)), nil)
		require.Equal(t, c.congested, a.Counters().Congested, "%v", c.ago)
	}
}

// Each level has its own limit.
func TestAnswererPerFlowByLevel(t *testing.T) {
	onNode(t)
	times := all(time.Hour)
	times[2] = 0
	a := load(t, AnswererConfig{PerFlow: times})
	p := newPort(level.Thresholds{Up: []uint64{100, 200}})
	p.noted = math.MaxInt64 // for good
	for _, c := range []struct{ depth, limited uint64 }{{100, 0}, {150, 1}, {200, 1}, {300, 1}, {199, 2}} {
		p.depth = c.depth
		require.NoError(t, a.objects.Ports.Put(uint32(1), p))
		_, _ = run(t, a.objects.Egress, ethernet(data(t, sender, 1, 0)), nil)
		require.Equal(t, c.limited, a.Counters().Limited, "%d", c.depth)
	}
}

// HasSent recognizes each Fast CNP for a while, except for traffic class and hop limit.
func TestAnswererHasSent(t *testing.T) {
	onNode(t)
	for _, c := range []AnswererConfig{
		{Remember: true}, {Remember: true, PerFlow: all(time.Nanosecond), LabelKey: 5},
		{Remember: true, FastCNP: fastcnp.Config{Carriage: rocev2.Carriage{SrcPort: 4321, HopLimit: 9}}},
	} {
		a := load(t, c)
		answer := func(packet []byte) []byte {
			_, out := run(t, a.objects.Answer, ethernet(packet), &skb{Mark: a.token})
			return out[14:]
		}
		packet := data(t, sender, 0x123456, 8)
		ip := answer(packet)
		require.True(t, a.HasSent(ip, time.Hour))
		require.False(t, a.HasSent(ip, 0))
		for at := range ip {
			for _, bit := range []byte{1, 1 << 7} {
				ip[at] ^= bit
				ignored := at == 0 && bit == 1 || at == 1 && bit == 1<<7 || at == 7
				require.Equal(t, ignored, a.HasSent(ip, time.Hour), at)
				ip[at] ^= bit
			}
			require.False(t, a.HasSent(ip[:at], time.Hour))
		}
		other := answer(data(t, sender, 0x123456, 8, func(p *rocev2.Packet) { p.SrcPort, p.BTH.PKey = 5, 0x8001 }))
		require.True(t, a.HasSent(other, time.Hour))
		require.True(t, a.HasSent(answer(packet), time.Hour))
		require.True(t, a.HasSent(ip, time.Hour), "the flow has had others since")
	}
	a := load(t, AnswererConfig{})
	_, out := run(t, a.objects.Answer, ethernet(data(t, sender, 1, 0)), &skb{Mark: a.token})
	require.False(t, a.HasSent(out[14:], time.Hour), "nothing is remembered")
}

// HasSent knows at least the last 30,000 Fast CNPs, so rejections count that come within 30 ms at a million a second.
// It no longer knows those before the last 131,072, unless a later one has the same flow label.
func TestAnswererForgets(t *testing.T) {
	onNode(t)
	a := load(t, AnswererConfig{Remember: true})
	frame := ethernet(data(t, sender, 0x123456, 8))
	var last []byte // the IP packet of the last answer
	answer := func() []byte {
		_, out := run(t, a.objects.Answer, frame, &skb{Mark: a.token})
		last = out[14:]
		return last
	}
	var first [][]byte
	for range 8 {
		first = append(first, bytes.Clone(answer()))
	}
	labels := map[uint32]bool{} // of the later answers
	for range 30_000 {
		labels[wire.FlowLabel(answer())] = true
	}
	for _, ip := range first {
		require.True(t, a.HasSent(ip, time.Hour))
	}
	for range 131_072 {
		labels[wire.FlowLabel(answer())] = true
	}
	require.True(t, a.HasSent(last, time.Hour))
	forgotten := 0
	for _, ip := range first {
		if !labels[wire.FlowLabel(ip)] { // labels are random: 14 % of them are used again
			require.False(t, a.HasSent(ip, time.Hour))
			forgotten++
		}
	}
	require.Positive(t, forgotten)
}

// A host with the policy Probe gets one Fast CNP, and then has the policy AfterProbe.
func TestAnswererProbe(t *testing.T) {
	onNode(t)
	for _, c := range []struct {
		name  string
		after Policy
		want  Answered
	}{
		{"marks", Mark, Answered{Congested: 3, Copied: 1, MarkedOnly: 2, Marked: 3}},
		{"never marks", Nothing, Answered{Congested: 3, Copied: 1, NoMethod: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onNode(t)
			a := load(t, AnswererConfig{AfterProbe: c.after})
			require.NoError(t, a.SetSender(netip.PrefixFrom(sender, 128), Probe))
			require.False(t, a.HasProbed(sender))
			for range 3 {
				_, _ = run(t, a.objects.Egress, ethernet(data(t, sender, 1, 0)), nil)
				require.True(t, a.HasProbed(sender))
			}
			require.Equal(t, c.want, a.Counters())
			require.False(t, a.HasProbed(self), "no policy of its own")

			flows := wiretest.Must(a.OpenFlows())(t)
			defer flows.Close()
			require.NoError(t, a.Close())
			var all []Flow
			err := flows.VisitFlows(func(f *Flow) { all = append(all, *f) })
			require.NoError(t, err, "after its answerer is closed")
			require.Len(t, all, 1)
			require.Equal(t, []uint64{c.want.Copied, c.want.Limited}, []uint64{all[0].Sent, all[0].Limited})
		})
	}
}

// A node without an IPv6 address marks, and rejects policies with Fast CNPs.
func TestAnswererMarks(t *testing.T) {
	onNode(t)
	a := new(Answerer)
	require.NoError(t, a.loadPrograms(new(AnswererConfig)))
	defer a.Close()
	require.NoError(t, a.objects.Ports.Put(uint32(1), newPort(from(0))))
	require.ErrorIs(t, a.SetSender(netip.MustParsePrefix("::/0"), Notify), errSelf)
	require.NoError(t, a.SetSender(netip.MustParsePrefix("::/0"), Mark))
	require.NoError(t, a.SetSender(marked4, Mark))
	four := data(t, netip.MustParseAddr("192.0.2.1"), 1, 0, func(p *rocev2.Packet) {
		p.Dst = netip.MustParseAddr("192.0.2.2")
	})
	for _, packet := range [][]byte{four, data(t, sender, 1, 0)} {
		_, _ = run(t, a.objects.Egress, ethernet(packet), nil)
	}
	require.EqualValues(t, 2, a.Counters().MarkedOnly)
}

// A longer prefix can have the policy Nothing. IPv4 is marked or left alone.
func TestAnswererSenders(t *testing.T) {
	onNode(t)
	a := load(t, AnswererConfig{})
	copied := func() uint64 {
		before := a.Counters().Copied
		_, _ = run(t, a.objects.Egress, ethernet(data(t, sender, 1, 0)), nil)
		return a.Counters().Copied - before
	}
	require.EqualValues(t, 1, copied())
	one := netip.PrefixFrom(sender, 128)
	require.NoError(t, a.SetSender(one, Nothing))
	require.Zero(t, copied())
	require.NoError(t, a.RemoveSender(one))
	require.EqualValues(t, 1, copied())

	require.NoError(t, a.SetSender(netip.MustParsePrefix("::/0"), Mark))
	require.NoError(t, a.RemoveSender(marked4))
	four := data(t, netip.MustParseAddr("192.0.2.1"), 1, 0, func(p *rocev2.Packet) {
		p.Dst = netip.MustParseAddr("192.0.2.2")
	})
	_, _ = run(t, a.objects.Egress, ethernet(four), nil)
	n := a.Counters()
	require.Equal(t, []uint64{2, 0}, []uint64{n.NoMethod, n.MarkedOnly}, "::/0 has no IPv4")
	require.NoError(t, a.SetSender(netip.MustParsePrefix("0.0.0.0/0"), Mark))
	_, _ = run(t, a.objects.Egress, ethernet(four), nil)
	require.EqualValues(t, 1, a.Counters().MarkedOnly)
}
