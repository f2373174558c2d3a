package congested_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A try is a packet and a configuration, of which faults change something.
type try struct {
	cfg       congested.Config
	packet    rocev2.Packet
	pe        netip.Addr
	label     uint32
	tunnelled bool
	fragment  bool
	cut       bool // octets are missing
}

// frame returns the packet as it arrives.
func (c *try) frame(t *testing.T) []byte {
	b := wiretest.Must(c.packet.AppendBinary(nil))(t)
	if c.fragment {
		b = fragmentOf(b)
	}
	if c.tunnelled {
		b = tunnelledFrom(t, c.pe, b, c.label)
	}
	switch {
	case c.cut && c.fragment:
		b = b[:len(b)-1]
	case c.cut: // within the BTH, before an AETH, the payload and the ICRC
		b = b[:len(b)-4-64-4-1]
	}
	return b
}

// A fault changes a try so that it is refused for a reason.
type fault struct {
	name   string
	reason node.Reason
	apply  func(*try)
}

// other is a sender with a proxy. Its messages are sent in spite of all faults, so that it can use up the rate.
var other = netip.MustParseAddr("203.0.113.1")

func byMethods(methods ...acl.Entry[congested.Method]) *acl.Map[congested.Method] {
	return acl.NewMap(append(methods, acl.Entry[congested.Method]{Prefix: netip.PrefixFrom(other, 32),
		Value: congested.MethodProxy})...)
}

func byProxies(proxies ...acl.Entry[netip.Addr]) *acl.Map[netip.Addr] {
	return acl.NewMap(append(proxies, acl.Entry[netip.Addr]{Prefix: netip.PrefixFrom(other, 32),
		Value: netip.MustParseAddr("192.0.2.77")})...)
}

