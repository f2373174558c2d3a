package fastcnp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// errNotTrace is the error of package ioam for options that are not traces.
var errNotTrace = new(ioam.Trace).Decode(ioam.Option{Type: ioam.OptTypeDirectExport})

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var (
	loopback = addr("2001:db8:ffff::5")
	sender   = addr("2001:db8:1::1")
	receiver = addr("2001:db8:4::e")
)

// congested returns a decoded data packet from sender to receiver with these extension
// headers.
func congested(t testing.TB, next uint8, ext []byte) *rocev2.Packet {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCRDMAWriteMiddle, PKey: 0xABCD,
		DestQP: 0x111111, PSN: 5}}, Payload: make([]byte, 64)}
	p.Src, p.Dst, p.SrcPort, p.DstPort = sender, receiver, 0xC001, rocev2.Port
	p.NextHeader, p.Ext = next, ext
	out := wiretest.Must(p.AppendBinary(nil))(t)
	var q rocev2.Packet
	require.NoError(t, q.DecodeIP(out))
	return &q
}

// hopByHop returns a Hop-by-Hop header with these options, each with its type.
func hopByHop(t testing.TB, options ...[]byte) []byte {
	t.Helper()
	w := ipv6opt.Begin(nil, 17)
	for _, o := range options {
		require.NoError(t, w.Add(ipv6opt.Type(o[0]), 4, 0, o[1:]))
	}
	return w.Finish()
}

// routing returns a Segment Routing header with one segment left, 2001:db8::3.
func routing(t testing.TB) []byte {
	t.Helper()
	return append([]byte{17, 2, 4, 1, 0, 0, 0, 0}, wiretest.Hex(t, "20010db8000000000000000000000003")...)
}

// trace returns a Hop-by-Hop option with an IOAM pre-allocated trace of bit 0, with
// this number of words of data; the last ones are nodes.
func trace(namespace uint16, words, nodes int) []byte {
	b := []byte{0x31, 0x5A, 0x00, uint8(namespace >> 8), uint8(namespace), 1 << 3, uint8(words - nodes), 0x80, 0, 0,
		0xA5}
	for i := range words {
		b = append(b, 64, 0, 0, uint8(i))
	}
	return b
}

const option1Header = `11 02 9e 10 20010db800040000000000000000000e 01 02 00 00`

// experimental are the option types in the octets of these tests, independent of the
// default.
var experimental = CodePoints{Option1: ExperimentalType, Option2: ExperimentalType}

// Option 1 with octets computed by hand, in a complete packet.
func TestOption1(t *testing.T) {
	out, _, err := AppendFor(nil, congested(t, 0, nil), loopback, nil, Config{CodePoints: experimental})
	require.NoError(t, err)
	require.Equal(t, wiretest.Hex(t, `
		6c000000 00403c40 20010db8ffff00000000000000000005 20010db8000100000000000000000001`+
		option1Header+`
		c00112b700280000
		8100abcd 40111111 00000000 00000000000000000000000000000000`), out[:len(out)-4])
	coverage := wiretest.Must(icrc.Verify(out))(t)
	require.Equal(t, icrc.AsSent, coverage)

	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(out))
	n := wiretest.Must(FromPacket(&p, experimental))(t)
	require.Equal(t, Notification{
		Src: loopback, Dst: sender, CNP: cnp.New(0x111111, 0xABCD),
		Option: Option{Number: 1, OriginalDst: receiver}, OptionType: ExperimentalType, Offset: 42,
	}, n)
	require.NoError(t, n.Validate())
	require.Equal(t, "network", n.Origin().String())
	for range n.Option.Trace.Nodes() {
		t.Error("option 1 has no trace")
	}
}

// Option 2 with octets computed by hand: the unchanged trace of a packet that passed
// three Linux nodes.
func TestOption2(t *testing.T) {
	var data rocev2.Packet
	require.NoError(t, data.DecodeEthernet(wiretest.Capture(t, "ioam-linux618-hpcc.pcap")[0].Data))
	option := data.Ext[4:] // after Next Header, Hdr Ext Len, PadN: 31, 46, 00, 00, trace
	require.Equal(t, wiretest.Hex(t, "31 46 0000 007b2800 f2000000"), option[:12])

	data.Dst = receiver
	out, _, err := AppendFor(nil, &data, loopback, nil, Config{CodePoints: experimental})
	require.NoError(t, err)
	want := wiretest.Hex(t, "11 0b 01 00 9e 56 00 00 007b2800 f2000000")
	want = append(want, option[12:72]...)
	want = append(want, wiretest.Hex(t, "20010db800040000000000000000000e 01020000")...)
	require.Len(t, want, 96)
	require.Equal(t, want, out[40:136])
	_, err = icrc.Verify(out)
	require.NoError(t, err)

	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(out))
	n := wiretest.Must(FromPacket(&p, experimental))(t)
	require.NoError(t, n.Validate())
	require.Equal(t, uint8(2), n.Option.Number)
	require.Equal(t, receiver, n.Option.OriginalDst)
	require.Equal(t, uint16(123), n.Option.Trace.Namespace)
	var ids []uint32
	for node := range n.Option.Trace.Nodes() {
		id, _ := node.NodeID()
		ids = append(ids, id)
	}
	require.Equal(t, []uint32{0xD4, 0xC3, 0xB2}, ids)
}

