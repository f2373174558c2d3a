package triage

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// formatCount returns a count with its noun, in the plural unless it is 1.
func formatCount[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// formatShare returns a share in percent.
func formatShare(part, whole uint64) string {
	percent := 100 * float64(part) / float64(max(whole, 1))
	if percent >= 10 {
		return fmt.Sprintf("%.0f %%", percent)
	}
	return fmt.Sprintf("%.2g %%", percent)
}

// formatDuration returns a duration with three digits.
func formatDuration(d time.Duration) string { return roundDuration(d).String() }

// roundDuration rounds a duration to three digits.
func roundDuration(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}

// formatStart returns the first frame of a sign and its time.
func formatStart(s flows.Sign) string {
	return fmt.Sprintf("frame %d (%s)", s.First, s.Since.Format("15:04:05.000000"))
}

// formatRate returns a rate given in bits per second.
func formatRate(bits float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		if bits < 1000 {
			return fmt.Sprintf("%.3g %sbit/s", bits, unit)
		}
		bits /= 1000
	}
	return fmt.Sprintf("%.3g Tbit/s", bits)
}

// formatList joins the first most elements.
func formatList[T any](all []T, most int) string {
	var words []string
	for i, one := range all {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		words = append(words, fmt.Sprint(one))
	}
	return strings.Join(words, ", ")
}

// The suspects that are no host.
const (
	hopBefore    = "a hop before the capture point"
	pathToSender = "the path from the capture point to the sender"
	mirror       = "the capture, if its mirror leaves out the class of CNPs"
)

// addressesOf returns the different addresses of flows as text.
func addressesOf(all []*flows.Flow, of func(*flows.Flow) netip.Addr) (out []string) {
	for _, g := range groupBy(all, of) {
		out = append(out, g.address.String())
	}
	return out
}
