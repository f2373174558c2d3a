package netio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/sys/unix"
)

// datagramSource implements [SocketSource].
type datagramSource struct {
	fd      int
	local   netip.AddrPort
	icmp    bool
	in      *receiver
	packets [maxBatch]Packet
	memory  []byte // of the packets
	stopped bool
	lost    atomic.Uint64
}

// maxData is room for the data of the longest datagram.
const maxData = 64 << 10

var errGroup = errors.New("the address of a multicast group")

// ListenUDP returns a source of the datagrams to an address and port, such as
// "[::]:1021" or "192.0.2.1:1021"; the host may be a name. If the address is ::
// or empty, datagrams over IPv4 arrive as well. A multicast address is an
// error.
func ListenUDP(address string) (SocketSource, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	network := "udp"
	switch {
	case at.IP.IsMulticast(): // package net would bind to all addresses, and join no group
		return nil, fmt.Errorf("%v: %w", at, errGroup)
	case at.IP.To4() != nil:
		network = "udp4" // else 0.0.0.0 would mean IPv6, too
	}
	// Package net knows how to bind; its socket is taken over.
	conn, err := net.ListenUDP(network, at)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var failed error
	if err := raw.Control(func(socket uintptr) {
		fd, failed = unix.FcntlInt(socket, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return newDatagrams(fd, netip.AddrPortFrom(local.Addr().Unmap(), local.Port()), false)
}

// ListenICMPv6 returns a source of the ICMPv6 messages of these types, or of
// all types if there are none. address is one of this host, or :: for all of
// them. A link-local address needs a zone, the name or index of its interface.
// ListenICMPv6 needs CAP_NET_RAW.
func ListenICMPv6(address netip.Addr, types ...uint8) (SocketSource, error) {
	zone, err := zoneID(address.Zone())
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return nil, plain(err)
	}
	var filter unix.ICMPv6Filter // of those that are refused
	if len(types) > 0 {
		for i := range filter.Data {
			filter.Data[i] = ^uint32(0)
		}
	}
	for _, t := range types {
		filter.Data[t/32] &^= 1 << (t % 32)
	}
	err = unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet6{Addr: address.As16(), ZoneId: zone})
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return newDatagrams(fd, netip.AddrPortFrom(address, 0), true)
}

// zoneID returns the number of the interface that the zone of an address names, 0 for
// no zone.
func zoneID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, ErrNoInterface
	}
	return uint32(i.Index), nil
}

func newDatagrams(fd int, local netip.AddrPort, icmp bool) (SocketSource, error) {
	d := &datagramSource{fd: fd, local: local, icmp: icmp, in: newReceiver(fd, 0, maxData)}
	options := []option{{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS}, {unix.SOL_SOCKET, unix.SO_RXQ_OVFL}}
	if !local.Addr().Is4() {
		options = append(options, option{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO},
			option{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS}, option{unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT})
	}
	if !icmp { // which may get IPv4 datagrams, too
		options = append(options, option{unix.IPPROTO_IP, unix.IP_PKTINFO},
			option{unix.IPPROTO_IP, unix.IP_RECVTOS}, option{unix.IPPROTO_IP, unix.IP_RECVTTL})
	}
	if err := setOptions(fd, options...); err != nil {
		unix.Close(fd)
		return nil, err
	}
	growSocketBuffer(fd)
	return d, nil
}

// Local implements [SocketSource].
func (d *datagramSource) Local() netip.AddrPort { return d.local }

// Read implements [Source].
func (d *datagramSource) Read() ([]Packet, error) {
	n, err := d.in.receive()
	if err != nil {
		return nil, err
	}
	d.memory = d.memory[:0]
	packets := d.packets[:0]
	for i := range n {
		if p, ok := d.packet(i); ok {
			packets = append(packets, p)
		}
	}
	if n == 0 && d.stopped {
		return nil, io.EOF
	}
	return packets, nil
}

