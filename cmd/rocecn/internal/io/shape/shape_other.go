//go:build !linux

package shape

import (
	"errors"
	"time"
)

// A Shaper paces flows. It exists on Linux only.
type Shaper struct{}

// Open returns errors.ErrUnsupported.
func Open(Config) (*Shaper, error) { return nil, errors.ErrUnsupported }

// Try returns errors.ErrUnsupported.
func Try(Config) error { return errors.ErrUnsupported }

// CheckFQ returns errors.ErrUnsupported.
func CheckFQ(string) (root string, waits bool, err error) { return "", false, errors.ErrUnsupported }

// TryFQ returns errors.ErrUnsupported.
func TryFQ(string) error { return errors.ErrUnsupported }

// InstallFQ returns errors.ErrUnsupported.
func InstallFQ(string) (remove func() error, err error) { return nil, errors.ErrUnsupported }

// Watch returns errors.ErrUnsupported.
func (*Shaper) Watch([]string) error { return errors.ErrUnsupported }

// Set returns errors.ErrUnsupported.
func (*Shaper) Set(Flow, Order) error { return errors.ErrUnsupported }

// Forget does nothing.
func (*Shaper) Forget(Flow) {}

// Tick returns errors.ErrUnsupported.
func (*Shaper) Tick() error { return errors.ErrUnsupported }

// Waits returns false.
func (*Shaper) Waits(Flow) bool { return false }

// Sent does nothing.
func (*Shaper) Sent(func(flow Flow, octets uint64)) {}

// Counters returns zeros.
func (*Shaper) Counters() Shaped { return Shaped{} }

// Drain does nothing.
func (*Shaper) Drain(time.Duration) {}

// Close does nothing.
func (*Shaper) Close() error { return nil }
