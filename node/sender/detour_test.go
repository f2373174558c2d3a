package sender_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A network of eight paths by the source port, of which some are congested: the
// flow finds one that is not, and stays there.
func TestDetour(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	path := func(port uint16) int { return int(port*31>>3) % 8 }
	for congested := range 1 << 8 {
		if congested == 1<<8-1 {
			continue
		}
		d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: uint64(congested)})
		port := uint16(50000)
		moves := 0
		for congested>>path(port)&1 == 1 {
			by := netip.AddrFrom16([16]byte{0x20, 1, 15: uint8(path(port))}) // each path has its own switch
			d.Report(flow, port, by, now)
			next := d.SrcPort(flow, port, now)
			if next == port { // a switch was in the way four times: its path was tried four times
				break
			}
			require.GreaterOrEqual(t, next, uint16(49152))
			port = next
			moves++
		}
		require.Less(t, moves, 32)
		require.Equal(t, port, d.SrcPort(flow, port, now), "it stays")
	}
}

// A switch that reports port after port stands on every path: the flow stays
// where it is.
func TestNoWayAround(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	port := uint16(50000)
	moves := 0
	for range 20 {
		d.Report(flow, port, sw, now)
		if next := d.SrcPort(flow, port, now); next != port {
			port, moves = next, moves+1
		}
	}
	require.Equal(t, 3, moves)
	// Afterwards it may be tried again.
	d.Report(flow, port, sw, now.Add(time.Second))
	require.NotEqual(t, port, d.SrcPort(flow, port, now.Add(time.Second)))
}

// A port that is reported repeatedly is one port: the flow avoids it, and the reports of other ports are kept.
func TestReportedAgain(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	for range 40 {
		d.Report(flow, 50000, sw, now)
	}
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now))

	// Sixteen ports, each on a path of its own: as many as are kept.
	by := func(port uint16) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 15: uint8(port)}) }
	for port := range uint16(16) {
		d.Report(flow, port, by(port), now.Add(time.Duration(port)))
	}
	for range 20 {
		d.Report(flow, 3, by(3), now.Add(16))
	}
	for port := range uint16(16) {
		require.NotEqual(t, port, d.SrcPort(flow, port, now.Add(16)), "port %d", port)
	}
	// A seventeenth takes the place of the one reported longest ago.
	d.Report(flow, 16, by(16), now.Add(17))
	require.Equal(t, uint16(0), d.SrcPort(flow, 0, now.Add(17)))
	for port := uint16(1); port <= 16; port++ {
		require.NotEqual(t, port, d.SrcPort(flow, port, now.Add(17)), "port %d", port)
	}
}

// Of a full set the flow that was reported longest ago is forgotten, wherever it
// stands; the others are not taken for each other.
func TestDetourForgetsTheOldest(t *testing.T) {
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 4, Hold: time.Hour, Seed: 1})
	flow := func(qp uint32) rocev2.FlowKey { return rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: qp} }
	for i, qp := range []uint32{1, 2, 3, 4, 1, 2, 4, 5} {
		d.Report(flow(qp), 50000+uint16(qp), sw, now.Add(time.Duration(i)))
	}
	for qp := range uint32(6) {
		for other := range uint16(6) {
			moved := d.SrcPort(flow(qp), 50000+other, now.Add(8)) != 50000+other
			require.Equal(t, uint32(other) == qp && qp != 0 && qp != 3, moved, "flow %d, port %d", qp, other)
		}
	}
}

// A quarter of the flows that there is room for are all remembered.
func TestDetourRemembers(t *testing.T) {
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 1 << 12, Hold: time.Hour, Seed: 1})
	flow := rocev2.FlowKey{Src: self6, Dst: dst6}
	for flow.DestQP = range uint32(1 << 8) {
		d.Report(flow, 50000, sw, now)
	}
	for flow.DestQP = range uint32(1 << 8) {
		require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now), flow.DestQP)
	}
}

func TestDetourAges(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	d.Report(flow, 50000, sw, now)
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now.Add(time.Second-1)))
	require.EqualValues(t, 50000, d.SrcPort(flow, 50000, now.Add(time.Second)))
	require.EqualValues(t, 50001, d.SrcPort(flow, 50001, now), "another port")
	flow.DestQP++
	require.EqualValues(t, 50000, d.SrcPort(flow, 50000, now), "another flow")

	// Time that jumps back holds no longer than it should.
	d.Report(flow, 50000, sw, now)
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now.Add(-time.Hour)))
	require.EqualValues(t, 50000, d.SrcPort(flow, 50000, now.Add(-time.Hour+time.Second)))
}

// A flood of flows and of ports: no memory beyond that of the start.
func TestDetourFlood(t *testing.T) {
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	flow := rocev2.FlowKey{Src: self6, Dst: dst6}
	at := now
	wiretest.NoAllocs(t, "flood", func() {
		for range 1000 {
			flow.DestQP++
			at = at.Add(time.Microsecond)
			for port := range uint16(40) {
				d.Report(flow, port, sw, at)
			}
			d.SrcPort(flow, 39, at)
		}
	})
	d.Report(flow, 50000, dst6, at)
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, at))
}
