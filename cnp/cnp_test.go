package cnp

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// published is an example of a CNP, from the BTH up to the ICRC.
const published = `8100ffff 400000d2 00000000 00000000000000000000000000000000`

// hardware is a whole CNP packet that a ConnectX-4 Lx sent.
const hardware = `
	45c2003c718c400040119161 0a001101 0a001201
	000012b700280000
	8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a`

// marked is an RC SEND Only with 4 octets of payload and ECN 3, over IPv6.
const marked = `
	60300000001c113f 20010db8000100000000000000000001 20010db8000200000000000000000002
	c00112b7001c0000
	0400abcd 00000011 80fffff0 01020304 00000000`

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestPublishedExample(t *testing.T) {
	want := New(0xD2, 0xFFFF)
	require.NoError(t, want.Validate())
	wiretest.Encodes(t, wiretest.Hex(t, published), want.AppendBinary)
	b := wiretest.Must(want.AppendBinary(nil))(t)
	require.Equal(t, wiretest.Hex(t, published), b)

	var c CNP
	rest := wiretest.Must(c.Decode(append(b, 0xEE)))(t)
	require.Equal(t, []byte{0xEE}, rest)
	require.Equal(t, want, c)
	wiretest.Prefixes(t, b, func(b []byte) error {
		_, err := c.Decode(b)
		return err
	})
	require.Equal(t, want, c)
	wiretest.NoAllocs(t, "Decode", func() { _, _ = c.Decode(b) })
	require.Equal(t, c.Header.String(), c.String())
	c.Reserved[0] = 1
	require.Equal(t, c.Header.String()+" Reserved 01000000000000000000000000000000", c.String())
}

func TestFromPacket(t *testing.T) {
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(wiretest.Hex(t, hardware)))
	c := wiretest.Must(FromPacket(&p))(t)
	require.Equal(t, New(0x118, 0xFFFF), c)
	require.NoError(t, c.Validate())
}

func TestReservedOctetsAreKeptAndPadIgnored(t *testing.T) {
	b := wiretest.Hex(t, hardware)
	b[29] = 0x30 // pad count 3
	copy(b[40:56], "reserved octets.")
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(b))
	c := wiretest.Must(FromPacket(&p))(t)
	require.Equal(t, "reserved octets.", string(c.Reserved[:]))
	out := wiretest.Must(c.AppendBinary(nil))(t)
	require.Equal(t, b[28:56], out)
	require.ErrorIs(t, c.Validate(), errPad)
	require.ErrorIs(t, c.Validate(), errReservedSet)
}

func TestNotACNP(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		err    error
	}{
		{"opcode 0x80", func(b []byte) []byte { b[28] = 0x80; return b }, wireerr.NotCNP},
		{"P bit and 12 octets", func(b []byte) []byte { b[32] |= 0x20; b[25] = 36; return b }, wireerr.IsPPFC},
		{"15 octets", func(b []byte) []byte { b[25] = 39; return b }, wireerr.CNPLength},
		{"no octets", func(b []byte) []byte { b[25] = 24; return b }, wireerr.CNPLength},
		{"17 octets", func(b []byte) []byte { b[3], b[25] = 61, 41; return append(b, 0) }, wireerr.CNPLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(c.change(wiretest.Hex(t, hardware))))
			_, err := FromPacket(&p)
			require.ErrorIs(t, err, c.err)
			wiretest.NoAllocs(t, c.name, func() { _, _ = FromPacket(&p) })
			if c.err != wireerr.NotCNP {
				return
			}
			var cnp CNP
			_, err = cnp.Decode(p.Data)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, CNP{}, cnp)
			cnp.Header = p.BTH.Header
			_, err = cnp.AppendBinary(nil)
			require.ErrorIs(t, err, c.err)
			_, err = cnp.AppendPacket(nil, p.Src, p.Dst, Config{})
			require.ErrorIs(t, err, c.err)
		})
	}
}

