package congested_test

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

func acls(prefixes ...string) *acl.List {
	var all []netip.Prefix
	for _, p := range prefixes {
		all = append(all, netip.MustParsePrefix(p))
	}
	return acl.New(all...)
}

// New rejects a configuration that cannot work, and the error names the field. The same configuration is valid while
// the role is off.
func TestNewRejects(t *testing.T) {
	addr := netip.MustParseAddr
	for _, c := range []struct {
		text   string
		change func(*congested.Config)
	}{
		{"Self4 2001:db8::1", func(c *congested.Config) { c.Self4 = addr("2001:db8::1") }},
		{"Self4 0.0.0.0", func(c *congested.Config) { c.Self4 = addr("0.0.0.0") }},
		{"Self4 127.0.0.1", func(c *congested.Config) { c.Self4 = addr("127.0.0.1") }},
		{"Self4 224.0.0.1", func(c *congested.Config) { c.Self4 = addr("224.0.0.1") }},
		{"Self4 255.255.255.255", func(c *congested.Config) { c.Self4 = addr("255.255.255.255") }},
		{"Self4 169.254.0.1", func(c *congested.Config) { c.Self4 = addr("169.254.0.1") }},
		{"Self6 192.0.2.1", func(c *congested.Config) { c.Self6 = addr("192.0.2.1") }},
		{"Self6 ::ffff:192.0.2.1", func(c *congested.Config) { c.Self6 = addr("::ffff:192.0.2.1") }},
		{"Self6 ::", func(c *congested.Config) { c.Self6 = addr("::") }},
		{"Self6 ::1", func(c *congested.Config) { c.Self6 = addr("::1") }},
		{"Self6 ff02::1", func(c *congested.Config) { c.Self6 = addr("ff02::1") }},
		{"Self6 fe80::1", func(c *congested.Config) { c.Self6 = addr("fe80::1") }},
		{"Self6 2001:db8::1%eth0", func(c *congested.Config) { c.Self6 = addr("2001:db8::1%eth0") }},
		{"PerFlow[7] -1ns", func(c *congested.Config) { c.PerFlow[7] = -1 }},
		{"Probe 1h0m0.000000001s", func(c *congested.Config) { c.Probe = time.Hour + 1 }},
		{"Probe -1s", func(c *congested.Config) { c.Probe = -time.Second }},
		{"Alarm:8", func(c *congested.Config) { c.PauseFrom.Alarm = 8 }},
		{"Hold:8", func(c *congested.Config) { c.PauseFrom.Hold = 8 }},
		{"Stop:8", func(c *congested.Config) { c.PauseFrom.Stop = 8 }},
		{"a Fallback is for a node that CannotMark", func(c *congested.Config) { c.Fallback = congested.MethodProxy }},
		{"Fallback fastcnp", func(c *congested.Config) { c.CannotMark, c.Fallback = true, congested.MethodFastCNP }},
		{"Fallback mark", func(c *congested.Config) { c.CannotMark, c.Fallback = true, congested.MethodMark }},
		{"Fallback Method(6)", func(c *congested.Config) { c.CannotMark, c.Fallback = true, congested.MethodMark+1 }},
	} {
		t.Run(c.text, func(t *testing.T) {
			cfg := method(congested.MethodFastCNP)
			c.change(&cfg)
			a, err := congested.New(cfg)
			require.ErrorContains(t, err, "congested: ")
			require.ErrorContains(t, err, c.text)
			require.Nil(t, a)
			cfg.Enabled = false
			_, err = congested.New(cfg)
			require.NoError(t, err)
		})
	}
	for _, fallback := range []congested.Method{congested.NoMethod, congested.MethodProxy, congested.MethodFCN,
		congested.MethodPPFC} {
		cfg := method(congested.MethodFastCNP)
		cfg.CannotMark, cfg.Fallback, cfg.PauseFrom.Stop = true, fallback, 7
		agent(t, cfg)
	}
	agent(t, congested.Config{Enabled: true}) // marking needs no address
}