// The whole trace is copied: flags, RemainingLen, free space. Reserved of option 2 is zero on send, also if it is not
// in the option of the data packet.
func TestTraceIsCopiedVerbatim(t *testing.T) {
	option := trace(7, 20, 3)
	option[6] |= 0x80 | 0x10 // RemainingLen 17; O and R are in NodeLen's octet and this one
	option[5] |= 0x07
	out, _, err := AppendFor(nil, congested(t, ipv6opt.HopByHop, hopByHop(t, option)), loopback, nil,
		Config{CodePoints: experimental})
	require.NoError(t, err)
	require.EqualValues(t, 0x5A, option[1])
	require.EqualValues(t, 0, out[46])
	require.Equal(t, option[2:], out[47:47+len(option)-2])
}

func build(t testing.TB, next uint8, ext []byte) []byte {
	t.Helper()
	c := cnp.New(0xD2, 0xFFFF)
	p := rocev2.Packet{BTH: bth.Headers{Header: c.Header}, Payload: c.Reserved[:]}
	p.Src, p.Dst, p.DstPort = receiver, sender, rocev2.Port
	p.HopLimit, p.NextHeader, p.Ext = 255, next, ext
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// option2Data returns the data of an option 2 with this IOAM data.
func option2Data(ioam ...byte) []byte {
	a := receiver.As16()
	return append(ioam, a[:]...)
}

// Options are found at any place, and each kind of invalid option has its error.
func TestPlacement(t *testing.T) {
	address := wiretest.Hex(t, "20010db800040000000000000000000e")
	one := append([]byte{0x9E, 16}, address...)
	two := append([]byte{0x9E, 30}, option2Data(0, 0, 0, 1, 1<<3, 0, 0x80, 0, 0, 0, 64, 0, 0, 9)...)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	apart := CodePoints{Option1: 0x9E, Option2: 0x9F}
	other := []byte{0x1E, 2, 1, 2}
	asType := func(typ uint8, o []byte) []byte { o = bytes.Clone(o); o[0] = typ; return o }
	withLen := func(n int) []byte { return append([]byte{0x9E, uint8(n)}, make([]byte, n)...) }
	bad := func(at int, v uint8) []byte { o := bytes.Clone(two); o[at] = v; return o }

	for _, c := range []struct {
		name    string
		options []byte // of the header; padded to a multiple of 8 with Pad1
		points  CodePoints
		number  uint8
		offset  int
		err     error
	}{
		{name: "option 1 first", options: one, number: 1, offset: 42},
		{name: "option 1 off its alignment", options: join([]byte{0}, one), number: 1, offset: 43},
		{name: "option 1 after another", options: join(other, one), number: 1, offset: 46},
		{name: "option 2 first", options: two, number: 2, offset: 42},
		{name: "option 2 before another", options: join([]byte{1, 0}, two, other), number: 2, offset: 44},
		{name: "apart: option 1", options: one, points: apart, number: 1, offset: 42},
		{name: "apart: option 2", options: asType(0x9F, two), points: apart, number: 2, offset: 42},

		{name: "no option", options: other, err: ErrNotFastCNP},
		{name: "another type", options: asType(0x9D, one), err: ErrNotFastCNP},
		{name: "an invalid option before it", options: join([]byte{0x1E, 200}, one), err: errOverrun},
		{name: "itself beyond the header", options: join([]byte{0x9E, 0x56}, one[2:]), err: errOverrun},
		{name: "apart: option 1 as option 2", options: asType(0x9F, one), points: apart, err: errOption2Len},
		{name: "apart: option 2 as option 1", options: two, points: apart, err: errOption1Len},
		{name: "0 octets", options: withLen(0), err: errOptionLen},
		{name: "15 octets", options: withLen(15), err: errOptionLen},
		{name: "17 octets", options: withLen(17), err: errOptionLen},
		{name: "25 octets", options: withLen(25), err: errOptionLen},
		{name: "two options 1", options: join(one, one), err: errSecond},
		{name: "options 1 and 2", options: join(one, two), err: errSecond},
		{name: "an invalid option after it", options: join(one, []byte{0x1E, 200}), err: errOverrun},
		{name: "IOAM proof of transit", options: bad(3, 2), err: errNotTrace},
		{name: "IOAM direct export", options: bad(3, 4), err: errNotTrace},
		{name: "NodeLen 2", options: bad(6, 2<<3), err: wireerr.Malformed},
		{name: "RemainingLen beyond the space", options: bad(7, 2), err: wireerr.Malformed},
		{name: "remainder shorter than a node", options: join([]byte{0x9E, 28}, two[2:14], address, []byte{0, 0}),
			err: wireerr.Truncated},
		{name: "snapshot beyond the remainder",
			options: join([]byte{0x9E, 30}, option2Data(0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 1, 0, 0, 9)),
			err:     wireerr.Truncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := append([]byte{17, 0}, c.options...)
			header = append(header, make([]byte, -len(header)&7)...)
			header[1] = uint8(len(header)/8 - 1)
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(build(t, ipv6opt.DestinationOptions, header)))
			if c.points == (CodePoints{}) {
				c.points = experimental
			}
			n, err := FromPacket(&p, c.points)
			require.ErrorIs(t, err, c.err)
			wiretest.NoAllocs(t, "FromPacket", func() { _, _ = FromPacket(&p, c.points) })
			if c.err != nil {
				require.Equal(t, Notification{}, n)
				return
			}
			require.Equal(t, c.number, n.Option.Number)
			require.Equal(t, c.offset, n.Offset)
			require.Equal(t, receiver, n.Option.OriginalDst)
			require.Equal(t, OriginReceiver, n.Origin())
			require.Equal(t, "receiver", n.Origin().String())

			// In other packets the option type has no meaning.
			p.BTH.Opcode = bth.RCSendOnly
			_, err = FromPacket(&p, c.points)
			require.ErrorIs(t, err, wireerr.NotCNP)
			p.BTH.Opcode, p.BTH.Resv6 = bth.CNP, ppfc.Bit
			_, err = FromPacket(&p, c.points)
			require.NoError(t, err, "with 16 octets P is one more reserved bit")
			p.Payload = p.Payload[4:]
			_, err = FromPacket(&p, c.points)
			require.ErrorIs(t, err, wireerr.IsPPFC)
		})
	}
}

