package lab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/lab/sim"
)

// Memory for the arrival of a message is read ahead in a network with flows and in one without.
func TestReadAheadOfMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		flows bool
	}{{"flows", true}, {"no flows", false}} {
		t.Run(c.name, func(t *testing.T) {
			n, _ := incast(dcqcn(CNP), 1, 100*sim.Gbps, µs)
			if !c.flows {
				n.flows = nil
			}
			host := n.Hosts()[0]
			out := host.port.peer
			out.wire.push(flight{r: n.newMessage(make([]byte, 80), 1, host.index, 0)})
			for step := range 2 {
				require.NotZero(t, out.ReadAhead(portWire, step))
			}
			require.NotPanics(t, func() { out.ReadAhead(portWire, 2) })
		})
	}
}
