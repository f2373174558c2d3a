//go:build !linux

package nflog

import (
	"errors"

	"github.com/rocecn/rocecn/netio"
)

// A Source is a [netio.Source] of packets that nftables rules log to one group. It exists on Linux only.
type Source struct{ netio.Source }

// ErrTaken reports that another program reads the group.
var ErrTaken = errors.New("another program reads this group")

// Open returns errors.ErrUnsupported.
func Open(group uint16) (*Source, error) { return nil, errors.ErrUnsupported }
