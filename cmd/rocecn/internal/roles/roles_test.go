package roles

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	senderAddr, receiverAddr = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:2::b")
	senderIPv4, receiverIPv4 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	noon                     = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// packet returns a data packet of the sender, changed.
func packet(t testing.TB, change ...func(*rocev2.Packet)) []byte {
	t.Helper()
	p := rocev2.Packet{Payload: make([]byte, 256)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit, p.TrafficClass = senderAddr, receiverAddr, 49152, rocev2.Port, 64, 2
	p.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17}
	for _, f := range change {
		f(&p)
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

func opcode(op bth.Opcode) func(*rocev2.Packet) { return func(p *rocev2.Packet) { p.BTH.Opcode = op } }

// A rate of 0 is a number, and sets no limit.
func TestRateOf0(t *testing.T) {
	var c rehearsal
	require.NoError(t, decode([]byte(`{"rate": {"per_second": 0}}`), &c))
	require.Equal(t, &rate{}, c.Rate)
}

// The largest values that an ingress PE accepts, and the first ones that it rejects: 20 bits of flow label, of which
// 0 names no flow, 24 bits of VNI, and the number of segments that fit into an SRH of 255 units of 8 octets.
func TestIngressLargest(t *testing.T) {
	with := func(maxFlows int) error {
		c := IngressConfig{Tunnel: tunnel{
			Type: "ipip", Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
		}, MaxFlows: &maxFlows}
		return c.setEnabled(&ingress.Config{}, &Ingress{})
	}
	require.NoError(t, with(1))
	require.NoError(t, with(1<<20-1))
	require.ErrorContains(t, with(1<<20), "max_flows: 1048576: want 1 to 1048575")

	vni := func(n uint32) error {
		through := tunnel{
			Type: "vxlan", VNI: n, Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"),
		}
		return through.configureTunnel(&ingress.Config{}, &Ingress{})
	}
	require.NoError(t, vni(1<<24-1))
	require.ErrorContains(t, vni(1<<24), "tunnel.vni: 16777216: want 0 to 16777215")

	segments := func(n int) error {
		through := tunnel{
			Type: "srv6", Src: netip.MustParseAddr("2001:db8::1"),
			Segments: slices.Repeat([]netip.Addr{netip.MustParseAddr("fc00::1")}, n),
		}
		return through.configureTunnel(&ingress.Config{}, &Ingress{})
	}
	require.NoError(t, segments(127))
	require.ErrorContains(t, segments(128), "tunnel.segments: 128 of them: want at most 127")
}

// The largest values of a node's own record, which say that a field is unavailable or are as long as 8 bits of 4
// octets can say (RFC 9197 section 5.4.2).
func TestOwnRecordLargest(t *testing.T) {
	snapshot := func(schema uint32, octets int) *ownSnapshot { return &ownSnapshot{schema, make([]byte, octets)} }
	id := func(n uint32) ownRecord { return ownRecord{NodeID: &n} }
	wide := func(n uint64) ownRecord { return ownRecord{WideNodeID: &n} }
	for _, row := range []struct {
		name         string
		right, wrong ownRecord
	}{
		{"own_record.node_id", id(1<<24 - 1), id(1 << 24)},
		{"own_record.node_id_wide", wide(1<<56 - 1), wide(1 << 56)},
		{"own_record.snapshot.schema", ownRecord{Snapshot: snapshot(1<<24-1, 0)},
			ownRecord{Snapshot: snapshot(1<<24, 0)}},
		{"own_record.snapshot.data", ownRecord{Snapshot: snapshot(1, 1020)}, ownRecord{Snapshot: snapshot(1, 1024)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			n, err := row.right.newNode()
			require.NoError(t, err)
			require.IsType(t, &ioam.Node{}, n)
			_, err = row.wrong.newNode()
			require.ErrorContains(t, err, row.name)
		})
	}
	_, err := (&ownRecord{Snapshot: snapshot(1, 1022)}).newNode()
	require.ErrorContains(t, err, "own_record.snapshot.data")
}

// A PPFC may ask for something from level 1 to 7 on (3 bits).
func TestPauseFromLargest(t *testing.T) {
	of := func(level uint8) (congested.PauseFrom, error) {
		var c SwitchConfig
		require.NoError(t, decode([]byte(`{"ppfc": {"hold": `+string('0'+level)+`}}`), &c))
		return c.pauseFrom()
	}
	for level := uint8(1); level <= 7; level++ {
		from := wiretest.Must(of(level))(t)
		require.Equal(t, congested.PauseFrom{Hold: level}, from)
	}
	for _, level := range []uint8{0, 8, 9} {
		_, err := of(level)
		require.ErrorContains(t, err, "ppfc.hold")
	}
}

// A queue fell where it came to level 0 after the one time, and at the other at the latest.
func TestFell(t *testing.T) {
	const ms = time.Millisecond
	l := levelsOverTime{steps: []step{{ms, 3}, {2 * ms, 0}, {4 * ms, 5}}}
	for _, c := range []struct {
		after, upTo time.Duration
		want        bool
	}{
		{0, ms, false}, {0, 2*ms - 1, false}, {0, 2 * ms, true}, {2*ms - 1, 2 * ms, true}, {2 * ms, 2 * ms, false},
		{2 * ms, 9 * ms, false}, {2*ms - 1, 9 * ms, true}, {3 * ms, 9 * ms, false},
	} {
		require.Equal(t, c.want, l.fellToZero(c.after, c.upTo), c)
	}
}

// A level that is known of one packet's queue is not that of the next one, of which nothing is known.
func TestOwnLevel(t *testing.T) {
	r := wiretest.Must(configured(t, "switch", nil, `{"enabled": true, "level": 5, "self": ["2001:db8:ffff::5"],
		"proxies": [{"senders": "::/0", "proxy": "2001:db8:ffff::6"}],
		"methods": [{"senders": "::/0", "method": "proxy"}]}`))(t)
	var f rocev2.Frame
	f.Decode(packet(t), rocev2.DecodeOptions{Link: rocev2.LinkIP})
	level := func(known uint8) uint8 {
		sent, d := r.Receive(nil, &f, node.Event{Level: known, Now: noon})
		require.Equal(t, node.ActionSent, d.Action)
		var m message.Message
		require.NoError(t, m.Decode(sent, rocev2.DecodeOptions{Link: rocev2.LinkIP}, message.Config{}))
		return m.Proxy.Level
	}
	require.EqualValues(t, 5, level(UnknownLevel))
	require.EqualValues(t, 2, level(2))
	require.EqualValues(t, 5, level(UnknownLevel))
}

// The frame in VXLAN has the Ethernet header that the packet came with, or where it came without one a header of the
// PE's own (locally administered addresses); 40 octets of IPv6, 8 of UDP and 8 of VXLAN stand before it.
func TestEthernetInVXLAN(t *testing.T) {
	var c IngressConfig
	require.NoError(t, decode([]byte(`{"enabled": true,
		"tunnel": {"type": "vxlan", "vni": 7, "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}}`), &c))
	pe := wiretest.Must(c.Apply(nil))(t)
	ip := packet(t)
	for _, c := range []struct {
		link rocev2.LinkType
		want string
	}{
		{rocev2.LinkEthernet, "020000000a0a 020000000b0b 86dd"},
		{rocev2.LinkIP, "020000000002 020000000001 86dd"},
	} {
		t.Run(fmt.Sprint(c.link), func(t *testing.T) {
			octets := ip
			if c.link == rocev2.LinkEthernet {
				octets = append(wiretest.Hex(t, c.want), ip...)
			}
			var f rocev2.Frame
			f.Decode(octets, rocev2.DecodeOptions{Link: c.link})
			sent, v := pe.Receive(nil, &f, node.Event{Now: time.Unix(1e9, 0)})
			require.NotZero(t, v.Label)
			require.Equal(t, append(wiretest.Hex(t, c.want), ip...), sent[40+8+8:])
		})
	}
}

// A flow that another queue pair has taken over no longer identifies the previous one.
func TestHostPairsTakenOver(t *testing.T) {
	h := newHostPairs(newPairs(nil, true, 0, qpmap.Config{}), senderIPv4, senderAddr)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(packet(t, opcode(bth.UDSendOnly), func(p *rocev2.Packet) { p.BTH.DETH.SrcQP = 34 })))
	require.Equal(t, 1, h.Observe(&p, 0, noon))
	for _, c := range []struct {
		qp   uint32
		want [2]bool
	}{{34, [2]bool{true, true}}, {35, [2]bool{false, false}}} {
		t.Run(fmt.Sprint(c.qp), func(t *testing.T) {
			sends, known := h.Sends(c.qp, receiverAddr, noon)
			require.Equal(t, c.want, [2]bool{sends, known})
		})
	}
	k := rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}
	require.NoError(t, h.Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: 35}))
	sends, known := h.Sends(34, receiverAddr, noon)
	require.Equal(t, [2]bool{false, true}, [2]bool{sends, known})
}