// The option may be in any Destination Options header, and only there and only once.
func TestHeaders(t *testing.T) {
	one := wiretest.Hex(t, option1Header)
	next := func(typ uint8, header []byte) []byte { header = bytes.Clone(header); header[0] = typ; return header }
	for _, c := range []struct {
		name string
		next uint8
		ext  []byte
		err  error
	}{
		{"in Hop-by-Hop", 0, one, ErrNotFastCNP},
		{"after Hop-by-Hop", 0, append([]byte{60, 0, 1, 4, 0, 0, 0, 0}, one...), nil},
		{"in the second header", 60, append([]byte{60, 0, 1, 4, 0, 0, 0, 0}, one...), nil},
		{"in both headers", 60, append(next(60, one), one...), errSecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(build(t, c.next, c.ext)))
			_, err := FromPacket(&p, experimental)
			require.ErrorIs(t, err, c.err)
		})
	}
}

func TestBrokenCNP(t *testing.T) {
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(build(t, 60, wiretest.Hex(t, option1Header))))
	p.Payload = p.Payload[1:]
	_, err := FromPacket(&p, experimental)
	require.ErrorIs(t, err, wireerr.CNPLength)
	require.NoError(t, p.DecodeIP(build(t, 60, []byte{17, 0, 1, 4, 0, 0, 0, 0})))
	p.Payload = p.Payload[1:]
	_, err = FromPacket(&p, experimental)
	require.ErrorIs(t, err, ErrNotFastCNP)
}

func TestIPv4(t *testing.T) {
	p := rocev2.Packet{}
	p.Src, p.Dst = addr("192.0.2.1"), addr("192.0.2.2")
	_, _, err := AppendFor(nil, &p, loopback, nil, Config{CodePoints: experimental})
	require.ErrorIs(t, err, ErrIPv4)
	p.Src = sender
	_, _, err = AppendFor(nil, &p, loopback, nil, Config{CodePoints: experimental})
	require.ErrorIs(t, err, errDestination)
	p.Src = addr("192.0.2.1")
	p.BTH.Opcode = bth.CNP
	p.Data = make([]byte, 32)
	p.Data[0], p.Length = 0x81, 40
	_, err = FromPacket(&p, experimental)
	require.ErrorIs(t, err, ErrNotFastCNP)
}

// D4: 57 words fit with the trace's header, 58 do not.
func TestLongTrace(t *testing.T) {
	build := func(words, nodes int, long LongTrace) (Notification, error) {
		data := congested(t, ipv6opt.HopByHop, hopByHop(t, trace(1, words, nodes)))
		out, _, err := AppendFor([]byte{1}, data, loopback, nil, Config{CodePoints: experimental, Long: long})
		buf := make([]byte, 0, 512)
		wiretest.NoAllocs(t, "AppendFor", func() {
			buf, _, _ = AppendFor(buf[:0], data, loopback, nil, Config{CodePoints: experimental, Long: long})
		})
		if err != nil {
			require.Equal(t, []byte{1}, out)
			return Notification{}, err
		}
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(out[1:]))
		var h ipv6opt.Header
		_, err = h.Decode(p.Ext)
		require.NoError(t, err)
		require.NoError(t, ipv6opt.Limits{}.Check(&h), "within the limits of hosts")
		n := wiretest.Must(FromPacket(&p, experimental))(t)
		return n, nil
	}
	for words := 1; words <= 57; words++ {
		for long := LongTraceReject; long <= LongTraceFallBack; long++ {
			n := wiretest.Must(build(words, words/2, long))(t)
			require.Equal(t, uint8(2), n.Option.Number)
			require.Len(t, n.Option.Trace.Data, 4*words)
			require.Equal(t, words-words/2, int(n.Option.Trace.RemainingLen))
		}
	}
	for words := 58; words <= 61; words++ {
		_, err := build(words, 10, LongTraceReject)
		require.ErrorIs(t, err, ErrTooLong)
		n := wiretest.Must(build(words, 10, LongTraceTrim))(t)
		require.Equal(t, uint8(2), n.Option.Number)
		require.Len(t, n.Option.Trace.Data, 40)
		require.Zero(t, n.Option.Trace.RemainingLen)
		_, err = build(words, words, LongTraceTrim)
		require.ErrorIs(t, err, ErrTooLong, "node data is never dropped")
		n = wiretest.Must(build(words, words, LongTraceFallBack))(t)
		require.Equal(t, uint8(1), n.Option.Number)
	}
	_, err := build(1, 1, LongTraceFallBack+1)
	require.ErrorIs(t, err, errLong)
}

