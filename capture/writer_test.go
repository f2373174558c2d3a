package capture

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestWriter(t *testing.T) {
	for _, c := range []struct {
		unit        time.Duration
		magic, time string
	}{
		{time.Microsecond, "d4c3b2a1", "b9c4016b 60720700"}, // 488032 µs
		{time.Nanosecond, "4d3cb2a1", "b9c4016b f5c9161d"},  // 488032757 ns
	} {
		var b bytes.Buffer
		w := wiretest.Must(NewWriter(&b, Raw, c.unit))(t)
		when := time.Unix(0x6B01C4B9, 488032757)
		require.NoError(t, w.Write(&Record{Data: []byte("abc"), OrigLen: 4, Time: when, Unit: time.Hour,
			Link: Ethernet}))
		require.NoError(t, w.Write(&Record{}))
		require.NoError(t, w.Write(&Record{Time: time.Unix(math.MaxUint32, 0)}))
		require.NoError(t, w.Write(&Record{Time: time.Unix(math.MaxUint32+1, 0)}))
		require.Equal(t, wiretest.Hex(t, c.magic+"0200 0400 00000000 00000000 00000400 65000000"+
			c.time+"03000000 04000000 616263"+
			"00000000 00000000 00000000 00000000"+
			"ffffffff 00000000 00000000 00000000"+
			"00000000 00000000 00000000 00000000"), b.Bytes())
	}
}

// A Writer rejects values that pcap cannot represent. A Reader accepts everything that it writes.
func TestWriterRejects(t *testing.T) {
	for _, unit := range []time.Duration{0, -1, time.Millisecond, time.Second} {
		var b bytes.Buffer
		_, err := NewWriter(&b, Raw, unit)
		require.ErrorIs(t, err, errUnit)
		require.Zero(t, b.Len())
	}
	var b bytes.Buffer
	w := wiretest.Must(NewWriter(&b, Raw, time.Microsecond))(t)
	require.ErrorIs(t, w.Write(&Record{Data: make([]byte, 256<<10+1)}), errPacket)
	require.NoError(t, w.Write(&Record{Data: make([]byte, 256<<10)}))
	in := wiretest.Must(Open(&b))(t)
	var r Record
	require.NoError(t, in.Next(&r))
	require.Len(t, r.Data, 256<<10)
	require.Equal(t, io.EOF, in.Next(&r))
}

// failing fails from the second write on.
type failing struct{ writes int }

var errFull = errors.New("no space left")

func (f *failing) Write(b []byte) (int, error) {
	if f.writes++; f.writes > 1 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriterFails(t *testing.T) {
	_, err := NewWriter(&failing{writes: 1}, Ethernet, time.Microsecond)
	require.ErrorIs(t, err, errFull)
	w := wiretest.Must(NewWriter(&failing{}, Ethernet, time.Microsecond))(t)
	require.ErrorIs(t, w.Write(&Record{}), errFull)
}

// writePcapng writes the capture that TestPcapngWriter has in octets.
func writePcapng(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := wiretest.Must(NewPcapngWriter(&b))(t)
	eth := wiretest.Must(w.AddInterface(Interface{Link: Ethernet, Name: "eth0", Comment: "left"}))(t)
	when := time.Unix(0x6B01C4B9, 488032757)
	require.NoError(t, w.Write(eth, &Record{Data: []byte("abcde"), OrigLen: 9, Time: when, Link: Raw}, "first"))
	raw := wiretest.Must(w.AddInterface(Interface{Link: Raw, Unit: time.Microsecond}))(t)
	require.Equal(t, []int{0, 1}, []int{eth, raw})
	require.NoError(t, w.Write(raw, &Record{Data: []byte("abcd"), Time: when}, ""))
	return b.Bytes()
}

// The octets were put together by hand from draft-ietf-opsawg-pcapng, sections 4.1 to 4.3.
func TestPcapngWriter(t *testing.T) {
	const (
		section = "0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000"
		eth     = "01000000 30000000 0100 0000 00000400" +
			"0100 0400 6c656674" + "0200 0400 65746830" + "0900 0100 09000000" + "00000000" + "30000000"
		raw = "01000000 20000000 6500 0000 00000400" + "0900 0100 06000000" + "00000000" + "20000000"
	)
	ticks := func(n uint64) []byte {
		return le.AppendUint32(le.AppendUint32(nil, uint32(n>>32)), uint32(n))
	}
	var want []byte
	for _, part := range [][]byte{
		wiretest.Hex(t, section+eth+"06000000 38000000 00000000"), ticks(1795278009_488032757),
		wiretest.Hex(t, "05000000 09000000 6162636465 000000"+"0100 0500 6669727374 000000"+"00000000"+"38000000"),
		wiretest.Hex(t, raw+"06000000 24000000 01000000"), ticks(1795278009_488032),
		wiretest.Hex(t, "04000000 04000000 61626364"+"24000000"),
	} {
		want = append(want, part...)
	}
	require.Equal(t, want, writePcapng(t))
}

// tshark reads link types, names, times, lengths and comments.
func TestPcapngWriterTshark(t *testing.T) {
	tshark := wiretest.Tool(t, "tshark")
	name := wiretest.File(t, "x.pcapng", writePcapng(t))
	out := wiretest.Must(exec.Command(tshark, "-n", "-r", name, "-T", "fields", "-e", "frame.interface_name",
		"-e", "frame.interface_description", "-e", "frame.time_epoch", "-e", "frame.cap_len", "-e", "frame.len",
		"-e", "frame.encap_type", "-e", "frame.comment").Output())(t)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, lines, 2)
	first, second := strings.Split(lines[0], "\t"), strings.Split(lines[1], "\t")
	require.Equal(t, []string{"eth0", "", "1795278009.488032757", "5", "9", "1", "first"}, first)
	require.Equal(t, "1795278009.488032", strings.TrimRight(second[2], "0"))
	require.Equal(t, []string{"4", "4", "7", ""}, second[3:])
}