// For a packet with two faults, the reason is the one that is earlier in the list.
func TestOrderOfChecks(t *testing.T) {
	first := []fault{
		{"disabled", node.ReasonDisabled, func(c *try) { c.cfg.Enabled = false }},
		{"fragment", node.ReasonFragment, func(c *try) { c.fragment = true }}, // completeness is not checked
		{"cut", node.ReasonBroken, func(c *try) { c.cut = true }},
		{"acknowledgement", node.ReasonAcknowledgement, func(c *try) { c.packet.BTH.Opcode = bth.RCAcknowledge }},
		{"own packet", node.ReasonOwnAddress, func(c *try) { c.packet.Src, c.cfg.Self6 = src6, src6 }},
		{"to multicast", node.ReasonAddress, func(c *try) { c.packet.Dst = netip.MustParseAddr("ff0e::1") }},
		{"no method", node.ReasonNoMethod, func(c *try) { c.cfg.Methods = byMethods() }},
	}
	inTunnel := func(c *try) { c.tunnelled = true }
	notTunnelled := fault{"not tunnelled", node.ReasonNotTunnelled, func(c *try) { c.tunnelled = false }}
	ingress := []fault{
		notTunnelled,
		{"own tunnel", node.ReasonOwnAddress, func(c *try) { c.pe = c.cfg.Self6 }},
		{"no PEs", node.ReasonDenied, func(c *try) { c.cfg.PEs = nil }},
		{"PE out of reach", node.ReasonAddress, func(c *try) { c.pe = netip.MustParseAddr("fe80::1") }},
	}
	noSelf6 := fault{"no IPv6 address", node.ReasonNoMethod, func(c *try) { c.cfg.Self6 = netip.Addr{} }}
	tunnelledFault := fault{"tunnelled", node.ReasonTunnelled, inTunnel}
	noName := fault{"to link-local", node.ReasonAddress, func(c *try) { c.packet.Dst = netip.MustParseAddr("fe80::2") }}
	limited := fault{"limited", node.ReasonLimited, func(c *try) { c.cfg.Out = node.Rate{PerSecond: 1e-6} }}
	notCapable := fault{"not ECN-capable", node.ReasonNotCapable, func(c *try) { c.packet.TrafficClass = 0 }}
	never := map[[2]string]bool{ // faults that exclude each other
		{"own packet", "no IPv6 address"}: true, {"own tunnel", "no IPv6 address"}: true, {"own tunnel",
			"PE out of reach"}: true,
		{"own packet", "own tunnel"}: true, {"not tunnelled", "label 0"}: true, {"to multicast", "to link-local"}: true,
	}
	for _, test := range []struct {
		name   string
		method congested.Method
		setup  func(*try)
		faults []fault
	}{
		{"fastcnp", congested.MethodFastCNP, nil, []fault{noSelf6, tunnelledFault, noName, limited}},
		{"fastcnp, not capable", congested.MethodFastCNP, func(c *try) { c.cfg.Capable = capable(congested.Incapable) },
			[]fault{noSelf6, tunnelledFault, notCapable}},
		{"proxy", congested.MethodProxy, nil, []fault{
			{"no proxy", node.ReasonNoProxy, func(c *try) { c.cfg.Proxies = byProxies() }}, noSelf6, noName, limited}},
		{"fcn", congested.MethodFCN, inTunnel, append(ingress[:4:4],
			fault{"label 0", node.ReasonUnknownLabel, func(c *try) { c.label = 0 }}, notCapable, noSelf6, limited)},
		{"ppfc", congested.MethodPPFC, nil, []fault{noSelf6, tunnelledFault, noName, limited}},
		{"ppfc to the ingress", congested.MethodPPFC, func(c *try) { c.tunnelled, c.cfg.PauseIngress = true, true },
			append(ingress[:4:4], noSelf6, noName, limited)},
		{"mark", congested.MethodMark, nil, []fault{notCapable}},
	} {
		t.Run(test.name, func(t *testing.T) {
			faults := append(first[:len(first):len(first)], test.faults...)
			for i, one := range faults {
				for _, two := range faults[i:] {
					if never[[2]string{one.name, two.name}] {
						continue
					}
					row := test.name + ": " + one.name + ", " + two.name
					r := try{cfg: method(test.method), pe: pe, label: 5}
					r.cfg.PEs = acl.New(netip.MustParsePrefix("::/0"))
					r.cfg.Methods = byMethods(acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"),
						Value: test.method})
					r.cfg.Proxies = byProxies(acl.Entry[netip.Addr]{Prefix: netip.MustParsePrefix("::/0"),
						Value: proxy})
					require.NoError(t, r.packet.DecodeIP(data(t)))
					if test.setup != nil {
						test.setup(&r)
					}
					one.apply(&r)
					two.apply(&r)
					a := agent(t, r.cfg)
					if one.reason == node.ReasonLimited || two.reason == node.ReasonLimited {
						e := &event{Frame: data(t, func(p *rocev2.Packet) { p.Src, p.Dst = other, dst4 }),
							Options: ip}
						_, d := congest(a, nil, e, now)
						require.Equal(t, r.cfg.Enabled, d.Reason == node.NoReason, row)
					}
					before := counted(a)
					out, d := congest(a, []byte{1}, &event{Frame: r.frame(t), Options: ip}, now)
					require.Equal(t, one.reason.String(), d.Reason.String(), row)
					require.Equal(t, []byte{1}, out, row)
					before[refused(one.reason)]++
					if d.MarkECN {
						require.Contains(t, []string{"fastcnp: limited, limited", "fastcnp: to link-local, limited",
							"fastcnp: to link-local, to link-local"}, row)
						before[marked]++
					}
					require.Equal(t, before, counted(a), row)
				}
			}
		})
	}
}

// A rejected packet is not charged to a limit: after any number of rejections, the one packet that may be answered is
// answered.
func TestRejectionsUseNoBudget(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.Out, cfg.PerFlow[0] = node.Rate{PerSecond: 1e-6}, time.Hour
	a := agent(t, cfg)
	for _, frame := range [][]byte{
		data(t)[:59], trimmed(t), fragmentOf(data(t)), data(t, opcode(bth.RCAcknowledge)), data(t, notification(self6)),
		data(t, func(p *rocev2.Packet) { p.Src = self6 }), data(t, v4), tunnelled(t, ipip, data(t), 5),
	} {
		_, d := congest(a, nil, &event{Frame: frame, Options: ip}, now)
		require.NotEqual(t, node.NoReason, d.Reason)
	}
	for i := range 3 {
		_, d := congest(a, nil, &event{Frame: data(t), Options: ip}, now)
		require.Equal(t, i == 0, d.Reason == node.NoReason)
	}
}

