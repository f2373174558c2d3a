package rdma

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseQueuePairs(t *testing.T) {
	text := read(t, "qp.txt") + `
link mlx5_4/1 lqpn 262 rqpn 300 type RC state RTS rq-psn 1 sq-psn 1 pid 41 comm a lqpn 9 x 
link mlx5_4/- lqpn 8 type UD state RTS sq-psn 0 pid 0 comm [ipoib-verbs]
link mlx5_4/1 lqpn 5
`
	want := []QueuePair{
		{"rxe0", 1, 45, 81, "RC", "RTS", 0, "[rdma_cm]"},
		{"rxe0", 1, 46, 82, "RC", "RTS", 0, "[rdma_cm]"},
		{"rxe0", 1, 1, 0, "GSI", "RTS", 0, "[ib_core]"},
		{"mlx5_4", 1, 262, 300, "RC", "RTS", 41, "a lqpn 9 x"},
	}
	require.Equal(t, want, ParseQueuePairs(text, 100))
	require.Equal(t, want[:2], ParseQueuePairs(text, 2))
}
