package lab

import (
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/stretchr/testify/require"
)

// The error about an invalid Config names the field; nothing panics.
func TestWrongConfig(t *testing.T) {
	wrong := map[string][]func(*Config){
		"Variant": {func(c *Config) { c.Variant = Variant(Variants) }},
		"Payload": {
			func(c *Config) { c.Payload = -1 }, func(c *Config) { c.Payload = 1023 },
			func(c *Config) { c.Payload = 8196 }, func(c *Config) { c.Payload = 2 },
		},
		"RED.Max": {
			func(c *Config) { c.RED = RED{Min: 2, Max: 1} }, func(c *Config) { c.RED.Max = -1 },
			func(c *Config) { c.RED.Max = 1 << 60 },
		},
		"RED.Min": {func(c *Config) { c.RED.Min = -1 << 60 }},
		"RED.Probability": {
			func(c *Config) { c.RED.Probability = 1.1 }, func(c *Config) { c.RED.Probability = math.NaN() },
		},
		"RED.At": {func(c *Config) { c.RED.At = 2 }},
		"Buffer.Total": {
			func(c *Config) { c.Buffer.Total = -1 }, func(c *Config) { c.Buffer.PFC = true },
			func(c *Config) { c.Buffer = Buffer{Total: 1145, Alpha: 1} },
		},
		"Buffer.Alpha": {
			func(c *Config) { c.Buffer.Total = 1e6 },
			func(c *Config) { c.Buffer = Buffer{Total: 1e6, Alpha: math.NaN()} },
			func(c *Config) { c.Buffer = Buffer{Total: 1e6, Alpha: math.Inf(1)} },
		},
		"Buffer.Queue":    {func(c *Config) { c.Buffer.Queue = 100 }, func(c *Config) { c.Buffer.Queue = -1 }},
		"Buffer.XOFF":     {func(c *Config) { c.Buffer.XOFF = -1 }},
		"Buffer.XON":      {func(c *Config) { c.Buffer.XON = -1 }},
		"Buffer.Headroom": {func(c *Config) { c.Buffer.Headroom = -1 }},
		"Buffer.Pool":     {func(c *Config) { c.Buffer.Pool = -1 }},
		"Buffer.Reserve":  {func(c *Config) { c.Buffer.Reserve = -1 }},
		"Pausing.Up": {
			func(c *Config) { c.Variant = PPFC }, func(c *Config) { c.Pausing.Up = make([]uint64, 8) },
			func(c *Config) { c.Pausing.Up = []uint64{0} }, func(c *Config) { c.Pausing.Up = []uint64{5, 5} },
			func(c *Config) { c.Pausing.Up = []uint64{5, 4} },
		},
		"Pausing.Down": {
			func(c *Config) { c.Pausing.Down = []uint64{1} },
			func(c *Config) { c.Pausing.Up, c.Pausing.Down = []uint64{1, 2}, []uint64{1, 3} },
			func(c *Config) { c.Pausing.Up, c.Pausing.Down = []uint64{1, 3}, []uint64{1, 0} },
		},
		"Pausing.From.Alarm": {func(c *Config) { c.Pausing.From = congested.PauseFrom{Alarm: 8} }},
		"Pausing.From.Hold":  {func(c *Config) { c.Pausing.From = congested.PauseFrom{Hold: 8} }},
		"Pausing.From.Stop":  {func(c *Config) { c.Pausing.From = congested.PauseFrom{Stop: 8} }},
		"Pausing.For": {
			func(c *Config) { c.Pausing.For = 1 }, func(c *Config) { c.Pausing.For = -time.Second },
			func(c *Config) { c.Pausing.For = time.Second },
		},
		"Pausing.Interval": {func(c *Config) { c.Pausing.Interval = -1 }},
		"Pausing.Most":     {func(c *Config) { c.Pausing.Most = -1 }},
		"TraceHops":        {func(c *Config) { c.TraceHops = -1 }, func(c *Config) { c.TraceHops = 9 }},
		"Incapable":        {func(c *Config) { c.Incapable = -1 }},
		"Labels":           {func(c *Config) { c.Labels = -1 }, func(c *Config) { c.Labels = 1 << 20 }},
		"Idle":             {func(c *Config) { c.Idle = -1 }},
		"Forget":           {func(c *Config) { c.Forget = -1 }},
		"Pipeline":         {func(c *Config) { c.Pipeline = -1 }, func(c *Config) { c.Pipeline = sim.Never }},
		"SwitchDelay":      {func(c *Config) { c.SwitchDelay = -1 }},
		"ProxyDelay":       {func(c *Config) { c.ProxyDelay = -1 }},
		"EdgeDelay":        {func(c *Config) { c.EdgeDelay = -1 }},
		"PauseDelay":       {func(c *Config) { c.PauseDelay = -1 }},
		"ReceiverDelay":    {func(c *Config) { c.ReceiverDelay = -1 }},
		"SenderDelay":      {func(c *Config) { c.SenderDelay = sim.Never }},
		"Timeout":          {func(c *Config) { c.Timeout = -1 }},
		"Buffer.Watchdog":  {func(c *Config) { c.Buffer.Watchdog = -1 }},
		"NoticeLoss":       {func(c *Config) { c.NoticeLoss = -0.1 }, func(c *Config) { c.NoticeLoss = math.NaN() }},
		"SwitchLimit.PerSecond": {
			func(c *Config) { c.SwitchLimit.PerSecond = -1 }, func(c *Config) { c.SwitchLimit.PerSecond = math.Inf(1) },
		},
		"HostLimit.Burst": {func(c *Config) { c.HostLimit = node.Rate{PerSecond: 1, Burst: -1} }},
		"Interval":        {func(c *Config) { c.Interval = -1 }, func(c *Config) { c.Variant = CNPPolled }},
		"Join":            {func(c *Config) { c.Join = -1 }, func(c *Config) { c.Join = math.MaxInt64 }},
		"Window": {
			func(c *Config) { c.Window = -1 }, func(c *Config) { c.Window = 1 << 51 },
			func(c *Config) { c.Window = 1023 },
			func(c *Config) { c.Window, c.AckEvery = 4*1024-1, 4 },
		},
		"AckEvery":             {func(c *Config) { c.AckEvery = -1 }},
		"DataPriority":         {func(c *Config) { c.DataPriority = 8 }},
		"AckPriority":          {func(c *Config) { c.AckPriority = 9 }},
		"NotificationPriority": {func(c *Config) { c.NotificationPriority = 255 }},
	}
	for _, key := range slices.Sorted(maps.Keys(wrong)) {
		for i, change := range wrong[key] {
			var cfg Config
			change(&cfg)
			_, err := New(cfg)
			var wrong *ConfigError
			require.ErrorAs(t, err, &wrong, "%s, %d", key, i)
			require.Equal(t, key, wrong.Key, "%s, %d: %v", key, i, err)
			require.Regexp(t, "^lab: "+regexp.QuoteMeta(key)+": .+: want .+", err.Error())
		}
	}
	// Each field that holds an amount is in the table.
	named := func(key string) bool {
		is := func(k string) bool { return k == key || strings.HasPrefix(k, key+".") }
		return slices.ContainsFunc(slices.Collect(maps.Keys(wrong)), is)
	}
	var checkFields func(prefix string, of reflect.Type)
	checkFields = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			switch key := prefix + field.Name; {
			case field.Type.Kind() == reflect.Func || field.Type.Kind() == reflect.Bool || key == "Seed":
			case key == "RED" || key == "Buffer" || key == "Pausing":
				checkFields(key+".", field.Type)
			default:
				require.True(t, named(key), "nothing says that %s is checked", key)
			}
		}
	}
	checkFields("", reflect.TypeFor[Config]())
}

