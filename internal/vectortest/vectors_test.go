// Package vectortest runs the library's decoders and encoders on the test vectors
// in testdata/vectors, format by format.
package vectortest

import (
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// A vector is one test of a file; testdata/vectors/README.md explains it.
type vector struct {
	ID      int
	Comment string
	Octets  string
	Result  string
	Error   string
	Decoded json.RawMessage
}

// fields are the decoded fields of a message, under the names of the vectors.
type fields = map[string]any

// An outcome is the result of decoding octets with the library.
type outcome struct {
	decoded  fields
	deviates error  // error of Validate; nil for formats without it
	encoded  []byte // octets of the encoder for the decoded message; nil for formats without it
	err      error
}

// The roots of the errors, by their names in the vectors.
var roots = map[string]error{
	"truncated": wireerr.Truncated, "malformed": wireerr.Malformed, "other": wireerr.Other, "icrc": wireerr.ICRC,
}

// run runs all tests of a file.
func run(t *testing.T, format string, decode func(b []byte) outcome) {
	t.Helper()
	content := wiretest.Must(os.ReadFile(wiretest.Path(t, "vectors", format+".json")))(t)
	var file struct{ Tests []vector }
	require.NoError(t, json.Unmarshal(content, &file))
	require.NotEmpty(t, file.Tests)
	for _, v := range file.Tests {
		t.Run(fmt.Sprint(v.ID), func(t *testing.T) {
			t.Log(v.Comment)
			b := wiretest.Must(hex.DecodeString(v.Octets))(t)
			got := decode(b)
			if v.Result == "invalid" {
				require.Contains(t, roots, v.Error)
				require.ErrorIs(t, got.err, roots[v.Error])
				return
			}
			require.NoError(t, got.err)
			decoded := wiretest.Must(json.Marshal(got.decoded))(t)
			require.JSONEq(t, string(v.Decoded), string(decoded))
			require.Equal(t, v.Result == "acceptable", got.deviates != nil, "%v", got.deviates)
			if got.encoded != nil {
				require.Equal(t, v.Octets, hex.EncodeToString(got.encoded))
			}
		})
	}
}

func hexadecimal[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T, digits int) string {
	return fmt.Sprintf("0x%0*x", digits, uint64(v))
}

func TestBTH(t *testing.T) {
	run(t, "bth", func(b []byte) (o outcome) {
		var h bth.Headers
		rest, err := h.Decode(b)
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = base(&h.Header)
		headers := []fields{}
		for x := range h.Present.All() {
			f := extended(&h, x)
			f["type"] = x.String()
			headers = append(headers, f)
		}
		o.decoded["headers"], o.decoded["rest"] = headers, hex.EncodeToString(rest)
		o.deviates = h.Validate()
		o.encoded, o.err = h.AppendBinary(nil)
		o.encoded = append(o.encoded, rest...)
		return o
	})
}

// base returns the fields of the BTH alone.
func base(h *bth.Header) fields {
	return fields{
		"opcode": hexadecimal(h.Opcode, 2), "se": h.Solicited, "migreq": h.MigReq, "pad": h.Pad, "tver": h.TVer,
		"pkey": hexadecimal(h.PKey, 4), "fecn": h.FECN, "becn": h.BECN, "resv6": h.Resv6, "dest_qp": h.DestQP,
		"ackreq": h.AckReq, "resv7": h.Resv7, "psn": h.PSN,
	}
}

func extended(h *bth.Headers, x bth.HeaderSet) fields {
	switch x {
	case bth.HasRDETH:
		return fields{"ee": h.RDETH.EEContext}
	case bth.HasDETH:
		return fields{"qkey": hexadecimal(h.DETH.QKey, 8), "src_qp": h.DETH.SrcQP}
	case bth.HasXRCETH:
		return fields{"srq": h.XRCETH.SRQ}
	case bth.HasFETH:
		return fields{"selectivity": h.FETH.Selectivity, "placement": h.FETH.Placement}
	case bth.HasRETH:
		return fields{"va": hexadecimal(h.RETH.VirtualAddress, 16), "rkey": hexadecimal(h.RETH.RKey, 8),
			"dma_len": h.RETH.DMALength}
	case bth.HasAtomicETH:
		a := &h.AtomicETH
		return fields{"va": hexadecimal(a.VirtualAddress, 16), "rkey": hexadecimal(a.RKey, 8),
			"swap": hexadecimal(a.SwapAdd, 16), "compare": hexadecimal(a.Compare, 16)}
	case bth.HasAETH:
		return fields{"syndrome": uint8(h.AETH.Syndrome), "msn": h.AETH.MSN}
	case bth.HasAtomicAckETH:
		return fields{"original": hexadecimal(h.AtomicAckETH.Original, 16)}
	case bth.HasImmDt:
		return fields{"data": hexadecimal(h.ImmDt.Data, 8)}
	case bth.HasIETH:
		return fields{"rkey": hexadecimal(h.IETH.RKey, 8)}
	}
	return fields{}
}

// with returns f with more fields.
func with(f, more fields) fields {
	maps.Copy(f, more)
	return f
}

func TestCM(t *testing.T) {
	run(t, "cm", func(b []byte) (o outcome) {
		var h cm.Header
		message, err := h.Decode(b)
		if err != nil {
			return outcome{err: err}
		}
		var m encoding.BinaryAppender
		switch h.Attribute {
		case cm.AttributeREQ:
			var r cm.REQ
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{
				"local_comm_id": r.LocalCommID, "local_qpn": r.LocalQPN, "starting_psn": r.StartingPSN,
				"transport": r.TransportType,
				"pkey":      hexadecimal(r.PKey, 4), "mtu": r.PathMTU, "local_gid": r.Primary.LocalGID,
				"remote_gid": r.Primary.RemoteGID,
			}
		case cm.AttributeREP:
			var r cm.REP
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID,
				"local_qpn": r.LocalQPN, "starting_psn": r.StartingPSN}
		case cm.AttributeRTU:
			var r cm.RTU
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID}
		case cm.AttributeDREQ:
			var r cm.DREQ
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID,
				"remote_qpn": r.RemoteQPN}
		case cm.AttributeDREP:
			var r cm.DREP
			_, err = r.Decode(message)
			m = &r
			o.decoded = fields{"local_comm_id": r.LocalCommID, "remote_comm_id": r.RemoteCommID}
		default:
			return outcome{err: wireerr.Other} // the header says so, no decoder is asked
		}
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = with(o.decoded, fields{"message": h.Attribute.String(),
			"transaction_id": hexadecimal(h.TransactionID, 16)})
		o.deviates = h.Validate()
		o.encoded, err = h.AppendBinary(nil)
		if err == nil {
			o.encoded, o.err = m.AppendBinary(o.encoded)
		}
		return o
	})
}

