package live

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/rocecn/rocecn/capture"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// maxFrame is room for the longest frame, which on Linux can be one of many
// segments that the network card is to cut.
const maxFrame = 256 << 10

// room is how many octets the kernel may keep for a capture that is not read
// fast enough.
const room = 8 << 20

// check is how often a capture without packets looks whether its interface is
// still there.
const check = time.Second

// source captures by a packet socket.
type source struct {
	index  int      // of the interface
	file   *os.File // the socket
	conn   syscall.RawConn
	link   capture.LinkType
	ctx    context.Context
	before func(octets int64) error
	forget func() bool // about the end of ctx
	octets int64
	over   bool // the interrupt came
	away   bool // the interface went down or away

	// What a read gives. The function is receive, made once.
	read     func(fd uintptr) bool
	frame    [tagSize + maxFrame]byte
	control  [128]byte // what the kernel says beside the frame
	n        int       // octets of the frame, also those for which there was no room
	controls int
	err      error
}

// Open opens an interface. Whenever Next is about to wait, it calls beforeWait
// with how many octets it has read so far. The end of ctx is the end of the
// capture: what the kernel has by then is read.
func Open(ctx context.Context, name string, beforeWait func(octets int64) error) (Source, error) {
	i, err := net.InterfaceByName(name)
	switch {
	case err != nil:
		return nil, ErrNoInterface
	case i.Flags&net.FlagUp == 0:
		return nil, ErrDown
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, plain(err)
	}
	s := &source{index: i.Index, file: os.NewFile(uintptr(fd), name), ctx: ctx, before: beforeWait}
	s.read = s.receive
	if err := s.open(fd, i.Flags&net.FlagLoopback != 0); err != nil {
		s.file.Close()
		return nil, plain(err)
	}
	s.forget = context.AfterFunc(ctx, func() { s.file.SetReadDeadline(time.Now()) })
	return s, nil
}

// open makes a socket capture. It is bound to the interface last, so that there
// is nothing in it that came before all was set.
func (s *source) open(fd int, loopback bool) (err error) {
	if s.conn, err = s.file.SyscallConn(); err != nil {
		return err
	}
	if err := s.file.SetReadDeadline(time.Now().Add(check)); err != nil {
		return err
	}
	if loopback { // where every packet comes by twice: do not show it on its way out
		err := filter(fd,
			bpf.LoadExtension{Num: bpf.ExtType},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
			bpf.RetConstant{Val: 0},
			bpf.RetConstant{Val: maxFrame})
		if err != nil {
			return err
		}
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil { // which needs CAP_NET_ADMIN
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room) // as much of it as is allowed
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
		return err
	}
	all := unix.PacketMreq{Ifindex: int32(s.index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &all); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: s.index}); err != nil {
		return err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	s.link, err = linkType(bound.(*unix.SockaddrLinklayer).Hatype)
	return err
}

// everything is ETH_P_ALL in network order.
var everything = binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})

// filter attaches a program to a socket.
func filter(fd int, program ...bpf.Instruction) error {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	f := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		f[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}

// Next is capture.Reader's.
func (s *source) Next(r *capture.Record) error {
	for {
		if err := s.interrupted(); err != nil {
			return err
		}
		err := s.conn.Read(s.read)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // or the end of ctx, which sets one, too
			if err := s.file.SetReadDeadline(time.Now().Add(check)); err != nil {
				return err
			}
			s.away = s.away || !s.present()
			continue
		case err == nil:
			err = s.err
		}
		if err != nil {
			return err
		}
		s.record(r)
		s.octets += int64(len(r.Data))
		return nil
	}
}

// receive reads a frame or what ends the capture. Where there is none yet it
// returns false, to be called again.
func (s *source) receive(fd uintptr) (done bool) {
	for again := true; again; {
		s.n, s.controls, _, _, s.err = unix.Recvmsg(int(fd), s.frame[tagSize:], s.control[:], unix.MSG_TRUNC)
		down := s.err == unix.ENETDOWN // is told once, before the frames that came until then
		s.away = s.away || down
		again = down || s.err == unix.EINTR
	}
	switch {
	case s.err != unix.EAGAIN:
		s.err = plain(s.err)
	case s.over:
		s.err = io.EOF
	case s.away:
		s.err = ErrWentAway
	default:
		s.err = s.before(s.octets)
		return s.err != nil
	}
	return true
}

