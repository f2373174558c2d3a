package run

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
)

// A countedSink counts the calls of Close.
type countedSink struct {
	discardSink
	closed int
}

func (s *countedSink) Close() error { s.closed++; return nil }

// A madeSink makes countedSinks for an interface.
type madeSink struct {
	captureSink
	device string
	made   *[]*countedSink
}

func (s *madeSink) deviceName() string { return s.device }

func (s *madeSink) open(*time.Time) (netio.Sink, error) {
	*s.made = append(*s.made, new(countedSink))
	return (*s.made)[len(*s.made)-1], nil
}

func quietServer(sinks map[string]*sinkEntry) *server {
	return &server{log: slog.New(slog.NewTextHandler(io.Discard, nil)), file: &file{sinks: sinks},
		limits: map[string]*sharedLimit{}}
}

func entryOf(name string, perSecond uint32) *sinkEntry {
	e := &sinkEntry{name: name, sink: new(captureSink)}
	e.PerSecond = perSecond
	return e
}

// After a reload a role has the sink that it names now. A sink that it no longer names is closed, an unchanged one
// stays open.
func TestReloadOfSinks(t *testing.T) {
	for _, row := range []struct {
		name         string
		sinks        map[string]*sinkEntry
		named        string
		stays, isOut bool
	}{
		{"unchanged", map[string]*sinkEntry{"a": entryOf("a", 7)}, "a", true, true},
		{"another sink", map[string]*sinkEntry{"a": entryOf("a", 7), "b": entryOf("b", 0)}, "b", false, true},
		{"changed", map[string]*sinkEntry{"a": entryOf("a", 8)}, "a", false, true},
		{"no sink", map[string]*sinkEntry{"a": entryOf("a", 7)}, "", false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			open := new(countedSink)
			a := &actor{instance: new(roles.Instance), out: &outlet{entry: entryOf("a", 7), sink: open}}
			a.instance.Agent.Sink = row.named
			quietServer(row.sinks).assignOutlet(a, nil)
			require.Equal(t, row.isOut, a.out != nil)
			if row.isOut {
				require.Equal(t, row.named, a.out.entry.name)
				require.Equal(t, row.stays, a.out.sink != nil)
			}
			require.Equal(t, map[bool]int{true: 0, false: 1}[row.stays], open.closed)
		})
	}
}

// Roles with one sink share its limit, and a reload does not fill it.
func TestLimitAcrossReloads(t *testing.T) {
	s := quietServer(map[string]*sinkEntry{"a": entryOf("a", 100), "b": entryOf("b", 100)})
	of := func(sink string) *actor {
		a := &actor{instance: new(roles.Instance)}
		a.instance.Agent.Sink = sink
		return a
	}
	one, two, other := of("a"), of("a"), of("b")
	all := []*actor{one, two, other}
	now := time.Unix(1e9, 0)
	for range 2 {
		old := s.limits
		s.limits = map[string]*sharedLimit{}
		for _, a := range all {
			s.assignOutlet(a, old)
		}
		if one.out.limit.takeToken(now) {
			require.Empty(t, old, "the first time only")
		}
		require.False(t, two.out.limit.takeToken(now), "of the same sink")
	}
	require.True(t, other.out.limit.takeToken(now))
	require.True(t, two.out.limit.takeToken(now.Add(10*time.Millisecond)))
	require.False(t, one.out.limit.takeToken(now.Add(10*time.Millisecond)))
	require.True(t, (*sharedLimit)(nil).takeToken(now), "no limit")
}

// Packets that a limit withholds do not count against it.
func TestWithheldPackets(t *testing.T) {
	l, now := newSharedLimit(100), time.Unix(1e9, 0)
	require.True(t, l.takeToken(now))
	for range 9 {
		now = now.Add(time.Millisecond)
		require.False(t, l.takeToken(now))
	}
	require.True(t, l.takeToken(now.Add(time.Millisecond)))
}

// A sink is opened again if its interface was replaced by another one of the same name.
func TestReplacedInterface(t *testing.T) {
	var made []*countedSink
	o := &outlet{entry: &sinkEntry{name: "net", sink: &madeSink{device: "lo", made: &made}}}
	index, err := lookUpInterface("lo")
	require.NoError(t, err)
	log, now := slog.New(slog.NewTextHandler(io.Discard, nil)), time.Unix(1e9, 0)
	o.maintain(now, log)
	require.Len(t, made, 1)
	o.maintain(now.Add(time.Minute), log)
	require.Len(t, made, 1, "nothing has changed")
	o.interfaceIndex = index + 1000
	o.maintain(now.Add(2*time.Minute), log)
	require.Equal(t, 1, made[0].closed)
	require.Len(t, made, 2)
	require.Equal(t, index, o.interfaceIndex)
	require.True(t, o.up.Load())
}

