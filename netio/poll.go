package netio

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// Run reads sources in one goroutine. It calls f with each packet and with the
// index of its source in the list; the packet is valid until f returns. f
// appends to b an IP packet or a frame to send, as out requires, or nothing.
// Run sends it with out, which may be nil if f never appends. Packets that
// cannot be sent are counted by out and are not an error.
//
// Run returns nil when all sources have ended, or when ctx has ended and the
// packets that the kernel had received by then are read. It returns the first
// error of a source other than [ErrAway].
func Run(ctx context.Context, out Sink, f func(b []byte, source int, p *Packet) []byte, sources ...Source) error {
	return (&Loop{Out: out, Receive: f}).Run(ctx, sources...)
}

// A Loop is the configuration of [Run] with an additional function that is
// called at intervals, also while no packets arrive.
type Loop struct {
	Out     Sink                                         // sink of the packets, or nil if nothing is sent
	Receive func(b []byte, source int, p *Packet) []byte // function f of Run

	// Tick is called when Every has passed since the last call, but not between the
	// packets of one read. It may send with Out. If Every is 0, Tick is never called.
	Every time.Duration
	Tick  func(now time.Time)
}

// Run reads sources like the function [Run], and calls Tick.
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

// A Poll waits for the packets of several sources in one goroutine.
type Poll struct {
	ctx     context.Context
	sources []Source
	ready   []bool // there may be something to read
	ended   []bool
	turn    int // index of the next source to read; sources take turns, so that a busy one does not block the others
	stopped bool
	waiter
}

// stopTimeout is the maximum time that a stopped source may take to return the
// packets that the kernel has for it.
const stopTimeout = time.Second

// NewPoll returns a Poll of these sources. When ctx ends, the Poll stops all
// sources and returns the packets that the kernel had received by then. Close
// of the Poll does not close the sources.
func NewPoll(ctx context.Context, sources ...Source) (*Poll, error) {
	p := &Poll{ctx: ctx, sources: sources, ready: make([]bool, len(sources)), ended: make([]bool, len(sources))}
	for i := range p.ready {
		p.ready[i] = true
	}
	return p, p.open(ctx, sources)
}

// Next waits until a source has packets, and returns them with the index of
// that source in the list of NewPoll. They are valid until the next call. After
// limit without packets it returns -1 and none; 0 does not wait, and a negative
// limit waits without end. The error is io.EOF when all sources have ended,
// otherwise that of the source with the returned index; then Next may be called
// again and continues with all sources.
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
