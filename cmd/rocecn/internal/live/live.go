// Package live captures from a network interface: a [capture.Reader] that ends
// with an interrupt, and knows how many packets the kernel dropped.
package live

import (
	"errors"

	"github.com/rocecn/rocecn/capture"
)

// A Source is a live capture.
type Source interface {
	capture.Reader
	// Dropped returns how many packets the kernel dropped since the capture
	// began, because they were not read fast enough. It is called once, at the
	// end.
	Dropped() uint64
	Close() error
}

// What Open and Next return.
var (
	ErrNotHere     = errors.New("live capture works on Linux only; elsewhere, tcpdump -i INTERFACE -U -w - | rocecn inspect -")
	ErrNoInterface = errors.New("no such interface")
	ErrDown        = errors.New("the interface is down")
	ErrNoRights    = errors.New("no rights: live capture needs root, or the capability CAP_NET_RAW")
	ErrLinkType    = errors.New("carries neither Ethernet nor IP")
	ErrWentAway    = errors.New("the interface went down or away")
)