func TestCNP(t *testing.T) {
	run(t, "cnp", func(b []byte) (o outcome) {
		var c cnp.CNP
		rest, err := c.Decode(b)
		if err == nil && len(rest) > 0 {
			err = wireerr.CNPLength // the error of FromPacket
		}
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = with(base(&c.Header), fields{"reserved": hex.EncodeToString(c.Reserved[:])})
		o.deviates = c.Validate()
		o.encoded, o.err = c.AppendBinary(nil)
		return o
	})
}

// experimental are the option types in the vectors.
var experimental = fastcnp.CodePoints{Option1: fastcnp.ExperimentalType, Option2: fastcnp.ExperimentalType}

func TestFastCNP(t *testing.T) {
	run(t, "fastcnp", func(b []byte) (o outcome) {
		var p rocev2.Packet
		if err := p.DecodeIP(b); err != nil {
			return outcome{err: err}
		}
		n, err := fastcnp.FromPacket(&p, experimental)
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{
			"src": n.Src, "dst": n.Dst, "dest_qp": n.CNP.DestQP, "pkey": hexadecimal(n.CNP.PKey, 4),
			"option":      n.Option.Number,
			"option_type": hexadecimal(n.OptionType, 2), "offset": n.Offset, "original_dst": n.Option.OriginalDst,
			"origin": n.Origin().String(),
		}
		if n.Option.Number == 2 {
			o.decoded["ioam"] = traceFields(&n.Option.Trace)
		}
		o.deviates = n.Validate()
		o.encoded, o.err = p.AppendBinary(nil)
		return o
	})
}

func TestFCN(t *testing.T) {
	run(t, "fcn", func(b []byte) (o outcome) {
		var m fcn.Message
		if err := m.Decode(b); err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{"flow_label": m.FlowLabel, "level": m.Level, "reserved": m.Reserved}
		o.deviates = m.Validate()
		o.encoded, o.err = m.AppendBinary(nil)
		return o
	})
}

func TestICRC(t *testing.T) {
	run(t, "icrc", func(b []byte) (o outcome) {
		var p rocev2.Packet
		if err := p.DecodeIP(b); err != nil {
			return outcome{err: err}
		}
		coverage, err := icrc.Verify(b)
		if err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{"value": hexadecimal(p.ICRC, 8), "coverage": coverage.String()}
		o.encoded = slices.Clone(b)
		o.err = icrc.Write(o.encoded, coverage)
		return o
	})
}

