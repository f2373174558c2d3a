package incidents

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// A truth is the true causes of an incident, each with the parties that caused it, or with none.
type truth map[triage.Cause][]string

// An incident is a capture of something that is known.
type incident struct {
	name   string
	truth  truth
	also   truth          // true causes that need not be found, with their parties
	events map[string]int // events by the name of the symptom that describes them; nil if they were not counted
	frames []frame

	discards []discard
}

// A discard is a packet that a switch discarded and reported.
type discard struct {
	frame
	agent       netip.Addr
	port, queue uint32
}

// A setting chooses topologies, rates and seeds. The rules were written with those of development, and are judged by
// others.
type setting struct {
	*rand.Rand
	judged bool
}

// choose chooses one of the values for development, or one of those that are judged.
func choose[T any](s *setting, development, judged []T) T {
	if s.judged {
		return judged[s.IntN(len(judged))]
	}
	return development[s.IntN(len(development))]
}

// A maker simulates an incident, on a wire, which it runs, or in the laboratory, which returns frames; either adds the
// true causes.
type maker struct {
	cause triage.Cause
	wire  func(s *setting, w *wire, t truth)
	lab   func(s *setting, t truth) []frame
}

const span = 4 * time.Millisecond // of the captures of a wire

var makers = []maker{
	{cause: triage.CausePauseStorm, wire: hostPauses},
	{cause: triage.CausePauseStorm, lab: switchPauses},
	{cause: triage.CauseIncast, lab: manyToOne},
	{cause: triage.CauseOnePath, lab: collision},
	{cause: triage.CauseCNPMissing, wire: unanswered},
	{cause: triage.CauseCongested, wire: answersNotCaptured},
	{cause: triage.CauseCNPUnheeded, lab: unheedingSenders},
	{cause: triage.CauseCNPUnheeded, wire: unheedingSender},
	{cause: triage.CauseNotECNCapable, wire: withoutECN},
	{cause: triage.CauseOtherDSCP, wire: wrongDSCP},
	{cause: triage.CauseTooManyNotices, lab: eagerSwitch},
	{cause: triage.CauseTooManyNotices, lab: eagerTeller},
	{cause: triage.CauseNotReady, wire: noReceives},
	{cause: triage.CauseStorm, lab: drops},
	{cause: triage.CauseStorm, wire: lossy},
	{cause: triage.CauseTimedOut, wire: tails},
	{cause: triage.CauseTimedOut, wire: ackLosses},
	{cause: triage.CauseReordered, wire: sprayed},
	{cause: triage.CauseMTU, wire: longPackets},
	{cause: triage.CausePathDown, wire: silentPath},
	{cause: triage.CauseEndlessPause, wire: hostStops},
}

// blame adds a true cause with its parties.
func (t truth) add(c triage.Cause, parties ...string) { t[c] = append(t[c], parties...) }

// some returns true with a probability.
func sometimes(w *wire, p float64) func() bool { return func() bool { return w.Float64() < p } }

// background adds connections that nothing is wrong with: some are marked, answered and slow down.
func background(s *setting, w *wire) {
	for range s.IntN(choose(s, []int{2, 3, 6}, []int{4})) + 1 {
		c := w.conn(w.host(s.IntN(2) == 0), netip.Addr{})
		c.dst = w.host(c.src.Is6())
		if s.IntN(3) == 0 {
			c.mark = sometimes(w, 0.01)
		}
		c.start()
	}
}

