// Package latency measures the time from a congested packet to the Fast CNP at its sender,
// between network namespaces of this machine, and the loss among many packets:
//
//	go test -run '^$' -bench Answer -benchtime 3000x ./cmd/rocecn/internal/io/latency
//	go test -run '^$' -bench Loss -benchtime 250000x ./cmd/rocecn/internal/io/latency
//
// A latency begins just before the sender's system call and ends at the kernel's time stamp
// of the Fast CNP at the sender, one packet at a time. It includes the sender's call and two
// hops over veth. CPU is the time of the agent's thread for an answer at full load, including
// sending.
package latency

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nflog"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/qdisc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	self   = netip.MustParseAddr("2001:db8:ffff::5")
	sender = netip.MustParseAddr("2001:db8:1::a")
	target = netip.MustParseAddr("2001:db8:4::e")
)

// A line is a node between a sender and a receiver, with a queue that does not drain.
type line struct {
	sender, node *wiretest.Host
	raw          netio.Sink
	back         *netio.Poll // packets that arrive at the sender
	packet       []byte
	port         string           // answers leave by this interface to neighbour; "": by the routes
	neighbour    net.HardwareAddr // of port
}

func newLine(b *testing.B) *line {
	b.Helper()
	wiretest.Tool(b, "tc")
	receiver := wiretest.NewHost(b, "receiver")
	l := &line{sender: wiretest.NewHost(b, "sender"), node: wiretest.NewHost(b, "node")}
	l.node.Do(b, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0)
	})
	l.node.Run(b, "", "ip", "addr", "add", self.String()+"/128", "dev", "lo")
	wiretest.Link(b, wiretest.End{Host: l.sender, Device: "eth0", Addresses: []string{sender.String() + "/64"}},
		wiretest.End{Host: l.node, Device: "in", Addresses: []string{"2001:db8:1::1/64"}})
	wiretest.Link(b, wiretest.End{Host: l.node, Device: "out", Addresses: []string{"2001:db8:4::1/64"}},
		wiretest.End{Host: receiver, Device: "eth0", Addresses: []string{target.String() + "/64"}})
	l.sender.Run(b, "", "ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
	for _, h := range []*wiretest.Host{l.sender, l.node, receiver} {
		h.Do(b, func() error { wiretest.AwaitCarriers(b); return nil })
	}
	// The sender's Linux would reject each Fast CNP.
	l.sender.Run(b, nflog.Rules("rocecn-host", 1), "nft", "-f", "-")
	l.node.Run(b, "", "tc", "qdisc", "add", "dev", "out", "clsact")
	l.node.Run(b, "", "tc", "qdisc", "add", "dev", "out", "root", "tbf", "rate", "8bit", "burst", "2000", "limit",
		"1000000000")
	var err error
	if l.packet, err = dataPacket(target); err != nil {
		b.Fatal(err)
	}
	var packets netio.InterfaceSource
	l.sender.Do(b, func() (err error) {
		if l.raw, err = netio.OpenRaw(""); err != nil {
			return err
		}
		packets, err = netio.OpenPackets(netio.PacketConfig{Interface: "eth0", Direction: netio.In, SnapLength: 200})
		return err
	})
	b.Cleanup(func() { l.raw.Close(); packets.Close() })
	if l.back, err = netio.NewPoll(b.Context(), packets); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.back.Close() })
	for l.backlog(b) < 3000 { // until addresses are resolved and the queue is long
		l.send(b)
		time.Sleep(time.Millisecond)
	}
	return l
}

// dataPacket returns an RDMA WRITE of 256 octets from the sender.
func dataPacket(to netip.Addr) ([]byte, error) {
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCRDMAWriteOnly, DestQP: 17, PKey: 0xFFFF}},
		Payload: make([]byte, 256)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = sender, to, 49152, rocev2.Port, 64
	return p.AppendBinary(nil)
}

func (l *line) backlog(b *testing.B) (octets uint64) {
	b.Helper()
	var qdiscs []struct {
		Kind    string
		Backlog uint64
	}
	out := l.node.Run(b, "", "tc", "-s", "-j", "qdisc", "show", "dev", "out")
	if err := json.Unmarshal([]byte(out), &qdiscs); err != nil {
		b.Fatal(err)
	}
	for _, q := range qdiscs {
		if q.Kind == "tbf" {
			octets = q.Backlog
		}
	}
	return octets
}

