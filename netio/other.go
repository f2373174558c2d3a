//go:build !linux

package netio

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// OpenPackets returns errors.ErrUnsupported.
func OpenPackets(PacketConfig) (InterfaceSource, error) { return nil, errors.ErrUnsupported }

// ListenUDP returns errors.ErrUnsupported.
func ListenUDP(address string) (SocketSource, error) { return nil, errors.ErrUnsupported }

// ListenICMPv6 returns errors.ErrUnsupported.
func ListenICMPv6(address netip.Addr, types ...uint8) (SocketSource, error) {
	return nil, errors.ErrUnsupported
}

// OpenRaw returns errors.ErrUnsupported.
func OpenRaw(device string) (Sink, error) { return nil, errors.ErrUnsupported }

// OpenPort returns errors.ErrUnsupported.
func OpenPort(name string, neighbour net.HardwareAddr) (Sink, error) {
	return nil, errors.ErrUnsupported
}

// A waiter waits for file descriptors. There is none, since files need none.
type waiter struct{}

func (waiter) open(context.Context, []Source) error     { return nil }
func (waiter) wakeUp()                                  {}
func (waiter) forget(int)                               {}
func (waiter) wait([]bool, time.Duration) (bool, error) { return false, errors.ErrUnsupported }

// Close does nothing.
func (waiter) Close() error { return nil }
