package limit

// With returns the bucket with another rate. It keeps its content, up to the new Burst; nil if the rate sets no limit.
func (b *Bucket) With(r Rate) *Bucket {
	next := NewBucket(r)
	if b != nil && next != nil {
		next.clock = b.clock
		next.content = content{min(b.content.level, next.full), b.content.at}
	}
	return next
}

// With returns the buckets with another rate. They keep their content, up to the new Burst; nil if the rate sets no
// limit. Nil Buckets are made anew for this many keys.
func (b *Buckets) With(r Rate, maxKeys int) *Buckets {
	if b == nil || !r.limited() {
		return NewBuckets(r, maxKeys)
	}
	b.perSecond, b.full = r.PerSecond, r.full()
	return b
}
