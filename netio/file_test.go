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

// A role can run on captures: they are its sources, and the packets that it sends go into another capture.
func TestFile(t *testing.T) {
	frames := wiretest.Capture(t, "messages.pcap")
	file := func() FileSource {
		b := wiretest.Must(os.ReadFile(wiretest.Path(t, "messages.pcap")))(t)
		return wiretest.Must(OpenFile(bytes.NewReader(b)))(t)
	}
	var out bytes.Buffer
	second := file()
	sink := wiretest.Must(second.Sink(&out, capture.Ethernet))(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := wiretest.Must(NewPoll(ctx, file(), second))(t)
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
		require.Equal(t, f.Time.UTC(), r.Time)
	}

	p = wiretest.Must(NewPoll(ctx, file()))(t)
	defer p.Close()
	_, _, err = p.Next(-1)
	require.NoError(t, err)
	cancel() // in the middle
	_, _, err = p.Next(-1)
	require.Equal(t, io.EOF, err)
}

// Run calls the function with each packet and sends the packets that it appends. Run ends with the sources, with a
// source that fails, or with the context.
func TestRun(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "messages.pcap")))(t)
	file := func(n int) FileSource {
		return wiretest.Must(OpenFile(bytes.NewReader(octets[:n])))(t)
	}
	frames := wiretest.Capture(t, "messages.pcap")
	first, second := file(len(octets)), file(len(octets))
	var written bytes.Buffer
	out := wiretest.Must(first.Sink(&written, capture.Ethernet))(t)
	counts := [2]int{}
	require.NoError(t, Run(t.Context(), out, func(b []byte, source int, p *Packet) []byte {
		require.Empty(t, b)
		counts[source]++
		if source == 0 {
			b = append(b, p.Data...)
		}
		return b
	}, first, second))
	require.Equal(t, [2]int{len(frames), len(frames)}, counts)
	sent := wiretest.Must(capture.Open(&written))(t)
	for r, err := range capture.All(sent) {
		require.NoError(t, err)
		require.Equal(t, frames[0].Data, r.Data)
		frames = frames[1:]
	}
	require.Empty(t, frames)

	n := 0
	count := func(b []byte, _ int, _ *Packet) []byte {
		n++
		return b
	}
	require.ErrorContains(t, Run(t.Context(), nil, count, file(len(octets)-1)), "the file ends early")
	require.Positive(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	n = 0
	require.NoError(t, Run(ctx, nil, func(b []byte, _ int, _ *Packet) []byte {
		n++
		cancel()
		return b
	}, file(len(octets))))
	require.Equal(t, 1, n)

	failing := wiretest.Must(file(len(octets)).Sink(&failing{after: 1}, capture.Ethernet))(t)
	require.NoError(t, Run(t.Context(), failing, func(b []byte, _ int, p *Packet) []byte {
		return append(b, p.Data...)
	}, file(len(octets))))
	require.EqualValues(t, counts[0], failing.Failed())
}

// A damaged capture ends at the damage: the octets after it are not read.
func TestDamagedFileEnds(t *testing.T) {
	var b bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&b, capture.Ethernet, time.Microsecond))(t)
	for range 3 {
		require.NoError(t, w.Write(&capture.Record{Data: make([]byte, 60)}))
	}
	copy(b.Bytes()[24+16+60+8:], "\xFF\xFF\xFF\xFF") // the captured length of the second
	f := wiretest.Must(OpenFile(&b))(t)
	p := wiretest.Must(NewPoll(t.Context(), f))(t)
	defer p.Close()
	_, packets, err := p.Next(-1)
	require.NoError(t, err)
	require.Len(t, packets, 1)
	_, packets, err = p.Next(-1)
	require.ErrorContains(t, err, "record 2")
	require.Empty(t, packets)
	for range 3 {
		_, packets, err = p.Next(-1)
		require.Equal(t, io.EOF, err)
		require.Empty(t, packets)
	}
}

// A source that is away comes back, and there is something to do meanwhile.
func TestLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	away := &flapping{}
	var written bytes.Buffer
	out := wiretest.Must(new(fileSource).Sink(&written, capture.Raw))(t)
	received, ticks := 0, 0
	l := &Loop{
		Out: out,
		Receive: func(b []byte, _ int, _ *Packet) []byte {
			received++
			return b
		},
		Every: time.Millisecond,
		Tick: func(time.Time) {
			require.NoError(t, out.Send([]byte{1}))
			if ticks++; ticks == 5 && received == 1 {
				cancel()
			}
		},
	}
	require.NoError(t, l.Run(ctx, away))
	require.Equal(t, 5, ticks)
	require.Equal(t, 1, received)
	require.Equal(t, 24+5*(16+1), written.Len())
}

// A flapping source is away first, then gives a packet, and then nothing.
type flapping struct {
	fileSource
	reads int
}

func (f *flapping) Read() ([]Packet, error) {
	f.reads++
	switch {
	case f.stopped:
		return nil, io.EOF
	case f.reads == 1:
		return nil, ErrAway
	case f.reads == 2:
		return make([]Packet, 1), nil
	}
	return nil, nil
}

// A sink that cannot write says so, each time.
func TestFileSinkFails(t *testing.T) {
	sink := wiretest.Must(new(fileSource).Sink(&failing{after: 1}, capture.Raw))(t)
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
