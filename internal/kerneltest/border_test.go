//go:build linux

package kerneltest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// A frontier is a router between two hosts: the border of a domain.
//
//	outside ── border ── inside
type frontier struct {
	border *host
	sides  [2]side
}

// A side is a host with the two ends of its cable.
type side struct {
	host         *host
	end, router  *tap
	addr4, addr6 netip.Addr
}

func newFrontier(t *testing.T) *frontier {
	t.Helper()
	f := &frontier{border: newHost(t, "border")}
	f.border.set(t, "ipv4/conf/all/forwarding", 1)
	f.border.set(t, "ipv6/conf/all/forwarding", 1)
	for i, name := range []string{"outside", "inside"} {
		s := side{host: newHost(t, name)}
		s.addr4 = netip.AddrFrom4([4]byte{10, 0, byte(i), 1})
		s.addr6 = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, byte(i), 15: 1})
		connect(t, s.host, "eth0", f.border, name)
		for _, a := range []netip.Addr{s.addr4, s.addr6} {
			bits := a.BitLen() - 8
			s.host.address(t, "eth0", fmt.Sprintf("%v/%d", a, bits))
			s.host.ip(t, fmt.Sprintf("route add default via %v", a.Next()))
			f.border.address(t, name, fmt.Sprintf("%v/%d", a.Next(), bits))
		}
		s.end, s.router = s.host.tap(t, "eth0"), f.border.tap(t, name)
		f.sides[i] = s
	}
	return f
}

// Packets carry a number in a field that no router changes: the flow label or the IPv4 identification.
const lastPacket = 0xFFFF

func numberOf(ip []byte) int {
	if ip[0]>>4 == 4 {
		return int(binary.BigEndian.Uint16(ip[4:]))
	}
	return int(binary.BigEndian.Uint32(ip) & 0xFFFFF)
}

// isSame reports whether two packets are equal except for hop limit, checksum and octets after the end of the
// packet.
func isSame(got, sent []byte) bool {
	if len(got) < 20 || len(sent) < len(got) || got[0] != sent[0] {
		return false
	}
	if got[0]>>4 == 4 {
		return string(got[1:8]) == string(sent[1:8]) && string(got[12:]) == string(sent[12:len(got)])
	}
	return string(got[:7]) == string(sent[:7]) && string(got[8:]) == string(sent[8:len(got)])
}

// address turns a packet into one that a router can forward from one side to the other, and leaves other errors in
// it.
func address(ip []byte, number int, from, to *side) {
	if ip[0]>>4 == 4 {
		ip[8] = 64
		binary.BigEndian.PutUint16(ip[4:], uint16(number))
		copy(ip[12:], from.addr4.AsSlice())
		copy(ip[16:], to.addr4.AsSlice())
		ip[10], ip[11] = 0, 0
		binary.BigEndian.PutUint16(ip[10:], checksum(ip[:min(len(ip), int(ip[0]&15)*4)]))
		return
	}
	binary.BigEndian.PutUint32(ip, 6<<28|uint32(number))
	ip[7] = 64
	copy(ip[8:], from.addr6.AsSlice())
	copy(ip[24:], to.addr6.AsSlice())
}

