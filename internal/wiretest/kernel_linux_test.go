package wiretest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuiltWith(t *testing.T) {
	const config = "#\n# CONFIG_GENEVE is not set\nCONFIG_VXLAN=y\nCONFIG_NET_IPGRE=m\nCONFIG_VXLAN_GPE=\"x\"\n"
	for option, want := range map[string]bool{
		"CONFIG_VXLAN": true, "CONFIG_NET_IPGRE": true, "CONFIG_GENEVE": false, "CONFIG_NET": false,
		"CONFIG_VXLAN_GPE": false,
	} {
		require.Equal(t, want, builtWith(config, option), option)
	}
}