// The index of learned pairs has a maximum, and keeps the configured pairs.
func TestHostPairsForget(t *testing.T) {
	h := newHostPairs(newPairs(nil, true, 0, qpmap.Config{}), senderIPv4, senderAddr)
	dest, qp := uint32(17), uint32(34)
	require.NoError(t, h.addConfigured([]hostPair{{Dst: receiverIPv4, DestQP: &dest, QP: &qp}}))
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(packet(t, opcode(bth.UDSendOnly))))
	for i := range uint32(maxLearned + 10) {
		p.BTH.DestQP, p.BTH.DETH.SrcQP = i+2, i+2
		require.Equal(t, 1, h.Observe(&p, 0, noon.Add(time.Duration(i)*time.Second)))
		require.LessOrEqual(t, len(h.learned), maxLearned)
	}
	last := noon.Add((maxLearned + 9) * time.Second)
	require.Less(t, len(h.learned), maxLearned)
	sends, known := h.Sends(maxLearned+11, receiverAddr, last)
	require.Equal(t, []bool{true, true}, []bool{sends, known})
	sends, known = h.Sends(qp, receiverIPv4, noon)
	require.Equal(t, []bool{true, true}, []bool{sends, known})
}

// configured applies a configuration to a role that there is, or to none.
func configured(t *testing.T, name string, old node.Role, keys string) (node.Role, error) {
	t.Helper()
	i := wiretest.Must(Read([]byte(keys), name))(t)
	return i.Apply(old)
}

