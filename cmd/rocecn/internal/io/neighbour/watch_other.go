//go:build !linux

package neighbour

import (
	"errors"
	"time"
)

type system struct{}

// Open returns errors.ErrUnsupported.
func Open(device int) (*Watch, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Watch) Close() (waiting uint64) { return 0 }

// Poll returns nothing.
func (*Watch) Poll(time.Time) (f Fate, rerouted bool, err error) { return f, false, nil }
