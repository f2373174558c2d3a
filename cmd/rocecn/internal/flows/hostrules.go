package flows

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
)

// Names of equivalent counters: mlx5, bnxt_re in its two versions, irdma, ionic and soft-RoCE.
var (
	cnpsSentNames = []string{"np_cnp_sent", "tx_cnp_pkts", "np_cnp_pkts", "cnpSent", "tx_rdma_cnp_pkts"}
	marksGotNames = []string{"np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd"}
	cnpsGotNames  = []string{"rp_cnp_handled", "rx_cnp_pkts", "cnpHandled", "rx_rdma_cnp_pkts"}
	ignoredNames  = []string{"rp_cnp_ignored", "cnpIgnored"}
	outOfSeqNames = []string{"out_of_sequence", "oos_drop_count", "out_of_seq_request"}
	timeoutNames  = []string{"local_ack_timeout_err", "to_retransmits"}
	notReadyNames = []string{"out_of_buffer", "rx_out_of_buffer", "send_rnr_err"}
)

// A seen counts the captured packets of flows to a host, and of flows from it.
type seen struct {
	ce, answered      uint64 // requests to it with CE, and those of flows that it answered
	cnpsFrom, cnpsTo  uint64 // without a Fast CNP option
	fast              uint64 // Fast CNPs about flows to it, of the network or its own
	missing, timeouts uint64 // of requests to it; repeats of its own
	rnrFrom           uint64
	rnrQPs            map[uint32]bool // of its queue pairs, those that were not ready
}

func seenOf(s *flows.Snapshot, addresses []netip.Addr) (n seen) {
	its := map[netip.Addr]bool{}
	for _, a := range addresses {
		its[a] = true
	}
	n.rnrQPs = map[uint32]bool{}
	for i := range s.Flows {
		f := &s.Flows[i]
		if its[f.Dst] {
			if f.Sequenced { // not every card answers marked datagrams
				n.ce += f.Data.CE
				if f.ACKs > 0 {
					n.answered += f.ECN[3]
				}
			}
			n.cnpsFrom += f.CNPs
			n.fast += f.FastCNPs
			n.missing += f.PSN.NeverSeen()
			n.rnrFrom += f.RNRNAKs
			if f.RNRNAKs > 0 {
				n.rnrQPs[f.DestQP] = true
			}
		}
		if its[f.Src] {
			n.cnpsTo += f.CNPs
			n.timeouts += f.Causes.Timeout
		}
	}
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		if its[u.Src] {
			n.cnpsFrom += u.CNPs
			n.rnrFrom += u.RNRNAKs
		}
		if its[u.Dst] {
			n.cnpsTo += u.CNPs
		}
	}
	return n
}

// A judge compares the counters of a port with the capture. The observations cover the capture: if a counter did not
// grow, the event did not occur. If it grew, other traffic may be the reason.
type hostRules struct {
	line     *hostLine
	seen     seen
	whole    bool // no flow was evicted: packets that are absent were not captured
	links    bool // the capture has PFC or PAUSE frames
	programs []string
}

// A growth is the increase of a counter.
type growth struct {
	name string
	n    uint64
}

func (c growth) String() string { return fmt.Sprintf("%s +%d", c.name, c.n) }

// findCounter returns the first counter of these names that the port has.
func (j *hostRules) findCounter(names []string) (c growth, ok bool) {
	for _, name := range names {
		if n, ok := j.line.Changes[name]; ok {
			return growth{name, n}, true
		}
	}
	return growth{}, false
}

// addFinding adds a finding: captured packets, counters and their meaning.
func (j *hostRules) addFinding(capture, meaning string, counters ...growth) {
	f := finding{Counters: map[string]uint64{}}
	parts := []string{}
	if capture != "" {
		parts = append(parts, capture)
	}
	for _, c := range counters {
		f.Counters[c.name] = c.n
		parts = append(parts, c.String())
	}
	f.Text = strings.Join(parts, ", ") + ": " + meaning
	j.line.Says = append(j.line.Says, f)
}

func (j *hostRules) compareAll() {
	j.compareReceiver()
	j.compareSender()
	j.compareCounter(outOfSeqNames, j.seen.missing, "missing to it",
		"the host saw no gap, the capture may have lost them", "the host saw gaps, too")
	j.compareCounter(timeoutNames, j.seen.timeouts, "retransmitted after a timeout",
		"no timer of the host expired: the cause of the retransmission is not in the capture",
		"timers of the host ran out")
	j.compareNotReady()
	j.comparePauses()
}

