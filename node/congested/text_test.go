package congested_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/node/congested"
)

// Each method and capability is named by its text, and nothing else is.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		method congested.Method
		text   string
	}{
		{congested.NoMethod, "none"}, {congested.MethodFastCNP, "fastcnp"}, {congested.MethodProxy, "proxy"},
		{congested.MethodFCN, "fcn"},
		{congested.MethodPPFC, "ppfc"}, {congested.MethodMark, "mark"},
	} {
		t.Run(fmt.Sprint(c.method), func(t *testing.T) {
			var got congested.Method = 99
			require.NoError(t, got.UnmarshalText([]byte(c.text)))
			require.Equal(t, c.method, got)
			require.Equal(t, c.text, c.method.String())
		})
	}
	for _, c := range []struct {
		capability congested.Capability
		text       string
	}{
		{congested.CapabilityUnknown, "unknown"}, {congested.Capable, "yes"}, {congested.Incapable, "no"},
	} {
		t.Run(fmt.Sprint(c.capability), func(t *testing.T) {
			var got congested.Capability = 99
			require.NoError(t, got.UnmarshalText([]byte(c.text)))
			require.Equal(t, c.capability, got)
			require.Equal(t, c.text, c.capability.String())
		})
	}
	for _, text := range []string{"", "FastCNP", "cnp", "Method(6)"} {
		method, capability := congested.MethodPPFC, congested.Incapable
		require.Error(t, method.UnmarshalText([]byte(text)), text)
		require.Error(t, capability.UnmarshalText([]byte(text)), text)
		require.Equal(t, congested.MethodPPFC, method)
		require.Equal(t, congested.Incapable, capability)
	}
	require.Equal(t, "Method(6)", congested.Method(6).String())
	require.Equal(t, "Capability(3)", congested.Capability(3).String())
}
