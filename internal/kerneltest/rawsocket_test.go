//go:build linux

package kerneltest

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
