// Package filter describes messages of congestion signalling in the filter
// languages of other programs.
//
// A [Capture] selects packets to capture, with a BPF program for a socket or an
// expression for tcpdump. A [Border] selects the messages that must not cross
// the border of a domain, with a function, a BPF program, or rules for nftables
// or ip6tables.
//
//	               Capture                 Border
//	Program        Selection               Match, or more
//	Expression     the same, for tcpdump   –
//	NFT, IP6Tables –                       the same, or more
//
// Programs and rules do not look into tunnels, and recognize those in UDP by their ports: the standard ones, and those
// that a Capture or a Border names. They do not read timestamps of Arista and CSIG tags: Flows selects all frames with
// one, and the program of a Border selects them. The documentation of each describes its treatment of tunnels.
//
// Experimental: this package may change in a minor release.
package filter

import (
	"cmp"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// A Selection is the set of packets that a [Capture] selects.
type Selection uint8

// The selections.
const (
	RoCEv2        Selection = iota // all RoCEv2 packets, by their port
	Notifications                  // CNP, Fast CNP and PPFC, by opcode 0x81, FCN and proxy messages, by their ports
	CE                             // RoCEv2 packets with the ECN field 11, congestion experienced
	QueuePair                      // RoCEv2 packets to the queue pair DestQP
	Ours                           // FCN and proxy messages
	Pairs                          // RoCEv2 packets, except First and Middle packets of requests without AckReq
	Flows                          // packets counted by package flows: RoCEv2, Ours, PFC and PAUSE, all in tunnels
)

var selections = [...]string{"rocev2", "notifications", "ce", "qp", "ours", "pairs", "flows"}

// String returns the selection in lower case, "qp" for QueuePair.
func (s Selection) String() string { return enumtext.Name(s, selections[:], "Selection") }

// MarshalText returns the same text as String.
func (s Selection) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets s to the selection that String returns the text for.
func (s *Selection) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(s, text, "filter", "Selection")
}

// A Capture selects packets to capture. It recognizes packets without a tunnel,
// with at most two VLAN tags and four IPv6 extension headers, and no fragments.
// The Selection Flows also selects all packets in tunnels, without looking into
// them. If the IP packet or the capture ends within the BTH, opcode and queue
// pair are unknown.
type Capture struct {
	Selection Selection // selected packets
	DestQP    uint32    // queue pair for the Selection QueuePair, 24 bits
	FCNPort   uint16    // UDP port of FCN; 0 stands for fcn.Port
	ProxyPort uint16    // UDP port of proxy messages; 0 stands for proxymsg.Port
	// Encapsulations has further ports of tunnels, and the TPID of CSIG tags, for the Selection Flows; nil stands for
	// none.
	Encapsulations *rocev2.Encapsulations
}

// Errors of Program and Expression.
var (
	errSelection = wireerr.New("filter", "Selection", "not one of the selections of this package", wireerr.Range)
	errDestQP    = wireerr.New("filter", "DestQP", "over 24 bits", wireerr.Range)
)

func (c *Capture) check() error {
	switch {
	case c.Selection > Flows:
		return errSelection
	case c.Selection == QueuePair && c.DestQP >= 1<<24:
		return errDestQP
	}
	return nil
}

// messagePorts returns the UDP ports of FCN and proxy messages if c selects
// these.
func (c *Capture) messagePorts() []uint32 {
	if c.Selection != Notifications && c.Selection != Ours && c.Selection != Flows {
		return nil
	}
	return []uint32{uint32(cmp.Or(c.FCNPort, fcn.Port)),
		uint32(cmp.Or(c.ProxyPort, proxymsg.Port))}
}

// tunnelPorts returns the UDP ports of tunnels for the Selection Flows.
func (c *Capture) tunnelPorts() []uint32 {
	if c.Encapsulations == nil {
		return tunnelPorts
	}
	return addPorts(slices.Clone(tunnelPorts), c.Encapsulations.VXLANPorts, c.Encapsulations.FOUPorts)
}

