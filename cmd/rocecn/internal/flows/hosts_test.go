package flows

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// marked is a capture of soft-RoCE after a queue that marks: 10.1.0.1 writes to 10.2.0.1 from 21:37:20.877004 to
// 21:37:24.172920, 1661 of its requests have CE, and no CNP answers them.
const marked = "real/write4-red-ect.eth1.pcap.gz"

// An observation is a line of rocecn host.
func observation(host, at, address string, hw, pauses string) string {
	return fmt.Sprintf(`{"time":"%sZ","host":"%s","ports":[{"device":"mlx5_0","port":1,"addresses":[%q],`+
		`"interfaces":["eth0"],"counters":{},"hw_counters":{%s}}],"interfaces":[{"name":"eth0","counters":{%s}}],`+
		`"qps":[{"device":"mlx5_0","port":1,"qp":62,"type":"RC","state":"RTS","pid":7,"comm":"slow\u001b[31m"}]}`+"\n",
		day(at), host, address, hw, pauses)
}

// day puts the day of the captures of soft-RoCE before a time that has none.
func day(at string) string {
	if strings.Contains(at, "T") {
		return at
	}
	return "2026-11-22T" + at
}

func hostFile(t *testing.T, lines ...string) (name string) {
	t.Helper()
	return wiretest.File(t, "host.json", strings.Join(lines, ""))
}

// findingsOf returns the sentences of the lines of hosts, for a capture and a file.
func findingsOf(t *testing.T, capture, file string) (texts []string) {
	t.Helper()
	for _, l := range lines(t, "-host", file, wiretest.Path(t, strings.Split(capture, "/")...)) {
		if l["host_side"] != true {
			continue
		}
		for _, f := range l["says"].([]any) {
			texts = append(texts, valueAt(f, "text").(string))
		}
	}
	return texts
}

// Counters of a device are those of its only port, except counters that the port has itself.
func TestHostDeviceCounts(t *testing.T) {
	with := func(line, device string) string {
		return strings.Replace(line, `"interfaces":[{`,
			`"devices":[{"name":"mlx5_0","hw_counters":{`+device+`}}],"interfaces":[{`, 1)
	}
	for _, c := range []struct {
		name string
		want []string
	}{
		{``, []string{"1661 CE in the capture, np_cnp_sent +0: the receiver's ECN is off"}},
		{`"np_cnp_sent":105`, []string{"1661 CE in the capture and no CNP, np_cnp_sent +5: " +
			"the receiver sends CNPs, the capture does not have them"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := strings.ReplaceAll(c.name, "105", "100")
			file := hostFile(t,
				with(observation("h2", "21:37:20", receiver, was, ``), `"np_cnp_sent":7`),
				with(observation("h2", "21:37:25", receiver, c.name, ``), `"np_cnp_sent":7`))
			require.Equal(t, c.want, findingsOf(t, marked, file))
		})
	}
}

const receiver, sender = "10.2.0.1", "10.1.0.1"

