package ioam

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
)

// options returns the IOAM options of an Ethernet frame with an options header
// directly after the IPv6 header.
func options(t testing.TB, frame []byte) (found []Option) {
	if frame[14+6] != ipv6opt.HopByHop {
		return nil
	}
	var h ipv6opt.Header
	_, err := h.Decode(frame[14+40:])
	require.NoError(t, err)
	for o, err := range h.All() {
		require.NoError(t, err)
		if o.Type == IPv6MayChange || o.Type == IPv6NoChange {
			require.Zero(t, o.Offset%4)
			var option Option
			require.NoError(t, option.Decode(o.Data))
			found = append(found, option)
		}
	}
	return found
}

// traceOf decodes the only trace of a frame.
func traceOf(t testing.TB, frame []byte) (o Option, trace Trace) {
	for _, option := range options(t, frame) {
		if option.Type == OptTypePreallocated {
			require.Empty(t, o.Data)
			o = option
			require.NoError(t, trace.Decode(o))
		}
	}
	require.NotEmpty(t, o.Data)
	return o, trace
}

// Captures of traces by Linux nodes, and the node ids in them, newest first.
var captured = []struct {
	file    string
	packets int
	ids     []uint64
}{
	{"ioam-linux618-hpcc.pcap", 3, []uint64{0xD4, 0xC3, 0xB2}},
	{"ioam-linux618-room.pcap", 1, []uint64{0xD4, 0xC3, 0xB2}},
	{"ioam-linux618-overflow.pcap", 2, []uint64{0xC3, 0xB2}},
	{"ioam-linux618-wide.pcap", 1, []uint64{0xD4D4D4D4D4D4, 0xC3C3C3C3C3C3, 0xB2B2B2B2B2B2}},
	{"ioam-linux618-two.pcap", 1, []uint64{0xD4, 0xC3, 0xB2}},
	{"ioam-linux61-encap-hpcc-inline.pcap", 3, []uint64{0xD4, 0xC3, 0xB2, 0xA1}},
}

// tsharkColumns are tshark's names of the fields of a node.
var tsharkColumns = []struct {
	name  string
	bit   TraceType
	value func(n *Node) uint64
}{
	{"id", BitNode, func(n *Node) uint64 { return uint64(n.nodeID) }},
	{"iif", BitInterfaces, func(n *Node) uint64 { return uint64(n.ingress) }},
	{"eif", BitInterfaces, func(n *Node) uint64 { return uint64(n.egress) }},
	{"tss", BitSeconds, func(n *Node) uint64 { return uint64(n.seconds) }},
	{"tsf", BitFraction, func(n *Node) uint64 { return uint64(n.fraction) }},
	{"trdelay", BitTransitDelay, func(n *Node) uint64 { return uint64(n.transitDelay) }},
	{"nsdata", BitNamespaceData, func(n *Node) uint64 { return uint64(n.namespaceData) }},
	{"qdepth", BitQueueDepth, func(n *Node) uint64 { return uint64(n.queueDepth) }},
	{"csum", BitChecksum, func(n *Node) uint64 { return uint64(n.checksumComplement) }},
	{"id_wide", BitWideNode, func(n *Node) uint64 { return n.wideNodeID }},
	{"iif_wide", BitWideInterfaces, func(n *Node) uint64 { return uint64(n.wideIngress) }},
	{"eif_wide", BitWideInterfaces, func(n *Node) uint64 { return uint64(n.wideEgress) }},
	{"nsdata_wide", BitWideNamespaceData, func(n *Node) uint64 { return n.wideNamespaceData }},
	{"bufoccup", BitBufferOccupancy, func(n *Node) uint64 { return uint64(n.bufferOccupancy) }},
	{"oss.scid", BitSnapshot, func(n *Node) uint64 { return uint64(n.snapshot.SchemaID) }},
	{"oss.len", BitSnapshot, func(n *Node) uint64 { return uint64(len(n.snapshot.Data) / 4) }},
}

