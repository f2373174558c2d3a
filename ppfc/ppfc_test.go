package ppfc

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// with returns a notification as New makes it, with these fields.
func with(change func(*Notification)) Notification {
	n := New(0xD2, 0xFFFF, Extension{})
	n.Congested = addr("192.0.2.7")
	change(&n)
	return n
}

type wireCase struct {
	name   string
	n      Notification
	octets string
}

var wire = []wireCase{
	{"stop, IPv4", with(func(n *Notification) { n.Type, n.Port, n.Pause = Stop, 7, 100*time.Microsecond }),
		"8100ffff 600000d2 00000000 c0000207 00000007 00000064"},
	{"resume, IPv6", with(func(n *Notification) { n.Congested, n.Type, n.Port = addr("2001:db8::7"), Resume, 0xFFFF }),
		"8100ffff 600000d2 00000000 20010db8000000000000000000000007 0001ffff 00000000"},
	{"alarm, IPv4-mapped address", with(func(n *Notification) {
		n.Congested, n.Type = addr("::ffff:192.0.2.7"),
			Alarm
	}),
		"8100ffff 600000d2 00000000 00000000000000000000ffffc0000207 00020000 00000000"},
	{"hold, everything set", with(func(n *Notification) {
		n.Header = bth.Header{Opcode: bth.CNP, Solicited: true, MigReq: true, Pad: 3, TVer: 15, PKey: 0x1234,
			FECN: true, BECN: true, Resv6: 63, DestQP: 0xFFFFFF, AckReq: true, Resv7: 127, PSN: 0xFFFFFF}
		n.Flags, n.Type, n.Port, n.Reserved, n.Pause = 0x2AAA, Hold, 0x0102, 0x0304, MaxPause
	}),
		"81ff1234 ffffffff ffffffff c0000207 aaab0102 0304ffff"},
}

func TestNotification(t *testing.T) {
	for _, c := range wire {
		t.Run(c.name, func(t *testing.T) {
			octets := wiretest.Hex(t, c.octets)
			wiretest.Encodes(t, octets, c.n.AppendBinary)
			var n Notification
			require.NoError(t, n.Decode(octets))
			require.Equal(t, c.n, n)
			b := wiretest.Must(n.AppendBinary(nil))(t)
			require.Equal(t, octets, b)
			wiretest.NoAllocs(t, "Decode", func() { _ = n.Decode(octets) })
			wiretest.NoAllocs(t, "AppendBinary", func() { b, _ = n.AppendBinary(b[:0]) })
		})
	}
}

// D10: 12 octets of extension are IPv4, 24 are IPv6, nothing else is anything.
func TestLength(t *testing.T) {
	octets := append(wiretest.Hex(t, wire[1].octets), make([]byte, 20)...)
	for size := range octets {
		var n Notification
		err := n.Decode(octets[:size])
		switch {
		case size == 24:
			require.NoError(t, err)
			require.True(t, n.Congested.Is4())
			continue
		case size == 36:
			require.NoError(t, err)
			require.True(t, n.Congested.Is6())
			continue
		case size < 24:
			require.ErrorIs(t, err, wireerr.Truncated)
		case size == 28: // a CNP with a reserved bit set
			require.ErrorIs(t, err, errCNP)
		default:
			require.ErrorIs(t, err, wireerr.PPFCLength)
		}
		require.Equal(t, Notification{}, n)
		wiretest.NoAllocs(t, "wrong length", func() { _ = n.Decode(octets[:size]) })
	}
}

func TestNotBuilt(t *testing.T) {
	for _, c := range []struct {
		n   Notification
		err error
	}{
		{with(func(n *Notification) { n.Opcode = bth.RCSendOnly }), errNotPPFC},
		{with(func(n *Notification) { n.Resv6 = 0x1F }), errCNP},
		{with(func(n *Notification) { n.Congested = netip.Addr{} }), errCongested},
		{with(func(n *Notification) { n.Flags = 1 << 14 }), errFlagsRange},
		{with(func(n *Notification) { n.Type = 4 }), errTypeRange},
		{with(func(n *Notification) { n.Pause = MaxPause + time.Microsecond }), errPauseRange},
		{with(func(n *Notification) { n.Pause = -time.Microsecond }), errPauseRange},
		{with(func(n *Notification) { n.Pause = time.Nanosecond }), errPauseRange},
		{with(func(n *Notification) { n.DestQP = 1 << 24 }), wireerr.DestQP},
	} {
		out, err := c.n.AppendBinary([]byte{9})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{9}, out)
		out, err = c.n.AppendPacket([]byte{9}, addr("192.0.2.1"), addr("192.0.2.2"), Config{})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{9}, out)
		src, buf := addr("192.0.2.1"), make([]byte, 0, 128)
		wiretest.NoAllocs(t, c.err.Error(), func() { _, _ = c.n.AppendPacket(buf, src, src, Config{}) })
	}
	n := with(func(*Notification) {})
	_, err := n.AppendPacket(nil, addr("192.0.2.1"), addr("192.0.2.2"), Config{Carriage: rocev2.Carriage{ECN: 4}})
	require.ErrorIs(t, err, wireerr.Range)
}

