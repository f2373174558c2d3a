package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// What docs/stability.md promises of the agent is still there: its metrics with their labels, and the fields of
// /status.
func TestPromised(t *testing.T) {
	config := "[source.in]\ntype = \"psample\"\ngroup = 1\nlevels = [10, 20]\n[sink.out]\ntype = \"raw\"\n"
	for role, keys := range everyRole {
		if strings.Contains(role, " ") { // a second one of its kind
			continue
		}
		config += "[role." + role + "]\nenabled = true\nsources = [\"in\"]\n"
		if role != "border" && role != "pause" {
			config += "sink = \"out\"\n"
		}
		config += keys
	}
	s := prepared(t, config)
	facts := map[string]bool{}
	wiretest.Metrics(string(s.metrics()), func(name, what string) {
		facts[fmt.Sprintf("metric %s %s", name, what)] = true
	})

	text, err := json.Marshal(s.status())
	require.NoError(t, err)
	var status any
	require.NoError(t, json.Unmarshal(text, &status))
	wiretest.Fields("", status, func(path, kind string) { facts[fmt.Sprintf("status %s %s", path, kind)] = true })
	wiretest.Promised(t, "agent.txt", facts)
}
