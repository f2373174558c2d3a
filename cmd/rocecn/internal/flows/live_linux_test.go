package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// A notice is a buffer that says when something is in it.
type notice struct {
	bytes.Buffer
	written atomic.Bool
}

func (n *notice) Write(b []byte) (int, error) {
	n.written.Store(true)
	return n.Buffer.Write(b)
}

// Intervals of a live capture are printed while it goes on, also when nothing
// comes any more, and the interrupt is its end.
func TestLive(t *testing.T) {
	wiretest.Namespace(t, `link add near type veth peer name far
		link set near up
		link set far up`)
	near := wiretest.Must(net.InterfaceByName("near"))(t)
	socket := wiretest.NewSocket(t, near.Index)
	send := func(done func() bool) {
		made := traffic.Generate(1, traffic.Options{Clean: true})
		for !done() { // the capture may not have begun yet
			for _, f := range made.Frames {
				if len(f.Data) <= 1514 {
					socket.Send(t, f.Data)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	var out notice
	go func() {
		defer interrupt()
		send(func() bool { return out.written.Load() || ctx.Err() != nil })
	}()
	var stderr bytes.Buffer
	require.Zero(t, Run(ctx, []string{"-json", "-interval", "100ms", "-i", "far"}, nil, &out, &stderr))
	require.Contains(t, stderr.String(), "0 dropped by the kernel")
	var first map[string]any
	line, _, _ := strings.Cut(out.String(), "\n")
	require.NoError(t, json.Unmarshal([]byte(line), &first))
	require.Contains(t, first, "interval")
	require.Equal(t, 1, Run(context.Background(), []string{"-i", "none"}, nil, &out, &stderr))
	require.Contains(t, stderr.String(), "no such interface")

	// Without intervals, a line reports the capture before its end.
	stopped, stop := context.WithCancel(t.Context())
	begun := make(chan struct{})
	both := &output{line: begun}
	go func() {
		<-begun
		stop()
	}()
	require.Zero(t, Run(stopped, []string{"-i", "far"}, nil, both, both), both)
	require.Contains(t, both.String(), "capturing until interrupted")

	// rocecn top shows the same packets, and counts the dropped ones.
	out.Reset()
	stderr.Reset()
	var shown atomic.Bool
	sent := make(chan struct{})
	go func() {
		send(shown.Load)
		close(sent)
	}()
	require.Zero(t, Top(t.Context(), []string{"-interval", "50ms", "-n", "3", "-i", "far"}, nil, &out, &stderr))
	shown.Store(true)
	<-sent
	require.Equal(t, 3, strings.Count(out.String(), "rocecn top far, 50ms from "))
	require.Contains(t, out.String(), "192.0.2.1 > 192.0.2.2")
	require.Contains(t, out.String(), "0 dropped by the kernel")
	require.Contains(t, stderr.String(), "0 dropped by the kernel")
}

// Intervals of samples from an interface are printed, also without further datagrams, and packets dropped by the kernel
// are reported.
func TestSFlowLive(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	ctx, interrupt := context.WithTimeout(t.Context(), wiretest.Timeout)
	defer interrupt()
	first := make(chan struct{})
	out := &output{line: first}
	go func() {
		<-first
		interrupt()
	}()
	require.Zero(t, Run(ctx, []string{"-json", "-sflow", ":6343", "-interval", "1ms", "-i", "lo"}, nil, out, out))
	require.Equal(t, context.Canceled, ctx.Err())
	require.Contains(t, out.String(), `"datagrams":0`)
	var b bytes.Buffer
	cli.PrintDropped(&b, "flows", 0, "packet")
	cli.PrintDropped(&b, "flows", 7, "packet")
	require.Equal(t, "rocecn flows: 7 packets dropped by the kernel\n", b.String())
}
