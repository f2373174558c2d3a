package flows

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/sflow"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// datagrams are those of Open vSwitch in a capture.
func datagrams(t *testing.T) (all [][]byte) {
	for _, r := range wiretest.Capture(t, "sflow/ovs.pcap") {
		var u rocev2.Datagram
		require.NoError(t, u.Decode(r.Data, rocev2.DecodeOptions{}, sflow.Port))
		all = append(all, u.Data)
	}
	return all
}

// The counts are those of tshark for the same samples, and unknown values are absent.
func TestSFlow(t *testing.T) {
	path := wiretest.Path(t, "sflow", "ovs.pcap")
	var frames [][]byte
	for _, r := range wiretest.Capture(t, "sflow/ovs.pcap") {
		frames = append(frames, r.Data)
	}
	const qp, rate = "infiniband.bth.destqp", "sflow.flow_sample.sampling_rate"
	seen := map[string]uint64{}
	samples := 0
	for _, row := range wiretest.TsharkAs(t, []string{"udp.port==6343,sflow"}, []string{qp, rate}, frames...) {
		for _, n := range row.All(qp) {
			seen[n]++
		}
		samples += len(row.All(rate))
	}
	require.NotEmpty(t, seen)
	got := map[string]uint64{}
	all := lines(t, "-sflow", ":6343", path)
	for _, l := range all[:len(all)-1] {
		require.Equal(t, true, l["sampled"])
		for _, p := range l["points"].([]any) {
			n := valueAt(p, "samples").(float64)
			require.Equal(t, 4*n, valueAt(p, "estimated_packets"))
			require.EqualValues(t, 4, valueAt(p, "sampling_rate"))
			require.Equal(t, "2:1000", valueAt(p, "source"))
			require.Equal(t, "127.0.0.1", valueAt(p, "agent"))
			got["0x"+strings.TrimPrefix(queuePair(uint32(l["dest_qp"].(float64))), "0x")] += uint64(n)
		}
		for _, unknown := range []string{
			"psn", "repeats_by", "lives", "rtt_us", "rate_bps", "messages", "packets", "src_qp",
		} {
			require.NotContains(t, l, unknown)
		}
	}
	require.Equal(t, seen, got)
	total := all[len(all)-1]
	require.EqualValues(t, samples, total["samples"])
	require.EqualValues(t, len(frames), total["datagrams"])
	require.EqualValues(t, 0, total["lost_datagrams"])

	status, out, _ := run(t, nil, "-sflow", ":6343", "-top", "1", path)
	require.Zero(t, status)
	require.Contains(t, out, "losses, retransmissions, round trip times and pairs of queue pairs are unknown\n")
	require.Regexp(t, `and \d+ more lines\n14 datagrams of 1 agent, 62 samples at 1 point, 42 other packets\n$`, out)
	_, out, _ = run(t, nil, "-sflow", ":6344", path)
	require.Contains(t, out, "\n0 datagrams of 0 agents, ")
	_, out, _ = run(t, nil, "-sflow", ":6343", "-qp", "19", path)
	require.NotContains(t, out, "0x000012")
	require.Contains(t, out, "0x000013")
	intervals := lines(t, "-sflow", ":6343", "-interval", "1ms", path)
	sum := 0.0
	for _, l := range intervals {
		require.NotEmpty(t, valueAt(l, "interval", "from"))
		if p, ok := l["points"].([]any); ok {
			for i := range p {
				sum += valueAt(p[i], "samples").(float64)
			}
		}
	}
	require.Equal(t, total["samples"].(float64)-total["other_packets"].(float64), sum)
}

// The output for a socket is that for a capture of its datagrams.
func TestSFlowSocket(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	first := make(chan struct{})
	stderr := &output{line: first}
	status, out := make(chan int, 1), new(strings.Builder)
	go func() { status <- Run(ctx, []string{"-json", "-sflow", "127.0.0.1:0"}, nil, out, stderr) }()
	<-first
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(stderr.String())
	conn := wiretest.Must(net.Dial("udp", address))(t)
	defer conn.Close()
	for _, b := range append(datagrams(t), []byte("x")) {
		_, err := conn.Write(b)
		require.NoError(t, err)
	}
	interrupt() // the datagrams in the kernel are read
	require.Zero(t, <-status, stderr)
	all := lines(t, "-sflow", ":6343", wiretest.Path(t, "sflow", "ovs.pcap"))
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, got, len(all))
	for i, text := range got {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		want := all[i]
		if want["total"] == true {
			want["datagrams"], want["broken_datagrams"] = want["datagrams"].(float64)+1, 1.0
		}
		for _, m := range []map[string]any{l, want} {
			delete(m, "first")
			delete(m, "last")
		}
		require.Equal(t, want, l)
	}
}

