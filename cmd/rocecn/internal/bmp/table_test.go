package bmp

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/acl"
)

// The octets are from the figures of RFC 7854 (BMP), RFC 4271 (BGP), RFC 4760 (MP_REACH_NLRI), RFC 7911 (ADD-PATH) and
// draft-ietf-idr-nhc (attribute 39).

// code is the code of the PNC characteristic in the tests.
const code = 0xFF01

var (
	start  = time.Unix(1_800_000_000, 0)
	router = netip.MustParseAddr("192.0.2.1")
	sender = netip.MustParseAddr("2001:db8:1::7")
)

// unhex returns the octets of hexadecimal digits with any blanks.
func unhex(text string) []byte {
	octets, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		panic(err)
	}
	return octets
}

// bmpMessage returns a BMP message: version 3, length, type, body.
func bmpMessage(kind uint8, body ...[]byte) []byte {
	m := []byte{3, 0, 0, 0, 0, kind}
	for _, b := range body {
		m = append(m, b...)
	}
	binary.BigEndian.PutUint32(m[1:], uint32(len(m)))
	return m
}

// A peer of the router, and the view of its routes.
type peer struct {
	kind  uint8 // peer type
	flags uint8
	vrf   uint8 // last octet of the peer distinguisher
	host  uint8 // last octet of the address 198.51.100.0/24
}

// header returns the per-peer header. The time is not available.
func (p peer) header() []byte {
	return unhex(fmt.Sprintf("%02x %02x 00000000000000%02x 000000000000000000000000 c63364%02x 0000fde9 c63364%02x "+
		"00000000 00000000", p.kind, p.flags, p.vrf, p.host, p.host))
}

// bgpMessage returns a BGP message.
func bgpMessage(kind string, body string) []byte {
	m := append(unhex(strings.Repeat("ff", 16)+"0000"+kind), unhex(body)...)
	binary.BigEndian.PutUint16(m[16:], uint16(len(m)))
	return m
}

// update returns a Route Monitoring message with an UPDATE of path attributes.
func (p peer) update(attributes ...string) []byte {
	all := strings.Join(attributes, "")
	return bmpMessage(0, p.header(), bgpMessage("02", fmt.Sprintf("0000 %04x %s", len(unhex(all)), all)))
}

// open is an OPEN message without, and openPaths one with the ADD-PATH capability: IPv6 unicast, send and receive.
var (
	open      = bgpMessage("01", "04 fde9 00b4 c6336401 00")
	openPaths = bgpMessage("01", "04 fde9 00b4 c6336401 08  02 06 45 04 0002 01 03")
)

// sendUp returns a Peer Up message.
func (p peer) sendUp(open []byte) []byte {
	return bmpMessage(3, p.header(), make([]byte, 12), unhex("c6336401 00b3 c001"), open, open)
}

// sendDown returns a Peer Down message: the remote system closed the session.
func (p peer) sendDown() []byte { return bmpMessage(2, p.header(), []byte{4}) }

// Path attributes.
const (
	origin    = "40 01 01 00"
	asPath    = "40 02 06 02 01 0000fde9"             // 65001
	asPath2   = "40 02 0a 02 02 0000fde9 0000fdea"    // 65001 65002
	pref200   = "40 05 04 000000c8"                   // LOCAL_PREF 200
	net64     = "40 20010db800010000"                 // 2001:db8:1::/64
	net128    = "80 20010db8000100000000000000000007" // 2001:db8:1::7/128
	net48     = "30 20010db80001"                     // 2001:db8:1::/48
	anyNet    = "00"                                  // ::/0
	endOfRIB6 = "80 0f 03 0002 01"
)

// reach announces IPv6 prefixes with the next hop 2001:db8::1.
func reach(prefixes string) string {
	return fmt.Sprintf("80 0e %02x 0002 01 10 20010db8000000000000000000000001 00 %s",
		21+len(unhex(prefixes)), prefixes)
}

