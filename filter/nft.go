package filter

import (
	"fmt"
	"strings"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// NFT returns a table of this name for nftables, 1.0.6 or later. At a router on the border it drops messages that must
// not cross in either direction, IPv4 and IPv6. Load it with `nft -f`: it replaces a table of that name, with all its
// rules. The name is not quoted: it must be a letter, followed by letters, digits and underscores. The Border must be
// one that Validate accepts.
//
// nftables cannot distinguish destination options, so the table also drops CNPs with other options in a Destination
// Options header, and fragments with such a header; no node is known to send any. Otherwise, for packets without a
// tunnel, the table drops the same packets as Match, after any number of extension headers. It drops the
// tunnels that Match looks into, and those of DropTunnels and TunnelPorts, because it cannot look into them. Packets
// with MPLS labels are not forwarded as IP and do not pass the table.
func (b *Border) NFT(table string) string {
	c := b.withDefaults()
	var ruleset strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&ruleset, format+"\n", args...) }
	line("table inet %s", table) // so that there is one to delete
	line("delete table inet %s", table)
	line("table inet %s {", table)
	line("\tchain forward {")
	line("\t\ttype filter hook forward priority filter; policy accept;")
	line("\t\tudp dport { %d, %d } counter drop comment \"FCN and proxy messages\"", c.FCNPort, c.ProxyPort)
	line("\t\tip frag-off & %#x == %#x jump first", moreFragments4|fragmentOffset4, moreFragments4)
	line("\t\tfrag frag-off 0 jump first")
	line("\t\texthdr dst exists jump options")
	if c.CNP || c.PPFC {
		line("\t\tudp dport %d @th,64,8 %#x jump notification", rocev2.Port, uint8(bth.CNP))
	}
	line("\t\tmeta l4proto { %s } counter drop comment \"tunnels\"", list(c.protocols()))
	line("\t\tudp dport { %s } counter drop comment \"tunnels\"", list(c.ports()))
	line("\t}")
	line("")
	line("\t# First fragments. A rule that cannot read its field does not return: a packet that ends")
	line("\t# before the last of its headers is dropped (RFC 7112).")
	line("\tchain first {")
	line("\t\tmeta l4proto != udp @th,0,8 >= 0 return")
	if c.CNP || c.PPFC {
		line("\t\tudp dport != %d @th,56,8 >= 0 return", rocev2.Port)
		line("\t\tudp dport %d @th,64,8 >= 0 return", rocev2.Port)
	} else {
		line("\t\t@th,56,8 >= 0 return")
	}
	line("\t\tcounter drop comment \"first fragments without all headers\"")
	line("\t}")
	line("")
	line("\t# Packets with a Destination Options header. A rule that cannot read its field")
	line("\t# does not return: a packet that ends before its opcode is dropped.")
	line("\tchain options {")
	line("\t\texthdr frag exists counter drop comment \"fragments\"")
	line("\t\tmeta l4proto != udp return")
	line("\t\tudp dport != %d return", rocev2.Port)
	line("\t\t@th,64,8 != %#x return", uint8(bth.CNP))
	line("\t\tcounter drop comment \"Fast CNP\"")
	line("\t}")
	if c.CNP || c.PPFC {
		line("")
		line("\t# Packets with opcode %#x. PPFC has the P bit, and not the length of a CNP.", uint8(bth.CNP))
		line("\tchain notification {")
		ppfc := fmt.Sprintf("@th,98,1 1 udp length != %d", cnpLength)
		switch {
		case !c.CNP:
			line("\t\t%s counter drop comment \"PPFC\"", ppfc)
		case !c.PPFC:
			line("\t\t%s return", ppfc)
		}
		if c.CNP {
			line("\t\tcounter drop comment \"CNP\"")
		}
		line("\t}")
	}
	line("}")
	return ruleset.String()
}

// list returns numbers separated by commas.
func list(numbers []uint32) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ", "), "[]")
}