// An interval also ends if no datagram comes after it.
func TestSFlowSocketInterval(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	first := make(chan struct{})
	stderr, out := &output{line: first}, new(output)
	status := make(chan int, 1)
	go func() {
		status <- Run(ctx, []string{"-json", "-sflow", "127.0.0.1:0", "-interval", "20ms"}, nil, out, stderr)
	}()
	<-first
	conn := wiretest.Must(net.Dial("udp", regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(stderr.String())))(t)
	defer conn.Close()
	_, err := conn.Write(datagrams(t)[0])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `"interval":`) }, time.Minute,
		10*time.Millisecond)
	interrupt()
	require.Zero(t, <-status, stderr)
}

// collected is a collector without input.
func collected(t *testing.T) *collector {
	t.Helper()
	return &collector{options: &options{}, agents: map[agentKey]*agent{},
		sources: map[netip.Prefix]*sflowSource{}, samples: flows.NewSamples(0),
		discarded: map[string]uint64{}}
}

// changed is a datagram with another word at a place.
func changed(b []byte, at int, n uint32) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b[at:], n)
	return b
}

// Lost datagrams are counted by their sequence numbers, out of order or not, except after a restart of an agent. The
// same holds for samples that an agent dropped.
func TestSFlowLost(t *testing.T) {
	const sequence, uptime = 16, 20
	one := datagrams(t)[2] // flow samples alone
	c := collected(t)
	numbered := func(n, at uint32) {
		b := changed(changed(one, sequence, n), uptime, at)
		require.NoError(t, c.countDatagram(b, netip.Addr{}, time.Unix(100, 0)))
	}
	numbered(1<<32-2, 50000)
	numbered(1<<32-1, 50000)
	numbered(0, 60000)
	require.Zero(t, c.counts.Lost)
	numbered(5, 70000)
	require.EqualValues(t, 4, c.counts.Lost)
	numbered(3, 69000)
	require.EqualValues(t, 3, c.counts.Lost)
	numbered(6, 80000)
	require.EqualValues(t, 3, c.counts.Lost)
	numbered(1, 10) // it was restarted
	numbered(2, 20)
	require.EqualValues(t, 3, c.counts.Lost)
	require.Equal(t, 1, c.counts.Agents)

	const drops = 28 + 8 + 16
	c = collected(t)
	for _, n := range []struct{ number, drops uint32 }{{1, 1000}, {2, 1007}, {3, 3}, {5, 13}, {4, 8}, {6, 18}} {
		b := changed(changed(one, 24, 1), drops, n.drops) // one sample
		require.NoError(t, c.countDatagram(changed(b, sequence, n.number), netip.Addr{}, time.Unix(100, 0)))
	}
	require.EqualValues(t, 7+15, c.counts.Drops)
	require.Equal(t, 1, c.counts.Points)
}

// A datagram that comes twice counts once, and is not one of those that came late; others with its number do count,
// since there are agents that do not number.
func TestSFlowDuplicates(t *testing.T) {
	const sequence, uptime = 16, 20
	one := datagrams(t)[2] // 8 flow samples
	c := collected(t)
	for _, n := range []uint32{1, 2, 2, 7, 7, 7, 2, 6, 6} {
		require.NoError(t, c.countDatagram(changed(one, sequence, n), netip.Addr{}, time.Unix(100, 0)))
	}
	require.EqualValues(t, 9, c.counts.Datagrams)
	require.EqualValues(t, 5, c.counts.Duplicates)
	require.EqualValues(t, 3, c.counts.Lost)
	require.EqualValues(t, 4*8, c.counts.Samples)
	require.EqualValues(t, 4*8, c.samples.Stats().Packets)
	c = collected(t)
	for n := range uint32(3) {
		b := changed(changed(one, sequence, 0), uptime, n)
		require.NoError(t, c.countDatagram(b, netip.Addr{}, time.Unix(100, 0)))
	}
	require.Zero(t, c.counts.Duplicates+c.counts.Lost)
	require.EqualValues(t, 3*8, c.counts.Samples)
}

