package node_test

import (
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// Every kind of message is counted: there are no more of them than columns.
func TestEveryKindIsCounted(t *testing.T) {
	for kind := message.Broken; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		var c node.Counters
		k := node.Count{Action: node.ActionSent, Message: kind}
		c.Inc(k)
		require.EqualValues(t, 1, c.Load(k), kind)
	}
}