func hostPauses(s *setting, w *wire, t truth) {
	mac := [6]byte{0x02, 0x55, 0, 0, 0, byte(s.IntN(256))}
	every := time.Duration(choose(s, []int{60, 100, 150, 200, 320}, []int{80, 250})) * time.Microsecond
	quanta := uint16(choose(s, []int{20_000, 30_000, 50_000, 65_535}, []int{25_000, 40_000}))
	c := w.conn(w.host(false), w.host(false)).start()
	var storm func()
	storm = func() {
		w.pause(mac, quanta)
		held := time.Duration(float64(quanta) * 512 / 100) // at 100 Gbit/s, in ns
		c.stopped = max(c.stopped, w.now+held)
		w.after(max(every, held/2), storm)
	}
	if s.IntN(2) == 0 { // a neighbour that works: short pauses, now and then, from somewhere else
		var brief func()
		brief = func() {
			w.pause([6]byte{0x02, 0x66, 0, 0, 0, 1}, 200)
			w.after(time.Duration(w.between(300, 900))*time.Microsecond, brief)
		}
		w.after(time.Duration(w.between(0, 900))*time.Microsecond, brief)
	}
	w.after(time.Duration(w.between(100, 800))*time.Microsecond, storm)
	t.add(triage.CausePauseStorm, mac6(mac))
}

// hostStops is a host that pauses its link until the end of the capture.
func hostStops(s *setting, w *wire, t truth) {
	mac := [6]byte{0x02, 0x77, 0, 0, 0, byte(s.IntN(256))}
	every := time.Duration(choose(s, []int{60, 120, 200}, []int{80, 150})) * time.Microsecond
	c := w.conn(w.host(false), w.host(false)).start()
	var stop func()
	stop = func() {
		w.pause(mac, 65_535)
		c.stopped = w.now + time.Second
		w.after(every, stop)
	}
	w.after(time.Duration(w.between(100, 800))*time.Microsecond, stop)
	t.add(triage.CauseEndlessPause, mac6(mac))
}

// longPackets are lost after the capture, shorter ones between the same hosts are not.
func longPackets(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	long := w.conn(w.host(v6), w.host(v6))
	long.payload = choose(s, []int{2048, 4096}, []int{4096})
	long.timeout = time.Duration(choose(s, []int{600, 1000}, []int{700, 1200})) * time.Microsecond
	long.lostAfter = func(int, uint32, bool) bool { return true }
	short := w.conn(long.src, long.dst)
	short.payload = choose(s, []int{512, 1024}, []int{256, 1024})
	long.start()
	short.start()
	t.add(triage.CauseMTU)
}

// silentPath loses all packets between two hosts from a time on, while background goes on.
func silentPath(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	src, dst := w.host(v6), w.host(v6)
	from := time.Duration(w.between(1000, 3000)) * time.Microsecond
	timeout := time.Duration(choose(s, []int{700, 1100}, []int{800, 1300})) * time.Microsecond
	for range choose(s, []int{2, 3, 5}, []int{2, 4}) {
		c := w.conn(src, dst)
		c.timeout = timeout
		c.lostAfter = func(int, uint32, bool) bool { return w.now >= from }
		c.start()
	}
	t.add(triage.CausePathDown)
}

