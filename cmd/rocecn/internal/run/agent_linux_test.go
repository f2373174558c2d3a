package run

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
)

const isAgent = "ROCECN_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(isAgent) == "" {
		os.Exit(m.Run())
	}
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	if os.Getenv(isAgent) == isStatus {
		os.Exit(Status(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// An agent is a rocecn run process on a host.
type agent struct {
	*exec.Cmd
	host    *wiretest.Host
	config  string
	monitor string // address of its HTTP server
	mu      sync.Mutex
	output  bytes.Buffer
	ended   chan error
}

// monitor is the address of the agents' HTTP servers.
const monitor = "[::1]:9479"

// start starts the agent with this configuration, and waits until it is ready.
func start(t *testing.T, h *wiretest.Host, config string) *agent {
	t.Helper()
	self := wiretest.Must(os.Executable())(t)
	a := startAs(t, h, wiretest.File(t, "agent.toml", "[agent]\nhttp = \""+monitor+"\"\n"+config), self)
	wiretest.Await(t, "the agent is ready", func() bool {
		require.NotContains(t, a.log(), "the agent failed")
		return strings.Contains(a.log(), "msg=ready")
	})
	return a
}

// run starts the process, which ends with the test.
func (a *agent) run(t *testing.T) {
	t.Helper()
	a.monitor = monitor
	stderr := wiretest.Must(a.StderrPipe())(t)
	a.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	a.host.Do(t, a.Start)
	a.ended = make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			a.mu.Lock()
			fmt.Fprintln(&a.output, lines.Text())
			a.mu.Unlock()
		}
		a.ended <- a.Wait()
	}()
	t.Cleanup(func() {
		a.Process.Kill()
		if t.Failed() {
			t.Log(a.log())
		}
	})
}

func (a *agent) log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.output.String()
}

// get returns the agent's answer at a path, or "" if it cannot be reached.
func (a *agent) get(path string) (text string) {
	_ = a.host.Try(func() error {
		c, err := net.Dial("tcp", a.monitor)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		octets, err := io.ReadAll(c)
		text = string(octets)
		return err
	})
	return text
}

