package qpmap_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A forger is not on the path: it knows addresses and queue pairs, but neither the PSNs that two
// hosts use nor their communication ids. The script gives the packets to send, six octets a packet.
type forger struct {
	script []byte
	used   map[rocev2.FlowKey][]uint32 // PSNs between two hosts
}

// between is the key of all that two hosts send each other.
func between(p *rocev2.Packet) rocev2.FlowKey {
	if p.Src.Less(p.Dst) {
		return rocev2.FlowKey{Src: p.Src, Dst: p.Dst}
	}
	return rocev2.FlowKey{Src: p.Dst, Dst: p.Src}
}

// far is the distance of a wrong PSN from those that the hosts use.
const far = 100_000

// guess returns a PSN that is wrong: far from those that the hosts of a packet use.
func (f *forger) guess(about *rocev2.Packet, psn uint32) uint32 {
	for {
		used, near := f.findUsedPSN(about, psn, far)
		if !near {
			return psn & 0xFFFFFF
		}
		psn = used + far
	}
}

// findUsedPSN returns a PSN that the hosts of a packet use, and that is less than this far from psn, and whether
// there is one.
func (f *forger) findUsedPSN(about *rocev2.Packet, psn uint32, far int32) (used uint32, near bool) {
	for _, used := range f.used[between(about)] {
		if d := int32((psn-used)<<8) >> 8; d > -far && d < far {
			return used, true
		}
	}
	return 0, false
}

// length returns a length for a READ from this PSN on, at most length: none that ends, at any path
// MTU, near a PSN that the hosts use, as its end would be a correct guess.
func (f *forger) length(about *rocev2.Packet, psn, length uint32) uint32 {
	near := func(mtu uint32) bool {
		_, near := f.findUsedPSN(about, psn+length/mtu, far/2)
		return near
	}
	for slices.ContainsFunc([]uint32{256, 512, 1024, 2048, 4096}, near) {
		length /= 2
	}
	return length
}

// next returns the next packets that are forged about the flow of a real one, if any are due.
func (f *forger) next(about *rocev2.Packet) []rocev2.Packet {
	if len(f.script) < 6 || about.BTH.DestQP == cm.QP {
		return nil
	}
	s := f.script
	f.script = s[6:]
	what, srcQP, psn, long, ids := s[0], 2+uint32(s[1]%8), uint32(s[2])<<16|uint32(s[3])<<8, s[4], uint32(s[5])
	psn = f.guess(about, psn)
	c := &connection{A: about.Src, B: about.Dst, a: srcQP, b: about.BTH.DestQP, psnA: psn,
		psnB: f.guess(about, psn+1<<22), commA: 0xF0000000 | ids, commB: 0xE0000000 | ids, mtu: 1 + long%5}
	if what&0x20 != 0 {
		c.transport = cm.TransportTypeUC
	}
	if what&0x40 != 0 {
		c = c.turned()
	}
	n := uint32(what >> 4 & 1) // the forger goes on from where it was
	read := c.request(n)
	read.BTH.Opcode, read.BTH.Present = bth.RCRDMAReadRequest, bth.RCRDMAReadRequest.Headers()
	read.BTH.RETH.DMALength = f.length(about, psn+n, 1<<(long%32))
	datagram := packet(c.A, c.B, bth.UDSendOnly, c.b, psn)
	datagram.BTH.DETH = bth.DETH{QKey: 1, SrcQP: c.a}
	switch what & 0x0F {
	case 0:
		return []rocev2.Packet{c.req()}
	case 1:
		return []rocev2.Packet{c.rep()}
	case 2:
		return []rocev2.Packet{c.req(), c.rep(), c.rtu()}
	case 3:
		return []rocev2.Packet{c.dreq(), c.drep()}
	case 4:
		return []rocev2.Packet{c.rej()}
	case 5:
		return []rocev2.Packet{c.request(n)}
	case 6:
		return []rocev2.Packet{c.ack(n)}
	case 7:
		return []rocev2.Packet{read}
	case 8:
		return []rocev2.Packet{datagram}
	case 9: // three requests and their answers: enough for a pair by votes
		return []rocev2.Packet{c.request(0), c.ack(0), c.request(1), c.ack(1), c.request(2), c.ack(2)}
	case 10: // and announced
		return []rocev2.Packet{c.req(), c.rep(), c.request(0), c.ack(0), c.request(1), c.ack(1)}
	}
	return nil
}

