package flows

import (
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
)

// optionsOf returns the options for some flags and a file.
func optionsOf(t *testing.T, args string) *options {
	t.Helper()
	o, status := parse(strings.Fields(args+" x"), nil, io.Discard)
	require.Zero(t, status, args)
	return o
}

func TestOptions(t *testing.T) {
	shard := func(o *options) [2]int { return [2]int{o.table.Shard, o.table.Shards} }
	all := func(o *options) bool { return o.decoder.NoICRC && o.decoder.Outer && o.choice.trouble }
	for _, c := range []struct {
		name string
		want func(o *options) (got, want any)
	}{
		{"", func(o *options) (any, any) { return o.form, "human" }},
		{"", func(o *options) (any, any) {
			return []any{o.interval, o.window}, []any{time.Duration(0), 131072}
		}},
		{"", func(o *options) (any, any) { return []any{o.top, o.table.MaxFlows}, []any{0, 0} }},
		{"-listen :0", func(o *options) (any, any) { return o.table.MaxFlows, 16384 }},
		{"", func(o *options) (any, any) {
			return []bool{o.explains, o.all, o.paths, o.choice.trouble, o.decoder.NoICRC, o.decoder.Outer},
				make([]bool, 6)
		}},
		{"-json", func(o *options) (any, any) { return o.form, "json" }},
		{"-csv", func(o *options) (any, any) { return o.form, "csv" }},
		{"-prometheus", func(o *options) (any, any) { return o.form, "prometheus" }},
		{"-json=false -csv", func(o *options) (any, any) { return o.form, "csv" }},
		{"-top 1 ", func(o *options) (any, any) { return o.top, 1 }},
		{"-interval 1ns", func(o *options) (any, any) { return o.interval, time.Duration(1) }},
		{"-window 1", func(o *options) (any, any) { return o.window, 1 }},
		{"-workers 1", func(o *options) (any, any) { return o.workers, 1 }},
		{"-workers 128", func(o *options) (any, any) { return o.workers, 128 }},
		{"-max-flows 16", func(o *options) (any, any) { return o.table.MaxFlows, 16 }},
		{"-max-flows 0", func(o *options) (any, any) { return o.table.MaxFlows, 0 }},
		{"-check packets>0,ce<1%", func(o *options) (any, any) { return len(o.rules), 2 }},
		{"-check a=0 -check=acks=1", nil},
		{"-check acks>0 -check ce>1", func(o *options) (any, any) {
			return []string{o.rules[0].text, o.rules[1].text}, []string{"acks>0", "ce>1"}
		}},
		{"-check ,acks>0,,", func(o *options) (any, any) { return len(o.rules), 1 }},
		{"-fcn-port 1 -proxy-port 65535", func(o *options) (any, any) {
			return []uint16{o.decoder.Config.FCNPort, o.decoder.Config.ProxyPort}, []uint16{1, 65535}
		}},
		{"-fcn-port 01021 -proxy-family 4", func(o *options) (any, any) { // decimal
			return []any{o.decoder.Config.FCNPort, o.decoder.Config.ProxyFamily}, []any{uint16(1021), proxymsg.IPv4}
		}},
		{"-fcn-port 65535 -proxy-port 1", func(o *options) (any, any) {
			return []uint16{o.decoder.Config.FCNPort, o.decoder.Config.ProxyPort}, []uint16{65535, 1}
		}},
		{"-option-types 0x93,0x94", func(o *options) (any, any) {
			return o.decoder.Config.CodePoints, fastcnp.CodePoints{Option1: 0x93, Option2: 0x94}
		}},
		{"-shard 0/2", func(o *options) (any, any) { return shard(o), [2]int{0, 2} }},
		{"-shard 1/2", func(o *options) (any, any) { return shard(o), [2]int{1, 2} }},
		{"-shard 2/2", func(o *options) (any, any) { return shard(o), [2]int{0, 2} }},
		{"-shard 0/1", func(o *options) (any, any) { return shard(o), [2]int{0, 1} }},
		{"-link-rate 1M", func(o *options) (any, any) { return o.table.LinkRate, uint64(1e6) }},
		{"-link-rate 1000k", func(o *options) (any, any) { return o.table.LinkRate, uint64(1e6) }},
		{"-link-rate 25G", func(o *options) (any, any) { return o.table.LinkRate, uint64(25e9) }},
		{"-link-rate 0.4Tbit/s", func(o *options) (any, any) { return o.table.LinkRate, uint64(4e11) }},
		{"-link-rate 1000T", func(o *options) (any, any) { return o.table.LinkRate, uint64(1e15) }},
		{"-link-rate 25000000000", func(o *options) (any, any) { return o.table.LinkRate, uint64(25e9) }},
		{"-link-rate 1000000bit/s", func(o *options) (any, any) { return o.table.LinkRate, uint64(1e6) }},
		{"-no-icrc -outer -trouble", func(o *options) (any, any) { return all(o), true }},
		{"-qp 1,0x10 -dscp 0,63", func(o *options) (any, any) { return o.choice.qps, []uint32{1, 16} }},
		{"-dscp 0,63", func(o *options) (any, any) { return o.choice.dscps, uint64(1<<63 | 1) }},
		{"-address 10.1.2.3,fd00::1", func(o *options) (any, any) { return prefixes(o), "10.1.2.3/32 fd00::1/128" }},
		{"-address 10.1.2.3/8", func(o *options) (any, any) { return prefixes(o), "10.0.0.0/8" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == nil { // an argument that is wrong
				_, status := parse(strings.Fields(c.name+" x"), nil, io.Discard)
				require.Equal(t, 2, status)
				return
			}
			got, expected := c.want(optionsOf(t, c.name))
			require.Equal(t, expected, got)
		})
	}
}