// A node that cannot mark never asks for a mark. Packets that only a mark could answer are answered by the fallback,
// or rejected.
func TestCannotMark(t *testing.T) {
	for _, c := range []struct {
		name     string
		method   congested.Method
		capable  congested.Capability
		fallback congested.Method
		packet   []byte
		reason   node.Reason
		kind     message.Kind
		fellBack uint64
	}{
		{"unknown", congested.MethodFastCNP, congested.CapabilityUnknown, 0, data(t), 0, message.KindFastCNP, 0},
		{"unknown, with a fallback", congested.MethodFastCNP, congested.CapabilityUnknown, congested.MethodProxy,
			data(t), 0,
			message.KindFastCNP, 0},
		{"capable", congested.MethodFastCNP, congested.Capable, congested.MethodProxy, data(t), 0,
			message.KindFastCNP, 0},
		{"not capable", congested.MethodFastCNP, congested.Incapable, 0, data(t), node.ReasonNotCapable, 0, 0},
		{"not capable, proxy", congested.MethodFastCNP, congested.Incapable, congested.MethodProxy, data(t), 0,
			message.KindProxy, 1},
		{"not capable, proxy, Not-ECT", congested.MethodFastCNP, congested.Incapable, congested.MethodProxy, data(t,
			ecn(0)), 0,
			message.KindProxy, 1},
		{"not capable, PPFC", congested.MethodFastCNP, congested.Incapable, congested.MethodPPFC, data(t), 0,
			message.KindPPFC, 1},
		{"not capable, FCN", congested.MethodFastCNP, congested.Incapable, congested.MethodFCN, data(t),
			node.ReasonNotTunnelled, 0, 0},
		{"mark", congested.MethodMark, congested.Capable, 0, data(t), node.ReasonNotCapable, 0, 0},
		{"mark, proxy", congested.MethodMark, congested.Capable, congested.MethodProxy, data(t, v4), 0,
			message.KindProxy,
			1},
		{"mark, no proxy", congested.MethodMark, congested.Capable, congested.MethodProxy, data(t,
			func(p *rocev2.Packet) { p.Src = dst6 }), node.ReasonNoProxy, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := method(c.method)
			cfg.Capable, cfg.CannotMark, cfg.Fallback = capable(c.capable), true, c.fallback
			a := agent(t, cfg)
			out, d := congest(a, []byte{1}, &event{Frame: c.packet, Options: ip}, now)
			require.Equal(t, []any{c.reason, c.kind, false}, []any{d.Reason, d.Kind, d.MarkECN})
			require.Equal(t, c.kind != 0, len(out) > 1)
			want := map[node.Count]uint64{refused(c.reason): 1}
			if c.kind != 0 {
				want = map[node.Count]uint64{sentKind(c.kind): 1}
			}
			if c.fellBack > 0 {
				want[node.Count{Effect: node.EffectFellBack}] = c.fellBack
			}
			require.Equal(t, want, counted(a))
		})
	}

	// Like any node, it learns which hosts do not support Fast CNP.
	cfg := method(congested.MethodFastCNP)
	cfg.CannotMark, cfg.Fallback = true, congested.MethodProxy
	a := agent(t, cfg)
	e := &event{Frame: data(t), Options: ip}
	for _, reason := range []node.Reason{node.ReasonUnconfirmed, node.NoReason} {
		sent, d := congest(a, nil, e, now)
		require.Equal(t, message.KindFastCNP, d.Kind)
		require.Equal(t, reason, icmp(a, src6, problem(sent), now))
	}
	_, d := congest(a, nil, e, now)
	require.Equal(t, decision{Packet: message.KindData, Kind: message.KindProxy, To: proxy}, d)
}

// The effect of a limit on Fast CNPs depends on the known capability of the sender.
func TestLimitedMark(t *testing.T) {
	for _, c := range []struct {
		capable    congested.Capability
		ecn        rocev2.ECN
		cannotMark bool
		mark       bool
	}{
		{congested.CapabilityUnknown, rocev2.ECT0, false, true},
		{congested.CapabilityUnknown, rocev2.CE, false, true},
		{congested.CapabilityUnknown, rocev2.NotECT, false, false},
		{congested.CapabilityUnknown, rocev2.ECT0, true, false},
		{congested.Capable, rocev2.ECT0, false, false},
		{congested.Capable, rocev2.CE, false, false},
	} {
		for _, row := range []struct {
			name   string
			limits func(*congested.Config)
		}{
			{"flow", func(cfg *congested.Config) { cfg.PerFlow[0] = time.Hour }},
			{"rate", func(cfg *congested.Config) { cfg.Out = node.Rate{PerSecond: 1e-6} }},
		} {
			t.Run(row.name, func(t *testing.T) {
				cfg := method(congested.MethodFastCNP)
				cfg.Capable, cfg.CannotMark = capable(c.capable), c.cannotMark
				row.limits(&cfg)
				a := agent(t, cfg)
				e := &event{Frame: data(t, ecn(c.ecn)), Options: ip}
				marks := uint64(0)
				for i := range 1000 {
					out, d := congest(a, nil, e, now)
					if i == 0 {
						require.Equal(t, message.KindFastCNP, d.Kind)
					} else {
						require.Equal(t,
							decision{Packet: message.KindData, Reason: node.ReasonLimited, MarkECN: c.mark},
							d)
						require.Empty(t, out)
					}
					if d.MarkECN {
						marks++
					}
				}
				require.Equal(t, []uint64{marks, 999},
					[]uint64{a.Counters().Load(marked), a.Counters().Load(refused(node.ReasonLimited))})
				if c.mark {
					require.EqualValues(t, 1000, marks)
				}
			})
		}
	}
}

