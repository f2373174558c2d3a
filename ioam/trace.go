package ioam

import (
	"iter"
	"slices"
)

// Trace is a pre-allocated or an incremental trace (RFC 9197 section 4.4).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         Namespace-ID          | NodeLen |O|L|A|R| RemainingLen|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                IOAM-Trace-Type                |    Reserved   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~        free space (pre-allocated), then nodes, newest first   ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// NodeLen is no field here: it always is [TraceType.NodeLen] of Type.
type Trace struct {
	Kind         OptType   // TypePreallocated or TypeIncremental
	Namespace    uint16    // Namespace-ID
	Overflow     bool      // O: a node found too little room
	Loopback     bool      // L: RFC 9322 section 4
	Active       bool      // A: RFC 9322 section 5
	ReservedFlag bool      // R: zero on send, ignored on receipt
	RemainingLen uint8     // room for more nodes, in units of 4 octets, 0 to 127
	Type         TraceType // the fields of every node
	Reserved     uint8     // zero on send, ignored on receipt
	Data         []byte    // everything behind the header, free space included
}

const traceHeaderLen = 8

// Decode reads a trace of either kind from an option. All of its nodes are
// checked, so that reading them cannot fail. Data aliases o.Data. On error t is
// unchanged.
func (t *Trace) Decode(o Option) error {
	if o.Type > TypeIncremental {
		return ErrNotTrace
	}
	if len(o.Data) < traceHeaderLen {
		return ErrTruncatedTrace
	}
	h := be.Uint64(o.Data)
	typ := TraceType(h >> 8 & 0xFFFFFF)
	if int(h>>43&0x1F) != typ.NodeLen() {
		return ErrNodeLen
	}
	remaining := uint8(h >> 32 & 0x7F)
	data := o.Data[traceHeaderLen:]
	if err := checkNodes(o.Type, remaining, typ, data); err != nil {
		return err
	}
	t.Kind = o.Type
	t.Namespace = uint16(h >> 48)
	t.Overflow = h&flagO != 0
	t.Loopback = h&flagL != 0
	t.Active = h&flagA != 0
	t.ReservedFlag = h&flagR != 0
	t.RemainingLen = remaining
	t.Type = typ
	t.Reserved = uint8(h)
	t.Data = data
	return nil
}

// The flags in the header, taken as one number.
const (
	flagO = 1 << (42 - iota)
	flagL
	flagA
	flagR
)

// checkNodes checks that data consists of whole nodes, behind the free space
// of a pre-allocated trace.
func checkNodes(kind OptType, remaining uint8, typ TraceType, data []byte) error {
	if kind == TypePreallocated {
		if len(data) < 4*int(remaining) {
			return ErrRemainingLen
		}
		data = data[4*int(remaining):]
	}
	size := uint32(4 * typ.NodeLen())
	switch {
	case len(data) == 0:
		return nil
	case typ&BitSnapshot != 0:
		return checkSnapshots(int(size), data)
	case size == 0:
		return ErrNoNode
	case uint32(len(data))%size != 0:
		return ErrTruncatedNode
	}
	return nil
}

// checkSnapshots is checkNodes for nodes with a snapshot behind size octets.
func checkSnapshots(size int, data []byte) error {
	for len(data) > 0 {
		if len(data) < size+4 {
			return ErrTruncatedNode
		}
		n := size + 4 + 4*int(data[size])
		if len(data) < n {
			return ErrTruncatedSnapshot
		}
		data = data[n:]
	}
	return nil
}

// AppendBinary appends the option data. It refuses what Decode would refuse.
func (t *Trace) AppendBinary(b []byte) ([]byte, error) {
	if err := t.check(); err != nil {
		return b, err
	}
	b = t.appendHeader(slices.Grow(b, traceHeaderLen+len(t.Data)))
	return append(b, t.Data...), nil
}

func (t *Trace) check() error {
	switch {
	case t.Kind > TypeIncremental:
		return ErrNotTrace
	case t.Type > 0xFFFFFF:
		return ErrTraceTypeRange
	case t.RemainingLen > 0x7F:
		return ErrRemainingLenRange
	}
	return checkNodes(t.Kind, t.RemainingLen, t.Type, t.Data)
}

func (t *Trace) appendHeader(b []byte) []byte {
	h := uint64(t.Namespace)<<48 | uint64(t.Type.NodeLen())<<43 | uint64(t.RemainingLen)<<32 |
		uint64(t.Type)<<8 | uint64(t.Reserved)
	if t.Overflow {
		h |= flagO
	}
	if t.Loopback {
		h |= flagL
	}
	if t.Active {
		h |= flagA
	}
	if t.ReservedFlag {
		h |= flagR
	}
	return be.AppendUint64(b, h)
}

// NodeData returns the part of Data that holds nodes: without the free space
// of a pre-allocated trace.
func (t *Trace) NodeData() []byte {
	if t.Kind == TypePreallocated {
		return t.Data[min(4*int(t.RemainingLen), len(t.Data)):]
	}
	return t.Data
}

// Nodes yields the nodes, newest first. Each is a value of its own; only
// Snapshot.Data aliases the trace. Where nanoseconds count, [Trace.Cursor]
// copies less.
func (t *Trace) Nodes() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		var n Node
		for c := t.Cursor(); c.Next(&n) && yield(n); {
		}
	}
}

// Cursor reads the nodes of a trace, newest first, into one Node:
//
//	var n ioam.Node
//	for c := t.Cursor(); c.Next(&n); {
//		… n.QueueDepth …
//	}
type Cursor struct {
	rest []byte
	typ  TraceType
	size uint32
}

// Cursor returns a cursor before the newest node.
func (t *Trace) Cursor() Cursor {
	size := 4 * t.Type.NodeLen()
	if t.Type&BitSnapshot != 0 {
		size += 4
	}
	return Cursor{rest: t.NodeData(), typ: t.Type, size: uint32(max(size, 1))}
}

// Next reads the next node into n, and reports whether there was one. It sets
// n.Type and the fields that it names and leaves the other fields alone.
// Snapshot.Data aliases the trace.
func (c *Cursor) Next(n *Node) bool {
	if len(c.rest) < int(c.size) {
		return false
	}
	extra := n.set(c.rest, c.typ)
	c.rest = c.rest[int(c.size)+extra:]
	return true
}
