package ioam

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding, and of the same checks before encoding.
var (
	errTruncatedOption = wireerr.New("ioam", "option", 2, "truncated: shorter than 2 octets", wireerr.Truncated)

	errNotTrace       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "neither 0 nor 1: not a trace", wireerr.Other)
	errTruncatedTrace = wireerr.New("ioam", "trace", 8, "truncated: shorter than 8 octets", wireerr.Truncated)
	errNodeLen        = wireerr.New("ioam", "trace", 0, "NodeLen does not match IOAM-Trace-Type", wireerr.Malformed)
	errRemainingLen   = wireerr.New("ioam", "trace: RemainingLen", 0,
		"exceeds the option data", wireerr.Malformed)
	errNoNode = wireerr.New("ioam", "trace", 0, "node data although IOAM-Trace-Type names no field",
		wireerr.Malformed)
	errTruncatedNode = wireerr.New("ioam", "trace: node data", 4,
		"truncated: ends inside a node", wireerr.Truncated)
	errTruncatedSnapshot = wireerr.New("ioam", "trace: Opaque State Snapshot", 4,
		"truncated: shorter than its Length", wireerr.Truncated)

	errNotDirectExport       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 4: not a direct export", wireerr.Other)
	errTruncatedDirectExport = wireerr.New("ioam", "direct export", 8,
		"truncated: shorter than 8 octets and the words of its extension flags", wireerr.Truncated)
	errDirectExportLen = wireerr.New("ioam", "direct export", 0,
		"longer than 8 octets and the words of its extension flags", wireerr.Malformed)

	errNotEdgeToEdge       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 3: not edge-to-edge", wireerr.Other)
	errTruncatedEdgeToEdge = wireerr.New("ioam", "edge-to-edge", 4,
		"truncated: shorter than 4 octets and the fields of IOAM-E2E-Type", wireerr.Truncated)
	errEdgeToEdgeLen = wireerr.New("ioam", "edge-to-edge", 0,
		"longer than 4 octets and the fields of IOAM-E2E-Type", wireerr.Malformed)

	errNotProofOfTransit       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 2: not a proof of transit", wireerr.Other)
	errTruncatedProofOfTransit = wireerr.New("ioam", "proof of transit", 4,
		"truncated: shorter than 4 octets, or 20 with type 0", wireerr.Truncated)
	errProofOfTransitLen = wireerr.New("ioam", "proof of transit", 0, "type 0, but longer than 20 octets",
		wireerr.Malformed)
)

// Errors of encoding.
var (
	errOptionLen = wireerr.New("ioam", "option", 0, "over 255 octets",
		wireerr.Range)
	errTraceTypeRange    = wireerr.New("ioam", "IOAM-Trace-Type", 0, "over 0xffffff, more than 24 bits", wireerr.Range)
	errRemainingLenRange = wireerr.New("ioam", "trace: RemainingLen", 0, "over 127, more than 7 bits", wireerr.Range)
	errNodeIDRange       = wireerr.New("ioam", "node_id", 0, "over 24 bits, or 56 in wide format", wireerr.Range)
	errNoField           = wireerr.New("ioam", "Node", 0, "no field is set: want at least one",
		wireerr.Range)
	errSchemaIDRange = wireerr.New("ioam", "Schema ID", 0, "over 0xffffff, more than 24 bits", wireerr.Range)
	errSnapshotLen   = wireerr.New("ioam", "Opaque State Snapshot", 0,
		"length of the data is not a multiple of 4 up to 1020 octets", wireerr.Range)
	errNotPreallocated = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 0: AddNode wants a pre-allocated trace",
		wireerr.Other)
	errNotIncremental = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 1: AppendNode wants an incremental trace",
		wireerr.Other)
)
