package shape

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/bpf"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/tc"
)

// A Shaper paces flows. It needs CAP_BPF and CAP_NET_ADMIN. It ends with Close or with the process. Before Linux
// 6.6 a crashed process leaves a filter, and its orders end with their lease. It is for one goroutine, except
// Counters.
type Shaper struct {
	objects struct {
		Shape    *ebpf.Program `ebpf:"shape"`
		Orders   *ebpf.Map     `ebpf:"orders"`
		Clocks   *ebpf.Map     `ebpf:"clocks"`
		Lease    *ebpf.Map     `ebpf:"lease"`
		Counters *ebpf.Map     `ebpf:"counters"`
	}
	links   bpf.Links
	flows   map[Flow]*orderedFlow
	free    []uint32 // free slots
	leaving []Flow   // forgotten flows with waiting packets
}

// An orderedFlow is a flow that has an order.
type orderedFlow struct {
	slot    uint32
	octets  uint64 // reported by Sent
	leaving bool
}

// Open starts to pace flows that get an order. It skips interfaces that do not exist.
func Open(c Config) (*Shaper, error) {
	s := &Shaper{links: bpf.Links{}, flows: map[Flow]*orderedFlow{}}
	err := s.loadProgram(&c)
	if err == nil {
		err = s.Watch(c.Interfaces)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("shape: %w", bpf.ExplainRights(err, "CAP_BPF and CAP_NET_ADMIN"))
	}
	return s, nil
}

// Try returns the error that Open would return. It attaches nothing to interfaces.
func Try(c Config) error {
	s := new(Shaper)
	defer s.Close()
	if err := s.loadProgram(&c); err != nil {
		return fmt.Errorf("shape: %w", bpf.ExplainRights(err, "CAP_BPF and CAP_NET_ADMIN"))
	}
	return nil
}

func (s *Shaper) loadProgram(c *Config) error {
	spec, err := bpf.Shape()
	if err != nil {
		return err
	}
	slots := uint32(2 * max(c.MaxFlows, 1)) // leaving flows also have one
	spec.Maps["orders"].MaxEntries, spec.Maps["clocks"].MaxEntries = slots, slots
	for slot := range slots {
		s.free = append(s.free, slots-1-slot)
	}
	return spec.LoadAndAssign(&s.objects, nil)
}

// Watch replaces the watched interfaces. Interfaces that stay are not interrupted, and missing ones are skipped. A
// recreated interface has a new index and must be watched again.
func (s *Shaper) Watch(interfaces []string) error {
	now := make([]int, len(interfaces))
	for i, name := range interfaces {
		if found, err := net.InterfaceByName(name); err == nil {
			now[i] = found.Index
		}
	}
	return s.links.Watch(now, func(i int) (io.Closer, error) {
		return tc.Attach(interfaces[i], s.objects.Shape, ebpf.AttachTCXEgress, tc.Shape)
	}, func(int) error { return nil })
}

// costUnit is the number of the kernel's time units in a nanosecond.
const costUnit = 1 << 24

// octetCost returns the cost of an octet at a rate, in the kernel's units: 8·10⁹/rate nanoseconds, rounded to
// nearest.
func octetCost(rate uint64) uint64 {
	if rate == 0 {
		return 0
	}
	rate = max(rate, MinRate)
	return max((8e9*costUnit+rate/2)/rate, 1)
}

// Set sets or replaces the order of a flow.
func (s *Shaper) Set(f Flow, o Order) error {
	flow := s.flows[f]
	if flow == nil {
		var err error
		if flow, err = s.takeSlot(); err != nil {
			return err
		}
	}
	var stop uint64
	if o.Stop > 0 {
		stop = uint64(bpf.Monotonic()) + uint64(min(o.Stop, MaxStop))
	}
	if err := s.writeOrder(f, flow.slot, octetCost(o.Rate), stop); err != nil {
		if s.flows[f] == nil {
			s.free = append(s.free, flow.slot)
		}
		return fmt.Errorf("shape: %w", err)
	}
	flow.leaving = false
	s.flows[f] = flow
	return nil
}

var errFull = errors.New("shape: too many flows")

// takeSlot takes a slot and resets its clock.
func (s *Shaper) takeSlot() (*orderedFlow, error) {
	if len(s.free) == 0 {
		s.removeForgotten(true)
	}
	if len(s.free) == 0 {
		return nil, errFull
	}
	slot := s.free[len(s.free)-1]
	if err := s.objects.Clocks.Put(slot, make([]byte, clockSize)); err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	s.free = s.free[:len(s.free)-1]
	return &orderedFlow{slot: slot}, nil
}

