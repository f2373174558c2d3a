//go:build linux

package igptest

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
	"github.com/stretchr/testify/require"
)

// A leaf, which is a speaker of the test, is the proxy of senders. It advertises this in
// LSAs of its area, which are flooded by daemons that do not know their contents. An
// area border router, also a speaker of the test, keeps the capability in the next
// area, where a congested node reads it.
//
//	leaf ── area 0 ── FRRouting ── area 0 ── border ── area 1 ── BIRD ── area 1 ── node
var (
	backbone = [4]byte{0, 0, 0, 0}
	area1    = [4]byte{0, 0, 0, 1}

	leafID   = [4]byte{203, 0, 113, 1} // higher than the daemons' ids
	borderID = [4]byte{203, 0, 113, 2}
	nodeID   = [4]byte{203, 0, 113, 3}
)

func TestOSPFv2Areas(t *testing.T) {
	leaf, border, node, frr, bird := ospfAreas(t, 2)

	// One prefix with a source address, and one without, for which the router address
	// in the TE LSA is used.
	with, err := pnc.Codes{}.AppendOSPFv2(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("192.0.2.128/25"), Proxy: netip.MustParseAddr("198.51.100.2")})
	require.NoError(t, err)
	without, err := pnc.Codes{}.AppendOSPFv2(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Proxy: netip.MustParseAddr("198.51.100.9")})
	require.NoError(t, err)
	without = without[:len(without)-8] // the source address is the last sub-TLV
	without[3] -= 8
	const opaque = 0x4200 | opaqueArea // options E and O
	leaf.flood(backbone, newLSA(opaque, [4]byte{extendedPrefix, 0, 0, 1}, leafID, 1, with, without))
	leaf.flood(backbone, newLSA(opaque, [4]byte{1, 0, 0, 1}, leafID, 1, []byte{0, 1, 0, 4, 198, 51, 100, 1}))

	want := []string{"192.0.2.128/25 198.51.100.2 0", "203.0.113.0/24 198.51.100.1 0"}
	readV2 := func(lsas [][]byte) []string { return lines(pnc.Codes{}.ReadOSPFv2(lsas...)) }
	wiretest.Await(t, "the border router has both prefixes from ospfd",
		func() bool { return sameSet(readV2(border.lsasOf(backbone, leafID)), want) })
	require.Empty(t, readV2(node.lsasOf(area1, leafID)), "area scope")
	require.True(t, contains(frr.Output(t, "show ip ospf database opaque-area"), "7.0.0.1", "203.0.113.1",
		"192.0.2.128"))

	var kept []byte
	from := pnc.PrefixSource{Router: leafID, Address: netip.MustParseAddr("198.51.100.1")}
	for tlv := range prefixTLVs(border.lsasOf(backbone, leafID), 0x4200|opaqueArea, extendedPrefix, 20) {
		kept = wiretest.Must(pnc.LeakOSPFv2(kept, tlv, from))(t)
	}
	border.flood(area1, newLSA(opaque, [4]byte{extendedPrefix, 0, 0, 1}, borderID, 1, kept))
	wiretest.Await(t, "the node has both prefixes from BIRD, and still the same proxies",
		func() bool { return sameSet(readV2(node.lsasOf(area1, borderID)), want) })
	require.True(t, birdHas(bird.Output(t, "show ospf lsadb"), "000a 7.0.0.1 203.0.113.2"))

	table := proxies.New(proxies.Config{})
	origin := pnc.Originator{Protocol: pnc.ProtocolOSPFv2, ID: [8]byte{203, 0, 113, 2}}
	require.Equal(t, 2, table.Replace(origin, pnc.Codes{}.ReadOSPFv2(node.lsasOf(area1, borderID)...)))
	proxy, ok := table.Lookup(netip.MustParseAddr("203.0.113.77"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("198.51.100.1"), proxy)

	// The flag is withdrawn.
	noFlags := []byte{0, 1, 0, 8, 3, 25, 0, 0, 192, 0, 2, 128} // TLV, inter-area prefix without sub-TLVs
	border.flood(area1, newLSA(opaque, [4]byte{extendedPrefix, 0, 0, 1}, borderID, 2, noFlags))
	wiretest.Await(t, "the node has no prefix", func() bool { return len(readV2(node.lsasOf(area1, borderID))) == 0 })
	require.Zero(t, table.Replace(origin, pnc.Codes{}.ReadOSPFv2(node.lsasOf(area1, borderID)...)))
	_, ok = table.Lookup(netip.MustParseAddr("203.0.113.77"))
	require.False(t, ok)
}