// Opcode 0x81 with P = 1 and exactly 16 octets is a CNP, and the bit is kept: the
// annex reserves it. If more octets follow, Decode rejects it.
func TestPBit(t *testing.T) {
	b := wiretest.Hex(t, hardware)
	b[32] |= ppfcBit
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(b))
	c := wiretest.Must(FromPacket(&p))(t)
	require.Equal(t, uint8(ppfcBit), c.Resv6)
	require.True(t, wiretest.Names(c.Validate(), "bth", "Resv6"))
	out := wiretest.Must(c.AppendBinary(nil))(t)
	require.Equal(t, b[28:56], out)
	var again CNP
	rest, err := again.Decode(out)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, c, again)
	_, err = again.Decode(append(out, 0))
	require.ErrorIs(t, err, wireerr.IsPPFC)
}

// A host discards a packet with a destination option that it does not know and
// that has act bits other than 00. It may be a Fast CNP, with another queue pair.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		ext string
		err error
	}{
		{"1102 9e10 20010db800040000000000000000000e 01020000", ErrOption}, // a Fast CNP
		{"1100 4e00 01020000", ErrOption},                                  // discard
		{"1100 ce00 01020000", ErrOption},                                  // discard, ICMP unless multicast
		{"1100 1e00 01020000", nil},                                        // skip
		{"1100 0104 00000000", nil},
		{"1100 1e07 01020000", ipv6opt.ErrOverrun},
	} {
		p := rocev2.Packet{BTH: bth.Headers{Header: New(7, 0xFFFF).Header}, Payload: make([]byte, 16)}
		p.Src, p.Dst, p.DstPort = addr("2001:db8::1"), addr("2001:db8::2"), rocev2.Port
		p.NextHeader, p.Ext = ipv6opt.DestinationOptions, wiretest.Hex(t, c.ext)
		b := wiretest.Must(p.AppendBinary(nil))(t)
		require.NoError(t, p.DecodeIP(b))
		got, err := FromPacket(&p)
		require.ErrorIs(t, err, c.err, c.ext)
		if err != ipv6opt.ErrOverrun {
			require.Equal(t, uint32(7), got.DestQP)
		}
		wiretest.NoAllocs(t, c.ext, func() { _, _ = FromPacket(&p) })
	}
}

// Nothing answers a notification, nor an address that cannot be answered.
func TestNotAnswered(t *testing.T) {
	for _, c := range []struct {
		opcode   bth.Opcode
		src, own string
		err      error
	}{
		{bth.CNP, "192.0.2.1", "192.0.2.2", rocev2.ErrNotification},
		{bth.RCSendOnly, "224.0.0.1", "192.0.2.2", rocev2.ErrNotReachable},
		{bth.RCSendOnly, "192.0.2.1", "127.0.0.1", rocev2.ErrNotReachable},
		{bth.RCSendOnly, "fe80::1", "2001:db8::2", rocev2.ErrNotReachable},
		{bth.RCSendOnly, "::ffff:192.0.2.1", "2001:db8::2", rocev2.ErrNotReachable},
		{bth.RCSendOnly, "192.0.2.1", "192.0.2.2", nil},
	} {
		var p rocev2.Packet
		p.BTH.Opcode, p.Src, p.Dst = c.opcode, addr(c.src), addr(c.own)
		_, err := AppendFor(nil, &p, p.FinalDst(), 1, Config{})
		require.ErrorIs(t, err, c.err, c.src)
		_, err = AppendFor(nil, &p, addr(c.own), 1, Config{})
		require.ErrorIs(t, err, c.err, c.src)
	}
	c := New(1, 2)
	_, err := c.AppendPacket(nil, addr("2001:db8::1"), addr("::ffff:192.0.2.1"), Config{})
	require.ErrorIs(t, err, rocev2.ErrNotReachable)
}

