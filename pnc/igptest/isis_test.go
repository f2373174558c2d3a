//go:build linux

package igptest

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
)

// A leaf, which is a speaker of the test, is the proxy of senders; isisd floods its LSP.
// A border router between the levels, also a speaker of the test, keeps the
// capability; isisd of the other level floods its LSP to a congested node.
//
//	leaf ── level 1 ── isisd ── level 1 ── border ── level 2 ── isisd ── level 2 ── node
func TestISIS(t *testing.T) {
	home, area, backbone := wiretest.Home(t), wiretest.NewHost(t, "area"), wiretest.NewHost(t, "backbone")
	for i, l := range []struct {
		device string
		daemon *wiretest.Host
	}{{"leaf", area}, {"border1", area}, {"border2", backbone}, {"node", backbone}} {
		wiretest.Link(t, wiretest.End{Host: home, Device: l.device},
			wiretest.End{Host: l.daemon, Device: l.device,
				Addresses: []string{fmt.Sprintf("10.0.%d.1/24", i), fmt.Sprintf("2001:db8:0:%d::1/64", i)}})
	}
	frrArea := startISIS(t, area, 1, "leaf", "border1")
	frrBackbone := startISIS(t, backbone, 2, "border2", "node")

	const leafSystem, borderSystem, nodeSystem = 1, 2, 3
	leaf, border, node := newISIS(leafSystem), newISIS(borderSystem), newISIS(nodeSystem)
	leaf.circuit(t, home, "leaf", 1)
	border.circuit(t, home, "border1", 1)
	border.circuit(t, home, "border2", 2)
	node.circuit(t, home, "node", 2)

	// The leaf advertises an IPv4 prefix with a source router id, and an IPv6 prefix
	// without, for which its TE router id is used.
	with4 := wiretest.Must(pnc.Codes{}.AppendISIS(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Proxy: netip.MustParseAddr("198.51.100.2"),
			Metric: 10}, 0))(t)
	te6 := netip.MustParseAddr("2001:db8:ffff::1").As16()
	with6 := reach6(20, "2001:db8:1::/64", 0x20, []byte{4, 1, 0x01})
	leafLSP := lsp(1, leafSystem, 1, tlv(140, te6[:]...), with4, with6)
	leaf.flood(1, leafLSP)

	wiretest.Await(t, "the border router has the leaf's LSP from isisd",
		func() bool { return len(border.lsps(1, leafSystem)) == 1 })
	atBorder := border.lsps(1, leafSystem)
	require.Equal(t, leafLSP[12:], atBorder[0][12:], "as it was flooded, but for its lifetime")
	want := []string{"192.0.2.0/24 198.51.100.2 10", "2001:db8:1::/64 2001:db8:ffff::1 20"}
	require.Equal(t, want, lines(pnc.Codes{}.ReadISIS(atBorder...)))
	wiretest.Await(t, "isisd shows the LSP", func() bool {
		database := frrArea.Output(t, "show isis database detail 0000.0000.0001.00-00")
		return contains(database, "0000.0000.0001.00-00", "192.0.2.0/24", "2001:db8:1::/64")
	})

	// The border router leaks the prefixes.
	kept4 := wiretest.Must(pnc.LeakISIS(nil, with4[2+5+3+1:], netip.Addr{}, netip.AddrFrom16(te6)))(t)
	kept6 := wiretest.Must(pnc.LeakISIS(nil, []byte{4, 1, 0x01}, netip.Addr{}, netip.AddrFrom16(te6)))(t)
	border.flood(2, lsp(2, borderSystem, 1, reach4(110, "192.0.2.0/24", 0x40, kept4),
		reach6(120, "2001:db8:1::/64", 0x20, kept6)))

	wiretest.Await(t, "the node has the border router's LSP from isisd",
		func() bool { return len(node.lsps(2, borderSystem)) == 1 })
	atNode := node.lsps(2, borderSystem)
	want = []string{"192.0.2.0/24 198.51.100.2 110", "2001:db8:1::/64 2001:db8:ffff::1 120"}
	require.Equal(t, want, lines(pnc.Codes{}.ReadISIS(atNode...)))
	wiretest.Await(t, "isisd of level 2 shows the LSP", func() bool {
		database := frrBackbone.Output(t, "show isis database detail 0000.0000.0002.00-00")
		return contains(database, "0000.0000.0002.00-00", "192.0.2.0/24", "2001:db8:1::/64")
	})

	// tshark decodes the flooded LSPs: they have the P-flag, and after the border the
	// R-flag.
	rows := wiretest.TsharkFields(t, []string{"isis.lsp.prefix_attribute.flags", "isis.lsp.prefix_attribute.flags.r",
		"isis.lsp.checksum.status", "_ws.malformed"},
		isisFrame(t, atBorder[0]), isisFrame(t, atNode[0]))
	require.Equal(t, []string{"0x01", "0x01"}, rows[0].All("isis.lsp.prefix_attribute.flags"))
	require.Equal(t, []string{"0x41", "0x41"}, rows[1].All("isis.lsp.prefix_attribute.flags"))
	for _, r := range rows {
		require.Equal(t, "1", r.Get("isis.lsp.checksum.status"), "good")
		require.False(t, r.Has("_ws.malformed"))
	}

	// The congested node's table has the proxy until the leaf withdraws it.
	table := proxies.New(proxies.Config{})
	origin := pnc.Originator{Protocol: pnc.ProtocolISIS, ID: [8]byte{0, 0, 0, 0, 0, borderSystem, 0, 2}}
	require.Equal(t, 2, table.Replace(origin, pnc.Codes{}.ReadISIS(atNode...)))
	proxy, ok := table.Lookup(netip.MustParseAddr("2001:db8:1::7"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("2001:db8:ffff::1"), proxy)

	border.flood(2, lsp(2, borderSystem, 2, reach4(110, "192.0.2.0/24", 0x40, []byte{4, 1, 0x40})))
	wiretest.Await(t, "the node has the newer LSP",
		func() bool { return len(lines(pnc.Codes{}.ReadISIS(node.lsps(2, borderSystem)...))) == 0 })
	require.Zero(t, table.Replace(origin, pnc.Codes{}.ReadISIS(node.lsps(2, borderSystem)...)))
	_, ok = table.Lookup(netip.MustParseAddr("2001:db8:1::7"))
	require.False(t, ok)
}