// Findings from counters and capture, by driver.
func TestHostSays(t *testing.T) {
	for _, row := range []struct {
		name, capture, address string
		was, is                string // of the card
		paused, pauses         string // of the interface
		want                   []string
	}{
		{"mlx5 sees marks and answers none", marked, receiver,
			`"np_cnp_sent":5,"np_ecn_marked_roce_packets":10`,
			`"np_cnp_sent":5,"np_ecn_marked_roce_packets":1671`, ``, ``,
			[]string{"1661 CE in the capture, np_ecn_marked_roce_packets +1661, np_cnp_sent +0: " +
				"the receiver saw marks and sent no CNP: its ECN is off"}},
		{"mlx5 that counts no marks", marked, receiver,
			`"np_cnp_sent":5,"np_ecn_marked_roce_packets":0`, `"np_cnp_sent":5,"np_ecn_marked_roce_packets":0`, ``, ``,
			[]string{"1661 CE in the capture, np_cnp_sent +0: the receiver's ECN is off"}},
		{"bnxt_re answers without a capture", marked, receiver, `"tx_cnp_pkts":5`, `"tx_cnp_pkts":45`, ``, ``,
			[]string{"1661 CE in the capture and no CNP, tx_cnp_pkts +40: " +
				"the receiver sends CNPs, the capture does not have them"}},
		{"irdma", marked, receiver, `"cnpSent":1,"RxECNMrkd":1`, `"cnpSent":1,"RxECNMrkd":9`, ``, ``,
			[]string{"1661 CE in the capture, RxECNMrkd +8, cnpSent +0: " +
				"the receiver saw marks and sent no CNP: its ECN is off"}},
		{"soft-RoCE has no counter of CNPs", marked, receiver, `"out_of_seq_request":1`, `"out_of_seq_request":5`,
			``, ``, nil},
		{"a counter that was reset is no evidence", marked, receiver, `"np_cnp_sent":5`, `"np_cnp_sent":0`,
			``, ``, nil},
		{"the sender has not sent the marks", marked, sender, `"np_cnp_sent":5`, `"np_cnp_sent":5`, ``, ``, nil},
		{"no timer", marked, sender, `"local_ack_timeout_err":5`, `"local_ack_timeout_err":5`, ``, ``,
			[]string{"719 retransmitted after a timeout in the capture, local_ack_timeout_err +0: " +
				"no timer of the host expired: the cause of the retransmission is not in the capture"}},
		{"timers", marked, sender, `"to_retransmits":5`, `"to_retransmits":8`, ``, ``,
			[]string{"719 retransmitted after a timeout in the capture, to_retransmits +3: " +
				"timers of the host ran out"}},
		{"pauses", marked, receiver, ``, ``, `"rx_prio3_pause":1,"rx_prio3_pause_duration":1,"tx_prio3_pause":1,` +
			`"rx_pause_storm_warning_events":1,"rx_prio3_pause_transition":1`,
			`"rx_prio3_pause":3,"rx_prio3_pause_duration":9,"tx_prio3_pause":2,` +
				`"rx_pause_storm_warning_events":7,"rx_prio3_pause_transition":8`,
			[]string{"no pause in the capture, rx_prio3_pause +2: the network stopped the host",
				"no pause in the capture, tx_prio3_pause +1: the host stopped the network, it took data too slowly"}},
		{"not ready", "real/s4-rnr.eth1.pcap.gz", receiver, `"send_rnr_err":1`, `"send_rnr_err":29`, ``, ``,
			[]string{"28 RNR NAKs from it in the capture, send_rnr_err +28: " +
				"slow\x1b[31m (process 7) posts too few receives"}},
		{"CNPs ignored", "messages.pcap", "2001:db8:1::1", `"rp_cnp_handled":1,"rp_cnp_ignored":1`,
			`"rp_cnp_handled":1,"rp_cnp_ignored":4`, ``, ``,
			[]string{"1 CNP to it in the capture, rp_cnp_ignored +3, rp_cnp_handled +0: " +
				"the sender ignores CNPs: its ECN is off for some of its traffic"}},
		{"CNPs in its name", "messages.pcap", "2001:db8:4::e", `"np_cnp_sent":1`, `"np_cnp_sent":1`, ``, ``,
			[]string{"1 CE in the capture and 1 CNP from its address, np_cnp_sent +0: " +
				"the card did not send them, another node did in its name"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := hostFile(t, observation("h", "2000-01-01T00:00:00", row.address, row.was, row.paused),
				observation("h", "2100-01-01T00:00:00", row.address, row.is, row.pauses))
			require.Equal(t, row.want, findingsOf(t, row.capture, file))
		})
	}
}

// A port that had another address before is another one: of a machine with the same name, or renumbered.
func TestHostOtherPort(t *testing.T) {
	const counters = `"np_cnp_sent":5`
	before, after := "21:37:20", "21:37:25"
	require.Empty(t, findingsOf(t, marked, hostFile(t, observation("localhost", before, sender, counters, ""),
		observation("localhost", after, receiver, counters, ""))))
}

