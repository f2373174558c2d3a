//go:build !linux

package psample

import (
	"errors"

	"github.com/rocecn/rocecn/netio"
)

// A Source is a [netio.Source] of the packets of a group. It exists on Linux only.
type Source struct{ netio.Source }

// ErrNoPSAMPLE reports that the kernel has no PSAMPLE.
var ErrNoPSAMPLE = errors.New("the kernel has no PSAMPLE")

// Open returns errors.ErrUnsupported.
func Open(group uint32) (*Source, error) { return nil, errors.ErrUnsupported }