func prefixes(o *options) string {
	var all []string
	for _, p := range o.choice.addresses {
		all = append(all, p.String())
	}
	return strings.Join(all, " ")
}

// Each argument that is wrong has its message.
func TestWrongOptions(t *testing.T) {
	const (
		goes, shard = "-compare: cannot be combined with", "want I/N"
		port, rate  = "want 1 to 65535", "1M to 1000T"
	)
	for _, c := range []struct{ name, message string }{
		{"-compare a", ": want 2"}, {"-compare a b c", ": want 2"},
		{"-compare -csv a b", goes}, {"-compare -prometheus a b", goes}, {"-compare -interval 1s a b", goes},
		{"-compare -check acks=0 a b", goes}, {"-compare -html page a b", goes},
		{"-compare -sort src a b", goes}, {"-compare a b -dscp 0", goes}, {"-compare a b -shard 1/2", goes},
		{"a -check ,", "no rule"},
		{"-compare - -", "only one"}, {"-compare -i eth0", ": want 2"},
		{"-window 0 a", ": want 1 or more"}, {"-compare -window -1 a b", ": want 1 or more"},
		{"-json -prometheus a", "want only one of"}, {"-csv -prometheus a", "want only one of"},
		{"-top -1 a", "-top -1: want 0"}, {"-max-flows -1 a", "-1: want 0, or 16"},
		{"-interval -1ns a", "want 0s or more"},
		{"-max-flows 15 a", "want 0, or 16 or more"}, {"-max-flows 1 a", "want 0, or 16 or more"},
		{"-fcn-port 65536 a", port}, {"-proxy-port 65536 a", port}, {"-proxy-port 0 a", port},
		{"-fcn-port 0x3fd a", port},
		{"-fcn-port 4791 a", "4791 is the port of RoCEv2"}, {"-proxy-port 4789 a", "4789 is the port of a tunnel"},
		{"-fcn-port 7 -proxy-port 7 a", "-fcn-port, -proxy-port: both are 7"}, {"-proxy-family 5 a", "4 or 6"},
		{"-shard a/2 a", shard}, {"-shard 1/b a", shard},
		{"-shard -1/2 a", shard}, {"-shard 3/2 a", shard}, {"-shard 0/-1 a", shard},
		{"-link-rate 999k a", rate}, {"-link-rate 1001T a", rate},
		{"-link-rate G a", rate}, {"-link-rate 1m a", rate}, {"-link-rate -5G a", rate},
		{"-json=perhaps a", "invalid"}, {"-check =5 a", `"": want one of packets, `},
		{"-check acks<NaN a", `"NaN": want a number`},
		{"-html - a", "want the name of a file"}, {"-html= a", "want the name of a file"},
		{"-check 5 a", "a name, one of"}, {"-sort up a", "-sort:"},
		{"-check acks=1,retries=2 a", `rule "retries=2"`},
		{"-address 10.0.0.0/33 a", "want an address or a prefix"}, {"-qp 1, a", `"": want a queue pair`},
		{"-host h -compare a b", "-host: cannot"}, {"-host h -csv a", "-host: cannot"},
		{"-host h -prometheus a", "-host: cannot"}, {"-host h -interval 1s a", "-host: cannot"},
		{"-host h -shard 1/2 a", "-host: cannot"}, {"-all a", "-all: want -explain"},
		{"-explain -compare a b", "-explain: cannot"}, {"-explain -csv a", "-explain: cannot"},
		{"-explain -shard 1/2 a", "-explain: cannot"}, {"-check verdicts=0 -shard 1/2 a", "-check verdicts or cause"},
		{"-listen :0 -compare a b", "-listen: cannot"}, {"-interval 1s -prometheus a", "-prometheus: cannot"},
		{"-paths -compare a b", "-paths: cannot"}, {"-paths -csv a", "-paths: cannot"},
		{"-paths -prometheus a", "-paths: cannot"}, {"-paths -interval 1s a", "-paths: cannot"},
		{"-paths -sflow :6343 a", "-paths: cannot"}, {"-sflow :6343 -compare a b", "-sflow: can only"},
		{"-sflow :6343 -prometheus a", "-sflow: can only"}, {"-sflow :6343 -shard 1/2 a", "-sflow: can only"},
		{"-sflow :6343 -host h a", "-sflow: can only"}, {"-sflow 6343 a", "want an address and a port"},
		{"-sflow :65536 a", `port "65536": want a number from 1 to 65535`}, {"-workers 0 a", "want 1 to 128"},
		{"-workers 129 a", "want 1 to 128"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, stderr := run(t, nil, strings.Fields(c.name)...)
			require.Equal(t, 2, status, c.name)
			require.Empty(t, out, c.name)
			require.Contains(t, stderr, c.message, c.name)
		})
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		compare                 string
		smaller, equal, greater bool
	}{
		{"<", true, false, false}, {"<=", true, true, false}, {">", false, false, true}, {">=", false, true, true},
		{"=", false, true, false}, {"==", false, true, false}, {"!=", true, false, true},
	} {
		for _, percent := range []string{"", "%"} { // of 100 packets the number is the percentage
			r := wiretest.Must(ruleOf("acks " + c.compare + " 5 " + percent))(t)
			require.Equal(t, c.smaller, r.holds(4, 100), r.text)
			require.Equal(t, c.equal, r.holds(5, 100), r.text)
			require.Equal(t, c.greater, r.holds(6, 100), r.text)
		}
	}
	r := wiretest.Must(ruleOf("repeats<5%"))(t)
	require.False(t, r.holds(3, 60))
	require.True(t, r.holds(3, 61))
	require.True(t, r.holds(3, 0), "a part of nothing")
}

