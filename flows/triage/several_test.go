package triage_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

const ms = time.Millisecond

// span returns a sign with all its values; since and until are times after start.
func span(count, first, last uint64, since, until time.Duration) flows.Sign {
	return flows.Sign{Count: count, First: first, Last: last, Since: start.Add(since), Until: start.Add(until)}
}

// early and late are signs with different values.
var (
	early = span(40, 11, 50, 1*ms, 5*ms)
	late  = span(20, 61, 80, 6*ms, 9*ms)
)

// pairOf returns two flows from 10.0.0.2 to 10.0.0.1. The first has a later sign than the second.
func pairOf(kind flows.SignKind) (a, b flows.Flow) {
	a, b = flowOf(2, 26, 300), flowOf(2, 26, 100)
	a.DestQP, b.DestQP = 0x11, 0x12
	*a.Evidence.Sign(kind), *b.Evidence.Sign(kind) = late, early
	return a, b
}

// A finding about several flows has the sum of their numbers, the first and the last of their frames and times,
// and a filter for their packets only.
func TestFindingsOfSeveralFlows(t *testing.T) {
	notifiedBy := func(n flows.Notifier) []flows.Flow {
		a, b := pairOf(flows.SignNotification)
		n.Sign, n.TooClose, n.MinSpacing = late, 15, 3*time.Microsecond
		a.Evidence.Notifiers = []flows.Notifier{n}
		n.Sign, n.TooClose, n.MinSpacing = early, 30, 2*time.Microsecond
		b.Evidence.Notifiers = []flows.Notifier{n}
		return []flows.Flow{a, b, flowOf(5, 26, 10)}
	}
	const qps = "(infiniband.bth.destqp == 0x000011 || infiniband.bth.destqp == 0x000012)"
	const path = "ip.src == 10.0.0.2 && ip.dst == 10.0.0.1 && " + qps
	const hosts = "(ip.addr == 10.0.0.2 && ip.addr == 10.0.0.1)"
	const frames = "frame.number >= 11 && frame.number <= 80"
	for _, row := range []struct {
		name   string
		flows  func() []flows.Flow
		cause  triage.Cause
		text   []string
		filter string
		frames []uint64
	}{
		{"CNPs that come too often", func() []flows.Flow {
			return notifiedBy(flows.Notifier{From: netip.MustParseAddr("10.0.0.1"), Kind: flows.NoticeCNP})
		}, triage.CauseTooManyNotices, []string{"60 CNPs about 2 flows came with the address of 10.0.0.1, from",
			", 45 of them less than 4 µs "}, "ip.src == 10.0.0.1 && infiniband.bth.opcode == 0x81",
			[]uint64{11, 50, 61, 80}},
		{"PPFCs that come too often", func() []flows.Flow {
			return notifiedBy(flows.Notifier{From: netip.MustParseAddr("10.0.0.9"), Kind: flows.NoticePPFC})
		}, triage.CauseTooManyNotices, []string{"10.0.0.9 notifies too often: 60 PPFCs about 2 flows came from frame 1",
			", 45 of them less than 10 µs ", "the shortest interval was 2µs."}, "ip.src == 10.0.0.9 && " + frames,
			[]uint64{11, 50, 61, 80}},
		{"CNPs without effect", func() []flows.Flow {
			a, b := pairOf(flows.SignCNP)
			a.Evidence.Control = flows.Control{Unheeded: late, Rate: 9e9}
			b.Evidence.Control = flows.Control{Unheeded: early, Rate: 2e9}
			return []flows.Flow{a, b}
		}, triage.CauseCNPUnheeded, []string{"60 CNPs about its flows came within 8ms, from frame 11 ",
			"it still sent 5.5 Gbit/s per flow."}, "ip.dst == 10.0.0.2 && infiniband.bth.opcode == 0x81",
			[]uint64{11, 50, 61, 80}},
		{"no CNP", func() []flows.Flow {
			a, b := pairOf(flows.SignCE)
			*a.Evidence.Sign(flows.SignAnswerAfterCE) = span(7, 62, 81, 7*ms, 9*ms)
			*b.Evidence.Sign(flows.SignAnswerAfterCE) = span(5, 12, 51, 2*ms, 6*ms)
			return []flows.Flow{a, b}
		}, triage.CauseCNPMissing, []string{"60 packets to 10.0.0.1 had CE, from frame 11 ", "although 12 answers "},
			path + " && ip.dsfield.ecn == 3", []uint64{11, 50, 61, 80}},
		{"congestion", func() []flows.Flow {
			a, b := pairOf(flows.SignCE)
			*a.Evidence.Sign(flows.SignCNP), *b.Evidence.Sign(flows.SignCNP) = signOf(3), signOf(4)
			a.CNPs, b.CNPs = 3, 4
			a.Evidence.Control = flows.Control{Judged: 3, Slowed: 3}
			b.Evidence.Control = flows.Control{Judged: 4, Slowed: 2}
			return []flows.Flow{a, b}
		}, triage.CauseCongested, []string{"from frame 11 ", "of 400 packets, 60 had CE (15 %).",
			"slowed down after 5 of 7 CNPs."}, path + " && ip.dsfield.ecn == 3", []uint64{11, 50, 61, 80}},
		{"congestion reported by nodes", func() []flows.Flow {
			a, b := pairOf(flows.SignNotification)
			a.Evidence.Notifiers = []flows.Notifier{{From: netip.MustParseAddr("10.0.0.9"), Kind: flows.NoticeFCN},
				{From: netip.MustParseAddr("10.0.0.1"), Kind: flows.NoticeCNP}}
			b.Evidence.Notifiers = []flows.Notifier{{From: netip.MustParseAddr("10.0.0.9"), Kind: flows.NoticeFCN},
				{From: netip.MustParseAddr("10.0.0.8"), Kind: flows.NoticeFastCNP}}
			return []flows.Flow{a, b}
		}, triage.CauseCongested, []string{"nodes on the path sent 60 notifications."},
			"(ip.src == 10.0.0.9 || ip.src == 10.0.0.8) && " + frames, []uint64{11, 50, 61, 80}},
		{"timeouts", func() []flows.Flow {
			a, b := pairOf(flows.SignAfterTimeout)
			for i, f := range []*flows.Flow{&a, &b} {
				f.Causes.Timeout, f.Evidence.AlreadyAcknowledged = 3, uint64(20+i)
				f.Evidence.MinTimeout = time.Duration(4+i) * ms
				f.Evidence.MaxTimeout = time.Duration(9-i) * ms
				*f.Evidence.Sign(flows.SignAnswer) = signOf(9)
			}
			return []flows.Flow{a, b}
		}, triage.CauseTimedOut, []string{"it waited 4ms to 9ms ", "retransmitted 60 packets to 10.0.0.1, from frame 1",
			"The answers to 41 of these "}, hosts + " && " + frames, []uint64{11, 50, 61, 80}},
		{"losses", func() []flows.Flow {
			a, b := pairOf(flows.SignGap)
			a.PSN.Lost, b.PSN.Lost, a.PSN.Retransmitted, b.PSN.Retransmitted = 3, 4, 6, 7
			return []flows.Flow{a, b}
		}, triage.CauseLost, []string{"from frame 11 ", "7 packets were lost ", "13 packets were retransmitted"},
			hosts + " && " + frames, []uint64{11, 50, 61, 80}},
		{"retransmission storm", func() []flows.Flow {
			a, b := pairOf(flows.SignAfterNAK)
			a.Causes.NAK, b.Causes.NAK, a.Data.IPOctets, b.Data.IPOctets = 80, 70, 9000, 9000
			*a.Evidence.Sign(flows.SignNAK) = span(2, 60, 60, 6*ms, 6*ms)
			*b.Evidence.Sign(flows.SignNAK) = span(1, 10, 10, 1*ms, 1*ms)
			return []flows.Flow{a, b}
		}, triage.CauseStorm, []string{"60 of 400 packets ", "(15 %), from frame 11 ", "after 3 NAKs"},
			hosts + " && frame.number >= 10 && frame.number <= 80", []uint64{10, 11, 50, 60, 61, 80}},
		{"receiver not ready", func() []flows.Flow {
			a, b := pairOf(flows.SignRNR)
			a.RNRNAKs, a.RNRTimers, b.RNRNAKs, b.RNRTimers = 20, 1<<1, 40, 1<<20
			*a.Evidence.Sign(flows.SignAfterRNR), *b.Evidence.Sign(flows.SignAfterRNR) = signOf(3), signOf(5)
			return []flows.Flow{a, b}
		}, triage.CauseNotReady, []string{"from frame 11 ", "is 10µs to 10.24ms.", "8 packets were retransmitted"},
			"ip.src == 10.0.0.1 && infiniband.aeth.syndrome.opcode == 1", []uint64{11, 50, 61, 80}},
		{"rejected requests", func() []flows.Flow {
			a, b := pairOf(flows.SignRefused)
			*a.NAK(bth.NAKRemoteAccess), *b.NAK(bth.NAKRemoteAccess), *b.NAK(bth.NAKInvalidRequest) = 20, 30, 10
			return []flows.Flow{a, b}
		}, triage.CauseRefused, []string{"10.0.0.1 rejected 60 requests of 10.0.0.2, from frame 11 ",
			"NAK 10 invalid request, 50 remote access."}, "ip.src == 10.0.0.1 && infiniband.aeth.syndrome >= 0x61",
			[]uint64{11, 80}},
		{"wrong ICRC", func() []flows.Flow {
			a, b := pairOf(flows.SignWrongAnswer)
			a.Wrong.ACKs, b.Wrong.ACKs, a.PSN.Retransmitted, b.PSN.Retransmitted = 20, 40, 2, 3
			return []flows.Flow{a, b}
		}, triage.CauseWrongICRC, []string{"All 60 ACKs from 10.0.0.1 ", "from frame 11 ", "5 packets were retran"},
			"ip.src == 10.0.0.1 && " + frames, []uint64{11, 80}},
		{"some with a wrong ICRC", func() []flows.Flow {
			a, b := pairOf(flows.SignWrongAnswer)
			a.Wrong.ACKs, b.Wrong.ACKs, a.ACKs, b.ACKs = 20, 40, 90, 50
			return []flows.Flow{a, b}
		}, triage.CauseCorrupt, []string{"60 of 200 ACKs from 10.0.0.1 ", "(30 %), from frame 11 "},
			"ip.src == 10.0.0.1 && " + frames, []uint64{11, 80}},
		{"corrupt data", func() []flows.Flow { a, b := pairOf(flows.SignWrongICRC); return []flows.Flow{a, b} },
			triage.CauseCorrupt, []string{"60 of 400 packets from 10.0.0.2 had a wrong ICRC (15 %), from frame 11 "},
			path + " && " + frames, []uint64{11, 50, 61, 80}},
		{"reordering", func() []flows.Flow {
			a, b := pairOf(flows.SignReordered)
			a.PSN.Late, b.PSN.Late, a.Causes.NAK, b.Causes.NAK = 20, 40, 2, 5
			return []flows.Flow{a, b}
		}, triage.CauseReordered, []string{"60 of 400 packets to 10.0.0.1 were reordered, from frame 11 ",
			"7 packets were retransmitted without need."}, path + " && " + frames, []uint64{11, 50, 61, 80}},
		{"trimmed packets", func() []flows.Flow {
			a, b := pairOf(flows.SignTrimmed)
			a.TrimmedRecovered, b.TrimmedRecovered = 7, 9
			return []flows.Flow{a, b}
		}, triage.CauseTrimmed, []string{"trimmed 60 packets to 10.0.0.1 ", "from frame 11 ", "followed 16 of them."},
			path + " && " + frames, []uint64{11, 50, 61, 80}},
		{"not captured", func() []flows.Flow {
			a, b := pairOf(flows.SignGap)
			a.PSN.Unseen, b.PSN.Unseen = 7, 8
			return []flows.Flow{a, b}
		}, triage.CauseNotCaptured, []string{"15 packets to 10.0.0.1 were acknowledged ", "from frame 11 "},
			hosts + " && " + frames, []uint64{11, 80}},
		{"gave up", func() []flows.Flow {
			a, b := pairOf(flows.SignAfterTimeout)
			a.GaveUp, b.GaveUp = &flows.GaveUp{Frame: 78, Retries: 5}, &flows.GaveUp{Frame: 49, Retries: 7}
			a.Evidence.MaxTimeout, b.Evidence.MaxTimeout = 4*ms, 5*ms
			return []flows.Flow{a, b}
		}, triage.CauseGaveUp, []string{"2 connections to 10.0.0.1 ", "up to 7 times ", "from frame 11 "},
			hosts + " && " + frames, []uint64{11, 49, 61, 78}},
		{"MTU", func() []flows.Flow {
			a, b := pairOf(flows.SignAfterTimeout)
			for i, f := range []*flows.Flow{&a, &b} {
				f.Causes.Timeout, f.Evidence.MaxTimeout, f.Evidence.LargestOpen = 3, 4*ms, uint32(4156-i)
			}
			return []flows.Flow{a, b, running(2, 18, 316), running(2, 19, 1000)}
		}, triage.CauseMTU, []string{"no request of 4155 octets ", "from frame 11 ", "at most 1000 octets are"},
			path + " && " + frames, []uint64{11, 50, 61, 80}},
	} {
		t.Run(row.name, func(t *testing.T) {
			all := explainFlows(row.flows()...)
			v := find(t, all, row.cause)
			for _, text := range row.text {
				require.Contains(t, v.Text, text)
			}
			require.Equal(t, row.filter, v.Filter)
			var frames []uint64
			for _, f := range v.Frames {
				frames = append(frames, f.Number)
			}
			require.Equal(t, row.frames, frames)
			require.Equal(t, start.Add(1*ms), v.Since)
			require.Equal(t, start.Add(9*ms), v.Until)
			for _, other := range all {
				require.True(t, other.Cause != v.Cause || other.Text == v.Text, "a second finding: %s", other.Text)
			}
		})
	}
}

