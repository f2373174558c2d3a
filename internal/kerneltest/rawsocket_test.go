//go:build linux

package kerneltest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

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
