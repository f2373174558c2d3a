package lab

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/ppfc"
)

// A ConfigError names an invalid field of a [Config], such as Buffer.Alpha, and describes the valid values.
type ConfigError struct {
	Key   string // path of the field
	Value any    // given value
	Want  string // valid values
}

// Error returns a text such as "lab: Payload: 3: want 0 or a multiple of 4 from 4 to 8192".
func (e *ConfigError) Error() string {
	return fmt.Sprintf("lab: %s: %v: want %s", e.Key, e.Value, e.Want)
}

const (
	maxPayload  = 8192
	maxPriority = 7
	maxOctets   = 1 << 50
	maxDelay    = time.Hour
)

// checkFields returns a *[ConfigError] for the first field that is wrong.
func (c *Config) checkFields() error {
	b, red, p := &c.Buffer, &c.RED, &c.Pausing
	for _, wrong := range []struct {
		invalid bool
		key     string
		value   any
		want    string
	}{
		{int(c.Variant) >= Variants, "Variant", int(c.Variant), fmt.Sprintf("0 to %d", Variants-1)},
		{c.Payload != 0 && (c.Payload < 4 || c.Payload > maxPayload || c.Payload%4 != 0), "Payload",
			c.Payload, fmt.Sprintf("0 or a multiple of 4 from 4 to %d", maxPayload)},
		{red.Max > 0 && red.Min > red.Max, "RED.Max", red.Max, "at least RED.Min, or 0"},
		{red.Min < -maxOctets || red.Min > maxOctets, "RED.Min", red.Min, "-2^50 to 2^50 octets"},
		{!isWithin(red.Probability, 0, 1), "RED.Probability", red.Probability, "0 to 1"},
		{int(red.At) >= len(points), "RED.At", int(red.At), "AtDeparture or AtArrival"},
		{b.PFC && b.Total == 0, "Buffer.Total", b.Total, "more than 0 with Buffer.PFC"},
		{b.Total > 0 && !(b.Alpha > 0 && b.Alpha <= 1024), "Buffer.Alpha", b.Alpha, "more than 0, at most 1024"},
		{p.For < 0 || p.For > ppfc.MaxPause || p.For%time.Microsecond != 0, "Pausing.For",
			p.For, fmt.Sprintf("whole microseconds up to %v", ppfc.MaxPause)},
		{c.Variant.usesPPFC() && len(p.Up) == 0, "Pausing.Up", p.Up, "at least one depth with this variant"},
		{len(p.Up) > level.Max || slices.Contains(p.Up, 0) || !slices.IsSorted(p.Up) ||
			len(slices.Compact(slices.Clone(p.Up))) < len(p.Up), "Pausing.Up",
			p.Up, fmt.Sprintf("at most %d depths above 0 in ascending order", level.Max)},
		{len(p.Down) > len(p.Up) || !slices.IsSorted(p.Down) || areBelow(p.Up, p.Down), "Pausing.Down",
			p.Down, "in ascending order at most one depth for each of Pausing.Up, none above that one"},
		{c.Variant == CNPPolled && c.Interval == 0, "Interval", c.Interval,
			"more than 0, the polling interval of the receiver"},
		{c.TraceHops < 0 || c.TraceHops > reaction.MaxHops, "TraceHops", c.TraceHops,
			fmt.Sprintf("0 to %d", reaction.MaxHops)},
		{c.Labels < 0 || c.Labels > fcn.MaxFlowLabel, "Labels", c.Labels, fmt.Sprintf("0 to %d", fcn.MaxFlowLabel)},
		{c.Incapable < 0, "Incapable", c.Incapable, "0 or more"},
		{!isWithin(c.NoticeLoss, 0, 1), "NoticeLoss", c.NoticeLoss, "0 to 1"},
		{c.AckEvery < 0, "AckEvery", c.AckEvery, "0 or more"},
		{c.Window != 0 && !c.Variant.HPCC() && c.Window < int64(max(c.AckEvery, 1))*int64(c.payloadOctets()), "Window",
			c.Window, "at least the octets of AckEvery packets, or 0"},
		{c.Spray && !c.Selective, "Spray", c.Spray, "false, or Selective"},
		{b.Trim && !c.Selective, "Buffer.Trim", b.Trim, "false, or Selective"},
	} {
		if wrong.invalid {
			return &ConfigError{wrong.key, wrong.value, wrong.want}
		}
	}
	from := &p.From
	for _, x := range []struct {
		is, most uint8
		key      string
	}{
		{from.Alarm, level.Max, "Pausing.From.Alarm"}, {from.Hold, level.Max, "Pausing.From.Hold"},
		{from.Stop, level.Max, "Pausing.From.Stop"}, {c.DataPriority, maxPriority, "DataPriority"},
		{c.AckPriority, maxPriority, "AckPriority"}, {c.NotificationPriority, maxPriority, "NotificationPriority"},
	} {
		if x.is > x.most {
			return &ConfigError{x.key, x.is, fmt.Sprintf("0 to %d", x.most)}
		}
	}
	return c.checkAmounts()
}

