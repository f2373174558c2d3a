package role_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	start  = time.Unix(1795254649, 0)
	addr   = netip.MustParseAddr
	other  = addr("2001:db8:9::9")
	host4  = addr("198.51.100.2")
	host6  = addr("2001:db8:4::e")
	prefix = netip.MustParsePrefix
)

// The opcode of a packet gives its kind, and the reason for not answering it (BTH opcodes of IBTA 9.2; 0x81 is a
// CNP).
func TestKindOf(t *testing.T) {
	for _, row := range []struct {
		op     bth.Opcode
		kind   message.Kind
		reason node.Reason
	}{
		{bth.RCSendOnly, message.KindData, node.NoReason},
		{bth.RCAcknowledge, message.KindAck, node.ReasonAcknowledgement},
		{bth.RCAtomicAcknowledge, message.KindAck, node.ReasonAcknowledgement},
		{bth.CNP, message.KindCNP, node.ReasonNotification},
		{bth.Opcode(0x80), message.KindData, node.NoReason},
		{bth.RCRDMAReadRequest, message.KindData, node.NoReason},
		{bth.Opcode(uint8(bth.CNP) & 0b11111), message.KindData, node.NoReason},
	} {
		t.Run(fmt.Sprint(row.op), func(t *testing.T) {
			kind := role.KindOf(row.op)
			require.Equal(t, row.kind, kind, row.op)
			require.Equal(t, row.reason, role.Unanswered(kind), row.op)
		})
	}
}

// octets of an IPv6 packet from 2001:db8:1::a to 2001:db8:4::e.
func ipv6(next byte, payload string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll("6000 0000 0000 0040 2001 0db8 0001 0000 0000 0000 0000 000a "+
		"2001 0db8 0004 0000 0000 0000 0000 000e"+payload, " ", ""))
	if err != nil {
		panic(err)
	}
	b[5], b[6] = byte(len(b)-40), next
	return b
}

// Which frames hold a datagram to port 0x1234, and why not.
func TestToPort(t *testing.T) {
	const port = 0x1234
	for _, row := range []struct {
		name   string
		octets []byte
		want   node.Reason
	}{
		{"to the port", ipv6(17, "c000 1234 000a 0000 abcd"), node.NoReason},
		{"to another", ipv6(17, "c000 1235 000a 0000 abcd"), node.ReasonNotOurs},
		{"UDP longer than IP", ipv6(17, "c000 1234 000b 0000 abcd"), node.ReasonBroken},
		{"UDP shorter than its header", ipv6(17, "c000 1234 0007 0000 abcd"), node.ReasonBroken},
		{"another's is broken", ipv6(17, "c000 1235 000b 0000 abcd"), node.ReasonNotOurs},
		{"TCP", ipv6(6, "c000 1234 000a 0000 abcd"), node.ReasonNotOurs},
		{"first fragment", ipv6(44, "1100 0001 0000 0007 c000 1234 0100 0000"), node.ReasonFragment},
		{"first fragment to another", ipv6(44, "1100 0001 0000 0007 c000 1235 0100 0000"), node.ReasonNotOurs},
		{"second fragment", ipv6(44, "1100 0009 0000 0007 c000 1234 0100 0000"), node.ReasonNotOurs},
		{"second fragment of zeros", ipv6(44, "1100 0009 0000 0007 0000 0000 0000 0000"), node.ReasonNotOurs},
		{"fragment of TCP", ipv6(44, "0600 0001 0000 0007 c000 1234 0100 0000"), node.ReasonNotOurs},
		{"nothing", nil, node.ReasonNotOurs},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f rocev2.Frame
			var d rocev2.Datagram
			f.Decode(row.octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			require.Equal(t, row.want, role.ToPort(&d, &f, port))
			if row.want == node.NoReason {
				require.Equal(t, []byte{0xab, 0xcd}, d.Data)
			}
		})
	}
	var f rocev2.Frame
	var d rocev2.Datagram
	f.Decode(ipv6(44, "1100 0009 0000 0007 0000 0000 0000 0000"), rocev2.DecodeOptions{Link: rocev2.LinkIP})
	require.Equal(t, node.ReasonNotOurs, role.ToPort(&d, &f, 0), "a fragment that shows no port has not port 0")
}

