package wiretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const inside = "ROCECN_TEST_NAMESPACE"

// OwnNetwork runs the tests of a package in a network namespace of their own,
// in which [Home] stands for them. It is all that TestMain does. The namespace
// ends with the process.
func OwnNetwork(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		os.Exit(code)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// The thread of a [Host] or of a test in a [Namespace] ends, which the main thread cannot: keep both off it.
func init() { runtime.LockOSThread() }

// A Host is a network namespace. It has neither name nor file and ends with its thread, together
// with its devices and programs: nothing is left after the test, whether it passes or fails.
type Host struct {
	Name string

	path  string // of the namespace
	jobs  chan func()
	ended chan struct{} // closed when the thread has ended
}

// NewHost returns a host that ends with the test.
func NewHost(t testing.TB, name string) *Host {
	t.Helper()
	return newHost(t, name, syscall.CLONE_NEWNET)
}

// Home returns the host in which the test itself is, see [OwnNetwork].
func Home(t testing.TB) *Host {
	t.Helper()
	return newHost(t, "home", 0)
}

func newHost(t testing.TB, name string, flags int) *Host {
	t.Helper()
	Tool(t, "ip")
	if os.Geteuid() != 0 {
		Missing(t, "network namespaces need root")
	}
	h := &Host{Name: name, jobs: make(chan func()), ended: make(chan struct{})}
	t.Cleanup(func() { close(h.jobs) })
	started := make(chan error)
	go func() {
		defer close(h.ended)
		runtime.LockOSThread() // and never unlock: the thread ends with this function
		h.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), syscall.Gettid())
		started <- syscall.Unshare(flags)
		for job := range h.jobs {
			job()
		}
	}()
	if err := <-started; err != nil {
		Missing(t, "no new network namespace: "+err.Error())
	}
	h.Do(t, func() error { // no delay of a second for duplicate address detection
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0)
	})
	h.Run(t, "", "ip", "link", "set", "lo", "up")
	return h
}

// Do runs f in the namespace. A socket that f opens stays in it. If f fails the test, as [Await] does, the host ends.
func (h *Host) Do(t testing.TB, f func() error) {
	t.Helper()
	if err := h.Try(f); err != nil {
		t.Fatalf("%s: %v", h.Name, err)
	}
}

// Try is Do for functions that may fail.
func (h *Host) Try(f func() error) error {
	done := make(chan error, 1)
	select {
	case h.jobs <- func() { done <- f() }:
	case <-h.ended:
		return errHostEnded
	}
	select {
	case err := <-done:
		return err
	case <-h.ended: // f has ended its goroutine with t.FailNow
		return errHostEnded
	}
}

var errHostEnded = errors.New("the host has ended: a function that ran in it failed the test")

// On opens something in the namespace of a host until the test ends.
func On[T io.Closer](t testing.TB, h *Host, open func() (T, error)) (opened T) {
	t.Helper()
	h.Do(t, func() (err error) {
		opened, err = open()
		return err
	})
	t.Cleanup(func() { opened.Close() })
	return opened
}

// Open is [On] with an argument for the function.
func Open[T io.Closer, C any](t testing.TB, h *Host, open func(C) (T, error), c C) T {
	t.Helper()
	return On(t, h, func() (T, error) { return open(c) })
}

// AwaitLinks is [AwaitCarriers] for the namespaces of these hosts.
func AwaitLinks(t testing.TB, hosts ...*Host) {
	t.Helper()
	for _, h := range hosts {
		h.Do(t, func() error { AwaitCarriers(t); return nil })
	}
}

// TryRun runs a program in the namespace and returns its output.
func (h *Host) TryRun(stdin, program string, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	err = h.Try(func() error {
		b, err := cmd.CombinedOutput()
		output = string(b)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", cmd, err, stdin, output)
	}
	return output, err
}

// Run is TryRun for programs that must not fail.
func (h *Host) Run(t testing.TB, stdin, program string, args ...string) string {
	t.Helper()
	output, err := h.TryRun(stdin, program, args...)
	if err != nil {
		t.Fatalf("%s: %v", h.Name, err)
	}
	return output
}

// Start starts a program that runs until the test ends, and returns its process. Its output is shown when the test
// has failed.
func (h *Host) Start(t testing.TB, program string, args ...string) *os.Process {
	t.Helper()
	var output bytes.Buffer // of both: package exec writes one at a time to the same writer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.Do(t, cmd.Start)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		if t.Failed() {
			t.Logf("%s: %s\n%s", h.Name, cmd, &output)
		}
	})
	return cmd.Process
}

// An End is one end of a [Link]: a device of a host and its addresses, with
// their prefix lengths.
type End struct {
	Host      *Host
	Device    string
	Addresses []string
}

// Link joins two hosts by a pair of devices until the test ends.
func Link(t testing.TB, a, b End) {
	t.Helper()
	// Linux may notice the state of the peer a second late if both devices have the same index.
	n := devices.Add(2) + 100
	a.Host.Run(t, fmt.Sprintf("link add %s index %d type veth peer name %s index %d netns %s\n", a.Device, n, b.Device,
		n+1, b.Host.path), "ip", "-batch", "-")
	t.Cleanup(func() { a.Host.Run(t, "", "ip", "link", "del", a.Device) })
	for _, e := range []End{a, b} {
		for _, addr := range e.Addresses {
			args := []string{"addr", "add", addr, "dev", e.Device}
			if strings.Contains(addr, ":") {
				args = append(args, "nodad") // usable from the start, not tentative until the peer is up
			}
			e.Host.Run(t, "", "ip", args...)
		}
		e.Host.Run(t, "", "ip", "link", "set", e.Device, "up")
	}
}

var devices atomic.Int32
