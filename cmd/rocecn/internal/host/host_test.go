package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/programs"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/rdma"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// folder writes a recorded folder.
func folder(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	return dir
}

func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = Run(context.Background(), args, nil, &out, &err)
	return status, out.String(), err.String()
}

const (
	rxePort   = "sys/class/infiniband/rxe0/ports/1/"
	mlx5Ports = "sys/class/infiniband/mlx5_0/ports/"
	noGID     = "0000:0000:0000:0000:0000:0000:0000:0000\n"
)

// Soft-RoCE, with the names of Linux's rxe_hw_counters.c: an interface with an address of IPv4, which is in the table
// of GIDs as the kernel writes it.
var rxe = map[string]string{
	"time":                        "2026-11-23T09:00:00Z\n",
	"hostname":                    "rcv\n",
	rxePort + "gids/0":            "fe80:0000:0000:0000:5054:00ff:fe12:3456\n",
	rxePort + "gids/1":            "0000:0000:0000:0000:0000:ffff:0a02:0001\n",
	rxePort + "gids/2":            noGID,
	rxePort + "gid_attrs/ndevs/0": "eth0\n",
	rxePort + "gid_attrs/ndevs/1": "eth0\n",
	rxePort + "hw_counters/duplicate_request":   "1\n",
	rxePort + "hw_counters/out_of_seq_request":  "41\n",
	rxePort + "hw_counters/rcvd_seq_err":        "0\n",
	rxePort + "hw_counters/lifespan":            "10\n",
	rxePort + "hw_counters/completer_retry_err": "no number\n",
	"ethtool/eth0": "NIC statistics:\n     rx_queue_0_packets: 7\n",
	"rdma/qp": "link rxe0/1 lqpn 17 rqpn 18 type RC state RTS rq-psn 5 sq-psn 6 path-mig-state MIGRATED pid 412 " +
		"comm ib_write_bw \nlink rxe0/1 lqpn 1 type GSI state RTS sq-psn 40 comm [ib_core] \n",
}

// A card of mlx5 has counters of congestion, and pauses of each priority.
var mlx5 = map[string]string{
	"time": "2026-11-23T10:00:00+01:00\n",
	// As tar records them: filled up with zeros to the size that sysfs claims.
	mlx5Ports + "1/gids/0":                                   "0000:0000:0000:0000:0000:ffff:c000:0202\n\x00\x00",
	mlx5Ports + "1/gids/1":                                   "0000:0000:0000:0000:0000:ffff:c000:0202\n\x00\x00",
	mlx5Ports + "1/gid_attrs/ndevs/0":                        "ens1f0np0\n\x00",
	mlx5Ports + "1/counters/port_xmit_wait":                  "9\n\x00",
	mlx5Ports + "1/hw_counters/np_cnp_sent":                  "18446744073709551615\n\x00",
	mlx5Ports + "1/hw_counters/local_ack_timeout_err":        "3\n\x00",
	mlx5Ports + "1/hw_counters/rnr_nak_retry_err":            "18446744073709551616\n",
	mlx5Ports + "1/gid_attrs/types/0":                        "RoCE v2\n",
	mlx5Ports + "nonsense/hw_counters/np_cnp_sent":           "1\n",
	"sys/class/infiniband/mlx5_0/hw_counters/lifespan":       "10\n\x00",
	"sys/class/infiniband/mlx5_0/hw_counters/rp_cnp_handled": "7\n\x00",
	mlx5Ports + "2/gid_attrs/ndevs/0":                        "../../../etc/passwd\n",
	mlx5Ports + "2/gids/0":                                   "fe80:0000:0000:0000:0000:0000:0000:0001\n",
	mlx5Ports + "2/counters/folder/is_not_a_counter_at":      "1\n",
	"ethtool/ens1f0np0": `NIC statistics:
     rx_packets: 1
     rx_prio3_pause: 12
     rx_prio3_pause_duration: 3400
     tx_prio3_pause: 0
     rx_prio3_pause_transition: many
`,
}

// parseOne decodes the only line.
func parseOne(t *testing.T, out string) (o Observation) {
	t.Helper()
	require.Equal(t, 1, strings.Count(out, "\n"), out)
	require.NoError(t, json.Unmarshal([]byte(out), &o))
	return o
}