// A mirrored copy was sent to another node. It is not a packet of this one, even with the port of a message or BECN
// set.
func TestMirrored(t *testing.T) {
	const erspan2 = "100088be 00000001 10000000 00000000 020000000003 020000000004 86dd"
	cnp := hex.EncodeToString(ipv6(17, "c000 12b7 0028 0000 8100ffff40000012 00000000"+strings.Repeat("00", 20)))
	copied := ipv6(47, erspan2+cnp)
	var f rocev2.Frame
	var p rocev2.Packet
	f.Decode(copied, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	require.NoError(t, f.Outer().Packet(&p), "the copy is seen")
	kind, reason := role.Decode(&p, &f)
	require.Equal(t, []any{message.KindOther, node.ReasonNotOurs}, []any{kind, reason})
	require.Equal(t, node.ReasonNotOurs, role.ToPort(&p.Datagram, &f, rocev2.Port))
	var m message.Message
	require.ErrorIs(t, m.DecodeView(f.Outer(), message.Config{}), rocev2.ErrMirrored)
	require.Equal(t, message.KindOther, m.Kind)

	f.Decode(copied[len(copied)-80:], rocev2.DecodeOptions{Link: rocev2.LinkIP})
	kind, _ = role.Decode(&p, &f)
	require.Equal(t, message.KindCNP, kind, "the same packet, not in a mirror")
}

func TestDecode(t *testing.T) {
	const data = "c000 12b7 0018 0000 0400 8001 0000 0011 0000 0000 0000 0000" // SEND Only, to 0x11, ICRC
	for _, row := range []struct {
		name   string
		octets []byte
		kind   message.Kind
		want   node.Reason
	}{
		{"data", ipv6(17, data), message.KindData, node.NoReason},
		{"CNP", ipv6(17, strings.Replace(data, "0400", "8100", 1)), message.KindCNP, node.NoReason},
		{"acknowledgement", ipv6(17, "c000 12b7 001c 0000 1100 8001 0000 0011 0000 0000 0000 0000 0000 0000"),
			message.KindAck, node.NoReason},
		{"cut", ipv6(17, data)[:50], message.KindError, node.ReasonBroken},
		{"to another port", ipv6(17, strings.Replace(data, "12b7", "12b8", 1)), message.KindOther, node.ReasonNotOurs},
		{"no octets", nil, message.KindOther, node.ReasonNotOurs},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f rocev2.Frame
			var p rocev2.Packet
			f.Decode(row.octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			kind, reason := role.Decode(&p, &f)
			require.Equal(t, row.kind, kind)
			require.Equal(t, row.want, reason)
		})
	}
}

func TestSelf(t *testing.T) {
	both := role.Self{V4: host4, V6: host6}
	require.True(t, both.Has(host4))
	require.True(t, both.Has(host6))
	require.False(t, both.Has(other))
	require.Equal(t, host4, both.Like(addr("10.0.0.1")))
	require.Equal(t, host6, both.Like(other))
	require.Equal(t, host6, both.Like(addr("::ffff:10.0.0.1")), "an IPv6 address")
	require.False(t, role.Self{V4: host4}.Like(other).IsValid())
	require.False(t, role.Self{V6: host6}.Like(host4).IsValid())
}

