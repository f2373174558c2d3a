package node_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// answer is what is said of every flow.
type answer struct{ err error }

func (a answer) SourceQP(qpmap.Key, time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{SrcQP: 0x21}, a.err
}

func TestSourceQP(t *testing.T) {
	k := rocev2.FlowKey{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), DestQP: 0x11}
	learned := qpmap.New(qpmap.Config{})
	require.NoError(t, learned.Add(qpmap.Key{FlowKey: k, Domain: 7}, qpmap.Pair{SrcQP: 0x21}))
	for _, c := range []struct {
		name   string
		pairs  node.Pairs
		domain uint32
		want   node.Reason
	}{
		{"nil", nil, 7, node.UnknownQP},
		{"learned", learned, 7, node.Accepted},
		{"of another domain", learned, 8, node.UnknownQP},
		{"ambiguous", answer{qpmap.ErrAmbiguous}, 0, node.AmbiguousQP},
		{"ambiguous, in other words", answer{fmt.Errorf("host: %w", qpmap.ErrAmbiguous)}, 0, node.AmbiguousQP},
		{"another error", answer{errors.New("down")}, 0, node.UnknownQP},
	} {
		pair, reason := node.SourceQP(c.pairs, qpmap.Key{FlowKey: k, Domain: c.domain}, time.Time{})
		require.Equal(t, c.want, reason, c.name)
		if c.want == node.Accepted {
			require.Equal(t, uint32(0x21), pair.SrcQP, c.name)
		} else {
			require.Zero(t, pair, c.name) // nothing to guess by
		}
	}
}

func TestReasonOf(t *testing.T) {
	require.Equal(t, node.Accepted, node.ReasonOf(nil))
	require.Equal(t, node.AmbiguousQP, node.ReasonOf(qpmap.ErrAmbiguous))
	require.Equal(t, node.UnknownQP, node.ReasonOf(qpmap.ErrUnknown))
}
