package triage

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rocecn/rocecn/flows"
)

// The functions in this file return Wireshark display filters.

// maxTerms is the maximum number of flows or hosts in a filter. A filter for more is less specific.
const maxTerms = 8

func joinAnd(terms ...string) string { return strings.Join(terms, " && ") }

func joinOr(terms ...string) string {
	if len(terms) == 1 {
		return terms[0]
	}
	return "(" + strings.Join(terms, " || ") + ")"
}

// filterAddress selects an IP address; end is src, dst or addr.
func filterAddress(end string, a netip.Addr) string {
	if a.Is4() {
		return fmt.Sprintf("ip.%s == %v", end, a)
	}
	return fmt.Sprintf("ipv6.%s == %v", end, a)
}

// filterECN selects an ECN field, in the IP version of a.
func filterECN(a netip.Addr, field int) string {
	if a.Is4() {
		return fmt.Sprintf("ip.dsfield.ecn == %d", field)
	}
	return fmt.Sprintf("ipv6.tclass.ecn == %d", field)
}

func filterQP(n uint32) string { return fmt.Sprintf("infiniband.bth.destqp == 0x%06x", n) }

// filterRequests selects the requests of flows, grouped by pairs of hosts.
func filterRequests(all []*flows.Flow) string {
	if len(all) > maxTerms {
		return filterHosts(all)
	}
	var terms []string
	for _, to := range groupBy(all, destinationOf) {
		for _, g := range groupBy(to.flows, sourceOf) {
			var qps []string
			for _, f := range g.flows {
				qps = append(qps, filterQP(f.DestQP))
			}
			terms = append(terms, joinAnd(
				filterAddress("src", g.address), filterAddress("dst", to.address), joinOr(qps...)))
		}
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return "((" + strings.Join(terms, ") || (") + "))"
}

// filterHosts selects all packets between the hosts of flows, in both directions.
func filterHosts(all []*flows.Flow) string {
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
		terms = append(terms, "("+joinAnd(filterAddress("addr", f.Src), filterAddress("addr", f.Dst))+")")
	}
	return joinOr(terms...)
}

// filterFrames selects the range of frame numbers of a sign.
func filterFrames(s flows.Sign) string {
	if s.First == s.Last {
		return fmt.Sprintf("frame.number == %d", s.First)
	}
	return fmt.Sprintf("frame.number >= %d && frame.number <= %d", s.First, s.Last)
}

const (
	rnrNAK = "infiniband.aeth.syndrome.opcode == 1"
	anyCNP = "infiniband.bth.opcode == 0x81"
)
