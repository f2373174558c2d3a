//go:build linux

// Package kerneltest tests the codecs against the Linux kernel: a transit node that records IOAM data, a host that
// does not know the Fast CNP options, a UDP stack that checks checksums and lengths, and the ingress of tunnels.
package kerneltest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// packetTimeout is the time limit for a packet that must arrive.
const packetTimeout = 30 * time.Second

// TestMain runs the tests on one CPU. Linux delivers a frame to the other end of a cable on the sending CPU, so
// frames of two CPUs may arrive in any order. (The kernel's own frames may leave on any CPU, and take frames that
// wait in a qdisc with them.)
func TestMain(m *testing.M) {
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		panic(err)
	}
	if cpus.Count() > 1 {
		first := 0
		for !cpus.IsSet(first) {
			first++
		}
		cpus.Zero()
		cpus.Set(first)
		// For this thread, on which wiretest keeps TestMain; exec keeps the setting.
		if err := unix.SchedSetaffinity(0, &cpus); err != nil {
			panic(err)
		}
		panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	m.Run()
}

// A host is a network namespace.
type host struct{ *wiretest.Host }

func newHost(t *testing.T, name string) *host {
	t.Helper()
	return &host{wiretest.NewHost(t, name)}
}

// tryIP runs commands of ip, one per line.
func (h *host) tryIP(commands string) error {
	_, err := h.TryRun(commands, "ip", "-batch", "-")
	return err
}

// ip is like tryIP, and fails the test on error.
func (h *host) ip(t *testing.T, commands string) {
	t.Helper()
	h.Run(t, commands, "ip", "-batch", "-")
}

// set sets a variable below /proc/sys/net.
func (h *host) set(t *testing.T, variable string, value uint64) {
	t.Helper()
	h.Do(t, func() error { return os.WriteFile("/proc/sys/net/"+variable, fmt.Appendln(nil, value), 0) })
}

// connect connects two hosts by a pair of devices.
func connect(t *testing.T, a *host, deviceA string, b *host, deviceB string) {
	t.Helper()
	wiretest.Link(t, wiretest.End{Host: a.Host, Device: deviceA}, wiretest.End{Host: b.Host, Device: deviceB})
	a.awaitAddress(t, deviceA, "fe80:")
	b.awaitAddress(t, deviceB, "fe80:")
}

// address assigns an address to a device.
func (h *host) address(t *testing.T, device, prefix string) {
	t.Helper()
	h.ip(t, "addr add "+prefix+" dev "+device)
	addr, _, _ := strings.Cut(prefix, "/")
	h.awaitAddress(t, device, addr+" ")
}

// awaitAddress waits until an address is usable. Its route, which Linux adds asynchronously, is the last thing
// that an IPv6 address needs.
func (h *host) awaitAddress(t *testing.T, device, addr string) {
	t.Helper()
	family := "-6"
	if !strings.Contains(addr, ":") {
		family = "-4"
	}
	wiretest.Await(t, h.Name+" "+device+" has "+addr, func() bool {
		routes := wiretest.Must(h.TryRun("", "ip", family, "route", "show", "table", "local", "dev", device))(t)
		return strings.Contains(routes, "local "+addr)
	})
}

// backlog returns the number of octets that wait in the token bucket of a device.
func (h *host) backlog(t *testing.T, device string) uint64 {
	t.Helper()
	out := wiretest.Must(h.TryRun("", "tc", "-s", "-j", "qdisc", "show", "dev", device))(t)
	var qdiscs []struct {
		Kind    string `json:"kind"`
		Backlog uint64 `json:"backlog"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &qdiscs), out)
	require.NotEmpty(t, qdiscs, out)
	require.Equal(t, "tbf", qdiscs[0].Kind, out)
	return qdiscs[0].Backlog
}

// listen opens an ordinary UDP socket.
func (h *host) listen(t *testing.T, addr netip.Addr, port uint16) *net.UDPConn {
	t.Helper()
	return wiretest.On(t, h.Host, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
	})
}

// A tap sends and receives frames at a device of a host.
type tap struct {
	name string
	mac  net.HardwareAddr
	file *os.File
}

// tap opens a tap for every frame of the device, or for those that the program selects. The program is attached
// before the tap is bound to the device, so the tap receives no other frame.
func (h *host) tap(t *testing.T, device string, program ...bpf.RawInstruction) *tap {
	t.Helper()
	p := &tap{name: h.Name + " " + device}
	h.Do(t, func() error {
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
		if len(program) > 0 {
			filter := make([]unix.SockFilter, len(program))
			for i, r := range program {
				filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
			}
			if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
				&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
				return err
			}
		}
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

// ethernet returns a frame with an IP packet after these VLAN tags.
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

// receive returns the next matching frame.
func (p *tap) receive(t *testing.T, what string, wanted func(frame []byte) bool) []byte {
	t.Helper()
	require.NoError(t, p.file.SetReadDeadline(time.Now().Add(packetTimeout)))
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
