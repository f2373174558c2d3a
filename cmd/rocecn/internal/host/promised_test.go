package host

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// An observation has all keys that docs/stability.md promises.
func TestPromised(t *testing.T) {
	facts := map[string]bool{}
	for _, files := range []map[string]string{rxe, mlx5} {
		status, out, _ := run(t, "-root", folder(t, files))
		require.Zero(t, status)
		var observation any
		require.NoError(t, json.Unmarshal([]byte(out), &observation))
		wiretest.Fields("", observation, func(path, kind string) {
			facts[fmt.Sprintf("json %s %s", path, kind)] = true
		})
	}
	wiretest.Promised(t, "host.txt", facts)
}
