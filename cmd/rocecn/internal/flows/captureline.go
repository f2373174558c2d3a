package flows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
)

// A captureLine is the JSON object of the capture itself.
type captureLine struct {
	Capture     bool              `json:"capture"`
	Interval    *intervalLine     `json:"interval,omitempty"`
	Sampled     uint64            `json:"sampled,omitempty"`
	EachTwice   bool              `json:"each_twice,omitempty"`
	TruncatedTo int               `json:"truncated_to,omitempty"`
	ClockSteps  []clockStepLine   `json:"clock_steps,omitempty"`
	OutOfOrder  uint64            `json:"out_of_order,omitempty"`
	OneWay      bool              `json:"one_way,omitempty"`
	Trimmed     uint64            `json:"trimmed,omitempty"`
	Discarded   map[string]uint64 `json:"discarded,omitempty"`
	RoCEv1      uint64            `json:"rocev1,omitempty"`
	Unread      map[string]uint64 `json:"unread,omitempty"`
}

type clockStepLine struct {
	Frame uint64  `json:"frame"`
	By    float64 `json:"by_us"`
}

func captureLineOf(c *flows.Capture, during *intervalLine) *captureLine {
	l := &captureLine{Capture: true, Interval: during, Sampled: c.Sampled, EachTwice: c.EachTwice,
		TruncatedTo: c.TruncatedTo, OutOfOrder: c.OutOfOrder, OneWay: c.OneWay, Trimmed: c.Trimmed,
		Discarded: c.Discarded,
		RoCEv1:    c.RoCEv1, Unread: c.Unread}
	for _, s := range c.ClockSteps {
		l.ClockSteps = append(l.ClockSteps, clockStepLine{s.Frame, toMicroseconds(s.By)})
	}
	return l
}

// describeCapture returns one sentence for each property of a capture that affects the counts.
func describeCapture(c *flows.Capture) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.Sampled > 0 {
		add("The capture is a sample of about 1 packet in %d: losses, retransmissions and missing answers cannot be "+
			"judged, and rates are estimates.", c.Sampled)
	}
	if c.EachTwice {
		add("The capture has each packet twice, as with two mirrors: second copies count as copies only.")
	}
	if c.TruncatedTo > 0 {
		add("Frames were truncated to %d octets, by the snapshot length or a network device.", c.TruncatedTo)
	}
	for i, s := range c.ClockSteps {
		if i == maxStepSentences {
			add("The clock of the capture jumped %s more.", cli.Count(uint64(len(c.ClockSteps)-i), "time"))
			break
		}
		direction := "forwards"
		if s.By < 0 {
			direction = "back"
		}
		add("The clock of the capture jumped %s by %v before frame %d: times before and after are not compared.",
			direction, s.By.Abs().Round(time.Millisecond), s.Frame)
	}
	if c.OutOfOrder > 0 {
		add("%s an earlier time than the frame before.", cli.Count(c.OutOfOrder, "frame")+" "+have(c.OutOfOrder))
	}
	if c.OneWay {
		add("The capture has one direction only: without answers between any two hosts, missing packets cannot be " +
			"judged.")
	}
	if c.Trimmed > 0 {
		add("%s trimmed by a switch: each was lost at a queue before this point.",
			cli.Count(c.Trimmed, "packet")+" "+were(c.Trimmed))
	}
	if len(c.Discarded) > 0 {
		total := uint64(0)
		for _, n := range c.Discarded {
			total += n
		}
		add("Switches reported by sFlow that they discarded %s%s.", cli.Count(total, "packet"),
			formatReasons(c.Discarded))
	}
	if c.RoCEv1 > 0 {
		add("%s of RoCEv1 (EtherType 0x8915) %s not analysed.", cli.Count(c.RoCEv1, "packet"), were(c.RoCEv1))
	}
	if len(c.Unread) > 0 {
		var parts []string
		total := uint64(0)
		for _, header := range slices.Sorted(maps.Keys(c.Unread)) {
			parts = append(parts, fmt.Sprintf("%s (%d)", header, c.Unread[header]))
			total += c.Unread[header]
		}
		if len(parts) > maxUnreadNames {
			parts = append(parts[:maxUnreadNames], "…")
		}
		add("%s could be RoCE and %s not decoded, because of the header %s.", cli.Count(total, "frame"), were(total),
			strings.Join(parts, ", "))
	}
	return all
}

const (
	maxStepSentences = 5
	maxUnreadNames   = 6
)

func have(n uint64) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func were(n uint64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// printCapture prints the sentences about the capture.
func (a *accountant) printCapture(c *flows.Capture) {
	for _, sentence := range describeCapture(c) {
		for _, line := range wrapText(sentence, columns) {
			fmt.Fprintln(a.out, line)
		}
	}
}