func (l *line) send(b *testing.B) {
	if err := l.raw.Send(l.packet); err != nil {
		b.Fatal(err)
	}
	if err := l.raw.Flush(); err != nil {
		b.Fatal(err)
	}
}

// answer returns the time stamp of the next Fast CNP, or zero after the timeout.
func (l *line) answer(b *testing.B, timeout time.Duration) time.Time {
	for {
		_, packets, err := l.back.Next(timeout)
		if err != nil {
			b.Fatal(err)
		}
		if len(packets) == 0 {
			return time.Time{}
		}
		for i := range packets {
			if p := packets[i].Data; len(p) > 14+40+24+8 && p[14+6] == 60 && p[14+40+24+8] == byte(bth.CNP) {
				return packets[i].Time
			}
		}
	}
}

// measure measures b.N round trips.
func (l *line) measure(b *testing.B) {
	l.send(b) // the depth of the queue is known from the first packet on
	l.answer(b, 100*time.Millisecond)
	took := make([]time.Duration, 0, b.N)
	missing := 0
	for b.Loop() {
		began := time.Now()
		l.send(b)
		if at := l.answer(b, time.Second); at.IsZero() {
			missing++
		} else {
			took = append(took, at.Sub(began))
		}
		time.Sleep(200 * time.Microsecond)
	}
	if slices.Sort(took); len(took) > 0 {
		for _, c := range []struct {
			name  string
			share int
		}{{"min", 0}, {"p10", 10}, {"median", 50}, {"p99", 99}} {
			b.ReportMetric(float64(took[(len(took)-1)*c.share/100].Nanoseconds())/1000, c.name+"-µs")
		}
	}
	b.ReportMetric(float64(missing), "missing")
	b.ReportMetric(0, "ns/op")
}

