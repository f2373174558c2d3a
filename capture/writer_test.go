package capture

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
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
func TestWriterRefuses(t *testing.T) {
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