func mac6(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

func unanswered(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	receiver := w.host(v6)
	for range choose(s, []int{1, 2}, []int{1, 3}) { // with marks of their own, which are no incast
		c := w.conn(w.host(v6), receiver)
		c.mark = sometimes(w, choose(s, []float64{0.02, 0.05, 0.1, 0.2, 0.6}, []float64{0.03, 0.15, 0.4}))
		c.cnp = false
		c.start()
	}
	t.add(triage.CauseCNPMissing, receiver.String())
}

func answersNotCaptured(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	c := w.conn(w.host(v6), w.host(v6))
	c.mark = sometimes(w, choose(s, []float64{0.02, 0.05, 0.1, 0.2, 0.4}, []float64{0.03, 0.15, 0.7}))
	c.oneWay, c.cnp = true, s.IntN(2) == 0
	c.start()
	t.add(triage.CauseCongested)
}

func unheedingSender(s *setting, w *wire, t truth) {
	c := w.conn(w.host(false), w.host(false))
	c.mark = sometimes(w, choose(s, []float64{0.2, 0.3, 0.9}, []float64{0.15, 0.5}))
	c.heeds = false
	c.cnpGap = time.Duration(choose(s, []int{20, 40, 50, 60}, []int{30, 45})) * time.Microsecond
	c.line = 1e9 * choose(s, []float64{1.5, 2, 3, 4, 5}, []float64{1.8, 3.5, 6})
	c.start()
	t.add(triage.CauseCNPUnheeded, c.src.String())
}

func withoutECN(s *setting, w *wire, t truth) {
	receiver := w.host(false)
	p := choose(s, []float64{0.02, 0.03, 0.08, 0.1}, []float64{0.05, 0.15})
	for range choose(s, []int{1, 2}, []int{1, 2}) {
		c := w.conn(w.host(false), receiver)
		c.mark = sometimes(w, p)
		c.start()
	}
	c := w.conn(w.host(false), receiver)
	c.ect = false
	if s.IntN(2) == 0 {
		c.window, c.ackEvery = 8, 2
		c.lostBefore = func(int, uint32, bool) bool { return w.Float64() < 0.002 }
	}
	c.start()
	t.add(triage.CauseNotECNCapable, c.src.String())
}

func wrongDSCP(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	receiver := w.host(v6)
	usual := choose(s, []uint8{24, 26, 34}, []uint8{22, 32})
	for range choose(s, []int{2, 3, 4, 7}, []int{3, 5}) {
		c := w.conn(w.host(v6), receiver)
		c.dscp = usual
		c.start()
	}
	c := w.conn(w.host(v6), receiver)
	c.dscp, c.window, c.ackEvery = choose(s, []uint8{0, 8, 46}, []uint8{10, 48}), 6, 2
	loss := choose(s, []float64{0.005, 0.01, 0.015}, []float64{0.008, 0.012})
	each := int(1 / loss)
	lose := func(n int, _ uint32, _ bool) bool { return n%each == each-1 }
	if s.IntN(2) == 0 {
		c.lostBefore = lose
	} else {
		c.lostAfter = lose
	}
	c.timeout = 2 * time.Second // not within the capture
	c.message = 4096
	c.start()
	t.add(triage.CauseOtherDSCP, c.src.String())
}

func noReceives(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	c := w.conn(w.host(v6), w.host(v6))
	each, many := choose(s, []int{3, 5, 7, 9, 12}, []int{4, 11}), choose(s, []int{1, 2, 3}, []int{1, 4})
	c.unready = func(m int) int {
		if m%each == 1 {
			return many
		}
		return 0
	}
	c.rnrWait = time.Duration(choose(s, []int{40, 80, 120, 160, 480}, []int{60, 200, 700})) * time.Microsecond
	c.start()
	t.add(triage.CauseNotReady, c.dst.String())
}

func lossy(s *setting, w *wire, t truth) {
	c := w.conn(w.host(false), w.host(false))
	c.message, c.window = 4096, uint32(choose(s, []int{64, 96, 128, 200}, []int{80, 160}))
	c.far = time.Duration(choose(s, []int{40, 50, 60, 90}, []int{45, 75})) * time.Microsecond
	c.line = 1e9 * choose(s, []float64{7, 8, 9}, []float64{6.5, 10})
	lose := func(int, uint32, bool) bool { return w.Float64() < 0.02 }
	if s.IntN(2) == 0 {
		c.lostBefore = lose
	} else {
		c.lostAfter = lose
	}
	c.start()
	t.add(triage.CauseStorm)
}

func tails(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	c := w.conn(w.host(v6), w.host(v6))
	c.message = choose(s, []int{8, 16, 24, 32, 48}, []int{12, 40})
	c.idle = time.Duration(choose(s, []int{20, 30, 60}, []int{45})) * time.Microsecond
	c.timeout = time.Duration(choose(s, []int{1050, 1100, 1600, 2100}, []int{1070, 1300, 3000})) * time.Microsecond
	left := choose(s, []int{1, 2}, []int{1, 3})
	lose := func(_ int, psn uint32, again bool) bool {
		if at := diff(psn, c.first); !again && left > 0 && at >= c.message && at%c.message == c.message-1 {
			left--
			return true
		}
		return false
	}
	if s.IntN(2) == 0 {
		c.lostBefore = lose
	} else {
		c.lostAfter = lose
	}
	c.tailOnly = true
	c.start()
	t.add(triage.CauseTimedOut)
}

func ackLosses(s *setting, w *wire, t truth) {
	c := w.conn(w.host(false), w.host(false))
	c.message = choose(s, []int{12, 16, 32, 40}, []int{10, 64})
	c.ackEvery = 1000
	c.tailOnly = true
	c.timeout = time.Duration(choose(s, []int{1080, 1100, 1900}, []int{1120, 2500})) * time.Microsecond
	n := 0
	at := choose(s, []int{2, 3, 5}, []int{4, 6})
	c.ackLost = func() bool {
		n++
		return n == at
	}
	c.start()
	t.add(triage.CauseTimedOut)
}

func sprayed(s *setting, w *wire, t truth) {
	v6 := s.IntN(2) == 0
	c := w.conn(w.host(v6), w.host(v6))
	c.sorts, c.spray = true, s.IntN(2) == 0
	p := choose(s, []float64{0.05, 0.1, 0.2, 0.3, 0.5}, []float64{0.08, 0.35})
	packet := int(float64(c.payload*8) / c.line * 1e9)
	most := packet + choose(s, []int{4_000, 5_000, 12_000, 20_000, 40_000}, []int{6_000, 30_000})
	c.late = func() time.Duration {
		if w.Float64() < p {
			return time.Duration(packet + w.IntN(most))
		}
		return 0
	}
	c.start()
	t.add(triage.CauseReordered)
}

// The laboratory.

// config is the common configuration of all incidents.
func config(s *setting, v lab.Variant, react bool) lab.Config {
	c := lab.Config{
		Seed: s.Uint64(), Variant: v,
		RED:      lab.RED{Min: 20_000, Max: 80_000, Probability: 0.2},
		Payload:  choose(s, []int{1024, 2048}, []int{512, 1536}),
		Interval: time.Duration(choose(s, []int{30, 50, 70}, []int{25, 40, 60})) * time.Microsecond,
		Pipeline: 600 * sim.Nanosecond, SwitchDelay: sim.Microsecond, ProxyDelay: sim.Microsecond,
		ReceiverDelay: sim.Microsecond, SenderDelay: sim.Microsecond, PauseDelay: 500 * sim.Nanosecond,
		DataPriority: 3, AckPriority: 3, NotificationPriority: 6, AckEvery: 16,
	}
	if react {
		c.Reaction = reaction.PaperDCQCN
		if s.IntN(2) == 0 {
			c.Reaction = reaction.ConnectX
		}
	}
	return c
}

// A run taps a network of the laboratory.
type run struct {
	*lab.Network
	frames []frame
}

func newRun(c lab.Config) *run {
	n, err := lab.New(c)
	if err != nil {
		panic(err)
	}
	return &run{Network: n}
}

// tap captures the packets that arrive at ports.
func (r *run) tap(ports ...*lab.Port) {
	for _, p := range ports {
		p.Tap(func(octets []byte) {
			at := time.Duration(r.Sim.Now() / sim.Nanosecond)
			r.frames = append(r.frames, frame{at, slices.Clone(octets)})
		})
	}
}

// flow adds an endless flow that begins soon.
func (r *run) flow(s *setting, from, to *lab.Host, rate sim.Rate) {
	f, err := r.Flow(from, to, rate)
	if err != nil {
		panic(err)
	}
	r.RunAt(sim.Time(s.IntN(20_000))*sim.Nanosecond, f.Endless)
}

// addr returns the address of the laboratory's n-th host, and of its n-th switch.
func addr(n int) string {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 5: 1, 15: byte(n + 1)}).String()
}