// userSpace runs the role over a source of the node, and measures the round trips and then the CPU time of the
// thread for an answer.
func (l *line) userSpace(b *testing.B, open func() (netio.Source, error)) {
	b.Helper()
	var source netio.Source
	var out netio.Sink
	l.node.Do(b, func() (err error) {
		if source, err = open(); err != nil {
			return err
		}
		if l.port != "" {
			out, err = netio.OpenPort(l.port, l.neighbour)
		} else {
			out, err = netio.OpenRaw("")
		}
		return err
	})
	defer source.Close()
	defer out.Close()
	role, err := congested.New(congested.Config{
		Enabled: true, Self6: self, Methods: acl.NewMap(acl.Entry[congested.Method]{
			Prefix: netip.MustParsePrefix("::/0"), Value: congested.MethodFastCNP}),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	cpu := make(chan cpuTime) // of the thread, on request
	asked := make(chan struct{}, 1)
	go func() {
		runtime.LockOSThread()
		var f rocev2.Frame
		loop := netio.Loop{Out: out, Receive: func(b []byte, _ int, p *netio.Packet) []byte {
			f.Decode(p.Data, p.Options())
			b, _ = role.Receive(b, &f, node.Event{Now: p.Time})
			return b
		}, Every: 10 * time.Millisecond, Tick: func(time.Time) {
			select {
			case <-asked:
				cpu <- threadTime()
			default:
			}
		}}
		ended <- loop.Run(ctx, source)
	}()
	l.measure(b)
	answered := func() uint64 {
		return role.Counters().Load(node.Count{Action: node.ActionSent, Message: message.KindFastCNP})
	}
	asked <- struct{}{}
	began, were := <-cpu, answered()
	const burst = 20_000
	for range burst {
		l.send(b)
	}
	wiretest.Await(b, "no more are answered", func() bool {
		n := answered()
		time.Sleep(100 * time.Millisecond)
		return answered() == n
	})
	asked <- struct{}{}
	if n := answered() - were; n > 0 {
		now := <-cpu
		user, kernel := now.user-began.user, now.kernel-began.kernel
		b.ReportMetric(float64((user+kernel).Nanoseconds())/1000/float64(n), "cpu-µs/answer")
		b.ReportMetric(100*float64(kernel)/float64(user+kernel), "kernel-%")
		b.ReportMetric(float64(burst-int(n)), "lost")
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// A cpuTime is the CPU time of a thread, outside and in the kernel.
type cpuTime struct{ user, kernel time.Duration }

// threadTime returns the CPU time of the calling thread.
func threadTime() cpuTime {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return cpuTime{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())}
}

func BenchmarkAnswerKernel(b *testing.B) {
	l := newLine(b)
	var a *fastpath.Answerer
	l.node.Do(b, func() (err error) {
		a, err = fastpath.OpenAnswerer(fastpath.AnswererConfig{
			Self: self, Ports: []fastpath.Port{{Name: "out", Levels: level.Thresholds{Up: []uint64{1}}}}})
		return err
	})
	defer a.Close()
	if err := a.SetSender(netip.MustParsePrefix("::/0"), fastpath.Notify); err != nil {
		b.Fatal(err)
	}
	l.measure(b)
}

func BenchmarkAnswerQdisc(b *testing.B) {
	newLine(b).userSpace(b, func() (netio.Source, error) {
		return qdisc.Open(qdisc.Config{Interfaces: []qdisc.Interface{{Name: "out", Threshold: 1}}})
	})
}

func BenchmarkAnswerPacket(b *testing.B) {
	newLine(b).userSpace(b, func() (netio.Source, error) {
		return netio.OpenPackets(netio.PacketConfig{Interface: "in", Direction: netio.In, SnapLength: 512})
	})
}

// The answers leave by a sink of type packet.
func BenchmarkAnswerPacketPort(b *testing.B) {
	l := newLine(b)
	l.sender.Do(b, func() error {
		i, err := net.InterfaceByName("eth0")
		if err == nil {
			l.port, l.neighbour = "in", i.HardwareAddr
		}
		return err
	})
	l.userSpace(b, func() (netio.Source, error) {
		return netio.OpenPackets(netio.PacketConfig{Interface: "in", Direction: netio.In, SnapLength: 512})
	})
}

func BenchmarkAnswerNFLOG(b *testing.B) {
	l := newLine(b)
	l.node.Run(b, `table inet rocecn-log {
	chain forward {
		type filter hook forward priority filter;
		udp dport 4791 log group 7
	}
}
`, "nft", "-f", "-")
	l.userSpace(b, func() (netio.Source, error) { return nflog.Open(7) })
}

// A crowd is a host that sends b.N packets of 300 octets to another one, 50,000 per second.
type loadedLink struct {
	from, to *wiretest.Host
	raw      netio.Sink
	packet   []byte
}

func newLoadedLink(b *testing.B) *loadedLink {
	b.Helper()
	c := &loadedLink{from: wiretest.NewHost(b, "from"), to: wiretest.NewHost(b, "to")}
	wiretest.Link(b, wiretest.End{Host: c.from, Device: "eth0", Addresses: []string{sender.String() + "/64"}},
		wiretest.End{Host: c.to, Device: "eth0", Addresses: []string{"2001:db8:1::b/64"}})
	for _, h := range []*wiretest.Host{c.from, c.to} {
		h.Do(b, func() error { wiretest.AwaitCarriers(b); return nil })
	}
	var err error
	c.from.Do(b, func() error {
		c.raw, err = netio.OpenRaw("")
		return err
	})
	b.Cleanup(func() { c.raw.Close() })
	if c.packet, err = dataPacket(netip.MustParseAddr("2001:db8:1::b")); err != nil {
		b.Fatal(err)
	}
	c.send(b) // until addresses are resolved
	time.Sleep(100 * time.Millisecond)
	return c
}

func (c *loadedLink) send(b *testing.B) {
	if err := c.raw.Send(c.packet); err != nil {
		b.Fatal(err)
	}
	if err := c.raw.Flush(); err != nil {
		b.Fatal(err)
	}
}

// sends sends all packets, and reports the rate per second.
func (c *loadedLink) sends(b *testing.B) {
	const burst, burstInterval = 50, time.Millisecond
	began := time.Now()
	next := began
	n := 0
	for b.Loop() {
		if n++; n%burst == 0 {
			next = next.Add(burstInterval)
			time.Sleep(time.Until(next))
		}
		c.send(b)
	}
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "packets/s")
	b.ReportMetric(0, "ns/op")
}

// lost reports the number of packets that were not read. The read packets may include those of neighbour
// discovery.
func lost(b *testing.B, read int) {
	b.ReportMetric(float64(max(0, b.N-read))*100/float64(b.N), "lost-%")
}

// A program reads an interface until an interrupt, and prints the number of packets read.
type program struct {
	name        string
	args        []string
	packetCount *regexp.Regexp
}

func (p program) run(b *testing.B) {
	c := newLoadedLink(b)
	dir := b.TempDir()
	for i, a := range p.args {
		p.args[i] = strings.ReplaceAll(a, "DIR", dir)
	}
	cmd := exec.Command(p.name, p.args...)
	var stderr bytes.Buffer
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, &stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.to.Do(b, cmd.Start)
	wiretest.Await(b, "the program reads", func() bool {
		return strings.Count(c.to.Run(b, "", "cat", "/proc/net/packet"), "\n") > 1
	})
	time.Sleep(300 * time.Millisecond) // and has begun
	c.sends(b)
	time.Sleep(500 * time.Millisecond) // for the last ones
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err, stderr.String())
	}
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		b.Fatal(err)
	}
	m := p.packetCount.FindSubmatch(append(stderr.Bytes(), printed[:min(len(printed), 1<<16)]...))
	if m == nil {
		b.Fatalf("%s: %s", p.name, stderr.String())
	}
	read, err := strconv.Atoi(string(m[1]))
	if err != nil {
		b.Fatal(err)
	}
	lost(b, read)
}

