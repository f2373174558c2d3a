//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
)

// hangup returns where SIGHUP comes.
func hangup() (c chan os.Signal, stop func()) {
	c = make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