// packet makes the IP packet of a message. It returns false for one that is none:
// from no port, or longer than an IP packet may be.
func (d *datagramSource) packet(i int) (p Packet, ok bool) {
	from := addrPort(d.in.froms[i][:])
	h := rocev2.Datagram{
		Src: from.Addr(), SrcPort: from.Port(), Dst: d.local.Addr(), DstPort: d.local.Port(),
		Flags: 2, Checksum: 1, Data: d.in.message(i), // Don't Fragment; to be computed
	}
	d.in.forEachControl(i, func(level, kind int32, data []byte) {
		switch {
		case level == unix.SOL_SOCKET && kind == unix.SCM_TIMESTAMPNS:
			p.Time = timeOf(data)
		case level == unix.SOL_SOCKET && kind == unix.SO_RXQ_OVFL && len(data) >= 4:
			d.lose(ne.Uint32(data))
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO && len(data) >= 20:
			h.Dst, p.Interface = netip.AddrFrom16([16]byte(data)).Unmap(), int(ne.Uint32(data[16:]))
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_TCLASS && len(data) >= 4:
			h.TrafficClass = uint8(ne.Uint32(data))
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_HOPLIMIT && len(data) >= 4:
			h.HopLimit = uint8(ne.Uint32(data))
		case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO && len(data) >= 12: // interface, address, destination
			h.Dst, p.Interface = netip.AddrFrom4([4]byte(data[8:])), int(ne.Uint32(data))
		case level == unix.IPPROTO_IP && kind == unix.IP_TOS && len(data) >= 1:
			h.TrafficClass = data[0]
		case level == unix.IPPROTO_IP && kind == unix.IP_TTL && len(data) >= 4:
			h.HopLimit = uint8(ne.Uint32(data))
		}
	})
	begin := len(d.memory)
	if d.icmp {
		d.memory = appendIPv6(d.memory, &h, unix.IPPROTO_ICMPV6)
	} else {
		var err error
		if d.memory, err = h.AppendBinary(d.memory); err != nil {
			return p, false
		}
	}
	p.Data = d.memory[begin:len(d.memory):len(d.memory)]
	p.OrigLen, p.Unit, p.Link = uint32(len(p.Data)), time.Nanosecond, capture.Raw
	return p, true
}

// appendIPv6 appends an IPv6 packet with the data of h.
func appendIPv6(b []byte, h *rocev2.Datagram, next uint8) []byte {
	var header [wire.IPv6Size]byte
	ipudp.PutIPv6(&header, ipudp.IPv6Header(h.TrafficClass, 0, len(h.Data), next, h.HopLimit), h.Src, h.Dst)
	return append(append(b, header[:]...), h.Data...)
}

// addrPort reads a struct sockaddr_in or sockaddr_in6.
func addrPort(b []byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(b[2:])
	switch ne.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), port)
	case unix.AF_INET6: // after the flow label
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])).Unmap(), port)
	}
	return netip.AddrPort{}
}

// Stop implements [Source].
func (d *datagramSource) Stop() error {
	d.stopped = true
	// No later datagram carries the number of those lost after the last one, so it is read here, before the filter
	// drops further datagrams, which the kernel counts as well.
	var info [9]uint32 // of which SK_MEMINFO_DROPS, of linux/sock_diag.h, is the last one
	size := uint32(unsafe.Sizeof(info))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(d.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0); errno == 0 {
		d.lose(info[8])
	}
	return attach(d.fd, nothing)
}

// lose raises the number of lost datagrams to n.
func (d *datagramSource) lose(n uint32) { d.lost.Store(max(d.lost.Load(), uint64(n))) }

// FD implements [Source].
func (d *datagramSource) FD() int { return d.fd }

// Lost implements [Source]. It counts the datagrams lost before the last one that was read, or before Stop.
func (d *datagramSource) Lost() uint64 { return d.lost.Load() }

// Close implements [Source].
func (d *datagramSource) Close() error { return unix.Close(d.fd) }
