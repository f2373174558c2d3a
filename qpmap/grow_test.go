package qpmap_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// twins are two Maps; one of them allocates memory as needed. They return the same for any packets.
type twins struct{ fixed, growing *qpmap.Map }

func newTwins(c qpmap.Config) twins {
	c.Seed = rand.Uint64()
	fixed := qpmap.New(c)
	c.Grow = true
	growing := qpmap.New(c)
	return twins{fixed, growing}
}

func (w twins) observe(t testing.TB, p *rocev2.Packet, now time.Time) {
	w.fixed.Observe(p, 0, now)
	w.growing.Observe(p, 0, now)
	want, wantErr := w.fixed.SourceQP(qpmap.Key{FlowKey: flowOf(p)}, now)
	got, err := w.growing.SourceQP(qpmap.Key{FlowKey: flowOf(p)}, now)
	if want != got || wantErr != err || w.fixed.Stats() != w.growing.Stats() {
		t.Fatalf("%v %v: %v, %v, but growing %v, %v", flowOf(p), p.BTH.Header, want, wantErr, got, err)
	}
}

func TestGrow(t *testing.T) {
	for seed := range uint64(wiretest.Rounds(40)) {
		r := rand.New(rand.NewPCG(seed, 13))
		w := newTwins(qpmap.Config{MaxPairs: 512, MaxPending: 256, MaxOpen: 1024, Ports: seed%2 == 0})
		for _, s := range impair(r, generate(r, 60, true, true)) {
			w.observe(t, &s.packet, start.Add(s.at))
		}
		m := map[qpmap.Key]qpmap.Pair{}
		for k, p := range w.fixed.All() {
			m[k] = p
		}
		for k, p := range w.growing.All() {
			require.Equal(t, m[k], p)
			delete(m, k)
		}
		require.Empty(t, m)
	}
}

// The same with tables that are soon full, of any packets.
func FuzzGrow(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		w := newTwins(qpmap.Config{MaxPairs: 40, MaxPending: 12, MaxOpen: 24, Idle: time.Minute, Ports: true})
		play(script, func(p *rocev2.Packet, now time.Time) { w.observe(t, p, now) })
	})
}
