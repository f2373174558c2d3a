package inspect

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/message"
	"github.com/stretchr/testify/require"
)

// The summary counts and names every kind, also kinds that are added later.
func TestEveryKindIsInTheSummary(t *testing.T) {
	for kind := message.Other; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		var s summary
		s.add(&finding{record: new(capture.Record), kind: kind})
		var out bytes.Buffer
		s.print(&out)
		require.Contains(t, out.String(), fmt.Sprintf("1 packet: 1 %v\n", kind))
	}
}
