package congested_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/node/congested"
)

// Each method and capability is named by its text, and nothing else is.
func TestTexts(t *testing.T) {
	for method, text := range map[congested.Method]string{
		congested.Nothing: "none", congested.FastCNP: "fastcnp", congested.Proxy: "proxy", congested.FCN: "fcn",
		congested.PPFC: "ppfc", congested.Mark: "mark",
	} {
		var got congested.Method = 99
		require.NoError(t, got.UnmarshalText([]byte(text)))
		require.Equal(t, method, got)
		require.Equal(t, text, method.String())
	}
	for capability, text := range map[congested.Capability]string{
		congested.Unknown: "unknown", congested.Capable: "yes", congested.Incapable: "no",
	} {
		var got congested.Capability = 99
		require.NoError(t, got.UnmarshalText([]byte(text)))
		require.Equal(t, capability, got)
		require.Equal(t, text, capability.String())
	}
	for _, text := range []string{"", "FastCNP", "cnp", "Method(6)"} {
		method, capability := congested.PPFC, congested.Incapable
		require.Error(t, method.UnmarshalText([]byte(text)), text)
		require.Error(t, capability.UnmarshalText([]byte(text)), text)
		require.Equal(t, congested.PPFC, method)
		require.Equal(t, congested.Incapable, capability)
	}
	require.Equal(t, "Method(6)", congested.Method(6).String())
	require.Equal(t, "Capability(3)", congested.Capability(3).String())
}
