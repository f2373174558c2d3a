package triage

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rocecn/rocecn/flows"
)

// These write Wireshark's display filters.

// maxTerms is how many flows or hosts a filter names; of more, it names what they have in common.
const maxTerms = 8

func and(terms ...string) string { return strings.Join(terms, " && ") }

func or(terms ...string) string {
	if len(terms) == 1 {
		return terms[0]
	}
	return "(" + strings.Join(terms, " || ") + ")"
}

// address is the field of an IP address: end is src, dst or addr.
func address(end string, a netip.Addr) string {
	if a.Is4() {
		return fmt.Sprintf("ip.%s == %v", end, a)
	}
	return fmt.Sprintf("ipv6.%s == %v", end, a)
}

// ecn selects requests with this ECN field.
func ecn(a netip.Addr, field int) string {
	if a.Is4() {
		return fmt.Sprintf("ip.dsfield.ecn == %d", field)
	}
	return fmt.Sprintf("ipv6.tclass.ecn == %d", field)
}

func qp(n uint32) string { return fmt.Sprintf("infiniband.bth.destqp == 0x%06x", n) }

// requests selects the requests of flows, by pairs of hosts.
func requests(all []*flows.Flow) string {
	if len(all) > maxTerms {
		return hosts(all)
	}
	var terms []string
	for _, to := range groupBy(all, destination) {
		for _, g := range groupBy(to.flows, source) {
			var qps []string
			for _, f := range g.flows {
				qps = append(qps, qp(f.DestQP))
			}
			terms = append(terms, and(address("src", g.of), address("dst", to.of), or(qps...)))
		}
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return "((" + strings.Join(terms, ") || (") + "))"
}

// hosts selects what is between the hosts of flows, in both directions.
func hosts(all []*flows.Flow) string {
	seen := map[pair]bool{}
	var terms []string
	for _, f := range all {
		p := pair{f.Src, f.Dst}
		if seen[p] || seen[pair{f.Dst, f.Src}] {
			continue
		}
		seen[p] = true
		if len(terms) == maxTerms {
			return "infiniband"
		}
		terms = append(terms, "("+and(address("addr", f.Src), address("addr", f.Dst))+")")
	}
	return or(terms...)
}

// between selects frames by their numbers.
func between(s flows.Sign) string {
	if s.First == s.Last {
		return fmt.Sprintf("frame.number == %d", s.First)
	}
	return fmt.Sprintf("frame.number >= %d && frame.number <= %d", s.First, s.Last)
}

const (
	rnrNAK = "infiniband.aeth.syndrome.opcode == 1"
	anyCNP = "infiniband.bth.opcode == 0x81"
)
