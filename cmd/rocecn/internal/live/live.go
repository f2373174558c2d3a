// Package live captures from a network interface: a [capture.Reader] that ends
// with an interrupt, and knows how many packets the kernel dropped.
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

// What Open returns beside the errors of package netio.
var (
	ErrNotHere = errors.New("live capture works on Linux only; " +
		"elsewhere, tcpdump -i INTERFACE -U -w - | rocecn inspect -")
	ErrNoRights = errors.New("no rights: live capture needs root, or the capability CAP_NET_RAW")
	ErrRDMA     = errors.New("an RDMA device: hardware RoCE bypasses the kernel's interfaces; " +
		"capture it with tcpdump -i DEVICE -U -w - | rocecn inspect -, or on a mirror port of the switch")
)

// check is how often a capture without packets looks whether its interface is
// still there.
const check = time.Second

// A Source is a live capture.
type Source struct {
	in     *netio.Packets
	poll   *netio.Poll
	before func(octets int64) error
	octets int64
	batch  []netio.Packet // not handed out yet
}

// Open opens an interface, or all of them by the name any. Whenever Next is about
// to wait, it calls beforeWait with how many octets it has read so far. The end of
// ctx is the end of the capture: what the kernel has by then is read.
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

// isRDMA says whether a name is that of an RDMA device, for which the kernel has
// an entry in a folder.
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
		if wait > 0 && !s.in.Up() {
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

// Dropped returns how many packets the kernel dropped since the capture began,
// because they were not read fast enough.
func (s *Source) Dropped() uint64 { return s.in.Lost() }

// Close ends the capture, which nobody may be reading.
func (s *Source) Close() error { return errors.Join(s.poll.Close(), s.in.Close()) }
