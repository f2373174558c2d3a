package fastpath

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	self   = netip.MustParseAddr("2001:db8:ffff::5")
	sender = netip.MustParseAddr("2001:db8:1::a")
	target = netip.MustParseAddr("2001:db8:4::e")

	// Capability of the senders in these prefixes, which contain the random addresses.
	policies = []struct {
		prefix  netip.Prefix
		policy  Policy
		capable congested.Capability
	}{
		{netip.MustParsePrefix("2001:db8:1::/48"), NotifyAndMark, congested.CapabilityUnknown},
		{netip.MustParsePrefix("2001:db8:1:1::/64"), Notify, congested.Capable},
		{netip.MustParsePrefix("2001:db8:1:2::/64"), Mark, congested.Incapable},
	}
	marked4   = netip.MustParsePrefix("192.0.2.0/24") // IPv4 is marked or left alone
	addresses = []netip.Addr{
		sender, netip.MustParseAddr("2001:db8:1:1::b"), netip.MustParseAddr("2001:db8:1:2::c"),
		target, self,
	}
	addresses4 = []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.1"),
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("224.0.0.1"),
		netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("0.1.2.3"),
	}
	unreachable = []netip.Addr{
		netip.MustParseAddr("::"), netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:192.0.2.1"),
		netip.MustParseAddr("fe80::1"), netip.MustParseAddr("febf::1"), netip.MustParseAddr("ff02::1"),
	}
)

// onNode moves the test to a host that forwards IPv6 and has a default route.
func onNode(t *testing.T) {
	t.Helper()
	wiretest.Namespace(t, `link set lo up
link add eth0 type veth peer name eth1
link set eth0 up
link set eth1 up
`)
	for _, variable := range []string{"disable_ipv6=0", "accept_dad=0", "forwarding=1"} {
		name, value, _ := strings.Cut(variable, "=")
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/all/"+name, []byte(value), 0))
	}
	out, err := exec.Command("ip", "-6", "route", "add", "default", "via", "fe80::1", "dev", "eth0").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// random returns the IP packet of a random RoCEv2 packet.
func random(t *testing.T, r *rand.Rand) []byte {
	t.Helper()
	opcodes := []bth.Opcode{
		bth.RCSendOnly, bth.RCRDMAWriteOnly, bth.RCRDMAReadRequest, 0x13, bth.UDSendOnly,
		bth.UCSendFirst, bth.RCAcknowledge, bth.RCAtomicAcknowledge, bth.CNP,
	}
	var p rocev2.Packet
	op := opcodes[r.IntN(len(opcodes))]
	p.BTH.Opcode, p.BTH.PKey, p.BTH.DestQP, p.BTH.PSN = op, uint16(r.Uint32()), r.Uint32N(1<<24), r.Uint32N(1<<24)
	if p.BTH.PKey%8 == 0 {
		p.BTH.PKey = 0 // which no builder sends
	}
	if op == bth.CNP {
		p.Payload = make([]byte, 16)
	} else if r.IntN(3) > 0 && op != bth.RCAcknowledge && op != bth.RCAtomicAcknowledge {
		p.Payload = make([]byte, 4*r.IntN(300))
	}
	p.Src, p.Dst = addresses[r.IntN(len(addresses))], addresses[r.IntN(len(addresses))]
	if r.IntN(20) == 0 {
		p.Src = unreachable[r.IntN(len(unreachable))]
	}
	if r.IntN(20) == 0 {
		p.Dst = unreachable[r.IntN(len(unreachable))]
	}
	if r.IntN(20) == 0 {
		p.Src, p.Dst = addresses4[r.IntN(len(addresses4))], addresses4[r.IntN(len(addresses4))]
	}
	p.SrcPort, p.DstPort, p.HopLimit = uint16(r.Uint32()), rocev2.Port, uint8(2+r.IntN(250))
	p.TrafficClass = uint8(r.Uint32())
	if p.Src.Is6() && !p.Src.Is4In6() {
		p.FlowLabel = r.Uint32N(1 << 20)
		switch r.IntN(8) {
		case 0: // Hop-by-Hop, then Destination Options of 16 octets
			p.NextHeader = 0
			p.Ext = wiretest.Hex(t, "3c00 0104 00000000 1101 010c 000000000000 000000000000")
		case 1: // a type 4 Routing header with Segments Left 1
			p.NextHeader = 43
			p.Ext = append(wiretest.Hex(t, "1102 0401 00000000"), target.AsSlice()...)
		}
	}
	b, err := p.AppendBinary(nil)
	if err != nil { // addresses of two families
		return random(t, r)
	}
	switch r.IntN(10) {
	case 0:
		b[r.IntN(min(len(b), 80))] ^= 1 << r.IntN(8)
	case 1:
		inner := b
		b = wiretest.Must((&encap.IPInIPv6{Src: sender, Dst: target}).Append(nil, inner, 5))(t)
	}
	return b
}

// ethernet returns a frame with an IP packet.
func ethernet(ip []byte) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD}
	if ip[0]>>4 == 4 {
		b[12], b[13] = 0x08, 0x00
	}
	return append(b, ip...)
}

