package reaction

import (
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/stretchr/testify/require"
)

var (
	far     = netip.MustParseAddr("2001:db8::2")
	farther = netip.MustParseAddr("192.0.2.2")
)

// accepted returns the decision of a sender about a notification that counts.
func accepted(kind message.Kind) *node.Decision {
	return &node.Decision{Action: node.ActionAccepted, Message: kind, Request: node.RequestSlowDown, KnownQP: true}
}

func paused(request node.Request, pause time.Duration) *node.Decision {
	d := accepted(message.KindPPFC)
	d.Request, d.Pause = request, pause
	return d
}

func newTable(t *testing.T, change func(*TableConfig)) *Table {
	t.Helper()
	cfg := TableConfig{Enabled: true, DCQCN: PaperDCQCN(100e9)}
	if change != nil {
		change(&cfg)
	}
	return wiretest.Must(NewTable(cfg))(t)
}

// taken takes changes that are of no interest.
func drainChanges(changes iter.Seq[Order]) {
	for range changes {
	}
}

// Three flows of one table, two of them to one destination, have the rates of separate reaction points, for any
// sequence of events.
func TestTableIsItsFlows(t *testing.T) {
	for _, row := range []struct {
		name string
		cfg  DCQCNConfig
	}{{"paper", PaperDCQCN(400e9)}, {"ConnectX", ConnectX(400e9)}} {
		t.Run(row.name, func(t *testing.T) {
			table := newTable(t, func(c *TableConfig) { c.DCQCN = row.cfg })
			d := wiretest.Must(NewDCQCN(row.cfg))(t)
			ids := []FlowID{{far, 0x22}, {far, 0x23}, {farther, 0x22}}
			single := map[FlowID]*DCQCNFlow{}
			r := rand.New(rand.NewPCG(26, 2))
			at := time.Duration(0)
			for range wiretest.Rounds(5000) {
				at += time.Duration(r.IntN(100_000))
				id := ids[r.IntN(len(ids))]
				switch f := single[id]; r.IntN(4) {
				case 0:
					if f == nil {
						begun := d.Start()
						f = &begun
						single[id] = f
					}
					require.True(t, table.React(accepted(message.KindCNP), id, start.Add(at)))
					f.Notified(start.Add(at))
				case 1:
					octets := uint64(r.IntN(1 << 20))
					table.Sent(id, octets, start.Add(at))
					if f != nil {
						f.Sent(octets, start.Add(at))
					}
				default:
					table.Advance(start.Add(at))
				}
				for id, f := range single {
					f.Advance(start.Add(at))
					require.Equal(t, Order{Flow: id, Rate: f.Rate()}, table.Now(id, start.Add(at)))
				}
			}
			require.Len(t, single, 3)
			s := table.Stats()
			require.Equal(t, 3, s.Flows)
			require.NotZero(t, s.Cuts)
		})
	}
}

// Changes returns an order only if it differs from the previous one. The first cut of the paper halves the rate, and
// 55 µs later three quarters of it are restored.
func TestTableReportsChanges(t *testing.T) {
	table := newTable(t, nil)
	id, at := FlowID{far, 0x22}, start
	changes := func() []Order { return slices.Collect(table.Changes(at)) }
	require.Empty(t, changes())
	_, ok := table.Next(at)
	require.False(t, ok)

	require.True(t, table.React(accepted(message.KindFastCNP), id, at))
	require.Equal(t, []Order{{Flow: id, Rate: 50e9}}, changes())
	require.Empty(t, changes())
	next, ok := table.Next(at)
	require.True(t, ok)
	require.Equal(t, start.Add(55*µs), next)
	at = next
	table.Advance(at)
	require.Equal(t, []Order{{Flow: id, Rate: 75e9}}, changes())
	require.Equal(t, TableStats{Flows: 1, Slowed: 1, Least: 75e9, Cuts: 1}, table.Stats())

	// It is back at the line, and then idle.
	at = at.Add(time.Second)
	table.Advance(at)
	require.Equal(t, []Order{{Flow: id, Rate: 100e9}}, changes())
	require.Equal(t, TableStats{Flows: 1, Least: 100e9, Cuts: 1}, table.Stats())
	table.Sent(id, 1, at)
	at = at.Add(defaultIdle - 1)
	table.Advance(at)
	require.Empty(t, changes())
	at = at.Add(1)
	table.Advance(at)
	require.Equal(t, []Order{{Flow: id, Rate: 100e9, Gone: true}}, changes())
	require.Empty(t, changes())
	require.Zero(t, table.Stats().Flows)
}