// checksum returns the checksum of an IPv4 header.
func checksum(header []byte) uint16 {
	var sum uint32
	for ; len(header) >= 2; header = header[2:] {
		sum += uint32(binary.BigEndian.Uint16(header))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return ^uint16(sum)
}

// cross sends packets from one side to the other, and returns the numbers of those that arrive.
func (f *frontier) cross(t *testing.T, from, to *side, packets [][]byte) map[int]bool {
	t.Helper()
	arrived := map[int]bool{}
	last := make([]byte, 48)
	last[5], last[6] = 8, protoUDP
	last[43], last[45] = 9, 8 // to port 9, eight octets
	last[0] = 6 << 4
	address(last, lastPacket, from, to)
	for batch := range slices.Chunk(packets, 50) { // the capacity of a socket's buffer
		for _, p := range append(slices.Clone(batch), last) {
			from.end.sendIP(t, from.router, p)
		}
		to.end.receive(t, "last packet of a batch", func(frame []byte) bool {
			ip := frame[min(14, len(frame)):]
			if isSame(ip, last) {
				return true
			}
			for _, p := range batch {
				if isSame(ip, p) {
					arrived[numberOf(p)] = true
				}
			}
			return false
		})
	}
	return arrived
}

const protoUDP = 17

// crossings returns random packets from one side to the other.
func crossings(from, to *side, n int) (packets [][]byte) {
	random := wiretest.NewFrames(uint64(n))
	for number := range n {
		ip := random.IP()
		random.Mutate(ip)
		if m := random.Mutate(ip); len(m) >= 40 && m[0]>>4 == ip[0]>>4 {
			ip = m
		}
		address(ip, number, from, to)
		packets = append(packets, ip)
	}
	return packets
}

// plain reports whether the rules must agree with Match about a packet: it is complete, has no tunnel and no
// fragment, and at most four extension headers. It also reports whether the packet is a CNP with a Destination
// Options header, which the rules always drop.
func plain(ip []byte) (plain, optionsCNP bool) {
	if ip = framed(ip).Outer().IP(); ip == nil {
		return false, false
	}
	if ip[0]>>4 == 4 {
		n := int(ip[0]&15) * 4
		return binary.BigEndian.Uint16(ip[6:])&0x3FFF == 0 && n >= 20 && len(ip) >= n+21 && !tunnels(ip[9], ip[n:]),
			false
	}
	next, rest, options := ip[6], ip[40:], false
	for n := 0; next == 0 || next == 43 || next == 60; n++ {
		if n == 4 || len(rest) < 8 || len(rest) < 8+8*int(rest[1]) {
			return false, false
		}
		options = options || next == 60
		next, rest = rest[0], rest[8+8*int(rest[1]):]
	}
	if next == 44 || len(rest) < 21 || tunnels(next, rest) {
		return false, false
	}
	return true, options && next == protoUDP && binary.BigEndian.Uint16(rest[2:]) == rocev2.Port &&
		rest[8] == uint8(bth.CNP)
}

func tunnels(protocol uint8, rest []byte) bool {
	if protocol == protoUDP {
		return slices.Contains([]uint16{4789, 6081, 6635}, binary.BigEndian.Uint16(rest[2:]))
	}
	return slices.Contains([]uint8{4, 41, 47, 137, 143}, protocol)
}

// No message crosses a router with the rules, in either direction. Random packets cross if they crossed without
// the rules and Match passes them.
func TestLinuxBorder(t *testing.T) {
	requireRules(t)
	f := newFrontier(t)
	outside, inside := &f.sides[0], &f.sides[1]
	directions := [][2]*side{{outside, inside}, {inside, outside}}
	const n = 2000
	var without [2]map[int]bool
	for i, d := range directions {
		without[i] = f.cross(t, d[0], d[1], crossings(d[0], d[1], n))
		require.Greater(t, len(without[i]), n/2)
	}
	for _, b := range []filter.Border{{}, {CNP: true}, {PPFC: true}, {CNP: true, PPFC: true, FCNPort: 53}} {
		for _, rules := range rulesOf(t, &b) {
			t.Run(fmt.Sprintf("%s cnp=%v ppfc=%v", rules.name, b.CNP, b.PPFC), func(t *testing.T) {
				f.border.Run(t, rules.load, "sh", "-e")
				defer f.border.Run(t, rules.undo, "sh", "-e")
				var crossed, dropped, equal int
				for i, d := range directions {
					packets := crossings(d[0], d[1], n)
					with := f.cross(t, d[0], d[1], packets)
					for number, ip := range packets {
						kind, drop := b.Match(framed(ip))
						plain, optionsCNP := plain(ip)
						switch {
						case drop, !without[i][number]:
							dropped++
							require.False(t, with[number], "%v crossed: %x", kind, ip)
						case plain && (rules.exact || !optionsCNP):
							equal++
							require.True(t, with[number], "%v did not cross: %x", kind, ip)
						}
						if with[number] {
							crossed++
						}
					}
				}
				t.Logf("%d crossed, %d dropped, %d as without rules", crossed, dropped, equal)
				require.Greater(t, equal, n/4)
			})
		}
	}
}

// A Fast CNP in each encapsulation crosses a router with the rules exactly if it is documented to do so: see the table
// of docs/roles/border.md.
func TestLinuxBorderEncapsulations(t *testing.T) {
	requireRules(t)
	f := newFrontier(t)
	outside, inside := &f.sides[0], &f.sides[1]
	all := wiretest.EncapsulatedFastCNPs(t)
	require.Len(t, all, 24)
	var packets [][]byte
	for i, c := range all {
		address(c.IP, i, outside, inside)
		packets = append(packets, c.IP)
	}
	require.Len(t, f.cross(t, outside, inside, packets), len(all), "without rules")
	for _, b := range []filter.Border{{TunnelPorts: []uint16{5555}}, {TunnelPorts: []uint16{5555}, DropTunnels: true}} {
		for _, rules := range rulesOf(t, &b) {
			t.Run(fmt.Sprintf("%s tunnels=%v", rules.name, b.DropTunnels), func(t *testing.T) {
				f.border.Run(t, rules.load, "sh", "-e")
				defer f.border.Run(t, rules.undo, "sh", "-e")
				arrived := f.cross(t, outside, inside, packets)
				for i, c := range all {
					require.Equal(t, c.Rules || b.DropTunnels && c.All, !arrived[i], c.Name)
				}
			})
		}
	}
}

// requireRules requires the tools that load the rules.
func requireRules(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"nft", "iptables", "ip6tables", "tc"} {
		wiretest.Tool(t, tool)
	}
}

