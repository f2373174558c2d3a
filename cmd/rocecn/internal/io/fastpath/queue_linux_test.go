package fastpath

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/tc"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
)

// Senders with one capability each.
var (
	unknown   = netip.MustParseAddr("2001:db8:1::a")
	capable   = netip.MustParseAddr("2001:db8:1::b")
	incapable = netip.MustParseAddr("2001:db8:1::c")
	stranger  = netip.MustParseAddr("2001:db8:1::d")
)

// A bottleneck is a router. Its queue to the receiver sends an octet per second until it is drained.
//
//	sender ── in  node  out ── receiver
type bottleneck struct {
	sender, node, receiver *wiretest.Host
	raw                    netio.Sink
	start, end             netio.InterfaceSource // packets that arrive at the sender and the receiver
	answerer               *Answerer
}

func newBottleneck(t *testing.T, c AnswererConfig) *bottleneck {
	t.Helper()
	wiretest.Tool(t, "tc")
	wiretest.Tool(t, "nft")
	b := &bottleneck{
		sender: wiretest.NewHost(t, "sender"), node: wiretest.NewHost(t, "node"),
		receiver: wiretest.NewHost(t, "receiver"),
	}
	b.node.Do(t, forward)
	b.node.Run(t, "", "ip", "addr", "add", self.String()+"/128", "dev", "lo")
	wiretest.Link(t, wiretest.End{Host: b.sender, Device: "eth0", Addresses: []string{
		unknown.String() + "/64", capable.String() + "/64", incapable.String() + "/64", stranger.String() + "/64"}},
		wiretest.End{Host: b.node, Device: "in", Addresses: []string{"2001:db8:1::1/64"}})
	wiretest.Link(t, wiretest.End{Host: b.node, Device: "out", Addresses: []string{"2001:db8:4::1/64"}},
		wiretest.End{Host: b.receiver, Device: "eth0", Addresses: []string{target.String() + "/64"}})
	b.sender.Run(t, "", "ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
	// Keep the node's own packets out of the queue.
	b.receiver.Run(t, "", "ip", "link", "set", "eth0", "address", "02:00:00:00:00:0e")
	b.node.Run(t, "", "ip", "neigh", "replace", target.String(), "lladdr", "02:00:00:00:00:0e", "dev", "out")
	b.node.Run(t, `table inet quiet {
	chain output {
		type filter hook output priority 0;
		oifname "out" meta l4proto 58 drop
	}
}
`, "nft", "-f", "-")
	wiretest.AwaitLinks(t, b.sender, b.node, b.receiver)
	b.node.Run(t, "", "tc", "qdisc", "add", "dev", "out", "clsact") // creating it later would empty the queue
	b.node.Run(t, "", "tc", "qdisc", "add", "dev", "out", "root", "tbf", "rate", "8bit", "burst", "2000", "limit",
		"100000000")
	b.raw = wiretest.Open(t, b.sender, netio.OpenRaw, "")
	arrivals := netio.PacketConfig{Interface: "eth0", Direction: netio.In, SnapLength: 2000}
	b.start = wiretest.Open(t, b.sender, netio.OpenPackets, arrivals)
	b.end = wiretest.Open(t, b.receiver, netio.OpenPackets, arrivals)

	// A full bucket lets one such packet pass, and the next ones wait. None of them may still be on the path when
	// the answerer opens.
	filler := data(t, stranger, 0xABCDEF, 1400)
	for sent := uint64(0); b.backlog(t) < 2*1400; {
		b.send(t, filler)
		sent += 14 + uint64(len(filler))
		wiretest.Await(t, "it is in the queue, or has passed", func() bool {
			passed, waiting := b.queue(t)
			return passed+waiting == sent
		})
	}
	c.Self = self
	b.answerer = wiretest.Open(t, b.node, OpenAnswerer, c)
	for _, c := range []struct {
		address netip.Addr
		policy  Policy
	}{{unknown, NotifyAndMark}, {capable, Notify}, {incapable, Mark}} {
		t.Run(fmt.Sprint(c.address), func(t *testing.T) {
			require.NoError(t, b.answerer.SetSender(netip.PrefixFrom(c.address, 128), c.policy))
		})
	}
	// The answerer knows the depth of the queue from the next packet on.
	packet, before := data(t, stranger, 0xABCDEF, 64), b.backlog(t)
	b.send(t, packet)
	b.await(t, before+14+uint64(len(packet)))
	require.Equal(t, Answered{}, b.answerer.Counters())
	return b
}

// from returns the thresholds of one level.
func from(depth uint64) level.Thresholds { return level.Thresholds{Up: []uint64{depth}} }

// all returns the same time for all levels.
func all(d time.Duration) (times [level.Max + 1]time.Duration) {
	for i := range times {
		times[i] = d
	}
	return times
}

// data returns a data packet to the receiver with changes.
func data(t testing.TB, src netip.Addr, qp uint32, payload int, change ...func(*rocev2.Packet)) []byte {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: qp, PKey: 0xFFFF}},
		Payload: make([]byte, payload)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = src, target, 49152, rocev2.Port, 64
	p.TrafficClass = uint8(rocev2.ECT0)
	for _, c := range change {
		c(&p)
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

func (b *bottleneck) send(t *testing.T, packets ...[]byte) {
	t.Helper()
	for _, p := range packets {
		require.NoError(t, b.raw.Send(p))
	}
	require.NoError(t, b.raw.Flush())
}

// backlog returns the number of waiting octets.
func (b *bottleneck) backlog(t *testing.T) uint64 {
	t.Helper()
	_, waiting := b.queue(t)
	return waiting
}

// queue returns the numbers of octets that have passed the queue and that wait.
func (b *bottleneck) queue(t *testing.T) (passed, waiting uint64) {
	t.Helper()
	var qdiscs []struct {
		Kind           string
		Bytes, Backlog uint64
	}
	out := b.node.Run(t, "", "tc", "-s", "-j", "qdisc", "show", "dev", "out")
	require.NoError(t, json.Unmarshal([]byte(out), &qdiscs), out)
	for _, q := range qdiscs {
		if q.Kind == "tbf" {
			return q.Bytes, q.Backlog
		}
	}
	t.Fatal(out)
	return 0, 0
}

// await waits until this number of octets waits.
func (b *bottleneck) await(t *testing.T, octets uint64) {
	t.Helper()
	wiretest.Await(t, "the packets are in the queue", func() bool { return b.backlog(t) == octets })
}

// drain lets the queue go.
func (b *bottleneck) drain(t *testing.T) {
	t.Helper()
	b.node.Run(t, "", "tc", "qdisc", "change", "dev", "out", "root", "tbf", "rate", "1gbit", "burst", "100000", "limit",
		"100000000")
	b.send(t, data(t, stranger, 0xABCDEF, 0))
	b.await(t, 0)
}

// readPackets calls f with packets until it returns true.
func readPackets(t *testing.T, source netio.Source, f func(p *rocev2.Packet) bool) {
	t.Helper()
	poll := wiretest.Must(netio.NewPoll(t.Context(), source))(t)
	defer poll.Close()
	for {
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, packets, "no more comes")
		for i := range packets {
			var p rocev2.Packet
			if p.DecodeEthernet(packets[i].Data) == nil && f(&p) {
				return
			}
		}
	}
}

