package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestCount(t *testing.T) {
	whole := wiretest.Path(t, "messages.pcap")
	var out bytes.Buffer
	require.NoError(t, count(whole, &out))
	require.Equal(t, `CNP to 192.0.2.1 qp 0x000021: 1
CNP to 2001:db8:1::1 qp 0x000021: 1
Fast CNP about 2001:db8:1::1 > 2001:db8:4::e qp 0x000011: 4
broken: 7
`, out.String())

	out.Reset()
	require.NoError(t, count(wiretest.Path(t, "tour.pcap"), &out))
	require.Equal(t, `CNP to 2001:db8:1::1 qp 0x000011: 2
Fast CNP about 2001:db8:1::1 > 2001:db8:4::e qp 0x000012: 2
broken: 1
`, out.String())

	octets := wiretest.Must(os.ReadFile(whole))(t)
	for _, c := range []struct {
		name   string
		octets []byte
	}{{"cut", octets[:len(octets)-1]}, {"empty", nil}} {
		t.Run(c.name, func(t *testing.T) {
			file := wiretest.File(t, c.name, c.octets)
			require.Error(t, count(file, &out))
		})
	}
}
