package qpmap

import "github.com/rocecn/rocecn/internal/qplearn"

// QPs returns the map of queue pairs in m.
func (m *Map) QPs() *qplearn.Map { return m.qps }
