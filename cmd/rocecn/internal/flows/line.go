package flows

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"net/netip"
	"strconv"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
)

// A flowLine is the JSON object of a flow. Every key is there exactly where it
// applies.
type flowLine struct {
	Src       netip.Addr `json:"src"`
	Dst       netip.Addr `json:"dst"`
	DestQP    uint32     `json:"dest_qp"`
	SrcQP     *uint32    `json:"src_qp,omitempty"`
	SrcQPFrom string     `json:"src_qp_from,omitempty"`
	Transport string     `json:"transport"`
	First     string     `json:"first"`
	Last      string     `json:"last"`

	Interval *intervalLine `json:"interval,omitempty"`

	VLAN          uint16   `json:"vlan,omitempty"`
	PCP           []int    `json:"pcp,omitempty"`
	SrcMAC        string   `json:"src_mac,omitempty"`
	DstMAC        string   `json:"dst_mac,omitempty"`
	SrcPort       uint16   `json:"src_port,omitempty"`
	SharedPort    uint64   `json:"src_port_shared,omitempty"`
	Varies        []string `json:"varies,omitempty"`
	DSCP          []int    `json:"dscp"`
	ECN           ecnLine  `json:"ecn"`
	MTU           uint16   `json:"mtu,omitempty"`
	Packets       uint64   `json:"packets"`
	IPOctets      uint64   `json:"ip_octets"`
	PayloadOctets uint64   `json:"payload_octets"`
	Rate          rateLine `json:"rate_bps"`

	Responses *responsesLine `json:"responses,omitempty"`
	Data      dataLine       `json:"data"`
	Outer     *outerLine     `json:"outer,omitempty"`

	Messages map[string]flows.Messages `json:"messages"`

	Connections uint64                 `json:"lives,omitempty"`
	PSN         *psnLine               `json:"psn,omitempty"`
	Causes      *flows.Retransmissions `json:"repeats_by,omitempty"`
	GaveUp      *flows.GaveUp          `json:"gave_up,omitempty"`

	answersLine

	RTT        *timesLine        `json:"rtt_us,omitempty"`
	WorstQueue *flows.QueueDepth `json:"worst_queue,omitempty"`
	ICRCWrong  uint64            `json:"icrc_wrong"`
	Truncated  uint64            `json:"truncated"`
	Trimmed    uint64            `json:"trimmed,omitempty"`
	Recovered  uint64            `json:"trimmed_recovered,omitempty"`
	Discarded  map[string]uint64 `json:"discarded,omitempty"`
	Discards   []discardsLine    `json:"discarded_at,omitempty"`

	// Of -explain.
	Verdicts []string     `json:"verdicts,omitempty"`
	Control  *controlLine `json:"control,omitempty"`
	Silence  *silenceLine `json:"silence_us,omitempty"`
}

