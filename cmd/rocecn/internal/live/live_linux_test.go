package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func goOn(int64) error { return nil }

const (
	packet   = " 86dd 6000000000003b40 00000000000000000000000000000000 00000000000000000000000000000000"
	macs     = "020000000001 020000000002"
	untagged = macs + packet
	tagged   = macs + " 8100 6007" + packet
	stacked  = macs + " 88a8 0009 8100 6007" + packet
)

// witness opens a capture and returns a function that waits until it has received a number of frames of a length. Linux
// delivers a frame to the captures of a device in turn, the last one opened first: a frame that the witness has was
// delivered to captures opened later.
func observeOutgoing(t *testing.T, device string) (saw func(octets, times int)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wiretest.Timeout)
	in := wiretest.Must(Open(ctx, device, goOn))(t)
	t.Cleanup(func() {
		in.Close()
		cancel()
	})
	var r capture.Record
	return func(octets, times int) {
		t.Helper()
		for times > 0 {
			require.NoError(t, in.Next(&r))
			if len(r.Data) == octets {
				times--
			}
		}
	}
}

// Frames sent at one end of the cable are captured at the other: octets, order, VLAN tags. The kernel passes the outer
// tag outside the frame.
func TestFrames(t *testing.T) {
	socket := wiretest.Cable(t)
	saw := observeOutgoing(t, "far")
	ctx, interrupt := context.WithCancel(t.Context())
	in, err := Open(ctx, "far", goOn)
	require.NoError(t, err)
	defer in.Close()
	before := time.Now().Add(-time.Minute)
	var r capture.Record
	for _, octets := range []string{untagged, tagged, stacked, untagged} {
		frame := wiretest.Hex(t, octets)
		socket.Send(t, frame)
		require.NoError(t, in.Next(&r))
		require.Equal(t, frame, r.Data)
		require.EqualValues(t, len(frame), r.OrigLen)
		require.False(t, r.Truncated())
		require.Equal(t, capture.Ethernet, r.Link)
		require.True(t, r.Time.After(before))
		require.Equal(t, time.UTC, r.Time.Location())
	}
	// Packets that the kernel has at the time of the interrupt are read.
	frame := wiretest.Hex(t, tagged)
	for range 100 {
		socket.Send(t, frame)
	}
	saw(len(frame), 101)
	interrupt()
	packets := 0
	for err = nil; err == nil; packets++ {
		err = in.Next(&r)
	}
	require.Equal(t, io.EOF, err)
	require.Equal(t, 101, packets)
	require.Zero(t, in.Dropped())
}

// A packet of the loopback device comes by twice, and is shown once.
func TestLoopback(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	saw := observeOutgoing(t, "lo")
	ctx, interrupt := context.WithCancel(t.Context())
	in := wiretest.Must(Open(ctx, "lo", goOn))(t)
	defer in.Close()
	c, err := net.Dial("udp4", "127.0.0.1:9")
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("once"))
	require.NoError(t, err)
	const octets = 14 + 20 + 8 + len("once") // an ICMP message about it has more
	saw(octets, 1)
	interrupt()
	var r capture.Record
	times := 0
	for err = in.Next(&r); err == nil; err = in.Next(&r) {
		if len(r.Data) == octets {
			times++
			require.True(t, bytes.HasSuffix(r.Data, []byte("once")))
		}
	}
	require.Equal(t, io.EOF, err)
	require.Equal(t, 1, times)
}

// If more frames arrive than the socket buffer holds before any is read, the kernel drops some and counts them.
func TestDropped(t *testing.T) {
	socket := wiretest.Cable(t)
	ctx, interrupt := context.WithCancel(t.Context())
	in := wiretest.Must(Open(ctx, "far", goOn))(t)
	defer in.Close()
	frame := append(wiretest.Hex(t, untagged), make([]byte, 1400)...)
	const sent = 40_000 // four times as many as there is room for
	for range sent {
		socket.Send(t, frame)
	}
	interrupt()
	var r capture.Record
	read := 0
	for in.Next(&r) == nil {
		read++
	}
	dropped := in.Dropped()
	require.NotZero(t, dropped)
	require.LessOrEqual(t, uint64(read)+dropped, uint64(sent)) // some do not get as far as the socket
}

