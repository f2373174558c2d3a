package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Queue returns the program that watches queues.
func Queue() (*ebpf.CollectionSpec, error) { return loadSpec(queue) }

// Answer returns the programs of a congested node.
func Answer() (*ebpf.CollectionSpec, error) { return loadSpec(answer) }

// Translate returns the program that turns Fast CNPs into CNPs.
func Translate() (*ebpf.CollectionSpec, error) { return loadSpec(translate) }

// Shape returns the program that paces flows.
func Shape() (*ebpf.CollectionSpec, error) { return loadSpec(shape) }

func loadSpec(object []byte) (*ebpf.CollectionSpec, error) {
	return ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
}

// Set sets variables of a program before it is loaded.
func Set(s *ebpf.CollectionSpec, variables map[string]any) error {
	for name, value := range variables {
		v := s.Variables[name]
		if v == nil {
			return fmt.Errorf("bpf: no variable %s", name)
		}
		if err := v.Set(value); err != nil {
			return fmt.Errorf("bpf: variable %s: %w", name, err)
		}
	}
	return nil
}

// ExplainRights returns an error that matches fs.ErrPermission and names the capabilities if err means a missing
// right, else err.
func ExplainRights(err error, capabilities string) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) && !isVerifier(err) {
		return fmt.Errorf("%w: %s are needed", fs.ErrPermission, capabilities)
	}
	return err
}

func isVerifier(err error) bool {
	var v *ebpf.VerifierError
	return errors.As(err, &v)
}

// Namespace returns the inode number of the network namespace of the calling thread, as programs see it.
func Namespace() (uint32, error) {
	var s unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &s); err != nil {
		return 0, fmt.Errorf("bpf: network namespace: %w", err)
	}
	return uint32(s.Ino), nil
}

// Counters are the counters of a program: a per-CPU array of 64-bit numbers. Any goroutine may read them.
type Counters struct{ Map *ebpf.Map }

// Sum returns a counter, summed over all CPUs, or 0 if it cannot be read.
func (c Counters) Sum(what uint32) (sum uint64) {
	var byCPU []uint64
	if c.Map.Lookup(what, &byCPU) != nil {
		return 0
	}
	for _, n := range byCPU {
		sum += n
	}
	return sum
}
