package main

import (
	"net/netip"
	"path/filepath"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A queueRun has the results of one run of a load, from the captures on both sides of a queue.
type queueRun struct {
	sent, drops   int           // packets towards the queue, and those of them that never came out
	depths        []int         // octets in the queue, as each packet found it that came out
	took          time.Duration // from the first packet to the last answer
	notifications int           // towards the sender
	congested     bool          // whether the queue was as deep as the level
	notified      bool          // whether a notification came
	news          time.Duration // time from the queue at the level to the notification; negative if captured earlier
	slowed        bool          // whether a packet left the sender slower
	slower        time.Duration // time from the queue at the level to that packet
	within        time.Duration // largest error of slower, as clocks differ
	deep          time.Duration // from when it was as deep as the level until a packet left it less deep
}

// A packet has the fields of a captured packet that are needed here.
type packet struct {
	at   time.Time
	kind message.Kind
	dst  netip.Addr
	id   packetID
	size int
}

// A packetID names a packet and its repeats.
type packetID struct {
	qp, psn uint32
	opcode  bth.Opcode
}

// readPackets reads the RoCEv2 packets of a capture.
func readPackets(file string) (packets []packet, err error) {
	var f rocev2.Frame
	var m message.Message
	for r, err := range capture.File(file) {
		if err != nil {
			return nil, err
		}
		f.Decode(r.Data, r.Options())
		if m.DecodeView(f.Inner(), message.Config{}) != nil {
			continue
		}
		p := packet{at: r.Time, kind: m.Kind, dst: m.Packet.Dst, size: wire.EthernetSize + len(f.BorderPacket())}
		p.id = packetID{m.Packet.BTH.DestQP, m.Packet.BTH.PSN, m.Packet.BTH.Opcode}
		packets = append(packets, p)
	}
	return packets, nil
}

// readQueue reads the captures of a run, and the log of the sender's agent.
func (c testCase) readQueue(l load) (q queueRun, err error) {
	var seen [3][]packet
	for i, name := range []string{"before.pcap", "behind.pcap", "sender.pcap"} {
		if seen[i], err = readPackets(filepath.Join(c.folder, name)); err != nil {
			return q, err
		}
	}
	congested := q.queueBegin(seen[0], seen[1], l.Level, measurementBegin(seen[0], l.Warm))
	cuts, err := readCuts(c.readText("sender.agent.log"), measurementBegin(seen[2], l.Warm))
	if err != nil {
		return q, err
	}
	if slower, ok := firstSlower(seen[2], cuts); ok && q.congested {
		var ahead time.Duration
		ahead, q.within, q.slowed = compareClocks(seen[2], seen[0], slower)
		q.slower = slower.Add(ahead).Sub(congested)
	}
	return q, nil
}

// measurementBegin returns when the load begins: with the first packet of a queue pair beyond those
// that it sends to be known.
func measurementBegin(packets []packet, warm uint32) time.Time {
	first := map[uint32]uint32{}
	for _, p := range packets {
		if p.kind != message.KindData {
			continue
		}
		if _, known := first[p.id.qp]; !known {
			first[p.id.qp] = p.id.psn
		}
		if (p.id.psn-first[p.id.qp])&0xFFFFFF >= warm {
			return p.at
		}
	}
	return time.Time{}
}

// queueBegin follows the content of the queue, which is first in, first out: a packet that leaves is the
// first equal packet that entered, and those before it were dropped. Packets before begin are not
// measured. It returns the time at which the queue first reached the level.
func (q *queueRun) queueBegin(before, after []packet, level int, begin time.Time) (congested time.Time) {
	var data []packet
	var last time.Time
	for _, p := range before {
		switch p.kind {
		case message.KindData:
			data = append(data, p)
			last = p.at
		case message.KindAck:
			last = p.at
		}
	}
	early := 0
	for early < len(data) && data[early].at.Before(begin) {
		early++
	}
	q.sent = len(data) - early
	left := make([]time.Time, len(data)) // zero for dropped packets
	next := 0
	for _, p := range after {
		if p.kind != message.KindData {
			continue
		}
		for i := next; i < len(data); i++ {
			if data[i].id == p.id {
				left[i] = p.at
				next = i + 1
				break
			}
		}
	}
	depth, out := 0, 0
	for i, p := range data {
		if left[i].IsZero() {
			q.drops++
			continue
		}
		for ; out < i && !left[out].After(p.at); out++ {
			if !left[out].IsZero() {
				depth -= data[out].size
			}
		}
		if i >= early {
			q.depths = append(q.depths, depth)
		}
		depth += p.size
		switch {
		case i < early:
		case depth >= level && congested.IsZero():
			congested = p.at
		case depth < level && !congested.IsZero() && q.deep == 0:
			q.deep = p.at.Sub(congested)
		}
	}
	if q.sent > 0 {
		q.took = last.Sub(data[early].at)
	}
	q.congested = !congested.IsZero()
	for _, p := range before {
		switch p.kind {
		case message.KindCNP, message.KindFastCNP, message.KindPPFC:
			if p.at.Before(begin) {
				continue
			}
			q.notifications++
			if q.congested && !q.notified {
				q.notified, q.news = true, p.at.Sub(congested)
			}
		}
	}
	return congested
}
