// Package fastpath has the parts of the roles that the kernel can play alone, by BPF
// programs: a congested node that answers packets by Fast CNPs ([Answerer]), and a
// translator that makes CNPs of Fast CNPs for hosts behind it ([Translator]). What they
// send is octet for octet what packages fastcnp and cnp append.
//
// They look at a packet where it is, so nobody is woken for it; and the Answerer can
// mark it, or not, which an agent cannot that only sees copies.
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

// interfaceIndexes returns the numbers of interfaces, 0 for one that is not there. For one that
// carries anything else than Ethernet, such as a tunnel, it is 0 with an error.
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

// ErrTaken: an interface has an XDP program, and Linux runs no second one.
var ErrTaken = errors.New("an XDP program is there already")

var errEthernet = errors.New("it does not carry Ethernet")

// A Policy says what the kernel does about congested packets of a sender.
type Policy uint32

// The policies, as the node/congested role has them: a Fast CNP goes to a sender that
// may understand it, and a packet is marked if its sender is not known to (FAST
// section 4).
const (
	Nothing       Policy = iota
	NotifyAndMark        // whether it understands Fast CNPs is not known
	Notify               // it understands them
	Mark                 // it does not
)

// A Port is an interface that carries Ethernet, and the octets in its queue at which
// the level of congestion changes. Packets of level 0 are not congested.
type Port struct {
	Name   string
	Levels level.Thresholds
}

// AnswererConfig says how an [Answerer] answers.
type AnswererConfig struct {
	Ports []Port
	// Self is the node's own IPv6 address, which Fast CNPs come from. Without one there are none: packets are
	// marked, or left alone.
	Self netip.Addr
	// PerFlow is by level the shortest time between two Fast CNPs about a flow, which is
	// known by its addresses and destination queue pair; 0 sets no limit.
	PerFlow [level.Max + 1]time.Duration
	// Remember lets HasSent know of every Fast CNP, also of levels without a limit.
	Remember bool
	// FastCNP says how Fast CNPs are built, but always with option 1. They have no UDP
	// checksum.
	FastCNP fastcnp.Config
}

// Answered are the counters of an [Answerer].
type Answered struct {
	// RoCEv2 packets, notifications too, that left by a port with a long queue. Each is
	// one of those from Broken to NotCopied.
	Congested uint64

	Broken          uint64 // it breaks off, or its lengths are wrong
	Acknowledgement uint64
	Notification    uint64
	NoMethod        uint64 // its sender has no policy, or is IPv4 with another one than Mark
	OwnAddress      uint64 // the node's own
	Address         uint64 // the sender's cannot be answered
	Routed          uint64 // it has a Routing header, which the kernel does not follow
	NotCapable      uint64 // neither its sender of Fast CNPs nor the packet of ECN
	Limited         uint64 // the flow had a Fast CNP a short time ago
	MarkedOnly      uint64 // for a sender that does not understand Fast CNPs
	Copied          uint64 // to be answered
	NotCopied       uint64 // the kernel had no room

	Marked uint64 // of any of those

	// Each one that was Copied is one of these.
	Sent     uint64 // handed over to the neighbour's interface
	NoRoute  uint64 // to the sender
	Checksum uint64 // the device was to compute its UDP checksum
	Failed   uint64
}

// TranslatorConfig says what a [Translator] translates.
type TranslatorConfig struct {
	// Interfaces are those where Fast CNPs arrive. They carry Ethernet.
	Interfaces []string
	CodePoints fastcnp.CodePoints
	// Host is the one whose Fast CNPs are translated, an IPv6 address. The zero Addr
	// stands for every host.
	Host netip.Addr
	// Receivers says that a flow's receiver is believed, too, whether it is accepted or
	// not.
	Receivers bool
	// Window is how long after a CNP other Fast CNPs about its flow say nothing new: they
	// are dropped. 0: each says something.
	Window time.Duration
	// Drop says that Fast CNPs of which no CNP comes go no further.
	Drop bool
	// CNP says how CNPs are built. They have no UDP checksum.
	CNP cnp.Config
}

// A Pair says which queue pair of a host a flow comes from.
type Pair struct {
	Host, Receiver netip.Addr // IPv6
	ReceiverQP     uint32     // the flow's DestQP, 24 bits
}

// Translated are the counters of a [Translator]: each CNP with destination options is
// one of them.
type Translated struct {
	Translated uint64 // a CNP took its place
	Denied     uint64 // dropped: its source is not on the list
	ICRC       uint64 // dropped: wrong
	Address    uint64 // dropped: a CNP can come from or go to no such address
	UnknownQP  uint64 // no queue pair is known: passed on as it is, with Drop dropped
	Passed     uint64 // likewise: its option is of another type or at an unusual place, it has a
	// UDP checksum, which the program does not verify, or is a PPFC
	Again uint64 // dropped: another one of the window was translated
}
