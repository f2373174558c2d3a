package ioam

import "github.com/rocecn/rocecn/internal/wireerr"

// Errors of decoding, and of the same checks before encoding.
var (
	ErrTruncatedOption = wireerr.New("ioam: option: 2 octets needed", wireerr.Truncated)

	ErrNotTrace          = wireerr.New("ioam: IOAM-Opt-Type: not 0 or 1, no trace", wireerr.Malformed)
	ErrTruncatedTrace    = wireerr.New("ioam: trace: 8 octets needed", wireerr.Truncated)
	ErrNodeLen           = wireerr.New("ioam: trace: NodeLen does not match IOAM-Trace-Type", wireerr.Malformed)
	ErrRemainingLen      = wireerr.New("ioam: trace: RemainingLen: 4 octets for each unit needed behind the header", wireerr.Malformed)
	ErrNoNode            = wireerr.New("ioam: trace: node data, but IOAM-Trace-Type names no field", wireerr.Malformed)
	ErrTruncatedNode     = wireerr.New("ioam: trace: node data: 4 octets for each unit of NodeLen needed, and 4 with bit 22", wireerr.Truncated)
	ErrTruncatedSnapshot = wireerr.New("ioam: trace: Opaque State Snapshot: 4 octets for each unit of Length needed", wireerr.Truncated)

	ErrNotDirectExport       = wireerr.New("ioam: IOAM-Opt-Type: not 4, no direct export", wireerr.Malformed)
	ErrTruncatedDirectExport = wireerr.New("ioam: direct export: 8 octets and 4 for each extension flag needed", wireerr.Truncated)
	ErrDirectExportLen       = wireerr.New("ioam: direct export: octets left behind 8 and 4 for each extension flag", wireerr.Malformed)

	ErrNotEdgeToEdge       = wireerr.New("ioam: IOAM-Opt-Type: not 3, no edge-to-edge", wireerr.Malformed)
	ErrTruncatedEdgeToEdge = wireerr.New("ioam: edge-to-edge: 4 octets and those of each bit of IOAM-E2E-Type needed", wireerr.Truncated)
	ErrEdgeToEdgeLen       = wireerr.New("ioam: edge-to-edge: octets left behind the fields of IOAM-E2E-Type", wireerr.Malformed)

	ErrNotProofOfTransit       = wireerr.New("ioam: IOAM-Opt-Type: not 2, no proof of transit", wireerr.Malformed)
	ErrTruncatedProofOfTransit = wireerr.New("ioam: proof of transit: 4 octets needed, 20 for type 0", wireerr.Truncated)
	ErrProofOfTransitLen       = wireerr.New("ioam: proof of transit: octets left behind the 20 of type 0", wireerr.Malformed)
)

// Errors of encoding.
var (
	ErrOptionLen         = wireerr.New("ioam: option: longer than the 255 octets that Opt Data Len counts", wireerr.Range)
	ErrTraceTypeRange    = wireerr.New("ioam: IOAM-Trace-Type: more than 24 bits", wireerr.Range)
	ErrRemainingLenRange = wireerr.New("ioam: trace: RemainingLen: more than 7 bits", wireerr.Range)
	ErrNodeIDRange       = wireerr.New("ioam: node_id: more than 24 bits, or 56 in wide format", wireerr.Range)
	ErrSchemaIDRange     = wireerr.New("ioam: Schema ID: more than 24 bits", wireerr.Range)
	ErrSnapshotLen       = wireerr.New("ioam: Opaque State Snapshot: data is not a multiple of 4 octets up to 1020", wireerr.Range)
	ErrNotPreallocated   = wireerr.New("ioam: IOAM-Opt-Type: not 0, no node is added in place", wireerr.Malformed)
	ErrNotIncremental    = wireerr.New("ioam: IOAM-Opt-Type: not 1, no node is inserted", wireerr.Malformed)
)
