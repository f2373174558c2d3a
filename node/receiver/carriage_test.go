package receiver_test

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/node/receiver"
	"github.com/stretchr/testify/require"
)

// A Carriage that nothing can be built with is refused, and not every packet afterwards.
func TestCarriage(t *testing.T) {
	on := receiver.Config{Enabled: true, Self4: netip.MustParseAddr("192.0.2.1")}
	cfg := on
	cfg.CNP.Carriage.DSCP = 200
	_, err := receiver.New(cfg)
	require.ErrorContains(t, err, "CNP.Carriage")
	cfg = on
	cfg.FastCNP.Carriage.ECN = 4
	_, err = receiver.New(cfg)
	require.ErrorContains(t, err, "FastCNP.Carriage")
}
