//go:build !linux

package fastpath

import (
	"errors"
	"net/netip"
)

// An Answerer is a congested node in the kernel, on Linux.
type Answerer struct{}

// OpenAnswerer returns errors.ErrUnsupported.
func OpenAnswerer(AnswererConfig) (*Answerer, error) { return nil, errors.ErrUnsupported }

// SetSender returns errors.ErrUnsupported.
func (*Answerer) SetSender(netip.Prefix, Policy) error { return errors.ErrUnsupported }

// Counters returns zeros.
func (*Answerer) Counters() Answered { return Answered{} }

// Close does nothing.
func (*Answerer) Close() error { return nil }
