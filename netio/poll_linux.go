package netio

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A waiter waits for file descriptors by poll(2) in a thread of its own, which
// wakes up sooner than a goroutine that Go's network poller wakes.
type waiter struct {
	fds     []unix.PollFd // of the sources; then of the event
	event   *os.File      // readable when the context has ended
	forgets func() bool   // the context
	timeout unix.Timespec
}

func (w *waiter) open(ctx context.Context, sources []Source) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	for _, s := range sources {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(s.FD()), Events: unix.POLLIN})
	}
	w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	w.event = os.NewFile(uintptr(fd), "event")
	w.forgets = context.AfterFunc(ctx, func() { w.event.Write([]byte{7: 1}) })
	return nil
}

// awake makes wait wait although the context has ended.
func (w *waiter) wakeUp() { w.forget(len(w.fds) - 1) }

// forget leaves a source out.
func (w *waiter) forget(source int) { w.fds[source].Fd = -1 }

// wait says in ready which sources may have something to read. It returns false
// when there is nothing of that kind within so long, nor the end of the context.
func (w *waiter) wait(ready []bool, limit time.Duration) (some bool, err error) {
	timeout := &w.timeout
	if *timeout = unix.NsecToTimespec(int64(limit)); limit < 0 {
		timeout = nil
	}
	n, err := unix.Ppoll(w.fds, timeout, nil)
	if err == unix.EINTR { // which may be a signal's for the runtime: look again
		return true, nil
	}
	for i := range ready {
		ready[i] = w.fds[i].Revents != 0
	}
	return n > 0, err
}

// Close releases the Poll's own resources.
func (w *waiter) Close() error {
	w.forgets()
	return w.event.Close()
}
