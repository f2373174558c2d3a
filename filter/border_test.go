package filter

import (
	"testing"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// borders are configurations of a border.
var borders = []Border{
	{},
	{CNP: true},
	{PPFC: true},
	{CNP: true, PPFC: true, FCNPort: 4000, ProxyPort: 4001},
	{CodePoints: fastcnp.CodePoints{Option1: 0x9E, Option2: 0xBE}},
	{CodePoints: fastcnp.CodePoints{Option1: 0xC2, Option2: 0x1E}, PPFC: true},
}

// TestProgramIsMatch runs the programs on frames at random. Inside their
// domain they select what Match drops, outside it no less.
func TestProgramIsMatch(t *testing.T) {
	for link := range links {
		for i := range borders {
			r := &borders[i]
			program, err := r.Program(link)
			vm := machine(t, program, err)
			m := wiretest.NewFrames(uint64(i)<<8 | uint64(link))
			o := rocev2.DecodeOptions{Link: link}
			var inside, dropped int
			for n := 0; inside < 20000; n++ {
				frame := frameOf(m, link, m.IntN(3))
				verdict, err := vm.Run(frame)
				require.NoError(t, err)
				kind, drop := r.Match(frame, o)
				switch inDomain(frame, link) {
				case true:
					inside++
					require.Equal(t, drop, verdict != 0, "%v, %+v: %v\n%x", link, *r, kind, frame)
				case false:
					require.True(t, !drop || verdict != 0, "%v, %+v: %v\n%x", link, *r, kind, frame)
				}
				if drop {
					dropped++
				}
			}
			require.Greater(t, dropped, 2000)
		}
	}
}
