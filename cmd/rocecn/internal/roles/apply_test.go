package roles

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
			said := map[node.Action]int{}
			p := Driver{Role: r, Report: func(d *node.Decision, _ []byte, _ bool) { said[d.Action]++ }}
			records := []capture.Record{{Data: packet(t), Link: capture.Raw, Time: noon}}
			for _, frame := range wiretest.Capture(t, "messages.pcap") {
				records = append(records, capture.Record{Data: frame.Data, Link: capture.Ethernet, Time: noon})
			}
			for i := range records {
				records[i].OrigLen = uint32(len(records[i].Data))
			}
			show := func() {
				for i := range records {
					records[i].Time = records[i].Time.Add(time.Second)
					p.Receive(&records[i], node.Event{})
				}
			}
			show()
			require.Zero(t, testing.AllocsPerRun(10, show))
			require.NotEmpty(t, said)
		})
	}
}