// unreach withdraws IPv6 prefixes.
func unreach(prefixes string) string {
	return fmt.Sprintf("80 0f %02x 0002 01 %s", 3+len(unhex(prefixes)), prefixes)
}

// nhc names the proxy 2001:db8:ffff:: with a last octet. The attribute has passed a router that does not know it, which
// has set the Partial bit.
func nhc(proxy uint8) string {
	return "e0 27 28 0002 01 10 20010db8000000000000000000000001" +
		fmt.Sprintf("ff01 0010 20010db8ffff000000000000000000%02x", proxy)
}

func proxyAddr(last uint8) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xff, 0xff, 15: last})
}

var (
	peer1   = peer{host: 1}
	peer2   = peer{host: 2}
	post1   = peer{flags: 0x40, host: 1}
	chosen  = peer{kind: 3} // Loc-RIB
	toPeer1 = peer{flags: 0x10, host: 1}
	ofVRF   = peer{kind: 1, vrf: 1, host: 1}
)

// Each row has the messages of one session, and the proxy of the sender after them, 0 for none.
func TestReceive(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages [][]byte
		proxy    uint8
	}{
		{"a route with a proxy", [][]byte{peer1.sendUp(open), peer1.update(origin, asPath, nhc(1), reach(net64))}, 1},
		{"without Peer Up", [][]byte{peer1.update(origin, asPath, nhc(1), reach(net64))}, 1},
		{"a route without a proxy", [][]byte{peer1.update(origin, asPath, reach(net64))}, 0},
		{"the longest prefix counts", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), peer1.update(origin, asPath, nhc(2), reach(net128)),
			peer1.update(origin, asPath, nhc(3), reach(net48)),
		}, 2},
		{"several prefixes in one UPDATE", [][]byte{peer1.update(origin, asPath, nhc(1), reach(net48+net64))}, 1},
		{"withdrawn", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), peer1.update(unreach(net64)),
		}, 0},
		{"the longer prefix is withdrawn", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), peer1.update(origin, asPath, nhc(2), reach(net128)),
			peer1.update(unreach(net128)),
		}, 1},
		{"replaced by another proxy", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), peer1.update(origin, asPath, nhc(2), reach(net64)),
		}, 2},
		{"replaced by a route without a proxy", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), peer1.update(origin, asPath, reach(net64)),
		}, 0},
		{"Peer Down withdraws all", [][]byte{
			peer1.sendUp(open), peer1.update(origin, asPath, nhc(1), reach(net64)), peer1.sendDown(),
		}, 0},
		{"Peer Down of another peer", [][]byte{
			peer1.sendUp(open), peer1.update(origin, asPath, nhc(1), reach(net64)), peer2.sendDown(),
		}, 1},
		{"Peer Down is for both policies", [][]byte{
			post1.update(origin, asPath, nhc(1), reach(net64)), peer1.sendDown(),
		}, 0},
		{"of two peers the lowest address", [][]byte{
			peer1.update(origin, asPath, nhc(2), reach(net64)), peer2.update(origin, asPath, nhc(1), reach(net64)),
		}, 1},
		{"of two peers the highest LOCAL_PREF", [][]byte{
			peer1.update(origin, asPath2, nhc(2), pref200, reach(net64)),
			peer2.update(origin, asPath, nhc(1), reach(net64)),
		}, 2},
		{"of two peers the shortest AS_PATH", [][]byte{
			peer1.update(origin, asPath, nhc(2), reach(net64)), peer2.update(origin, asPath2, nhc(1), reach(net64)),
		}, 2},
		{"of two peers the one that is left", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), peer2.update(origin, asPath, nhc(2), reach(net64)),
			peer1.sendDown(),
		}, 2},
		{"a view after the policy replaces those before it", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), post1.update(origin, asPath, nhc(2), reach(net48)),
			peer2.update(origin, asPath, nhc(3), reach(net128)),
		}, 2},
		{"a Loc-RIB replaces the peers", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net128)), chosen.update(origin, asPath, nhc(2), reach(net64)),
			post1.update(origin, asPath, nhc(3), reach(net128)),
		}, 2},
		{"the Loc-RIB is no longer reported: the routes of the peers, before the policy", [][]byte{
			peer1.sendUp(open), peer1.update(origin, asPath, nhc(1), reach(net128)),
			chosen.update(origin, asPath, nhc(2), reach(net64)), chosen.sendDown(),
		}, 1},
		{"the same, after the policy", [][]byte{
			post1.update(origin, asPath, nhc(1), reach(net64)), chosen.update(origin, asPath, nhc(2), reach(net64)),
			peer1.update(origin, asPath, nhc(3), reach(net128)), chosen.sendDown(),
		}, 1},
		{"the same, the route was withdrawn before", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)), chosen.update(origin, asPath, nhc(2), reach(net64)),
			peer1.update(unreach(net64)), chosen.sendDown(),
		}, 2}, // is held
		{"the only peer after the policy goes down: routes before it", [][]byte{
			peer1.sendUp(open), peer2.sendUp(open), peer2.update(origin, asPath, nhc(2), reach(net64)),
			post1.update(origin, asPath, nhc(1), reach(net48)), peer1.sendDown(),
		}, 2},
		{"one of two peers after the policy goes down", [][]byte{
			peer2.update(origin, asPath, nhc(3), reach(net128)),
			peer{flags: 0x40, host: 2}.update(origin, asPath, nhc(2), reach(net64)),
			post1.update(origin, asPath, nhc(1), reach(net48)), peer1.sendDown(),
		}, 2},
		{"the end of the routes of a view that is not reported", [][]byte{
			peer1.sendUp(open), post1.update(endOfRIB6), peer1.update(origin, asPath, nhc(1), reach(net64)),
			post1.update(endOfRIB6), post1.update(),
		}, 1},
		{"another view of the other family", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)),
			bmpMessage(0, post1.header(), bgpMessage("02", "0000 0014"+origin+asPath+"400304 c6336401"+"18 c00002")),
			post1.update(unreach(net48)),
		}, 1},
		{"routes that the router sends", [][]byte{toPeer1.update(origin, asPath, nhc(1), reach(net64))}, 0},
		{"routes of a VRF", [][]byte{ofVRF.sendUp(open), ofVRF.update(origin, asPath, nhc(1), reach(net64))}, 0},
		{"two paths of one prefix", [][]byte{
			peer1.sendUp(openPaths), peer1.update(origin, asPath, nhc(1), reach("00000001"+net64)),
			peer1.update(origin, asPath, nhc(2), reach("00000002"+net64)), peer1.update(unreach("00000001" + net64)),
		}, 2},
		{"the default route", [][]byte{peer1.update(origin, asPath, nhc(1), reach(anyNet))}, 0},
		{"another next hop than in the attribute", [][]byte{
			peer1.update(origin, asPath, strings.Replace(nhc(1), "20010db8", "20010db9", 1), reach(net64)),
		}, 0},
		{"another code", [][]byte{
			peer1.update(origin, asPath, strings.Replace(nhc(1), "ff01", "ff02", 1), reach(net64)),
		}, 0},
		{"a malformed attribute keeps no older proxy", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)),
			peer1.update(origin, asPath, "c0 27 02 0002", reach(net64)),
		}, 0},
		{"a malformed UPDATE withdraws its routes", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)),
			peer1.update("40 01 02 0000", asPath, nhc(1), reach(net64)),
		}, 0},
		{"statistics, mirrored routes and unknown types", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)),
			bmpMessage(1, peer1.header()), bmpMessage(6, peer1.header(), []byte{1}), bmpMessage(99, []byte{1, 2, 3}),
		}, 1},
		{"truncated messages", [][]byte{
			peer1.update(origin, asPath, nhc(1), reach(net64)),
			bmpMessage(0), bmpMessage(0, peer1.header()), bmpMessage(2, peer1.header()[:7]),
			bmpMessage(3, peer1.header(), open),
			bmpMessage(4, []byte{0}), bmpMessage(0, peer1.header(), open[:19]),
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable(code, Settings{Hold: time.Minute})
			s := wiretest.Must(table.Open(router, start))(t)
			for _, m := range c.messages {
				require.NoError(t, s.Receive(m, start))
			}
			requireProxy(t, table, c.proxy)
		})
	}
}

