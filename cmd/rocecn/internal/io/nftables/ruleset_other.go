//go:build !linux

package nftables

import "errors"

// A Ruleset is nothing here.
type Ruleset struct{}

// Open returns errors.ErrUnsupported.
func Open() (*Ruleset, error) { return nil, errors.ErrUnsupported }

// Generation tells nothing.
func (*Ruleset) Generation() (uint32, error) { return 0, errors.ErrUnsupported }

// Close does nothing.
func (*Ruleset) Close() error { return nil }
