package incidents

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// said returns the causes and parties that are found on a wire, without symptoms.
func foundCauses(t *testing.T, w *wire, end time.Duration) (out []string) {
	t.Helper()
	w.until(end)
	in := incident{frames: w.frames}
	verdicts := explain(&in)
	requireEvidence(t, &in, verdicts)
	for _, v := range verdicts {
		if !v.Cause.IsSymptom() {
			out = append(out, v.Cause.String()+" "+v.Party)
		}
	}
	return out
}

// each returns true for one in n.
func each(n int) func() bool {
	i := 0
	return func() bool { i++; return i%n == 0 }
}

// Counter-evidence prevents a verdict: each case has the evidence, once alone and once with a contradiction.
func TestCounterEvidence(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(w *wire, against bool)
		want []string
	}{
		{"a CNP about another flow of the two hosts", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.mark, a.cnp = each(20), false
			a.start()
			if against {
				b := w.conn(a.src, a.dst)
				b.mark = each(20)
				b.start()
			}
		}, []string{"no CNP 10.9.0.2"}},
		{"answers were not captured", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.mark, a.cnp, a.oneWay = each(20), false, against
			a.start()
		}, []string{"no CNP 10.9.0.2"}},
		{"other senders to the receiver were spared", func(w *wire, against bool) {
			to := w.host(false)
			for i := range 6 {
				c := w.conn(w.host(false), to)
				c.line = 4e9
				if i < 3 || !against {
					c.mark = each(20)
				}
				c.start()
			}
		}, []string{"incast 10.9.0.1"}},
		{"a source port has both", func(w *wire, against bool) {
			from, to := w.host(false), w.host(false)
			for i := range 4 {
				c := w.conn(from, to)
				c.port, c.line = uint16(50_000+i), 4e9
				if i < 2 {
					c.mark = each(50)
				} else if against {
					c.port = 50_000
				}
				c.start()
			}
		}, []string{"one path "}},
		{"the usual DSCP loses, too", func(w *wire, against bool) {
			to := w.host(false)
			for i := range 4 {
				c := w.conn(w.host(false), to)
				c.message, c.window, c.ackEvery = 4096, 6, 2
				lose := each(100)
				if i == 0 {
					c.dscp = 0
				}
				if i == 0 || i == 1 && against {
					c.lostAfter = func(int, uint32, bool) bool { return lose() }
				}
				c.start()
			}
		}, []string{"other DSCP 10.9.0.2"}},
		{"nothing near it is marked", func(w *wire, against bool) {
			to := w.host(false)
			a, b := w.conn(w.host(false), to), w.conn(w.host(false), to)
			a.ect = false
			if !against {
				b.mark = each(20)
			}
			a.start()
			b.start()
		}, []string{"not ECN-capable 10.9.0.2"}},
		{"it slows down", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.line, a.mark, a.heeds = 2e9, each(5), against
			a.start()
		}, []string{"CNP unheeded 10.9.0.1"}},
		{"pauses that are short and seldom", func(w *wire, against bool) {
			quanta := uint16(65_535)
			if against {
				quanta = 2000 // 10 µs
			}
			for i := range 20 {
				w.after(time.Duration(i)*300*time.Microsecond, func() { w.pause([6]byte{2, 0, 0, 0, 0, 9}, quanta) })
			}
			w.conn(w.host(false), w.host(false)).start()
		}, []string{"pause storm 02:00:00:00:00:09"}},
		{"the receiver gave up waiting, and packets were lost", func(w *wire, against bool) {
			a := w.conn(w.host(false), w.host(false))
			a.line = 1e9
			slow := each(10)
			a.late = func() time.Duration {
				if slow() {
					return 30 * time.Microsecond
				}
				return 0
			}
			a.sorts = !against
			a.window = 4096
			a.start()
		}, []string{"reordering "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(1)
			c.make(w, false)
			require.Equal(t, c.want, foundCauses(t, w, 12*time.Millisecond))
			w = newWire(1)
			c.make(w, true)
			got := foundCauses(t, w, 12*time.Millisecond)
			for _, one := range c.want {
				require.NotContains(t, got, one)
			}
		})
	}
}

// With too little evidence there is no verdict.
func TestNothingToGoBy(t *testing.T) {
	w := newWire(2)
	c := w.conn(w.host(true), w.host(true))
	c.mark, c.cnp = each(5), false
	c.start()
	w.until(span)
	for _, config := range []flows.Config{{}, {Evidence: true, MaxFlows: 2}} {
		table := flows.New(config)
		var d flows.Decoder
		var p flows.Packet
		for i, f := range w.frames {
			d.Decode(&p, f.octets, rocev2.DecodeOptions{})
			table.Observe(&p, uint64(i+1), epoch.Add(f.at))
			if config.MaxFlows > 0 { // scans push flows out
				scan := newWire(uint64(i))
				scan.conn(scan.host(false), scan.host(false)).start()
				scan.until(40 * time.Microsecond)
				d.Decode(&p, scan.frames[0].octets, rocev2.DecodeOptions{})
				table.Observe(&p, uint64(i+1), epoch.Add(f.at))
			}
		}
		require.Empty(t, triage.Explain(table.Snapshot()))
	}
}

// For any frames in any order: no rule panics, and every frame that a verdict names exists.
func FuzzExplain(f *testing.F) {
	var pool [][]byte
	for n := faultless; n < faultless+wiretest.Rounds(40); n++ {
		in := makeIncident(n, false)
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for range 6 {
			pool = append(pool, in.frames[r.IntN(len(in.frames))].octets)
		}
	}
	f.Add([]byte("some frames of many incidents, in whatever order they may come"))
	f.Fuzz(func(t *testing.T, choice []byte) {
		table := flows.New(flows.Config{Evidence: true})
		var d flows.Decoder
		var p flows.Packet
		at := epoch
		for i, c := range choice {
			d.Decode(&p, pool[int(c)%len(pool)], rocev2.DecodeOptions{})
			at = at.Add(time.Duration(int(c)-60) * time.Microsecond)
			table.Observe(&p, uint64(i+1), at)
		}
		for _, v := range triage.Explain(table.Snapshot()) {
			require.NotEmpty(t, v.Frames)
			for _, frame := range v.Frames {
				require.Positive(t, frame.Number)
				require.LessOrEqual(t, frame.Number, uint64(len(choice)))
			}
		}
	})
}
