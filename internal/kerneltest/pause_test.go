//go:build linux

package kerneltest

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
	file := filepath.Join(t.TempDir(), "qp.bpf")
	require.NoError(t, os.WriteFile(file, []byte(filter.Bytecode(program)+"\n"), 0o600))
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
		return m.Decode(frame, rocev2.DecodeOptions{}, message.Config{}) == nil && m.Kind == message.PPFC
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
