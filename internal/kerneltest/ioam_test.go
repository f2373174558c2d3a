//go:build linux

package kerneltest

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

const (
	// hpcc has the fields that congestion control reads: node, interfaces, time and queue depth.
	hpcc = ioam.BitNode | ioam.BitInterfaces | ioam.BitSeconds | ioam.BitFraction | ioam.BitQueueDepth
	// everything has all defined fields: bits 0 to 11 and the snapshot.
	everything = 0xFFF002
)

// An option that we send without nodes arrives with the nodes that Linux recorded. By the add-node rule of RFC
// 9197 section 4.4.1, a node without enough room sets the Overflow flag.
func TestLinuxRecordsIOAM(t *testing.T) {
	r := newTunnelPath(t)
	var frames [][]byte
	var traces []ioam.Trace
	for i, c := range []struct {
		name      string
		fresh     ioam.Trace
		words     int  // words of room
		nodes     int  // nodes that arrive, the oldest ones
		remaining int  // words of room that are left
		overflow  bool // the Overflow flag arrives
	}{
		{"two nodes", ioam.Trace{Type: hpcc}, 10, 2, 0, false},
		{"space left", ioam.Trace{Type: hpcc}, 25, 2, 15, false},
		{"no space for the second", ioam.Trace{Type: hpcc}, 9, 1, 4, true},
		{"no space for the first", ioam.Trace{Type: hpcc}, 4, 0, 4, true},
		{"no space at all", ioam.Trace{Type: hpcc}, 0, 0, 0, true},
		{"O is set already", ioam.Trace{Type: hpcc, Overflow: true}, 10, 0, 10, true},
		{"the longest option", ioam.Trace{Type: hpcc}, 61, 2, 51, false},
		{"everything", ioam.Trace{Type: everything}, 41, 2, 3, false},
		{"everything but the second snapshot", ioam.Trace{Type: everything}, 37, 1, 19, true},
		{"snapshots alone", ioam.Trace{Type: ioam.BitSnapshot}, 8, 2, 0, false},
		{"wide fields", ioam.Trace{Type: ioam.BitWideNode | ioam.BitWideInterfaces | ioam.BitWideNamespaceData}, 15, 2,
			3, false},
		{"undefined bits", ioam.Trace{Type: ioam.BitNode | ioam.UndefinedBits}, 22, 2, 0, false},
		{"flags and reserved bits", ioam.Trace{Type: hpcc | ioam.BitReserved, Active: true, Reserved: 0xA5}, 10, 2, 0,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.fresh.Namespace = namespace
			sent := dataPacket(uint32(i), hopByHop(t, c.fresh, c.words))
			sent.Coverage = icrc.Without
			if i%2 == 1 {
				sent.BTH.Opcode = bth.RCSendOnly
			}
			start := time.Now()
			frame, arrived := r.cross(t, &sent)
			end := time.Now()

			option, trace := traceIn(t, &arrived)
			want := c.fresh
			want.RemainingLen, want.Overflow, want.Data = uint8(c.remaining), c.overflow, trace.Data
			require.Equal(t, want, trace)
			recorded := transits[len(transits)-c.nodes:]
			hopLimit := 64 - uint8(c.nodes)
			for n := range trace.Nodes() {
				require.NotEmpty(t, recorded, "a node more than there are")
				requireRecord(t, recorded[0].recorded(trace.Type, &n, hopLimit), &n)
				if n.Type().Has(ioam.BitSeconds) {
					at, ok := n.Time(ioam.TimeFormatPOSIX)
					require.True(t, ok)
					require.WithinRange(t, at, start.Add(-time.Second), end.Add(time.Second))
				}
				recorded = recorded[1:]
				hopLimit++
			}
			require.Empty(t, recorded, "nodes that are missing")
			require.Equal(t, recordedByUs(t, sent, &trace), option)

			checkCrossing(t, sent, &arrived)
			checkFastCNP(t, &arrived, &trace)
			frames, traces = append(frames, frame), append(traces, trace)
		})
	}
	t.Run("tshark", func(t *testing.T) {
		for i, row := range wiretest.Tshark(t, frames...) {
			checkRow(t, row, &traces[i])
		}
	})
}