// An skb is the beginning of struct __sk_buff.
type skb struct{ Len, Type, Mark uint32 }

// run runs a program on a frame.
func run(t *testing.T, p *ebpf.Program, frame []byte, context any) (verdict uint32, out []byte) {
	t.Helper()
	o := ebpf.RunOptions{Data: frame, DataOut: make([]byte, 4096), Context: context}
	verdict = wiretest.Must(p.Run(&o))(t)
	return verdict, o.DataOut
}

// load returns an answerer that is not attached and for which every packet is congested.
func load(t *testing.T, c AnswererConfig) *Answerer {
	t.Helper()
	c.Self = self
	a := new(Answerer)
	require.NoError(t, a.loadPrograms(&c))
	t.Cleanup(func() { a.Close() })
	require.NoError(t, a.objects.Ports.Put(uint32(1), newPort(from(0)))) // lo, where the tests run programs
	for _, p := range policies {
		require.NoError(t, a.SetSender(p.prefix, p.policy))
	}
	require.NoError(t, a.SetSender(marked4, Mark))
	return a
}

// unlabelled returns an IPv6 packet with flow label 0.
func unlabelled(packet []byte) []byte {
	b := bytes.Clone(packet)
	b[1], b[2], b[3] = b[1]&0xF0, 0, 0
	return b
}

const (
	goOn     uint32 = 0xFFFFFFFF
	redirect uint32 = 7
)

