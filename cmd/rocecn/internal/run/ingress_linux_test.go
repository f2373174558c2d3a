package run

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// An ingress PE forwards in user space, with a label for the flow. A congested P router names that label, and the
// sender receives a CNP. Labels survive a change of the configuration.
func TestIngress(t *testing.T) {
	a, r, b, in := network(t)
	r.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("0"), 0) })
	config := fmt.Sprintf(readConfig("ingress"), fcn.Port)
	agent := start(t, r, config)
	next := tunnels(t, b, "b0")
	out, core := raw(t, a), raw(t, b)
	// forwarded sends a packet and returns the packet that leaves the PE.
	forwarded := func(octets []byte) *rocev2.Frame {
		sends(t, out, octets)
		return next()
	}
	data := datagram(t, 17)
	f := forwarded(data)
	label := f.Outer().FlowLabel()
	require.NotZero(t, label)
	require.Equal(t, ip("2001:db8:2::1"), f.Outer().Src())
	require.Equal(t, data, f.BorderPacket()) // unchanged: the kernel has not forwarded it
	same, err := (&encap.IPInIPv6{Src: f.Outer().Src(), Dst: f.Outer().Dst()}).Append(nil, data, label)
	require.NoError(t, err)
	require.Equal(t, same[40:], f.Outer().IP()[40:])

	var tunnelled rocev2.Frame
	tunnelled.Decode(same, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	message, err := fcn.AppendFor(nil, &tunnelled, node6, 3, fcn.Config{})
	require.NoError(t, err)
	sends(t, core, message)
	cnps(t, in, 1, ip("2001:db8:1::1"))
	agent.reload(t, strings.Replace(config, "enabled = true", "enabled = true\nidle = \"30s\"", 1))
	agent.awaitLog(t, "msg=reloaded")
	require.Equal(t, label, forwarded(data).Outer().FlowLabel())
	sends(t, core, message, message)
	cnps(t, in, 2, ip("2001:db8:1::1"))

	agent.reload(t, strings.Replace(config, "enabled = true", "enabled = true\nmax_flows = 9", 1))
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "MaxFlows")
	require.Equal(t, label, forwarded(data).Outer().FlowLabel())
	agent.addsUp(t, 6)
	agent.awaits(t, 1, "rocecn_ingress_flows")
	agent.awaits(t, 1<<16-1, "rocecn_ingress_labels_free")
	require.EqualValues(t, 1, agent.metric("rocecn_role_effects_total", `effect="opened"`))
	agent.terminate(t)
}

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
			agent := start(t, r, fmt.Sprintf(readConfig("labels"), fcn.Port))
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
