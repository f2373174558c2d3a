package qpmap_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// hosts are the captures of real hosts in testdata/real.
var hosts = []string{
	"atomic4", "nvme4", "r6-loss2", "rping6", "s4-rnr", "sR4-redect-q4", "send4-reorder", "w4-reddrop-q4",
	"w4-uc-loss2",
	"w6-ackloss3", "write4-dup", "write4-loss1", "write4-red-ect", "write6-q8-loss1",
}

// A host is a capture of real hosts, and which queue pair sends each flow, as
// perftest printed it or as tshark reads it from connection management.
type host struct {
	packets []sent
	truth   map[rocev2.FlowKey]uint32
}

// readHost reads one of the two captures of a case, "eth0" before the queue or "eth1" after it.
func readHost(t testing.TB, name, at string) host {
	t.Helper()
	b := wiretest.Must(os.ReadFile(wiretest.Path(t, "real", name+".truth.json")))(t)
	var truth struct {
		Sender, Receiver string
		Pairs            []struct {
			SenderQP   uint32 `json:"sender_qp"`
			ReceiverQP uint32 `json:"receiver_qp"`
		}
		CM []struct {
			FromQP uint32 `json:"from_qp"`
			ToQP   uint32 `json:"to_qp"`
		} `json:"pairs_cm_tshark"`
	}
	require.NoError(t, json.Unmarshal(b, &truth))
	h := host{truth: map[rocev2.FlowKey]uint32{}}
	pair := func(a, b uint32) {
		for i := range 2 { // both families
			A := netip.MustParseAddr(strings.Fields(truth.Sender)[i])
			B := netip.MustParseAddr(strings.Fields(truth.Receiver)[i])
			h.truth[rocev2.FlowKey{Src: A, Dst: B, DestQP: b}] = a
			h.truth[rocev2.FlowKey{Src: B, Dst: A, DestQP: a}] = b
		}
	}
	for _, p := range truth.Pairs {
		pair(p.SenderQP, p.ReceiverQP)
	}
	for _, p := range truth.CM {
		pair(p.FromQP, p.ToQP)
	}
	if name == "w4-reddrop-q4" { // the client was stopped before it could print them: both ends count up
		for qp := range uint32(4) {
			pair(0x15+qp, 0x39+qp)
		}
	}
	for _, c := range wiretest.Capture(t, "real/"+name+"."+at+".pcap.gz") {
		s := sent{at: c.Time.Sub(start)}
		require.NoError(t, s.packet.DecodeEthernet(c.Data))
		h.packets = append(h.packets, s)
	}
	return h
}

// A score counts requests of RC of which the sender must be known: those that
// come after the pair's CM exchange, or after the third answer with another PSN.
type score struct{ due, known int }

// play shows the packets of real hosts to a Map, with the packets of forge before each of them, and
// asks for the sender after each request. A wrong answer ends the test.
func (h *host) play(t testing.TB, m *qpmap.Map, forge func(now time.Time)) score {
	t.Helper()
	var total score
	exchanged := map[rocev2.FlowKey]bool{}
	answers := map[rocev2.FlowKey]map[uint32]bool{}
	requester := map[uint32]uint32{}
	for i := range h.packets {
		s := &h.packets[i]
		now := start.Add(s.at)
		if forge != nil {
			forge(now)
		}
		m.Observe(&s.packet, 0, now)
		k, op := flowOf(&s.packet), s.packet.BTH.Opcode
		var x qplearn.Exchange
		switch {
		case k.DestQP == cm.QP:
			if !x.Set(&s.packet) {
				break
			}
			switch x.Attribute {
			case cm.AttributeREQ:
				requester[x.Local] = x.QP
			case cm.AttributeREP:
				exchanged[rocev2.FlowKey{Src: k.Dst, Dst: k.Src, DestQP: x.QP}] = true
				exchanged[rocev2.FlowKey{Src: k.Src, Dst: k.Dst, DestQP: requester[x.Remote]}] = true
			}
		case op.Transport() != bth.TransportRC:
		case op.Operation() >= bth.OpRDMAReadResponseFirst && op.Operation() <= bth.OpAtomicAcknowledge:
			about := rocev2.FlowKey{Src: k.Dst, Dst: k.Src, DestQP: h.truth[k]}
			if answers[about] == nil {
				answers[about] = map[uint32]bool{}
			}
			answers[about][s.packet.BTH.PSN] = true
		default:
			truth, ok := h.truth[k]
			require.True(t, ok, "packet %d: %v", i, k)
			got, err := m.SourceQP(qpmap.Key{FlowKey: k}, now)
			if err == nil {
				require.Equal(t, truth, got.SrcQP, "packet %d: %v PSN %d, from %v", i, k, s.packet.BTH.PSN, got.From)
			}
			of, errOf := m.SourceQPOf(qpmap.Key{FlowKey: k}, &s.packet.BTH.Header, now)
			require.Equal(t, err, errOf)
			require.Equal(t, got, of)
			if exchanged[k] || len(answers[k]) >= 3 {
				total.due++
				if err == nil {
					total.known++
				}
			}
		}
	}
	return total
}

