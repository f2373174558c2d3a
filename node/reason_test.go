package node_test

import (
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// A Reason prints as its text in every verb that fmt uses for errors.
func TestReasonPrints(t *testing.T) {
	require.Equal(t, "limited limited", fmt.Sprint(node.ReasonLimited, " ", node.ReasonLimited))
	require.Equal(t, "limited", fmt.Sprintf("%v", node.ReasonLimited))
	require.Empty(t, fmt.Sprint(node.NoReason))
	_, isError := any(node.ReasonLimited).(error)
	require.False(t, isError)
}
