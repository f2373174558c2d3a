package proxymsg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	switch4, proxy4 = addr("192.0.2.5"), addr("192.0.2.1")
	switch6, proxy6 = addr("2001:db8:ffff::5"), addr("2001:db8:ffff::1")

	fromC001 = Config{Port: ExperimentalPort, Carriage: rocev2.Carriage{SrcPort: 0xC001}}
)

// Whole packets up to the message: both tuples over both families.
const (
	write4Over4 = `45c00068000040004011b5be c0000205 c0000201 c00103fe00549462`
	write4Over6 = `6c00000000541140 20010db8ffff00000000000000000005 20010db8ffff00000000000000000001 c00103fe0054bcf1`
	send6Over4  = `45c00084000040004011b5a2 c0000205 c0000201 c00103fe00705ded`
	send6Over6  = `6c00000000701140 20010db8ffff00000000000000000005 20010db8ffff00000000000000000001 c00103fe0070867c`
)

func TestAppendFor(t *testing.T) {
	for _, c := range []struct {
		frame string // the congested packet
		level uint8
		over4 string // the packets that carry the message
		over6 string
		data  string
	}{
		{`020000000001 020000000002 0800` + write4, 3, write4Over4, write4Over6, write4Fixed + write4},
		{`020000000001 020000000002 81002007 86dd` + send6, 7, send6Over4, send6Over6, send6Fixed + send6},
	} {
		var flow rocev2.Frame
		padded := append(wiretest.Hex(t, c.frame), 0, 0)
		flow.Decode(padded, rocev2.DecodeOptions{})
		wiretest.Encodes(t, wiretest.Hex(t, c.over4+c.data), func(b []byte) ([]byte, error) {
			return AppendFor(b, &flow, switch4, proxy4, c.level, fromC001)
		})
		wiretest.Encodes(t, wiretest.Hex(t, c.over6+c.data), func(b []byte) ([]byte, error) {
			return AppendFor(b, &flow, switch6, proxy6, c.level, fromC001)
		})
		for _, octets := range []string{c.over4 + c.data, c.over6 + c.data} {
			var d rocev2.Datagram
			require.NoError(t, d.Decode(wiretest.Hex(t, octets), rocev2.DecodeOptions{Link: rocev2.LinkIP},
				ExperimentalPort))
			m := wiretest.Must(FromDatagram(&d, 0))(t)
			require.NoError(t, m.Validate())
			want := wiretest.Must(flow.FiveTuple())(t)
			require.Equal(t, want, m.FiveTuple)
			require.Equal(t, c.level, m.Level)
			require.Equal(t, flow.Inner().IP(), m.Invoking)
			wiretest.NoAllocs(t, "FromDatagram", func() { _, _ = FromDatagram(&d, 0) })
		}
	}
}

// The five-tuple is that of the innermost packet. The invoking packet begins with the
// outermost IP header.
func TestAppendForTunnel(t *testing.T) {
	for _, c := range []struct {
		name, link, tunnel, flow, fixed string
		family                          Family
	}{
		{"IPv4 in IPv6", `86dd`, inIPv6, write4, write4Fixed, IPv4},
		{"GRE", `0800`, inGRE, write4, write4Fixed, IPv4},
		{"VXLAN below MPLS", `8847 3e800040 3e801140`, inVXLAN, send6, send6Fixed, IPv6},
		{"SRv6", `81002007 86dd`, inSRv6, send6, send6Fixed, IPv6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want Message
			data := wiretest.Hex(t, c.fixed+c.tunnel+c.flow)
			require.NoError(t, want.Decode(data, c.family))
			var flow rocev2.Frame
			flow.Decode(wiretest.Hex(t, `020000000001 020000000002`+c.link+c.tunnel+c.flow), rocev2.DecodeOptions{})
			out := wiretest.Must(AppendFor(nil, &flow, switch6, proxy6, want.Level, Config{}))(t)
			require.Equal(t, data, out[48:])
			require.NoError(t, want.Validate())
		})
	}
}

