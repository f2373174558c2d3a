package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/rocecn/rocecn/netio"
)

// A rig is the connection of the tester with the device. The tests have one in memory, with a clock of its own.
type rig interface {
	now() time.Time
	// send sends a frame out of a port of the profile.
	send(port int, frame []byte) error
	// receive waits for frames until a time. It may return none earlier.
	receive(until time.Time) ([]arrival, error)
	// start runs a command of the operator, and returns the function that ends it. The error of a command that has
	// ended earlier is that of its exit status.
	start(command []string) (stop func() error, err error)
	// finish runs a command of the operator to its end, at most for a time. It calls a function meanwhile, which
	// receives for some milliseconds, until that returns false.
	finish(command []string, limit time.Duration, receive func() bool) error
	// lost returns the number of frames that arrived and that the tester could not receive.
	lost() uint64
	// late returns the longest time since begin by which the machine of the tester ran a program too late.
	late(begin time.Time) time.Duration
	close()
}

// An arrival is a frame that arrived at a port.
type arrival struct {
	port  int
	at    time.Time
	frame []byte
}

// networkRig is a rig of network interfaces.
type networkRig struct {
	poll    *netio.Poll
	sources []netio.Source
	sinks   []netio.Sink
	ctx     context.Context

	lateness lateness
	cancel   context.CancelFunc // ends its measurement
}

// openNetwork opens the interfaces of the profile, and fills in their hardware addresses.
func openNetwork(ctx context.Context, p *profile) (_ rig, err error) {
	r := &networkRig{ctx: ctx, lateness: lateness{now: time.Now, sleep: time.Sleep}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	for i := range p.Ports {
		port := &p.Ports[i]
		if port.MAC == (hardware{}) {
			card, err := net.InterfaceByName(port.Interface)
			if err != nil {
				return nil, fmt.Errorf("port[%d].interface: %q: %w", i, port.Interface, err)
			}
			if len(card.HardwareAddr) != len(port.MAC.mac) {
				return nil, fmt.Errorf("port[%d].interface: %q: want an Ethernet interface", i, port.Interface)
			}
			port.MAC.mac = mac(card.HardwareAddr)
		}
		in, err := netio.OpenPackets(netio.PacketConfig{Interface: port.Interface, Direction: netio.In})
		if err != nil {
			return nil, fmt.Errorf("port[%d].interface: %q: %w", i, port.Interface, err)
		}
		r.sources = append(r.sources, in)
		out, err := netio.OpenPort(port.Interface, nil)
		if err != nil {
			return nil, fmt.Errorf("port[%d].interface: %q: %w", i, port.Interface, err)
		}
		r.sinks = append(r.sinks, out)
	}
	if r.poll, err = netio.NewPoll(ctx, r.sources...); err != nil {
		return nil, err
	}
	ctx, r.cancel = context.WithCancel(ctx)
	go r.lateness.measure(ctx)
	return r, nil
}

func (r *networkRig) late(begin time.Time) time.Duration { return r.lateness.since(begin) }

// lost implements [rig].
func (r *networkRig) lost() (count uint64) {
	for _, s := range r.sources {
		count += s.Lost()
	}
	return count
}

func (r *networkRig) now() time.Time { return time.Now() }

func (r *networkRig) send(port int, frame []byte) error {
	if err := r.sinks[port].Send(frame); err != nil {
		return err
	}
	return r.sinks[port].Flush()
}

func (r *networkRig) receive(until time.Time) ([]arrival, error) {
	source, packets, err := r.poll.Next(max(0, time.Until(until)))
	switch {
	case errors.Is(err, netio.ErrAway):
		time.Sleep(min(10*time.Millisecond, max(0, time.Until(until))))
		return nil, nil
	case errors.Is(err, io.EOF) && r.ctx.Err() != nil:
		return nil, r.ctx.Err()
	case err != nil:
		return nil, err
	}
	all := make([]arrival, len(packets))
	for i := range packets {
		at := packets[i].Time
		if at.IsZero() {
			at = time.Now()
		}
		all[i] = arrival{source, at, slices.Clone(packets[i].Data)}
	}
	return all, nil
}

func (r *networkRig) close() {
	if r.cancel != nil {
		r.cancel()
	}
	if r.poll != nil {
		r.poll.Close()
	}
	for _, s := range r.sources {
		s.Close()
	}
	for _, s := range r.sinks {
		s.Close()
	}
}

// isMachineNetwork reports whether this thread is in the network namespace of process 1, or may be. Files of /proc/net
// have the same inode only in the same namespace, and unlike /proc/1/ns/net any process may ask for it.
func isMachineNetwork() bool {
	own, err := os.Stat("/proc/thread-self/net/dev")
	if err != nil {
		return true
	}
	first, err := os.Stat("/proc/1/net/dev")
	return err != nil || os.SameFile(own, first)
}
