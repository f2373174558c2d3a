package qdisc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/netio"
)

var ne = binary.NativeEndian

// A Source is a [netio.Source] of packets that wait in queues. They begin with the IP header, are truncated to
// [Snap], leave by their Interface, and have a Depth.
type Source struct {
	objects struct {
		Enqueue    *ebpf.Program `ebpf:"enqueue"`
		Thresholds *ebpf.Map     `ebpf:"thresholds"`
		Events     *ebpf.Map     `ebpf:"events"`
		Counters   *ebpf.Map     `ebpf:"counters"`
	}
	link    link.Link
	ring    *bpf.Ring
	packets [64]netio.Packet
	stopped bool
}

// Open starts to watch interfaces in the network namespace of the calling thread. It needs CAP_BPF and
// CAP_PERFMON, and a kernel with BTF.
func Open(c Config) (*Source, error) {
	s := new(Source)
	if err := s.openProgram(&c); err != nil {
		s.Close()
		return nil, fmt.Errorf("qdisc: %w", bpf.ExplainRights(err, "CAP_BPF and CAP_PERFMON"))
	}
	return s, nil
}

func (s *Source) openProgram(c *Config) error {
	spec, err := bpf.Queue()
	if err != nil {
		return err
	}
	namespace, err := bpf.Namespace()
	if err != nil {
		return err
	}
	if err := bpf.Set(spec, map[string]any{
		"namespace": namespace, "interval": uint64(max(c.PerFlow, 0)), "tunnels": uint8(c.Tunnels),
	}); err != nil {
		return err
	}
	if c.Ring > 0 {
		least := uint32(os.Getpagesize())
		spec.Maps["events"].MaxEntries = max(least, 1<<bits.Len32(min(c.Ring, 1<<30)-1))
	}
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return err
	}
	if err := s.Watch(c.Interfaces); err != nil {
		return err
	}
	if s.ring, err = bpf.NewRing(s.objects.Events); err != nil {
		return err
	}
	s.link, err = link.AttachTracing(link.TracingOptions{Program: s.objects.Enqueue})
	return err
}

// Watch replaces the watched interfaces, and skips missing ones. If all are missing, it returns an error and
// changes nothing. A recreated interface has a new index and must be watched again.
func (s *Source) Watch(interfaces []Interface) error {
	thresholds := make(map[uint32]uint64)
	var missing error
	for _, i := range interfaces {
		there, err := net.InterfaceByName(i.Name)
		if err != nil {
			missing = fmt.Errorf("%s: %w", i.Name, netio.ErrNoInterface)
			continue
		}
		thresholds[uint32(there.Index)] = i.Threshold
	}
	if len(thresholds) == 0 {
		return missing
	}
	var index uint32
	var threshold uint64
	var gone []uint32
	for all := s.objects.Thresholds.Iterate(); all.Next(&index, &threshold); {
		if _, ok := thresholds[index]; !ok {
			gone = append(gone, index)
		}
	}
	for _, index := range gone {
		if err := s.objects.Thresholds.Delete(index); err != nil {
			return err
		}
	}
	for index, threshold := range thresholds {
		if err := s.objects.Thresholds.Put(index, threshold); err != nil {
			return err
		}
	}
	return nil
}

// Offsets in struct event of queue.bpf.c.
const (
	atTime      = 0
	atInterface = 8
	atDepth     = 12
	atLength    = 16
	atSnap      = 20
	atData      = 24
)

// Read implements [netio.Source].
func (s *Source) Read() ([]netio.Packet, error) {
	s.ring.Free()
	var now time.Time
	var monotonic int64
	n := 0
	for ; n < len(s.packets); n++ {
		event := s.ring.Next()
		if event == nil {
			break
		}
		if n == 0 {
			now, monotonic = time.Now().UTC(), bpf.Monotonic()
		}
		s.packets[n] = readPacket(event, now, monotonic)
	}
	if n == 0 && s.stopped {
		return nil, io.EOF
	}
	return s.packets[:n], nil
}

// readPacket decodes an event. now is the wall clock time at the given monotonic time.
func readPacket(event []byte, now time.Time, monotonic int64) netio.Packet {
	snap := min(ne.Uint32(event[atSnap:]), Snap)
	index := int(ne.Uint32(event[atInterface:]))
	return netio.Packet{
		Record: capture.Record{
			Data: event[atData:][:snap:snap], OrigLen: ne.Uint32(event[atLength:]), Link: capture.Raw,
			Time: now.Add(time.Duration(int64(ne.Uint64(event[atTime:])) - monotonic)), Unit: time.Nanosecond,
		},
		Interface: index, Outgoing: true, Egress: index,
		Depth: uint64(ne.Uint32(event[atDepth:])), DepthKnown: true, Origin: netio.OriginQueued,
	}
}

// Stop implements [netio.Source].
func (s *Source) Stop() error {
	s.stopped = true
	return s.link.Close()
}

// FD implements [netio.Source].
func (s *Source) FD() int { return s.ring.FD() }

// Counters of queue.bpf.c.
const (
	given = iota
	limited
	lost
	unknown
)

func (s *Source) readCounter(what uint32) uint64 {
	return bpf.Counters{Map: s.objects.Counters}.Sum(what)
}

// Lost implements [netio.Source].
func (s *Source) Lost() uint64 { return s.readCounter(lost) }

// Given returns the number of reported packets, read or unread.
func (s *Source) Given() uint64 { return s.readCounter(given) }

// Limited returns the number of packets that Config.PerFlow left out. Any goroutine may call it.
func (s *Source) Limited() uint64 { return s.readCounter(limited) }

// Unknown returns the number of packets that met a queue of unknown depth: their interfaces need another qdisc.
// Any goroutine may call it.
func (s *Source) Unknown() uint64 { return s.readCounter(unknown) }

// Close implements [netio.Source].
func (s *Source) Close() (err error) {
	if s.link != nil && !s.stopped {
		err = s.link.Close()
	}
	if s.ring != nil {
		err = errors.Join(err, s.ring.Close())
	}
	o := &s.objects
	return errors.Join(err, o.Enqueue.Close(), o.Thresholds.Close(), o.Events.Close(), o.Counters.Close())
}