// rules are the commands that install one kind of border rules on a router.
type rules struct {
	name       string
	load, undo string // shell commands
	exact      bool   // agrees with Match for CNPs with other options as well
}

// rulesOf returns the rules of a border for all tools.
func rulesOf(t *testing.T, b *filter.Border) []rules {
	return []rules{
		{"nftables", "nft -f - <<'end'\n" + b.NFT("rocecn") + "end\n", "nft delete table inet rocecn", false},
		{"ip6tables", b.IP6Tables("FORWARD"), "for c in iptables ip6tables; do $c -F; $c -X; done",
			false},
		// This kernel has no action drop: selected packets go to a device without a listener.
		{"tc", `ip link add sink type veth peer name sinkpeer
			for d in outside inside; do
				tc qdisc add dev $d ingress
				tc filter add dev $d ingress bpf bytecode-file ` + bytecodeFile(t, b) +
			` action mirred egress redirect dev sink
			done`,
			"ip link del sink; for d in outside inside; do tc qdisc del dev $d ingress; done", true},
	}
}

// bytecodeFile writes the program of a border for tc, and returns the name of the file.
func bytecodeFile(t *testing.T, b *filter.Border) string {
	t.Helper()
	program := wiretest.Must(b.Program(rocev2.LinkEthernet))(t)
	return wiretest.File(t, "border.bpf", filter.Bytecode(program)+"\n")
}

// RoCEv2 data and CNPs of the inside cross, and messages of the capture do not.
func TestLinuxBorderLetsDataCross(t *testing.T) {
	wiretest.Tool(t, "nft")
	f := newFrontier(t)
	outside, inside := &f.sides[0], &f.sides[1]
	var packets [][]byte
	for i, p := range wiretest.Capture(t, "messages.pcap") {
		ip := slices.Clone(p.Data[14:])
		address(ip, i+1, outside, inside)
		packets = append(packets, ip)
	}
	f.border.Run(t, (&filter.Border{}).NFT("rocecn"), "nft", "-f", "-")
	arrived := slices.Sorted(maps.Keys(f.cross(t, outside, inside, packets)))
	// Data, acknowledgement, CNPs, PPFC, other UDP, and invalid ones of these.
	require.Equal(t, []int{1, 2, 3, 4, 9, 10, 11, 12, 17, 18, 19, 20, 22}, arrived)
	for i := range packets {
		address(packets[i], i+1, inside, outside)
	}
	require.Equal(t, arrived, slices.Sorted(maps.Keys(f.cross(t, inside, outside, packets))))
}