// No finding follows from incomplete observations: without one before or after the capture, or if two ports have the
// address.
func TestHostNotSeen(t *testing.T) {
	const counters = `"np_cnp_sent":5`
	observe := func(host, at string) string { return observation(host, at, receiver, counters, "") }
	not := []string{"not observed for all of the capture's time: nothing is concluded"}
	for _, times := range [][]string{{"21:37:20.878Z", "21:38:00Z"}, {"21:30:00Z", "21:37:24.172Z"}, {"21:30:00Z"}} {
		var all []string
		for _, at := range times {
			all = append(all, observe("h", strings.TrimSuffix(at, "Z")))
		}
		require.Equal(t, not, findingsOf(t, marked, hostFile(t, all...)), "%v", times)
	}
	two := "another port has one of its addresses, too: nothing is concluded"
	require.Equal(t, []string{two, two}, findingsOf(t, marked,
		hostFile(t, observe("h", "21:00:00"), observe("i", "21:00:00"),
			observe("h", "22:00:00"), observe("i", "22:00:00"))))
	require.Empty(t, findingsOf(t, marked, hostFile(t, observation("h", "21:00:00", "10.9.9.9", counters, ""),
		observation("h", "22:00:00", "10.9.9.9", counters, ""))), "of no address in the capture")
}

// The line has all evidence for a finding, independent of the choice of flows; the text is printable.
func TestHostLine(t *testing.T) {
	file := hostFile(t, observation(`\u001b[1m`, "21:37:20", receiver, `"np_cnp_sent":5,"b":2,"c":1`, ``),
		observation(`\u001b[1m`, "21:37:25", receiver, `"np_cnp_sent":5,"b":1,"c":4`, ``))
	capture := wiretest.Path(t, strings.Split(marked, "/")...)
	all := lines(t, "-host", file, "-address", "10.9.9.9", capture)
	require.Len(t, all, 1)
	require.JSONEq(t, `{"host_side":true,"host":"\u001b[1m","device":"mlx5_0","port":1,"addresses":["10.2.0.1"],
		"from":"2026-11-22T21:37:20.000000Z","to":"2026-11-22T21:37:25.000000Z","covers":true,
		"changes":{"np_cnp_sent":0,"c":3},"reset":["b"],"says":[{"counters":{"np_cnp_sent":0},
		"text":"1661 CE in the capture, np_cnp_sent +0: the receiver's ECN is off"}]}`, string(jsonOf(t, all[0])))
	status, out, stderr := run(t, nil, "-host", file, "-address", "10.9.9.9", capture)
	require.Zero(t, status, stderr)
	require.Equal(t, `host \x1b[1m, mlx5_0 port 1 (10.2.0.1), observed from 2026-11-22T21:37:20.000000Z to `+
		`2026-11-22T21:37:25.000000Z
  1661 CE in the capture, np_cnp_sent +0: the receiver's ECN is off
  c +3, b was reset
`, out)
}

// Each file of -host counts.
func TestTwoHostFiles(t *testing.T) {
	capture := wiretest.Path(t, strings.Split(marked, "/")...)
	args := []string{"-address", "10.9.9.9", capture}
	var want []string
	for _, host := range []string{"first", "second"} {
		args = slices.Concat([]string{"-host", hostFile(t,
			observation(host, "21:37:20", receiver, `"np_cnp_sent":5`, ``),
			observation(host, "21:37:25", receiver, `"np_cnp_sent":5`, ``))}, args)
		want = append(want, host)
	}
	var got []string
	for _, l := range lines(t, args...) {
		if host, ok := l["host"].(string); ok {
			got = append(got, host)
		}
	}
	require.ElementsMatch(t, want, got)
}

// In JSON, characters of a host's name that a terminal may interpret are escaped.
func TestHostNameInJSON(t *testing.T) {
	file := hostFile(t, observation("a\u009b31m\u202e", "21:37:20", receiver, `"b":1`, ``),
		observation("a\u009b31m\u202e", "21:37:25", receiver, `"b":2`, ``))
	capture := wiretest.Path(t, strings.Split(marked, "/")...)
	status, out, stderr := run(t, nil, "-json", "-host", file, "-address", "10.9.9.9", capture)
	require.Zero(t, status, stderr)
	require.Contains(t, out, `"host":"a\u009b31m\u202e"`)
}

