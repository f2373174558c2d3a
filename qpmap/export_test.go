package qpmap

import "github.com/rocecn/rocecn/internal/qplearn"

// NewSeeded is New of a Map that remembers requests in the same sets as all of its seed.
var NewSeeded = newMap

// QPs returns what learns for m.
func (m *Map) QPs() *qplearn.Map { return m.qps }
