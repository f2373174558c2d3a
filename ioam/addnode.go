package ioam

import "slices"

// AppendFresh appends the option data of a trace that has no nodes yet and
// space for a number of words of 4 octets, at most 127: for each node
// Type.NodeLen() and, with bit 22, the words of its snapshot. An IPv6 option can
// hold 61. All fields except RemainingLen and Data come from t. In a
// pre-allocated trace the space is in the option, all zero; in an incremental
// one the number is a budget.
func (t *Trace) AppendFresh(b []byte, words int) ([]byte, error) {
	if words < 0 || words > 0x7F {
		return b, errRemainingLenRange
	}
	fresh := *t
	fresh.RemainingLen, fresh.Data = 0, nil
	if err := fresh.check(); err != nil {
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

// AddNode records a node in a pre-allocated trace, in place, as a transit node
// does (RFC 9197 section 4.4.1): o.Data changes, and with it the packet that it
// aliases. The trace's type names the fields that are written; fields that n
// does not have are written as unavailable. A node without any field is an
// error of rocecn.ErrRange.
//
// It reports whether the node was added. It is not added if O is set, or if the
// node is longer than RemainingLen, which sets O; neither is an error. On error
// o is unchanged. The caller decides whether the namespace is one of the node's.
func AddNode(o Option, n *Node) (added bool, err error) {
	if o.Type != OptTypePreallocated {
		return false, errNotPreallocated
	}
	t, words, err := check(o, n)
	if err != nil {
		return false, err
	}
	if !t.claim(words) {
		t.appendHeader(o.Data[:0])
		return false, nil
	}
	at := 4 * int(t.RemainingLen)
	n.append(t.Data[at:at:at+4*words], t.Type)
	t.appendHeader(o.Data[:0])
	return true, nil
}

// AppendNode is [AddNode] for an incremental trace, which grows: it appends the
// option data with the node before the older ones. The result may be longer
// than an IPv6 option can hold if the trace's budget is; b must not overlap
// o.Data. If no node is added, the option data is appended with O set. On error
// it returns b.
func AppendNode(b []byte, o Option, n *Node) (out []byte, added bool, err error) {
	if o.Type != OptTypeIncremental {
		return b, false, errNotIncremental
	}
	t, words, err := check(o, n)
	if err != nil {
		return b, false, err
	}
	if added = t.claim(words); !added {
		words = 0
	}
	b = slices.Grow(b, len(o.Data)+4*words)
	b = t.appendHeader(b)
	if added {
		b = n.append(b, t.Type)
	}
	return append(b, t.Data...), added, nil
}

// NodeSize returns the number of octets of node data that AddNode or AppendNode
// would write for n into t, or 0 if they would set O instead.
func (t *Trace) NodeSize(n *Node) (int, error) {
	words, err := t.nodeWords(n)
	if copy := *t; err != nil || !copy.claim(words) {
		return 0, err
	}
	return 4 * words, nil
}

// check decodes a trace and checks a node for it, which takes the returned
// number of words.
func check(o Option, n *Node) (t Trace, words int, err error) {
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
	if err := n.check(); err != nil {
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

// claim subtracts the size of a node from RemainingLen, or sets O.
func (t *Trace) claim(words int) bool {
	if t.Overflow || words > int(t.RemainingLen) {
		t.Overflow = true
		return false
	}
	t.RemainingLen -= uint8(words)
	return true
}
