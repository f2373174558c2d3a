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

func TestRewrite(t *testing.T) {
	octets, err := os.ReadFile(wiretest.Path(t, "rxe-rping6.pcap"))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, rewrite(bytes.NewReader(octets), &out))
	changed, notification, _ := strings.Cut(out.String(), "\n")
	require.Equal(t, "ECN 3 PSN 1 ICRC as-sent <nil>", changed)

	b, err := hex.DecodeString(strings.TrimSpace(strings.TrimPrefix(notification, "PPFC ")))
	require.NoError(t, err)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(b))
	n, err := ppfc.FromPacket(&p)
	require.NoError(t, err)
	require.NoError(t, n.Validate())
	require.Equal(t, "stop 100µs port 7 of fd77::1", n.Extension.String())
	require.Error(t, rewrite(bytes.NewReader(octets[:24]), &out), "no packet")
}
