package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/stretchr/testify/require"
)

// liveFrames are frames of every kind, plain, tagged, and in a mirror.
func liveFrames(t *testing.T) (frames [][]byte) {
	for _, p := range wiretest.Capture(t, "messages.pcap") {
		frames = append(frames, p.Data)
	}
	for _, frame := range slices.Clone(frames) {
		frames = append(frames, slices.Concat(frame[:12], wiretest.Hex(t, "81006007"), frame[12:]))
	}
	return append(frames, wiretest.Hex(t,
		"0180c2000001 001122334455 8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000"))
}

// line is a line of JSON without number and time of the frame.
func line(t *testing.T, text string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, `,"kind":`)
	require.True(t, ok, text)
	return rest
}

// lines returns the output of the tool for a file.
// linkKeys are keys that cooked captures of tcpdump lack.
var linkKeys = regexp.MustCompile(`"src_mac":"[^"]*","dst_mac":"[^"]*",|"vlan":\d+,"pcp":\d,`)

func lines(t *testing.T, file string) (all []string) {
	t.Helper()
	var out, messages bytes.Buffer
	require.Zero(t, runCommand(t.Context(), []string{"inspect", "-json", file}, nil, &out, &messages),
		messages.String())
	for text := range strings.Lines(out.String()) {
		all = append(all, line(t, text))
	}
	return all
}

// inspect -i prints the frames on a cable, one by one, exactly as inspect prints them from a capture file. An
// interrupt ends it with the summary.
func TestLiveInspect(t *testing.T) {
	socket := wiretest.Cable(t)
	frames := liveFrames(t)
	stacked := slices.Concat(frames[0][:12], wiretest.Hex(t, "88a80009 81006007"), frames[0][12:])
	frames = append(frames, stacked)
	var file bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&file, capture.Ethernet, time.Microsecond))(t)
	for _, frame := range frames {
		require.NoError(t, w.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame))}))
	}
	path := wiretest.File(t, "frames.pcap", file.Bytes())
	want := lines(t, path)

	p := tool(t, "inspect", "-json", "-i", "far")
	out := wiretest.Must(p.StdoutPipe())(t)
	p.start(t)
	awaitSocket(t, "far")
	printed := bufio.NewScanner(out)
	for i, frame := range frames {
		socket.Send(t, frame)
		require.True(t, printed.Scan(), &p.messages)
		require.Contains(t, printed.Text(), fmt.Sprintf(`{"frame":%d,"time":"2`, i+1))
		require.Equal(t, want[i], line(t, printed.Text()+"\n"))
	}
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.False(t, printed.Scan())
	require.NoError(t, p.Wait(), &p.messages)
	require.Contains(t, p.messages.String(), fmt.Sprintf("%d packets: ", len(frames)))
	require.Contains(t, p.messages.String(), "dropped by the kernel: 0\n")
}

// pairs -i finds the same pairs on a cable as pairs finds in the capture.
func TestLivePairs(t *testing.T) {
	socket := wiretest.Cable(t)
	witness := wiretest.Must(netio.OpenPackets(netio.PacketConfig{Interface: "far"}))(t)
	defer witness.Close()
	all := wiretest.Must(netio.NewPoll(t.Context(), witness))(t)
	defer all.Close()
	p := tool(t, "pairs", "-json", "-i", "far")
	var out bytes.Buffer
	p.Stdout = &out
	p.start(t)
	awaitSockets(t, "far", 2) // of which the kernel serves the one opened last first
	frames := wiretest.Capture(t, "rxe-rping6.pcap")
	for _, f := range frames {
		socket.Send(t, f.Data)
	}
	for n := 0; n < len(frames); {
		_, batch, err := all.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, batch)
		n += len(batch)
	}
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.NoError(t, p.Wait(), &p.messages)
	require.Contains(t, p.messages.String(), fmt.Sprintf("%d packets; 2 pairs: 2 by connection management",
		len(frames)))
	require.Contains(t, p.messages.String(), "dropped by the kernel: 0\n")
	require.Equal(t, 2, strings.Count(out.String(), `"src_qp_from":"cm"`))
	p = tool(t, "pairs", "-i", "far", "file")
	p.start(t)
	require.Error(t, p.Wait())
	require.Equal(t, 2, p.ProcessState.ExitCode())
}

