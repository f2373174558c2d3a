package reaction

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
	tell := func(kind ppfc.Type, last time.Duration, rate uint64, now time.Time) {
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

	tell(ppfc.Hold, 300*µs, 30e9, at(0))
	require.EqualValues(t, 30e9, rate(0))
	require.EqualValues(t, 10e9, b.Rate(10e9, at(µs)), "a reaction point that asks for less has it")
	require.EqualValues(t, line, rate(300*µs), "it ends by itself")

	tell(ppfc.Stop, 100*µs, 30e9, at(50*µs))
	require.Zero(t, rate(50*µs))
	next, ok := b.Next()
	require.True(t, ok)
	require.True(t, next.Equal(at(150*µs)))
	require.Zero(t, rate(150*µs-1))

	// The stop is over, the hold is not: the table is asked again.
	state, until := table.State(pause.FlowTarget(far, 0x123), at(150*µs))
	b.Set(state, until, line)
	require.EqualValues(t, 30e9, rate(150*µs), "held at the rate of when it was asked for")
	next, _ = b.Next()
	require.True(t, next.Equal(at(300*µs)))

	tell(ppfc.Resume, 0, 30e9, at(200*µs))
	require.EqualValues(t, line, rate(200*µs))
	_, ok = b.Next()
	require.False(t, ok)

	tell(ppfc.Alarm, time.Millisecond, line, at(300*µs))
	require.EqualValues(t, line, rate(300*µs), "an alarm slows nothing down")
	_, ok = b.Next()
	require.False(t, ok)
}
