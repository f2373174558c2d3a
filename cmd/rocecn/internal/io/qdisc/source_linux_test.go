package qdisc

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

var (
	src6, dst6 = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	src4, dst4 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
)

// slow is a queue that sends an octet per second.
var slow = []string{"tbf", "rate", "8bit", "burst", "2000", "limit", "10000000"}

// data returns a data packet of a queue pair with changes.
func data(t testing.TB, qp uint32, payload int, change ...func(*rocev2.Packet)) []byte {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: qp, PKey: 0xFFFF}},
		Payload: make([]byte, payload)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = src6, dst6, 49152, rocev2.Port, 64
	p.TrafficClass = uint8(rocev2.ECT0)
	for _, c := range change {
		c(&p)
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

func v4(p *rocev2.Packet) { p.Src, p.Dst = src4, dst4 }

func opcode(op bth.Opcode) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) { p.BTH.Opcode, p.Payload = op, make([]byte, 16) }
}

// A port is an interface with a slow queue.
type port struct {
	*wiretest.Host
	index  uint32
	socket int
	to     unix.SockaddrLinklayer
}

func newPort(t *testing.T, qdisc ...string) *port {
	t.Helper()
	wiretest.Tool(t, "tc")
	p := &port{Host: wiretest.NewHost(t, "node")}
	wiretest.Link(t, wiretest.End{Host: p.Host, Device: "eth0"},
		wiretest.End{Host: wiretest.NewHost(t, "peer"), Device: "eth0"})
	p.open(t)
	p.Do(t, func() error { // IPv6's own packets would fill the queue as well
		return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", []byte("1"), 0)
	})
	p.Run(t, "", "tc", append([]string{"qdisc", "add", "dev", "eth0", "root"}, qdisc...)...)
	// A full bucket lets one such packet pass, and the next one waits.
	p.send(t, data(t, 0xABCDEF, 1400), data(t, 0xABCDEF, 1400))
	return p
}

// open opens a socket that may fill the queue: waiting packets are charged to it.
func (p *port) open(t *testing.T) {
	t.Helper()
	p.Do(t, func() error {
		wiretest.AwaitCarriers(t)
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		p.index = uint32(i.Index)
		p.to = unix.SockaddrLinklayer{Ifindex: i.Index, Halen: 6, Addr: [8]byte{2, 0, 0, 0, 0, 1}}
		if p.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.SetsockoptInt(p.socket, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20)
	})
	t.Cleanup(func() { unix.Close(p.socket) })
}

func (p *port) send(t *testing.T, packets ...[]byte) {
	t.Helper()
	for _, packet := range packets {
		require.NoError(t, p.trySend(packet))
	}
}

func (p *port) trySend(packet []byte) error {
	p.to.Protocol = ne.Uint16([]byte{0x86, 0xDD})
	if packet[0]>>4 == 4 {
		p.to.Protocol = ne.Uint16([]byte{0x08, 0x00})
	}
	return unix.Sendto(p.socket, packet, 0, &p.to)
}

// backlog returns the number of waiting octets by tc.
func (p *port) backlog(t *testing.T) uint64 {
	t.Helper()
	var qdiscs []struct{ Backlog uint64 }
	out := p.Run(t, "", "tc", "-s", "-j", "qdisc", "show", "dev", "eth0")
	require.NoError(t, json.Unmarshal([]byte(out), &qdiscs), out)
	require.NotEmpty(t, qdiscs, out)
	return qdiscs[0].Backlog
}

func (p *port) watch(t *testing.T, c Config) (s *Source) {
	t.Helper()
	if c.Interfaces == nil {
		c.Interfaces = []Interface{{Name: "eth0"}}
	}
	return wiretest.Open(t, p.Host, Open, c)
}

// read returns the available packets.
func read(t *testing.T, s *Source) (packets []netio.Packet) {
	t.Helper()
	for {
		some, err := s.Read()
		for _, p := range some {
			p.Data = append([]byte(nil), p.Data...)
			packets = append(packets, p)
		}
		if len(some) == 0 {
			require.True(t, err == nil || err == io.EOF, err)
			return packets
		}
		require.NoError(t, err)
	}
}

