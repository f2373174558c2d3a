package triage

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// The verdict about a link names all priorities that it paused, with the share of the time. The frames are written by
// hand according to IEEE 802.1Q annexes 31B and 31D.
func TestPauseStormText(t *testing.T) {
	for _, row := range []struct {
		name   string
		frames [2]string // sent in turns: each 100 µs, and 20 µs after it
		want   string    // "" if there is no verdict
	}{
		{"priorities 3 and 4", [2]string{"01010018 000000000000 ffff ffff 000000000000", "01010018" +
			"00000000000000000000000000000000"},
			"02:00:00:00:00:03 paused priorities 3 and 4 of its link, from frame 1 (00:01:40.000000) on: " +
				"3 for 10ms in all (20 % of the time), at most 20µs at a time, with 500 XOFFs; " +
				"4 for 10ms in all (20 % of the time), at most 20µs at a time, with 500 XOFFs."},
		{"PAUSE", [2]string{"0001 ffff", "0001 0000"},
			"02:00:00:00:00:03 paused all priorities of its link, from frame 1 (00:01:40.000000) on: " +
				"for 10ms in all (20 % of the time), at most 20µs at a time, with 500 XOFFs."},
		{"no priority", [2]string{"01010000 ffffffffffffffff", "01010000"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			table := flows.New(flows.Config{Evidence: true, LinkRate: 400_000_000_000})
			var d flows.Decoder
			var p flows.Packet
			for i := range 1000 {
				text := strings.ReplaceAll("0180c2000001 020000000003 8808"+row.frames[i%2], " ", "")
				frame, err := hex.DecodeString(text)
				require.NoError(t, err)
				frame = append(frame, make([]byte, 60-len(frame))...)
				at := time.Duration(i/2)*100*time.Microsecond + time.Duration(i%2)*20*time.Microsecond
				d.Decode(&p, frame, rocev2.DecodeOptions{})
				table.Observe(&p, uint64(i+1), time.Unix(100, int64(at)).UTC())
			}
			s := table.Snapshot()
			all := Explain(s)
			if row.want == "" {
				require.Empty(t, all)
				require.EqualValues(t, 1000, s.Links[0].WithoutPriority)
				return
			}
			require.Len(t, all, 1)
			require.Equal(t, row.want, all[0].Text)
			require.Equal(t, "02:00:00:00:00:03", all[0].Suspects[0])
		})
	}
}
