// Package prometheus writes metrics in the text format of Prometheus (exposition format
// 0.0.4).
package prometheus

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Text accumulates metrics in the text format.
type Text struct {
	Octets []byte
	name   string // of the family
}

// Family begins a family of metrics: a counter if its name ends in _total, otherwise
// a gauge.
func (t *Text) Family(name, help string) {
	kind := "gauge"
	if strings.HasSuffix(name, "_total") {
		kind = "counter"
	}
	t.beginFamily(name, help, kind)
}

func (t *Text) beginFamily(name, help, kind string) {
	t.name = name
	t.Octets = append(t.Octets, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// Sample writes a value of the family, with names and values of labels by turns.
func (t *Text) Sample(value float64, labels ...string) { t.appendSample("", value, labels) }

func (t *Text) appendSample(suffix string, value float64, labels []string) {
	b := append(append(t.Octets, t.name...), suffix...)
	for i := 0; i < len(labels); i += 2 {
		b = append(b, "{,"[min(i, 1)])
		b = append(append(append(b, labels[i]...), '='), quoteLabel(labels[i+1])...)
	}
	if len(labels) > 0 {
		b = append(b, '}')
	}
	b = strconv.AppendFloat(append(b, ' '), value, 'g', -1, 64)
	t.Octets = append(b, '\n')
}

// quoteLabel returns the value of a label, in which three characters are escaped.
func quoteLabel(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// bounds are those of a Histogram.
var bounds = [...]time.Duration{
	5e3, 10e3, 20e3, 50e3, 100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6, 50e6, 100e6, 1e9,
}

// A Histogram counts times from 5 µs to 1 s. Any goroutine may read it while
// others observe.
type Histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Observe counts a time.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Count returns the number of observations.
func (h *Histogram) Count() (n uint64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// Histograms begins a family of histograms.
func (t *Text) Histograms(name, help string) { t.beginFamily(name, help, "histogram") }

// Histogram writes one of the family.
func (t *Text) Histogram(h *Histogram, labels ...string) {
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		t.appendSample("_bucket", float64(n), append(labels[:len(labels):len(labels)], "le", le))
	}
	t.appendSample("_sum", time.Duration(h.sum.Load()).Seconds(), labels)
	t.appendSample("_count", float64(n), labels)
}
