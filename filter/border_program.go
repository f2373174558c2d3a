package filter

import (
	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
)

// selected is the value that a program returns for a packet that it selects. A socket keeps the whole packet then; tc
// uses the class that the filter names.
const selected = 1<<32 - 1

// Program returns the BPF program that selects the packets that Match drops. Its domain is packets without a tunnel,
// with at most two VLAN tags, four IPv6 extension headers including Fragment headers, and 36 options in each
// Destination Options header, each Pad1 octet counted. Hosts accept at most 8 options and 7 octets of padding between
// them (RFC 8504 section 5.3). In this domain it selects the same packets as Match. Outside it selects every packet
// that could hide a message: the tunnels that Match looks into or that DropTunnels and TunnelPorts name, and all
// packets with more tags, headers or options.
//
// There are no programs for BSD loopback. Otherwise the error is that of Validate.
//
// The program is for sockets and tc filters: it has up to 2000 instructions, and
// they take 4096. Before Linux 6.8 a socket takes it only if net.core.optmem_max
// is above its default, 131072 for example. For xt_bpf, which takes 64
// instructions, see IP6Tables.
func (b *Border) Program(link rocev2.LinkType) ([]bpf.RawInstruction, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	c := b.withDefaults()
	w := walk{border: true, tunnels: c.protocols(), unread: unreadTypes}
	w.udp, w.miss, w.cut, w.later, w.beyond = w.label(), w.label(), w.label(), w.label(), w.label()
	options, hit := w.later, w.beyond

	w.do(bpf.LoadConstant{Dst: regA})
	for word := wordStart; word <= wordFirst; word++ {
		w.do(keep(regA, word))
	}
	if err := w.from(link); err != nil {
		return nil, err
	}

	w.place(w.udp)
	w.need(atPort + 2)
	w.do(load(atPort, 2))
	w.do(keep(regA, wordNext))
	w.jumpIfAny(hit, uint32(c.FCNPort), uint32(c.ProxyPort))
	w.jumpIfAny(hit, c.ports()...)
	whole := w.label()
	w.do(recall(regA, wordFirst))
	w.jumpIf(bpf.JumpEqual, 0, whole, next)
	w.need(wire.UDPSize)
	w.place(whole)
	w.do(recall(regA, wordNext))
	w.jumpIf(bpf.JumpNotEqual, rocev2.Port, w.miss, next)
	if b.CNP || b.PPFC {
		w.need(atOpcode + 1)
	} else {
		w.needOr(atOpcode+1, options)
	}
	w.do(load(atOpcode, 1))
	w.jumpIf(bpf.JumpNotEqual, uint32(bth.CNP), w.miss, next)
	w.do(recall(regA, wordEnd), subX)
	w.notification(b, hit, options)

	w.place(w.cut)
	w.do(recall(regA, wordFirst))
	w.jumpIf(bpf.JumpNotEqual, 0, hit, next)

	w.place(options)
	for n := range maxExtensions {
		w.options(n, &c.CodePoints, hit)
	}
	w.place(w.miss)
	w.do(bpf.RetConstant{Val: 0})
	w.place(hit)
	w.do(bpf.RetConstant{Val: selected})
	return w.assemble()
}

// notification jumps to drop if a packet with opcode 0x81 must not cross as a CNP or as PPFC, otherwise to
// pass. The accumulator has the number of octets from the UDP header on.
func (p *program) notification(b *Border, drop, pass label) {
	cnp, ppfc := pass, pass
	if b.CNP {
		cnp = drop
	}
	if b.PPFC {
		ppfc = drop
	}
	if cnp == ppfc {
		p.jump(cnp)
		return
	}
	p.jumpIf(bpf.JumpLessThan, atPBit+1, cnp, next)
	p.do(load(atPBit, 1))
	p.jumpIf(bpf.JumpBitsSet, ppfcBit, next, cnp)
	p.do(load(atLength, 2))
	p.jumpIf(bpf.JumpEqual, cnpLength, cnp, ppfc)
}

// options jumps to hit if the nth extension header is a Destination Options
// header with an option of one of the types, or with more options than the
// program can read.
func (w *walk) options(n int, c *fastcnp.CodePoints, hit label) {
	done := w.label()
	w.do(recall(regX, wordStart+n), bpf.TXA{})
	w.jumpIf(bpf.JumpEqual, 0, done, next)
	for range maxOptions {
		w.do(recall(regA, wordStop+n))
		w.jumpIfX(bpf.JumpGreaterThan, next, done)
		w.do(load(0, 1))
		w.jumpIf(bpf.JumpEqual, uint32(c.Option1), hit, next)
		if c.Option2 != c.Option1 {
			w.jumpIf(bpf.JumpEqual, uint32(c.Option2), hit, next)
		}
		pad1 := w.label()
		w.jumpIf(bpf.JumpEqual, uint32(ipv6opt.Pad1), pad1, next)
		w.do(load(1, 1), add(1)) // Opt Data Len
		w.place(pad1)
		w.do(add(1), addX, bpf.TAX{})
	}
	w.do(recall(regA, wordStop+n))
	w.jumpIfX(bpf.JumpGreaterThan, hit, next)
	w.place(done)
}
