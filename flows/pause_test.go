package flows

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// A pauseScript gives a table flow control frames, written by hand according to IEEE 802.1Q annexes
// 31B and 31D.
type pauseScript struct {
	*Table
	t *testing.T
	d Decoder
}

func newPauses(t *testing.T, rate uint64) *pauseScript {
	return &pauseScript{Table: New(Config{LinkRate: rate}), t: t}
}

// observeFrame gives the table a frame with these octets from the opcode on, ns nanoseconds after
// the start.
func (s *pauseScript) observeFrame(ns int64, control string) *pauseScript {
	s.t.Helper()
	frame, err := hex.DecodeString(strings.ReplaceAll("0180c2000001 020000000001 8808 "+control, " ", ""))
	require.NoError(s.t, err)
	frame = append(frame, make([]byte, 60-len(frame))...)
	var p Packet
	require.True(s.t, s.d.Decode(&p, frame, rocev2.DecodeOptions{}))
	s.Observe(&p, 1, time.Unix(1_800_000_000, ns))
	return s
}

// observeOther gives the table a packet of another kind.
func (s *pauseScript) observeOther(ns int64) *pauseScript {
	s.Observe(&Packet{}, 1, time.Unix(1_800_000_000, ns))
	return s
}

func (s *pauseScript) onlyLink() Link {
	s.t.Helper()
	for _, l := range s.Snapshot().Links {
		return l
	}
	s.t.Fatal("no link")
	return Link{}
}

const (
	off3     = "0101 0008 0000 0000 0000 ffff 0000 0000 0000 0000" // priority 3 pauses for 65535 quanta
	off3by10 = "0101 0008 0000 0000 0000 000a 0000 0000 0000 0000" // for 10 quanta
	off3by1  = "0101 0008 0000 0000 0000 0001 0000 0000 0000 0000"
	on3      = "0101 0008 0000 0000 0000 0000 0000 0000 0000 0000"
	off3on4  = "0101 0018 0000 0000 0000 0064 0000 0000 0000 0000" // 3 for 100 quanta, 4 resumes
	offAll   = "0001 0064"                                         // the whole link for 100 quanta
	onAll    = "0001 0000"
)

// A quantum lasts 512 bit times: 5.12 ns at 100 Gbit/s, 20.48 ns at 25 Gbit/s,
// 1.28 ns at 400 Gbit/s.
func TestPause(t *testing.T) {
	const us, g = 1000, 1_000_000_000
	for _, c := range []struct {
		name   string
		script *pauseScript
		three  Priority
	}{
		{"until XON", newPauses(t, 100*g).observeFrame(0, off3).observeFrame(35*us, on3), Priority{1, 1, 35 * us}},
		{"until the quanta have passed", newPauses(t, 100*g).observeFrame(0, off3by10).observeFrame(50*us, on3),
			Priority{1, 1, 51}},
		{"… at 25 Gbit/s", newPauses(t, 25*g).observeFrame(0, off3by10).observeFrame(50*us, on3), Priority{1, 1, 204}},
		{"all quanta", newPauses(t, 100*g).observeFrame(0, off3).observeFrame(1000*us, on3), Priority{1, 1, 335_539}},
		{"the last nanosecond of them", newPauses(t, 100*g).observeFrame(0, off3).observeFrame(335_539, on3),
			Priority{1, 1, 335_539}},
		{"the rate is assumed", newPauses(t, 0).observeFrame(0, off3).observeFrame(1000*us, on3),
			Priority{1, 1, 335_539}},
		{"another XOFF extends the pause", newPauses(t, 100*g).observeFrame(0, off3).observeFrame(10*us, off3).
			observeFrame(30*us, on3), Priority{2, 1, 30 * us}},
		{"another XOFF, shorter",
			newPauses(t, 100*g).observeFrame(0, off3).observeFrame(10*us, off3by10).observeFrame(30*us, on3),
			Priority{2, 1, 10*us + 51}},
		{"another XOFF after a while",
			newPauses(t, 100*g).observeFrame(0, off3by10).observeFrame(10*us, off3by10).observeFrame(30*us, on3),
			Priority{2, 1, 102}},
		{"only XON",
			newPauses(t, 100*g).observeFrame(0, on3).observeFrame(10*us, off3).observeFrame(20*us, on3).
				observeFrame(30*us, on3),
			Priority{1, 3, 10 * us}},
		{"up to the last packet", newPauses(t, 100*g).observeFrame(0, off3).observeOther(7 * us),
			Priority{1, 0, 7 * us}},
		{"up to the last packet, which is reordered",
			newPauses(t, 100*g).observeFrame(0, off3).observeOther(7 * us).observeOther(3 * us),
			Priority{1, 0, 7 * us}},
		{"not beyond the quanta", newPauses(t, 100*g).observeFrame(0, off3).observeOther(900 * us),
			Priority{1, 0, 335_539}},
		{"the last frame", newPauses(t, 100*g).observeFrame(0, off3), Priority{1, 0, 0}},
		{"one of two priorities",
			newPauses(t, 100*g).observeFrame(0, off3on4).observeFrame(10*us, off3on4).observeOther(20 * us),
			Priority{2, 0, 1024}},
		{"a slow link", newPauses(t, 1000).observeFrame(0, off3by10).observeOther(10 * g),
			Priority{1, 0, 5120 * 1_000_000}},
		{"a link of 1 bit/s", newPauses(t, 1).observeFrame(0, off3).observeOther(10 * g), Priority{1, 0, 10 * g}},
		{"the clock of another queue",
			newPauses(t, 100*g).observeFrame(200*us, off3).observeFrame(0, off3).observeFrame(230*us, on3),
			Priority{2, 1, 30 * us}},
		{"a clock that was set",
			newPauses(t, 100*g).observeFrame(10*g, off3).observeFrame(0, off3).observeFrame(30*us, on3),
			Priority{2, 1, 30*us + 1}}, // time continues after the last frame before the step
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.script.onlyLink()
			require.Equal(t, c.three, l.Priorities[3])
			require.Zero(t, l.All)
		})
	}

	l := newPauses(t, 100*g).observeFrame(0, off3on4).onlyLink()
	require.Equal(t, Priority{XON: 1}, l.Priorities[4])
	require.Equal(t, "02:00:00:00:00:01", l.Src.String())
	require.Equal(t, [2]any{uint64(100 * g), false}, [2]any{l.Rate, l.Assumed})
	l = newPauses(t, 0).observeFrame(0, off3on4).onlyLink()
	require.Equal(t, [2]any{uint64(assumedLinkRate), true}, [2]any{l.Rate, l.Assumed})
}