func requireProxy(t *testing.T, table *Table, last uint8) {
	t.Helper()
	proxy, ok := table.Lookup(sender)
	require.Equal(t, last != 0, ok, "proxy %v", proxy)
	if ok {
		require.Equal(t, proxyAddr(last), proxy)
	}
}

// IPv4 routes have their next hop in an attribute of its own.
func TestIPv4(t *testing.T) {
	table := NewTable(code, Settings{})
	s := wiretest.Must(table.Open(router, start))(t)
	const nextHop, nhc4 = "40 03 04 c6336401", "c0 27 10 0001 01 04 c6336401 ff01 0004 cb007109"
	body := origin + asPath + nextHop + nhc4
	net24 := "18 c00002"
	require.NoError(t, s.Receive(bmpMessage(0, peer1.header(),
		bgpMessage("02", fmt.Sprintf("0000 %04x %s %s", len(unhex(body)), body, net24))), start))
	proxy, ok := table.Lookup(netip.MustParseAddr("192.0.2.200"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("203.0.113.9"), proxy)
	require.NoError(t, s.Receive(bmpMessage(0, peer1.header(), bgpMessage("02", "0004"+net24+"0000")), start))
	_, ok = table.Lookup(netip.MustParseAddr("192.0.2.200"))
	require.False(t, ok)
}

// The routes of a lost session are kept for the hold time, unless the router reports them differently before.
func TestHold(t *testing.T) {
	const hold = time.Minute
	first := peer1.update(origin, asPath, nhc(1), reach(net64))
	for _, c := range []struct {
		name  string
		hold  time.Duration
		after [][]byte // messages of a second session, 10 s later
		at    time.Duration
		proxy uint8
	}{
		{"just before the end", hold, nil, hold - 1, 1},
		{"at the end", hold, nil, hold, 0},
		{"no hold time", 0, nil, 0, 0},
		{"the same route again", hold, [][]byte{peer1.sendUp(open), first}, hold, 1},
		{"connected again, no route yet", hold, [][]byte{peer1.sendUp(open)}, hold - 1, 1},
		{"connected again, the route does not come", hold, [][]byte{peer1.sendUp(open)}, hold, 0},
		{"the end of the routes", hold, [][]byte{peer1.sendUp(open), peer1.update(endOfRIB6)}, 10 * time.Second, 0},
		{"the end of the routes of IPv4", hold, [][]byte{peer1.sendUp(open), peer1.update()}, 10 * time.Second, 1},
		{"the end of the routes of another peer", hold, [][]byte{
			peer2.sendUp(open), peer2.update(endOfRIB6),
		}, hold - 1, 1},
		{"a route to the same prefix from another peer", hold, [][]byte{
			peer2.sendUp(open), peer2.update(origin, asPath2, nhc(2), reach(net64)),
		}, 10 * time.Second, 2},
		{"a withdrawal", hold, [][]byte{peer1.sendUp(open), peer1.update(unreach(net64))}, 10 * time.Second, 0},
		{"Peer Down", hold, [][]byte{peer1.sendUp(open), peer1.sendDown()}, 10 * time.Second, 0},
		{"another proxy, without Peer Up", hold, [][]byte{
			peer1.update(origin, asPath, nhc(2), reach(net64)),
		}, hold, 2},
		{"a second Peer Up does not prolong it", hold, [][]byte{peer1.sendUp(open), peer1.sendUp(open)}, hold, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable(code, Settings{Hold: c.hold})
			s := wiretest.Must(table.Open(router, start))(t)
			require.NoError(t, s.Receive(peer1.sendUp(open), start))
			require.NoError(t, s.Receive(first, start))
			s.Close(start)
			if c.after != nil {
				later := start.Add(10 * time.Second)
				table.Advance(later)
				s = wiretest.Must(table.Open(router, later))(t)
				for _, m := range c.after {
					require.NoError(t, s.Receive(m, later))
				}
			}
			table.Advance(start.Add(c.at))
			requireProxy(t, table, c.proxy)
		})
	}
}

