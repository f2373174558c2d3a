package run

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// The key of a sender has no destination, and that of a flow has all of it.
func TestKeysOfDecision(t *testing.T) {
	src, dst := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	about := node.Decision{Flow: qpmap.Key{FlowKey: rocev2.FlowKey{Src: src, Dst: dst, DestQP: 17}}}
	flow, sender := keysOf(&about)
	require.Equal(t, about.Flow.FlowKey, flowOf(&flow))
	got := flowOf(&sender)
	require.Equal(t, src, got.Src)
	require.Equal(t, netip.Addr{}, got.Dst)

	flow, sender = keysOf(&node.Decision{From: src}) // a rejected message without a known flow
	require.Equal(t, sender, flow)
	got = flowOf(&flow)
	require.Equal(t, src, got.Src)
	require.Equal(t, netip.Addr{}, got.Dst)
}
