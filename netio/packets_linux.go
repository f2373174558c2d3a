package netio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wire"
	"golang.org/x/sys/unix"
)

// packetSource implements [InterfaceSource].
type packetSource struct {
	fd      int
	index   int // of the interface, 0 for any
	packets [maxBatch]Packet
	read    func([]Packet) (int, error)
	in      *receiver // without blocks
	ring    *ring     // with blocks

	stopped bool
	away    bool // the interface went down or away
	given   uint64
	mu      sync.Mutex    // held while the kernel's counters, which reading resets, are added
	seen    atomic.Uint64 // by the socket, the lost ones included
	lost    atomic.Uint64
}

// maxFrame is the size of the longest packet, which on Linux can be one of many segments that the network card is to
// split. Without blocks the limit is lower, since each packet of one read needs that much memory.
const (
	maxFrame       = 256 << 10
	maxSingleFrame = 64<<10 + 64
)

// OpenPackets returns a source of the packets of an interface. It needs
// CAP_NET_RAW.
func OpenPackets(c PacketConfig) (InterfaceSource, error) {
	p := new(packetSource)
	if c.Interface != "any" {
		i, err := net.InterfaceByName(c.Interface)
		switch {
		case err != nil:
			return nil, ErrNoInterface
		case i.Flags&net.FlagUp == 0:
			return nil, ErrDown
		}
		p.index = i.Index
	}
	var err error
	if p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, plain(err)
	}
	if err := p.open(&c); err != nil {
		p.Close()
		return nil, plain(err)
	}
	return p, nil
}

// open sets up the socket. It gets packets last, so that none is in it that came
// before all was set.
func (p *packetSource) open(c *PacketConfig) error {
	if err := p.bind(0); err != nil {
		return err
	}
	program, err := p.program(c)
	if err != nil {
		return err
	}
	if err := attach(p.fd, program); err != nil {
		return err
	}
	growSocketBuffer(p.fd)
	err = setOptions(p.fd, option{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS}, option{unix.SOL_PACKET, unix.PACKET_AUXDATA})
	if err != nil {
		return err
	}
	if p.index != 0 {
		all := unix.PacketMreq{Ifindex: int32(p.index), Type: unix.PACKET_MR_PROMISC}
		if err := unix.SetsockoptPacketMreq(p.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
			return err
		}
	}
	if c.Blocks {
		if p.ring, err = newRing(p.fd); err != nil {
			return err
		}
		p.read = p.ring.read
	} else {
		p.in = newReceiver(p.fd, wire.TagSize, c.snap())
		p.read = p.receive
	}
	return p.bind(unix.ETH_P_ALL)
}

// snap returns the number of octets to return of each packet.
func (c *PacketConfig) snap() int {
	most := maxSingleFrame
	if c.Blocks {
		most = maxFrame
	}
	if c.SnapLength > 0 {
		return min(c.SnapLength, most)
	}
	return most
}

// bind binds the socket to the interface and an EtherType, 0 for none.
func (p *packetSource) bind(ether uint8) error {
	return unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: ne.Uint16([]byte{0, ether}), Ifindex: p.index})
}

// Read implements [Source].
func (p *packetSource) Read() ([]Packet, error) {
	for {
		n, err := p.read(p.packets[:])
		p.given += uint64(n)
		switch {
		case err == unix.ENETDOWN: // is told once, ahead of the packets that came before
			p.away = true
			continue
		case err != nil:
			return nil, plain(err)
		case n > 0:
			return p.packets[:n], nil
		case !p.stopped && !p.away:
			return nil, nil
		}
		if p.count(); p.seen.Load()-p.lost.Load() > p.given { // some are in a block that is not handed over yet
			return nil, nil
		}
		if p.stopped {
			return nil, io.EOF
		}
		p.away = false
		return nil, ErrAway
	}
}

