//go:build linux

package igptest

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
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

// ospfAPI is a client of ospfd's API (ospfd --apiserver), with which a program originates
// opaque LSAs and reads the link state database. FRRouting's own client library is not
// in Debian.
//
// A message has version 1, type, length (16 bits), sequence number (32 bits) and data.
// The client sends requests on one connection; ospfd sends notifications on a second
// one, which it opens to the client's next port.
type ospfAPI struct {
	host  *wiretest.Host
	asks  net.Conn
	seq   uint32
	mu    sync.Mutex
	lsas  map[lsaKey][]byte // link state database
	ready map[uint8]bool    // LSA types with a neighbour
}

// Types of messages.
const (
	registerOpaqueType = 1
	registerEvent      = 3
	syncLSDB           = 4
	originateRequest   = 5
	deleteRequest      = 6
	reply              = 10
	readyNotify        = 11
	lsaUpdateNotify    = 12
	lsaDeleteNotify    = 13
)

const (
	opaqueArea = 10 // LSA types of opaque LSAs (RFC 5250)
	opaqueAS   = 11
)

// lsaKey identifies an LSA: area, and the header's type, link state id and advertising
// router.
type lsaKey struct {
	area [4]byte
	lsa  [9]byte
}

func keyOf(area [4]byte, lsa []byte) lsaKey { return lsaKey{area, [9]byte(lsa[3:12])} }

// dialOSPF connects to the ospfd of a host and reads its database.
func dialOSPF(t *testing.T, h *wiretest.Host) *ospfAPI {
	t.Helper()
	const server, client = 2607, 4000
	c := &ospfAPI{host: h, lsas: map[lsaKey][]byte{}, ready: map[uint8]bool{}}
	var news net.Conn
	h.Do(t, func() error {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", client+1))
		if err != nil {
			return err
		}
		defer l.Close()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: client}, Timeout: wiretest.Timeout}
		if c.asks, err = d.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", server)); err != nil {
			return err
		}
		if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(wiretest.Timeout)); err != nil {
			return err
		}
		news, err = l.Accept()
		return err
	})
	t.Cleanup(func() { c.asks.Close(); news.Close() })
	go c.listen(news)
	everything := []byte{0xFF, 0xFF, 2, 0} // all types of LSA, of any origin, in all areas
	c.ask(t, registerEvent, everything)
	c.ask(t, syncLSDB, everything)
	return c
}

// message encodes a message.
func (c *ospfAPI) message(typ uint8, data []byte) []byte {
	c.seq++
	b := binary.BigEndian.AppendUint16([]byte{1, typ}, uint16(len(data)))
	return append(binary.BigEndian.AppendUint32(b, c.seq), data...)
}

// readMessage reads a message.
func readMessage(r io.Reader) (typ uint8, data []byte, err error) {
	var h [8]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	data = make([]byte, binary.BigEndian.Uint16(h[2:]))
	_, err = io.ReadFull(r, data)
	return h[1], data, err
}

// try sends a request and returns the error code of the answer, 0 on success.
func (c *ospfAPI) try(t *testing.T, typ uint8, data []byte) int8 {
	t.Helper()
	require.NoError(t, c.asks.SetDeadline(time.Now().Add(wiretest.Timeout)))
	_, err := c.asks.Write(c.message(typ, data))
	require.NoError(t, err, c.host.Name)
	answer, data, err := readMessage(c.asks)
	require.NoError(t, err, c.host.Name)
	require.EqualValues(t, reply, answer)
	return int8(data[0])
}

func (c *ospfAPI) ask(t *testing.T, typ uint8, data []byte) {
	t.Helper()
	require.Zero(t, c.try(t, typ, data), "%s: message %d refused", c.host.Name, typ)
}

// listen stores the notifications until the connection ends.
func (c *ospfAPI) listen(news net.Conn) {
	for {
		typ, data, err := readMessage(news)
		if err != nil {
			return
		}
		c.mu.Lock()
		switch {
		case typ == readyNotify && len(data) >= 8:
			c.ready[data[0]] = true
		case typ == lsaUpdateNotify && len(data) >= 32: // interface, area, self-originated, LSA
			c.lsas[keyOf([4]byte(data[4:]), data[12:])] = data[12:]
		case typ == lsaDeleteNotify && len(data) >= 32:
			delete(c.lsas, keyOf([4]byte(data[4:]), data[12:]))
		}
		c.mu.Unlock()
	}
}

// register announces that this client originates LSAs of AS scope with this opaque
// type, and waits for a neighbour that supports them. (ospfd does not allow clients to
// originate Extended Prefix LSAs of area scope.)
func (c *ospfAPI) register(t *testing.T, opaqueType uint8) {
	t.Helper()
	c.ask(t, registerOpaqueType, []byte{opaqueAS, opaqueType, 0, 0})
	wiretest.Await(t, c.host.Name+" takes opaque LSAs", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.ready[opaqueAS]
	})
}

// originate floods an opaque LSA of AS scope.
func (c *ospfAPI) originate(t *testing.T, opaqueType, id uint8, body []byte) {
	t.Helper()
	lsa := []byte{0, 0, 0, opaqueAS, opaqueType, 0, 0, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	lsa = binary.BigEndian.AppendUint16(lsa, uint16(20+len(body)))
	request := slices.Concat(make([]byte, 8), lsa, body)
	wiretest.Await(t, c.host.Name+" originates", func() bool { return c.try(t, originateRequest, request) == 0 })
}

// withdraw withdraws an LSA.
func (c *ospfAPI) withdraw(t *testing.T, opaqueType, id uint8) {
	t.Helper()
	c.ask(t, deleteRequest, []byte{0, 0, 0, 0, opaqueAS, opaqueType, 0, 0, 0, 0, 0, id})
}

// lsasOf returns the LSAs of one router.
func (c *ospfAPI) lsasOf(router [4]byte) (all [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lsa := range c.lsas {
		if [4]byte(lsa[8:]) == router {
			all = append(all, lsa)
		}
	}
	return all
}