// -listen serves the metrics of the packets received so far, and an interrupt ends it.
func TestLiveListen(t *testing.T) {
	socket := wiretest.Cable(t)
	out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput()
	require.NoError(t, err, string(out))
	p := tool(t, "flows", "-json", "-i", "far", "-listen", "127.0.0.1:0")
	messages := wiretest.Must(os.CreateTemp(t.TempDir(), ""))(t)
	p.Stderr = messages
	var stdout bytes.Buffer
	p.Stdout = &stdout
	p.start(t)
	address := ""
	wiretest.Await(t, "it listens", func() bool {
		_, address, _ = strings.Cut(string(octetsOf(t, messages.Name())), "http://")
		address, _, _ = strings.Cut(address, "/")
		return address != ""
	})
	get := func(path string) string { // by the test's own thread: the others are elsewhere
		conn := wiretest.Must(net.Dial("tcp", address))(t)
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", path)
		answer := wiretest.Must(io.ReadAll(conn))(t)
		require.Contains(t, string(answer), "200 OK")
		return string(answer)
	}
	awaitSocket(t, "far")
	for _, packet := range wiretest.Capture(t, "rxe-perf4.pcap") {
		socket.Send(t, packet.Data)
	}
	wiretest.Await(t, "all is counted", func() bool {
		return strings.Contains(get("/metrics"), "\nrocecn_capture_packets_total 238\n")
	})
	require.Contains(t, get("/metrics"), "\nrocecn_capture_dropped_packets_total 0\n")
	require.Contains(t, get("/flows.json"), `"dest_qp":19,`)
	require.Contains(t, get("/"), "<h1>RoCEv2 flows · far</h1>")
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.NoError(t, p.Wait(), string(octetsOf(t, messages.Name())))
	require.Contains(t, stdout.String(), `"dest_qp":19,`)
}

// awaitSocket waits until a process captures on a device.
func awaitSocket(t *testing.T, device string) {
	t.Helper()
	awaitSockets(t, device, 1)
}

// awaitSockets waits until so many sockets capture on a device.
func awaitSockets(t *testing.T, device string, want int) {
	t.Helper()
	d := wiretest.Must(net.InterfaceByName(device))(t)
	wiretest.Await(t, "capture on "+device, func() bool {
		b, err := os.ReadFile("/proc/thread-self/net/packet") // this thread's namespace
		require.NoError(t, err)
		n := 0
		for socket := range strings.Lines(string(b)) {
			fields := strings.Fields(socket) // sk RefCnt Type Proto Iface R Rmem User Inode
			if fields[3] == "0003" && fields[4] == fmt.Sprint(d.Index) {
				n++
			}
		}
		return n >= want
	})
}

// tcpdump captures on any, which writes Linux cooked frames, and on the device. Both captures read the same, except
// for frames with two tags: the kernel and libpcap leave the inner tag in place of the IP header.
func TestTcpdumpAny(t *testing.T) {
	tcpdump := wiretest.Tool(t, "tcpdump")
	for _, link := range []string{"LINUX_SLL", "LINUX_SLL2"} {
		t.Run(link, func(t *testing.T) {
			socket := wiretest.Cable(t)
			frames := liveFrames(t)
			beacon := wiretest.Hex(t, "ffffffffffff 020000000002 88b5 00")
			isBeacon := func(record []byte) bool { return len(record) <= len(beacon)+6 } // 15 octets, 17 or 21 cooked
			var files []string
			var all []*exec.Cmd
			for _, args := range [][]string{{"-i", "far"}, {"-i", "any", "-y", link}} {
				path := filepath.Join(t.TempDir(), "out.pcap")
				cmd := exec.Command(tcpdump, append(args, "-Q", "in", "-U", "--immediate-mode", "-s", "4096", "-B",
					"8192", "-Z", "root", "-w", path)...)
				require.NoError(t, cmd.Start())
				files, all = append(files, path), append(all, cmd)
				wiretest.Await(t, "capture by tcpdump", func() bool { // from some time after its start on
					socket.Send(t, beacon)
					return len(records(path)) > 0
				})
			}
			for _, frame := range frames {
				socket.Send(t, frame)
			}
			var read [][]string
			for i, path := range files {
				wiretest.Await(t, "all frames in the capture by tcpdump", func() bool {
					return len(slices.DeleteFunc(records(path), isBeacon)) == len(frames)
				})
				require.NoError(t, all[i].Process.Signal(os.Interrupt))
				require.NoError(t, all[i].Wait())
				printed, captured := lines(t, path), records(path)
				require.Len(t, printed, len(captured))
				var some []string
				for n, text := range printed {
					if !isBeacon(captured[n]) {
						some = append(some, linkKeys.ReplaceAllString(text, ""))
					}
				}
				slices.Sort(some)
				read = append(read, some)
			}
			require.Len(t, read[0], len(frames))
			require.Equal(t, read[0], read[1])
			require.Contains(t, strings.Join(read[0], ""), `"data"`)
		})
	}
}

