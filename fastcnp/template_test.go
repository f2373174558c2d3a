package fastcnp

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func TestTemplate(t *testing.T) {
	template, err := NewTemplate(loopback, addr("2001:db8:1::1%eth0"), Config{})
	require.NoError(t, err)
	data := congested(t, 0, nil)
	want, err := AppendFor(nil, data, loopback, nil, Config{})
	require.NoError(t, err)
	wiretest.Encodes(t, want, func(b []byte) ([]byte, error) { return template.AppendFor(b, data) })
	require.LessOrEqual(t, int(reflect.TypeFor[Template]().Size()), 144, "as the documentation says")

	out := make([]byte, 0, 104)
	wiretest.NoAllocs(t, "AppendFor", func() { out, _ = template.AppendFor(out[:0], data) })
	var none Template
	for _, c := range []struct {
		template *Template
		change   func(*rocev2.Packet)
		err      error
	}{
		{&none, func(p *rocev2.Packet) {}, errSender},
		{&none, func(p *rocev2.Packet) { p.Src = netip.Addr{} }, errSender},
		{&template, func(p *rocev2.Packet) { p.Src = receiver }, errSender},
		{&template, func(p *rocev2.Packet) { p.Src = addr("192.0.2.1") }, errSender},
		{&template, func(p *rocev2.Packet) { p.Dst = addr("192.0.2.1") }, errDestination},
		{&template, func(p *rocev2.Packet) { p.Dst = addr("::ffff:192.0.2.1") }, errMapped},
		{&template, func(p *rocev2.Packet) { p.BTH.DestQP = 1 << 24 }, wireerr.DestQP},
		{&template, func(p *rocev2.Packet) { p.BTH.Opcode = bth.CNP }, rocev2.ErrNotification},
		{&template, func(p *rocev2.Packet) { p.Outer = make([]byte, 40) }, rocev2.ErrTunnelled},
	} {
		bad := *data
		c.change(&bad)
		out, err := c.template.AppendFor([]byte{9}, &bad)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, []byte{9}, out)
		wiretest.NoAllocs(t, c.err.Error(), func() { _, _ = c.template.AppendFor(nil, &bad) })
	}
}

func TestNoTemplate(t *testing.T) {
	for _, c := range []struct {
		src, sender netip.Addr
		cfg         Config
		err         error
	}{
		{netip.Addr{}, sender, Config{}, errIPv6},
		{loopback, addr("192.0.2.1"), Config{}, ErrIPv4},
		{loopback, netip.Addr{}, Config{}, ErrIPv4},
		{loopback, sender, Config{Coverage: icrc.Without}, errTemplate},
		{loopback, sender, Config{Carriage: rocev2.Carriage{Checksum: true}}, errTemplate},
		{loopback, sender, Config{Carriage: rocev2.Carriage{DSCP: 64}}, wireerr.Range},
	} {
		template, err := NewTemplate(c.src, c.sender, c.cfg)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, Template{}, template)
	}
}

// FuzzTemplate: what a template makes for a packet is what a full build gives,
// octet for octet.
func FuzzTemplate(f *testing.F) {
	data := congested(f, 0, nil)
	f.Add(data.IP, uint16(0), uint16(0), uint8(0), uint8(0), uint32(0), uint8(0))
	segments := append([]byte{17, 2, 4, 1, 0, 0, 0, 0}, receiver.AsSlice()...)
	f.Add(congested(f, 43, segments).IP, uint16(0), uint16(0), uint8(0), uint8(0), uint32(0), uint8(0))
	f.Add(congested(f, 0, hopByHop(f, trace(1, 4, 2))).IP, uint16(1), uint16(2), uint8(46), uint8(9), uint32(0xBEEF5),
		uint8(0x8F))
	f.Fuzz(func(t *testing.T, b []byte, srcPort, pKey uint16, dscp, hopLimit uint8, label uint32, option uint8) {
		var p rocev2.Packet
		if p.DecodeIP(b) != nil {
			return
		}
		p.BTH.PKey = pKey
		cfg := Config{
			Carriage:   rocev2.Carriage{SrcPort: srcPort, DSCP: dscp, HopLimit: hopLimit, FlowLabel: label},
			CodePoints: CodePoints{Option1: ipv6opt.Type(option)}, Long: FallBack,
		}
		want, wantErr := AppendFor(nil, &p, loopback, nil, cfg)
		if wantErr == nil && len(want) != ipv6Size+tailSize { // with a trace it is option 2
			return
		}
		template, err := NewTemplate(loopback, p.Src, cfg)
		if err != nil {
			require.Error(t, wantErr)
			return
		}
		got, err := template.AppendFor(nil, &p)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	})
}

func BenchmarkTemplate(b *testing.B) {
	data := congested(b, 0, nil)
	template, err := NewTemplate(loopback, sender, Config{})
	require.NoError(b, err)
	out := make([]byte, 0, 104)
	b.ReportAllocs()
	for b.Loop() {
		data.BTH.DestQP = (data.BTH.DestQP + 1) & 0xFFFFFF
		out, _ = template.AppendFor(out[:0], data)
	}
}