// All counts of an interval are those of the interval, and where no datagram came there is none.
func TestSFlowIntervals(t *testing.T) {
	path := wiretest.Path(t, "sflow", "ovs.pcap")
	all := lines(t, "-sflow", ":6343", path)
	want := all[len(all)-1]
	sums := map[string]float64{}
	for _, l := range lines(t, "-sflow", ":6343", "-interval", "1ms", path) {
		for key, n := range l {
			if n, ok := n.(float64); ok && l["total"] == true {
				sums[key] += n
			}
		}
	}
	require.Greater(t, sums["agents"], want["agents"])
	for key, n := range want {
		if n, ok := n.(float64); ok && key != "agents" && key != "points" {
			require.Equal(t, n, sums[key], key)
		}
	}
	empty := lines(t, "-sflow", ":6344", "-interval", "1s", path)
	require.Len(t, empty, 1)
	require.NotContains(t, empty[0], "interval")
}

// The numbers of agents and points are limited, and samples beyond the limits are counted.
func TestSFlowRoom(t *testing.T) {
	const agent, source, samplingRate = 8, 28 + 8 + 4, 28 + 8 + 8
	one := datagrams(t)[2]
	c := collected(t)
	n := uint64(8) // samples of each
	for i := range uint32(maxAgents + 100) {
		require.NoError(t, c.countDatagram(changed(one, agent, i), netip.Addr{}, time.Unix(100, 0)))
	}
	require.Len(t, c.agents, maxAgents)
	require.Equal(t, 100*n, c.counts.Refused)
	count := func(agentNumber uint32, second int64) {
		require.NoError(t, c.countDatagram(changed(one, agent, agentNumber), netip.Addr{}, time.Unix(second, 0)))
	}
	count(7, 400)
	count(1<<20, 699)
	require.Equal(t, 101*n, c.counts.Refused)
	count(1<<20, 700) // the others were silent for 10 minutes
	require.Equal(t, 101*n, c.counts.Refused)
	require.Equal(t, 2, c.counts.Agents)
	require.Len(t, c.agents, 2)
	require.Equal(t, len(c.agents[agentKey{address: netip.MustParseAddr("0.0.0.7")}].points)+
		len(c.agents[agentKey{address: netip.MustParseAddr("0.16.0.0")}].points), c.counts.Points)
	c = collected(t)
	for i := range uint32(maxPoints + 100) {
		require.NoError(t, c.countDatagram(changed(one, source, i), netip.Addr{}, time.Unix(100, 0)))
	}
	require.Equal(t, maxPoints, c.counts.Points)
	require.EqualValues(t, 101, c.counts.Refused, "the others of each are of one more point")
	require.NoError(t, c.countDatagram(changed(one, source, 1<<20), netip.Addr{}, time.Unix(101, 0)))
	require.EqualValues(t, 102, c.counts.Refused)
	require.NoError(t, c.countDatagram(changed(one, source, 1<<20), netip.Addr{}, time.Unix(700, 0)))
	require.EqualValues(t, 102, c.counts.Refused, "the other points were silent for 10 minutes")
	c = collected(t)
	require.NoError(t, c.countDatagram(changed(one, samplingRate, 0), netip.Addr{}, time.Unix(100, 0)))
	require.EqualValues(t, 1, c.counts.Broken, "one packet in none")
	for at := samplingRate; at+32 < len(one); at += 8 + int(binary.BigEndian.Uint32(one[at-12:])) {
		one = changed(one, at, 0)
	}
	require.NoError(t, c.countDatagram(one, netip.Addr{}, time.Unix(100, 0)))
	require.EqualValues(t, 2, c.counts.Broken, "none of its samples is one of any")
}