// metric returns the sum of all samples of a metric that contain these parts in their labels.
func (a *agent) metric(name string, labels ...string) (sum float64) {
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(\{.*\})? (\S+)$`).FindAllStringSubmatch(a.get("/metrics"), -1) {
		has := true
		for _, l := range labels {
			has = has && strings.Contains(m[1], l)
		}
		if v, err := strconv.ParseFloat(m[2], 64); has && err == nil {
			sum += v
		}
	}
	return sum
}

// awaits waits until a metric has a value.
func (a *agent) awaits(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	got := 0.
	defer func() {
		if t.Failed() {
			t.Log(name, labels, "is", got, "and not", want)
		}
	}()
	wiretest.Await(t, name, func() bool {
		got = a.metric(name, labels...)
		return got == want
	})
}

// awaitLog waits until the agent has logged a text: its metrics may be ahead of its log.
func (a *agent) awaitLog(t *testing.T, part string) {
	t.Helper()
	wiretest.Await(t, part, func() bool { return strings.Contains(a.log(), part) })
}

// reload writes another configuration, and sends SIGHUP.
func (a *agent) reload(t *testing.T, config string) {
	t.Helper()
	config = "[agent]\nhttp = \"" + monitor + "\"\n" + config
	require.NoError(t, os.WriteFile(a.config, []byte(config), 0o600))
	require.NoError(t, a.Process.Signal(syscall.SIGHUP))
}

// checks returns the output of check -system for the agent's file, which is valid.
func (a *agent) checks(t *testing.T) string {
	t.Helper()
	var output bytes.Buffer
	a.host.Do(t, func() error {
		args := []string{"-config", a.config, "-system"}
		require.Zero(t, Check(t.Context(), args, nil, io.Discard, &output), output.String())
		return nil
	})
	return output.String()
}

// awaitEnd returns the error with which the process ends. A process that does not end fails the test.
func (a *agent) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-a.ended:
		return err
	case <-time.After(wiretest.Timeout):
		t.Fatalf("the process has not ended in %v: %s", wiretest.Timeout, a.log())
		return nil
	}
}

// terminate ends the agent by SIGTERM.
func (a *agent) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	require.NoError(t, a.awaitEnd(t), a.log())
}

// addsUp checks that each packet of a role was counted once, and that the sent packets and send errors add up.
func (a *agent) addsUp(t *testing.T, packets float64) {
	t.Helper()
	require.Equal(t, packets, a.metric("rocecn_source_packets_total"))
	require.Zero(t, a.metric("rocecn_source_lost_total"))
	require.Equal(t, packets, a.metric("rocecn_role_packets_total"))
	wiretest.Await(t, "all sent packets are counted", func() bool { // a packet arrives before it is counted
		return a.metric("rocecn_role_to_sink_total") ==
			a.metric("rocecn_sink_packets_total")+a.metric("rocecn_sink_errors_total")
	})
}

var (
	sender   = netip.MustParseAddr("2001:db8:1::a")
	receiver = netip.MustParseAddr("2001:db8:2::b")
	node6    = netip.MustParseAddr("2001:db8:2::c") // a congested node
)

// network is a sender, a router with the agent, and a receiver, which also hosts congested nodes. in captures
// packets to the sender.
func network(t *testing.T) (a, r, b *wiretest.Host, in netio.InterfaceSource) {
	t.Helper()
	a, r, b = wiretest.NewHost(t, "a"), wiretest.NewHost(t, "r"), wiretest.NewHost(t, "b")
	wiretest.Link(t, wiretest.End{Host: a, Device: "a0", Addresses: []string{"2001:db8:1::a/64"}},
		wiretest.End{Host: r, Device: "r0", Addresses: []string{"2001:db8:1::1/64"}})
	wiretest.Link(t, wiretest.End{Host: r, Device: "r1", Addresses: []string{"2001:db8:2::1/64"}},
		wiretest.End{Host: b, Device: "b0", Addresses: []string{"2001:db8:2::b/64", "2001:db8:2::c/64"}})
	a.Run(t, "", "ip", "route", "add", "default", "via", "2001:db8:1::1")
	b.Run(t, "", "ip", "route", "add", "default", "via", "2001:db8:2::1")
	r.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0) })
	wiretest.AwaitLinks(t, a, r, b)
	roce := &filter.Capture{Selection: filter.RoCEv2}
	in = wiretest.Open(t, a, netio.OpenPackets, netio.PacketConfig{Interface: "a0", Direction: netio.In, Filter: roce})
	return a, r, b, in
}

// raw opens a raw sink on a host.
func raw(t *testing.T, h *wiretest.Host) netio.Sink {
	t.Helper()
	return wiretest.Open(t, h, netio.OpenRaw, "")
}

// sends sends packets.
func sends(t *testing.T, out netio.Sink, packets ...[]byte) {
	t.Helper()
	for _, p := range packets {
		require.NoError(t, out.Send(p))
	}
	require.NoError(t, out.Flush())
}

// datagram is a UD packet of the sender's queue pair 34 to a queue pair of the receiver.
func datagram(t *testing.T, destQP uint32) []byte {
	t.Helper()
	p := rocev2.Packet{Payload: make([]byte, 256)}
	p.Src, p.Dst, p.SrcPort, p.DstPort = sender, receiver, 49152, rocev2.Port
	p.HopLimit, p.TrafficClass = 64, uint8(rocev2.ECT0)
	p.BTH.Header = bth.Header{Opcode: bth.UDSendOnly, PKey: 0xFFFF, DestQP: destQP}
	p.BTH.DETH.SrcQP = 34
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// answerTo is a packet in the reverse direction.
func answerTo(data []byte) []byte {
	return slices.Concat(data[:8], data[24:40], data[8:24], data[40:])
}

// tunnels returns a function that returns the next tunnelled packet that arrives at a host.
func tunnels(t *testing.T, h *wiretest.Host, device string) func() *rocev2.Frame {
	t.Helper()
	in := wiretest.Open(t, h, netio.OpenPackets, netio.PacketConfig{Interface: device, Direction: netio.In})
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	t.Cleanup(func() { poll.Close() })
	return func() *rocev2.Frame {
		t.Helper()
		for {
			_, packets, err := poll.Next(wiretest.Timeout)
			require.NoError(t, err)
			require.NotEmpty(t, packets)
			for i := range packets { // skipping neighbour discovery
				f := new(rocev2.Frame)
				f.Decode(slices.Clone(packets[i].Data), packets[i].Options())
				if f.Outer().Datagram(new(rocev2.Datagram)) == nil && f.Tunnelled() {
					return f
				}
			}
		}
	}
}

// cnps waits for this number of CNPs at a source, and checks them.
func cnps(t *testing.T, in netio.Source, want int, from netip.Addr) {
	t.Helper()
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	defer poll.Close()
	for n := 0; n < want; {
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, packets, "%d of %d CNPs", n, want)
		for i := range packets {
			var p rocev2.Packet
			require.NoError(t, p.DecodeEthernet(packets[i].Data))
			c, err := cnp.FromPacket(&p)
			require.NoError(t, err)
			require.Equal(t, []any{uint32(34), from, sender, 0}, []any{c.DestQP, p.Src, p.Dst, len(p.Ext)})
			_, err = p.VerifyICRC()
			require.NoError(t, err)
			n++
		}
	}
}

const hup = syscall.SIGHUP

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// startAs starts the agent by a command with an existing configuration file.
func startAs(t *testing.T, h *wiretest.Host, config string, command ...string) *agent {
	t.Helper()
	a := &agent{host: h, config: config}
	a.Cmd = exec.Command(command[0], append(command[1:], "-config", config)...)
	a.Env = append(os.Environ(), isAgent+"=1")
	a.run(t)
	return a
}

// The unit allows the threads of a machine with 512 CPUs: a Go program that cannot start a thread dies.
func TestTasksMax(t *testing.T) {
	octets, err := os.ReadFile(filepath.Join(wiretest.Root(t), "packaging", "rocecn.service"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^TasksMax=(\d+)$`).FindSubmatch(octets)
	require.NotNil(t, m)
	most := wiretest.Must(strconv.Atoi(string(m[1])))(t)

	t.Setenv("GOMAXPROCS", "512")
	_, r, _, _ := network(t)
	agent := start(t, r, "pprof = true\n"+theProxy)
	agent.get("/debug/pprof/heap?gc=1") // garbage collection uses a quarter of the CPUs
	threads := wiretest.Must(os.ReadDir(fmt.Sprintf("/proc/%d/task", agent.Process.Pid)))(t)
	require.Less(t, len(threads)+512, most, "each CPU may run one more")
}

