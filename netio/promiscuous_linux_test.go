package netio

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// While a source is open, its interface takes packets to all MAC addresses, and no others before and after. A card
// drops packets to other addresses, which veth devices do not, so the flags of the interface are looked at.
func TestPromiscuous(t *testing.T) {
	wiretest.Cable(t)
	isPromiscuous := func() bool {
		out, err := exec.Command("ip", "-details", "link", "show", "far").Output()
		require.NoError(t, err)
		require.Regexp(t, ` promiscuity [01] `, string(out))
		return strings.Contains(string(out), " promiscuity 1 ")
	}
	require.False(t, isPromiscuous())
	s := wiretest.Must(OpenPackets(PacketConfig{Interface: "far"}))(t)
	require.True(t, isPromiscuous())
	require.NoError(t, s.Close())
	require.False(t, isPromiscuous())
}
