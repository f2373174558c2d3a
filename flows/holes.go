package flows

// A span is a run of PSNs: from the first up to the one before to.
type span struct{ from, to uint32 }

func (s span) len() uint32 { return uint32(ahead(s.to, s.from)) }

func (s span) contains(p uint32) bool { return ahead(p, s.from) >= 0 && ahead(p, s.to) < 0 }

// maxHoles is how many holes of a flow are remembered. When there are more, the
// oldest is given up: what fills it later counts as a repeat.
const maxHoles = 64

// holes are the PSNs of a life that were passed over and not seen since, the
// lowest first.
type holes struct {
	spans [maxHoles]span
	n     int
}

// add remembers a hole beyond all others, and returns what it had to give up.
func (h *holes) add(s span) (givenUp span) {
	if h.n == maxHoles {
		givenUp = h.pop()
	}
	h.spans[h.n] = s
	h.n++
	return givenUp
}

// pop gives up the lowest hole.
func (h *holes) pop() span {
	lowest := h.spans[0]
	h.n--
	copy(h.spans[:h.n], h.spans[1:])
	return lowest
}

// contain says whether p is in a hole.
func (h *holes) contain(p uint32) bool {
	for i := h.n - 1; i >= 0; i-- {
		if h.spans[i].contains(p) {
			return true
		}
	}
	return false
}

// fill takes these PSNs out of all holes. Where one splits in two and there is
// no room for both, the lowest hole is given up and returned.
func (h *holes) fill(s span) (givenUp span) {
	before := *h
	h.n = 0
	keep := func(from, to uint32) {
		if ahead(to, from) > 0 {
			if lowest := h.add(span{from, to}); lowest.len() > 0 {
				givenUp = lowest
			}
		}
	}
	for _, hole := range before.spans[:before.n] {
		if ahead(s.from, hole.to) >= 0 || ahead(s.to, hole.from) <= 0 { // apart
			keep(hole.from, hole.to)
			continue
		}
		keep(hole.from, s.from)
		keep(s.to, hole.to)
	}
	return givenUp
}
