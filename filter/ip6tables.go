package filter

import (
	"fmt"
	"strings"

	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// IP6Tables returns commands that append rules to a chain of ip6tables and
// iptables, FORWARD at a border: what is not to cross, whatever its direction.
// The rules need the matches bpf, multiport, dst and frag.
//
// Programs for xt_bpf have at most 64 instructions, too few to look through
// options. So the rules also drop CNPs with other options in a Destination
// Options header, and fragments with such a header; no node is known to send
// any. Otherwise, for packets without a tunnel and with at most four extension
// headers, the rules drop what Match does. They let no tunnel cross, for they
// cannot look into one.
func (r *Border) IP6Tables(chain string) []string {
	c := r.withDefaults()
	var commands []string
	drop := func(command, match string, args ...any) {
		commands = append(commands, fmt.Sprintf("%s -A %s %s -j DROP", command, chain, fmt.Sprintf(match, args...)))
	}
	const roce = "-p udp --dport %d"
	drop("ip6tables", roce+" -m dst -m bpf --bytecode '%s'", rocev2.Port, Bytecode(xtProgram(6, fastCNP)))
	drop("ip6tables", "-m dst -m frag")
	for _, family := range []struct {
		command string
		version int
	}{{"ip6tables", 6}, {"iptables", 4}} {
		drop(family.command, "-p udp -m multiport --dports %d,%d", c.FCNPort, c.ProxyPort)
		if what := c.xt(); what != fastCNP {
			drop(family.command, roce+" -m bpf --bytecode '%s'", rocev2.Port, Bytecode(xtProgram(family.version, what)))
		}
		for _, p := range tunnelProtocols {
			drop(family.command, "-p %d", p)
		}
		drop(family.command, "-p udp -m multiport --dports %s", strings.ReplaceAll(list(tunnelPorts), " ", ""))
	}
	return commands
}

// Bytecode returns a program as text, as iptables and tc take it: how many
// instructions there are, then the four numbers of each.
func Bytecode(program []bpf.RawInstruction) string {
	var b strings.Builder
	fmt.Fprint(&b, len(program))
	for _, i := range program {
		fmt.Fprintf(&b, ",%d %d %d %d", i.Op, i.Jt, i.Jf, i.K)
	}
	return b.String()
}

// xtKind says which packets to port 4791 a program for xt_bpf is to drop.
type xtKind uint8

const (
	fastCNP xtKind = iota // of those with a Destination Options header, all with OpCode 0x81
	anyCNP                // all with OpCode 0x81
	onlyPPFC
	onlyCNP // all with OpCode 0x81 that are not PPFC
)

// xt returns what a border wants dropped besides Fast CNPs, fastCNP for nothing.
func (r *Border) xt() xtKind {
	switch {
	case r.CNP && r.PPFC:
		return anyCNP
	case r.CNP:
		return onlyCNP
	case r.PPFC:
		return onlyPPFC
	}
	return fastCNP
}

// xtProgram returns a program for xt_bpf, which sees the packet from its IP
// header on. What leads out of its domain it drops.
func xtProgram(version int, what xtKind) []bpf.RawInstruction {
	var p program
	udp, hit, miss := p.label(), p.label(), p.label()
	if version == 4 {
		p.do(bpf.LoadMemShift{Off: 0})
	} else {
		p.do(bpf.LoadConstant{Dst: regX, Val: 40}, bpf.LoadAbsolute{Off: 6, Size: 1})
		for range maxExtensions {
			extension := p.label()
			p.jumpIf(bpf.JumpEqual, protoUDP, udp, next)
			p.jumpIfAny(extension, protoHopByHop, protoDestOpts)
			p.jumpIf(bpf.JumpEqual, protoRouting, extension, hit)
			p.place(extension)
			p.do(load(0, 1), keep(regA, wordNext), load(1, 1), add(1), shiftLeft(3), addX, bpf.TAX{}, recall(regA, wordNext))
		}
		p.jumpIf(bpf.JumpEqual, protoUDP, udp, hit)
	}
	p.place(udp)
	if what == fastCNP {
		p.do(bpf.LoadExtension{Num: bpf.ExtLen}, subX)
		p.jumpIf(bpf.JumpLessThan, atOpcode+1, hit, next)
	}
	p.do(load(atOpcode, 1))
	if what == fastCNP || what == anyCNP {
		p.jumpIf(bpf.JumpEqual, uint32(bth.CNP), hit, miss)
	} else {
		p.jumpIf(bpf.JumpNotEqual, uint32(bth.CNP), miss, next)
		cnp, ppfc := hit, miss
		if what == onlyPPFC {
			cnp, ppfc = miss, hit
		} else {
			p.do(bpf.LoadExtension{Num: bpf.ExtLen}, subX)
			p.jumpIf(bpf.JumpLessThan, atPBit+1, cnp, next)
		}
		p.do(load(atPBit, 1))
		p.jumpIf(bpf.JumpBitsNotSet, ppfcBit, cnp, next)
		p.do(load(atLength, 2))
		p.jumpIf(bpf.JumpEqual, cnpLength, cnp, ppfc)
	}
	p.place(miss)
	p.do(bpf.RetConstant{Val: 0})
	p.place(hit)
	p.do(bpf.RetConstant{Val: 1})
	raw, err := p.assemble()
	if err != nil {
		panic(err) // its instructions are those above
	}
	return raw
}
