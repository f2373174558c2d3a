package flows

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/host"
	"github.com/rocecn/rocecn/flows"
)

// A hostLine is the JSON object of a port of a host, of -host: its counters during the capture, and findings from both.
type hostLine struct {
	HostSide  bool              `json:"host_side"`
	Host      string            `json:"host"`
	Device    string            `json:"device"`
	Port      int               `json:"port"`
	Addresses []netip.Addr      `json:"addresses"` // those that the capture has
	From      string            `json:"from"`
	To        string            `json:"to"`
	Covers    bool              `json:"covers"` // from and to are outside of the capture's time
	Changes   map[string]uint64 `json:"changes"`
	Reset     []string          `json:"reset,omitempty"` // counters that are less than they were
	Says      []finding         `json:"says"`
}

// A finding is a sentence and the counters that it rests on.
type finding struct {
	Text     string            `json:"text"`
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// maxHostPorts is the maximum number of ports that are compared with the capture: each requires a pass over its flows.
const maxHostPorts = 2048

var errHostPorts = fmt.Errorf("-host: more than %d ports with addresses of the capture", maxHostPorts)

// joinHosts reads the files of -host, and compares each port with an address in the capture with its captured flows.
// Hosts without such a port have no line.
func (o *options) joinHosts(s *flows.Snapshot, from, to time.Time) (lines []hostLine, err error) {
	if from.IsZero() {
		return nil, nil // no packet, or none with a time
	}
	r := host.NewReader(from, to)
	for _, name := range o.hosts {
		if err := readHosts(r, name); err != nil {
			return nil, fmt.Errorf("-host %s: %w", name, err)
		}
	}
	inCapture := addressesOf(s)
	owners := map[netip.Addr]int{} // number of ports with an address of the capture
	err = r.Windows(func(w host.Window) error {
		for i := range w.To.Ports {
			p := &w.To.Ports[i]
			l := hostLine{HostSide: true, Host: w.To.Host, Device: p.Device, Port: p.Port, Covers: w.Covers,
				From: formatTime(w.From.Time.UTC()), To: formatTime(w.To.Time.UTC()),
				Changes: map[string]uint64{}, Says: []finding{}}
			for _, a := range p.Addresses {
				if inCapture[a] && !slices.Contains(l.Addresses, a) {
					l.Addresses = append(l.Addresses, a)
					owners[a]++
				}
			}
			old := w.From.Port(p.Device, p.Port)
			if old == nil || !slices.ContainsFunc(l.Addresses, old.Has) {
				continue // before, the name was another port's: of another machine, or numbered another way
			}
			if len(lines) == maxHostPorts {
				return errHostPorts
			}
			l.addChange(old.Counters, p.Counters)
			l.addChange(old.HW, p.HW)
			l.addChange(w.From.Device(p.Device), portCounters(w.To.Device(p.Device), p))
			for _, name := range p.Interfaces {
				l.addChange(w.From.Interface(name), w.To.Interface(name))
			}
			slices.Sort(l.Reset)
			if w.Covers {
				j := hostRules{line: &l, seen: seenOf(s, l.Addresses),
					whole: !anyEvicted(&s.Evicted), links: len(s.Links) > 0}
				j.programs = namePrograms(w.To, p, j.seen.rnrQPs)
				j.compareAll()
			}
			lines = append(lines, l)
		}
		return nil
	})
	if err != nil {
		return nil, err // the owners of the addresses are unknown
	}
	for i := range lines {
		l := &lines[i]
		switch {
		case slices.ContainsFunc(l.Addresses, func(a netip.Addr) bool { return owners[a] > 1 }):
			l.Says = []finding{{Text: "another port has one of its addresses, too: nothing is concluded"}}
		case !l.Covers:
			l.Says = []finding{{Text: "not observed for all of the capture's time: nothing is concluded"}}
		}
	}
	return lines, nil
}

func readHosts(r *host.Reader, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return r.Read(f)
}

// addressesOf returns the addresses of all flows.
func addressesOf(s *flows.Snapshot) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for i := range s.Flows {
		all[s.Flows[i].Src], all[s.Flows[i].Dst] = true, true
	}
	for i := range s.Unpaired {
		all[s.Unpaired[i].Src], all[s.Unpaired[i].Dst] = true, true
	}
	return all
}

// addChange records the growth of counters. A counter that decreased was reset, and has no growth.
func (l *hostLine) addChange(old, now map[string]uint64) {
	for name, n := range now {
		switch was, ok := old[name]; {
		case ok && n >= was:
			l.Changes[name] = n - was
		case ok:
			l.Reset = append(l.Reset, name)
		}
	}
}

// portCounters returns the counters of a device that its port has not got itself.
func portCounters(device map[string]uint64, p *host.Port) map[string]uint64 {
	others := map[string]uint64{}
	for name, n := range device {
		if _, ok := p.Counter(name); !ok {
			others[name] = n
		}
	}
	return others
}

// namePrograms names the programs that have these queue pairs of a port.
func namePrograms(o *host.Observation, p *host.Port, qps map[uint32]bool) []string {
	names := map[string]bool{}
	for i := range o.QPs {
		q := &o.QPs[i]
		if q.Device != p.Device || q.Port != p.Port || !qps[q.QP] || q.Comm == "" || len(names) == 8 {
			continue
		}
		name := q.Comm
		if q.PID != 0 {
			name += fmt.Sprintf(" (process %d)", q.PID)
		}
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (a *accountant) printHosts() (err error) {
	if a.form == "json" {
		out := cli.NewJSON(a.out)
		for i := range a.joined {
			err = cmp.Or(err, out.Encode(&a.joined[i]))
		}
		return cli.Output(cmp.Or(err, a.out.Flush()))
	}
	for i := range a.joined {
		a.out.Write(a.joined[i].formatText())
	}
	return cli.Output(a.out.Flush())
}

// formatText returns the text form: findings, then other changes. Names are untrusted.
func (l *hostLine) formatText() []byte {
	var addresses []string
	for _, a := range l.Addresses {
		addresses = append(addresses, a.String())
	}
	b := fmt.Appendf(nil, "host %s, %s port %d (%s), observed from %s to %s\n", cli.Printable(l.Host),
		cli.Printable(l.Device), l.Port, cli.Printable(strings.Join(addresses, ", ")), l.From, l.To)
	for _, f := range l.Says {
		b = fmt.Appendf(b, "  %s\n", cli.Printable(f.Text))
	}
	for _, text := range wrapParts(l.formatChanges(), columns-2) {
		b = fmt.Appendf(b, "  %s\n", text)
	}
	return b
}

// formatChanges lists the counters that have grown, and those that were reset.
func (l *hostLine) formatChanges() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(l.Changes)) {
		if n := l.Changes[name]; n > 0 {
			all = append(all, fmt.Sprintf("%s +%d", cli.Printable(name), n))
		}
	}
	for _, name := range l.Reset {
		all = append(all, cli.Printable(name)+" was reset")
	}
	if len(all) == 0 {
		return []string{"no counter has changed"}
	}
	return all
}
