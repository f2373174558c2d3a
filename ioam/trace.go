package ioam

import (
	"fmt"
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
// NodeLen is no field of Trace: it is Type.NodeLen().
type Trace struct {
	OptType      OptType   // OptTypePreallocated or OptTypeIncremental
	Namespace    uint16    // Namespace-ID
	Overflow     bool      // O: there was too little space for a node
	Loopback     bool      // L: RFC 9322 section 4
	Active       bool      // A: RFC 9322 section 5
	ReservedFlag bool      // R: zero on send, ignored on receipt
	RemainingLen uint8     // space for more nodes, in units of 4 octets, 0 to 127
	Type         TraceType // set of the fields of each node
	Reserved     uint8     // zero on send, ignored on receipt
	Data         []byte    // octets after the header, including free space; aliases the packet after decoding
}

const traceHeaderLen = 8

// Decode reads a trace of either kind from all of o.Data, which Data aliases. It
// checks all nodes, so reading them cannot fail. On error t is unchanged.
func (t *Trace) Decode(o Option) error {
	if o.Type > OptTypeIncremental {
		return errNotTrace
	}
	if len(o.Data) < traceHeaderLen {
		return errTruncatedTrace
	}
	h := be.Uint64(o.Data)
	typ := TraceType(h >> 8 & 0xFFFFFF)
	nodeLen := typ.NodeLen()
	if int(h>>43&0x1F) != nodeLen {
		return errNodeLen
	}
	remaining := uint8(h >> 32 & 0x7F)
	data := o.Data[traceHeaderLen:]
	free := freeLen(o.Type, remaining)
	if free > len(data) {
		return errRemainingLen
	}
	if err := checkNodes(data[free:], typ, 4*nodeLen); err != nil {
		return err
	}
	t.OptType = o.Type
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

// The flags in the header, read as a number of 64 bits.
const (
	flagO = 1 << (42 - iota)
	flagL
	flagA
	flagR
)

// freeLen returns the length in octets of the free space before the nodes.
func freeLen(kind OptType, remaining uint8) int {
	if kind == OptTypePreallocated {
		return 4 * int(remaining)
	}
	return 0
}

// checkNodes checks that the octets are complete nodes of this size, without their
// snapshots.
func checkNodes(nodes []byte, typ TraceType, size int) error {
	if typ&BitSnapshot != 0 {
		return checkSnapshots(nodes, size)
	}
	if len(nodes) == 0 {
		return nil
	}
	if size == 0 {
		return errNoNode
	}
	if uint32(len(nodes))%uint32(size) != 0 {
		return errTruncatedNode
	}
	return nil
}

// checkSnapshots checks that the octets are complete nodes that have a snapshot
// after size octets.
func checkSnapshots(data []byte, size int) error {
	for len(data) > 0 {
		if len(data) < size+4 {
			return errTruncatedNode
		}
		n := size + 4 + 4*int(data[size])
		if len(data) < n {
			return errTruncatedSnapshot
		}
		data = data[n:]
	}
	return nil
}

// AppendBinary appends the option data to b. It rejects the traces that Decode
// rejects, and values that do not fit their field. On error it returns b unchanged.
func (t *Trace) AppendBinary(b []byte) ([]byte, error) {
	if err := t.checkFields(); err != nil {
		return b, err
	}
	b = t.appendHeader(slices.Grow(b, traceHeaderLen+len(t.Data)))
	return append(b, t.Data...), nil
}

func (t *Trace) checkFields() error {
	switch {
	case t.OptType > OptTypeIncremental:
		return errNotTrace
	case t.Type > 0xFFFFFF:
		return errTraceTypeRange
	case t.RemainingLen > 0x7F:
		return errRemainingLenRange
	}
	free := freeLen(t.OptType, t.RemainingLen)
	if free > len(t.Data) {
		return errRemainingLen
	}
	return checkNodes(t.Data[free:], t.Type, 4*t.Type.NodeLen())
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

// String returns the header and the nodes, newest first.
func (t Trace) String() string {
	s := fmt.Sprintf("%v: namespace %d, type %v, remaining %d", t.OptType, t.Namespace, t.Type, t.RemainingLen)
	for _, f := range []struct {
		set  bool
		name string
	}{{t.Overflow, "overflow"}, {t.Loopback, "loopback"}, {t.Active, "active"}} {
		if f.set {
			s += ", " + f.name
		}
	}
	for n := range t.Nodes() {
		s += "; " + n.String()
	}
	return s
}

// NodeData returns Data without the free space of a pre-allocated trace.
func (t *Trace) NodeData() []byte {
	return t.Data[min(freeLen(t.OptType, t.RemainingLen), len(t.Data)):]
}

// Nodes yields a copy of each node, newest first. Only Snapshot.Data aliases the
// trace. [Trace.Cursor] is faster: it copies less.
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
//
// It relies on the checks of [Trace.Decode]. If a trace that was not decoded ends
// inside a node, the fields after the end are zero.
type Cursor struct {
	rest []byte
	typ  TraceType
}

// Cursor returns a cursor that is positioned before the newest node.
func (t *Trace) Cursor() Cursor {
	if t.Type&(countBits|BitSnapshot) == 0 { // nodes without a field have no length
		return Cursor{}
	}
	return Cursor{rest: t.NodeData(), typ: t.Type}
}

// Next reads the next node into n and reports whether there was one. It overwrites
// only the fields of the trace's type. Snapshot.Data aliases the trace.
func (c *Cursor) Next(n *Node) bool {
	if len(c.rest) == 0 {
		return false
	}
	c.rest = n.readFields(c.rest, c.typ)
	return true
}