// recorded returns the record of n in a trace of a type. It takes the timestamp from the node that arrived, as it
// cannot be predicted.
func (n *transit) recorded(typ ioam.TraceType, arrived *ioam.Node, hopLimit uint8) ioam.Node {
	var w ioam.Node
	w.SetNode(hopLimit, n.node)
	w.SetIngress(n.ingress)
	w.SetEgress(n.egress)
	if s, ok := arrived.Seconds(); ok {
		w.SetSeconds(s)
	}
	if f, ok := arrived.Fraction(); ok {
		w.SetFraction(f)
	}
	w.SetNamespaceData(n.data)
	w.SetQueueDepth(0) // empty queue
	w.SetWideNode(hopLimit, n.wideNode)
	w.SetWideIngress(n.wideIngress)
	w.SetWideEgress(n.wideEgress)
	w.SetWideNamespaceData(n.wideData)
	if typ.Has(ioam.BitSnapshot) {
		w.SetSnapshot(ioam.Snapshot{SchemaID: n.schema, Data: []byte(n.snapshot)})
	}
	return w // Linux does not measure transit delay, checksum complement and buffer occupancy
}

// requireRecord checks that a node has the octets of a record in a trace of the node's type.
func requireRecord(t *testing.T, want ioam.Node, n *ioam.Node) {
	t.Helper()
	octets := wiretest.Must(n.AppendBinary(nil))(t)
	fresh := ioam.Trace{Type: n.Type()}
	option := wiretest.Must(fresh.AppendFresh(nil, len(octets)/4))(t)
	added := wiretest.Must(ioam.AddNode(ioam.Option{Data: option}, &want))(t)
	require.True(t, added)
	require.Equal(t, option[8:], octets)
}

// recordedByUs returns the IOAM option that ioam.AddNode makes of the sent one on the same nodes.
func recordedByUs(t *testing.T, sent rocev2.Packet, arrived *ioam.Trace) ioam.Option {
	t.Helper()
	sent.Ext = slices.Clone(sent.Ext)
	option, _ := traceIn(t, &sent)
	nodes := slices.Collect(arrived.Nodes())
	for i := range transits { // oldest first
		var at ioam.Node
		if i < len(nodes) {
			at = nodes[len(nodes)-1-i]
		}
		n := transits[len(transits)-1-i].recorded(arrived.Type, &at, 63-uint8(i))
		_, err := ioam.AddNode(option, &n)
		require.NoError(t, err)
	}
	return option
}

// word returns a value as encoded in the packet: all ones if the node did not report it.
func word[T uint8 | uint16 | uint32 | uint64](value T, ok bool) T {
	if !ok {
		return ^T(0)
	}
	return value
}

// checkCrossing checks that only hop limit and trace change on the path, and that the ICRC verifies when computed
// without the extension header.
func checkCrossing(t *testing.T, sent rocev2.Packet, arrived *rocev2.Packet) {
	t.Helper()
	body := len(arrived.IP) - 4
	sent.HopLimit -= 2
	sent.Ext = arrived.Ext
	require.Equal(t, whole(t, &sent)[:body], arrived.IP[:body])
	sent.Ext = nil
	bare := whole(t, &sent)
	require.Equal(t, bare[len(bare)-4:], arrived.IP[body:])
	coverage := wiretest.Must(icrc.Verify(arrived.IP))(t)
	require.Equal(t, icrc.Without, coverage)
}

// checkFastCNP checks that the Fast CNP about a packet carries exactly its trace, and for a trace that is too long
// its nodes if free space may be removed.
func checkFastCNP(t *testing.T, congested *rocev2.Packet, trace *ioam.Trace) {
	t.Helper()
	want := *trace
	cfg := fastcnp.Config{}
	if len(trace.Data) > 57*4 {
		_, _, err := fastcnp.AppendFor(nil, congested, switchAddr, nil, cfg)
		require.ErrorIs(t, err, fastcnp.ErrTooLong)
		cfg.Long = fastcnp.LongTraceTrim
		want.Data, want.RemainingLen = want.NodeData(), 0
	}
	_, n := fastCNP(t, congested, cfg)
	require.NoError(t, n.Validate())
	require.Equal(t, fastcnp.Option{Number: 2, OriginalDst: receiverAddr, Trace: want}, n.Option)
	require.Equal(t, senderAddr, n.Dst)
	require.Equal(t, congested.BTH.DestQP, n.CNP.DestQP)
}

