//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSignals returns the channels that receive SIGHUP and SIGUSR1 until stop is called.
func watchSignals() (hup, usr1 chan os.Signal, stop func()) {
	hup, usr1 = make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	signal.Notify(usr1, syscall.SIGUSR1)
	return hup, usr1, func() { signal.Stop(hup); signal.Stop(usr1) }
}
