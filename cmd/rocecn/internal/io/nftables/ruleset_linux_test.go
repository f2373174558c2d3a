package nftables

import (
	"runtime"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func init() { runtime.LockOSThread() } // a host's thread ends, which the main thread cannot: keep tests off it

// The generation changes with each change by any program, and only then. It is that of the namespace in which the
// ruleset was opened.
func TestGeneration(t *testing.T) {
	wiretest.Tool(t, "nft")
	h, other := wiretest.NewHost(t, "h"), wiretest.NewHost(t, "other")
	var r *Ruleset
	h.Do(t, func() (err error) {
		r, err = Open()
		return err
	})
	defer r.Close()
	generation := func() uint32 {
		return wiretest.Must(r.Generation())(t)
	}
	was := generation()
	for _, change := range []string{
		"add table inet a", "add chain inet a b", "add rule inet a b counter", "flush table inet a", "flush ruleset",
	} {
		h.Run(t, change, "nft", "-f", "-")
		require.NotEqual(t, was, generation(), change)
		was = generation()
		h.Run(t, "", "nft", "list", "ruleset")
		other.Run(t, "add table inet a", "nft", "-f", "-")
		require.Equal(t, was, generation())
	}
}
