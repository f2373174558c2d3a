package qpmap

// SameSets makes m remember requests in the same sets as another Map, which
// otherwise depend on a random seed.
func (m *Map) SameSets(other *Map) {
	m.recent.seed, m.ports.seed = other.recent.seed, other.ports.seed
}
