package limit

import "time"

// A Shared is a [Bucket] for packets of many keys, such as hashes of source prefixes, in which one key cannot take all.
// The part of each is a quarter of the rate and of the Burst. While several keys want packets, half of the Burst is
// kept for packets within these parts. More than four keys share it. With a Burst of less than 8 there are no parts.
//
// Its memory is fixed: 4 KB. Keys of the same class, one of 256, share their part. Nil sets no limit.
type Shared struct {
	bucket  Bucket
	part    size // of each class
	reserve float64
	classes [256]content
	recent  [2]request // the last requests of two different classes, the later one first
}

// A request is that of a class for a packet.
type request struct {
	class uint8
	at    int64
}

// rivalTime is the time after its request for which a class counts as one that wants packets.
const rivalTime = int64(time.Second)

// part returns the part of a class.
func (r Rate) part() size {
	s := r.size()
	return size{s.perSecond / 4, max(s.full/4, packet)}
}

// reserve returns the content of a bucket that is kept for packets within their parts.
func (r Rate) reserve() float64 {
	if r.Burst < 8 {
		return 0
	}
	return r.size().full / 2
}

// With returns the Shared with another rate, as [Bucket.With] does.
func (s *Shared) With(r Rate) *Shared {
	if !r.limited() {
		return nil
	}
	never := request{at: -2 * rivalTime}
	next := &Shared{part: r.part(), reserve: r.reserve(), recent: [2]request{never, never}}
	if s == nil {
		next.bucket = *NewBucket(r)
		for i := range next.classes {
			next.classes[i].level = next.part.full
		}
		return next
	}
	next.bucket, next.recent = *s.bucket.With(r), s.recent
	for i := range next.classes {
		next.classes[i] = s.part.change(next.part, s.classes[i], s.bucket.clock.Now())
	}
	return next
}

// Ready reports whether a packet of this key may be sent at this time.
func (s *Shared) Ready(key uint64, now time.Time) bool {
	if s == nil {
		return true
	}
	class, at := uint8(key), s.bucket.clock.Ticks(now)
	level := s.bucket.filled(s.bucket.content, at)
	if s.hasRival(class, at) && s.part.filled(s.classes[class], at) < packet {
		level -= s.reserve
	}
	return level >= packet
}

// hasRival records the request of a class, and reports whether another class has wanted packets recently.
func (s *Shared) hasRival(class uint8, at int64) bool {
	if s.recent[0].class != class {
		s.recent[1] = s.recent[0]
	}
	s.recent[0] = request{class, at}
	return at-s.recent[1].at < rivalTime
}

// Charge takes one packet of this key out of the bucket.
func (s *Shared) Charge(key uint64, now time.Time) {
	if s == nil {
		return
	}
	at := s.bucket.clock.Ticks(now)
	c := &s.classes[uint8(key)]
	*c = s.part.removePacket(*c, at)
	s.bucket.content = s.bucket.removePacket(s.bucket.content, at)
}

// ChargeDebt is Charge for a packet to which the limit does not apply: later ones wait longer, up to the time that
// fills the bucket.
func (s *Shared) ChargeDebt(now time.Time) {
	if s != nil {
		s.bucket.ChargeDebt(now)
	}
}