// A capture that cut the reserved octets still shows the CNP.
func TestTruncated(t *testing.T) {
	b := wiretest.Hex(t, hardware)
	b[40] = 7
	for n := 40; n < len(b); n++ {
		var p rocev2.Packet
		require.NoError(t, p.Decode(b[:n], rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}))
		c := wiretest.Must(FromPacket(&p))(t)
		require.Equal(t, uint32(0x118), c.DestQP)
		require.Equal(t, n > 40, c.Reserved[0] == 7)
	}
}

func TestValidate(t *testing.T) {
	all := map[string]func(*CNP){
		"cnp opcode":              func(c *CNP) { c.Opcode = bth.RCSendOnly },
		"cnp Solicited Event":     func(c *CNP) { c.Solicited = true },
		"cnp MigReq":              func(c *CNP) { c.MigReq = true },
		"cnp pad count":           func(c *CNP) { c.Pad = 1 },
		"bth TVer":                func(c *CNP) { c.TVer = 1 },
		"cnp FECN":                func(c *CNP) { c.FECN = true },
		"bth Resv6":               func(c *CNP) { c.Resv6 = 1 },
		"cnp DestQP":              func(c *CNP) { c.DestQP = 0 },
		"cnp acknowledge request": func(c *CNP) { c.AckReq = true },
		"bth Resv7":               func(c *CNP) { c.Resv7 = 1 },
		"cnp PSN":                 func(c *CNP) { c.PSN = 1 },
		"cnp reserved octets":     func(c *CNP) { c.Reserved[15] = 1 },
	}
	names := func(err error, field string) bool {
		pkg, field, _ := strings.Cut(field, " ")
		return wiretest.Names(err, pkg, field)
	}
	wide := New(1<<24, 0xFFFF)
	require.ErrorIs(t, wide.Validate(), wireerr.DestQP)
	broken := New(1, 0xFFFF)
	fields := slices.Sorted(maps.Keys(all))
	for _, field := range fields {
		c := New(1, 0xFFFF)
		all[field](&c)
		all[field](&broken)
		for _, other := range fields {
			require.Equal(t, field == other, names(c.Validate(), other), "%v: %v", field, other)
		}
	}
	for _, field := range fields {
		require.True(t, names(broken.Validate(), field), field)
	}
	c := New(1, 0xFFFF)
	c.BECN = false
	require.NoError(t, c.Validate(), "BECN is not required")
}

// The hardware's packet, built from fields, but from UDP source port 0xc001: the
// hardware sends 0, which no builder does. The ICRC was computed with Python's zlib.
func TestAppendPacket(t *testing.T) {
	hardware := strings.Replace(hardware, "000012b7", "c00112b7", 1)
	hardware = strings.Replace(hardware, "82fd002a", "5c64b6b1", 1)
	c := New(0x118, 0) // the default partition
	src, cfg := addr("10.0.17.1"), Config{Carriage: rocev2.Carriage{ECN: 2, ID: 0x718C, SrcPort: 0xC001}}
	wiretest.Encodes(t, wiretest.Hex(t, hardware), func(b []byte) ([]byte, error) {
		return c.AppendPacket(b, src, addr("10.0.18.1"), cfg)
	})
	var data rocev2.Packet
	data.Src = addr("10.0.18.1")
	wiretest.Encodes(t, wiretest.Hex(t, hardware),
		func(b []byte) ([]byte, error) { return AppendFor(b, &data, src, 0x118, cfg) })
}