// Real hosts under loss, reordering, duplication and congestion: the sender is known after any
// number of retransmissions.
func TestRealHosts(t *testing.T) {
	wiretest.Alone(t)
	for _, name := range hosts {
		for _, at := range []string{"eth0", "eth1"} {
			t.Run(name+" "+at, func(t *testing.T) {
				h := readHost(t, name, at)
				s := h.play(t, qpmap.New(qpmap.Config{}), nil)
				t.Logf("%d of %d requests", s.known, s.due)
				require.GreaterOrEqual(t, 100*s.known, 99*s.due)
				// UC has no answers; all ATOMICs are in flight at the same time
				if name != "w4-uc-loss2" && name != "atomic4" {
					require.NotZero(t, s.due)
				}
			})
		}
	}
}

// The same with a million packets forged by an attacker outside the path: it knows addresses and
// queue pairs, and guesses PSNs and communication ids. No answer is wrong for any forged packets.
// With single ones the senders of 99 % of the requests stay known, and of 95 % with the three packets
// that name a victim's queue pair. Whole conversations, answers included, may keep a flow unknown: they
// are sent ten for each real packet. Only a long run sends a million to each host, another one to every
// seventh host, and a short one to none.
func TestRealHostsUnderAttack(t *testing.T) {
	wiretest.Alone(t)
	const million = 1_000_000
	for i, name := range hosts {
		t.Run(name, func(t *testing.T) {
			for _, x := range []struct {
				what  string
				kinds int
				each  int  // packets for each real one; 0: a million in all
				after bool // it begins when a quarter of the capture has passed
				least int  // percent that must be known
			}{
				{"single packets", 5, 0, false, 99},
				{"single packets, and three that name a victim", 6, 0, false, 95},
				{"complete connections as well, against connections in use", 9, 10, true, 0},
				{"complete connections as well", 9, 10, false, 0},
			} {
				if x.each == 0 && (testing.Short() || i%7 > 0 && !wiretest.Long()) {
					continue
				}
				t.Run(x.what, func(t *testing.T) {
					h := readHost(t, name, "eth0")
					each := float64(wiretest.Rounds(x.each))
					if x.each == 0 {
						each = million / float64(len(h.packets))
					}
					a := newAttacker(uint64(i), &h, x.kinds)
					packets := 0
					s := h.play(t, a.m, func(now time.Time) {
						if packets++; x.after && packets <= len(h.packets)/4 {
							return
						}
						for a.due += each; a.due >= 1; {
							a.due -= float64(a.send(now))
						}
					})
					t.Logf("%s: %d of %d requests", x.what, s.known, s.due)
					require.GreaterOrEqual(t, 100*s.known, x.least*s.due)
				})
			}
		})
	}
}

