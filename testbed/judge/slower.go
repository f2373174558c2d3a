package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rocecn/rocecn/message"
)

// readCuts finds in the log of the sender's agent when it slowed each of the host's
// queue pairs down first, or stopped it, by the sender's clock.
func readCuts(log string) (map[uint32]time.Time, error) {
	cuts := map[uint32]time.Time{}
	for s := bufio.NewScanner(strings.NewReader(log)); s.Scan(); {
		var l struct {
			Time time.Time `json:"time"`
			QP   uint32    `json:"qp"`
			Rate *uint64   `json:"rate_bps"`
		}
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("the log of the sender's agent: %w", err)
		}
		if _, known := cuts[l.QP]; l.Rate != nil && !known {
			cuts[l.QP] = l.Time
		}
	}
	return cuts, nil
}

// firstSlower finds in what the sender's port carried the first packet that a queue pair
// gave to the port when it had been slowed down; which is not the first that left then, as
// those that wait at the port keep their time. window is how many packets a queue pair has
// on its way at most: one beyond those that it was allowed by the answers until then came
// later, and so did a repeat that it was asked for since.
func firstSlower(port []packet, cuts map[uint32]time.Time, window uint32) (at time.Time, ok bool) {
	type flow struct {
		cut          time.Time
		began, asked bool
		last, opened uint32 // packet numbers: the highest that was sent, and that was allowed before the cut
	}
	// An answer has the packet number of what it answers, and the sender's queue pair.
	flows, byNumber := map[uint32]*flow{}, map[uint32]*flow{}
	for _, p := range port {
		switch p.kind {
		case message.Data:
			if flows[p.id.qp] == nil {
				flows[p.id.qp] = &flow{}
			}
			byNumber[p.id.psn] = flows[p.id.qp]
		case message.Ack:
			if f := byNumber[p.id.psn]; f != nil && !p.nak {
				f.cut = cuts[p.id.qp]
			}
		}
	}
	for _, p := range port {
		switch f := byNumber[p.id.psn]; {
		case f == nil || f.cut.IsZero():
		case p.kind == message.Ack && p.at.Before(f.cut):
			if !p.nak {
				f.opened = p.id.psn + window
			}
		case p.kind == message.Ack:
			f.asked = f.asked || p.nak
		case p.kind == message.Data:
			if !f.began {
				f.began, f.last, f.opened = true, p.id.psn-1, p.id.psn-1+window
			}
			again := !after(p.id.psn, f.last)
			if p.at.After(f.cut) && (again && f.asked || !again && after(p.id.psn, f.opened)) {
				return p.at, true
			}
			if !again {
				f.last = p.id.psn
			}
		}
	}
	return time.Time{}, false
}

// after says whether a packet number comes after another one, of 24 bits.
func after(psn, other uint32) bool { return int32((psn-other)<<8) > 0 }

// clocks says by how much the switch's clock is ahead of the sender's at a time of the
// sender's, and how wrong that can be: by the packets of the second before and the second
// after which both saw. What went from one to the other needs no less than no time.
func clocks(sender, beforeQueue []packet, at time.Time) (ahead, within time.Duration, ok bool) {
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
	least := map[bool]time.Duration{true: never, false: never} // data goes from the sender, what else to it
	seen = map[name]int{}
	for _, p := range beforeQueue {
		t, both := there[nth(seen, p)]
		if !both || t.Sub(at).Abs() > time.Second {
			continue
		}
		took := p.at.Sub(t)
		if p.kind != message.Data {
			took = -took
		}
		least[p.kind == message.Data] = min(least[p.kind == message.Data], took)
	}
	if least[true] == never || least[false] == never {
		return 0, 0, false
	}
	return (least[true] - least[false]) / 2, (least[true] + least[false]) / 2, true
}