func TestSoftRoCE(t *testing.T) {
	status, out, stderr := run(t, "-root", folder(t, rxe))
	require.Zero(t, status, stderr)
	require.Equal(t, Observation{
		Time: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), Host: "rcv",
		Ports: []Port{{Device: "rxe0", Port: 1, Interfaces: []string{"eth0"},
			Addresses: []netip.Addr{netip.MustParseAddr("10.2.0.1"), netip.MustParseAddr("fe80::5054:ff:fe12:3456")},
			Counters:  map[string]uint64{},
			HW:        map[string]uint64{"duplicate_request": 1, "out_of_seq_request": 41, "rcvd_seq_err": 0}}},
		Interfaces: []Interface{{"eth0", map[string]uint64{}}},
		QPs: []rdma.QueuePair{
			{Device: "rxe0", Port: 1, QP: 17, RemoteQP: 18, Type: "RC", State: "RTS", PID: 412, Comm: "ib_write_bw"},
			{Device: "rxe0", Port: 1, QP: 1, Type: "GSI", State: "RTS", Comm: "[ib_core]"},
		},
		Missing: []string{`rxe0/ports/1/hw_counters: no number in completer_retry_err: "no number"`},
	}, parseOne(t, out))
}

// Counters without a number, as those of a card without performance management, are missing and not 0.
func TestCountersWithoutNumber(t *testing.T) {
	const counters = "sys/class/infiniband/mlx4_0/ports/1/counters/"
	files := map[string]string{"time": "2025-11-24T15:59:50Z", "sys/class/infiniband/mlx4_0/ports/1/gids/0": "::1",
		counters + "link_downed": "N/A (no PMA)\n", counters + "port_rcv_data": "N/A (no PMA)\n",
		counters + "port_xmit_data": "7\n", counters + "port_xmit_wait": "010\n"}
	status, out, stderr := run(t, "-root", folder(t, files))
	require.Zero(t, status, stderr)
	o := parseOne(t, out)
	require.Equal(t, map[string]uint64{"port_xmit_data": 7, "port_xmit_wait": 10}, o.Ports[0].Counters)
	require.Contains(t, o.Missing,
		`mlx4_0/ports/1/counters: no number in link_downed, port_rcv_data: "N/A (no PMA)"`)
	for n := range 20 {
		files[fmt.Sprintf("%sport_%02d", counters, n)] = strings.Repeat("x", 100)
	}
	_, out, _ = run(t, "-root", folder(t, files))
	require.Regexp(t, `no number in link_downed, port_00, .*, port_14 and 6 more: "N/A \(no PMA\)"$`,
		parseOne(t, out).Missing[0])
}

// Counters are decimal numbers without a sign.
func TestCountersAreDecimal(t *testing.T) {
	const counters = "sys/class/infiniband/mlx4_0/ports/1/counters/"
	for _, text := range []string{"0x10", "1_000", "0b11", "1.5", "+7", "-1", "1e3", ""} {
		t.Run(text, func(t *testing.T) {
			_, out, stderr := run(t, "-root", folder(t, map[string]string{"time": "2025-11-24T15:59:50Z",
				"sys/class/infiniband/mlx4_0/ports/1/gids/0": "::1", counters + "a": text, counters + "b": "08\n"}))
			o := parseOne(t, out)
			require.Equal(t, map[string]uint64{"b": 8}, o.Ports[0].Counters, stderr)
			require.Contains(t, o.Missing, fmt.Sprintf("mlx4_0/ports/1/counters: no number in a: %q", text))
		})
	}
}

// Ports come in the order of their numbers, and devices in that of their names.
func TestOrderOfPorts(t *testing.T) {
	files := map[string]string{"time": "2025-11-24T15:59:50Z"}
	for _, port := range []string{"b/ports/10", "b/ports/2", "a10/ports/1", "a2/ports/1", "b/ports/1"} {
		files["sys/class/infiniband/"+port+"/gids/0"] = "::1"
		files["sys/class/infiniband/"+port+"/counters/port_rcv_data"] = "1\n"
	}
	_, out, stderr := run(t, "-root", folder(t, files))
	var got []string
	for _, p := range parseOne(t, out).Ports {
		got = append(got, fmt.Sprint(p.Device, " ", p.Port))
	}
	require.Equal(t, []string{"a10 1", "a2 1", "b 1", "b 2", "b 10"}, got, stderr)
}

// Pauses and queue pairs that could not be read are missing, and the rest is there.
func TestProgramsWithoutAnswer(t *testing.T) {
	files := maps.Clone(rxe)
	delete(files, "ethtool/eth0")
	delete(files, "rdma/qp")
	status, out, stderr := run(t, "-root", folder(t, files))
	require.Zero(t, status, stderr)
	o := parseOne(t, out)
	require.Equal(t, "rxe0", o.Ports[0].Device)
	require.Empty(t, o.Interfaces)
	require.Len(t, o.Missing, 3)
	require.Regexp(t, "^pauses of eth0: .*no such file", o.Missing[1])
	require.Regexp(t, "^queue pairs: .*no such file", o.Missing[2])
}

// The help names the folder that is read.
func TestHelpNamesFolder(t *testing.T) {
	_, _, stderr := run(t, "-h")
	require.Contains(t, stderr, "DIR/"+infiniband+"\n")
}

