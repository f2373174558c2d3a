// Package cli holds what the commands share: their end by a closed pipe and by
// an interrupt.
package cli

import (
	"errors"
	"io"
	"syscall"
)

// Closed says that err comes of writing to a pipe that nobody reads any more,
// as behind head: who read there has seen enough, and the command ends quietly.
func Closed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