// An interface that goes down or is removed ends the capture with an error, after the packets that the kernel has by
// then. After an interrupt it ends without an error.
func TestWentAway(t *testing.T) {
	for _, command := range []string{"link set far down", "link del far"} {
		for _, interrupted := range []bool{false, true} {
			t.Run(fmt.Sprint(command, " ", interrupted), func(t *testing.T) {
				socket := wiretest.Cable(t)
				saw := observeOutgoing(t, "far")
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				in := wiretest.Must(Open(ctx, "far", goOn))(t)
				defer in.Close()
				var r capture.Record
				frame := wiretest.Hex(t, untagged)
				socket.Send(t, frame)
				require.NoError(t, in.Next(&r))
				for range 100 {
					socket.Send(t, frame)
				}
				saw(len(frame), 101)
				want := netio.ErrAway
				if interrupted {
					interrupt()
					want = io.EOF
				}
				ip(t, command)
				for range 100 {
					require.NoError(t, in.Next(&r))
				}
				require.Equal(t, want, in.Next(&r))
			})
		}
	}
}

// ip runs a command of ip.
func ip(t *testing.T, command string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// Where the socket's error is lost, the look that an idle capture takes now and
// then tells that the interface is down.
func TestLook(t *testing.T) {
	wiretest.Cable(t)
	in := wiretest.Must(Open(t.Context(), "far", goOn))(t)
	defer in.Close()
	ip(t, "link set far down")
	lost := wiretest.Must(unix.GetsockoptInt(in.in.FD(), unix.SOL_SOCKET, unix.SO_ERROR))(t)
	require.EqualValues(t, unix.ENETDOWN, lost)
	require.Equal(t, netio.ErrAway, in.Next(new(capture.Record)))
}

// Its name may change while nothing comes; when it goes down, the look that the
// capture takes now and then is enough.
func TestRenamed(t *testing.T) {
	socket := wiretest.Cable(t)
	in := wiretest.Must(Open(t.Context(), "far", goOn))(t)
	defer in.Close()
	ip(t, "link set far name further")
	require.True(t, in.in.IsUp())
	socket.Send(t, wiretest.Hex(t, untagged))
	require.NoError(t, in.Next(new(capture.Record)))
	ip(t, "link set further down")
	require.False(t, in.in.IsUp())
	ip(t, "link del further")
	require.False(t, in.in.IsUp())
}

func TestOpen(t *testing.T) {
	wiretest.Namespace(t, `link set lo up
		link add name lower type veth peer name lowerpeer`)
	_, err := Open(t.Context(), "nowhere", goOn)
	require.Equal(t, netio.ErrNoInterface, err)
	_, err = Open(t.Context(), "", goOn)
	require.Equal(t, netio.ErrNoInterface, err)
	_, err = Open(t.Context(), "lower", goOn)
	require.Equal(t, netio.ErrDown, err)

	enough := errors.New("enough")
	in := wiretest.Must(Open(t.Context(), "lo", func(int64) error { return enough }))(t)
	defer in.Close()
	require.Equal(t, enough, in.Next(new(capture.Record)))
}

// A capture that waits wakes up at the interrupt.
func TestInterrupt(t *testing.T) {
	wiretest.Namespace(t, "link set lo up")
	ctx, interrupt := context.WithCancel(t.Context())
	waits := make(chan bool, 100)
	in := wiretest.Must(Open(ctx, "lo", func(int64) error { waits <- true; return nil }))(t)
	defer in.Close()
	go func() {
		<-waits
		interrupt()
	}()
	require.Equal(t, io.EOF, in.Next(new(capture.Record)))
}

// Any interface is all of them, and never away.
func TestAny(t *testing.T) {
	socket := wiretest.Cable(t)
	in := wiretest.Must(Open(t.Context(), "any", goOn))(t)
	defer in.Close()
	frame := wiretest.Hex(t, tagged)
	socket.Send(t, frame)
	for range 2 { // on its way out, and in
		var r capture.Record
		require.NoError(t, in.Next(&r))
		require.Equal(t, frame, r.Data)
	}
	require.True(t, in.in.IsUp())
}

// An RDMA device is no interface, but is known.
func TestRDMA(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "mlx5_0"), 0o700))
	require.True(t, isRDMA(folder, "mlx5_0"))
	for _, name := range []string{"", "mlx5_1", ".", "..", "../mlx5_0", "/"} {
		require.False(t, isRDMA(folder, name), name)
	}
}