func TestHardware(t *testing.T) {
	dir := folder(t, mlx5)
	status, out, stderr := run(t, "-root", dir)
	require.Zero(t, status, stderr)
	o := parseOne(t, out)
	require.Equal(t, dir, o.Host)
	require.Equal(t, time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), o.Time)
	require.Len(t, o.Ports, 2)
	p := o.Port("mlx5_0", 1)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("192.0.2.2")}, p.Addresses)
	require.Equal(t, map[string]uint64{"np_cnp_sent": 1<<64 - 1, "local_ack_timeout_err": 3}, p.HW)
	require.Equal(t, map[string]uint64{"port_xmit_wait": 9}, p.Counters)
	require.Equal(t, map[string]uint64{"rx_prio3_pause": 12, "rx_prio3_pause_duration": 3400, "tx_prio3_pause": 0},
		o.Interface("ens1f0np0"))
	require.Equal(t, []Device{{"mlx5_0", map[string]uint64{"rp_cnp_handled": 7}}}, o.Devices)
	require.Nil(t, o.Device("mlx5_0"), "which of its two ports counted is not known")
	o.Ports = o.Ports[:1]
	require.Equal(t, map[string]uint64{"rp_cnp_handled": 7}, o.Device("mlx5_0"))
	o.Ports = o.Ports[:2]
	require.Empty(t, o.Port("mlx5_0", 2).Interfaces, "a name that leads elsewhere")
	require.Empty(t, o.Port("mlx5_0", 2).Counters)
	require.Len(t, o.Missing, 2)
	require.Contains(t, o.Missing[0], "no number in rnr_nak_retry_err: ")
	require.Contains(t, o.Missing[1], "queue pairs: ")
	require.Nil(t, o.Port("mlx5_1", 1))
	require.Nil(t, o.Interface("eth7"))
}

// Two folders are two lines, such as one from before and one from after a test.
func TestTwoFolders(t *testing.T) {
	status, out, _ := run(t, "-root", folder(t, rxe), "-root", folder(t, mlx5))
	require.Zero(t, status)
	require.Equal(t, 2, strings.Count(out, "\n"))
}

// A file that was not recorded is named.
func TestNotRecorded(t *testing.T) {
	status, out, _ := run(t, "-root", folder(t, map[string]string{"time": "2026-11-22T09:00:00Z"}))
	require.Zero(t, status)
	require.Contains(t, out, `"queue pairs: rdma/qp: no such file or directory"`)
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{{"file"}, {"-count", "2"}, {"-interval", "-1s"}, {"-count", "-1"},
		{"-root", "x", "-count", "1"}, {"-root", "x", "-interval", "1s"}, {"-what"}} {
		status, _, stderr := run(t, args...)
		require.Equal(t, 2, status, "%v", args)
		require.NotEmpty(t, stderr)
	}
	status, _, stderr := run(t, "-root", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "no such file")
	status, _, stderr = run(t, "-root", t.TempDir())
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "date -u")
	status, _, stderr = run(t, "-root", folder(t, map[string]string{"time": "yesterday"}))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "yesterday")
}

// A host is observed in the interval asked for, with or without RDMA devices. Missing parts are reported once.
func TestLive(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no program rdma
	status, out, stderr := run(t, "-interval", "1ms", "-count", "3")
	require.Zero(t, status, stderr)
	require.Equal(t, 3, strings.Count(out, "\n"))
	require.Equal(t, 1, strings.Count(stderr, "queue pairs: "), stderr)
	var o Observation
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&o))
	require.False(t, o.Until.Before(o.Time))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.Zero(t, Run(ctx, []string{"-interval", "1h"}, nil, &bytes.Buffer{}, &bytes.Buffer{}))
}

// The output of ethtool is read, and its errors are reported.
func TestEthtool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	program := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "ethtool"), []byte("#!/bin/sh\n"+text), 0o755))
	}
	program(`echo "$@"`)
	text, err := runEthtool(context.Background(), "eth0")
	require.NoError(t, err)
	require.Equal(t, "-S eth0\n", text)
	program("echo no stats available >&2; exit 94")
	_, err = runEthtool(context.Background(), "eth0")
	require.EqualError(t, err, "ethtool: exit status 94: no stats available")
	program(wiretest.Lingering(t))
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, programs.ErrNoAnswer)
	defer cancel()
	_, err = runEthtool(ctx, "eth0")
	require.EqualError(t, err, "ethtool: no answer within 5s")
}

