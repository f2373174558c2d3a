package cnp

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The hardware's packet from a template, octet for octet.
func TestTemplate(t *testing.T) {
	template, err := NewTemplate(addr("10.0.17.1"), addr("10.0.18.1"), 0xFFFF, rocev2.Carriage{ECN: 2})
	require.NoError(t, err)
	wiretest.Encodes(t, wiretest.Hex(t, hardware),
		func(b []byte) ([]byte, error) { return template.AppendPacket(b, 0x118, 0x718C) })
	require.EqualValues(t, 92, reflect.TypeFor[Template]().Size(), "as the documentation says")
}

func TestNoTemplate(t *testing.T) {
	for _, c := range []struct {
		src, dst string
		as       rocev2.Carriage
		err      error
	}{
		{"192.0.2.1", "2001:db8::1", rocev2.Carriage{}, wireerr.Addresses},
		{"192.0.2.1", "192.0.2.2", rocev2.Carriage{ECN: 4}, wireerr.Range},
		{"2001:db8::1", "2001:db8::2", rocev2.Carriage{FlowLabel: 1 << 20}, wireerr.Range},
	} {
		template, err := NewTemplate(addr(c.src), addr(c.dst), 1, c.as)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, Template{}, template)
	}
	var none Template
	out, err := none.AppendPacket([]byte{9}, 1, 0)
	require.ErrorIs(t, err, wireerr.Addresses)
	require.Equal(t, []byte{9}, out)

	template, err := NewTemplate(addr("2001:db8::1"), addr("2001:db8::2"), 1, rocev2.Carriage{Checksum: true})
	require.NoError(t, err)
	out, err = template.AppendPacket([]byte{9}, 1<<24, 0)
	require.ErrorIs(t, err, wireerr.DestQP)
	require.Equal(t, []byte{9}, out)

	out = make([]byte, 0, 80)
	wiretest.NoAllocs(t, "AppendPacket", func() { out, _ = template.AppendPacket(out[:0], 7, 0) })
	wiretest.NoAllocs(t, "AppendPacket, error", func() { _, _ = template.AppendPacket(out[:0], 1<<24, 0) })
}

// A UDP checksum that comes out as 0 is sent as FFFF: 0 stands for none.
func TestTemplateUDPChecksumZero(t *testing.T) {
	as := rocev2.Carriage{Checksum: true}
	template, err := NewTemplate(addr6, addr6, 0xFFFF, as)
	require.NoError(t, err)
	var out []byte
	for destQP := uint32(0); ; destQP++ { // some 65,000 of them
		out, err = template.AppendPacket(out[:0], destQP, 0)
		require.NoError(t, err)
		if be.Uint16(out[46:]) == 0xFFFF {
			c := New(destQP, 0xFFFF)
			want, err := c.AppendPacket(nil, addr6, addr6, as)
			require.NoError(t, err)
			require.Equal(t, want, out)
			return
		}
	}
}

var addr6 = addr("2001:db8::1")

// FuzzTemplate: what a template makes is what a full build gives, octet for
// octet.
func FuzzTemplate(f *testing.F) {
	six := addr6.AsSlice()
	f.Add(six, six, uint16(0xFFFF), uint32(0x118), uint16(0), uint8(0), uint8(0), uint8(0), uint32(0), uint16(0), false)
	f.Add(six, six, uint16(1), uint32(0xFFFFFF), uint16(7), uint8(46), uint8(1), uint8(9), uint32(0xBEEF5),
		uint16(0xC001), true)
	f.Add(six[:4], six[4:8], uint16(0), uint32(0), uint16(0xFFFF), uint8(63), uint8(3), uint8(255), uint32(0),
		uint16(1), true)
	f.Fuzz(func(t *testing.T, src, dst []byte, pKey uint16, destQP uint32, id uint16, dscp, ecn, hopLimit uint8,
		label uint32, port uint16, checksum bool) {
		as := rocev2.Carriage{DSCP: dscp, ECN: rocev2.ECN(ecn), HopLimit: hopLimit, FlowLabel: label, SrcPort: port,
			Checksum: checksum}
		from, _ := netip.AddrFromSlice(src)
		to, _ := netip.AddrFromSlice(dst)
		c := New(destQP, pKey)
		want, wantErr := c.AppendPacket(nil, from, to, as)
		template, err := NewTemplate(from, to, pKey, as)
		if err != nil {
			require.Error(t, wantErr)
			if destQP <= 0xFFFFFF { // a template does not know the queue pair, whose fault the packet names first
				require.Equal(t, wantErr, err)
			}
			return
		}
		got, err := template.AppendPacket(nil, destQP, 0)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
		if err != nil {
			return
		}
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(want))
		p.ID = id // IPv4 only
		want, err = p.AppendBinary(nil)
		require.NoError(t, err)
		got, err = template.AppendPacket(bytes.Repeat([]byte{0xA5}, 100)[:3], destQP, id)
		require.NoError(t, err)
		require.Equal(t, want, got[3:])
	})
}

func BenchmarkTemplate(b *testing.B) {
	for _, c := range []struct {
		name, src, dst string
		as             rocev2.Carriage
	}{
		{"IPv4", "10.0.17.1", "10.0.18.1", rocev2.Carriage{}},
		{"IPv6", "2001:db8::1", "2001:db8::2", rocev2.Carriage{}},
		{"IPv6 with UDP checksum", "2001:db8::1", "2001:db8::2", rocev2.Carriage{Checksum: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			template, err := NewTemplate(addr(c.src), addr(c.dst), 0xFFFF, c.as)
			require.NoError(b, err)
			out, n := make([]byte, 0, 80), uint32(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				out, _ = template.AppendPacket(out[:0], n&0xFFFFFF, uint16(n))
			}
		})
	}
}
