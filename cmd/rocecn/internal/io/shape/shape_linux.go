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

// A Shaper slows flows down. It needs CAP_BPF and CAP_NET_ADMIN. It ends with Close, and with the process; before Linux
// 6.6 a process that crashed leaves a filter behind, whose orders end with their lease. It is for one goroutine, but
// for Counters.
type Shaper struct {
	objects struct {
		Shape    *ebpf.Program `ebpf:"shape"`
		Orders   *ebpf.Map     `ebpf:"orders"`
		Clocks   *ebpf.Map     `ebpf:"clocks"`
		Lease    *ebpf.Map     `ebpf:"lease"`
		Counters *ebpf.Map     `ebpf:"counters"`
	}
	links   map[int]io.Closer // by the number of the interface
	flows   map[Flow]*orderedFlow
	free    []uint32 // slots
	leaving []Flow   // that are forgotten, and have packets that wait
}

// A orderedFlow flow is one that has an order.
type orderedFlow struct {
	slot    uint32
	octets  uint64 // that Sent has told of
	leaving bool
}

// Open begins to slow flows down that get an order. Interfaces that are not there it leaves out.
func Open(c Config) (*Shaper, error) {
	s := &Shaper{links: map[int]io.Closer{}, flows: map[Flow]*orderedFlow{}}
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

// Try says why a Shaper cannot be opened. It leaves interfaces alone.
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
	slots := uint32(2 * max(c.MaxFlows, 1)) // those that leave have one, too
	spec.Maps["orders"].MaxEntries, spec.Maps["clocks"].MaxEntries = slots, slots
	for slot := range slots {
		s.free = append(s.free, slots-1-slot)
	}
	return spec.LoadAndAssign(&s.objects, nil)
}

// Watch makes these the interfaces, instead of those before: those that stay do not notice, and those that are not
// there are left out. An interface that was deleted and made again has another number, and must be watched again.
func (s *Shaper) Watch(interfaces []string) (wrong error) {
	var now []int
	for _, name := range interfaces {
		i, err := net.InterfaceByName(name)
		if err != nil {
			continue
		}
		now = append(now, i.Index)
		if s.links[i.Index] != nil {
			continue
		}
		l, err := tc.Attach(name, s.objects.Shape, ebpf.AttachTCXEgress, tc.Shape)
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		s.links[i.Index] = l
	}
	for index, l := range s.links {
		if !slices.Contains(now, index) {
			delete(s.links, index)
			_ = l.Close() // with the interface it is gone already
		}
	}
	return wrong
}

// fraction is in how many parts of a nanosecond the kernel counts.
const costUnit = 1 << 24

// octetCost returns what an octet costs at a rate, in those: 8·10⁹/rate, rounded to the nearest.
func octetCost(rate uint64) uint64 {
	if rate == 0 {
		return 0
	}
	rate = max(rate, MinRate)
	return max((8e9*costUnit+rate/2)/rate, 1)
}

// Set gives a flow an order, in place of the one that it has.
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
	if err := s.putOrder(f, flow.slot, octetCost(o.Rate), stop); err != nil {
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

// takeSlot takes a slot, with a clock of its own.
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

func (s *Shaper) putOrder(f Flow, slot uint32, cost, stop uint64) error {
	var value [24]byte // struct order
	ne := binary.NativeEndian
	ne.PutUint64(value[:], cost)
	ne.PutUint64(value[8:], stop)
	ne.PutUint32(value[16:], slot)
	return s.objects.Orders.Put(f, value)
}

// MarshalBinary returns the flow as the kernel has it.
func (f Flow) MarshalBinary() ([]byte, error) {
	dst := f.Dst.As16()
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 20), dst[:]...), f.DestQP&0xFFFFFF), nil
}

// A clock is that of a flow in the kernel.
type clock struct {
	fraction                uint32
	next, responded, octets uint64 // in nanoseconds since the start, and octets
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

// Forget takes a flow's order back. It goes at full rate, behind its packets that wait.
func (s *Shaper) Forget(f Flow) {
	flow := s.flows[f]
	if flow == nil || flow.leaving {
		return
	}
	_ = s.putOrder(f, flow.slot, 0, 0)
	flow.leaving = true
	s.leaving = append(s.leaving, f)
	s.removeForgotten(false)
}

// removeForgotten removes flows that are forgotten, once none of their packets waits, or all of them.
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

// Tick lets orders count for another [Lease], and must be called more often than that.
func (s *Shaper) Tick() error {
	s.removeForgotten(false)
	return s.objects.Lease.Put(uint32(0), uint64(bpf.Monotonic())+uint64(Lease))
}

// Sent calls f with the flows that have sent data since it was called last, and how many octets, with all headers.
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

// Counters returns what has been counted. Any goroutine may call it.
func (s *Shaper) Counters() (n Shaped) {
	counters := bpf.Counters{Map: s.objects.Counters}
	for i, field := range []*uint64{&n.Passed, &n.Delayed, &n.Stopped, &n.Capped} { // in the order of shape.bpf.c
		*field = counters.Sum(uint32(i))
	}
	return n
}

// Drain lets all flows go at full rate, and waits until what waits has left, but no longer than patience: packets that
// are sent after Close must not overtake them.
func (s *Shaper) Drain(patience time.Duration) {
	for f := range s.flows {
		s.Forget(f)
	}
	for end := time.Now().Add(patience); len(s.leaving) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		s.removeForgotten(false)
	}
}

// Close ends it: packets go as if it had not been.
func (s *Shaper) Close() (err error) {
	for _, l := range s.links {
		err = errors.Join(err, l.Close())
	}
	s.links = nil
	o := &s.objects
	return errors.Join(err, o.Shape.Close(), o.Orders.Close(), o.Clocks.Close(), o.Lease.Close(), o.Counters.Close())
}
