package send

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/listen"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// listener runs rocecn listen on a free port, and returns its address and its output after the first line.
func listener(t *testing.T, host, as string) (address string, lines *bufio.Scanner) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	r, w := io.Pipe()
	done := make(chan int)
	var stderr bytes.Buffer
	go func() {
		code := listen.Run(ctx, []string{"-as", as, "-n", "2", host + ":0"}, nil, w, &stderr)
		w.Close()
		done <- code
	}()
	t.Cleanup(func() {
		stop()
		r.Close()
		require.Zero(t, <-done, stderr.String())
	})
	lines = bufio.NewScanner(r)
	require.True(t, lines.Scan(), stderr.String())
	words := strings.Fields(lines.Text())
	require.Equal(t, []string{"listening", "for", as, "on"}, words[:4])
	return words[4], lines
}

func send(t *testing.T, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Zero(t, Run(t.Context(), args, nil, &stdout, &stderr), stderr.String())
}

func TestFCN(t *testing.T) {
	for _, c := range []struct{ name, how string }{
		{"127.0.0.1", "(to 127.0.0.1, dscp 46, ecn 0, hop limit 7): "},
		{"[::1]", "(to ::1, dscp 46, ecn 0, hop limit 7): "},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, lines := listener(t, c.name, "fcn")
			send(t, "-fcn", address, "-label", "0xbeef5", "-level", "7", "-dscp", "46", "-hops", "7")
			require.True(t, lines.Scan())
			require.Contains(t, lines.Text(), c.how+"flow label 0xbeef5 congested, level 7")
			send(t, "-fcn", address, "-label", "1")
			require.True(t, lines.Scan())
			require.Contains(t, lines.Text(), "flow label 0x00001 congested, level 0")
			require.False(t, lines.Scan())
		})
	}
}

// A dual-stack socket reports the same for IPv4 datagrams as for IPv6 ones.
func TestBothFamilies(t *testing.T) {
	address, lines := listener(t, "", "fcn")
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	send(t, "-fcn", ":"+port, "-label", "1")
	require.True(t, lines.Scan())
	send(t, "-fcn", "127.0.0.1:"+port, "-label", "2")
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), "(to 127.0.0.1, dscp 48, ecn 0, hop limit 64): flow label 0x00002")
}

func TestProxy(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		t.Run(host, func(t *testing.T) {
			address, lines := listener(t, host, "proxy")
			send(t, "-proxy", address, "-capture", wiretest.Path(t, "rxe-verbs6.pcap"), "-frame", "50", "-level", "3")
			require.True(t, lines.Scan())
			room := "1088 octets" // all of the packet
			if host == "127.0.0.1" {
				room = "508 octets" // of 576, less IPv4, UDP and the fixed part
			}
			require.Contains(t, lines.Text(),
				"[fd77::2]:58177 to [fd77::1]:4791, protocol 17, level 3, reserved 0x0, "+room)
			require.Contains(t, lines.Text(), "RC SEND First to queue pair 0x11")
			send(t, "-fcn", address, "-label", "1")
			require.True(t, lines.Scan())
			require.Contains(t, lines.Text(), "proxymsg: message: truncated")
		})
	}
}

func TestUsage(t *testing.T) {
	for _, c := range wiretest.Cases(t, "usage.txt", "(nothing)", "", "$capture", wiretest.Path(t, "rxe-verbs6.pcap")) {
		t.Run(c[0], func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := Run(t.Context(), strings.Fields(c[0]), nil, &stdout, &stderr)
			require.Equal(t, c[1], fmt.Sprint(status))
			require.Contains(t, stderr.String(), c[2])
		})
	}
}

// The sent message is printed with its source and destination, for the lowest and the highest hop limit.
func TestPrinted(t *testing.T) {
	in := wiretest.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer in.Close()
	for _, hops := range []string{"1", "255"} {
		var stdout, stderr bytes.Buffer
		args := []string{"-fcn", in.LocalAddr().String(), "-label", "5", "-hops", hops}
		require.Zero(t, Run(t.Context(), args, nil, &stdout, &stderr), stderr.String())
		buf := make([]byte, 100)
		n, from, err := in.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d octets from %v to %v\n", n, from, in.LocalAddr()), stdout.String())
	}
}

// The congested packet may follow any known link-layer header, and no other one.
func TestLinkTypes(t *testing.T) {
	frame := wiretest.Capture(t, "rxe-verbs6.pcap")[49].Data
	file := func(link uint32, before string, ip []byte) string {
		data := append(wiretest.Hex(t, before), ip...)
		var b bytes.Buffer
		w := wiretest.Must(capture.NewWriter(&b, link, time.Microsecond))(t)
		require.NoError(t, w.Write(&capture.Record{Data: data, OrigLen: uint32(len(data))}))
		return wiretest.File(t, "capture", b.Bytes())
	}
	address, lines := listener(t, "[::1]", "proxy") // for two datagrams
	for _, c := range []struct {
		link   uint32
		before string
	}{
		{113, "0000 0001 0006 020000000002 0000 86dd"},
		{capture.Raw, ""},
	} {
		send(t, "-proxy", address, "-capture", file(c.link, c.before, frame[14:]))
		require.True(t, lines.Scan())
		require.Contains(t, lines.Text(), "[fd77::2]:58177 to [fd77::1]:4791")
	}
	for _, c := range []struct {
		path, text string
	}{
		{file(147, "", frame), "frame 1: link type 147 is not supported"},
		{file(113, "", frame), "frame 1: rocev2: EtherType"}, // the result of decoding it as Ethernet
	} {
		t.Run(c.path, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, 1, Run(t.Context(), []string{"-proxy", address, "-capture", c.path}, nil, &stdout,
				&stderr))
			require.Contains(t, stderr.String(), c.text)
		})
	}
}
