//go:build !linux

package nftables

import "errors"

// A Ruleset is empty on this system.
type Ruleset struct{}

// Open returns errors.ErrUnsupported.
func Open() (*Ruleset, error) { return nil, errors.ErrUnsupported }

// Generation returns errors.ErrUnsupported.
func (*Ruleset) Generation() (uint32, error) { return 0, errors.ErrUnsupported }

// Counters returns errors.ErrUnsupported.
func (*Ruleset) Counters(string) (map[string]uint64, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Ruleset) Close() error { return nil }
