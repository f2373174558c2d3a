package run

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/message"
	"github.com/stretchr/testify/require"
)

// The kernel's counters have one for each kind of message, also for a kind added later.
func TestEveryKindIsCountedInTheKernel(t *testing.T) {
	for kind := message.Other; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.Less(t, int(kind), len(kernelCounts{}.sent), kind)
	}
}

// Each kind that a role may send has a metric: a new kind is in kinds or here.
func TestEveryKindSentHasAMetric(t *testing.T) {
	others := []message.Kind{message.Other, message.Broken, message.Data, message.Ack, message.UnknownOption,
		message.PFC, message.Pause}
	for kind := message.Other; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.NotEqual(t, slices.Contains(others, kind), slices.Contains(kinds, kind), kind)
	}
}