// Congested packets are answered, marked or both, depending on the sender. Every Fast CNP equals that of
// fastcnp.AppendFor, and tshark decodes it.
func TestAnswererAfterAQueue(t *testing.T) {
	const threshold, payload, n = 50_000, 512, 600
	b := newBottleneck(t, AnswererConfig{Ports: []Port{{"out", from(threshold)}}})
	senders := []netip.Addr{unknown, capable, incapable, stranger}
	before := b.backlog(t)
	var sent [][]byte
	for qp := range uint32(n) {
		sent = append(sent, data(t, senders[qp%4], qp, payload))
	}
	size := uint64(14 + len(sent[0]))
	b.send(t, sent...)
	b.await(t, before+n*size)

	c := b.answerer.Counters()
	congested := n - (threshold-before+size-1)/size // those that met a queue of at least threshold octets
	require.GreaterOrEqual(t, c.Congested, congested)
	require.LessOrEqual(t, c.Congested, congested+2) // two CPUs may forward at the same time
	wiretest.Await(t, "all copies have been seen", func() bool {
		c = b.answerer.Counters()
		return c.Copied == c.Sent
	})
	require.Equal(t, c.Congested, c.Copied+c.MarkedOnly+c.NoMethod)
	require.Equal(t, Answered{Congested: c.Congested, NoMethod: c.NoMethod, MarkedOnly: c.MarkedOnly, Copied: c.Copied,
		Marked: c.Marked, Sent: c.Copied}, c)

	got := map[netip.Addr]uint64{}
	var frames [][]byte
	readPackets(t, b.start, func(p *rocev2.Packet) bool {
		if p.BTH.Opcode != bth.CNP {
			return false
		}
		var about rocev2.Packet
		require.NoError(t, about.DecodeIP(sent[p.BTH.DestQP]))
		want, _, err := fastcnp.AppendFor(nil, &about, self, nil, fastcnp.Config{})
		require.NoError(t, err)
		require.Equal(t, want, unlabelled(p.IP))
		frames = append(frames, append([]byte(nil), append(p.Link, p.IP...)...))
		got[p.Dst]++
		return uint64(len(frames)) == c.Sent
	})
	require.Len(t, got, 2)
	require.Positive(t, got[unknown])
	require.Positive(t, got[capable])

	// A capable sender gets Fast CNPs and no marks.
	b.drain(t)
	marked := map[netip.Addr]uint64{}
	for arrived := 0; arrived < n; {
		readPackets(t, b.end, func(p *rocev2.Packet) bool {
			if p.BTH.DestQP >= n {
				return false
			}
			arrived++
			if p.ECN() == rocev2.CE {
				marked[p.Src]++
			}
			return arrived == n
		})
	}
	require.Equal(t, map[netip.Addr]uint64{unknown: got[unknown], incapable: c.MarkedOnly}, marked)
	require.Equal(t, c.Marked, marked[unknown]+marked[incapable])

	// A deleted queue is not congested, and neither is any queue after the answerer ended.
	b.node.Run(t, "", "tc", "qdisc", "del", "dev", "out", "root")
	was := b.answerer.Counters().Congested
	b.send(t, sent[0])
	readPackets(t, b.end, func(p *rocev2.Packet) bool { return p.BTH.DestQP == 0 })
	require.Equal(t, was, b.answerer.Counters().Congested)
	require.NoError(t, b.answerer.Close())

	for i, row := range wiretest.Tshark(t, frames...) {
		var p rocev2.Packet
		require.NoError(t, p.DecodeEthernet(frames[i]))
		var m message.Message
		require.NoError(t, m.Decode(frames[i], rocev2.DecodeOptions{}, message.Config{}))
		require.Equal(t, message.KindFastCNP, m.Kind)
		require.NoError(t, m.FastCNP.Validate())
		require.EqualValues(t, 0x81, row.Uint("infiniband.bth.opcode"))
		require.EqualValues(t, p.BTH.DestQP, row.Uint("infiniband.bth.destqp"))
		require.Equal(t, []string{self.String(), p.Dst.String()}, []string{row.Get("ipv6.src"), row.Get("ipv6.dst")})
		require.Contains(t, row.All("ipv6.opt.type"), fastcnp.Option1Type.String())
		require.False(t, row.Has("_ws.malformed"), row.Get("_ws.expert.message"))
	}
}