func (s *Shaper) writeOrder(f Flow, slot uint32, cost, stop uint64) error {
	var value [24]byte // struct order
	ne := binary.NativeEndian
	ne.PutUint64(value[:], cost)
	ne.PutUint64(value[8:], stop)
	ne.PutUint32(value[16:], slot)
	return s.objects.Orders.Put(f, value)
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (f Flow) MarshalBinary() ([]byte, error) {
	dst := f.Dst.As16()
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 20), dst[:]...), f.DestQP&0xFFFFFF), nil
}

// A clock is the pacing state of a flow in the kernel.
type clock struct {
	fraction                uint32
	next, responded, octets uint64 // ns since boot, and octets
}

const clockSize = 32

// readClock reads the clock of a slot.
func (s *Shaper) readClock(slot uint32) (c clock, err error) {
	var b [clockSize]byte
	if err = s.objects.Clocks.Lookup(slot, &b); err != nil {
		return c, err
	}
	ne := binary.NativeEndian
	return clock{ne.Uint32(b[4:]), ne.Uint64(b[8:]), ne.Uint64(b[16:]), ne.Uint64(b[24:])}, nil
}

// Forget removes the order of a flow. The flow continues at full rate after its waiting packets.
func (s *Shaper) Forget(f Flow) {
	flow := s.flows[f]
	if flow == nil || flow.leaving {
		return
	}
	_ = s.writeOrder(f, flow.slot, 0, 0)
	flow.leaving = true
	s.leaving = append(s.leaving, f)
	s.removeForgotten(false)
}

// removeForgotten removes forgotten flows without waiting packets, or all forgotten flows.
func (s *Shaper) removeForgotten(all bool) {
	now := uint64(bpf.Monotonic())
	s.leaving = slices.DeleteFunc(s.leaving, func(f Flow) bool {
		flow := s.flows[f]
		if flow == nil || !flow.leaving {
			return true
		}
		if c, err := s.readClock(flow.slot); !all && err == nil && c.next > now {
			return false
		}
		_ = s.objects.Orders.Delete(f)
		s.free = append(s.free, flow.slot)
		delete(s.flows, f)
		return true
	})
}

// Tick renews orders for another [Lease]. It must be called more often than that.
func (s *Shaper) Tick() error {
	s.removeForgotten(false)
	return s.objects.Lease.Put(uint32(0), uint64(bpf.Monotonic())+uint64(Lease))
}

// Sent calls f for each flow that has sent data since the last call, with the octets sent, including all headers.
func (s *Shaper) Sent(f func(flow Flow, octets uint64)) {
	for flow, of := range s.flows {
		c, err := s.readClock(of.slot)
		if err != nil || c.octets == of.octets {
			continue
		}
		octets := c.octets - of.octets
		of.octets = c.octets
		f(flow, octets)
	}
}

// Waits reports whether packets of a flow with an order wait for their time.
func (s *Shaper) Waits(f Flow) bool {
	of := s.flows[f]
	if of == nil {
		return false
	}
	c, err := s.readClock(of.slot)
	return err == nil && c.next > uint64(bpf.Monotonic())
}

// Counters returns the counters. Any goroutine may call it.
func (s *Shaper) Counters() (n Shaped) {
	counters := bpf.Counters{Map: s.objects.Counters}
	for i, field := range []*uint64{&n.Passed, &n.Delayed, &n.Stopped, &n.Capped} { // in the order of shape.bpf.c
		*field = counters.Sum(uint32(i))
	}
	return n
}

// Drain sets all flows to full rate, and waits until their packets have left, but at most for the timeout.
// Otherwise packets sent after Close could overtake them.
func (s *Shaper) Drain(timeout time.Duration) {
	for f := range s.flows {
		s.Forget(f)
	}
	for end := time.Now().Add(timeout); len(s.leaving) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		s.removeForgotten(false)
	}
}

// Close detaches the program.
func (s *Shaper) Close() error {
	o := &s.objects
	return errors.Join(s.links.Close(), o.Shape.Close(), o.Orders.Close(), o.Clocks.Close(), o.Lease.Close(),
		o.Counters.Close())
}
