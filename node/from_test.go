package node_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
	_, told := p.Receive(nil, frame(toProxy), node.Event{Now: now})
	check("proxy", told)
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
