package receiver_test

import (
	"iter"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Broken RoCEv2 is refused where it is marked and may be data, as far as can be read; other broken packets ask for
// nothing.
func TestBroken(t *testing.T) {
	const at4, at6 = 20, 40
	short := func(udp int, length uint8, opcode bth.Opcode, change ...func(*rocev2.Packet)) []byte {
		b := isMarked(t, change...).IP
		b[udp+4], b[udp+5], b[udp+8] = 0, length, byte(opcode)
		return b
	}
	unmarked := func(p *rocev2.Packet) { p.TrafficClass = uint8(rocev2.ECT0) }
	for _, row := range []struct {
		name   string
		octets []byte
		reason node.Reason
	}{
		{"data", short(at6, 9, bth.RCSendOnly), node.ReasonBroken},
		{"data of IPv4", short(at4, 9, bth.RCSendOnly, v4), node.ReasonBroken},
		{"acknowledgement", short(at6, 9, bth.RCAcknowledge), 0},
		{"CNP", short(at4, 9, bth.CNP, v4), 0},
		{"no opcode", short(at6, 8, bth.RCAcknowledge), node.ReasonBroken},
		{"not even a UDP header", short(at6, 7, bth.RCAcknowledge), node.ReasonBroken},
		{"not marked", short(at6, 9, bth.RCSendOnly, unmarked), 0},
		{"not marked, of IPv4", short(at4, 9, bth.RCSendOnly, v4, unmarked), 0},
		{"breaks off in its data", isMarked(t).IP[:70], node.ReasonBroken},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, on := range []bool{true, false} {
				cfg := config(t)
				cfg.Enabled = on
				r := made(t, cfg)
				var f rocev2.Frame
				f.Decode(row.octets, ip)
				want := node.Decision{Packet: message.Broken}
				if row.reason != 0 {
					want.Action, want.Reason = node.ActionRefused, row.reason
					if !on {
						want.Reason = node.ReasonDisabled
					}
				}
				out, d := r.Receive(nil, &f, node.Event{Now: now})
				require.Empty(t, out)
				require.Equal(t, want, d)
			}
		})
	}
}

// teaching learns one pair of every packet.
type teaching struct {
	seen *int
	key  qpmap.Key
}

func (l teaching) SourceQP(qpmap.Key, time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{SrcQP: 0x22}, nil
}

func (l teaching) Observe(*rocev2.Packet, uint32, time.Time) int { *l.seen++; return 1 }

func (l teaching) Learned() iter.Seq2[qpmap.Key, qpmap.Pair] {
	return func(yield func(qpmap.Key, qpmap.Pair) bool) { yield(l.key, qpmap.Pair{SrcQP: 0x99}) }
}

// A receiver that is on learns from data and acknowledgements. The Action is node.ActionLearned if there is no other
// one.
func TestLearns(t *testing.T) {
	seen := 0
	key := qpmap.Key{FlowKey: rocev2.FlowKey{Src: src6, Dst: self6, DestQP: 7}}
	cfg := config(t)
	cfg.QPs = teaching{&seen, key}
	r := made(t, cfg)
	learned := func(k message.Kind) node.Decision {
		return node.Decision{Action: node.ActionLearned, Packet: k, Flow: key, SrcQP: 0x99, KnownQP: true}
	}
	_, d := receive(r, nil, isMarked(t, opcode(bth.RCAcknowledge)), now)
	require.Equal(t, learned(message.Ack), d)
	_, d = receive(r, nil, isMarked(t, func(p *rocev2.Packet) { p.TrafficClass = uint8(rocev2.ECT0) }), now)
	require.Equal(t, learned(message.Data), d)
	_, d = receive(r, nil, isMarked(t), now)
	require.Equal(t, []any{node.ActionSent, uint32(0x22), uint32(0x11)}, []any{d.Action, d.SrcQP, d.Flow.DestQP})
	require.Equal(t, 3, seen)

	cfg.Enabled = false
	require.NoError(t, r.Configure(cfg))
	_, d = receive(r, nil, isMarked(t, opcode(bth.RCAcknowledge)), now)
	require.Equal(t, node.Decision{Packet: message.Ack}, d)
	require.Equal(t, 3, seen)
	_, err := receiver.New(cfg)
	require.NoError(t, err)
}