// A reload replaces the configured pairs and keeps the learned ones.
func TestOtherPairs(t *testing.T) {
	const head = `{"enabled": true, "learn": true, "self": ["2001:db8:2::b"], "qps": [`
	first := wiretest.Must(configured(t, "receiver", nil, head+`
		{"src": "2001:db8:1::a", "dst": "2001:db8:2::b", "dest_qp": 17, "src_qp": 34},
		{"src": "2001:db8:1::a", "dst": "2001:db8:2::b", "dest_qp": 18, "src_qp": 35}]}`))(t)
	learned := qpmap.Key{FlowKey: rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: 7}}
	require.NoError(t, first.(*Receiver).pairs.Add(learned, qpmap.Pair{SrcQP: 8, From: qpmap.BasisCM, Seen: noon}))
	known := func(r node.Role) (all map[uint32]uint32) {
		all = map[uint32]uint32{}
		for k, pair := range r.(*Receiver).pairs.All() {
			all[k.DestQP] = pair.SrcQP
		}
		return all
	}
	before := known(first)
	require.Equal(t, []uint32{34, 35}, []uint32{before[17], before[18]})

	second := wiretest.Must(configured(t, "receiver", first, head+`
		{"src": "2001:db8:1::a", "dst": "2001:db8:2::b", "dest_qp": 17, "src_qp": 36},
		{"src": "2001:db8:1::a", "dst": "2001:db8:2::b", "dest_qp": 20, "src_qp": 37}]}`))(t)
	after := known(second)
	require.Equal(t, []uint32{36, 0, 37}, []uint32{after[17], after[18], after[20]})
	require.Equal(t, before[7], after[7])
	require.Same(t, first.Counters(), second.Counters())

	// The first ones again, as after a reload that was refused when the roles had been configured.
	again := wiretest.Must(configured(t, "receiver", first, head+`
		{"src": "2001:db8:1::a", "dst": "2001:db8:2::b", "dest_qp": 17, "src_qp": 34},
		{"src": "2001:db8:1::a", "dst": "2001:db8:2::b", "dest_qp": 18, "src_qp": 35}]}`))(t)
	require.Equal(t, before, known(again))
}

