package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Five CNPs in 2.3 seconds, four of them in one second of the clock; then one with a
// wrong ICRC, and one without its last octet.
func TestRates(t *testing.T) {
	cnps := slices.DeleteFunc(wiretest.Capture(t, "messages.pcap"), func(c wiretest.Packet) bool {
		var p rocev2.Packet
		return p.DecodeEthernet(c.Data) != nil || p.BTH.Opcode != 0x81 || len(p.Ext) > 0 || !p.Src.Is4()
	})
	cnp := cnps[0].Data
	wrong := bytes.Clone(cnp)
	wrong[len(wrong)-1] ^= 1
	short := bytes.Clone(cnp[:len(cnp)-1])

	var in bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&in, capture.Ethernet, time.Microsecond))(t)
	for _, c := range []struct {
		at    time.Duration // in ms
		frame []byte
	}{{100, cnp}, {200, cnp}, {300, cnp}, {999, cnp}, {2400, cnp}, {2500, wrong}, {2600, short}} {
		at := time.Unix(1795254649, 0).Add(c.at * time.Millisecond)
		require.NoError(t, w.Write(&capture.Record{Data: c.frame, OrigLen: uint32(len(c.frame)), Time: at}))
	}
	var out strings.Builder
	require.NoError(t, printRates(&in, &out))
	require.Equal(t, "CNP to 192.0.2.1 qp 0x000021: 5, mean 1.7/s, peak 4/s\nbroken: 0 wrong ICRC: 2\n",
		out.String())
	require.Error(t, printRates(strings.NewReader("no capture"), &out))
}

// tshark finds as many of them, all about one flow.
func TestTshark(t *testing.T) {
	var frames [][]byte
	for _, c := range wiretest.Capture(t, "fastcnp.pcap") {
		frames = append(frames, c.Data)
	}
	want := 0
	for _, row := range wiretest.TsharkFields(t, []string{"infiniband.bth.opcode"}, frames...) {
		if slices.Contains(row.All("infiniband.bth.opcode"), "129") {
			want++
		}
	}
	f := wiretest.Must(os.Open(wiretest.Path(t, "fastcnp.pcap")))(t)
	defer f.Close()
	var out strings.Builder
	require.NoError(t, printRates(f, &out))
	require.Contains(t, out.String(),
		fmt.Sprintf("FastCNP about 2001:db8:1::a > 2001:db8:4::e qp 0x000012: %d, mean ", want))
	require.Contains(t, out.String(), "broken: 0 wrong ICRC: 0\n")
}

// The command in the documentation, with the capture that it names.
func TestTour(t *testing.T) {
	f := wiretest.Must(os.Open(wiretest.Path(t, "tour.pcap")))(t)
	defer f.Close()
	var out strings.Builder
	require.NoError(t, printRates(f, &out))
	require.Equal(t, `CNP to 2001:db8:1::1 qp 0x000011: 2, mean 6666.7/s, peak 2/s
FastCNP about 2001:db8:1::1 > 2001:db8:4::e qp 0x000012: 2, mean 40000.0/s, peak 2/s
broken: 1 wrong ICRC: 0
`, out.String())
}