// startISIS starts FRRouting's isisd on a host, with point-to-point circuits of one
// level.
func startISIS(t *testing.T, h *wiretest.Host, level uint8, devices ...string) *wiretest.Router {
	t.Helper()
	kind := map[uint8]string{1: "level-1", 2: "level-2-only"}[level]
	config := ""
	for _, d := range devices {
		config += fmt.Sprintf("interface %s\n ip router isis x\n ipv6 router isis x\n isis network point-to-point\n "+
			"isis circuit-type %s\n isis hello-interval 1\n isis csnp-interval 1\n!\n", d, kind)
	}
	config += fmt.Sprintf("router isis x\n net 49.000%d.0000.0000.001%[1]d.00\n is-type %s\n metric-style wide\n!\n",
		level, kind)
	return wiretest.StartFRR(t, h, wiretest.Daemon{Name: "isisd", Config: config})
}

// reach4 and reach6 return reachability TLVs of the border router.
func reach4(metric uint32, prefix string, control uint8, subTLVs []byte) []byte {
	p := netip.MustParsePrefix(prefix)
	a := p.Addr().As4()
	value := append(binary.BigEndian.AppendUint32(nil, metric), control|uint8(p.Bits()))
	return tlv(135, slices.Concat(value, a[:(p.Bits()+7)/8], []byte{uint8(len(subTLVs))}, subTLVs)...)
}

func reach6(metric uint32, prefix string, control uint8, subTLVs []byte) []byte {
	p := netip.MustParsePrefix(prefix)
	a := p.Addr().As16()
	value := append(binary.BigEndian.AppendUint32(nil, metric), control, uint8(p.Bits()))
	return tlv(236, slices.Concat(value, a[:(p.Bits()+7)/8], []byte{uint8(len(subTLVs))}, subTLVs)...)
}

func TestMain(m *testing.M) { wiretest.OwnNetwork(m) }

// sameSet reports whether two lists have the same elements.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// contains reports whether a text has all of these parts.
func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// lines returns one line for each advertisement of an iterator.
func lines(advertisements iter.Seq2[pnc.Advertisement, error]) (all []string) {
	for a, err := range advertisements {
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		all = append(all, fmt.Sprintf("%v %v %d", a.Prefix, a.Proxy, a.Metric))
	}
	return all
}
