//go:build linux

// Package igptest tests package pnc with other routing daemons: FRRouting and BIRD flood
// the LSAs and LSPs that it encodes, and it decodes those in their databases.
package igptest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
	"github.com/stretchr/testify/require"
)

const extendedPrefix = 7 // opaque type (RFC 7684)

// A leaf is the proxy of senders. It originates an LSA of AS scope through ospfd's API.
// The ospfd of a congested node and BIRD receive the LSA, and the node fills its table
// from its database.
//
//	leaf ── switch ── bird
func TestOSPFv2(t *testing.T) {
	leaf, node, bird := wiretest.NewHost(t, "leaf"), wiretest.NewHost(t, "switch"), wiretest.NewHost(t, "bird")
	wiretest.Link(t, wiretest.End{Host: leaf, Device: "switch", Addresses: []string{"10.1.0.1/24"}},
		wiretest.End{Host: node, Device: "leaf", Addresses: []string{"10.1.0.2/24"}})
	wiretest.Link(t, wiretest.End{Host: bird, Device: "switch", Addresses: []string{"10.3.0.1/24"}},
		wiretest.End{Host: node, Device: "bird", Addresses: []string{"10.3.0.2/24"}})

	startOSPF(t, leaf, "192.0.2.1", "switch 0")
	startOSPF(t, node, "192.0.2.2", "leaf 0", "bird 0")
	b := wiretest.StartBIRD(t, bird, `router id 192.0.2.4;
protocol device {}
protocol ospf v2 { area 0 { interface "switch" { type ptp; hello 1; dead 4; }; }; }
`)

	// One prefix with a source address, one without.
	body, err := pnc.Codes{}.AppendOSPFv2(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("192.0.2.128/25"), Proxy: netip.MustParseAddr("198.51.100.2")})
	require.NoError(t, err)
	bare, err := pnc.Codes{}.AppendOSPFv2(nil,
		pnc.Advertisement{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Proxy: netip.MustParseAddr("198.51.100.9")})
	require.NoError(t, err)
	bare = bare[:len(bare)-8] // the source address is the last sub-TLV
	bare[3] -= 8
	body = append(body, bare...)

	atLeaf, atNode := dialOSPF(t, leaf), dialOSPF(t, node)
	atLeaf.register(t, extendedPrefix)
	atLeaf.originate(t, extendedPrefix, 1, body)

	id := [4]byte{192, 0, 2, 1}
	want := []string{"192.0.2.128/25 198.51.100.2 0", "203.0.113.0/24 invalid IP 0"}
	wiretest.Await(t, "the switch has both prefixes", func() bool {
		return sameSet(lines(pnc.Codes{}.ReadOSPFv2(atNode.lsasOf(id)...)), want)
	})
	wiretest.Await(t, "BIRD has the LSA", func() bool {
		return birdHas(b.Output(t, "show ospf lsadb"),
			"000b 7.0.0.1 192.0.2.1")
	})

	// The congested node's table follows its database.
	table := proxies.New(proxies.Config{})
	origin := pnc.Originator{Protocol: pnc.ProtocolOSPFv2, ID: [8]byte{192, 0, 2, 1}}
	require.Equal(t, 1, table.Replace(origin, pnc.Codes{}.ReadOSPFv2(atNode.lsasOf(id)...)))
	proxy, ok := table.Lookup(netip.MustParseAddr("192.0.2.200"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("198.51.100.2"), proxy)

	atLeaf.withdraw(t, extendedPrefix, 1)
	wiretest.Await(t, "the switch has no prefix",
		func() bool { return len(lines(pnc.Codes{}.ReadOSPFv2(atNode.lsasOf(id)...))) == 0 })
	require.Zero(t, table.Replace(origin, pnc.Codes{}.ReadOSPFv2(atNode.lsasOf(id)...)))
	_, ok = table.Lookup(netip.MustParseAddr("192.0.2.200"))
	require.False(t, ok)
}

// birdHas reports whether a line of BIRD's list of LSAs begins with this type, link
// state id and advertising router.
func birdHas(list, lsa string) bool {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 3 && strings.Join(f[:3], " ") == lsa {
			return true
		}
	}
	return false
}

// startOSPF starts FRRouting's ospfd with its API on a host. links are pairs of device
// and area.
func startOSPF(t *testing.T, h *wiretest.Host, id string, links ...string) {
	t.Helper()
	var config strings.Builder
	for _, l := range links {
		device, area, _ := strings.Cut(l, " ")
		fmt.Fprintf(&config,
			"interface %s\n ip ospf area %s\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf "+
				"dead-interval 4\n!\n", device, area)
	}
	fmt.Fprintf(&config, "router ospf\n ospf router-id %s\n capability opaque\n!\n", id)
	wiretest.StartFRR(t, h, wiretest.Daemon{Name: "ospfd", Config: config.String(), Args: []string{"--apiserver"}})
}
