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

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
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
// With single ones, and with the three packets that name a victim's queue pair, the senders of 95 %
// of the requests stay known. Whole conversations, answers included, may keep a flow unknown: they
// are sent ten for each real packet. A short run has only whole conversations, a tenth of them.
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
				{"single packets", 5, 0, false, 95},
				{"single packets, and three that name a victim", 6, 0, false, 90},
				{"whole conversations as well, against connections in use", 9, 10, true, 0},
				{"whole conversations as well", 9, 10, false, 0},
			} {
				if x.each == 0 && testing.Short() {
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