// D5: the choice of the trace in the Fast CNP.
func TestWhichTrace(t *testing.T) {
	dex := []byte{0x11, 0, 4, 0, 5, 0, 0, 0x80, 0, 0, 0}
	broken := trace(6, 2, 2)
	broken[5] = 3 << 3
	inner := hopByHop(t, dex, broken, trace(7, 1, 1), trace(8, 1, 1))
	data := congested(t, 0, inner)
	outer := make([]byte, 40)
	outer[0] = 0x60
	ext := hopByHop(t, trace(9, 1, 1))
	ext[0] = 41
	binary.BigEndian.PutUint16(outer[4:], uint16(len(ext)+len(data.IP)))
	require.NoError(t, data.DecodeIP(bytes.Join([][]byte{outer, ext, data.IP}, nil)))
	require.Equal(t, sender, data.Src)

	for _, c := range []struct {
		name      string
		cfg       Config
		namespace uint16 // 0: none, option 1
	}{
		{"first that decodes", Config{}, 7},
		{"by namespace", Config{ByNamespace: true, Namespace: 8}, 8},
		{"namespace that is not there", Config{ByNamespace: true, Namespace: 9}, 0},
		{"invalid trace of the namespace", Config{ByNamespace: true, Namespace: 6}, 0},
		{"outer", Config{OuterTrace: true}, 9},
		{"outer, by namespace", Config{OuterTrace: true, ByNamespace: true, Namespace: 7}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := AppendFor(nil, data, loopback, nil, c.cfg)
			require.ErrorIs(t, err, rocev2.ErrTunnelled)
			c.cfg.InnerSource, c.cfg.CodePoints = true, experimental
			choice := wiretest.Must(c.cfg.choose(data, nil))(t)
			out, _, err := AppendFor(nil, data, loopback, nil, c.cfg)
			require.NoError(t, err)
			require.Equal(t, c.namespace != 0, choice == copied)
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(out))
			n := wiretest.Must(FromPacket(&p, experimental))(t)
			require.Equal(t, c.namespace, n.Option.Trace.Namespace)
			require.Equal(t, c.namespace != 0, n.Option.Number == 2)
		})
	}
}

// choose returns the choice of AppendFor between the options.
func (c *Config) choose(congested *rocev2.Packet, own *ioam.Node) (choice, error) {
	if !c.mayFindTrace(congested) {
		return noTrace, nil
	}
	var trace ioam.Trace
	_, found := c.findTrace(congested, &trace)
	if found != copied {
		return found, nil
	}
	fit, _, err := c.fitTrace(&trace, own)
	return fit, err
}

// optionOf returns the number of the option of a choice, 1 or 2.
func optionOf(c choice) uint8 {
	if c < copied {
		return 1
	}
	return 2
}

// A packet without a trace is distinguished from one with invalid traces of either
// option type.
func TestChoice(t *testing.T) {
	broken := trace(6, 2, 2)
	broken[5] = 3 << 3
	for _, c := range []struct {
		name    string
		options [][]byte
		typ     ipv6opt.Type
		want    choice
	}{
		{"none", nil, ioam.IPv6MayChange, noTrace},
		{"only direct export", [][]byte{{0x11, 0, 4, 0, 5, 0, 0, 0x80, 0, 0, 0}}, ioam.IPv6MayChange, noTrace},
		{"broken", [][]byte{broken}, ioam.IPv6MayChange, invalidTrace},
		{"an invalid trace before a valid one", [][]byte{broken, trace(7, 1, 1)}, ioam.IPv6MayChange, copied},
		{"in an option that may not change", [][]byte{trace(7, 1, 1)}, ioam.IPv6NoChange, copied},
		{"too long", [][]byte{trace(1, 61, 61)}, ioam.IPv6MayChange, traceTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			ext := hopByHop(t, c.options...)
			if len(c.options) > 0 && c.typ != ioam.IPv6MayChange {
				ext[4] = uint8(c.typ)
			}
			data := congested(t, ipv6opt.HopByHop, ext)
			cfg := Config{CodePoints: experimental, Long: LongTraceFallBack}
			got := wiretest.Must(cfg.choose(data, nil))(t)
			require.Equal(t, c.want, got)
			out, sent, err := AppendFor(nil, data, loopback, nil, cfg)
			require.NoError(t, err)
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(out))
			n := wiretest.Must(FromPacket(&p, experimental))(t)
			require.Equal(t, optionOf(got), n.Option.Number)
			require.Equal(t, Report{Option: n.Option.Number}, sent)
		})
	}
}