func TestOptions(t *testing.T) {
	run(t, "options", func(b []byte) (o outcome) {
		var h ipv6opt.Header
		if _, err := h.Decode(b); err != nil {
			return outcome{err: err}
		}
		options := []fields{}
		for option, err := range h.All() {
			if err != nil {
				return outcome{err: err}
			}
			if !option.Type.IsPadding() {
				options = append(options, fields{"type": hexadecimal(option.Type, 2), "offset": option.Offset,
					"data": hex.EncodeToString(option.Data)})
			}
		}
		o.decoded = fields{"next_header": h.NextHeader, "options": options}
		return o
	})
}

func TestPFC(t *testing.T) {
	run(t, "pfc", func(b []byte) (o outcome) {
		if opcode, _ := pfc.Opcode(b); opcode == pfc.OpcodePause {
			var p pfc.Pause
			rest, err := p.Decode(b)
			if err != nil {
				return outcome{err: err}
			}
			o.decoded = fields{"opcode": "pause", "pause_quanta": p.Quanta}
			o.encoded, o.err = p.AppendBinary(nil)
			o.encoded = append(o.encoded, rest...)
			return o
		}
		var p pfc.PFC
		rest, err := p.Decode(b)
		if err != nil {
			return outcome{err: err}
		}
		enabled := []int{}
		for priority := range p.All() {
			enabled = append(enabled, priority)
		}
		o.decoded = fields{"opcode": "pfc", "enabled": enabled, "quanta": p.Quanta}
		o.deviates = p.Validate()
		o.encoded, o.err = p.AppendBinary(nil)
		o.encoded = append(o.encoded, rest...)
		return o
	})
}

func TestPPFC(t *testing.T) {
	run(t, "ppfc", func(b []byte) (o outcome) {
		var n ppfc.Notification
		if err := n.Decode(b); err != nil {
			return outcome{err: err}
		}
		o.decoded = fields{
			"pkey": hexadecimal(n.PKey, 4), "dest_qp": n.DestQP, "address": n.Congested, "flags": n.Flags,
			"type": n.Type.String(),
			"port": n.Port, "reserved": n.Extension.Reserved, "pause_us": n.Pause.Microseconds(),
		}
		o.deviates = n.Validate()
		o.encoded, o.err = n.AppendBinary(nil)
		return o
	})
}

func TestProxy(t *testing.T) {
	run(t, "proxy", func(b []byte) (o outcome) {
		var m proxymsg.Message
		if err := m.Decode(b, 0); err != nil {
			return outcome{err: err}
		}
		family := 4
		if m.Src.Is6() {
			family = 6
		}
		o.decoded = fields{
			"family": family, "src": m.Src, "dst": m.Dst, "protocol": m.Protocol, "src_port": m.SrcPort,
			"dst_port": m.DstPort,
			"level":    m.Level, "reserved": m.Reserved, "invoking_len": len(m.Invoking),
		}
		if h, err := m.BTH(); err == nil {
			o.decoded["invoking_dest_qp"] = h.DestQP
		}
		o.deviates = m.Validate()
		o.encoded, o.err = m.AppendBinary(nil)
		return o
	})
}

func TestIOAM(t *testing.T) {
	run(t, "ioam", func(b []byte) (o outcome) {
		var option ioam.Option
		if err := option.Decode(b); err != nil {
			return outcome{err: err}
		}
		switch option.Type {
		case ioam.OptTypePreallocated, ioam.OptTypeIncremental:
			o = trace(option)
		case ioam.OptTypeProofOfTransit:
			o = proofOfTransit(option)
		case ioam.OptTypeEdgeToEdge:
			o = edgeToEdge(option)
		case ioam.OptTypeDirectExport:
			o = directExport(option)
		default:
			o = outcome{decoded: fields{"type": uint8(option.Type), "data": hex.EncodeToString(option.Data)},
				encoded: option.Data}
		}
		if o.err == nil {
			o.deviates = errors.Join(option.Validate(), o.deviates)
			option.Data = o.encoded
			o.encoded, o.err = option.AppendBinary(nil)
		}
		return o
	})
}

func trace(option ioam.Option) (o outcome) {
	var t ioam.Trace
	if err := t.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded, o.deviates = traceFields(&t), t.Validate()
	o.encoded, o.err = t.AppendBinary(nil)
	return o
}

func traceFields(t *ioam.Trace) fields {
	nodes := []fields{}
	for n := range t.Nodes() {
		nodes = append(nodes, nodeFields(&n))
	}
	return fields{
		"type": uint8(t.OptType), "namespace": t.Namespace, "node_len": t.Type.NodeLen(),
		"remaining_len": t.RemainingLen,
		"overflow":      t.Overflow,
		"loopback":      t.Loopback, "active": t.Active, "trace_type": hexadecimal(t.Type, 6),
		"free": hex.EncodeToString(t.Data[:len(t.Data)-len(t.NodeData())]), "nodes": nodes,
	}
}

