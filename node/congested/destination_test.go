package congested_test

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Data to a destination that no message may name is not invalid: the reason is ReasonAddress. If this withholds a Fast
// CNP, the packet is marked as if a limit withheld it. Messages that do not name the destination are sent.
func TestDestinationsNotNamed(t *testing.T) {
	to := func(dst string) func(*rocev2.Packet) {
		return func(p *rocev2.Packet) {
			if p.Dst = netip.MustParseAddr(dst); p.Dst.Is4() {
				p.Src = src4
			}
		}
	}
	srv6 := func(p *rocev2.Packet) { // Segments Left 1, Segment List[0] fe80::3
		p.NextHeader = 43
		p.Ext = wiretest.Hex(t, "1102 0401 00000000 fe800000000000000000000000000003")
	}
	unknown, yes, no := congested.CapabilityUnknown, congested.Capable, congested.Incapable
	nodeAddress := func(c *congested.Config) { c.PPFC.NodeAddress = true }
	for _, c := range []struct {
		name   string
		method congested.Method
		frame  []byte
		setup  func(*congested.Config)
		reason node.Reason
		sent   message.Kind
		mark   bool
	}{
		{"Fast CNP, fe80::2, unknown", congested.MethodFastCNP, data(t, to("fe80::2")), nil, node.ReasonAddress, 0,
			true},
		{"Fast CNP, ::1", congested.MethodFastCNP, data(t, to("::1")), nil, node.ReasonAddress, 0, true},
		{"Fast CNP, SRv6", congested.MethodFastCNP, data(t, srv6), nil, node.ReasonAddress, 0, true},
		{"Fast CNP, fe80::2, not ECN-capable", congested.MethodFastCNP, data(t, to("fe80::2"), ecn(rocev2.NotECT)), nil,
			node.ReasonAddress, 0, false},
		{"Fast CNP, fe80::2, cannot mark", congested.MethodFastCNP, data(t, to("fe80::2")),
			func(c *congested.Config) { c.CannotMark = true }, node.ReasonAddress, 0, false},
		{"Fast CNP, fe80::2, capable", congested.MethodFastCNP, data(t, to("fe80::2")),
			func(c *congested.Config) { c.Capable = capable(yes) }, node.ReasonAddress, 0, false},
		{"Fast CNP, fe80::2, not capable", congested.MethodFastCNP, data(t, to("fe80::2")),
			func(c *congested.Config) { c.Capable = capable(no) }, 0, 0, true},
		{"mark, fe80::2", congested.MethodMark, data(t, to("fe80::2")), nil, 0, 0, true},
		{"proxy, fe80::2", congested.MethodProxy, data(t, to("fe80::2")), nil, node.ReasonAddress, 0, false},
		{"proxy, SRv6", congested.MethodProxy, data(t, srv6), nil, node.ReasonAddress, 0, false},
		{"proxy, loopback", congested.MethodProxy, data(t, to("127.0.0.1")), nil, node.ReasonAddress, 0, false},
		{"proxy, reserved", congested.MethodProxy, data(t, to("240.0.0.1")), nil, node.ReasonAddress, 0, false},
		{"proxy, link-local", congested.MethodProxy, data(t, to("169.254.0.1")), nil, node.ReasonAddress, 0, false},
		{"proxy, broadcast", congested.MethodProxy, data(t, to("255.255.255.255")), nil, node.ReasonAddress, 0, false},
		{"proxy, this network", congested.MethodProxy, data(t, to("0.0.0.1")), nil, node.ReasonAddress, 0, false},
		{"proxy, in VXLAN", congested.MethodProxy, tunnelled(t, vxlan, data(t, to("127.0.0.1")), 5), nil,
			node.ReasonAddress, 0, false},
		{"PPFC, fe80::2", congested.MethodPPFC, data(t, to("fe80::2")), nil, node.ReasonAddress, 0, false},
		{"PPFC, SRv6", congested.MethodPPFC, data(t, srv6), nil, node.ReasonAddress, 0, false},
		{"PPFC, loopback", congested.MethodPPFC, data(t, to("127.0.0.1")), nil, node.ReasonAddress, 0, false},
		{"PPFC, broadcast", congested.MethodPPFC, data(t, to("255.255.255.255")), nil, node.ReasonAddress, 0, false},
		{"PPFC that names the node", congested.MethodPPFC, data(t, to("fe80::2")), nodeAddress, 0, message.PPFC, false},
		{"FCN, fe80::2", congested.MethodFCN, tunnelled(t, ipip, data(t, to("fe80::2")), 5), nil, 0, message.FCN,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := method(c.method)
			cfg.Capable, cfg.Out = capable(unknown), node.Rate{PerSecond: 1e-6}
			if c.setup != nil {
				c.setup(&cfg)
			}
			a := agent(t, cfg)
			out, d := congest(a, nil, &event{Frame: c.frame, Options: ip}, now)
			require.Equal(t, []any{c.reason.String(), c.sent, c.mark}, []any{d.Reason.String(), d.Kind, d.MarkECN})
			require.Equal(t, c.sent == message.Other, len(out) == 0)
			if c.sent == message.Other {
				_, d := congest(a, nil, &event{Frame: data(t), Options: ip}, now)
				require.NotEqual(t, node.ReasonLimited, d.Reason, "the rejected packet was not charged")
			}
		})
	}
}
