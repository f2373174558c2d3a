package filter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// links are the link types that there are programs for, with their numbers in
// captures.
var links = map[rocev2.LinkType]uint32{
	rocev2.LinkEthernet: 1, rocev2.LinkIP: 101, rocev2.LinkSLL: 113, rocev2.LinkSLL2: 276,
}

// captures are filters of each kind.
var captures = []Capture{
	{},
	{Selection: Notifications},
	{Selection: Notifications, FCNPort: 53, ProxyPort: 2000},
	{Selection: CE},
	{Selection: QueuePair, DestQP: 17},
	{Selection: QueuePair, DestQP: 0xABCDEF},
	{Selection: Ours},
	{Selection: Ours, FCNPort: 53, ProxyPort: 2000},
	{Selection: Pairs},
	{Selection: Flows},
	{Selection: Flows, FCNPort: 53, ProxyPort: 2000},
	{Selection: Flows, Encapsulations: &rocev2.Encapsulations{VXLANPorts: []uint16{2000}, FOUPorts: []uint16{53},
		CSIGTPID: 0x88A8}},
}

// wanted reports whether a filter is to select a packet, according to packages message and rocev2. known is false for
// some malformed packets.
func (c *Capture) wanted(b []byte, o rocev2.DecodeOptions) (want, known bool) {
	o.Encapsulations = c.Encapsulations
	if c.Selection == Flows {
		var m message.Message
		err := m.Decode(b, o, message.Config{FCNPort: c.FCNPort, ProxyPort: c.ProxyPort})
		var f rocev2.Frame
		f.Decode(b, o)
		// The filter selects malformed packets and packets in tunnels that it need not select.
		want = m.Kind != message.KindOther && m.Kind != message.KindError || f.Tunnels().Len() > 0
		return want, want || err == nil && f.Tunnels().Len() == 0 && !f.Truncated()
	}
	var d rocev2.Datagram
	if d.Decode(b, o) == nil && d.Outer != nil {
		return false, false // filters do not look into tunnels
	}
	isTo := func(port uint16) bool {
		var d rocev2.Datagram
		err := d.Decode(b, o, port)
		return err == nil || !errors.Is(err, rocev2.ErrNotRoCEv2)
	}
	ours, roce := false, isTo(rocev2.Port)
	for _, port := range (&Capture{Selection: Ours, FCNPort: c.FCNPort, ProxyPort: c.ProxyPort}).messagePorts() {
		ours = ours || isTo(uint16(port))
	}
	switch {
	case c.Selection == Ours:
		return ours, true
	case c.Selection == RoCEv2:
		return roce, true
	case ours:
		return c.Selection == Notifications, true
	case !roce:
		return false, true
	}
	var m message.Message
	if m.Decode(b, o, message.Config{FCNPort: c.FCNPort, ProxyPort: c.ProxyPort}); m.Reach != message.ReachTransport {
		return false, false
	}
	switch p := &m.Packet; c.Selection {
	case Notifications:
		return p.BTH.Opcode == bth.CNP, true
	case QueuePair:
		return p.BTH.DestQP == c.DestQP, true
	case Pairs:
		name := p.BTH.Opcode.String()
		return p.BTH.AckReq || !strings.HasSuffix(name, "SEND First") && !strings.HasSuffix(name, "WRITE First") &&
				!strings.HasSuffix(name, "Middle"),
			p.BTH.Opcode.IsKnown() || p.BTH.AckReq
	default:
		return p.ECN() == rocev2.CE, true
	}
}

// frames returns frames at random, with fewer tags than so many.
func frames(link rocev2.LinkType, tags, n int) (all [][]byte) {
	m := wiretest.NewFrames(uint64(link) + 77)
	for range n {
		all = append(all, frameOf(m, link, m.IntN(tags)))
	}
	return all
}