// A second Peer Up of the same session is for routes that the router reports again: the others are held, and removed
// after the hold time, or when it has reported all.
func TestPeerUpAgain(t *testing.T) {
	const hold = time.Minute
	first := peer1.update(origin, asPath, nhc(1), reach(net64))
	for _, row := range []struct {
		name  string
		again [][]byte
		at    time.Duration // since the second Peer Up
		proxy uint8
		held  int
	}{
		{"not reported yet", nil, hold - 1, 1, 1},
		{"not reported", nil, hold, 0, 0},
		{"reported again", [][]byte{first}, hold, 1, 0},
		{"the end of the routes", [][]byte{peer1.update(endOfRIB6)}, 0, 0, 0},
		{"the end of the routes after it", [][]byte{first, peer1.update(endOfRIB6)}, hold, 1, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			table := NewTable(code, Settings{Hold: hold})
			s := wiretest.Must(table.Open(router, start))(t)
			require.NoError(t, s.Receive(peer1.sendUp(open), start))
			require.NoError(t, s.Receive(first, start))
			later := start.Add(time.Hour)
			for _, m := range append([][]byte{peer1.sendUp(open)}, row.again...) {
				require.NoError(t, s.Receive(m, later))
			}
			table.Advance(later.Add(row.at))
			requireProxy(t, table, row.proxy)
			require.Equal(t, row.held, table.Status().Held)
		})
	}
}