// The limit of FCNs is that of a label of a PE: two customers may use the same
// addresses, two PEs the same labels.
func TestLimitOfFCNs(t *testing.T) {
	cfg := method(congested.MethodFCN)
	cfg.PerFlow[0] = time.Hour
	a := agent(t, cfg)
	other := &encap.IPInIPv6{Src: pe2, Dst: pe}
	for i, c := range []struct {
		packet []byte
		reason node.Reason
	}{
		{tunnelled(t, ipip, data(t), 5), 0},
		{tunnelled(t, ipip, data(t), 5), node.ReasonLimited},
		{tunnelled(t, ipip, data(t), 6), 0},
		{tunnelled(t, other, data(t), 5), 0},
		{tunnelled(t, ipip, data(t, v4), 5), node.ReasonLimited},
		{tunnelled(t, vxlan, data(t), 6), node.ReasonLimited},
		{tunnelled(t, other, data(t), 6), 0},
	} {
		_, d := congest(a, nil, &event{Frame: c.packet, Options: ip}, now)
		require.Equal(t, c.reason.String(), d.Reason.String(), i)
	}
}

// Messages are known by the ports and option types that are configured.
func TestRecognition(t *testing.T) {
	udp := func(port uint16) []byte {
		return data(t, func(p *rocev2.Packet) { p.DstPort = port })
	}
	for _, c := range []struct {
		fcn, proxy uint16 // as configured
		port       uint16 // of the packet
		kind       message.Kind
		fragment   node.Reason
	}{
		{0, 0, fcn.Port, message.KindFCN, node.ReasonFragment},
		{0, 0, proxymsg.Port, message.KindProxy, node.ReasonFragment},
		{0, 0, 2021, message.KindOther, node.ReasonNotOurs},
		{2021, 2022, 2021, message.KindFCN, node.ReasonFragment},
		{2021, 2022, 2022, message.KindProxy, node.ReasonFragment},
		{2021, 2022, fcn.Port, message.KindOther, node.ReasonNotOurs},
		{2021, 2022, proxymsg.Port, message.KindOther, node.ReasonNotOurs},
		{2021, 2022, 4791, message.KindData, node.ReasonFragment},
	} {
		cfg := method(congested.MethodFastCNP)
		cfg.FCN.Port, cfg.Proxy.Port = c.fcn, c.proxy
		a := agent(t, cfg)
		_, d := congest(a, nil, &event{Frame: fragmentOf(udp(c.port)), Options: ip}, now)
		require.Equal(t, c.fragment.String(), d.Reason.String(), "%+v", c)
		var packet []byte
		switch c.kind {
		case message.KindData:
			continue
		case message.KindFCN: // a message on its way to another node
			cfg := method(congested.MethodFCN)
			cfg.FCN.Port = c.fcn
			packet, _ = congest(agent(t, cfg), nil, &event{Frame: tunnelled(t, ipip, data(t), 5),
				Options: ip}, now)
		case message.KindProxy:
			cfg := method(congested.MethodProxy)
			cfg.Proxy.Port = c.proxy
			packet, _ = congest(agent(t, cfg), nil, &event{Frame: data(t), Options: ip}, now)
		default:
			packet = udp(c.port)
		}
		copy(packet[8:24], src6.AsSlice()) // not the node's own
		_, d = congest(a, nil, &event{Frame: packet, Options: ip}, now)
		require.Equal(t, decision{Packet: c.kind, Reason: node.ReasonNotOurs}, d, "%+v", c)
	}

	types := fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}
	cfg := method(congested.MethodFastCNP)
	cfg.FastCNP.CodePoints = types
	a := agent(t, cfg)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(data(t)))
	notification, _, err := fastcnp.AppendFor(nil, &p, pe, nil, fastcnp.Config{CodePoints: types})
	require.NoError(t, err)
	_, d := congest(a, nil, &event{Frame: notification, Options: ip}, now)
	require.Equal(t, decision{Packet: message.KindFastCNP, Reason: node.ReasonNotOurs}, d)
}