// Packets above the threshold are reported if they are RoCEv2 and can be answered. Their depths add up from the
// packets before them, and the last one equals that of tc.
func TestDepth(t *testing.T) {
	const link = 14
	p := newPort(t, slow...)
	const threshold = 30_000
	s := p.watch(t, Config{Interfaces: []Interface{{Name: "lo", Threshold: 1}, {Name: "eth0", Threshold: threshold}}})
	hop := wiretest.Hex(t, "1101 0104 00000000 0000 000000000000")
	fragment := data(t, 1, 64, v4)
	fragment[6] |= 0x20 // More Fragments
	other := data(t, 1, 64)
	other[40+3]++ // another port
	short := data(t, 1, 64)
	short[40+5] = 23 // a UDP length without room for an ICRC
	long := data(t, 1, 64)
	long[40+5]++ // longer than IP
	kinds := []struct {
		packet []byte
		given  bool
	}{
		{data(t, 1, 1400), true},
		{data(t, 2, 64), true},
		{data(t, 3, 256, v4), true},
		{data(t, 4, 0, func(p *rocev2.Packet) { p.NextHeader, p.Ext = 0, hop }), true},
		{data(t, 5, 64, opcode(bth.CNP)), false},
		{data(t, 6, 64, opcode(bth.RCAcknowledge)), false},
		{fragment, false},
		{other, false},
		{short, false},
		{long, false},
		{append([]byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 4, 0, 0}, src4.AsSlice()...), false}, // a tunnel, cut
	}
	depth := p.backlog(t)
	require.Positive(t, depth)
	began := time.Now()
	var want []netio.Packet
	for range 100 {
		for _, k := range kinds {
			p.send(t, k.packet)
			if depth += uint64(link + len(k.packet)); k.given && depth >= threshold {
				want = append(want, netio.Packet{
					Record: capture.Record{Data: k.packet[:min(Snap, len(k.packet))], OrigLen: uint32(len(k.packet)),
						Unit: time.Nanosecond, Link: capture.Raw},
					Interface: int(p.index), Egress: int(p.index), Outgoing: true,
					Depth: depth, DepthKnown: true, Origin: netio.OriginQueued,
				})
			}
		}
	}
	require.Equal(t, depth, p.backlog(t))
	got := read(t, s)
	require.Len(t, got, len(want))
	for i := range got { // not in order: each read compares the clocks again
		require.WithinRange(t, got[i].Time, began.Add(-time.Second), time.Now().Add(time.Second), i)
		got[i].Time = time.Time{}
		require.Equal(t, want[i], got[i], i)
	}
	require.Equal(t, []uint64{uint64(len(want)), 0, 0, 0}, []uint64{s.Given(), s.Limited(), s.Lost(), s.Unknown()})

	// A truncated packet can be decoded.
	var f rocev2.Frame
	var packet rocev2.Packet
	f.Decode(got[0].Data, got[0].Options())
	require.NoError(t, f.Outer().Packet(&packet))

	require.NoError(t, s.Stop())
	p.send(t, kinds[0].packet)
	_, err := s.Read()
	require.Equal(t, io.EOF, err)
}

// Tunnels are reported on request: those that may carry readable RoCEv2, or also other ECN-capable IPv6 packets with a
// flow label.
func TestTunnels(t *testing.T) {
	p := newPort(t, slow...)
	inner := data(t, 1, 64)
	var readable [][]byte
	for _, tunnel := range []encap.Tunnel{
		&encap.IPInIPv6{Src: src6, Dst: dst6},
		&encap.VXLAN{Src: src6, Dst: dst6, Ethernet: make([]byte, 14)},
		&encap.SRv6{Src: src6, Segments: []netip.Addr{dst6, src6}},
	} {
		readable = append(readable, wiretest.Must(tunnel.Append(nil, inner, 5))(t))
	}
	const esp = 50
	packet := func(next byte, ecn, label uint32) []byte { // RFC 8200 section 3
		b := binary.BigEndian.AppendUint32(nil, 6<<28|ecn<<20|label)
		b = append(append(append(b, 0, 32, next, 64), src6.AsSlice()...), dst6.AsSlice()...)
		return append(b, make([]byte, 32)...)
	}
	others := [][]byte{packet(esp, 2, 7), packet(esp, 3, 7), packet(esp, 1, 1<<20-1), packet(59, 2, 7)}
	none := [][]byte{packet(esp, 0, 7), packet(esp, 2, 0)}
	sent := slices.Concat(readable, others, none)
	for _, c := range []struct {
		name    string
		tunnels Tunnels
		want    [][]byte
	}{
		{"none", NoTunnels, nil}, {"readable", Readable, readable},
		{"all", AllTunnels, slices.Concat(readable, others)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := p.watch(t, Config{Tunnels: c.tunnels})
			p.send(t, sent...)
			var got [][]byte
			for _, packet := range read(t, s) {
				got = append(got, slices.Clone(packet.Data))
			}
			require.Equal(t, c.want, got)
		})
	}
}