// The capture filters are attached to a device as tcpdump attaches them.
func TestLinuxCaptures(t *testing.T) {
	f := newFrontier(t)
	outside := &f.sides[0]
	for _, c := range []filter.Capture{{}, {Selection: filter.Notifications}, {Selection: filter.QueuePair, DestQP: 17},
		{Selection: filter.Ours}} {
		c.FCNPort, c.ProxyPort = fcn.ExperimentalPort, proxymsg.ExperimentalPort // the ports of wiretest.Frames
		program := wiretest.Must(c.Program(rocev2.LinkEthernet))(t)
		instructions, ok := bpf.Disassemble(program)
		require.True(t, ok)
		vm := wiretest.Must(bpf.NewVM(instructions))(t)
		tap := outside.host.tap(t, "eth0", program...)
		selected := map[string]int{}
		random := wiretest.NewFrames(99)
		for range 40 {
			want := map[string]int{}
			for range 50 {
				frame := random.Ethernet(0, random.IP())
				copy(frame, outside.end.mac)
				frame[6] &^= 1
				if verdict, err := vm.Run(frame); err == nil && verdict != 0 {
					want[string(frame)]++
				}
				outside.router.send(t, frame)
			}
			for len(want) > 0 {
				got := string(tap.receive(t, "selected frame", func(frame []byte) bool {
					require.Positive(t, want[string(frame)], "%x", frame)
					return true
				}))
				selected[got]++
				if want[got]--; want[got] == 0 {
					delete(want, got)
				}
			}
		}
		require.NotEmpty(t, selected)
	}
}

// framed returns the frame of an IP packet.
func framed(ip []byte) *rocev2.Frame {
	var f rocev2.Frame
	f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return &f
}

// A packet sent by a raw socket with its own IP header arrives unchanged: Linux does not change the Identification
// of a packet with Don't Fragment, and the ICRC is valid. Without Don't Fragment it fills in an Identification of
// 0, and the ICRC is invalid.
func TestRawSocket(t *testing.T) {
	peer, judge := newHost(t, "peer"), newHost(t, "judge")
	connect(t, peer, "eth0", judge, "eth0")
	peer.address(t, "eth0", "192.0.2.1/24")
	peer.address(t, "eth0", "2001:db8::1/64")
	judge.address(t, "eth0", "192.0.2.2/24")
	judge.address(t, "eth0", "2001:db8::2/64")
	end := judge.tap(t, "eth0")
	for i, src := range peers {
		dst := judges[i]
		for _, raw := range rawSockets(t, peer, src) {
			for _, c := range notifications(t, src, dst) {
				if c.ofIPv4Only && src.Is6() {
					continue
				}
				t.Run(src.String()+", "+raw.name+", "+c.name, func(t *testing.T) {
					raw.send(t, peer, c.packet, dst)
					frame := end.receive(t, c.name, func(frame []byte) bool {
						var p rocev2.Packet
						return p.DecodeEthernet(frame) == nil && p.Src == src
					})
					arrived := frame[14:]
					if c.filledIn {
						require.NotEqual(t, c.packet[4:6], arrived[4:6])
						_, err := icrc.Verify(arrived)
						require.Error(t, err, "Linux has changed octets that the ICRC covers")
						return
					}
					require.Equal(t, c.packet, arrived)
					_, err := icrc.Verify(arrived)
					require.NoError(t, err)
				})
			}
		}
	}
}

// A rawSocket sends IP packets with their headers.
type rawSocket struct {
	name string
	fd   int
}

// rawSockets opens the raw sockets by which a host can send packets such as this one.
func rawSockets(t *testing.T, h *host, src netip.Addr) []rawSocket {
	t.Helper()
	open := func(name string, family, protocol, level, option int) rawSocket {
		s := rawSocket{name: name}
		h.Do(t, func() (err error) {
			if s.fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol); err != nil || option == 0 {
				return err
			}
			return unix.SetsockoptInt(s.fd, level, option, 1)
		})
		t.Cleanup(func() { unix.Close(s.fd) })
		return s
	}
	if src.Is4() {
		return []rawSocket{
			open("IPPROTO_RAW", unix.AF_INET, unix.IPPROTO_RAW, 0, 0),
			open("IP_HDRINCL", unix.AF_INET, unix.IPPROTO_UDP, unix.IPPROTO_IP, unix.IP_HDRINCL),
		}
	}
	return []rawSocket{
		open("IPPROTO_RAW", unix.AF_INET6, unix.IPPROTO_RAW, 0, 0),
		open("IPV6_HDRINCL", unix.AF_INET6, unix.IPPROTO_UDP, unix.IPPROTO_IPV6, unix.IPV6_HDRINCL),
	}
}