func switchAddr(n int) string {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 4: 0xff, 5: 0xff, 15: byte(n + 1)}).String()
}

func rates(s *setting) sim.Rate {
	return sim.Rate(choose(s, []int{8, 10, 16, 25, 40}, []int{12, 20, 50})) * sim.Gbps
}

func manyToOne(s *setting, t truth) []frame {
	v := choose(s, []lab.Variant{lab.CNP, lab.FastCNP, lab.FastCNPMarks, lab.Proxy},
		[]lab.Variant{lab.CNP, lab.FastCNP, lab.FastCNPMarks, lab.Proxy})
	r := newRun(config(s, v, true))
	rate := rates(s)
	n := choose(s, []int{3, 4, 6, 8, 11, 20}, []int{5, 7, 14, 24})
	// A star, or leaf and spine; or, for the judgement, a chain of switches.
	leaf := r.Switch()
	receiver := r.Host()
	at, up := r.Link(receiver, leaf, rate, sim.Microsecond)
	places := []*lab.Switch{leaf}
	switch {
	case s.IntN(2) == 0:
	case s.judged:
		for range 1 + s.IntN(3) {
			next := r.Switch()
			r.Link(places[len(places)-1], next, 40*rate, 2*sim.Microsecond)
			places = append(places, next)
		}
	default:
		other := r.Switch()
		for range 2 {
			spine := r.Switch()
			r.Link(leaf, spine, 20*rate, sim.Microsecond)
			r.Link(other, spine, 20*rate, sim.Microsecond)
		}
		places = append(places, other)
	}
	var senders []*lab.Port
	var hosts []*lab.Host
	for i := range n {
		h := r.Host()
		_, p := r.Link(h, places[i%len(places)], rate, sim.Microsecond)
		senders = append(senders, p, h.Port())
		hosts = append(hosts, h)
	}
	spare := r.Host() // another flow, without congestion
	_, p := r.Link(spare, leaf, rate, sim.Microsecond)
	for _, h := range hosts {
		r.flow(s, h, receiver, 0)
	}
	r.flow(s, receiver, spare, rate/4)
	if v == lab.CNP && s.IntN(2) == 0 {
		r.tap(at, up)
	} else {
		r.tap(append(senders, p, spare.Port())...)
	}
	r.Until(1500 * sim.Microsecond)
	t.add(triage.CauseIncast, addr(0))
	return r.frames
}

