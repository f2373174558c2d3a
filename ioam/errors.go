package ioam

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding, and of the same checks before encoding.
var (
	errTruncatedOption = wireerr.New("ioam", "option", "truncated: shorter than 2 octets", wireerr.Truncated)

	errNotTrace       = wireerr.New("ioam", "IOAM-Opt-Type", "neither 0 nor 1: not a trace", wireerr.Other)
	errTruncatedTrace = wireerr.New("ioam", "trace", "truncated: shorter than 8 octets", wireerr.Truncated)
	errNodeLen        = wireerr.New("ioam", "trace", "NodeLen does not match IOAM-Trace-Type", wireerr.Malformed)
	errRemainingLen   = wireerr.New("ioam", "trace: RemainingLen",
		"exceeds the option data", wireerr.Malformed)
	errNoNode = wireerr.New("ioam", "trace", "node data although IOAM-Trace-Type names no field",
		wireerr.Malformed)
	errTruncatedNode = wireerr.New("ioam", "trace: node data",
		"truncated: ends inside a node", wireerr.Truncated)
	errTruncatedSnapshot = wireerr.New("ioam", "trace: Opaque State Snapshot",
		"truncated: shorter than its Length", wireerr.Truncated)

	errNotDirectExport       = wireerr.New("ioam", "IOAM-Opt-Type", "not 4: not a direct export", wireerr.Other)
	errTruncatedDirectExport = wireerr.New("ioam", "direct export",
		"truncated: shorter than 8 octets and the words of its extension flags", wireerr.Truncated)
	errDirectExportLen = wireerr.New("ioam", "direct export",
		"longer than 8 octets and the words of its extension flags", wireerr.Malformed)

	errNotEdgeToEdge       = wireerr.New("ioam", "IOAM-Opt-Type", "not 3: not edge-to-edge", wireerr.Other)
	errTruncatedEdgeToEdge = wireerr.New("ioam", "edge-to-edge",
		"truncated: shorter than 4 octets and the fields of IOAM-E2E-Type", wireerr.Truncated)
	errEdgeToEdgeLen = wireerr.New("ioam", "edge-to-edge",
		"longer than 4 octets and the fields of IOAM-E2E-Type", wireerr.Malformed)

	errNotProofOfTransit       = wireerr.New("ioam", "IOAM-Opt-Type", "not 2: not a proof of transit", wireerr.Other)
	errTruncatedProofOfTransit = wireerr.New("ioam", "proof of transit",
		"truncated: shorter than 4 octets, or 20 with type 0", wireerr.Truncated)
	errProofOfTransitLen = wireerr.New("ioam", "proof of transit", "type 0, but longer than 20 octets",
		wireerr.Malformed)
)

// Errors of encoding.
var (
	errOptionLen = wireerr.New("ioam", "option", "over 255 octets",
		wireerr.Range)
	errTraceTypeRange    = wireerr.New("ioam", "IOAM-Trace-Type", "over 0xffffff, more than 24 bits", wireerr.Range)
	errRemainingLenRange = wireerr.New("ioam", "trace: RemainingLen", "over 127, more than 7 bits", wireerr.Range)
	errNodeIDRange       = wireerr.New("ioam", "node_id", "over 24 bits, or 56 in wide format", wireerr.Range)
	errNoField           = wireerr.New("ioam", "Node", "no field is set: want at least one",
		wireerr.Range)
	errSchemaIDRange = wireerr.New("ioam", "Schema ID", "over 0xffffff, more than 24 bits", wireerr.Range)
	errSnapshotLen   = wireerr.New("ioam", "Opaque State Snapshot",
		"length of the data is not a multiple of 4 up to 1020 octets", wireerr.Range)
	errNotPreallocated = wireerr.New("ioam", "IOAM-Opt-Type", "not 0: AddNode wants a pre-allocated trace",
		wireerr.Other)
	errNotIncremental = wireerr.New("ioam", "IOAM-Opt-Type", "not 1: AppendNode wants an incremental trace",
		wireerr.Other)
)
