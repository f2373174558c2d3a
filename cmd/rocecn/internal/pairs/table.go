package pairs

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A table has a row for each flow and queue pair that sent it, and for each flow
// of which that is not known.
type table struct {
	qps     *qpmap.Map
	rows    map[rowKey]*row
	unknown map[rocev2.FlowKey]*row
}

type rowKey struct {
	flow  rocev2.FlowKey
	srcQP uint32
}

type row struct {
	rowKey
	pair        qpmap.Pair // From 0: not known
	ambiguous   bool       // not known, because more than one is possible
	packets     uint64
	first, last time.Time
}

func newTable(seed uint64) *table {
	return &table{qps: qpmap.New(cli.LearnConfig(seed, true)), rows: map[rowKey]*row{},
		unknown: map[rocev2.FlowKey]*row{}}
}

// observe takes a packet.
func (t *table) observe(p *rocev2.Packet, now time.Time) {
	t.qps.Observe(p, 0, now)
	for k, pair := range t.qps.Learned() {
		t.rowOf(k.FlowKey, pair, now)
	}
	k, ok := p.FlowKey()
	if !ok || k.DestQP <= 1 || !p.BTH.Opcode.IsKnown() {
		return // management, notifications
	}
	var r *row
	if p.BTH.Present.Has(bth.HasDETH) {
		r = t.rowOf(k, qpmap.Pair{SrcQP: p.BTH.DETH.SrcQP, PKey: p.BTH.PKey, Transport: p.BTH.Opcode.Transport(),
			From: qpmap.BasisUD}, now)
	} else if pair, err := t.qps.SourceQP(qpmap.Key{FlowKey: k}, now); err == nil {
		r = t.rowOf(k, pair, now)
	} else {
		if r = t.unknown[k]; r == nil {
			r = &row{rowKey: rowKey{flow: k}, pair: qpmap.Pair{PKey: p.BTH.PKey, Transport: p.BTH.Opcode.Transport()},
				first: now}
			t.unknown[k] = r
		}
		r.ambiguous = err == qpmap.ErrAmbiguous
	}
	r.packets++
	r.last = now
}

// rowOf returns the row of a flow and its pair.
func (t *table) rowOf(k rocev2.FlowKey, pair qpmap.Pair, now time.Time) *row {
	key := rowKey{k, pair.SrcQP}
	r := t.rows[key]
	if r == nil {
		r = &row{rowKey: key, first: now, last: now}
		t.rows[key] = r
	}
	r.pair = pair
	return r
}

// sortedRows returns the rows, those of one direction together. A flow without a pair
// has a row when it never had one; packets from before it was known, or from
// after it was forgotten, belong to the one that it has.
func (t *table) sortedRows() []*row {
	var all []*row
	known := map[rocev2.FlowKey]int{}
	for key, r := range t.rows {
		known[key.flow]++
		all = append(all, r)
	}
	for _, r := range t.rows {
		if before := t.unknown[r.flow]; before != nil && known[r.flow] == 1 {
			r.packets += before.packets
			if before.first.Before(r.first) {
				r.first = before.first
			}
			if before.last.After(r.last) {
				r.last = before.last
			}
			delete(t.unknown, r.flow)
		}
	}
	all = slices.AppendSeq(all, maps.Values(t.unknown))
	slices.SortFunc(all, func(a, b *row) int {
		return cmp.Or(a.flow.Compare(b.flow), a.first.Compare(b.first), cmp.Compare(a.srcQP, b.srcQP),
			cmp.Compare(a.pair.From, b.pair.From))
	})
	return all
}

// printSummary prints the number of known flows by evidence.
func (t *table) printSummary(w io.Writer, packets int) {
	by := map[qpmap.Basis]int{}
	for _, r := range t.rows {
		by[r.pair.From]++
	}
	port := "" // most captures have none
	if n := by[qpmap.BasisPort]; n > 0 {
		port = fmt.Sprintf("%d by votes and the UDP source port, ", n)
	}
	fmt.Fprintf(w, "%s; %s: %d by connection management, %d by votes, %s%d in datagrams; %s without one\n",
		cli.Count(packets, "packet"), cli.Count(len(t.rows), "pair"),
		by[qpmap.BasisCM], by[qpmap.BasisVotes], port, by[qpmap.BasisUD], cli.Count(len(t.unknown), "flow"))
	if s := t.qps.Stats(); s.Unlearned+s.Full > 0 {
		fmt.Fprintf(w, "pairs may be missing: the tables were full for %s\n", cli.Count(s.Unlearned+s.Full, "packet"))
	}
}