// Rules do not apply to management, which counts in the total, nor to values that were not measured. Unpaired answers
// count in the total only.
func TestCheckOf(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	flow := func(qp uint32, packets, acks uint64) flows.Flow {
		return flows.Flow{FlowKey: flowKey(src, dst, qp), Requests: flows.Requests{Packets: packets},
			Data:    flows.Data{Packets: packets},
			Answers: flows.Answers{ACKs: acks}}
	}
	all := []flows.Flow{flow(0, 10, 1), flow(1, 10, 2), flow(2, 10, 4), flow(3, 10, 8)}
	all[3].MTU = 1024
	unpaired := []flows.Unpaired{{Answers: flows.Answers{ACKs: 16}}, {Answers: flows.Answers{ACKs: 32}}}
	for _, c := range []struct{ rules, broken string }{
		{"acks=99", "192.0.2.1 > 192.0.2.2 qp 0x000002 has acks 4; 192.0.2.1 > 192.0.2.2 qp 0x000003 has acks 8"},
		{"acks<=4", "192.0.2.1 > 192.0.2.2 qp 0x000003 has acks 8"},
		{"acks<=8", ""},
		{"mtu=1024", ""},
		{"mtu>1024", "192.0.2.1 > 192.0.2.2 qp 0x000003 has mtu 1024"},
		{"total.acks=63", ""},
		{"total.acks=62", "the total has acks 63"},
		{"total.packets=40", ""},
		{"total.acks<=157.5%", ""},                                   // 63 of 40
		{"total.acks<157.5%", "the total has acks 63"},               //
		{"total.gaps=0,total.packets<1", "the total has packets 40"}, // nothing here has PSNs
	} {
		t.Run(c.rules, func(t *testing.T) {
			rules := wiretest.Must(parseRules(c.rules))(t)
			var got []string
			for _, v := range checkRules(rules, all, unpaired, nil) {
				_, where, _ := strings.Cut(v.String(), " is broken: ")
				got = append(got, where)
			}
			require.Equal(t, c.broken, strings.Join(got, "; "), c.rules)
		})
	}
}

