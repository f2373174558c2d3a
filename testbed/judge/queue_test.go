package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/message"
)

// Four packets of 100 octets arrive 1 ms apart, and leave each 10 ms; the third is
// dropped and comes again. The fourth finds two, the repeat finds none.
func TestQueue(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }
	data := func(ms int, psn uint32) packet {
		return packet{at: at(ms), kind: message.Data, id: packetID{psn: psn}, size: 100}
	}
	var q queueRun
	q.queue([]packet{
		data(0, 1), data(1, 2), data(2, 3), data(3, 4),
		{at: at(2), kind: message.CNP}, {at: at(8), kind: message.CNP}, {at: at(9), kind: message.FastCNP},
		data(50, 3), {at: at(70), kind: message.Ack},
	}, []packet{
		data(10, 1), data(20, 2), data(30, 4), {at: at(31), kind: message.Ack}, data(60, 3),
	}, 200)
	require.Equal(t, queueRun{
		sent: 5, drops: 1, depths: []int{0, 100, 200, 0}, took: 70 * time.Millisecond,
		notifications: 3, congested: true, told: true, news: 5 * time.Millisecond,
		deep: 47 * time.Millisecond,
	}, q)
}

func TestQuantile(t *testing.T) {
	require.Equal(t, 0, quantile(nil, 50))
	require.Equal(t, 2, quantile([]int{3, 1, 2}, 50))
	require.Equal(t, 2, quantile([]int{3, 1, 2}, 99))
	require.Equal(t, 7, quantile([]int{7}, 99))
}