// A flow is answered once within the limit, and marked in any case. A packet with a checksum that the device completes
// is not answered; one with a complete checksum is.
func TestAnswererLimits(t *testing.T) { testLimits(t) }

// With qdisc clsact, as before Linux 6.6; a leftover filter is replaced.
func TestAnswererWithoutTCX(t *testing.T) {
	tc.WithTCX = false
	defer func() { tc.WithTCX = true }()
	b := testLimits(t)
	again := func() (a *Answerer, err error) {
		err = b.node.Try(func() (err error) {
			a, err = OpenAnswerer(AnswererConfig{Self: self, Ports: []Port{{Name: "out"}}})
			return err
		})
		return a, err
	}
	filters := func() int {
		return strings.Count(b.node.Run(t, "", "tc", "filter", "show", "dev", "out", "egress"), "rocecn")
	}
	require.Equal(t, 1, filters())
	for range 3 { // without Close
		a := wiretest.Must(again())(t)
		defer a.Close()
		require.Equal(t, 1, filters())
	}
	a := wiretest.Must(again())(t)
	require.NoError(t, a.Close())
	require.Zero(t, filters())
}

func testLimits(t *testing.T) *bottleneck {
	t.Helper()
	b := newBottleneck(t, AnswererConfig{Ports: []Port{{"out", from(1)}}, PerFlow: all(time.Hour)})
	before, octets := b.backlog(t), uint64(0)
	for range 10 {
		for _, p := range [][]byte{
			data(t, unknown, 1, 64), data(t, unknown, 2, 64), data(t, capable, 1, 64),
			data(t, unknown, 1, 80, func(p *rocev2.Packet) { p.SrcPort, p.Checksum = 5, 1 }), // the first one's flow
		} {
			b.send(t, p)
			octets += uint64(14 + len(p))
		}
	}
	whole := data(t, unknown, 3, 64, func(p *rocev2.Packet) { p.Checksum = 1 })
	b.send(t, whole)
	b.await(t, before+octets+uint64(14+len(whole)))
	wiretest.Await(t, "the copies have been seen", func() bool { return b.answerer.Counters().Sent == 4 })
	require.Equal(t, Answered{Congested: 41, Limited: 37, Copied: 4, Marked: 31, Sent: 4}, b.answerer.Counters())

	b.sender.Do(t, func() error {
		c, err := net.DialUDP("udp", &net.UDPAddr{IP: capable.AsSlice()},
			&net.UDPAddr{IP: target.AsSlice(), Port: rocev2.Port})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(data(t, capable, 4, 64)[48:])
		return err
	})
	wiretest.Await(t, "the copy has been seen", func() bool { return b.answerer.Counters().Checksum == 1 })
	require.EqualValues(t, 4, b.answerer.Counters().Sent)

	// A sender without a route.
	require.NoError(t, b.answerer.SetSender(netip.MustParsePrefix("::/0"), Notify))
	b.send(t, data(t, netip.MustParseAddr("2001:db8:9::9"), 5, 64))
	wiretest.Await(t, "the copy has been seen", func() bool { return b.answerer.Counters().NoRoute == 1 })
	require.NoError(t, b.answerer.RemoveSender(netip.MustParsePrefix("::/0")))
	require.NoError(t, b.answerer.RemoveSender(netip.MustParsePrefix("::/0")))
	require.ErrorIs(t, b.answerer.SetSender(netip.MustParsePrefix("192.0.2.0/24"), Notify), errIPv4)
	require.ErrorIs(t, b.answerer.SetSender(netip.Prefix{}, Notify), errPrefix)
	return b
}