// TestCaptureProgram runs the programs on frames at random.
func TestCaptureProgram(t *testing.T) {
	for _, link := range slices.Sorted(maps.Keys(links)) {
		all := frames(link, 4, wiretest.Rounds(5000))
		for _, c := range captures {
			c.FCNPort = cmp.Or(c.FCNPort, fcn.ExperimentalPort)
			c.ProxyPort = cmp.Or(c.ProxyPort, proxymsg.ExperimentalPort)
			program, err := c.Program(link)
			vm := machine(t, program, err)
			selected := 0
			for _, frame := range all {
				verdict := wiretest.Must(vm.Run(frame))(t)
				if !inDomain(frame, link) {
					continue
				}
				if want, known := c.wanted(frame, rocev2.DecodeOptions{Link: link, AllowTruncated: true}); known {
					require.Equal(t, want, verdict != 0, "%v, %+v\n%x", link, c, frame)
				}
				if verdict != 0 {
					selected++
				}
			}
			require.Greater(t, selected, wiretest.Rounds(25), "%v", c)
		}
	}
}

// TestTCPDump has tcpdump select frames at random by the expressions: the same
// as the programs do.
func TestTCPDump(t *testing.T) {
	tcpdump := wiretest.Tool(t, "tcpdump")
	for _, link := range slices.Sorted(maps.Keys(links)) {
		var in bytes.Buffer
		w := wiretest.Must(capture.NewWriter(&in, links[link], time.Microsecond))(t)
		tags := 1
		if link == rocev2.LinkEthernet {
			tags = 4
		}
		all := frames(link, tags, 1500)
		for i, frame := range all {
			require.NoError(t, w.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame)),
				Time: time.Unix(int64(i), 0)}))
		}
		for _, c := range captures {
			expression := wiretest.Must(c.Expression(link))(t)
			program, err := c.Program(link)
			vm := machine(t, program, err)
			selected := tcpdumpSelects(t, tcpdump, in.Bytes(), expression)
			for i, frame := range all {
				verdict := wiretest.Must(vm.Run(frame))(t)
				require.Equal(t, verdict != 0, selected[time.Unix(int64(i), 0).UTC()], "%v, %+v\n%x", link, c, frame)
			}
		}
	}
}

// tcpdump rejects an expression for Ethernet on another link layer, on which it would select nothing.
func TestTCPDumpRejectsAnotherLink(t *testing.T) {
	tcpdump := wiretest.Tool(t, "tcpdump")
	for _, c := range captures {
		expression := wiretest.Must(c.Expression(rocev2.LinkEthernet))(t)
		require.NoError(t, exec.Command(tcpdump, "-y", "EN10MB", "-d", expression).Run())
		for _, link := range []string{"RAW", "LINUX_SLL", "LINUX_SLL2"} {
			out, err := exec.Command(tcpdump, "-y", link, "-d", expression).CombinedOutput()
			require.Error(t, err, link)
			require.Contains(t, string(out), "ethernet addresses supported only on ethernet", link)
		}
	}
}

// Users can add other terms of tcpdump, before and after the expression.
func TestTCPDumpAdds(t *testing.T) {
	tcpdump := wiretest.Tool(t, "tcpdump")
	file := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	expression := wiretest.Must((&Capture{}).Expression(rocev2.LinkEthernet))(t)
	all := tcpdumpSelects(t, tcpdump, file, expression)
	require.NotEmpty(t, all)
	require.Equal(t, all, tcpdumpSelects(t, tcpdump, file, expression+" and net 10.77.0.0/24"))
	require.Equal(t, all, tcpdumpSelects(t, tcpdump, file, "net 10.77.0.0/24 and "+expression))
}

// tcpdumpSelects returns the times of the packets that tcpdump selects from a
// capture.
func tcpdumpSelects(t *testing.T, tcpdump string, in []byte, expression string) map[time.Time]bool {
	t.Helper()
	cmd := exec.Command(tcpdump, "-r", "-", "-w", "-", expression)
	cmd.Stdin = bytes.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%s\n%s", expression, &errs)
	selected := map[time.Time]bool{}
	r, err := capture.Open(&out)
	require.NoError(t, err)
	for {
		var record capture.Record
		if err := r.Next(&record); err == io.EOF {
			return selected
		}
		require.NoError(t, err)
		selected[record.Time] = true
	}
}