// Over IPv4 Don't Fragment is set unless the carriage says otherwise. The ICRC
// and the checksum, which cover it and the Identification, were computed with
// Python's zlib.
func TestDontFragment(t *testing.T) {
	for _, c := range []struct {
		as       rocev2.Carriage
		idFlags  string
		checksum string
		icrc     string
	}{
		{rocev2.Carriage{}, "0000 4000", "02f0", "71c8e5d9"},
		{rocev2.Carriage{MayFragment: true}, "0000 0000", "42f0", "05015761"},
		{rocev2.Carriage{ID: 0xFFFF}, "ffff 4000", "02f0", "256bb182"},
		{rocev2.Carriage{ID: 0x1234, MayFragment: true}, "1234 0000", "30bc", "49e6b138"},
	} {
		want := wiretest.Hex(t, "45c0003c"+c.idFlags+"4011"+c.checksum+"0a001101 0a001201 c00112b7 00280000"+
			"8100ffff 40000118 00000000 00000000000000000000000000000000"+c.icrc)
		c.as.SrcPort = 0xC001
		src, dst, n, cfg := addr("10.0.17.1"), addr("10.0.18.1"), New(0x118, 0xFFFF), Config{Carriage: c.as}
		wiretest.Encodes(t, want, func(b []byte) ([]byte, error) { return n.AppendPacket(b, src, dst, cfg) })
		var data rocev2.Packet
		data.Src, data.BTH.PKey = dst, 0xFFFF
		wiretest.Encodes(t, want, func(b []byte) ([]byte, error) { return AppendFor(b, &data, src, 0x118, cfg) })
	}
}

func TestAppendFor(t *testing.T) {
	var data rocev2.Packet
	require.NoError(t, data.DecodeIP(wiretest.Hex(t, marked)))
	require.Equal(t, rocev2.CE, data.ECN())
	for _, c := range []struct {
		as   rocev2.Carriage
		want string
	}{
		{rocev2.Carriage{SrcPort: 0xC000}, `
			6c000000 00281140 20010db8000200000000000000000002 20010db8000100000000000000000001
			c00012b700280000
			8100abcd 40123456 00000000 00000000000000000000000000000000`},
		{rocev2.Carriage{DSCP: 46, ECN: 1, HopLimit: 9, FlowLabel: 0xBEEF5, SrcPort: 0xC001}, `
			6b9beef5 00281109 20010db8000200000000000000000002 20010db8000100000000000000000001
			c00112b700280000
			8100abcd 40123456 00000000 00000000000000000000000000000000`},
	} {
		out, err := AppendFor([]byte("before"), &data, data.FinalDst(), 0x123456, Config{Carriage: c.as})
		require.NoError(t, err)
		require.Equal(t, "before", string(out[:6]))
		require.Equal(t, wiretest.Hex(t, c.want), out[6:len(out)-4])
		_, err = icrc.Verify(out[6:])
		require.NoError(t, err)

		c.as.Checksum = true
		out = wiretest.Must(AppendFor(nil, &data, data.FinalDst(), 0x123456, Config{Carriage: c.as}))(t)
		require.NotZero(t, uint16(out[46])<<8|uint16(out[47]))
		_, err = icrc.Verify(out)
		require.NoError(t, err)
	}
	_, err := AppendFor(nil, &data, data.FinalDst(), 1<<24, Config{})
	require.ErrorIs(t, err, wireerr.DestQP)
	_, err = AppendFor(nil, &data, data.FinalDst(), 1, Config{Carriage: rocev2.Carriage{DSCP: 64}})
	require.ErrorIs(t, err, wireerr.Range)

	out := make([]byte, 0, 128)
	wiretest.NoAllocs(t, "AppendFor", func() { out, _ = AppendFor(out[:0], &data, data.FinalDst(), 1, Config{}) })
	wiretest.NoAllocs(t, "AppendFor, error", func() {
		_,
			_ = AppendFor(out[:0], &data, data.FinalDst(), 1<<24, Config{})
	})
}

func FuzzCNP(f *testing.F) {
	f.Add(wiretest.Hex(f, published))
	f.Add(wiretest.Hex(f, hardware)[28:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var c CNP
		rest, err := c.Decode(b)
		if err != nil {
			require.Equal(t, CNP{}, c)
			return
		}
		_ = c.Validate()
		out := wiretest.Must(c.AppendBinary(nil))(t)
		require.Equal(t, b, append(out, rest...))
	})
}