// For random packets and every configuration, the kernel decides as the role does, and makes the same Fast CNPs as
// fastcnp.AppendFor, octet for octet except the flow label. Other exceptions are contents that the program does not
// evaluate: invalid headers after the BTH, and segments left in a Routing header. A trimmed packet is broken for it.
func TestAnswererIsTheRole(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  fastcnp.Config
	}{
		{"default", fastcnp.Config{}},
		{"carriage", fastcnp.Config{Carriage: rocev2.Carriage{DSCP: 46, ECN: 1, HopLimit: 255, FlowLabel: 0xABCDE,
			SrcPort: 4321},
			CodePoints: fastcnp.CodePoints{Option1: 0x8F, Option2: 0x8E}}},
		{"without", fastcnp.Config{Coverage: icrc.Without}},
		{"skipped", fastcnp.Config{Coverage: icrc.Skipped}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onNode(t) // the namespace is that of the subtest's thread
			a := load(t, AnswererConfig{FastCNP: c.cfg})
			role := newRole(t, c.cfg)
			r := rand.New(rand.NewPCG(25, 2))
			sent, labels := 0, map[uint32]bool{}
			for i := range 3000 {
				ip := random(t, r)
				before := a.Counters()
				verdict, out := run(t, a.objects.Egress, ethernet(ip), nil)
				require.Equal(t, goOn, verdict)
				after := a.Counters()
				var f rocev2.Frame
				f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
				want, d := role.Receive(nil, &f, node.Event{Now: time.Unix(int64(i), 0)})
				if d.Reason == node.ReasonBroken || d.Reason == node.ReasonTrimmed {
					continue
				}
				marked := bytes.Clone(ip)
				if d.MarkECN {
					wiretest.SetECN(t, marked, uint8(rocev2.CE))
				}
				require.Equal(t, marked, out[14:], "%x", ip)
				expected, copied := before, false
				counter := counterOf(&expected, &d, ip)
				if counter != nil {
					expected.Congested++
					*counter++
					copied = counter == &expected.Copied
				}
				if d.MarkECN && counter != nil {
					expected.Marked++
				}
				require.Equal(t, expected, after, "%x: %v", ip, d)
				if !copied {
					continue
				}
				verdict, out = run(t, a.objects.Answer, ethernet(ip), &skb{Mark: a.token})
				require.Equal(t, redirect, verdict, "%+v: %x", a.Counters(), ip)
				label := wire.FlowLabel(out[14:])
				require.NotZero(t, label)
				labels[label] = true
				require.Equal(t, unlabelled(want), unlabelled(out[14:]), "%x", ip)
				sent++
				require.EqualValues(t, sent, a.Counters().Sent)
			}
			require.Greater(t, sent, 500)
			require.Greater(t, len(labels), sent-20)
			n := a.Counters()
			for _, counter := range []uint64{n.Acknowledgement, n.Notification, n.NoMethod, n.OwnAddress, n.Address,
				n.Routed, n.NotCapable, n.MarkedOnly, n.Marked} {
				require.Positive(t, counter, "%+v", n)
			}
			require.Equal(t, []uint64{0, 0, 0, 0, 0}, []uint64{n.Limited, n.NotCopied, n.NoRoute, n.Checksum, n.Failed})
		})
	}
}

// newRole returns the role with the same policies.
func newRole(t *testing.T, cfg fastcnp.Config) *congested.Role {
	t.Helper()
	var capable []acl.Entry[congested.Capability]
	for _, p := range policies {
		capable = append(capable, acl.Entry[congested.Capability]{Prefix: p.prefix, Value: p.capable})
	}
	return wiretest.Must(congested.New(congested.Config{
		Enabled: true, Self6: self, FastCNP: cfg, Capable: acl.NewMap(capable...),
		Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: policies[0].prefix, Value: congested.MethodFastCNP},
			acl.Entry[congested.Method]{Prefix: marked4, Value: congested.MethodMark}),
	}))(t)
}

// counterOf returns the kernel's counter for a decision of the role about a packet, or nil.
func counterOf(n *Answered, d *node.Decision, ip []byte) *uint64 {
	if ip[0]>>4 == 6 && (ip[6] == 4 || ip[6] == 41) { // a tunnel: the program does not see the inner packet
		return nil
	}
	switch d.Reason {
	case node.ReasonTrimmed: // the program does not recognize trimmed packets
		return &n.Broken
	case node.ReasonAcknowledgement:
		return &n.Acknowledgement
	case node.ReasonNotification:
		return &n.Notification
	case node.ReasonNotOurs:
		if d.Packet != message.KindOther { // a notification to another node
			return &n.Notification
		}
	case node.ReasonNoMethod:
		return &n.NoMethod
	case node.ReasonOwnAddress:
		return &n.OwnAddress
	case node.ReasonAddress:
		return &n.Address
	case node.ReasonNotCapable:
		return &n.NotCapable
	case node.NoReason:
		switch {
		case d.Action == node.ActionMarked:
			return &n.MarkedOnly
		case d.Action == node.ActionSent && ip[6] == 43:
			return &n.Routed
		case d.Action == node.ActionSent:
			return &n.Copied
		}
	}
	return nil
}
