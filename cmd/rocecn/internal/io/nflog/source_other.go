//go:build !linux

package nflog

import (
	"errors"

	"github.com/rocecn/rocecn/netio"
)

// ErrTaken reports that another program reads the group.
var ErrTaken = errors.New("another program reads this group")

// Open returns errors.ErrUnsupported.
func Open(group uint16) (netio.Source, error) { return nil, errors.ErrUnsupported }
