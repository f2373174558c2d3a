package proxies_test

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// PROXY section 5: an LSP names the proxy of a sender. A packet of that sender experiences congestion, and the
// message goes to the proxy, not to the sender. After the LSP is withdrawn nothing is sent.
func TestLookupByCongestedNode(t *testing.T) {
	var frame []byte
	var p rocev2.Packet
	for _, c := range wiretest.Capture(t, "rxe-verbs6.pcap") { // the first SEND
		if frame = c.Data; p.DecodeEthernet(frame) == nil && p.BTH.Opcode.Operation() == bth.OpSendOnly {
			break
		}
	}

	var f rocev2.Frame
	f.Decode(frame, rocev2.DecodeOptions{})
	sender := p.Src.As16()
	lsp, err := hex.DecodeString("831b010014010000" + "0000" + "04b0" + "0000000000010000" + "00000001000003")
	require.NoError(t, err)
	codes := pnc.Codes{}
	proxy := netip.MustParseAddr("2001:db8:ffff::2")
	lsp = wiretest.Must(codes.AppendISIS(lsp, pnc.Advertisement{Prefix: netip.PrefixFrom(netip.AddrFrom16(sender), 64),
		Proxy: proxy, Metric: 10}, 0))(t)
	lsp[9] = uint8(len(lsp))

	table := proxies.New(proxies.Config{})
	agent := wiretest.Must(congested.New(congested.Config{
		Enabled: true,
		Self6:   netip.MustParseAddr("2001:db8:ffff::5"),
		Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"),
			Value: congested.MethodProxy}),
		Proxies: table,
	}))(t)
	leaf := pnc.Originator{Protocol: pnc.ProtocolISIS, ID: [8]byte{0, 0, 0, 0, 0, 1, 0, 2}}
	for _, c := range []struct {
		lsps   [][]byte
		reason node.Reason
		to     netip.Addr
	}{
		{nil, node.ReasonNoProxy, netip.Addr{}},
		{[][]byte{lsp}, node.NoReason, proxy},
		{nil, node.ReasonNoProxy, netip.Addr{}},
	} {
		table.Replace(leaf, codes.ReadISIS(c.lsps...))
		out, d := agent.Receive(nil, &f, node.Event{Level: 3, Now: time.Unix(1, 0)})
		require.Equal(t, c.reason, d.Reason)
		require.Equal(t, c.to, d.To)
		require.Equal(t, c.to.IsValid(), d.Message == message.KindProxy)
		require.Equal(t, c.to.IsValid(), len(out) > 0)
	}
}
