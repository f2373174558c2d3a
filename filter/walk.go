package filter

import (
	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Sizes of headers, and offsets of the fields that say which fragment a packet
// is: in an IPv4 header at octet 6, in an IPv6 Fragment header at octet 2.
const (
	fragmentSize = 8

	moreFragments4  = 0x2000
	fragmentOffset4 = wire.FragmentOffset
	fragmentOffset6 = 0xFFF8
)

var (
	tags = []uint32{wire.EtherVLAN, wire.EtherSVLAN, wire.EtherVLAN9100}

	// The tunnels that package rocev2 looks into, besides MPLS directly after
	// Ethernet: IPv4 and IPv6 in IP, GRE, MPLS in IP, Ethernet in IP; and over
	// UDP VXLAN, VXLAN-GPE, Geneve, MPLS, GTP-U, GUE, to their standard ports.
	tunnelProtocols = []uint32{
		wire.ProtoIPv4, wire.ProtoIPv6, wire.ProtoGRE, wire.ProtoMPLS, wire.ProtoEthernet,
	}
	tunnelPorts = []uint32{wire.PortVXLAN, wire.PortVXLAN2, wire.PortGPE, wire.PortGeneve, wire.PortMPLS, wire.PortGTPU,
		wire.PortGUE}

	// The EtherTypes of headers between Ethernet and IP that the programs do not read.
	unreadTypes = []uint32{wire.EtherMPLS, wire.EtherMPLS2, wire.EtherTimestamp, wire.EtherCSIG}
)

// The domain of the programs.
const (
	maxTags       = 2
	maxExtensions = 4
	maxOptions    = 36 // in each Destination Options header; see options
)

// Words of a program's scratch memory.
const (
	wordNext  = iota // the type of the header at X; in IPv4 the length of the header
	wordEnd          // the end of the IP packet: by its own length, or of the octets that are there
	wordHere         // a saved value of X
	wordECN          // the ECN field
	wordStart        // of the options of a Destination Options header, 0 for none
	wordStop  = wordStart + maxExtensions
	wordFirst = wordStop + maxExtensions // not 0 in the first fragment of a packet
)

// A walk is the part of a program that finds the UDP header in packets of one
// link type: Ethernet with up to two tags, IPv4 or IPv6, up to four extension
// headers.
type walk struct {
	program

	// Where the walk jumps: to udp, with register X at the UDP header; to miss
	// if the packet certainly has another protocol; to cut if it ends too early
	// to tell; to later if it is a fragment other than the first; to beyond if
	// it is outside the domain of the programs, with a tunnel, a third tag or a
	// fifth extension header.
	udp, miss, cut, later, beyond label

	// all: packets in tunnels and MAC Control frames go to hit.
	all    bool
	hit    label
	unread []uint32 // EtherTypes of headers that it does not read

	// border: the walk also goes through first fragments, detects tunnels, and
	// records where destination options are.
	border  bool
	tunnels []uint32 // IP protocols of the tunnels that it detects
}

// load loads 1, 2 or 4 octets at register X and this offset.
func load(offset uint32, size int) bpf.Instruction { return bpf.LoadIndirect{Off: offset, Size: size} }

func add(v uint32) bpf.Instruction                    { return bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: v} }
func mask(v uint32) bpf.Instruction                   { return bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: v} }
func shiftLeft(v uint32) bpf.Instruction              { return bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: v} }
func shiftRight(v uint32) bpf.Instruction             { return bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: v} }
func recall(r bpf.Register, word int) bpf.Instruction { return bpf.LoadScratch{Dst: r, N: word} }
func keep(r bpf.Register, word int) bpf.Instruction   { return bpf.StoreScratch{Src: r, N: word} }

var (
	addX = bpf.ALUOpX{Op: bpf.ALUOpAdd}
	subX = bpf.ALUOpX{Op: bpf.ALUOpSub}
)

const (
	regA = bpf.RegA
	regX = bpf.RegX
)

var errLink = wireerr.New("filter", "link type", "BSD loopback is not supported", wireerr.Range)

// from walks from the link layer on.
func (w *walk) from(link rocev2.LinkType) error {
	ipv4, ipv6 := w.label(), w.label()
	switch link {
	case rocev2.LinkEthernet:
		w.etherTypes(12, 14, ipv4, ipv6)
	case rocev2.LinkSLL:
		w.etherTypes(14, 16, ipv4, ipv6)
	case rocev2.LinkSLL2:
		w.etherTypes(0, 20, ipv4, ipv6)
	case rocev2.LinkIP:
		w.do(bpf.LoadConstant{Dst: regX, Val: 0}, load(0, 1), shiftRight(4))
		w.jumpIf(bpf.JumpEqual, 6, ipv6, ipv4)
	default:
		return errLink
	}
	w.place(ipv4)
	w.ipv4()
	w.place(ipv6)
	w.ipv6()
	return nil
}

// etherTypes walks through VLAN tags after a header of this size, which has its EtherType at the offset at.
func (w *walk) etherTypes(at, size uint32, ipv4, ipv6 label) {
	for n := 0; ; n++ {
		w.do(bpf.LoadAbsolute{Off: at, Size: 2}, bpf.LoadConstant{Dst: regX, Val: size})
		w.jumpIf(bpf.JumpEqual, wire.EtherIPv6, ipv6, next)
		w.jumpIf(bpf.JumpEqual, wire.EtherIPv4, ipv4, next)
		if w.border {
			w.jumpIfAny(w.beyond, w.unread...)
		}
		if w.all {
			w.jumpIfAny(w.hit, w.unread...)
			w.jumpIfAny(w.hit, wire.EtherMACControl, wire.EtherRoCEv1)
		}
		if n == maxTags {
			w.jumpIfAny(w.beyond, tags...)
			w.jump(w.miss)
			return
		}
		tagged := w.label()
		w.jumpIfAny(tagged, tags...)
		w.jump(w.miss)
		w.place(tagged)
		at, size = size+2, size+4
	}
}