func nodeFields(n *ioam.Node) fields {
	f := fields{}
	snapshot, ok := n.Snapshot()
	if !ok {
		snapshot.SchemaID = 0xFFFFFF
	}
	for _, field := range []struct {
		bit  ioam.TraceType
		more fields
	}{
		{ioam.BitNode, fields{"hop_limit": word(n.HopLimit()), "node_id": word(n.NodeID()) & 0xFFFFFF}},
		{ioam.BitInterfaces, fields{"ingress_if": word(n.Ingress()), "egress_if": word(n.Egress())}},
		{ioam.BitSeconds, fields{"ts_sec": word(n.Seconds())}},
		{ioam.BitFraction, fields{"ts_frac": word(n.Fraction())}},
		{ioam.BitTransitDelay, fields{"transit_delay": word(n.TransitDelay())}},
		{ioam.BitNamespaceData, fields{"ns_data": word(n.NamespaceData())}},
		{ioam.BitQueueDepth, fields{"queue_depth": word(n.QueueDepth())}},
		{ioam.BitChecksum, fields{"checksum_complement": word(n.ChecksumComplement())}},
		{ioam.BitWideNode, fields{"hop_limit_wide": word(n.WideHopLimit()),
			"node_id_wide": hexadecimal(word(n.WideNodeID())&(1<<56-1), 14)}},
		{ioam.BitWideInterfaces, fields{"ingress_if_wide": word(n.WideIngress()),
			"egress_if_wide": word(n.WideEgress())}},
		{ioam.BitWideNamespaceData, fields{"ns_data_wide": hexadecimal(word(n.WideNamespaceData()), 16)}},
		{ioam.BitBufferOccupancy, fields{"buffer_occupancy": word(n.BufferOccupancy())}},
		{ioam.BitSnapshot, fields{"snapshot": fields{"schema": snapshot.SchemaID,
			"data": hex.EncodeToString(snapshot.Data)}}},
	} {
		if n.Type().Has(field.bit) {
			f = with(f, field.more)
		}
	}
	var undefined []string
	for i := range 10 {
		if n.Type().Has(ioam.BitUndefined >> i) {
			undefined = append(undefined, hexadecimal(word(n.Undefined(12+i)), 8))
		}
	}
	if undefined != nil {
		f["undefined"] = undefined
	}
	return f
}

// word returns a value as it is in the packet: all ones if the node did not give it.
func word[T uint8 | uint16 | uint32 | uint64](value T, ok bool) T {
	if !ok {
		return ^T(0)
	}
	return value
}

func proofOfTransit(option ioam.Option) (o outcome) {
	var p ioam.ProofOfTransit
	if err := p.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded = fields{"type": uint8(option.Type), "namespace": p.Namespace, "pot_type": p.Type, "flags": p.Flags}
	if p.Type == 0 {
		o.decoded = with(o.decoded, fields{"pkt_id": hexadecimal(p.PktID, 16),
			"cumulative": hexadecimal(p.Cumulative, 16)})
	} else {
		o.decoded["data"] = hex.EncodeToString(p.Data)
	}
	o.encoded, o.err = p.AppendBinary(nil)
	return o
}

func edgeToEdge(option ioam.Option) (o outcome) {
	var e ioam.EdgeToEdge
	if err := e.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded = fields{"type": uint8(option.Type), "namespace": e.Namespace, "e2e_type": hexadecimal(e.Type, 4)}
	for _, field := range []struct {
		bit   ioam.E2EType
		name  string
		value any
	}{
		{ioam.E2ESequence64, "sequence64", hexadecimal(e.Sequence64, 16)},
		{ioam.E2ESequence32, "sequence", e.Sequence32},
		{ioam.E2ESeconds, "ts_sec", e.Seconds},
		{ioam.E2EFraction, "ts_frac", e.Fraction},
	} {
		if e.Type&field.bit != 0 {
			o.decoded[field.name] = field.value
		}
	}
	o.encoded, o.err = e.AppendBinary(nil)
	return o
}

func directExport(option ioam.Option) (o outcome) {
	var d ioam.DirectExport
	if err := d.Decode(option); err != nil {
		return outcome{err: err}
	}
	o.decoded = fields{"type": uint8(option.Type), "namespace": d.Namespace, "flags": d.Flags,
		"extension_flags": d.ExtensionFlags, "trace_type": hexadecimal(d.Type, 6)}
	if d.ExtensionFlags&ioam.ExtensionFlowID != 0 {
		o.decoded["flow_id"] = d.FlowID
	}
	if d.ExtensionFlags&ioam.ExtensionSequence != 0 {
		o.decoded["sequence"] = d.Sequence
	}
	o.encoded, o.err = d.AppendBinary(nil)
	return o
}