// Of a host with very many virtual functions it is said that not all are read.
func TestManyDevices(t *testing.T) {
	for _, c := range []struct {
		devices, ports, read int
		more                 bool
	}{{64, 1, 64, false}, {65, 1, 64, true}, {64, 8, 512, false}, {60, 9, 512, true}} {
		files := map[string]string{"time": "2026-11-22T09:00:00Z", "rdma/qp": ""}
		for i := range c.devices * c.ports {
			files[fmt.Sprintf("sys/class/infiniband/mlx5_%d/ports/%d/state", i/c.ports, i%c.ports+1)] = "4: ACTIVE"
		}
		status, out, stderr := run(t, "-root", folder(t, files))
		require.Zero(t, status, stderr)
		o := parseOne(t, out)
		require.Len(t, o.Ports, c.read)
		var missing []string
		if c.more {
			missing = []string{"RDMA devices beyond the first 64, or ports beyond the first 512"}
		}
		require.Equal(t, missing, o.Missing)
	}
}

func timeOf(seconds int) time.Time {
	return time.Unix(1000, 0).UTC().Add(time.Duration(seconds) * time.Second)
}

// observed returns lines of a host, observed at these times.
func observed(name string, seconds ...int) string {
	var b strings.Builder
	for _, s := range seconds {
		fmt.Fprintf(&b, "{\"time\":%q,\"host\":%q}\n", timeOf(s).Format(time.RFC3339), name)
	}
	return b.String()
}

// Of each host the closest observations are kept: outside of the time where there are such, else inside.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		seconds  []int
		from, to int
		covers   bool
	}{
		{[]int{0, 5, 10, 15, 20, 25}, 10, 20, true},
		{[]int{25, 20, 15, 10, 5, 0}, 10, 20, true},
		{[]int{-100, 9, 8, 21, 100}, 9, 21, true},
		{[]int{14, 12, 13}, 12, 14, false},
		{[]int{12, 30}, 12, 30, false},
		{[]int{0, 19, 12}, 0, 19, false},
		{[]int{5}, 5, 5, false},
		{[]int{30, 40}, 30, 30, false},
	} {
		r := NewReader(timeOf(10), timeOf(20))
		require.NoError(t, r.Read(strings.NewReader(observed("b", 0)+observed("a", c.seconds...))))
		var hosts []string
		require.NoError(t, r.Windows(func(w Window) error {
			if hosts = append(hosts, w.From.Host); w.From.Host == "a" {
				require.Equal(t, timeOf(c.from), w.From.Time, "%v", c.seconds)
				require.Equal(t, timeOf(c.to), w.To.Time, "%v", c.seconds)
				require.Equal(t, c.covers, w.Covers, "%v", c.seconds)
			}
			return nil
		}))
		require.Equal(t, []string{"b", "a"}, hosts)
	}
}

// An observation that was still in progress when the capture began is not from before the capture.
func TestUntil(t *testing.T) {
	r := NewReader(timeOf(10), timeOf(20))
	until := fmt.Sprintf(`,"until":%q,"host"`, timeOf(11).Format(time.RFC3339))
	text := strings.Replace(observed("a", 9), `,"host"`, until, 1)
	require.NoError(t, r.Read(strings.NewReader(text+observed("a", 20))))
	require.NoError(t, r.Windows(func(w Window) error {
		require.False(t, w.Covers)
		return nil
	}))
}

func TestRefused(t *testing.T) {
	var hosts strings.Builder
	for i := range maxHosts + 1 {
		hosts.WriteString(observed(fmt.Sprint(i), 0))
	}
	for _, c := range []struct{ name, want string }{
		{"{}\n", "line 1: no time"},
		{"\n[]\n", "line 2: "},
		{observed("a", 0)[1:], "line 1: "},
		{hosts.String(), "line 257: more than 256 hosts"},
		{strings.Repeat(" ", maxLine+1), "line 1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, NewReader(timeOf(0), timeOf(1)).Read(strings.NewReader(c.name)), c.want)
		})
	}
	many := `"ports":[` + strings.Repeat("{},", maxAllPorts) + "{}]}\n"
	r := NewReader(timeOf(0), timeOf(1))
	require.NoError(t, r.Read(strings.NewReader(strings.Replace(observed("a", 0), "}\n", ","+many, 1))))
	require.ErrorContains(t, r.Windows(func(Window) error { return nil }), "more than 512 ports")
}

// An observation has all keys that docs/stability.md promises.
func TestPromised(t *testing.T) {
	facts := map[string]bool{}
	for _, files := range []map[string]string{rxe, mlx5} {
		status, out, _ := run(t, "-root", folder(t, files))
		require.Zero(t, status)
		var observation any
		require.NoError(t, json.Unmarshal([]byte(out), &observation))
		wiretest.Fields("", observation, func(path, kind string) {
			facts[fmt.Sprintf("json %s %s", path, kind)] = true
		})
	}
	wiretest.Promised(t, "host.txt", facts)
}