// A decision that asks nothing of a queue pair of the host makes no flow.
func TestTableReactsToNewsOnly(t *testing.T) {
	table := newTable(t, nil)
	id := FlowID{far, 0x22}
	for _, change := range []func(*node.Decision){
		func(d *node.Decision) { d.Action, d.Request = node.ActionRefused, node.NoRequest },
		func(d *node.Decision) { d.KnownQP = false },
		func(d *node.Decision) { d.Repeated, d.Request = true, node.NoRequest },
		func(d *node.Decision) { d.Message, d.Request = message.KindFCN, node.NoRequest },
		func(d *node.Decision) { d.Message, d.Request = message.KindPPFC, node.RequestAlarm },
	} {
		d := accepted(message.KindCNP)
		change(d)
		require.False(t, table.React(d, id, start))
	}
	require.False(t, table.React(accepted(message.KindCNP), FlowID{}, start), "no destination")
	require.True(t, table.React(paused(node.RequestResume, 0), id, start), "it runs already")
	require.Zero(t, table.Stats().Flows)

	off := wiretest.Must(NewTable(TableConfig{}))(t)
	require.False(t, off.React(accepted(message.KindCNP), id, start))
	off.Sent(id, 1, start)
	off.Advance(start)
	require.Empty(t, slices.Collect(off.Changes(start)))
}

// A stop ends at its time or with a resume. A hold continues after the stop at the rate of the time of its request.
// Nothing lasts longer than MaxPause.
func TestTablePauses(t *testing.T) {
	table := newTable(t, func(c *TableConfig) { c.MaxPause = 5 * time.Millisecond })
	id := FlowID{far, 0x22}
	at := func(µ time.Duration) time.Time { return start.Add(µ * µs) }
	table.React(accepted(message.KindCNP), id, at(0))
	table.React(paused(node.RequestHold, time.Second), id, at(1)) // 5 ms
	table.React(paused(node.RequestStop, time.Millisecond), id, at(2))
	require.Equal(t, Order{id, 50e9, time.Millisecond, false}, table.Now(id, at(2)))
	require.Equal(t, TableStats{Flows: 1, Slowed: 1, Least: 0, Cuts: 1, Stops: 1}, table.Stats())
	require.Equal(t, 502*µs, table.Now(id, at(500)).Stop)

	// The reaction point is faster by now, but held.
	require.Equal(t, Order{Flow: id, Rate: 50e9}, table.Now(id, at(1002)))
	require.Equal(t, Order{Flow: id, Rate: 50e9}, table.Now(id, at(5000)))
	require.Greater(t, table.Now(id, at(5001)).Rate, uint64(95e9))

	table.React(paused(node.RequestStop, time.Millisecond), id, at(6000))
	require.NotZero(t, table.Now(id, at(6001)).Stop)
	table.React(paused(node.RequestResume, 0), id, at(6002))
	require.Zero(t, table.Now(id, at(6003)).Stop)
	require.Equal(t, Order{Flow: id, Rate: table.Now(id, at(6003)).Rate}, slices.Collect(table.Changes(at(6003)))[0])
}

// A full table evicts the flow with the oldest notification, and Changes returns that flow first.
func TestTableEvicts(t *testing.T) {
	table := newTable(t, func(c *TableConfig) { c.MaxFlows = 2 })
	id := func(n uint32) FlowID { return FlowID{far, n} }
	for i, n := range []uint32{1, 2, 1, 3} {
		table.React(accepted(message.KindCNP), id(n), start.Add(time.Duration(i)))
		drainChanges(table.Changes(start))
	}
	require.True(t, table.Now(id(2), start).Gone)
	table.React(accepted(message.KindCNP), id(2), start.Add(5)) // in place of 1
	require.Equal(t, []Order{{id(1), 100e9, 0, true}, {id(2), 50e9, 0, false}},
		slices.Collect(table.Changes(start.Add(5))))
	require.Equal(t, uint64(2), table.Stats().Evicted)
	require.Len(t, slices.Collect(table.All()), 2)
}