// present says whether the interface, whatever its name is by now, is there and
// up.
func (s *source) present() bool {
	var i unix.Ifreq
	i.SetUint32(uint32(s.index))
	up := false
	err := s.conn.Control(func(fd uintptr) {
		up = unix.IoctlIfreq(int(fd), unix.SIOCGIFNAME, &i) == nil && unix.IoctlIfreq(int(fd), unix.SIOCGIFFLAGS, &i) == nil &&
			i.Uint16()&unix.IFF_UP != 0
	})
	return err == nil && up
}

// interrupted sees to it that nothing new comes when ctx has ended.
func (s *source) interrupted() error {
	if s.over || s.ctx.Err() == nil {
		return nil
	}
	s.over = true
	var failed error
	err := s.conn.Control(func(fd uintptr) { failed = filter(int(fd), bpf.RetConstant{Val: 0}) })
	return errors.Join(err, failed)
}

// tagSize is the length of a VLAN tag.
const tagSize = 4

// record describes the frame that was read. Its outer VLAN tag the
// kernel takes away and reports beside it: it is put back.
func (s *source) record(r *capture.Record) {
	*r = capture.Record{Data: s.frame[tagSize:][:min(s.n, maxFrame)], OrigLen: uint32(s.n), Unit: time.Nanosecond, Link: s.link}
	for control := s.control[:s.controls]; len(control) > 0; {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			break
		}
		control = rest
		switch [2]int32{header.Level, header.Type} {
		case [2]int32{unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS}:
			r.Time = timeOf(data)
		case [2]int32{unix.SOL_PACKET, unix.PACKET_AUXDATA}:
			s.putTagBack(r, data)
		}
	}
}

// timeOf returns the time in a struct timespec, whose two words have 32 or 64
// bits.
func timeOf(timespec []byte) time.Time {
	ne := binary.NativeEndian
	switch len(timespec) {
	case 8:
		return time.Unix(int64(ne.Uint32(timespec)), int64(ne.Uint32(timespec[4:]))).UTC()
	case 16:
		return time.Unix(int64(ne.Uint64(timespec)), int64(ne.Uint64(timespec[8:]))).UTC()
	}
	return time.Time{}
}

// putTagBack puts the tag that a struct tpacket_auxdata tells of into the frame.
func (s *source) putTagBack(r *capture.Record, aux []byte) {
	// status 32, len 32, snaplen 32, mac 16, net 16, vlan_tci 16, vlan_tpid 16
	ne := binary.NativeEndian
	if len(aux) < 20 || ne.Uint32(aux)&unix.TP_STATUS_VLAN_VALID == 0 || len(r.Data) < 12 {
		return
	}
	tpid := uint16(0x8100)
	if ne.Uint32(aux)&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = ne.Uint16(aux[18:])
	}
	r.Data = s.frame[:tagSize+len(r.Data)]
	copy(r.Data, r.Data[tagSize:][:12])
	binary.BigEndian.PutUint16(r.Data[12:], tpid)
	binary.BigEndian.PutUint16(r.Data[14:], ne.Uint16(aux[16:]))
	r.OrigLen += tagSize
}

func (s *source) Dropped() uint64 {
	var stats *unix.TpacketStats
	var failed error
	if err := s.conn.Control(func(fd uintptr) {
		stats, failed = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	}); err != nil || failed != nil {
		return 0
	}
	return uint64(stats.Drops)
}

func (s *source) Close() error {
	s.forget()
	return s.file.Close()
}

// linkType returns what the frames of an interface of this hardware type
// (ARPHRD_…) begin with.
func linkType(hardware uint16) (capture.LinkType, error) {
	switch hardware {
	case unix.ARPHRD_ETHER, unix.ARPHRD_LOOPBACK:
		return capture.Ethernet, nil
	case unix.ARPHRD_TUNNEL, unix.ARPHRD_TUNNEL6, unix.ARPHRD_SIT, unix.ARPHRD_NONE, unix.ARPHRD_PPP:
		return capture.Raw, nil
	}
	return 0, fmt.Errorf("hardware type %d: %w", hardware, ErrLinkType)
}

// plain gives those errors a clear text that a user can do something about.
func plain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return ErrNoRights
	case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return ErrWentAway
	}
	return err
}