// addPorts appends ports to all, except those that all contains.
func addPorts(all []uint32, lists ...[]uint16) []uint32 {
	for _, p := range slices.Concat(lists...) {
		if !slices.Contains(all, uint32(p)) {
			all = append(all, uint32(p))
		}
	}
	return all
}

// unreadTypes returns the EtherTypes of the headers between Ethernet and IP that the filter does not read.
func (c *Capture) unreadTypes() []uint32 {
	if c.Encapsulations == nil || c.Encapsulations.CSIGTPID == 0 {
		return unreadTypes
	}
	return addPorts(slices.Clone(unreadTypes), []uint16{c.Encapsulations.CSIGTPID})
}

// Octets from the UDP header on.
const (
	wholeBTH = wire.UDPSize + bth.Size

	atPort   = 2
	atLength = 4
	atOpcode = wire.UDPSize
	atPBit   = wire.UDPSize + 4 // F, B, Resv6; the top bit of Resv6 is P
	atDestQP = wire.UDPSize + 4 // with those, 32 bits
	atAckReq = wire.UDPSize + 8 // the top bit, with 7 others

	transportBits, operationBits, ackReqBit = 0xE0, 0x1F, 0x80
)

// For Pairs: the transports with messages of several packets, and the types of the packets before the last one, which
// teach nothing more. The First of a READ response is kept: it is the answer, and the Last need not come.
var (
	inPackets = []uint32{uint32(bth.TransportRC) << 5, uint32(bth.TransportUC) << 5, uint32(bth.TransportRD) << 5,
		uint32(bth.TransportXRC) << 5}
	notLast = []uint32{uint32(bth.OpSendFirst), uint32(bth.OpSendMiddle), uint32(bth.OpRDMAWriteFirst),
		uint32(bth.OpRDMAWriteMiddle), uint32(bth.OpRDMAReadResponseMiddle)}
)

// Program returns the BPF program that selects the packets, for a socket that
// sees them with this link layer, or with Ethernet for a tc filter.
func (c *Capture) Program(link rocev2.LinkType) ([]bpf.RawInstruction, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var w walk
	hit := w.label()
	w.udp, w.miss = w.label(), w.label()
	w.cut, w.beyond = w.miss, w.miss
	w.all, w.hit, w.unread = c.Selection == Flows, hit, c.unreadTypes()
	if err := w.from(link); err != nil {
		return nil, err
	}
	w.place(w.udp)
	w.need(wire.UDPSize)
	w.do(load(atPort, 2))
	if w.all {
		w.jumpIfAny(hit, c.tunnelPorts()...)
	}
	w.jumpIfAny(hit, c.messagePorts()...)
	if c.Selection == Ours {
		w.jump(w.miss)
	} else {
		w.jumpIf(bpf.JumpNotEqual, rocev2.Port, w.miss, next)
	}
	switch c.Selection {
	case RoCEv2, Flows:
		w.jump(hit)
	case Notifications:
		w.need(wholeBTH)
		w.do(load(atOpcode, 1))
		w.jumpIf(bpf.JumpEqual, uint32(bth.CNP), hit, w.miss)
	case QueuePair:
		w.need(wholeBTH)
		w.do(load(atDestQP, 4), mask(1<<24-1))
		w.jumpIf(bpf.JumpEqual, c.DestQP, hit, w.miss)
	case Pairs:
		several, begins := w.label(), w.label()
		w.need(wholeBTH)
		w.do(load(atOpcode, 1), mask(transportBits))
		w.jumpIfAny(several, inPackets...)
		w.jump(hit)
		w.place(several)
		w.do(load(atOpcode, 1), mask(operationBits))
		w.jumpIfAny(begins, notLast...)
		w.jump(hit)
		w.place(begins)
		w.do(load(atAckReq, 1))
		w.jumpIf(bpf.JumpBitsSet, ackReqBit, hit, w.miss)
	case CE:
		w.do(recall(regA, wordECN))
		w.jumpIf(bpf.JumpEqual, uint32(rocev2.CE), hit, w.miss)
	}
	w.place(w.miss)
	w.do(bpf.RetConstant{Val: 0})
	w.place(hit)
	w.do(bpf.RetConstant{Val: selected})
	return w.assemble()
}
