package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/message"
)

// readCuts finds in the log of the sender's agent when it slowed each of the host's
// queue pairs down first after begin, or stopped it, by the sender's clock.
func readCuts(log string, begin time.Time) (map[uint32]time.Time, error) {
	cuts := map[uint32]time.Time{}
	for line := range strings.Lines(log) {
		var l struct {
			Time time.Time `json:"time"`
			QP   uint32    `json:"qp"`
			Rate *uint64   `json:"rate_bps"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, fmt.Errorf("the log of the sender's agent: %w", err)
		}
		if _, known := cuts[l.QP]; l.Rate != nil && !known && l.Time.After(begin) {
			cuts[l.QP] = l.Time
		}
	}
	return cuts, nil
}

// firstSlower finds, among the packets at the sender's port, the first message that a queue pair
// began after it had been slowed down. Until then no packet waits at the port, as the load is given
// to it no faster than it sends: so that message is the first that is slower.
func firstSlower(port []packet, cuts map[uint32]time.Time) (at time.Time, ok bool) {
	// An answer has the packet number of the request, and the sender's queue pair.
	byNumber, cut := map[uint32]uint32{}, map[uint32]time.Time{}
	for _, p := range port {
		switch p.kind {
		case message.KindData:
			byNumber[p.id.psn] = p.id.qp
		case message.KindAck:
			if qp, ok := byNumber[p.id.psn]; ok && !cuts[p.id.qp].IsZero() {
				cut[qp] = cuts[p.id.qp]
			}
		}
	}
	for _, p := range port {
		when, slowed := cut[p.id.qp]
		if p.kind == message.KindData && p.id.opcode == bth.RCRDMAWriteFirst && slowed && p.at.After(when) {
			return p.at, true
		}
	}
	return time.Time{}, false
}

// compareClocks returns the lead of the switch's clock over the sender's at a time of the sender's, and
// the largest error of that: from the packets that both captured in the second before and the
// second after. The travel time of a packet between them is at least 0.
func compareClocks(sender, beforeQueue []packet, at time.Time) (ahead, within time.Duration, ok bool) {
	type name struct {
		kind message.Kind
		id   packetID
		nth  int
	}
	nth := func(seen map[name]int, p packet) name {
		n := name{p.kind, p.id, 0}
		seen[n]++
		return name{p.kind, p.id, seen[n]}
	}
	there, seen := map[name]time.Time{}, map[name]int{}
	for _, p := range sender {
		there[nth(seen, p)] = p.at
	}
	const never = time.Duration(1 << 62)
	least := map[bool]time.Duration{true: never, false: never} // true: data, from the sender; false: the others, to it
	seen = map[name]int{}
	for _, p := range beforeQueue {
		t, both := there[nth(seen, p)]
		if !both || t.Sub(at).Abs() > time.Second {
			continue
		}
		took := p.at.Sub(t)
		if p.kind != message.KindData {
			took = -took
		}
		least[p.kind == message.KindData] = min(least[p.kind == message.KindData], took)
	}
	if least[true] == never || least[false] == never {
		return 0, 0, false
	}
	return (least[true] - least[false]) / 2, (least[true] + least[false]) / 2, true
}