func (s rawSocket) send(t *testing.T, h *host, packet []byte, dst netip.Addr) {
	t.Helper()
	var to unix.Sockaddr = &unix.SockaddrInet6{Addr: dst.As16()}
	if dst.Is4() {
		to = &unix.SockaddrInet4{Addr: dst.As4()}
	}
	h.Do(t, func() error { return unix.Sendto(s.fd, packet, 0, to) })
}

type notification struct {
	name       string
	packet     []byte
	ofIPv4Only bool
	filledIn   bool // Linux chooses an Identification
}

// notifications are the CNPs and PPFCs from src to dst, built in each possible way.
func notifications(t *testing.T, src, dst netip.Addr) (all []notification) {
	var congested rocev2.Packet
	congested.Src, congested.Dst, congested.BTH.DestQP, congested.BTH.PKey = dst, src, 0x12, 0xFFFF
	for _, as := range []struct {
		name       string
		carriage   rocev2.Carriage
		ofIPv4Only bool
		filledIn   bool
	}{
		{name: "as built"},
		{name: "with UDP checksum", carriage: rocev2.Carriage{Checksum: true}},
		{name: "with ID", carriage: rocev2.Carriage{ID: 0x1234}, ofIPv4Only: true},
		{name: "may be fragmented, with ID", carriage: rocev2.Carriage{ID: 0x1234, MayFragment: true},
			ofIPv4Only: true},
		{name: "may be fragmented", carriage: rocev2.Carriage{MayFragment: true}, ofIPv4Only: true, filledIn: true},
	} {
		t.Run(as.name, func(t *testing.T) {
			add := func(name string, packet []byte, err error) {
				t.Helper()
				require.NoError(t, err)
				all = append(all, notification{name + " " + as.name, packet, as.ofIPv4Only, as.filledIn})
			}
			c := cnp.New(0x11, 0xFFFF)
			b, err := c.AppendPacket(nil, src, dst, cnp.Config{Carriage: as.carriage})
			add("CNP of AppendPacket", b, err)
			b, err = cnp.AppendFor(nil, &congested, src, 0x11, cnp.Config{Carriage: as.carriage})
			add("CNP of AppendFor", b, err)

			n := ppfc.New(0x12, 0xFFFF, ppfc.Extension{Congested: src, Type: ppfc.Stop, Port: 7})
			b, err = n.AppendPacket(nil, src, dst, ppfc.Config{Carriage: as.carriage})
			add("PPFC of AppendPacket", b, err)
			b, err = ppfc.AppendFor(nil, &congested, src, n.Extension, ppfc.Config{Carriage: as.carriage})
			add("PPFC of AppendFor", b, err)
		})
	}
	return all
}

// A sender that does not know the Fast CNP option answers with an ICMPv6 Parameter Problem, from which the switch
// learns the sender and the flow. The congested packets are those that arrive at the receiver.
func TestLinuxRejectsFastCNP(t *testing.T) {
	r := newTunnelPath(t)
	r.sender.set(t, "ipv6/icmp/ratelimit", 0)
	plain := dataPacket(1, nil)
	traced := dataPacket(2, hopByHop(t, ioam.Trace{Namespace: namespace, Type: everything}, 41))
	long := dataPacket(3, hopByHop(t, ioam.Trace{Namespace: namespace, Type: hpcc}, 57))
	for _, c := range []struct {
		name   string
		about  *rocev2.Packet
		types  fastcnp.CodePoints
		number uint8
		typ    ipv6opt.Type
	}{
		{"option 1", &plain, fastcnp.CodePoints{}, 1, fastcnp.Option1Type},
		{"option 2", &traced, fastcnp.CodePoints{}, 2, fastcnp.Option2Type},
		{"option 2, the longest", &long, fastcnp.CodePoints{}, 2, fastcnp.Option2Type},
		{"option 1 of another type", &plain, fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}, 1, 0x83},
		{"option 2 of another type", &traced, fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}, 2, 0x84},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, congested := r.cross(t, c.about)
			cfg := fastcnp.Config{CodePoints: c.types}
			packet, sent := fastCNP(t, &congested, cfg)
			require.Equal(t, c.number, sent.Option.Number)
			require.Equal(t, c.typ, sent.OptionType)
			r.middleC3.sendIP(t, r.middle, packet)
			source, message := r.receiveICMPError(t)

			require.Equal(t, senderAddr.AsSlice(), source)
			require.Equal(t, []byte{4, 2}, message[:2])
			quoted := message[8:]
			packet[7]-- // b2 forwarded it
			require.Equal(t, packet, quoted)
			require.EqualValues(t, c.typ, quoted[binary.BigEndian.Uint32(message[4:])])

			n, err := fastcnp.FromICMP(message, c.types)
			require.NoError(t, err)
			require.Equal(t, sent, n)
			require.Equal(t, fastcnp.OriginNetwork, n.Origin())
			require.Equal(t, senderAddr, n.Dst)
			require.Equal(t, receiverAddr, n.Option.OriginalDst)
			require.Equal(t, congested.BTH.DestQP, n.CNP.DestQP)
			if c.number == 2 {
				_, trace := traceIn(t, &congested)
				require.Equal(t, trace, n.Option.Trace)
			}
			_, err = fastcnp.FromICMP(message, fastcnp.CodePoints{Option1: 0x85, Option2: 0x86})
			require.ErrorIs(t, err, fastcnp.ErrNotFastCNP)
		})
	}
}