func TestSelfCheck(t *testing.T) {
	mapped := addr("::ffff:198.51.100.2")
	for _, row := range []struct {
		name  string
		self  role.Self
		check string // expected error, if it does not come from Needed
	}{
		{"both", role.Self{V4: host4, V6: host6}, ""},
		{"IPv4", role.Self{V4: host4}, ""},
		{"IPv6", role.Self{V6: host6}, ""},
		{"4 is IPv6", role.Self{V4: host6}, "Self4 2001:db8:4::e"},
		{"6 is IPv4", role.Self{V6: host4}, "Self6 198.51.100.2"},
		{"both wrong", role.Self{V4: host6, V6: host4}, "Self4 2001:db8:4::e"},
		{"6 is mapped", role.Self{V6: mapped}, "Self6 ::ffff:198.51.100.2"},
		{"4 is mapped", role.Self{V4: mapped}, "Self4 ::ffff:198.51.100.2"},
		{"multicast", role.Self{V4: addr("224.0.0.1")}, "Self4 224.0.0.1"},
		{"unspecified", role.Self{V6: addr("::")}, "Self6 ::"},
		{"zone", role.Self{V6: host6.WithZone("eth0")}, "Self6 2001:db8:4::e%eth0"},
		{"4 good, 6 zone", role.Self{V4: host4, V6: host6.WithZone("eth0")}, "Self6 2001:db8:4::e%eth0"},
		{"4 is link-local", role.Self{V4: addr("169.254.0.1"), V6: host6}, "Self4 169.254.0.1"},
		{"6 is a loop back", role.Self{V4: host4, V6: addr("::1")}, "Self6 ::1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.check == "" {
				require.NoError(t, row.self.Check())
				require.NoError(t, row.self.Needed())
				return
			}
			want := row.check + " is not a unicast address of its family that others can reach"
			require.EqualError(t, row.self.Check(), want)
			require.EqualError(t, row.self.Needed(), want)
		})
	}
	require.NoError(t, role.Self{}.Check())
	require.EqualError(t, role.Self{}.Needed(), "neither Self4 nor Self6 is given")
}

func TestCheckRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		rates []node.Rate
	}{
		{"", []node.Rate{{}, {PerSecond: 1}, {PerSecond: 0.5, Burst: 3}}},
		{"In {PerSecond:-1 Burst:0} is negative", []node.Rate{{PerSecond: -1}}},
		{"In {PerSecond:0 Burst:-1} is negative", []node.Rate{{Burst: -1}}},
		{"In {PerSecond:1 Burst:-1} is negative", []node.Rate{{PerSecond: 1, Burst: -1}}},
		{"In {PerSecond:-1 Burst:1} is negative", []node.Rate{{PerSecond: -1, Burst: 1}}},
		{"In has a Burst without PerSecond", []node.Rate{{Burst: 1}}},
		{"In {PerSecond:-2 Burst:-1} is negative", []node.Rate{{PerSecond: -2, Burst: -1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range c.rates {
				if err := role.CheckRate("In", r); c.name == "" {
					require.NoError(t, err, "%+v", r)
				} else {
					require.EqualError(t, err, c.name)
				}
			}
		})
	}
}

func TestCheckTime(t *testing.T) {
	require.NoError(t, role.CheckTime("Idle", 0))
	require.NoError(t, role.CheckTime("Idle", 1))
	require.EqualError(t, role.CheckTime("Idle", -1), "Idle -1ns is negative")
}

// Memory is taken once: sizes and seed stay, whether they are given again or left out.
func TestMemory(t *testing.T) {
	var m role.Memory
	sizes := func(a, b int) []role.Size { return []role.Size{{"MaxA", a, 10}, {"MaxB", b, 20}} }
	first, err := m.Configure("x", 7, sizes(0, -1))
	require.EqualError(t, err, "x: MaxB -1 is negative")
	require.False(t, first)
	one, two := errors.New("one"), errors.New("two")
	first, err = m.Configure("x", 7, sizes(0, -1), nil, one, two)
	require.EqualError(t, err, "x: one")
	require.ErrorIs(t, err, one)
	require.False(t, first)

	require.True(t, wiretest.Must(m.Configure("x", 7, sizes(0, 5), nil))(t))
	require.Equal(t, []int{10, 5}, []int{m.Size(0), m.Size(1)})
	require.EqualValues(t, 7, m.Seed())

	for _, row := range []struct {
		name string
		seed uint64
		a, b int
		want string
	}{
		{"the same", 7, 10, 5, ""},
		{"left out", 0, 0, 5, ""},
		{"another size", 7, 11, 5, "MaxA cannot change: memory was taken for 10"},
		{"another default", 7, 10, 0, "MaxB cannot change: memory was taken for 5"},
		{"another seed", 8, 10, 5, "the Seed cannot change: tables are in use"},
		{"another size and seed", 8, 10, 6, "MaxB cannot change: memory was taken for 5"},
		{"negative", 7, -1, 5, "MaxA -1 is negative"},
		{"negative, other before", 7, 11, -1, "MaxA cannot change: memory was taken for 10"},
	} {
		t.Run(row.name, func(t *testing.T) {
			next := m
			first, err := next.Configure("x", row.seed, sizes(row.a, row.b))
			if row.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, "x: "+row.want)
			}
			require.False(t, first)
			require.Equal(t, m, next)
		})
	}
}

