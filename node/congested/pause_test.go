package congested_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// ofPPFC decodes a PPFC of the role.
func ofPPFC(t *testing.T, packet []byte) (p rocev2.Packet, n ppfc.Notification) {
	t.Helper()
	require.NoError(t, p.DecodeIP(packet))
	_, err := icrc.Verify(p.IP)
	require.NoError(t, err)
	n = wiretest.Must(ppfc.FromPacket(&p))(t)
	return p, n
}

// resumes returns the flows that the agent lets run again.
func resumes(t *testing.T, a *congested.Role, port uint16) (all []rocev2.FlowKey) {
	t.Helper()
	for {
		out, d := resume(a, []byte{1}, port, now)
		if d.Action != node.ActionSent {
			require.Equal(t, []byte{1}, out)
			if d.Action != node.NoAction {
				require.Equal(t, node.Decision{Action: node.ActionRefused, Reason: node.ReasonDisabled}, d)
			}
			return all
		}
		p, n := ofPPFC(t, out[1:])
		require.Equal(t, decision{Packet: message.KindData, Kind: message.KindPPFC, To: p.Dst}, decisionOf(&d))
		require.Equal(t, n.DestQP, d.Flow.DestQP)
		require.Equal(t, []any{ppfc.Resume, port, time.Duration(0), uint16(0xFFFF)}, []any{n.Type, n.Port, n.Pause,
			n.PKey})
		all = append(all, rocev2.FlowKey{Src: p.Dst, Dst: n.Congested, DestQP: n.DestQP})
	}
}

// PauseFrom selects the request of a PPFC at levels 0 to 9; – is none.
func TestPauseFrom(t *testing.T) {
	for _, c := range []struct {
		from congested.PauseFrom
		want string
	}{
		{congested.PauseFrom{}, "ssssssssss"},
		{congested.PauseFrom{Stop: 1}, "-sssssssss"},
		{congested.PauseFrom{Stop: 7}, "-------sss"},
		{congested.PauseFrom{Alarm: 1, Hold: 3, Stop: 5}, "-aahhsssss"},
		{congested.PauseFrom{Alarm: 5, Hold: 3, Stop: 1}, "-sshhaaaaa"},
		{congested.PauseFrom{Alarm: 2}, "--aaaaaaaa"},
		{congested.PauseFrom{Hold: 4}, "----hhhhhh"},
		{congested.PauseFrom{Alarm: 2, Hold: 2}, "--hhhhhhhh"},
		{congested.PauseFrom{Alarm: 2, Hold: 2, Stop: 2}, "--ssssssss"},
	} {
		cfg := method(congested.MethodPPFC)
		cfg.PauseFrom, cfg.Pause = c.from, time.Millisecond
		for level, want := range []byte(c.want) {
			a := agent(t, cfg)
			out, d := congest(a, nil, &event{Frame: data(t), Options: ip, Level: uint8(level)}, now)
			require.Equal(t, node.NoReason, d.Reason)
			if want == '-' {
				require.Equal(t, decision{Packet: message.KindData}, d)
				require.Empty(t, out)
				require.Empty(t, counted(a))
				continue
			}
			_, n := ofPPFC(t, out)
			require.Equal(t, map[byte]ppfc.Type{'s': ppfc.Stop, 'h': ppfc.Hold, 'a': ppfc.Alarm}[want], n.Type,
				"%+v at %d", c, level)
			require.Equal(t, time.Millisecond, n.Pause)
			require.Equal(t, want != 'a', len(resumes(t, a, 0)) == 1, "an alarm pauses nothing")
		}
	}
}

// Each flow that was stopped or held because of a port gets one resume, from the node's address of its family,
// without regard to limits.
func TestResume(t *testing.T) {
	cfg := method(congested.MethodPPFC)
	cfg.PauseFrom = congested.PauseFrom{Alarm: 1, Hold: 2, Stop: 3}
	cfg.Out, cfg.Pause = node.Rate{PerSecond: 1e-6, Burst: 7}, 100*time.Microsecond
	a := agent(t, cfg)
	notify := func(qp uint32, level uint8, port uint16, change ...func(*rocev2.Packet)) node.Reason {
		frame := data(t, append(change, func(p *rocev2.Packet) { p.BTH.DestQP = qp })...)
		_, d := congest(a, nil, &event{Frame: frame, Options: ip, Level: level, Port: port}, now)
		return d.Reason
	}
	require.Empty(t, resumes(t, a, 7), "nothing was stopped")
	require.Zero(t, notify(1, 3, 7))
	require.Zero(t, notify(2, 2, 7))
	require.Zero(t, notify(3, 1, 7))
	require.Zero(t, notify(4, 3, 8))
	require.Zero(t, notify(1, 4, 7), "again")
	require.Zero(t, notify(1, 4, 8), "because of another port as well")
	require.Zero(t, notify(5, 7, 7, v4))
	require.Equal(t, node.ReasonLimited, notify(6, 7, 7), "this one was not stopped")
	require.ElementsMatch(t, []rocev2.FlowKey{
		{Src: src6, Dst: dst6, DestQP: 1}, {Src: src6, Dst: dst6, DestQP: 2}, {Src: src4, Dst: dst4, DestQP: 5},
	}, resumes(t, a, 7))
	require.Empty(t, resumes(t, a, 7), "one each")
	require.ElementsMatch(t, []rocev2.FlowKey{{Src: src6, Dst: dst6, DestQP: 4}, {Src: src6, Dst: dst6, DestQP: 1}},
		resumes(t, a, 8))
	of := func(k node.Count) uint64 { return a.Counters().Load(k) }
	require.Equal(t, []uint64{5, 12, 0}, []uint64{of(node.Count{Effect: node.EffectResumed}),
		of(sentKind(message.KindPPFC)),
		of(node.Count{Effect: node.EffectForgotten})})
	require.Empty(t, resumes(t, agent(t, congested.Config{}), 0), "off")
}

