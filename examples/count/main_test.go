package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	octets, err := os.ReadFile(wiretest.Path(t, "messages.pcap"))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, count(bytes.NewReader(octets), &out))
	require.Equal(t, `CNP 192.0.2.14 > 192.0.2.1 qp 0x000021 1
CNP 2001:db8:4::e > 2001:db8:1::1 qp 0x000021 1
Fast CNP 2001:db8:1::1 > 2001:db8:4::e qp 0x000011 4
broken 7
`, out.String())
	require.Error(t, count(bytes.NewReader(octets[:len(octets)-1]), &out), "a capture that is cut")
	require.Error(t, count(bytes.NewReader(nil), &out))
}
