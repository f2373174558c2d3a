package role

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
)

// Shares count the entries of a table by domain, and within a domain by the prefix of the source, /64 or /24. A full
// table evicts entries of those that have more than the new one, so no domain or prefix can fill the table alone.
//
// Counters are shared by domains, or prefixes, of the same hash. The zero value is ready for use.
type Shares struct {
	domains  [1 << 10]uint32
	prefixes [1 << 12]uint32
}

// counters returns the counters of a flow's domain and prefix.
func (s *Shares) counters(k *flowtable.Key, seed uint64) (domain, prefix *uint32) {
	const domainKey, prefixKey = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
	d := hash.Mix(uint64(k.Domain)^seed, domainKey^seed>>1)
	high, low := k.SourcePrefix()
	p := hash.Mix(high^d, low^prefixKey)
	return &s.domains[d%uint64(len(s.domains))], &s.prefixes[p%uint64(len(s.prefixes))]
}

// Add counts a new entry.
func (s *Shares) Add(k *flowtable.Key, seed uint64) {
	domain, prefix := s.counters(k, seed)
	*domain++
	*prefix++
}

// Remove counts an entry that was removed.
func (s *Shares) Remove(k *flowtable.Key, seed uint64) {
	domain, prefix := s.counters(k, seed)
	*domain--
	*prefix--
}

// MayEvict reports whether a new entry may evict another one: its domain has fewer entries, or in the same domain its
// prefix has.
func (s *Shares) MayEvict(victim, by *flowtable.Key, seed uint64) bool {
	domain, prefix := s.counters(victim, seed)
	byDomain, byPrefix := s.counters(by, seed)
	if domain != byDomain {
		return *domain > *byDomain+1
	}
	return *prefix > *byPrefix+1
}

// Looks is the number of entries among which a victim is looked for: the largest of ten domains is missed once in 10²⁹
// times.
const Looks = 64