// A trace with the depth of a queue goes to HPCC: u = 1 + 125,000 octets / (100 Gbit/s · 10 µs) = 2, and the rate is
// 100 Gbit/s · 0.95/2 + R_AI. A Fast CNP without a trace goes to DCQCN, and the slower of the two rates counts.
func TestTableHPCC(t *testing.T) {
	table := newTable(t, func(c *TableConfig) { c.HPCC = PaperHPCC(100e9, 10*µs) })
	id := FlowID{far, 0x22}
	trace := ioam.Trace{
		OptType: ioam.OptTypePreallocated, Type: ioam.BitNode | ioam.BitQueueDepth,
		Data: wiretest.Hex(t, "40000007 0001e848"), // hop limit 64, node 7; 125,000 octets wait
	}
	d := accepted(message.KindFastCNP)
	d.Trace = &trace
	require.True(t, table.React(d, id, start))
	require.EqualValues(t, uint64(47_540_000_000), table.Now(id, start).Rate)
	require.True(t, table.React(accepted(message.KindFastCNP), id, start))
	require.EqualValues(t, uint64(47_540_000_000), table.Now(id, start).Rate, "DCQCN: 50 Gbit/s")

	// A queue after the first MaxHops hops is ignored.
	table.forgetAll()
	trace.Data = append(make([]byte, 8*MaxHops), trace.Data...)
	require.True(t, table.React(d, id, start))
	require.EqualValues(t, uint64(50_000_000_000), table.Now(id, start).Rate)
}

// The same rules again keep rates; other ones let flows go.
func TestTableConfigure(t *testing.T) {
	cfg := TableConfig{Enabled: true, DCQCN: PaperDCQCN(100e9)}
	table := wiretest.Must(NewTable(cfg))(t)
	id := FlowID{far, 0x22}
	table.React(accepted(message.KindCNP), id, start)
	drainChanges(table.Changes(start))
	cfg.Idle, cfg.MaxPause = time.Second, time.Millisecond
	require.NoError(t, table.Configure(cfg))
	require.Equal(t, Order{Flow: id, Rate: 50e9}, table.Now(id, start))
	require.Empty(t, slices.Collect(table.Changes(start)))

	for _, change := range []func(*TableConfig){
		func(c *TableConfig) { c.DCQCN.Line = 0 },
		func(c *TableConfig) { c.DCQCN.Gain = 2 },
		func(c *TableConfig) { c.HPCC = PaperHPCC(1e9, time.Millisecond) },
		func(c *TableConfig) { c.HPCC = HPCCConfig{Enabled: true, Line: 100e9} },
		func(c *TableConfig) { c.Bandwidth = maxLine + 1 },
		func(c *TableConfig) { c.MaxFlows = -1 },
		func(c *TableConfig) { c.MaxFlows = 1<<20 + 1 },
		func(c *TableConfig) { c.Idle = -1 },
		func(c *TableConfig) { c.MaxPause = ppfc.MaxPause + 1 },
	} {
		wrong := cfg
		change(&wrong)
		var of *ConfigError
		require.ErrorAs(t, table.Configure(wrong), &of)
	}
	require.Equal(t, Order{Flow: id, Rate: 50e9}, table.Now(id, start), "an invalid configuration changes nothing")

	cfg.DCQCN = ConnectX(100e9)
	require.NoError(t, table.Configure(cfg))
	require.Equal(t, []Order{{id, 100e9, 0, true}}, slices.Collect(table.Changes(start)))
	table.React(accepted(message.KindCNP), id, start)
	drainChanges(table.Changes(start))
	require.NoError(t, table.Configure(TableConfig{}))
	require.Len(t, slices.Collect(table.Changes(start)), 1)
}

