package run

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// An ingress PE forwards in user space, with a label for the flow. A congested P router names that label, and the
// sender receives a CNP. Labels survive a change of the configuration.
func TestIngress(t *testing.T) {
	a, r, b, in := network(t)
	r.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("0"), 0) })
	config := fmt.Sprintf(`
[source.access]
type = "packet"
interfaces = ["r0"]
filter = "rocev2"
direction = "in"
[source.messages]
type = "udp"
listen = ["[2001:db8:2::1]:%d"]
[sink.wan]
type = "raw"
[role.ingress]
enabled = true
sources = ["access", "messages"]
sink = "wan"
tunnel = { type = "ipip", src = "2001:db8:2::1", dst = "2001:db8:2::b" }
cnp = ["2001:db8:1::1"]
accept = ["2001:db8:2::c/128"]
`, fcn.Port)
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
