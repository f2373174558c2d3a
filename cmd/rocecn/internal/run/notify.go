package run

import (
	"net"
	"os"
	"strconv"
	"time"
)

// A notifier sends the state of the agent to systemd (sd_notify(3)). Without systemd it does nothing.
type notifier struct {
	socket   *net.UnixConn
	watchdog time.Duration // interval of WATCHDOG=1; 0: never
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

// If systemd does not read, the agent continues without the notification. The watchdog is fed again soon.
const (
	stateTimeout    = 5 * time.Second
	watchdogTimeout = 100 * time.Millisecond
)

// sendState sends one state if systemd listens.
func (n *notifier) sendState(state string) { n.sendWithin(stateTimeout, state) }

// sendWithin sends one state, or drops it if systemd does not read for this time.
func (n *notifier) sendWithin(timeout time.Duration, state string) {
	if n.socket != nil {
		n.socket.SetWriteDeadline(time.Now().Add(timeout))
		n.socket.Write([]byte(state)) // an error has no remedy
	}
}

// sendReloading sends that a reload begins, with its time.
func (n *notifier) sendReloading() {
	n.sendState("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(readMonotonicClock().Microseconds(), 10))
}

// feedWatchdog feeds systemd's watchdog if all workers are alive.
func (s *server) feedWatchdog() {
	if s.areWorkersAlive(workerTimeout) {
		s.notify.sendWithin(watchdogTimeout, "WATCHDOG=1")
	}
}

// keepWatchdogFed feeds the watchdog in the background until stop is called, while the agent waits for another
// program for longer than the watchdog allows.
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
