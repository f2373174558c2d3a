package wiretest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBuiltWith(t *testing.T) {
	const config = "#\n# CONFIG_GENEVE is not set\nCONFIG_VXLAN=y\nCONFIG_NET_IPGRE=m\nCONFIG_VXLAN_GPE=\"x\"\n"
	for _, c := range []struct {
		name string
		want bool
	}{
		{"CONFIG_VXLAN", true}, {"CONFIG_NET_IPGRE", true}, {"CONFIG_GENEVE", false}, {"CONFIG_NET", false},
		{"CONFIG_VXLAN_GPE", false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, builtWith(config, c.name)) })
	}
}
