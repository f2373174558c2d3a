package proxymsg

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// Packets of congested flows, and tunnels around them.
const (
	write4 = `4502003c0000400040 1103ae 0a001101 0a001201
		c00112b700280000 0600ffff 00000011 0000002a 0000560f9c3e4000 00001234 00000004 01020304`
	send6 = `6681234500181140 fd770000000000000000000000000002 fd770000000000000000000000000001
		e34112b700180000 0400ffff 00000012 80fffff0 4b69f6c2`
	tcp4 = `450000180000400040 0603df 0a001101 0a001201 c0010c43`

	nodes   = ` 20010db8000000000000000000000001 20010db8000000000000000000000002 `
	inIPv6  = `602beef5003c0440` + nodes                            // around write4
	inGRE   = `4500005400000000402f0000 c0000201 c0000202 00000800` // around write4
	inVXLAN = `450000720000000040110000 c0000201 c0000202
		c00112b5005e0000 0800000000002a00 020000000003 020000000004 86dd` // around send6
	inSRv6 = `602beef500582b40` + nodes + `2902040000000000 20010db8000000000000000000000002` // around send6
	// send6 with a Routing header
	inline6 = `6681234500302b40 fd770000000000000000000000000002 20010db8000000000000000000000002
		1102040100000000 fd770000000000000000000000000001 e34112b700180000 0400ffff 00000012 80fffff0 4b69f6c2`
)

// Fixed parts.
const (
	write4Fixed = `0a001101 0a001201 11c00112b7 600000`                                                 // level 3
	send6Fixed  = `fd770000000000000000000000000002 fd770000000000000000000000000001 11e34112b7 e00000` // level 7
	tcp4Fixed   = `0a001101 0a001201 06c0010c43 000000`                                                 // level 0
)

var (
	write4Tuple = rocev2.FiveTuple{Src: addr("10.0.17.1"), Dst: addr("10.0.18.1"), Protocol: 17, SrcPort: 0xC001,
		DstPort: 4791}
	send6Tuple = rocev2.FiveTuple{Src: addr("fd77::2"), Dst: addr("fd77::1"), Protocol: 17, SrcPort: 0xE341,
		DstPort: 4791}
	tcp4Tuple = rocev2.FiveTuple{Src: addr("10.0.17.1"), Dst: addr("10.0.18.1"), Protocol: 6, SrcPort: 0xC001,
		DstPort: 3139}
)

func TestMessage(t *testing.T) {
	for _, c := range []struct {
		fixed, invoking string
		want            Message
		family          Family
	}{
		{write4Fixed, ``, Message{FiveTuple: write4Tuple, Level: 3}, IPv4},
		{write4Fixed, write4, Message{FiveTuple: write4Tuple, Level: 3}, IPv4},
		{tcp4Fixed, tcp4, Message{FiveTuple: tcp4Tuple}, IPv4},
		{send6Fixed, ``, Message{FiveTuple: send6Tuple, Level: 7}, IPv6},
		{send6Fixed, send6, Message{FiveTuple: send6Tuple, Level: 7}, IPv6},
		{`01020304 05060708 090a0b0c0d 5f0102`, `00`, Message{
			rocev2.FiveTuple{Src: addr("1.2.3.4"), Dst: addr("5.6.7.8"), Protocol: 9, SrcPort: 0x0A0B, DstPort: 0x0C0D},
			2, 0x1F0102, nil,
		}, IPv4},
		{`00000000000000000000ffff01020304 ffffffffffffffffffffffffffffffff ffffffffff ffffff`, `ff`, Message{
			rocev2.FiveTuple{
				Src: addr("::ffff:1.2.3.4"), Dst: addr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), Protocol: 255,
				SrcPort: 65535, DstPort: 65535,
			}, 7, maxReserved, nil,
		}, IPv6},
	} {
		wire := wiretest.Hex(t, c.fixed+c.invoking)
		c.want.Invoking = wiretest.Hex(t, c.invoking)
		wiretest.Encodes(t, wire, c.want.AppendBinary)
		var m Message
		require.NoError(t, m.Decode(wire, c.family))
		require.Equal(t, c.want, m)
		if len(c.invoking) != 2 { // garbage
			m = Message{}
			require.NoError(t, m.Decode(wire, 0))
			require.Equal(t, c.want, m)
			require.NoError(t, m.Validate())
		}
		was := m
		wiretest.Prefixes(t, wiretest.Hex(t, c.fixed), func(b []byte) error {
			err := m.Decode(b, c.family)
			require.Equal(t, was, m)
			return err
		})
		wiretest.NoAllocs(t, "Decode", func() { _ = m.Decode(wire, c.family) })
		out := make([]byte, 0, 256)
		wiretest.NoAllocs(t, "AppendBinary", func() { out, _ = m.AppendBinary(out[:0]) })
	}
}

