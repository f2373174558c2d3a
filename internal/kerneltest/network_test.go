//go:build linux

// Package kerneltest holds the codecs against the Linux kernel: a transit node
// that records IOAM data, a host that does not know the Fast CNP options, a
// UDP stack that judges checksums and lengths, the ingress of tunnels.
package kerneltest

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// A host's thread ends, but the main thread does not: keep tests off it.
func init() { runtime.LockOSThread() }

// A host is a network namespace, that of a thread of its own. It has neither
// name nor file and ends with the thread, its devices with it: nothing stays
// behind, whatever becomes of the test.
type host struct {
	name string
	path string // of the namespace
	jobs chan func()
}

func newHost(t *testing.T, name string) *host {
	t.Helper()
	wiretest.Tool(t, "ip")
	if os.Geteuid() != 0 {
		wiretest.Missing(t, "network namespaces need root")
	}
	h := &host{name: name, jobs: make(chan func())}
	t.Cleanup(func() { close(h.jobs) })
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with this function
		h.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), syscall.Gettid())
		started <- syscall.Unshare(syscall.CLONE_NEWNET)
		for job := range h.jobs {
			job()
		}
	}()
	if err := <-started; err != nil {
		wiretest.Missing(t, "no new network namespace: "+err.Error())
	}
	h.set(t, "ipv6/conf/default/accept_dad", 0) // no second of asking who else has an address
	h.ip(t, "link set lo up")
	return h
}

// try runs f in the namespace. A socket that f opens stays in it.
func (h *host) try(f func() error) error {
	done := make(chan error)
	h.jobs <- func() { done <- f() }
	return <-done
}

// do is try for what must not fail.
func (h *host) do(t *testing.T, f func() error) {
	t.Helper()
	if err := h.try(f); err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
}

// tryRun runs a program in the namespace and returns what it prints.
func (h *host) tryRun(stdin, program string, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	err = h.try(func() error {
		b, err := cmd.CombinedOutput()
		output = string(b)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", cmd, err, stdin, output)
	}
	return output, err
}

// tryIP runs commands of ip, one a line.
func (h *host) tryIP(commands string) error {
	_, err := h.tryRun(commands, "ip", "-batch", "-")
	return err
}

// ip is tryIP for what must not fail.
func (h *host) ip(t *testing.T, commands string) {
	t.Helper()
	if err := h.tryIP(commands); err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
}

// set sets a variable below /proc/sys/net.
func (h *host) set(t *testing.T, variable string, value uint64) {
	t.Helper()
	h.do(t, func() error { return os.WriteFile("/proc/sys/net/"+variable, fmt.Appendln(nil, value), 0) })
}

// connect joins two hosts by a pair of devices. Their numbers differ: of a pair
// with the same number on both hosts, Linux may take a second to notice that the
// other end is up.
func connect(t *testing.T, a *host, deviceA string, b *host, deviceB string) {
	t.Helper()
	number := devices.Add(2)
	a.ip(t, fmt.Sprintf("link add %s index %d type veth peer name %s index %d netns %s", deviceA, number, deviceB, number+1, b.path))
	a.ip(t, "link set "+deviceA+" up")
	b.ip(t, "link set "+deviceB+" up")
	a.awaitAddress(t, deviceA, "fe80:")
	b.awaitAddress(t, deviceB, "fe80:")
}

var devices atomic.Int32 // 1 is lo on every host

// address gives a device an address.
func (h *host) address(t *testing.T, device, prefix string) {
	t.Helper()
	h.ip(t, "addr add "+prefix+" dev "+device)
	addr, _, _ := strings.Cut(prefix, "/")
	h.awaitAddress(t, device, addr+" ")
}

// awaitAddress waits until an address serves. Its route, which Linux makes in
// its own time, is the last thing that an IPv6 address needs.
func (h *host) awaitAddress(t *testing.T, device, addr string) {
	t.Helper()
	family := "-6"
	if !strings.Contains(addr, ":") {
		family = "-4"
	}
	await(t, h.name+" "+device+" has "+addr, func() bool {
		routes, err := h.tryRun("", "ip", family, "route", "show", "table", "local", "dev", device)
		require.NoError(t, err)
		return strings.Contains(routes, "local "+addr)
	})
}

// await asks again and again until the answer is yes.
func await(t *testing.T, what string, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ask(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// listen opens an ordinary UDP socket.
func (h *host) listen(t *testing.T, addr netip.Addr, port uint16) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	h.do(t, func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// A tap sends and receives frames at a device of a host.
type tap struct {
	name string
	mac  net.HardwareAddr
	file *os.File
}

func (h *host) tap(t *testing.T, device string) *tap {
	t.Helper()
	p := &tap{name: h.name + " " + device}
	h.do(t, func() error {
		d, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		p.mac = d.HardwareAddr
		fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		p.file = os.NewFile(uintptr(fd), p.name)
		everything := binary.NativeEndian.Uint16([]byte{0, syscall.ETH_P_ALL})
		return syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: everything, Ifindex: d.Index})
	})
	t.Cleanup(func() { p.file.Close() })
	return p
}

// send sends a frame.
func (p *tap) send(t *testing.T, frame []byte) {
	t.Helper()
	_, err := p.file.Write(frame)
	require.NoError(t, err, p.name)
}

// sendIP sends an IP packet to the device of another tap.
func (p *tap) sendIP(t *testing.T, to *tap, ip []byte) {
	t.Helper()
	p.send(t, ethernet(to.mac, p.mac, ip))
}

// ethernet puts an IP packet into a frame, behind these VLAN tags.
func ethernet(dst, src net.HardwareAddr, ip []byte, tags ...uint16) []byte {
	b := slices.Concat(dst, src)
	for _, half := range tags {
		b = binary.BigEndian.AppendUint16(b, half)
	}
	if ip[0]>>4 == 4 {
		b = binary.BigEndian.AppendUint16(b, syscall.ETH_P_IP)
	} else {
		b = binary.BigEndian.AppendUint16(b, syscall.ETH_P_IPV6)
	}
	return append(b, ip...)
}

// receive returns the next frame that is wanted.
func (p *tap) receive(t *testing.T, what string, wanted func(frame []byte) bool) []byte {
	t.Helper()
	require.NoError(t, p.file.SetReadDeadline(time.Now().Add(patience)))
	b := make([]byte, 1<<16)
	for others := 0; ; others++ {
		n, err := p.file.Read(b)
		if err != nil {
			t.Fatalf("%s: no %s, but %d other frames: %v", p.name, what, others, err)
		}
		if wanted(b[:n]) {
			return b[:n:n]
		}
	}
}
