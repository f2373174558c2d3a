package netio

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// A role can be rehearsed: captures are sources, and what it sends goes into one.
func TestFile(t *testing.T) {
	frames := wiretest.Capture(t, "messages.pcap")
	file := func() *File {
		b, err := os.ReadFile(wiretest.Path(t, "messages.pcap"))
		require.NoError(t, err)
		in, err := capture.Open(bytes.NewReader(b))
		require.NoError(t, err)
		return NewFile(in)
	}
	var out bytes.Buffer
	w, err := capture.NewWriter(&out, capture.Ethernet, time.Microsecond)
	require.NoError(t, err)
	sink := NewFileSink(w)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := NewPoll(ctx, file(), file())
	require.NoError(t, err)
	defer p.Close()
	counts := [2]int{}
	for {
		source, batch, err := p.Next(-1)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Len(t, batch, 1)
		require.Equal(t, frames[counts[source]].Data, batch[0].Data)
		counts[source]++
		if source == 1 {
			sink.Now = batch[0].Time
			require.NoError(t, sink.Send(batch[0].Data))
		}
	}
	require.Equal(t, [2]int{len(frames), len(frames)}, counts)
	require.NoError(t, sink.Flush())
	require.Zero(t, sink.Failed())
	in, err := capture.Open(&out)
	require.NoError(t, err)
	for _, f := range frames {
		var r capture.Record
		require.NoError(t, in.Next(&r))
		require.Equal(t, f.Data, r.Data)
		require.False(t, r.Time.IsZero())
	}

	p, err = NewPoll(ctx, file())
	require.NoError(t, err)
	defer p.Close()
	_, _, err = p.Next(-1)
	require.NoError(t, err)
	cancel() // in the middle
	_, _, err = p.Next(-1)
	require.Equal(t, io.EOF, err)
}

// A sink that cannot write says so, each time.
func TestFileSinkFails(t *testing.T) {
	w, err := capture.NewWriter(&failing{after: 1}, capture.Raw, time.Microsecond)
	require.NoError(t, err)
	sink := NewFileSink(w)
	require.Equal(t, io.ErrShortWrite, sink.Send([]byte{1}))
	require.Equal(t, io.ErrShortWrite, sink.Send([]byte{1}))
	require.EqualValues(t, 2, sink.Failed())
}

// A failing writer takes some writes.
type failing struct{ after int }

func (f *failing) Write(b []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}