// version jumps to miss unless the IP version at X is v.
func (w *walk) version(v uint32) {
	w.do(load(0, 1), shiftRight(4))
	w.jumpIf(bpf.JumpNotEqual, v, w.miss, next)
}

// end saves the end of the IP packet. The accumulator holds the length of the packet.
func (w *walk) end() {
	whole := w.label()
	w.do(addX, keep(regA, wordEnd), keep(regX, wordHere), bpf.TAX{}, bpf.LoadExtension{Num: bpf.ExtLen})
	w.jumpIfX(bpf.JumpGreaterOrEqual, whole, next)
	w.do(keep(regA, wordEnd))
	w.place(whole)
	w.do(recall(regX, wordHere))
}

// need jumps to cut unless the packet has this many octets from X on. X must
// not be beyond its end.
func (w *walk) need(octets uint32) { w.needOr(octets, w.cut) }

// needOr is need with another label than cut.
func (w *walk) needOr(octets uint32, short label) {
	w.do(recall(regA, wordEnd), subX)
	w.jumpIf(bpf.JumpLessThan, octets, short, next)
}

// step sets X to the offset in the accumulator. It jumps to cut if that is
// beyond the end of the packet.
func (w *walk) step(cut label) {
	w.do(bpf.TAX{}, recall(regA, wordEnd))
	w.jumpIfX(bpf.JumpGreaterOrEqual, next, cut)
}

// protocol jumps to udp if the protocol is UDP, and ends the walk for a tunnel.
func (w *walk) protocol(udp label) {
	w.jumpIf(bpf.JumpEqual, wire.ProtoUDP, udp, next)
	if w.border {
		w.jumpIfAny(w.beyond, w.tunnels...)
	}
	if w.all {
		w.jumpIfAny(w.hit, tunnelProtocols...)
	}
}

func (w *walk) ipv4() {
	w.version(4)
	w.do(load(0, 1), mask(0x0F), shiftLeft(2))
	w.jumpIf(bpf.JumpLessThan, 20, w.miss, next) // IHL
	w.do(keep(regA, wordNext), load(6, 2))
	fragment := uint32(moreFragments4 | fragmentOffset4)
	if w.border {
		fragment = fragmentOffset4
	}
	w.jumpIf(bpf.JumpBitsSet, fragment, w.miss, next)
	if w.border {
		w.do(mask(moreFragments4), keep(regA, wordFirst))
	}
	w.do(load(2, 2)) // Total Length
	w.end()
	w.do(load(1, 1), mask(3), keep(regA, wordECN))
	w.do(load(9, 1)) // Protocol
	udp := w.label()
	w.protocol(udp)
	w.jump(w.miss)
	w.place(udp)
	w.do(recall(regA, wordNext), addX)
	w.step(w.miss)
	w.jump(w.udp)
}

func (w *walk) ipv6() {
	w.version(6)
	w.do(load(4, 2), add(40)) // Payload Length
	w.end()
	w.do(load(1, 1), shiftRight(4), mask(3), keep(regA, wordECN))
	w.do(load(6, 1), keep(regA, wordNext)) // Next Header
	w.do(bpf.TXA{}, add(40))
	w.step(w.miss)
	for n := 0; ; n++ {
		w.do(recall(regA, wordNext))
		w.protocol(w.udp)
		if n == maxExtensions {
			break
		}
		w.extension(n)
	}
	w.jumpIfAny(w.beyond, wire.ProtoHopByHop, wire.ProtoRouting, wire.ProtoDestinationOptions)
	if w.border {
		w.jumpIfAny(w.beyond, wire.ProtoFragment)
	}
	w.jump(w.miss)
}

// extension moves past the nth extension header. The accumulator holds the type of the header.
func (w *walk) extension(n int) {
	header, then, cut := w.label(), w.label(), w.cut
	w.jumpIfAny(header, wire.ProtoHopByHop, wire.ProtoRouting)
	options := w.label()
	if !w.border {
		w.jumpIf(bpf.JumpEqual, wire.ProtoDestinationOptions, header, w.miss)
	} else {
		fragment := w.label()
		w.jumpIf(bpf.JumpEqual, wire.ProtoDestinationOptions, options, next)
		w.jumpIf(bpf.JumpEqual, wire.ProtoFragment, fragment, w.miss)

		w.place(fragment)
		w.need(fragmentSize)
		w.do(load(0, 1), keep(regA, wordNext), load(2, 2))
		w.jumpIf(bpf.JumpBitsSet, fragmentOffset6, w.later, next)
		w.do(bpf.TXA{}, add(fragmentSize), bpf.TAX{}, keep(regX, wordFirst)) // X is not 0
		w.jump(then)

		w.place(options)
		w.do(bpf.TXA{}, add(2), keep(regA, wordStart+n))
		cut = w.label()
	}
	w.place(header)
	w.need(2)
	w.do(load(0, 1), keep(regA, wordNext))
	w.do(load(1, 1), add(1), shiftLeft(3), addX) // Hdr Ext Len
	if w.border {
		w.do(keep(regA, wordStop+n))
	}
	w.step(cut)
	if w.border {
		w.jump(then)
		w.place(cut)
		w.do(recall(regA, wordEnd), keep(regA, wordStop+n))
		w.jump(w.cut)
	}
	w.place(then)
}
