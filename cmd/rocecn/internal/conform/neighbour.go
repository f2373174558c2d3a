package conform

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// plays reports whether the tester answers for an address on a port. With one port all hosts are there. A bridge has
// real hosts on both sides.
func (s *suite) plays(port int, a netip.Addr) bool {
	if s.isBridge() {
		return slices.ContainsFunc(s.profile.Ports, func(p portTable) bool { return p.Address == a })
	}
	p, h := &s.profile.Ports[port], &s.profile.Hosts
	var prefixes []netip.Prefix
	if single := len(s.profile.Ports) == 1; p.Side == "sender" || single {
		prefixes = slices.Concat(h.Sender, h.Capable)
		if slices.Contains(h.PE, a) {
			return true
		}
	}
	if p.Side != "sender" || len(s.profile.Ports) == 1 {
		prefixes = append(prefixes, h.Receiver...)
	}
	return p.Address == a || !slices.Contains(s.profile.Device.Addresses, a) &&
		slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// answerNeighbour returns the answer to a neighbour solicitation or an ARP request for an address of the tester, or
// nil.
func (s *suite) answerNeighbour(n *seen) []byte {
	own := s.profile.Ports[n.port]
	switch {
	case n.packet == nil:
		return s.answerARP(n, &own)
	case n.protocol != protocolICMPv6 || len(n.upper) < 24 || n.upper[0] != 135:
		return nil
	}
	target := netip.AddrFrom16([16]byte(n.upper[8:]))
	if !s.plays(n.port, target) || n.src.IsUnspecified() {
		return nil
	}
	icmp := append([]byte{136, 0, 0, 0, 0x60, 0, 0, 0}, target.AsSlice()...)
	icmp = append(append(icmp, 2, 1), own.MAC.mac[:]...)
	return appendEthernet(nil, mac(n.frame[6:12]), own.MAC.mac, own.VLAN, icmpPacket(target, n.src, icmp))
}

// icmpPacket returns an ICMPv6 packet with hop limit 255 and its checksum.
func icmpPacket(src, dst netip.Addr, icmp []byte) []byte {
	ip := appendIPv6(nil, src, dst, 0, 0, protocolICMPv6, icmp)
	ip[7] = 255
	binary.BigEndian.PutUint16(ip[ipv6Size+2:], icmpChecksum(src, dst, icmp))
	return ip
}

// icmpChecksum returns the checksum of an ICMPv6 message with 0 in its own field.
func icmpChecksum(src, dst netip.Addr, icmp []byte) uint16 {
	sum := uint32(protocolICMPv6 + len(icmp))
	for _, b := range [][]byte{src.AsSlice(), dst.AsSlice(), icmp} {
		for i := range b {
			sum += uint32(b[i]) << (8 * (1 - i%2))
		}
	}
	return fold(sum)
}

// arpOffset returns the offset of the ARP packet in a frame, or 0.
func arpOffset(frame []byte) int {
	for at := 12; len(frame) >= at+2+28; at += 4 {
		switch binary.BigEndian.Uint16(frame[at:]) {
		case typeARP:
			return at + 2
		case typeVLAN:
		default:
			return 0
		}
	}
	return 0
}

func (s *suite) answerARP(n *seen, own *port) []byte {
	at := arpOffset(n.frame)
	if at == 0 || binary.BigEndian.Uint16(n.frame[at+6:]) != 1 {
		return nil
	}
	arp := n.frame[at:]
	target := netip.AddrFrom4([4]byte(arp[24:]))
	if !s.plays(n.port, target) {
		return nil
	}
	b := appendEthernetHeader(nil, mac(n.frame[6:12]), own.MAC.mac, own.VLAN, typeARP)
	b = append(append(b, 0, 1, 8, 0, 6, 4, 0, 2), own.MAC.mac[:]...)
	return append(append(b, arp[24:28]...), arp[8:18]...)
}

// findNeighbours finds the hardware address of the device on each port without neighbour_mac.
func (s *suite) findNeighbours() error {
	for i := range s.profile.Ports {
		port := &s.profile.Ports[i]
		if port.NeighbourMAC != (hardware{}) || s.isBridge() && i != s.dataPort() {
			continue
		}
		found, err := s.findNeighbour(i)
		if err != nil {
			return fmt.Errorf("port[%d].neighbour_mac: missing, and no address of device.addresses answers on %s "+
				"(address %v): want neighbour_mac, or the device's address on this link", i, port.Interface,
				port.Address)
		}
		port.NeighbourMAC.mac = found
	}
	return nil
}

func (s *suite) findNeighbour(i int) (mac, error) {
	port := &s.profile.Ports[i]
	x := s.newTrial(&testCase{}, 0)
	for range 3 {
		for _, a := range s.profile.Device.Addresses {
			if port.Address.IsValid() && a.Is6() == port.Address.Is6() {
				s.rig.send(i, solicitation(port, a))
			}
		}
		end := s.rig.now().Add(time.Second)
		for s.rig.now().Before(end) {
			arrivals, err := s.rig.receive(end)
			if err != nil {
				return mac{}, err
			}
			for _, a := range arrivals {
				if m, ok := s.readAdvertisement(a); ok && a.port == i {
					return m, nil
				}
				x.receiveFrame(a) // so that the device finds the tester, too
			}
		}
	}
	return mac{}, errNoAnswer
}

var errNoAnswer = fmt.Errorf("no answer")

// solicitation returns the frame that asks for the hardware address of a neighbour.
func solicitation(p *port, a netip.Addr) []byte {
	own, of := p.MAC.mac, a.AsSlice()
	if a.Is4() {
		b := appendEthernetHeader(nil, mac{255, 255, 255, 255, 255, 255}, own, p.VLAN, typeARP)
		b = append(append(b, 0, 1, 8, 0, 6, 4, 0, 1), own[:]...)
		b = append(append(b, p.Address.AsSlice()...), 0, 0, 0, 0, 0, 0)
		return append(b, of...)
	}
	group := netip.AddrFrom16([16]byte{0: 0xFF, 1: 2, 11: 1, 12: 0xFF, 13: of[13], 14: of[14], 15: of[15]})
	icmp := append(append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, of...), 1, 1)
	icmp = append(icmp, own[:]...)
	return appendEthernet(nil, multicastMAC(group), own, p.VLAN, icmpPacket(p.Address, group, icmp))
}

// readAdvertisement returns the hardware address in the device's answer.
func (s *suite) readAdvertisement(a arrival) (m mac, ok bool) {
	if at := arpOffset(a.frame); at > 0 {
		arp := a.frame[at:]
		from := netip.AddrFrom4([4]byte(arp[14:]))
		isReply := binary.BigEndian.Uint16(arp[6:]) == 2
		return mac(arp[8:14]), isReply && slices.Contains(s.profile.Device.Addresses, from)
	}
	p, _ := readFrame(a.frame, nil)
	if p == nil || p.protocol != protocolICMPv6 || len(p.upper) < 24 || p.upper[0] != 136 {
		return m, false
	}
	return mac(a.frame[6:12]), slices.Contains(s.profile.Device.Addresses, netip.AddrFrom16([16]byte(p.upper[8:])))
}