// checkAmounts returns an error if a number of octets, a time or a limit is invalid.
func (c *Config) checkAmounts() error {
	b := &c.Buffer
	for _, x := range []struct {
		octets int64
		key    string
	}{
		{c.RED.Max, "RED.Max"}, {b.Total, "Buffer.Total"}, {b.Queue, "Buffer.Queue"},
		{b.XOFF, "Buffer.XOFF"}, {b.XON, "Buffer.XON"}, {b.Headroom, "Buffer.Headroom"}, {b.Pool, "Buffer.Pool"},
		{b.Reserve, "Buffer.Reserve"}, {c.Window, "Window"},
	} {
		if x.octets < 0 || x.octets > maxOctets {
			return &ConfigError{x.key, x.octets, "0 to 2^50 octets"}
		}
	}
	frame := int64(c.frameOctets())
	for _, x := range []struct {
		octets int64
		key    string
	}{{b.Total, "Buffer.Total"}, {b.Queue, "Buffer.Queue"}} {
		if x.octets > 0 && x.octets < frame {
			return &ConfigError{x.key, x.octets, fmt.Sprintf("at least %d octets, the largest frame", frame)}
		}
	}
	for _, x := range []struct {
		time time.Duration
		key  string
	}{
		{c.Pausing.Interval, "Pausing.Interval"}, {c.Pausing.Most, "Pausing.Most"}, {c.Idle, "Idle"},
		{c.Interval, "Interval"}, {c.Join, "Join"}, {c.Forget, "Forget"},
	} {
		if x.time < 0 || x.time > maxDelay {
			return &ConfigError{x.key, x.time, fmt.Sprintf("0 to %v", maxDelay)}
		}
	}
	for _, x := range []struct {
		time sim.Time
		key  string
	}{
		{c.Pipeline, "Pipeline"}, {c.SwitchDelay, "SwitchDelay"}, {c.ProxyDelay, "ProxyDelay"},
		{c.EdgeDelay, "EdgeDelay"}, {c.PauseDelay, "PauseDelay"}, {c.ReceiverDelay, "ReceiverDelay"},
		{c.SenderDelay, "SenderDelay"}, {c.Timeout, "Timeout"}, {c.Buffer.Watchdog, "Buffer.Watchdog"},
	} {
		if x.time < 0 || x.time > sim.From(maxDelay) {
			return &ConfigError{x.key, x.time, fmt.Sprintf("0 to %v", maxDelay)}
		}
	}
	for _, x := range []struct {
		limit node.Rate
		key   string
	}{{c.SwitchLimit, "SwitchLimit"}, {c.HostLimit, "HostLimit"}} {
		if !isWithin(x.limit.PerSecond, 0, math.MaxFloat64) {
			return &ConfigError{x.key + ".PerSecond", x.limit.PerSecond, "0 or more, and finite"}
		}
		if x.limit.Burst < 0 || x.limit.Burst > 0 && x.limit.PerSecond == 0 {
			return &ConfigError{x.key + ".Burst", x.limit.Burst, "0 or more, and 0 without a rate"}
		}
	}
	return nil
}

// isWithin is false for NaN.
func isWithin(x, low, high float64) bool { return x >= low && x <= high }

// areBelow reports whether the depth at which a level begins is below the depth at which it ends.
func areBelow(up, down []uint64) bool {
	for i := range min(len(up), len(down)) {
		if up[i] < down[i] {
			return true
		}
	}
	return false
}

// frameOctets returns the octets of the largest frame: data in a tunnel.
func (c *Config) frameOctets() int {
	traced := 0
	if c.Variant.HPCC() {
		traced = c.traceOctets()
	}
	return overhead + traced + tunnelOctets + c.payloadOctets()
}

// payloadOctets is Payload, or its default.
func (c *Config) payloadOctets() int {
	if c.Payload == 0 {
		return 1024
	}
	return c.Payload
}
