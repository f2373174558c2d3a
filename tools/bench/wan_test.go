package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	peAddr, egress = netip.MustParseAddr("2001:db8:fe::1"), netip.MustParseAddr("2001:db8:fe::9")
	everyone       = acl.New(netip.MustParsePrefix("::/0"))
	noon           = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// flowCounts are the numbers of flows in a table.
var flowCounts = []int{1000, 65_536, 1_000_000}

func flowsName(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + " flows"
}

// A border is the state that a core needs to send packets into the WAN. Cores share none of it.
type border struct {
	frame  rocev2.Frame
	pe     *ingress.Role
	packet []byte   // of a frame of 1,098 octets
	flows  []uint32 // the queue pairs that it goes to, in random order
	next   int
	now    time.Time
	out    []byte
}

const destQPOffset = 40 + 8 + 4 // octets 4 to 7 of the BTH; the first one is 0 here

// newBorder returns the instance of a PE with this many of all flows, each seen
// once.
func newBorder(b testing.TB, instance, instances, flows int, qps *qpmap.Map) *border {
	p := rocev2.Packet{
		Datagram: rocev2.Datagram{Src: sender, Dst: receiver, TrafficClass: 26<<2 | uint8(rocev2.ECT0), HopLimit: 64,
			SrcPort: 49152, DstPort: rocev2.Port},
		BTH:     bth.Headers{Header: bth.Header{Opcode: bth.RCRDMAWriteMiddle, PKey: 0xFFFF}},
		Payload: make([]byte, 1020),
	}
	packet := wiretest.Must(p.AppendBinary(nil))(b)
	require.Len(b, packet, 1098-14)
	pe := wiretest.Must(ingress.New(ingress.Config{
		Enabled: true, WAN: peAddr, Self6: loopback, Accept: everyone, QPs: qps, Seed: 1,
		Tunnel:   &encap.IPInIPv6{Src: peAddr, Dst: egress},
		MaxFlows: flows / instances, Instance: instance, Instances: instances,
	}))(b)
	w := &border{pe: pe, packet: packet, now: noon,
		out: make([]byte, 0, 2048)}
	for qp := instance; qp < flows; qp += instances {
		w.flows = append(w.flows, uint32(qp)+2) // 0 and 1 are for management
	}
	w.forward(len(w.flows)) // in the order of the queue pairs; the benchmark uses another one
	rand.New(rand.NewPCG(1, uint64(instance))).Shuffle(len(w.flows),
		func(i, j int) { w.flows[i], w.flows[j] = w.flows[j], w.flows[i] })
	return w
}

