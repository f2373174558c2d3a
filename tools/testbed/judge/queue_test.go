package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/message"
)

// Four packets of 100 octets arrive 1 ms apart, and leave each 10 ms; the third is
// dropped and comes again. The fourth finds two, the repeat finds none. With the second
// there are 200 octets in the queue.
func TestQueue(t *testing.T) {
	data := func(ms int, psn uint32) packet {
		return packet{at: timeAt(ms), kind: message.Data, id: packetID{psn: psn}, size: 100}
	}
	var q queueRun
	q.queue([]packet{
		data(0, 1), data(1, 2), data(2, 3), data(3, 4),
		{at: timeAt(2), kind: message.CNP}, {at: timeAt(8), kind: message.CNP}, {at: timeAt(9), kind: message.FastCNP},
		data(50, 3), {at: timeAt(70), kind: message.Ack},
	}, []packet{
		data(10, 1), data(20, 2), data(30, 4), {at: timeAt(31), kind: message.Ack}, data(60, 3),
	}, 200, time.Time{})
	require.Equal(t, queueRun{
		sent: 5, drops: 1, depths: []int{0, 100, 200, 0}, took: 70 * time.Millisecond,
		notifications: 3, congested: true, told: true, news: time.Millisecond,
		deep: 49 * time.Millisecond,
	}, q)
}

// The load begins with the third packet of a queue pair, for any packet numbers. Earlier packets
// are in the queue, and are not measured.
func TestQueueBegins(t *testing.T) {
	last := uint32(0xFFFFFF)
	before := []packet{
		data(0, 7, last), data(1, 8, 5), {at: timeAt(2), kind: message.CNP}, data(3, 7, 0), data(10, 7, 1),
		{at: timeAt(12), kind: message.CNP}, {at: timeAt(40), kind: message.Ack},
	}
	for i := range before {
		before[i].size = 100
	}
	begin := begins(before, 2)
	require.Equal(t, timeAt(10), begin)
	var q queueRun
	congested := q.queue(before, []packet{data(9, 7, last), data(20, 8, 5), data(30, 7, 0), data(35, 7, 1)}, 200, begin)
	require.Equal(t, timeAt(10), congested)
	require.Equal(t, queueRun{
		sent: 1, depths: []int{200}, took: 30 * time.Millisecond,
		notifications: 1, congested: true, told: true, news: 2 * time.Millisecond,
	}, q)
	require.Zero(t, begins(before, 3))
}

func TestQuantile(t *testing.T) {
	require.Equal(t, 0, quantile(nil, 50))
	require.Equal(t, 2, quantile([]int{3, 1, 2}, 50))
	require.Equal(t, 2, quantile([]int{3, 1, 2}, 99))
	require.Equal(t, 7, quantile([]int{7}, 99))
}