// A pipe without a reader is rejected immediately.
func TestSinkPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	require.ErrorIs(t, trySink(&captureSink{File: name}), syscall.ENXIO)
	_, err := openCapture(name, nil)
	require.ErrorIs(t, err, syscall.ENXIO)
}

// disk returns files on a disk of 64 KiB, which is invisible to others and ends with the files.
func disk(t *testing.T, names ...string) (files []*os.File) {
	t.Helper()
	if os.Geteuid() != 0 {
		wiretest.Missing(t, "a disk of its own needs root")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with this function, and its mounts with it
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
				return err
			}
			if err := unix.Mount("none", os.TempDir(), "tmpfs", 0, "size=64k"); err != nil {
				return err
			}
			for _, name := range names {
				f, err := os.Create(filepath.Join(os.TempDir(), name))
				if err != nil {
					return err
				}
				files = append(files, f)
			}
			return nil
		}()
	}()
	require.NoError(t, <-done)
	return files
}

// On a full disk no part of a packet stays in the file. The error is logged once, and the sink is not up until
// there is space again.
func TestFullDisk(t *testing.T) {
	files := disk(t, "sent.pcap", "filler")
	var output bytes.Buffer
	log := slog.New(slog.NewTextHandler(&output, nil))
	to := &sharedCapture{file: files[0], log: func() *slog.Logger { return log }}
	defer to.Close()
	filler := files[1]
	defer filler.Close()
	fill := func() {
		_, err := io.Copy(filler, io.LimitReader(zeros{}, 1<<20))
		require.ErrorIs(t, err, unix.ENOSPC)
	}
	entry := &sinkEntry{sink: &captureSink{shared: to}}
	o := &outlet{entry: entry, now: time.Unix(1, 0)}
	require.NoError(t, o.open())
	sends := func(n int) (sent, failed uint64) {
		before, beforeFailed := o.packets.Load(), o.errors[otherFailure].Load()
		for range n {
			o.sendPacket(make([]byte, 300), o.now)
			o.flush()
		}
		return o.packets.Load() - before, o.errors[otherFailure].Load() - beforeFailed
	}

	fill() // no space for the file header
	to.startFile()
	sent, failed := sends(2)
	require.Equal(t, []uint64{0, 2}, []uint64{sent, failed})
	require.False(t, o.canSend())
	require.NoError(t, filler.Truncate(0))
	_, err := filler.Seek(0, io.SeekStart)
	require.NoError(t, err)
	sent, failed = sends(10)
	require.Equal(t, []uint64{10, 0}, []uint64{sent, failed})
	require.True(t, o.canSend())

	fill() // the rest of the page has space for a part of a packet
	sent, failed = sends(100)
	require.Equal(t, uint64(100), sent+failed)
	require.Less(t, sent, uint64(100))
	require.False(t, o.canSend())
	require.NoError(t, filler.Truncate(0))
	more, failed := sends(5)
	require.Equal(t, []uint64{5, 0}, []uint64{more, failed})
	require.True(t, o.canSend())
	require.Equal(t, 2, strings.Count(output.String(), "its file cannot be written"))
	require.Equal(t, 2, strings.Count(output.String(), "its file can be written again"))

	octets := make([]byte, 1<<16)
	n, _ := files[0].ReadAt(octets, 0)
	in := wiretest.Must(capture.Open(bytes.NewReader(octets[:n])))(t)
	var r capture.Record
	for range 10 + sent + 5 {
		require.NoError(t, in.Next(&r))
		require.Len(t, r.Data, 300)
	}
	require.Equal(t, io.EOF, in.Next(&r))
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A failed start or reload leaves the files of its sinks as they were: with their content, or missing.
func TestFailedStartKeepsFiles(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	folder := t.TempDir()
	keep, fresh := filepath.Join(folder, "keep.pcap"), filepath.Join(folder, "new.pcap")
	require.NoError(t, os.WriteFile(keep, []byte("kept"), 0o600))
	config := "[agent]\nhttp = \"" + busy.Addr().String() + "\"\n" +
		"[source.a]\ntype = \"capture\"\nfile = \"" + wiretest.Path(t, "messages.pcap") + "\"\n"
	for _, c := range []struct{ name, file string }{{"keep", keep}, {"new", fresh}} {
		t.Run(c.name, func(t *testing.T) {
			config += "[sink." + c.name + "]\ntype = \"capture\"\nfile = \"" + c.file + "\"\n" +
				"[[role.receiver]]\nenabled = true\nsources = [\"a\"]\nsink = \"" + c.name + "\"\n" +
				"self = [\"2001:db8::5\"]\nlearn = true\n"
		})
	}
	var stderr bytes.Buffer
	status := Run(t.Context(), []string{"-config", wiretest.File(t, "agent.toml", config)}, nil, io.Discard, &stderr)
	require.Equal(t, 1, status)
	require.Contains(t, stderr.String(), "agent.http: ")
	require.Equal(t, "kept", string(octetsOf(t, keep)))
	require.NoFileExists(t, fresh)

	s := &server{name: wiretest.File(t, "other.toml", config), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	s.file = wiretest.Must(parseFile([]byte("[agent]\n")))(t)
	_, err = s.replaceFile(t.Context())
	require.ErrorContains(t, err, "agent.http: ")
	require.Equal(t, "kept", string(octetsOf(t, keep)))
	require.NoFileExists(t, fresh)
}