func TestConfig(t *testing.T) {
	m := Message{FiveTuple: write4Tuple}
	out, err := m.AppendPacket(nil, switch6, proxy6,
		Config{Carriage: rocev2.Carriage{DSCP: 46, ECN: 1, HopLimit: 9, FlowLabel: 0xBEEF5, SrcPort: 5}, Port: 4000})
	require.NoError(t, err)
	require.Equal(t, wiretest.Hex(t, `6b9beef500181109`), out[:8])
	require.Equal(t, wiretest.Hex(t, `00050fa00018`), out[40:46])
	for _, c := range []struct {
		cfg Config
		dst string
		err error
	}{
		{Config{}, "192.0.2.1", wireerr.Addresses},
		{Config{Carriage: rocev2.Carriage{DSCP: 64}}, "fd77::1", wireerr.Range},
		{Config{Carriage: rocev2.Carriage{FlowLabel: 1 << 20}}, "fd77::1", wireerr.Range},
	} {
		dst := addr(c.dst)
		out, err := m.AppendPacket([]byte{9}, switch6, dst, c.cfg)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{9}, out)
		wiretest.NoAllocs(t, "refusing", func() { _, _ = m.AppendPacket(nil, switch6, dst, c.cfg) })
	}
}

// D9: a carrying packet never has more than 576 octets over IPv4 or 1280 over
// IPv6, its IP header included, and that many as soon as the invoking packet
// has enough of them.
func TestLimits(t *testing.T) {
	var frames [][]byte
	invoking := bytes.Repeat([]byte{0x45, 0xA3, 0x5C}, 30000)
	for _, c := range []struct {
		tuple    rocev2.FiveTuple
		over6    bool
		headers  int // octets before the invoking packet
		limit    int
		ethernet string
	}{
		{write4Tuple, false, 20 + 8 + 16, 576, `020000000001 020000000002 0800`},
		{send6Tuple, false, 20 + 8 + 40, 576, `020000000001 020000000002 0800`},
		{write4Tuple, true, 40 + 8 + 16, 1280, `020000000001 020000000002 86dd`},
		{send6Tuple, true, 40 + 8 + 40, 1280, `020000000001 020000000002 86dd`},
	} {
		src, dst := switch4, proxy4
		if c.over6 {
			src, dst = switch6, proxy6
		}
		free := c.limit - c.headers
		for _, n := range []int{0, 1, free - 1, free, free + 1, 1500, 9000, len(invoking)} {
			m := Message{FiveTuple: c.tuple, Invoking: invoking[:n]}
			out := wiretest.Must(m.AppendPacket(nil, src, dst, Config{}))(t)
			require.Len(t, out, c.headers+min(n, free))
			require.Equal(t, invoking[:min(n, free)], out[c.headers:])
			frames = append(frames, append(wiretest.Hex(t, c.ethernet), out...))
			wiretest.NoAllocs(t, "AppendPacket", func() { out, _ = m.AppendPacket(out[:0], src, dst, Config{}) })
		}
	}
	for i, row := range wiretest.Tshark(t, frames...) {
		require.Equal(t, "1", row.Get("udp.checksum.status"), "packet %d", i)
		require.GreaterOrEqual(t, row.Uint("udp.srcport"), uint64(49152))
		require.Equal(t, strconv.Itoa(Port), row.Get("udp.dstport"))
		if row.Has("ip.src") {
			require.Equal(t, switch4.String()+proxy4.String(), row.Get("ip.src")+row.Get("ip.dst"))
			require.Equal(t, "1", row.Get("ip.checksum.status"))
			require.Equal(t, uint64(len(frames[i])-14), row.Uint("ip.len"))
			require.Equal(t, uint64(len(frames[i])-14-20), row.Uint("udp.length"))
			require.LessOrEqual(t, row.Uint("ip.len"), uint64(576))
		} else {
			require.Equal(t, switch6.String()+proxy6.String(), row.Get("ipv6.src")+row.Get("ipv6.dst"))
			require.Equal(t, uint64(len(frames[i])-14-40), row.Uint("ipv6.plen"))
			require.Equal(t, uint64(len(frames[i])-14-40), row.Uint("udp.length"))
			require.LessOrEqual(t, row.Uint("ipv6.plen"), uint64(1240))
		}
	}
}