// A reaction point that is none is an error of the flow, and one that wants no rate at all sends as good as nothing.
func TestWrongControl(t *testing.T) {
	cfg := dcqcn(CNP)
	cfg.Control = func(uint64) Control { return nil }
	n, _ := star(cfg, 1, 100*sim.Gbps, 0)
	_, err := n.Flow(n.Hosts()[0], n.Hosts()[1], 0)
	require.EqualError(t, err, "lab: Control: <nil>: want a reaction point")

	cfg.Control = func(uint64) Control { return idle{} }
	n, _ = star(cfg, 1, 100*sim.Gbps, 0)
	must(n.Flow(n.Hosts()[0], n.Hosts()[1], 0)).Endless()
	n.Until(sim.Second)
	require.NoError(t, n.Check())
	require.EqualValues(t, 1, n.Counts().Packets)
}

// idle wants no rate.
type idle struct{ Control }

func (idle) Rate() uint64                { return 0 }
func (idle) Next() (_ time.Time, _ bool) { return }
func (idle) Advance(time.Time)           {}
func (idle) Sent(uint64, time.Time)      {}

// fill sets the fields of a struct to values that octets select: mostly such as may run, sometimes wrong ones.
func fill(v reflect.Value, octets *[]byte) {
	next := func() (b byte) {
		if len(*octets) > 0 {
			b, *octets = (*octets)[0], (*octets)[1:]
		}
		return b
	}
	ints := []int64{0, 0, 1, 2, 4, 6, 8, 64, 1000, 1024, 2000, 3000, 4096, 8192, 50_000, 400_000, 1e6, 2e6, 1e9, 1e12,
		1 << 20, 1 << 31, 1 << 45, 1 << 51, math.MaxInt64, math.MinInt64, -1, -1e12}
	floats := []float64{0, 0, 0.1, 0.5, 1, 2, 64, 1e6, 1e300, -1, math.NaN(), math.Inf(1)}
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			fill(f, octets)
		case reflect.Bool:
			f.SetBool(next()%2 != 0)
		case reflect.Uint8:
			f.SetUint(uint64(next() % 16))
		case reflect.Uint64:
			f.SetUint(uint64(next()))
		case reflect.Int, reflect.Int64:
			f.SetInt(ints[int(next())%len(ints)])
		case reflect.Float64:
			f.SetFloat(floats[int(next())%len(floats)])
		case reflect.Slice:
			for range next() % 9 {
				f.Set(reflect.Append(f, reflect.ValueOf(uint64(next())*1000)))
			}
		}
	}
}