// Packets from which nothing can be learned because the table of pairs is full are counted.
func TestFullTableOfPairs(t *testing.T) {
	p := newPairs(nil, true, 2, qpmap.Config{MaxPairs: 2})
	for _, qp := range []uint32{18, 19} {
		p.addGiven(rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: qp}, 2*qp)
	}
	require.NoError(t, p.applyGiven(func() error { return nil }))
	require.Equal(t, Sizes{Pairs: 2}, p.sizes())
	var datagram rocev2.Packet
	require.NoError(t, datagram.DecodeIP(packet(t, func(p *rocev2.Packet) {
		p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 99
	})))
	for n := range uint64(3) {
		p.Observe(&datagram, 0, noon)
		require.Equal(t, Sizes{Pairs: 2, Unlearned: n + 1}, p.sizes())
	}
}

// Pairs that are idle are forgotten, once a minute; those that are given stay.
func TestIdlePairs(t *testing.T) {
	r, err := configured(t, "receiver", nil, `{"enabled": true, "learn": true, "self": ["2001:db8:2::b"], "qps": [
		{"src": "2001:db8:1::a", "dst": "2001:db8:2::b", "dest_qp": 17, "src_qp": 34}]}`)
	require.NoError(t, err)
	learned := qpmap.Key{FlowKey: rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: 7}}
	require.NoError(t, r.(*Receiver).pairs.Add(learned, qpmap.Pair{SrcQP: 8, From: qpmap.BasisCM, Seen: noon}))
	for _, c := range []struct {
		at   time.Duration
		left int
	}{{0, 2}, {10*time.Minute + 1, 1}, {10*time.Minute + 2, 1}} {
		r.Due(nil, noon.Add(c.at))
		require.Equal(t, c.left, r.(Sized).Sizes().Pairs, c.at)
	}
}

// The ingress PE forgets idle pairs, whether packets come or not.
func TestIdlePairsOfIngress(t *testing.T) {
	pe, err := configured(t, "ingress", nil, `{"enabled": true,
		"tunnel": {"type": "ipip", "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}}`)
	require.NoError(t, err)
	learned := qpmap.Key{FlowKey: rocev2.FlowKey{Src: senderAddr, Dst: receiverAddr, DestQP: 7}}
	require.NoError(t, pe.(*Ingress).pairs.Add(learned, qpmap.Pair{SrcQP: 8, From: qpmap.BasisCM, Seen: noon}))
	require.Equal(t, 1, pe.(Sized).Sizes().Pairs)
	pe.Due(nil, noon.Add(10*time.Minute+1))
	require.Zero(t, pe.(Sized).Sizes().Pairs)
}

// Labels of flows that are silent are given back.
func TestIdleLabels(t *testing.T) {
	pe, err := configured(t, "ingress", nil,
		`{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}, "idle": "5s"}`)
	require.NoError(t, err)
	p := Driver{Role: pe, Report: func(d *node.Decision, _ []byte, _ bool) {}}
	p.Receive(&capture.Record{Data: packet(t), OrigLen: 1, Link: capture.Raw, Time: noon}, node.Event{})
	labelled := func() int {
		return pe.(Sized).Sizes().Flows
	}
	require.Equal(t, 1, labelled())
	pe.Due(nil, noon.Add(6*time.Second))
	require.Zero(t, labelled())
}

