package ioam

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding, and of the same checks before encoding.
var (
	ErrTruncatedOption = wireerr.Old("ioam: option: 2 octets needed", wireerr.Truncated)

	ErrNotTrace          = wireerr.Old("ioam: IOAM-Opt-Type: not 0 or 1, no trace", wireerr.Malformed)
	ErrTruncatedTrace    = wireerr.Old("ioam: trace: 8 octets needed", wireerr.Truncated)
	ErrNodeLen           = wireerr.Old("ioam: trace: NodeLen does not match IOAM-Trace-Type", wireerr.Malformed)
	ErrRemainingLen      = wireerr.Old("ioam: trace: RemainingLen: 4 octets for each unit needed behind the header", wireerr.Malformed)
	ErrNoNode            = wireerr.Old("ioam: trace: node data, but IOAM-Trace-Type names no field", wireerr.Malformed)
	ErrTruncatedNode     = wireerr.Old("ioam: trace: node data: 4 octets for each unit of NodeLen needed, and 4 with bit 22", wireerr.Truncated)
	ErrTruncatedSnapshot = wireerr.Old("ioam: trace: Opaque State Snapshot: 4 octets for each unit of Length needed", wireerr.Truncated)

	ErrNotDirectExport       = wireerr.Old("ioam: IOAM-Opt-Type: not 4, no direct export", wireerr.Malformed)
	ErrTruncatedDirectExport = wireerr.Old("ioam: direct export: 8 octets and 4 for each extension flag needed", wireerr.Truncated)
	ErrDirectExportLen       = wireerr.Old("ioam: direct export: octets left behind 8 and 4 for each extension flag", wireerr.Malformed)

	ErrNotEdgeToEdge       = wireerr.Old("ioam: IOAM-Opt-Type: not 3, no edge-to-edge", wireerr.Malformed)
	ErrTruncatedEdgeToEdge = wireerr.Old("ioam: edge-to-edge: 4 octets and those of each bit of IOAM-E2E-Type needed", wireerr.Truncated)
	ErrEdgeToEdgeLen       = wireerr.Old("ioam: edge-to-edge: octets left behind the fields of IOAM-E2E-Type", wireerr.Malformed)

	ErrNotProofOfTransit       = wireerr.Old("ioam: IOAM-Opt-Type: not 2, no proof of transit", wireerr.Malformed)
	ErrTruncatedProofOfTransit = wireerr.Old("ioam: proof of transit: 4 octets needed, 20 for type 0", wireerr.Truncated)
	ErrProofOfTransitLen       = wireerr.Old("ioam: proof of transit: octets left behind the 20 of type 0", wireerr.Malformed)
)

// Errors of encoding.
var (
	ErrOptionLen         = wireerr.Old("ioam: option: longer than the 255 octets that Opt Data Len counts", wireerr.Range)
	ErrTraceTypeRange    = wireerr.Old("ioam: IOAM-Trace-Type: more than 24 bits", wireerr.Range)
	ErrRemainingLenRange = wireerr.Old("ioam: trace: RemainingLen: more than 7 bits", wireerr.Range)
	ErrNodeIDRange       = wireerr.Old("ioam: node_id: more than 24 bits, or 56 in wide format", wireerr.Range)
	ErrSchemaIDRange     = wireerr.Old("ioam: Schema ID: more than 24 bits", wireerr.Range)
	ErrSnapshotLen       = wireerr.Old("ioam: Opaque State Snapshot: data is not a multiple of 4 octets up to 1020", wireerr.Range)
	ErrNotPreallocated   = wireerr.Old("ioam: IOAM-Opt-Type: not 0, no node is added in place", wireerr.Malformed)
	ErrNotIncremental    = wireerr.Old("ioam: IOAM-Opt-Type: not 1, no node is inserted", wireerr.Malformed)
)
