//go:build !linux

package netio

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// Packets is a [Source] of the packets of an interface, on Linux.
type Packets struct{ Source }

// OpenPackets returns errors.ErrUnsupported.
func OpenPackets(PacketConfig) (*Packets, error) { return nil, errors.ErrUnsupported }

// IsUp returns false.
func (*Packets) IsUp() bool { return false }

// Datagrams is a [Source] of the datagrams that a UDP or ICMPv6 socket receives, on Linux.
type Datagrams struct{ Source }

// ListenUDP returns errors.ErrUnsupported.
func ListenUDP(address string) (*Datagrams, error) { return nil, errors.ErrUnsupported }

// ListenICMPv6 returns errors.ErrUnsupported.
func ListenICMPv6(address netip.Addr, types ...uint8) (*Datagrams, error) {
	return nil, errors.ErrUnsupported
}

// Local returns no address.
func (*Datagrams) Local() netip.AddrPort { return netip.AddrPort{} }

// OpenRaw returns errors.ErrUnsupported.
func OpenRaw(device string) (Sink, error) { return nil, errors.ErrUnsupported }

// OpenPort returns errors.ErrUnsupported.
func OpenPort(name string, neighbour net.HardwareAddr) (Sink, error) {
	return nil, errors.ErrUnsupported
}

// A waiter waits for file descriptors. There is none, since files need none.
type waiter struct{}

func (waiter) open(context.Context, []Source) error { return nil }
func (waiter) wakeUp()                              {}
func (waiter) forget(int)                           {}
func (waiter) wait([]bool, time.Duration) (bool, error) {
	return false, errors.ErrUnsupported
}

// Close does nothing.
func (waiter) Close() error { return nil }
