package qpmap

import "github.com/rocecn/rocecn/internal/qplearn"

// QPs returns what learns for m.
func (m *Map) QPs() *qplearn.Map { return m.qps }
