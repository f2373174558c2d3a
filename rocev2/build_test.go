package rocev2

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// Both packets of packet_test.go, sent by hardware and by Linux, are built from their fields.
func TestBuild(t *testing.T) {
	cnp := Packet{
		Datagram: Datagram{
			Src: addr("10.0.17.1"), Dst: addr("10.0.18.1"), TrafficClass: 0xC2, HopLimit: 64, ID: 0x718C, Flags: 2,
			DstPort: Port,
		},
		BTH:     bth.Headers{Header: bth.Header{Opcode: bth.CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118}},
		Payload: make([]byte, 16),
	}
	wiretest.Encodes(t, wiretest.Hex(t, hardwareCNP)[14:], cnp.AppendBinary)
	send := Packet{
		Datagram: Datagram{
			Src: addr("fd77::2%eth0"), Dst: addr("fd77::1"), TrafficClass: 0x68, HopLimit: 64, SrcPort: 0xE341,
			DstPort: Port,
		},
		BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17, AckReq: true,
			PSN: 0xFFFFF0}},
	}
	wiretest.Encodes(t, wiretest.Hex(t, send6)[14:], send.AppendBinary)
}

// A packet with IPv4 options. The sum of the words of its header is 0x306 greater than that of hardwareCNP, so its
// checksum is 0x306 less.
func TestBuildOptions(t *testing.T) {
	want := wiretest.Hex(t, `46c20040718c4000 40118e5b 0a001101 0a001201 01010101 c00112b700280000`+
		`8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a`)
	d := Datagram{
		Src: addr("10.0.17.1"), Dst: addr("10.0.18.1"), TrafficClass: 0xC2, HopLimit: 64, ID: 0x718C, Flags: 2,
		Ext: []byte{1, 1, 1, 1}, SrcPort: 0xC001, DstPort: Port, Data: want[32:],
	}
	wiretest.Encodes(t, want, d.AppendBinary)
}

func TestBuildPadsWithZeros(t *testing.T) {
	p := Packet{
		Datagram: Datagram{Src: addr("fd77::2"), Dst: addr("fd77::1"), DstPort: Port},
		BTH:      bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, Pad: 3}},
		Payload:  []byte{1},
	}
	out, err := p.AppendBinary(nil)
	require.NoError(t, err)
	require.Equal(t, []byte{1, 0, 0, 0}, out[60:64])
	p.Padding = []byte{7, 8, 9}
	out = wiretest.Must(p.AppendBinary(nil))(t)
	require.Equal(t, []byte{1, 7, 8, 9}, out[60:64])
	p.Padding = []byte{7}
	_, err = p.AppendBinary(nil)
	require.ErrorIs(t, err, errPaddingSize)
	p.BTH.Opcode = bth.CNP
	_, err = p.AppendBinary(nil)
	require.ErrorIs(t, err, errPaddingSize)
	p.Truncated = true
	_, err = p.AppendBinary(nil)
	require.ErrorIs(t, err, errTruncated)
}

// naive is the Internet checksum as RFC 1071 words it.
func naive(b []byte) uint16 {
	var s uint32
	for i := range b {
		if i%2 == 0 {
			s += uint32(b[i]) << 8
		} else {
			s += uint32(b[i])
		}
		s = s>>16 + s&0xFFFF
	}
	return ^uint16(s)
}

func TestUDPChecksum(t *testing.T) {
	srh := []byte{17, 4, 4, 1, 1, 0, 0, 0} // SRv6, 2 segments, 1 left
	last, mid := addr("2001:db8::3").As16(), addr("2001:db8::2").As16()
	srh = append(append(srh, last[:]...), mid[:]...)
	srh[1] = 4
	inserted := append(bytes.Clone(srh), srh...) // the first one was inserted by a node on the way
	inserted[0] = 43
	copy(inserted[8:], mid[:])
	for _, c := range []struct {
		name     string
		d        Datagram
		src, dst string // of the pseudo-header
	}{
		{"IPv4", Datagram{Src: addr("10.0.17.1"), Dst: addr("10.0.18.1")}, "10.0.17.1", "10.0.18.1"},
		{"IPv6", Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2")}, "2001:db8::1", "2001:db8::2"},
		{"IPv6 after Destination Options", Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2"), NextHeader: 60,
			Ext: extension(17)}, "2001:db8::1", "2001:db8::2"},
		{"SRv6, another one inserted", Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2"), NextHeader: 43,
			Ext: inserted}, "2001:db8::1", "2001:db8::3"},
		{"SRv6", Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2"), NextHeader: 43, Ext: srh}, "2001:db8::1",
			"2001:db8::3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := range 120 {
				d := c.d
				d.SrcPort, d.DstPort, d.Checksum = 49152, 1021, 1
				d.Data = bytes.Repeat([]byte{0xF3, 0x81, 0x7C}, size)[:size]
				if size >= 60 {
					d.Data = bytes.Repeat([]byte{0xFF}, size) // carries
				}
				out := wiretest.Must(d.AppendBinary([]byte{1, 2, 3}))(t)
				out = out[3:]
				udp := out[len(out)-8-size:]
				pseudo := append(addr(c.src).AsSlice(), addr(c.dst).AsSlice()...)
				pseudo = append(pseudo, 0, 17, 0, uint8(8+size))
				require.Zero(t, naive(append(pseudo, udp...)), "%s, %d octets", c.name, size)
			}
		})
	}
}

