package pfc

import (
	"encoding"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var (
	_ encoding.BinaryAppender = PFC{}
	_ encoding.BinaryAppender = Pause{}
	_ fmt.Stringer            = PFC{}
	_ fmt.Stringer            = Pause{}
)

const header = `0180c2000001 001122334455 8808`

var src = [6]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55}

var pfcs = []struct {
	name, octets string // octets from the opcode on
	want         PFC
	text         string
}{
	// Priority 3 pauses for the longest time, priority 4 resumes.
	{"worked", `0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`,
		PFC{Enabled: 0x18, Quanta: [8]uint16{3: 65535}}, "PFC 3=65535 4=0"},
	{"all", `0101 00ff 0001 0002 0003 0004 0005 0006 0007 0008`,
		PFC{Enabled: 0xFF, Quanta: [8]uint16{1, 2, 3, 4, 5, 6, 7, 8}}, "PFC 0=1 1=2 2=3 3=4 4=5 5=6 6=7 7=8"},
	{"none", `0101 0000 0000 0000 0000 0000 0000 0000 0000 0000`, PFC{}, "PFC"},
	{"reserved bits, a time that means nothing", `0101 a580 1234 0000 0000 0000 0000 0000 0000 5678`,
		PFC{Enabled: 0xA580, Quanta: [8]uint16{0: 0x1234, 7: 0x5678}}, "PFC 7=22136"},
}

var pauses = []struct {
	octets string
	want   Pause
	text   string
}{
	{`0001 ffff`, Pause{65535}, "PAUSE 65535"},
	{`0001 0000`, Pause{}, "PAUSE 0"},
	{`0001 1234`, Pause{0x1234}, "PAUSE 4660"},
}

func TestPFC(t *testing.T) {
	for _, c := range pfcs {
		t.Run(c.name, func(t *testing.T) {
			wire := wiretest.Hex(t, c.octets)
			wiretest.Encodes(t, wire, c.want.AppendBinary)
			b := wiretest.Must(c.want.AppendBinary(nil))(t)
			require.Equal(t, wire, b)
			p := PFC{Enabled: 1, Quanta: [8]uint16{9, 9, 9, 9, 9, 9, 9, 9}}
			was := p
			wiretest.Prefixes(t, wire, func(b []byte) error {
				_, err := p.Decode(b)
				return err
			})
			require.Equal(t, was, p)
			rest := wiretest.Must(p.Decode(append(wire, 1, 2)))(t)
			require.Equal(t, []byte{1, 2}, rest)
			require.Equal(t, c.want, p)
			require.Equal(t, c.text, p.String())
			wiretest.NoAllocs(t, "Decode", func() { _, _ = p.Decode(wire) })
			wiretest.NoAllocs(t, "All", func() {
				for range p.All() {
					break
				}
			})

			frame := append(wiretest.Hex(t, header), wire...)
			frame = append(frame, make([]byte, 60-len(frame))...)
			wiretest.Encodes(t, frame, func(b []byte) ([]byte, error) { return p.AppendFrame(b, src), nil })
		})
	}
}

func TestPause(t *testing.T) {
	for _, c := range pauses {
		t.Run(c.octets, func(t *testing.T) {
			wire := wiretest.Hex(t, c.octets)
			wiretest.Encodes(t, wire, c.want.AppendBinary)
			b := wiretest.Must(c.want.AppendBinary(nil))(t)
			require.Equal(t, wire, b)
			p := Pause{7}
			wiretest.Prefixes(t, wire, func(b []byte) error {
				_, err := p.Decode(b)
				return err
			})
			require.Equal(t, Pause{7}, p)
			rest := wiretest.Must(p.Decode(append(wire, 1, 2)))(t)
			require.Equal(t, []byte{1, 2}, rest)
			require.Equal(t, c.want, p)
			require.Equal(t, c.text, p.String())
			wiretest.NoAllocs(t, "Decode", func() { _, _ = p.Decode(wire) })

			frame := append(wiretest.Hex(t, header), wire...)
			frame = append(frame, make([]byte, 60-len(frame))...)
			wiretest.Encodes(t, frame, func(b []byte) ([]byte, error) { return p.AppendFrame(b, src), nil })
		})
	}
}

// PFC and Pause reject each other's frames and other MAC control frames.
func TestOtherOpcodes(t *testing.T) {
	for _, octets := range []string{`0002 0000 0000 0000 0000 0000 0000 0000 0000 0000`, `ffff`, `0100 0000`} {
		b := wiretest.Hex(t, octets)
		_, err := new(PFC).Decode(b)
		require.ErrorIs(t, err, errOpcode)
		_, err = new(Pause).Decode(b)
		require.ErrorIs(t, err, errOpcode)
		require.ErrorIs(t, err, wireerr.Other)
	}
	_, err := new(Pause).Decode(wiretest.Hex(t, pfcs[0].octets))
	require.ErrorIs(t, err, errOpcode)
	_, err = new(PFC).Decode(wiretest.Hex(t, pauses[0].octets))
	require.ErrorIs(t, err, errOpcode)
	wiretest.NoAllocs(t, "refusing", func() { _, _ = new(PFC).Decode(nil) })
}

