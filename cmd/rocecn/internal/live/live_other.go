//go:build !linux

package live

import "context"

// Open says that there is no live capture here.
func Open(context.Context, string, func(octets int64) error) (Source, error) {
	return nil, ErrNotHere
}
