//go:build !linux

// Package terminal implements a screen that refreshes. It exists on Linux only, as does live capture.
package terminal

import "io"

// A Terminal is the alternate screen of a terminal.
type Terminal struct{}

// Open returns nil.
func Open(io.Reader, io.Writer) *Terminal { return nil }

// Keys does nothing.
func (*Terminal) Keys(func(key byte)) {}

// Size returns 80 columns and 24 lines.
func (*Terminal) Size() (width, height int) { return 80, 24 }

// Width returns 0.
func Width(io.Writer) int { return 0 }

// Frame does nothing.
func (*Terminal) Frame([]byte) error { return nil }

// Close does nothing.
func (*Terminal) Close() {}
