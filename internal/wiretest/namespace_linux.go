package wiretest

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Namespace moves the test, and the programs that it starts, into a network namespace of its own,
// in which only these commands of ip, one a line, have been run. It stays on its thread and ends
// with it. If that is not possible, the test ends as [Missing] describes.
func Namespace(t testing.TB, commands string) {
	t.Helper()
	ip := Tool(t, "ip")
	if os.Geteuid() != 0 {
		Missing(t, "network namespaces need root")
	}
	runtime.LockOSThread() // and never unlock
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		Missing(t, "no new network namespace: "+err.Error())
	}
	// Without IPv6 the only packets there are those of the test.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil &&
		!os.IsNotExist(err) {
		t.Fatal(err)
	}
	cmd := exec.Command(ip, "-batch", "-")
	cmd.Stdin = strings.NewReader(commands)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ip: %v\n%s\n%s", err, commands, out)
	}
	AwaitCarriers(t)
}

// Cable moves the test into a namespace with a pair of devices, near and far, and returns a socket
// at the near one.
func Cable(t testing.TB) *Socket {
	t.Helper()
	Namespace(t, `link add near type veth peer name far
		link set near up
		link set far up
		link set lo up`)
	near, err := net.InterfaceByName("near")
	if err != nil {
		t.Fatal(err)
	}
	return NewSocket(t, near.Index)
}

// AwaitCarriers waits until Linux reports state UP for every veth device of the test's namespace on
// which "ip link set … up" was called. Linux does so with a delay, of up to a second under load,
// and until then drops all packets that are sent; at first the state is UNKNOWN.
func AwaitCarriers(t testing.TB) {
	t.Helper()
	Await(t, "every end of a pair is up", func() bool {
		out, err := exec.Command("ip", "-oneline", "link", "show", "up", "type", "veth").CombinedOutput()
		if err != nil {
			t.Fatalf("ip: %v\n%s", err, out)
		}
		return strings.Count(string(out), "\n") == strings.Count(string(out), " state UP ")
	})
}

// A Socket sends frames at a device.
type Socket struct{ file *os.File }

// NewSocket opens a packet socket for the device with this number.
func NewSocket(t testing.TB, index int) *Socket {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &Socket{os.NewFile(uintptr(fd), "packet socket")}
	t.Cleanup(func() { s.file.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrLinklayer{Ifindex: index}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Send sends a frame.
func (s *Socket) Send(t testing.TB, frame []byte) {
	t.Helper()
	if _, err := s.file.Write(frame); err != nil {
		t.Fatal(err)
	}
}