// The rules of D8, as in the godoc of Family.
func TestFamily(t *testing.T) {
	const garbage = `0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20`
	for _, c := range []struct {
		name   string
		octets string
		cut    int    // octets cut off at the end
		want   Family // 0: it must be given
	}{
		{"the flow's own packet, IPv4", write4Fixed + write4, 0, IPv4},
		{"the flow's own packet, IPv6", send6Fixed + send6, 0, IPv6},
		{"truncated after the addresses, IPv4", write4Fixed + write4, 40, IPv4},
		{"truncated after the addresses, IPv6", send6Fixed + send6, 24, IPv6},
		{"40 octets, 24 of them the invoking packet", tcp4Fixed + tcp4, 0, IPv4},
		{"IPv4 in IPv6", write4Fixed + inIPv6 + write4, 0, IPv4},
		{"IPv6 in VXLAN over IPv4", send6Fixed + inVXLAN + send6, 0, IPv6},
		{"IPv6 in SRv6", send6Fixed + inSRv6 + send6, 0, IPv6},
		{"SRv6 without encapsulation: another destination", send6Fixed + inline6, 0, IPv6},
		{"the outer header alone", send6Fixed + inIPv6, 0, IPv6},
		{"no invoking packet, IPv4", write4Fixed, 0, IPv4},
		{"no invoking packet, IPv6", send6Fixed, 0, IPv6},
		{"own addresses win over plausible ones",
			write4Fixed + `450000ff 00000000 40110000 0a001101 0a001201 00000000 450000ff` + garbage, 0, IPv4},

		{"IPv4 in GRE: an IPv4 header at 16 and one at 40", write4Fixed + inGRE + write4, 0, 0},
		{"truncated in the addresses, IPv4", write4Fixed + write4, 41, 0},
		{"truncated in the addresses, IPv6", send6Fixed + send6, 25, 0},
		{"truncated in the outer header", write4Fixed + inIPv6, 1, 0},
		{"options of the outer header truncated", write4Fixed + `46000054 00000000 40110000 c0000201 c0000202`, 0, 0},
		{"IHL 4 in the outer header", write4Fixed + `44000054 00000000 40110000 c0000201 c0000202`, 0, 0},
		{"outer IPv4 length below the octets there",
			write4Fixed + `45000018 00000000 40040000 c0000201 c0000202 0000000000`, 0, 0},
		{"outer IPv6 length below the octets there", send6Fixed + `602beef500033c40` + nodes + `00000000`, 0, 0},
		{"garbage", write4Fixed + garbage, 0, 0},
		{"17 octets", write4Fixed + `45`, 0, 0},
		{"39 octets", send6Fixed, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			b = b[:len(b)-c.cut]
			var m, given Message
			err := m.Decode(b, 0)
			wiretest.NoAllocs(t, "inferring", func() { _ = given.Decode(b, 0) })
			if c.want == 0 {
				require.ErrorIs(t, err, errFamily)
				require.Equal(t, Message{}, m)
				require.NoError(t, m.Decode(b, IPv4))
				require.Equal(t, b[SizeIPv4:], m.Invoking)
				return
			}
			require.NoError(t, err)
			require.NoError(t, given.Decode(b, c.want))
			require.Equal(t, given, m)
		})
	}
	for n := range SizeIPv4 {
		var m Message
		require.ErrorIs(t, m.Decode(make([]byte, n), 0), errTruncatedIPv4)
	}
	var m Message
	require.ErrorIs(t, m.Decode(make([]byte, 100), 5), errFamilyRange)
	require.Equal(t, Message{}, m)
	require.Equal(t, "inferred IPv4 IPv6 Family(5)", fmt.Sprint(Family(0), IPv4, IPv6, Family(5)))
}

