package flows

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
)

// Each property of a capture is a key in JSON and a sentence.
func TestCaptureLine(t *testing.T) {
	step := func(by time.Duration) []flows.ClockStep { return []flows.ClockStep{{Frame: 812, By: by}} }
	for _, c := range []struct {
		name     string
		capture  flows.Capture
		json     string
		sentence string // "" for none
	}{
		{"nothing", flows.Capture{}, `{"capture":true}`, ""},
		{"sampled", flows.Capture{Sampled: 100}, `{"capture":true,"sampled":100}`, "about 1 packet in 100"},
		{"each twice", flows.Capture{EachTwice: true}, `{"capture":true,"each_twice":true}`, "each packet twice"},
		{"truncated", flows.Capture{TruncatedTo: 128}, `{"capture":true,"truncated_to":128}`, "to 128 octets"},
		{"clock back", flows.Capture{ClockSteps: step(-5 * time.Second)},
			`{"capture":true,"clock_steps":[{"frame":812,"by_us":-5000000}]}`, "jumped back by 5s before frame 812"},
		{"clock forwards", flows.Capture{ClockSteps: step(90 * time.Second)},
			`{"capture":true,"clock_steps":[{"frame":812,"by_us":90000000}]}`, "jumped forwards by 1m30s"},
		{"one out of order", flows.Capture{OutOfOrder: 1}, `{"capture":true,"out_of_order":1}`, "1 frame has an"},
		{"out of order", flows.Capture{OutOfOrder: 40}, `{"capture":true,"out_of_order":40}`, "40 frames have an"},
		{"one way", flows.Capture{OneWay: true}, `{"capture":true,"one_way":true}`, "one direction only"},
		{"trimmed", flows.Capture{Trimmed: 3}, `{"capture":true,"trimmed":3}`, "3 packets were trimmed"},
		{"RoCEv1", flows.Capture{RoCEv1: 20}, `{"capture":true,"rocev1":20}`,
			"20 packets of RoCEv1 (EtherType 0x8915) were not analysed"},
		{"unread", flows.Capture{Unread: map[string]uint64{"gre 0x1234": 80, "ip protocol 50": 2}},
			`{"capture":true,"unread":{"gre 0x1234":80,"ip protocol 50":2}}`,
			"82 frames could be RoCE and were not decoded, because of the header gre 0x1234 (80), ip protocol 50 (2)."},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := json.Marshal(captureLineOf(&c.capture, nil))
			require.NoError(t, err)
			require.JSONEq(t, c.json, string(b))
			text := describeCapture(&c.capture)
			if c.sentence == "" {
				require.Empty(t, text)
				return
			}
			require.Len(t, text, 1)
			require.Contains(t, text[0], c.sentence)
			require.True(t, strings.HasSuffix(text[0], "."))
		})
	}
	require.Len(t, describeCapture(&flows.Capture{ClockSteps: make([]flows.ClockStep, 20)}), maxStepSentences+1)
	two := flows.Capture{ClockSteps: []flows.ClockStep{{Frame: 3, By: time.Second}, {Frame: 9, By: -time.Minute}}}
	require.Equal(t, []clockStepLine{{3, 1e6}, {9, -60e6}}, captureLineOf(&two, nil).ClockSteps)
	require.Len(t, describeCapture(&two), 2)
}

// A sample of the packets does not show the lost ones.
func TestLossOfSample(t *testing.T) {
	s := &flows.Snapshot{Flows: []flows.Flow{{Sequenced: true, PSN: flows.PSN{Unjudged: 5}, Sampled: 8}}}
	require.Equal(t, bad, answerLoss(s).Level)
	s.Capture.Sampled = 8
	require.Equal(t, unknown, answerLoss(s).Level)
}
