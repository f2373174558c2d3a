package run

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// The agent does not wait forever for a systemd that does not read. The kernel keeps a few notifications
// (net.unix.max_dgram_qlen).
func TestUnreadNotifications(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	socket := wiretest.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}))(t)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	s := server{notify: wiretest.Must(newNotifier())(t)}
	defer s.notify.socket.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 20 {
			s.feedWatchdog()
		}
		s.notify.sendState("STOPPING=1")
	}()
	wiretest.Await(t, "all notifications are sent or dropped", func() bool {
		select {
		case <-sent:
			return true
		default:
			return false
		}
	})
}
