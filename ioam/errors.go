package ioam

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding, and of the same checks before encoding.
var (
	errTruncatedOption = wireerr.New("ioam", "option", 2, "2 octets needed", wireerr.Truncated)

	errNotTrace       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 0 or 1, no trace", wireerr.Other)
	errTruncatedTrace = wireerr.New("ioam", "trace", 8, "8 octets needed", wireerr.Truncated)
	errNodeLen        = wireerr.New("ioam", "trace", 0, "NodeLen does not match IOAM-Trace-Type", wireerr.Malformed)
	errRemainingLen   = wireerr.New("ioam", "trace: RemainingLen", 0,
		"4 octets for each unit needed after the header", wireerr.Malformed)
	errNoNode = wireerr.New("ioam", "trace", 0, "node data, but IOAM-Trace-Type names no field",
		wireerr.Malformed)
	errTruncatedNode = wireerr.New("ioam", "trace: node data", 4,
		"4 octets for each unit of NodeLen needed, and 4 with bit 22", wireerr.Truncated)
	errTruncatedSnapshot = wireerr.New("ioam", "trace: Opaque State Snapshot", 4,
		"4 octets for each unit of Length needed", wireerr.Truncated)

	errNotDirectExport       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 4, no direct export", wireerr.Other)
	errTruncatedDirectExport = wireerr.New("ioam", "direct export", 8, "8 octets and 4 for each extension flag needed",
		wireerr.Truncated)
	errDirectExportLen = wireerr.New("ioam", "direct export", 0, "octets left after 8 and 4 for each extension flag",
		wireerr.Malformed)

	errNotEdgeToEdge       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 3, no edge-to-edge", wireerr.Other)
	errTruncatedEdgeToEdge = wireerr.New("ioam", "edge-to-edge", 4,
		"4 octets and those of each bit of IOAM-E2E-Type needed", wireerr.Truncated)
	errEdgeToEdgeLen = wireerr.New("ioam", "edge-to-edge", 0, "octets left after the fields of IOAM-E2E-Type",
		wireerr.Malformed)

	errNotProofOfTransit       = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 2, no proof of transit", wireerr.Other)
	errTruncatedProofOfTransit = wireerr.New("ioam", "proof of transit", 4, "4 octets needed, 20 for type 0",
		wireerr.Truncated)
	errProofOfTransitLen = wireerr.New("ioam", "proof of transit", 0, "octets left after the 20 of type 0",
		wireerr.Malformed)
)

// Errors of encoding.
var (
	errOptionLen = wireerr.New("ioam", "option", 0, "longer than the 255 octets that Opt Data Len counts",
		wireerr.Range)
	errTraceTypeRange    = wireerr.New("ioam", "IOAM-Trace-Type", 0, "more than 24 bits", wireerr.Range)
	errRemainingLenRange = wireerr.New("ioam", "trace: RemainingLen", 0, "more than 7 bits", wireerr.Range)
	errNodeIDRange       = wireerr.New("ioam", "node_id", 0, "more than 24 bits, or 56 in wide format", wireerr.Range)
	errNoField           = wireerr.New("ioam", "Node", 0, "no field is set: want at least one, as of SetNode",
		wireerr.Range)
	errSchemaIDRange = wireerr.New("ioam", "Schema ID", 0, "more than 24 bits", wireerr.Range)
	errSnapshotLen   = wireerr.New("ioam", "Opaque State Snapshot", 0,
		"data is not a multiple of 4 octets up to 1020", wireerr.Range)
	errNotPreallocated = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 0, no node is added in place", wireerr.Other)
	errNotIncremental  = wireerr.New("ioam", "IOAM-Opt-Type", 0, "not 1, no node is inserted", wireerr.Other)
)