// Configurations that cannot work are rejected with a reason.
func TestOpenAnswererRejects(t *testing.T) {
	h := wiretest.NewHost(t, "node")
	open := func(c AnswererConfig) error {
		return h.Try(func() error {
			a, err := OpenAnswerer(c)
			if err == nil {
				err = errors.Join(a.SetSender(netip.MustParsePrefix("192.0.2.0/24"), Mark), a.Close())
			}
			return err
		})
	}
	require.ErrorIs(t, open(AnswererConfig{Self: self}), errForwarding)
	require.NoError(t, open(AnswererConfig{}), "a node that only marks need not forward IPv6")
	h.Do(t, forward)
	try := func() error { return TryAnswerer(AnswererConfig{Self: self}) }
	require.NoError(t, h.Try(try))
	h.Run(t, "", "ip", "link", "set", "lo", "down") // as in a new namespace: no copy can get there
	require.ErrorIs(t, open(AnswererConfig{Self: self}), errLoopback)
	require.ErrorIs(t, h.Try(try), errLoopback)
	require.NoError(t, open(AnswererConfig{}), "a node that only marks makes no copies")
	h.Run(t, "", "ip", "link", "set", "lo", "up")
	require.ErrorIs(t, open(AnswererConfig{Self: self, FastCNP: fastcnp.Config{
		Carriage: rocev2.Carriage{Checksum: true}}}), errChecksum)
	require.ErrorIs(t, open(AnswererConfig{Self: netip.MustParseAddr("ff02::1")}), rocev2.ErrNotReachable)
}

// CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are enough; without one of them the error says
// so.
func TestRights(t *testing.T) {
	const high = 1<<(unix.CAP_BPF-32) | 1<<(unix.CAP_PERFMON-32)
	for _, c := range []struct {
		low, high uint32
		err       error
	}{
		{1 << unix.CAP_NET_ADMIN, high, nil},
		{0, high, fs.ErrPermission},
		{1 << unix.CAP_NET_ADMIN, 0, fs.ErrPermission},
	} {
		h := wiretest.NewHost(t, "node")
		h.Do(t, forward)
		err := h.Try(func() error {
			// For this thread, which ends with the host.
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			data := [2]unix.CapUserData{{Effective: c.low, Permitted: c.low}, {Effective: c.high, Permitted: c.high}}
			if err := unix.Capset(&header, &data[0]); err != nil {
				return err
			}
			a, err := OpenAnswerer(AnswererConfig{Self: self, Ports: []Port{{"lo", from(1)}}})
			if err == nil {
				err = a.Close()
			}
			return err
		})
		require.ErrorIs(t, err, c.err)
	}
}

// forward makes the host of this thread a router.
func forward() error {
	return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0)
}

// A packet that leaves by a VLAN has its tag outside its data until the device inserts it. The Fast CNP about it
// leaves by another interface, without a tag.
func TestAnswererVLAN(t *testing.T) {
	ports := []Port{{"out", from(1)}}
	b := newBottleneck(t, AnswererConfig{Ports: ports})
	require.NoError(t, b.answerer.Close())
	tag, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, int32(binary.NativeEndian.Uint16([]byte{0x81, 0x00}))),
			asm.Mov.Imm(asm.R3, 100),
			asm.FnSkbVlanPush.Call(),
			asm.Mov.Imm(asm.R0, -1), // go on
			asm.Return(),
		},
	})
	require.NoError(t, err)
	defer tag.Close()
	b.node.Do(t, func() error { // the program attached first runs first
		link, err := tc.Attach("out", tag, ebpf.AttachTCXEgress, 1)
		require.NoError(t, err)
		t.Cleanup(func() { link.Close() })
		b.answerer, err = OpenAnswerer(AnswererConfig{Self: self, Ports: ports})
		return err
	})
	defer b.answerer.Close()
	require.NoError(t, b.answerer.SetSender(netip.PrefixFrom(unknown, 128), NotifyAndMark))
	before := b.backlog(t)
	first, second := data(t, stranger, 1, 64), data(t, unknown, 2, 64)
	b.send(t, first, second)
	b.await(t, before+uint64(2*14+len(first)+len(second)))
	wiretest.Await(t, "the copy has been seen", func() bool { return b.answerer.Counters().Sent == 1 })
	readPackets(t, b.start, func(p *rocev2.Packet) bool {
		if p.BTH.Opcode != bth.CNP {
			return false
		}
		var about rocev2.Packet
		require.NoError(t, about.DecodeIP(second))
		want, _, err := fastcnp.AppendFor(nil, &about, self, nil, fastcnp.Config{})
		require.NoError(t, err)
		require.Equal(t, want, unlabelled(p.IP))
		require.Len(t, p.Link, 14)
		return true
	})
}
