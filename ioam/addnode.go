package ioam

import "slices"

// AppendFresh appends the option data of a trace without nodes, with space for a
// number of words of 4 octets. A node takes Type.NodeLen() words and, with bit 22,
// the words of its snapshot. words is 0 to 127; an IPv6 option can hold 61. In a
// pre-allocated trace the space consists of zero octets in the option; in an
// incremental one the number is a budget. All fields except RemainingLen and Data
// come from t.
func (t *Trace) AppendFresh(b []byte, words int) ([]byte, error) {
	if words < 0 || words > 0x7F {
		return b, errRemainingLenRange
	}
	fresh := *t
	fresh.RemainingLen, fresh.Data = 0, nil
	if err := fresh.checkFields(); err != nil {
		return b, err
	}
	fresh.RemainingLen = uint8(words)
	b = fresh.appendHeader(slices.Grow(b, traceHeaderLen+4*words))
	if t.OptType == OptTypePreallocated {
		b = b[:len(b)+4*words]
		clear(b[len(b)-4*words:])
	}
	return b, nil
}

// AddNode records a node in a pre-allocated trace in place, as a transit node
// does (RFC 9197 section 4.4.1). It changes o.Data and so the packet that o.Data
// aliases. It writes the fields of the trace's type; fields that n does not have
// are written as unavailable.
//
// added reports whether the node was added. A node is not added if O is set, nor
// if it is longer than RemainingLen, which sets O; neither is an error. A node
// without any field is an error that matches rocecn.ErrRange. On error o is
// unchanged. The caller checks that the node belongs to the trace's namespace.
func AddNode(o Option, n *Node) (added bool, err error) {
	if o.Type != OptTypePreallocated {
		return false, errNotPreallocated
	}
	t, words, err := decodeTrace(o, n)
	if err != nil {
		return false, err
	}
	if !t.claimSpace(words) {
		t.appendHeader(o.Data[:0])
		return false, nil
	}
	start := 4 * int(t.RemainingLen)
	n.appendFields(t.Data[start:start:start+4*words], t.Type)
	t.appendHeader(o.Data[:0])
	return true, nil
}

// AppendNode is [AddNode] for an incremental trace: it appends the option data
// with the node before the older ones to b, which must not overlap o.Data. If the
// node is not added, it appends the option data with O set. The result may be
// longer than an IPv6 option can hold if the budget of the trace is. On error it
// returns b unchanged.
func AppendNode(b []byte, o Option, n *Node) (out []byte, added bool, err error) {
	if o.Type != OptTypeIncremental {
		return b, false, errNotIncremental
	}
	t, words, err := decodeTrace(o, n)
	if err != nil {
		return b, false, err
	}
	if added = t.claimSpace(words); !added {
		words = 0
	}
	b = slices.Grow(b, len(o.Data)+4*words)
	b = t.appendHeader(b)
	if added {
		b = n.appendFields(b, t.Type)
	}
	return append(b, t.Data...), added, nil
}

// NodeSize returns the number of octets of node data that AddNode or AppendNode
// would write for n into t, or 0 if they would set O instead.
func (t *Trace) NodeSize(n *Node) (int, error) {
	words, err := t.nodeWords(n)
	if copy := *t; err != nil || !copy.claimSpace(words) {
		return 0, err
	}
	return 4 * words, nil
}

// decodeTrace decodes a trace and checks a node for it. words is the length of the
// node in the trace, in words of 4 octets.
func decodeTrace(o Option, n *Node) (t Trace, words int, err error) {
	if err := t.Decode(o); err != nil {
		return Trace{}, 0, err
	}
	words, err = t.nodeWords(n)
	return t, words, err
}

// nodeWords checks a node and returns its length in a trace of t's type, in words
// of 4 octets.
func (t *Trace) nodeWords(n *Node) (int, error) {
	if n.typ&^BitReserved == 0 {
		return 0, errNoField
	}
	if err := n.checkFields(); err != nil {
		return 0, err
	}
	words := t.Type.NodeLen()
	if t.Type&BitSnapshot != 0 {
		words++
		if n.typ&BitSnapshot != 0 {
			words += len(n.snapshot.Data) / 4
		}
	}
	return words, nil
}

// claimSpace subtracts the length of a node from RemainingLen. If there is too
// little space, it sets O and returns false.
func (t *Trace) claimSpace(words int) bool {
	if t.Overflow || words > int(t.RemainingLen) {
		t.Overflow = true
		return false
	}
	t.RemainingLen -= uint8(words)
	return true
}