func collision(s *setting, t truth) []frame {
	v := choose(s, []lab.Variant{lab.CNP, lab.FastCNP}, []lab.Variant{lab.CNP, lab.FastCNP})
	r := newRun(config(s, v, true))
	rate := rates(s)
	near, far := r.Switch(), r.Switch()
	spines := choose(s, []int{2, 3, 4}, []int{2, 5})
	pairs, each := choose(s, []int{1, 2, 3, 4}, []int{1, 3, 5}), choose(s, []int{5, 6, 8, 12}, []int{7, 10, 14})
	var slowest []*lab.Port
	for i := range spines {
		spine := r.Switch()
		slow := rate * sim.Rate(pairs)
		if i == 0 {
			slow = rate * sim.Rate(pairs) / sim.Rate(2*spines)
		}
		fast := 2 * rate * sim.Rate(pairs)
		if s.judged { // between the spine and the receivers
			r.Link(near, spine, fast, sim.Microsecond)
			p, _ := r.Link(spine, far, slow, sim.Microsecond)
			slowest = append(slowest, p)
		} else { // before it
			p, _ := r.Link(near, spine, slow, sim.Microsecond)
			r.Link(spine, far, fast, sim.Microsecond)
			slowest = append(slowest, p)
		}
	}
	var a, b []*lab.Host
	for range pairs {
		h := r.Host()
		_, p := r.Link(h, near, rate, sim.Microsecond)
		if v == lab.FastCNP {
			r.tap(p, h.Port())
		}
		a = append(a, h)
	}
	for range pairs {
		h := r.Host()
		_, p := r.Link(h, far, rate, sim.Microsecond)
		if v != lab.FastCNP {
			r.tap(p, h.Port())
		}
		b = append(b, h)
	}
	for i := range pairs {
		for range each {
			r.flow(s, a[i], b[i], rate*9/10/sim.Rate(each))
		}
	}
	r.Until(2000 * sim.Microsecond)
	if slowest[0].Congested() < 100 { // hardly any flow went there: nothing happened
		return collision(s, t)
	}
	t.add(triage.CauseOnePath)
	return r.frames
}

