// Package fastpath runs parts of the roles in the kernel by BPF programs: a congested node that answers packets
// with Fast CNPs ([Answerer]), and a translator that turns Fast CNPs into CNPs for the hosts connected to it
// ([Translator]). The packets that they send equal the output of packages fastcnp and cnp.
//
// The programs process a packet in its path, without waking a process. Therefore the Answerer can also mark
// packets; an agent that receives copies cannot.
package fastpath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/node/level"
)

// interfaceIndexes returns the indexes of interfaces, 0 for missing ones. An interface that does not carry
// Ethernet, such as a tunnel, has index 0 and an error.
func interfaceIndexes(names []string) (all []int, wrong error) {
	for _, name := range names {
		number := 0
		switch i, err := net.InterfaceByName(name); {
		case err != nil:
		case len(i.HardwareAddr) == 6 || i.Flags&net.FlagLoopback != 0:
			number = i.Index
		default:
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", name, errEthernet))
		}
		all = append(all, number)
	}
	return all, wrong
}

// ErrTaken reports that an interface already has an XDP program. Linux runs only one.
var ErrTaken = errors.New("an XDP program is there already")

var errEthernet = errors.New("it does not carry Ethernet")

// A Policy is the kernel's reaction to congested packets of a sender.
type Policy uint32

// The policies follow the role of package node/congested: a Fast CNP goes to a sender that may understand it, and
// a packet is marked if its sender is not known to understand Fast CNPs (FAST section 4).
const (
	Nothing       Policy = iota
	NotifyAndMark        // for senders of unknown capability
	Notify               // for senders that understand Fast CNPs
	Mark                 // for senders that do not
	Probe                // for the prefix of one host: one Fast CNP, then AfterProbe
)

// A Port is an Ethernet interface with the queue depths, in bytes, at which the level of congestion changes.
// Packets at level 0 are not congested.
type Port struct {
	Name   string
	Levels level.Thresholds
}

// AnswererConfig configures an [Answerer].
type AnswererConfig struct {
	Ports []Port
	// Self is the node's own IPv6 address, the source of Fast CNPs. The zero Addr disables Fast CNPs: packets are
	// only marked.
	Self netip.Addr
	// PerFlow is, by level, the shortest time between two Fast CNPs about a flow, which is identified by its
	// addresses and destination queue pair. 0 sets no limit.
	PerFlow [level.Max + 1]time.Duration
	// Remember makes HasSent know the Fast CNPs that were sent.
	Remember bool
	// AfterProbe is the policy of a host after its probe: Mark, also for the packet that is answered, or Nothing.
	AfterProbe Policy
	// LabelKey is the key of the flow labels, which differ from one Fast CNP to the next. 0 stands for a random key.
	LabelKey uint64
	// FastCNP configures Fast CNPs. They always have option 1, no UDP checksum, and a
	// flow label by LabelKey instead of that of Carriage.
	FastCNP fastcnp.Config
}

// Answered has the counters of an [Answerer].
type Answered struct {
	// Congested counts RoCEv2 packets, including notifications, that left by a port with a long queue. Each of them
	// is also counted in one of the fields Broken to NotCopied.
	Congested uint64

	Broken          uint64 // truncated, or with invalid lengths
	Acknowledgement uint64
	Notification    uint64
	NoMethod        uint64 // no policy for the sender, or one other than Mark over IPv4
	OwnAddress      uint64 // source is the node's own address
	Address         uint64 // source cannot be answered, or a Fast CNP cannot name the destination
	Routed          uint64 // has a Routing header, which the kernel does not evaluate
	NotCapable      uint64 // neither the sender supports Fast CNPs nor the packet ECN
	Limited         uint64 // the flow had a Fast CNP within PerFlow
	MarkedOnly      uint64 // sender does not understand Fast CNPs
	Copied          uint64 // copied to be answered
	NotCopied       uint64 // the kernel had no memory

	Marked uint64 // marked packets of all the fields above

	// Each copied packet is counted in one of these fields.
	Sent     uint64 // passed to the neighbour's interface
	NoRoute  uint64 // no route to the sender
	Checksum uint64 // its UDP checksum was left to the device
	Failed   uint64
}

// A Flow is a flow with the Fast CNPs about it.
type Flow struct {
	Src, Dst netip.Addr
	DestQP   uint32 // 24 bits
	Sent     uint64 // Fast CNPs, including those that could not be sent
	Limited  uint64 // Fast CNPs that PerFlow withheld
	// Level, Depth in bytes, and time at the last Fast CNP.
	Level uint8
	Depth uint64
	Last  time.Time
}

// TranslatorConfig configures a [Translator].
type TranslatorConfig struct {
	// Interfaces are the Ethernet interfaces where Fast CNPs arrive.
	Interfaces []string
	CodePoints fastcnp.CodePoints
	// Host is the destination of the Fast CNPs to translate, an IPv6 address. The zero Addr stands for every host.
	Host netip.Addr
	// Receivers makes the translator accept Fast CNPs from the receiver of their flow, in addition to accepted
	// sources.
	Receivers bool
	// Window is the time after a CNP in which further Fast CNPs about its flow are dropped. 0 translates all.
	Window time.Duration
	// Drop drops Fast CNPs that cannot be translated, instead of passing them on.
	Drop bool
	// CNP configures CNPs. They have no UDP checksum.
	CNP cnp.Config
}

// A Pair identifies a flow. Its sending queue pair can be learned.
type Pair struct {
	Host, Receiver netip.Addr // IPv6
	ReceiverQP     uint32     // DestQP of the flow, 24 bits
}

// Translated has the counters of a [Translator]. Each CNP with destination options is counted in one field.
type Translated struct {
	Translated uint64 // replaced by a CNP
	Denied     uint64 // dropped: source not accepted
	ICRC       uint64 // dropped: invalid ICRC
	Address    uint64 // dropped: an address that a CNP cannot have
	UnknownQP  uint64 // unknown sending queue pair: passed on, or dropped with Drop
	// Passed counts packets that cannot be translated: with another option type or an unusual position of the option,
	// with a UDP checksum, or PPFC. They are passed on, or dropped with Drop.
	Passed uint64
	Again  uint64 // dropped: within the window of its flow
}