// A flood of forged agents and points from one prefix costs those of other prefixes nothing: neither those that are in
// the tables, nor new ones.
func TestForgedAgents(t *testing.T) {
	const agent, source, samples = 8, 28 + 8 + 4, 24
	one := datagrams(t)[2]
	honest, forger := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
	for _, row := range []struct {
		name  string
		field int  // that differs in forged datagrams
		empty bool // these have no samples
		most  int
	}{{"agents", agent, false, maxAgents}, {"agents without samples", agent, true, maxAgents},
		{"points", source, false, maxPoints}} {
		t.Run(row.name, func(t *testing.T) {
			c, forged := collected(t), changed(one, source, 1<<21)
			if row.empty {
				forged = changed(forged, samples, 0)[:samples+4]
			}
			send := func(n uint32) {
				b := changed(forged, row.field, 1<<22+n)
				require.NoError(t, c.countDatagram(b, forger, time.Unix(100, int64(n))))
			}
			for n := range uint32(2 * row.most) {
				send(n)
			}
			next := uint32(2 * row.most)
			for number := range uint32(2) { // those that are new, and once again
				b := changed(one, 16, 1<<20+number)
				for n := range uint32(100) {
					before := c.counts
					require.NoError(t, c.countDatagram(changed(b, agent, 1000+n), honest, time.Unix(101, int64(n))))
					require.Equal(t, before.Refused, c.counts.Refused, n)
					require.Equal(t, before.Samples+8, c.counts.Samples, n)
					send(next)
					next++
				}
			}
			for n := range uint32(100) {
				at := netip.AddrFrom4([4]byte{0, 0, byte((1000 + n) >> 8), byte(1000 + n)})
				require.NotNil(t, c.agents[agentKey{address: at}])
			}
			require.LessOrEqual(t, len(c.agents), maxAgents)
			require.LessOrEqual(t, c.counts.Points, maxPoints)
			agents, points := 0, 0
			for _, s := range c.sources {
				agents, points = agents+s.agents, points+s.points
			}
			require.Equal(t, []int{c.counts.Agents, c.counts.Points}, []int{agents, points})
		})
	}
}

func TestSFlowMisuse(t *testing.T) {
	path := wiretest.Path(t, "sflow", "ovs.pcap")
	for _, args := range [][]string{{"-sflow", "6343", path}, {"-sflow", ":x", path}, {"-sflow", ":70000", path},
		{"-sflow", ":6343", "-csv", path}, {"-sflow", ":6343", "-check", "ce=0", path},
		{"-sflow", ":6343", "-html", t.TempDir() + "/p", path}, {"-sflow", ":6343", "-listen", "127.0.0.1:0", path},
		{"-sflow", ":6343", "-sort", "ce", path}, {"-i", "lo", path}, {}} {
		status, _, stderr := run(t, nil, args...)
		require.Equal(t, 2, status, args)
		require.NotEmpty(t, stderr)
	}
	status, _, stderr := run(t, nil, "-sflow", ":6343", t.TempDir()+"/none")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "no such file")
	status, _, stderr = run(t, nil, "-sflow", "192.0.2.250:6343")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-sflow: ")
}

// The output for samples of other kinds: a CNP, an FCN, and marks.
func TestSFlowAnswers(t *testing.T) {
	var records []byte
	b := wiretest.Must(os.ReadFile(wiretest.Path(t, "messages.pcap")))(t)
	in := wiretest.Must(capture.Open(strings.NewReader(string(b))))(t)
	n := uint32(0)
	word := binary.BigEndian.AppendUint32
	for r := new(capture.Record); in.Next(r) == nil; n++ {
		padded := (len(r.Data) + 3) &^ 3
		head := []uint32{1, uint32(32 + 8 + 16 + padded), n, 7, 100, 0, 0, 0, 0, 1,
			1, uint32(16 + padded), 1, r.OrigLen, 0, uint32(len(r.Data))}
		for _, w := range head {
			records = word(records, w)
		}
		records = append(append(records, r.Data...), make([]byte, padded-len(r.Data))...)
	}
	var datagram []byte
	for _, w := range []uint32{5, 1, 0xC00002C8, 0, 1, 1, n} {
		datagram = word(datagram, w)
	}
	c := collected(t)
	require.NoError(t, c.countDatagram(append(datagram, records...), netip.Addr{}, time.Unix(100, 0)))
	require.EqualValues(t, n, c.counts.Samples)
	sums := sampledAnswers{}
	for _, s := range c.samples.Snapshot() {
		l := sampledLineOf(&s, nil)
		require.Equal(t, l.Answers.FCN+l.Answers.Proxy == 0, l.DestQP != nil)
		require.Equal(t, "0:7", l.Points[0].Source)
		sums.CNPs += l.Answers.CNPs
		sums.Fast += l.Answers.Fast
		sums.FCN += l.Answers.FCN
	}
	require.Positive(t, sums.CNPs)
	require.Positive(t, sums.Fast)
	require.Positive(t, sums.FCN)
}

// A capture with a damaged end is an error that names it; the samples before it are counted.
func TestSFlowDamaged(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "sflow", "ovs.pcap")))(t)
	path := wiretest.File(t, "damaged.pcap", octets[:len(octets)-7])
	status, out, stderr := run(t, nil, "-json", "-sflow", ":6343", path)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, path+": ")
	require.Contains(t, out, `"sampled":true`)
}
