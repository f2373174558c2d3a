package run

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/message"
	"github.com/stretchr/testify/require"
)

// What the kernel sent has a counter for every kind, also one that is added behind the last.
func TestEveryKindIsCountedInTheKernel(t *testing.T) {
	for kind := message.Other; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.Less(t, int(kind), len(kernelCounts{}.sent), kind)
	}
}

// A kind that a role may send has a metric: one that is added behind the last is in kinds, or here.
func TestEveryKindSentHasAMetric(t *testing.T) {
	others := []message.Kind{message.Other, message.Broken, message.Data, message.Ack, message.UnknownOption,
		message.PFC, message.Pause}
	for kind := message.Other; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.NotEqual(t, slices.Contains(others, kind), slices.Contains(kinds, kind), kind)
	}
}
