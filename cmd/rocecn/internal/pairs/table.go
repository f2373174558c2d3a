package pairs

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A table has a row for each flow and queue pair that sent it, and for each flow of which that is not known. At most
// maxRows are kept: a full table evicts the row of an unknown sender that was used longest ago, or without one the row
// that was used longest ago.
type table struct {
	qps     *qplearn.Map
	rows    flowtable.Table[rowKey, row]
	evicted uint64 // rows
}

// maxRows is the maximum number of rows of a table: two for each connection that a map learns, of about 230 octets.
const maxRows = 1 << 18

// The lists of the table of rows.
const (
	unknownRows = 0
	knownRows   = 1
)

// unknownQP is the queue pair in the key of a row without a known one.
const unknownQP = 1 << 24

type rowKey struct {
	flow  flowtable.Key
	srcQP uint32 // unknownQP if it is not known
}

func (k *rowKey) hash(seed uint64) uint64 { return hash.Mix(k.flow.Hash(seed)^uint64(k.srcQP), seed|1) }

type row struct {
	flow        rocev2.FlowKey
	pair        qpmap.Pair // From 0: not known
	ambiguous   bool       // not known, because more than one is possible
	packets     uint64
	first, last time.Time
}

func newTable(seed uint64, rows int) *table {
	t := &table{qps: qplearn.New(cli.LearnConfig(seed, true)),
		rows: flowtable.New[rowKey, row](rows, true, (*rowKey).hash)}
	if seed != 0 {
		t.rows.Seed = seed
	}
	return t
}

// observe adds a packet.
func (t *table) observe(p *packet) {
	now := p.time
	if p.learn {
		t.qps.Learn(&p.seen, now)
		for k, entry := range t.qps.Learned() {
			t.rowOf(k, t.qps.Pair(entry), now)
		}
	}
	if !p.counts {
		return
	}
	pair, ambiguous := qpmap.Pair{PKey: p.seen.PKey, Transport: p.seen.Opcode.Transport()}, false
	if p.datagram {
		pair.SrcQP, pair.From = p.seen.SrcQP, qpmap.BasisUD
	} else {
		t.qps.Now(now)
		var entry *qplearn.Entry
		if entry, ambiguous = t.qps.Sender(&p.seen.Flow); entry != nil {
			pair = t.qps.Pair(entry)
		}
	}
	r := t.rowOf(&p.seen.Flow, pair, now)
	r.ambiguous = ambiguous
	r.packets++
	r.last = now
}

// rowOf returns the row of a flow and its pair, the newest of its list. That of an unknown sender keeps the pair of its
// first packet.
func (t *table) rowOf(k *flowtable.Key, pair qpmap.Pair, now time.Time) *row {
	key, list := rowKey{k.WithQP(k.DestQP()), pair.SrcQP}, uint32(knownRows)
	if pair.From == 0 {
		key.srcQP, list = unknownQP, unknownRows
	}
	hash := key.hash(t.rows.Seed)
	r, id := t.rows.Find(&key, hash)
	if r == nil {
		if t.rows.Full() {
			t.rows.Remove(cmp.Or(t.rows.Oldest(unknownRows), t.rows.Oldest(knownRows)))
			t.evicted++
		}
		id = t.rows.Add(&key, hash, list)
		r = t.rows.Value(id)
		*r = row{flow: k.FlowKey(), pair: pair, first: now, last: now}
	}
	t.rows.Renew(id, list)
	if pair.From != 0 {
		r.pair = pair
	}
	return r
}

// sortedRows returns the rows, those of one direction together. A flow without a pair
// has a row when it never had one; packets from before it was known, or from
// after it was forgotten, belong to the one that it has.
func (t *table) sortedRows() []*row {
	var all []*row
	unknown, known := map[rocev2.FlowKey]*row{}, map[rocev2.FlowKey]int{}
	for id := range t.rows.All() {
		if r := t.rows.Value(id); r.pair.From == 0 {
			unknown[r.flow] = r
		} else {
			known[r.flow]++
			all = append(all, r)
		}
	}
	for _, r := range all {
		if before := unknown[r.flow]; before != nil && known[r.flow] == 1 {
			r.packets += before.packets
			if before.first.Before(r.first) {
				r.first = before.first
			}
			if before.last.After(r.last) {
				r.last = before.last
			}
			delete(unknown, r.flow)
		}
	}
	all = slices.AppendSeq(all, maps.Values(unknown))
	slices.SortFunc(all, func(a, b *row) int {
		return cmp.Or(a.flow.Compare(b.flow), a.first.Compare(b.first), cmp.Compare(a.pair.SrcQP, b.pair.SrcQP),
			cmp.Compare(a.pair.From, b.pair.From))
	})
	return all
}

// printSummary prints the number of known flows by evidence.
func (t *table) printSummary(w io.Writer, rows []*row, packets int) {
	by := map[qpmap.Basis]int{}
	for _, r := range rows {
		by[r.pair.From]++
	}
	port := "" // most captures have none
	if n := by[qpmap.BasisPort]; n > 0 {
		port = fmt.Sprintf("%d by votes and the UDP source port, ", n)
	}
	fmt.Fprintf(w, "%s; %s: %d by connection management, %d by votes, %s%d in datagrams; %s without one\n",
		cli.Count(packets, "packet"), cli.Count(len(rows)-by[0], "pair"),
		by[qpmap.BasisCM], by[qpmap.BasisVotes], port, by[qpmap.BasisUD], cli.Count(by[0], "flow"))
	if s := t.qps.Stats(); s.Unlearned+s.Full > 0 {
		fmt.Fprintf(w, "pairs may be unknown: the tables were full for %s\n", cli.Count(s.Unlearned+s.Full, "packet"))
	}
	if t.evicted > 0 {
		fmt.Fprintf(w, "%s evicted: at most %d are kept\n", cli.Count(t.evicted, "row")+" were", t.rows.Len())
	}
}