// The congested node adds its own record to the copy: in the free space if it fits,
// otherwise it sets the overflow flag of the copy.
func TestOwnRecord(t *testing.T) {
	own := record(9, 0xABCDEF)
	for _, c := range []struct {
		name        string
		kind        uint8
		words, have int // total and used words of 4 octets
		long        LongTrace
		nodes       int
		overflow    bool
		choice      choice
		err         error
	}{
		{"free space", 0, 3, 1, LongTraceReject, 2, false, copied, nil},
		{"the last space", 0, 3, 2, LongTraceReject, 3, false, copied, nil},
		{"no space", 0, 3, 3, LongTraceReject, 3, true, copied, nil},
		{"trimmed", 0, 61, 3, LongTraceTrim, 4, false, trimmed, nil},
		{"too long", 0, 61, 3, LongTraceReject, 0, false, noTrace, ErrTooLong},
		{"incremental", 1, 3, 1, LongTraceReject, 2, false, copied, nil},
		{"incremental, grown beyond option 2", 1, 58, 57, LongTraceReject, 0, false, noTrace, ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			option := trace(5, c.words, c.have)
			if c.kind == 1 {
				option[2] = 1
				option = append(option[:11], option[11+4*(c.words-c.have):]...)
			}
			data := congested(t, ipv6opt.HopByHop, hopByHop(t, option))
			before := bytes.Clone(data.IP)
			cfg := Config{CodePoints: experimental, Long: c.long}
			choice, err := cfg.choose(data, own)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.choice, choice)
			wiretest.NoAllocs(t, c.name, func() { _, _ = cfg.choose(data, own) })
			out, sent, err := AppendFor([]byte{1}, data, loopback, own, cfg)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, before, data.IP, "the congested packet is unchanged")
			buf := make([]byte, 0, max(1, len(out)-1))
			wiretest.NoAllocs(t, c.name, func() { _, _, _ = AppendFor(buf, data, loopback, own, cfg) })
			if err != nil {
				require.Zero(t, sent)
				return
			}
			require.Equal(t, Report{Option: 2, OwnRecord: !c.overflow}, sent)
			wiretest.Encodes(t, out[1:], func(b []byte) ([]byte, error) {
				out, again, err := AppendFor(b, data, loopback, own, cfg)
				require.Equal(t, sent, again)
				return out, err
			})
			cfg.Carriage.ECN = 4
			late, _, err := AppendFor(buf[:0:1], data, loopback, own, cfg)
			require.ErrorIs(t, err, wireerr.Range)
			require.Equal(t, 1, cap(late), "the caller's own slice comes back")
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(out[1:]))
			_, err = icrc.Verify(p.IP)
			require.NoError(t, err)
			n := wiretest.Must(FromPacket(&p, experimental))(t)
			require.Equal(t, c.overflow, n.Option.Trace.Overflow)
			nodes := 0
			for node := range n.Option.Trace.Nodes() {
				if nodes == 0 && !c.overflow {
					id, _ := node.NodeID()
					require.Equal(t, uint32(0xABCDEF), id)
				}
				nodes++
			}
			require.Equal(t, c.nodes, nodes)
		})
	}
	for _, bad := range []*ioam.Node{record(0, 1<<24), new(ioam.Node)} {
		out, sent, err := AppendFor([]byte{9}, congested(t, ipv6opt.HopByHop, hopByHop(t, trace(5, 3, 1))), loopback,
			bad, Config{CodePoints: experimental})
		require.ErrorIs(t, err, wireerr.Range)
		require.Equal(t, []byte{9}, out)
		require.Zero(t, sent)
	}
}

// record returns a record with hop limit and identifier.
func record(hopLimit uint8, id uint32) *ioam.Node {
	n := new(ioam.Node)
	n.SetNode(hopLimit, id)
	return n
}

// AppendFor rejects notifications, addresses that other nodes cannot reach by unicast,
// and option types with act bits other than 10 or chg other than 0.
func TestRefused(t *testing.T) {
	for _, bad := range []string{"::1", "::", "ff02::1", "fe80::1", "::ffff:192.0.2.1"} {
		data := congested(t, 0, nil)
		_, _, err := AppendFor(nil, data, addr(bad), nil, Config{CodePoints: experimental})
		require.ErrorIs(t, err, rocev2.ErrNotReachable, bad)
		data.Src = addr(bad)
		_, _, err = AppendFor(nil, data, loopback, nil, Config{CodePoints: experimental})
		require.ErrorIs(t, err, rocev2.ErrNotReachable, bad)
		for i := range 3 {
			ends := []netip.Addr{addr("2001:db8::1"), addr("2001:db8::1"), receiver}
			ends[i] = addr(bad)
			n := Notification{Src: ends[0], Dst: ends[1], CNP: cnp.New(1, 2),
				Option: Option{Number: 1, OriginalDst: ends[2]}}
			out, err := n.AppendPacket([]byte{9}, Config{})
			require.ErrorIs(t, err, rocev2.ErrNotReachable, bad)
			require.Equal(t, []byte{9}, out)
			require.ErrorIs(t, n.Validate(), rocev2.ErrNotReachable)
		}
		data = congested(t, 0, nil)
		data.Dst = addr(bad)
		out, _, err := AppendFor([]byte{9}, data, loopback, nil, Config{})
		require.ErrorIs(t, err, rocev2.ErrNotReachable, bad)
		require.Equal(t, []byte{9}, out)
	}
	data := congested(t, 0, nil)
	data.BTH.Opcode = bth.CNP
	_, _, err := AppendFor(nil, data, loopback, nil, Config{CodePoints: experimental})
	require.ErrorIs(t, err, rocev2.ErrNotification)

	data = congested(t, 0, nil)
	for typ := range 256 {
		points := CodePoints{Option1: ipv6opt.Type(typ)}
		_, _, err := AppendFor(nil, data, loopback, nil, Config{CodePoints: points})
		n := Notification{Src: loopback, Dst: sender, CNP: cnp.New(1, 2),
			Option: Option{Number: 1, OriginalDst: receiver}, OptionType: ipv6opt.Type(typ)}
		_, err2 := n.AppendPacket(nil, Config{})
		if typ>>5 == 4 || typ == 0 { // act 10, chg 0; 0 stands for the default
			require.NoError(t, err)
			require.NoError(t, err2)
			continue
		}
		require.ErrorIs(t, err, wireerr.OptionType, "%#x", typ)
		require.ErrorIs(t, err2, wireerr.OptionType, "%#x", typ)
	}
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(build(t, 60, wiretest.Hex(t, option1Header))))
	_, err = FromPacket(&p, CodePoints{Option1: ipv6opt.PadN})
	require.ErrorIs(t, err, wireerr.OptionType, "padding is not a Fast CNP")
	_, err = FromPacket(&p, CodePoints{Option2: ipv6opt.PadN})
	require.ErrorIs(t, err, wireerr.OptionType)
}