// A computed checksum of 0 is sent as FFFF, because 0 means no checksum.
func TestUDPChecksumZero(t *testing.T) {
	d := Datagram{Src: addr("::"), Dst: addr("::"), Checksum: 1, Data: []byte{0, 0}}
	be.PutUint16(d.Data, ^uint16(17+10+10)) // protocol and both lengths
	out := wiretest.Must(d.AppendBinary(nil))(t)
	require.Equal(t, []byte{0xFF, 0xFF}, out[46:48])
}

func TestNotBuilt(t *testing.T) {
	good := Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2")}
	good4 := Datagram{Src: addr("10.0.0.1"), Dst: addr("10.0.0.2")}
	with := func(d Datagram, change func(*Datagram)) Datagram { change(&d); return d }
	for _, c := range []struct {
		name string
		d    Datagram
		err  error
	}{
		{"no addresses", Datagram{}, wireerr.Addresses},
		{"both families", with(good, func(d *Datagram) { d.Dst = addr("10.0.0.2") }), wireerr.Addresses},
		{"flow label", with(good, func(d *Datagram) { d.FlowLabel = 1 << 20 }), wireerr.FlowLabel},
		{"flags", with(good4, func(d *Datagram) { d.Flags = 8 }), errFlagsRange},
		{"More Fragments", with(good4, func(d *Datagram) { d.Flags = 1 }), errFlagsRange},
		{"IPv4 options of 3 octets", with(good4, func(d *Datagram) { d.Ext = make([]byte, 3) }), errIPv4Options},
		{"IPv4 options of 44 octets", with(good4, func(d *Datagram) { d.Ext = make([]byte, 44) }), errIPv4Options},
		{"IPv4 packet of 65536 octets", with(good4, func(d *Datagram) { d.Data = make([]byte, 65536-28) }),
			wireerr.TooLong},
		{"IPv6 payload of 65536 octets", with(good, func(d *Datagram) { d.Data = make([]byte, 65536-8) }),
			wireerr.TooLong},
		{"chain ends elsewhere", with(good, func(d *Datagram) { d.Ext = extension(58) }), errExtRange},
		{"octets after the chain", with(good, func(d *Datagram) { d.Ext = append(extension(17), 0) }), errExtRange},
		{"truncated extension header", with(good, func(d *Datagram) { d.Ext = extension(17)[:7] }), errExtRange},
		{"not an extension header", with(good, func(d *Datagram) { d.Ext, d.NextHeader = extension(17), 44 }),
			errExtRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := []byte{1, 2, 3}
			out, err := c.d.AppendBinary(b)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, b, out)
			wiretest.NoAllocs(t, c.name, func() { _, _ = c.d.AppendBinary(b) })
			p := Packet{Datagram: c.d, Payload: c.d.Data}
			out, err = p.AppendBinary(b)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, b, out)
		})
	}
}

// AppendBinary computes the ICRC over the extension headers as sent, unless Coverage is another one (D1).
func TestCoverage(t *testing.T) {
	p := Packet{
		Datagram: Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2"), DstPort: Port, NextHeader: 60,
			Ext: extension(17)},
		BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly}},
	}
	for _, coverage := range []icrc.Coverage{icrc.AsSent, icrc.Without, icrc.Skipped} {
		p.Coverage = coverage
		out := wiretest.Must(p.AppendBinary(nil))(t)
		got := wiretest.Must(icrc.Verify(out))(t)
		require.Equal(t, coverage, got)
	}
}

func TestCoverageRange(t *testing.T) {
	a := addr("192.0.2.1")
	p := Packet{Datagram: Datagram{Src: a, Dst: a}, BTH: bth.Headers{Header: bth.Header{Opcode: bth.CNP}}, Coverage: 3}
	got, err := p.AppendBinary([]byte{1})
	require.ErrorIs(t, err, wireerr.Range)
	require.Equal(t, []byte{1}, got)
}
