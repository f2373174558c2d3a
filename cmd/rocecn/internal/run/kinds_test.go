package run

import (
	"fmt"
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