// A stuck switch repeats XOFF before the previous one ends.
func TestPauseStorm(t *testing.T) {
	s := newPauses(t, 100_000_000_000)
	for i := range int64(5000) {
		s.observeFrame(i*200_000, off3)
	}
	s.observeOther(1_000_000_000)
	require.Equal(t, Priority{XOFF: 5000, Paused: time.Second}, s.onlyLink().Priorities[3])
	// Too slow for a link of 400 Gbit/s: the quanta pass in 83.8848 µs.
	s = newPauses(t, 400_000_000_000)
	for i := range int64(5000) {
		s.observeFrame(i*200_000, off3)
	}
	s.observeOther(1_000_000_000)
	require.Equal(t, Priority{XOFF: 5000, Paused: 5000 * 83_884_800 / 1000}, s.onlyLink().Priorities[3])
}

// Fractions of a nanosecond add up.
func TestPauseFractions(t *testing.T) {
	s := newPauses(t, 400_000_000_000)
	for i := range int64(1000) {
		s.observeFrame(i*1000, off3by1)
	}
	require.Equal(t, Priority{XOFF: 1000, Paused: 1280 - 2}, s.onlyLink().Priorities[3], "except for the last one")
	require.Equal(t, Priority{XOFF: 1000, Paused: 1280}, s.observeOther(2_000_000).onlyLink().Priorities[3])
}

// PAUSE frames affect the whole link.
func TestLinkPause(t *testing.T) {
	s := newPauses(t, 100_000_000_000).observeFrame(0, offAll).observeFrame(10_000, offAll).observeFrame(10_300, onAll)
	l := s.onlyLink()
	require.Equal(t, Priority{XOFF: 2, XON: 1, Paused: 812}, l.All)
	require.Zero(t, l.Priorities)
	before := s.Snapshot()
	s.observeFrame(20_000, off3).observeFrame(20_100, on3)
	changed := s.Snapshot().changesSince(before)
	changed.Links[0].PauseSigns = [9]PauseSign{}
	require.Equal(t, []Link{{Src: l.Src, Priorities: [8]Priority{3: {1, 1, 100}}, Rate: l.Rate}}, changed.Links)
	before = s.Snapshot()
	s.observeFrame(30_000, offAll).observeOther(40_000)
	changed = s.Snapshot().changesSince(before)
	changed.Links[0].PauseSigns = [9]PauseSign{}
	require.Equal(t, []Link{{Src: l.Src, All: Priority{1, 0, 512}, Rate: l.Rate}}, changed.Links)
	require.Empty(t, s.Snapshot().changesSince(s.Snapshot()).Links)
}

// In cooked captures the source is the sender's address: two links stay separate.
func TestPauseInCookedCaptures(t *testing.T) {
	for _, c := range []struct {
		link   rocev2.LinkType
		header string
	}{
		{rocev2.LinkSLL, "0002 0001 0006 020000000001 0000 8808"},
		{rocev2.LinkSLL2, "8808 0000 00000003 0001 02 06 020000000001 0000"},
	} {
		t.Run(fmt.Sprint(c.link), func(t *testing.T) {
			frame := wiretest.Must(hex.DecodeString(strings.ReplaceAll(c.header+off3, " ", "")))(t)
			var d Decoder
			var p Packet
			require.True(t, d.Decode(&p, frame, rocev2.DecodeOptions{Link: c.link}), c.link)
			require.Equal(t, [6]byte{2, 0, 0, 0, 0, 1}, p.pause.mac, c.link)
		})
	}
}