// The sink of a role is closed with the role.
func TestRemovedRole(t *testing.T) {
	config := func(names ...string) *file {
		text := fmt.Sprintf("[source.traffic]\ntype = \"capture\"\nfile = %q\n[sink.out]\ntype = \"raw\"\n",
			wiretest.Path(t, "messages.pcap"))
		for _, name := range names {
			text += "[role." + name + "]\nenabled = true\nsources = [\"traffic\"]\nsink = \"out\"\n" + everyRole[name]
		}
		return wiretest.Must(parseFile([]byte(text)))(t)
	}
	s := quietServer(nil)
	s.file = nil
	require.NoError(t, s.applyFile(config("switch", "proxy"), nil))
	open := map[string]*countedSink{}
	for _, a := range s.actors {
		open[a.instance.Name] = new(countedSink)
		a.out.sink = open[a.instance.Name]
	}
	require.Len(t, open, 2)
	require.NoError(t, s.applyFile(config("proxy"), nil))
	require.Equal(t, 1, open["switch"].closed)
	require.Zero(t, open["proxy"].closed)
	s.close()
	require.Equal(t, []int{1, 1}, []int{open["switch"].closed, open["proxy"].closed})
}

// A file of which one source cannot be opened leaves no other source open.
func TestRejectedFileLeavesNothingOpen(t *testing.T) {
	there := wiretest.Path(t, "messages.pcap")
	f := wiretest.Must(parseFile([]byte(fmt.Sprintf("[source.a]\ntype = \"capture\"\nfile = %q\n"+
		"[source.b]\ntype = \"capture\"\nfile = %q\n[role.pause]\nenabled = true\nsources = [\"a\", \"b\"]\n%s",
		there, t.TempDir()+"/none", everyRole["pause"]))))(t)
	_, err := quietServer(nil).openNewResources(f)
	require.ErrorContains(t, err, "source.b: ")
	require.NotContains(t, openFiles(), there)
}

// The agent is ready with sources that were opened before a file comes into force, without another try.
func TestReadyWithNewSources(t *testing.T) {
	f := wiretest.Must(parseFile([]byte(strings.Replace(readConfig("check"), "FILE",
		wiretest.Path(t, "messages.pcap"), 1))))(t)
	for _, opens := range []bool{false, true} {
		t.Run(fmt.Sprint(opens), func(t *testing.T) {
			s := quietServer(nil)
			s.file = nil
			var opened *newResources
			want := "source.a: " + wiretest.Path(t, "messages.pcap")
			if opens {
				opened, want = wiretest.Must(s.openNewResources(f))(t), ""
			}
			require.NoError(t, s.applyFile(f, opened))
			defer s.close()
			require.Equal(t, want, s.findMissing())
		})
	}
}

// The agent is ready when its sinks are open.
func TestReadyWithSinks(t *testing.T) {
	s := quietServer(nil)
	open, closed := &outlet{entry: entryOf("a", 0)}, &outlet{entry: entryOf("b", 0)}
	open.up.Store(true)
	s.actors = []*actor{{}, {out: open}, {out: closed}}
	require.Equal(t, "sink.b", s.findMissing())
	closed.up.Store(true)
	require.Empty(t, s.findMissing())
}

// A worker without a completed round within the given time is not alive, unless it has ended.
func TestWorkersAlive(t *testing.T) {
	w := &worker{done: make(chan struct{})}
	s := quietServer(nil)
	s.workers = []*worker{w}
	w.aliveAt.Store(time.Now().Add(-time.Hour).UnixNano())
	require.False(t, s.areWorkersAlive(59*time.Minute))
	require.True(t, s.areWorkersAlive(2*time.Hour))
	close(w.done)
	require.True(t, s.areWorkersAlive(time.Second))
}

