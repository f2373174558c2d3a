package main

import (
	"os"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The tables that are committed are those of the library as it is.
func TestTablesAreGenerated(t *testing.T) {
	committed := wiretest.Must(os.ReadFile("../rocecn.lua"))(t)
	made := wiretest.Must(replace(committed))(t)
	require.True(t, string(made) == string(committed), "run go generate ./wireshark/genlua")
}

func TestReplace(t *testing.T) {
	made := wiretest.Must(replace([]byte("before\n" + begin + "stale\n" + end + "after\n")))(t)
	require.Equal(t, "before\n"+begin+string(tables())+end+"after\n", string(made))
	for _, plugin := range []string{"", begin, end + begin} {
		_, err := replace([]byte(plugin))
		require.ErrorIs(t, err, errNoPlace)
	}
}

func TestUpdate(t *testing.T) {
	name := t.TempDir() + "/plugin.lua"
	require.ErrorIs(t, update(name), os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, []byte("nothing"), 0o600))
	require.ErrorIs(t, update(name), errNoPlace)
	require.NoError(t, os.WriteFile(name, []byte(begin+end), 0o600))
	require.NoError(t, update(name))
	got := wiretest.Must(os.ReadFile(name))(t)
	require.Equal(t, begin+string(tables())+end, string(got))
}