// A Seed of 0 stands for a random one; one that was drawn stays, and no other can be given afterwards.
func TestMemorySeed(t *testing.T) {
	var a, b role.Memory
	for _, m := range []*role.Memory{&a, &b} {
		_, err := m.Configure("x", 0, nil)
		require.NoError(t, err)
	}
	require.NotEqual(t, a.Seed(), b.Seed())
	for _, seed := range []uint64{0, a.Seed()} {
		again := a
		_, err := again.Configure("x", seed, nil)
		require.NoError(t, err)
		require.Equal(t, a.Seed(), again.Seed())
	}
	_, err := a.Configure("x", a.Seed()^1, nil)
	require.EqualError(t, err, "x: the Seed cannot change: tables are in use")
}

// The access list is checked first. A message rejected by one limit is not charged to the other.
func TestIntake(t *testing.T) {
	var i role.Intake
	a, b, c := addr("10.0.0.1"), addr("10.0.0.2"), addr("10.0.0.3")
	stranger := addr("10.1.0.1")
	i.Configure(acl.New(prefix("10.0.0.0/24")), node.Rate{PerSecond: 1, Burst: 3}, node.Rate{PerSecond: 1, Burst: 2},
		64, 1)
	for n, s := range []struct {
		from netip.Addr
		want node.Reason
	}{
		{stranger, node.ReasonDenied}, {stranger, node.ReasonDenied}, {stranger, node.ReasonDenied}, {stranger,
			node.ReasonDenied},
		{a, node.NoReason}, {a, node.NoReason}, {a, node.ReasonLimited}, // its own limit; one of all is left
		{b, node.NoReason}, {b, node.ReasonLimited}, {c, node.ReasonLimited}, // that of all
	} {
		require.Equal(t, s.want, i.Admit(s.from, start), n)
	}
	// A second later one may pass: b was refused by the limit of all, which took nothing from its own.
	require.Equal(t, node.NoReason, i.Admit(b, start.Add(time.Second)))
	require.Equal(t, node.ReasonLimited, i.Admit(c, start.Add(time.Second)))
	require.Equal(t, node.NoReason, i.Admit(b, start.Add(2*time.Second)))

	// A new configuration keeps the state of the limits: nothing of all, of b one, and c is a new source.
	i.Configure(acl.New(prefix("10.0.0.0/30"), prefix("10.1.0.0/24")), node.Rate{PerSecond: 2, Burst: 3},
		node.Rate{PerSecond: 1, Burst: 1}, 64, 1)
	require.Equal(t, node.ReasonLimited, i.Admit(stranger, start.Add(2*time.Second)))
	require.Equal(t, node.NoReason, i.Admit(stranger, start.Add(5*time.Second/2)))
	i.Configure(nil, node.Rate{}, node.Rate{}, 64, 1)
	require.Equal(t, node.ReasonDenied, i.Admit(a, start.Add(3*time.Second)), "without a list no source passes")
	i.Configure(acl.New(prefix("0.0.0.0/0")), node.Rate{}, node.Rate{}, 64, 1)
	for range 9 {
		require.Equal(t, node.NoReason, i.Admit(a, start.Add(3*time.Second)), "no limit")
	}
}