// checkRow checks that tshark decodes the same trace as we do, as far as it can.
func checkRow(t *testing.T, row wiretest.Row, trace *ioam.Trace) {
	t.Helper()
	require.False(t, row.Has("_ws.malformed"), row.Get("_ws.expert.message"))
	require.Equal(t, []string{"0x01", "0x31"}, row.All("ipv6.opt.type")[:2])
	require.Equal(t, []string{"0", strconv.Itoa(10 + len(trace.Data))}, row.All("ipv6.opt.length")[:2])
	require.EqualValues(t, ioam.OptTypePreallocated, row.Uint("ipv6.opt.ioam.opt_type"))
	require.EqualValues(t, trace.Namespace, row.Uint("ipv6.opt.ioam.trace.ns"))
	require.EqualValues(t, trace.Type.NodeLen(), row.Uint("ipv6.opt.ioam.trace.nodelen"))
	require.Equal(t, trace.Overflow, row.Bool("ipv6.opt.ioam.trace.flag.o"))
	require.Equal(t, trace.Active, row.Bool("ipv6.opt.ioam.trace.flag.a"))
	require.EqualValues(t, trace.RemainingLen, row.Uint("ipv6.opt.ioam.trace.remlen"))
	require.EqualValues(t, trace.Type, row.Uint("ipv6.opt.ioam.trace.type"))
	require.EqualValues(t, trace.Reserved, row.Uint("ipv6.opt.ioam.trace.rsv"))
	require.EqualValues(t, 0x123456, row.Uint("infiniband.bth.destqp"))
	if trace.Type.NodeLen() == 0 {
		return // tshark rejects it
	}
	want := make(map[string][]uint64) // by the end of a node's field
	var snapshots []string
	for n := range trace.Nodes() {
		number := func(bit ioam.TraceType, field string, value uint64) {
			if n.Type().Has(bit) {
				want[field] = append(want[field], value)
			}
		}
		number(ioam.BitNode, "hlim", uint64(word(n.HopLimit())))
		number(ioam.BitNode, "id", uint64(word(n.NodeID()))&0xFFFFFF)
		number(ioam.BitInterfaces, "iif", uint64(word(n.Ingress())))
		number(ioam.BitInterfaces, "eif", uint64(word(n.Egress())))
		number(ioam.BitSeconds, "tss", uint64(word(n.Seconds())))
		number(ioam.BitFraction, "tsf", uint64(word(n.Fraction())))
		number(ioam.BitTransitDelay, "trdelay", uint64(word(n.TransitDelay())))
		number(ioam.BitNamespaceData, "nsdata", uint64(word(n.NamespaceData())))
		number(ioam.BitQueueDepth, "qdepth", uint64(word(n.QueueDepth())))
		number(ioam.BitChecksum, "csum", uint64(word(n.ChecksumComplement())))
		number(ioam.BitWideNode, "hlim", uint64(word(n.WideHopLimit())))
		number(ioam.BitWideNode, "id_wide", word(n.WideNodeID())&(1<<56-1))
		number(ioam.BitWideInterfaces, "iif_wide", uint64(word(n.WideIngress())))
		number(ioam.BitWideInterfaces, "eif_wide", uint64(word(n.WideEgress())))
		number(ioam.BitWideNamespaceData, "nsdata_wide", word(n.WideNamespaceData()))
		number(ioam.BitBufferOccupancy, "bufoccup", uint64(word(n.BufferOccupancy())))
		for i := range 10 {
			number(ioam.BitUndefined>>i, "undefined", uint64(word(n.Undefined(12+i))))
		}
		snapshot, ok := n.Snapshot()
		if !ok {
			snapshot.SchemaID = 0xFFFFFF
		}
		number(ioam.BitSnapshot, "oss.len", uint64(len(snapshot.Data)/4))
		number(ioam.BitSnapshot, "oss.scid", uint64(snapshot.SchemaID))
		if n.Type().Has(ioam.BitSnapshot) {
			snapshots = append(snapshots, hex.EncodeToString(snapshot.Data))
		}
	}
	for field, values := range want {
		var read []uint64
		for _, s := range row.All("ipv6.opt.ioam.trace.node." + field) {
			v := wiretest.Must(strconv.ParseUint(s, 0, 64))(t)
			read = append(read, v)
		}
		require.Equal(t, values, read, field)
	}
	require.Equal(t, snapshots, row.All("ipv6.opt.ioam.trace.node.oss.data"))
}