// compareReceiver checks whether the host answers marks with CNPs.
func (j *hostRules) compareReceiver() {
	sent, ok := j.findCounter(cnpsSentNames)
	if !ok || j.seen.ce == 0 {
		return
	}
	capture := fmt.Sprintf("%d CE in the capture", j.seen.ce)
	marks, _ := j.findCounter(marksGotNames)
	switch {
	case sent.n == 0 && j.seen.cnpsFrom > 0:
		j.addFinding(capture+" and "+cli.Count(j.seen.cnpsFrom, "CNP")+" from its address",
			"the card did not send them, another node did in its name", sent)
	case sent.n == 0 && j.seen.fast > 0:
		j.addFinding(capture+" and "+cli.Count(j.seen.fast, "Fast CNP"),
			"the card sent no CNP, and Fast CNPs are the network's or not counted", sent)
	case sent.n == 0 && marks.n > 0:
		j.addFinding(capture, "the receiver saw marks and sent no CNP: its ECN is off", marks, sent)
	case sent.n == 0 && j.seen.answered > 0:
		j.addFinding(capture, "the receiver's ECN is off", sent)
	case sent.n == 0:
		j.addFinding(capture, "the receiver's ECN is off, or the marked packets did not reach it", sent)
	case j.seen.cnpsFrom == 0 && j.whole:
		j.addFinding(capture+" and no CNP", "the receiver sends CNPs, the capture does not have them", sent)
	}
}

// compareSender checks whether the host obeys CNPs.
func (j *hostRules) compareSender() {
	got, ok := j.findCounter(cnpsGotNames)
	ignored, _ := j.findCounter(ignoredNames)
	if j.seen.cnpsTo == 0 {
		return
	}
	capture := cli.Count(j.seen.cnpsTo, "CNP") + " to it in the capture"
	switch {
	case ignored.n > 0:
		counters := []growth{ignored}
		if ok {
			counters = append(counters, got)
		}
		j.addFinding(capture, "the sender ignores CNPs: its ECN is off for some of its traffic", counters...)
	case ok && got.n == 0:
		j.addFinding(capture, "they did not reach the sender, or its ECN is off", got)
	}
}

// compareCounter checks whether a counter of the host grew, if the capture has n of the counted events.
func (j *hostRules) compareCounter(names []string, n uint64, what, none, some string) {
	c, ok := j.findCounter(names)
	switch capture := fmt.Sprintf("%d %s in the capture", n, what); {
	case !ok || n == 0:
	case c.n == 0:
		j.addFinding(capture, none, c)
	default:
		j.addFinding(capture, some, c)
	}
}

// compareNotReady names the queue pairs without a buffer for a message.
func (j *hostRules) compareNotReady() {
	c, ok := j.findCounter(notReadyNames)
	if j.seen.rnrFrom == 0 || !(ok && c.n > 0 || len(j.programs) > 0) {
		return
	}
	program := "a program"
	if len(j.programs) > 0 {
		program = strings.Join(j.programs, ", ")
	}
	counters := []growth{}
	if ok {
		counters = append(counters, c)
	}
	j.addFinding(cli.Count(j.seen.rnrFrom, "RNR NAK")+" from it in the capture", program+" posts too few receives",
		counters...)
}

// comparePauses names the side that paused the host's link. PFC does not pass a link: a capture elsewhere cannot
// contain it.
func (j *hostRules) comparePauses() {
	var got, sent []growth
	for _, name := range slices.Sorted(maps.Keys(j.line.Changes)) {
		switch n := j.line.Changes[name]; {
		case n == 0 || !countsPauses(name):
		case strings.HasPrefix(name, "rx"):
			got = append(got, growth{name, n})
		case strings.HasPrefix(name, "tx"):
			sent = append(sent, growth{name, n})
		}
	}
	where := ""
	if !j.links {
		where = "no pause in the capture"
	}
	if len(got) > 0 {
		j.addFinding(where, "the network stopped the host", got...)
	}
	if len(sent) > 0 {
		j.addFinding(where, "the host stopped the network, it took data too slowly", sent...)
	}
}

// countsPauses reports whether a counter counts frames that pause: rx_prio3_pause and rx_global_pause of mlx5,
// tx_priority_3_xoff.nic of ice, rx_pfc_ena_frames_pri3 and rx_pause_frames of bnxt_en.
func countsPauses(name string) bool {
	if strings.Contains(name, "duration") || strings.Contains(name, "transition") || strings.Contains(name, "storm") {
		return false
	}
	return strings.Contains(name, "pause") || strings.Contains(name, "xoff") || strings.Contains(name, "pfc_ena_frames")
}
