//go:build !linux

package qdisc

import (
	"errors"

	"github.com/rocecn/rocecn/netio"
)

// A Source is a [netio.Source] of packets that wait in queues. It exists on Linux only.
type Source struct{ netio.Source }

// Open returns errors.ErrUnsupported.
func Open(Config) (*Source, error) { return nil, errors.ErrUnsupported }

// Watch returns errors.ErrUnsupported.
func (*Source) Watch([]Interface) error { return errors.ErrUnsupported }

// Given returns 0.
func (*Source) Given() uint64 { return 0 }

// Limited returns 0.
func (*Source) Limited() uint64 { return 0 }

// Unknown returns 0.
func (*Source) Unknown() uint64 { return 0 }

// Kind returns errors.ErrUnsupported.
func Kind(string) (string, error) { return "", errors.ErrUnsupported }
