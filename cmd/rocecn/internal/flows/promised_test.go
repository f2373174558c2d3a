package flows

import (
	"testing"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// The metrics of flows -listen are those that docs/stability.md promises.
func TestPromised(t *testing.T) {
	facts := map[string]bool{}
	text := appendFindings(appendTotals(nil, flows.New(flows.Config{}).Snapshot(), 0), nil)
	wiretest.Metrics(string(text), func(name, what string) { facts["metric "+name+" "+what] = true })
	wiretest.Promised(t, "listen.txt", facts)
}