// An attacker sends packets that it makes up.
type attacker struct {
	r     *rand.Rand
	m     *qpmap.Map
	flows []rocev2.FlowKey
	truth map[rocev2.FlowKey]uint32
	kinds int
	due   float64
}

func newAttacker(seed uint64, h *host, kinds int) *attacker {
	m := qpmap.New(qpmap.Config{MaxPending: 1 << 16, MaxOpen: 1 << 15})
	a := &attacker{r: rand.New(rand.NewPCG(seed, 23)), m: m, truth: h.truth, kinds: kinds}
	for k := range h.truth {
		if k.Src.Is4() == h.packets[0].packet.Src.Is4() {
			a.flows = append(a.flows, k)
		}
	}
	slices.SortFunc(a.flows, rocev2.FlowKey.Compare)
	return a
}

// send forges a packet, or several that belong together, about one of the flows, and returns their
// number.
func (a *attacker) send(now time.Time) int {
	r := a.r
	k := a.flows[r.IntN(len(a.flows))]
	victim := a.flows[r.IntN(len(a.flows))].DestQP // a queue pair of another flow
	if r.IntN(4) == 0 {
		victim = 2 + r.Uint32N(1<<24-2)
	}
	c := &connection{
		A: k.Src, B: k.Dst, a: victim, b: k.DestQP, psnA: r.Uint32() & 0xFFFFFF, psnB: r.Uint32() & 0xFFFFFF,
		commA: r.Uint32(), commB: r.Uint32(), mtu: 3,
	}
	var packets []rocev2.Packet
	switch r.IntN(a.kinds) {
	case 0:
		packets = []rocev2.Packet{c.req()}
	case 1: // a request to the right queue pair
		packets = []rocev2.Packet{c.request(0)}
	case 2: // an answer to any, and to the right one
		packets = []rocev2.Packet{c.ack(0)}
	case 3:
		c.a = a.truth[k]
		packets = []rocev2.Packet{c.ack(0)}
	case 4:
		packets = []rocev2.Packet{c.dreq(), c.drep(), c.rej(), c.turned().rej()}
	case 5: // three that name a victim
		packets = []rocev2.Packet{c.req(), c.rep(), c.request(0)}
	case 6: // the right pair at a PSN that it does not use
		c.a = a.truth[k]
		packets = []rocev2.Packet{c.request(0), c.ack(0)}
	case 7:
		packets = []rocev2.Packet{c.req(), c.rep()}
		fallthrough
	default:
		for n := range uint32(4) {
			packets = append(packets, c.request(n), c.ack(n))
		}
	}
	observe(a.m, now, packets...)
	return len(packets)
}

// captured returns the RoCEv2 packets of a capture, all or those without CM.
func captured(t testing.TB, name string, withCM bool) []sent {
	var all []sent
	for _, c := range wiretest.Capture(t, name) {
		s := sent{at: c.Time.Sub(start)}
		if s.packet.DecodeEthernet(c.Data) != nil || !withCM && s.packet.BTH.DestQP == cm.QP {
			continue
		}
		// Both ends of all connections of these captures have the same number:
		// the REQs and REPs say so, and so do the tools that made the others.
		s.truth = s.packet.BTH.DestQP
		all = append(all, s)
	}
	return all
}

// learn shows packets to a Map and returns the last pair that it gave for each flow; a wrong pair
// ends the test.
func learn(t testing.TB, m *qpmap.Map, packets []sent) map[rocev2.FlowKey]qpmap.Pair {
	t.Helper()
	known := map[rocev2.FlowKey]qpmap.Pair{}
	for i, s := range packets {
		now := start.Add(s.at)
		m.Observe(&s.packet, 7, now)
		if s.packet.BTH.DestQP == cm.QP {
			continue
		}
		k := flowOf(&s.packet)
		if p, err := m.SourceQP(qpmap.Key{FlowKey: k, Domain: 7}, now); err == nil {
			require.Equal(t, s.truth, p.SrcQP, "packet %d: %v from %v", i, k, p.From)
			known[k] = p
		}
		_, err := m.SourceQP(qpmap.Key{FlowKey: k, Domain: 8}, now)
		require.ErrorIs(t, err, qpmap.ErrUnknown, "another domain")
	}
	return known
}