// The filter has a term for each pair of hosts and each queue pair. With more than eight flows it selects hosts, with
// more than eight pairs of hosts all RoCEv2, and IPv6 has its own fields.
func TestFilterOfSeveralHosts(t *testing.T) {
	of := func(src string, dst ...string) (all []flows.Flow) {
		for i, to := range dst {
			f := flowOf(2, 26, 100)
			f.Src, f.Dst, f.DestQP = netip.MustParseAddr(src), netip.MustParseAddr(to), 0x20+uint32(i)
			*f.Evidence.Sign(flows.SignWrongICRC) = signOf(4)
			all = append(all, f)
		}
		return all
	}
	many := func(n int, to byte) (all []string) {
		for i := range n {
			all = append(all, netip.AddrFrom4([4]byte{10, 0, 1, to * byte(i)}).String())
		}
		return all
	}
	const frames = " && frame.number >= 1 && frame.number <= 4"
	for _, row := range []struct {
		name  string
		flows []flows.Flow
		want  string
	}{
		{"one flow", of("10.0.0.2", "10.0.0.1"),
			"ip.src == 10.0.0.2 && ip.dst == 10.0.0.1 && infiniband.bth.destqp == 0x000020" + frames},
		{"two receivers", of("10.0.0.2", "10.0.0.1", "10.0.0.3", "10.0.0.1"),
			"((ip.src == 10.0.0.2 && ip.dst == 10.0.0.1 && " +
				"(infiniband.bth.destqp == 0x000020 || infiniband.bth.destqp == 0x000022)) || " +
				"(ip.src == 10.0.0.2 && ip.dst == 10.0.0.3 && infiniband.bth.destqp == 0x000021))" + frames},
		{"IPv6", of("fd00::2", "fd00::1"),
			"ipv6.src == fd00::2 && ipv6.dst == fd00::1 && infiniband.bth.destqp == 0x000020" + frames},
		{"nine flows", of("10.0.0.2", many(9, 0)...), "(ip.addr == 10.0.0.2 && ip.addr == 10.0.1.0)" + frames},
		{"nine receivers", of("10.0.0.2", many(9, 1)...), "infiniband" + frames},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, find(t, explainFlows(row.flows...), triage.CauseCorrupt).Filter)
		})
	}
}