// Octets can be made so that they are right for both families.
func TestFamilyBothMatch(t *testing.T) {
	b := make([]byte, SizeIPv6+40)
	copy(b[16:], []byte{0x45, 0, 0, 64})      // IPv4 at 16, addresses 0.0.0.0
	copy(b[40:], []byte{0x60, 0, 0, 0, 0, 0}) // IPv6 at 40
	copy(b[48:], b[:32])                      // addresses of the IPv6 tuple
	var m Message
	require.ErrorIs(t, m.Decode(b, 0), errFamily)
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		m   Message
		err error
	}{
		{Message{}, errAddress},
		{Message{FiveTuple: rocev2.FiveTuple{Src: addr("10.0.0.1"), Dst: addr("fd77::1")}}, errAddress},
		{Message{FiveTuple: rocev2.FiveTuple{Src: addr("fd77::1")}}, errAddress},
		{Message{FiveTuple: write4Tuple, Level: 8}, errLevelRange},
		{Message{FiveTuple: send6Tuple, Reserved: 1 << 21}, errReservedRange},
	} {
		src, dst := addr("192.0.2.5"), addr("192.0.2.1")
		out, err := c.m.AppendBinary([]byte{9})
		require.ErrorIs(t, err, c.err)
		require.ErrorIs(t, err, wireerr.Range)
		require.Equal(t, []byte{9}, out)
		out, err = c.m.AppendPacket([]byte{9}, src, dst, Config{})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{9}, out)
		require.ErrorIs(t, c.m.Validate(), c.err)
		wiretest.NoAllocs(t, "AppendBinary", func() { _, _ = c.m.AppendBinary(nil) })
		wiretest.NoAllocs(t, "AppendPacket", func() { _, _ = c.m.AppendPacket(nil, src, dst, Config{}) })
	}
}

func TestValidate(t *testing.T) {
	good := func() Message {
		return Message{FiveTuple: write4Tuple, Level: 7, Invoking: wiretest.Hex(t, inIPv6+write4)}
	}
	m := good()
	require.NoError(t, m.Validate())
	m.Invoking = m.Invoking[:40+28]
	require.NoError(t, m.Validate(), "truncated after the ports")
	for _, c := range []struct {
		err    error
		change func(*Message)
	}{
		{errReservedSet, func(m *Message) { m.Reserved = 1 }},
		{errOtherFlow, func(m *Message) { m.SrcPort++ }},
		{errNoFlow, func(m *Message) { m.Invoking = []byte{0} }},
		{rocev2.ErrNotReachable, func(m *Message) { m.Src, m.Dst = addr("::ffff:192.0.2.1"), addr("fd77::1") }},
		{errTooLong, func(m *Message) {
			m.Invoking = append(m.Invoking,
				make([]byte, 1232-16-len(m.Invoking)+1)...)
		}},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			m := good()
			c.change(&m)
			require.ErrorIs(t, m.Validate(), c.err)
			m.Level = 8
			require.ErrorIs(t, m.Validate(), c.err)
			require.ErrorIs(t, m.Validate(), errLevelRange)
		})
	}
}

// An IPv4-mapped address is kept where it was received, but not sent: with it the
// fixed part is that of IPv6 (D7), and the flow does not exist.
func TestMapped(t *testing.T) {
	for _, tuple := range []rocev2.FiveTuple{
		{Src: addr("::ffff:192.0.2.1"), Dst: addr("fd77::1")}, {Src: addr("fd77::1"), Dst: addr("::ffff:192.0.2.1")},
	} {
		m := Message{FiveTuple: tuple}
		_, err := m.AppendBinary(nil)
		require.NoError(t, err)
		out, err := m.AppendPacket([]byte{9}, addr("192.0.2.5"), addr("192.0.2.1"), Config{})
		require.Equal(t, rocev2.ErrNotReachable, err)
		require.Equal(t, []byte{9}, out)
	}
}