// FlowKey is that of the flow's own packets, by which the sender finds its queue pair.
func TestFlowKey(t *testing.T) {
	data := congested(t, 0, nil)
	out, _, err := AppendFor(nil, data, loopback, nil, Config{CodePoints: experimental})
	require.NoError(t, err)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(out))
	n := wiretest.Must(FromPacket(&p, experimental))(t)
	require.Equal(t, rocev2.FlowKey{Src: data.Src, Dst: data.FinalDst(), DestQP: data.BTH.DestQP}, n.FlowKey())
}

// Each option is encoded with its own type.
func TestCodePoints(t *testing.T) {
	points := CodePoints{Option1: 0x8E, Option2: 0x8F}
	for _, c := range []struct {
		ext    []byte
		number uint8
		typ    ipv6opt.Type
	}{
		{nil, 1, 0x8E},
		{hopByHop(t, trace(1, 4, 2)), 2, 0x8F},
		{hopByHop(t), 1, 0x8E},
	} {
		cfg, data := Config{CodePoints: points}, congested(t, ipv6opt.HopByHop, c.ext)
		choice := wiretest.Must(cfg.choose(data, nil))(t)
		require.Equal(t, c.number, optionOf(choice))
		out, sent, err := AppendFor(nil, data, loopback, nil, cfg)
		require.NoError(t, err)
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(out))
		n := wiretest.Must(FromPacket(&p, points))(t)
		require.Equal(t, c.number, n.Option.Number)
		require.Equal(t, Report{Option: c.number}, sent)
		require.Equal(t, c.typ, n.OptionType)
		require.Equal(t, uint8(c.typ), out[n.Offset])
	}
}

// A queue pair has 24 bits.
func TestLargestQueuePair(t *testing.T) {
	data := congested(t, 0, nil)
	data.BTH.DestQP = 0xFFFFFF
	out, _, err := AppendFor(nil, data, loopback, nil, Config{CodePoints: experimental})
	require.NoError(t, err)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(out))
	require.Equal(t, uint32(0xFFFFFF), p.BTH.DestQP)
	data.BTH.DestQP++
	out, _, err = AppendFor([]byte{9}, data, loopback, nil, Config{CodePoints: experimental})
	require.ErrorIs(t, err, wireerr.DestQP)
	require.Equal(t, []byte{9}, out)
}

// The original destination is the final one, by which the sender knows the flow.
func TestSegmentRouting(t *testing.T) {
	out, _, err := AppendFor(nil, congested(t, 43, routing(t)), loopback, nil, Config{CodePoints: experimental})
	require.NoError(t, err)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(out))
	n := wiretest.Must(FromPacket(&p, experimental))(t)
	require.Equal(t, addr("2001:db8::3"), n.Option.OriginalDst)
}

func TestConfig(t *testing.T) {
	data := congested(t, 0, nil)
	cfg := Config{
		CodePoints: CodePoints{Option1: 0x8F}, Coverage: icrc.Without,
		Carriage: rocev2.Carriage{DSCP: 46, ECN: 1, HopLimit: 9, FlowLabel: 0xBEEF5, SrcPort: 7, Checksum: true},
	}
	out, _, err := AppendFor(nil, data, loopback, nil, cfg)
	require.NoError(t, err)
	coverage := wiretest.Must(icrc.Verify(out))(t)
	require.Equal(t, icrc.Without, coverage)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(out))
	require.Equal(t, []any{uint8(46), rocev2.ECT1, uint8(9), uint32(0xBEEF5), uint16(7), uint16(0xABCD)},
		[]any{p.DSCP(), p.ECN(), p.HopLimit, p.FlowLabel, p.SrcPort, p.BTH.PKey})
	require.NotZero(t, p.Checksum)
	_, err = FromPacket(&p, experimental)
	require.ErrorIs(t, err, ErrNotFastCNP)
	_, err = FromPacket(&p, cfg.CodePoints)
	require.NoError(t, err)

	for _, c := range []struct {
		src netip.Addr
		cfg Config
		err error
	}{
		{netip.Addr{}, Config{}, errIPv6},
		{addr("192.0.2.1"), Config{}, errIPv6},
		{loopback, Config{Carriage: rocev2.Carriage{DSCP: 64}}, wireerr.Range},
		{loopback, Config{Carriage: rocev2.Carriage{FlowLabel: 1 << 20}}, wireerr.Range},
		{loopback, Config{CodePoints: CodePoints{Option1: ipv6opt.PadN}}, wireerr.OptionType},
		{loopback, Config{Coverage: 3}, wireerr.Range},
	} {
		buf := make([]byte, 0, 512)
		_, _, err := AppendFor(buf, data, c.src, nil, c.cfg)
		require.ErrorIs(t, err, c.err)
		wiretest.NoAllocs(t, "error", func() { _, _, _ = AppendFor(buf, data, c.src, nil, c.cfg) })
	}
}