// More than eight nodes that notify are not in the filter one by one.
func TestFilterOfManyNotifiers(t *testing.T) {
	of := func(nodes byte) string {
		var all []flows.Flow
		for i := range nodes {
			f := flowOf(2, 26, 100)
			f.DestQP = uint32(0x20 + i)
			*f.Evidence.Sign(flows.SignNotification) = signOf(4)
			from := netip.AddrFrom4([4]byte{10, 9, 9, i})
			f.Evidence.Notifiers = []flows.Notifier{{From: from, Kind: flows.NoticeFCN}}
			all = append(all, f)
		}
		return find(t, explainFlows(all...), triage.CauseCongested).Filter
	}
	require.Contains(t, of(8), "|| ip.src == 10.9.9.7) && frame.number")
	require.Equal(t, "udp && frame.number >= 1 && frame.number <= 4", of(9))
}

// A wrong ICRC is a matter of one kind of answers: other kinds with a right one do not count.
func TestWrongICRCOfOneKind(t *testing.T) {
	right := flows.Answers{ACKs: 6, RNRNAKs: 7, CNPs: 8, FastCNPs: 9, PPFC: 10, FCN: 11, Proxy: 12}
	*right.NAK(bth.NAKPSNSequence) = 13
	for _, row := range []struct {
		name string
		set  func(a *flows.Answers)
		want string
	}{
		{"ACKs", func(a *flows.Answers) { a.ACKs, a.Wrong.ACKs = 0, 40 }, "All 40 ACKs from 10.0.0.1 "},
		{"NAKs", func(a *flows.Answers) { *a.NAK(bth.NAKPSNSequence), a.Wrong.NAKs = 0, 40 },
			"All 40 NAKs from 10.0.0.1 "},
		{"RNR NAKs", func(a *flows.Answers) { a.RNRNAKs, a.Wrong.RNRNAKs = 0, 40 }, "All 40 RNR NAKs from 10.0.0.1 "},
		{"CNPs", func(a *flows.Answers) { a.CNPs, a.Wrong.CNPs = 0, 40 }, "All 40 CNPs from 10.0.0.1 "},
		{"Fast CNPs", func(a *flows.Answers) { a.FastCNPs, a.Wrong.FastCNPs = 0, 40 }, "All 40 Fast CNPs from nodes "},
		{"PPFCs", func(a *flows.Answers) { a.PPFC, a.Wrong.PPFC = 0, 40 }, "All 40 PPFCs from nodes "},
		{"FCNs", func(a *flows.Answers) { a.FCN, a.Wrong.FCN = 0, 40 }, "All 40 FCNs from nodes "},
		{"proxy messages", func(a *flows.Answers) { a.Proxy, a.Wrong.Proxy = 0, 40 },
			"All 40 proxy messages from nodes "},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := flowOf(2, 26, 100)
			f.Answers = right
			row.set(&f.Answers)
			*f.Evidence.Sign(flows.SignWrongAnswer) = signOf(40)
			all := explainFlows(f)
			require.Contains(t, find(t, all, triage.CauseWrongICRC).Text, row.want)
			require.NotContains(t, causesOf(all), "corrupt ?a link or node before the capture point")
		})
	}
}