type (
	intervalLine struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	ecnLine struct {
		NotECT uint64 `json:"not_ect"`
		ECT0   uint64 `json:"ect0"`
		ECT1   uint64 `json:"ect1"`
		CE     uint64 `json:"ce"`
	}
	rateLine struct {
		Mean      bitRate `json:"mean,omitzero"` // neither of fewer than three requests
		Peak      bitRate `json:"peak,omitzero"`
		Estimated bool    `json:"estimated,omitempty"` // from a sample
	}
	responsesLine struct {
		Packets       uint64            `json:"packets"`
		IPOctets      uint64            `json:"ip_octets"`
		PayloadOctets uint64            `json:"payload_octets"`
		ECN           ecnLine           `json:"ecn"`
		DSCP          []int             `json:"dscp"`
		First         string            `json:"first"`
		Last          string            `json:"last"`
		PSN           flows.ResponsePSN `json:"psn"`
		ICRCWrong     uint64            `json:"icrc_wrong"`
		Truncated     uint64            `json:"truncated"`
	}
	outerLine struct {
		Kind     []string `json:"kind"`
		ECN      ecnLine  `json:"ecn"`
		DSCP     []int    `json:"dscp"`
		CENotECT uint64   `json:"ce_not_ect,omitempty"`
	}
	dataLine struct {
		Packets       uint64   `json:"packets"`
		IPOctets      uint64   `json:"ip_octets"`
		PayloadOctets uint64   `json:"payload_octets"`
		CE            uint64   `json:"ce"`
		Rate          rateLine `json:"rate_bps"`
	}
	psnLine struct {
		flows.PSN
		FirstTrouble uint64 `json:"first_trouble_frame,omitempty"`
	}
	answersLine struct {
		ACKs    uint64            `json:"acks"`
		NAKs    map[string]uint64 `json:"naks"`
		RNRNAKs uint64            `json:"rnr_naks"`
		Timers  []float64         `json:"rnr_timers_ms,omitempty"`
		CNPs    cnpsLine          `json:"cnps"`
		PPFC    uint64            `json:"ppfc"`
		FCN     uint64            `json:"fcn"`
		Proxy   uint64            `json:"proxy"`

		Wrong flows.WrongAnswers `json:"answers_icrc_wrong,omitzero"`
	}
	// countedLine is an answersLine with those alone that there were.
	countedLine struct {
		ACKs    uint64            `json:"acks,omitempty"`
		NAKs    map[string]uint64 `json:"naks,omitempty"`
		RNRNAKs uint64            `json:"rnr_naks,omitempty"`
		Timers  []float64         `json:"rnr_timers_ms,omitempty"`
		CNPs    cnpsLine          `json:"cnps,omitzero"`
		PPFC    uint64            `json:"ppfc,omitempty"`
		FCN     uint64            `json:"fcn,omitempty"`
		Proxy   uint64            `json:"proxy,omitempty"`

		Wrong flows.WrongAnswers `json:"answers_icrc_wrong,omitzero"`
	}
	cnpsLine struct {
		Receiver uint64           `json:"receiver"`
		Fast     uint64           `json:"fast"`
		Spacing  *float64         `json:"min_spacing_us,omitempty"`
		AfterCE  *percentilesLine `json:"after_ce_us,omitempty"`
	}
	percentilesLine struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	}
	timesLine struct {
		Samples uint64  `json:"samples"`
		Min     float64 `json:"min"`
		percentilesLine
		FromRetransmitted uint64 `json:"from_retransmitted,omitempty"`
	}
)

func lineOf(f *flows.Flow, during *intervalLine) *flowLine {
	l := &flowLine{
		Src: f.Src, Dst: f.Dst, DestQP: f.DestQP,
		Transport: f.Transport.String(),
		First:     formatTime(f.First), Last: formatTime(f.Last), Interval: during,
		VLAN: f.VLAN, PCP: setBits(uint64(f.PCP)), DSCP: setBits(f.DSCP),
		SrcMAC: f.SrcMAC.String(), DstMAC: f.DstMAC.String(),
		SrcPort: f.SrcPort, SharedPort: f.SharedPort, Varies: varyingFields(&f.Varies),
		ECN:     ecnLineOf(&f.ECN),
		Rate:    rateLine{Mean: bitRate(f.Mean), Peak: bitRate(f.Peak)},
		MTU:     f.MTU,
		Packets: f.Packets, IPOctets: f.IPOctets, PayloadOctets: f.PayloadOctets,
		Responses: responsesLineOf(&f.Responses), Outer: outerLineOf(f.Outer),
		Data: dataLine{f.Data.Packets, f.Data.IPOctets, f.Data.PayloadOctets, f.Data.CE,
			rateLine{bitRate(f.Data.Mean), bitRate(f.Data.Peak), f.Sampled > 0}},
		Messages:    map[string]flows.Messages{},
		answersLine: answersLineOf(&f.Answers),
		ICRCWrong:   f.ICRCWrong, Truncated: f.Truncated, Trimmed: f.Trimmed, Recovered: f.TrimmedRecovered,
		Discarded: discardedOf(f.Discards), Discards: discardsLinesOf(f.Discards),
	}
	if f.SrcQPFrom != 0 {
		l.SrcQP, l.SrcQPFrom = &f.SrcQP, f.SrcQPFrom.String()
	}
	for kind, m := range f.Messages() {
		if m != (flows.Messages{}) {
			l.Messages[kind.String()] = m
		}
	}
	if f.Sequenced {
		l.Connections, l.PSN, l.Causes, l.GaveUp =
			f.PSN.Connections, &psnLine{f.PSN, f.FirstTrouble}, &f.Causes, f.GaveUp
	}
	if f.Spacing >= 0 {
		l.CNPs.Spacing = new(toMicroseconds(f.Spacing))
	}
	if h := f.AfterCE; h.Count() > 0 {
		l.CNPs.AfterCE = new(percentilesOf(h))
	}
	if h := f.RTT; h.Count() > 0 {
		l.RTT = new(timesOf(h))
		l.RTT.FromRetransmitted = f.RTTFromRetransmitted
	}
	if f.Queue.Known {
		l.WorstQueue = &f.Queue
	}
	return l
}

