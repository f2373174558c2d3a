package run

import (
	"fmt"
	"os"
	"testing"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Linux encapsulates, in SRv6 and in its IP tunnels, and takes labels from a hash or from the packet itself. The PE
// sees which flow has which, on the way out; a P router names the label that it has seen, and the flow's sender gets a
// CNP. Flows that have one label, since their addresses and ports are the same, or all of a tunnel have, get none.
func TestLearnedLabels(t *testing.T) {
	for _, row := range []struct {
		name, option string // of the kernel
		commands     [][]string
		sysctl       string
		inherit      bool // the label is that of the packet
		one          bool // all flows have the same label: veth computes no hash
	}{
		{"seg6, a hash", "CONFIG_IPV6_SEG6_LWTUNNEL", [][]string{
			{"sr", "tunsrc", "set", "2001:db8:2::1"},
			{"route", "add", "2001:db8:2::b/128", "encap", "seg6", "mode", "encap", "segs", "2001:db8:2::c",
				"dev", "r1"},
		}, "1", false, false},
		{"seg6, reduced, the packet's own", "CONFIG_IPV6_SEG6_LWTUNNEL", [][]string{
			{"sr", "tunsrc", "set", "2001:db8:2::1"},
			{"route", "add", "2001:db8:2::b/128", "encap", "seg6", "mode", "encap.red", "segs", "2001:db8:2::c",
				"dev", "r1"},
		}, "0", true, false},
		{"ip6tnl, a hash of the tunnel", "CONFIG_IPV6_TUNNEL", [][]string{
			{"link", "add", "wan", "type", "ip6tnl", "mode", "any", "local", "2001:db8:2::1", "remote", "2001:db8:2::c",
				"encaplimit", "none"},
			{"link", "set", "wan", "up"}, {"route", "add", "2001:db8:2::b/128", "dev", "wan"},
		}, "", false, true},
		{"ip6tnl, the packet's own", "CONFIG_IPV6_TUNNEL", [][]string{
			{"link", "add", "wan", "type", "ip6tnl", "mode", "any", "local", "2001:db8:2::1", "remote", "2001:db8:2::c",
				"encaplimit", "none", "flowlabel", "inherit"},
			{"link", "set", "wan", "up"}, {"route", "add", "2001:db8:2::b/128", "dev", "wan"},
		}, "", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, r, b, in := network(t)
			for _, command := range row.commands {
				if out, err := r.TryRun("", "ip", append([]string{"-6"}, command...)...); err != nil {
					wiretest.NotInKernel(t, row.option, out)
				}
			}
			if row.sysctl != "" {
				r.Do(t, func() error {
					return os.WriteFile("/proc/sys/net/ipv6/seg6_flowlabel", []byte(row.sysctl), 0)
				})
			}
			agent := start(t, r, fmt.Sprintf(`
[source.wan]
type = "packet"
interfaces = ["r1"]
snap = 256
[source.messages]
type = "udp"
listen = ["[2001:db8:2::1]:%d"]
[sink.net]
type = "raw"
[role.ingress]
enabled = true
sources = ["messages"]
observe = ["wan"]
sink = "net"
labels = "learn"
tunnel = { src = "2001:db8:2::1" }
cnp = ["2001:db8:1::1"]
accept = ["2001:db8:2::c/128"]
`, fcn.Port))
			next := tunnels(t, b, "b0")
			out, core := raw(t, a), raw(t, b)
			// complain sends a datagram, and returns the FCN of the P router that receives it in its tunnel.
			complain := func(octets []byte) (message []byte, label uint32) {
				sends(t, out, octets)
				f := next()
				message = wiretest.Must(fcn.AppendFor(nil, f, node6, 3, fcn.Config{}))(t)
				return message, f.Outer().FlowLabel()
			}
			from := func(port uint16, label, destQP uint32) []byte {
				var p rocev2.Packet
				require.NoError(t, p.DecodeIP(datagram(t, destQP)))
				p.SrcPort, p.FlowLabel = port, label
				return wiretest.Must(p.AppendBinary(nil))(t)
			}
			one, label := complain(from(50001, 0x12345, 17))
			other, second := complain(from(50002, 0x12346, 19))
			if row.inherit {
				require.Equal(t, []uint32{0x12345, 0x12346}, []uint32{label, second})
			}
			require.NotZero(t, label)
			require.Equal(t, row.one, label == second)
			agent.awaits(t, 2, "rocecn_role_packets_total", `outcome="learned"`)
			if row.one {
				sends(t, core, one, other)
				agent.awaits(t, 2, "rocecn_role_refused_total", `reason="ambiguous_label"`)
				agent.terminate(t)
				return
			}
			sends(t, core, one, other)
			cnps(t, in, 2, ip("2001:db8:1::1"))

			// Same addresses, ports and label, but another queue pair: neither flow receives a CNP.
			again, same := complain(from(50001, 0x12345, 18))
			require.Equal(t, label, same)
			agent.awaits(t, 3, "rocecn_role_packets_total", `outcome="learned"`)
			sends(t, core, again, one, other)
			cnps(t, in, 1, ip("2001:db8:1::1"))
			agent.awaits(t, 2, "rocecn_role_refused_total", `reason="ambiguous_label"`)
			agent.awaits(t, 3, "rocecn_sink_packets_total")
			agent.terminate(t)
		})
	}
}