// Two sessions that are lost one after the other are held for their own time each.
func TestHoldOfTwoSessions(t *testing.T) {
	table := NewTable(code, Settings{Hold: time.Minute})
	for i, p := range []peer{peer1, peer2} {
		at := start.Add(time.Duration(i) * 30 * time.Second)
		s := wiretest.Must(table.Open(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), at))(t)
		require.NoError(t, s.Receive(p.sendUp(open), at))
		require.NoError(t, s.Receive(p.update(origin, asPath, nhc(p.host), reach(net64)), at))
		s.Close(at)
	}
	for _, row := range []struct {
		after time.Duration
		held  int
		proxy uint8
	}{{59 * time.Second, 2, 1}, {60 * time.Second, 1, 2}, {89 * time.Second, 1, 2}, {90 * time.Second, 0, 0}} {
		table.Advance(start.Add(row.after))
		require.Equal(t, row.held, table.Status().Held, row.after)
		require.Equal(t, row.held, table.Len(), row.after)
		requireProxy(t, table, row.proxy)
	}
}

// An invalid proxy is counted, and is not among the advertisements, neither after its withdrawal nor of a lost session.
func TestInvalidProxy(t *testing.T) {
	for _, row := range []struct {
		name  string
		after func(s *Session) error
	}{
		{"announced", func(*Session) error { return nil }},
		{"withdrawn", func(s *Session) error { return s.Receive(peer1.update(unreach(anyNet)), start) }},
		{"replaced", func(s *Session) error {
			return s.Receive(peer1.update(origin, asPath, reach(anyNet)), start)
		}},
		{"lost", func(s *Session) error { s.Close(start); return nil }},
	} {
		t.Run(row.name, func(t *testing.T) {
			table := NewTable(code, Settings{Hold: time.Minute})
			s := wiretest.Must(table.Open(router, start))(t)
			require.NoError(t, s.Receive(peer1.sendUp(open), start))
			require.NoError(t, s.Receive(peer1.update(origin, asPath, nhc(1), reach(anyNet)), start))
			require.NoError(t, row.after(s))
			got := table.Status()
			require.Equal(t, [3]int{}, [3]int{got.Proxies, got.Held, got.Prefixes})
			require.EqualValues(t, 1, got.Invalid)
			for _, r := range got.Routers {
				require.Zero(t, r.Proxies)
			}
			requireProxy(t, table, 0)
		})
	}
}

