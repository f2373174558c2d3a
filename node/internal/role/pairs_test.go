package role_test

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// answer is a node.Pairs that returns the same error for every flow.
type answer struct{ err error }

func (a answer) SourceQP(qpmap.Key, time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{SrcQP: 0x21}, a.err
}

func TestFind(t *testing.T) {
	k := rocev2.FlowKey{Src: host6, Dst: other, DestQP: 0x11}
	known := qpmap.New(qpmap.Config{})
	require.NoError(t, known.Add(qpmap.Key{FlowKey: k, Domain: 7}, qpmap.Pair{SrcQP: 0x21}))
	for _, row := range []struct {
		name   string
		pairs  node.Pairs
		domain uint32
		want   node.Reason
	}{
		{"nil", nil, 7, node.ReasonUnknownQP},
		{"a nil table", (*qpmap.Map)(nil), 7, node.ReasonUnknownQP},
		{"known", known, 7, node.NoReason},
		{"of another domain", known, 8, node.ReasonUnknownQP},
		{"known, no table", answer{}, 0, node.NoReason},
		{"ambiguous", answer{qpmap.ErrAmbiguous}, 0, node.ReasonAmbiguousQP},
		{"ambiguous, in other words", answer{fmt.Errorf("host: %w", qpmap.ErrAmbiguous)}, 0, node.ReasonAmbiguousQP},
		{"another error", answer{errors.New("down")}, 0, node.ReasonUnknownQP},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := role.PairsOf(row.pairs)
			flow := qpmap.Key{FlowKey: k, Domain: row.domain}
			want := node.Decision{Flow: flow, Reason: row.want}
			if row.want == node.NoReason {
				want.SrcQP, want.KnownQP = 0x21, true
			}
			for _, find := range []func(d *node.Decision){
				func(d *node.Decision) { q.Find(d, start) },
				func(d *node.Decision) { q.FindOf(d, &bth.Header{Opcode: bth.RCSendOnly, DestQP: 0x11}, start) },
			} {
				d := node.Decision{Flow: flow, SrcQP: 0x99, KnownQP: true} // nothing of that stays
				find(&d)
				require.Equal(t, want, d)
			}
		})
	}
}

// sentBy has a queue pair for each PSN.
type sentBy struct{ answer }

func (sentBy) SourceQPOf(_ qpmap.Key, h *bth.Header, _ time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{SrcQP: h.PSN + 1}, nil
}

func TestFindOf(t *testing.T) {
	q := role.PairsOf(sentBy{})
	var d node.Decision
	q.FindOf(&d, &bth.Header{PSN: 4}, start)
	require.Equal(t, node.Decision{SrcQP: 5, KnownQP: true}, d)
}

// Pairs that cannot learn, or are not there, are shown nothing.
func TestLearns(t *testing.T) {
	for _, row := range []struct {
		name  string
		pairs node.Pairs
		want  bool
	}{
		{"nil", nil, false}, {"a nil table", (*qpmap.Map)(nil), false}, {"fixed ones", answer{}, false},
		{"a table", qpmap.New(qpmap.Config{}), true}, {"another table", taught{}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := role.PairsOf(row.pairs)
			require.Equal(t, row.want, q.Learns())
			d := node.Decision{Packet: message.KindData}
			q.Learn(&d, datagram(2), 4, host6, start)
			if row.name == "a table" {
				require.Equal(t, node.ActionLearned, d.Action)
			} else {
				require.Equal(t, node.Decision{Packet: message.KindData}, d)
			}
		})
	}
}

// taught is a table that has just learned these pairs.
type taught []learnedPair

type learnedPair struct {
	key  qpmap.Key
	pair qpmap.Pair
}

func (l taught) SourceQP(qpmap.Key, time.Time) (p qpmap.Pair, err error) { return p, err }

func (l taught) Observe(*rocev2.Packet, uint32, time.Time) int { return len(l) }

func (l taught) Learned() iter.Seq2[qpmap.Key, qpmap.Pair] {
	return func(yield func(qpmap.Key, qpmap.Pair) bool) {
		for _, p := range l {
			if !yield(p.key, p.pair) {
				return
			}
		}
	}
}

// Of the two pairs of a connection a Decision has the one of the flow from an address; where neither is, the first.
func TestLearn(t *testing.T) {
	flow := func(src, dst netip.Addr, qp uint32) qpmap.Key {
		return qpmap.Key{FlowKey: rocev2.FlowKey{Src: src, Dst: dst, DestQP: qp}, Domain: 4}
	}
	forth := learnedPair{flow(host6, other, 1), qpmap.Pair{SrcQP: 0x22}}
	back := learnedPair{flow(other, host6, 2), qpmap.Pair{SrcQP: 0x11}}
	for _, row := range []struct {
		name  string
		table taught
		src   netip.Addr
		want  learnedPair
	}{
		{"first", taught{forth, back}, host6, forth},
		{"second", taught{back, forth}, host6, forth},
		{"the other's, first", taught{back, forth}, other, back},
		{"the other's, second", taught{forth, back}, other, back},
		{"neither", taught{forth, back}, addr("2001:db8::7"), forth},
		{"neither, other way", taught{back, forth}, addr("2001:db8::7"), back},
		{"one, not from there", taught{back}, host6, back},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := role.PairsOf(row.table)
			var d node.Decision
			q.Learn(&d, nil, 4, row.src, start)
			require.Equal(t,
				node.Decision{Action: node.ActionLearned, Flow: row.want.key, SrcQP: row.want.pair.SrcQP,
					KnownQP: true}, d)
		})
	}
}

// datagram returns a UD packet with the queue pair of its sender in the DETH.
func datagram(srcQP uint32) *rocev2.Packet {
	p := &rocev2.Packet{}
	p.Src, p.Dst, p.DstPort = host6, other, rocev2.Port
	p.BTH.Opcode, p.BTH.DestQP, p.BTH.Present = bth.UDSendOnly, 0x11, bth.HasDETH
	p.BTH.DETH.SrcQP = srcQP
	return p
}

// A packet that teaches a table a pair costs no memory.
func TestLearnNoAllocs(t *testing.T) {
	q := role.PairsOf(qpmap.New(qpmap.Config{}))
	p, now := datagram(1), start
	wiretest.NoAllocs(t, "Learn", func() {
		p.BTH.DETH.SrcQP++
		p.BTH.DestQP++
		now = now.Add(time.Second)
		var d node.Decision
		q.Learn(&d, p, 4, host6, now)
		if d.Action != node.ActionLearned || d.SrcQP != p.BTH.DETH.SrcQP || d.Flow.DestQP != p.BTH.DestQP {
			panic(d.Action)
		}
	})
}
