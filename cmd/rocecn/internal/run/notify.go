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
	to       *net.UnixConn
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
	n.to, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if us, wrong := strconv.Atoi(os.Getenv("WATCHDOG_USEC")); wrong == nil {
		n.watchdog = time.Duration(us) * time.Microsecond / 2
	}
	return n, err
}

// say tells one thing, if there is anybody.
func (n *notifier) say(state string) {
	if n.to != nil {
		n.to.Write([]byte(state)) // nobody to complain to
	}
}

// reloading says that the configuration is read again, and when.
func (n *notifier) reloading() {
	n.say("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(monotonic().Microseconds(), 10))
}

// feed lets systemd's watchdog hear that the agent works, if it does.
func (s *server) feed() {
	if s.turns(patience) {
		s.notify.say("WATCHDOG=1")
	}
}

// keepFed does that on its own until stop is called, for who waits for another program, which may take longer than the
// watchdog is patient.
func (s *server) keepFed() (stop func()) {
	if s.notify.watchdog <= 0 {
		return func() {}
	}
	beat, end := time.NewTicker(s.notify.watchdog/2), make(chan struct{})
	go func() {
		for {
			select {
			case <-beat.C:
				s.feed()
			case <-end:
				return
			}
		}
	}()
	return func() { beat.Stop(); close(end) }
}
