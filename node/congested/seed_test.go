package congested

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Nobody knows the seed that is not given.
func TestSeed(t *testing.T) {
	seeds := map[uint64]bool{}
	for range 10 {
		a, err := New(Config{Enabled: true, MaxFlows: 4, MaxSent: 4, MaxRejected: 4, MaxPaused: 4})
		require.NoError(t, err)
		require.NotZero(t, a.cfg.Seed)
		seeds[a.cfg.Seed] = true
	}
	require.Len(t, seeds, 10)
	a, err := New(Config{Enabled: true, Seed: 7})
	require.NoError(t, err)
	require.EqualValues(t, 7, a.cfg.Seed)
}
