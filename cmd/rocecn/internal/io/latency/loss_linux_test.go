package latency

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// A crowd is a host that sends b.N packets of 300 octets to another one, 50,000 per second.
type crowd struct {
	from, to *wiretest.Host
	raw      netio.Sink
	packet   []byte
}

func newCrowd(b *testing.B) *crowd {
	b.Helper()
	c := &crowd{from: wiretest.NewHost(b, "from"), to: wiretest.NewHost(b, "to")}
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

func (c *crowd) send(b *testing.B) {
	if err := c.raw.Send(c.packet); err != nil {
		b.Fatal(err)
	}
	if err := c.raw.Flush(); err != nil {
		b.Fatal(err)
	}
}

// sends sends all packets, and reports the rate per second.
func (c *crowd) sends(b *testing.B) {
	const atOnce, every = 50, time.Millisecond
	began := time.Now()
	next := began
	n := 0
	for b.Loop() {
		if n++; n%atOnce == 0 {
			next = next.Add(every)
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
	name string
	args []string
	says *regexp.Regexp
}

func (p program) run(b *testing.B) {
	c := newCrowd(b)
	dir := b.TempDir()
	for i, a := range p.args {
		p.args[i] = strings.ReplaceAll(a, "DIR", dir)
	}
	cmd := exec.Command(p.name, p.args...)
	var said bytes.Buffer
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, &said, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
		b.Fatal(err, said.String())
	}
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		b.Fatal(err)
	}
	m := p.says.FindSubmatch(append(said.Bytes(), printed[:min(len(printed), 1<<16)]...))
	if m == nil {
		b.Fatalf("%s: %s", p.name, said.String())
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
	c := newCrowd(b)
	var in *netio.Packets
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