func TestValidate(t *testing.T) {
	for typ := Stop; typ <= Hold; typ++ {
		good := with(func(n *Notification) { n.Type = typ })
		require.NoError(t, good.Validate())
	}
	for _, c := range []struct {
		n   Notification
		err error
	}{
		{with(func(n *Notification) { n.Flags = 1 }), errFlagsSet},
		{with(func(n *Notification) { n.Flags = 1 << 14 }), errFlagsRange},
		{with(func(n *Notification) { n.DestQP = 0 }), errDestQP},
		{with(func(n *Notification) { n.Opcode = bth.RCSendOnly }), errNotPPFC},
		{with(func(n *Notification) { n.Resv6 = 0 }), errCNP},
		{Notification{}, errCongested},
		{with(func(n *Notification) { n.Reserved = 1 }), errReservedSet},
	} {
		require.ErrorIs(t, c.n.Validate(), c.err)
	}
	all := Notification{Header: bth.Header{Pad: 4, TVer: 1, Resv6: 1, Resv7: 1, DestQP: 1 << 24, PSN: 1 << 24},
		Extension: Extension{Flags: 1 << 14, Type: 9, Reserved: 1, Pause: -1}}
	for _, err := range []error{errNotPPFC, errCNP, wireerr.DestQP,
		errCongested, errFlagsSet, errFlagsRange, errTypeRange, errReservedSet, errPauseRange} {
		require.ErrorIs(t, all.Validate(), err)
	}
	for _, field := range []string{"Pad", "TVer", "Resv6", "Resv7", "PSN"} {
		require.True(t, wiretest.Names(all.Validate(), "bth", field), field)
	}
	resv5 := with(func(n *Notification) { n.Resv6 |= 1 })
	require.True(t, wiretest.Names(resv5.Validate(), "bth", "Resv6"))
}

// A CNP decoder that meets P = 1 and a PPFC decoder that meets P = 0 both say
// so, and packets of both families carry extensions of both.
func TestPackets(t *testing.T) {
	var frames [][]byte
	wire := slices.DeleteFunc(slices.Clone(wire), func(c wireCase) bool { return c.n.Congested.Is4In6() })
	for _, c := range wire {
		for _, ends := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}} {
			src, dst := addr(ends[0]), addr(ends[1])
			cfg := Config{Carriage: rocev2.Carriage{SrcPort: 0xC001, Checksum: true}}
			out, err := c.n.AppendPacket(nil, src, dst, cfg)
			require.NoError(t, err)
			_, err = icrc.Verify(out)
			require.NoError(t, err)
			var p rocev2.Packet
			require.NoError(t, p.DecodeIP(out))
			require.Equal(t, [2]netip.Addr{src, dst}, [2]netip.Addr{p.Src, p.Dst})
			n := wiretest.Must(FromPacket(&p))(t)
			require.Equal(t, c.n, n)
			_, err = cnp.FromPacket(&p)
			require.ErrorIs(t, err, wireerr.IsPPFC)
			wiretest.NoAllocs(t, "FromPacket", func() { _, _ = FromPacket(&p) })

			ethernet := "020000000001 020000000002 86dd"
			if src.Is4() {
				ethernet = "020000000001 020000000002 0800"
			}
			frames = append(frames, append(wiretest.Hex(t, ethernet), out...))

			p.BTH.Resv6 &^= Bit
			require.False(t, IsNotification(&p))
			_, err = FromPacket(&p)
			require.ErrorIs(t, err, errCNP)
			p.BTH.Opcode = bth.RCSendOnly
			require.False(t, IsNotification(&p))
			_, err = FromPacket(&p)
			require.ErrorIs(t, err, errNotPPFC)
		}
	}
	for i, row := range wiretest.Tshark(t, frames...) {
		n := wire[i/2].n
		require.Equal(t, "1", row.Get("udp.checksum.status"))
		require.Equal(t, uint64(0x81), row.Uint("infiniband.bth.opcode"))
		require.Equal(t, n.Solicited, row.Bool("infiniband.bth.se"))
		require.Equal(t, n.MigReq, row.Bool("infiniband.bth.m"))
		require.Equal(t, uint64(n.Pad), row.Uint("infiniband.bth.padcnt"))
		require.Equal(t, uint64(n.TVer), row.Uint("infiniband.bth.tver"))
		require.Equal(t, uint64(n.PKey), row.Uint("infiniband.bth.p_key"))
		require.Equal(t, n.Resv6, row.Octets("infiniband.reserved")[0]&0x3F)
		require.Equal(t, uint64(n.DestQP), row.Uint("infiniband.bth.destqp"))
		require.Equal(t, n.AckReq, row.Bool("infiniband.bth.a"))
		require.Equal(t, uint64(n.Resv7), row.Uint("infiniband.bth.reserved7"))
		require.Equal(t, uint64(n.PSN), row.Uint("infiniband.bth.psn"))
	}
}

