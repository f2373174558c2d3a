package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/shape"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
)

// A calledProgram records the calls of an agent.
type calledProgram struct {
	countedProgram
	calls []string
}

func (p *calledProgram) preparePacket(node.Role, *netio.Packet) { p.calls = append(p.calls, "packet") }
func (p *calledProgram) syncRole(node.Role, time.Time)          { p.calls = append(p.calls, "sync") }
func (p *calledProgram) applyDecision(_ node.Role, d *node.Decision, _ time.Time) {
	p.calls = append(p.calls, d.Action.String())
}

// The program of a role in the kernel gets the learned pairs of its role, and is synchronized regularly: by the worker
// that plays the role, or by the agent if no worker does.
func TestCallsOfProgram(t *testing.T) {
	for _, row := range []struct {
		name   string
		agent  bool // the agent reads a source of the role
		kernel bool
		do     func(s *server, a *actor)
		want   []string
	}{
		{"learned pair", true, true, func(s *server, a *actor) {
			a.handleDecision(&node.Decision{Action: node.ActionLearned}, nil, false)
		}, []string{"learned"}},
		{"other decisions", true, true, func(s *server, a *actor) {
			for _, action := range []node.Action{node.NoAction, node.ActionForwarded, node.ActionRefused} {
				a.handleDecision(&node.Decision{Action: action}, nil, false)
			}
		}, nil},
		{"timers", true, true, func(s *server, a *actor) { a.runTimers(time.Now(), s) }, []string{"sync"}},
		{"timers without a program", true, false, func(s *server, a *actor) { a.runTimers(time.Now(), s) }, nil},
		{"no worker", false, true, func(s *server, a *actor) { s.syncKernelRole(s.kernels[0], time.Now()) },
			[]string{"sync"}},
		{"a worker", true, true, func(s *server, a *actor) { s.syncKernelRole(s.kernels[0], time.Now()) }, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, p := quietServer(nil), new(calledProgram)
			a := &actor{server: s, instance: &roles.Instance{Name: "sender", Config: &roles.SenderConfig{}},
				inKernel: row.kernel}
			a.setRole(wiretest.Must((&roles.SenderConfig{}).Apply(nil))(t))
			s.file.sources = map[string]*sourceEntry{"in": {name: "in", source: new(packetSource)}}
			if a.instance.Agent.Sources = []string{"in"}; !row.agent {
				a.instance.Agent.Mode = "kernel"
			}
			s.actors = []*actor{a}
			s.kernels = []*kernelRole{{name: "sender", program: p, closedCounts: new(kernelCounts)}}
			row.do(s, a)
			require.Equal(t, row.want, p.calls)
		})
	}
}

// Packets with a rate are counted by the reason for their delay.
func TestListDelays(t *testing.T) {
	require.Equal(t, []delay{{"nothing", 1}, {"rate", 2}, {"stop", 3}, {"horizon", 4}},
		listDelays(shape.Shaped{Passed: 1, Delayed: 2, Stopped: 3, Capped: 4}))
}