func TestOSPFv3Areas(t *testing.T) {
	leaf, border, node, frr, bird := ospfAreas(t, 3)

	with := wiretest.Must(pnc.Codes{}.AppendOSPFv3(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("2001:db8:1::/64"),
			Proxy: netip.MustParseAddr("2001:db8:ffff::2"), Metric: 10}))(t)
	without := wiretest.Must(pnc.Codes{}.AppendOSPFv3(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("2001:db8:2::/64"),
			Proxy: netip.MustParseAddr("2001:db8:ffff::9"), Metric: 11}))(t)
	without = without[:len(without)-20] // the source address is the last sub-TLV
	without[3] -= 20
	const intraAreaPrefix, interAreaPrefix, intraAreaTE = 0xA029, 0xA023, 0xA00A
	reference := append([]byte{0, 0, 0x20, 0x01, 0, 0, 0, 0}, leafID[:]...)
	router := netip.MustParseAddr("2001:db8:ffff::1").As16()
	leaf.flood(backbone, newLSA(intraAreaPrefix, [4]byte{0, 0, 0, 1}, leafID, 1, reference, with, without))
	leaf.flood(backbone, newLSA(intraAreaTE, [4]byte{0, 0, 0, 1}, leafID, 1, []byte{0, 3, 0, 16}, router[:]))

	readV3 := func(lsas [][]byte) []string { return lines(pnc.Codes{}.ReadOSPFv3(lsas...)) }
	want := []string{"2001:db8:1::/64 2001:db8:ffff::2 10", "2001:db8:2::/64 2001:db8:ffff::1 11"}
	wiretest.Await(t, "the border router has both prefixes from ospf6d",
		func() bool { return sameSet(readV3(border.lsasOf(backbone, leafID)), want) })
	require.Empty(t, readV3(node.lsasOf(area1, leafID)), "area scope")
	require.Contains(t, frr.Output(t, "show ipv6 ospf6 database"), "203.0.113.1")

	from := pnc.PrefixSource{Router: leafID, Address: netip.AddrFrom16(router)}
	n := uint8(0)
	for tlv := range prefixTLVs(border.lsasOf(backbone, leafID), intraAreaPrefix, 0, 32) {
		kept := wiretest.Must(pnc.LeakOSPFv3(nil, tlv, 110, from))(t)
		n++ // an E-Inter-Area-Prefix-LSA has one prefix
		border.flood(area1, newLSA(interAreaPrefix, [4]byte{0, 0, 0, n}, borderID, 1, kept))
	}
	want = []string{"2001:db8:1::/64 2001:db8:ffff::2 110", "2001:db8:2::/64 2001:db8:ffff::1 110"}
	wiretest.Await(t, "the node has both prefixes from BIRD, and still the same proxies",
		func() bool { return sameSet(readV3(node.lsasOf(area1, borderID)), want) })
	require.True(t, birdHas(bird.Output(t, "show ospf lsadb"), "a023 0.0.0.1 203.0.113.2"))

	table := proxies.New(proxies.Config{})
	origin := pnc.Originator{Protocol: pnc.ProtocolOSPFv3, ID: [8]byte{203, 0, 113, 2}}
	require.Equal(t, 2, table.Replace(origin, pnc.Codes{}.ReadOSPFv3(node.lsasOf(area1, borderID)...)))
	proxy, ok := table.Lookup(netip.MustParseAddr("2001:db8:2::7"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("2001:db8:ffff::1"), proxy)
}

// ospfAreas creates the network above.
func ospfAreas(t *testing.T, version uint8) (leaf, border, node *ospfSpeaker, frr, bird *wiretest.Router) {
	t.Helper()
	home, area0Host, area1Host := wiretest.Home(t), wiretest.NewHost(t, "frr"), wiretest.NewHost(t, "bird")
	for i, l := range []struct {
		device string
		daemon *wiretest.Host
	}{{"leaf", area0Host}, {"border0", area0Host}, {"border1", area1Host}, {"node", area1Host}} {
		wiretest.Link(t, wiretest.End{Host: home, Device: l.device,
			Addresses: []string{fmt.Sprintf("10.0.%d.2/24", i)}},
			wiretest.End{Host: l.daemon, Device: l.device, Addresses: []string{fmt.Sprintf("10.0.%d.1/24", i)}})
	}

	var config strings.Builder
	daemon, bird0 := "ospfd", "ospf v2"
	for _, d := range []string{"leaf", "border0"} {
		fmt.Fprintf(&config, "interface %s\n", d)
		if version == 2 {
			config.WriteString(" ip ospf area 0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip " +
				"ospf dead-interval 4\n!\n")
		} else {
			config.WriteString(" ipv6 ospf6 area 0\n ipv6 ospf6 network point-to-point\n ipv6 ospf6 hello-interval " +
				"1\n ipv6 ospf6 dead-interval 4\n!\n")
		}
	}
	if version == 2 {
		config.WriteString("router ospf\n ospf router-id 192.0.2.1\n capability opaque\n!\n")
	} else {
		daemon, bird0 = "ospf6d", "ospf v3"
		config.WriteString("router ospf6\n ospf6 router-id 192.0.2.1\n!\n")
	}
	frr = wiretest.StartFRR(t, area0Host, wiretest.Daemon{Name: daemon, Config: config.String()})
	bird = wiretest.StartBIRD(t, area1Host, "router id 192.0.2.2;\nprotocol device {}\nprotocol "+bird0+
		` { area 1 { interface "border1", "node" { type ptp; hello 1; dead 4; }; }; }
`)

	leaf, border, node = newOSPF(version, leafID), newOSPF(version, borderID), newOSPF(version, nodeID)
	leaf.link(t, home, "leaf", backbone)
	border.link(t, home, "border0", backbone)
	border.link(t, home, "border1", area1)
	node.link(t, home, "node", area1)
	return leaf, border, node, frr, bird
}

// prefixTLVs yields the TLVs of the LSAs of one type, in OSPFv2 of one opaque type.
// start is the offset of the TLVs.
func prefixTLVs(lsas [][]byte, typ uint16, opaqueType uint8, start int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, lsa := range lsas {
			if binary.BigEndian.Uint16(lsa[2:]) != typ || lsa[4] != opaqueType {
				continue
			}
			for b := lsa[start:]; len(b) > 0; {
				n := 4 + int(binary.BigEndian.Uint16(b[2:]))
				if !yield(b[:n]) {
					return
				}
				b = b[(n+3)&^3:]
			}
		}
	}
}
