package flows

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/batches"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/sflow"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// A reader reads captures, decodes their packets with several goroutines, and passes them on in order.
type reader struct {
	decoder flows.Decoder // a copy for each goroutine
	workers int           // goroutines that decode
	inputs  cli.Inputs
	frames  uint64 // passed on so far
	dropped uint64 // by the kernel, of live captures that have ended
	present uint64 // of the one that is read
	unknown bool   // the capture that is read has packets of a link type that is not supported

	ended time.Time // the latest packet of the last file

	packets  packetsFunc
	datagram func(b []byte, from netip.Addr, t time.Time) // function for each sFlow datagram, or nil
	progress func(octets, size int64)                     // function for the octets read so far, or nil
	idle     func(d time.Duration) error                  // function for a time without packets, or nil
	asks     chan func()                                  // functions to call between batches
}

// A packetsFunc uses consecutive packets; frame is the number of the first one, counted over all captures.
type packetsFunc func(packets []flows.Packet, times []time.Time, frame uint64) error

// droppedPackets returns the number of packets that the kernel dropped so far.
func (r *reader) droppedPackets() uint64 { return r.dropped + r.present }

// errUnknownLink is the error for a capture with packets that were not decoded because of their link type.
var errUnknownLink = errors.New("packets of a link type that is not supported are counted as others")

// decoded is the result of decoding a batch.
type decoded struct {
	packets   []flows.Packet
	times     []time.Time // of the packets: their records are in the cache of the CPU that decoded them
	datagrams []datagram  // of sFlow
	latest    time.Time   // of the packets
	unknown   bool        // there are packets of a link type that is not supported
}

// A datagram is an sFlow datagram. Its data is valid as long as its batch.
type datagram struct {
	record int // index of its packet in the batch
	data   []byte
	from   netip.Addr
}

// readCapture passes on the packets of one file, or of an interface.
func (r *reader) readCapture(ctx context.Context, name string) error {
	r.unknown = false
	in := batches.Reader[decoded]{Inputs: &r.inputs, Workers: r.workers, Use: r.useBatch, Idle: r.idle, Asks: r.asks,
		NewPreparer: func() func(*batches.Batch[decoded]) {
			d := r.decoder
			return func(b *batches.Batch[decoded]) {
				if r.workers > 1 { // another CPU may have used the packets
					for i := range b.Result.packets {
						b.Result.packets[i].Reset()
					}
				}
				decodeBatch(b, &d, r.datagram != nil)
			}
		}}
	err := in.ReadCapture(ctx, name)
	r.dropped, r.present = r.droppedPackets(), 0
	if err == nil && r.unknown {
		return errUnknownLink
	}
	return err
}

// useBatch passes on the packets and datagrams of a batch in their order, because a packet may end an interval, and a
// datagram belongs to the interval of its own packet.
func (r *reader) useBatch(b *batches.Batch[decoded]) error {
	d := &b.Result
	if d.latest.After(r.ended) {
		r.ended = d.latest
	}
	next := 0
	for i := range d.datagrams {
		g := &d.datagrams[i]
		if err := r.usePackets(d, next, g.record+1); err != nil {
			return err
		}
		next = g.record + 1
		r.datagram(g.data, g.from, d.times[g.record])
	}
	if err := r.usePackets(d, next, len(d.packets)); err != nil {
		return err
	}
	if r.progress != nil {
		r.progress(b.Octets, b.Input.Size)
	}
	r.present = b.Dropped
	r.unknown = r.unknown || d.unknown
	return nil
}

// usePackets passes on some of the packets of a batch.
func (r *reader) usePackets(d *decoded, from, to int) error {
	frame := r.frames + 1
	r.frames += uint64(to - from)
	return r.packets(d.packets[from:to], d.times[from:to], frame)
}

// decodeBatch decodes the packets of a batch, and finds datagrams of sFlow if samples is set.
func decodeBatch(b *batches.Batch[decoded], d *flows.Decoder, samples bool) {
	out := &b.Result
	out.packets = slices.Grow(out.packets[:0], len(b.Records))[:len(b.Records)]
	out.times = slices.Grow(out.times[:0], len(b.Records))[:len(b.Records)]
	out.datagrams, out.unknown = out.datagrams[:0], false
	var f rocev2.Frame
	var o rocev2.DecodeOptions
	var latest time.Time
	for i := range b.Records {
		r := &b.Records[i]
		out.times[i] = r.Time
		if r.Time.After(latest) {
			latest = r.Time
		}
		if i == 0 || r.Link != b.Records[i-1].Link {
			o = b.Input.Options(r)
			out.unknown = out.unknown || !r.Supported() // decoding its packets fails
		}
		o.AllowTruncated = r.Truncated()
		if d.Decode(&out.packets[i], r.Data, o) || !samples {
			continue
		}
		var u rocev2.Datagram
		if f.Decode(r.Data, o); f.Inner().Datagram(&u, sflow.Port) == nil {
			out.datagrams = append(out.datagrams, datagram{i, u.Data, u.Src})
		}
	}
	out.latest = latest
}