// The watchdog is no longer fed in the background after the wait has ended.
func TestWatchdogStops(t *testing.T) {
	s := quietServer(nil)
	s.notify.watchdog = time.Hour
	countFeeding := func() int {
		stacks := make([]byte, 1<<22)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Count(string(stacks), "created by github.com/rocecn/rocecn/cmd/rocecn/internal/run."+
			"(*server).keepWatchdogFed ")
	}
	before := countFeeding()
	stops := []func(){}
	for range 50 {
		stops = append(stops, s.keepWatchdogFed())
	}
	require.Equal(t, before+50, countFeeding())
	for _, stop := range stops {
		stop()
	}
	wiretest.Await(t, "the end of the goroutines", func() bool { return countFeeding() <= before })
}

// A lostSource has lost some packets.
type lostSource struct {
	netio.Source
	lost uint64
}

func (s lostSource) Lost() uint64 { return s.lost }
func (s lostSource) Close() error { return nil }

// The packets that a source has lost still count after it is opened again.
func TestLostBeforeReopening(t *testing.T) {
	p := &part{source: lostSource{lost: 5}}
	p.countLost()
	require.EqualValues(t, 5, p.lost.Load())
	p.close()
	require.EqualValues(t, 5, p.lost.Load())
	p.source = lostSource{lost: 2}
	p.countLost()
	require.EqualValues(t, 7, p.lost.Load())
	p.close()
	p.close()
	require.EqualValues(t, 7, p.lost.Load())
}

// The agent is ready when the kernel program of a shaping role runs on all of its interfaces.
func TestReadyWithShaper(t *testing.T) {
	k := &kernelRole{name: "sender", config: kernelConfig{part: new(kernelShaper),
		ports: []kernelPort{{name: "eth0"}, {name: "eth1"}}}, numbers: []int{2, 3}}
	s := quietServer(nil)
	s.kernels = []*kernelRole{k}
	require.Equal(t, "role.sender: eth0", s.findMissing(), "no program")
	k.program = runningProgram{}
	require.Empty(t, s.findMissing())
	k.numbers[1] = 0
	require.Equal(t, "role.sender: eth1", s.findMissing())
}

type runningProgram struct{ kernelProgram }

// A countedProgram counts the calls of close.
type countedProgram struct {
	runningProgram
	closed int
}

func (p *countedProgram) readCounts() kernelCounts { return kernelCounts{} }
func (p *countedProgram) close()                   { p.closed++ }

// The programs of kernel roles are closed with the agent.
func TestProgramsEndWithAgent(t *testing.T) {
	s, program := quietServer(nil), new(countedProgram)
	s.kernels = []*kernelRole{{program: program, closedCounts: new(kernelCounts)}}
	s.close()
	require.Equal(t, 1, program.closed)
}

// A configText is a configuration that records when it is applied, and that may be rejected.
type configText struct {
	roles.Config
	name    string
	err     error
	applied *[]string
}

func (c *configText) Apply(old node.Role) (node.Role, error) {
	*c.applied = append(*c.applied, c.name)
	if c.err != nil {
		return nil, c.err
	}
	return c.Config.Apply(old)
}

// After a file that one role rejects, the roles that had accepted it have their previous configurations again.
func TestRejectedReload(t *testing.T) {
	var applied []string
	load := func(name string, err error) *file {
		text := fmt.Sprintf("[source.traffic]\ntype = \"capture\"\nfile = %q\n[sink.out]\ntype = \"raw\"\n",
			wiretest.Path(t, "messages.pcap"))
		for _, role := range []string{"receiver", "switch"} {
			text += "[role." + role + "]\nenabled = true\nsources = [\"traffic\"]\nsink = \"out\"\n" + everyRole[role]
		}
		f := wiretest.Must(parseFile([]byte(text)))(t)
		require.Len(t, f.roles, 2)
		for i, in := range f.roles {
			c := &configText{Config: in.Config, name: name + " " + in.Name, applied: &applied}
			if i == 1 {
				c.err = err
			}
			in.Config = c
		}
		return f
	}
	s := quietServer(nil)
	s.file = nil
	first := load("first", nil)
	require.NoError(t, s.applyFile(first, nil))
	applied = nil
	second := load("second", errors.New("rejected"))
	require.ErrorContains(t, s.applyFile(second, nil), "rejected")
	a, b := first.roles[0].Name, first.roles[1].Name
	require.Equal(t, []string{"second " + a, "second " + b, "first " + a}, applied)
	require.Same(t, first, s.file)
	s.close()
}
