package proxy

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A flood of messages about flows that do not exist leads to no notification, inside or outside the senders' prefix.
func TestForgedFlows(t *testing.T) {
	p := newProxy(t, func(c *Config) {
		c.PerFlow, c.MaxFlows = time.Second, 64
		c.Senders = acl.NewMap(acl.Entry[Answer]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Value: AnswerCNP})
	})
	random := rand.New(rand.NewPCG(3, 3))
	data := messageAbout(t, congested(t, flow6, nil))
	out := make([]byte, 0, 256)
	for i := range 100_000 {
		k := random.Uint64()
		// the lower half of the sender's address, in tuple and invoking packet
		for _, at := range []int{8, 40 + 8 + 8} {
			binary.BigEndian.PutUint64(data[at:], k)
		}
		if i%2 == 0 {
			data[2]++
			data[40+8+2]++
		}
		_, _, reason := p.hear(out, switch6, data, start)
		if reason == node.NoReason {
			t.Fatal("something was sent")
		}
	}
	require.Zero(t, p.sent())
	require.NotZero(t, p.refused(node.ReasonUnknownQP))
	require.NotZero(t, p.refused(node.ReasonNoMethod))
}

// One message, replayed all the time for a second: as many CNPs as the limit of
// the flow says, and those of another flow are not held up.
func TestReplays(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.PerFlow = time.Millisecond })
	replayed, other := messageAbout(t, congested(t, flow6, nil)), messageAbout(t, congested(t, flow4, nil))
	var answers [2]int
	for i := range 100_000 {
		now := start.Add(time.Duration(i) * 10 * time.Microsecond)
		for j, data := range [][]byte{replayed, other}[:1+(i%1000)/999] {
			if _, a, reason := p.hear(nil, switch6, data, now); reason == node.NoReason {
				answers[j]++
				require.Equal(t, []rocev2.FlowKey{flow6, flow4}[j], a.Flow)
			}
		}
	}
	require.Equal(t, [2]int{1000, 100}, answers)
}
