package run

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/shape"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// theShaper is the sender's host. Its rates do not recover during a test.
var theShaper = readConfig("shaper")

// egressOf returns the programs at egress of an interface: TCX programs by id, and filters.
func egressOf(t *testing.T, h *wiretest.Host, name string) (ids []ebpf.ProgramID) {
	t.Helper()
	h.Do(t, func() error {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		now, err := link.QueryPrograms(link.QueryOptions{Target: i.Index, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return nil // Linux has no TCX
		}
		for _, p := range now.Programs {
			ids = append(ids, p.ID)
		}
		return nil
	})
	if strings.Contains(h.Run(t, "", "tc", "filter", "show", "dev", name, "egress"), "rocecn") {
		ids = append(ids, 0)
	}
	return ids
}

// Flows of a host slow down individually when they are notified. All packets arrive, a reload keeps rates, and
// no program is left.
func TestShape(t *testing.T) {
	a, _, b, _ := network(t)
	agent := start(t, a, theShaper)
	require.Len(t, egressOf(t, a, "a0"), 1)
	require.Contains(t, agent.log(), "role.sender: a0: its qdisc is noqueue, and only fq keeps packets")
	arrives := wiretest.Open(t, b, netio.OpenPackets, netio.PacketConfig{Interface: "b0", Direction: netio.In})
	out, core := raw(t, a), raw(t, b)
	const line = 8e9
	agent.awaits(t, line, "rocecn_rate_least_bps")
	require.Zero(t, agent.metric("rocecn_rate_flows"))

	// A Fast CNP halves the rate of one queue pair.
	sends(t, core, fast(t, datagram(t, 17)))
	agent.awaits(t, line/2, "rocecn_rate_least_bps")
	agent.awaits(t, 1, "rocecn_rate_slowed")
	require.EqualValues(t, 1, agent.metric("rocecn_rate_cuts_total"))
	agent.awaitLog(t, "rate_bps=4000000000")
	const n = 100
	both := func() {
		t.Helper()
		for range n {
			sends(t, out, datagram(t, 17), datagram(t, 18))
		}
		count := map[uint32]int{}
		decoded(t, arrives, func(p *rocev2.Packet) bool {
			count[p.BTH.DestQP]++
			return count[17] == n && count[18] == n
		})
	}
	both()
	agent.awaits(t, n, "rocecn_shaped_packets_total")

	// A CNP of the receiver affects the other flow, and one from elsewhere none.
	message := cnp.New(35, 0xFFFF)
	ours := wiretest.Must(message.AppendPacket(nil, receiver, sender, cnp.Config{}))(t)
	forged := wiretest.Must(message.AppendPacket(nil, ip("2001:db8:2::d"), sender, cnp.Config{}))(t)
	sends(t, core, forged)
	agent.awaits(t, 1, "rocecn_role_refused_total")
	require.EqualValues(t, 1, agent.metric("rocecn_rate_slowed"))
	sends(t, core, ours)
	agent.awaits(t, 2, "rocecn_rate_slowed")
	both()
	agent.awaits(t, 3*n, "rocecn_shaped_packets_total")

	// A stop ends by itself or by a resume.
	var about rocev2.Packet
	require.NoError(t, about.DecodeIP(datagram(t, 17)))
	for _, asks := range []ppfc.Extension{
		{Type: ppfc.Stop, Pause: ppfc.MaxPause}, {Type: ppfc.Resume}, {Type: ppfc.Stop, Pause: time.Millisecond},
	} {
		notification := wiretest.Must(ppfc.AppendFor(nil, &about, node6, asks, ppfc.Config{}))(t)
		sends(t, core, notification)
	}
	agent.awaits(t, 2, "rocecn_rate_stops_total")
	both()

	// Rates and the program stay if their configuration has not changed.
	before := egressOf(t, a, "a0")
	agent.reload(t, theShaper+"window = \"1ms\"\n")
	wiretest.Await(t, "the reload", func() bool { return strings.Contains(agent.log(), "msg=reloaded") })
	require.Equal(t, before, egressOf(t, a, "a0"))
	require.EqualValues(t, line/2, agent.metric("rocecn_rate_least_bps"))
	was := agent.metric("rocecn_shaped_packets_total")
	both()
	agent.awaits(t, was+2*n, "rocecn_shaped_packets_total")

	// act = "report" leaves flows alone and keeps the rates; act = "shape" applies them again immediately.
	report := strings.NewReplacer(`"shape"`, `"report"`, "interfaces = [\"a0\"]\nsources", "sources").Replace(theShaper)
	agent.reload(t, report)
	wiretest.Await(t, "it is gone", func() bool { return len(egressOf(t, a, "a0")) == 0 })
	both()
	require.Zero(t, agent.metric("rocecn_shaped_packets_total"))
	agent.awaits(t, line/2, "rocecn_rate_least_bps")
	agent.reload(t, theShaper)
	wiretest.Await(t, "it is there again", func() bool { return len(egressOf(t, a, "a0")) == 1 })
	wiretest.Await(t, "orders are set again", func() bool {
		both()
		return agent.metric("rocecn_shaped_packets_total") > 0
	})

	// Its interface is removed and added.
	agent.reload(t, strings.Replace(theShaper, `interfaces = ["a0"]
sources`, `interfaces = ["later"]
sources`, 1))
	wiretest.Await(t, "it is not ready", func() bool {
		return strings.Contains(agent.get("/readyz"), "not ready: role.sender: later")
	})
	require.Empty(t, egressOf(t, a, "a0"))
	a.Run(t, "", "ip", "link", "add", "later", "type", "veth", "peer", "name", "other")
	wiretest.Await(t, "it is there", func() bool { return len(egressOf(t, a, "later")) == 1 })
	agent.terminate(t)
	require.Empty(t, egressOf(t, a, "later"))
}

// A killed agent leaves no program: the kernel removes the program.
func TestShapeKilled(t *testing.T) {
	a, _, _, _ := network(t)
	agent := start(t, a, theShaper)
	ids := egressOf(t, a, "a0")
	require.Len(t, ids, 1)
	require.NoError(t, agent.Process.Kill())
	agent.awaitEnd(t)
	if ids[0] == 0 { // before Linux 6.6 a filter stays, and its orders expire; the next agent replaces it
		agent = start(t, a, theShaper)
		require.Len(t, egressOf(t, a, "a0"), 1)
		agent.terminate(t)
	}
	wiretest.Await(t, "it is gone", func() bool { return len(egressOf(t, a, "a0")) == 0 })
}

// check reports missing requirements and changes nothing. A configured qdisc prevents fq.
func TestShapeTried(t *testing.T) {
	a, _, _, _ := network(t)
	a.Run(t, "", "tc", "qdisc", "add", "dev", "a0", "root", "handle", "7:", "tbf",
		"rate", "1gbit", "burst", "10k", "limit", "10k")
	check := func(config string) (status int, output string) {
		var out, stderr bytes.Buffer
		a.Do(t, func() error {
			args := []string{"-config", wiretest.File(t, "agent.toml", config), "-system"}
			status = Check(t.Context(), args, nil, &out, &stderr)
			return nil
		})
		return status, out.String() + stderr.String()
	}
	status, output := check(theShaper)
	require.Zero(t, status)
	require.Contains(t, output,
		"warning: role.sender: a0: its qdisc is tbf, and only fq keeps packets until their time")
	require.Contains(t, output, "role.sender: the kernel slows flows down that leave by a0\n")
	require.Contains(t, output, "AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW\n")
	installs := strings.Replace(theShaper, `act =`, "install = \"fq\"\nact =", 1)
	status, output = check(installs)
	require.Equal(t, 1, status)
	require.Contains(t, output,
		"role.sender.act: shape: a0: qdisc tbf was configured: remove it, or replace it with fq")
	require.NotContains(t, output, "installs it")
	const at = "interfaces = [\"a0\"]\nsources"
	status, output = check(strings.Replace(theShaper, at, strings.Replace(at, "a0", "a7", 1), 1))
	require.Equal(t, 1, status)
	require.Contains(t, output, "role.sender: a7: "+netio.ErrNoInterface.Error())
	require.Empty(t, egressOf(t, a, "a0"))

	// The agent does not start, and leaves no program.
	self := wiretest.Must(os.Executable())(t)
	agent := startAs(t, a, wiretest.File(t, "agent.toml", installs), self)
	require.Error(t, agent.awaitEnd(t))
	require.Contains(t, agent.log(), "qdisc tbf was configured")
	require.Empty(t, egressOf(t, a, "a0"))
}

// User `nobody` can run the agent with the capabilities that check prints.
func TestShapeCapabilities(t *testing.T) {
	setpriv := wiretest.Tool(t, "setpriv")
	a, _, b, _ := network(t)
	program, config := copyForUnprivileged(t, theShaper)
	agent := startAs(t, a, config, setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
		"--bounding-set=-all,+bpf,+net_admin,+net_raw", "--inh-caps=+bpf,+net_admin,+net_raw",
		"--ambient-caps=+bpf,+net_admin,+net_raw", program)
	agent.awaitLog(t, "msg=ready")
	sends(t, raw(t, b), fast(t, datagram(t, 17)))
	agent.awaits(t, 1, "rocecn_rate_slowed")
	sends(t, raw(t, a), datagram(t, 17))
	agent.awaits(t, 1, "rocecn_shaped_packets_total")
	agent.terminate(t)
}

// fq is installed and removed by the agent, stays if the agent is killed, and is taken over by the next one. If
// the kernel has no fq, the agent reports it and does not start.
func TestShapeInstalls(t *testing.T) {
	a, _, b, _ := network(t)
	installs := strings.Replace(theShaper, `act =`, "install = \"fq\"\nact =", 1)
	root := func() (kind string) {
		a.Do(t, func() (err error) {
			kind, _, err = shape.CheckFQ("a0")
			return err
		})
		return kind
	}
	err := a.Try(func() error {
		remove, err := shape.InstallFQ("a0")
		if err != nil {
			return err
		}
		return remove()
	})
	require.Equal(t, "noqueue", root())
	var output bytes.Buffer
	a.Do(t, func() error {
		args := []string{"-config", wiretest.File(t, "agent.toml", installs), "-system"}
		require.Equal(t, err == nil, Check(t.Context(), args, nil, io.Discard, &output) == 0, output.String())
		return nil
	})
	require.NotContains(t, output.String(), "installs it")
	require.Equal(t, "noqueue", root())
	if errors.Is(err, unix.ENOENT) { // no module sch_fq
		require.Contains(t, output.String(), "role.sender.act: shape: a0: this kernel has no qdisc fq, module sch_fq: ")
		self := wiretest.Must(os.Executable())(t)
		agent := startAs(t, a, wiretest.File(t, "agent.toml", installs), self)
		require.Error(t, agent.awaitEnd(t))
		require.Contains(t, agent.log(), "role.sender.act: shape: a0: this kernel has no qdisc fq, module sch_fq: ")
		require.Empty(t, egressOf(t, a, "a0"))
		require.Equal(t, "noqueue", root())
		return
	}
	require.NoError(t, err)
	agent := start(t, a, installs)
	require.Equal(t, "fq", root())
	require.NotContains(t, agent.log(), "only fq keeps")
	require.NoError(t, agent.Process.Kill())
	agent.awaitEnd(t)
	require.Equal(t, "fq", root())

	agent = start(t, a, installs)
	sends(t, raw(t, b), fast(t, datagram(t, 17)))
	agent.awaits(t, 1, "rocecn_rate_slowed")
	sends(t, raw(t, a), datagram(t, 17))
	agent.awaits(t, 1, "rocecn_shaped_packets_total")
	agent.terminate(t)
	require.Equal(t, "noqueue", root())
}