// New rejects an invalid Carriage, sizes beyond all memory, and rates that are not numbers. The error names the
// field.
func TestNewNamesInvalidFields(t *testing.T) {
	bad := rocev2.Carriage{DSCP: 200}
	for _, c := range []struct {
		name   string
		change func(*congested.Config)
	}{
		{"FastCNP.Carriage", func(c *congested.Config) { c.FastCNP.Carriage = bad }},
		{"Proxy.Carriage", func(c *congested.Config) { c.Proxy.Carriage = bad }},
		{"FCN.Carriage", func(c *congested.Config) { c.FCN.Carriage = bad }},
		{"PPFC.Carriage", func(c *congested.Config) { c.PPFC.Carriage = bad }},
		{"MaxFlows", func(c *congested.Config) { c.MaxFlows = math.MaxInt }},
		{"MaxPaused", func(c *congested.Config) { c.MaxPaused = 1<<26 + 1 }},
		{"Out: PerSecond NaN", func(c *congested.Config) { c.Out.PerSecond = math.NaN() }},
		{"Out: PerSecond +Inf", func(c *congested.Config) { c.Out.PerSecond = math.Inf(1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := method(congested.MethodFastCNP)
			c.change(&cfg)
			_, err := congested.New(cfg)
			require.ErrorContains(t, err, c.name)
		})
	}
}

// A new configuration in the midst of a sequence keeps the hosts that rejected a Fast CNP, the stopped flows and the
// state of the limits. An invalid one changes nothing.
func TestConfigure(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.Out, cfg.MaxFlows = node.Rate{PerSecond: 1e-3, Burst: 5}, 64
	a := agent(t, cfg)
	e := &event{Frame: data(t), Options: ip, Port: 7}
	for _, reason := range []node.Reason{node.ReasonUnconfirmed, node.NoReason} {
		sent, _ := congest(a, nil, e, now)
		require.Equal(t, reason, icmp(a, src6, problem(sent), now))
	}

	for _, c := range []struct {
		name   string
		change func(*congested.Config)
	}{
		{"Self6", func(c *congested.Config) { c.Self6 = self4 }},
		{"Out has a Burst", func(c *congested.Config) { c.Out = node.Rate{Burst: 4} }},
		{"field Own is empty", func(c *congested.Config) { c.Own = new(ioam.Node) }},
		{"field Own: ioam: ", func(c *congested.Config) {
			c.Own = new(ioam.Node)
			c.Own.SetNode(64, 1<<24) // 24 bits
		}},
		{"PerFlow[3]", func(c *congested.Config) { c.PerFlow[3] = -1 }},
		{"MaxFlows cannot change", func(c *congested.Config) { c.MaxFlows = 65 }},
		{"MaxSent cannot change", func(c *congested.Config) { c.MaxSent = 65 }},
		{"MaxRejected cannot change", func(c *congested.Config) { c.MaxRejected = 65 }},
		{"MaxPaused cannot change", func(c *congested.Config) { c.MaxPaused = 65 }},
		{"the Seed cannot change", func(c *congested.Config) { c.Seed = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Methods = nil
			c.change(&bad)
			require.ErrorContains(t, a.Configure(bad), c.name)
		})
	}
	rejected := decision{Packet: message.KindData, MarkECN: true}
	_, d := congest(a, nil, e, now)
	require.Equal(t, rejected, d, "the methods are as they were, and the sender is not capable")

	cfg.Methods = method(congested.MethodPPFC).Methods
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, message.KindPPFC, d.Kind)
	cfg.Methods = method(congested.MethodFastCNP).Methods
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, rejected, d)
	cfg.Enabled = false
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, node.ReasonDisabled, d.Reason)
	require.Empty(t, resumes(t, a, 7), "nothing is sent by a role that is off")
	cfg.Enabled = true
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, rejected, d)
	out, resumed := resume(a, nil, 7, now)
	require.Equal(t, node.ActionSent, resumed.Action)
	_, n := ofPPFC(t, out)
	require.Equal(t, ppfc.Resume, n.Type)

	// Of four notifications two were sent.
	cfg.Methods = method(congested.MethodProxy).Methods
	require.NoError(t, a.Configure(cfg))
	for i, want := range []node.Reason{0, 0, node.ReasonLimited} {
		_, d = congest(a, nil, e, now.Add(time.Duration(i)))
		require.Equal(t, want, d.Reason)
	}
}

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
		{"PPFC that names the node", congested.MethodPPFC, data(t, to("fe80::2")), nodeAddress, 0, message.KindPPFC,
			false},
		{"FCN, fe80::2", congested.MethodFCN, tunnelled(t, ipip, data(t, to("fe80::2")), 5), nil, 0, message.KindFCN,
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
			require.Equal(t, c.sent == message.KindOther, len(out) == 0)
			if c.sent == message.KindOther {
				_, d := congest(a, nil, &event{Frame: data(t), Options: ip}, now)
				require.NotEqual(t, node.ReasonLimited, d.Reason, "the rejected packet was not charged")
			}
		})
	}
}