// Real connections, with packets that the capture has lost, swapped and duplicated, are mixed with
// those of a forger, and tables may be too small. For each real packet a Map names the true sender,
// or none. No two of the connections use the same PSNs: if they did and the capture had lost the
// requests of one, its answers would look like those of the other, and forged packets could make
// that the better explanation. TestNeverAWrongPair has the same PSNs.
func FuzzForged(f *testing.F) {
	for what := range byte(11) {
		for _, turn := range []byte{0, 0x20, 0x40} {
			var script []byte
			for i := range byte(40) {
				script = append(script, what|turn, i/8, i, 0, i, i/3)
			}
			f.Add(uint64(what), false, script)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, small bool, script []byte) {
		requireRight(t, seed, small, false, script)
	})
}

// The same with random scripts, which finds more in this order of packets than a search guided by
// coverage.
func TestForgedAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(77, 99))
	for n := range wiretest.Rounds(1000) {
		seed := r.Uint64()
		var script []byte
		if n%3 > 0 {
			script = make([]byte, 6*(1+r.IntN(60)))
		}
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		for s := script; n%3 == 2 && len(s) > 0; s = s[6:] { // all actions of the forger, about few queue pairs
			s[0], s[1], s[4], s[5] = s[0]&0x70|byte(r.IntN(11)), s[1]%8, s[4]%32, s[5]%4
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) { requireRight(t, seed, n%2 == 0, false, script) })
	}
}

// Without a forger connections may use the same PSNs. Each seed has once shown a wrong answer: by votes from before a
// connection, by an exchange of which another one had contradicted one direction.
func TestSamePSNs(t *testing.T) {
	for _, seed := range []uint64{
		979111124761028371, 312163364737147636, 2450272238629500181, 14997044135594835743, 11618431343692148956,
		6767955360312359260, 536061444347229545, 17650431633654378244,
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { requireRight(t, seed, false, true, nil) })
	}
}

// requireRight plays to a Map, small or not, twelve connections in an order and with losses that
// seed chooses, and a forger that acts by a script.
func requireRight(t *testing.T, seed uint64, small, samePSN bool, script []byte) {
	r := rand.New(rand.NewPCG(seed, 17))
	all := impair(r, generate(r, 12, seed%3 > 0, samePSN))
	forger := forger{script: script, used: map[rocev2.FlowKey][]uint32{}}
	for i := range all {
		p := &all[i].packet
		forger.used[between(p)] = append(forger.used[between(p)], p.BTH.PSN)
	}
	config := qpmap.Config{MaxPairs: 512, MaxPending: 256, MaxOpen: 1024}
	if small {
		config = qpmap.Config{MaxPairs: 8, MaxPending: 4, MaxOpen: 4, Idle: 2 * time.Second}
	}
	m := qpmap.New(config)
	for i := range all {
		s, now := &all[i], start.Add(all[i].at)
		for range 1 + r.IntN(8)/7 { // some twice
			m.Observe(&s.packet, 0, now)
		}
		if s.packet.BTH.DestQP == cm.QP {
			continue
		}
		k := qpmap.Key{FlowKey: flowOf(&s.packet)}
		if got, err := m.SourceQP(k, now); err == nil && got.SrcQP != s.truth {
			t.Fatalf("%v %v: %d, not %d, from %v", k, s.packet.BTH.Header, got.SrcQP, s.truth, got.From)
		}
		last := true // of its flow
		for _, p := range forger.next(&s.packet) {
			m.Observe(&p, 0, now)
			last = last && flowOf(&p) != k.FlowKey
		}
		if got, err := m.SourceQP(k, now); err == nil && last && !small && got.SrcQP != s.truth {
			t.Fatalf("forged in the other direction: %v %v: %d, not %d, from %v", k, s.packet.BTH.Header, got.SrcQP,
				s.truth, got.From)
		}
		if got, err := m.SourceQPOf(k, &s.packet.BTH.Header, now); err == nil && got.SrcQP != s.truth {
			t.Fatalf("after what was forged: %v %v: %d, not %d, from %v", k, s.packet.BTH.Header, got.SrcQP,
				s.truth, got.From)
		}
	}
}