// An interface with the same index in another namespace is not reported.
func TestNamespace(t *testing.T) {
	p := newPort(t, slow...)
	s := p.watch(t, Config{})
	other := wiretest.NewHost(t, "other")
	other.Run(t, fmt.Sprintf("link add eth0 index %d type veth peer name eth1\nlink set eth0 up\nlink set eth1 up\n",
		p.index), "ip", "-batch", "-")
	other.Run(t, "", "tc", append([]string{"qdisc", "add", "dev", "eth0", "root"}, slow...)...)
	elsewhere := &port{Host: other}
	elsewhere.open(t)
	require.Equal(t, p.index, elsewhere.index)
	for range 10 {
		elsewhere.send(t, data(t, 1, 1400))
	}
	require.Positive(t, elsewhere.backlog(t))
	p.send(t, data(t, 2, 64))
	got := read(t, s)
	require.Len(t, got, 1)
	require.Equal(t, data(t, 2, 64), got[0].Data)
}

// A queue is congested from its threshold on: the packet that makes it as deep is given.
func TestThresholdReached(t *testing.T) {
	p := newPort(t, slow...)
	packet := data(t, 1, 64)
	size := uint64(14 + len(packet)) // with the Ethernet header
	threshold := p.backlog(t) + 3*size
	s := p.watch(t, Config{Interfaces: []Interface{{Name: "eth0", Threshold: threshold}}})
	for i, want := range []int{0, 0, 1, 1} {
		p.send(t, packet)
		got := read(t, s)
		require.Len(t, got, want, "packet %d", i+1)
		if want > 0 {
			require.Equal(t, threshold+uint64(i-2)*size, got[0].Depth)
		}
	}
}

// Packets without room are counted exactly.
func TestLost(t *testing.T) {
	p := newPort(t, slow...)
	s := p.watch(t, Config{Ring: uint32(os.Getpagesize() - 1)})
	given := 0
	for i := range 10 {
		for range 20 {
			p.send(t, data(t, 1, 1000))
		}
		given += len(read(t, s))
		require.EqualValues(t, 20*(i+1), uint64(given)+s.Lost())
	}
	require.Positive(t, given)
	require.Positive(t, s.Lost())
	require.EqualValues(t, given, s.Given())
}

// A flow, identified by addresses, queue pair and interface, is reported once within the limit.
func TestPerFlow(t *testing.T) {
	p := newPort(t, slow...)
	s := p.watch(t, Config{PerFlow: time.Hour})
	for range 10 {
		p.send(t, data(t, 1, 64), data(t, 2, 64), data(t, 1, 64, v4),
			data(t, 1, 64, func(p *rocev2.Packet) { p.Src = dst6 }),
			data(t, 1, 64, func(p *rocev2.Packet) { p.Dst = src6 }),
			data(t, 1, 80, func(p *rocev2.Packet) { p.SrcPort, p.BTH.PSN = 4, 5 })) // the first one's flow
	}
	require.Len(t, read(t, s), 5)
	require.EqualValues(t, 55, s.Limited())

	s = p.watch(t, Config{PerFlow: time.Nanosecond})
	p.send(t, data(t, 1, 64), data(t, 1, 64))
	require.Len(t, read(t, s), 2)
}

// The interval holds from event to event, not only after the first one.
func TestPerFlowForLong(t *testing.T) {
	const interval = 20 * time.Millisecond
	p := newPort(t, slow...)
	s := p.watch(t, Config{PerFlow: interval})
	packet := data(t, 1, 64)
	var all []netio.Packet
	wiretest.Await(t, "five events", func() bool {
		p.send(t, packet, packet)
		all = append(all, read(t, s)...)
		return len(all) >= 5
	})
	for i := range all[1:] {
		gap := all[i+1].Time.Sub(all[i].Time)
		require.GreaterOrEqual(t, gap, interval-time.Millisecond, "each read compares the clocks again")
	}
}

