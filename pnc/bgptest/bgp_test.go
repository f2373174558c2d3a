//go:build linux

// Package bgptest tests package pnc with other BGP implementations: GoBGP and ExaBGP
// originate the attribute, FRRouting, BIRD and GoBGP propagate it. FRRouting and GoBGP
// report their routes to the agent by BMP. It is a separate module so that the library
// does not depend on the GoBGP daemon.
package bgptest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { wiretest.OwnNetwork(m) }

// The code of the PNC characteristic is not assigned yet: any code works.
var codes = pnc.Codes{NHC: 0xFF01}

// The network of the tests. The proxy (origin) advertises the prefixes of its senders
// to a transit router. Two other routers learn them from it: one in the transit's AS,
// for which the transit keeps the next hop, and one in a third AS, for which the
// transit is the next hop.
//
//	origin AS 65001 ── 10.1.0.0/24 ── transit AS 65002 ── 10.2.0.0/24 ── inside AS 65002
//	                                                   └─ 10.3.0.0/24 ── outside AS 65003
const (
	originAS, transitAS, outsideAS = 65001, 65002, 65003

	originAddr, insideAddr, outsideAddr                   = "10.1.0.1", "10.2.0.1", "10.3.0.1"
	transitToOrigin, transitToInside, transitToOutside    = "10.1.0.2", "10.2.0.2", "10.3.0.2"
	originAddr6, insideAddr6, outsideAddr6                = "2001:db8:a::1", "2001:db8:b::1", "2001:db8:c::1"
	transitToOrigin6, transitToInside6, transitToOutside6 = "2001:db8:a::2", "2001:db8:b::2", "2001:db8:c::2"
	senders4, senders6, brokenAttribute                   = "192.0.2.0/24", "2001:db8:1::/64", "203.0.113.0/24"
	proxy4, proxy6                                        = "198.51.100.2", "2001:db8:ffff::2"
)

// others are the other characteristics of the attribute, before and after PNC.
var others = []pnc.Characteristic{{Code: 2, Value: []byte{1, 2, 3, 4}}, {Code: 0xFFFE, Value: []byte{5}}}

func value4(t *testing.T) []byte {
	return wiretest.Must(codes.AppendNHC(nil, pnc.NextHop{AFI: 1, SAFI: 1, Addr: netip.MustParseAddr(originAddr)},
		netip.MustParseAddr(proxy4), others...))(t)
}

func value6(t *testing.T) []byte {
	return wiretest.Must(codes.AppendNHC(nil, pnc.NextHop{AFI: 2, SAFI: 1, Addr: netip.MustParseAddr(originAddr6)},
		netip.MustParseAddr(proxy6), others...))(t)
}

func TestThroughFRR(t *testing.T) {
	home, transit := network(t)
	var neighbours, activate strings.Builder
	for _, n := range []struct {
		addr string
		as   int
	}{{originAddr, originAS}, {insideAddr, transitAS}, {outsideAddr, outsideAS}} {
		t.Run(n.addr, func(t *testing.T) {
			fmt.Fprintf(&neighbours,
				" neighbor %s remote-as %d\n neighbor %[1]s passive\n neighbor %[1]s timers connect 1\n", n.addr, n.as)
			fmt.Fprintf(&activate, "  neighbor %s activate\n", n.addr)
		})
	}
	wiretest.StartFRR(t, transit, wiretest.Daemon{Name: "bgpd",
		Config: fmt.Sprintf("router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n no bgp network "+
			"import-check\n%s address-family ipv6 unicast\n%s exit-address-family\n",
			transitAS, transitToOrigin, &neighbours, &activate)})
	testTransit(t, home)
}

func TestThroughBIRD(t *testing.T) {
	home, transit := network(t)
	config := "router id " + transitToOrigin + ";\nprotocol device {}\n"
	for _, n := range []struct {
		name, local, addr string
		as                int
		channel           string
	}{
		{"origin", transitToOrigin, originAddr, originAS, "import all; export none;"},
		{"inside", transitToInside, insideAddr, transitAS, "import none; export all;"},
		{"outside", transitToOutside, outsideAddr, outsideAS, "import none; export all;"},
	} {
		t.Run(n.name, func(t *testing.T) {
			config += fmt.Sprintf("protocol bgp %s { local %s as %d; neighbor %s as %d; passive; ipv4 { %s }; ipv6 { "+
				"%[6]s }; }\n",
				n.name, n.local, transitAS, n.addr, n.as, n.channel)
		})
	}
	wiretest.StartBIRD(t, transit, config)
	testTransit(t, home)
}