// incastOf returns four flows from different senders to 10.0.0.1 that are congested from 1 ms to 2 ms after start.
func incastOf() (all []flows.Flow) {
	for i := range byte(4) {
		f := flowOf(2+i, 26, 1000)
		f.Evidence.PortLoad, f.CNPs = 0.95, 5
		*f.Evidence.Sign(flows.SignCE), *f.Evidence.Sign(flows.SignCNP) = span(20, 1, 20, 1*ms, 2*ms), signOf(5)
		all = append(all, f)
	}
	return all
}

// The senders of an incast are those that are congested together.
func TestSendersOfIncast(t *testing.T) {
	to := func(dst string, f flows.Flow) flows.Flow { f.Dst = netip.MustParseAddr(dst); return f }
	marked := func(src byte, s flows.Sign) flows.Flow {
		f := flowOf(src, 26, 100)
		*f.Evidence.Sign(flows.SignCE), *f.Evidence.Sign(flows.SignCNP), f.CNPs = s, signOf(5), 5
		return f
	}
	elsewhere := func(since, until time.Duration) (all []flows.Flow) {
		for i := range byte(2) {
			f := marked(2+i, span(9, 1, 9, since, until))
			f.DestQP = 0x999
			all = append(all, to("10.0.1.1", f))
		}
		return all
	}
	var idle []flows.Flow // senders without a mark, and with few packets
	for i := range byte(6) {
		idle = append(idle, flowOf(20+i, 26, 1))
	}
	slow := flowOf(9, 26, 1000) // has a hundredth of its packets during the marks
	*slow.Evidence.Sign(flows.SignRequest) = span(1000, 1, 1000, 0, 100*ms)
	fast := flowOf(8, 26, 1000)
	*fast.Evidence.Sign(flows.SignRequest) = span(1000, 1, 1000, 1*ms, 2*ms)
	second, secondSlow := fast, slow
	second.Src, secondSlow.Src = netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.6")
	for _, row := range []struct {
		name string
		more []flows.Flow
		want string // "" if there is no incast
	}{
		{"alone", nil, "4 senders send to 10.0.0.1 at the same time, in 4 flows, from frame 1 "},
		{"two marks of another", []flows.Flow{marked(9, span(2, 1, 2, 1*ms, 2*ms))}, "4 senders send to 10.0.0.1 "},
		{"three marks of another", []flows.Flow{marked(9, span(3, 1, 3, 1*ms, 2*ms))}, "5 senders send to 10.0.0.1 "},
		{"marks of another at another time", []flows.Flow{marked(9, span(30, 30, 60, 8*ms, 9*ms))}, "4 senders "},
		{"others without marks", idle, "4 senders send to 10.0.0.1 "},
		{"congested to others at the same time", elsewhere(1*ms, 2*ms), ""},
		{"congested to others before", elsewhere(0, 500*time.Microsecond), "4 senders send to 10.0.0.1 "},
		{"congested to others later", elsewhere(8*ms, 9*ms), "4 senders send to 10.0.0.1 "},
		{"slow senders without marks", []flows.Flow{slow, secondSlow}, "4 senders send to 10.0.0.1 "},
		{"fast senders without marks", []flows.Flow{fast, second}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, v := range explainFlows(append(incastOf(), row.more...)...) {
				if v.Cause == triage.CauseIncast {
					require.NotEmpty(t, row.want, v.Text)
					require.Contains(t, v.Text, row.want)
					return
				}
			}
			require.Empty(t, row.want)
		})
	}
}