// The checksum takes every value but 0, which stands for none: one of these
// messages sums up to it, and is sent with FFFF.
func TestChecksumIsNever0(t *testing.T) {
	var out []byte
	seen := 0
	for i := range 1 << 16 {
		m := Message{FiveTuple: send6Tuple, Reserved: uint32(i)}
		out = wiretest.Must(m.AppendPacket(out[:0], switch6, proxy6, Config{}))(t)
		switch binary.BigEndian.Uint16(out[46:]) {
		case 0:
			t.Fatalf("reserved bits %#x: checksum 0", i)
		case 0xFFFF:
			seen++
		}
	}
	require.Positive(t, seen)
}

// The capture truncated the message: Invoking has only the captured octets, and the
// family is inferred from the length that was sent.
func TestTruncatedDatagram(t *testing.T) {
	packet := wiretest.Hex(t, send6Over6+send6Fixed+send6)
	for n := 48; n < len(packet); n++ {
		var d rocev2.Datagram
		require.NoError(t, d.Decode(packet[:n:n], rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}))
		m, err := FromDatagram(&d, IPv6)
		if n < 48+SizeIPv6 {
			require.ErrorIs(t, err, errTruncatedIPv6)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, packet[48+SizeIPv6:n], m.Invoking)
		m, err = FromDatagram(&d, 0)
		if n < 48+SizeIPv6+40 {
			require.ErrorIs(t, err, errFamily, "%d octets", n) // at 16 and 40 octets too
			continue
		}
		require.NoError(t, err)
		require.Equal(t, send6Tuple, m.FiveTuple)
	}
}

// Cut leaves the same octets as AppendPacket sends.
func TestTruncateInvoking(t *testing.T) {
	for _, tuple := range []rocev2.FiveTuple{
		{Src: addr("192.0.2.1"), Dst: addr("192.0.2.2")},
		{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2")},
	} {
		for _, node := range []string{"198.51.100.1", "2001:db8:ffff::1"} {
			self := addr(node)
			for _, size := range []int{0, 100, 2000} {
				m := Message{FiveTuple: tuple, Invoking: make([]byte, size)}
				packet := wiretest.Must(m.AppendPacket(nil, self, self, Config{}))(t)
				m.TruncateInvoking(self)
				data := wiretest.Must(m.AppendBinary(nil))(t)
				require.Equal(t, packet[len(packet)-len(data):], data)
				require.Len(t, packet, len(data)+8+map[bool]int{true: 20, false: 40}[self.Is4()])
			}
		}
	}
}

// The largest values are valid, and so is a message that fills the largest
// packet; one octet more is not.
func TestValidateLargest(t *testing.T) {
	m := Message{FiveTuple: send6Tuple, Level: MaxLevel, Reserved: maxReserved}
	require.NotErrorIs(t, m.Validate(), wireerr.Range)
	m.Reserved = 0
	require.NoError(t, m.Validate())
	m.Invoking = make([]byte, 1280-40-8-SizeIPv6)
	require.NotErrorIs(t, m.Validate(), errTooLong)
	m.Invoking = make([]byte, 1280-40-8-SizeIPv6+1)
	require.ErrorIs(t, m.Validate(), errTooLong)
}

// No message is about an acknowledgement or a notification: no sender could slow down.
func TestAppendForRejectsOpcodes(t *testing.T) {
	for _, c := range []struct {
		opcode bth.Opcode
		want   error
	}{
		{bth.RCSendOnly, nil}, {bth.RCAcknowledge, rocev2.ErrAcknowledgement}, {bth.CNP, rocev2.ErrNotification},
	} {
		t.Run(fmt.Sprint(c.opcode), func(t *testing.T) {
			p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: c.opcode}}}
			p.Src, p.Dst, p.DstPort = switch6, proxy6, rocev2.Port
			ip, err := p.AppendBinary(nil)
			require.NoError(t, err)
			var f rocev2.Frame
			f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			_, err = AppendFor(nil, &f, switch6, proxy6, 1, Config{})
			require.Equal(t, c.want, err, c.opcode)
			_, err = For(&f, 1)
			require.Equal(t, c.want, err, c.opcode)
		})
	}
}