// A resume has the configured node form (D15), option type and header fields, like the other PPFCs.
func TestResumeAsConfigured(t *testing.T) {
	cfg := method(congested.MethodPPFC)
	cfg.PPFC.NodeAddress = true
	cfg.PPFC.Carriage.DSCP = 7
	limited := func(p *rocev2.Packet) { p.BTH.PKey = 0x8001 }
	a := agent(t, cfg)
	stop, _ := congest(a, nil, &event{Frame: data(t, v4, limited), Options: ip, Port: 3}, now)
	resuming, resumed := resume(a, nil, 3, now)
	require.Equal(t, node.ActionSent, resumed.Action)
	for _, c := range []struct {
		want   ppfc.Type
		octets []byte
	}{{ppfc.Stop, stop}, {ppfc.Resume, resuming}} {
		t.Run(fmt.Sprint(c.want), func(t *testing.T) {
			p, n := ofPPFC(t, c.octets)
			require.Equal(t, []any{c.want, self4, self4, src4, uint32(17), uint16(0x8001), uint8(7)},
				[]any{n.Type, n.Congested, p.Src, p.Dst, n.DestQP, n.PKey, p.DSCP()})
		})
	}
}

// A PPFC goes to the ingress PE for every type of tunnel and every packet in it.
func TestPauseIngress(t *testing.T) {
	outer4 := netip.MustParseAddr("192.0.2.1")
	for _, row := range []struct {
		name     string
		packet   []byte
		to, from netip.Addr
		of       netip.Addr
	}{
		{"IP in IPv6", tunnelled(t, ipip, data(t), 0), pe, self6, dst6},
		{"VXLAN", tunnelled(t, vxlan, data(t, v4), 5), pe, self6, dst4},
		{"SRv6", tunnelled(t, srv6, data(t, ecn(0)), 5), pe, self6, dst6},
		{"IPv4", inIPv4(data(t)), outer4, self4, dst6},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, byNode := range []bool{false, true} {
				cfg := method(congested.MethodPPFC)
				cfg.PauseIngress, cfg.PPFC.NodeAddress = true, byNode
				cfg.PEs = acls("2001:db8:e::/64", "192.0.2.1/32")
				a := agent(t, cfg)
				out, d := congest(a, nil, &event{Frame: row.packet, Options: ip, Port: 7}, now)
				require.Equal(t, decision{Packet: message.KindData, Kind: message.KindPPFC, To: row.to}, d)
				resuming, resumed := resume(a, nil, 7, now)
				require.Equal(t, node.ActionSent, resumed.Action)
				require.Equal(t, row.to, resumed.To)
				for _, octets := range [][]byte{out, resuming} {
					p, n := ofPPFC(t, octets)
					of := row.of
					if byNode {
						of = row.from
					}
					require.Equal(t, []any{row.from, row.to, of, uint32(17), uint16(7)},
						[]any{p.Src, p.Dst, n.Congested,
							n.DestQP, n.Port})
				}
			}
		})
	}
}

// Under labels alone there is no ingress to tell.
func TestPauseIngressOfLabels(t *testing.T) {
	cfg := method(congested.MethodPPFC)
	cfg.PauseIngress, cfg.PEs = true, acls("::/0")
	frame := slices.Concat(wiretest.Hex(t, "020000000002 020000000001 8847 00010140"), data(t))
	_, d := congest(agent(t, cfg), nil, &event{Frame: frame, Port: 7}, now)
	require.Equal(t, decision{Packet: message.KindData, Reason: node.ReasonNotTunnelled}, d)
}