// Without moments to compare, a receiver's port of known load decides: with free capacity it is not its congestion.
func TestLoadOfIncastWithoutMoments(t *testing.T) {
	for _, row := range []struct {
		name string
		load float64
		want string
	}{{"full", 0.75, "incast 10.0.0.1"}, {"free", 0.29, "congestion"}} {
		t.Run(row.name, func(t *testing.T) {
			all := incastOf()
			for i := range all {
				all[i].Evidence.PortLoad, all[i].Evidence.Episodes = row.load, nil
			}
			require.Equal(t, row.want, causesOf(explainFlows(all...))[0])
		})
	}
}

// Moments of congestion belong together if at most 100 µs are between them, whichever came first.
func TestMomentsOfIncast(t *testing.T) {
	of := func(shift time.Duration) string {
		all := incastOf()
		for i := range all {
			all[i].Evidence.PortLoad = 0
			for n := range 6 {
				at := start.Add(time.Duration(n)*2*ms + time.Duration(i)*shift)
				all[i].Evidence.Episodes = append(all[i].Evidence.Episodes, flows.Episode{Since: at, Until: at})
			}
		}
		return causesOf(explainFlows(all...))[0]
	}
	require.Equal(t, "incast 10.0.0.1", of(33*time.Microsecond), "99 µs from the first to the last")
	require.Equal(t, "congestion", of(101*time.Microsecond))
	require.Equal(t, "congestion", of(500*time.Microsecond))
}

