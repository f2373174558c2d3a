package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The load of a port: packets of 1000 octets every 80 ns are 100 Gbit/s, and pauses between bursts are
// free capacity.
func TestLoad(t *testing.T) {
	of := func(burst int, pause, resolution int64) float64 {
		var l load
		at := int64(1)
		for i := range 40_000 {
			l.recordPacket(1000, at/resolution*resolution, true)
			if at += 80; i%burst == burst-1 {
				at += pause
			}
		}
		return l.share()
	}
	require.InDelta(t, 1, of(10, 0, 1), 0.01)
	require.InDelta(t, 0.25, of(10, 2400, 1), 0.01)
	require.Zero(t, of(10, 2400, 1000), "times in microseconds do not show the rate of a port")
	require.Zero(t, new(load).share())
}

// Signs at most 100 µs apart are one episode, and the first ones are kept.
func TestEpisodes(t *testing.T) {
	var e episodes
	for i := range int64(maxEpisodes + 5) {
		e.addSign(i * 1_000_000)
		e.addSign(i*1_000_000 + 60_000)
		e.addSign(i*1_000_000 + 150_000)
	}
	all := e.toEpisodes()
	require.Len(t, all, maxEpisodes)
	require.Equal(t, 150*time.Microsecond, all[0].Until.Sub(all[0].Since))
	require.Equal(t, time.Millisecond, all[1].Since.Sub(all[0].Since))
}

// Identifications of a sender that numbers its packets show which packets are late.
func TestOriginals(t *testing.T) {
	var i idents
	for psn := range uint32(20) {
		if psn != 12 {
			i.add(psn, uint16(0xFFF8+psn)) // they wrap
		}
	}
	require.True(t, i.isOriginal(12, 0x0004))
	require.False(t, i.isOriginal(12, 0x0020), "sent after the packets that follow it")
	var constant idents
	for psn := range uint32(20) {
		constant.add(psn, 7)
	}
	require.False(t, constant.isOriginal(12, 3))
}