// A configuration that changes a fixed size is rejected, and the role keeps its labels and its pairs.
func TestRefusedConfiguration(t *testing.T) {
	const config = `{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}`
	pe, err := configured(t, "ingress", nil, config+`, "max_flows": 10}`)
	require.NoError(t, err)
	label := func(r node.Role) (label uint32) {
		p := Driver{Role: r, Report: func(d *node.Decision, _ []byte, _ bool) { label = d.Label }}
		p.Receive(&capture.Record{Data: packet(t), OrigLen: 1, Link: capture.Raw, Time: noon}, node.Event{})
		return label
	}
	first := label(pe)
	require.NotZero(t, first)
	_, err = configured(t, "ingress", pe, config+`, "max_flows": 11}`)
	require.ErrorContains(t, err, "MaxFlows")
	require.Equal(t, first, label(pe))
	other := wiretest.Must(configured(t, "ingress", pe, config+`, "max_flows": 10, "idle": "5s"}`))(t)
	require.Equal(t, first, label(other))
}

// workingKeys are the keys with which each role works.
var workingKeys = []struct{ name, keys string }{
	{"switch", `"self": ["2001:db8::5"], "methods": [{"senders": "::/0", "method": "fastcnp"}]`},
	{"receiver", `"self": ["2001:db8:2::b"], "learn": true`},
	{"sender", `"self": ["2001:db8:1::a"], "learn": true, "accept": ["::/0"], "as": "cnp"`},
	{"proxy", `"self": ["2001:db8::fe"], "accept": ["::/0"]`},
	{"ingress", `"tunnel": {"type": "ipip", "src": "2001:db8:e::1", "dst": "2001:db8:e::2"}`},
	{"border", `"cnp": true`},
	{"pause", `"self": ["2001:db8:1::a"], "accept": ["::/0"]`},
}

// A nil frame is an Event about a queue only. No role reads it or sends a packet.
func TestNilFrame(t *testing.T) {
	require.Len(t, workingKeys, len(All))
	for _, c := range workingKeys {
		for _, enabled := range []string{"true", "false"} {
			t.Run(c.name+" "+enabled, func(t *testing.T) {
				r := wiretest.Must(configured(t, c.name, nil, `{"enabled": `+enabled+`, `+c.keys+`}`))(t)
				for level := range uint8(2) {
					sent, _ := r.Receive(nil, nil, node.Event{Level: level, Now: noon})
					require.Empty(t, sent)
				}
			})
		}
	}
}

// No role allocates memory for a packet, with any outcome.
func TestNoAllocations(t *testing.T) {
	for _, c := range workingKeys {
		t.Run(c.name, func(t *testing.T) {
			r := wiretest.Must(configured(t, c.name, nil, `{"enabled": true, `+c.keys+`}`))(t)
			counted := map[node.Action]int{}
			p := Driver{Role: r, Report: func(d *node.Decision, _ []byte, _ bool) { counted[d.Action]++ }}
			records := []capture.Record{{Data: packet(t), Link: capture.Raw, Time: noon}}
			for _, frame := range wiretest.Capture(t, "messages.pcap") {
				records = append(records, capture.Record{Data: frame.Data, Link: capture.Ethernet, Time: noon})
			}
			for i := range records {
				records[i].OrigLen = uint32(len(records[i].Data))
			}
			countDecision := func() {
				for i := range records {
					records[i].Time = records[i].Time.Add(time.Second)
					p.Receive(&records[i], node.Event{})
				}
			}
			countDecision()
			require.Zero(t, testing.AllocsPerRun(10, countDecision))
			require.NotEmpty(t, counted)
		})
	}
}
