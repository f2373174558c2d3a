package main

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/border"
	"github.com/stretchr/testify/require"
)

// Fast CNPs, FCNs and proxy messages do not cross the border. A role that is not enabled drops nothing.
func TestBorder(t *testing.T) {
	for _, c := range []struct {
		name    string
		config  border.Config
		dropped []int // numbers of frames
		counts  string
	}{
		{"enabled", border.Config{Enabled: true}, []int{4, 5, 10, 11},
			"nothing 4\ndropped_fastcnp 2\ndropped_fcn 1\ndropped_proxy 1\npassed 10\n"},
		{"all messages", border.Config{Enabled: true, Border: filter.Border{CNP: true, PPFC: true}},
			[]int{4, 5, 6, 7, 8, 10, 11, 12, 17},
			"nothing 4\ndropped_cnp 3\ndropped_fastcnp 2\ndropped_ppfc 2\ndropped_fcn 1\ndropped_proxy 1\npassed 5\n"},
		{"not enabled", border.Config{}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := wiretest.Must(os.Open(wiretest.Path(t, "tour.pcap")))(t)
			defer f.Close()
			var file, counts bytes.Buffer
			out := wiretest.Must(capture.NewWriter(&file, capture.Ethernet, time.Nanosecond))(t)
			b := wiretest.Must(border.New(c.config))(t)
			require.NoError(t, forwardFrames(wiretest.Must(capture.Open(f))(t), out, b))
			printCounters(&counts, b)
			if c.counts != "" {
				require.Equal(t, c.counts, counts.String())
			}

			var want, got [][]byte
			for i, p := range wiretest.Capture(t, "tour.pcap") {
				if !slices.Contains(c.dropped, i+1) {
					want = append(want, p.Data)
				}
			}
			for r, err := range capture.All(wiretest.Must(capture.Open(&file))(t)) {
				require.NoError(t, err)
				got = append(got, slices.Clone(r.Data))
			}
			require.Equal(t, want, got)
		})
	}
}
