package qpmap_test

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The pairs that CM made are there until its DREQ.
func TestCMInCaptures(t *testing.T) {
	m := qpmap.New(qpmap.Config{})
	var most int
	for _, c := range wiretest.Capture(t, "rxe-ucmatose4.pcap") {
		var p rocev2.Packet
		if p.DecodeFrame(c.Data) != nil {
			continue
		}
		m.Observe(&p, 7, c.Time)
		if p.BTH.DestQP > 1 {
			got, err := m.SourceQP(p.FlowKey(), 7, c.Time)
			require.NoError(t, err)
			require.Equal(t, p.BTH.DestQP, got.SrcQP) // the same number at both ends here
			require.Equal(t, qpmap.CM, got.From)
			require.EqualValues(t, 1024, got.MTU)
			_, err = m.SourceQP(p.FlowKey(), 8, c.Time)
			require.ErrorIs(t, err, qpmap.ErrUnknown)
		}
		most = max(most, m.Stats().Pairs)
	}
	require.Equal(t, 4, most)
	require.Equal(t, qpmap.Stats{CM: 4, Ended: 4}, m.Stats())
}
