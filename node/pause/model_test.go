package pause

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
)

// A model is a simple and slow Table: a list of the ends of all states, sorted by time.
type model struct {
	max       int
	ends      []end
	forgotten uint64
}

type end struct {
	at     time.Time
	target Target
	state  State
}

// drop removes the ends that a condition holds for.
func (m *model) drop(if_ func(end) bool) { m.ends = slices.DeleteFunc(m.ends, if_) }

func (m *model) targets() map[Target]bool {
	all := map[Target]bool{}
	for _, e := range m.ends {
		all[e.target] = true
	}
	return all
}

// expireStates drops the states that end by now.
func (m *model) expireStates(now time.Time) { m.drop(func(e end) bool { return !e.at.After(now) }) }

func (m *model) do(target Target, typ ppfc.Type, pause time.Duration, now time.Time) {
	m.expireStates(now)
	state := StateAfter(role.RequestOf(typ))
	if state == StateRunning {
		m.drop(func(e end) bool { return e.target == target })
		return
	}
	m.drop(func(e end) bool { return e.target == target && e.state == state })
	if pause == 0 {
		return
	}
	if all := m.targets(); !all[target] && len(all) == m.max {
		first := m.ends[0].target
		m.drop(func(e end) bool { return e.target == first })
		m.forgotten++
	}
	m.ends = append(m.ends, end{now.Add(pause), target, state})
	slices.SortStableFunc(m.ends, func(a, b end) int { return a.at.Compare(b.at) })
}

func (m *model) state(target Target, now time.Time) (State, time.Time) {
	m.expireStates(now)
	best := end{state: StateRunning}
	for _, e := range m.ends {
		if e.target == target && (best.state == StateRunning || e.state < best.state) {
			best = e
		}
	}
	return best.state, best.at
}

func (m *model) next(now time.Time) (time.Time, bool) {
	m.expireStates(now)
	if len(m.ends) == 0 {
		return time.Time{}, false
	}
	return m.ends[0].at, true
}

// targetsOf returns n targets of every kind.
func targetsOf(n int) (all []Target) {
	for i := range n {
		a6 := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: byte(i % 3)})
		a4 := netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 3)})
		mapped := netip.AddrFrom16(a4.As16())
		all = append(all, FlowTarget(a6, uint32(i)), FlowTarget(a4, uint32(i)), PortTarget(a6, uint16(i)),
			PortTarget(a4, uint16(i)),
			FlowTarget(mapped, uint32(i)))
	}
	return all
}

// made returns a table that is on.
func made(t *testing.T, cfg Config) *Role {
	cfg.Enabled, cfg.Self6 = true, netip.MustParseAddr("2001:db8::1")
	return wiretest.Must(New(cfg))(t)
}

func forgotten(t *Role) uint64 { return t.Counters().Load(node.Count{Effect: node.EffectForgotten}) }

// The seed of a table is random.
func TestSeeds(t *testing.T) {
	require.NotEqual(t, newTargets(1).entries.Seed, newTargets(1).entries.Seed)
}

// TestModel does the same to a Table and to a model, at random.
func TestModel(t *testing.T) {
	for seed, c := range []struct {
		room, targets int
		limit         time.Duration
	}{{1 << 16, 2, 0}, {1 << 16, 20, 0}, {7, 4, 0}, {1, 3, 0}, {30, 100, 20 * time.Millisecond},
		{64, 12, time.Microsecond}} {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		table := made(t, Config{MaxPause: c.limit, MaxTargets: c.room})
		m := model{max: c.room}
		limit := c.limit
		if limit == 0 {
			limit = ppfc.MaxPause
		}
		all := targetsOf(c.targets)
		now := time.Unix(1_700_000_000, 0).UTC()
		for step := range wiretest.Rounds(30_000) {
			// Pauses are whole microseconds, times differ in their nanoseconds: hardly
			// two ends meet.
			now = now.Add(time.Duration(random.IntN(3) * random.IntN(int(limit)) / 4)).Truncate(time.Microsecond)
			now = now.Add(time.Duration(1000 + step%1000))
			target := all[random.IntN(len(all))]
			switch random.IntN(4) {
			case 0, 1:
				typ := ppfc.Type(random.IntN(4))
				pause := time.Duration(random.IntN(3)*random.IntN(32767)) * time.Microsecond
				n := ppfc.Notification{Extension: ppfc.Extension{Congested: target.Addr, Type: typ, Port: target.Port,
					Pause: pause}}
				n.DestQP = target.DestQP
				table.target = target
				var a node.Decision
				table.applyRequest(&a, &n, now)
				m.do(target, typ, min(pause, limit), now)
				require.LessOrEqual(t, a.Pause, limit)
				if state, until := table.State(target, now); state == StateAfter(a.Request) && a.Pause > 0 {
					require.Equal(t, now.Add(a.Pause), until)
				}
			case 2:
				state, until := table.State(target, now)
				wantState, wantUntil := m.state(target, now)
				require.Equal(t, wantState, state, step)
				require.Equal(t, wantUntil, until, step)
			case 3:
				next, ok := table.Next(now)
				want, wantOK := m.next(now)
				require.Equal(t, wantOK, ok, step)
				require.Equal(t, want, next, step)
				require.Equal(t, len(m.targets()), table.Len(), step)
			}
			require.LessOrEqual(t, table.Len(), c.room)
			check(t, &table.targets)
		}
		require.Equal(t, m.forgotten, forgotten(table))
	}
}