// The smallest and the largest value of each key are valid; one more or less is not, and the error names the key.
func TestTableLimits(t *testing.T) {
	hpcc := func(line uint64) HPCCConfig { return PaperHPCC(line, time.Millisecond) }
	for _, row := range []struct {
		name   string
		change func(*TableConfig)
		key    string // the wrong key, or ""
	}{
		{"line of 1", func(c *TableConfig) { c.DCQCN = PaperDCQCN(1) }, ""},
		{"line of 0", func(c *TableConfig) { c.DCQCN.Line = 0 }, "DCQCN.Line"},
		{"largest line", func(c *TableConfig) { c.DCQCN.Line = 1 << 50 }, ""},
		{"larger line", func(c *TableConfig) { c.DCQCN.Line = 1<<50 + 1 }, "DCQCN.Line"},
		{"same line", func(c *TableConfig) { c.HPCC = hpcc(100e9) }, ""},
		{"another line", func(c *TableConfig) { c.HPCC = hpcc(100e9 + 1) }, "HPCC.Line"},
		{"largest bandwidth", func(c *TableConfig) { c.Bandwidth = 1 << 50 }, ""},
		{"larger bandwidth", func(c *TableConfig) { c.Bandwidth = 1<<50 + 1 }, "Bandwidth"},
		{"most flows", func(c *TableConfig) { c.MaxFlows = 1 << 20 }, ""},
		{"more flows", func(c *TableConfig) { c.MaxFlows = 1<<20 + 1 }, "MaxFlows"},
		{"one flow", func(c *TableConfig) { c.MaxFlows = 1 }, ""},
		{"default of flows", func(c *TableConfig) { c.MaxFlows = 0 }, ""},
		{"fewer flows", func(c *TableConfig) { c.MaxFlows = -1 }, "MaxFlows"},
		{"idle for a moment", func(c *TableConfig) { c.Idle = 1 }, ""},
		{"idle for less", func(c *TableConfig) { c.Idle = -1 }, "Idle"},
		{"longest pause", func(c *TableConfig) { c.MaxPause = 65535 * time.Microsecond }, ""},
		{"longer pause", func(c *TableConfig) { c.MaxPause = 65535*time.Microsecond + 1 }, "MaxPause"},
		{"negative pause", func(c *TableConfig) { c.MaxPause = -1 }, "MaxPause"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := TableConfig{Enabled: true, DCQCN: PaperDCQCN(100e9)}
			row.change(&cfg)
			_, err := NewTable(cfg)
			if row.key == "" {
				require.NoError(t, err)
				return
			}
			var of *ConfigError
			require.ErrorAs(t, err, &of)
			require.Equal(t, row.key, of.Key)
		})
	}
}

// A shorter idle time holds from the next call on, also for flows that were notified before.
func TestTableShorterIdle(t *testing.T) {
	cfg := TableConfig{Enabled: true, DCQCN: PaperDCQCN(100e9), Idle: time.Hour}
	table := wiretest.Must(NewTable(cfg))(t)
	id := FlowID{far, 0x22}
	table.React(accepted(message.KindCNP), id, start)
	drainChanges(table.Changes(start))
	table.Advance(start.Add(time.Second)) // computes when to look again
	cfg.Idle = 2 * time.Second
	require.NoError(t, table.Configure(cfg))
	table.Advance(start.Add(2*time.Second - 1))
	require.Len(t, slices.Collect(table.All()), 1)
	table.Advance(start.Add(2*time.Second + 1))
	require.Empty(t, slices.Collect(table.All()))
}

// Without a configured value, 1,024 flows are kept, for 10 s.
func TestTableDefaults(t *testing.T) {
	table := newTable(t, nil)
	for n := range uint32(1025) {
		require.EqualValues(t, 0, table.Stats().Evicted)
		table.React(accepted(message.KindCNP), FlowID{far, n + 2}, start)
	}
	require.EqualValues(t, 1, table.Stats().Evicted)
	drainChanges(table.Changes(start))
	table.Advance(start.Add(10*time.Second - 1))
	require.Len(t, slices.Collect(table.All()), 1024)
	table.Advance(start.Add(10*time.Second + 1))
	require.Empty(t, slices.Collect(table.All()))
}

// Nothing is allocated for news of flows that are kept.
func TestTableAllocs(t *testing.T) {
	table := newTable(t, nil)
	id, d, at := FlowID{far, 0x22}, accepted(message.KindCNP), start
	table.React(d, id, at)
	wiretest.NoAllocs(t, "React, Sent, Advance and Next", func() {
		at = at.Add(20 * µs)
		table.React(d, id, at)
		table.Sent(id, 1<<24, at)
		table.Advance(at)
		table.Next(at)
	})
}

// A step back of the clock is waited out, or goes on from where it was: no flow is frozen.
func TestTableClock(t *testing.T) {
	table := newTable(t, nil)
	id := FlowID{far, 0x22}
	table.React(accepted(message.KindCNP), id, start)
	back := start.Add(-time.Hour)
	require.EqualValues(t, 50e9, table.Now(id, back).Rate)
	require.EqualValues(t, 75e9, table.Now(id, back.Add(55*µs)).Rate)
}
