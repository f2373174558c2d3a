package listen

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// payload returns the UDP payload of an IPv6 frame of messages.pcap.
func payload(t *testing.T, frame int) []byte {
	return wiretest.Capture(t, "messages.pcap")[frame-1].Data[14+40+8:]
}

// Each message is printed on a line, until the requested number is reached or an interrupt arrives.
func TestReceive(t *testing.T) {
	fcn, proxy := payload(t, 13), payload(t, 15)
	for _, c := range []struct {
		name, args string
		sent       [][]byte
		lines      []string
	}{
		{"FCN", "-as fcn -n 2", [][]byte{fcn, proxy[:3]}, []string{": flow label 0xbeef5 congested, level 7", ": fcn"}},
		{"proxy messages", "-as proxy -n 2", [][]byte{proxy, fcn},
			[]string{"2001:db8:1::1", "proxymsg"}},
		{"until an interrupt", "-as fcn", [][]byte{fcn}, []string{": flow label 0xbeef5 congested, level 7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			r, w := io.Pipe()
			var stderr bytes.Buffer
			status := make(chan int, 1)
			go func() {
				status <- Run(ctx, append(strings.Fields(c.args), "[::1]:0"), nil, w, &stderr)
				w.Close()
			}()
			lines := bufio.NewScanner(r)
			require.True(t, lines.Scan(), c.name)
			kind, address, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "listening for "), " on ")
			require.True(t, ok, lines.Text())
			require.Equal(t, strings.Fields(c.args)[1], kind)
			from, err := net.Dial("udp", address)
			require.NoError(t, err)
			for i, octets := range c.sent {
				_, err = from.Write(octets)
				require.NoError(t, err)
				require.True(t, lines.Scan(), c.name)
				require.True(t, strings.HasPrefix(lines.Text(),
					from.LocalAddr().String()+" (to ::1, dscp 0, ecn 0, hop limit 64): "), lines.Text())
				require.Contains(t, lines.Text(), c.lines[i], c.name)
				if kind == "proxy" && i == 0 {
					require.True(t, strings.HasSuffix(lines.Text(), ": RC RDMA WRITE Only to queue pair 0x11"),
						lines.Text())
				}
			}
			if !strings.Contains(c.args, "-n") {
				interrupt()
			}
			require.False(t, lines.Scan(), c.name)
			require.Zero(t, <-status, stderr.String())
			interrupt()
			from.Close()
		})
	}
}

// Messages that arrive while the output is not read are counted.
func TestDropped(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, w := io.Pipe()
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- Run(ctx, []string{"-as", "fcn", "127.0.0.1:0"}, nil, w, &stderr)
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	require.True(t, lines.Scan())
	_, address, _ := strings.Cut(lines.Text(), " on ")
	from, err := net.Dial("udp", address)
	require.NoError(t, err)
	defer from.Close()
	const sent = 20_000
	for range sent {
		_, err = from.Write(make([]byte, 1400))
		require.NoError(t, err)
	}
	read := 0
	for lines.Scan() && !strings.Contains(lines.Text(), "level 7") {
		if read++; read == 100 { // more than one batch: there is room again
			_, err = from.Write(payload(t, 13))
			require.NoError(t, err)
		}
	}
	interrupt()
	require.False(t, lines.Scan())
	require.Zero(t, <-status)
	require.Equal(t, fmt.Sprintf("rocecn listen: %d datagrams dropped by the kernel\n", sent-read), stderr.String())
}