// A flow is shown if all that was asked for is so.
func TestChoiceOf(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
	f := flows.Flow{FlowKey: flowKey(src, dst, 17), SrcQP: 18, SrcQPFrom: 1, Requests: flows.Requests{DSCP: 1 << 26}}
	troubled, unknown := f, f
	troubled.FCN = 1
	unknown.SrcQPFrom = 0
	acks := flows.Unpaired{FlowKey: f.FlowKey, WithQP: true, Answers: flows.Answers{ACKs: 5}}
	naks, nameless := acks, acks
	*naks.NAK(2) = 1
	nameless.WithQP = false
	same := flows.Compared{FlowKey: f.FlowKey, Same: 5}
	change := flows.Rewrites{{0, 1}: 1}
	const shown = "flow troubled unknown acks naks nameless same lost added copyA copyB dscp ecn"
	for _, row := range []struct{ name, want string }{
		{"", shown + " link"},
		{"-address 192.0.2.0/24", shown},
		{"-address 198.51.100.2", shown},
		{"-address 203.0.113.0/24", ""},
		{"-qp 17", strings.Replace(shown, " nameless", "", 1)},
		{"-qp 18", "flow troubled"},
		{"-qp 19", ""},
		{"-dscp 26", "flow troubled unknown same lost added copyA copyB dscp ecn"},
		{"-dscp 25", "same lost added copyA copyB dscp ecn"},
		{"-trouble", "troubled naks lost added copyA copyB dscp ecn link"},
		{"-trouble -qp 17", "troubled naks lost added copyA copyB dscp ecn"},
		{"-address 203.0.113.0/24 -qp 17", ""},
		{"-address 192.0.2.1 -qp 19", ""},
		{"-address 10.0.0.0/8,198.51.0.0/16", shown},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &optionsOf(t, row.name).choice
			s := flows.Snapshot{Flows: []flows.Flow{f, troubled, unknown},
				Unpaired: []flows.Unpaired{acks, naks, nameless}, Links: make([]flows.Link, 1)}
			var got []string
			add := func(name string, is bool) {
				if is {
					got = append(got, name)
				}
			}
			add("flow", c.choosesFlow(&f))
			add("troubled", c.choosesFlow(&troubled))
			add("unknown", c.choosesFlow(&unknown))
			add("acks", c.choosesUnpaired(&acks))
			add("naks", c.choosesUnpaired(&naks))
			add("nameless", c.choosesUnpaired(&nameless))
			for _, x := range []struct {
				name string
				set  func(f *flows.Compared)
			}{
				{"same", func(*flows.Compared) {}}, {"lost", func(f *flows.Compared) { f.Lost = 1 }},
				{"added", func(f *flows.Compared) { f.Added = 1 }},
				{"copyA", func(f *flows.Compared) { f.Duplicated[0] = 1 }},
				{"copyB", func(f *flows.Compared) { f.Duplicated[1] = 1 }},
				{"dscp", func(f *flows.Compared) { f.DSCP = change }},
				{"ecn", func(f *flows.Compared) { f.ECN = change }},
			} {
				t.Run(x.name, func(t *testing.T) {
					compared := same
					x.set(&compared)
					add(x.name, c.choosesComparison(&compared))
				})
			}
			add("link", c.choosesLink(&s.Links[0]))
			require.Equal(t, row.want, strings.Join(got, " "), row.name)
			c.apply(&s)
			inTable := 0
			for _, name := range strings.Fields("flow troubled unknown acks naks nameless link") {
				if slices.Contains(got, name) {
					inTable++
				}
			}
			require.Equal(t, inTable, len(s.Flows)+len(s.Unpaired)+len(s.Links), row.name)
		})
	}
}

