package filter

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// IP6Tables returns commands for ip6tables and iptables, one on each line. They append rules to a chain, FORWARD at a
// border, that drop messages that must not cross in either direction. They also make a chain rocecn-options. The rules
// need the matches bpf, multiport, dst and frag. The name of the chain is quoted for a shell if necessary. The Border
// must be one that Validate accepts.
//
// ip6tables itself drops a packet that is too short for the headers that a rule
// with a protocol needs. So no first fragment without all headers crosses,
// unless its last complete header announces another protocol than UDP.
//
// Programs for xt_bpf have at most 64 instructions, too few to look through options. So the rules also drop CNPs with
// other options in a Destination Options header, and fragments with such a header; no node is known to send any.
// Otherwise, for packets without a tunnel and with at most four extension headers, the rules drop the same packets as
// Match. They drop the tunnels that Match looks into, and those of DropTunnels and TunnelPorts, because they cannot
// look into them.
func (b *Border) IP6Tables(chain string) string {
	c := b.withDefaults()
	chain = quoted(chain)
	// A rule that cannot read its field does not return from the chain, so a
	// packet that ends before its opcode is dropped.
	commands := []string{
		"ip6tables -N rocecn-options",
		"ip6tables -A rocecn-options -m frag -j DROP",
		"ip6tables -A rocecn-options ! -p udp -j RETURN",
		fmt.Sprintf("ip6tables -A rocecn-options -p udp ! --dport %d -j RETURN", rocev2.Port),
		fmt.Sprintf("ip6tables -A rocecn-options -m bpf --bytecode '%s' -j RETURN", Bytecode(xtProgram(6, nil))),
		"ip6tables -A rocecn-options -j DROP",
		fmt.Sprintf("ip6tables -A %s -m dst -j rocecn-options", chain),
	}
	for _, family := range []struct {
		command string
		version int
	}{{"ip6tables", 6}, {"iptables", 4}} {
		drop := func(match string, args ...any) {
			commands = append(commands, fmt.Sprintf("%s -A %s %s -j DROP", family.command, chain,
				fmt.Sprintf(match, args...)))
		}
		drop("-p udp -m multiport --dports %d,%d", c.FCNPort, c.ProxyPort)
		if c.CNP || c.PPFC {
			drop("-p udp --dport %d -m bpf --bytecode '%s'", rocev2.Port, Bytecode(xtProgram(family.version, &c)))
		}
		for _, p := range c.protocols() {
			drop("-p %d", p)
		}
		const most = 15 // ports that a rule can have
		for ports := range slices.Chunk(c.ports(), most) {
			drop("-p udp -m multiport --dports %s", strings.ReplaceAll(list(ports), " ", ""))
		}
	}
	return strings.Join(commands, "\n") + "\n"
}

// quoted returns text quoted as one word for a shell.
func quoted(text string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
	}
	if text != "" && !strings.ContainsFunc(text, func(c rune) bool { return !plain(c) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Bytecode returns a program as text for iptables and tc: the number of
// instructions, then the four numbers of each.
func Bytecode(program []bpf.RawInstruction) string {
	var b strings.Builder
	fmt.Fprint(&b, len(program))
	for _, i := range program {
		fmt.Fprintf(&b, ",%d %d %d %d", i.Op, i.Jt, i.Jf, i.K)
	}
	return b.String()
}

// xtProgram returns a program for xt_bpf, which sees a packet from its IP header on. With b it selects packets
// with opcode 0x81 that must not cross, except Fast CNPs; without b it selects packets with another opcode. The
// rules drop a packet if the program cannot reach its UDP header, or the opcode of a first fragment: with b it
// selects such packets, without b it does not.
func xtProgram(version int, b *Border) []bpf.RawInstruction {
	var p program
	udp, lost, yes, no := p.label(), p.label(), p.label(), p.label()
	if version == 4 {
		p.do(bpf.LoadMemShift{Off: 0})
	} else {
		p.do(bpf.LoadConstant{Dst: regX, Val: 40}, bpf.LoadAbsolute{Off: 6, Size: 1})
		for range maxExtensions {
			extension := p.label()
			p.jumpIf(bpf.JumpEqual, wire.ProtoUDP, udp, next)
			p.jumpIfAny(extension, wire.ProtoHopByHop, wire.ProtoDestinationOptions)
			p.jumpIf(bpf.JumpEqual, wire.ProtoRouting, extension, lost)
			p.place(extension)
			p.do(load(0, 1), keep(regA, wordNext), load(1, 1), add(1), shiftLeft(3), addX, bpf.TAX{},
				recall(regA, wordNext))
		}
		p.jumpIf(bpf.JumpEqual, wire.ProtoUDP, udp, lost)
	}
	p.place(udp)
	if version == 4 { // in IPv6 a Fragment header leads to lost
		whole := p.label()
		p.do(bpf.LoadAbsolute{Off: 6, Size: 2})
		p.jumpIf(bpf.JumpBitsSet, moreFragments4, next, whole)
		p.do(bpf.LoadExtension{Num: bpf.ExtLen}, subX)
		p.jumpIf(bpf.JumpLessThan, atOpcode+1, lost, next)
		p.place(whole)
	}
	p.do(load(atOpcode, 1))
	if b == nil {
		p.jumpIf(bpf.JumpEqual, uint32(bth.CNP), no, yes)
		p.place(lost)
	} else {
		p.jumpIf(bpf.JumpNotEqual, uint32(bth.CNP), no, next)
		p.do(bpf.LoadExtension{Num: bpf.ExtLen}, subX)
		p.notification(b, yes, no)
	}
	p.place(no)
	p.do(bpf.RetConstant{Val: 0})
	if b != nil {
		p.place(lost)
	}
	p.place(yes)
	p.do(bpf.RetConstant{Val: 1})
	raw, err := p.assemble()
	if err != nil {
		panic(err) // cannot happen with these instructions
	}
	return raw
}