// receive reads packets one by one.
func (p *packetSource) receive(packets []Packet) (int, error) {
	n, err := p.in.receive()
	for i := range n {
		data := p.in.message(i)
		var at time.Time
		var aux []byte
		p.in.forEachControl(i, func(level, kind int32, data []byte) {
			switch {
			case level == unix.SOL_SOCKET && kind == unix.SCM_TIMESTAMPNS:
				at = timeOf(data)
			case level == unix.SOL_PACKET && kind == unix.PACKET_AUXDATA && len(data) >= 20:
				aux = data
			}
		})
		b := packetMeta{octets: uint32(len(data) - wire.TagSize)}
		if aux != nil { // status 32, len 32, snaplen 32, mac 16, net 16, vlan_tci 16, vlan_tpid 16
			b = packetMeta{
				status: ne.Uint32(aux), octets: ne.Uint32(aux[4:]), network: int(ne.Uint16(aux[14:])),
				tci: ne.Uint16(aux[16:]), tpid: ne.Uint16(aux[18:]),
			}
		}
		packets[i].set(data, at, p.in.froms[i][:], b)
	}
	return n, err
}

// A packetMeta is the metadata that the kernel delivers with a packet.
type packetMeta struct {
	status    uint32 // TP_STATUS_…
	octets    uint32 // of the whole packet
	network   int    // where the network layer begins
	tci, tpid uint16 // of the VLAN tag that was taken away
}

// set describes a packet that has room for a VLAN tag in front of it. from is a
// struct sockaddr_ll.
func (p *Packet) set(data []byte, at time.Time, from []byte, b packetMeta) {
	// family 16, protocol 16, interface 32, type of hardware 16, type of packet 8
	*p = Packet{
		Record:    capture.Record{Data: data[wire.TagSize:], OrigLen: b.octets, Time: at, Unit: time.Nanosecond},
		Interface: int(ne.Uint32(from[4:])),
		Outgoing:  from[10] == unix.PACKET_OUTGOING,
	}
	var err error
	if p.Link, err = linkType(ne.Uint16(from[8:])); err != nil {
		p.Link = capture.Raw
		cut := min(b.network, len(p.Data))
		p.Data, p.OrigLen = p.Data[cut:], p.OrigLen-uint32(cut)
		return
	}
	if b.status&unix.TP_STATUS_VLAN_VALID == 0 || p.Link != capture.Ethernet || len(p.Data) < 12 {
		return
	}
	tpid := uint16(wire.EtherVLAN)
	if b.status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = b.tpid
	}
	copy(data, data[wire.TagSize:][:12])
	binary.BigEndian.PutUint16(data[12:], tpid)
	binary.BigEndian.PutUint16(data[14:], b.tci)
	p.Data = data
	p.OrigLen += wire.TagSize
}

// linkType returns the link type of the packets of an interface with this type of hardware (ARPHRD_…).
func linkType(hardware uint16) (uint32, error) {
	switch hardware {
	case unix.ARPHRD_ETHER, unix.ARPHRD_LOOPBACK:
		return capture.Ethernet, nil
	case unix.ARPHRD_TUNNEL, unix.ARPHRD_TUNNEL6, unix.ARPHRD_SIT, unix.ARPHRD_NONE, unix.ARPHRD_PPP:
		return capture.Raw, nil
	}
	return 0, fmt.Errorf("hardware type %d: %w", hardware, errLinkType)
}

// Stop implements [Source].
func (p *packetSource) Stop() error {
	p.stopped = true
	return attach(p.fd, nothing)
}

// FD implements [Source].
func (p *packetSource) FD() int { return p.fd }

// Lost implements [Source].
func (p *packetSource) Lost() uint64 {
	p.count()
	return p.lost.Load()
}

// count adds the kernel's counts since the last call.
func (p *packetSource) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, err := unix.GetsockoptTpacketStats(p.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		p.lost.Add(uint64(s.Drops))
		p.seen.Add(uint64(s.Packets))
	}
}

// IsUp implements [InterfaceSource].
func (p *packetSource) IsUp() bool {
	var i unix.Ifreq
	i.SetUint32(uint32(p.index))
	return p.index == 0 || unix.IoctlIfreq(p.fd, unix.SIOCGIFNAME, &i) == nil &&
		unix.IoctlIfreq(p.fd, unix.SIOCGIFFLAGS, &i) == nil && i.Uint16()&unix.IFF_UP != 0
}

// Close implements [Source].
func (p *packetSource) Close() error { return errors.Join(p.ring.close(), unix.Close(p.fd)) }

// plain returns the error that a user can do something about.
func plain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return errNoRights
	case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return ErrAway
	}
	return err
}
