package netio

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// Run reads sources in one goroutine. It calls f with each packet, which is valid until f returns, and the index of its
// source in the list. It sends with out the octets that f appends to b: an IP packet or a frame, as out expects. out
// may be nil if f appends nothing. Packets that cannot be sent are counted in out, and are no error.
//
// Run ends with the error of a source, with nil when all sources have ended, or after the end of ctx, when the packets
// that the kernel had by then are read. [ErrAway] does not end it: packets come again when the interface is up. No more
// packets come from a deleted interface.
func Run(ctx context.Context, out Sink, f func(b []byte, source int, p *Packet) []byte, sources ...Source) error {
	return (&Loop{Out: out, Receive: f}).Run(ctx, sources...)
}

// A Loop is [Run] with something to do from time to time, whether packets come or not.
type Loop struct {
	Out     Sink                                         // may be nil if nothing is sent
	Receive func(b []byte, source int, p *Packet) []byte // is called with each packet

	// Tick is called when Every has passed since the last call, at the latest after the packets of one read. It may
	// send with Out. If Every is 0, Tick is never called.
	Every time.Duration
	Tick  func(now time.Time)
}

// Run is the function Run.
func (l *Loop) Run(ctx context.Context, sources ...Source) error {
	p, err := NewPoll(ctx, sources...)
	if err != nil {
		return err
	}
	defer p.Close()
	var b []byte
	limit, next := time.Duration(-1), time.Now().Add(l.Every)
	for {
		if l.Every > 0 {
			limit = max(0, time.Until(next))
		}
		source, packets, err := p.Next(limit)
		if err == io.EOF {
			return nil
		} else if err != nil && !errors.Is(err, ErrAway) {
			return err
		}
		for i := range packets {
			if b = l.Receive(b[:0], source, &packets[i]); len(b) > 0 {
				_ = l.Out.Send(b)
			}
		}
		if now := time.Now(); l.Every > 0 && !now.Before(next) {
			l.Tick(now)
			next = now.Add(l.Every)
		}
		if l.Out != nil {
			_ = l.Out.Flush()
		}
	}
}

// A Poll reads several sources in one goroutine.
type Poll struct {
	ctx     context.Context
	sources []Source
	ready   []bool // there may be something to read
	ended   []bool
	turn    int // index of the next source to read; sources take turns, so that a busy one does not block the others
	stopped bool
	waiter
}

// lastWords is the maximum time that a stopped source may take to return the packets that the kernel has for it.
const stopTimeout = time.Second

// NewPoll returns a Poll of these sources, which its Close does not close. The end of ctx ends all of them, after the
// packets that the kernel has by then are read.
func NewPoll(ctx context.Context, sources ...Source) (*Poll, error) {
	p := &Poll{ctx: ctx, sources: sources, ready: make([]bool, len(sources)), ended: make([]bool, len(sources))}
	for i := range p.ready {
		p.ready[i] = true
	}
	return p, p.open(ctx, sources)
}

// Next waits until a source has packets and returns them, valid until Next is
// called again, and the place of that source in the list. When there are none for
// so long it returns -1 and no packets; 0 does not wait, and below 0 there is no
// limit. An error is that of a source: Next may be called again, and goes on with
// all of them. When every source has ended, the error is io.EOF.
func (p *Poll) Next(limit time.Duration) (source int, packets []Packet, err error) {
	for {
		if !p.stopped && p.ctx.Err() != nil {
			p.stopped = true
			p.wakeUp()
			for i, s := range p.sources {
				p.ready[i] = !p.ended[i]
				if failed := s.Stop(); failed != nil {
					source, err = i, failed
				}
			}
			if err != nil {
				return source, nil, err
			}
		}
		if slices.Contains(p.ready, true) {
			if source, packets, err = p.read(); err != nil || len(packets) > 0 {
				return source, packets, err
			}
			continue
		}
		if !slices.Contains(p.ended, false) {
			return -1, nil, io.EOF
		}
		if p.stopped {
			limit = stopTimeout
		}
		switch some, err := p.wait(p.ready, limit); {
		case err != nil:
			return -1, nil, err
		case !some && p.stopped:
			return -1, nil, io.EOF
		case !some:
			return -1, nil, nil
		}
	}
}

// read reads the next source, in turn, that is ready.
func (p *Poll) read() (source int, packets []Packet, err error) {
	for !p.ready[p.turn] {
		p.turn = (p.turn + 1) % len(p.ready)
	}
	source = p.turn
	p.turn = (p.turn + 1) % len(p.ready)
	packets, err = p.sources[source].Read()
	if err == io.EOF {
		p.ended[source], p.ready[source], err = true, false, nil
		p.forget(source)
	} else if err == nil && len(packets) == 0 {
		p.ready[source] = false
	}
	return source, packets, err
}
