package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/stretchr/testify/require"
)

// The agent keeps the promises of docs/stability.md: metrics with their labels, and fields of /status.
func TestPromised(t *testing.T) {
	config := `
[source.in]
type = "psample"
group = 1
levels = [10, 20]
[source.also]
type = "psample"
group = 2
[sink.out]
type = "raw"
`
	for role, keys := range everyRole {
		if strings.Contains(role, " ") { // a second role of its kind
			continue
		}
		config += "[role." + role + "]\nenabled = true\nsources = [\"in\"]\n"
		if role == "switch" {
			config += "observe = [\"also\"]\n"
		}
		config += sinkOf(role) + keys
	}
	s := prepared(t, config)
	// Its counters after packets have arrived.
	s.parts[0].published.Store(&[]queue{{name: "swp1"}})
	for _, a := range s.actors {
		a.outcomes[node.NoAction].Add(1)
		if a.rates != nil {
			a.rateStats.Store(new(reaction.TableStats))
		}
	}
	facts := map[string]bool{}
	wiretest.Metrics(string(s.formatMetrics()), func(name, what string) {
		facts[fmt.Sprintf("metric %s %s", name, what)] = true
	})

	text := wiretest.Must(json.Marshal(s.buildStatus()))(t)
	var status any
	require.NoError(t, json.Unmarshal(text, &status))
	wiretest.Fields("", status, func(path, kind string) { facts[fmt.Sprintf("status %s %s", path, kind)] = true })
	wiretest.Promised(t, "agent.txt", facts)
}