func TestValidate(t *testing.T) {
	require.NoError(t, pfcs[0].want.Validate())
	require.NoError(t, PFC{}.Validate())
	require.ErrorIs(t, PFC{Enabled: 0x100}.Validate(), errEnabledReserved)
	require.ErrorIs(t, PFC{Enabled: 2, Quanta: [8]uint16{1}}.Validate(), errTimeUnused)
	require.NotErrorIs(t, PFC{Enabled: 1, Quanta: [8]uint16{1}}.Validate(), errTimeUnused)
	both := pfcs[3].want.Validate()
	require.ErrorIs(t, both, errEnabledReserved)
	require.ErrorIs(t, both, errTimeUnused)
}

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		quanta uint16
		speed  uint64
		want   time.Duration
	}{
		{1, 10_000_000, 51200},
		{65535, 100_000_000_000, 335539}, // 335.5392 µs
		{65535, 400_000_000_000, 83884},
		{1000, 25_000_000_000, 20480},
		{0, 1, 0},
		{1, 0, 0},
		{65535, 1, 33553920 * time.Second},
		{1, math.MaxUint64, 0},
		{1, 512_000_000_000, 1},
		{1, 800_000_000_000, 0}, // 0.64 ns
	} {
		require.Equal(t, c.want, Duration(c.quanta, c.speed), c)
	}
}

func TestQuanta(t *testing.T) {
	for _, c := range []struct {
		name  string
		d     time.Duration
		speed uint64
		want  uint16
		ok    bool
	}{
		{"one quantum", 51200, 10_000_000, 1, true},
		{"rounded up", 51201, 10_000_000, 2, true},
		{"shorter than a quantum", 1, 10_000_000, 1, true},
		{"100 µs", 100 * time.Microsecond, 100_000_000_000, 19532, true}, // 19531.25
		{"the longest that fits", 335539, 100_000_000_000, 65535, true},  // 335.5392 µs are 65535 quanta
		{"one nanosecond more", 335540, 100_000_000_000, 65535, false},
		{"an hour", time.Hour, 100_000_000_000, 65535, false},
		{"most", math.MaxInt64, math.MaxUint64, 65535, false},
		{"a stop of 0 is no resume", 0, 1e9, 1, true},
		{"negative", -1, 1e9, 1, true},
		{"no speed", time.Second, 0, 65535, false},
		{"no speed, shortest", 1, 0, 65535, false},
		{"no speed, 0", 0, 0, 65535, false},
		{"product over 64 bits", 1 << 62, 4 * 512e9, 65535, false}, // 512e9 times 2^64
		{"most negative, no overflow", math.MinInt64, 512e9, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			quanta, ok := Quanta(c.d, c.speed)
			require.Equal(t, c.want, quanta)
			require.Equal(t, c.ok, ok)
		})
	}
}

// tshark decodes the same values.
func TestTshark(t *testing.T) {
	fields := []string{"eth.dst", "eth.src", "macc.opcode", "macc.pause_time", "macc.cbfc.enbv", "_ws.malformed"}
	for i := range 8 {
		fields = append(fields, fmt.Sprintf("macc.cbfc.pause_time.c%d", i), fmt.Sprintf("macc.cbfc.enbv.c%d", i))
	}
	var frames [][]byte
	for _, c := range pfcs {
		t.Run(c.name, func(t *testing.T) {
			frames = append(frames, c.want.AppendFrame(nil, src))
		})
	}
	for _, c := range pauses {
		t.Run(c.octets, func(t *testing.T) {
			frames = append(frames, c.want.AppendFrame(nil, src))
		})
	}
	rows := wiretest.TsharkFields(t, fields, frames...)
	for _, row := range rows {
		require.Equal(t, "01:80:c2:00:00:01", row.Get("eth.dst"))
		require.Equal(t, "00:11:22:33:44:55", row.Get("eth.src"))
		require.False(t, row.Has("_ws.malformed"))
	}
	for i, c := range pfcs {
		t.Run(c.name, func(t *testing.T) {
			row := rows[i]
			require.EqualValues(t, 0x0101, row.Uint("macc.opcode"))
			require.EqualValues(t, c.want.Enabled, row.Uint("macc.cbfc.enbv"))
			for n, quanta := range c.want.Quanta {
				require.EqualValues(t, quanta, row.Uint(fmt.Sprintf("macc.cbfc.pause_time.c%d", n)))
				enabled := false
				for priority := range c.want.All() {
					enabled = enabled || priority == n
				}
				require.Equal(t, enabled, row.Bool(fmt.Sprintf("macc.cbfc.enbv.c%d", n)))
			}
		})
	}
	for i, c := range pauses {
		t.Run(c.octets, func(t *testing.T) {
			row := rows[len(pfcs)+i]
			require.EqualValues(t, 0x0001, row.Uint("macc.opcode"))
			require.EqualValues(t, c.want.Quanta, row.Uint("macc.pause_time"))
		})
	}
}

// Octets that decode as a PFC or PAUSE frame are encoded to the same octets.
func FuzzDecode(f *testing.F) {
	for _, c := range pfcs {
		f.Add(wiretest.Hex(f, c.octets))
	}
	for _, c := range pauses {
		f.Add(wiretest.Hex(f, c.octets))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p PFC
		var pause Pause
		rest, err := p.Decode(b)
		if err == nil {
			again, _ := p.AppendBinary(nil)
			require.Equal(t, b[:len(b)-len(rest)], again)
			_ = p.Validate()
			_ = p.String()
		}
		rest, pauseErr := pause.Decode(b)
		if pauseErr == nil {
			again, _ := pause.AppendBinary(nil)
			require.Equal(t, b[:len(b)-len(rest)], again)
		}
		require.False(t, err == nil && pauseErr == nil)
	})
}

func BenchmarkPFC(b *testing.B) {
	wire := wiretest.Hex(b, pfcs[0].octets)
	b.Run("decode", func(b *testing.B) {
		var p PFC
		b.ReportAllocs()
		for b.Loop() {
			_, _ = p.Decode(wire)
		}
	})
	b.Run("frame", func(b *testing.B) {
		buf := make([]byte, 0, minFrame)
		b.ReportAllocs()
		for b.Loop() {
			buf = pfcs[0].want.AppendFrame(buf[:0], src)
		}
	})
}
