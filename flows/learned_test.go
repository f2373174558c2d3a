package flows

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/stretchr/testify/require"
)

// Once a pair is known, only packets with new information are passed to the map: READs, requests
// out of order, and answers about no request of this connection. The first request and the first answer
// in order are passed as well. Before, all are passed.
func TestPacketsLearned(t *testing.T) {
	known := func() *script {
		s := newScript(t).sendOnly(10, 11, 12).answerACK(10, 11, 12).sendOnly(13).answerACK(13)
		require.NotZero(t, s.onlyFlow().SrcQPFrom)
		return s
	}
	for _, c := range []struct {
		name   string
		script *script
		psn    uint32 // PSN of the packet passed last
	}{
		{"request of an unknown pair", newScript(t).sendOnly(10, 11), 11},
		{"answer to an unknown pair", newScript(t).sendOnly(10).answerACK(10, 11), 11},
		{"the first answer to a known pair", known(), 13},
		{"requests in order", known().sendOnly(14, 15), 13},
		{"after a gap", known().sendOnly(14, 16), 16},
		{"in order after it", known().sendOnly(14, 16, 17), 16},
		{"again", known().sendOnly(14, 15, 12), 12},
		{"READ", known().sendOnly(14).sendRead(15, 100), 15},
		{"answers in order", known().sendOnly(14).answerACK(14), 13},
		{"answer of another connection", known().sendOnly(14).answerACK(14, 900_000), 900_000},
		{"response in order", known().sendOnly(14).answerOp(bth.RCRDMAReadResponseOnly, 0x1F, 14), 13},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.psn, c.script.lastLearned) })
	}
}