func unheedingSenders(s *setting, t truth) []frame {
	v := choose(s, []lab.Variant{lab.CNP, lab.FastCNP}, []lab.Variant{lab.CNP, lab.FastCNP})
	r := newRun(config(s, v, false))
	rate := rates(s) / 2
	long := v == lab.CNP && s.IntN(2) == 0 // captured after the queue
	if long {
		rate = sim.Rate(choose(s, []int{2, 3, 4}, []int{2, 5})) * sim.Gbps
	}
	n := choose(s, []int{2, 3, 4, 5}, []int{2, 4, 6})
	leaf, receiver := r.Switch(), r.Host()
	at, up := r.Link(receiver, leaf, rate, sim.Microsecond)
	var senders []*lab.Port
	for i := range n {
		h := r.Host()
		_, p := r.Link(h, leaf, rate, sim.Microsecond)
		senders = append(senders, p, h.Port())
		t.add(triage.CauseCNPUnheeded, addr(i+1))
	}
	for _, h := range r.Hosts()[1:] {
		r.flow(s, h, receiver, rate*2/3)
	}
	if long {
		r.tap(at, up)
		r.Until(13 * sim.Millisecond)
	} else {
		r.tap(senders...)
		r.Until(5 * sim.Millisecond)
	}
	if n >= 3 {
		t.add(triage.CauseIncast, addr(0))
	}
	return r.frames
}

func eagerSwitch(s *setting, t truth) []frame {
	c := config(s, lab.FastCNP, true)
	c.Interval = 0
	c.RED = lab.RED{Min: 5_000, Max: 20_000, Probability: 1}
	r := newRun(c)
	rate := rates(s)
	leaf, receiver := r.Switch(), r.Host()
	r.Link(receiver, leaf, rate, sim.Microsecond)
	var ports []*lab.Port
	for range 2 {
		h := r.Host()
		_, p := r.Link(h, leaf, rate, sim.Microsecond)
		ports = append(ports, p, h.Port())
	}
	for _, h := range r.Hosts()[1:] {
		r.flow(s, h, receiver, 0)
	}
	r.tap(ports...)
	r.Until(1500 * sim.Microsecond)
	t.add(triage.CauseTooManyNotices, switchAddr(0))
	return r.frames
}

// eagerTeller tells a proxy too often, which is the first switch of the senders.
func eagerTeller(s *setting, t truth) []frame {
	c := config(s, lab.Proxy, true)
	c.Interval = time.Duration(choose(s, []int{0, 1}, []int{0, 2})) * time.Microsecond
	c.RED = lab.RED{Min: 5_000, Max: 20_000, Probability: 1}
	r := newRun(c)
	rate := rates(s)
	near, far, receiver := r.Switch(), r.Switch(), r.Host()
	a, b := r.Link(near, far, 4*rate, sim.Microsecond)
	r.Link(receiver, far, rate, sim.Microsecond)
	for range 2 {
		r.Link(r.Host(), near, rate, sim.Microsecond)
	}
	for _, h := range r.Hosts()[1:] {
		r.flow(s, h, receiver, 0)
	}
	r.tap(a, b)
	r.Until(1500 * sim.Microsecond)
	t.add(triage.CauseTooManyNotices, switchAddr(1))
	return r.frames
}

