//go:build !linux

package mapped

import "os"

// Map returns an error.
func Map(*os.File, int64) (*File, error) { return nil, errUnsupported }

func (f *File) size() (int64, error) { return 0, errUnsupported }

// Close does nothing.
func (f *File) Close() error { return nil }

func discard([]byte) {}
