package run

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

const (
	// maxSeenFlows and maxSeenSenders are the sizes of the tables. In a full table a new entry evicts the one that was
	// used longest ago.
	maxSeenFlows, maxSeenSenders = 1024, 256
	// maxListedFlows is the number of flows in /status: those with the latest decisions.
	maxListedFlows = 64
)

// seenTables have the flows and the senders that the decisions of a role were about, each with the number of decisions.
type seenTables struct {
	flows, senders flowtable.Table[flowtable.Key, seenEntry]
	flow, sender   uint32 // ids of the entries of the last decision
	forgotten      struct{ flows, senders uint64 }
	changed        bool                       // since the last list
	listsAll       bool                       // lists all flows, since those of the kernel are added to them
	listedAt       time.Time                  // time of the last list
	lastGroups     [digestSlots]flowtable.Key // of decisions that are not recorded by flow, by group of the digest
}

// A seenEntry counts the decisions about a flow or a sender.
type seenEntry struct {
	counts  decisionCounts
	recent  [digestSlots]uint64 // decisions since the last line of each group of the digest
	to      netip.Addr          // destination of the last notification
	reason  node.Reason         // reason of the last decision that had one
	kind    message.Kind        // kind of the last notification
	level   uint8               // congestion level of the last packet, or roles.UnknownLevel
	deep    bool                // depth is known
	depth   uint64              // queue depth at the last packet in octets
	updated time.Time
}

// decisionCounts are numbers of decisions.
type decisionCounts struct {
	Sent     uint64 `json:"sent,omitempty"`     // notifications
	Marked   uint64 `json:"marked,omitempty"`   // packets that were only to be marked
	Accepted uint64 `json:"accepted,omitempty"` // notifications from others
	Dropped  uint64 `json:"dropped,omitempty"`
	Limited  uint64 `json:"limited,omitempty"` // withheld by a limit
	Refused  uint64 `json:"refused,omitempty"` // rejected for any other reason
}

// add counts a decision.
func (c *decisionCounts) add(d *node.Decision) {
	switch {
	case d.Reason == node.ReasonLimited:
		c.Limited++
	case d.Action == node.ActionSent:
		c.Sent++
	case d.Action == node.ActionMarked:
		c.Marked++
	case d.Action == node.ActionAccepted:
		c.Accepted++
	case d.Action == node.ActionDropped:
		c.Dropped++
	default:
		c.Refused++
	}
}

// senderOnly in Key.QP marks the key of a sender without a flow.
const senderOnly = 1 << 29

// keysOf returns the keys of the flow and the sender of a decision, as far as they are known. The source of a rejected
// message counts as the sender.
func keysOf(d *node.Decision) (flow, sender flowtable.Key) {
	src := d.Flow.Src
	if !src.IsValid() {
		src = d.From
	}
	sender = flowtable.KeyOf(src, netip.Addr{}, 0, d.Flow.Domain)
	sender.QP |= senderOnly
	if !d.Flow.Dst.IsValid() {
		return sender, sender
	}
	return flowtable.KeyOf(src, d.Flow.Dst, d.Flow.DestQP, d.Flow.Domain), sender
}

// flowOf returns the flow of a key. Its Dst is the zero Addr if only the sender is known.
func flowOf(k *flowtable.Key) rocev2.FlowKey {
	f := k.FlowKey()
	if k.QP&senderOnly != 0 {
		f.Dst = netip.Addr{}
	}
	if f.Src == netip.IPv6Unspecified() {
		f.Src = netip.Addr{}
	}
	return f
}

// record counts a decision of a group of the digest about a packet with this level and depth.
func (s *seenTables) record(group int, d *node.Decision, level uint8, depth uint64, deep bool, now time.Time) {
	flow, sender := keysOf(d)
	switch d.Action {
	case node.ActionForwarded, node.ActionLearned, node.ActionPassed: // about too many flows to keep all of them
		if group < digestSlots {
			s.lastGroups[group] = flow
		}
		return
	}
	s.flow = findSeen(&s.flows, &flow, s.flow, maxSeenFlows, &s.forgotten.flows)
	s.sender = findSeen(&s.senders, &sender, s.sender, maxSeenSenders, &s.forgotten.senders)
	s.changed = true
	for _, e := range [...]*seenEntry{s.flows.Value(s.flow), s.senders.Value(s.sender)} {
		e.counts.add(d)
		if d.To.IsValid() {
			e.to, e.kind = d.To, d.Message
		}
		if d.Reason != node.NoReason {
			e.reason = d.Reason
		}
		e.level, e.depth, e.deep, e.updated = level, depth, deep, now
		if group < digestSlots {
			e.recent[group]++
		}
	}
}