// A flood of flows: the memory stays, and those forgotten are counted.
func TestPauseFlood(t *testing.T) {
	cfg := method(congested.MethodPPFC)
	cfg.MaxPaused, cfg.MaxFlows, cfg.Seed = 64, 4, 1
	a := agent(t, cfg)
	e := &event{Frame: data(t), Options: ip}
	buf := make([]byte, 0, 4096)
	const flows = 1000
	for i := range uint64(flows) {
		binary.BigEndian.PutUint64(e.Frame[16:], i<<32|1) // the sender
		_, d := congest(a, buf, e, now.Add(-time.Duration(i)*time.Hour))
		require.Equal(t, message.KindPPFC, d.Kind)
	}
	forgotten := a.Counters().Load(node.Count{Effect: node.EffectForgotten})
	require.GreaterOrEqual(t, forgotten, uint64(flows-64))
	kept := resumes(t, a, 0)
	require.Equal(t, flows-int(forgotten), len(kept))
	require.Greater(t, len(kept), 48)
	// In each set the latest four: of all that were kept none is among the first.
	for _, k := range kept {
		require.Greater(t, binary.BigEndian.Uint64(k.Src.AsSlice()[8:])>>32, uint64(flows/2))
	}
	require.Equal(t, forgotten, a.Counters().Load(node.Count{Effect: node.EffectForgotten}))
	wiretest.NoAllocs(t, "stop and resume", func() {
		congest(a, buf, e, now)
		resume(a, buf, 0, now)
		resume(a, buf, 0, now)
	})
	require.Empty(t, resumes(t, a, 0))
}

// A resume is about the flow that was paused, of its domain.
func TestResumeKeepsFlow(t *testing.T) {
	a := agent(t, method(congested.MethodPPFC))
	var f rocev2.Frame
	f.Decode(data(t), ip)
	_, stopped := a.Receive(nil, &f, node.Event{Domain: 7, Port: 3, Now: now})
	_, other := a.Receive(nil, &f, node.Event{Domain: 8, Port: 3, Now: now})
	require.Equal(t, []node.Action{node.ActionSent, node.ActionSent}, []node.Action{stopped.Action, other.Action})
	flow := rocev2.FlowKey{Src: src6, Dst: dst6, DestQP: 17}
	var got []node.Decision
	for range 2 {
		_, d := resume(a, nil, 3, now)
		got = append(got, d)
	}
	want := node.Decision{Action: node.ActionSent, Packet: message.KindData, Message: message.KindPPFC, To: src6}
	seven, eight := want, want
	seven.Flow = qpmap.Key{FlowKey: flow, Domain: 7}
	eight.Flow = qpmap.Key{FlowKey: flow, Domain: 8}
	require.ElementsMatch(t, []node.Decision{seven, eight}, got)
}

// A role that is off returns ReasonDisabled and keeps its flows. A flow that no own address can resume is counted as
// forgotten.
func TestResumeAfterChange(t *testing.T) {
	cfg := method(congested.MethodPPFC)
	stopped := func() *congested.Role {
		a := agent(t, cfg)
		_, d := congest(a, nil, &event{Frame: data(t), Options: ip, Port: 3}, now)
		require.Equal(t, message.KindPPFC, d.Kind)
		return a
	}
	forgotten := node.Count{Effect: node.EffectForgotten}

	a := stopped()
	require.NoError(t, a.Configure(congested.Config{}))
	out, d := resume(a, []byte{1}, 3, now)
	require.Equal(t, []byte{1}, out)
	require.Equal(t, node.Decision{Action: node.ActionRefused, Reason: node.ReasonDisabled}, d)
	require.NoError(t, a.Configure(cfg))
	out, d = a.Due(nil, now)
	require.Equal(t, node.ActionSent, d.Action, "the level was 0 while the role was off")
	_, n := ofPPFC(t, out)
	require.Equal(t, ppfc.Resume, n.Type)
	require.Empty(t, resumes(t, a, 3))
	require.Zero(t, a.Counters().Load(forgotten))

	a = stopped()
	require.NoError(t, a.Configure(congested.Config{}))
	require.NoError(t, a.Configure(cfg))
	require.Len(t, resumes(t, a, 3), 1)
	require.Zero(t, a.Counters().Load(forgotten))

	a = stopped()
	without := cfg
	without.Self6 = netip.Addr{}
	require.NoError(t, a.Configure(without))
	require.Empty(t, resumes(t, a, 3))
	require.EqualValues(t, 1, a.Counters().Load(forgotten))
	require.NoError(t, a.Configure(cfg))
	require.Empty(t, resumes(t, a, 3))
	require.EqualValues(t, 1, a.Counters().Load(forgotten))
}

func BenchmarkResume(b *testing.B) {
	a := wiretest.Must(congested.New(method(congested.MethodPPFC)))(b)
	congest(a, nil, &event{Frame: data(b), Options: ip, Port: 3}, now)
	for b.Loop() {
		resume(a, nil, 4, now)
	}
}