// Errors of an interface are printed in plain words, and the exit status is 1.
func TestLiveErrors(t *testing.T) {
	socket := wiretest.Cable(t)
	p := tool(t, "inspect", "-i", "nowhere")
	p.start(t)
	require.Error(t, p.Wait())
	require.Equal(t, 1, p.ProcessState.ExitCode())
	require.Contains(t, p.messages.String(), "rocecn inspect: nowhere: no such interface\n")

	for _, command := range []string{"link set far down", "link del far"} {
		p = tool(t, "inspect", "-i", "far")
		out := wiretest.Must(p.StdoutPipe())(t)
		p.start(t)
		awaitSocket(t, "far")
		socket.Send(t, liveFrames(t)[0])
		printed := bufio.NewScanner(out)
		require.True(t, printed.Scan(), &p.messages)
		ip, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
		require.NoError(t, err, string(ip))
		require.Error(t, p.Wait())
		require.Equal(t, 1, p.ProcessState.ExitCode())
		require.Contains(t, p.messages.String(),
			"rocecn inspect: far: the interface went down or away\n1 packet: 1 data\n")
		if command == "link set far down" {
			ip, err = exec.Command("ip", "link", "set", "far", "up").CombinedOutput()
			require.NoError(t, err, string(ip))
			wiretest.AwaitCarriers(t)
		}
	}
}

// Without rights the message says which are needed.
func TestLiveWithoutRights(t *testing.T) {
	if os.Geteuid() != 0 {
		wiretest.Missing(t, "only root can give rights away")
	}
	self := wiretest.Must(os.Executable())(t)
	dir, err := os.MkdirTemp("", "rocecn") // one that others can enter
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	copied := filepath.Join(dir, "rocecn")
	require.NoError(t, os.WriteFile(copied, octetsOf(t, self), 0o755))
	p := tool(t, "inspect", "-i", "lo")
	p.Path, p.Args[0] = copied, copied
	const nobody = 65534
	p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	p.start(t)
	require.Error(t, p.Wait())
	require.Equal(t, 1, p.ProcessState.ExitCode())
	require.Contains(t, p.messages.String(),
		"rocecn inspect: lo: no rights: live capture needs root, or the capability CAP_NET_RAW\n")
}

// Packets in the kernel's own tunnels are found, with all headers that the kernel writes.
func TestKernelTunnels(t *testing.T) {
	inner := liveFrames(t)[0]
	for _, c := range []struct{ name, option, device string }{
		{"vxlan", "CONFIG_VXLAN", "vxlan id 42 remote 192.0.2.2 local 192.0.2.1 dstport 4789"},
		{"geneve", "CONFIG_GENEVE", "geneve id 42 remote 192.0.2.2"},
		{"gre", "CONFIG_NET_IPGRE", "gretap remote 192.0.2.2 local 192.0.2.1 key 7 seq csum"},
		{"erspan1", "CONFIG_NET_IPGRE", "erspan remote 192.0.2.2 local 192.0.2.1 erspan_ver 0"},
		{"erspan2", "CONFIG_NET_IPGRE", "erspan remote 192.0.2.2 local 192.0.2.1 seq key 7 erspan_ver 1 erspan 123"},
		{"erspan3", "CONFIG_NET_IPGRE",
			"erspan remote 192.0.2.2 local 192.0.2.1 seq key 7 erspan_ver 2 erspan_dir ingress erspan_hwid 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wiretest.Cable(t)
			far := wiretest.Must(net.InterfaceByName("far"))(t)
			for _, command := range []string{
				"addr add 192.0.2.1/24 dev near",
				"neigh add 192.0.2.2 lladdr " + far.HardwareAddr.String() + " dev near",
				"link add tunnel type " + c.device,
				"link set tunnel up",
			} {
				out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
				if strings.Contains(string(out), "Unknown device type") ||
					strings.Contains(string(out), "Operation not supported") {
					wiretest.NotInKernel(t, c.option, "ip "+command+": "+strings.TrimSpace(string(out)))
				}
				require.NoError(t, err, "ip %s: %s", command, out)
			}
			tunnel := wiretest.Must(net.InterfaceByName("tunnel"))(t)
			p := tool(t, "inspect", "-json", "-i", "far")
			out, err := p.StdoutPipe()
			require.NoError(t, err)
			p.start(t)
			awaitSocket(t, "far")
			wiretest.NewSocket(t, tunnel.Index).Send(t, inner)
			printed := bufio.NewScanner(out)
			found := ""
			for found == "" && printed.Scan() {
				if strings.Contains(printed.Text(), `"tunnels"`) {
					found = printed.Text()
				}
			}
			require.NoError(t, p.Process.Signal(os.Interrupt))
			_, err = io.Copy(io.Discard, out)
			require.NoError(t, err)
			require.NoError(t, p.Wait(), &p.messages)
			require.Contains(t, found, `"kind":"data"`)
			require.Contains(t, found, `"ok":true`)
			require.Contains(t, found, `"tunnels":["`+c.name+`"]`)
		})
	}
}