// requireAsTshark compares a trace with the values of tshark.
func requireAsTshark(t testing.TB, trace *Trace, row wiretest.Row) {
	field := func(name string) uint64 { return row.Uint("ipv6.opt.ioam.trace." + name) }
	require.EqualValues(t, field("ns"), trace.Namespace)
	require.EqualValues(t, field("nodelen"), trace.Type.NodeLen())
	require.Equal(t, field("flag.o") != 0, trace.Overflow)
	require.Equal(t, field("flag.l") != 0, trace.Loopback)
	require.Equal(t, field("flag.a") != 0, trace.Active)
	require.Equal(t, field("flag.rsv") != 0, trace.ReservedFlag)
	require.EqualValues(t, field("remlen"), trace.RemainingLen)
	require.EqualValues(t, field("type"), trace.Type)
	require.EqualValues(t, field("rsv"), trace.Reserved)
	if trace.RemainingLen > 0 {
		require.Equal(t, row.Octets("ipv6.opt.ioam.trace.free_space"), trace.Data[:4*int(trace.RemainingLen)])
	}

	var hopLimits []uint64 // of the short and of the wide format, node by node
	for n := range trace.Nodes() {
		if n.typ.Has(BitNode) {
			hopLimits = append(hopLimits, uint64(n.hopLimit))
		}
		if n.typ.Has(BitWideNode) {
			hopLimits = append(hopLimits, uint64(n.wideHopLimit))
		}
	}
	require.Equal(t, numbers(t, row, "hlim"), hopLimits)
	for _, c := range tsharkColumns {
		var values []uint64
		for n := range trace.Nodes() {
			if n.typ.Has(c.bit) {
				values = append(values, c.value(&n))
			}
		}
		require.Equal(t, numbers(t, row, c.name), values, c.name)
	}
}

func numbers(t testing.TB, row wiretest.Row, name string) (values []uint64) {
	for _, s := range row.All("ipv6.opt.ioam.trace.node." + name) {
		v := wiretest.Must(strconv.ParseUint(s, 0, 64))(t)
		values = append(values, v)
	}
	return values
}

func TestCapturedTraces(t *testing.T) {
	for _, c := range captured {
		t.Run(c.file, func(t *testing.T) {
			packets, rows := wiretest.Capture(t, c.file), wiretest.Golden(t, c.file)
			require.Len(t, packets, c.packets)
			for i, p := range packets {
				o, trace := traceOf(t, p.Data)
				require.EqualValues(t, 123, trace.Namespace)
				requireAsTshark(t, &trace, rows[i])
				wiretest.Encodes(t, o.Data, trace.AppendBinary)

				var ids []uint64
				for n := range trace.Nodes() {
					ids = append(ids, uint64(n.nodeID)|n.wideNodeID)
					if when, ok := n.Time(TimeFormatPOSIX); ok {
						require.WithinDuration(t, p.Time, when, time.Second)
					}
				}
				require.Equal(t, c.ids, ids)
			}
		})
	}
}

// AddNode writes the same octets as each of the Linux nodes.
func TestAddNodeAsLinuxDoes(t *testing.T) {
	files := []string{"ioam-linux61-encap-oss-inline.pcap"}
	for _, c := range captured {
		t.Run(c.file, func(t *testing.T) {
			files = append(files, c.file)
		})
	}
	for _, file := range files {
		for _, p := range wiretest.Capture(t, file) {
			o, trace := traceOf(t, p.Data)
			fresh := trace
			fresh.Overflow = false
			b := wiretest.Must(fresh.AppendFresh(nil, len(trace.Data)/4))(t)

			nodes := slices.Collect(trace.Nodes())
			slices.Reverse(nodes)
			for _, n := range nodes {
				added := wiretest.Must(AddNode(Option{Data: b}, &n))(t)
				require.True(t, added)
			}
			if trace.Overflow {
				added := wiretest.Must(AddNode(Option{Data: b}, &nodes[0]))(t)
				require.False(t, added)
			}
			require.Equal(t, o.Data, b, "%s packet %d", file, p.Number)
		}
	}
}

