package node_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/stretchr/testify/require"
)

// NoReason has no error, and every other reason has an error of its own.
func TestReasonErr(t *testing.T) {
	require.NoError(t, node.NoReason.Err())
	require.EqualError(t, node.ReasonLimited.Err(), "node: limited")
	require.EqualError(t, node.Reason(200).Err(), "node: Reason(200)")
	for r := range node.Reason(24) {
		for other := range node.Reason(24) {
			err := fmt.Errorf("10.0.0.1: %w", r.Err())
			require.Equal(t, r == other && r != node.NoReason, errors.Is(err, other.Err()), "%v, %v", r, other)
		}
	}
}

// A Reason prints as its text in every verb that fmt uses for errors.
func TestReasonPrints(t *testing.T) {
	require.Equal(t, "limited limited", fmt.Sprint(node.ReasonLimited, " ", node.ReasonLimited))
	require.Equal(t, "limited", fmt.Sprintf("%v", node.ReasonLimited))
	require.Empty(t, fmt.Sprint(node.NoReason))
	_, isError := any(node.ReasonLimited).(error)
	require.False(t, isError)
}

func TestReasonErrAllocatesNothing(t *testing.T) {
	var err error
	wiretest.NoAllocs(t, "Err", func() {
		for r := range node.Reason(24) {
			err = r.Err()
		}
	})
	require.Error(t, err)
}
