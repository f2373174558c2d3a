//go:build !linux

package psample

import (
	"errors"

	"github.com/rocecn/rocecn/netio"
)

// ErrNoPSAMPLE reports that the kernel has no PSAMPLE.
var ErrNoPSAMPLE = errors.New("the kernel has no PSAMPLE")

// Open returns errors.ErrUnsupported.
func Open(group uint32) (netio.Source, error) { return nil, errors.ErrUnsupported }