// tshark 4.0 rejects NodeLen 0, so these octets were computed by hand.
func TestCapturedSnapshots(t *testing.T) {
	for _, p := range wiretest.Capture(t, "ioam-linux61-encap-oss-inline.pcap") {
		o, trace := traceOf(t, p.Data)
		require.Equal(t, BitSnapshot, trace.Type)
		require.EqualValues(t, 8, trace.RemainingLen)
		var snapshots []string
		for n := range trace.Nodes() {
			snapshots = append(snapshots, fmt.Sprintf("%v %d %s",
				n.availableFields().Has(BitSnapshot), n.snapshot.SchemaID,
				bytes.TrimRight(n.snapshot.Data, "\x00")))
		}
		require.Equal(t, []string{
			"false 16777215 ", "false 16777215 ", "true 666 Hello there -Obi",
			"true 777 something that will be 4n-aligned",
		}, snapshots)
		wiretest.Encodes(t, o.Data, trace.AppendBinary)
	}
}

func TestCapturedWrongNodeLen(t *testing.T) {
	packets := wiretest.Capture(t, "ioam-linux618-badnodelen-sent-dropped.pcap")
	require.Len(t, packets, 3)
	for _, p := range packets {
		found := options(t, p.Data)
		require.Len(t, found, 1)
		var trace Trace
		require.Equal(t, errNodeLen, trace.Decode(found[0]), "packet %d", p.Number)
	}
}

func TestCapturedDirectExport(t *testing.T) {
	for _, c := range []struct {
		name string
		want DirectExport
	}{
		{"ioam-linux618-dex.pcap", DirectExport{Namespace: 123, ExtensionFlags: 0xC0, Type: 0xF00000, FlowID: 0xABCDEF,
			Sequence: 7}},
		{"ioam-linux618-two.pcap", DirectExport{Namespace: 123, Type: 0xF00000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := options(t, wiretest.Capture(t, c.name)[0].Data)
			var d DirectExport
			require.NoError(t, d.Decode(found[0]))
			require.Equal(t, c.want, d)
			wiretest.Encodes(t, found[0].Data, d.AppendBinary)
		})
	}
}

// tshark decodes the traces that this package encodes.
func TestTsharkReadsTheTracesWeBuild(t *testing.T) {
	var traces []Trace
	var frames [][]byte
	for _, typ := range []TraceType{0xF20000, 0xFFF000, 0xFFF002, BitNode | BitSnapshot, BitWideNode,
		BitBufferOccupancy} {
		n := everyFieldNode
		n.typ = typ
		trace := Trace{Namespace: 123, Type: typ, Active: true}
		w := ipv6opt.Begin(make([]byte, 54), 17)
		data, err := w.Reserve(IPv6MayChange, 4, 0, 2+8+4*50)
		require.NoError(t, err)
		_, err = trace.AppendFresh(data[:2], 50)
		require.NoError(t, err)
		for range 2 {
			added := wiretest.Must(AddNode(Option{Data: data[2:]}, &n))(t)
			require.True(t, added)
			n.nodeID++
		}
		require.NoError(t, trace.Decode(Option{Data: data[2:]}))
		traces = append(traces, trace)

		frame := append(w.Finish(), 0xC0, 0, 0x12, 0xB7, 0, 8, 0, 0)
		copy(frame[12:], []byte{0x86, 0xDD, 0x60, 0, 0, 0, 0, uint8(len(frame) - 54), ipv6opt.HopByHop, 64})
		frame[14+8+15], frame[14+24+15] = 1, 2 // ::1 to ::2
		frames = append(frames, frame)
	}
	for i, row := range wiretest.Tshark(t, frames...) {
		requireAsTshark(t, &traces[i], row)
	}
}
