package rocev2

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// linked has a link-layer header before an IPv6 packet for each LinkType, as defined at tcpdump.org.
var linked = [...]string{
	LinkEthernet: `020000000001 020000000002 86dd`,
	LinkIP:       ``,
	LinkSLL:      `0000 0001 0006 0200000000020000 86dd`,
	LinkSLL2:     `86dd 0000 00000002 0001 00 06 0200000000020000`,
	LinkNull:     `0a000000`,
	LinkLoop:     `00000018`,
}

// The same packet decodes after every type of link-layer header, with VLAN tags, and truncated.
func TestLinkTypes(t *testing.T) {
	ip := wiretest.Hex(t, send6)[14:]
	for _, c := range []struct {
		link   LinkType
		header string
	}{
		{LinkEthernet, linked[LinkEthernet]},
		{LinkEthernet, `020000000001 020000000002 8100 0003 86dd`},
		{LinkEthernet, `020000000001 020000000002 88a8 0003 8100 0004 86dd`},
		{LinkEthernet, `020000000001 020000000002 9100 0003 9100 0004 8100 0005 86dd`},
		{LinkIP, ``},
		{LinkSLL, linked[LinkSLL]},
		{LinkSLL, `0000 0001 0006 0200000000020000 8100 0003 86dd`},
		{LinkSLL2, linked[LinkSLL2]},
		{LinkSLL2, `8100 0000 00000002 0001 00 06 0200000000020000 0003 86dd`},
		{LinkNull, `0a000000`}, {LinkNull, `0000000a`},
		{LinkNull, `18000000`}, {LinkNull, `00000018`},
		{LinkNull, `1c000000`}, {LinkNull, `0000001c`},
		{LinkNull, `1e000000`}, {LinkNull, `0000001e`},
		{LinkLoop, `00000018`}, {LinkLoop, `0000001c`}, {LinkLoop, `0000001e`}, {LinkLoop, `0000000a`},
	} {
		header := wiretest.Hex(t, c.header)
		b := append(header, ip...)
		var p Packet
		require.NoError(t, p.Decode(b, DecodeOptions{Link: c.link}), c.header)
		require.Equal(t, ip, p.IP, c.header)
		require.Len(t, p.Link, len(header), c.header)
		for n := range len(header) {
			var cut Packet
			err := cut.Decode(b[:n:n], DecodeOptions{Link: c.link, AllowTruncated: true})
			require.ErrorIs(t, err, ErrNotRoCEv2, "%s, %d octets", c.header, n)
			require.Equal(t, Packet{}, cut)
		}
		var f Flow
		require.NoError(t, f.Decode(b, DecodeOptions{Link: c.link}), c.header)
		require.Equal(t, ip, f.IP, c.header)
		wiretest.NoAllocs(t, c.header, func() { _ = p.Decode(b, DecodeOptions{Link: c.link}) })
	}
	for _, c := range []struct {
		link   LinkType
		header string
	}{
		{LinkLoop, `18000000`}, {LinkNull, `00000003`}, {LinkSLL, `0000 0001 0006 0200000000020000 0806`},
		{LinkSLL2, `0806 0000 00000002 0001 00 06 0200000000020000`}, {LinkType(6), ``},
	} {
		var p Packet
		err := p.Decode(append(wiretest.Hex(t, c.header), ip...), DecodeOptions{Link: c.link})
		require.Error(t, err, c.header)
		require.Equal(t, Packet{}, p)
	}
	p := Packet{}
	require.ErrorIs(t, p.Decode(wiretest.Hex(t, `00000018`), DecodeOptions{Link: LinkLoop}), errIPv6Header,
		"nothing after it")
	b := append(wiretest.Hex(t, `00000002`), wiretest.Hex(t, hardwareCNP)[14:]...)
	require.NoError(t, p.Decode(b, DecodeOptions{Link: LinkLoop}), "IPv4")
}

func TestLinkTypeOf(t *testing.T) {
	for _, c := range []struct {
		number uint32
		want   LinkType
	}{{0, LinkNull}, {1, LinkEthernet}, {12, LinkIP}, {14, LinkIP}, {101, LinkIP},
		{108, LinkLoop}, {113, LinkSLL}, {228, LinkIP}, {229, LinkIP}, {276, LinkSLL2}} {
		t.Run(fmt.Sprint(c.number), func(t *testing.T) {
			got, ok := LinkTypeOf(c.number)
			require.True(t, ok)
			require.Equal(t, c.want, got)
		})
	}
	_, ok := LinkTypeOf(105) // 802.11
	require.False(t, ok)
	require.Equal(t, "sll2", LinkSLL2.String())
	require.Equal(t, "LinkType(6)", LinkType(6).String())
}

// The answer goes back to the source of the packet, in the same VLANs.
func TestAppendReplyLink(t *testing.T) {
	for _, c := range []struct {
		link    LinkType
		header  string
		version uint8
		want    string
	}{
		{LinkEthernet, `020000000001 020000000002 86dd`, 6, `020000000002 020000000001 86dd`},
		{LinkEthernet, `020000000001 020000000002 86dd`, 4, `020000000002 020000000001 0800`},
		{LinkEthernet, `020000000001 020000000002 88a8 0003 8100 2004 86dd`, 6,
			`020000000002 020000000001 88a8 0003 8100 2004 86dd`},
		{LinkIP, ``, 6, ``},
		{LinkSLL, linked[LinkSLL], 6, ``},
	} {
		var p Packet
		require.NoError(t, p.Decode(append(wiretest.Hex(t, c.header), wiretest.Hex(t, send6)[14:]...),
			DecodeOptions{Link: c.link}))
		require.Equal(t, append([]byte{9}, wiretest.Hex(t, c.want)...), p.AppendReplyLink([]byte{9}, c.version))
	}
}

func TestLinkPayload(t *testing.T) {
	for _, c := range []struct {
		link    LinkType
		octets  string
		ether   uint16
		payload string
	}{
		{LinkEthernet, macs + `8808 0101`, 0x8808, `0101`},
		{LinkEthernet, macs + `81002007 88a80001 8808 0101`, 0x8808, `0101`},
		{LinkEthernet, macs + `0800 45`, 0x0800, `45`},
		{LinkEthernet, macs + `86dd`, 0x86DD, ``},
		{LinkEthernet, macs + `8100200786`, 0, ``},
		{LinkEthernet, macs, 0, ``},
		{LinkSLL, `0000 0001 0006 020000000002 0000 8808 01`, 0x8808, `01`},
		{LinkSLL2, `8808 0000 00000007 0001 00 06 020000000002 0000 01`, 0x8808, `01`},
		{LinkIP, `45`, 0, ``},
		{LinkNull, `02000000 45`, 0, ``},
		{LinkLoop + 1, macs + `8808 0101`, 0, ``},
	} {
		ether, payload := LinkPayload(wiretest.Hex(t, c.octets), DecodeOptions{Link: c.link})
		require.Equal(t, c.ether, ether, c.octets)
		require.Equal(t, wiretest.Hex(t, c.payload), append([]byte{}, payload...), c.octets)
	}
}