// No Config panics: New rejects it, or the network runs and its counts add up.
func FuzzConfig(f *testing.F) {
	for v := range byte(Variants) {
		f.Add([]byte{1, v, 14, 15, 3}, v)
		f.Add([]byte{1, v, 14, 15, 3, 0, 16, 4, 14, 1, 12, 3, 14, 0, 0, 9, 2, 50, 200, 2, 20, 100, 0, 1, 2, 16, 10, 0},
			v)
	}
	f.Fuzz(func(t *testing.T, octets []byte, other byte) {
		var cfg Config
		fill(reflect.ValueOf(&cfg).Elem(), &octets)
		cfg.HPCC = hpccOf(10 * time.Microsecond)
		if other%2 == 0 {
			cfg.Reaction = reaction.PaperDCQCN
		}
		n, err := New(cfg)
		if err != nil {
			return
		}
		near, router, far := n.PE(), n.Router(), n.PE()
		for range 3 {
			n.Link(n.Host(), near, 100*sim.Gbps, 100*sim.Nanosecond)
		}
		n.Link(near, router, 200*sim.Gbps, 0)
		n.Link(router, far, 40*sim.Gbps, µs)
		n.Link(n.Host(), far, 100*sim.Gbps, µs)
		for _, h := range n.Hosts()[:3] {
			f, err := n.Flow(h, n.Hosts()[3], 0)
			if err != nil {
				t.Fatal(err)
			}
			f.Post(1 << 20)
		}
		n.ensureRoutes()
		n.Sim.Part(300*µs, 20_000)
		if err := n.Check(); err != nil {
			t.Fatalf("%v: %+v", err, cfg)
		}
	})
}
