package live

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/rocecn/rocecn/internal/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The main thread does not end, and with it would not a namespace: keep tests
// off it.
func init() { runtime.LockOSThread() }

func goOn(int64) error { return nil }

// cable is a namespace with a pair of devices, and a socket at one of them.
func cable(t *testing.T) (socket *wiretest.Socket) {
	t.Helper()
	wiretest.Namespace(t, `link add near type veth peer name far
		link set near up
		link set far up
		link set lo up`)
	near, err := net.InterfaceByName("near")
	require.NoError(t, err)
	return wiretest.NewSocket(t, near.Index)
}

const (
	untagged = `020000000001 020000000002 86dd 6000000000003b40 00000000000000000000000000000000 00000000000000000000000000000000`
	tagged   = `020000000001 020000000002 8100 6007 86dd 6000000000003b40 00000000000000000000000000000000 00000000000000000000000000000000`
	stacked  = `020000000001 020000000002 88a8 0009 8100 6007 86dd 6000000000003b40 00000000000000000000000000000000 00000000000000000000000000000000`
)

// What goes in at one end of the cable comes out at the other: octets, order,
// VLAN tags. The kernel hands the outer tag over beside the frame.
func TestFrames(t *testing.T) {
	socket := cable(t)
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
		if octets == stacked {
			frame[12], frame[13] = 0x81, 0x00 // the handle does not say which EtherType the outer tag had
		}
		require.Equal(t, frame, r.Data)
		require.EqualValues(t, len(frame), r.OrigLen)
		require.False(t, r.Cut())
		require.Equal(t, capture.Ethernet, r.Link)
		require.True(t, r.Time.After(before))
		require.Equal(t, time.UTC, r.Time.Location())
	}
	// What the kernel has when the interrupt comes is read.
	for range 100 {
		socket.Send(t, wiretest.Hex(t, tagged))
	}
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
	ctx, interrupt := context.WithCancel(t.Context())
	in, err := Open(ctx, "lo", goOn)
	require.NoError(t, err)
	defer in.Close()
	c, err := net.Dial("udp4", "127.0.0.1:9")
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("once"))
	require.NoError(t, err)
	interrupt()
	var r capture.Record
	times := 0
	for err = in.Next(&r); err == nil; err = in.Next(&r) {
		if len(r.Data) == 14+20+8+len("once") { // and no ICMP message about it
			times++
			require.True(t, bytes.HasSuffix(r.Data, []byte("once")))
		}
	}
	require.Equal(t, io.EOF, err)
	require.Equal(t, 1, times)
}

// More than the socket has room for, before anything is read: the kernel drops
// some and says how many.
func TestDropped(t *testing.T) {
	socket := cable(t)
	ctx, interrupt := context.WithCancel(t.Context())
	in, err := Open(ctx, "far", goOn)
	require.NoError(t, err)
	defer in.Close()
	frame := append(wiretest.Hex(t, untagged), make([]byte, 1400)...)
	const sent = 20_000
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

// An interface that goes down or away ends the capture with an error.
func TestWentAway(t *testing.T) {
	for _, command := range []string{"link set far down", "link del far"} {
		t.Run(command, func(t *testing.T) {
			socket := cable(t)
			in, err := Open(t.Context(), "far", goOn)
			require.NoError(t, err)
			defer in.Close()
			socket.Send(t, wiretest.Hex(t, untagged))
			var r capture.Record
			require.NoError(t, in.Next(&r))
			out, err := exec.Command("sh", "-c", "ip "+command).CombinedOutput()
			require.NoError(t, err, string(out))
			require.ErrorIs(t, in.Next(&r), ErrWentAway)
		})
	}
}

func TestOpen(t *testing.T) {
	wiretest.Namespace(t, `link set lo up
		link add down type veth peer name downpeer`)
	_, err := Open(t.Context(), "nowhere", goOn)
	require.Equal(t, ErrNoInterface, err)
	_, err = Open(t.Context(), "", goOn)
	require.Equal(t, ErrNoInterface, err)

	enough := errors.New("enough")
	in, err := Open(t.Context(), "lo", func(int64) error { return enough })
	require.NoError(t, err)
	defer in.Close()
	require.Equal(t, enough, in.Next(new(capture.Record)))
}

func TestTag(t *testing.T) {
	frame := wiretest.Hex(t, untagged)
	got, n := appendFrame(nil, frame, &gopacket.CaptureInfo{Length: len(frame), AncillaryData: []any{0x6007}})
	require.Equal(t, wiretest.Hex(t, tagged), got)
	require.Equal(t, len(frame)+4, n)
	got, n = appendFrame(nil, frame, &gopacket.CaptureInfo{Length: 2000})
	require.Equal(t, frame, got)
	require.Equal(t, 2000, n)
	got, _ = appendFrame(nil, frame[:11], &gopacket.CaptureInfo{AncillaryData: []any{0x6007}})
	require.Equal(t, frame[:11], got)
}