// Two clocks 200 ms apart, as of two queues of a network card, and packets from
// both by turns: not one more than is configured.
func TestClocksApart(t *testing.T) {
	const apart = 200 * time.Millisecond
	flow := func(qp uint32) []byte { return data(t, func(p *rocev2.Packet) { p.BTH.DestQP = qp }) }
	count := func(cfg congested.Config, frame func(i int) []byte) (sent int) {
		a := agent(t, cfg)
		for i := range 10_000 { // in one second
			at := now.Add(time.Duration(i) * 100 * time.Microsecond)
			if i%2 == 1 {
				at = at.Add(-apart)
			}
			_, d := congest(a, nil, &event{Frame: frame(i), Options: ip}, at)
			if d.Reason == node.NoReason {
				sent++
			}
		}
		return sent
	}
	cfg := method(congested.MethodFastCNP)
	cfg.PerFlow[0] = time.Hour
	require.Equal(t, 1, count(cfg, func(int) []byte { return flow(1) }))
	cfg.PerFlow[0] = 100 * time.Millisecond
	require.LessOrEqual(t, count(cfg, func(int) []byte { return flow(1) }), 10)
	cfg.PerFlow[0], cfg.Out = 0, node.Rate{PerSecond: 0.5, Burst: 3}
	require.Equal(t, 3, count(cfg, func(i int) []byte { return flow(uint32(i)) }))
	cfg.Out = node.Rate{PerSecond: 50, Burst: 1}
	require.LessOrEqual(t, count(cfg, func(i int) []byte { return flow(uint32(i)) }), 50)
}

// Only the outermost ECN field of a tunnelled packet counts, because it is the one to be marked.
func TestOuterECN(t *testing.T) {
	for _, c := range []struct{ outer, inner uint8 }{{0, 2}, {2, 0}, {1, 0}, {3, 0}, {0, 3}} {
		for _, row := range []struct {
			name   string
			packet []byte
		}{
			{"IPv6", tunnelled(t, ipip, data(t), 5)}, {"VXLAN", tunnelled(t, vxlan, data(t), 5)},
			{"IPv4", inIPv4(data(t))},
		} {
			t.Run(row.name, func(t *testing.T) {
				at := bytes.Index(row.packet, data(t))
				require.Positive(t, at)
				wiretest.SetECN(t, row.packet, uint8(c.outer))
				row.packet[at+1] = row.packet[at+1]&^0x30 | c.inner<<4 // of the IPv6 header inside
				_, d := congest(agent(t, method(congested.MethodMark)), nil, &event{Frame: row.packet, Options: ip},
					now)
				require.Equal(t, c.outer != 0, d.MarkECN, "%s %+v", row.name, c)
			})
		}
	}
}

// With OnlyMarked the ECN field in effect counts: any IP header may have CE if the innermost one is ECN-capable.
func TestOnlyMarked(t *testing.T) {
	cfg := method(congested.MethodMark)
	cfg.OnlyMarked = true
	for _, c := range []struct {
		outer, inner rocev2.ECN
		marked       bool
	}{
		{rocev2.CE, rocev2.ECT0, true},
		{rocev2.ECT0, rocev2.CE, true}, // marked before the tunnel
		{rocev2.CE, rocev2.CE, true},
		{rocev2.ECT0, rocev2.ECT0, false},
		{rocev2.CE, rocev2.NotECT, false}, // decapsulation drops it
	} {
		for _, row := range []struct {
			name   string
			packet []byte
		}{
			{"IP in IPv6", tunnelled(t, ipip, data(t), 5)}, {"VXLAN", tunnelled(t, vxlan, data(t), 5)},
			{"IP in IPv4", inIPv4(data(t))},
		} {
			t.Run(fmt.Sprintf("%s %v in %v", row.name, c.inner, c.outer), func(t *testing.T) {
				at := bytes.Index(row.packet, data(t))
				require.Positive(t, at)
				wiretest.SetECN(t, row.packet, uint8(c.outer))
				row.packet[at+1] = row.packet[at+1]&^0x30 | uint8(c.inner)<<4 // of the IPv6 header inside
				_, d := congest(agent(t, cfg), nil, &event{Frame: row.packet, Options: ip}, now)
				require.Equal(t, c.marked, d.MarkECN, "%+v", d)
			})
		}
	}
	for _, ecn := range []rocev2.ECN{rocev2.ECT0, rocev2.CE} { // without a tunnel
		packet := data(t)
		wiretest.SetECN(t, packet, uint8(ecn))
		_, d := congest(agent(t, cfg), nil, &event{Frame: packet, Options: ip}, now)
		require.Equal(t, ecn == rocev2.CE, d.MarkECN, "%+v", d)
	}
}
