//go:build !linux

// Package terminal is a screen that refreshes: on Linux only, where live capture is.
package terminal

import "io"

// A Terminal is turned to its other screen, until it is closed.
type Terminal struct{}

// Open returns nil: there is none.
func Open(io.Reader, io.Writer) *Terminal { return nil }

// Keys hands on keys.
func (*Terminal) Keys(func(key byte)) {}

// Size returns how many columns and lines there are.
func (*Terminal) Size() (width, height int) { return 80, 24 }

// Frame shows lines in place of those before.
func (*Terminal) Frame([]byte) error { return nil }

// Close turns the terminal back.
func (*Terminal) Close() {}
