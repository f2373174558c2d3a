package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

const golden = "testdata/tour.txt"

var update = flag.Bool("update", false, "write "+golden)

// Both ways see the same messages, of every kind.
func TestRead(t *testing.T) {
	registerPorts()
	f := wiretest.Must(os.Open(wiretest.Path(t, "messages.pcap")))(t)
	defer f.Close()
	var out strings.Builder
	require.NoError(t, printFrames(&out, f))

	frames := strings.Split(out.String(), "frame ")[1:]
	for i := 0; i < len(frames); i += 2 {
		_, byNewPacket, _ := strings.Cut(frames[i], "\n")
		_, byStack, _ := strings.Cut(frames[i+1], "\n")
		if !strings.Contains(byNewPacket, "ProxyNotification") { // NewPacket goes on with the invoking packet
			require.Equal(t, byNewPacket, byStack)
		}
	}
	for _, line := range []string{
		"   CNP: slow down queue pair 0x21\n",
		"   Fast CNP of the network: slow down flow 2001:db8:1::1 > 2001:db8:4::e qp 0x000011\n      node " +
			"0xd4, queue 64\n",
		"   Fast CNP of the receiver: ",
		"   PPFC: stop 100µs port 7 of 2001:db8:ffff::5",
		"   FCN: flow label ",
		"   ProxyNotification: ",
	} {
		require.Contains(t, out.String(), line)
	}
}

// The command in the documentation, with the capture that it names.
func TestOutput(t *testing.T) {
	registerPorts()
	f := wiretest.Must(os.Open(wiretest.Path(t, "tour.pcap")))(t)
	defer f.Close()
	var out strings.Builder
	require.NoError(t, printFrames(&out, f))
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	require.Equal(t, string(wiretest.Must(os.ReadFile(golden))(t)), out.String())
}

func TestReadNoCapture(t *testing.T) {
	require.Error(t, printFrames(&strings.Builder{}, strings.NewReader("no capture")))
}
