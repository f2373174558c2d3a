package flowtable

import "github.com/rocecn/rocecn/internal/hash"

// Shares count the entries of a table by domain, and within a domain by the prefix of the source, /64 or /24. With
// them a full table evicts entries of a domain or prefix that has more than its share.
//
// Counters are shared by domains, or prefixes, of the same hash. The zero value is ready for use.
type Shares struct {
	domains  [1 << 10]uint32
	prefixes [1 << 12]uint32
}

// counters returns the counters of a flow's domain and source prefix.
func (s *Shares) counters(k *Key, seed uint64) (domain, prefix *uint32) {
	return s.domain(k.Domain), s.prefix(&k.Src, k.QP&SrcIPv4 != 0, k.Domain, seed)
}

// domain returns the counter of a domain. No seed is needed, as the number of a domain is not from a packet.
func (s *Shares) domain(number uint32) *uint32 { return &s.domains[number*0x9E3779B1>>22] }

// prefix returns the counter of an address's prefix in a domain.
func (s *Shares) prefix(a *[16]byte, v4 bool, domain uint32, seed uint64) *uint32 {
	const prefixKey = 0xD6E8FEB86659FD93
	high, low := le.Uint64(a[:]), uint64(1)
	if v4 {
		high, low = le.Uint64(a[8:])&(1<<56-1), 2
	}
	return &s.prefixes[hash.Mix(high^seed, low<<32+uint64(domain)^prefixKey)%uint64(len(s.prefixes))]
}

// Add counts a new entry.
func (s *Shares) Add(k *Key, seed uint64) {
	domain, prefix := s.counters(k, seed)
	*domain++
	*prefix++
}

// Remove counts an entry that was removed.
func (s *Shares) Remove(k *Key, seed uint64) {
	domain, prefix := s.counters(k, seed)
	*domain--
	*prefix--
}

// MayEvict reports whether a new entry may evict another one: its domain has fewer entries, or in the same domain its
// prefix has.
func (s *Shares) MayEvict(victim, by *Key, seed uint64) bool {
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

// Compare returns 1 if an entry has to make room for a new one, -1 if it must not, and 0 if shares do not decide. The
// entry of the domain with more entries makes room. In the same domain it is the entry of a connection between
// prefixes that both have more than a quarter of the domain's entries, unless the new one is such an entry as well. For
// an entry of packets in a single direction, victimOneWay or byOneWay, only the prefix of the source counts.
func (s *Shares) Compare(victim, by *Key, victimOneWay, byOneWay bool, seed uint64) int {
	n, byN := s.domain(victim.Domain), s.domain(by.Domain)
	switch {
	case n != byN && *n > *byN+1:
		return 1
	case n != byN:
		return -1
	case victim.Src == by.Src && victim.Dst == by.Dst:
		return 0
	}
	return s.exceeds(victim, *n, victimOneWay, seed) - s.exceeds(by, *n, byOneWay, seed)
}

// exceeds returns 1 if a flow's prefixes have more than a quarter of the entries of the domain, otherwise 0.
func (s *Shares) exceeds(k *Key, entries uint32, oneWay bool, seed uint64) int {
	n := *s.prefix(&k.Src, k.QP&SrcIPv4 != 0, k.Domain, seed)
	if !oneWay {
		n = min(n, *s.prefix(&k.Dst, k.QP&DstIPv4 != 0, k.Domain, seed))
	}
	if n > entries/4 {
		return 1
	}
	return 0
}
