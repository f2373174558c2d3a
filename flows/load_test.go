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

// Identifications of a sender that numbers its packets show which packets are late, and which were retransmitted. A
// sender with a constant Identification shows neither.
func TestOriginals(t *testing.T) {
	for _, row := range []struct {
		name            string
		ids             [20]uint16 // by PSN; that of PSN 12 came late
		original, known bool
	}{
		{"late", [20]uint16{12: 0x0004}, true, true},
		{"retransmitted", [20]uint16{12: 0x0020}, false, true},
		{"late among reordered packets", [20]uint16{12: 0x0004, 5: 1}, true, true},
		{"constant", [20]uint16{12: 3, 0: 7}, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var i idents
			order := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19}
			if row.ids[5] > 0 {
				order = []uint32{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 14, 13, 16, 15, 18, 17, 19}
			}
			for _, psn := range order {
				id := uint16(0xFFF8 + psn) // they wrap
				if row.ids[0] > 0 {
					id = row.ids[0]
				}
				i.add(psn, id)
			}
			original, known := i.isOriginal(12, row.ids[12])
			require.Equal(t, row.original, original)
			require.Equal(t, row.known, known)
		})
	}
}