// Linux answers only if the act bits of the type are 10. If they are 00, the packet even reaches an ordinary
// socket: header and checksum are valid.
func TestLinuxSkipsOptionsByTheirActBits(t *testing.T) {
	r := newTunnelPath(t)
	r.sender.set(t, "ipv6/icmp/ratelimit", 0)
	socket := r.sender.listen(t, senderAddr, rocev2.Port)
	traced := dataPacket(1, hopByHop(t, ioam.Trace{Namespace: namespace, Type: hpcc}, 10))
	_, congested := r.cross(t, &traced)
	var delivered [][]byte
	for _, c := range []struct {
		typ    ipv6opt.Type
		destQP uint32
	}{
		{0x1E, 1}, // skip
		{0x5E, 2}, // discard
		{0x9E, 3}, // discard, send ICMP
		{0x1E, 4}, // skip
	} {
		congested.BTH.DestQP = c.destQP
		packet, n := fastCNP(t, &congested, fastcnp.Config{Carriage: rocev2.Carriage{Checksum: true}})
		require.EqualValues(t, 2, n.Option.Number)
		packet[n.Offset] = uint8(c.typ) // a type that no builder uses; the UDP checksum does not cover it
		require.NoError(t, icrc.Write(packet, icrc.AsSent))
		var p rocev2.Packet // the checksum covers the ICRC
		require.NoError(t, p.DecodeIP(packet))
		packet = whole(t, &p)
		if c.typ.Action() == ipv6opt.ActionSkip {
			delivered = append(delivered, packet[len(packet)-32:])
		}
		r.middleC3.sendIP(t, r.middle, packet)
	}
	_, message := r.receiveICMPError(t)
	n := wiretest.Must(fastcnp.FromICMP(message, fastcnp.CodePoints{Option1: 0x9E, Option2: 0x9E}))(t)
	require.EqualValues(t, 3, n.CNP.DestQP)
	for _, want := range delivered {
		require.Equal(t, want, receive(t, socket))
	}
}

// receiveICMPError returns the next ICMPv6 error that c3 receives, and its source.
func (r *tunnelPath) receiveICMPError(t *testing.T) (source, message []byte) {
	t.Helper()
	frame := r.middleC3.receive(t, "ICMPv6 error", func(frame []byte) bool {
		const icmpv6, errors = 58, 128
		return len(frame) > 62 && frame[14]>>4 == 6 && frame[20] == icmpv6 && frame[54] < errors &&
			[16]byte(frame[38:54]) == switchAddr.As16()
	})
	ip := frame[14:]
	return ip[8:24], ip[40 : 40+int(binary.BigEndian.Uint16(ip[4:]))]
}

// receive returns the data of the next datagram.
func receive(t *testing.T, c *net.UDPConn) []byte {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(packetTimeout)))
	b := make([]byte, 1<<16)
	n := wiretest.Must(c.Read(b))(t)
	return b[:n]
}