// TestTCPDumpCaptures has tcpdump and the programs select packets of every capture in testdata: those that are wanted
// according to package message.
func TestTCPDumpCaptures(t *testing.T) {
	tcpdump := wiretest.Tool(t, "tcpdump")
	total := make([]int, len(captures))
	type packet struct {
		wiretest.Packet
		name string
	}
	var packets []packet
	var in bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&in, capture.Ethernet, time.Microsecond))(t)
	at := func(i int) time.Time { return time.Unix(int64(i), 0).UTC() }
	for _, name := range wiretest.Captures(t, "*.pcap") {
		for _, p := range wiretest.Capture(t, name) {
			record := capture.Record{Data: p.Data, OrigLen: uint32(p.OrigLen), Time: at(len(packets))}
			require.NoError(t, w.Write(&record))
			packets = append(packets, packet{p, name})
		}
	}
	for i, c := range captures {
		expression := wiretest.Must(c.Expression(rocev2.LinkEthernet))(t)
		program, err := c.Program(rocev2.LinkEthernet)
		vm := machine(t, program, err)
		selected := tcpdumpSelects(t, tcpdump, in.Bytes(), expression)
		for n, p := range packets {
			verdict := wiretest.Must(vm.Run(p.Data))(t)
			require.Equal(t, verdict != 0, selected[at(n)], "%s %d, %+v", p.name, p.Number, c)
			want, known := c.wanted(p.Data, rocev2.DecodeOptions{AllowTruncated: len(p.Data) < p.OrigLen})
			if known {
				require.Equal(t, want, verdict != 0, "%s %d, %+v", p.name, p.Number, c)
			}
			if verdict != 0 {
				total[i]++
			}
		}
	}
	require.NotZero(t, total[9], "flows")
	require.Greater(t, total[9], total[0], "flows are more than RoCEv2")
	for i, c := range captures[:5] {
		require.NotZero(t, total[i], "%+v", c)
	}
	t.Log(total)
}

// The fields that tshark decodes determine whether a packet may cross, independently of the walk and the program.
// Fragments and options in Hop-by-Hop headers, which its fields do not distinguish, are in TestMatch.
func TestTsharkAgrees(t *testing.T) {
	random := wiretest.NewFrames(1021)
	var frames [][]byte
	for range 3000 {
		frames = append(frames, random.Ethernet(random.IntN(2), random.IP()))
	}
	rows := wiretest.TsharkFields(t, []string{
		"udp.dstport", "udp.payload", "ipv6.opt.type", "ipv6.hopopts", "tcp.dstport", "ipv6.fraghdr", "ip.flags.mf",
		"ip.frag_offset",
	}, frames...)
	for i := range borders {
		r := borders[i].withDefaults()
		program, err := r.Program(rocev2.LinkEthernet)
		vm := machine(t, program, err)
		types := []string{
			fmt.Sprintf("0x%02x", uint8(r.CodePoints.Option1)), fmt.Sprintf("0x%02x", uint8(r.CodePoints.Option2)),
		}
		compared, dropped := 0, 0
		for n, row := range rows {
			fragment4 := row.Has("ip.flags.mf") && (row.Bool("ip.flags.mf") || row.Uint("ip.frag_offset") > 0)
			if fragment4 || row.Has("ipv6.hopopts") || row.Has("ipv6.fraghdr") {
				continue
			}
			if !row.Has("udp.dstport") && !row.Has("tcp.dstport") {
				continue // tshark decodes nothing after some headers
			}
			if options := row.All("ipv6.opt.type"); slices.Contains(options, "0x31") ||
				slices.Contains(options, "0xc2") {
				continue // nor in options when one is not as it should be that it knows: IOAM, Jumbo Payload
			}
			want := false
			if row.Has("udp.dstport") {
				switch port := row.Uint("udp.dstport"); {
				case port == uint64(r.FCNPort), port == uint64(r.ProxyPort):
					want = true
				case port == 4791 && row.Octets("udp.payload")[0] == 0x81:
					fast := slices.ContainsFunc(row.All("ipv6.opt.type"),
						func(t string) bool { return slices.Contains(types, t) })
					ppfc := row.Octets("udp.payload")[4]&0x20 != 0 && len(row.Octets("udp.payload")) != 12+16+4
					want = fast || ppfc && r.PPFC || !ppfc && r.CNP
				}
			}
			compared++
			if want {
				dropped++
			}
			kind, drop := r.Match(framed(frames[n], rocev2.DecodeOptions{}))
			require.Equal(t, want, drop, "%v %+v\n%x", kind, r, frames[n])
			verdict := wiretest.Must(vm.Run(frames[n]))(t)
			require.Equal(t, want, verdict != 0, "%+v\n%x", r, frames[n])
		}
		require.Greater(t, compared, 500)
		require.Greater(t, dropped, 100)
	}
}
