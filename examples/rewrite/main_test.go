package main

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// The command in the documentation, with the capture that it names: the PPFC is from the switch to the sender.
func TestTour(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, rewrite(wiretest.Path(t, "tour.pcap"), &out))
	require.Equal(t, "ECN ce PSN 43 ICRC as-sent <nil>\nPPFC "+
		"6c00000000301140"+"20010db8ffff00000000000000000005"+"20010db8000100000000000000000001"+
		"f01312b700300000"+"8100ffff6000001200000000"+"20010db800040000000000000000000e"+"0000000700000064"+
		"0aabda06\n", out.String())
}

func TestRewrite(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, rewrite(wiretest.Path(t, "rxe-rping6.pcap"), &out))
	changed, notification, _ := strings.Cut(out.String(), "\n")
	require.Equal(t, "ECN ce PSN 1 ICRC as-sent <nil>", changed)

	b := wiretest.Must(hex.DecodeString(strings.TrimSpace(strings.TrimPrefix(notification, "PPFC "))))(t)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(b))
	n := wiretest.Must(ppfc.FromPacket(&p))(t)
	require.NoError(t, n.Validate())
	require.Equal(t, "stop 100µs port 7 of fd77::1", n.Extension.String())

	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-rping6.pcap")))(t)
	empty := wiretest.File(t, "empty.pcap", octets[:24])
	require.Error(t, rewrite(empty, &out), "no packet")
}
