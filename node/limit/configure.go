package limit

// With returns the bucket with another rate, and with what it holds as far as that fits; nil where the rate sets no
// limit.
func (b *Bucket) With(r Rate) *Bucket {
	next := NewBucket(r)
	if b != nil && next != nil {
		next.clock = b.clock
		next.content = content{min(b.content.level, next.full), b.content.at}
	}
	return next
}

// With returns the buckets with another rate, and with what they hold as far as that fits; nil where the rate sets no
// limit. Buckets of a rate that set no limit are made anew for this many keys.
func (b *Buckets) With(r Rate, maxKeys int) *Buckets {
	if b == nil || !r.limited() {
		return NewBuckets(r, maxKeys)
	}
	b.perSecond, b.full = r.PerSecond, r.full()
	return b
}