// The queue pair out of the invoking packet: through tunnels, and from the
// first octet after the BTH on without any of those that follow.
func TestBTH(t *testing.T) {
	for _, c := range []struct {
		name, invoking string
		after          int // octets after the BTH
		opcode         bth.Opcode
		destQP         uint32
	}{
		{"IPv4", write4, 20, bth.RCRDMAWriteFirst, 17},
		{"IPv6", send6, 4, bth.RCSendOnly, 18},
		{"IPv4 in IPv6", inIPv6 + write4, 20, bth.RCRDMAWriteFirst, 17},
		{"GRE", inGRE + write4, 20, bth.RCRDMAWriteFirst, 17},
		{"VXLAN", inVXLAN + send6, 4, bth.RCSendOnly, 18},
		{"SRv6", inSRv6 + send6, 4, bth.RCSendOnly, 18},
		{"SRv6 without encapsulation", inline6, 4, bth.RCSendOnly, 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.invoking)
			for n := range len(b) + 1 {
				m := Message{Invoking: b[:n:n]}
				h, err := m.BTH()
				if n < len(b)-c.after {
					require.ErrorIs(t, err, wireerr.Truncated, "%s, %d octets", c.name, n)
					require.Equal(t, bth.Header{}, h)
					continue
				}
				require.NoError(t, err, "%s, %d octets", c.name, n)
				require.Equal(t, c.opcode, h.Opcode)
				require.Equal(t, c.destQP, h.DestQP)
			}
			m := Message{Invoking: b}
			wiretest.NoAllocs(t, c.name, func() { _, _ = m.BTH() })
		})
	}
	other := bytes.Replace(wiretest.Hex(t, write4), []byte{0x12, 0xB7}, []byte{0x12, 0xB8}, 1)
	for _, c := range []struct {
		invoking []byte
		err      error
	}{
		{nil, errNoInvoking},
		{wiretest.Hex(t, tcp4), rocev2.ErrNotRoCEv2},
		{other, rocev2.ErrPort},
		{[]byte("garbage, kept raw, of some length"), wireerr.Truncated},
	} {
		m := Message{Invoking: c.invoking}
		_, err := m.BTH()
		require.ErrorIs(t, err, c.err)
		wiretest.NoAllocs(t, "BTH", func() { _, _ = m.BTH() })
	}
}

func TestString(t *testing.T) {
	m := Message{FiveTuple: send6Tuple, Level: 3, Invoking: make([]byte, 64)}
	require.Equal(t,
		"[fd77::2]:58177 to [fd77::1]:4791, protocol 17, level 3, reserved 0x0, 64 octets of invoking packet",
		fmt.Sprint(m))
}

// FuzzMessage decodes any octets, with the family given or inferred. A decoded message
// is appended again octet for octet. An inferred family gives the same message as the
// same family given.
func FuzzMessage(f *testing.F) {
	for _, octets := range []string{
		write4Fixed + write4, send6Fixed + send6, tcp4Fixed + tcp4, write4Fixed, write4Fixed + inIPv6 + write4,
		send6Fixed + inVXLAN + send6,
	} {
		for _, family := range []Family{0, IPv4, IPv6} {
			f.Add(wiretest.Hex(f, octets), uint8(family))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, family uint8) {
		var m Message
		if err := m.Decode(b, Family(family)); err != nil {
			require.Equal(t, Message{}, m)
			return
		}
		_ = m.Validate()
		_ = m.String()
		_, _ = m.BTH()
		out := wiretest.Must(m.AppendBinary(nil))(t)
		require.Equal(t, b, out)
		packet, err := m.AppendPacket(nil, switch6, proxy6, Config{})
		if rocev2.CheckAnswerable(m.Src) != nil || rocev2.CheckAnswerable(m.Dst) != nil {
			require.Equal(t, rocev2.ErrNotReachable, err)
		} else {
			require.NoError(t, err)
			require.Len(t, packet, min(48+len(b), 1280))
		}
		given := IPv6
		if m.Src.Is4() {
			given = IPv4
		}
		var again Message
		require.NoError(t, again.Decode(b, given))
		require.Equal(t, m, again)
	})
}

func BenchmarkBTH(b *testing.B) {
	m := Message{Invoking: wiretest.Hex(b, inVXLAN+send6)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.BTH(); err != nil {
			b.Fatal(err)
		}
	}
}
