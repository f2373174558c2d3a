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
	template, err := NewTemplate(addr("2001:db8:1::1%eth0"), Config{Src: loopback})
	require.NoError(t, err)
	data := congested(t, 0, nil)
	want, _, err := AppendFor(nil, data, nil, Config{Src: loopback})
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
		{&none, func(p *rocev2.Packet) {}, ErrSender},
		{&none, func(p *rocev2.Packet) { p.Src = netip.Addr{} }, ErrSender},
		{&template, func(p *rocev2.Packet) { p.Src = receiver }, ErrSender},
		{&template, func(p *rocev2.Packet) { p.Src = addr("192.0.2.1") }, ErrSender},
		{&template, func(p *rocev2.Packet) { p.Dst = addr("192.0.2.1") }, errDestination},
		{&template, func(p *rocev2.Packet) { p.BTH.DestQP = 1 << 24 }, bth.ErrDestQPRange},
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
		sender netip.Addr
		cfg    Config
		err    error
	}{
		{sender, Config{}, errIPv6},
		{addr("192.0.2.1"), Config{Src: loopback}, ErrIPv4},
		{netip.Addr{}, Config{Src: loopback}, ErrIPv4},
		{sender, Config{Src: loopback, Coverage: icrc.Without}, errTemplate},
		{sender, Config{Src: loopback, Carriage: rocev2.Carriage{Checksum: true}}, errTemplate},
		{sender, Config{Src: loopback, Carriage: rocev2.Carriage{DSCP: 64}}, wireerr.Range},
	} {
		template, err := NewTemplate(c.sender, c.cfg)
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
	f.Add(congested(f, 0, hopByHop(f, trace(1, 4, 2))).IP, uint16(1), uint16(2), uint8(46), uint8(9), uint32(0xBEEF5), uint8(0x8F))
	f.Fuzz(func(t *testing.T, b []byte, srcPort, pKey uint16, dscp, hopLimit uint8, label uint32, option uint8) {
		var p rocev2.Packet
		if p.DecodeIP(b) != nil {
			return
		}
		cfg := Config{Src: loopback, PKey: pKey, Long: FallBack}
		cfg.Carriage.SrcPort, cfg.Carriage.DSCP, cfg.Carriage.HopLimit, cfg.Carriage.FlowLabel, cfg.CodePoints.Option1 = srcPort, dscp, hopLimit, label, ipv6opt.Type(option)
		want, _, wantErr := AppendFor(nil, &p, nil, cfg)
		if wantErr == nil && len(want) != ipv6Size+tailSize { // with a trace it is option 2
			return
		}
		template, err := NewTemplate(p.Src, cfg)
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
	template, err := NewTemplate(sender, Config{Src: loopback})
	require.NoError(b, err)
	out := make([]byte, 0, 104)
	b.ReportAllocs()
	for b.Loop() {
		data.BTH.DestQP = (data.BTH.DestQP + 1) & 0xFFFFFF
		out, _ = template.AppendFor(out[:0], data)
	}
}