// findSeen returns the id of an entry, which it adds if it is new. last is the id of the entry that was used last.
func findSeen(t *flowtable.Table[flowtable.Key, seenEntry], k *flowtable.Key, last uint32, most int,
	forgotten *uint64) uint32 {
	if t.Holds(last) && *t.Key(last) == *k {
		return last
	}
	if t.Len() == 0 && t.Full() { // the zero Table
		*t = flowtable.New[flowtable.Key, seenEntry](most, true, (*flowtable.Key).Hash)
	}
	hash := k.Hash(t.Seed)
	if _, id := t.Find(k, hash); id != 0 {
		t.Renew(id, 0)
		return id
	}
	if t.Full() {
		*forgotten++
	}
	return t.AddOrEvict(k, hash)
}

// addTopFlow adds the attributes of the flow with most decisions of a group since its last line, and starts again. For
// groups with an action that is not recorded by flow it is the flow of the last decision.
func (s *seenTables) addTopFlow(all *attrs, group int) {
	if group >= digestSlots {
		return
	}
	var top *seenEntry
	flow, n := s.lastGroups[group], uint64(0)
	for id := range s.flows.All() {
		e := s.flows.Value(id)
		if e.recent[group] > n {
			top, flow, n = e, *s.flows.Key(id), e.recent[group]
		}
		e.recent[group] = 0
	}
	all.addFlow(flowOf(&flow))
	if top == nil {
		return
	}
	addNumber(all, "flow_count", &n)
	all.addAddr("to", top.to)
	if top.level != roles.UnknownLevel {
		addNumber(all, "level", &top.level)
	}
	if top.deep {
		addNumber(all, "depth", &top.depth)
	}
}

// listInterval is the shortest time between two lists.
const listInterval = time.Second

// setListsAll sets whether lists have all flows, or only the latest.
func (s *seenTables) setListsAll(all bool) {
	if s.listsAll != all {
		s.listsAll, s.changed = all, s.changed || s.senders.Len() > 0
	}
}

// listIfDue returns the latest flows and senders for /status, or nil if nothing has changed since the last list
// or that was made less than listInterval ago.
func (s *seenTables) listIfDue(now time.Time) *seenStatus {
	if !s.changed || now.Sub(s.listedAt).Abs() < listInterval {
		return nil
	}
	s.changed, s.listedAt = false, now
	return s.list()
}

// list returns the latest flows and senders.
func (s *seenTables) list() *seenStatus {
	most := maxListedFlows
	if s.listsAll {
		most = maxSeenFlows
	}
	return &seenStatus{
		flows:   flowList{s.flows.Len(), s.forgotten.flows, listEntries(&s.flows, most)},
		senders: flowList{s.senders.Len(), s.forgotten.senders, listEntries(&s.senders, maxSeenSenders)},
	}
}

// seenStatus is the part of seenTables that /status lists.
type seenStatus struct{ flows, senders flowList }

// listEntries returns up to most entries, the latest first.
func listEntries(t *flowtable.Table[flowtable.Key, seenEntry], most int) []flowStatus {
	skip := t.Len() - most
	all := make([]flowStatus, 0, min(t.Len(), most))
	for id := t.Oldest(0); id != 0; id = t.Newer(id) { // in the order of use
		if skip > 0 {
			skip--
			continue
		}
		e := t.Value(id)
		f := flowOf(t.Key(id))
		one := flowStatus{
			Src: f.Src, Dst: f.Dst, DestQP: f.DestQP, Domain: t.Key(id).Domain, decisionCounts: e.counts,
			Reason: e.reason.String(), To: e.to, Last: e.updated,
		}
		if e.to.IsValid() {
			one.Kind = e.kind.String()
		}
		if level := e.level; level != roles.UnknownLevel {
			one.Level = &level
		}
		if depth := e.depth; e.deep {
			one.Depth = &depth
		}
		all = append(all, one)
	}
	slices.Reverse(all)
	return all
}
