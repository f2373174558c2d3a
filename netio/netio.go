// Package netio receives packets from Linux and sends them, for programs that
// run the roles of node/… on real interfaces.
//
// A [Source] returns complete packets, each with its link type as in a capture
// file, so a program decodes all of them in the same way:
//
//   - [OpenPackets]: the packets of an interface
//   - [ListenUDP]: the datagrams to a UDP port, with IP and UDP headers rebuilt
//     from the metadata of the kernel
//   - [ListenICMPv6]: ICMPv6 messages, with rebuilt IP headers
//   - [OpenFile]: the packets of a capture file
//
// A [Sink] sends:
//
//   - [OpenRaw]: IP packets that the kernel routes
//   - [OpenPort]: IP packets or frames on one interface
//   - [DialUDP]: the data of UDP datagrams
//   - [FileSource]: packets to a capture file
//
// [Run] reads several sources in one goroutine, so that a role, which is not
// safe for concurrent use, needs no mutex. [Loop] also calls a function at
// intervals, and [Poll] lets the program ask for packets.
//
//	err := netio.Run(ctx, out, func(b []byte, _ int, p *netio.Packet) []byte {
//		frame.Decode(p.Data, p.Options())
//		b, decision = role.Receive(b, &frame, node.Event{Now: p.Time})
//		return b
//	}, traffic, messages)
//
// Reading and sending do not allocate. On other systems only OpenFile and
// DialUDP work; the other functions return errors.ErrUnsupported.
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
	// Record is the frame or IP packet with its time and link type. A frame has the
	// VLAN tag that the kernel had removed from it.
	capture.Record
	Interface int  // index of the interface that received or sent the packet, or 0 if unknown
	Outgoing  bool // the packet is sent by this host

	// Metadata from a source of congested packets; the sources of this package leave it 0.
	Egress     int    // index of the interface that will send the packet, or 0 if unknown
	Depth      uint64 // octets in the queue of the packet; valid if DepthKnown is set
	DepthKnown bool   // Depth is known
	Origin     Origin // reason for which the source returns the packet
}

// Origin is the reason for which a source returns a packet.
type Origin uint8

// Values of Origin.
const (
	OriginSeen    Origin = iota // packet on an interface, in a capture or from a socket
	OriginQueued                // packet in a queue of this host
	OriginSampled               // packet sampled by the kernel or the switch hardware, maybe because it was marked
	OriginLogged                // packet logged by a rule of the packet filter
)

// A Source returns packets. One goroutine reads it; any goroutine may call
// Lost.
type Source interface {
	// Read returns the packets that have arrived, in order of arrival, without
	// waiting; there may be none. They are valid until the next call. At the
	// end of the input, and after Stop once all earlier packets are read, the
	// error is io.EOF. After [ErrAway] Read may be called again; after another
	// error it must not.
	Read() ([]Packet, error)
	// Stop ends the source: Read returns no packet that arrives later.
	Stop() error
	// FD returns a file descriptor that becomes readable when packets arrive,
	// or -1 if Read never needs to wait.
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
	// Local returns the address and port at which the socket receives.
	Local() netip.AddrPort
}

// A FileSource is a [Source] of the packets of a capture file, for tests and
// experiments.
type FileSource interface {
	Source
	// Sink returns a sink that writes a pcap capture of this link type to w,
	// [capture.Ethernet] or [capture.Raw]. Each packet has the time of the last packet
	// that was read from the source, such as the packet that it answers.
	Sink(w io.Writer, link uint32) (Sink, error)
}

// A Sink sends packets. It never waits: if the kernel has no buffer space, the
// packet is lost, because a late notification is useless.
type Sink interface {
	// Send queues a packet, which the caller may then change. The packet is
	// sent at the latest when Flush is called.
	Send(packet []byte) error
	// Flush sends the queued packets. It continues after a packet that cannot
	// be sent, and returns the error of the first such packet. Send may return
	// this error as well.
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

// A SocketSink is a [Sink] for the data of UDP datagrams. Send sends each
// datagram immediately. Datagrams to a port without a socket, and those that a
// firewall drops, are not reported as errors.
type SocketSink interface {
	Sink
	Local() netip.AddrPort  // address and port that it sends from
	Remote() netip.AddrPort // address and port that it sends to
}

// Direction selects the packets of an interface by their direction.
type Direction uint8

// The directions. A packet on the loopback interface is both outgoing and
// incoming; Both returns only the incoming one.
const (
	Both Direction = iota
	In             // packets that arrive
	Out            // packets that this host sends
)

// PacketConfig is the configuration of [OpenPackets].
type PacketConfig struct {
	// Interface is the name of an interface that carries Ethernet or IP; it is set
	// to promiscuous mode. "any" stands for all present and future interfaces; the
	// packets of an interface that carries neither begin with the IP header.
	Interface string
	// Filter selects packets in the kernel; nil selects all. With "any" it is only
	// applied to interfaces that carry Ethernet or IP.
	Filter    Filter
	Direction Direction // direction of the packets
	// SnapLength is the number of octets returned of each packet, without the VLAN tag that the kernel passes in
	// metadata; 0 stands for some 64 KiB, or with Blocks for 256 KiB.
	SnapLength int
	// Blocks trades latency for throughput: the kernel delivers packets in blocks,
	// each up to 10 ms late, instead of up to 64 packets with each system call.
	Blocks bool
}

// A Filter returns a BPF program that selects packets of a link type.
// *filter.Capture and *filter.Border implement it.
type Filter interface {
	Program(rocev2.LinkType) ([]bpf.RawInstruction, error)
}

// Errors of an interface. Other errors are those of the system; without CAP_NET_RAW the error matches fs.ErrPermission.
var (
	// ErrNoInterface is the error of OpenPackets for an unknown name.
	ErrNoInterface = errors.New("no such interface")
	// ErrDown is the error of OpenPackets for an interface that is down. Call
	// OpenPackets again when it is up.
	ErrDown = errors.New("the interface is down")
	// ErrAway is the error of Read after the interface went down or was deleted. It
	// is not fatal: Run continues, and packets arrive again when the interface is up.
	// A deleted interface must be opened again by its name.
	ErrAway = errors.New("the interface went down or away")

	errLinkType = errors.New("carries neither Ethernet nor IP")
	errNoRights = fmt.Errorf("%w: CAP_NET_RAW is needed", fs.ErrPermission)
)
