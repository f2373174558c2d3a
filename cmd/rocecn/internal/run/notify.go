package run

import (
	"net"
	"os"
	"strconv"
	"time"
)

// A notifier tells systemd how the agent is (sd_notify(3)). Without systemd it tells
// nobody.
type notifier struct {
	socket   *net.UnixConn
	watchdog time.Duration // how often it wants to hear; 0: never
}

func newNotifier() (n notifier, err error) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return n, nil
	}
	if name[0] == '@' {
		name = "\x00" + name[1:]
	}
	n.socket, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if us, wrong := strconv.Atoi(os.Getenv("WATCHDOG_USEC")); wrong == nil {
		n.watchdog = time.Duration(us) * time.Microsecond / 2
	}
	return n, err
}

// sendState tells one thing, if there is anybody.
func (n *notifier) sendState(state string) {
	if n.socket != nil {
		n.socket.Write([]byte(state)) // nobody to complain to
	}
}

// sendReloading says that the configuration is read again, and when.
func (n *notifier) sendReloading() {
	n.sendState("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(readMonotonicClock().Microseconds(), 10))
}

// feedWatchdog lets systemd's watchdog hear that the agent works, if it does.
func (s *server) feedWatchdog() {
	if s.areWorkersAlive(workerTimeout) {
		s.notify.sendState("WATCHDOG=1")
	}
}

// keepWatchdogFed does that on its own until stop is called, for who waits for another program, which may take longer than the
// watchdog is patient.
func (s *server) keepWatchdogFed() (stop func()) {
	if s.notify.watchdog <= 0 {
		return func() {}
	}
	beat, end := time.NewTicker(s.notify.watchdog/2), make(chan struct{})
	go func() {
		for {
			select {
			case <-beat.C:
				s.feedWatchdog()
			case <-end:
				return
			}
		}
	}()
	return func() { beat.Stop(); close(end) }
}
