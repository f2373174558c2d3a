package roles

import (
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Queue pairs that begin at PSN 0 and run in lockstep tie, and only learn_port resolves the tie by the UDP source
// port. A reload that changes learn_port discards the learned pairs; any other reload keeps them.
func TestLearnPort(t *testing.T) {
	for _, c := range []struct{ name, keys string }{
		{"receiver", `"self": ["2001:db8:2::b"], "learn": true`},
		{"sender", `"self": ["2001:db8:1::a"], "learn": true`},
		{"proxy", `"self": ["2001:db8:9::1"]`},
		{"ingress", `"tunnel": {"type": "ipip", "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := `{"enabled": true, ` + c.keys
			without, err := configured(t, c.name, nil, head+`}`)
			require.NoError(t, err)
			lockstep(t, without, c.name == "ingress")
			_, err = learned(without).SourceQP(firstFlow, noon)
			require.ErrorIs(t, err, qpmap.ErrAmbiguous)

			with := wiretest.Must(configured(t, c.name, without, head+`, "learn_port": true}`))(t)
			require.NotSame(t, learned(without), learned(with))
			lockstep(t, with, c.name == "ingress")
			pair := wiretest.Must(learned(with).SourceQP(firstFlow, noon))(t)
			require.Equal(t, qpmap.BasisPort, pair.From)
			require.EqualValues(t, 0x100, pair.SrcQP)

			again := wiretest.Must(configured(t, c.name, with, head+`, "learn_port": true}`))(t)
			require.Same(t, learned(with), learned(again))
		})
	}
}

var firstFlow = qpmap.Key{FlowKey: rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: 0x200}}

// learned returns the learned pairs of a role.
func learned(r node.Role) *qpmap.Map {
	switch r := r.(type) {
	case *Receiver:
		return r.pairs.Map
	case *Sender:
		return r.pairs.Map
	case *Proxy:
		return r.pairs.Map
	case *Ingress:
		return r.pairs.Map
	}
	return nil
}

// lockstep shows a role the requests and answers of four connections, each with a UDP source port of its own.
// To an ingress PE the answers come in a tunnel.
func lockstep(t *testing.T, r node.Role, tunnelled bool) {
	t.Helper()
	p := Driver{Role: r, Report: func(*node.Decision, []byte, bool) {}}
	for psn := range uint32(10) {
		for _, answer := range []bool{false, true} {
			for i := range uint32(4) {
				octets := packet(t, func(p *rocev2.Packet) {
					p.SrcPort += uint16(i)
					p.BTH.PSN, p.BTH.DestQP, p.BTH.AckReq = psn, 0x200+i, true
					if answer {
						p.Src, p.Dst = receiverAddr, senderAddr
						p.BTH.Opcode, p.BTH.DestQP, p.BTH.AckReq, p.Payload = bth.RCAcknowledge, 0x100+i, false, nil
					}
				})
				if answer && tunnelled {
					octets = append(wiretest.Hex(t, fmt.Sprintf(`60000000 %04x 2940
						20010db8000e00000000000000000002 20010db8000e00000000000000000001`, len(octets))), octets...)
				}
				p.Receive(&capture.Record{Data: octets, OrigLen: 1, Link: capture.Raw, Time: noon}, node.Event{})
			}
		}
	}
}