// Linux forwards traces of other namespaces unchanged, and an ICRC that covers them stays valid. Recording
// breaks such an ICRC.
func TestICRCAcrossTransitNodes(t *testing.T) {
	r := newTunnelPath(t)
	for i, c := range []struct {
		name  string
		fresh ioam.Trace
		err   error
	}{
		{"another namespace", ioam.Trace{Namespace: namespace + 1, Type: hpcc}, nil},
		{"incremental trace", ioam.Trace{Namespace: namespace, Type: hpcc, OptType: ioam.OptTypeIncremental}, nil},
		{"recorded", ioam.Trace{Namespace: namespace, Type: hpcc}, rocecn.ErrICRC},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := dataPacket(uint32(i), hopByHop(t, c.fresh, 10))
			_, arrived := r.cross(t, &sent)
			coverage, err := icrc.Verify(arrived.IP)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, icrc.AsSent, coverage)
			if c.err == nil {
				sent.HopLimit -= 2
				require.Equal(t, whole(t, &sent), arrived.IP)
			}
			_, trace := traceIn(t, &arrived)
			checkFastCNP(t, &arrived, &trace)
		})
	}
}

// Linux records the queue depth in octets of waiting frames, as a Fast CNP reports congestion.
func TestLinuxRecordsQueueDepth(t *testing.T) {
	r := newTunnelPath(t)
	packet := func(psn uint32) *rocev2.Packet {
		p := dataPacket(psn, hopByHop(t, ioam.Trace{Namespace: namespace, Type: hpcc}, 10))
		p.Payload = make([]byte, 997)
		return &p
	}
	frame, _ := r.cross(t, packet(0)) // makes c3 resolve the receiver's address now
	length := len(frame)

	// One packet passes, and those after it wait for most of a minute.
	shape := func(action, rate string) {
		t.Helper()
		wiretest.Tool(t, "tc")
		_, err := r.c3.TryRun("", "tc", "qdisc", action, "dev", "out", "root", "tbf", "rate", rate, "burst", "1800",
			"limit", "100000")
		require.NoError(t, err)
	}
	shape("add", "80bit")
	for psn := range uint32(3) {
		r.start.sendIP(t, r.startB2, whole(t, packet(1+psn)))
	}
	wiretest.Await(t, "two packets wait", func() bool { return r.c3.backlog(t, "out") >= uint64(2*length) })
	shape("change", "1gbit")
	r.start.sendIP(t, r.startB2, whole(t, packet(4))) // makes Linux check its queue again

	depths := map[uint32]int{}
	others := 0           // octets of other frames
	for len(depths) < 4 { // in any order: any CPU may take frames out of a qdisc
		var congested rocev2.Packet
		r.end.receive(t, "data packet", func(frame []byte) bool {
			if congested.DecodeEthernet(frame) == nil {
				return true
			}
			others += len(frame)
			return false
		})
		_, n := fastCNP(t, &congested, fastcnp.Config{})
		for newest := range n.Option.Trace.Nodes() {
			id, _ := newest.NodeID()
			require.Equal(t, transits[0].node, id)
			depth, ok := newest.QueueDepth()
			require.True(t, ok)
			depths[congested.BTH.PSN] = int(depth)
			break
		}
	}
	for _, c := range []struct {
		psn    uint32
		waited int
	}{{1, 0}, {2, 0}, {3, length}} {
		t.Run(fmt.Sprint(c.psn), func(t *testing.T) {
			require.GreaterOrEqual(t, depths[c.psn], c.waited)
			require.LessOrEqual(t, depths[c.psn], c.waited+others) // c3 itself may have sent something
		})
	}
}