// GoBGP is the transit, with its own address on the test's host.
func TestThroughGoBGP(t *testing.T) {
	home := wiretest.Home(t)
	for _, a := range []string{
		originAddr + "/32", insideAddr + "/32", outsideAddr + "/32", transitToOrigin + "/32", transitToInside + "/32",
		transitToOutside + "/32",
		originAddr6 + "/128", insideAddr6 + "/128", outsideAddr6 + "/128", transitToOrigin6 + "/128",
		transitToInside6 + "/128", transitToOutside6 + "/128",
	} {
		home.Run(t, "", "ip", "addr", "add", a, "dev", "lo")
		t.Cleanup(func() { home.Run(t, "", "ip", "addr", "del", a, "dev", "lo") })
	}
	transit := newSpeaker(t, transitAS, transitToOrigin, transitToOrigin, transitToInside, transitToOutside)
	transit.neighbour(t, transitToOrigin, originAddr, originAS, true)
	transit.neighbour(t, transitToInside, insideAddr, transitAS, true)
	transit.neighbour(t, transitToOutside, outsideAddr, outsideAS, true)
	testTransit(t, home)
}

// network creates three links between the test's host, where GoBGP runs, and the host
// of the transit.
func network(t *testing.T) (home, transit *wiretest.Host) {
	home, transit = wiretest.Home(t), wiretest.NewHost(t, "transit")
	for _, l := range []struct{ device, home, home6, transit, transit6 string }{
		{"origin", originAddr, originAddr6, transitToOrigin, transitToOrigin6},
		{"inside", insideAddr, insideAddr6, transitToInside, transitToInside6},
		{"outside", outsideAddr, outsideAddr6, transitToOutside, transitToOutside6},
	} {
		wiretest.Link(t,
			wiretest.End{Host: home, Device: l.device, Addresses: []string{l.home + "/24", l.home6 + "/64"}},
			wiretest.End{Host: transit, Device: l.device, Addresses: []string{l.transit + "/24", l.transit6 + "/64"}})
	}
	return home, transit
}

// testTransit checks the requirements of every transit.
func testTransit(t *testing.T, home *wiretest.Host) {
	origin := newSpeaker(t, originAS, originAddr)
	inside := newSpeaker(t, transitAS, insideAddr)
	outside := newSpeaker(t, outsideAS, outsideAddr)
	origin.neighbour(t, originAddr, transitToOrigin, transitAS, false)
	inside.neighbour(t, insideAddr, transitToInside, transitAS, false)
	outside.neighbour(t, outsideAddr, transitToOutside, transitAS, false)

	broken := value4(t)[:len(value4(t))-1]
	origin.announce(t, senders4, originAddr, value4(t))
	origin.announce(t, senders6, originAddr6, value6(t))
	origin.announce(t, brokenAttribute, originAddr, broken)

	for _, c := range []struct {
		who      *speaker
		prefix   string
		value    []byte
		nextHop  string // kept
		proxy    string
		kept     bool
		isBroken bool
	}{
		{inside, senders4, value4(t), originAddr, proxy4, true, false},
		{inside, senders6, value6(t), originAddr6, proxy6, true, false},
		{inside, brokenAttribute, broken, originAddr, "", true, true},
		{outside, senders4, value4(t), originAddr, "", false, false},
		{outside, senders6, value6(t), originAddr6, "", false, false},
		{outside, brokenAttribute, broken, originAddr, "", false, true},
	} {
		r := c.who.await(t, c.prefix)
		require.EqualValues(t, bgp.BGP_ATTR_FLAG_OPTIONAL|bgp.BGP_ATTR_FLAG_TRANSITIVE,
			r.flags&^(bgp.BGP_ATTR_FLAG_PARTIAL|bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH), "%s: flags %#x", c.prefix,
			uint8(r.flags))
		require.Equal(t, c.value, r.value, c.prefix)
		require.Equal(t, c.kept, r.nextHop == netip.MustParseAddr(c.nextHop), "%s: next hop %v", c.prefix, r.nextHop)
		t.Logf("%s at AS %d: next hop %v, flags %#x", c.prefix, c.who.as, r.nextHop, uint8(r.flags))

		// The next hop rule, and a malformed attribute that is discarded
		// while the route is kept.
		proxy, ok, err := codes.ReadNHC(r.value, r.nextHop)
		require.Equal(t, c.isBroken, err != nil)
		require.Equal(t, c.proxy != "", ok)
		if ok {
			require.Equal(t, netip.MustParseAddr(c.proxy), proxy)
		}
	}

	// The table of a congested node that learns from these routes.
	table := proxies.New(proxies.Config{})
	peer := pnc.Originator{Protocol: pnc.ProtocolBGP, ID: [8]byte{10, 2, 0, 2}}
	for _, c := range []struct{ name, sender string }{{senders4, "192.0.2.7"}, {senders6, "2001:db8:1::7"}} {
		t.Run(c.name, func(t *testing.T) {
			r := inside.await(t, c.name)
			proxy, ok, err := codes.ReadNHC(r.value, r.nextHop)
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, table.Insert(pnc.Advertisement{Prefix: netip.MustParsePrefix(c.name), Proxy: proxy,
				Originator: peer}))
			got, ok := table.Lookup(netip.MustParseAddr(c.sender))
			require.True(t, ok)
			require.Equal(t, proxy, got)
		})
	}
	origin.withdraw(t, senders4)
	wiretest.Await(t, senders4+" is withdrawn", func() bool { return len(inside.routes(t, senders4)) == 0 })
	require.True(t, table.Withdraw(peer, netip.MustParsePrefix(senders4)))
	_, ok := table.Lookup(netip.MustParseAddr("192.0.2.7"))
	require.False(t, ok)

	// A router that knows the attribute and changes the next hop keeps PNC and drops
	// unknown characteristics.
	r := inside.await(t, senders6)
	self := pnc.NextHop{AFI: 2, SAFI: 1, Addr: netip.MustParseAddr(insideAddr6)}
	propagated := wiretest.Must(codes.PropagateNHC(nil, r.value, r.nextHop, self))(t)
	proxy, ok, err := codes.ReadNHC(propagated, self.Addr)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr(proxy6), proxy)
	require.Len(t, propagated, 4+16+4+16)
}