func ecnLineOf(n *[4]uint64) ecnLine { return ecnLine{n[0], n[2], n[1], n[3]} }

// outerLineOf returns nil if no packet came in a tunnel.
func outerLineOf(o *flows.Outer) *outerLine {
	if o == nil {
		return nil
	}
	l := &outerLine{[]string{}, ecnLineOf(&o.ECN), setBits(o.DSCP), o.CENotECT}
	for _, tunnel := range o.Tunnels {
		l.Kind = append(l.Kind, tunnel.String())
	}
	return l
}

// responsesLineOf returns nil if there were no responses.
func responsesLineOf(r *flows.Responses) *responsesLine {
	if r.Packets == 0 {
		return nil
	}
	return &responsesLine{
		r.Packets, r.IPOctets, r.PayloadOctets, ecnLineOf(&r.ECN), setBits(r.DSCP), formatTime(r.First),
		formatTime(r.Last), r.PSN, r.ICRCWrong, r.Truncated,
	}
}

func answersLineOf(a *flows.Answers) answersLine {
	naks := map[string]uint64{}
	for code, n := range a.NAKs() {
		naks[nakNames[code]] = n
	}
	return answersLine{ACKs: a.ACKs, NAKs: naks, RNRNAKs: a.RNRNAKs, Timers: timersOf(a),
		CNPs: cnpsLine{Receiver: a.CNPs, Fast: a.FastCNPs}, PPFC: a.PPFC, FCN: a.FCN, Proxy: a.Proxy, Wrong: a.Wrong}
}

// timersOf returns the timers in the RNR NAKs, in milliseconds and ascending order.
func timersOf(a *flows.Answers) (all []float64) {
	for _, d := range a.Timers() {
		all = append(all, float64(d)/1e6)
	}
	return all
}

func countedLineOf(a *flows.Answers) countedLine {
	l := countedLine(answersLineOf(a))
	maps.DeleteFunc(l.NAKs, func(_ string, n uint64) bool { return n == 0 })
	return l
}

// times are those of a [flows.Histogram] or of [flows.Delays].
type times interface {
	Count() uint64
	Min() time.Duration
	Percentile(p float64) time.Duration
}

func percentilesOf(h times) percentilesLine {
	return percentilesLine{toMicroseconds(h.Percentile(0.5)), toMicroseconds(h.Percentile(0.99))}
}

func timesOf(h times) timesLine {
	return timesLine{Samples: h.Count(), Min: toMicroseconds(h.Min()), percentilesLine: percentilesOf(h)}
}

// An unpairedLine is the JSON object of packets that are about no known flow.
type unpairedLine struct {
	Unpaired bool          `json:"unpaired"`
	Src      netip.Addr    `json:"src"`
	Dst      netip.Addr    `json:"dst"`
	DestQP   *uint32       `json:"dest_qp,omitempty"`
	Interval *intervalLine `json:"interval,omitempty"`
	countedLine
}

func unpairedLineOf(u *flows.Unpaired, during *intervalLine) *unpairedLine {
	l := &unpairedLine{Unpaired: true, Src: u.Src, Dst: u.Dst, Interval: during, countedLine: countedLineOf(&u.Answers)}
	if u.WithQP {
		l.DestQP = &u.DestQP
	}
	return l
}

// A pfcLine is the JSON object of the PFC and PAUSE frames of one source.
type pfcLine struct {
	PFC        bool                    `json:"pfc"`
	SrcMAC     string                  `json:"src_mac"`
	Interval   *intervalLine           `json:"interval,omitempty"`
	Priorities map[string]priorityLine `json:"priorities"`
	Assumed    bool                    `json:"link_bps_assumed,omitempty"` // 100 Gbit/s

	WithoutPriority uint64 `json:"without_priority,omitempty"`
}

