// Package live captures from a network interface: a [capture.Reader] that ends with an interrupt, and counts the
// packets dropped by the kernel.
package live

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/netio"
)

// Errors of Open, besides those of package netio.
var (
	ErrNotHere = errors.New("live capture works on Linux only; " +
		"elsewhere, tcpdump -i INTERFACE -U -w - | rocecn inspect -")
	ErrNoRights = errors.New("no rights: live capture needs root, or the capability CAP_NET_RAW")
	ErrRDMA     = errors.New("an RDMA device: hardware RoCE bypasses the kernel's interfaces; " +
		"capture it with tcpdump -i DEVICE -U -w - | rocecn inspect -, or on a mirror port of the switch")
)

// check is the interval in which a capture without packets checks whether its interface still exists.
const check = time.Second

// A Source is a live capture.
type Source struct {
	in     netio.InterfaceSource
	poll   *netio.Poll
	before func(octets int64) error
	octets int64
	batch  []netio.Packet // not handed out yet
}

// Open opens an interface, or all of them by the name any. Before Next waits, it calls beforeWait with the number of
// octets read so far. The end of ctx ends the capture after the packets that the kernel has by then.
func Open(ctx context.Context, name string, beforeWait func(octets int64) error) (*Source, error) {
	in, err := netio.OpenPackets(netio.PacketConfig{Interface: name, Blocks: true})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, ErrNotHere
	case errors.Is(err, fs.ErrPermission):
		return nil, ErrNoRights
	case err == netio.ErrNoInterface && isRDMA("/sys/class/infiniband", name):
		return nil, ErrRDMA
	case err != nil:
		return nil, err
	}
	poll, err := netio.NewPoll(ctx, in)
	if err != nil {
		in.Close()
		return nil, err
	}
	return &Source{in: in, poll: poll, before: beforeWait}, nil
}

// isRDMA reports whether a name is that of an RDMA device, which has an entry in a folder of the kernel.
func isRDMA(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return name != "" && !strings.ContainsAny(name, "/.") && err == nil
}

// Next is capture.Reader's.
func (s *Source) Next(r *capture.Record) (err error) {
	wait := time.Duration(0)
	for len(s.batch) == 0 {
		if _, s.batch, err = s.poll.Next(wait); err != nil {
			return err
		}
		if len(s.batch) > 0 {
			break
		}
		if wait > 0 && !s.in.IsUp() {
			return netio.ErrAway
		}
		if err := s.before(s.octets); err != nil {
			return err
		}
		wait = check
	}
	*r = s.batch[0].Record
	s.batch = s.batch[1:]
	s.octets += int64(len(r.Data))
	return nil
}

// Dropped returns the number of packets that the kernel dropped since the capture began, because they were not read
// fast enough.
func (s *Source) Dropped() uint64 { return s.in.Lost() }

// Close ends the capture. No Next may be in progress.
func (s *Source) Close() error { return errors.Join(s.poll.Close(), s.in.Close()) }