func TestOrders(t *testing.T) {
	second := func(n int64) time.Time { return time.Unix(n, 0) }
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }
	all := []flows.Flow{
		{FlowKey: flowKey(addr(1), addr(9), 1), First: second(3), Last: second(5), Requests: flows.Requests{Packets: 7},
			Data:    flows.Data{Packets: 7},
			Answers: flows.Answers{FCN: 1}},
		{FlowKey: flowKey(addr(2), addr(8), 1), First: second(1), Last: second(9),
			Requests: flows.Requests{Packets: 8, MTU: 256},
			Data:     flows.Data{Packets: 8}, Answers: flows.Answers{FCN: 1}},
		{FlowKey: flowKey(addr(3), addr(7), 1), First: second(2), Last: second(4),
			Requests: flows.Requests{Packets: 9, MTU: 512},
			Data:     flows.Data{Packets: 9}},
		{FlowKey: flowKey(addr(4), addr(7), 1), First: second(2), Last: second(4),
			Requests: flows.Requests{Packets: 9},
			Data:     flows.Data{Packets: 9}},
	}
	for _, c := range []struct{ name, want string }{
		{"trouble", "2 1 3 4"}, {"src", "1 2 3 4"}, {"dst", "3 4 2 1"}, {"first", "2 3 4 1"}, {"last", "3 4 1 2"},
		{"packets", "3 4 2 1"}, {"mtu", "3 2 1 4"}, {"fcn", "1 2 3 4"}, {"psn.gaps", "1 2 3 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := wiretest.Must(orderOf(c.name))(t)
			for range 2 {
				slices.Reverse(all)
				o.sort(all)
				var got []string
				for i := range all {
					got = append(got, all[i].Src.String()[8:])
				}
				require.Equal(t, c.want, strings.Join(got, " "), c.name)
			}
		})
	}
}

func TestClocksText(t *testing.T) {
	for _, c := range []struct {
		clocks flows.Clocks
		want   string
	}{
		{flows.Clocks{}, "No packet was captured at both points."},
		{flows.Clocks{Basis: flows.ClocksOneWay}, "Delays are as the two clocks have them"},
		{flows.Clocks{Basis: flows.ClocksBothWays, Offset: -20 * time.Microsecond, Delay: 20 * time.Microsecond},
			"The clocks agree to about 20µs:"},
		{flows.Clocks{Basis: flows.ClocksBothWays, Offset: 21 * time.Microsecond, Delay: 20 * time.Microsecond},
			"B's clock is about 21µs ahead of A's, as the two directions together show: without that, the least " +
				"delay is 20µs."},
		{flows.Clocks{Basis: flows.ClocksBothWays, Offset: -21 * time.Microsecond, Delay: 20 * time.Microsecond},
			"B's clock is about -21µs ahead"},
	} {
		require.True(t, strings.HasPrefix(clocksText(c.clocks), c.want), clocksText(c.clocks))
	}
}