// check looks at heap and chains.
func check(t *testing.T, s *targets) {
	t.Helper()
	require.Equal(t, s.entries.Len(), max(len(s.heap)-1, 0))
	for at := 1; at < len(s.heap); at++ {
		e := s.entries.Value(s.heap[at])
		if int(e.at) != at || at > 1 && s.endOf(uint32(at/2)) > e.firstEnd() {
			t.Fatalf("heap is wrong at %d", at)
		}
		if _, id := s.find(s.entries.Key(s.heap[at])); id != s.heap[at] {
			t.Fatalf("entry %d is not found", s.heap[at])
		}
	}
}

// A time that jumps back, far, makes nothing last longer: time goes on from
// where it was.
func TestTimeJumpsBack(t *testing.T) {
	table := made(t, Config{})
	target := FlowTarget(netip.MustParseAddr("2001:db8::1"), 17)
	stop := ppfc.Notification{Extension: ppfc.Extension{Type: ppfc.Stop, Pause: 50 * time.Millisecond}}
	now := time.Unix(1_700_000_000, 0)
	table.target = target
	table.applyRequest(new(node.Decision), &stop, now)

	now = now.Add(-24 * time.Hour)
	state, until := table.State(target, now)
	require.Equal(t, StateStopped, state)
	require.Equal(t, now.Add(50*time.Millisecond), until)
	state, _ = table.State(target, now.Add(49*time.Millisecond))
	require.Equal(t, StateStopped, state)
	state, _ = table.State(target, now.Add(50*time.Millisecond))
	require.Equal(t, StateRunning, state)

	// A small step back is waited out.
	table = made(t, Config{})
	table.target = target
	table.applyRequest(new(node.Decision), &stop, now)
	state, _ = table.State(target, now.Add(-time.Millisecond))
	require.Equal(t, StateStopped, state)
	state, _ = table.State(target, now.Add(50*time.Millisecond))
	require.Equal(t, StateRunning, state)
}

// A flood of notifications about ever new targets finds fixed memory, and all
// of it is free again when the pauses are over.
func TestFlood(t *testing.T) {
	const room = 1000
	table := made(t, Config{MaxTargets: room})
	heap := cap(table.targets.heap)
	now := time.Unix(1_700_000_000, 0)
	n := ppfc.Notification{Extension: ppfc.Extension{Type: ppfc.Stop, Pause: ppfc.MaxPause}}
	i := uint32(0)
	flood := func() {
		table.target = FlowTarget(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), i)
		i++
		table.applyRequest(new(node.Decision), &n, now)
		table.State(table.target, now)
		table.Next(now)
	}
	for range wiretest.Rounds(100_000) {
		flood()
	}
	wiretest.NoAllocs(t, "flood", flood)
	require.Equal(t, room, table.Len())
	require.Equal(t, heap, cap(table.targets.heap))
	require.EqualValues(t, uint64(i)-room, forgotten(table))
	_, ok := table.Next(now.Add(ppfc.MaxPause))
	require.False(t, ok)
	require.Zero(t, table.Len())
}

func ExampleState_String() {
	fmt.Println(StateRunning, StateStopped, StateHeld, StateAlarmed, State(9))
	// Output: running stopped held alarmed State(9)
}

// Targets that differ have keys that differ: a flow and a port of the same number,
// an IPv4 address and the IPv6 address that maps it.
func TestKeys(t *testing.T) {
	four, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")
	keys := map[key]Target{}
	for _, target := range []Target{
		FlowTarget(four, 7), FlowTarget(four, 8), FlowTarget(mapped, 7),
		FlowTarget(netip.MustParseAddr("192.0.2.2"), 7), FlowTarget(four, 0xFFFFFF),
		PortTarget(four, 7), PortTarget(four, 8), PortTarget(mapped, 7), PortTarget(four, 0xFFFF), FlowTarget(four, 0),
		PortTarget(four, 0),
	} {
		k := keyOf(&target)
		require.NotContains(t, keys, k, "%+v", target)
		keys[k] = target
		again := keyOf(&target)
		require.Equal(t, k, again)
	}
}

// The state that ends first is that of the target at the top, whichever comes,
// goes or changes.
func TestHeap(t *testing.T) {
	table := newTargets(16)
	k := func(n int) *key { return &key{id: uint32(n)} }
	for step := range 2000 {
		n, until := step*step*7%23, int64(1+step*step*31%97)
		switch step % 5 {
		case 0, 1, 2:
			table.setState(k(n), StateStopped+State(step%endingStates), until)
		case 3:
			table.clearState(k(n), StateStopped+State(step%endingStates))
		default:
			table.clearAll(k(n))
		}
		for at := 2; at < len(table.heap); at++ {
			require.LessOrEqual(t, table.endOf(uint32(at/2)), table.endOf(uint32(at)), "step %d", step)
			require.EqualValues(t, at, table.entries.Value(table.heap[at]).at)
		}
		require.Equal(t, table.entries.Len(), len(table.heap)-1)
		first, ok := table.nextEnd()
		require.Equal(t, len(table.heap) > 1, ok)
		if ok {
			require.Equal(t, table.endOf(1), first)
		}
	}
}

// A full table evicts the target with the state that ends first.
func TestMakesRoom(t *testing.T) {
	table := newTargets(3)
	for n, until := range []int64{30, 20, 10, 40, 50} {
		require.Equal(t, n >= 3, table.setState(&key{id: uint32(n)}, StateStopped, until))
	}
	for n, want := range []bool{true, false, false, true, true} {
		e, _ := table.find(&key{id: uint32(n)})
		require.Equal(t, want, e != nil, n)
	}
}