// forward sends n packets, each of the next flow.
func (w *border) forward(n int) (labels uint32) {
	for range n {
		binary.BigEndian.PutUint32(w.packet[destQPOffset:], w.flows[w.next])
		if w.next++; w.next == len(w.flows) {
			w.next = 0
			w.now = w.now.Add(time.Second)
		}
		w.frame.Decode(w.packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		_, d := w.pe.Receive(w.out, &w.frame, node.Event{Now: w.now})
		labels |= d.Label
	}
	return labels
}

// BenchmarkForward sends packets of 1,098-octet frames into the WAN: parse, look up the label,
// encapsulate. Each is of another flow than the previous one, in random order. Two cores are two
// instances with half of the flows and labels each; an op is a packet. The last column is the cost
// of the same look-ups if they only read memory.
func BenchmarkForward(b *testing.B) {
	for cores := 1; cores <= min(2, runtime.GOMAXPROCS(0)); cores++ {
		plural := "s"[:min(cores-1, 1)]
		for _, flows := range flowCounts {
			all := make([]*border, cores)
			run(b, fmt.Sprintf("%d core%s/%s", cores, plural, flowsName(flows)), func(b *testing.B) {
				for i := range all {
					if all[i] == nil {
						all[i] = newBorder(b, i, cores, flows, nil)
					}
				}
				b.ResetTimer()
				var wg sync.WaitGroup
				for _, w := range all {
					wg.Go(func() { w.forward((b.N + cores - 1) / cores) })
				}
				wg.Wait()
			})
		}
	}
	for _, flows := range flowCounts {
		run(b, "1 core, learning/"+flowsName(flows), func(b *testing.B) {
			w := newBorder(b, 0, 1, flows, qpmap.New(qpmap.Config{}))
			for b.Loop() {
				w.forward(1)
			}
		})
	}
	for _, flows := range flowCounts {
		run(b, "memory alone/"+flowsName(flows), func(b *testing.B) {
			m, at := newMemory(flows), 0
			for b.Loop() {
				if at += 1 + m.touch(m.order[at]); at == flows {
					at = 0
				}
			}
		})
	}
}

// A memory is as large as the table of an ingress PE, and is touched in the same
// places: one of the index, an entry, and the two that are beside it in the order
// of use, where the entry moves to the end.
type memory struct {
	index [][2]uint32
	slots []slot
	order []uint32
}

type slot struct {
	older, newer uint32
	zero         int
	_            [48]byte
}

func newMemory(n int) *memory {
	m := &memory{index: make([][2]uint32, 2*n), slots: make([]slot, n+1), order: make([]uint32, n)}
	random := rand.New(rand.NewPCG(1, 1))
	for i, at := range random.Perm(n) {
		m.index[2*i][1] = uint32(at) + 1
	}
	for i, at := range random.Perm(n) {
		m.order[i] = uint32(2 * at)
		m.link(m.index[2*at][1])
	}
	return m
}

// touch returns 0, once all of it is there.
func (m *memory) touch(place uint32) int {
	at := m.index[place][1]
	s := &m.slots[at]
	older, newer := &m.slots[s.older], &m.slots[s.newer]
	zero := older.zero + newer.zero
	older.newer, newer.older = s.newer, s.older
	m.link(at)
	return zero
}

func (m *memory) link(at uint32) {
	newest := m.slots[0].older
	m.slots[at].older, m.slots[at].newer = newest, 0
	m.slots[newest].newer, m.slots[0].older = at, at
}

// BenchmarkNotify makes CNPs of FCN, and of messages to a proxy: an op is a
// message. Each is about another flow.
func BenchmarkNotify(b *testing.B) {
	for _, flows := range flowCounts {
		run(b, "FCN to CNP/"+flowsName(flows), func(b *testing.B) {
			qps := qpmap.New(qpmap.Config{MaxPairs: flows})
			w := newBorder(b, 0, 1, flows, qps)
			for _, qp := range w.flows {
				require.NoError(b, qps.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: sender, Dst: receiver, DestQP: qp}},
					qpmap.Pair{SrcQP: 7}))
			}
			const size = 40 + 8 + fcn.Size
			var messages []byte
			for f := range w.pe.Flows(w.now) {
				m := fcn.Message{FlowLabel: f.Label, Level: 1}
				messages = wiretest.Must(m.AppendPacket(messages, egress, peAddr, fcn.Config{}))(b)
			}
			rand.New(rand.NewPCG(2, 2)).Shuffle(flows, func(i, j int) {
				a, c := messages[size*i:][:size], messages[size*j:][:size]
				for k := range a {
					a[k], c[k] = c[k], a[k]
				}
			})
			at := 0
			for b.Loop() {
				w.frame.Decode(messages[at:at+size], rocev2.DecodeOptions{Link: rocev2.LinkIP})
				if _, d := w.pe.Receive(w.out, &w.frame, node.Event{Now: w.now}); d.Action != node.ActionSent {
					b.Fatal(d.Reason)
				}
				if at += size; at == len(messages) {
					at = 0
				}
			}
		})
	}
	for _, flows := range flowCounts {
		run(b, "proxy message to CNP/"+flowsName(flows), func(b *testing.B) {
			qps := qpmap.New(qpmap.Config{MaxPairs: flows})
			w := newBorder(b, 0, 1, flows, nil)
			for _, qp := range w.flows {
				require.NoError(b, qps.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: sender, Dst: receiver, DestQP: qp}},
					qpmap.Pair{SrcQP: 7}))
			}
			p := wiretest.Must(proxy.New(proxy.Config{
				Enabled: true, Self6: loopback, Accept: everyone, QPs: qps,
				Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: netip.MustParsePrefix("::/0"),
					Value: proxy.AnswerCNP}),
			}))(b)
			// The PSN is the complement of the queue pair, so that the checksum is right for all.
			putQP := func(packet []byte, qp uint32) {
				binary.BigEndian.PutUint64(packet[destQPOffset:], uint64(qp)<<32|uint64(^qp))
			}
			putQP(w.packet, 0)
			var f rocev2.Frame
			f.Decode(w.packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			message := wiretest.Must(proxymsg.AppendFor(nil, &f, egress, loopback, 1, proxymsg.Config{}))(b)
			at := 0
			for b.Loop() {
				putQP(message[40+8+proxymsg.SizeIPv6:], w.flows[at])
				w.frame.Decode(message, rocev2.DecodeOptions{Link: rocev2.LinkIP})
				if _, d := p.Receive(w.out, &w.frame, node.Event{Now: noon}); d.Action != node.ActionSent {
					b.Fatal(d.Reason)
				}
				if at++; at == flows {
					at = 0
				}
			}
		})
	}
}

// Forwarding allocates nothing for any number of flows; the names of the rows give it.
func TestForwardAllocatesNothing(t *testing.T) {
	w := newBorder(t, 0, 1, 1000, qpmap.New(qpmap.Config{}))
	require.NotZero(t, w.forward(1))
	require.Zero(t, testing.AllocsPerRun(1000, func() { w.forward(1) }))
	require.True(t, strings.HasPrefix(flowsName(1_000_000), "1,000,000"))
}