// atTwoPoints writes the requests of a source as captured at A and at B. B begins with the fifth and ends with the
// third last, has one twice, and one marked CE. A has one twice.
func atTwoPoints(t *testing.T) (a, b string) {
	made := traffic.Generate(4, traffic.Options{Connections: 1, Clean: true, NoCM: true, OneWay: true})
	frames := made.Frames
	require.Greater(t, len(frames), 20)
	shown := [2][]*traffic.Frame{slices.Clone(frames)}
	for i, f := range frames[4 : len(frames)-2] {
		other := *f
		other.Data = slices.Clone(f.Data)
		other.Time = f.Time.Add(20 * time.Microsecond)
		if i == 3 {
			wiretest.SetECN(t, other.Data[14:], uint8(3))
		}
		shown[1] = append(shown[1], &other)
	}
	twice := func(at int, n int) {
		again := *shown[at][n]
		again.Time = again.Time.Add(time.Nanosecond)
		shown[at] = slices.Insert(shown[at], n+1, &again)
	}
	twice(0, 10)
	twice(1, 12)
	dir := t.TempDir()
	for i, name := range []string{"a.pcap", "b.pcap"} {
		f := wiretest.Must(os.Create(filepath.Join(dir, name)))(t)
		require.NoError(t, (&traffic.Capture{Frames: shown[i]}).Write(f))
		require.NoError(t, f.Close())
	}
	return filepath.Join(dir, "a.pcap"), filepath.Join(dir, "b.pcap")
}

func TestCompareSays(t *testing.T) {
	a, b := atTwoPoints(t)
	status, out, stderr := run(t, nil, "-compare", a, b)
	require.Zero(t, status, stderr)
	for _, want := range []string{"ECN ect0 to ce: 1", "1 copies at A", "1 copies at B",
		"6 of the lost when B did not capture"} {
		require.Equal(t, 2, strings.Count(out, want), "%s, of the flow and of all:\n%s", want, out)
	}
	_, out, _ = run(t, nil, "-json", "-compare", a, b)
	require.Equal(t, 2, strings.Count(out, `"ecn_changed":{"ect0\u003ece":1}`), out)
	require.Equal(t, 2, strings.Count(out, `"duplicated":{"a":1,"b":1}`), out)
	for _, c := range []struct {
		name  string
		flows int
	}{{"", 1}, {"-top 1", 1}, {"-qp 0xabcdef", 0}, {"-trouble", 1},
		{"-address 203.0.113.77", 0}} {
		t.Run(c.name, func(t *testing.T) {
			for _, form := range []string{"-json", "-json=false"} {
				_, out, _ = run(t, nil, append(strings.Fields(c.name), form, "-compare", a, b)...)
				require.Equal(t, c.flows+1,
					strings.Count(out, "\n")-strings.Count(out, "\n  ")-2*strings.Count(out, "FLOW"), out)
			}
		})
	}

	// A missing file is reported once, and -top limits the flows.
	_, _, stderr = run(t, nil, "-compare", a, b+"2")
	require.Equal(t, 1, strings.Count(stderr, "no such file"))
	a, b, _, _ = twoPoints(t)
	for _, c := range []struct {
		name  string
		flows int
	}{{"0", 5}, {"2", 2}, {"5", 5}, {"9", 5}} {
		t.Run(c.name, func(t *testing.T) {
			_, out, _ = run(t, nil, "-json", "-top", c.name, "-compare", a, b)
			require.Equal(t, c.flows+1, strings.Count(out, "\n"), c.name)
		})
	}
}