// Both limits have to let one pass, and only Take takes from them.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	var p role.Pace
	require.True(t, p.Ready(1, role.Source{}, 10*ms, start), "no limit")
	p.Charge(1, role.Source{}, start)
	require.True(t, p.Ready(1, role.Source{}, 10*ms, start), "no limit")

	p.Configure(node.Rate{PerSecond: 100, Burst: 2}, 10*ms, 64, 1)
	ready := func(want bool, key uint64, at time.Duration) {
		t.Helper()
		require.Equal(t, want, p.Ready(key, role.Source{}, 10*ms, start.Add(at)))
	}
	ready(true, 1, 0)
	ready(true, 1, 0) // nothing was taken
	p.Charge(1, role.Source{}, start)
	ready(false, 1, 0) // its interval
	ready(true, 2, 0)
	p.Charge(2, role.Source{}, start)
	ready(false, 3, 0) // the rate of all
	ready(false, 1, 10*ms-1)
	ready(true, 1, 10*ms) // the interval, and one of all
	require.True(t, p.Ready(1, role.Source{}, ms, start.Add(10*ms)))

	// Without an interval there is no table; one that is there is not forgotten.
	p.Charge(1, role.Source{}, start.Add(10*ms))
	p.Configure(node.Rate{}, 0, 64, 1)
	ready(false, 1, 20*ms-1)
	p.Configure(node.Rate{}, 20*ms, 64, 1)
	ready(false, 1, 20*ms-1)
	ready(true, 1, 20*ms)
	ready(true, 3, 20*ms)
	var none role.Pace
	none.Configure(node.Rate{}, 0, 64, 1)
	none.Charge(1, role.Source{}, start)
	require.True(t, none.Ready(1, role.Source{}, 10*ms, start))
}

// Both limits of a Pace see the time of each packet, even if the other one rejects it: after a long step back of time
// both recover.
func TestPaceSeesTheTime(t *testing.T) {
	var p role.Pace
	p.Configure(node.Rate{PerSecond: 1, Burst: 1}, time.Second, 64, 1)
	p.Charge(1, role.Source{}, start)
	back := start.Add(-time.Hour)
	require.False(t, p.Ready(1, role.Source{}, time.Second, back))
	require.True(t, p.Ready(1, role.Source{}, time.Second, back.Add(time.Second)))
	require.True(t, p.Ready(2, role.Source{}, time.Second, back.Add(time.Second)))
}

// A packet without a time has that of the packet before, also if time has jumped back.
func TestLatest(t *testing.T) {
	var l role.Latest
	require.Zero(t, l.Or(time.Time{}))
	at := time.Unix(1795254649, 0)
	for _, now := range []time.Time{at, at.Add(-time.Hour), at.Add(time.Second)} {
		require.Equal(t, now, l.Or(now))
		require.Equal(t, now, l.Or(time.Time{}))
	}
}

func TestHash(t *testing.T) {
	addr := netip.MustParseAddr
	key := func(src, dst string, qp, domain uint32) qpmap.Key {
		return qpmap.Key{FlowKey: rocev2.FlowKey{Src: addr(src), Dst: addr(dst), DestQP: qp}, Domain: domain}
	}
	a := key("192.0.2.1", "192.0.2.2", 1, 0)
	seen := map[uint64]qpmap.Key{}
	keys := []qpmap.Key{a, key("192.0.2.2", "192.0.2.1", 1, 0), key("192.0.2.1", "192.0.2.2", 2, 0),
		key("192.0.2.1", "192.0.2.2", 1<<24+1, 0), key("192.0.2.1", "192.0.2.1", 1, 0),
		key("2001:db8::1", "2001:db8::2", 1, 0), {}}
	for domain := range uint32(99) {
		keys = append(keys, key("192.0.2.1", "192.0.2.2", 1, 1+domain))
	}
	for _, k := range keys {
		for _, seed := range []uint64{0, 1, 1 << 63} {
			h := role.Hash(&k, seed)
			require.Equal(t, h, role.Hash(&k, seed))
			require.NotContains(t, seen, h)
			seen[h] = k
		}
	}
	// No half of an address hides the others under every seed.
	for _, half := range []string{"e703:7ed1:a0b4:28db", "5899:65cc:7537:4cc3", "9e37:79b9:7f4a:7c15"} {
		for i := range 1000 {
			this, other := fmt.Sprintf("2001:db8:%x::1", i), fmt.Sprintf("2001:db8:0:%x:%s", i, half)
			for _, k := range []qpmap.Key{key(this, other, 1, 0), key(other, this, 1, 0)} {
				h := role.Hash(&k, 7)
				require.Zero(t, seen[h], k)
				seen[h] = k
			}
		}
	}
	wiretest.NoAllocs(t, "Hash", func() { role.Hash(&a, 7) })
}