// Interfaces can be replaced, and a missing one does not affect the others.
func TestWatch(t *testing.T) {
	p := newPort(t, slow...)
	s := p.watch(t, Config{})
	packet := data(t, 1, 64)
	watch := func(i ...Interface) error { return p.Try(func() error { return s.Watch(i) }) }
	require.ErrorIs(t, watch(Interface{Name: "nowhere"}), netio.ErrNoInterface)
	p.send(t, packet)
	require.Len(t, read(t, s), 1)
	require.NoError(t, watch(Interface{Name: "nowhere"}, Interface{Name: "eth0"}))
	p.send(t, packet)
	require.Len(t, read(t, s), 1)
	require.NoError(t, watch(Interface{Name: "lo"}))
	p.send(t, packet)
	require.Empty(t, read(t, s))
	require.NoError(t, watch(Interface{Name: "eth0", Threshold: 1e9}, Interface{Name: "lo"}))
	p.send(t, packet)
	require.Empty(t, read(t, s))
	require.NoError(t, watch(Interface{Name: "eth0"}))
	p.send(t, packet)
	require.Len(t, read(t, s), 1)

	require.ErrorIs(t, p.Try(func() error {
		_, err := Open(Config{Interfaces: []Interface{{Name: "nowhere"}}})
		return err
	}), netio.ErrNoInterface)
}

// CAP_BPF and CAP_PERFMON are enough; without one of them the error says so.
func TestRights(t *testing.T) {
	for _, c := range []struct {
		capabilities uint32 // above 31
		err          error
	}{
		{1<<(unix.CAP_BPF-32) | 1<<(unix.CAP_PERFMON-32), nil},
		{1 << (unix.CAP_BPF - 32), fs.ErrPermission},
		{0, fs.ErrPermission},
	} {
		h := wiretest.NewHost(t, "node")
		err := h.Try(func() error {
			// For this thread, which ends with the host.
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			data := [2]unix.CapUserData{1: {Effective: c.capabilities, Permitted: c.capabilities}}
			if err := unix.Capset(&header, &data[0]); err != nil {
				return err
			}
			s, err := Open(Config{Interfaces: []Interface{{Name: "lo"}}})
			if err == nil {
				err = s.Close()
			}
			return err
		})
		require.ErrorIs(t, err, c.err)
	}
}

// Open fails if the program cannot be attached, as where a filter of system calls forbids it.
func TestAttachmentRejected(t *testing.T) {
	h := wiretest.NewHost(t, "node")
	var rejecting error
	err := h.Try(func() error {
		if rejecting = rejectAttachments(); rejecting != nil {
			return nil
		}
		s, err := Open(Config{Interfaces: []Interface{{Name: "lo"}}})
		if err == nil {
			err = s.Close()
		}
		return err
	})
	require.NoError(t, rejecting)
	require.ErrorIs(t, err, fs.ErrPermission)
}

// rejectAttachments makes the kernel reject the attachment of BPF programs by this thread, with EACCES.
func rejectAttachments() error {
	const number, highWord, lowWord = 0, 16, 20 // of the system call, and of its first argument: either order
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: number, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_BPF, SkipTrue: 6},
		bpf.LoadAbsolute{Off: highWord, Size: 4},
		bpf.TAX{},
		bpf.LoadAbsolute{Off: lowWord, Size: 4},
		bpf.ALUOpX{Op: bpf.ALUOpOr},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.BPF_LINK_CREATE, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.BPF_RAW_TRACEPOINT_OPEN, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	loaded := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// The conversion is an argument of the system call itself, so loaded stays in place.
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&loaded)))
	if errno != 0 {
		return errno
	}
	return nil
}

// Waiting and reading allocate nothing.
func TestAllocatesNothing(t *testing.T) {
	p := newPort(t, slow...)
	poll := wiretest.Must(netio.NewPoll(t.Context(), p.watch(t, Config{})))(t)
	defer poll.Close()
	packet := data(t, 1, 64)
	wiretest.NoAllocs(t, "Next", func() {
		if err := p.trySend(packet); err != nil {
			panic(err)
		}
		if _, packets, err := poll.Next(wiretest.Timeout); err != nil || len(packets) != 1 {
			panic(fmt.Sprint(len(packets), err))
		}
	})
}

// Kind agrees with tc, and is noqueue if there is no qdisc.
func TestKind(t *testing.T) {
	h := wiretest.NewHost(t, "h")
	h.Run(t, "", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
	h.Run(t, "", "ip", "link", "set", "v0", "up")
	h.Do(t, func() error {
		kind, err := Kind("v0")
		require.Equal(t, "noqueue", kind)
		return err
	})
	wiretest.Tool(t, "tc")
	h.Run(t, "", "tc", append([]string{"qdisc", "replace", "dev", "v0", "root"}, slow...)...)
	h.Do(t, func() error {
		kind, err := Kind("v0")
		require.Equal(t, "tbf", kind)
		return err
	})
	require.ErrorIs(t, h.Try(func() error { _, err := Kind("v2"); return err }), netio.ErrNoInterface)
}