// With -trouble a flow of which packets were lost, added, copied or changed is shown.
func TestComparedTrouble(t *testing.T) {
	c := choice{trouble: true}
	for _, row := range []struct {
		name string
		f    *flows.Compared
	}{
		{"lost", &flows.Compared{Lost: 1}},
		{"added", &flows.Compared{Added: 1}},
		{"copies at A", &flows.Compared{Duplicated: [2]uint64{1, 0}}},
		{"copies at B", &flows.Compared{Duplicated: [2]uint64{0, 1}}},
		{"lost and added", &flows.Compared{Lost: 3, Added: 3}},
		{"lost and copied", &flows.Compared{Lost: 3, Duplicated: [2]uint64{1, 2}}},
		{"copied at both", &flows.Compared{Duplicated: [2]uint64{2, 2}}},
		{"lost, copied A", &flows.Compared{Lost: 2, Duplicated: [2]uint64{2, 0}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.True(t, c.choosesComparison(row.f), row.name)
		})
	}
	require.False(t, c.choosesComparison(&flows.Compared{Packets: [2]uint64{5, 5}, Same: 5}))
}

// A name that is as wide as its column stands in it, one that is wider on a line of its own; copies of both
// captures are added up.
func TestComparisonColumns(t *testing.T) {
	a, b := atTwoPoints(t)
	_, out, _ := run(t, nil, "-compare", a, b)
	lines := strings.Split(out, "\n")
	require.Equal(t,
		"FLOW                                  AT A     AT B     BOTH    LOST   ADDED  COPIES  DELAY P50        P99",
		lines[0])
	require.Equal(t,
		"192.0.2.1 > 192.0.2.2 qp 0x010000       26       20       19       6       0       2       20µs       20µs",
		lines[1])
}

// A flow's name that leaves no room for the columns has a line of its own.
func TestCompareLongNames(t *testing.T) {
	path := wiretest.Path(t, "messages.pcap")
	_, out, _ := run(t, nil, "-compare", path, path)
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if len(line) > 48 && strings.Contains(line, " > ") && !strings.Contains(line[48:], " ") {
			require.True(t, strings.HasPrefix(lines[i+1], strings.Repeat(" ", 48)), out)
		}
	}
}

// A packet of a link that is not supported is another one, and that is said.
func TestUnknownLink(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-rping6.pcap")))(t)
	octets[20] = 105 // IEEE 802.11
	path := wiretest.File(t, "wireless.pcap", octets)
	for _, args := range [][]string{{"-json", path}, {"-json", path, wiretest.Path(t, "rxe-rping6.pcap")}} {
		status, out, stderr := run(t, nil, args...)
		require.Zero(t, status)
		require.Equal(t, len(args) > 2, out != "{\"capture\":true}\n")
		require.Contains(t, stderr, path+": packets of a link type that is not supported are counted as others\n")
		require.Equal(t, 1, strings.Count(stderr, "not supported"))
	}
	_, _, stderr := run(t, nil, path)
	require.Contains(t, stderr, "60 packets, 60 other\n")
	status, _, stderr := top(t, nil, path)
	require.Zero(t, status)
	require.Contains(t, stderr, path+": packets of a link type that is not supported are counted as others\n")
	status, out, stderr := run(t, nil, "-json", "-compare", path, wiretest.Path(t, "rxe-rping6.pcap"))
	require.Zero(t, status)
	require.Contains(t, out, `"lost":0`)
	require.Contains(t, stderr, "not supported")
}

// -csv has its header once, and -top may be more than there is.
func TestIntervalCSV(t *testing.T) {
	path, _ := made(t, 9, traffic.Options{Connections: 2})
	_, out, _ := run(t, nil, "-csv", "-interval", "500us", "-top", "100", path)
	require.Equal(t, 1, strings.Count(out, "src_qp_from"))
	require.Greater(t, strings.Count(out, "\n"), 4)
	_, out, _ = run(t, nil, "-json", "-top", "100", path)
	require.Greater(t, strings.Count(out, "\n"), 2)
}

func TestShortAtTheEnd(t *testing.T) {
	require.Equal(t, time.Duration(math.MaxInt64).Truncate(1e16).String(), formatDuration(math.MaxInt64))
}