// ExaBGP originates the attribute, given as octets in its configuration, and prints the
// received one.
func TestExaBGP(t *testing.T) {
	exabgp := wiretest.Tool(t, "exabgp")
	home, exa := wiretest.Home(t), wiretest.NewHost(t, "exa")
	wiretest.Link(t,
		wiretest.End{Host: home, Device: "exa", Addresses: []string{transitToOrigin + "/24"}},
		wiretest.End{Host: exa, Device: "home", Addresses: []string{originAddr + "/24"}})

	dir := t.TempDir()
	received := filepath.Join(dir, "received")
	config := filepath.Join(dir, "exabgp.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `process watch {
	run /bin/sh -c "cat >%s";
	encoder json;
}
neighbor %s {
	router-id %s;
	local-address %[3]s;
	local-as %d;
	peer-as %d;
	family { ipv4 unicast; }
	api { processes [ watch ]; receive { parsed; update; } }
	static { route %s next-hop %[3]s attribute [ 0x27 0xc0 0x%[7]x ]; }
}
`, received, transitToOrigin, originAddr, originAS, transitAS, senders4, value4(t)), 0o600))

	transit := newSpeaker(t, transitAS, transitToOrigin, transitToOrigin)
	transit.neighbour(t, transitToOrigin, originAddr, originAS, true)
	exa.Start(t, "env", "exabgp.daemon.user=root", "exabgp.daemon.drop=false", "exabgp.api.cli=false",
		"exabgp.log.destination=stdout", exabgp, config)

	r := transit.await(t, senders4)
	require.Equal(t, value4(t), r.value)
	require.Equal(t, netip.MustParseAddr(originAddr), r.nextHop)
	proxy, ok, err := codes.ReadNHC(r.value, r.nextHop)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr(proxy4), proxy)

	transit.announce(t, "198.18.0.0/24", transitToOrigin, value4(t))
	want := strings.ToUpper(hex.EncodeToString(value4(t)))
	wiretest.Await(t, "exabgp prints the attribute", func() bool {
		b, _ := os.ReadFile(received)
		return strings.Contains(strings.ToUpper(string(b)), "0X"+want)
	})
}

// speaker is a GoBGP server in the test.
type speaker struct {
	as  uint32
	bgp *server.BgpServer
}

// newSpeaker starts a server that listens on these addresses.
func newSpeaker(t *testing.T, as uint32, id string, listen ...string) *speaker {
	s := &speaker{as, server.NewBgpServer()}
	go s.bgp.Serve()
	port := int32(-1)
	if len(listen) > 0 {
		port = 179
	}
	require.NoError(t, s.bgp.StartBgp(context.Background(),
		&api.StartBgpRequest{Global: &api.Global{Asn: as, RouterId: id, ListenPort: port, ListenAddresses: listen}}))
	t.Cleanup(s.bgp.Stop)
	return s
}

func (s *speaker) neighbour(t *testing.T, local, addr string, as uint32, passive bool) {
	var families []*api.AfiSafi
	for _, afi := range []api.Family_Afi{api.Family_AFI_IP, api.Family_AFI_IP6} {
		families = append(families, &api.AfiSafi{Config: &api.AfiSafiConfig{Family: &api.Family{Afi: afi,
			Safi: api.Family_SAFI_UNICAST}, Enabled: true}})
	}
	require.NoError(t, s.bgp.AddPeer(context.Background(), &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: addr, PeerAsn: as},
		Transport: &api.Transport{LocalAddress: local, PassiveMode: passive},
		Timers:    &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, IdleHoldTimeAfterReset: 1}},
		AfiSafis:  families,
	}}))
}

// path returns a path with the attribute, or without it if value is nil.
func path(t *testing.T, prefix, nextHop string, value []byte) *apiutil.Path {
	nlri := wiretest.Must(bgp.NewIPAddrPrefix(netip.MustParsePrefix(prefix)))(t)
	attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0)}
	family := bgp.RF_IPv4_UC
	if hop := netip.MustParseAddr(nextHop); hop.Is4() {
		a := wiretest.Must(bgp.NewPathAttributeNextHop(hop))(t)
		attrs = append(attrs, a)
	} else {
		family = bgp.RF_IPv6_UC
		a := wiretest.Must(bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{{NLRI: nlri}}, hop))(t)
		attrs = append(attrs, a)
	}
	if value != nil {
		attrs = append(attrs, bgp.NewPathAttributeUnknown(pnc.AttributeNHCFlags, pnc.AttributeNHC, value))
	}
	return &apiutil.Path{Family: family, Nlri: nlri, Attrs: attrs}
}

func (s *speaker) announce(t *testing.T, prefix, nextHop string, value []byte) {
	_, err := s.bgp.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{path(t, prefix, nextHop, value)}})
	require.NoError(t, err)
}

func (s *speaker) withdraw(t *testing.T, prefix string) {
	nextHop := originAddr
	if strings.Contains(prefix, ":") {
		nextHop = originAddr6
	}
	p := path(t, prefix, nextHop, nil)
	p.Withdrawal = true
	_, err := s.bgp.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{p}})
	require.NoError(t, err)
}

// route has the tested properties of a path.
type route struct {
	nextHop netip.Addr
	flags   bgp.BGPAttrFlag
	value   []byte
}

// routes returns the speaker's paths to a prefix.
func (s *speaker) routes(t *testing.T, prefix string) (all []route) {
	family := bgp.RF_IPv4_UC
	if netip.MustParsePrefix(prefix).Addr().Is6() {
		family = bgp.RF_IPv6_UC
	}
	err := s.bgp.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: family},
		func(nlri bgp.NLRI, paths []*apiutil.Path) {
			if nlri.String() != prefix {
				return
			}
			for _, p := range paths {
				var r route
				for _, a := range p.Attrs {
					switch a := a.(type) {
					case *bgp.PathAttributeNextHop:
						r.nextHop = a.Value
					case *bgp.PathAttributeMpReachNLRI:
						r.nextHop = a.Nexthop
					case *bgp.PathAttributeUnknown:
						if a.Type == pnc.AttributeNHC {
							r.flags, r.value = a.Flags, a.Value
						}
					}
				}
				all = append(all, r)
			}
		})
	require.NoError(t, err)
	return all
}

// await waits for a route to a prefix and returns it.
func (s *speaker) await(t *testing.T, prefix string) (r route) {
	wiretest.Await(t, fmt.Sprintf("AS %d has %s", s.as, prefix), func() bool {
		all := s.routes(t, prefix)
		if len(all) == 0 {
			return false
		}
		r = all[0]
		return true
	})
	return r
}
