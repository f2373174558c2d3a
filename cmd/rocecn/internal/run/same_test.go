package run

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/play"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

//go:embed testdata/roles.txt
var roleKeys string

// everyRole has the keys of all roles for many decisions about the captures of testdata.
var everyRole = func() map[string]string {
	all := map[string]string{}
	for paragraph := range strings.SplitSeq(roleKeys, "\n\n") {
		role, keys, _ := strings.Cut(strings.TrimSpace(paragraph), "\n")
		all[role] = keys + "\n"
	}
	return all
}()

// written writes a file and returns its name.
func written(t testing.TB, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

// sinkOf returns the key for the sink of a role, if it sends packets.
func sinkOf(role string) string {
	if role == "border" || role == "pause" {
		return ""
	}
	return "sink = \"out\"\n"
}

// On a capture, the agent decides as play does, line for line, and sends the same packets.
func TestSameAsPlay(t *testing.T) {
	played := map[string]bool{}
	seen := map[string]bool{}
	for _, in := range append(wiretest.Captures(t, "*.pcap"), "tour.pcap") {
		in = wiretest.Path(t, in)
		for _, role := range slices.Sorted(maps.Keys(everyRole)) {
			keys := everyRole[role]
			role, _, _ := strings.Cut(role, " ")
			played[role] = true
			sent := filepath.Join(t.TempDir(), "sent.pcap")
			config := written(t, "agent.toml", fmt.Sprintf(readConfig("same"), in, sent, role, keys))
			want, got, stderr := new(bytes.Buffer), new(bytes.Buffer), new(bytes.Buffer)
			out := filepath.Join(t.TempDir(), "out.pcap")
			status := play.Run(t.Context(), []string{"-role", role, "-config", config, in, out}, nil, want, stderr)
			ran := Run(t.Context(), []string{"-config", config, "-dry-run"}, nil, got, stderr)
			require.Equal(t, status, ran, stderr)
			require.Equal(t, want.String(), got.String(), "%s %s", role, in)
			require.NoFileExists(t, sent)
			for line := range strings.Lines(want.String()) {
				_, rest, _ := strings.Cut(line, `"action":"`)
				action, _, _ := strings.Cut(rest, `"`)
				seen[role+" "+action] = true
			}

			require.Equal(t, status, Run(t.Context(), []string{"-config", config}, nil, new(bytes.Buffer), stderr))
			require.Equal(t, packets(t, out), packets(t, sent), "%s %s", role, in)
		}
	}
	require.Len(t, played, len(roles.Names()))
	for _, wanted := range []string{
		"switch sent", "switch refused", "receiver sent", "receiver learned", "sender accepted", "sender refused",
		"proxy sent", "proxy refused", "ingress forwarded", "ingress refused", "border dropped", "border passed",
		"pause accepted", "pause refused",
	} {
		require.True(t, seen[wanted], "%s: %v", wanted, seen)
	}
}

// sentBy returns the packets that roles send about messages.pcap to one sink with these keys.
func sentBy(t *testing.T, keys string, names ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sent.pcap")
	config := fmt.Sprintf("[source.traffic]\ntype = \"capture\"\nfile = %q\n"+
		"[sink.out]\ntype = \"capture\"\nfile = %q\n%s", wiretest.Path(t, "messages.pcap"), file, keys)
	for _, name := range names {
		config += "[role." + name + "]\nenabled = true\nsources = [\"traffic\"]\nsink = \"out\"\n"
		config += everyRole[name]
	}
	stderr := new(bytes.Buffer)
	config = written(t, "agent.toml", config)
	status := Run(t.Context(), []string{"-config", config}, nil, new(bytes.Buffer), stderr)
	require.Zero(t, status, stderr)
	return packets(t, file)
}

// Roles with one sink write to one file.
func TestSharedCaptureSink(t *testing.T) {
	one, other := sentBy(t, "", "switch"), sentBy(t, "", "proxy")
	require.NotEmpty(t, one)
	require.NotEmpty(t, other)
	require.ElementsMatch(t, append(one, other...), sentBy(t, "", "switch", "proxy"))
}

// A sink sets another DSCP in notifications and changes nothing else. Forwarded packets keep their DSCP.
func TestSinkDSCP(t *testing.T) {
	for _, role := range []string{"switch", "proxy"} {
		as, with := sentBy(t, "", role), sentBy(t, "dscp = 46\n", role)
		require.NotEmpty(t, as)
		require.Len(t, with, len(as))
		for i := range as {
			_, was, _ := strings.Cut(as[i], " ")
			_, is, _ := strings.Cut(with[i], " ")
			ip := wiretest.Hex(t, is)
			dscp := wiretest.SetDSCP(t, ip, 48)
			require.EqualValues(t, 46, dscp)
			require.Equal(t, wiretest.Hex(t, was), ip)
		}
	}
	require.Equal(t, sentBy(t, "", "ingress"), sentBy(t, "dscp = 46\n", "ingress"))
}

// packets returns the packets of a capture with their times.
func packets(t testing.TB, name string) (all []string) {
	t.Helper()
	f := wiretest.Must(os.Open(name))(t)
	defer f.Close()
	in := wiretest.Must(capture.Open(f))(t)
	for r, err := range capture.All(in) {
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%d %x", r.Time.UnixNano(), r.Data))
	}
	return all
}

func octetsOf(t testing.TB, name string) []byte {
	t.Helper()
	return wiretest.Must(os.ReadFile(name))(t)
}

// With filter = "pairs", a learner of real captures learns nearly all pairs, no wrong ones, and receives fewer
// packets.
func TestPairsFilter(t *testing.T) {
	raw, err := (&filter.Capture{Selection: filter.Pairs}).Program(rocev2.LinkEthernet)
	require.NoError(t, err)
	program, ok := bpf.Disassemble(raw)
	require.True(t, ok)
	vm, err := bpf.NewVM(program)
	require.NoError(t, err)
	for _, name := range []string{
		"real/nvme4.eth0.pcap.gz", "real/r6-loss2.eth0.pcap.gz", "real/write4-loss1.eth0.pcap.gz",
		"real/write4-red-ect.eth0.pcap.gz", "real/send4-reorder.eth0.pcap.gz", "real/w4-reddrop-q4.eth1.pcap.gz",
	} {
		all, some := qpmap.New(qpmap.Config{}), qpmap.New(qpmap.Config{})
		var packets, seen, known, knownToo int
		for _, c := range wiretest.Capture(t, name) {
			var f rocev2.Frame
			var p rocev2.Packet
			f.Decode(c.Data, rocev2.DecodeOptions{Cut: true})
			if f.Outer().Packet(&p) != nil {
				continue
			}
			now := c.Time
			packets++
			all.Observe(&p, 0, now)
			if verdict, err := vm.Run(c.Data); err == nil && verdict != 0 {
				seen++
				some.Observe(&p, 0, now)
			}
			k := qpmap.Key{FlowKey: rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}}
			one, err := all.SourceQP(k, now)
			if err == nil {
				known++
			}
			other, wrong := some.SourceQP(k, now)
			if wrong == nil {
				knownToo++
			}
			if err == nil && wrong == nil {
				require.Equal(t, one.SrcQP, other.SrcQP, "%s %v", name, k)
			}
		}
		t.Logf("%s: sees %d of %d packets, knows %d of %d", name, seen, packets, knownToo, known)
		require.Positive(t, known, name)
		require.Greater(t, knownToo*100, known*96, name)
		require.Less(t, seen*10, packets*7, name)
	}
}