// Both views of a peer count as one peer: the router's, and the total over all routers.
func TestPeersOfStatus(t *testing.T) {
	table := NewTable(code, Settings{Hold: time.Minute})
	second := netip.MustParseAddr("192.0.2.2")
	for _, r := range []netip.Addr{second, router} {
		s := wiretest.Must(table.Open(r, start))(t)
		require.NoError(t, s.Receive(peer1.sendUp(open), start))
		require.NoError(t, s.Receive(peer1.update(origin, asPath, nhc(1), reach(net64)), start))
		if r == router {
			require.NoError(t, s.Receive(peer2.sendUp(open), start))
			require.NoError(t, s.Receive(chosen.sendUp(open), start))
		}
	}
	got := table.Status()
	require.Equal(t, []RouterStatus{{router, "", start, 3, 1}, {second, "", start, 1, 1}}, got.Routers)
	require.Equal(t, 4, got.Peers)
}

// Termination ends a session, and its routes are held. The Loc-RIB's Peer Down means that it is no longer reported.
func TestTermination(t *testing.T) {
	table := NewTable(code, Settings{Hold: time.Minute})
	s := wiretest.Must(table.Open(router, start))(t)
	require.NoError(t, s.Receive(bmpMessage(4, unhex("0002 0006 6c6561662031")), start)) // sysName "leaf 1"
	require.NoError(t, s.Receive(chosen.update(origin, asPath, nhc(1), reach(net64)), start))
	require.Equal(t, []RouterStatus{{router, "leaf 1", start, 1, 1}}, table.Status().Routers)
	require.NoError(t, s.Receive(chosen.sendDown(), start))
	require.ErrorIs(t, s.Receive(bmpMessage(5, unhex("0001 0002 0000")), start), ErrTerminated)
	s.Close(start)
	requireProxy(t, table, 1)
	require.Equal(t, 1, table.Status().Held)
	table.Advance(start.Add(time.Minute))
	requireProxy(t, table, 0)
	require.Equal(t, Status{Counts: Counts{Messages: 4}}, table.Status())
	require.Empty(t, table.views)
}

// The newest session of a router counts for each peer.
func TestConnectedTwice(t *testing.T) {
	table := NewTable(code, Settings{Hold: time.Minute})
	old := wiretest.Must(table.Open(router, start))(t)
	require.NoError(t, old.Receive(peer1.sendUp(open), start))
	require.NoError(t, old.Receive(peer1.update(origin, asPath, nhc(1), reach(net64)), start))
	s := wiretest.Must(table.Open(router, start))(t)
	require.NoError(t, s.Receive(peer1.sendUp(open), start))
	require.NoError(t, s.Receive(peer1.update(origin, asPath, nhc(2), reach(net64)), start))
	require.NoError(t, old.Receive(peer1.update(origin, asPath, nhc(1), reach(net64)), start))
	requireProxy(t, table, 2)
	old.Close(start)
	requireProxy(t, table, 2)
	require.Zero(t, table.Status().Held)
}

