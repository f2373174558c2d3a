package flows

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// TestMain collects garbage rarely, as the tests make thousands of tables and captures.
func TestMain(m *testing.M) {
	wiretest.CollectRarely(400)
	m.Run()
}

// tableOf returns a table with the packets of a capture.
func tableOf(c *traffic.Capture, config Config) *Table {
	table := New(config)
	var d Decoder
	var p Packet
	for i, f := range c.Frames {
		d.Decode(&p, f.Data, rocev2.DecodeOptions{AllowTruncated: len(f.Data) < f.Orig})
		table.Observe(&p, uint64(i+1), f.Time)
	}
	return table
}

// The counts of a table agree with the generator, for captures of all kinds.
func TestTraffic(t *testing.T) {
	for _, c := range []struct {
		name    string
		options traffic.Options
	}{
		{"clean", traffic.Options{Clean: true}},
		{"incidents", traffic.Options{}},
		{"no CM", traffic.Options{NoCM: true}},
		{"one way", traffic.Options{OneWay: true}},
		{"headers", traffic.Options{SnapLen: 128}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(wiretest.Rounds(200)) {
				c.options.Connections = 1 + int(seed%6)
				made := traffic.Generate(seed, c.options)
				requireTruth(t, made, tableOf(made, Config{}), fmt.Sprint(c.name, " seed ", seed))
			}
		})
	}
}

func requireTruth(t *testing.T, made *traffic.Capture, table *Table, name string) {
	t.Helper()
	seen := 0
	responses := map[rocev2.FlowKey]*Responses{}
	for _, f := range table.Snapshot().Flows {
		if isManagement(f.DestQP) {
			continue
		}
		if f.Packets == 0 {
			responses[f.FlowKey] = &f.Responses
			require.Equal(t, f.SrcQPFrom == 0, f.SrcQP == 0)
			require.Equal(t, f.Responses.Packets, f.Data.Packets)
			continue
		}
		seen++
		truth := made.Flows[f.FlowKey]
		require.NotNil(t, truth, "%s: %v", name, f.FlowKey)
		begun, complete := uint64(0), uint64(0)
		for _, m := range f.Messages() {
			begun += m.Begun
			complete += m.Complete
		}
		got := traffic.Truth{
			Transport: f.Transport, SrcQP: f.SrcQP,
			Packets: f.Packets, IPOctets: f.IPOctets,
			First: f.PSN.First, Last: f.PSN.Last, Connections: f.PSN.Connections,
			Gaps: f.PSN.Gaps, Missing: f.PSN.Missing, Late: f.PSN.Late,
			Unseen: f.PSN.Unseen, Lost: f.PSN.Lost, Unjudged: f.PSN.Unjudged,
			NAKed: f.Causes.NAK, RNR: f.Causes.RNR, Rest: f.Causes.Read, Timeout: f.Causes.Timeout,
			ACKs: f.ACKs, RNRNAKs: f.RNRNAKs, SequenceNAKs: *f.NAK(0),
			CNPs: f.CNPs, Fast: f.FastCNPs, PPFC: f.PPFC, Proxy: f.Proxy,
			CE: f.ECN[rocev2.CE], Begun: begun, Complete: complete,
			FirstTrouble: f.FirstTrouble,
			Responses:    truth.Responses, ResponseOctets: truth.ResponseOctets, // compared below
		}
		require.Equal(t, *truth, got, "%s: %v from %v", name, f.FlowKey, f.SrcQPFrom)
		require.Zero(t, f.ICRCWrong)
		require.Equal(t, f.SrcQPFrom == 0, f.SrcQP == 0)
		require.NotEqual(t, qpmap.BasisUD, f.SrcQPFrom)
	}
	require.Equal(t, len(made.Flows), seen, name)
	for k, truth := range made.Flows {
		back := rocev2.FlowKey{Src: k.Dst, Dst: k.Src, DestQP: truth.SrcQP}
		r := responses[back]
		require.Equal(t, truth.Responses > 0, r != nil, "%s: %v", name, k)
		if r != nil {
			require.Equal(t, []uint64{truth.Responses, truth.ResponseOctets}, []uint64{r.Packets, r.IPOctets},
				"%s: %v", name, k)
			require.Zero(t, r.PSN, "%s: %v", name, k)
			delete(responses, back)
		}
	}
	require.Empty(t, responses, name)
	for _, u := range table.Snapshot().Unpaired {
		t.Fatalf("%s: unpaired %+v", name, u)
	}
}

// The previous content of a Packet does not matter.
func TestDecodeIntoUsedPacket(t *testing.T) {
	k := keyOf(rocev2.FlowKey{Src: hostA, Dst: hostB, DestQP: 5})
	used := Packet{
		kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, AckReq: true, Syndrome: 0x60, Flow: k, PSN: 9,
			SrcQP: 1, DMA: 100, Payload: 900,
			CM: qplearn.Exchange{Attribute: cm.AttributeREQ, Local: 1, Remote: 0, QP: 2, PSN: 3, MTU: uint16(1024)}},
		icrcWrong: true, truncated: true, noHeaders: true, tunnelled: true, nHops: maxNodes, trafficClass: 3, vlan: 7,
		ipOctets: 1000, about: k, queue: QueueDepth{7, 1 << 30, true}, ingress: k.Src, label: 3,
		pause: pause{whole: true, enabled: 0xFF, quanta: [8]uint16{1, 2, 3, 4, 5, 6, 7, 8}},
	}
	for i := range used.hops {
		used.hops[i] = used.queue
	}
	one, other := New(Config{}), New(Config{})
	var d Decoder
	for _, name := range []string{"rxe-udaddy6.pcap", "messages.pcap", "fastcnp.pcap", "ioam-linux618-two.pcap",
		"rxe-verbs6.pcap"} {
		for _, r := range wiretest.Capture(t, name) {
			p, q, o := Packet{}, used, rocev2.DecodeOptions{AllowTruncated: len(r.Data) < r.OrigLen}
			d.Decode(&p, r.Data, o)
			d.Decode(&q, r.Data, o)
			one.Observe(&p, uint64(r.Number), r.Time)
			other.Observe(&q, uint64(r.Number), r.Time)
		}
	}
	require.Equal(t, one.Snapshot(), other.Snapshot())
}
