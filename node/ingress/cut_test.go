package ingress

import (
	"errors"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A packet that the capture cut gets its label where its flow shows, and is not forwarded: 40 octets of IPv6, 8 of
// UDP, 12 of BTH, 16 of RETH.
func TestForwardCut(t *testing.T) {
	p := packetOf(flow6)
	p.BTH.Opcode, p.HopLimit, p.BTH.PKey = bth.RCRDMAWriteOnly, 64, 0x8001
	p.Payload = make([]byte, 64)
	write := wiretest.Must(p.AppendBinary(nil))(t)
	other := octets(t, flow6, 1)
	other[40+3]++ // the UDP destination port
	for _, row := range []struct {
		name   string
		octets []byte
		cut    bool // the capture did
		kind   message.Kind
		action node.Action
		reason node.Reason
	}{
		{"in the data", write[:90], true, message.Data, node.ActionForwarded, 0},
		{"in the RETH", write[:70], true, message.Broken, node.ActionForwarded, 0},
		{"behind the BTH", write[:60], true, message.Broken, node.ActionForwarded, 0},
		{"in the BTH", write[:59], true, message.Broken, node.ActionRefused, node.ReasonBroken},
		{"in the UDP header", write[:44], true, message.Other, node.NoAction, 0}, // which does not show
		{"other traffic", other[:90], true, message.Other, node.NoAction, 0},
		{"broken off", write[:90], false, message.Broken, node.ActionRefused, node.ReasonBroken},
		{"broken off in the BTH", write[:59], false, message.Broken, node.ActionRefused, node.ReasonBroken},
		{"other traffic broken off", other[:90], false, message.Other, node.NoAction, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			pe := newPE(t, nil)
			var f rocev2.Frame
			f.Decode(row.octets, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: row.cut})
			out, d := pe.enter([]byte{9}, &f, 0, tunnel, start)
			require.Equal(t, []byte{9}, out)
			require.Equal(t, []any{row.kind, row.action, row.reason}, []any{d.Packet, d.Action, d.Reason})
			require.Equal(t, row.action == node.ActionForwarded, d.Label != 0)
			require.Zero(t, pe.effect(node.EffectUnlabelled))
		})
	}
}

type noTunnel struct{ encap.Tunnel }

func (noTunnel) Append(b, _ []byte, _ uint32) ([]byte, error) { return b, errors.New("too long") }

// Without a tunnel, and where a packet does not fit into it, nothing is forwarded.
func TestForwardNowhere(t *testing.T) {
	data, other := octets(t, flow6, 1), octets(t, flow6, 1)
	other[40+3]++ // the UDP destination port
	pe := newPE(t, nil)
	frame.Decode(data, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d := pe.enter([]byte{9}, &frame, 0, nil, start)
	require.Equal(t, []byte{9}, out)
	require.NotZero(t, d.Label)
	out, d = pe.enter([]byte{9}, &frame, 0, noTunnel{}, start)
	require.Equal(t, []byte{9}, out)
	require.Equal(t, node.Decision{
		Action: node.ActionRefused, Packet: message.Data, Reason: node.ReasonBroken,
	}, d)

	frame.Decode(other, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	out, d = pe.enter([]byte{9}, &frame, 0, noTunnel{}, start)
	require.Equal(t, []byte{9}, out)
	require.Equal(t, node.Decision{}, d)
	require.Zero(t, pe.effect(node.EffectUnlabelled))
}