func drops(s *setting, t truth) []frame {
	c := config(s, lab.None, false)
	c.Timeout = 400 * sim.Microsecond
	c.Buffer = lab.Buffer{Total: 1 << 24, Alpha: 8,
		Queue: int64(choose(s, []int{30_000, 40_000, 60_000}, []int{35_000, 50_000}))}
	r := newRun(c)
	rate := rates(s)
	leaf, receiver := r.Switch(), r.Host()
	at, up := r.Link(receiver, leaf, rate, sim.Microsecond)
	var senders []*lab.Port
	for range choose(s, []int{2, 4}, []int{3, 5}) {
		h := r.Host()
		_, p := r.Link(h, leaf, rate, 10*sim.Microsecond)
		senders = append(senders, p, h.Port())
	}
	for _, h := range r.Hosts()[1:] {
		r.flow(s, h, receiver, rate*3/4)
	}
	if s.IntN(2) == 0 {
		r.tap(at, up)
	} else {
		r.tap(senders...)
	}
	r.Until(2500 * sim.Microsecond)
	if r.Counts().LostData < 50 { // hardly anything happened
		return drops(s, t)
	}
	t.add(triage.CauseStorm)
	return r.frames
}

func switchPauses(s *setting, t truth) []frame {
	c := config(s, lab.None, false)
	c.Buffer = lab.Buffer{Total: 1 << 22, Alpha: 1, PFC: true, Headroom: 100_000, XON: 2496,
		XOFF: int64(choose(s, []int{30_000, 40_000, 80_000}, []int{25_000, 60_000}))}
	r := newRun(c)
	rate := rates(s)
	n := choose(s, []int{3, 4, 5, 8}, []int{4, 6, 7})
	leaf, receiver := r.Switch(), r.Host()
	r.Link(receiver, leaf, rate, sim.Microsecond)
	var tapped *lab.Port
	for range n {
		h := r.Host()
		_, tapped = r.Link(h, leaf, rate, sim.Microsecond)
	}
	for _, h := range r.Hosts()[1:] {
		r.flow(s, h, receiver, 0)
	}
	last := r.Hosts()[n]
	r.tap(tapped, last.Port())
	r.Until(2 * sim.Millisecond)
	for _, f := range r.frames {
		if be.Uint16(f.octets[12:]) == 0x8808 {
			t.add(triage.CausePauseStorm, mac6([6]byte(f.octets[6:])))
			break
		}
	}
	return r.frames
}

// Wireshark's display filters select the frames that a verdict names.
func TestFilters(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		wiretest.Missing(t, "tshark")
	}
	seen := map[string]bool{}                                        // by cause
	small := []int{213, 216, 217, 218, 219, 221, 223, 224, 225, 226} // incidents, of different causes
	for _, n := range small[:wiretest.Rounds(len(small))] {
		in := makeIncident(n, false)
		file := ""
		for _, v := range explain(&in) {
			what := v.Cause.String()
			if seen[what] || v.Cause == triage.CauseCongested {
				continue
			}
			seen[what] = true
			if file == "" {
				file = write(t, &in)
			}
			out, err := exec.Command(tshark, "-r", file, "-Y", v.Filter, "-T", "fields", "-e", "frame.number").Output()
			require.NoError(t, err, v.Filter)
			selected := strings.Fields(string(out))
			for _, f := range v.Frames {
				require.True(t, slices.Contains(selected, strconv.FormatUint(f.Number, 10)), "%v: frame %d, "+
					"%s", v.Cause,
					f.Number, v.Filter)
			}
			require.Less(t, len(selected), len(in.frames), v.Filter)
		}
	}
	require.GreaterOrEqual(t, len(seen), wiretest.Rounds(len(small)), "causes with filters that were run")
}

// write writes the frames of an incident as a capture, and returns its name.
func write(t *testing.T, in *incident) string {
	t.Helper()
	f := wiretest.Must(os.Create(filepath.Join(t.TempDir(), "incident.pcap")))(t)
	w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Nanosecond))(t)
	for _, frame := range in.frames {
		require.NoError(t, w.Write(&capture.Record{Data: frame.octets, OrigLen: uint32(len(frame.octets)),
			Time: epoch.Add(frame.at)}))
	}
	require.NoError(t, f.Close())
	return f.Name()
}