// A receiver encodes a Fast CNP from fields.
func TestAppendPacket(t *testing.T) {
	n := Notification{Src: receiver, Dst: sender, CNP: cnp.New(0xD2, 0xFFFF),
		Option: Option{Number: 1, OriginalDst: receiver}, OptionType: ExperimentalType}
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(build(t, 60, wiretest.Hex(t, option1Header))))
	p.SrcPort = 0xC001
	want := wiretest.Must(p.AppendBinary(nil))(t)
	cfg := Config{Carriage: rocev2.Carriage{DSCP: rocev2.BestEffort, HopLimit: 255, SrcPort: 0xC001}}
	wiretest.Encodes(t, want, func(b []byte) ([]byte, error) { return n.AppendPacket(b, cfg) })
	for _, c := range []struct {
		change func(*Notification)
		err    error
	}{
		{func(n *Notification) { n.CNP.Opcode = 0x80 }, wireerr.NotCNP},
		{func(n *Notification) { n.Option.Number = 3 }, errNumber},
		{func(n *Notification) { n.Option.OriginalDst = addr("192.0.2.1") }, errDestination},
		{func(n *Notification) { n.Option.Number, n.Option.Trace.Data = 2, make([]byte, 232) }, ErrTooLong},
		{func(n *Notification) { n.Option.Number, n.Option.Trace.Type = 2, 1<<24 }, wireerr.Range},
		{func(n *Notification) { n.Option.Number, n.Option.Trace.OptType = 2, ioam.OptTypeDirectExport },
			errNotTrace},
		{func(n *Notification) { n.OptionType = ipv6opt.PadN }, wireerr.OptionType},
		{func(n *Notification) { n.Src, n.Dst = addr("192.0.2.1"), addr("192.0.2.2") }, errAddresses},
		{func(n *Notification) { n.CNP.PSN = 1 << 24 }, wireerr.Range},
	} {
		bad := n
		c.change(&bad)
		buf := make([]byte, 1, 512)
		out, err := bad.AppendPacket(buf, Config{})
		require.ErrorIs(t, err, c.err)
		require.Len(t, out, 1)
		wiretest.NoAllocs(t, c.err.Error(), func() { _, _ = bad.AppendPacket(buf, Config{}) })
	}
}

func TestValidate(t *testing.T) {
	good := Notification{Src: loopback, Dst: sender, CNP: cnp.New(1, 0xFFFF),
		Option: Option{Number: 2, OriginalDst: receiver}, Offset: 44}
	require.NoError(t, good.Validate())
	for _, c := range []struct {
		change func(*Notification)
		err    error
	}{
		{func(n *Notification) { n.OptionType = 0x1E }, errAct},
		{func(n *Notification) { n.OptionType = 0xDE }, errAct},
		{func(n *Notification) { n.OptionType = 0xBE }, errChg},
		{func(n *Notification) { n.Option.Reserved = 1 }, errReservedSet},
		{func(n *Notification) { n.Offset = 42 }, errAlignment},
		{func(n *Notification) { n.Option.Number = 1 }, errAlignment},
		{func(n *Notification) { n.CNP.PSN = 1 }, wireerr.Malformed},
		{func(n *Notification) { n.Src = addr("192.0.2.1") }, errAddresses},
		{func(n *Notification) { n.Option = Option{} }, errNumber},
	} {
		bad := good
		c.change(&bad)
		require.ErrorIs(t, bad.Validate(), c.err)
	}
}

// Every prefix of an option's data is an error, or option 1 at 16 octets.
func TestOptionPrefixes(t *testing.T) {
	data := option2Data(0, 0, 0, 1, 1<<3, 0, 0x80, 0, 0, 0, 64, 0, 0, 9)
	for n := range data {
		var o Option
		err := o.Decode(data[:n:n])
		if n == 16 || n == 26 { // option 1; a trace without nodes, 16 other octets for an address
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "%d octets", n)
		require.Equal(t, Option{}, o)
	}
	var o Option
	require.NoError(t, o.Decode(data))
	wiretest.Encodes(t, data, o.AppendBinary)
	wiretest.NoAllocs(t, "Option.Decode", func() { _ = o.Decode(data) })
	buf := make([]byte, 0, 64)
	wiretest.NoAllocs(t, "Option.AppendBinary", func() { _, _ = o.AppendBinary(buf) })
	var one Option
	require.NoError(t, one.Decode(data[:16]))
	wiretest.Encodes(t, data[:16], one.AppendBinary)
}

// problem returns the ICMPv6 Parameter Problem that quotes a packet.
func problem(code uint8, pointer int, packet []byte) []byte {
	return append([]byte{4, code, 0, 0, 0, 0, uint8(pointer >> 8), uint8(pointer)}, packet...)
}

func TestFromICMP(t *testing.T) {
	sent, _, err := AppendFor(nil, congested(t, 0, nil), loopback, nil, Config{CodePoints: experimental})
	require.NoError(t, err)
	n := wiretest.Must(FromICMP(problem(2, 42, sent), experimental))(t)
	require.Equal(t, sender, n.Dst)
	require.Equal(t, receiver, n.Option.OriginalDst)
	require.Equal(t, uint32(0x111111), n.CNP.DestQP)

	// A host quotes the complete packet, up to 1280 octets; a middlebox may not.
	n = wiretest.Must(FromICMP(problem(2, 42, sent[:40+24+8+12]), experimental))(t)
	require.Equal(t, uint32(0x111111), n.CNP.DestQP)

	plain := build(t, 60, []byte{17, 0, 0x9D, 4, 0, 0, 0, 0})
	other := problem(2, 42, sent)
	other[0] = 1
	for _, c := range []struct {
		name string
		icmp []byte
		err  error
	}{
		{"nothing", nil, errTruncatedICMP},
		{"7 octets", make([]byte, 7), errTruncatedICMP},
		{"Destination Unreachable", other, errNotProblem},
		{"Destination Unreachable that quotes nothing", other[:8], errNotProblem},
		{"code 1", problem(1, 42, sent), errNotProblem},
		{"pointer at the option's length", problem(2, 43, sent), errPointer},
		{"pointer beyond", problem(2, 60000, sent), errPointer},
		{"another option", problem(2, 42, plain), ErrNotFastCNP},
		{"quote truncated in the BTH", problem(2, 42, sent[:83]), wireerr.Truncated},
		{"quote truncated in the IPv6 header", problem(2, 42, sent[:39]), wireerr.Truncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := FromICMP(c.icmp, experimental)
			require.ErrorIs(t, err, c.err)
			wiretest.NoAllocs(t, c.name, func() { _, _ = FromICMP(c.icmp, experimental) })
		})
	}
	good := problem(2, 42, sent)
	wiretest.NoAllocs(t, "FromICMP", func() { _, _ = FromICMP(good, experimental) })
}