// Marks are summed over the flows to a receiver or from a sender, at the time of the packets without ECN.
func TestNotECNCapable(t *testing.T) {
	of := func(marks flows.Sign, same func(f *flows.Flow)) []triage.Verdict {
		a, b, plain := flowOf(3, 26, 100), flowOf(4, 26, 100), flowOf(2, 26, 100)
		*a.Evidence.Sign(flows.SignCE), *b.Evidence.Sign(flows.SignCE) = marks, marks
		*plain.Evidence.Sign(flows.SignNotECT) = signOf(100)
		*plain.Evidence.Sign(flows.SignRequest) = span(100, 1, 100, 0, 10*ms)
		same(&a)
		same(&b)
		return explainFlows(a, b, plain)
	}
	same := span(2, 1, 2, 0, 1*ms)
	toOthers := func(f *flows.Flow) { f.Src, f.Dst = netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.1.1") }
	for _, all := range [][]triage.Verdict{of(same, func(*flows.Flow) {}), of(same, toOthers)} {
		v := find(t, all, triage.CauseNotECNCapable)
		require.Equal(t, []string{"10.0.0.2", "a hop before the capture point"}, v.Suspects)
		require.Contains(t, v.Text, "all 100 packets of 1 flow are Not-ECT")
		require.Contains(t, v.Text, "At the same time 4 packets of other flows had CE.")
		require.Contains(t, v.Filter, " && ip.dsfield.ecn == 0")
	}
	const none = "not ECN-capable ?10.0.0.2"
	require.NotContains(t, causesOf(of(span(1, 1, 1, 0, 1*ms), func(*flows.Flow) {})), none, "two marks in all")
	require.NotContains(t, causesOf(of(span(2, 1, 2, 11*ms, 12*ms), func(*flows.Flow) {})), none, "later")
}

// Flows with several DSCPs show nothing about one of them.
func TestSparedDSCP(t *testing.T) {
	of := func(set func(f *flows.Flow)) []triage.Verdict {
		lossy, all := flowOf(4, 0, 100), []flows.Flow{flowOf(2, 26, 90), flowOf(3, 26, 90)}
		lossy.Causes.NAK, *lossy.Evidence.Sign(flows.SignNAK) = 6, signOf(6)
		for i := range all {
			set(&all[i])
		}
		return explainFlows(append(all, lossy)...)
	}
	v := find(t, of(func(*flows.Flow) {}), triage.CauseOtherDSCP)
	require.Contains(t, v.Text, "Packets with DSCP 0 to 10.0.0.1 are lost, ")
	require.Contains(t, v.Text, "The 180 packets to it with DSCP 26 lose nothing")
	for _, row := range []struct {
		name string
		set  func(f *flows.Flow)
	}{
		{"two DSCPs", func(f *flows.Flow) { f.DSCP |= 1 << 10 }},
		{"responses with another", func(f *flows.Flow) { f.Responses.DSCP = 1 << 10 }},
		{"unreliable", func(f *flows.Flow) { f.Sequenced = false }},
		{"with losses", func(f *flows.Flow) { f.PSN.Lost = 1 }},
		{"few packets", func(f *flows.Flow) { f.Data.Packets = 49 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, v := range of(row.set) {
				require.NotEqual(t, triage.CauseOtherDSCP, v.Cause)
			}
		})
	}
}

// Answers of the receiver to others exclude that it is down; without any, it is a suspect.
func TestReceiverOfPathDown(t *testing.T) {
	a, b := timedOut(2, 17, 1000, 1000), timedOut(2, 18, 1000, 1000)
	v := find(t, explainFlows(a, b, running(3, 19, 1000)), triage.CausePathDown)
	require.Equal(t, []string{"the path between 10.0.0.2 and 10.0.0.1"}, v.Suspects)
	require.Contains(t, v.Excluded, "a receiver that is down: it answers other hosts")
	other, third := running(3, 19, 1000), running(5, 19, 1000)
	other.Dst, third.Dst = netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.9")
	v = find(t, explainFlows(a, b, other), triage.CausePathDown)
	require.Equal(t, []string{"the path between 10.0.0.2 and 10.0.0.1", "10.0.0.1"}, v.Suspects)
	require.NotContains(t, v.Excluded, "a receiver that is down: it answers other hosts")
	v = find(t, explainFlows(a, b, running(3, 19, 1000), third), triage.CausePathDown)
	require.Len(t, v.Suspects, 1, "one of two others goes to the receiver")
}

// A pause storm is about the address that paused first, and names the others.
func TestFirstOfSeveralPausers(t *testing.T) {
	link := func(last byte, first uint64) flows.Link {
		l := flows.Link{Src: net.HardwareAddr{2, 0, 0, 0, 0, last}}
		since := time.Duration(first) * ms
		l.PauseSigns[3] = flows.PauseSign{Sign: span(20, first, first+19, since, since+10*ms), Longest: ms}
		l.Priorities[3] = flows.Priority{XOFF: 20, XON: 20, Paused: 8 * ms}
		return l
	}
	all := triage.Explain(&flows.Snapshot{Links: []flows.Link{link(1, 30), link(2, 10), link(3, 20), link(3, 25)}})
	require.Len(t, all, 1)
	require.Equal(t, []string{"02:00:00:00:00:02", "02:00:00:00:00:03", "02:00:00:00:00:01"}, all[0].Suspects)
	require.Contains(t, all[0].Text, "02:00:00:00:00:02 paused priority 3 of its link, from frame 10 ")
	require.Contains(t, all[0].Text, "02:00:00:00:00:03, 02:00:00:00:00:01 did the same")
	require.Equal(t, "eth.src == 02:00:00:00:00:02 && macc", all[0].Filter)
	require.Equal(t, []triage.Frame{{Number: 10, What: "XOFF"}, {Number: 29, What: "XOFF"}}, all[0].Frames)
	require.Equal(t, start.Add(10*ms), all[0].Since)
	require.Equal(t, start.Add(20*ms), all[0].Until)
}

// CNPs without a known flow count for their two hosts, however many lines they have.
func TestUnpairedCNPsAreSummed(t *testing.T) {
	a, b := withMarks(flowOf(2, 26, 100)), withMarks(flowOf(2, 26, 100))
	b.DestQP++
	of := func(cnps, fast uint64) flows.Unpaired {
		u := flows.Unpaired{FlowKey: rocev2.FlowKey{Src: a.Dst, Dst: a.Src, DestQP: 0x77}, WithQP: true}
		u.CNPs, u.FastCNPs, u.ACKs = cnps, fast, 9
		return u
	}
	for _, row := range []struct {
		name  string
		lines []flows.Unpaired
		want  string
	}{
		{"none", []flows.Unpaired{of(0, 0)}, "no CNP ?10.0.0.1"},
		{"CNPs first", []flows.Unpaired{of(1, 0), of(0, 0)}, "congestion"},
		{"CNPs last", []flows.Unpaired{of(0, 0), of(1, 0)}, "congestion"},
		{"Fast CNPs", []flows.Unpaired{of(0, 1), of(0, 0)}, "congestion"},
	} {
		t.Run(row.name, func(t *testing.T) {
			all := triage.Explain(&flows.Snapshot{Flows: []flows.Flow{a, b}, Unpaired: row.lines})
			require.Equal(t, []string{row.want}, causesOf(all))
		})
	}
}

// Packets that a switch discarded are one finding for each queue and reason, those with most packets first.
func TestDiscardsOfSeveralFlows(t *testing.T) {
	agent := netip.MustParseAddr("192.0.2.9")
	full := flows.EgressQueue{Agent: agent, Port: 7, Queue: 3, HasQueue: true}
	discards := func(at flows.EgressQueue, reason string, n uint64, first, last time.Duration) flows.Discards {
		return flows.Discards{EgressQueue: at, Reason: reason, Packets: n, First: start.Add(first),
			Last: start.Add(last)}
	}
	key := func(src byte) rocev2.FlowKey { f := flowOf(src, 26, 1); return f.FlowKey }
	byFlow := []flows.Sampled{
		{FlowKey: key(2), Discards: []flows.Discards{discards(full, "no_buffer_space", 4, 2*ms, 9*ms),
			discards(full, "acl", 1, 3*ms, 3*ms), {Reason: flows.OtherReason, Packets: 99}}},
		{FlowKey: key(3), Discards: []flows.Discards{discards(full, "no_buffer_space", 5, 1*ms, 8*ms),
			discards(flows.EgressQueue{Agent: agent}, "acl", 3, 4*ms, 5*ms)}},
	}
	var inCapture flows.Snapshot
	for i, s := range byFlow {
		f := flowOf(byte(2+i), 26, 1)
		f.Discards = s.Discards
		inCapture.Flows = append(inCapture.Flows, f)
	}
	const first = "ip.src == 10.0.0.2 && ip.dst == 10.0.0.1 && infiniband.bth.destqp == 0x000102"
	const second = "ip.src == 10.0.0.3 && ip.dst == 10.0.0.1 && infiniband.bth.destqp == 0x000103"
	for _, all := range [][]triage.Verdict{triage.ExplainDiscards(byFlow), triage.Explain(&inCapture)} {
		require.Len(t, all, 3)
		for i, want := range []struct {
			text, filter string
			since, until time.Duration
			flows        []rocev2.FlowKey
		}{
			{"The switch 192.0.2.9 (port 7, queue 3) discarded 9 packets of 2 flows, from 09:00:00.001000 on: " +
				"no_buffer_space.", first + " || " + second, 1 * ms, 9 * ms, []rocev2.FlowKey{key(2), key(3)}},
			{"The switch 192.0.2.9 discarded 3 packets of 1 flow, from 09:00:00.004000 on: acl.", second, 4 * ms,
				5 * ms, []rocev2.FlowKey{key(3)}},
			{"The switch 192.0.2.9 (port 7, queue 3) discarded 1 packet of 1 flow, from 09:00:00.003000 on: acl.",
				first, 3 * ms, 3 * ms, []rocev2.FlowKey{key(2)}},
		} {
			v := all[i]
			require.Equal(t, triage.CauseDiscarded, v.Cause)
			require.Equal(t, "192.0.2.9", v.Party)
			require.Equal(t, want.text, v.Text)
			require.Equal(t, want.filter, v.Filter)
			require.Equal(t, []time.Time{start.Add(want.since), start.Add(want.until)}, []time.Time{v.Since, v.Until})
			require.Equal(t, want.flows, v.Flows)
		}
	}
}