func TestBrokenPackets(t *testing.T) {
	for size := range 40 {
		p := rocev2.Packet{BTH: bth.Headers{Header: New(1, 2, Extension{}).Header}, Payload: make([]byte, size)}
		p.Src, p.Dst, p.DstPort = addr("192.0.2.1"), addr("192.0.2.2"), rocev2.Port
		out, err := p.AppendBinary(nil)
		require.NoError(t, err)
		require.NoError(t, p.DecodeIP(out))
		require.Equal(t, size != 16, IsNotification(&p))
		_, err = FromPacket(&p)
		if size == SizeIPv4 || size == SizeIPv6 {
			require.NoError(t, err)
			require.NoError(t, p.Decode(out[:len(out)-5],
				rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}))
			_, err = FromPacket(&p)
			require.ErrorIs(t, err, errTruncated)
		} else if size == 16 { // a CNP with a reserved bit set
			require.ErrorIs(t, err, errCNP)
		} else {
			require.ErrorIs(t, err, wireerr.PPFCLength)
		}
	}
}

// Nothing answers a notification, and a queue pair has 24 bits.
func TestAppendForRejects(t *testing.T) {
	for _, c := range []struct {
		header bth.Header
		err    error
	}{
		{bth.Header{Opcode: bth.CNP}, rocev2.ErrNotification},
		{bth.Header{Opcode: bth.CNP, Resv6: Bit}, rocev2.ErrNotification},
		{bth.Header{Opcode: bth.RCSendOnly, DestQP: 1 << 24}, wireerr.DestQP},
	} {
		p := rocev2.Packet{BTH: bth.Headers{Header: c.header}}
		p.Src, p.Dst = addr("2001:db8::1"), addr("2001:db8::2")
		out, err := AppendFor([]byte{1}, &p, addr("2001:db8::5"), Extension{}, Config{})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{1}, out)
	}
}

// An IPv4-mapped address is kept where it was received, but not sent: over the
// wire it is an IPv6 address (D10), by which no host finds its flow.
func TestMapped(t *testing.T) {
	var p rocev2.Packet
	p.Src, p.Dst = addr("192.0.2.1"), addr("192.0.2.2")
	n := with(func(n *Notification) { n.Congested = addr("::ffff:192.0.2.7") })
	require.NoError(t, n.Validate())
	out, err := n.AppendPacket([]byte{1}, p.Dst, p.Src, Config{})
	require.Equal(t, rocev2.ErrNotReachable, err)
	require.Equal(t, []byte{1}, out)
	out, err = AppendFor([]byte{1}, &p, p.Dst, n.Extension, Config{})
	require.Equal(t, rocev2.ErrNotReachable, err)
	require.Equal(t, []byte{1}, out)
	p.Src, p.Dst = addr("2001:db8::1"), n.Congested // as a faulty node may have sent it
	out, err = AppendFor([]byte{1}, &p, addr("2001:db8::5"), Extension{}, Config{})
	require.Equal(t, rocev2.ErrNotReachable, err)
	require.Equal(t, []byte{1}, out)
}