type priorityLine struct {
	XOFF   uint64  `json:"xoff"`
	XON    uint64  `json:"xon"`
	Paused float64 `json:"paused_us"`
}

func pfcLineOf(link *flows.Link, during *intervalLine) *pfcLine {
	l := &pfcLine{true, link.Src.String(), during, map[string]priorityLine{}, link.Assumed,
		link.WithoutPriority}
	for name, p := range eachPriority(link) {
		l.Priorities[name] = priorityLine{p.XOFF, p.XON, toMicroseconds(p.Paused)}
	}
	return l
}

// eachPriority yields the counts of each priority, and of all together.
func eachPriority(l *flows.Link) iter.Seq2[string, *flows.Priority] {
	return func(yield func(string, *flows.Priority) bool) {
		for i := range l.Priorities {
			if p := &l.Priorities[i]; *p != (flows.Priority{}) && !yield(fmt.Sprint(i), p) {
				return
			}
		}
		if l.All != (flows.Priority{}) {
			yield("all", &l.All)
		}
	}
}

// linkName says in words which link was spoken of.
func linkName(l *flows.Link) string {
	if l.Assumed {
		return l.Src.String() + " (100 Gbit/s assumed)"
	}
	return l.Src.String()
}

// formatPauses describes the pauses of priorities, one string each.
func formatPauses(l *flows.Link) (all []string) {
	for name, p := range eachPriority(l) {
		all = append(all, fmt.Sprintf("%s: %d XOFF, %d XON, paused %v", priorityName(name), p.XOFF, p.XON, p.Paused))
	}
	if n := l.WithoutPriority; n > 0 {
		all = append(all, cli.Count(n, "frame")+" without a priority, which pause nothing")
	}
	return all
}

// priorityName says in words which priority is meant, or all of them.
func priorityName(name string) string {
	if name == "all" {
		return "all priorities"
	}
	return "priority " + name
}

// An evictedLine is the JSON object of the evicted flows.
type evictedLine struct {
	Evicted  bool   `json:"evicted"`
	Flows    uint64 `json:"flows"`
	Packets  uint64 `json:"packets"`
	IPOctets uint64 `json:"ip_octets"`

	Trimmed          uint64 `json:"trimmed,omitempty"`
	TrimmedRecovered uint64 `json:"trimmed_recovered,omitempty"`
	Discarded        uint64 `json:"discarded,omitempty"`
	// Unlearned is the number of packets that were not used to learn queue pairs.
	Unlearned uint64 `json:"unlearned,omitempty"`
	countedLine
}

func anyEvicted(e *flows.Evicted) bool { return e.Flows > 0 || e.Answers.Total() > 0 }

// evictedLineOf returns nil if no table was full.
func evictedLineOf(s *flows.Snapshot) *evictedLine {
	e := &s.Evicted
	if !anyEvicted(e) && s.Stats.Unlearned == 0 {
		return nil
	}
	return &evictedLine{true, e.Flows, e.Packets, e.IPOctets, e.Trimmed, e.TrimmedRecovered, e.Discarded,
		s.Stats.Unlearned, countedLineOf(&e.Answers)}
}

// varyingFields names the fields that differ between the requests of a flow.
func varyingFields(v *flows.Varies) (names []string) {
	for _, n := range []struct {
		name   string
		varies bool
	}{{"vlan", v.VLAN}, {"src_mac", v.SrcMAC}, {"dst_mac", v.DstMAC}, {"src_port", v.SrcPort}} {
		if n.varies {
			names = append(names, n.name)
		}
	}
	return names
}

// setBits returns the numbers of the bits of a set.
func setBits(set uint64) []int {
	list := make([]int, 0, bits.OnesCount64(set))
	for ; set != 0; set &= set - 1 {
		list = append(list, bits.TrailingZeros64(set))
	}
	return list
}

// A bitRate is in bits a second. It is written rounded: one below a half is there, as 0.
type bitRate float64

func (r bitRate) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(r)), 'f', -1, 64), nil
}

// formatTime writes a time.
func formatTime(t time.Time) string { return cli.Time(t).String() }