func TestPcapngWriterLimits(t *testing.T) {
	var b bytes.Buffer
	w := wiretest.Must(NewPcapngWriter(&b))(t)
	header := b.Len()
	for _, c := range []struct {
		name string
		i    Interface
		err  error
	}{
		{"link type", Interface{Link: 1 << 16}, errLinkType},
		{"unit", Interface{Unit: time.Millisecond}, errUnit},
		{"name", Interface{Name: strings.Repeat("x", 65533)}, errLongText},
		{"comment", Interface{Comment: strings.Repeat("x", 65533)}, errLongText},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.AddInterface(c.i)
			require.ErrorIs(t, err, c.err)
		})
	}
	require.ErrorIs(t, w.Write(0, &Record{}, ""), errNoInterface)
	require.ErrorIs(t, w.Write(-1, &Record{}, ""), errNoInterface)
	n := wiretest.Must(w.AddInterface(Interface{Link: Raw, Name: strings.Repeat("n", 65532)}))(t)
	described := b.Len()
	require.ErrorIs(t, w.Write(n, &Record{Data: make([]byte, 256<<10+1)}, ""), errPacket)
	require.ErrorIs(t, w.Write(n, &Record{}, strings.Repeat("x", 65533)), errLongText)
	require.Equal(t, []int{28, described}, []int{header, b.Len()}, "nothing is written with an error")

	last := time.Unix(9223372035, 999999999).UTC() // the last whole second of 63 bits of nanoseconds
	for _, c := range []struct{ given, want time.Time }{
		{last, last}, {time.Unix(math.MaxInt64/int64(time.Second), 0), time.Unix(0, 0).UTC()},
		{time.Time{}, time.Unix(0, 0).UTC()},
	} {
		packet := Record{Data: make([]byte, 256<<10), Time: c.given}
		require.NoError(t, w.Write(n, &packet, strings.Repeat("c", 65532)))
		in, err := Open(bytes.NewReader(b.Bytes()))
		require.NoError(t, err)
		var r Record
		for err = in.Next(&r); err == nil; err = in.Next(&r) {
			require.Len(t, r.Data, 256<<10)
			require.Equal(t, Raw, r.Link)
			require.False(t, r.Truncated())
		}
		require.Equal(t, io.EOF, err)
		require.Equal(t, c.want, r.Time)
	}
}

// The time of a packet is written in units of its interface, as long as their number fits 63 bits. The octets are those
// of Timestamp (Upper) and (Lower) in draft-ietf-opsawg-pcapng, section 4.3.
func TestPcapngWriterTimes(t *testing.T) {
	for _, c := range []struct {
		name string
		unit time.Duration
		time time.Time
		want string
	}{
		{"nanoseconds in 2262", time.Nanosecond, time.Unix(9223372035, 0), "ffffff7f 005e7291"},
		{"nanoseconds in 2263", time.Nanosecond, time.Unix(9246182400, 0), "00000000 00000000"},
		{"microseconds in 2263", time.Microsecond, time.Unix(9246182400, 1000), "5ad92000 01007b99"},
		{"microseconds in 9999", time.Microsecond, time.Unix(253402300799, 999_999_999), "0c448403 ff5f73cc"},
		{"microseconds in 1969", time.Microsecond, time.Unix(-1, 0), "00000000 00000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			w := wiretest.Must(NewPcapngWriter(&b))(t)
			n := wiretest.Must(w.AddInterface(Interface{Link: Raw, Unit: c.unit}))(t)
			start := b.Len()
			require.NoError(t, w.Write(n, &Record{Time: c.time}, ""))
			require.Equal(t, wiretest.Hex(t, c.want), b.Bytes()[start+12:start+20])
		})
	}
}