// The addresses of a notification are such that it can get there and be answered.
func TestAppendForAddresses(t *testing.T) {
	for _, c := range []struct {
		sender, src string
		err         error
	}{
		{"192.0.2.1", "", rocev2.ErrNotReachable},
		{"2001:db8::1", "::1", rocev2.ErrNotReachable},
		{"2001:db8::1", "fe80::5", rocev2.ErrNotReachable},
		{"ff02::1", "2001:db8::5", rocev2.ErrNotReachable},
		{"::", "2001:db8::5", rocev2.ErrNotReachable},
		{"192.0.2.1", "::ffff:192.0.2.5", rocev2.ErrNotReachable},
		{"2001:db8::1", "192.0.2.5", wireerr.Addresses},
	} {
		for _, node := range []bool{false, true} {
			var p rocev2.Packet
			p.Src, p.Dst = addr(c.sender), addr("192.0.2.2")
			if p.Src.Is6() {
				p.Dst = addr("2001:db8::2")
			}
			var src netip.Addr
			if c.src != "" {
				src = addr(c.src)
			}
			out, err := AppendFor([]byte{1}, &p, src, Extension{}, Config{NodeAddress: node})
			require.ErrorIs(t, err, c.err, "%s from %s", c.sender, c.src)
			require.Equal(t, []byte{1}, out)
		}
	}
}

func TestAppendFor(t *testing.T) {
	data := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCRDMAWriteMiddle, PKey: 0xABCD,
		DestQP: 0x111111, PSN: 5}}}
	data.Src, data.Dst, data.DstPort = addr("2001:db8:1::1"), addr("2001:db8:2::2"), rocev2.Port
	src := addr("2001:db8:ffff::5")
	const (
		ip = "6c000000 00301140 20010db8ffff00000000000000000005 20010db8000100000000000000000001 c00112b7 00300000"
		// with an IPv4 address
		ip4 = "6c000000 00241140 20010db8ffff00000000000000000005 20010db8000100000000000000000001 c00112b7 00240000"
	)
	for _, c := range []struct {
		n      Extension
		node   bool
		octets string
	}{
		{Extension{Type: Hold, Port: 3, Pause: time.Millisecond}, true,
			ip + "8100abcd 60111111 00000000 20010db8ffff00000000000000000005 00030003 000003e8"},
		{Extension{Congested: addr("192.0.2.7"), Type: Hold, Port: 3, Pause: time.Millisecond}, true,
			ip4 + "8100abcd 60111111 00000000 c0000207 00030003 000003e8"},
		{Extension{}, false, ip + "8100abcd 60111111 00000000 20010db8000200000000000000000002 00000000 00000000"},
	} {
		cfg := Config{NodeAddress: c.node, Carriage: rocev2.Carriage{SrcPort: 0xC001}}
		out, err := AppendFor(nil, &data, src, c.n, cfg)
		require.NoError(t, err)
		require.Equal(t, wiretest.Hex(t, c.octets), out[:len(out)-4])
		_, err = icrc.Verify(out)
		require.NoError(t, err)
		wiretest.NoAllocs(t, "AppendFor", func() { out, _ = AppendFor(out[:0], &data, src, c.n, Config{}) })
	}

	// In a Segment Routing header the destination that the sender knows.
	data.NextHeader, data.Ext = 43, wiretest.Hex(t, "1102 0401 00000000 20010db8000300000000000000000003")
	out := wiretest.Must(AppendFor(nil, &data, src, Extension{}, Config{}))(t)
	require.Equal(t, wiretest.Hex(t, "20010db8000300000000000000000003"), out[40+8+12:][:16])
}

func TestString(t *testing.T) {
	n := with(func(n *Notification) { n.Type, n.Port, n.Pause = Hold, 7, time.Millisecond })
	require.Equal(t, "hold 1ms port 7 of 192.0.2.7; "+n.Header.String(), n.String())
	n.Flags = 1
	require.Contains(t, n.String(), "Flags 0x1 Reserved 0x0")
}

func FuzzNotification(f *testing.F) {
	for _, c := range wire {
		f.Add(wiretest.Hex(f, c.octets))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var n Notification
		if err := n.Decode(b); err != nil {
			require.Equal(t, Notification{}, n)
			return
		}
		_ = n.Validate()
		out := wiretest.Must(n.AppendBinary(nil))(t)
		require.Equal(t, b, out)
	})
}
