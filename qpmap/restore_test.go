package qpmap_test

import (
	"maps"
	"testing"
	"time"

	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/stretchr/testify/require"
)

// A new Map takes over the pairs of All with their basis and age.
func TestRestore(t *testing.T) {
	byCM, byVotes := live(), live()
	byVotes.a, byVotes.b, byVotes.psnA = 0x777, 0x888, byVotes.psnA+1<<20
	m := established(byCM, true)
	for n := range uint32(5) {
		observe(m, start.Add(time.Minute), byVotes.request(n), byVotes.ack(n))
	}
	given := qpmap.Key{FlowKey: byCM.forth(), Domain: 7}
	require.NoError(t, m.Add(given, qpmap.Pair{SrcQP: 5}))
	saved := maps.Collect(m.All())
	require.Len(t, saved, 5)
	require.Equal(t, qpmap.BasisCM, saved[qpmap.Key{FlowKey: byCM.back()}].From)
	require.Equal(t, qpmap.BasisVotes, saved[qpmap.Key{FlowKey: byVotes.forth()}].From)

	restored := func() *qpmap.Map {
		m := qpmap.New(qpmap.Config{})
		for k, p := range saved {
			require.NoError(t, m.Add(k, p))
		}
		return m
	}
	without := maps.Clone(saved) // the time of a given pair does not matter
	delete(without, given)
	again := restored()
	all := maps.Collect(again.All())
	require.Equal(t, qpmap.BasisGiven, all[given].From)
	delete(all, given)
	require.Equal(t, without, all)

	// They age as before: ten minutes after they were seen last.
	late := start.Add(10*time.Minute + 1)
	_, err := again.SourceQP(qpmap.Key{FlowKey: byCM.forth()}, late)
	require.ErrorIs(t, err, qpmap.ErrUnknown)
	pair := wiretest.Must(again.SourceQP(qpmap.Key{FlowKey: byVotes.forth()}, late))(t)
	require.Equal(t, byVotes.a, pair.SrcQP)
	_, err = again.SourceQP(qpmap.Key{FlowKey: byVotes.forth()}, late.Add(time.Minute))
	require.ErrorIs(t, err, qpmap.ErrUnknown)
	_, err = again.SourceQP(given, late.Add(time.Hour))
	require.NoError(t, err)

	// The communication ids are no longer known: no message can name them, and 0 is no id.
	again = restored()
	observe(again, start, cmPacket(byCM.A, byCM.B, cm.AttributeDREQ, &cm.DREQ{RemoteQPN: byCM.b}))
	requirePair(t, again, byCM.forth(), byCM.a, qpmap.BasisCM)

	// It may be another connection that goes on: an answer tells.
	observe(again, start, byCM.request(3))
	requireNone(t, again, byCM.forth(), qpmap.ErrUnknown)
	observe(again, start, byCM.ack(3))
	requirePair(t, again, byCM.forth(), byCM.a, qpmap.BasisCM)
}
