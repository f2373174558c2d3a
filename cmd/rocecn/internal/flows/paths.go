package flows

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
)

// A pathsLine is the JSON object of all flows from one host to another, of -paths: flows that ECMP by addresses and
// ports cannot distinguish. The capture does not show the path that a switch selects for a port, nor whether it uses
// other fields.
type pathsLine struct {
	Paths    bool       `json:"paths"`
	Src      netip.Addr `json:"src"`
	Dst      netip.Addr `json:"dst"`
	Flows    int        `json:"flows"`
	Ports    int        `json:"src_ports"`         // of flows with a constant port
	Varying  int        `json:"varying,omitempty"` // flows with several ports
	IPOctets uint64     `json:"ip_octets"`
	Shared   []pathLine `json:"shared"` // ports of two flows or more, those with the most octets first
}

type pathLine struct {
	SrcPort  uint16   `json:"src_port"`
	Flows    int      `json:"flows"`
	QPs      []uint32 `json:"dest_qps"` // the first ones
	IPOctets uint64   `json:"ip_octets"`
}

// maxPathQPs is the number of queue pairs that are named for a port.
const maxPathQPs = 64

// pathsOf returns the paths for each pair of hosts with two flows or more, in each direction.
func pathsOf(s *flows.Snapshot) (all []pathsLine) {
	type ends struct{ src, dst netip.Addr }
	type hostPair struct {
		ends
		port uint16
	}
	pairs := map[ends]*pathsLine{}
	lines := map[hostPair]*pathLine{}
	for i := range s.Flows {
		f := &s.Flows[i]
		if f.DestQP <= 1 { // management has a port of its own
			continue
		}
		e := ends{f.Src, f.Dst}
		l := pairs[e]
		if l == nil {
			l = &pathsLine{Paths: true, Src: f.Src, Dst: f.Dst, Shared: []pathLine{}}
			pairs[e] = l
		}
		l.Flows++
		l.IPOctets += f.Data.IPOctets
		if f.Varies.SrcPort {
			l.Varying++
			continue
		}
		w := hostPair{e, f.SrcPort}
		p := lines[w]
		if p == nil {
			p = &pathLine{SrcPort: f.SrcPort}
			lines[w] = p
			l.Ports++
		}
		p.Flows++
		p.IPOctets += f.Data.IPOctets
		p.QPs = append(p.QPs, f.DestQP)
	}
	for w, p := range lines {
		if l := pairs[w.ends]; p.Flows > 1 {
			slices.Sort(p.QPs)
			p.QPs = slices.Clip(p.QPs[:min(len(p.QPs), maxPathQPs)])
			l.Shared = append(l.Shared, *p)
		}
	}
	for _, l := range pairs {
		if l.Flows < 2 {
			continue
		}
		slices.SortFunc(l.Shared, func(a, b pathLine) int {
			return cmp.Or(cmp.Compare(b.IPOctets, a.IPOctets), cmp.Compare(a.SrcPort, b.SrcPort))
		})
		all = append(all, *l)
	}
	most := func(l *pathsLine) int { // flows on one way
		n := 0
		for _, p := range l.Shared {
			n = max(n, p.Flows)
		}
		return n
	}
	slices.SortFunc(all, func(a, b pathsLine) int {
		return cmp.Or(cmp.Compare(most(&b), most(&a)), a.Src.Compare(b.Src), a.Dst.Compare(b.Dst))
	})
	return all
}

// printPaths prints the output of -paths.
func (a *accountant) printPaths(s *flows.Snapshot) error {
	if !a.paths {
		return nil
	}
	all := pathsOf(s)
	if a.form == "json" {
		out := cli.NewJSON(a.out)
		for i := range all {
			if err := out.Encode(&all[i]); err != nil {
				return cli.Output(err)
			}
		}
		return cli.Output(a.out.Flush())
	}
	for i := range all {
		a.out.Write(a.human.appendPaths(&all[i]))
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "paths: no two hosts have two flows")
	}
	return cli.Output(a.out.Flush())
}

// appendPaths formats the paths of a pair of hosts.
func (h *human) appendPaths(l *pathsLine) []byte {
	colour := ""
	if len(l.Shared) > 0 {
		colour = yellow
	}
	b := h.colourText(nil, "paths", colour)
	b = fmt.Appendf(b, "  %v > %v: %s, ", l.Src, l.Dst, cli.Count(l.Flows, "flow"))
	if l.Varying > 0 {
		b = fmt.Appendf(b, "%d of them by several UDP source ports, the others ", l.Varying)
	}
	b = fmt.Appendf(b, "by %s\n", cli.Count(l.Ports, "UDP source port"))
	for _, p := range l.Shared {
		var names []string
		for _, qp := range p.QPs {
			names = append(names, queuePair(qp))
		}
		if more := p.Flows - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		text := fmt.Sprintf("%d flows have port %d, %s of the octets: one to ECMP by addresses and ports: QP %s",
			p.Flows, p.SrcPort, formatPercent(p.IPOctets, l.IPOctets), strings.Join(names, " "))
		for _, line := range wrapText(text, columns-2) {
			b = fmt.Appendf(b, "  %s\n", line)
		}
	}
	return b
}
