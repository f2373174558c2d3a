// Package netio receives packets from Linux and sends them, for programs that run the roles of node/… on real
// interfaces.
//
// Every [Source] returns complete packets, in the same form as a capture file: the packets of an interface
// ([OpenPackets]), of a UDP port ([ListenUDP]) or of ICMPv6 ([ListenICMPv6]), with IP headers rebuilt from the metadata
// of the kernel, and the packets of a file ([OpenFile]). So one way of decoding serves them all. [Run], or a [Poll] if
// the program wants to ask for packets, reads several sources in one goroutine: a role, which is not safe for
// concurrent use, then needs no mutex.
//
//	err := netio.Run(ctx, out, func(b []byte, _ int, p *netio.Packet) []byte {
//		frame.Decode(p.Data, p.Options())
//		b, decision = role.Receive(b, &frame, node.Event{Now: p.Time})
//		return b
//	}, traffic, messages)
//
// A [Sink] sends: IP packets that the kernel routes ([OpenRaw]), packets out of one
// interface ([OpenPort]), the data of UDP datagrams ([DialUDP]), or into a file
// ([FileSource]). Reading and sending allocate nothing.
//
// On other systems only files and DialUDP work: the other functions return
// errors.ErrUnsupported.
//
// Experimental: this package may change in a minor release.
package netio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/rocev2"
	"golang.org/x/net/bpf"
)

// A Packet is one packet of a [Source].
type Packet struct {
	// The frame or packet, time stamp and link type. A VLAN tag that the kernel
	// took away is back in the frame.
	capture.Record
	Interface int  // number of the interface where it came in or went out, 0 where that is not known
	Outgoing  bool // this host sends it

	// Metadata from a source of congested packets; the sources of this package leave it 0.
	Egress     int    // number of the interface where it goes out, 0 where that is not known
	Depth      uint64 // octets in the queue where it waits, with DepthKnown
	DepthKnown bool
	Origin     Origin
}

// Origin is the reason for which a source returns a packet.
type Origin uint8

// Values of Origin.
const (
	OriginSeen    Origin = iota // it was on an interface or in a capture, or came to a socket
	OriginQueued                // it waits in a queue of this host
	OriginSampled               // the kernel or the switch hardware sampled it, maybe because it was marked
	OriginLogged                // a rule of the packet filter has logged it
)

// A Source gives packets. It is read by one goroutine; Lost may be called by any.
type Source interface {
	// Read returns the packets that are there now, without waiting: some, in
	// their order, or none. They are valid until it is called again. At the end,
	// and when all is read that came before Stop, the error is io.EOF. After an
	// error that is [ErrAway] it may be called again.
	Read() ([]Packet, error)
	// Stop ends the source: nothing that comes from now on is given.
	Stop() error
	// FD returns the file descriptor that becomes readable when there is
	// something to read, -1 if there always is.
	FD() int
	// Lost returns the number of packets that arrived but were dropped, because they were not read fast enough.
	Lost() uint64
	Close() error
}

// An InterfaceSource is a [Source] of the packets of an interface.
type InterfaceSource interface {
	Source
	// IsUp reports whether the interface, which may have been renamed, exists and is up.
	IsUp() bool
}

// A SocketSource is a [Source] of the datagrams that a UDP or ICMPv6 socket receives, as IP packets. Their IP and UDP
// headers are built from the metadata of the kernel: addresses, ports, DSCP, ECN and hop limit are those of the packet
// that arrived, other fields are not.
type SocketSource interface {
	Source
	// Local returns the address and port that datagrams are received at.
	Local() netip.AddrPort
}

// A FileSource is a [Source] of the packets of a capture, for tests.
type FileSource interface {
	Source
	// Sink returns a sink for the answers to the packets of the source. It writes a pcap capture of this link type,
	// [capture.Ethernet] or [capture.Raw], in which each packet has the time of the last packet that was read.
	Sink(w io.Writer, link uint32) (Sink, error)
}

// A Sink sends packets. It never waits: packets for which the kernel has no buffer space are lost, since a late
// notification is worth nothing.
type Sink interface {
	// Send takes a packet, which may be changed as soon as it returns, and sends
	// it at the latest when Flush is called.
	Send(packet []byte) error
	// Flush sends the packets that Send has accepted. A packet that cannot be sent does not keep the others back; the
	// error is that of the first such packet. Send may return it as well.
	Flush() error
	// Failed returns the number of packets that could not be sent. Any goroutine may call it. Packets to a neighbour
	// that does not answer are not counted.
	Failed() uint64
	Close() error
}

// An UnsentReporter is a [Sink] that reports packets that it could not send.
type UnsentReporter interface {
	Sink
	// OnUnsent sets a function that Send and Flush call with each packet that cannot be sent and with the cause. The
	// function must not keep the packet.
	OnUnsent(func(packet []byte, err error))
}

// A SocketSink is a [Sink] for the data of datagrams. It sends each immediately. It does not report datagrams to a port
// without a socket or dropped by a firewall.
type SocketSink interface {
	Sink
	Local() netip.AddrPort  // address and port that it sends from
	Remote() netip.AddrPort // address and port that it sends to
}

// A Direction says which packets of an interface are given.
type Direction uint8

// The directions. The loopback interface shows each packet twice: of Both, its
// outgoing ones are left out.
const (
	Both Direction = iota
	In             // those that arrive
	Out            // those that this host sends
)

// PacketConfig says which packets [OpenPackets] gives, and how.
type PacketConfig struct {
	// Interface is the name of an interface that carries Ethernet or IP, which
	// becomes promiscuous, or "any" for all that are there now or later. The
	// packets of another kind of interface begin with the network layer then.
	Interface string
	// Filter selects packets in the kernel; nil stands for all of them. With
	// "any", it sees interfaces that carry Ethernet or IP only.
	Filter    Filter
	Direction Direction
	// SnapLength is the number of octets returned of each packet, without the VLAN tag that the kernel passes in
	// metadata; 0 stands for some 64 KiB, or with Blocks for 256 KiB.
	SnapLength int
	// Blocks says that throughput counts and not latency: the kernel hands over
	// packets in blocks, at the latest after 10 ms. It loses none where a source
	// without blocks, which needs system calls for every 64 packets, does.
	Blocks bool
}

// A Filter makes a BPF program that selects packets: *filter.Capture and
// *filter.Border are such.
type Filter interface {
	Program(rocev2.LinkType) ([]bpf.RawInstruction, error)
}

// Errors of an interface. Other errors are those of the system; without CAP_NET_RAW the error matches fs.ErrPermission.
var (
	ErrNoInterface = errors.New("no such interface")
	// ErrDown: OpenPackets can be called again after the interface is set up.
	ErrDown = errors.New("the interface is down")
	// ErrAway ends nothing, and Run goes on: packets come again when the interface is up. If it
	// was deleted, it must be opened again, by its name.
	ErrAway = errors.New("the interface went down or away")

	errLinkType = errors.New("carries neither Ethernet nor IP")
	errNoRights = fmt.Errorf("%w: CAP_NET_RAW is needed", fs.ErrPermission)
)