// A file may claim an address as often as it likes: that costs no more than so many ports.
func TestTooManyPorts(t *testing.T) {
	port := `{"device":"d","port":1,"addresses":["10.2.0.1"]}`
	var all []string
	for i := range maxHostPorts/512 + 1 {
		for _, at := range []string{"21:00:00", "22:00:00"} {
			all = append(all, fmt.Sprintf(`{"time":"%sZ","host":"%d","ports":[%s]}`+"\n", day(at), i,
				strings.TrimSuffix(strings.Repeat(port+",", 512), ",")))
		}
	}
	status, _, stderr := run(t, nil, "-host", hostFile(t, all...), wiretest.Path(t, strings.Split(marked, "/")...))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "more than 2048 ports")
}

// An unreadable file is reported, and the flows are printed.
func TestHostFileRefused(t *testing.T) {
	capture := wiretest.Path(t, strings.Split(marked, "/")...)
	for _, file := range []string{hostFile(t, "{}\n"), filepath.Join(t.TempDir(), "none")} {
		status, out, stderr := run(t, nil, "-host", file, capture)
		require.Equal(t, 1, status)
		require.Contains(t, stderr, "-host "+file)
		require.Contains(t, out, "10.1.0.1 > 10.2.0.1")
	}
	for _, args := range [][]string{{"-csv", capture}, {"-prometheus", capture}, {"-interval", "1s", capture},
		{"-shard", "0/2", capture}, {"-compare", capture, capture}} {
		status, _, stderr := run(t, nil, append([]string{"-host", "x"}, args...)...)
		require.Equal(t, 2, status)
		require.Contains(t, stderr, "-host: cannot be combined with")
	}
}

// Cases that no capture contains.
func TestHostRules(t *testing.T) {
	for _, row := range []struct {
		name    string
		seen    seen
		changes map[string]uint64
	}{
		{"7 CE in the capture and 2 Fast CNPs, np_cnp_sent +0: " +
			"the card sent no CNP, and Fast CNPs are the network's or not counted",
			seen{ce: 7, answered: 7, fast: 2}, map[string]uint64{"np_cnp_sent": 0, "np_ecn_marked_roce_packets": 7}},
		{"7 CE in the capture, np_cnp_sent +0: the receiver's ECN is off, or the marked packets did not reach it",
			seen{ce: 7}, map[string]uint64{"np_cnp_sent": 0, "np_ecn_marked_roce_packets": 0}},
		{"3 CNPs to it in the capture, rp_cnp_handled +0: they did not reach the sender, or its ECN is off",
			seen{cnpsTo: 3}, map[string]uint64{"rp_cnp_handled": 0, "rp_cnp_ignored": 0}},
		{"4 missing to it in the capture, out_of_sequence +0: the host saw no gap, the capture may have lost them",
			seen{missing: 4}, map[string]uint64{"out_of_sequence": 0}},
		{"4 missing to it in the capture, out_of_seq_request +9: the host saw gaps, too",
			seen{missing: 4}, map[string]uint64{"out_of_seq_request": 9}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := hostLine{Changes: row.changes}
			(&hostRules{line: &l, seen: row.seen, whole: true}).compareAll()
			require.Len(t, l.Says, 1)
			require.Equal(t, row.name, l.Says[0].Text)
		})
	}
	for _, row := range []struct {
		name    string
		seen    seen
		changes map[string]uint64
	}{
		{"all is well", seen{ce: 7, cnpsFrom: 3, cnpsTo: 2}, map[string]uint64{"np_cnp_sent": 3, "rp_cnp_handled": 2}},
		{"no marks", seen{}, map[string]uint64{"np_cnp_sent": 0, "rp_cnp_handled": 0, "out_of_sequence": 8}},
		{"flows without room may have had the CNPs", seen{ce: 7}, map[string]uint64{"np_cnp_sent": 3}},
		{"unknown names", seen{ce: 7, cnpsTo: 2, missing: 4, timeouts: 1, rnrFrom: 2}, map[string]uint64{"x": 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := hostLine{Changes: row.changes}
			(&hostRules{line: &l, seen: row.seen}).compareAll()
			require.Empty(t, l.Says)
		})
	}
}
