package main

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// What the switches of the capture say is taken, what receivers say in the
// form of a Fast CNP is not, as the list does not have them.
func TestReceive(t *testing.T) {
	h := host{acl.New(netip.MustParsePrefix("2001:db8:ffff::/48")), map[rocev2.FlowKey]uint32{
		{Src: netip.MustParseAddr("2001:db8:1::1"), Dst: netip.MustParseAddr("2001:db8:4::e"), DestQP: 0x11}: 0x22,
	}}
	var out bytes.Buffer
	errors := map[string]int{}
	for _, c := range wiretest.Capture(t, "messages.pcap") {
		if err := h.receive(c.Data, &out); err != nil {
			errors[err.Error()]++
		}
	}
	require.Equal(t, `slow down 0x22, says 2001:db8:ffff::5 (network)
slow down 0x22, says 2001:db8:ffff::5 (network)
  node 0xc3 queue depth 65535
  node 0xd4 queue depth 64
  node 0xb2 queue depth 5
`, out.String())
	require.Equal(t, 2, errors["2001:db8:4::e: node: denied"])

	h.own = nil
	out.Reset()
	for _, c := range wiretest.Capture(t, "messages.pcap") {
		_ = h.receive(c.Data, &out)
	}
	require.Empty(t, out.String(), "never on a guess")
}