func TestLimits(t *testing.T) {
	t.Run("routers", func(t *testing.T) {
		table := NewTable(code, Settings{})
		for range MaxRouters {
			wiretest.Must(table.Open(router, start))(t)
		}
		_, err := table.Open(router, start)
		require.EqualError(t, err, "64 routers are connected: want at most this many")
		require.EqualValues(t, 1, table.Status().Rejected)
		table.sessions[0].Close(start)
		_, err = table.Open(router, start)
		require.NoError(t, err)
	})
	t.Run("accepted routers", func(t *testing.T) {
		table := NewTable(code, Settings{Accept: acl.New(netip.MustParsePrefix("192.0.2.0/24"))})
		s := wiretest.Must(table.Open(router, start))(t)
		_, err := table.Open(netip.MustParseAddr("192.0.3.1"), start)
		require.EqualError(t, err, "the address of the router is not in accept")
		table.Configure(Settings{Accept: acl.New(netip.MustParsePrefix("192.0.3.0/24"))})
		require.Error(t, s.Receive(peer1.sendUp(open), start))
	})
	t.Run("peers", func(t *testing.T) {
		table := NewTable(code, Settings{})
		s := wiretest.Must(table.Open(router, start))(t)
		for n := range MaxPeers {
			h := peer1.header()
			binary.BigEndian.PutUint32(h[22:], uint32(n))
			require.NoError(t, s.Receive(bmpMessage(0, h, bgpMessage("02", "0000 0000")), start))
		}
		require.NoError(t, s.Receive(peer1.update(origin, asPath, nhc(1), reach(net64)), start))
		requireProxy(t, table, 0)
		require.Len(t, table.views, MaxPeers)
		require.EqualValues(t, 1, table.Status().Full)
	})
	t.Run("proxies", func(t *testing.T) {
		table := NewTable(code, Settings{Hold: time.Minute})
		s := wiretest.Must(table.Open(router, start))(t)
		const perUpdate = 100
		for n := 0; n <= MaxProxies; n += perUpdate {
			var prefixes strings.Builder
			for i := range perUpdate {
				fmt.Fprintf(&prefixes, "38 20010db8%06x", n+i)
			}
			// Its length takes two octets.
			long := strings.Replace(reach("00"), "80 0e 16", fmt.Sprintf("90 0e %04x", 21+8*perUpdate), 1)
			require.NoError(t, s.Receive(peer1.update(origin, asPath, nhc(1),
				strings.TrimSuffix(long, "00")+prefixes.String()), start))
		}
		require.Equal(t, MaxProxies, table.Status().Proxies)
		require.NotZero(t, table.Status().Full)
		s.Close(start)
		require.Equal(t, MaxProxies, table.Status().Held)
		requireProxy(t, table, 1)
		table.Advance(start.Add(time.Minute))
		require.Zero(t, table.Status().Proxies)
	})
}

// Routes of views that are not used have a maximum of their own, count nowhere else, and end with their session.
func TestUnusedViews(t *testing.T) {
	table := NewTable(code, Settings{Hold: time.Minute})
	s := wiretest.Must(table.Open(router, start))(t)
	receive := func(m []byte) { require.NoError(t, s.Receive(m, start)) }
	receive(chosen.update(origin, asPath, nhc(2), reach(net64)))
	receive(peer1.update(origin, asPath, nhc(1), reach(net64+net128)))
	status := table.Status()
	require.Equal(t, 1, status.Proxies)
	require.Equal(t, 1, status.Routers[0].Proxies)
	require.Equal(t, 2, status.Routers[0].Peers)
	require.Equal(t, 2, table.unused)
	table.unused = MaxProxies
	receive(peer1.update(origin, asPath, nhc(1), reach(net48)))
	require.EqualValues(t, 1, table.Status().Full)
	table.unused = 2
	s.Close(start)
	require.Zero(t, table.unused)
	require.Equal(t, 1, table.Status().Held)
	table.Advance(start.Add(time.Minute))
	require.Zero(t, table.Status().Proxies)
	require.Empty(t, table.views)
}