// Linux quotes a packet with a destination option that it does not know. These options
// have the type of a Fast CNP option, but 18 octets of data.
func TestFromICMPLinux(t *testing.T) {
	types := 0
	for _, c := range wiretest.Capture(t, "ioam-linux618-dstopt-unknown-actions.pcap") {
		if c.Data[20] != 58 {
			continue
		}
		icmp := c.Data[54:]
		quoted := icmp[8:]
		pointer := binary.BigEndian.Uint32(icmp[4:])
		points := CodePoints{Option1: ipv6opt.Type(quoted[pointer]), Option2: ipv6opt.Type(quoted[pointer])}
		_, err := FromICMP(icmp, points)
		require.ErrorIs(t, err, errOptionLen)
		types++
	}
	require.NotZero(t, types)
}

func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		ext  []byte
	}{{"option 1", nil}, {"option 2", hopByHop(t, trace(1, 40, 12))}} {
		t.Run(c.name, func(t *testing.T) {
			data := congested(t, 0, c.ext)
			out := make([]byte, 0, 512)
			wiretest.NoAllocs(t, "AppendFor", func() {
				out, _, _ = AppendFor(out[:0], data, loopback, nil, Config{CodePoints: experimental})
			})
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(out))
			wiretest.NoAllocs(t, c.name+": FromPacket", func() {
				n, _ := FromPacket(&p, experimental)
				for node := range n.Option.Trace.Nodes() {
					_ = node.HopLimit
				}
			})
		})
	}
}

// A slice that is too small grows once.
func TestOneAllocation(t *testing.T) {
	full := trace(1, 57, 57)
	full[2] = 1 // incremental, without space for a node
	own := record(9, 5)
	own.SetSnapshot(ioam.Snapshot{Data: make([]byte, 1020)})
	for _, c := range []struct {
		name   string
		option []byte
		own    *ioam.Node
	}{
		{"option 1", nil, nil},
		{"option 2", trace(1, 57, 57), nil},
		{"own record", trace(1, 57, 56), record(9, 5)},
		{"own record longer than the free space of the trace", full, own},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ext []byte
			if c.option != nil {
				ext = hopByHop(t, c.option)
			}
			data := congested(t, 0, ext)
			wiretest.OneAlloc(t, c.name, func(b []byte) ([]byte, error) {
				out, _, err := AppendFor(b, data, loopback, c.own, Config{CodePoints: experimental})
				return out, err
			})
		})
	}
}

func TestString(t *testing.T) {
	n := Notification{
		Src: netip.MustParseAddr("2001:db8::5"), Dst: netip.MustParseAddr("2001:db8::a"), CNP: cnp.New(18, 0xFFFF),
		Option: Option{Number: 1, OriginalDst: netip.MustParseAddr("2001:db8::b")},
	}
	require.Equal(t, "2001:db8::5 > 2001:db8::a option 1 about 2001:db8::b; "+n.CNP.String(), n.String())
	n.Option.Number, n.Option.Reserved, n.Option.Trace.Namespace = 2, 7, 123
	require.Equal(t, "option 2 about 2001:db8::b Reserved 0x7 "+n.Option.Trace.String(), n.Option.String())
	require.Contains(t, n.String(), "namespace 123")
}

// A record is added only to traces of own namespaces (RFC 9197 section 4.3), and the Report has the result.
func TestOwnNamespaces(t *testing.T) {
	const namespace = 7
	set := func(all ...uint16) *Namespaces {
		n := new(Namespaces)
		for _, one := range all {
			n.Add(one)
		}
		return n
	}
	var own ioam.Node
	own.SetNode(60, 5)
	option := trace(namespace, 20, 3)
	packet := congested(t, ipv6opt.HopByHop, hopByHop(t, option))
	plain, _, err := AppendFor(nil, packet, loopback, nil, Config{CodePoints: experimental})
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		set   *Namespaces
		added bool
	}{
		{"all", nil, true}, {"none", set(), false}, {"this one", set(namespace), true},
		{"others", set(0, namespace-1, namespace+1, namespace+64, 0xFFFF), false},
		{"this one and others", set(0xFFFF, namespace, 0), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, sent, err := AppendFor(nil, packet, loopback, &own,
				Config{CodePoints: experimental, OwnNamespaces: c.set})
			require.NoError(t, err)
			require.Equal(t, Report{Option: 2, OwnRecord: c.added}, sent)
			require.Equal(t, !c.added, bytes.Equal(plain, out))
		})
	}
}