func BenchmarkLoss(b *testing.B) {
	tcpdump := wiretest.Tool(b, "tcpdump")
	rocecn := filepath.Join(b.TempDir(), "rocecn")
	build := exec.Command("go", "build", "-o", rocecn, "github.com/rocecn/rocecn/cmd/rocecn")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatal(string(out))
	}
	b.Run("packet", packetSource)
	read, captured := regexp.MustCompile(`(\d+) packets?`), regexp.MustCompile(`(\d+) packets? captured`)
	for _, p := range []program{
		{rocecn, []string{"flows", "-i", "eth0"}, read},
		{rocecn, []string{"inspect", "-i", "eth0"}, read},
		{tcpdump, []string{"-U", "-i", "eth0", "-w", "DIR/x.pcap", "udp"}, captured},
	} {
		name := filepath.Base(p.name)
		if p.name == rocecn {
			name = p.args[0]
		}
		b.Run(name, p.run)
	}
}

// packetSource is the source of a role, read in the thread of a role that answers one of these packets each
// millisecond.
func packetSource(b *testing.B) {
	c := newLoadedLink(b)
	var in netio.InterfaceSource
	var out netio.Sink
	c.to.Do(b, func() (err error) {
		in, err = netio.OpenPackets(netio.PacketConfig{Interface: "eth0", Direction: netio.In, SnapLength: 512})
		if err == nil {
			out, err = netio.OpenRaw("")
		}
		return err
	})
	defer in.Close()
	defer out.Close()
	role, err := congested.New(congested.Config{
		Enabled: true, Self6: self, PerFlow: [8]time.Duration{time.Millisecond},
		Methods: acl.NewMap(acl.Entry[congested.Method]{
			Prefix: netip.MustParsePrefix("::/0"), Value: congested.MethodFastCNP}),
	})
	if err != nil {
		b.Fatal(err)
	}
	read := 0
	var f rocev2.Frame
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() {
		ended <- netio.Run(ctx, out, func(to []byte, _ int, p *netio.Packet) []byte {
			f.Decode(p.Data, p.Options())
			to, d := role.Receive(to, &f, node.Event{Now: p.Time})
			if d.Action != node.NoAction {
				read++
			}
			return to
		}, in)
	}()
	c.sends(b)
	time.Sleep(500 * time.Millisecond)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	lost(b, read)
}