// CM and, without the CM packets, votes give the same pairs; the table has the numbers of pairs of
// every capture by their basis.
func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		name          string
		cm, votes, ud int // flows known with CM
		votesWithout  int // flows known by votes without
	}{
		{name: "rxe-ucmatose4.pcap", cm: 4, votesWithout: 4},
		{name: "rxe-rping6.pcap", cm: 2, votesWithout: 2},
		{name: "rxe-udaddy6.pcap", ud: 2},
		{name: "rxe-perf4.pcap", votes: 6, ud: 2, votesWithout: 6},
		{name: "rxe-vlan4.pcap", votes: 2, ud: 1, votesWithout: 2},
		// Queue pair 0x12 is UC, 0x16 is answered once, 0x17 four times with the
		// same PSN; 0x14 and 0x15 are known with their last responses only.
		{name: "rxe-verbs6.pcap", votes: 4, ud: 1, votesWithout: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			with := learn(t, qpmap.New(qpmap.Config{}), captured(t, c.name, true))
			without := learn(t, qpmap.New(qpmap.Config{}), captured(t, c.name, false))
			count := func(known map[rocev2.FlowKey]qpmap.Pair, from qpmap.Basis) (n int) {
				for _, p := range known {
					if p.From == from {
						n++
					}
				}
				return n
			}
			require.Equal(t, c.cm, count(with, qpmap.BasisCM))
			require.Equal(t, c.votes, count(with, qpmap.BasisVotes))
			require.Equal(t, c.ud, count(with, qpmap.BasisUD))
			require.Equal(t, c.votesWithout, count(without, qpmap.BasisVotes))
			for k, p := range with {
				require.Equal(t, p.SrcQP, without[k].SrcQP, "%v", k)
				require.EqualValues(t, 0xFFFF, p.PKey)
				if p.From == qpmap.BasisCM {
					require.EqualValues(t, 1024, p.MTU)
				}
			}
		})
	}
}

// CM ends its pairs with DREQ and DREP.
func TestCMEndsPairsInCaptures(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs int
	}{{"rxe-ucmatose4.pcap", 4}, {"rxe-rping6.pcap", 2}} {
		t.Run(c.name, func(t *testing.T) {
			m := qpmap.New(qpmap.Config{})
			learn(t, m, captured(t, c.name, true))
			require.Equal(t, qpmap.Stats{CM: uint64(c.pairs), Ended: uint64(c.pairs)}, m.Stats())
		})
	}
}

// With half of one direction, or of both, taken out, with packets exchanged,
// with CM and without it: never a wrong pair.
func TestImpairedCaptures(t *testing.T) {
	wiretest.Alone(t)
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		for seed := range uint64(100) {
			r := rand.New(rand.NewPCG(seed, 0))
			all := captured(t, name, seed%2 == 0)
			for _, c := range []struct{ forth, back, exchange float64 }{
				{0.5, 0, 0}, {0, 0.5, 0}, {0.5, 0.5, 0}, {0, 0, 0.3}, {0.3, 0.3, 0.3}, {1, 0, 0}, {0, 1, 0},
			} {
				var some []sent
				for _, s := range all {
					loss := c.forth
					if s.packet.Src.Compare(s.packet.Dst) > 0 {
						loss = c.back
					}
					if r.Float64() < loss {
						continue
					}
					some = append(some, s)
				}
				for range int(c.exchange * float64(len(some))) {
					i, j := r.IntN(len(some)), r.IntN(len(some))
					if seed%4 < 2 { // neighbours, or any two
						j = min(i+1, len(some)-1)
					}
					some[i], some[j] = some[j], some[i]
				}
				learn(t, qpmap.New(qpmap.Config{MaxPairs: 64, MaxOpen: 64, MaxPending: 64}), some)
			}
		}
	}
}
